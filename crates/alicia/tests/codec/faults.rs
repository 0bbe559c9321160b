//! What is refused, with which code, and how it is answered (AL-008, AL-009, AL-012, AL-013).

use switchboard_alicia::error::{Recovers, TOO_BIG};
use switchboard_alicia::message::{Direction, Transports};
use switchboard_alicia::value::{MAX_VALUES, decode_msgpack};
use switchboard_alicia::{
    AliciaLimits, Class, Code, Decoded, Dialect, Id, Map, MessageType, RELIABLE_PACKET, Severity, Side,
    Value, decode, encode,
};

use crate::support::{CONV, all, body, bytes, client_code, envelope, map, one, read};

const ACK: &str = r#"{"acknowledgedStanzaId": 2, "success": true}"#;

#[test]
fn al_008_what_is_no_map_is_malformed() {
    let whole = bytes(envelope(8, map(ACK)));
    let longer = [&whole[..], &[0x00]].concat();
    for packet in [
        &[][..],
        &longer,
        &[0xC0],
        &[0xC3],
        &[0x05],
        &[0xA1, b'a'],
        &[0xC4, 0],
        &[0xCB, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let error = one(packet, Side::Client).unwrap_err();
        assert_eq!((error.code(), error.close()), (Code::Malformed, None), "{packet:x?}");
        assert!(error.is_undecodable());
    }
}

#[test]
fn keys_of_the_envelope_are_needed_as_the_reference_lists_them() {
    let whole = || envelope(8, map(ACK));
    let without = |key: &str| {
        let mut packet = whole();
        packet.remove(key);
        packet
    };
    let broken = [
        without("type"),
        without("body"),
        whole().with("type", Value::Nil),
        whole().with("type", "8"),
        whole().with("type", 0_i64),
        whole().with("type", -8_i64),
        whole().with("type", 65_536_i64),
        whole().with("body", Value::Nil),
        whole().with("body", Value::Array(vec![])),
        whole().with("body", "x"),
        whole().with("meta", Value::Array(vec![])),
        whole().with("meta", "x"),
        whole().with("stanzaId", "5"),
        whole().with("stanzaId", true),
        whole().with("conversationId", 7_i64),
    ];
    for packet in broken {
        let error = read(packet.clone(), Side::Client).unwrap_err();
        assert_eq!(error.code(), Code::Malformed, "{packet:?}");
        assert!(error.is_undecodable());
    }
    for id in ["a b", "é", &"a".repeat(129)] {
        let error = read(whole().with("conversationId", id), Side::Client).unwrap_err();
        assert_eq!(error.code(), Code::OutOfRange, "{id}");
    }
}

#[test]
fn al_008_keys_that_are_no_text_are_malformed() {
    for key in [&[0x01][..], &[0xC0], &[0xC4, 1, b'a'], &[0x90], &[0xA1, 0xFF]] {
        let packet = [&[0x81][..], key, &[0x01]].concat();
        assert_eq!(one(&packet, Side::Client).unwrap_err().code(), Code::Malformed, "{key:x?}");
    }
}

#[test]
fn al_009_nesting_beyond_32_is_malformed() {
    // Envelope and body are two levels of the 32.
    let nested = |levels: usize| {
        let innermost = Value::Map(Map::new());
        (1..levels).fold(innermost, |inner, _| Value::Map(Map::new().with("a", inner)))
    };
    let packet = |levels: usize| bytes(envelope(8, map(ACK).with("x", nested(levels))));
    assert!(one(&packet(30), Side::Client).is_ok());
    assert_eq!(one(&packet(31), Side::Client).unwrap_err().code(), Code::Malformed);
}

#[test]
fn al_009_a_packet_holds_a_bounded_number_of_values() {
    let list = |items: usize| {
        let mut packet = [&[0xDD][..], &u32::try_from(items).unwrap().to_be_bytes()].concat();
        packet.resize(5 + items, 0xC0);
        packet
    };
    assert!(decode_msgpack(&list(MAX_VALUES - 1)).is_ok());
    assert_eq!(decode_msgpack(&list(MAX_VALUES)).unwrap_err().code(), Code::TooLarge);
}

#[test]
fn frames_are_bounded_and_the_largest_end_the_connection() {
    let limits = AliciaLimits { frame: 200, hard_cap: 400, ..AliciaLimits::default() };
    let sized = |size: usize| {
        let empty = bytes(envelope(8, map(ACK).with("x", ""))).len();
        // Two more bytes make the length of text up to 255 bytes, three that of longer text.
        let mut packet = bytes(envelope(8, map(ACK).with("x", "a".repeat(size - empty - 1))));
        if packet.len() != size {
            packet = bytes(envelope(8, map(ACK).with("x", "a".repeat(size - empty - 2))));
        }
        assert_eq!(packet.len(), size);
        packet
    };
    let error = |packet: &[u8], dialect| {
        decode(packet, Side::Client, dialect, &limits)
            .remove(0)
            .map(|_| ())
            .map_err(|error| (error.code(), error.close()))
    };
    assert_eq!(error(&sized(200), Dialect::Full), Ok(()));
    assert_eq!(error(&sized(201), Dialect::Full), Err((Code::TooLarge, None)));
    assert_eq!(error(&sized(400), Dialect::Full), Err((Code::TooLarge, None)));
    assert_eq!(error(&sized(401), Dialect::Full), Err((Code::TooLarge, Some(TOO_BIG))));
    // The size of a packet in a room is the platform's.
    assert_eq!(error(&sized(RELIABLE_PACKET), Dialect::LiveKit), Ok(()));
    let (code, _) = error(&sized(RELIABLE_PACKET + 1), Dialect::LiveKit).unwrap_err();
    assert_eq!(code, Code::TooLarge);
}

#[test]
fn arrays_hold_64_envelopes_at_most() {
    let batch = |count: usize| bytes(Value::Array(vec![envelope(8, map(ACK)).into(); count]));
    let read = all(&batch(64), Side::Client, Dialect::Full);
    assert!(read.len() == 64 && read.iter().all(Result::is_ok));
    let refused = all(&batch(65), Side::Client, Dialect::Full);
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].as_ref().unwrap_err().code(), Code::TooLarge);
}

#[test]
fn al_012_a_type_from_the_wrong_side_is_refused_before_its_body_is_read() {
    for kind in MessageType::ALL {
        for from in [Side::Client, Side::Server] {
            let read = body(kind.number(), Map::new(), from);
            let refused = read.is_err_and(|error| error.code() == Code::WrongSide);
            assert_eq!(refused, !kind.is_sent_by(from), "{kind} from {from:?}");
        }
    }
    assert_eq!(Code::WrongSide.severity(), Severity::Warning);
}

#[test]
fn al_012_the_table_of_directions_and_classes_is_that_of_the_reference() {
    let table: Vec<String> = MessageType::ALL
        .iter()
        .map(|kind| {
            let direction = match kind.direction() {
                Direction::ToServer => ">",
                Direction::ToClient => "<",
                Direction::Both => "=",
            };
            let class = match kind.class() {
                Class::Sequenced => "Q",
                Class::Unsequenced => "U",
                Class::Depends => "?",
                Class::Never => "-",
            };
            let socket = if kind.transports() == Transports::WebSocket { "w" } else { "" };
            format!("{}{direction}{class}{socket}", kind.number())
        })
        .collect();
    let expected = "1=? 2=U 3<Q 4=U 5<Q 6<Q 7=Q 8=U 9<? 10>- 11>- 12=U 13<Q 14<Q 15=Q 16<Q 17>-w 18<Uw 20>- 21<U 22>- \
         23<U 24>- 25<U 26<U 27<U 28<Uw 29>- 30>- 31<U 40>-w 41>-w 42<Uw 43<Uw";
    assert_eq!(table.join(" "), expected);
    let acknowledged: Vec<u16> =
        MessageType::ALL.iter().filter(|kind| kind.is_acknowledged()).map(|kind| kind.number()).collect();
    assert_eq!(acknowledged, [2, 7, 10, 11, 15, 29, 30]);
}

#[test]
fn al_012_sockets_have_types_that_rooms_have_not() {
    let packet = bytes(envelope(40, Map::new()));
    assert!(all(&packet, Side::Client, Dialect::Full)[0].is_ok());
    let error = all(&packet, Side::Client, Dialect::LiveKit).remove(0).unwrap_err();
    assert_eq!(error.code(), Code::WrongSide);
}

#[test]
fn al_012_clients_do_not_ask_for_tools() {
    let members = r#"{"id": "atu_1", "messageId": "am_1", "toolName": "clock", "parameters": {}, "execution": "server"}"#;
    let packet = bytes(envelope(6, map(members)));
    let error = all(&packet, Side::Client, Dialect::Full).remove(0).unwrap_err();
    assert_eq!(error.code(), Code::WrongSide);
}

#[test]
fn al_013_two_conversations_in_one_envelope_are_refused() {
    for (number, members, from) in [
        (8, ACK, Side::Client),
        (2, r#"{"id": "am_1", "content": "hi"}"#, Side::Client),
        (12, "{}", Side::Client),
        (40, "{}", Side::Client),
        (10, "{}", Side::Client),
        (
            27,
            r#"{"messageCount": 1, "toolCallCount": 1, "memoriesUsed": 1, "sessionDuration": 1}"#,
            Side::Server,
        ),
    ] {
        let error = body(number, map(members).with("conversationId", "ac_other"), from).unwrap_err();
        assert_eq!(error.code(), Code::Conversation, "{number}");
        assert_eq!(error.origin.conversation_id, Some(Id::new(CONV).unwrap()));
        assert!(error.report(Id::new("err_1").unwrap()).unwrap().recoverable);
    }
}

#[test]
fn al_013_only_handshake_and_subscription_may_name_the_conversation_in_the_body_alone() {
    let nameless = |number: u16, members: &str| {
        read(
            envelope(number, map(members).with("conversationId", CONV)).with("conversationId", ""),
            Side::Client,
        )
    };
    for number in [12, 40, 41] {
        assert_eq!(nameless(number, "{}").unwrap().conversation_id, Some(Id::new(CONV).unwrap()));
    }
    assert_eq!(nameless(8, ACK).unwrap_err().code(), Code::Conversation);
}

#[test]
fn stanza_ids_with_the_sign_of_the_other_side_are_out_of_order() {
    let numbered = |stanza_id: i64, from| read(envelope(8, map(ACK)).with("stanzaId", stanza_id), from);
    assert_eq!(numbered(-1, Side::Client).unwrap_err().code(), Code::StanzaOrder);
    assert_eq!(numbered(1, Side::Server).unwrap_err().code(), Code::StanzaOrder);
    assert!(numbered(1, Side::Client).is_ok() && numbered(-1, Side::Server).is_ok());
}

#[test]
fn ids_of_failed_generators_are_refused_for_new_rows_alone() {
    let note = |action: &str| {
        format!(
            r#"{{"id": "an_fallback", "messageId": "am_1", "content": "x", "category": "", "action": "{action}", "timestamp": 1}}"#
        )
    };
    let vote = r#"{"id": "av_fallback", "messageId": "am_1", "targetType": "message", "targetId": "am_1", "vote": "up", "timestamp": 1}"#;
    let memory = r#"{"id": "amem_fallback", "action": "create", "memory": {"content": "x"}, "timestamp": 1}"#;
    for (number, members) in [
        (2, r#"{"id": "am_fallback", "content": "hi"}"#),
        (15, r#"{"id": "aucc_fallback", "content": "hi"}"#),
        (20, vote),
        (22, &note("create")),
        (24, memory),
    ] {
        assert_eq!(client_code(number, members), Err(Code::OutOfRange), "{number}");
    }
    assert_eq!(client_code(22, &note("delete")), Ok(()));
    assert_eq!(client_code(24, r#"{"id": "amem_fallback", "action": "pin", "timestamp": 1}"#), Ok(()));
    let announced = body(2, map(r#"{"id": "am_fallback", "content": "hi"}"#), Side::Server);
    assert!(announced.is_ok());
}

#[test]
fn errors_name_what_they_answer() {
    let id = || Id::new("err_1").unwrap();
    let empty = envelope(2, map(r#"{"id": "am_1", "content": " "}"#)).with("stanzaId", 7_i64);
    let error = read(empty, Side::Client).unwrap_err();
    assert_eq!((error.origin.stanza_id, error.origin.number, error.origin.lite), (7, Some(2), Some(false)));
    let report = error.report(id()).unwrap();
    assert_eq!(report.originating_id, Some(Id::new("am_1").unwrap()));
    assert_eq!((report.code, report.severity, report.recoverable), (105, Severity::Error, true));
    assert_eq!(report.message.0, "UserMessage: content must not be empty");

    // Without an id, the stanza names it; without either, nothing does.
    let nameless = envelope(10, map(r#"{"stopType": "now"}"#));
    let error = read(nameless.clone().with("stanzaId", 7_i64), Side::Client).unwrap_err();
    assert_eq!(error.report(id()).unwrap().originating_id, Some(Id::new("7").unwrap()));
    assert_eq!(read(nameless, Side::Client).unwrap_err().report(id()).unwrap().originating_id, None);

    // Errors are never answered with errors.
    assert_eq!(read(envelope(1, map("{}")), Side::Client).unwrap_err().report(id()), None);

    // The answer is itself an envelope that can be sent.
    let answer = switchboard_alicia::Envelope::new(Id::new(CONV).ok(), report);
    assert!(matches!(one(&encode(&answer), Side::Server), Ok(Decoded::Full { .. })));
}

#[test]
fn long_error_texts_are_cut_between_characters() {
    let report = Code::Internal.report(Id::new("err_1").unwrap(), &"é".repeat(2_000));
    assert_eq!(report.message.0.len(), 2_048);
    let odd = Code::Internal.report(Id::new("err_1").unwrap(), &format!("a{}", "é".repeat(2_000)));
    assert_eq!(odd.message.0.len(), 2_047);
}

#[test]
fn the_table_of_codes_is_that_of_the_reference() {
    let table: Vec<(u16, u8, bool)> = Code::ALL
        .iter()
        .map(|code| (code.number(), code.severity().number(), code.recovers() == Recovers::Always))
        .collect();
    let expected = [
        (101, 2, true),
        (102, 1, true),
        (103, 1, true),
        (104, 2, true),
        (105, 2, true),
        (201, 2, false),
        (202, 2, false),
        (203, 2, true),
        (301, 2, true),
        (304, 2, true),
        (501, 2, false),
        (502, 2, true),
        (503, 2, true),
        (504, 1, true),
        (505, 1, true),
    ];
    assert_eq!(table, expected);
    for code in Code::ALL {
        assert_eq!(Code::from_number(code.number()), Some(*code));
    }
    assert_eq!(Code::from_number(100), None);
}
