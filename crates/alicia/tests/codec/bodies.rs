//! Defaults, aliases and unknown names, body by body.

use switchboard_alicia::message::{
    AnswerType, Configuration, DimensionPreference, Feature, MemoryActionKind, MemoryCategory, Mode,
    NoteAction, NoteCategory, Preset, Role, StopType, ToolError, ToolUseRequest, ToolUseResult,
};
use switchboard_alicia::{AliciaLimits, Body, Class, Code, Envelope, Id, Side, Value, Word};

use crate::support::{CONV, body, client_code, envelope, map, read, server_code};

/// The body of this type; panics if it is another.
macro_rules! typed {
    ($name:ident, $number:literal, $from:ident, $members:expr) => {
        match body($number, map($members), Side::$from).unwrap() {
            Body::$name(body) => body,
            other => panic!("{other:?}"),
        }
    };
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

#[test]
fn user_messages_are_not_blank() {
    assert_eq!(client_code(2, r#"{"id": "am_1", "content": " \n\t "}"#), Err(Code::OutOfRange));
    assert_eq!(client_code(2, r#"{"id": "am_1", "content": " x "}"#), Ok(()));
}

#[test]
fn what_a_server_adds_on_a_socket_stands_behind_the_core() {
    let members = r#"{"id": "am_1", "content": "hi", "contents": "hi", "role": "user", "sequenceNumber": 7,
        "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z", "serverId": "am_1"}"#;
    for number in [2, 3] {
        let envelope = read(envelope(number, map(members)), Side::Server).unwrap();
        let written = envelope.body.to_map(Some(&id(CONV)));
        let keys: Vec<&str> = written.iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "id",
                "conversationId",
                "content",
                "contents",
                "role",
                "sequenceNumber",
                "createdAt",
                "updatedAt",
                "serverId"
            ]
        );
    }
    let message = typed!(UserMessage, 2, Server, members);
    assert_eq!(message.superset.unwrap().role, Word::Known(Role::User));
    // Broken ones are ignored like any unknown key.
    let broken =
        typed!(UserMessage, 2, Client, r#"{"id": "am_1", "content": "hi", "contents": 7, "role": []}"#);
    assert_eq!(broken.superset, None);
}

#[test]
fn audio_is_read_under_its_older_keys() {
    let old = typed!(AudioChunk, 4, Client, r#"{"format": "x", "seq": 3, "duration": 20.0}"#);
    assert_eq!((old.sequence, old.duration_ms, old.is_last), (3, 20, false));
    let both = typed!(
        AudioChunk,
        4,
        Client,
        r#"{"format": "x", "sequence": 1, "seq": 3, "durationMs": 5, "duration": 20}"#
    );
    assert_eq!((both.sequence, both.duration_ms), (1, 5));
}

#[test]
fn al_063_a_missing_or_unknown_execution_is_malformed() {
    let members = |rest: &str| {
        format!(r#"{{"id": "atu_1", "messageId": "am_1", "toolName": "clock", "parameters": {{}}{rest}}}"#)
    };
    for execution in ["server", "client", "either"] {
        assert_eq!(server_code(6, &members(&format!(r#", "execution": "{execution}""#))), Ok(()));
    }
    for rest in ["", r#", "execution": null"#, r#", "execution": "Server""#, r#", "execution": "both""#] {
        assert_eq!(server_code(6, &members(rest)), Err(Code::Malformed), "{rest}");
    }
}

#[test]
fn al_064_a_tool_has_30_seconds_unless_told_otherwise_and_300_at_most() {
    let limits = AliciaLimits::default();
    let request = |rest: &str| -> ToolUseRequest {
        let members = format!(
            r#"{{"id": "atu_1", "messageId": "am_1", "toolName": "clock", "parameters": {{}}, "execution": "client"{rest}}}"#
        );
        typed!(ToolUseRequest, 6, Server, &members)
    };
    assert_eq!(request("").time(&limits), Ok(30_000));
    assert_eq!(request(r#", "timeoutMs": null"#).time(&limits), Ok(30_000));
    assert_eq!(request(r#", "timeoutMs": 1"#).time(&limits), Ok(1));
    assert_eq!(request(r#", "timeoutMs": 300000"#).time(&limits), Ok(300_000));
    for time in ["0", "-1", "300001", "9223372036854775807"] {
        let request = request(&format!(r#", "timeoutMs": {time}"#));
        assert_eq!(request.time(&limits), Err(ToolError::InvalidParameters), "{time}");
    }
}

#[test]
fn al_066_a_result_names_its_request_or_is_named_like_it() {
    let both: ToolUseResult =
        typed!(ToolUseResult, 7, Client, r#"{"id": "r", "requestId": "atu_1", "success": true}"#);
    assert_eq!(both.request(), &id("atu_1"));
    for members in
        [r#"{"id": "atu_1", "success": true}"#, r#"{"id": "atu_1", "requestId": "", "success": true}"#]
    {
        assert_eq!(typed!(ToolUseResult, 7, Client, members).request(), &id("atu_1"));
    }
    assert_eq!(id("atu_1").result(), Ok(id("atu_1_result")));
}

#[test]
fn codes_of_tools_are_read_in_both_cases_and_written_in_one() {
    let read = |name: &str| {
        let members = format!(r#"{{"id": "r", "success": false, "errorCode": "{name}"}}"#);
        typed!(ToolUseResult, 7, Client, &members).error_code
    };
    for (name, error) in [
        ("unknown_tool", ToolError::UnknownTool),
        ("TIMEOUT", ToolError::Timeout),
        ("TOOL_ERROR", ToolError::ExecutionError),
        ("EXECUTION_ERROR", ToolError::ExecutionError),
        ("invalid_parameters", ToolError::InvalidParameters),
        ("TOOL_CANCELLED", ToolError::Cancelled),
    ] {
        assert_eq!(read(name), Some(Word::Known(error)));
        assert!(error.name().chars().all(|c| !c.is_uppercase()));
    }
    assert_eq!(read("disk_full"), Some(Word::Other("disk_full".to_owned())));
}

#[test]
fn a_transcription_is_interim_unless_it_says_final() {
    let read =
        |rest: &str| typed!(Transcription, 9, Server, &format!(r#"{{"id": "am_1", "text": "x"{rest}}}"#));
    assert!(!read("").is_final);
    assert!(read(r#", "final": true"#).is_final);
    assert!(read(r#", "isFinal": true"#).is_final);
    assert!(!read(r#", "final": false, "isFinal": true"#).is_final);
    assert_eq!(Body::from(read("")).class(), Class::Unsequenced);
    assert_eq!(Body::from(read(r#", "final": true"#)).class(), Class::Sequenced);
    // Written whether or not it is.
    assert_eq!(Body::from(read("")).to_map(None).get("final"), Some(&Value::Bool(false)));
}

#[test]
fn al_073_an_omitted_stop_type_is_generation_and_an_unknown_one_malformed() {
    assert_eq!(typed!(ControlStop, 10, Client, "{}").stop_type.unwrap_or_default(), StopType::Generation);
    assert_eq!(typed!(ControlStop, 10, Client, r#"{"stopType": "all"}"#).stop_type, Some(StopType::All));
    assert_eq!(client_code(10, r#"{"stopType": "everything"}"#), Err(Code::Malformed));
}

#[test]
fn variations_need_a_known_mode_and_a_target() {
    let read = |mode: &str| {
        typed!(ControlVariation, 11, Client, &format!(r#"{{"targetId": "am_1", "mode": "{mode}"}}"#)).mode
    };
    assert_eq!(
        (read("edit"), read("regenerate"), read("continue")),
        (Mode::Edit, Mode::Regenerate, Mode::Continue)
    );
    assert_eq!(read("retry"), Mode::Regenerate);
    assert_eq!(client_code(11, r#"{"targetId": "am_1", "mode": "undo"}"#), Err(Code::Malformed));
    assert_eq!(client_code(11, r#"{"targetId": "am_1"}"#), Err(Code::Malformed));
    assert_eq!(client_code(11, r#"{"targetId": "", "mode": "edit"}"#), Err(Code::Malformed));
}

#[test]
fn al_027_both_signs_of_the_last_sequence_are_read_alike() {
    let seen = |text: &str| {
        typed!(Configuration, 12, Client, &format!(r#"{{"lastSequenceSeen": {text}}}"#)).last_sequence_seen
    };
    assert_eq!(
        (seen("25"), seen("-25"), seen("25.0"), seen("0")),
        (Some(-25), Some(-25), Some(-25), Some(0))
    );
    assert_eq!(seen("null"), None);
    assert_eq!(seen(&i64::MIN.to_string()), Some(-i64::MAX));
}

#[test]
fn features_have_synonyms() {
    let configuration = |words: &str| -> Configuration {
        typed!(Configuration, 12, Client, &format!(r#"{{"features": {words}}}"#))
    };
    let plain = configuration("[]");
    assert!(!plain.has(Feature::Streaming));
    assert!(configuration(r#"["streaming"]"#).has(Feature::Streaming));
    let partial = configuration(r#"["partial_responses", "telepathy"]"#);
    assert!(
        partial.has(Feature::Streaming)
            && partial.has(Feature::PartialResponses)
            && !partial.has(Feature::ToolUse)
    );
    assert!(configuration(r#"["reasoning_step_display"]"#).has(Feature::ReasoningSteps));
    let tools = configuration(r#"["tool_use", "tool:clock", "tool:files.read"]"#);
    assert_eq!(tools.tools().collect::<Vec<_>>(), ["clock", "files.read"]);
}

#[test]
fn hints_of_a_handshake_are_ignored_and_never_sent() {
    let configuration =
        typed!(Configuration, 12, Client, r#"{"lastStanzaMap": {"ac_1": 4}, "enableReordering": "yes"}"#);
    assert!(configuration.to_map(None).is_empty());
}

#[test]
fn unknown_answer_types_are_text() {
    let read = |rest: &str| {
        typed!(StartAnswer, 13, Server, &format!(r#"{{"id": "am_2", "previousId": "am_1"{rest}}}"#))
            .answer_type
    };
    assert_eq!(read(""), None);
    assert_eq!(read(r#", "answerType": "text+voice""#), Some(AnswerType::TextAndVoice));
    assert_eq!(read(r#", "answerType": "smell""#), Some(AnswerType::Text));
}

#[test]
fn withdrawn_keys_of_a_commentary_are_read_and_not_written() {
    let members = r#"{"id": "aucc_1", "targetId": "am_1", "content": "x", "commentType": "note", "authorRole": "user", "rating": 5}"#;
    let remark = typed!(Commentary, 15, Client, members);
    assert_eq!(remark.message_id, Some(id("am_1")));
    assert_eq!(remark.rating, Some(Value::Int(5)));
    assert!(remark.author_role.is_some());
    let written = remark.to_map(Some(&id(CONV)));
    let keys: Vec<&str> = written.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["id", "messageId", "conversationId", "content", "commentaryType"]);
    let own = typed!(Commentary, 15, Client, r#"{"id": "aucc_1", "content": "x", "commentaryType": "joke"}"#);
    assert_eq!((own.message_id, own.commentary_type), (None, Some(Word::Other("joke".to_owned()))));
}

#[test]
fn only_the_final_sentence_may_be_empty() {
    assert_eq!(
        server_code(16, r#"{"previousId": "am_2", "sequence": 1, "text": "", "isFinal": true}"#),
        Ok(())
    );
    assert_eq!(
        server_code(16, r#"{"previousId": "am_2", "sequence": 1, "text": ""}"#),
        Err(Code::OutOfRange)
    );
}

#[test]
fn what_is_wrong_with_an_offline_message_is_left_to_its_conflict() {
    let request = typed!(
        SyncRequest,
        17,
        Client,
        r#"{"messages": [{"sequenceNumber": 1, "contents": "x"}, {"localId": "", "sequenceNumber": 2, "role": "system", "contents": "", "createdAt": "yesterday", "previousId": ""}]}"#
    );
    assert_eq!(request.messages[0].local_id, "");
    assert_eq!(request.messages[0].role, Word::default());
    assert_eq!(request.messages[1].role, Word::Known(Role::System));
    assert_eq!(request.messages[1].previous_id, None);
    let request = typed!(
        SyncRequest,
        17,
        Client,
        r#"{"messages": [{"localId": "local_1", "createdAt": 5, "updatedAt": 5, "contents": 7, "role": 3}, 9, {"previousId": 5}]}"#
    );
    let [strange, none, refers] = &*request.messages else { panic!("{request:?}") };
    assert_eq!((strange.local_id.as_str(), strange.sequence_number), ("local_1", 0));
    assert_eq!((strange.created_at.as_str(), strange.contents.0.as_str()), ("", ""));
    assert_eq!(strange.role, Word::default());
    assert_eq!(none.local_id, "", "what is no map has no members");
    assert!(refers.previous_id.is_some(), "it follows nothing there is, instead of the tip");
    let error = body(17, map(r#"{"messages": 7}"#), Side::Client);
    assert_eq!(error.unwrap_err().code(), Code::Malformed);
}

#[test]
fn votes_need_a_known_target_and_value_but_no_known_reason() {
    let vote = |key: &str, value: &str| {
        let members = map(
            r#"{"id": "av_1", "messageId": "am_1", "targetType": "message", "targetId": "am_1", "vote": "up", "timestamp": 1}"#,
        );
        body(20, members.with(key.to_owned(), value), Side::Client)
    };
    for value in ["up", "down", "critical", "remove"] {
        assert!(vote("vote", value).is_ok());
    }
    for value in
        ["message", "tool_use", "memory", "reasoning", "sentence", "memory_usage", "memory_extraction"]
    {
        assert!(vote("targetType", value).is_ok());
    }
    assert_eq!(vote("vote", "sideways").unwrap_err().code(), Code::OutOfRange);
    assert_eq!(vote("targetType", "weather").unwrap_err().code(), Code::OutOfRange);
    let Body::Feedback(feedback) = vote("quickFeedback", "ugly").unwrap() else { panic!("type") };
    assert_eq!(feedback.quick_feedback, None);
}

#[test]
fn a_vote_that_is_gone_is_empty_or_nil() {
    let members = r#"{"feedbackId": "av_1", "targetType": "message", "targetId": "am_1",
        "aggregates": {"upvotes": 1, "downvotes": 0, "specialVotes": {"critical": 2}}, "userVote": "#;
    for text in [r#""""#, "null"] {
        let confirmation = typed!(FeedbackConfirmation, 21, Server, &format!("{members}{text}}}"));
        assert_eq!(confirmation.user_vote, None);
        assert_eq!(confirmation.aggregates.special_votes.clone().unwrap().0, [("critical".to_owned(), 2)]);
        assert_eq!(confirmation.to_map(None).get_str("userVote"), Some(""));
    }
}

#[test]
fn notes_have_a_category_and_may_be_emptied_to_delete_them() {
    let note = |content: &str, category: &str, action: &str| {
        let members = format!(
            r#"{{"id": "an_1", "messageId": "am_1", "content": "{content}", "category": "{category}", "action": "{action}", "timestamp": 1}}"#
        );
        body(22, map(&members), Side::Client)
    };
    let Body::UserNote(empty) = note("", "", "delete").unwrap() else { panic!("type") };
    assert_eq!((empty.category, empty.action), (NoteCategory::General, Word::Known(NoteAction::Delete)));
    assert_eq!(note("x", "gossip", "create").unwrap_err().code(), Code::OutOfRange);
    for action in ["create", "update"] {
        assert_eq!(note("", "general", action).unwrap_err().code(), Code::OutOfRange);
    }
    // An unknown action is answered with a confirmation, so it has to get through.
    let Body::UserNote(odd) = note("", "general", "frame").unwrap() else { panic!("type") };
    assert_eq!(odd.action, Word::Other("frame".to_owned()));
}

#[test]
fn memories_are_facts_unless_told_otherwise() {
    let memory = |category: &str| {
        let members = format!(
            r#"{{"id": "amem_1", "action": "create", "memory": {{"content": "x"{category}}}, "timestamp": 1}}"#
        );
        body(24, map(&members), Side::Client)
    };
    for category in ["", r#", "category": """#, r#", "category": "fact""#] {
        let Body::MemoryAction(action) = memory(category).unwrap() else { panic!("type") };
        assert_eq!(action.action, Word::Known(MemoryActionKind::Create));
        let content = action.memory.unwrap();
        assert_eq!((content.category, content.pinned), (MemoryCategory::Fact, false));
    }
    let error = memory(r#", "category": "rumour""#).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().starts_with("MemoryAction: memory.category must be one of")),
        (Code::OutOfRange, true)
    );
    assert_eq!(client_code(24, r#"{"id": "amem_1", "action": "explode", "timestamp": 1}"#), Ok(()));
}

#[test]
fn memories_need_words_to_be_made_or_changed_and_for_nothing_else() {
    for memory in ["{}", r#"{"pinned": true}"#, r#"{"content": ""}"#] {
        let with = |action: &str| {
            let members =
                format!(r#"{{"id": "amem_1", "action": "{action}", "memory": {memory}, "timestamp": 1}}"#);
            client_code(24, &members)
        };
        assert_eq!((with("create"), with("update")), (Err(Code::OutOfRange), Err(Code::OutOfRange)));
        assert_eq!((with("pin"), with("archive"), with("delete")), (Ok(()), Ok(()), Ok(())));
    }
}

#[test]
fn al_086_weights_sum_to_1_and_all_zero_is_balanced() {
    let read = |members: &str| -> DimensionPreference { typed!(DimensionPreference, 29, Client, members) };
    let resolved = |members: &str| read(members).resolved().to_array();
    let close = |left: [f64; 7], right: [f64; 7]| {
        left.iter().zip(right).all(|(left, right)| (left - right).abs() < 1e-12)
    };
    let balanced = Preset::Balanced.dimensions().to_array();
    assert!(close(
        resolved(r#"{"weights": {"quality": 0.5, "efficiency": 0.5}, "timestamp": 1}"#),
        [0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    ));
    assert!(close(
        resolved(r#"{"weights": {"quality": 1, "efficiency": 1}, "timestamp": 1}"#),
        [0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    ));
    assert!(close(resolved(r#"{"weights": {}, "timestamp": 1}"#), balanced));
    let zero = r#""successRate": 0, "quality": 0, "efficiency": 0, "robustness": 0, "generalization": 0, "diversity": 0, "innovation": 0"#;
    assert!(close(
        resolved(&format!(r#"{{"weights": {{{zero}}}, "preset": "speed", "timestamp": 1}}"#)),
        balanced
    ));
    // A known preset fills what is missing; an unknown one counts as none.
    assert!(close(
        resolved(r#"{"weights": {}, "preset": "speed", "timestamp": 1}"#),
        Preset::Speed.dimensions().to_array()
    ));
    let filled = resolved(r#"{"weights": {"successRate": 1}, "preset": "creative", "timestamp": 1}"#);
    assert!(close(filled, [1.0, 0.20, 0.10, 0.10, 0.10, 0.20, 0.15].map(|weight| weight / 1.85)));
    assert!(close(
        resolved(r#"{"weights": {"quality": 1}, "preset": "cheap", "timestamp": 1}"#),
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    ));
    for preset in Preset::ALL {
        assert!((preset.dimensions().to_array().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
    let nan = map(r#"{"timestamp": 1}"#).with("weights", map("{}").with("quality", f64::NAN));
    assert_eq!(body(29, nan, Side::Client).unwrap_err().code(), Code::OutOfRange);
}

#[test]
fn an_elite_has_to_be_named() {
    assert_eq!(client_code(30, r#"{"eliteId": "", "timestamp": 1}"#), Err(Code::Malformed));
}

#[test]
fn al_001_the_envelope_has_its_keys_in_order_and_meta_only_when_there_is_some() {
    let acknowledgement = map(r#"{"acknowledgedStanzaId": 2, "success": true}"#);
    let bare: Envelope = read(envelope(8, acknowledgement.clone()), Side::Client).unwrap();
    let rich = read(
        envelope(8, acknowledgement).with("meta", map(r#"{"source": "asr", "gone": null}"#)),
        Side::Client,
    )
    .unwrap();
    let keys =
        |envelope: &Envelope| envelope.to_map().iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    assert_eq!(keys(&bare), ["stanzaId", "conversationId", "type", "body"]);
    assert_eq!(keys(&rich), ["stanzaId", "conversationId", "type", "meta", "body"]);
    assert_eq!(rich.meta.as_map().len(), 1);
}

#[test]
fn traces_count_only_when_both_halves_are_well_formed() {
    let meta = |members: &str| {
        let packet =
            envelope(8, map(r#"{"acknowledgedStanzaId": 2, "success": true}"#)).with("meta", map(members));
        read(packet, Side::Client).unwrap().meta
    };
    let good = meta(
        r#"{"messaging.trace_id": "0af7651916cd43dd8448eb211c80319c", "messaging.span_id": "b7ad6b7169203331", "timestamp": 5, "clientVersion": "1"}"#,
    );
    assert_eq!(good.trace().unwrap().span_id(), "b7ad6b7169203331");
    assert_eq!((good.timestamp(), good.client_version()), (Some(5), Some("1")));
    for members in [
        r#"{"messaging.trace_id": "0af7651916cd43dd8448eb211c80319c"}"#,
        r#"{"messaging.trace_id": "0AF7651916CD43DD8448EB211C80319C", "messaging.span_id": "b7ad6b7169203331"}"#,
        r#"{"messaging.trace_id": "0af7", "messaging.span_id": "b7ad6b7169203331"}"#,
        r#"{"otel_span": "b7ad6b7169203331"}"#,
    ] {
        assert_eq!(meta(members).trace(), None, "{members}");
    }
}
