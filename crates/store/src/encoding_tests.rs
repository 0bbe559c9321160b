//! What is stored comes back as it was.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;
use switchboard_core::model::{
    self, AttachmentSecret, Author, Budget, Call, CallEnd, CallError, CallKind, Checklist, ChecklistItem,
    ChecklistState, Claim, Device, Executor, Failure, FailureKind, Finish, Message, Metrics, NoticeLevel,
    Origin, Output, Part, RequestKey, SecretHash, Tool, ToolAnnotations, TurnEnd, TurnOutcome, TurnRequest,
    Usage,
};
use switchboard_core::{
    AgentId, AttachmentId, Batch, CallId, Callsign, Committed, Event, MessageId, Position, PrincipalId, Role,
    Session, SessionId, SessionLimits, Timestamp, ToolName, TurnId, WorkerId,
};

use crate::encoding::{
    decode_batch, decode_snapshot, decode_value, encode_batch, encode_snapshot, encode_value,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_come_back_as_they_were(
        events in vec((event(), any::<u64>()), 1..6),
        epoch in any::<u32>(),
        first in 1..=u64::from(u32::MAX),
    ) {
        let events = (first..).zip(events).map(|(seq, (event, at))| Committed {
            position: Position { epoch, seq },
            at: Timestamp::from_micros(at),
            event,
        });
        let batch = Batch { events: events.collect() };
        prop_assert_eq!(decode_batch(&encode_batch(&batch).unwrap()), Some(batch));
    }

    #[test]
    fn snapshots_come_back_as_they_were(events in vec(event(), 1..20)) {
        let mut session = Session::new(SessionId::from("s"), SessionLimits::default());
        for (seq, event) in (1..).zip(events) {
            let position = Position { epoch: 1, seq };
            session.apply(&Committed { position, at: Timestamp::from_micros(seq), event });
        }
        let bytes = encode_snapshot(&session).unwrap();
        let seq = session.head().seq;
        prop_assert!(decode_snapshot(&bytes, &SessionId::from("t"), seq).is_none());
        prop_assert!(decode_snapshot(&bytes, session.id(), seq + 1).is_none());
        prop_assert_eq!(decode_snapshot(&bytes, session.id(), seq), Some(session));
    }

    #[test]
    fn values_come_back_as_they_were(parts in vec(part(), 0..4)) {
        prop_assert_eq!(decode_value::<Vec<Part>>(&encode_value(&parts).unwrap()), Some(parts));
    }

    #[test]
    fn noise_is_refused_and_never_panics(noise in vec(any::<u8>(), 0..200)) {
        let _ = decode_batch(&noise);
        let _ = decode_snapshot(&noise, &SessionId::from("s"), 1);
        let mut marked = vec![1];
        marked.extend(&noise);
        let _ = decode_batch(&marked);
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![session_event(), attachment_event(), device_event(), turn_event(), call_event()]
}

fn session_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (name(), any::<u32>(), name(), option::of(any::<String>())).prop_map(
            |(owner, epoch, agent, name)| {
                Event::SessionOpened {
                    owner: PrincipalId::new(owner),
                    epoch,
                    agent: AgentId::new(agent),
                    name,
                }
            }
        ),
        (name(), role()).prop_map(|(principal, role)| Event::ParticipantJoined {
            principal: PrincipalId::new(principal),
            role
        }),
        name().prop_map(|principal| Event::ParticipantLeft { principal: PrincipalId::new(principal) }),
        (any::<u64>(), vec(tool(), 0..3), vec(name(), 0..3), option::of(name())).prop_map(
            |(revision, added, removed, turn)| Event::ToolsChanged {
                revision,
                added,
                removed: removed.into_iter().map(ToolName::new).collect(),
                turn: turn.map(TurnId::new),
            }
        ),
        (name(), option::of(name()), author(), vec(part(), 0..3), name()).prop_map(
            |(id, parent, author, parts, turn)| Event::MessageAdded {
                message: Box::new(Message {
                    id: MessageId::new(id),
                    parent: parent.map(MessageId::new),
                    author,
                    parts,
                    turn: TurnId::new(turn),
                    meta: Value::Null,
                })
            }
        ),
    ]
}

fn attachment_event() -> impl Strategy<Value = Event> {
    (0..4, name(), any::<u32>(), name(), option::of(secret()), any::<u64>()).prop_map(
        |(kind, attachment, generation, other, secret, window_ms)| {
            let attachment = AttachmentId::new(attachment);
            match kind {
                0 => Event::AttachmentOpened {
                    attachment,
                    generation,
                    principal: PrincipalId::new(other),
                    secret,
                    window_ms,
                },
                1 => Event::AttachmentLinked { attachment, session: SessionId::new(other) },
                2 => Event::AttachmentDetached { attachment, generation },
                _ => Event::AttachmentClosed { attachment },
            }
        },
    )
}

fn device_event() -> impl Strategy<Value = Event> {
    let device = || name().prop_map(Callsign::new);
    prop_oneof![
        (name(), device(), name(), any::<String>(), value(), value()).prop_map(
            |(principal, callsign, protocol, platform, facts, profile)| Event::DeviceJoined {
                principal: PrincipalId::new(principal),
                device: Box::new(Device { callsign, protocol, platform, facts, profile }),
            }
        ),
        (device(), value())
            .prop_map(|(device, facts)| Event::DeviceReported { device, facts: Box::new(facts) }),
        device().prop_map(|device| Event::DeviceLeft { device }),
        (device(), name())
            .prop_map(|(device, by)| Event::DeviceReleased { device, by: PrincipalId::new(by) }),
    ]
}

fn turn_event() -> impl Strategy<Value = Event> {
    let turn = || name().prop_map(TurnId::new);
    prop_oneof![
        (
            turn(),
            request(),
            origin(),
            any::<bool>(),
            any::<u64>(),
            option::of((name(), name())),
            value(),
            (option::of(name()), option::of(any::<u32>()), option::of(name()), option::of(name()))
        )
            .prop_map(|(turn, request, origin, serial, deadline, key, meta, place)| {
                let (parent, recall, workspace, device) = place;
                Event::TurnAccepted {
                    turn,
                    request: Box::new(request),
                    agent: AgentId::from("echo"),
                    device: device.map(Callsign::new),
                    origin: Box::new(origin),
                    serial,
                    held: !serial,
                    once: false,
                    setting: None,
                    deadline: Timestamp::from_micros(deadline),
                    parent: parent.map(MessageId::new),
                    names: None,
                    recall,
                    workspace: workspace.map(Into::into),
                    key: key.map(|(key, digest)| Box::new(RequestKey { key, digest })),
                    meta: Box::new(meta),
                }
            }),
        (turn(), any::<u32>()).prop_map(|(turn, position)| Event::TurnQueued { turn, position }),
        (turn(), name(), any::<u32>()).prop_map(|(turn, worker, fence)| Event::TurnStarted {
            turn,
            claim: Claim { worker: WorkerId::new(worker), fence, relayed: false }
        }),
        (turn(), option::of(any::<u64>())).prop_map(|(turn, deadline)| Event::TurnReleased {
            turn,
            deadline: deadline.map(Timestamp::from_micros)
        }),
        (turn(), output()).prop_map(|(turn, output)| Event::TurnOutput { turn, output }),
        (turn(), option::of(name()), option::of(any::<String>())).prop_map(|(turn, by, reason)| {
            Event::TurnInterrupted { turn, by: by.map(PrincipalId::new), reason }
        }),
        (turn(), outcome(), option::of(value()), option::of(usage()), metrics()).prop_map(
            |(turn, outcome, output, usage, metrics)| Event::TurnEnded {
                turn,
                end: Box::new(TurnEnd { outcome, output: output.map(Into::into), usage, metrics })
            }
        ),
    ]
}

fn call_event() -> impl Strategy<Value = Event> {
    let turn = || name().prop_map(TurnId::new);
    let id = || name().prop_map(CallId::new);
    let kind = prop_oneof![
        (name(), value())
            .prop_map(|(name, args)| CallKind::Tool { name: ToolName::new(name), args: args.into() }),
        (any::<String>(), option::of(value()), option::of(name())).prop_map(|(text, schema, tool)| {
            CallKind::Question { text, schema, approves: tool.map(ToolName::new) }
        }),
    ];
    let batch = (name(), any::<u32>()).prop_map(|(id, size)| model::Batch { id: id.into(), size });
    let call = (id(), kind, executor(), any::<u64>(), option::of(batch), value()).prop_map(
        |(id, kind, executor, deadline, batch, options)| Call {
            id,
            kind,
            executor,
            deadline: Timestamp::from_micros(deadline),
            batch,
            options: options.into(),
        },
    );
    let end =
        prop_oneof![
            (value(), value()).prop_map(|(output, detail)| CallEnd::Done { output: output.into(), detail }),
            (name(), any::<String>(), value())
                .prop_map(|(name, message, detail)| CallEnd::Failed(CallError { name, message, detail })),
            Just(CallEnd::TimedOut),
            Just(CallEnd::Cancelled),
        ];
    prop_oneof![
        (turn(), call)
            .prop_map(|(turn, call)| Event::CallRequested { turn, call: std::sync::Arc::new(call) }),
        (turn(), id(), any::<String>()).prop_map(|(turn, call, delta)| Event::CallProgress {
            turn,
            call,
            delta
        }),
        (turn(), id(), end).prop_map(|(turn, call, end)| Event::CallEnded { turn, call, end }),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9_.é]{0,12}"
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        any::<String>().prop_map(Part::Text),
        (name(), vec(any::<u8>(), 0..300)).prop_map(|(mime, data)| Part::Data { mime, data: data.into() }),
        any::<String>().prop_map(|uri| Part::Reference { uri }),
    ]
}

fn author() -> impl Strategy<Value = Author> {
    prop_oneof![
        name().prop_map(|user| Author::User(PrincipalId::new(user))),
        name().prop_map(|agent| Author::Agent(AgentId::new(agent))),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        Just(Role::Owner),
        Just(Role::Contributor),
        Just(Role::Observer),
        Just(Role::Agent),
        Just(Role::Device),
        Just(Role::Orchestrator),
    ]
}

fn secret() -> impl Strategy<Value = SecretHash> {
    any::<String>().prop_map(|secret| AttachmentSecret::new(secret).hash())
}

fn executor() -> impl Strategy<Value = Executor> {
    prop_oneof![
        Just(Executor::Agent),
        name().prop_map(|id| Executor::Attachment(AttachmentId::new(id))),
        name().prop_map(|id| Executor::Principal(PrincipalId::new(id))),
        name().prop_map(|id| Executor::Device(Callsign::new(id))),
        Just(Executor::Anyone),
    ]
}

fn tool() -> impl Strategy<Value = Tool> {
    let flags = [option::of(any::<bool>()), option::of(any::<bool>())];
    let schemas = (value(), option::of(value()));
    (name(), any::<String>(), schemas, flags, option::of(name()), executor(), value()).prop_map(
        |(name, description, schemas, [read_only, confirm], version, executor, options)| Tool {
            name: ToolName::new(name),
            description,
            input_schema: schemas.0.into(),
            output_schema: schemas.1.map(Into::into),
            annotations: ToolAnnotations { read_only, confirm, ..ToolAnnotations::default() },
            version,
            executor,
            grace_ms: 0,
            options,
        },
    )
}

fn request() -> impl Strategy<Value = TurnRequest> {
    prop_oneof![
        vec(part(), 0..3).prop_map(|parts| TurnRequest::Chat { parts }),
        (name(), value()).prop_map(|(name, args)| TurnRequest::Tool { name: ToolName::new(name), args }),
        (any::<String>(), value(), option::of(any::<u64>()), option::of(any::<u64>())).prop_map(
            |(goal, state, tokens, millis)| TurnRequest::Step {
                goal,
                state,
                budget: Budget { tokens, millis }
            }
        ),
    ]
}

fn origin() -> impl Strategy<Value = Origin> {
    (name(), name(), option::of(name()), option::of(name()), any::<bool>(), value()).prop_map(
        |(principal, protocol, attachment, handle, bound, options)| Origin {
            principal: PrincipalId::new(principal),
            protocol,
            attachment: attachment.map(AttachmentId::new),
            handle,
            bound,
            options,
        },
    )
}

fn usage() -> impl Strategy<Value = Usage> {
    btree_map(any::<String>(), any::<u64>(), 0..3).prop_map(Usage)
}

fn metrics() -> impl Strategy<Value = Metrics> {
    [option::of(any::<u64>()), option::of(any::<u64>())].prop_map(|[wall_ms, first_ms]| Metrics {
        wall_ms,
        first_ms,
        ..Metrics::default()
    })
}

fn output() -> impl Strategy<Value = Output> {
    prop_oneof![
        any::<String>().prop_map(Output::Text),
        any::<String>().prop_map(Output::Reasoning),
        any::<String>().prop_map(Output::Status),
        usage().prop_map(Output::Usage),
        (name(), any::<String>(), vec((name(), any::<String>()), 0..3)).prop_map(|(group, title, items)| {
            let item = |(id, label)| ChecklistItem { id, label, state: ChecklistState::Done };
            Output::Checklist(Checklist { group, title, items: items.into_iter().map(item).collect() })
        }),
        (option::of(name()), value()).prop_map(|(mime, value)| Output::Data { mime, value }),
        any::<String>().prop_map(|text| Output::Notice { level: NoticeLevel::Info, text }),
    ]
}

fn outcome() -> impl Strategy<Value = TurnOutcome> {
    prop_oneof![
        Just(TurnOutcome::Done(Finish::Complete)),
        Just(TurnOutcome::Done(Finish::Empty)),
        any::<String>()
            .prop_map(|message| TurnOutcome::Failed(Failure::new(FailureKind::WorkerLost, message))),
        any::<bool>().prop_map(|abandoned| TurnOutcome::Interrupted { abandoned }),
        Just(TurnOutcome::Expired),
    ]
}
