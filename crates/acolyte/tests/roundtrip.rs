//! Properties: what is encoded is decoded again, and no bytes make a decoder panic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use switchboard_acolyte::codec::{
    Heard, KEEPALIVE, StreamReader, Streamed, decode_client, decode_request, decode_server, encode_client,
    encode_done, encode_event, encode_server, encode_stream,
};
use switchboard_acolyte::message::*;
use switchboard_acolyte::{Code, ErrorBody, ErrorDetail, Source, Task, TaskState};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,30}", "[\r\n\\\\\"\u{0}-\u{1f}é😀\u{2028}]{0,10}"]
}

fn body() -> impl Strategy<Value = String> {
    "[a-z0-9]{1,20}"
}

fn rpc_id() -> impl Strategy<Value = RpcId> {
    body().prop_map(|body| RpcId::parse(&format!("rpc_{body}")).unwrap())
}

fn task_id() -> impl Strategy<Value = TaskId> {
    body().prop_map(|body| TaskId::parse(&format!("task_{body}")).unwrap())
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, any::<u64>()]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
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

fn detail() -> impl Strategy<Value = ErrorDetail> {
    (of(text()), of(text()), of(text()), of(text()), of(text()))
        .prop_map(|(code, category, kind, source, tool)| ErrorDetail { code, category, kind, source, tool })
}

fn error_body() -> impl Strategy<Value = ErrorBody> {
    let id = vec(any::<u8>(), 1..12).prop_map(|bytes| ErrorId::of(&bytes));
    (text(), of(id), of(text()), of(detail())).prop_map(|(error_message, error_id, error_code, error)| {
        ErrorBody { error_message, error_id, error_code, error }
    })
}

fn skill() -> impl Strategy<Value = Skill> {
    ("[a-z]{1,8}", text().prop_map(|text| format!("x{text}")))
        .prop_map(|(name, instructions)| Skill { name, instructions })
}

fn list() -> impl Strategy<Value = ListSnapshot> {
    let status = [ItemStatus::Pending, ItemStatus::InProgress, ItemStatus::Done, ItemStatus::Failed];
    let item = (text(), text(), select(status.to_vec()), count())
        .prop_map(|(id, label, status, order)| Item { id, label, status, order });
    (text(), text(), vec(item, 0..4)).prop_map(|(group_id, group_title, items)| ListSnapshot {
        group_id,
        group_title,
        items,
    })
}

fn part() -> impl Strategy<Value = OutputPart> {
    let markers = [Marker::Add, Marker::Remove, Marker::Context];
    let streams = [Stream::Stdout, Stream::Stderr];
    prop_oneof![
        (text(), of(text()), of(select(vec!["on", "off"]))).prop_map(|(label_key, detail, state)| {
            OutputPart::ToolHeader { label_key, detail, state: state.map(str::to_owned) }
        }),
        text().prop_map(|text| OutputPart::Text { text }),
        (text(), count(), vec(text(), 0..3)).prop_map(|(label_key, count, targets)| OutputPart::FileHeader {
            label_key,
            count,
            targets
        }),
        (text(), text(), vec(text(), 0..3), count()).prop_map(|(label_key, scope, patterns, matches)| {
            OutputPart::ScopeHeader { label_key, scope, patterns, matches }
        }),
        (text(), text(), count(), count()).prop_map(|(label_key, path, added, removed)| {
            OutputPart::EditHeader { label_key, path, added, removed }
        }),
        (select(markers.to_vec()), count(), text())
            .prop_map(|(marker, line_number, text)| OutputPart::Diff { marker, line_number, text }),
        (select(streams.to_vec()), text())
            .prop_map(|(stream, text)| OutputPart::ShellOutput { stream, text }),
        Just(OutputPart::NoOutput),
        (of(count()), of(text())).prop_map(|(count, unit)| OutputPart::Truncated { count, unit }),
    ]
}

fn event() -> impl Strategy<Value = StreamEvent<'static>> {
    let state = prop_oneof![
        Just(PendingState::Accepted),
        of(count()).prop_map(|position| PendingState::Queued { position }),
        of(count()).prop_map(|tool_calls| PendingState::Running { tool_calls }),
    ];
    prop_oneof![
        state.prop_map(|state| StreamEvent::Status { state }),
        text().prop_map(|text| StreamEvent::Reasoning { text: Cow::Owned(text) }),
        text().prop_map(|text| StreamEvent::TextDelta { text: Cow::Owned(text) }),
        (text(), text(), object()).prop_map(|(tool_call_id, tool_name, args)| StreamEvent::ToolCall {
            tool_call_id,
            tool_name,
            args
        }),
        (text(), text(), part()).prop_map(|(tool_call_id, tool_name, content)| StreamEvent::ToolOutput {
            tool_call_id,
            tool_name,
            content
        }),
        (text(), text(), of(any::<bool>()), of(text()), of(detail())).prop_map(
            |(tool_call_id, tool_name, is_error, error_code, error)| StreamEvent::ToolResult {
                tool_call_id,
                tool_name,
                is_error,
                error_code,
                error
            }
        ),
        (count(), count())
            .prop_map(|(input_tokens, output_tokens)| StreamEvent::Usage { input_tokens, output_tokens }),
        list().prop_map(StreamEvent::Checklist),
        list().prop_map(StreamEvent::Tasklist),
        error_body().prop_map(StreamEvent::Error),
        (select(vec![Level::Warn, Level::Error]), text(), of(text()))
            .prop_map(|(level, message, source)| StreamEvent::Notice { level, message, source }),
        skill().prop_map(|skill| StreamEvent::SkillActivated { skill }),
        text().prop_map(|name| StreamEvent::SkillDeactivated { name }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let usage = (count(), count(), count(), of(count())).prop_map(
        |(input_tokens, output_tokens, total_tokens, input_budget_tokens)| ReplyUsage {
            input_tokens,
            output_tokens,
            total_tokens,
            input_budget_tokens,
        },
    );
    let breakdown = (count(), count()).prop_map(|(used_tokens, system_tokens)| PromptBreakdown {
        used_tokens,
        system_tokens,
        ..PromptBreakdown::default()
    });
    (
        (text(), any::<bool>(), text(), of(text())),
        (of(vec(text(), 0..3)), of(count()), of(vec(skill(), 0..3)), of(usage), of(breakdown)),
    )
        .prop_map(
            |(
                (output, output_streamed, model, error),
                (tool_calls, model_calls, active_skills, usage, prompt_breakdown),
            )| {
                Reply {
                    output,
                    output_streamed,
                    model,
                    error,
                    tool_calls,
                    model_calls,
                    active_skills,
                    usage,
                    prompt_breakdown,
                }
            },
        )
}

fn server_message() -> impl Strategy<Value = ServerMessage> {
    let states = [
        TaskState::Accepted,
        TaskState::Queued,
        TaskState::Running,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Cancelled,
    ];
    let task = (task_id(), select(states.to_vec()), text(), text())
        .prop_map(|(id, state, created_at, updated_at)| Task { id, state, created_at, updated_at });
    prop_oneof![
        object().prop_map(|status| ServerMessage::StatusResult { status }),
        task_id().prop_map(|task| ServerMessage::ChatAccepted { task }),
        count().prop_map(|position| ServerMessage::ChatQueued { position }),
        Just(ServerMessage::ChatStarted),
        (event(), of(count())).prop_map(|(event, position)| ServerMessage::ChatEvent { event, position }),
        reply().prop_map(|reply| ServerMessage::ChatDone { reply: Box::new(reply) }),
        error_body().prop_map(ServerMessage::ChatError),
        (rpc_id(), any::<bool>())
            .prop_map(|(request, aborted)| ServerMessage::ChatAbortResult { request, aborted }),
        of(task).prop_map(|task| ServerMessage::TaskStatusResult { task }),
        text().prop_map(|error| ServerMessage::Error { error }),
    ]
}

fn request() -> impl Strategy<Value = ChatRequest> {
    let session = body().prop_map(|body| format!("sess_{body}"));
    let resource =
        (select(vec!["user", "proj"]), body()).prop_map(|(prefix, body)| format!("{prefix}_{body}"));
    (
        (text(), vec(value(), 0..4), text()),
        (of(session), of(resource), of(vec(skill(), 0..3)), of(vec(text(), 0..10)), of(text())),
    )
        .prop_map(
            |(
                (message, history, model),
                (session_id, resource_id, active_skills, suggestions, workspace),
            )| {
                ChatRequest {
                    message,
                    history,
                    model,
                    session_id,
                    resource_id,
                    active_skills,
                    suggestions,
                    workspace,
                }
            },
        )
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let words = vec("[a-z]{1,6}\\.[a-z]{1,6}", 0..4).prop_map(|words| Capabilities::parse(&words.join(",")));
    prop_oneof![
        (of(text()), of(words))
            .prop_map(|(version, capabilities)| ClientMessage::StatusGet(Offer { version, capabilities })),
        request().prop_map(|request| ClientMessage::ChatStart(Box::new(request))),
        rpc_id().prop_map(|request| ClientMessage::ChatAbort { request }),
        (task_id(), of(text())).prop_map(|(task, session)| ClientMessage::TaskStatus { task, session }),
        (task_id(), of(text()), count()).prop_map(|(task, session, after)| {
            ClientMessage::ChatAttach(Attach { task: Some(task), session, after })
        }),
        (text(), count()).prop_map(|(session, after)| {
            ClientMessage::ChatAttach(Attach { task: None, session: Some(session), after })
        }),
    ]
}

fn streamed() -> impl Strategy<Value = Streamed> {
    prop_oneof![event().prop_map(Streamed::Event), reply().prop_map(|reply| Streamed::Done(Box::new(reply))),]
}

/// Bytes that look like something.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..200),
        value().prop_map(|value| value.to_string().into_bytes()),
        (value(), value(), value()).prop_map(|(id, kind, payload)| {
            json!({"id": id, "type": kind, "payload": payload}).to_string().into_bytes()
        }),
        (
            select(vec![
                "status.get",
                "chat.start",
                "chat.abort",
                "task.status",
                "chat.attach",
                "chat.event"
            ]),
            value()
        )
            .prop_map(|(kind, payload)| {
                let message = json!({"id": "rpc_1", "type": kind, "payload": payload, "event": payload});
                message.to_string().into_bytes()
            }),
        value().prop_map(|value| format!("data: {value}\n\n").into_bytes()),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in likely()) {
        let _ = decode_client(&bytes);
        let _ = decode_server(&bytes);
        let _ = decode_request(&bytes);
        let _ = StreamReader::default().push(&bytes);
    }

    #[test]
    fn client_messages_are_read_as_they_were_written(id in rpc_id(), message in client_message()) {
        let written = encode_client(&id, &message);
        prop_assert_eq!(decode_client(written.as_bytes()), Ok((id, message)), "{}", written);
    }

    #[test]
    fn server_messages_are_read_as_they_were_written(id in rpc_id(), message in server_message()) {
        let written = encode_server(&id, &message);
        prop_assert_eq!(decode_server(written.as_bytes()), Heard::Message(id, message), "{}", written);
    }

    #[test]
    fn events_take_the_short_way_to_the_same_place(id in rpc_id(), event in event(), position in of(count())) {
        let written = encode_event(&id, &event, position);
        let long = encode_server(&id, &ServerMessage::ChatEvent { event: event.clone(), position });
        prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), serde_json::from_str::<Value>(&long).unwrap());
        prop_assert_eq!(event.clone().into_owned(), event);
    }

    #[test]
    fn unknown_fields_of_server_messages_are_overlooked(
        id in rpc_id(), message in server_message(), name in "future[a-z]{1,8}", extra in value(),
    ) {
        let mut written: Value = serde_json::from_str(&encode_server(&id, &message)).unwrap();
        written[&name] = extra.clone();
        if let Some(event) = written.get_mut("event") {
            event[&name] = extra;
        }
        prop_assert_eq!(decode_server(written.to_string().as_bytes()), Heard::Message(id, message));
    }

    #[test]
    fn unknown_messages_and_events_are_passed_over(id in rpc_id(), name in "x-[a-z]{1,8}", event in object()) {
        let mut event = event;
        event.insert("type".into(), name.clone().into());
        let message = json!({"id": id, "type": "chat.event", "event": event});
        prop_assert_eq!(decode_server(message.to_string().as_bytes()), Heard::Unknown(Some(id.clone())));
        let message = json!({"id": id, "type": name});
        prop_assert_eq!(decode_server(message.to_string().as_bytes()), Heard::Unknown(Some(id)));
    }

    #[test]
    fn a_refusal_has_the_id_of_its_message_if_that_can_be_read(id in rpc_id(), kind in "[a-z.]{0,12}", payload in value()) {
        let message = json!({"id": id, "type": kind, "payload": payload}).to_string();
        if let Err(refused) = decode_client(message.as_bytes()) {
            prop_assert_eq!(refused.id, id);
        }
    }

    #[test]
    fn a_stream_says_the_same_however_it_is_cut(
        said in vec(streamed(), 0..6), cuts in vec(any::<prop::sample::Index>(), 0..8), crlf in any::<bool>(),
        comments in any::<bool>(),
    ) {
        let mut body = String::new();
        for said in &said {
            body.push_str(&match said {
                Streamed::Event(event) => encode_stream(event),
                Streamed::Done(reply) => encode_done(reply),
            });
            if comments {
                body.push_str(KEEPALIVE);
                body.push_str("event: x\nid: 5\nretry: 1\n\ndata: {broken\n\ndata: {\"type\":\"future\"}\n\n");
            }
        }
        if crlf {
            body = body.replace('\n', "\r\n");
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let mut reader = StreamReader::default();
        let mut read = Vec::new();
        for pair in cuts.windows(2) {
            read.extend(reader.push(&body.as_bytes()[pair[0]..pair[1]]));
        }
        prop_assert_eq!(read, said);
    }

    #[test]
    fn several_data_lines_are_one_value(event in event(), space in any::<bool>()) {
        // JSON may be written on many lines; each has its own prefix.
        let pretty = serde_json::to_string_pretty(&event).unwrap();
        let prefix = if space { "data: " } else { "data:" };
        let lines: String = pretty.lines().map(|line| format!("{prefix}{line}\n")).collect();
        let read = StreamReader::default().push(format!("{lines}\n").as_bytes());
        prop_assert_eq!(read, vec![Streamed::Event(event)]);
    }

    #[test]
    fn tasks_and_turns_have_each_others_names(body in "[a-z0-9]{1,30}", strange in text()) {
        let turn = switchboard_core::TurnId::new(format!("inv_{body}"));
        let task = TaskId::of(&turn);
        prop_assert_eq!(task.as_str(), format!("task_{body}"));
        prop_assert_eq!(task.turn(), turn);
        // Whatever a turn is called elsewhere, its task is a task; an empty name has none.
        for name in [strange.clone(), format!("inv_{strange}"), "inv_A-b".to_owned()] {
            if !name.is_empty() {
                let task = TaskId::of(&switchboard_core::TurnId::new(name));
                prop_assert_eq!(TaskId::parse(task.as_str()), Some(task));
            }
        }
    }

    #[test]
    fn every_code_of_a_tool_is_a_detail(code in "[A-Z][A-Z0-9_]{1,20}", message in text()) {
        let error = switchboard_core::model::CallError::new(code.clone(), message);
        let end = switchboard_core::model::CallEnd::Failed(error);
        let (told, source) = switchboard_acolyte::error::call_code(&end).unwrap();
        prop_assert_eq!((told.as_str(), source), (code.as_str(), Source::ToolError));
        let detail = told.detail(source, Some("t"));
        prop_assert_eq!(detail.code.as_deref(), Some(code.as_str()));
        prop_assert_eq!(detail.category.is_some() && detail.kind.is_some(), true);
        prop_assert_eq!(detail.source.as_deref(), Some("tool-error"));
        prop_assert_eq!(detail.tool.as_deref(), Some("t"));
        prop_assert_eq!(Code::UNKNOWN.class(), ("other", "unknown"));
    }
}

#[test]
fn lines_of_data_are_joined_by_line_breaks() {
    let body = b"data: {\"type\":\"usage\",\"inputTokens\":1\ndata:2,\"outputTokens\":3}\n\n";
    assert_eq!(StreamReader::default().push(body), [], "a number does not go on in the next line");
    let body = b"data: {\"type\":\"usage\",\"inputTokens\":1,\ndata:\"outputTokens\":3}\n\n";
    let usage = StreamEvent::Usage { input_tokens: 1, output_tokens: 3 };
    assert_eq!(StreamReader::default().push(body), [Streamed::Event(usage)]);
}
