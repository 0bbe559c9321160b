//! What is encoded is decoded again, no text makes a decoder panic, and the rules of §3.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use switchboard_aip::codec::{decode_client, decode_server, encode_client, encode_server, timestamp, uuid};
use switchboard_aip::message::*;
use switchboard_core::{Seed, Timestamp};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,30}", "[\r\n\\\\\"\u{0}-\u{1f}é😀\u{2028}]{0,10}"]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((text(), inner), 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    vec((text(), value()), 0..6).prop_map(|members| members.into_iter().collect())
}

fn command() -> impl Strategy<Value = Command> {
    (text(), of(object()), select(ToolType::ALL), of(text())).prop_map(
        |(tool_name, parameters, tool_type, call_id)| Command { tool_name, parameters, tool_type, call_id },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (select(ResultStatus::ALL), of(text()), value(), of(text()), of(text())).prop_map(
        |(status, error, result, namespace, call_id)| Outcome { status, error, result, namespace, call_id },
    )
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let words = (select(ClientMessageType::ALL), select(TaskStatus::ALL), select(ClientType::ALL));
    let texts = vec(of(text()), 9);
    (words, texts, of(vec(outcome(), 0..3)), of(object())).prop_map(
        |((kind, status, client_type), mut texts, action_results, metadata)| {
            let mut text = || texts.pop().flatten();
            ClientMessage {
                kind,
                status,
                client_type,
                session_id: text(),
                task_name: text(),
                client_id: text(),
                target_id: text(),
                request: text(),
                action_results,
                timestamp: text(),
                request_id: text(),
                prev_response_id: text(),
                error: text(),
                metadata,
            }
        },
    )
}

fn server_message() -> impl Strategy<Value = ServerMessage> {
    let words = (select(ServerMessageType::ALL), select(TaskStatus::ALL));
    let lists = (of(vec(command(), 0..3)), of(vec(text(), 0..3)));
    (words, vec(of(text()), 9), lists, value()).prop_map(
        |((kind, status), mut texts, (actions, messages), result)| {
            let mut text = || texts.pop().flatten();
            ServerMessage {
                kind,
                status,
                user_request: text(),
                agent_name: text(),
                process_name: text(),
                root_name: text(),
                actions,
                messages,
                error: text(),
                session_id: text(),
                task_name: text(),
                timestamp: text(),
                response_id: text(),
                result: Some(result.into()).filter(|result: &std::sync::Arc<Value>| !result.is_null()),
            }
        },
    )
}

/// Nothing JSON, or something like it.
fn noise() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u",
        "d800",
        "\\ud800",
        "null",
        "type",
        "task",
        "status",
        "\"type\"",
        "\"task\"",
        "\"status\":\"ok\"",
        "\"client_type\"",
        "1e9",
        "-",
        "0",
        " ",
        "\u{feff}",
        "é",
    ]);
    prop_oneof![".{0,60}", vec(piece, 0..40).prop_map(|pieces| pieces.concat())]
}

proptest! {
    #[test]
    fn what_a_client_says_is_read_again(message in client_message()) {
        let text = encode_client(&message);
        prop_assert_eq!(decode_client(&text), Ok(message));
    }

    #[test]
    fn what_a_server_says_is_read_again(message in server_message()) {
        let text = encode_server(&message);
        prop_assert_eq!(decode_server(&text), Ok(message));
    }

    #[test]
    fn no_text_makes_a_decoder_panic(text in noise()) {
        for error in [decode_client(&text).err(), decode_server(&text).err()].into_iter().flatten() {
            let shown = error.to_string();
            prop_assert!(!shown.is_empty() && shown.chars().count() <= 1024);
        }
    }

    #[test]
    fn half_a_message_is_an_error(message in client_message(), cut in any::<prop::sample::Index>()) {
        let text = encode_client(&message);
        let mut end = cut.index(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        prop_assert!(decode_client(&text[..end]).is_err());
    }

    #[test]
    fn no_order_of_keys_is_wrong(message in server_message(), order in any::<u64>()) {
        let Value::Object(object) = serde_json::from_str(&encode_server(&message)).unwrap() else { panic!() };
        let mut members: Vec<(String, Value)> = object.into_iter().collect();
        let by = usize::try_from(order % 14).unwrap();
        members.rotate_left(by);
        members.reverse();
        let members: Vec<String> = members.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
        prop_assert_eq!(decode_server(&format!("{{{}}}", members.join(","))), Ok(message));
    }
}

#[test]
fn aip_010_every_field_is_sent_in_order() {
    let message = ServerMessage::new(ServerMessageType::Heartbeat, TaskStatus::Ok);
    assert_eq!(
        encode_server(&message),
        r#"{"type":"heartbeat","status":"ok","user_request":null,"agent_name":null,"process_name":null,"root_name":null,"actions":null,"messages":null,"error":null,"session_id":null,"task_name":null,"timestamp":null,"response_id":null,"result":null}"#
    );
    let message = ClientMessage::new(ClientMessageType::Register, TaskStatus::Ok);
    assert_eq!(
        encode_client(&message),
        r#"{"type":"register","status":"ok","client_type":"device","session_id":null,"task_name":null,"client_id":null,"target_id":null,"request":null,"action_results":null,"timestamp":null,"request_id":null,"prev_response_id":null,"error":null,"metadata":null}"#
    );
}

#[test]
fn aip_011_a_message_needs_only_its_type_and_status() {
    for kind in ClientMessageType::ALL {
        for status in TaskStatus::ALL {
            let text = format!(r#"{{"type":"{kind}","status":"{status}"}}"#);
            assert_eq!(decode_client(&text), Ok(ClientMessage::new(*kind, *status)));
        }
    }
    let text = r#"{"type":"command","status":"continue","actions":[{"tool_name":"t","tool_type":"action"}]}"#;
    let command =
        Command { tool_name: "t".to_owned(), parameters: None, tool_type: ToolType::Action, call_id: None };
    assert_eq!(decode_server(text).unwrap().actions, Some(vec![command]));
    let text = r#"{"type":"command_results","status":"continue","action_results":[{"status":"none"}]}"#;
    assert_eq!(decode_client(text).unwrap().action_results, Some(vec![Outcome::new(ResultStatus::None)]));
}

#[test]
fn aip_012_unknown_fields_are_passed_over() {
    let known =
        decode_client(r#"{"type":"heartbeat","status":"ok","action_results":[{"status":"success"}]}"#);
    let text = r#"{"future":[1,-2,2.5,1e300,null,true,{"a":"b\u0041"}],"Type":5,"type":"heartbeat","result":"r",
        "status":"ok","action_results":[{"x":{},"status":"success","y":9007199254740993}],"response_id":[[]]}"#;
    assert_eq!(decode_client(text), known);
    assert!(!encode_client(&known.unwrap()).contains("future"));
    // What is not JSON is not JSON in there either.
    for wrong in [r#""\ud800""#, r#"["\udc00x"]"#, r#"{"\ud83d":1}"#, "01", "+1", "NaN", "\"a\u{1}\"", "'a'"]
    {
        let text = format!(r#"{{"type":"heartbeat","status":"ok","future":{wrong}}}"#);
        assert!(decode_client(&text).unwrap_err().to_string().starts_with("not JSON"), "{text}");
    }
}

#[test]
fn aip_013_what_is_of_another_kind_is_refused_by_name() {
    let cases = [
        ("", "not JSON at line 1 column 0"),
        ("null", "the message must not be null"),
        (r#"["register","ok"]"#, "the message must not be an array"),
        (r#"["task","ok","device",1,1,1,1,1,1,1,1,1,1,1]"#, "the message must not be an array"),
        ("5", "the message must not be a number"),
        ("{}", "type is required"),
        (r#"{"type":"task"}"#, "status is required"),
        (r#"{"type":null,"status":"ok"}"#, "type must not be null"),
        (r#"{"type":"TASK","status":"ok"}"#, r#"type "TASK" is unknown"#),
        (r#"{"type":"command","status":"ok"}"#, r#"type "command" is unknown"#),
        (r#"{"type":{"task":null},"status":"ok"}"#, "type must not be an object"),
        (r#"{"type":"task","status":"Ok"}"#, r#"status "Ok" is unknown"#),
        (r#"{"type":"task","status":true}"#, "status must not be a boolean"),
        (r#"{"type":"task","status":"ok","client_type":null}"#, "client_type must not be null"),
        (r#"{"type":"task","status":"ok","client_type":"Device"}"#, r#"client_type "Device" is unknown"#),
        (r#"{"type":"task","status":"ok","request":5}"#, "request must not be a number"),
        (
            r#"{"type":"task","status":"ok","request":123456789012345678901234567890}"#,
            "request must not be a number",
        ),
        (r#"{"type":123456789012345678901234567890,"status":"ok"}"#, "type must not be a number"),
        (
            r#"{"type":"task","status":"ok","metadata":-123456789012345678901234567890}"#,
            "metadata must not be a number",
        ),
        (r#"{"type":"task","status":"ok","session_id":["s"]}"#, "session_id must not be an array"),
        (r#"{"type":"task","status":"ok","timestamp":1.5}"#, "timestamp must not be a number"),
        (r#"{"type":"task","status":"ok","metadata":"secret"}"#, "metadata must not be a string"),
        (r#"{"type":"task","status":"ok","metadata":[]}"#, "metadata must not be an array"),
        (r#"{"type":"task","status":"ok","action_results":{}}"#, "action_results must not be an object"),
        (
            r#"{"type":"task","status":"ok","action_results":[{"status":"none"},{}]}"#,
            "action_results[1].status is required",
        ),
        (
            r#"{"type":"task","status":"ok","action_results":[["none",null,null,null,null]]}"#,
            "action_results[0] must not be an array",
        ),
        (
            r#"{"type":"task","status":"ok","action_results":[{"status":"good"}]}"#,
            r#"action_results[0].status "good" is unknown"#,
        ),
    ];
    for (text, why) in cases {
        assert_eq!(decode_client(text).unwrap_err().to_string(), why, "{text}");
    }
    let start = r#"{"type":"command","status":"ok","actions":[{"tool_name":"t","#;
    for (rest, why) in [
        (r#""tool_type":"both"}]}"#, r#"actions[0].tool_type "both" is unknown"#),
        (r#""tool_type":null}]}"#, "actions[0].tool_type must not be null"),
        (r#""tool_type":"action","parameters":[1]}]}"#, "actions[0].parameters must not be an array"),
        (r#""call_id":"c"}]}"#, "actions[0].tool_type is required"),
    ] {
        assert_eq!(decode_server(&format!("{start}{rest}")).unwrap_err().to_string(), why);
    }
    let long = format!(r#"{{"type":"a\nb{}","status":"ok"}}"#, "x".repeat(5000));
    let shown = decode_client(&long).unwrap_err().to_string();
    assert!(shown.starts_with(r#"type "a\nbxxx"#) && shown.chars().count() <= 1024, "{shown}");
}

#[test]
fn a_refusal_carries_the_ids_that_could_be_read() {
    let ids = |text: &str| {
        let error = decode_client(text).unwrap_err();
        (error.session_id, error.request_id)
    };
    let (s, r) = (Some("s".to_owned()), Some("r".to_owned()));
    assert_eq!(
        ids(r#"{"session_id":"s","type":"x","status":"ok","request_id":"r"}"#),
        (s.clone(), r.clone())
    );
    assert_eq!(ids(r#"{"session_id":5,"type":"task","status":"ok","request_id":"r"}"#), (None, r.clone()));
    assert_eq!(ids(r#"{"session_id":123456789012345678901234567890,"request_id":"r"}"#), (None, r.clone()));
    assert_eq!(ids(r#"{"session_id":{"a":[1]},"request_id":[{}],"x":1}"#), (None, None));
    assert_eq!(ids(r#"{"session_id":"q","session_id":"s","request_id":null}"#), (s.clone(), None));
    assert_eq!(ids(r#"{"session_id":"s","request_id":"r","type":"tas"#), (s.clone(), r));
    assert_eq!(ids("[]"), (None, None));
    let deep = format!(r#"{{"metadata":{}{},"session_id":"s"}}"#, "[".repeat(400), "]".repeat(400));
    assert_eq!(ids(&deep), (s, None));
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let text = r#"{"type":5,"type":"error","type":"task","status":[],"status":"ok","request":"a","request":"b",
        "client_type":null,"client_type":"constellation","action_results":[{"status":1,"status":"success",
        "result":1,"result":12345678901234567890123}],"metadata":{"k":1,"k":2},"error":"e","error":null}"#;
    let message = decode_client(text).unwrap();
    assert_eq!(message.kind, ClientMessageType::Task);
    assert_eq!(message.client_type, ClientType::Constellation);
    assert_eq!(message.request.as_deref(), Some("b"));
    assert_eq!(message.error, None);
    assert!(encode_client(&message).contains(r#""result":12345678901234567890123,"#));
    assert_eq!(message.metadata.unwrap().get("k"), Some(&json!(2)));
    // A later one that is wrong is wrong.
    assert_eq!(
        decode_client(r#"{"type":"task","status":"ok","type":"x"}"#).unwrap_err().to_string(),
        r#"type "x" is unknown"#
    );
}

#[test]
fn aip_014_a_missing_client_type_is_a_device() {
    let message = decode_client(r#"{"type":"register","status":"ok","client_id":"d"}"#).unwrap();
    assert_eq!(message.client_type, ClientType::Device);
}

#[test]
fn aip_015_timestamps_have_an_offset_and_any_string_is_taken() {
    let at = Timestamp::from_micros(1_762_425_000_123_456);
    assert_eq!(timestamp(at), "2025-11-06T10:30:00.123456+00:00");
    assert_eq!(timestamp(Timestamp::from_micros(1_762_425_000_000_001)), "2025-11-06T10:30:00.000001+00:00");
    assert_eq!(timestamp(Timestamp::from_secs(1_762_425_000)), "2025-11-06T10:30:00+00:00");
    assert_eq!(timestamp(Timestamp::from_secs(0)), "1970-01-01T00:00:00+00:00");
    for free in ["2025-11-06T10:30:00Z", "yesterday", ""] {
        let text = format!(r#"{{"type":"heartbeat","status":"ok","timestamp":"{free}"}}"#);
        assert_eq!(decode_client(&text).unwrap().timestamp.as_deref(), Some(free));
    }
}

#[test]
fn aip_016_text_and_numbers_pass_unchanged() {
    // 30 digits, 2^53 + 1, and a float of 17 digits.
    let numbers =
        "[123456789012345678901234567890,9007199254740993,-18446744073709551617,0.30000000000000004]";
    let words = r#"{"é😀\u001b":"日本 \" \\ \u0000 ﷽"}"#;
    let command = format!(
        r#""actions":[{{"tool_name":"t","parameters":{{"n":{numbers},"w":{words}}},"tool_type":"action","call_id":null}}]"#
    );
    let text = encode_server(&ServerMessage::new(ServerMessageType::Command, TaskStatus::Continue))
        .replace(r#""actions":null"#, &command);
    assert_eq!(encode_server(&decode_server(&text).unwrap()), text);
    let result = format!(
        r#""action_results":[{{"status":"success","error":null,"result":[{numbers},{words}],"namespace":null,"call_id":"é"}}]"#
    );
    let text = encode_client(&ClientMessage::new(ClientMessageType::CommandResults, TaskStatus::Continue))
        .replace(r#""action_results":null"#, &result);
    assert_eq!(encode_client(&decode_client(&text).unwrap()), text);
}

#[test]
fn aip_017_deep_messages_are_refused_and_nothing_breaks() {
    let nested = |depth: usize, open: &str, close: &str| {
        // The message and its metadata are two levels.
        let (open, close) = (open.repeat(depth - 2), close.repeat(depth - 2));
        format!(r#"{{"type":"heartbeat","status":"ok","metadata":{{"a\"[[[":{open}1{close}}}}}"#)
    };
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for depth in [2, 127, 128, 129, 200, 201] {
            let text = nested(depth, open, close);
            let message = decode_client(&text).unwrap_or_else(|error| panic!("{depth}: {error}"));
            assert_eq!(decode_client(&encode_client(&message)), Ok(message));
        }
        for depth in [202, 256, 400, 1_000_000] {
            let error = decode_client(&nested(depth, open, close)).unwrap_err();
            assert_eq!(error.to_string(), "nested more than 201 levels deep");
        }
    }
    for wrong in ["[".repeat(1_000_000), "{\"a\":".repeat(1_000_000), "]".repeat(1_000_000)] {
        assert!(decode_client(&wrong).is_err());
        assert!(decode_server(&wrong).is_err());
    }
    // Side by side is not deep.
    for item in ["[]", "{}"] {
        let wide =
            format!(r#"{{"type":"heartbeat","status":"ok","metadata":{{"a":[{}]}}}}"#, [item; 300].join(","));
        assert!(decode_client(&wide).is_ok());
    }
    // Unknown fields and repeated ones are no way around it.
    for key in ["future", "type"] {
        let deep =
            format!(r#"{{"{key}":{}{},"type":"heartbeat","status":"ok"}}"#, "[".repeat(201), "]".repeat(201));
        assert!(decode_client(&deep).is_err());
        let flat =
            format!(r#"{{"{key}":{}{},"type":"heartbeat","status":"ok"}}"#, "[".repeat(200), "]".repeat(200));
        assert!(decode_client(&flat).is_ok());
    }
}

#[test]
fn an_id_is_a_uuid_of_version_4() {
    let seed = Seed::new([7; 32]);
    for counter in 0..64 {
        let id = uuid(&seed, counter);
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts.concat().bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')), "{id}");
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        assert_ne!(id, uuid(&seed, counter + 1));
    }
}
