//! Everything in `vectors/vip`: read, written again to the letter, and checked against the tables of the code.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::Value;
use switchboard_testkit::vectors::{Vector, load};
use switchboard_vip::action::{check, digest};
use switchboard_vip::audio::{AudioFrame, BadFrame, Direction, Format};
use switchboard_vip::codec::{decode_client, decode_server, encode_client, encode_server};
use switchboard_vip::context::Context;
use switchboard_vip::error::Code;
use switchboard_vip::matrix::{Machine, State, Trigger, transition};
use switchboard_vip::message::{ClientEvent, Head, ServerEvent, TurnDetection};

fn of_kind(kind: &str) -> Vec<Vector> {
    let vectors: Vec<Vector> = load("vip").into_iter().filter(|vector| vector.kind == kind).collect();
    assert!(!vectors.is_empty(), "no vectors of kind {kind}");
    vectors
}

fn named(id: &str) -> Vector {
    load("vip").into_iter().find(|vector| vector.id == id).unwrap()
}

/// The events of a vector: whether each goes to the server, and its text.
fn events(vector: &Vector) -> Vec<(bool, String)> {
    let events = vector.all["events"].as_array().unwrap().iter();
    events
        .map(|event| (event["direction"] == "to_server", event["text"].as_str().unwrap().to_owned()))
        .collect()
}

fn client(text: &str) -> (Head, ClientEvent) {
    decode_client(text).unwrap()
}

fn update(text: &str) -> Value {
    let (_, event) = client(text);
    let ClientEvent::StateUpdate(update) = event else { panic!("{event:?}") };
    update.0
}

fn table(name: &str) -> Value {
    let path = format!("{}/../../vectors/vip/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_vector_is_known() {
    let kinds: Vec<(String, String)> =
        load("vip").into_iter().map(|vector| (vector.id, vector.kind)).collect();
    assert_eq!(kinds.len(), 10);
    for (id, kind) in kinds {
        assert!(
            matches!(kind.as_str(), "app_token" | "create" | "created" | "events" | "audio"),
            "{id}: {kind}"
        );
    }
}

#[test]
fn the_claims_of_the_token_are_what_the_vector_says() {
    let vector = named("V01");
    let token = vector.all["token"].as_str().unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let part = |index: usize| -> Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[index]).unwrap()).unwrap()
    };
    assert_eq!((part(0), part(1)), (vector.all["header"].clone(), vector.all["claims"].clone()));
    assert_eq!(part(1)["exp"].as_u64().zip(part(1)["iat"].as_u64()), Some((1_767_225_840, 1_767_225_600)));
}

#[test]
fn the_settings_of_a_created_session_follow_from_the_request() {
    let text = |id: &str| -> Value { serde_json::from_str(named(id).all["text"].as_str().unwrap()).unwrap() };
    let (asked, created) = (text("V02"), text("V03"));
    let detection: TurnDetection = serde_json::from_value(asked["turn_detection"].clone()).unwrap();
    assert_eq!(serde_json::to_string(&detection).unwrap(), created["turn_detection"].to_string());
    assert!(detection.is_valid());
    for (member, chosen) in [("input_formats", "input"), ("output_formats", "output")] {
        let mut offered = asked["audio"][member].as_array().unwrap().iter();
        let chosen = Format::from_name(created["audio"][chosen].as_str().unwrap()).unwrap();
        // The server of the vector has everything but Opus.
        let first = offered
            .find_map(|name| Format::from_name(name.as_str().unwrap()).filter(|it| *it != Format::Opus));
        assert_eq!(first, Some(chosen));
    }
}

#[test]
fn events_are_read_and_written_again_to_the_letter() {
    for vector in of_kind("events") {
        for (to_server, text) in events(&vector) {
            let again = if to_server {
                let (head, event) = client(&text);
                encode_client(&head, &event)
            } else {
                let (head, event) = decode_server(&text).unwrap();
                encode_server(&head, &event)
            };
            assert_eq!(again, text, "{}", vector.id);
        }
    }
}

#[test]
fn events_cut_anywhere_are_refused() {
    for vector in of_kind("events") {
        for (to_server, text) in events(&vector) {
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                let fault = if to_server {
                    decode_client(&text[..end]).unwrap_err().fault
                } else {
                    decode_server(&text[..end]).unwrap_err().fault
                };
                assert_eq!(fault.code, Code::ProtoMalformed);
            }
        }
    }
}

#[test]
fn the_contexts_build_on_each_other() {
    let (first, second) = (events(&named("V05")), events(&named("V06")));
    let whole = Context::apply(None, &update(&first[0].1)).unwrap();
    assert_eq!((whole.context.version, whole.context.actions.len()), (1, 3));
    assert_eq!((whole.ignored.len(), whole.warnings.len()), (0, 0));
    let changed = Context::apply(Some(&whole.context), &update(&second[0].1)).unwrap().context;
    assert_eq!((changed.version, changed.actions.len()), (2, 4));
    assert_eq!(changed.visibility.iter().collect::<Vec<_>>(), ["dialog.close"]);
    assert_eq!(changed.route, whole.context.route);
}

#[test]
fn vip_055_what_the_user_confirms_is_what_is_called() {
    let vector = named("V07");
    assert_eq!(digest(&vector.all["parameters"]), vector.all["digest"].as_str().unwrap());
    let update = update(&events(&named("V05"))[0].1);
    let context = Context::apply(None, &update).unwrap().context;
    let events = events(&vector);
    let invoke = |text: &str| {
        let (_, event) = decode_server(text).unwrap();
        let ServerEvent::ActionInvoke(invoke) = event else { panic!("{event:?}") };
        *invoke
    };
    let (asked, called) = (invoke(&events[0].1), invoke(&events[2].1));
    let prepared = check(&context, "order.cancel", &serde_json::json!({"order_id": "A-17"})).unwrap();
    assert_eq!(prepared.parameters.to_string(), called.parameters.to_string());
    assert_eq!(asked.parameters["reference_parameters"], called.parameters);
    assert_eq!((prepared.kind, prepared.sensitive), (called.kind, true));
}

#[test]
fn vip_067_frames_of_audio_are_read_and_written_again() {
    for frame in named("V10").all["frames"].as_array().unwrap() {
        let hex = frame["hex"].as_str().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let bytes = Bytes::from(bytes);
        let read = AudioFrame::decode(bytes.clone()).unwrap();
        let flag = |name: &str| frame["flags"].as_array().unwrap().iter().any(|flag| flag == name);
        let direction = if frame["direction"] == "input" { Direction::Input } else { Direction::Output };
        assert_eq!(read.direction, direction);
        assert_eq!((read.end, read.monitor, read.gap), (flag("end"), flag("monitor"), flag("gap")));
        assert_eq!(frame["stream"], read.stream);
        assert_eq!(frame["seq"], read.seq);
        assert_eq!(frame["offset_ms"], read.offset_ms);
        let samples: Vec<i16> =
            read.payload.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(frame["samples"], serde_json::json!(samples));
        assert_eq!(read.encode(), bytes);

        for length in 0..bytes.len() {
            let cut = AudioFrame::decode(bytes.slice(..length));
            match length {
                0..12 => assert_eq!(cut, Err(BadFrame::Short)),
                12 => assert_eq!(cut, Err(BadFrame::Empty)),
                _ => assert_eq!(cut.unwrap().fits(Format::Pcm16k), length % 2 == 0),
            }
        }
    }
}

#[test]
fn vip_023_the_matrix_is_that_of_the_reference_and_nothing_else() {
    let table = table("matrix");
    let names = |key: &str| -> Vec<String> { serde_json::from_value(table[key].clone()).unwrap() };
    assert_eq!(names("states"), State::ALL.iter().map(|state| state.name()).collect::<Vec<_>>());
    assert_eq!(names("triggers"), Trigger::ALL.iter().map(|trigger| trigger.name()).collect::<Vec<_>>());
    for from in State::ALL.iter().copied() {
        for trigger in Trigger::ALL.iter().copied() {
            let expected = table["next"][from.name()][trigger.name()].as_str();
            assert_eq!(transition(from, trigger).map(State::name), expected, "{trigger} in {from}");
            // A machine follows it, or stays where it is.
            let mut machine = Machine::new();
            machine.adopt(from, 7);
            match (machine.fire(trigger), expected) {
                (Ok(change), Some(expected)) => {
                    assert_eq!((change.state.name(), change.previous), (expected, from));
                    let seq = if expected == "connecting" { 0 } else { 8 };
                    assert_eq!((change.seq, machine.seq()), (seq, seq));
                }
                (Err(refused), None) => {
                    assert_eq!((refused.state, refused.seq, machine.state()), (from, 7, from));
                }
                (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
            }
        }
    }
}

#[test]
fn the_table_of_events_goes_nowhere_but_where_the_matrix_leads() {
    let table = table("states");
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 19);
    let mut went = 0;
    for row in rows {
        let event = row["events"][0].as_str().unwrap();
        let event = if event == "action.invoke" { "response.tool" } else { event };
        for state in State::ALL.iter().copied() {
            let cell = &row["cells"][state.name()];
            let next = Trigger::from_name(event).and_then(|trigger| transition(state, trigger));
            if let Some(to) = cell["go"].as_str() {
                assert_eq!(next.map(State::name), Some(to), "{event} in {state}");
                went += 1;
            } else if event != "action.result" {
                assert_eq!(next, None, "{event} in {state}");
            }
        }
    }
    // Of the 21 transitions, T3 chooses between two by the result, and one has two names.
    assert_eq!(went, 19);
}
