//! Every bound of §4 and §11.1, from both sides.

use switchboard_alicia::{AliciaLimits, Code, Dialect, Map, Side, Value, decode};

use crate::support::{CONV, bytes, envelope, json, map};

/// The code for a body with one member changed.
fn code(
    number: u16,
    from: Side,
    members: &str,
    key: &str,
    value: Value,
    limits: &AliciaLimits,
) -> Result<(), Code> {
    let mut body = map(members);
    match key.split_once('.') {
        Some((outer, inner)) => {
            let Some(Value::Map(nested)) = body.get(outer).cloned() else { panic!("{outer}") };
            body.insert(outer.to_owned(), nested.with(inner.to_owned(), value));
        }
        None => body.insert(key.to_owned(), value),
    }
    let mut read = decode(&bytes(envelope(number, body)), from, Dialect::Full, limits);
    read.remove(0).map(|_| ()).map_err(|error| error.code())
}

const ERROR: &str = r#"{"id": "err_1", "code": 101, "message": "x", "severity": 1, "recoverable": true}"#;
const USER: &str = r#"{"id": "am_1", "content": "hi"}"#;
const AUDIO: &str = r#"{"format": "audio/opus", "sequence": 1, "durationMs": 20}"#;
const STEP: &str = r#"{"id": "ar_1", "messageId": "am_1", "sequence": 1, "content": "x"}"#;
const TOOL: &str =
    r#"{"id": "atu_1", "messageId": "am_1", "toolName": "clock", "parameters": {}, "execution": "server"}"#;
const ACK: &str = r#"{"acknowledgedStanzaId": 2, "success": true}"#;
const HEARD: &str = r#"{"id": "am_1", "text": "x", "final": true}"#;
const VARIATION: &str = r#"{"targetId": "am_1", "mode": "edit"}"#;
const START: &str = r#"{"id": "am_2", "previousId": "am_1"}"#;
const TRACE: &str =
    r#"{"id": "amu_1", "messageId": "am_1", "memoryId": "amem_1", "content": "x", "relevance": 0.5}"#;
const REMARK: &str = r#"{"id": "aucc_1", "messageId": "", "content": "x"}"#;
const SENTENCE: &str = r#"{"previousId": "am_2", "sequence": 1, "text": "x"}"#;
const VOTE: &str = r#"{"id": "av_1", "messageId": "am_1", "targetType": "message", "targetId": "am_1", "vote": "up", "timestamp": 1}"#;
const NOTE: &str = r#"{"id": "an_1", "messageId": "am_1", "content": "x", "category": "general", "action": "create", "timestamp": 1}"#;
const MEMORY: &str = r#"{"id": "amem_1", "action": "create", "memory": {"content": "x"}, "timestamp": 1}"#;
const WEIGHTS: &str = r#"{"weights": {"quality": 0.5}, "timestamp": 1}"#;
const INFO: &str = r#"{"connection": {"status": "connected", "latency": 0}, "model": {"name": "m", "provider": "p"}, "mcpServers": []}"#;
const STATS: &str = r#"{"messageCount": 1, "toolCallCount": 1, "memoriesUsed": 1, "sessionDuration": 1}"#;

#[test]
fn texts_are_bounded_in_bytes() {
    let limits = AliciaLimits::default();
    let too_large = Err(Code::TooLarge);
    let cases = [
        (1, Side::Server, ERROR, "message", 2_048, Ok(())),
        (2, Side::Client, USER, "content", 65_536, Err(Code::OutOfRange)),
        (6, Side::Server, TOOL, "toolName", 100, Err(Code::OutOfRange)),
        (11, Side::Client, VARIATION, "newContent", 65_536, Ok(())),
        (14, Side::Server, TRACE, "content", 1_024, Ok(())),
        (15, Side::Client, REMARK, "content", 16_384, Err(Code::OutOfRange)),
        (16, Side::Server, SENTENCE, "text", 8_192, Err(Code::OutOfRange)),
        (20, Side::Client, VOTE, "note", 4_096, Ok(())),
        (22, Side::Client, NOTE, "content", 16_384, Err(Code::OutOfRange)),
        (24, Side::Client, MEMORY, "memory.content", 16_384, Err(Code::OutOfRange)),
    ];
    for (number, from, members, key, most, empty) in cases {
        let sized = |text: String| code(number, from, members, key, text.into(), &limits);
        assert_eq!(sized("a".repeat(most)), Ok(()), "{number} {key}");
        assert_eq!(sized("a".repeat(most + 1)), too_large, "{number} {key}");
        // Bytes, not characters.
        assert_eq!(sized("é".repeat(most / 2 + 1)), too_large, "{number} {key}");
        assert_eq!(sized(String::new()), empty, "{number} {key}");
    }
}

#[test]
fn bounds_are_the_operators() {
    let limits = AliciaLimits { content: 3, ..AliciaLimits::default() };
    assert_eq!(code(2, Side::Client, USER, "content", "abc".into(), &limits), Ok(()));
    assert_eq!(code(2, Side::Client, USER, "content", "abcd".into(), &limits), Err(Code::TooLarge));
}

#[test]
fn ids_are_1_to_128_printable_characters() {
    let limits = AliciaLimits::default();
    let cases = [
        (2, Side::Client, USER, "id"),
        (5, Side::Server, STEP, "messageId"),
        (11, Side::Client, VARIATION, "targetId"),
        (13, Side::Server, START, "previousId"),
        (20, Side::Client, VOTE, "targetId"),
    ];
    for (number, from, members, key) in cases {
        let given = |text: &str| code(number, from, members, key, text.into(), &limits);
        assert_eq!(given(&"a".repeat(128)), Ok(()));
        assert_eq!(given(&"a".repeat(129)), Err(Code::OutOfRange));
        assert_eq!(given("a b"), Err(Code::OutOfRange));
        assert_eq!(given("é"), Err(Code::OutOfRange));
        // An empty id is a missing one.
        assert_eq!(given(""), Err(Code::Malformed));
    }
    // Where there may be none, empty means none.
    assert_eq!(code(2, Side::Client, USER, "previousId", "".into(), &limits), Ok(()));
    assert_eq!(code(2, Side::Client, USER, "previousId", "a b".into(), &limits), Err(Code::OutOfRange));
}

#[test]
fn numbers_have_their_ranges() {
    let limits = AliciaLimits::default();
    let word = i64::from(u32::MAX);
    // Number, sender, body, key, least, most.
    let cases = [
        (1, Side::Server, ERROR, "severity", 0, 3),
        (1, Side::Server, ERROR, "code", 0, 65_535),
        (4, Side::Client, AUDIO, "sequence", 0, word),
        (4, Side::Client, AUDIO, "durationMs", 0, word),
        (5, Side::Server, STEP, "sequence", 0, word),
        (8, Side::Client, ACK, "acknowledgedStanzaId", i64::from(i32::MIN), i64::from(i32::MAX)),
        (13, Side::Server, START, "plannedSentenceCount", 0, word),
        (16, Side::Server, SENTENCE, "sequence", 0, word),
        (26, Side::Server, INFO, "connection.latency", 0, word),
    ];
    for (number, from, members, key, least, most) in cases {
        let given = |int: i64| code(number, from, members, key, int.into(), &limits);
        assert_eq!((given(least), given(most)), (Ok(()), Ok(())), "{number} {key}");
        assert_eq!(given(least - 1), Err(Code::OutOfRange), "{number} {key}");
        assert_eq!(given(most + 1), Err(Code::OutOfRange), "{number} {key}");
        assert_eq!(
            code(number, from, members, key, 1.5.into(), &limits),
            Err(Code::Malformed),
            "{number} {key}"
        );
        assert_eq!(
            code(number, from, members, key, "1".into(), &limits),
            Err(Code::Malformed),
            "{number} {key}"
        );
    }
    for (number, from, members, key) in [
        (40, Side::Client, "{}", "fromSequence"),
        (27, Side::Server, STATS, "sessionDuration"),
        (4, Side::Client, AUDIO, "timestamp"),
    ] {
        assert_eq!(code(number, from, members, key, 0_i64.into(), &limits), Ok(()));
        assert_eq!(code(number, from, members, key, u64::MAX.into(), &limits), Ok(()));
        assert_eq!(code(number, from, members, key, (-1_i64).into(), &limits), Err(Code::OutOfRange));
    }
}

#[test]
fn ratios_are_from_0_to_1() {
    let limits = AliciaLimits::default();
    let cases = [
        (9, Side::Server, HEARD, "confidence"),
        (14, Side::Server, TRACE, "relevance"),
        (29, Side::Client, WEIGHTS, "weights.quality"),
    ];
    for (number, from, members, key) in cases {
        let given = |float: f64| code(number, from, members, key, float.into(), &limits);
        assert_eq!((given(0.0), given(1.0)), (Ok(()), Ok(())));
        for float in [-0.001, 1.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(given(float), Err(Code::OutOfRange), "{number} {float}");
        }
        assert_eq!(code(number, from, members, key, "1".into(), &limits), Err(Code::Malformed));
    }
}

#[test]
fn meta_is_bounded_in_its_encoding() {
    let limits = AliciaLimits::default();
    let packet = |length: usize| {
        // One byte for the map, two for the key, three for the length of the text.
        bytes(envelope(8, map(ACK)).with("meta", Map::new().with("a", "x".repeat(length - 6))))
    };
    let given = |length| decode(&packet(length), Side::Client, Dialect::Full, &limits).remove(0).map(|_| ());
    assert!(given(4_096).is_ok());
    assert_eq!(given(4_097).unwrap_err().code(), Code::TooLarge);
}

#[test]
fn arguments_of_tools_are_bounded_as_json() {
    let limits = AliciaLimits { tool_parameters: 20, ..AliciaLimits::default() };
    let given = |text: &str| code(6, Side::Server, TOOL, "parameters", json(text), &limits);
    assert_eq!(given(r#"{"a":"0123456789ab"}"#), Ok(()));
    assert_eq!(given(r#"{"a":"0123456789abc"}"#), Err(Code::TooLarge));
    // Escapes count as JSON writes them.
    assert_eq!(given(r#"{"a":"012345678\n"}"#), Ok(()));
    assert_eq!(given(r#"{"a":"\n\n\n\n\n\n\n"}"#), Err(Code::TooLarge));
    assert_eq!(AliciaLimits::default().tool_parameters, 1 << 20);
}

#[test]
fn lists_are_bounded_in_items() {
    let limits = AliciaLimits::default();
    let message = json(
        r#"{"localId": "local_1", "sequenceNumber": 1, "role": "user", "contents": "x", "createdAt": ""}"#,
    );
    let sync = |count: usize| {
        code(17, Side::Client, "{}", "messages", Value::Array(vec![message.clone(); count]), &limits)
    };
    assert_eq!((sync(0), sync(500), sync(501)), (Ok(()), Ok(()), Err(Code::TooLarge)));
    let words = |count: usize| {
        code(12, Side::Client, "{}", "features", Value::Array(vec!["x".into(); count]), &limits)
    };
    assert_eq!((words(0), words(1_024), words(1_025)), (Ok(()), Ok(()), Err(Code::TooLarge)));
}

#[test]
fn every_required_member_is_needed_and_typed() {
    let limits = AliciaLimits::default();
    let bodies = [
        (1, Side::Server, ERROR),
        (2, Side::Client, USER),
        (3, Side::Server, USER),
        (4, Side::Client, AUDIO),
        (5, Side::Server, STEP),
        (6, Side::Server, TOOL),
        (7, Side::Client, r#"{"id": "atu_1", "success": true}"#),
        (8, Side::Client, ACK),
        (9, Side::Server, r#"{"id": "am_1", "text": "x"}"#),
        (11, Side::Client, VARIATION),
        (13, Side::Server, START),
        (14, Side::Server, TRACE),
        (15, Side::Client, r#"{"id": "aucc_1", "content": "x"}"#),
        (16, Side::Server, SENTENCE),
        (17, Side::Client, r#"{"messages": []}"#),
        (18, Side::Server, r#"{"syncedMessages": [], "syncedAt": "x"}"#),
        (20, Side::Client, VOTE),
        (
            21,
            Side::Server,
            r#"{"feedbackId": "av_1", "targetType": "message", "targetId": "am_1", "aggregates": {"upvotes": 1, "downvotes": 0}}"#,
        ),
        (
            22,
            Side::Client,
            r#"{"id": "an_1", "messageId": "am_1", "content": "x", "action": "create", "timestamp": 1}"#,
        ),
        (23, Side::Server, r#"{"noteId": "an_1", "messageId": "am_1", "success": true}"#),
        (24, Side::Client, r#"{"id": "amem_1", "action": "create", "timestamp": 1}"#),
        (25, Side::Server, r#"{"memoryId": "amem_1", "action": "create", "success": true}"#),
        (26, Side::Server, INFO),
        (27, Side::Server, STATS),
        (28, Side::Server, r#"{"updatedAt": "x"}"#),
        (29, Side::Client, WEIGHTS),
        (30, Side::Client, r#"{"eliteId": "pa_1", "timestamp": 1}"#),
        (31, Side::Server, r#"{"elites": [], "timestamp": 1}"#),
        (42, Side::Server, r#"{"success": true}"#),
        (43, Side::Server, r#"{"success": true}"#),
    ];
    for (number, from, members) in bodies {
        let whole = map(members);
        let given = |body: Map| {
            let packet = envelope(number, body).with("conversationId", CONV);
            decode(&bytes(packet), from, Dialect::Full, &limits)
                .remove(0)
                .map(|_| ())
                .map_err(|error| error.code())
        };
        assert_eq!(given(whole.clone()), Ok(()), "{number}");
        for (key, _) in whole.iter() {
            // The id of an error may be missing.
            if (number, key) == (1, "id") {
                continue;
            }
            let mut body = whole.clone();
            body.remove(key);
            assert_eq!(given(body), Err(Code::Malformed), "{number} without {key}");
            let bytes = Value::Bin(vec![1, 2].into());
            assert_eq!(
                given(whole.clone().with(key.to_owned(), bytes)),
                Err(Code::Malformed),
                "{number} {key}"
            );
        }
    }
}
