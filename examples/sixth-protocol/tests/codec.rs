//! Lines and messages: the vectors, and whatever else can be written.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use proptest::prelude::*;
use switchboard_core::{Pii, Position};
use switchboard_linewise::codec::{decode_client, decode_server, encode_client, encode_server};
use switchboard_linewise::error::Malformed;
use switchboard_linewise::{ClientLine, ClientMessage, Code, Ending, News, ServerLine, Tag};
use switchboard_testkit::vectors::load_from;

/// Reads a line and writes it again.
fn again(direction: &str, text: &str) -> Result<String, Malformed> {
    match direction {
        "to_server" => decode_client(text).map(|line| encode_client(&line)),
        _ => decode_server(text).map(|line| encode_server(&line)),
    }
}

#[test]
fn every_vector_is_read_and_written_again() {
    let vectors = load_from(&Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/frames"));
    assert_eq!(vectors.len(), 6);
    for vector in vectors {
        for message in vector.all["messages"].as_array().unwrap() {
            let text = message["text"].as_str().unwrap();
            let read = again(message["direction"].as_str().unwrap(), text);
            match message["refused"].as_str() {
                None => assert_eq!(read.as_deref(), Ok(text), "{}", vector.id),
                Some(why) => assert_eq!(read.unwrap_err().why, why, "{}: {text}", vector.id),
            }
        }
    }
}

#[test]
fn a_refused_line_keeps_its_tag() {
    assert_eq!(decode_client("@k shout").unwrap_err().tag, Tag::new("k"));
}

fn tag() -> impl Strategy<Value = Option<Tag>> {
    prop::option::of("[a-zA-Z0-9_-]{1,64}".prop_map(|text| Tag::new(&text).unwrap()))
}

fn position() -> impl Strategy<Value = Position> {
    any::<(u32, u64)>().prop_map(|(epoch, seq)| Position { epoch, seq })
}

fn client_line() -> impl Strategy<Value = ClientLine> {
    let message = prop_oneof![
        ("[^\0]{1,20}", prop::option::of(position()))
            .prop_map(|(session, since)| ClientMessage::Join { session, since }),
        ".{1,40}|[ \\\\\n\r]{1,9}".prop_map(|text| ClientMessage::Say(Pii(text))),
        Just(ClientMessage::Stop),
        Just(ClientMessage::History),
    ];
    (tag(), message).prop_map(|(tag, message)| ClientLine { tag, message })
}

fn server_line() -> impl Strategy<Value = ServerLine> {
    let text = || "(?s).{0,40}".prop_map(Pii);
    let news = prop_oneof![
        ("[^\0]{1,20}", text()).prop_map(|(who, text)| News::Asked { who, text }),
        text().prop_map(News::Text),
        text().prop_map(News::Status),
        prop::sample::select(&Ending::ALL[..]).prop_map(News::Done),
        text().prop_map(News::Failed),
        Just(News::Stopped),
    ];
    prop_oneof![
        Just(ServerLine::Hello),
        (tag(), position()).prop_map(|(tag, at)| ServerLine::Ok { tag, at }),
        (tag(), prop::sample::select(&Code::ALL[..]), "(?s).{0,40}")
            .prop_map(|(tag, code, words)| ServerLine::Error { tag, code, words }),
        (position(), "[^\0]{1,20}", news).prop_map(|(at, turn, news)| ServerLine::News { at, turn, news }),
        any::<u64>().prop_map(|retry_ms| ServerLine::Bye { retry_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_it_was_meant(client in client_line(), server in server_line()) {
        prop_assert_eq!(decode_client(&encode_client(&client)), Ok(client));
        prop_assert_eq!(decode_server(&encode_server(&server)), Ok(server));
    }

    #[test]
    fn whatever_arrives_is_read_or_refused(line in "(?s).{0,60}", words in "[@a-z0-9 \\\\-]{0,40}") {
        for text in [line, words] {
            let _ = (decode_client(&text), decode_server(&text));
        }
    }
}
