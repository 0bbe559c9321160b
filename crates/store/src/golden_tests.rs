//! What was stored once can be read for ever: batches as bytes, kept in files.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use switchboard_core::model::{
    self, AttachmentSecret, Author, Call, CallEnd, CallError, CallKind, Checklist, ChecklistItem,
    ChecklistState, Claim, Device, Executor, FailureKind, Finish, Message, Metrics, NoticeLevel, Origin,
    Output, Part, RequestKey, Tool, ToolAnnotations, TurnEnd, TurnOutcome, TurnRequest, Usage,
};
use switchboard_core::{
    AgentId, AttachmentId, Batch, CallId, Callsign, Committed, Event, MessageId, Position, PrincipalId, Role,
    Session, SessionId, SessionLimits, Timestamp, ToolName, TurnId, WorkerId,
};

use crate::encoding::{decode_batch, decode_snapshot, encode_batch};

#[test]
fn a_cut_batch_is_refused_at_every_length() {
    let bytes = encode_batch(&golden_batch()).unwrap();
    for length in 0..bytes.len() {
        assert!(decode_batch(&bytes[..length]).is_none(), "{length}");
    }
}

#[test]
fn another_format_is_refused() {
    let mut bytes = encode_batch(&golden_batch()).unwrap();
    bytes[0] = 2;
    assert!(decode_batch(&bytes).is_none());
}

#[test]
fn fields_of_the_future_are_ignored() {
    let mut bytes = vec![1];
    let stored = json!({
        "epoch": 1, "first": 5, "checksum": "new",
        "events": [{ "at": 9, "event": { "turn_released": { "turn": "t", "why": "new" } }, "by": "new" }],
    });
    rmp_serde::encode::write_named(&mut bytes, &stored).unwrap();
    let batch = decode_batch(&bytes).unwrap();
    assert_eq!(batch.events[0].event, Event::TurnReleased { turn: TurnId::from("t"), deadline: None });
    assert_eq!(batch.first(), 5);
}

#[test]
fn fields_of_the_past_have_defaults() {
    let call = json!({ "id": "c", "kind": { "question": { "text": "sure?" } }, "executor": "anyone", "deadline": 9 });
    let origin = json!({ "principal": "ann", "protocol": "asp" });
    let stored = json!({ "epoch": 1, "first": 1, "events": [
        { "at": 1, "event": { "turn_accepted": {
            "turn": "t", "request": { "chat": { "parts": [] } }, "agent": "echo", "origin": origin,
            "serial": true, "deadline": 9,
        } } },
        { "at": 2, "event": { "call_requested": { "turn": "t", "call": call } } },
        { "at": 3, "event": { "call_ended": { "turn": "t", "call": "c", "end": { "done": { "output": 1 } } } } },
        { "at": 4, "event": { "call_ended": { "turn": "t", "call": "c", "end": {
            "failed": { "name": "no", "message": "never" },
        } } } },
    ] });
    let mut bytes = vec![1];
    rmp_serde::encode::write_named(&mut bytes, &stored).unwrap();
    let events: Vec<Event> =
        decode_batch(&bytes).unwrap().events.into_iter().map(|committed| committed.event).collect();
    assert!(matches!(&events[0], Event::TurnAccepted { device: None, .. }), "{:?}", events[0]);
    let Event::CallRequested { call, .. } = &events[1] else { panic!("{:?}", events[1]) };
    assert_eq!((&call.batch, &*call.options), (&None, &Value::Null));
    let end = |end| Event::CallEnded { turn: TurnId::from("t"), call: CallId::from("c"), end };
    assert_eq!(events[2], end(CallEnd::done(json!(1))));
    assert_eq!(events[3], end(CallEnd::Failed(CallError::new("no", "never"))));
}

#[test]
fn snapshots_from_before_devices_can_be_read() {
    let mut session = Session::new(SessionId::from("s"), SessionLimits::default());
    for committed in golden_batch().events.iter().take(14) {
        session.apply(committed);
    }
    let mut state = serde_json::to_value(&session).unwrap();
    assert_eq!(state.as_object_mut().unwrap().remove("devices"), Some(json!({})));
    let turn = state["turns"]["turn"].as_object_mut().unwrap();
    turn.remove("device");
    let mut bytes = vec![1];
    rmp_serde::encode::write_named(&mut bytes, &state).unwrap();
    assert_eq!(decode_snapshot(&bytes, session.id(), session.head().seq), Some(session));
}

/// If this fails, logs of today can no longer be read: give the new field a default, or the format
/// a new number and a decoder for the old one. Never write the files anew to make it pass.
#[test]
fn batches_of_the_first_format_can_be_read() {
    assert_eq!(decode_batch(include_bytes!("../tests/golden/batch_v1.bin")), Some(golden_batch()));
}

/// As above.
#[test]
fn batches_with_devices_can_be_read() {
    assert_eq!(decode_batch(include_bytes!("../tests/golden/devices_v1.bin")), Some(golden_devices()));
}

/// How the newer of the files above came to be.
#[test]
#[ignore = "writes a golden file, which is done once"]
fn write_the_golden_devices() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/devices_v1.bin");
    std::fs::write(path, encode_batch(&golden_devices()).unwrap()).unwrap();
}

/// One of each event that there was before devices, with every field in use.
fn golden_batch() -> Batch {
    let (turn, principal) = (TurnId::from("turn"), PrincipalId::from("ann"));
    let attachment = AttachmentId::from("attachment");
    let agent = AgentId::from("echo");
    let parts = vec![
        Part::Text("hello ✓".into()),
        Part::Data { mime: "image/png".into(), data: vec![0, 159, 255].into() },
        Part::Reference { uri: "https://example.org/a".into() },
    ];
    let origin = Origin {
        principal: principal.clone(),
        protocol: "asp".into(),
        attachment: Some(attachment.clone()),
        handle: Some("handle".into()),
        bound: true,
        options: json!({ "stream": 7 }),
    };
    let usage = Usage(BTreeMap::from([("output_tokens".to_owned(), 300)]));
    let tool = Tool {
        name: ToolName::from("search"),
        description: "finds things".into(),
        input_schema: json!({ "type": "object", "minimum": -1.5 }).into(),
        output_schema: Some(json!(true).into()),
        annotations: ToolAnnotations {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            confirm: Some(false),
        },
        version: Some("1.2".into()),
        executor: Executor::Attachment(attachment.clone()),
        grace_ms: 0,
        options: Value::Null,
    };
    let call = Call {
        id: CallId::from("call"),
        kind: CallKind::Tool { name: ToolName::from("search"), args: json!({ "q": [1, null, "x"] }).into() },
        executor: Executor::Principal(principal.clone()),
        deadline: Timestamp::NEVER,
        // Its size was not written at that time.
        batch: Some(model::Batch { id: "together".into(), size: 1 }),
        options: Value::Null.into(),
    };
    let question = Call {
        id: CallId::from("question"),
        kind: CallKind::question("sure?", Some(json!({ "type": "boolean" }))),
        executor: Executor::Anyone,
        deadline: Timestamp::from_secs(9),
        batch: None,
        options: Value::Null.into(),
    };
    let end = TurnEnd {
        outcome: TurnOutcome::Done(Finish::Length),
        output: Some(json!({ "answer": 42 }).into()),
        usage: Some(usage.clone()),
        metrics: Metrics { cpu_ms: Some(1), wall_ms: Some(2), queue_ms: Some(3), first_ms: Some(4) },
    };
    let outputs = [
        Output::Text("text".into()),
        Output::Reasoning("reasoning".into()),
        Output::Status("status".into()),
        Output::Usage(usage),
        Output::Checklist(Checklist {
            group: "plan".into(),
            title: "Plan".into(),
            items: vec![ChecklistItem { id: "1".into(), label: "do".into(), state: ChecklistState::Active }],
        }),
        Output::Data { mime: Some("text/csv".into()), value: json!("a,b") },
        Output::Notice { level: NoticeLevel::Warn, text: "careful".into() },
    ];
    let failed = TurnEnd::failed(FailureKind::ModelUnavailable, "overloaded");
    let mut events = vec![
        Event::SessionOpened {
            owner: principal.clone(),
            epoch: 3,
            agent: agent.clone(),
            name: Some("notes".into()),
        },
        Event::ParticipantJoined { principal: PrincipalId::from("bob"), role: Role::Observer },
        Event::ParticipantLeft { principal: PrincipalId::from("bob") },
        Event::AttachmentOpened {
            attachment: attachment.clone(),
            generation: 2,
            principal: principal.clone(),
            secret: Some(AttachmentSecret::new("secret").hash()),
            window_ms: 30_000,
        },
        Event::AttachmentLinked { attachment: attachment.clone(), session: SessionId::from("other") },
        Event::AttachmentDetached { attachment: attachment.clone(), generation: 2 },
        Event::AttachmentClosed { attachment },
        Event::ToolsChanged {
            revision: 4,
            added: vec![tool],
            removed: vec![ToolName::from("old")],
            turn: Some(turn.clone()),
        },
        Event::MessageAdded {
            message: Box::new(Message {
                id: MessageId::input_of(&turn),
                parent: Some(MessageId::from("before")),
                author: Author::User(principal.clone()),
                parts: parts.clone(),
                turn: turn.clone(),
                meta: Value::Null,
            }),
        },
        Event::TurnAccepted {
            turn: turn.clone(),
            request: Box::new(TurnRequest::Chat { parts }),
            agent,
            device: None,
            origin: Box::new(origin),
            serial: true,
            held: false,
            once: false,
            setting: None,
            deadline: Timestamp::from_secs(1_800_000_000),
            parent: None,
            names: None,
            recall: None,
            workspace: None,
            key: Some(Box::new(RequestKey { key: "key".into(), digest: "digest".into() })),
            meta: Box::new(json!({ "deep": { "er": [true] } })),
        },
        Event::TurnQueued { turn: turn.clone(), position: 1 },
        Event::TurnStarted {
            turn: turn.clone(),
            claim: Claim { worker: WorkerId::from("w"), fence: 1, relayed: false },
        },
        Event::TurnReleased { turn: turn.clone(), deadline: None },
    ];
    events.extend(outputs.map(|output| Event::TurnOutput { turn: turn.clone(), output }));
    events.extend([
        Event::CallRequested { turn: turn.clone(), call: std::sync::Arc::new(call) },
        Event::CallRequested { turn: turn.clone(), call: std::sync::Arc::new(question) },
        Event::CallProgress { turn: turn.clone(), call: CallId::from("call"), delta: "half".into() },
        Event::CallEnded {
            turn: turn.clone(),
            call: CallId::from("call"),
            end: CallEnd::Failed(CallError::new("not_found", "no")),
        },
        Event::TurnInterrupted { turn: turn.clone(), by: Some(principal), reason: Some("enough".into()) },
        Event::TurnEnded { turn: turn.clone(), end: Box::new(end) },
        Event::TurnEnded { turn: turn.clone(), end: Box::new(failed) },
        Event::TurnEnded { turn, end: Box::new(TurnEnd::new(TurnOutcome::Interrupted { abandoned: true })) },
    ]);
    committed(events)
}

/// One of each event and field that came with devices.
fn golden_devices() -> Batch {
    let (turn, principal, device) = (TurnId::from("turn"), PrincipalId::from("ann"), Callsign::from("lab-7"));
    let call = Call {
        id: CallId::from("call"),
        kind: CallKind::Tool { name: ToolName::from("shell"), args: json!({ "command": "ls" }).into() },
        executor: Executor::Device(device.clone()),
        deadline: Timestamp::from_secs(9),
        batch: Some(model::Batch { id: "together".into(), size: 2 }),
        options: json!({ "step": 3 }).into(),
    };
    let tool = Tool {
        name: ToolName::from("shell"),
        description: "runs a command".into(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Device(device.clone()),
        grace_ms: 0,
        options: json!({ "tool_type": "action" }),
    };
    let ended = |end| Event::CallEnded { turn: turn.clone(), call: CallId::from("call"), end };
    let error = CallError { name: "denied".into(), message: "no".into(), detail: json!({ "code": 13 }) };
    committed(vec![
        Event::DeviceJoined {
            principal: principal.clone(),
            device: Box::new(Device {
                callsign: device.clone(),
                protocol: "aip".into(),
                platform: "linux".into(),
                facts: json!({ "cpu_count": 8, "memory_total_gb": 31.2, "supported_features": ["cli"] }),
                profile: json!({ "registered": "2025-11-06T10:30:00Z" }),
            }),
        },
        Event::DeviceReported { device: device.clone(), facts: Box::new(json!({ "tags": ["lab"] })) },
        Event::ParticipantJoined { principal: principal.clone(), role: Role::Device },
        Event::ParticipantJoined { principal: principal.clone(), role: Role::Orchestrator },
        Event::ToolsChanged { revision: 1, added: vec![tool], removed: Vec::new(), turn: None },
        Event::TurnAccepted {
            turn: turn.clone(),
            request: Box::new(TurnRequest::Chat { parts: vec![Part::Text("tidy up".into())] }),
            agent: AgentId::from("echo"),
            device: Some(device.clone()),
            origin: Box::new(Origin {
                principal,
                protocol: "aip".into(),
                attachment: None,
                handle: None,
                bound: false,
                options: Value::Null,
            }),
            serial: false,
            held: false,
            once: false,
            setting: None,
            deadline: Timestamp::NEVER,
            parent: None,
            names: None,
            recall: None,
            workspace: None,
            key: None,
            meta: Box::new(Value::Null),
        },
        Event::CallRequested { turn: turn.clone(), call: std::sync::Arc::new(call) },
        ended(CallEnd::Done { output: json!("a b").into(), detail: json!({ "status": "success" }) }),
        ended(CallEnd::Failed(error)),
        Event::TurnEnded {
            turn: turn.clone(),
            end: Box::new(TurnEnd::failed(FailureKind::Unreachable, "gone")),
        },
        Event::DeviceLeft { device },
    ])
}

fn committed(events: Vec<Event>) -> Batch {
    let numbered = (1..).zip(events);
    let events = numbered.map(|(seq, event)| Committed {
        position: Position { epoch: 3, seq },
        at: Timestamp::from_micros(1_700_000_000_000_000 + seq),
        event,
    });
    Batch { events: events.collect() }
}
