//! Requests from INVOKE to their one terminal frame (§6 to §9).

use std::collections::BTreeMap;

use switchboard_asp::message::Feature;
use switchboard_asp::{AspLimits, Frame, Opcode};
use switchboard_core::model::FailureKind;
use switchboard_testkit::{Order, Script, Settings, Step, opening};

use crate::support::Talk;

fn generous() -> AspLimits {
    AspLimits { invokes_burst: 1000, frames_burst: 10_000, errors_burst: 1000, ..AspLimits::default() }
}

fn numbers() -> Script {
    let digits = |every| {
        let texts = (0..30).flat_map(move |n| [Step::Text(format!("{n} ")), Step::Wait(every)]);
        texts.collect::<Vec<_>>()
    };
    Script::new().on("fast", digits(3)).on("slow", digits(7)).on("still", digits(0))
}

/// The text of each request, and the indexes of its records, as they arrived.
fn streams(talk: &Talk, frames: &[Frame]) -> BTreeMap<u16, (String, Vec<u64>)> {
    let mut streams: BTreeMap<u16, (String, Vec<u64>)> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.opcode == Opcode::Stream && frame.id != 0) {
        let (text, indexes) = streams.entry(frame.id).or_default();
        if talk.features.has(Feature::Events) {
            let record = talk.json(frame);
            text.push_str(record["d"].as_str().unwrap_or_default());
            indexes.extend(record["n"].as_u64());
        } else {
            text.push_str(std::str::from_utf8(&frame.payload).unwrap());
        }
    }
    streams
}

#[test]
fn asp_028_the_order_within_an_id_is_kept_whatever_happens_around_it() {
    let expected: String = (0..30).map(|n| format!("{n} ")).collect();
    for seed in 0..20 {
        for features in [None, Some("flags events"), Some("standard")] {
            let settings = Settings { order: Order::Seeded(seed), ..Settings::default() };
            let mut talk = Talk::with(numbers(), generous(), settings);
            if let Some(features) = features {
                talk.hello(features);
            }
            for id in 1..=9 {
                talk.invoke(id, ["fast", "slow", "still"][usize::from(id) % 3]);
            }
            talk.world.advance(50);
            talk.world.stall(talk.peer);
            talk.world.advance(50);
            talk.world.unstall(talk.peer);
            talk.world.advance(1000);
            let frames = talk.frames();
            let streams = streams(&talk, &frames);
            assert_eq!(streams.len(), 9);
            for (id, (text, _)) in streams {
                assert_eq!(text, expected, "seed {seed}, {features:?}, #{id}");
            }
        }
    }
}

#[test]
fn asp_081_indexes_have_no_holes_whatever_happens_around_them() {
    for seed in 0..20 {
        let settings = Settings { order: Order::Seeded(seed), ..Settings::default() };
        let mut talk = Talk::with(numbers(), generous(), settings);
        talk.hello("standard");
        for id in 1..=6 {
            talk.invoke(id, ["fast", "slow", "still"][usize::from(id) % 3]);
        }
        talk.world.advance(1000);
        let frames = talk.frames();
        for (id, (_, indexes)) in streams(&talk, &frames) {
            assert_eq!(indexes, (0..32).collect::<Vec<_>>(), "seed {seed}, #{id}");
        }
        // Without resume nobody counts.
        talk.reconnect(opening());
        talk.hello("flags events");
        talk.invoke(1, "still");
        let frames = talk.frames();
        assert_eq!(streams(&talk, &frames)[&1].1, Vec::<u64>::new());
    }
}

/// A way in which a request can end: what is asked, and what is done to bring it about.
struct Ending(&'static str, fn(&mut Talk));

const ENDINGS: &[Ending] = &[
    Ending("complete", |_| ()),
    Ending("empty", |_| ()),
    Ending("length", |_| ()),
    Ending("filtered", |_| ()),
    Ending("failed", |_| ()),
    Ending("panic", |_| ()),
    Ending("lost", |_| ()),
    Ending("hang", |talk| talk.say(Opcode::Interrupt, 1, "")),
    Ending("hang", |talk| talk.say(Opcode::Interrupt, 0, "")),
    Ending("hang", |talk| {
        talk.say(Opcode::Interrupt, 1, "");
        talk.say(Opcode::Interrupt, 1, "");
        talk.say(Opcode::Interrupt, 0, "");
        talk.say(Opcode::Error, 1, "no");
    }),
    Ending("hang", |talk| talk.say(Opcode::Error, 1, "no")),
    Ending("deaf", |talk| talk.say(Opcode::Interrupt, 1, "")),
    Ending("hang", |talk| talk.world.advance(300_000)),
    Ending("deaf", |talk| {
        talk.world.advance(299_500);
        talk.say(Opcode::Interrupt, 1, "");
    }),
    Ending("late", |talk| {
        talk.say(Opcode::Interrupt, 1, "");
        talk.world.advance(10);
    }),
];

fn ending_script() -> Script {
    use switchboard_core::model::Finish;
    let text = || Step::Text("x".into());
    Script::new()
        .on("complete", vec![text()])
        .on("empty", vec![Step::End(Finish::Empty)])
        .on("length", vec![text(), Step::End(Finish::Length)])
        .on("filtered", vec![text(), Step::End(Finish::Filtered)])
        .on("failed", vec![text(), Step::Fail { kind: FailureKind::Tool, message: "m".into() }])
        .on("panic", vec![text(), Step::Panic])
        .on("lost", vec![text(), Step::Lose])
        .on("hang", vec![text(), Step::Hang])
        .on("deaf", vec![text(), Step::Deaf, Step::Repeat { times: 4000, every: 100, steps: vec![text()] }])
        .on("late", vec![text(), Step::Deaf, Step::Wait(900), text(), Step::End(Finish::Complete)])
}

#[test]
fn asp_029_and_040_exactly_one_terminal_frame_and_nothing_after_it() {
    let heartbeat = AspLimits { heartbeat_s: 100_000, dead_s: 200_000, ..generous() };
    for features in
        [None, Some("flags"), Some("flags events"), Some("standard"), Some("flags events complete06")]
    {
        for Ending(input, act) in ENDINGS {
            let mut talk = Talk::with(ending_script(), heartbeat.clone(), Settings::default());
            if let Some(features) = features {
                talk.hello(features);
            }
            talk.invoke(1, input);
            act(&mut talk);
            talk.world.advance(400_000);
            let frames = talk.frames();
            let own: Vec<&Frame> = frames.iter().filter(|frame| frame.id == 1).collect();
            let ends = own.iter().filter(|frame| talk.is_terminal(frame)).count();
            assert_eq!(ends, 1, "{features:?} {input}: {own:?}");
            assert!(talk.is_terminal(own.last().unwrap()), "{features:?} {input}: something follows the end");
        }
    }
}

#[test]
fn asp_034_success_is_never_told_with_0x06_unless_that_was_asked_for() {
    for (features, wanted) in [
        (None, false),
        (Some("flags"), false),
        (Some("flags events"), false),
        (Some("standard"), false),
        (Some("flags events complete06"), true),
        (Some("complete06"), true),
    ] {
        for input in ["complete", "empty", "length", "filtered"] {
            let mut talk = Talk::new(ending_script());
            if let Some(features) = features {
                talk.hello(features);
            }
            talk.invoke(1, input);
            let frames = talk.frames();
            let last = frames.last().unwrap();
            assert_eq!(last.opcode == Opcode::Error, wanted, "{features:?} {input}");
            if wanted {
                assert_eq!(talk.json(last)["code"], 0);
                assert_eq!(talk.json(last)["finish"], input);
            }
        }
    }
}

#[test]
fn asp_035_no_code_point_is_split() {
    let texts =
        ["€".repeat(40_000), "🦀a".repeat(30_000), "ä".to_owned(), format!("x{}", "漢".repeat(50_000))];
    for text in texts {
        let mut talk = Talk::new(Script::new().on("*", vec![Step::Text(text.clone())]));
        for features in [None, Some("flags"), Some("flags events")] {
            talk.reconnect(opening());
            if let Some(features) = features {
                talk.hello(features);
            }
            talk.invoke(1, "go");
            let frames = talk.frames();
            // `streams` reads every single payload as UTF-8.
            assert!(streams(&talk, &frames)[&1].0 == text, "{features:?}");
        }
    }
}

#[test]
fn asp_036_output_stops_at_once_and_the_end_comes_within_a_second() {
    for (input, features) in
        [("hang", None), ("deaf", None), ("deaf", Some("flags events")), ("late", Some("standard"))]
    {
        for seed in 0..5 {
            let settings = Settings { order: Order::Seeded(seed), ..Settings::default() };
            let mut talk = Talk::with(ending_script(), generous(), settings);
            if let Some(features) = features {
                talk.hello(features);
            }
            talk.invoke(1, input);
            talk.world.advance(350);
            talk.seen();
            talk.say(Opcode::Interrupt, 1, "");
            talk.world.advance(100);
            talk.seen();
            let mut ended = None;
            for elapsed in (150..=1000).step_by(50) {
                talk.world.advance(50);
                for frame in talk.frames() {
                    assert!(talk.is_terminal(&frame), "output after 100 ms: {frame:?}");
                    assert_eq!(ended.replace(elapsed), None);
                }
            }
            let early = input == "hang";
            assert!(early || ended.is_some(), "{input}: no end within a second");
        }
    }
}

#[test]
fn asp_027_requests_run_at_the_same_time_up_to_the_limit() {
    let script = Script::new().on("*", vec![Step::Wait(1000), Step::Text("x".into())]);
    for (features, most) in [(None, 16), (Some("flags events"), 64)] {
        let mut talk = Talk::with(script.clone(), generous(), Settings::default());
        if let Some(features) = features {
            talk.hello(features);
        }
        for id in 1..=most + 3 {
            talk.invoke(id, "go");
        }
        let frames = talk.frames();
        assert_eq!(talk.codes(&frames), [2201; 3], "{features:?}");
        let refused: Vec<u16> =
            frames.iter().filter(|frame| frame.opcode == Opcode::Error).map(|frame| frame.id).collect();
        assert_eq!(refused, [most + 1, most + 2, most + 3]);
        // All of them take one second, so all of them end after one second.
        talk.world.advance(1000);
        let frames = talk.frames();
        assert_eq!(frames.iter().filter(|frame| talk.is_terminal(frame)).count(), usize::from(most));
        assert_eq!(talk.codes(&frames), [0; 0]);
        talk.invoke(most + 1, "go");
        assert!(talk.new_codes().is_empty());
    }
}

#[test]
fn asp_080_a_request_with_much_to_say_does_not_starve_the_others() {
    let big = Script::new()
        .on("big", vec![Step::Fill { bytes: 600_000, piece: 1000 }])
        .on("small", vec![Step::Wait(10), Step::Fill { bytes: 60_000, piece: 1000 }]);
    let mut talk = Talk::with(big, generous(), Settings::default());
    talk.hello("flags events");
    talk.world.stall(talk.peer);
    talk.invoke(1, "big");
    talk.invoke(2, "small");
    talk.world.advance(1000);
    talk.world.unstall(talk.peer);
    let frames = talk.frames();
    let after = |id: u16| frames.iter().position(|frame| frame.id == id && talk.is_terminal(frame)).unwrap();
    assert!(after(2) < after(1), "the small one ends first");
    let waited = frames.iter().position(|frame| frame.id == 2).unwrap();
    let small: Vec<usize> =
        frames.iter().enumerate().filter(|(_, frame)| frame.id == 2).map(|(index, _)| index).collect();
    let longest = small.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    // A turn is 16 KiB, about 16 of these records.
    assert!(longest <= 20, "the small one waits for {longest} frames of the other");
    assert!(waited < frames.len() / 2);
}

#[test]
fn asp_042_the_revision_of_tools_always_grows_also_across_resumes() {
    let spec = |name: &str| switchboard_testkit::ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: None,
    };
    let steps = (0..10)
        .flat_map(|n| {
            [Step::AddTools(vec![spec(&format!("t{n}"))]), Step::RemoveTools(vec![format!("t{n}")])]
        })
        .chain([Step::Hang]);
    let mut talk = Talk::with(
        Script::new().on("find", steps.collect()).with_tool(spec("base").tool()),
        generous(),
        Settings::default(),
    );
    let mut accept = talk.hello("standard");
    let mut revisions = Vec::new();
    let collect = |talk: &mut Talk, revisions: &mut Vec<u64>| {
        for frame in talk.frames() {
            if frame.opcode == Opcode::ToolDef {
                revisions.push(talk.json(&frame)["rev"].as_u64().unwrap());
            }
        }
    };
    revisions.push(1);
    for round in 0..3 {
        talk.invoke(1 + round, "find");
        talk.say(Opcode::Invoke, 50 + round, r#"{"kind":"list"}"#);
        collect(&mut talk, &mut revisions);
        talk.world.cut(talk.peer);
        talk.reconnect(opening());
        let names: Vec<&str> = switchboard_asp::Features::STANDARD.iter().map(Feature::name).collect();
        let resume = serde_json::json!({
            "features": names, "enc": ["json"],
            "resume": {"cid": accept["cid"], "token": accept["resume"]["token"], "next": {}},
        });
        talk.say(Opcode::Hello, 0, resume.to_string());
        talk.features = switchboard_asp::Features::STANDARD;
        let frames = talk.frames();
        accept = serde_json::from_slice(&frames[0].payload).unwrap();
        assert_eq!(accept["resumed"], true);
        for frame in frames.iter().filter(|frame| frame.opcode == Opcode::ToolDef) {
            assert_eq!(talk.json(frame)["op"], "set");
            revisions.push(talk.json(frame)["rev"].as_u64().unwrap());
        }
    }
    assert!(revisions.len() > 60, "{revisions:?}");
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
}

#[test]
fn asp_029_every_request_ends_once_even_when_the_log_fails_and_answers_come_in_any_order() {
    for seed in 0..150_u64 {
        let settings = Settings { order: Order::Seeded(seed), commit_ms: seed % 4, ..Settings::default() };
        let limits = AspLimits { heartbeat_s: 100_000, dead_s: 200_000, ..generous() };
        let mut talk = Talk::with(ending_script(), limits, settings);
        let features = [None, Some("flags events"), Some("standard")][(seed % 3) as usize];
        if let Some(features) = features {
            let names: Vec<&str> = match features {
                "standard" => switchboard_asp::Features::STANDARD.iter().map(Feature::name).collect(),
                other => other.split(' ').collect(),
            };
            let hello = serde_json::json!({"features": names, "enc": ["json"]});
            talk.say(Opcode::Hello, 0, hello.to_string());
            talk.world.advance(50);
            talk.features = switchboard_asp::Features::agree(names, switchboard_asp::Features::ALL);
            talk.frames();
        }
        let mut seen = Vec::new();
        for id in 1..=12_u16 {
            let input = ["complete", "failed", "hang", "late"][usize::from(id) % 4];
            let session = ["s", "t", "u"][usize::from(id) % 3];
            if (seed + u64::from(id)) % 3 == 0 {
                talk.world.fail_appends(1 + u32::from(id) % 2);
            }
            let invoke = serde_json::json!({"kind": "chat", "input": input, "session": session, "serial": id % 2 == 0});
            talk.say(Opcode::Invoke, id, invoke.to_string());
            talk.world.advance(seed % 7);
            if id % 4 == 2 {
                talk.say(Opcode::Interrupt, id, "");
            }
            seen.extend(talk.frames());
        }
        talk.world.advance(400_000);
        seen.extend(talk.frames());
        for id in 1..=12_u16 {
            let ends = seen.iter().filter(|frame| frame.id == id && talk.is_terminal(frame)).count();
            assert_eq!(ends, 1, "seed {seed}, {features:?}, #{id}");
        }
        assert_eq!(talk.world.check_replay(), Ok(()));
    }
}

#[test]
fn a_shared_session_is_reached_by_its_identifier_and_by_nobody_else() {
    use switchboard_asp::Asp;
    use switchboard_core::{Actor, Op, Principal, Role, SessionId};
    let mut talk = Talk::new(Script::new());
    talk.hello("flags events");
    talk.say(Opcode::Invoke, 1, r#"{"input":"hi","session":"s"}"#);
    talk.frames();
    let session = SessionId::named(&Principal::new("ann"), "s");
    assert!(!talk.world.log(&session).is_empty());
    let turns = |talk: &Talk| {
        let accepted = talk.world.log(&session).iter().filter(|event| event.event.name() == "turn_accepted");
        accepted.count()
    };
    let invoke = format!(r#"{{"input":"yo","session":"{session}"}}"#);
    let as_bob = |talk: &mut Talk| {
        talk.peer = talk.world.connect(&Asp::new(AspLimits::default()), Principal::new("bob"), opening());
        talk.hello("flags events");
        talk.say(Opcode::Invoke, 1, invoke.clone());
        let frames = talk.frames();
        assert!(talk.is_terminal(frames.last().unwrap()) && talk.codes(&frames).is_empty(), "{frames:?}");
    };
    // To a stranger the identifier is a name like any other, of a session of its own.
    as_bob(&mut talk);
    assert_eq!(turns(&talk), 1);
    let admit = Op::Admit { principal: "bob".into(), role: Some(Role::Contributor) };
    talk.world.ask(&session, Actor::client("ann".into()), admit).unwrap();
    as_bob(&mut talk);
    assert_eq!(turns(&talk), 2);
}

#[test]
fn a_tool_of_another_client_of_the_principal_is_watched_and_not_run() {
    use serde_json::json;
    use switchboard_core::model::{Executor, Op, Tool, ToolAnnotations, ToolChange};
    use switchboard_core::{Actor, Principal, SessionId};
    let call = Step::Call { tool: "lamp".into(), args: json!({}), timeout_ms: 60_000, give_up: false };
    let mut talk = Talk::new(Script::new().on("lamp", vec![call]));
    talk.hello("standard");
    talk.say(Opcode::Invoke, 1, r#"{"input":"hi","session":"s"}"#);
    talk.frames();
    let tool = Tool {
        name: "lamp".into(),
        description: String::new(),
        input_schema: json!({}).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Principal("ann".into()),
        grace_ms: 0,
        options: json!({}),
    };
    let change = ToolChange { add: vec![tool], remove: Vec::new(), turn: None };
    let session = SessionId::named(&Principal::new("ann"), "s");
    talk.world.ask(&session, Actor::client("ann".into()), Op::ChangeTools(change)).unwrap();
    talk.say(Opcode::Invoke, 2, r#"{"input":"lamp","session":"s"}"#);
    let kinds: Vec<_> = talk.frames().iter().map(|frame| talk.json(frame)["t"].clone()).collect();
    assert_eq!(kinds, ["start", "tool"], "it has no such tool");
}

#[test]
fn asp_088_every_request_in_flight_may_name_a_session_of_its_own() {
    for most in [64_u16, 100] {
        let limits = AspLimits {
            max_inflight: u32::from(most),
            invokes_burst: 1_000,
            frames_burst: 1_000,
            ..AspLimits::default()
        };
        let script = Script::new().on("hang", vec![Step::Hang]);
        let mut talk = Talk::with(script, limits, Settings::default());
        talk.hello("flags events");
        for id in 1..=most {
            let invoke = serde_json::json!({"kind": "chat", "input": "hang", "session": format!("s{id}")});
            talk.say(Opcode::Invoke, id, invoke.to_string());
        }
        talk.world.advance(10);
        let frames = talk.frames();
        assert_eq!(talk.codes(&frames), Vec::<i64>::new());
        let begun = frames.iter().filter(|frame| talk.json(frame)["t"] == "start").count();
        assert_eq!(begun, usize::from(most));
    }
}
