//! A session under random ops by several actors, with its log and a clock that only moves forward.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use switchboard_core::model::{
    AttachmentSecret, CallEnd, CallError, CallKind, CallRequest, Executor, FailureKind, NewTurn, Origin,
    Output, Part, Place, RequestKey, Told, Tool, ToolAnnotations, ToolChange, TurnEnd, TurnOutcome,
    TurnRequest, Usage, Voice,
};
use switchboard_core::{
    Actor, AttachmentId, CallId, Committed, Event, MessageId, Op, Position, Reject, Reply, Role, Row,
    Session, SessionLimits, Timestamp, ToolName, TurnId, TurnState, TurnStatus, WorkerId, rows,
};

mod step;

pub(crate) use step::{Act, Callee, Pick, Step, Task, Who, steps};

/// A live session, and everything that was ever committed to it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) now: Timestamp,
    pub(crate) log: Vec<Committed>,
    /// The rows that each event changed.
    pub(crate) rows: Vec<Vec<Row>>,
    /// The last announced place of each turn.
    pub(crate) places: BTreeMap<TurnId, u32>,
    /// Why ops were refused.
    pub(crate) refusals: Vec<Reject>,
    started: u32,
}

impl World {
    /// A session of the owner, with a contributor and an observer.
    pub(crate) fn new() -> Self {
        let mut world = Self {
            session: Session::new("ses".into(), limits()),
            now: Timestamp::from_secs(1000),
            log: Vec::new(),
            rows: Vec::new(),
            places: BTreeMap::new(),
            refusals: Vec::new(),
            started: 0,
        };
        let open = Op::Open { epoch: 3, agent: "echo".into(), name: None };
        world.ask(&Who::Owner.actor(), &open).unwrap();
        for (principal, role) in [("contributor", Role::Contributor), ("observer", Role::Observer)] {
            let admit = Op::Admit { principal: principal.into(), role: Some(role) };
            world.ask(&Who::Owner.actor(), &admit).unwrap();
        }
        world
    }

    /// Runs all steps, and checks after each one what must hold at any time.
    pub(crate) fn after(steps: &[Step]) -> Self {
        let mut world = Self::new();
        for step in steps {
            world.take(step);
        }
        world
    }

    /// Runs one step.
    pub(crate) fn take(&mut self, step: &Step) {
        self.now = self.now.after(Duration::from_millis(step.wait_ms));
        let (actor, op) = self.resolve(step);
        let outcome = self.ask(&actor, &op);
        if step.actor == Some(Who::Stranger) {
            assert_eq!(outcome, Err(Reject::NotFound), "{op:?}");
        }
    }

    /// Decides, commits and applies.
    pub(crate) fn ask(&mut self, actor: &Actor, op: &Op) -> Result<Reply, Reject> {
        let decision = match self.session.decide(actor, op, self.now) {
            Ok(decision) => decision,
            Err(reject) => {
                self.refusals.push(reject.clone());
                return Err(reject);
            }
        };
        let first = self.session.head().seq + 1;
        for (event, seq) in decision.events.into_iter().zip(first..) {
            let epoch = match &event {
                Event::SessionOpened { epoch, .. } => *epoch,
                _ => self.session.head().epoch,
            };
            let committed = Committed { position: Position { epoch, seq }, at: self.now, event };
            self.rows.push(rows(&self.session, &committed));
            self.session.apply(&committed);
            if let Event::TurnQueued { turn, position } = &committed.event {
                self.places.insert(turn.clone(), *position);
            }
            self.log.push(committed);
        }
        Ok(decision.reply)
    }

    /// Lets the session notice the time; says how many events that led to.
    pub(crate) fn wake(&mut self) -> usize {
        let before = self.log.len();
        self.ask(&Actor::server(), &Op::Wake).unwrap();
        self.log.len() - before
    }

    /// Turns a step into an actor and an op about things that exist, most of the time.
    pub(crate) fn resolve(&mut self, step: &Step) -> (Actor, Op) {
        let mut fitting = Who::Owner.actor();
        let op = match &step.act {
            Act::Open => Op::Open { epoch: 9, agent: "other".into(), name: None },
            Act::Admit { who, role } => {
                let principal = ["contributor", "observer", "guest", "owner"][usize::from(*who) % 4];
                Op::Admit { principal: principal.into(), role: *role }
            }
            Act::Attach { attachment, generation, window_ms } => Op::OpenAttachment {
                attachment: attachment_id(*attachment),
                generation: *generation,
                secret: Some(secret(*generation).hash()),
                window_ms: *window_ms,
            },
            Act::TakeOver { attachment, right } => {
                let attachment = attachment_id(*attachment);
                let generation = self.generation(&attachment);
                let shown = if *right { generation } else { generation + 7 };
                Op::TakeOver {
                    attachment,
                    secret: Some(secret(shown).hash()),
                    next_secret: Some(secret(generation + 1).hash()),
                }
            }
            Act::Link { attachment, session } => Op::LinkAttachment {
                attachment: attachment_id(*attachment),
                session: format!("ses{session}").as_str().into(),
            },
            Act::Detach { attachment, late } => {
                let attachment = attachment_id(*attachment);
                let generation = self.generation(&attachment).saturating_sub(u32::from(*late));
                Op::Detach { attachment, generation }
            }
            Act::Close { attachment, late } => {
                let attachment = attachment_id(*attachment);
                let generation = self.generation(&attachment).saturating_sub(u32::from(*late));
                Op::CloseAttachment { attachment, generation }
            }
            Act::Tools { add, remove, turn } => {
                if add.iter().any(|(_, callee)| !matches!(callee, Callee::Owner | Callee::Attachment(_))) {
                    fitting = Who::Worker.actor();
                }
                let add = add.iter().map(|(name, callee)| tool(*name, callee)).collect();
                let remove = remove.iter().map(|name| tool_name(*name)).collect();
                let turn = turn.as_ref().map(|pick| self.turn(pick));
                Op::ChangeTools(ToolChange { add, remove, turn })
            }
            Act::Start(task) => self.start(task),
            Act::Interrupt(pick) => {
                let turn = self.turn(pick);
                // Of those that are held back, some are released instead.
                if self.session.turn(&turn).is_some_and(|turn| turn.held && turn.accepted.seq % 2 == 0) {
                    Op::Release { turn, deadline: self.now.after(Duration::from_secs(1)) }
                } else {
                    Op::Interrupt { turn, reason: Some("enough".into()) }
                }
            }
            Act::Fail(pick) => {
                let end = TurnEnd::failed(FailureKind::SlowConsumer, "slow");
                Op::Conclude { turn: self.turn(pick), end }
            }
            Act::Progress { turn, call } => {
                let turn = self.turn_that(turn, |turn| !turn.calls.is_empty());
                let call = self.call(&turn, *call);
                fitting = self.callee(&turn, &call);
                Op::Progress { turn, call, delta: "half".into() }
            }
            Act::Answer { turn, call, end } => {
                let turn = self.turn_that(turn, |turn| !turn.calls.is_empty());
                let call = self.call(&turn, *call);
                fitting = self.callee(&turn, &call);
                let end = match end % 4 {
                    0 => CallEnd::Failed(CallError::new("denied", "no")),
                    1 => CallEnd::TimedOut,
                    _ => CallEnd::done(json!({"n": end})),
                };
                Op::Answer { turn, call, end }
            }
            Act::Claim(pick) => {
                fitting = Who::Worker.actor();
                Op::Claim {
                    turn: self.turn_that(pick, |turn| turn.status() == TurnStatus::Ready),
                    relayed: false,
                }
            }
            Act::Emit { turn, stale, output } => {
                let turn = self.turn_that(turn, |turn| turn.claim.is_some());
                fitting = self.holder(&turn);
                Op::Emit { fence: self.fence(&turn, *stale), turn, output: output_of(*output) }
            }
            Act::Request { turn, stale, call, callee, millis } => {
                let turn = self.turn_that(turn, |turn| turn.claim.is_some());
                fitting = self.holder(&turn);
                let kind = match callee {
                    Some(_) => CallKind::question("really?", Some(json!(null))),
                    None => CallKind::Tool { name: tool_name(*call), args: json!({}).into() },
                };
                let call = CallRequest {
                    id: call_id(*call),
                    kind,
                    executor: callee.as_ref().map(executor),
                    deadline: self.deadline(*millis),
                    batch: None,
                    options: json!(null).into(),
                };
                Op::Request { fence: self.fence(&turn, *stale), turn, calls: vec![call] }
            }
            Act::Finish { turn, stale, end } => {
                let turn = self.turn_that(turn, |turn| turn.claim.is_some());
                fitting = self.holder(&turn);
                let end = match end % 4 {
                    0 => TurnEnd::failed(FailureKind::Execution, "broken"),
                    1 => TurnEnd { output: Some(json!(null).into()), ..TurnEnd::complete() },
                    2 => TurnEnd::new(TurnOutcome::Interrupted { abandoned: false }),
                    _ => TurnEnd::complete(),
                };
                Op::Finish { fence: self.fence(&turn, *stale), turn, end }
            }
            Act::Lose { turn, continues } => {
                fitting = Actor::server();
                Op::Lose { turn: self.turn_that(turn, |turn| turn.claim.is_some()), continues: *continues }
            }
            Act::Recover => {
                fitting = Actor::server();
                Op::Recover
            }
            Act::Wake { on_time } => {
                fitting = Actor::server();
                if let Some(wake) =
                    self.session.next_wake().filter(|wake| *on_time && *wake < Timestamp::NEVER)
                {
                    self.now = self.now.max(wake);
                }
                Op::Wake
            }
        };
        (step.actor.map_or(fitting, Who::actor), op)
    }

    fn start(&mut self, task: &Task) -> Op {
        // Only turns that the session still remembers: identifiers are fresh, by contract.
        let known = task.again.and_then(|again| self.started.checked_sub(1 + u32::from(again) % 3));
        let number = known.unwrap_or(self.started);
        self.started += u32::from(known.is_none());
        let request = match task.kind % 4 {
            0 => TurnRequest::Tool { name: tool_name(task.kind / 4), args: json!({}) },
            1 => TurnRequest::Step { goal: "next".into(), state: json!(null), budget: Default::default() },
            _ => TurnRequest::Chat { parts: vec![Part::Text(format!("hello {number}"))] },
        };
        let parent = task.parent.map(|parent| {
            let turn = turn_id(u32::from(parent) % self.started.max(1));
            if parent % 2 == 0 { MessageId::input_of(&turn) } else { MessageId::answer_of(&turn) }
        });
        Op::StartTurn(Box::new(NewTurn {
            turn: turn_id(number),
            request,
            agent: None,
            device: None,
            origin: Origin {
                principal: "owner".into(),
                protocol: "test".into(),
                attachment: task.attachment.map(attachment_id),
                handle: Some(number.to_string()),
                bound: task.bound,
                options: json!({"n": number}),
            },
            place: parent.map(Place::after).unwrap_or_default(),
            history: number.is_multiple_of(3).then(told),
            workspace: None,
            serial: task.serial,
            held: task.bound && task.kind.is_multiple_of(5),
            once: false,
            setting: None,
            deadline: self.deadline(task.millis),
            key: task
                .key
                .map(|(key, digest)| RequestKey { key: key.to_string(), digest: digest.to_string() }),
            meta: json!(task.key.map(|(key, _)| key)),
        }))
    }

    fn deadline(&self, millis: Option<u64>) -> Timestamp {
        millis.map_or(Timestamp::NEVER, |millis| self.now.after(Duration::from_millis(millis)))
    }

    fn turn(&self, pick: &Pick) -> TurnId {
        self.turn_that(pick, |_| true)
    }

    /// A live turn for which an op makes sense, if there is one.
    fn turn_that(&self, pick: &Pick, fits: impl Fn(&TurnState) -> bool) -> TurnId {
        let fitting: Vec<&TurnState> = self.session.turns().filter(|turn| fits(turn)).collect();
        match pick {
            Pick::Live(nth) if !fitting.is_empty() => fitting[usize::from(*nth) % fitting.len()].turn.clone(),
            Pick::Live(nth) | Pick::Any(nth) => turn_id(u32::from(*nth) % (self.started + 1)),
        }
    }

    /// A call of the turn, if it has one.
    fn call(&self, turn: &TurnId, nth: u8) -> CallId {
        let mut open = self.session.turn(turn).into_iter().flat_map(|turn| turn.calls.keys());
        open.nth(usize::from(nth) % 4).cloned().unwrap_or_else(|| call_id(nth))
    }

    fn fence(&self, turn: &TurnId, stale: bool) -> u32 {
        let fence = self.session.turn(turn).map_or(1, |turn| turn.claims);
        if stale { fence.wrapping_sub(1) } else { fence }
    }

    fn holder(&self, turn: &TurnId) -> Actor {
        let claim = self.session.turn(turn).and_then(|turn| turn.claim.clone());
        Actor::worker(claim.map_or_else(|| WorkerId::from("one"), |claim| claim.worker))
    }

    /// Somebody who may answer the call.
    fn callee(&self, turn: &TurnId, call: &CallId) -> Actor {
        match self.session.turn(turn).and_then(|turn| turn.calls.get(call)).map(|call| &call.executor) {
            Some(Executor::Agent) => self.holder(turn),
            Some(Executor::Principal(principal)) => Actor::client(principal.clone()),
            Some(Executor::Device(device)) => Who::Owner.actor().enrolled(Some(device.clone())),
            Some(Executor::Attachment(_) | Executor::Anyone) | None => Who::Owner.actor(),
        }
    }

    fn generation(&self, attachment: &AttachmentId) -> u32 {
        self.session.attachment(attachment).map_or(1, |view| view.generation)
    }
}

impl Who {
    pub(crate) fn actor(self) -> Actor {
        match self {
            Self::Owner => Actor::client("owner".into()),
            Self::Contributor => Actor::client("contributor".into()),
            Self::Observer => Actor::client("observer".into()),
            Self::Stranger => Actor::client("stranger".into()),
            Self::Worker => Actor::worker("one".into()),
            Self::OtherWorker => Actor::worker("two".into()),
            Self::Server => Actor::server(),
        }
    }
}

/// Limits that a short run reaches.
pub(crate) fn limits() -> SessionLimits {
    SessionLimits {
        running_turns: 3,
        queued_turns: 3,
        open_calls: 2,
        tools: 3,
        participants: 2,
        attachments: 2,
        answer_bytes: 8,
        requests: 3,
        request_memory: Duration::from_secs(2),
        ended_turns: 12,
        interrupt_grace: Duration::from_millis(800),
        offers: 2,
        record_bytes: 4096,
    }
}

fn turn_id(number: u32) -> TurnId {
    // Names that sort in another order than turns are accepted in.
    TurnId::new(format!("t{}-{number}", (number * 7) % 10))
}

fn call_id(number: u8) -> CallId {
    CallId::new(format!("c{}", number % 4))
}

fn attachment_id(number: u8) -> AttachmentId {
    AttachmentId::new(format!("a{}", number % 3))
}

fn tool_name(number: u8) -> ToolName {
    ToolName::new(format!("n{}", number % 5))
}

fn secret(generation: u32) -> AttachmentSecret {
    AttachmentSecret::new(format!("secret of {generation}"))
}

fn executor(callee: &Callee) -> Executor {
    match callee {
        Callee::Agent => Executor::Agent,
        Callee::Attachment(number) => Executor::Attachment(attachment_id(*number)),
        Callee::Owner => Executor::Principal("owner".into()),
        Callee::Contributor => Executor::Principal("contributor".into()),
        Callee::Anyone => Executor::Anyone,
    }
}

fn tool(name: u8, callee: &Callee) -> Tool {
    Tool {
        name: tool_name(name),
        description: "a tool".into(),
        input_schema: json!({"type": "object"}).into(),
        output_schema: name.is_multiple_of(2).then(|| json!(null).into()),
        annotations: ToolAnnotations::default(),
        version: None,
        executor: executor(callee),
        grace_ms: 0,
        options: serde_json::Value::Null,
    }
}

fn output_of(kind: u8) -> Output {
    match kind % 6 {
        0 => Output::Reasoning("hm".into()),
        1 => Output::Usage(Usage([("output_tokens".to_owned(), 7)].into())),
        2 => Output::Data { mime: None, value: json!({"a": [1, null, 2.5, "x"]}) },
        _ => Output::Text("text".into()),
    }
}

/// What every third turn is told to follow.
fn told() -> Vec<Told> {
    ["what was said", "what was answered"]
        .into_iter()
        .zip([Voice::User, Voice::Agent])
        .map(|(text, voice)| Told { voice, text: text.to_owned() })
        .collect()
}
