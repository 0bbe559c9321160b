//! Every example of §16, from `vectors/aip/frames`: read and written again, to the byte.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use switchboard_aip::codec::{DecodeError, decode_client, decode_server, encode_client, encode_server};
use switchboard_testkit::vectors::{Vector, load};

fn of_kind(kind: &str) -> Vec<Vector> {
    let vectors: Vec<Vector> = load("aip").into_iter().filter(|vector| vector.kind == kind).collect();
    assert!(!vectors.is_empty(), "no vectors of kind {kind}");
    vectors
}

/// Text and direction of each message.
fn messages(vector: &Vector) -> Vec<(String, Side)> {
    let messages = vector.all["messages"].as_array().unwrap().iter();
    messages
        .map(|message| {
            let text = message["text"].as_str().unwrap().to_owned();
            let side = if message["direction"] == "to_server" { Side::Client } else { Side::Server };
            (text, side)
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Side {
    Client,
    Server,
}

fn again(side: Side, text: &str) -> Result<String, DecodeError> {
    match side {
        Side::Client => decode_client(text).map(|message| encode_client(&message)),
        Side::Server => decode_server(text).map(|message| encode_server(&message)),
    }
}

#[test]
fn every_vector_is_named_after_its_file_and_known() {
    let vectors = load("aip");
    assert_eq!(vectors.len(), 13);
    for vector in vectors {
        assert!(matches!(vector.kind.as_str(), "messages" | "transfer"), "{}", vector.id);
    }
}

#[test]
fn aip_010_every_example_is_written_as_it_was_read() {
    let mut count = 0;
    for vector in of_kind("messages") {
        for (text, side) in messages(&vector) {
            let written = again(side, &text).unwrap_or_else(|error| panic!("{}: {error}", vector.id));
            assert_eq!(written, text, "{}", vector.id);
            count += 1;
        }
    }
    assert_eq!(count, 20);
}

#[test]
fn nulls_may_be_left_out() {
    for vector in of_kind("messages") {
        for (text, side) in messages(&vector) {
            let Value::Object(mut object) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            object.retain(|_, value| !value.is_null());
            let short = serde_json::to_string(&object).unwrap();
            assert_eq!(again(side, &short), again(side, &text), "{}", vector.id);
        }
    }
}

#[test]
fn half_a_message_is_none_and_blanks_around_it_are_nothing() {
    for vector in of_kind("messages") {
        for (text, side) in messages(&vector) {
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                assert!(again(side, &text[..end]).is_err(), "{}", &text[..end]);
            }
            assert_eq!(again(side, &format!(" \r\n{text}\t ")), again(side, &text));
            for wrong in [format!("\u{feff}{text}"), format!("{text}{text}"), format!("{text},")] {
                assert!(again(side, &wrong).is_err(), "{wrong}");
            }
        }
    }
}
