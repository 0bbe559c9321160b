//! Every exchange of §15 and some of our own, from `vectors/acolyte/frames`: read, written again, in
//! both directions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use switchboard_acolyte::codec::{
    Heard, StreamReader, Streamed, decode_client, decode_request, decode_server, encode_client, encode_done,
    encode_event, encode_server, encode_stream,
};
use switchboard_acolyte::{Acolyte, AcolyteLimits, RpcId, ServerMessage, Service};
use switchboard_core::{OpeningRequest, Pii, Principal, Protocol as _};
use switchboard_testkit::World;
use switchboard_testkit::vectors::{Vector, load};

fn of_kind(kind: &str) -> Vec<Vector> {
    let vectors: Vec<Vector> = load("acolyte").into_iter().filter(|vector| vector.kind == kind).collect();
    assert!(!vectors.is_empty(), "no vectors of kind {kind}");
    vectors
}

/// The messages of a vector in one direction: what they say, and under which id they are refused.
fn messages(vector: &Vector, direction: &str) -> Vec<(String, Option<String>)> {
    let messages = vector.all["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["direction"] == direction)
        .map(|message| {
            let text = message["text"].as_str().unwrap().to_owned();
            (text, message["refused"].as_str().map(str::to_owned))
        })
        .collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_vector_is_named_after_its_file_and_known() {
    let vectors = load("acolyte");
    assert_eq!(vectors.len(), 16);
    for vector in vectors {
        assert!(matches!(vector.kind.as_str(), "rpc" | "stream" | "upgrade"), "{}", vector.id);
    }
}

#[test]
fn what_clients_say_is_read_and_written_again() {
    for vector in of_kind("rpc") {
        for (text, refused) in messages(&vector, "to_server") {
            let read = decode_client(text.as_bytes());
            if let Some(id) = refused {
                let refused = read.expect_err(&text);
                assert_eq!(
                    (refused.id.as_str(), refused.why.split(": request.").next().unwrap()),
                    (id.as_str(), "Invalid RPC message"),
                    "{text}"
                );
                continue;
            }
            let (id, message) = read.unwrap_or_else(|_| panic!("{}: {text}", vector.id));
            let again = encode_client(&id, &message);
            assert_eq!(decode_client(again.as_bytes()), Ok((id, message)), "{text}");
            // Everything that was said is said again, and nothing else.
            let (mut said, again) = (json(&text), json(&again));
            if vector.id == "A16" {
                // What is not ours is not repeated.
                said.as_object_mut().unwrap().remove("future");
                if said["payload"] == 5 {
                    said.as_object_mut().unwrap().remove("payload");
                }
            }
            assert_eq!(again, said, "{}", vector.id);
        }
    }
}

#[test]
fn what_servers_say_is_read_and_written_again() {
    for vector in of_kind("rpc") {
        for (text, _) in messages(&vector, "to_client") {
            let Heard::Message(id, message) = decode_server(text.as_bytes()) else {
                panic!("{}: {text}", vector.id)
            };
            assert_eq!(json(&encode_server(&id, &message)), json(&text), "{}", vector.id);
            if let ServerMessage::ChatEvent { event, position } = &message {
                // The short way is the same way.
                assert_eq!(json(&encode_event(&id, event, *position)), json(&text));
            }
        }
    }
}

#[test]
fn the_bytes_of_the_most_frequent_messages_are_as_written() {
    let id = RpcId::parse("rpc_c1").unwrap();
    let delta =
        messages(&of_kind("rpc")[1], "to_client").into_iter().find(|(text, _)| text.contains("Hello"));
    let (text, _) = delta.unwrap();
    let Heard::Message(_, ServerMessage::ChatEvent { event, .. }) = decode_server(text.as_bytes()) else {
        panic!("{text}")
    };
    assert_eq!(encode_event(&id, &event, None), text);
    assert_eq!(encode_server(&id, &ServerMessage::ChatStarted), r#"{"id":"rpc_c1","type":"chat.started"}"#);
}

#[test]
fn cut_and_padded_messages_are_refused_or_read_the_same() {
    for vector in of_kind("rpc") {
        for (text, refused) in messages(&vector, "to_server") {
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                let cut = decode_client(&text.as_bytes()[..end]).expect_err("half a message is none");
                assert_eq!(cut.id, RpcId::unknown());
            }
            let padded = format!(" \n{text}\t ");
            assert_eq!(decode_client(padded.as_bytes()).is_err(), refused.is_some());
        }
        for (text, _) in messages(&vector, "to_client") {
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                assert_eq!(decode_server(&text.as_bytes()[..end]), Heard::Unknown(None));
            }
        }
    }
}

#[test]
fn streams_are_taken_apart_and_put_together_again() {
    for vector in of_kind("stream") {
        assert!(decode_request(vector.all["request"].as_str().unwrap().as_bytes()).is_ok());
        let body = vector.all["body"].as_str().unwrap();
        let frames = vector.all["frames"].as_array().unwrap();
        let said = StreamReader::default().push(body.as_bytes());
        let written: Vec<String> = said
            .iter()
            .map(|said| match said {
                Streamed::Event(event) => encode_stream(event),
                Streamed::Done(reply) => encode_done(reply),
            })
            .collect();
        let parsed =
            |frame: &String| json(frame.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap());
        assert_eq!(&written.iter().map(parsed).collect::<Vec<_>>(), frames, "{}", vector.id);
        // However it is cut, and whatever ends its lines.
        for body in [body.to_owned(), body.replace('\n', "\r\n")] {
            for cut in 0..body.len() {
                let mut reader = StreamReader::default();
                let mut pieces = reader.push(&body.as_bytes()[..cut]);
                pieces.extend(reader.push(&body.as_bytes()[cut..]));
                assert_eq!(pieces, said, "cut at {cut}");
            }
        }
    }
}

#[test]
fn upgrades_are_answered_as_written() {
    let acolyte = Acolyte::new(AcolyteLimits::default(), Service::default());
    for vector in of_kind("upgrade") {
        for row in vector.all["requests"].as_array().unwrap() {
            let text = |key: &str| row[key].as_str().map(str::to_owned);
            let offered = row["subprotocols"].as_array().cloned().unwrap_or_default();
            let request = OpeningRequest {
                path: "/v1/rpc",
                query: text("query").unwrap_or_default(),
                authorization: text("authorization").map(Pii),
                subprotocols: offered.iter().map(|name| Pii(name.as_str().unwrap().to_owned())).collect(),
                websocket: row["websocket"].as_bool().unwrap_or(true),
                ..OpeningRequest::default()
            };
            let mut world = World::new();
            world.issue("k3y", Principal::new("ann"));
            match world.knock(&acolyte, &request) {
                Ok((_, selected)) => {
                    assert_eq!((row["status"].as_u64(), text("selected")), (Some(101), selected))
                }
                Err(refusal) => {
                    let reply = acolyte.refuse(&refusal, "req-1");
                    assert_eq!(row["status"], reply.status, "{row}");
                    assert_eq!(text("body"), Some(reply.body));
                }
            }
        }
    }
}
