//! A session with its log in one thread and a clock that only moves when told to.

use std::time::Duration;

use serde_json::{Value, json};

use crate::id::{AttachmentId, CallId, MessageId, PrincipalId, WorkerId};
use crate::limits::SessionLimits;
use crate::model::{
    Actor, AttachmentSecret, CallEnd, CallKind, CallRequest, Committed, Device, DeviceLoss, Event, Executor,
    FailureKind, NewTurn, Op, Origin, Output, Part, Place, RequestKey, SecretHash, Tool, ToolAnnotations,
    ToolChange, TurnEnd, TurnRequest,
};
use crate::position::Position;
use crate::principal::Role;
use crate::reject::Reject;
use crate::session::{Decision, Session, TurnState, TurnStatus};
use crate::time::Timestamp;

/// A live session and the time.
#[derive(Debug)]
pub(super) struct World {
    pub(super) session: Session,
    pub(super) now: Timestamp,
}

impl World {
    /// A session that nobody has opened.
    pub(super) fn unborn() -> Self {
        let session = Session::new("ses".into(), limits());
        Self { session, now: Timestamp::from_secs(1000) }
    }

    /// A session of the owner, in which everybody has their role.
    pub(super) fn opened() -> Self {
        let mut world = Self::with_limits(limits());
        world.admit("contributor", Role::Contributor);
        world.admit("observer", Role::Observer);
        world.admit("device", Role::Device);
        world
    }

    /// A session in which the owner is alone.
    pub(super) fn with_limits(limits: SessionLimits) -> Self {
        let mut world = Self::unborn();
        world.session = world.session.with_limits(limits);
        world.events(&owner(), open());
        world
    }

    /// Decides, commits and applies; checks on the way that deciding is pure.
    pub(super) fn ask(&mut self, actor: &Actor, op: Op) -> Result<Decision, Reject> {
        let before = self.session.clone();
        let decided = self.session.decide(actor, &op, self.now);
        assert_eq!(self.session, before, "deciding changes nothing");
        assert_eq!(self.session.decide(actor, &op, self.now), decided, "deciding is deterministic");
        let decision = decided?;
        for event in &decision.events {
            let mut position = self.session.head().next();
            if let Event::SessionOpened { epoch, .. } = event {
                position = Position { epoch: *epoch, seq: 1 };
            }
            self.session.apply(&Committed { position, at: self.now, event: event.clone() });
        }
        Ok(decision)
    }

    /// What an op that must be granted leads to.
    #[track_caller]
    pub(super) fn events(&mut self, actor: &Actor, op: Op) -> Vec<Event> {
        match self.ask(actor, op.clone()) {
            Ok(decision) => decision.events,
            Err(reject) => panic!("{op:?} was refused: {reject}"),
        }
    }

    /// Why an op that must be refused is refused.
    #[track_caller]
    pub(super) fn refusal(&mut self, actor: &Actor, op: Op) -> Reject {
        let before = self.session.clone();
        match self.ask(actor, op.clone()) {
            Ok(decision) => panic!("{op:?} was granted: {decision:?}"),
            Err(reject) => {
                assert_eq!(self.session, before);
                reject
            }
        }
    }

    pub(super) fn admit(&mut self, principal: &str, role: Role) {
        self.events(&owner(), Op::Admit { principal: principal.into(), role: Some(role) });
    }

    /// Starts an ordinary serial chat turn of the owner's.
    pub(super) fn start(&mut self, turn: &str) -> Vec<Event> {
        self.events(&owner(), start(chat(turn)))
    }

    /// Starts a turn and has the worker take it.
    pub(super) fn run(&mut self, turn: &str) {
        self.start(turn);
        self.claim(turn);
    }

    pub(super) fn claim(&mut self, turn: &str) -> Vec<Event> {
        self.events(&worker(), Op::Claim { turn: turn.into(), relayed: false })
    }

    pub(super) fn emit(&mut self, turn: &str, fence: u32, text: &str) -> Vec<Event> {
        self.events(&worker(), emit(turn, fence, text))
    }

    pub(super) fn finish(&mut self, turn: &str, fence: u32) -> Vec<Event> {
        self.events(&worker(), finish(turn, fence))
    }

    pub(super) fn interrupt(&mut self, turn: &str) -> Vec<Event> {
        self.events(&owner(), interrupt(turn))
    }

    /// Lets time pass, without anybody noticing.
    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
    }

    /// Lets the session notice what time it is.
    pub(super) fn wake(&mut self) -> Vec<Event> {
        self.events(&Actor::server(), Op::Wake)
    }

    /// The moment this many milliseconds ahead.
    pub(super) fn ahead(&self, millis: u64) -> Timestamp {
        self.now.after(Duration::from_millis(millis))
    }

    pub(super) fn status(&self, turn: &str) -> Option<TurnStatus> {
        self.session.turn(&turn.into()).map(TurnState::status)
    }

    /// Registers a tool in the owner's name.
    pub(super) fn register(&mut self, name: &str) {
        let tool = tool(name, Executor::Principal("owner".into()));
        self.events(&owner(), add_tools(vec![tool]));
    }

    /// Opens the owner's attachment.
    pub(super) fn attach(&mut self, attachment: &str, window_ms: u64) {
        self.events(&owner(), attach(attachment, window_ms));
    }
}

pub(super) fn limits() -> SessionLimits {
    SessionLimits::default()
}

pub(super) fn owner() -> Actor {
    client("owner")
}

pub(super) fn contributor() -> Actor {
    client("contributor")
}

pub(super) fn observer() -> Actor {
    client("observer")
}

pub(super) fn device() -> Actor {
    client("device")
}

pub(super) fn stranger() -> Actor {
    client("stranger")
}

pub(super) fn client(principal: &str) -> Actor {
    Actor::client(PrincipalId::from(principal))
}

pub(super) fn worker() -> Actor {
    Actor::worker(WorkerId::from("worker"))
}

pub(super) fn other_worker() -> Actor {
    Actor::worker(WorkerId::from("other"))
}

pub(super) fn open() -> Op {
    Op::Open { epoch: 7, agent: "echo".into(), name: Some("notes".into()) }
}

pub(super) fn profile(callsign: &str) -> Device {
    Device {
        callsign: callsign.into(),
        protocol: "test".into(),
        platform: "linux".into(),
        facts: Value::Null,
        profile: Value::Null,
    }
}

/// A serial chat turn without a deadline in sight.
pub(super) fn chat(turn: &str) -> NewTurn {
    NewTurn {
        turn: turn.into(),
        request: TurnRequest::Chat { parts: vec![Part::Text(format!("hello from {turn}"))] },
        agent: None,
        device: None,
        origin: Origin {
            principal: "owner".into(),
            protocol: "test".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        },
        place: Place::default(),
        history: None,
        workspace: None,
        serial: true,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        key: None,
        meta: Value::Null,
    }
}

/// A turn that neither waits for others nor is waited for.
pub(super) fn parallel(turn: &str) -> NewTurn {
    NewTurn { serial: false, ..chat(turn) }
}

/// A turn that hangs on an attachment.
pub(super) fn bound(turn: &str, attachment: &str) -> NewTurn {
    let mut new = parallel(turn);
    new.origin.attachment = Some(AttachmentId::from(attachment));
    new.origin.bound = true;
    new
}

pub(super) fn keyed(turn: &str, key: &str, digest: &str) -> NewTurn {
    NewTurn { key: Some(RequestKey { key: key.into(), digest: digest.into() }), ..chat(turn) }
}

pub(super) fn start(new: NewTurn) -> Op {
    Op::StartTurn(Box::new(new))
}

pub(super) fn interrupt(turn: &str) -> Op {
    Op::Interrupt { turn: turn.into(), reason: None }
}

pub(super) fn emit(turn: &str, fence: u32, text: &str) -> Op {
    Op::Emit { turn: turn.into(), fence, output: Output::Text(text.into()) }
}

pub(super) fn finish(turn: &str, fence: u32) -> Op {
    Op::Finish { turn: turn.into(), fence, end: TurnEnd::complete() }
}

pub(super) fn lose(turn: &str) -> Op {
    Op::Lose { turn: turn.into(), continues: false }
}

pub(super) fn request(turn: &str, call: CallRequest) -> Op {
    Op::Request { turn: turn.into(), fence: 1, calls: vec![call] }
}

/// A question to whoever may answer.
pub(super) fn question(call: &str) -> CallRequest {
    CallRequest {
        id: call.into(),
        kind: CallKind::question("really?", None),
        executor: None,
        deadline: Timestamp::NEVER,
        batch: None,
        options: Value::Null.into(),
    }
}

/// A use of a tool, by whoever has registered it.
pub(super) fn tool_use(call: &str, name: &str) -> CallRequest {
    CallRequest { kind: CallKind::Tool { name: name.into(), args: json!({"a": 1}).into() }, ..question(call) }
}

pub(super) fn asked_of(executor: Executor, call: CallRequest) -> CallRequest {
    CallRequest { executor: Some(executor), ..call }
}

pub(super) fn answer(turn: &str, call: &str) -> Op {
    answer_with(turn, call, CallEnd::done(json!("yes")))
}

pub(super) fn answer_with(turn: &str, call: &str, end: CallEnd) -> Op {
    Op::Answer { turn: turn.into(), call: CallId::from(call), end }
}

pub(super) fn progress(turn: &str, call: &str) -> Op {
    Op::Progress { turn: turn.into(), call: call.into(), delta: "half".into() }
}

pub(super) fn tool(name: &str, executor: Executor) -> Tool {
    Tool {
        name: name.into(),
        description: String::new(),
        input_schema: json!({}).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor,
        grace_ms: 0,
        options: Value::Null,
    }
}

pub(super) fn add_tools(add: Vec<Tool>) -> Op {
    Op::ChangeTools(ToolChange { add, remove: Vec::new(), turn: None })
}

pub(super) fn remove_tools(names: &[&str]) -> Op {
    let remove = names.iter().map(|name| (*name).into()).collect();
    Op::ChangeTools(ToolChange { add: Vec::new(), remove, turn: None })
}

pub(super) fn attach(attachment: &str, window_ms: u64) -> Op {
    Op::OpenAttachment {
        attachment: attachment.into(),
        generation: 1,
        secret: Some(secret("first")),
        window_ms,
    }
}

pub(super) fn take_over(attachment: &str, shown: &str, next: &str) -> Op {
    Op::TakeOver {
        attachment: attachment.into(),
        secret: Some(secret(shown)),
        next_secret: Some(secret(next)),
    }
}

pub(super) fn detach(attachment: &str, generation: u32) -> Op {
    Op::Detach { attachment: attachment.into(), generation }
}

pub(super) fn close(attachment: &str, generation: u32) -> Op {
    Op::CloseAttachment { attachment: attachment.into(), generation }
}

pub(super) fn secret(text: &str) -> SecretHash {
    AttachmentSecret::new(text).hash()
}

/// One of each op, all well-formed, about things that exist in [`World::opened`] or do not.
pub(super) fn every_op() -> Vec<Op> {
    vec![
        open(),
        Op::Admit { principal: "somebody".into(), role: Some(Role::Observer) },
        attach("a", 1000),
        take_over("a", "first", "second"),
        Op::LinkAttachment { attachment: "a".into(), session: "other".into() },
        detach("a", 1),
        close("a", 1),
        add_tools(vec![tool("t", Executor::Principal("stranger".into()))]),
        start(chat("new")),
        interrupt("t1"),
        Op::Conclude { turn: "t1".into(), end: TurnEnd::failed(FailureKind::SlowConsumer, "slow") },
        Op::Join(Box::new(profile("dev"))),
        Op::Report { facts: Value::Null },
        progress("t1", "c"),
        answer("t1", "c"),
        Op::Claim { turn: "t1".into(), relayed: false },
        emit("t1", 1, "x"),
        request("t1", question("c")),
        finish("t1", 1),
        lose("t1"),
        Op::LoseDevice { device: "dev".into(), why: DeviceLoss::Disconnected },
        Op::ReleaseDevice { device: "dev".into(), by: "root".into() },
        Op::Recover,
        Op::Wake,
    ]
}

/// The names of events, to compare at a glance.
pub(super) fn names(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(Event::name).collect()
}

/// The queue positions that were announced, in order.
/// What the first message among the events follows.
pub(super) fn parent(events: &[Event]) -> Option<MessageId> {
    let added = events
        .iter()
        .find_map(|event| if let Event::MessageAdded { message } = event { Some(message) } else { None });
    added.unwrap_or_else(|| panic!("no message was added: {events:?}")).parent.clone()
}

pub(super) fn announced(events: &[Event]) -> Vec<(&str, u32)> {
    let mut places = Vec::new();
    for event in events {
        if let Event::TurnQueued { turn, position } = event {
            places.push((turn.as_str(), *position));
        }
    }
    places
}

/// The one end among `events`.
#[track_caller]
pub(super) fn end_of(events: &[Event]) -> &TurnEnd {
    let mut ends = Vec::new();
    for event in events {
        if let Event::TurnEnded { end, .. } = event {
            ends.push(end);
        }
    }
    assert_eq!(ends.len(), 1, "{events:?}");
    ends[0]
}
