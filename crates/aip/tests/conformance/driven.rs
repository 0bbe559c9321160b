//! A connection driven by hand, where the world is too orderly: answers that come in the wrong
//! moment, or not at once.

use serde_json::{Value, json};
use switchboard_aip::{Aip, AipLimits, Service};
use switchboard_core::{
    Callsign, Connection, Enrolled, Frame, Input, Op, Opening, OpeningRequest, Output, Position, Principal,
    Protocol as _, Reject, Reply, RequestId, Role, Seed, SessionId, Signal, Timestamp, Upgrade,
};

use crate::support::{register, register_boss, short, stop, task};

/// A connection without a server.
struct Driven {
    connection: Box<dyn Connection>,
    now: Timestamp,
    sent: Vec<String>,
    asked: Vec<(RequestId, Asked)>,
    closed: Option<u16>,
    wake: Option<Timestamp>,
}

#[derive(Debug)]
enum Asked {
    Enrol,
    Op(Op),
    Attach(SessionId, Option<Position>),
    Note(Callsign, Value),
}

impl Driven {
    fn new(first: &Value) -> Self {
        let connection = connection("/ws");
        let now = Timestamp::from_secs(1000);
        let mut driven =
            Self { connection, now, sent: Vec::new(), asked: Vec::new(), closed: None, wake: None };
        driven.say(first);
        let (request, asked) = driven.next();
        assert!(matches!(asked, Asked::Enrol), "{asked:?}");
        driven.feed(Input::Done(request, Reply::Enrolled));
        driven
    }

    /// A registered constellation.
    fn boss() -> Self {
        let mut driven = Self::new(&register_boss("boss", Some("dev")));
        assert_eq!(driven.told(), ["ack"]);
        driven
    }

    fn feed(&mut self, input: Input<'_>) {
        self.connection.handle_input(input, self.now).unwrap();
        loop {
            match self.connection.poll_output() {
                Output::Send(Frame::Text(text)) => {
                    self.sent.push(short(&serde_json::from_str(&text).unwrap()))
                }
                Output::Send(_) | Output::Detach(_) => {}
                Output::Enrol(request, _) => self.asked.push((request, Asked::Enrol)),
                Output::Submit(request, _, op) => self.asked.push((request, Asked::Op(op))),
                Output::Attach(request, session, from) => {
                    self.asked.push((request, Asked::Attach(session, from)))
                }
                Output::Note(request, to, body) => self.asked.push((request, Asked::Note(to, body))),
                Output::Close(close) => self.closed = Some(close.code),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn say(&mut self, message: &Value) {
        self.feed(Input::Frame(Frame::Text(message.to_string())));
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent)
    }

    /// The next thing that was asked for.
    fn next(&mut self) -> (RequestId, Asked) {
        self.asked.remove(0)
    }

    fn done(&mut self, request: RequestId) {
        self.feed(Input::Done(request, Reply::Applied { head: Position::default() }));
    }

    /// Time passes until the connection wants to be woken.
    fn sleep(&mut self) -> u64 {
        let before = self.now;
        self.now = self.wake.unwrap();
        self.feed(Input::Timeout);
        self.now.as_millis() - before.as_millis()
    }

    /// A task that has been accepted; what is asked next is to follow it.
    fn start(&mut self) {
        self.say(&task("dev", "s1", "one"));
        let (open, asked) = self.next();
        assert!(matches!(asked, Asked::Op(Op::Open { .. })), "{asked:?}");
        self.done(open);
        let (ledger, asked) = self.next();
        assert!(matches!(asked, Asked::Op(Op::Chronicle { .. })), "{asked:?}");
        self.done(ledger);
        let (request, asked) = self.next();
        let Asked::Op(Op::StartTurn(turn)) = asked else { panic!("{asked:?}") };
        let session = crate::support::session("s1");
        let accepted = Position { epoch: 7, seq: 3 };
        let reply = Reply::Turn { session, turn: turn.turn, accepted, replayed: false };
        self.feed(Input::Done(request, reply));
        assert_eq!(self.told(), ["ack s1"]);
    }
}

/// What the protocol makes of a request for this path.
fn connection(path: &'static str) -> Box<dyn Connection> {
    let aip = Aip::new(AipLimits::default(), Service::default());
    let upgrade = Upgrade {
        known: Vec::new(),
        remote: false,
        principal: Principal::new("ann"),
        now: Timestamp::default(),
        request: OpeningRequest { path, ..OpeningRequest::default() },
        opening: Opening { credentials: Vec::new(), subprotocol: None, agent: None, parameters: Vec::new() },
        agent: "planner".into(),
        agents: vec!["planner".into()],
        tools: Vec::new(),
    };
    aip.accept(upgrade, Seed::new([7; 32])).unwrap()
}

fn note(body: Value) -> Input<'static> {
    Input::Signal(Signal::Note { from: "bob".into(), body })
}

fn dispatched(name: &str) -> Value {
    json!({ "dispatch": { "task_name": name, "session_id": "s9", "request": "go" } })
}

#[test]
fn aip_020_nothing_is_taken_in_before_the_confirmation() {
    let mut dev = Driven::new(&register("dev", json!({})));
    assert!(!dev.connection.wants_events(), "events wait in the log");
    dev.feed(note(dispatched("first")));
    for n in 1..100 {
        dev.feed(note(dispatched(&format!("t{n}"))));
    }
    let invited = Signal::Invited { session: "s".into(), after: Position::default() };
    dev.feed(Input::Signal(invited));
    assert!(dev.told().is_empty());
    let (open, _) = dev.next();
    dev.done(open);
    let (join, asked) = dev.next();
    assert!(matches!(asked, Asked::Op(Op::Join(_))), "{asked:?}");
    assert!(!dev.connection.wants_events());
    dev.done(join);
    assert!(dev.connection.wants_events());
    let told = dev.told();
    assert_eq!(told[..2], ["ack", "task first go"]);
    assert_eq!(told.len(), 65, "no more than it can take up");
}

#[test]
fn following_is_asked_for_again_while_the_server_is_busy() {
    let rejects = [
        Reject::Busy,
        Reject::Unavailable { reason: "disk".into() },
        Reject::RateLimited { retry_after: std::time::Duration::from_secs(9) },
    ];
    let mut boss = Driven::boss();
    boss.start();
    for reject in rejects {
        let (request, asked) = boss.next();
        let Asked::Attach(session, after) = asked else { panic!("{asked:?}") };
        assert_eq!((session, after), (crate::support::session("s1"), Some(Position { epoch: 7, seq: 3 })));
        boss.feed(Input::Rejected(request, reject));
        assert!(boss.asked.is_empty() && boss.closed.is_none());
        assert_eq!(boss.sleep(), 250);
    }
    assert!(matches!(boss.next().1, Asked::Attach(..)));
}

#[test]
fn a_client_that_cannot_be_told_what_happens_is_closed_and_its_tasks_end() {
    let mut boss = Driven::boss();
    boss.start();
    let (request, _) = boss.next();
    boss.feed(Input::Rejected(request, Reject::NotFound));
    assert_eq!(boss.closed, Some(1011));
    assert!(matches!(boss.next().1, Asked::Op(Op::Conclude { .. })));
}

#[test]
fn a_stop_is_said_again_while_the_server_is_busy_and_not_after_that() {
    let mut boss = Driven::boss();
    boss.start();
    boss.next();
    boss.say(&stop("constellation", "s1", "failed", Some("enough")));
    let (request, asked) = boss.next();
    assert!(matches!(asked, Asked::Op(Op::Interrupt { .. })), "{asked:?}");
    boss.feed(Input::Rejected(request, Reject::Busy));
    assert_eq!(boss.sleep(), 250);
    let (request, asked) = boss.next();
    let Asked::Op(Op::Interrupt { reason, .. }) = asked else { panic!("{asked:?}") };
    assert_eq!(reason.as_deref(), Some("enough"));
    boss.feed(Input::Rejected(request, Reject::TurnOver("t".into())));
    assert!(boss.sleep() > 250, "it is over, and so is this");
    assert!(boss.asked.is_empty() && boss.closed.is_none());
}

#[test]
fn answers_to_nothing_are_ignored() {
    let mut boss = Driven::boss();
    boss.done(RequestId(99));
    boss.feed(Input::Rejected(RequestId(99), Reject::Busy));
    boss.feed(note(json!({ "tell": { "ticket": "unknown", "facts": { "x": 1 } } })));
    boss.feed(note(json!({ "ask": { "ticket": "t", "from": "dev" } })));
    boss.feed(note(json!("nonsense")));
    assert!(boss.told().is_empty() && boss.asked.is_empty() && boss.closed.is_none());
}

#[test]
fn facts_are_asked_of_the_device_by_its_name() {
    let mut boss = Driven::boss();
    boss.say(&json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation" }));
    let (_, asked) = boss.next();
    let Asked::Note(to, body) = asked else { panic!("{asked:?}") };
    assert_eq!((to.as_str(), body["ask"]["from"].as_str()), ("dev", Some("boss")));
    assert_eq!(boss.sleep(), 1_500, "a second, and the way there and back");
    assert_eq!(boss.told(), ["info error Device dev not found or no system info available"]);
}

#[test]
fn a_device_that_goes_between_two_looks_is_not_online() {
    for (reject, status) in [(Reject::Offline("dev".into()), 404), (Reject::Busy, 503)] {
        let mut exchange = connection("/api/dispatch");
        let now = Timestamp::default();
        let body = json!({ "client_id": "dev", "request": "go" }).to_string();
        exchange.handle_input(Input::Frame(Frame::Text(body)), now).unwrap();
        let Output::Roll(request) = exchange.poll_output() else { panic!("who is online?") };
        let dev = Enrolled {
            callsign: "dev".into(),
            role: Role::Device,
            principal: "ann".into(),
            target: None,
            since: now,
        };
        exchange.handle_input(Input::Done(request, Reply::Roll(vec![dev])), now).unwrap();
        let Output::Note(request, ..) = exchange.poll_output() else { panic!("the device is told") };
        exchange.handle_input(Input::Rejected(request, reject), now).unwrap();
        let Output::Send(Frame::Head(head)) = exchange.poll_output() else { panic!("an answer") };
        assert_eq!(head.status, status);
    }
}
