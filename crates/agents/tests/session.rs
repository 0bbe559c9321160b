//! Turns on a real session whose executors die again and again: every op is one that the session
//! takes, and the log reads as if nobody had died.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{
    Agent, AgentError, Brief, CommandContext, DeviceScript, DeviceTools, Script, Story, Turn, TurnPort,
    WithDevice,
};
use switchboard_core::model::{
    Call, CallEnd, CallError, CallKind, Executor, NewTurn, Origin, Place, Tool, ToolAnnotations, ToolChange,
    TurnEnd, TurnOutcome,
};
use switchboard_core::{
    Actor, CallId, Callsign, Committed, Event, MessageRow, Op, Position, PrincipalId, Reject, Session,
    SessionId, SessionLimits, Timestamp, TurnId, WorkerId,
};
use tokio::sync::watch;

use support::{brief, chat, outputs};

struct World {
    session: Session,
    log: Vec<Event>,
    /// Ops that the current executor lives to see.
    life: usize,
}

impl World {
    fn new(input: &str, device: Option<Callsign>) -> Self {
        let limits = SessionLimits { offers: u32::MAX, ..SessionLimits::default() };
        let session = Session::new(SessionId::from("ses_test"), limits);
        let mut world = Self { session, log: Vec::new(), life: 0 };
        let open = Op::Open { epoch: 1, agent: "agent".into(), name: None };
        world.ask(&client(), open).unwrap();
        let tool = Tool {
            name: "weather".into(),
            description: String::new(),
            input_schema: json!({ "type": "object" }).into(),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor: Executor::Principal(PrincipalId::from("ann")),
            grace_ms: 0,
            options: Value::Null,
        };
        let tools = ToolChange { add: vec![tool], remove: Vec::new(), turn: None };
        world.ask(&client(), Op::ChangeTools(tools)).unwrap();
        let turn = NewTurn {
            turn: TurnId::from("inv_test"),
            request: chat(input),
            agent: None,
            device,
            origin: Origin {
                principal: PrincipalId::from("ann"),
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
            deadline: Timestamp::from_secs(10_000),
            key: None,
            meta: Value::Null,
        };
        world.ask(&client(), Op::StartTurn(Box::new(turn))).unwrap();
        world
    }

    fn ask(&mut self, actor: &Actor, op: Op) -> Result<(), Reject> {
        let decision = self.session.decide(actor, &op, now())?;
        for event in decision.events {
            let head = self.session.head();
            let position = Position { epoch: 1, seq: head.seq + 1 };
            self.session.apply(&Committed { position, at: now(), event: event.clone() });
            self.log.push(event);
        }
        Ok(())
    }

    /// What the server hands to the next executor.
    fn journal(&self) -> Vec<Event> {
        let kept = self.log.iter().filter(|event| match event {
            Event::TurnOutput { .. }
            | Event::CallRequested { .. }
            | Event::CallProgress { .. }
            | Event::CallEnded { .. } => true,
            Event::ToolsChanged { turn, .. } => turn.is_some(),
            _ => false,
        });
        kept.cloned().collect()
    }
}

struct Port {
    world: Arc<Mutex<World>>,
    worker: Actor,
}

impl Port {
    fn act(&self, actor: &Actor, op: Op) -> Result<(), Reject> {
        let mut world = self.world.lock().unwrap();
        if world.life == 0 {
            return Err(Reject::Draining);
        }
        world.life -= 1;
        let result = world.ask(actor, op.clone());
        assert_eq!(result, Ok(()), "the session takes {op:?}");
        result
    }

    fn answer(&self, actor: &Actor, call: &CallId, end: CallEnd) -> CallEnd {
        let op = Op::Answer { turn: TurnId::from("inv_test"), call: call.clone(), end: end.clone() };
        match self.act(actor, op) {
            Ok(()) => end,
            Err(_) => CallEnd::Cancelled,
        }
    }
}

#[async_trait]
impl TurnPort for Port {
    async fn submit(&self, op: Op) -> Result<(), Reject> {
        self.act(&self.worker, op)
    }

    async fn post(&self, op: Op) -> Result<(), Reject> {
        self.act(&self.worker, op)
    }

    async fn call_end(&self, call: &CallId) -> CallEnd {
        let requested = {
            let world = self.world.lock().unwrap();
            let requested = world.log.iter().rev().find_map(|event| match event {
                Event::CallRequested { call: known, .. } if known.id == *call => Some((**known).clone()),
                _ => None,
            });
            requested.unwrap()
        };
        let output = match requested.kind {
            CallKind::Tool { args, .. } if args["name"] == "unknown" => {
                return self.answer(&client(), call, CallEnd::Failed(CallError::new("unknown_tool", "here")));
            }
            CallKind::Tool { name, .. } if name.as_str() == "list_tools" => {
                json!([{ "tool_key": "k", "tool_name": "open.log", "namespace": "fs", "tool_type": "action" }])
            }
            CallKind::Tool { args, .. } => json!({ "got": args }),
            CallKind::Question { text, .. } => json!(text),
        };
        let asker = match requested.executor {
            Executor::Device(device) => Actor::client(PrincipalId::from("bob")).enrolled(Some(device)),
            _ => client(),
        };
        self.answer(&asker, call, CallEnd::done(output))
    }

    async fn history(&self, _limit: usize) -> Vec<MessageRow> {
        Vec::new()
    }

    async fn tools(&self) -> Vec<Tool> {
        self.world.lock().unwrap().session.tools().cloned().collect()
    }

    fn now(&self) -> Timestamp {
        now()
    }
}

fn client() -> Actor {
    Actor::client(PrincipalId::from("ann"))
}

fn now() -> Timestamp {
    Timestamp::from_secs(1_000)
}

/// Runs a turn with executors that live for so many ops, until one of them ends it.
async fn run(agent: &dyn Agent, input: &str, life: usize) -> (TurnEnd, Vec<Event>) {
    run_each(|_| agent, input, None, life).await
}

/// The same with an agent for each run, and for a device.
async fn run_each<'a>(
    agent: impl Fn(u32) -> &'a dyn Agent,
    input: &str,
    device: Option<&str>,
    life: usize,
) -> (TurnEnd, Vec<Event>) {
    run_for(agent, input, device, &[], life).await
}

/// The same for somebody who can run these tools.
async fn run_for<'a>(
    agent: impl Fn(u32) -> &'a dyn Agent,
    input: &str,
    device: Option<&str>,
    tools: &[&str],
    life: usize,
) -> (TurnEnd, Vec<Event>) {
    let device = device.map(Callsign::from);
    let world = Arc::new(Mutex::new(World::new(input, device.clone())));
    for fence in 1.. {
        let worker = Actor::worker(WorkerId::from(format!("worker {fence}").as_str()));
        let turn = TurnId::from("inv_test");
        let journal = {
            let mut world = world.lock().unwrap();
            // Each lives a little longer than the one before, so that all of them get somewhere.
            world.life = life + fence as usize / 4;
            world.ask(&worker, Op::Claim { turn: turn.clone(), relayed: false }).unwrap();
            world.journal()
        };
        let port = Arc::new(Port { world: world.clone(), worker });
        let (_keep, interrupted) = watch::channel(false);
        let mut brief = Brief { device: device.clone(), ..brief(chat(input), fence) };
        brief.origin.options = json!({ "tools": tools });
        let mut running = Turn::new(brief, port, interrupted, journal);
        let result = agent(fence).run(&mut running).await;
        let mut world = world.lock().unwrap();
        match result {
            Ok(end) => return (end, world.journal()),
            Err(AgentError::Failed(failure)) => {
                return (TurnEnd::new(TurnOutcome::Failed(failure)), world.journal());
            }
            Err(AgentError::Over) => world.ask(&Actor::server(), Op::Lose { turn, continues: true }).unwrap(),
        }
    }
    unreachable!()
}

/// The ends of calls that were not lost.
fn ends(log: &[Event]) -> Vec<CallEnd> {
    let ends = log.iter().filter_map(|event| match event {
        Event::CallEnded { end, .. } if *end != CallEnd::Cancelled => Some(end.clone()),
        _ => None,
    });
    ends.collect()
}

#[tokio::test(start_paused = true)]
async fn however_often_executors_die_the_answer_is_the_same() {
    let script = Script::new(Story::conformance().unwrap());
    for input in [
        "everything",
        "count 20",
        "calls 5 weather",
        "call weather {\"city\":\"Bern\"}",
        "ask what?",
        "tool x 5",
        "add tool",
        "remove tool",
        "fail tool after 4",
    ] {
        let (end, log) = run(&script, input, usize::MAX / 2).await;
        for life in 1..12 {
            let (again, pieces) = run(&script, input, life).await;
            assert_eq!(again, end, "{input}, life of {life}");
            assert_eq!(outputs(&pieces), outputs(&log), "{input}, life of {life}");
            assert_eq!(ends(&pieces), ends(&log), "{input}, life of {life}");
        }
    }
}

/// What was asked of others, in order.
fn asked(log: &[Event]) -> Vec<Call> {
    let calls = log.iter().filter_map(|event| match event {
        Event::CallRequested { call, .. } if call.executor != Executor::Agent => Some((**call).clone()),
        _ => None,
    });
    calls.collect()
}

#[tokio::test(start_paused = true)]
async fn however_often_executors_die_whoever_asks_is_offered_a_tool_once() {
    let script = Script::new(Story::conformance().unwrap());
    let agent = |_| &script as &dyn Agent;
    for (input, own) in [("tool known 5", 0), ("tool unknown 5", 1)] {
        let (end, log) = run_for(agent, input, None, &["worker"], usize::MAX / 2).await;
        let requests = log.iter().filter(|event| matches!(event, Event::CallRequested { .. })).count();
        assert_eq!((asked(&log).len(), requests), (1, 1 + own), "{input}");
        assert_eq!(asked(&log)[0].options, json!({ "either": true, "grace_ms": 2000 }).into());
        for life in 1..12 {
            let (again, pieces) = run_for(agent, input, None, &["worker"], life).await;
            assert_eq!(again, end, "{input}, life of {life}");
            assert_eq!(outputs(&pieces), outputs(&log), "{input}, life of {life}");
            assert_eq!((asked(&pieces), ends(&pieces)), (asked(&log), ends(&log)), "{input}, life of {life}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_executors_die_a_device_gets_each_command_once() {
    let step = |name: &str| json!({ "tool_name": name, "tool_type": "action", "parameters": { "n": 1 } });
    let script = json!({ "turns": [[step("a"), step("b"), step("c")], [step("a")], [step("d"), step("e")]], "delay_s": 1 });
    for input in [format!("aip-script:{script}"), "hello".to_owned()] {
        let agent = |_| &DeviceScript as &dyn Agent;
        let (end, log) = run_each(agent, &input, Some("dev-7"), usize::MAX / 2).await;
        assert!(asked(&log).iter().all(|call| call.executor == Executor::Device("dev-7".into())));
        for life in 1..8 {
            let (again, pieces) = run_each(agent, &input, Some("dev-7"), life).await;
            assert_eq!(again, end, "life of {life}");
            assert_eq!((asked(&pieces), ends(&pieces)), (asked(&log), ends(&log)), "life of {life}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn however_often_executors_die_the_tools_of_a_device_are_the_same() {
    let agent = || {
        let tools = Arc::new(DeviceTools::new(CommandContext::default()));
        WithDevice::new(Script::new(Story::conformance().unwrap()), tools)
    };
    for input in ["call open_log {\"path\":\"x\"}", "calls 3 open_log", "everything", "add tool", "tool x 5"]
    {
        let whole = agent();
        let (end, log) = run_each(|_| &whole as &dyn Agent, input, Some("dev-7"), usize::MAX / 2).await;
        let calls = asked(&log);
        assert!(matches!(&calls[0].kind, CallKind::Tool { name, .. } if name.as_str() == "list_tools"));
        if input.contains("open_log") {
            // The session tells the device what the listing said.
            let options = json!({ "tool_type": "action", "tool_name": "open.log" });
            assert_eq!((&calls[1].executor, &*calls[1].options), (&calls[0].executor, &options));
        }
        for life in 1..10 {
            // One process remembers the listing, and every third run is in another that does not.
            let (same, others) = (agent(), [agent(), agent()]);
            let pick = |fence: u32| match fence % 3 {
                0 => &others[usize::from(fence.is_multiple_of(2))] as &dyn Agent,
                _ => &same,
            };
            let (again, pieces) = run_each(pick, input, Some("dev-7"), life).await;
            assert_eq!(again, end, "{input}, life of {life}");
            assert_eq!(outputs(&pieces), outputs(&log), "{input}, life of {life}");
            assert_eq!((asked(&pieces), ends(&pieces)), (asked(&log), ends(&log)), "{input}, life of {life}");
        }
    }
}
