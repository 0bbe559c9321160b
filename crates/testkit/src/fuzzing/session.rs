//! Any ops in any order to one session.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{
    AttachmentSecret, Batch, Budget, CallEnd, CallError, CallKind, CallRequest, Device, DeviceLoss, Executor,
    FailureKind, NewTurn, Origin, Output, Part, Place, RequestKey, Told, Tool, ToolAnnotations, ToolChange,
    TurnEnd, TurnRequest, Voice,
};
use switchboard_core::{
    Actor, AttachmentId, CallId, Callsign, Committed, Event, Op, Position, Role, Session, SessionId,
    SessionLimits, Timestamp, ToolName, TurnId,
};

use super::Choices;
use crate::simulation::Ledger;

/// Asks anything of a session, in any order, and lets time pass. The log keeps every rule, deciding
/// changes nothing, and what is applied again leads to the same state.
///
/// # Panics
/// Something is broken.
pub fn session(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let limits = SessionLimits {
        running_turns: 3,
        queued_turns: 2,
        open_calls: 2,
        tools: 3,
        participants: 2,
        attachments: 2,
        answer_bytes: 64,
        requests: 64,
        ended_turns: 2,
        request_memory: Duration::from_millis(500),
        interrupt_grace: Duration::from_millis(40),
        offers: 2,
        record_bytes: 64,
    };
    let id = SessionId::from("ses_fuzz");
    let mut live = Session::new(id.clone(), limits.clone());
    let mut ledger = Ledger::new(limits.clone());
    let mut now = Timestamp::from_secs(1_000);
    let mut names = Names::default();
    while !choices.is_empty() {
        now = now.after(Duration::from_millis(u64::from(choices.byte() & 0x3F)));
        let actor = actor(choices.below(10));
        let op = op(&mut choices, now, &mut names);
        let Ok(decision) = live.decide(&actor, &op, now) else { continue };
        assert_eq!(live.decide(&actor, &op, now).as_ref(), Ok(&decision), "deciding is deterministic");
        for event in decision.events {
            let head = live.head();
            let epoch = match &event {
                Event::SessionOpened { epoch, .. } => *epoch,
                _ => head.epoch,
            };
            let position = Position { epoch, seq: head.seq + 1 };
            let committed = Arc::new(Committed { position, at: now, event });
            live.apply(&committed);
            if let Err(fault) = ledger.take(&id, &committed) {
                panic!("{op:?} of {actor:?} led to {committed:?}: {fault:?}");
            }
            ledger.mirror_event(&id, &committed);
        }
        if let Some(wake) = live.next_wake() {
            let woken = live.decide(&Actor::server(), &Op::Wake, wake);
            assert!(
                woken.is_ok_and(|woken| !woken.events.is_empty()),
                "what asks to be woken has work to do"
            );
        }
    }
    if let Some(mirror) = ledger.mirror(&id) {
        assert_eq!(*mirror, live, "what is applied again leads to the same state");
        let text = serde_json::to_string(&live).unwrap_or_default();
        let read = serde_json::from_str::<Session>(&text).map(|read| read.with_limits(limits));
        assert!(read.is_ok_and(|read| read == live), "a snapshot is read as it was written");
    }
}

fn actor(choice: u8) -> Actor {
    match choice {
        0 | 1 => Actor::client("ann".into()),
        2 => Actor::client("bob".into()),
        3 => Actor::worker("w1".into()),
        4 => Actor::worker("w2".into()),
        5 => Actor::server(),
        7 => Actor::client("ann".into()).enrolled(Some("d0".into())),
        8 => Actor::client("bob".into()).enrolled(Some("d1".into())),
        9 => Actor::client("eve".into()).enrolled(Some("d1".into())),
        _ => Actor::client("eve".into()),
    }
}

fn op(choices: &mut Choices<'_>, now: Timestamp, names: &mut Names) -> Op {
    let kind = choices.below(27);
    match kind {
        0 => Op::Open { epoch: 1, agent: "echo".into(), name: None },
        1 => {
            let roles = [None, Some(Role::Contributor), Some(Role::Observer), Some(Role::Device)];
            Op::Admit { principal: "bob".into(), role: choices.pick(&roles).flatten() }
        }
        2 => Op::OpenAttachment {
            attachment: attachment(choices),
            generation: u32::from(choices.below(3)),
            secret: (choices.byte() & 1 == 0).then(|| AttachmentSecret::new("s0").hash()),
            window_ms: u64::from(choices.byte()),
        },
        3 => Op::TakeOver {
            attachment: attachment(choices),
            secret: (choices.byte() & 1 == 0).then(|| AttachmentSecret::new("s0").hash()),
            next_secret: (choices.byte() & 1 == 0).then(|| AttachmentSecret::new("s0").hash()),
        },
        4 => Op::LinkAttachment { attachment: attachment(choices), session: "ses_other".into() },
        5 => Op::Detach { attachment: attachment(choices), generation: u32::from(choices.below(3)) },
        6 => Op::CloseAttachment { attachment: attachment(choices), generation: u32::from(choices.below(3)) },
        7 => Op::ChangeTools(ToolChange {
            add: (0..choices.below(3)).map(|_| tool(choices)).collect(),
            remove: (0..choices.below(2)).map(|_| tool(choices).name).collect(),
            turn: (choices.byte() & 3 == 0).then(|| names.turn(choices)),
        }),
        8..11 => Op::StartTurn(Box::new(new_turn(choices, now, names))),
        11 => Op::Interrupt { turn: names.turn(choices), reason: None },
        12 => {
            let end = TurnEnd::failed(FailureKind::SlowConsumer, "slow");
            Op::Conclude { turn: names.turn(choices), end }
        }
        13 => Op::Progress { turn: names.turn(choices), call: names.call(choices), delta: "d".into() },
        14 => Op::Answer { turn: names.turn(choices), call: names.call(choices), end: call_end(choices) },
        15 => Op::Claim { turn: names.turn(choices), relayed: false },
        16 => Op::Emit {
            turn: names.turn(choices),
            fence: u32::from(choices.below(4)),
            output: output(choices),
        },
        17 => Op::Request {
            turn: names.turn(choices),
            fence: u32::from(choices.below(4)),
            calls: vec![request(choices, now, names)],
        },
        18 => Op::Finish {
            turn: names.turn(choices),
            fence: u32::from(choices.below(4)),
            end: TurnEnd::complete(),
        },
        19 => Op::Lose { turn: names.turn(choices), continues: choices.byte() & 1 == 0 },
        20 => Op::Recover,
        22 => Op::Request {
            turn: names.turn(choices),
            fence: u32::from(choices.below(4)),
            calls: batch(choices, now, names),
        },
        23 => Op::Join(Box::new(Device {
            callsign: callsign(choices),
            protocol: "fuzz".into(),
            platform: "linux".into(),
            facts: Value::Null,
            profile: Value::Null,
        })),
        24 => Op::Report { facts: json!(choices.below(2)) },
        25 => Op::LoseDevice { device: callsign(choices), why: DeviceLoss::Disconnected },
        26 => Op::Conclude { turn: names.turn(choices), end: TurnEnd::complete() },
        _ => Op::Wake,
    }
}

fn new_turn(choices: &mut Choices<'_>, now: Timestamp, names: &mut Names) -> NewTurn {
    names.turns += 1;
    let turn = TurnId::new(format!("t{}", names.turns));
    let request = match choices.below(4) {
        0 => TurnRequest::Tool { name: tool(choices).name, args: json!({}) },
        1 => TurnRequest::Step { goal: "on".into(), state: json!(null), budget: Budget::default() },
        _ => TurnRequest::Chat { parts: vec![Part::Text("x".into())] },
    };
    // Rare things are in the upper bits, so that the corpus stays what it was.
    let (key, whose) = (choices.byte(), choices.byte());
    let history = (key >> 6 == 1).then(|| told(choices));
    let key = key % 6;
    NewTurn {
        turn,
        request,
        agent: (whose & 3 == 0).then(|| "other".into()),
        device: (whose >> 6 == 1).then(|| if whose & 4 == 0 { "d0".into() } else { "d1".into() }),
        origin: Origin {
            principal: "ann".into(),
            protocol: "fuzz".into(),
            attachment: (choices.byte() & 1 == 0).then(|| attachment(choices)),
            handle: None,
            bound: choices.byte() & 1 == 0,
            options: json!(null),
        },
        place: Place::default(),
        history,
        workspace: None,
        serial: choices.byte() & 1 == 0,
        held: whose & 0x18 == 0x18,
        once: false,
        setting: None,
        deadline: now.after(Duration::from_millis(u64::from(choices.byte()) * 4)),
        key: (key < 2).then(|| RequestKey { key: format!("k{key}"), digest: choices.below(2).to_string() }),
        meta: json!(null),
    }
}

/// Names are given once, as whoever gives them has to.
#[derive(Default)]
struct Names {
    turns: u32,
    calls: u32,
}

impl Names {
    /// A turn of late.
    fn turn(&self, choices: &mut Choices<'_>) -> TurnId {
        TurnId::new(format!("t{}", self.turns.saturating_sub(u32::from(choices.below(6)))))
    }

    /// A call of late.
    fn call(&self, choices: &mut Choices<'_>) -> CallId {
        CallId::new(format!("c{}", self.calls.saturating_sub(u32::from(choices.below(4)))))
    }
}

fn attachment(choices: &mut Choices<'_>) -> AttachmentId {
    AttachmentId::new(format!("a{}", choices.below(3)))
}

fn callsign(choices: &mut Choices<'_>) -> Callsign {
    Callsign::new(format!("d{}", choices.below(2)))
}

fn executor(choices: &mut Choices<'_>) -> Executor {
    match choices.below(5) {
        0 => Executor::Agent,
        1 => Executor::Attachment(attachment(choices)),
        2 => Executor::Principal("bob".into()),
        4 => Executor::Device(callsign(choices)),
        _ => Executor::Anyone,
    }
}

fn tool(choices: &mut Choices<'_>) -> Tool {
    Tool {
        name: ToolName::new(format!("tool{}", choices.below(4))),
        description: String::new(),
        input_schema: json!({}).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: executor(choices),
        grace_ms: 0,
        options: Value::Null,
    }
}

fn request(choices: &mut Choices<'_>, now: Timestamp, names: &mut Names) -> CallRequest {
    let kind = match choices.below(2) {
        0 => CallKind::Tool { name: tool(choices).name, args: json!({}).into() },
        _ => CallKind::question("?", None),
    };
    names.calls += 1;
    CallRequest {
        id: CallId::new(format!("c{}", names.calls)),
        kind,
        executor: (choices.byte() & 1 == 0).then(|| executor(choices)),
        deadline: now.after(Duration::from_millis(u64::from(choices.byte()))),
        batch: None,
        options: Value::Null.into(),
    }
}

/// Calls that are asked for together, most of them of a device.
fn batch(choices: &mut Choices<'_>, now: Timestamp, names: &mut Names) -> Vec<CallRequest> {
    let size = choices.below(4);
    let device = callsign(choices);
    let id = format!("b{}", names.calls);
    let calls = (0..size).map(|_| CallRequest {
        executor: Some(Executor::Device(device.clone())),
        batch: Some(Batch { id: id.as_str().into(), size: size.into() }),
        options: json!({ "tool_type": "action" }).into(),
        ..request(choices, now, names)
    });
    calls.collect()
}

fn call_end(choices: &mut Choices<'_>) -> CallEnd {
    match choices.below(4) {
        0 => CallEnd::done(json!(1)),
        1 => CallEnd::Failed(CallError::new("broken", String::new())),
        2 => CallEnd::TimedOut,
        _ => CallEnd::Cancelled,
    }
}

fn output(choices: &mut Choices<'_>) -> Output {
    match choices.below(3) {
        0 => Output::Status("busy".into()),
        1 => Output::Reasoning("hm".into()),
        _ => Output::Text("x".repeat(usize::from(choices.below(24)))),
    }
}

/// A history, from few words, so that some of it is found again.
fn told(choices: &mut Choices<'_>) -> Vec<Told> {
    (0..choices.below(4))
        .map(|_| Told {
            voice: [Voice::User, Voice::Agent, Voice::System][usize::from(choices.below(3))],
            text: ["", "a", "b"][usize::from(choices.below(3))].to_owned(),
        })
        .collect()
}
