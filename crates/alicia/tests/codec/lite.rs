//! The lite profile: how it is told apart, and what differs.

use switchboard_alicia::lite::{LiteType, RequestType};
use switchboard_alicia::{
    AliciaLimits, Code, DecodeError, Decoded, Dialect, Id, LiteBody, LiteEnvelope, Map, MessageType, Side,
    Value, decode,
};

use crate::support::{all, bytes, envelope, map};

const CONV: &str = "conv_0123456789abcdefghijk";

fn packet(number: u16, body: Map) -> Map {
    Map::new().with("conversationId", CONV).with("type", i64::from(number)).with("body", body)
}

fn read(map: Map, from: Side) -> Result<LiteEnvelope, DecodeError> {
    match all(&bytes(map), from, Dialect::Undecided).remove(0)? {
        Decoded::Lite(envelope) => Ok(*envelope),
        Decoded::Full { .. } => panic!("not full"),
    }
}

#[test]
fn the_first_envelope_tells_the_profiles_apart() {
    let lite = packet(40, Map::new());
    let full = envelope(40, Map::new()).with("stanzaId", 1_i64);
    let dialect =
        |map: &Map, dialect| all(&bytes(map.clone()), Side::Client, dialect).remove(0).unwrap().dialect();
    assert_eq!(dialect(&lite, Dialect::Undecided), Dialect::Lite);
    assert_eq!(dialect(&full, Dialect::Undecided), Dialect::Full);
    // A key that is there is there, even as nil.
    assert_eq!(dialect(&lite.clone().with("stanzaId", Value::Nil), Dialect::Undecided), Dialect::Full);
    // And for the life of the connection.
    assert_eq!(dialect(&full, Dialect::Lite), Dialect::Lite);
    assert_eq!(dialect(&lite, Dialect::Full), Dialect::Full);
    // Within one array as well.
    let batch = Value::Array(vec![Value::Nil, lite.into(), full.into()]);
    let read = all(&bytes(batch), Side::Client, Dialect::Undecided);
    let dialects: Vec<_> = read.iter().map(|read| read.as_ref().map(Decoded::dialect).ok()).collect();
    assert_eq!(dialects, [None, Some(Dialect::Lite), Some(Dialect::Lite)]);
}

#[test]
fn a_refused_envelope_still_says_which_profile_it_is_of() {
    let error = read(packet(33, map(r#"{"messageId": "msg_1", "requestType": "explain"}"#)), Side::Client)
        .unwrap_err();
    assert_eq!((error.code(), error.origin.lite), (Code::Malformed, Some(true)));
    let report = error.report_lite();
    assert_eq!((report.code.as_str(), report.message_id), ("101", None));
    let malformed = all(&[0xC0], Side::Client, Dialect::Undecided).remove(0).unwrap_err();
    assert_eq!(malformed.origin.lite, None);
}

#[test]
fn the_table_of_directions_is_that_of_the_appendix() {
    let of = |side: Side| -> Vec<u16> {
        LiteType::ALL.iter().filter(|kind| kind.is_sent_by(side)).map(|kind| kind.number()).collect()
    };
    assert_eq!(of(Side::Client), [2, 7, 33, 40, 41, 51, 53, 70, 72]);
    assert_eq!(of(Side::Server), [1, 2, 3, 5, 6, 7, 13, 14, 16, 34, 35, 42, 50, 52, 54, 55, 56, 71, 80]);
    for kind in LiteType::ALL {
        for side in [Side::Client, Side::Server] {
            let refused = read(packet(kind.number(), Map::new()), side)
                .is_err_and(|error| error.code() == Code::WrongSide);
            assert_eq!(refused, !kind.is_sent_by(side), "{kind} from {side:?}");
        }
    }
}

#[test]
fn types_of_the_full_profile_alone_are_skipped() {
    for kind in MessageType::ALL.iter().filter(|kind| LiteType::from_number(kind.number()).is_none()) {
        let envelope = read(packet(kind.number(), Map::new()), Side::Client).unwrap();
        assert_eq!((envelope.body.kind(), envelope.body.number()), (None, kind.number()));
    }
}

#[test]
fn bodies_have_the_keys_of_the_appendix() {
    let LiteBody::UserMessage(message) =
        read(packet(2, map(r#"{"content": "hi"}"#)), Side::Client).unwrap().body
    else {
        panic!("type")
    };
    assert_eq!((message.id, message.content.0.as_str()), (None, "hi"));
    let retry = r#"{"messageId": "msg_2", "requestType": "regenerate", "enableTools": true}"#;
    let LiteBody::GenerationRequest(retry) = read(packet(33, map(retry)), Side::Client).unwrap().body else {
        panic!("type")
    };
    assert_eq!(
        (retry.request_type, retry.enable_tools, retry.use_pareto),
        (RequestType::Regenerate, true, false)
    );
    let LiteBody::Subscribe(plain) = read(packet(40, Map::new()), Side::Client).unwrap().body else {
        panic!("type")
    };
    assert!(!plain.is_service());
    let LiteBody::Subscribe(agent) =
        read(packet(40, map(r#"{"agentMode": true}"#)), Side::Client).unwrap().body
    else {
        panic!("type")
    };
    assert!(agent.is_service());
}

#[test]
fn tools_are_spelled_differently() {
    let request =
        map(r#"{"id": "tu_1", "messageId": "msg_1", "toolName": "clock", "arguments": {"tz": "UTC"}}"#);
    let envelope = read(packet(6, request), Side::Server).unwrap();
    let written = envelope.body.to_map(envelope.conversation_id.as_ref());
    let keys: Vec<&str> = written.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["id", "messageId", "conversationId", "toolName", "arguments"]);
    let full_spelling = map(r#"{"id": "tu_1", "messageId": "msg_1", "toolName": "clock", "parameters": {}}"#);
    assert_eq!(read(packet(6, full_spelling), Side::Server).unwrap_err().code(), Code::Malformed);
}

#[test]
fn the_conversation_may_stand_in_the_body_alone_and_is_never_a_room() {
    let mut nameless = packet(40, map(&format!(r#"{{"conversationId": "{CONV}"}}"#)));
    nameless.remove("conversationId");
    assert_eq!(read(nameless, Side::Client).unwrap().conversation_id, Some(Id::new(CONV).unwrap()));
    let other = packet(40, map(r#"{"conversationId": "conv_other"}"#));
    assert_eq!(read(other, Side::Client).unwrap_err().code(), Code::Conversation);
    let literal = packet(41, Map::new()).with("conversationId", "conv_ac_1");
    assert_eq!(read(literal, Side::Client).unwrap().conversation_id, Some(Id::new("conv_ac_1").unwrap()));
}

#[test]
fn the_top_level_carries_trace_session_and_user() {
    let traced = packet(41, Map::new())
        .with("trace_id", "0af7651916cd43dd8448eb211c80319c")
        .with("span_id", "b7ad6b7169203331")
        .with("trace_flags", 1_i64)
        .with("session_id", CONV)
        .with("user_id", "someone@example");
    let envelope = read(traced, Side::Client).unwrap();
    assert_eq!(envelope.trace.unwrap().flags, 1);
    assert_eq!(envelope.session_id.as_deref(), Some(CONV));
    assert_eq!(envelope.user_id.unwrap().0, "someone@example");
    let broken =
        read(packet(41, Map::new()).with("trace_id", "x").with("trace_flags", 300_i64), Side::Client)
            .unwrap();
    assert_eq!(broken.trace, None);
    for user in ["", "a b", "é"] {
        assert_eq!(read(packet(41, Map::new()).with("user_id", user), Side::Client).unwrap().user_id, None);
    }
    let number = read(packet(41, Map::new()).with("user_id", 7_i64), Side::Client).unwrap();
    assert_eq!(number.user_id, None, "nothing depends on it");
}

#[test]
fn texts_and_lists_are_bounded_as_in_the_full_profile() {
    let limits = AliciaLimits { content: 3, items: 1, ..AliciaLimits::default() };
    let code = |number: u16, body: &str| {
        let packet = bytes(packet(number, map(body)));
        decode(&packet, Side::Client, Dialect::Lite, &limits)
            .remove(0)
            .map(|_| ())
            .map_err(|error| error.code())
    };
    assert_eq!(code(2, r#"{"content": "abc"}"#), Ok(()));
    assert_eq!(code(2, r#"{"content": "abcd"}"#), Err(Code::TooLarge));
    assert_eq!(code(2, r#"{"content": ""}"#), Err(Code::OutOfRange));
    let tool = r#"{"name": "clock", "description": "tells the time"}"#;
    assert_eq!(code(70, &format!(r#"{{"tools": [{tool}]}}"#)), Ok(()));
    assert_eq!(code(70, &format!(r#"{{"tools": [{tool}, {tool}]}}"#)), Err(Code::TooLarge));
}
