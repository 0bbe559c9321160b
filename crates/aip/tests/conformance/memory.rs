//! What a connection remembers once its tasks are over: nothing (A33).

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_aip::{Aip, AipLimits, Service};
use switchboard_core::{
    Connection, Frame, Input, Opening, OpeningRequest, Output, Principal, Protocol, Refusal, RefusalReply,
    Route, Seed, Timestamp, Upgrade, Violation,
};
use switchboard_testkit::{PeerId, Received, World, opening};

use crate::support::{beat, done, own_task, register, register_boss, stop, task};

/// The protocol, with a look at what its connections hold.
#[derive(Debug)]
struct Spy {
    aip: Aip,
    shown: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Watched {
    connection: Box<dyn Connection>,
    index: usize,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Protocol for Spy {
    fn name(&self) -> &'static str {
        self.aip.name()
    }

    fn routes(&self) -> &'static [Route] {
        self.aip.routes()
    }

    fn max_message(&self) -> usize {
        self.aip.max_message()
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        self.aip.inspect(request)
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        let connection = self.aip.accept(upgrade, seed)?;
        let mut shown = self.shown.lock().unwrap();
        shown.push(String::new());
        let index = shown.len() - 1;
        Ok(Box::new(Watched { connection, index, shown: self.shown.clone() }))
    }

    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply {
        self.aip.refuse(refusal, request_id)
    }
}

impl Connection for Watched {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.connection.handle_input(input, now)
    }

    fn poll_output(&mut self) -> Output {
        let output = self.connection.poll_output();
        if matches!(output, Output::Idle { .. }) {
            self.shown.lock().unwrap()[self.index] = format!("{:?}", self.connection);
        }
        output
    }

    fn wants_events(&self) -> bool {
        self.connection.wants_events()
    }

    fn wants_frames(&self) -> bool {
        self.connection.wants_frames()
    }
}

/// Everything in which something of a task can be kept.
const EMPTY: [&str; 12] = [
    "running: {}",
    "per_device: {}",
    "undecided: 0",
    "early_notes: []",
    "own: {}",
    "work: {}",
    "begun: {}",
    "dispatches: []",
    "pull: None",
    "waiting: {}",
    "open: {}",
    "again: []",
];

fn say(world: &mut World, peer: PeerId, message: &Value) -> Vec<Value> {
    world.send(peer, Frame::Text(message.to_string()));
    heard(world, peer)
}

fn heard(world: &mut World, peer: PeerId) -> Vec<Value> {
    let texts = world.take(peer).into_iter().filter_map(|received| match received {
        Received::Frame(Frame::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn connections_hold_nothing_of_tasks_that_are_over() {
    let spy = Spy { aip: Aip::new(AipLimits::default(), Service::default()), shown: Arc::default() };
    let mut world = World::new();
    world.set_default_agent("planner", crate::support::planner());
    let dev = world.connect(&spy, Principal::new("ann"), opening());
    let boss = world.connect(&spy, Principal::new("ann"), opening());
    say(&mut world, dev, &register("dev", json!({ "platform": "linux" })));
    say(&mut world, boss, &register_boss("boss", Some("dev")));
    let assert_empty = |request: &str| {
        for shown in spy.shown.lock().unwrap().iter() {
            for part in EMPTY {
                assert!(shown.contains(part), "{request}: not {part} in {shown}");
            }
        }
    };
    assert_empty("registered");
    for request in ["one", "two", "strict", "raise", "panic", "hello", "hang", "deaf"] {
        say(&mut world, boss, &task("dev", "s1", request));
        say(&mut world, dev, &own_task("s2", request));
        if request == "deaf" {
            say(&mut world, boss, &stop("constellation", "s1", "failed", None));
            say(&mut world, dev, &stop("device", "s2", "failed", None));
            world.advance(2_000);
        }
        for _ in 0..3 {
            say(&mut world, dev, &beat());
            let commands: Vec<Value> = world_commands(&mut world, dev);
            for command in commands {
                say(&mut world, dev, &done(&command));
            }
        }
        say(&mut world, boss, &stop("constellation", "s1", "failed", None));
        say(&mut world, dev, &stop("device", "s2", "failed", None));
        world.advance(2_000);
        for peer in [dev, boss] {
            say(&mut world, peer, &beat());
        }
        assert_empty(request);
    }
    let ask = json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation" });
    say(&mut world, boss, &ask);
    world.advance(2_000);
    assert_empty("a question that was answered");
}

/// Nothing is heard twice, so what a device is asked is looked up in the log.
fn world_commands(world: &mut World, dev: PeerId) -> Vec<Value> {
    let _ = heard(world, dev);
    let mut commands = Vec::new();
    for session in world.session_ids() {
        let Some(state) = world.session(&session) else { continue };
        for turn in state.turns() {
            let calls: Vec<_> = turn.calls.values().collect();
            let Some(first) = calls.first() else { continue };
            let handle = turn.origin.handle.clone();
            let actions: Vec<Value> =
                calls.iter().map(|_| json!({ "tool_name": "x", "call_id": null })).collect();
            let id = first.batch.as_ref().map(|batch| batch.id.clone());
            commands.push(json!({ "session_id": handle, "response_id": id, "actions": actions }));
        }
    }
    commands
}
