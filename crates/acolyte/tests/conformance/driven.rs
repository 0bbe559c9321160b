//! A connection driven by hand, where the world is too orderly: answers that come in the wrong
//! moment, or never.

use serde_json::{Value, json};
use switchboard_acolyte::{Acolyte, AcolyteLimits, Service};
use switchboard_core::model::{Claim, Finish, Origin, TurnEnd, TurnOutcome, TurnRequest};
use switchboard_core::{
    AttachmentView, Committed, Connection, Event, Frame, Input, Op, Opening, OpeningRequest, Output,
    Position, Principal, Protocol as _, Reject, Reply, RequestId, Seed, SessionId, SessionView, Timestamp,
    TurnId, TurnView, Upgrade,
};

use crate::support::{Talk, abort, attach, short, start_in};

/// A connection without a server.
struct Driven {
    connection: Box<dyn Connection>,
    now: Timestamp,
    sent: Vec<Value>,
    asked: Vec<(RequestId, Asked)>,
    /// What was detached from, so far.
    detached: usize,
    closed: Option<u16>,
    wake: Option<Timestamp>,
}

#[derive(Debug)]
enum Asked {
    Op(Op),
    Attach(Option<Position>),
    Find(TurnId),
}

impl Driven {
    /// A connection that can resume.
    fn new() -> Self {
        let acolyte = Acolyte::new(AcolyteLimits::default(), Service::default());
        let upgrade = Upgrade {
            known: Vec::new(),
            remote: false,
            principal: Principal::new("ann"),
            now: Timestamp::default(),
            request: OpeningRequest { path: "/v1/rpc", websocket: true, ..OpeningRequest::default() },
            opening: Opening {
                credentials: Vec::new(),
                subprotocol: None,
                agent: None,
                parameters: Vec::new(),
            },
            agent: "demo".into(),
            agents: vec!["demo".into()],
            tools: Vec::new(),
        };
        let connection = acolyte.accept(upgrade, Seed::new([7; 32])).unwrap();
        let now = Timestamp::from_secs(1000);
        let mut driven = Self {
            connection,
            now,
            sent: Vec::new(),
            asked: Vec::new(),
            detached: 0,
            closed: None,
            wake: None,
        };
        driven.say(&json!({"id": "rpc_o", "type": "status.get", "payload": {"capabilities": "task.resume"}}));
        driven.sent.clear();
        driven
    }

    fn feed(&mut self, input: Input<'_>) {
        self.connection.handle_input(input, self.now).unwrap();
        loop {
            match self.connection.poll_output() {
                Output::Send(Frame::Text(text)) => self.sent.push(serde_json::from_str(&text).unwrap()),
                Output::Submit(request, _, op) => self.asked.push((request, Asked::Op(op))),
                Output::Attach(request, _, from) => self.asked.push((request, Asked::Attach(from))),
                Output::Find(request, _, turn) => self.asked.push((request, Asked::Find(turn))),
                Output::Detach(_) => self.detached += 1,
                Output::Send(Frame::Ping(_)) => {}
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

    fn done(&mut self, request: RequestId, reply: Reply) {
        self.feed(Input::Done(request, reply));
    }

    fn reject(&mut self, request: RequestId, reject: Reject) {
        self.feed(Input::Rejected(request, reject));
    }

    fn happens(&mut self, seq: u64, event: Event) {
        let committed = Committed { position: at(seq), at: self.now, event };
        self.feed(Input::Committed(&session(), &committed));
    }

    /// What was sent since it was last asked.
    fn sent(&mut self) -> Vec<String> {
        let sent = short(&self.sent);
        self.sent.clear();
        sent
    }

    /// The last question of a kind.
    fn last(&self, wanted: impl Fn(&Asked) -> bool) -> RequestId {
        self.asked.iter().rev().find(|(_, asked)| wanted(asked)).unwrap().0
    }

    fn last_attach(&self) -> (RequestId, Option<Position>) {
        let request = self.last(|asked| matches!(asked, Asked::Attach(_)));
        let from = self.asked.iter().find_map(|(known, asked)| match asked {
            Asked::Attach(from) if *known == request => Some(*from),
            _ => None,
        });
        (request, from.unwrap())
    }

    /// The turn that was asked for last.
    fn turn(&self) -> TurnId {
        let turn = self.asked.iter().rev().find_map(|(_, asked)| match asked {
            Asked::Op(Op::StartTurn(new)) => Some(new.turn.clone()),
            _ => None,
        });
        turn.unwrap()
    }

    fn count(&self, wanted: impl Fn(&Op) -> bool) -> usize {
        self.asked.iter().filter(|(_, asked)| matches!(asked, Asked::Op(op) if wanted(op))).count()
    }

    /// A chat that runs, up to event 3.
    fn running() -> (Self, TurnId) {
        let mut driven = Self::new();
        driven.say(&start_in("rpc_a", "sess_s", "hi"));
        let (request, _) = driven.last_attach();
        driven.done(request, Reply::Attached(view(1, &[])));
        let turn = driven.turn();
        let start = driven.last(|asked| matches!(asked, Asked::Op(Op::StartTurn(_))));
        let reply = Reply::Turn { session: session(), turn: turn.clone(), accepted: at(2), replayed: false };
        driven.done(start, reply);
        driven.happens(2, accepted(&turn));
        driven.happens(3, started(&turn));
        driven.sent.clear();
        (driven, turn)
    }
}

fn session() -> SessionId {
    Talk::session("sess_s")
}

fn at(seq: u64) -> Position {
    Position { epoch: 5, seq }
}

fn origin() -> Origin {
    Origin {
        principal: "ann".into(),
        protocol: "acolyte".into(),
        attachment: None,
        handle: None,
        bound: true,
        options: Value::Null,
    }
}

fn view(head: u64, turns: &[(&TurnId, u64)]) -> Box<SessionView> {
    let turns = turns.iter().map(|(turn, accepted)| TurnView {
        turn: (*turn).clone(),
        origin: origin(),
        accepted: *accepted,
        ended: None,
    });
    Box::new(SessionView {
        head: at(head),
        tools: Vec::new(),
        tools_revision: 0,
        turns: turns.collect(),
        standing: Default::default(),
        chronicles: Default::default(),
    })
}

fn accepted(turn: &TurnId) -> Event {
    Event::TurnAccepted {
        turn: turn.clone(),
        request: Box::new(TurnRequest::Chat { parts: Vec::new() }),
        agent: "demo".into(),
        device: None,
        origin: Box::new(origin()),
        serial: false,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::from_secs(9000),
        parent: None,
        names: None,
        recall: None,
        workspace: None,
        key: None,
        meta: Box::new(Value::Null),
    }
}

fn started(turn: &TurnId) -> Event {
    Event::TurnStarted { turn: turn.clone(), claim: Claim { worker: "w".into(), fence: 1, relayed: false } }
}

fn said(turn: &TurnId, text: &str) -> Event {
    let output = switchboard_core::model::Output::Text(text.into());
    Event::TurnOutput { turn: turn.clone(), output }
}

fn ended(turn: &TurnId, outcome: TurnOutcome) -> Event {
    Event::TurnEnded { turn: turn.clone(), end: Box::new(TurnEnd::new(outcome)) }
}

fn unavailable() -> Reject {
    Reject::Unavailable { reason: "disk".into() }
}

#[test]
fn events_that_come_ahead_of_the_way_back_are_heard_in_their_place() {
    let (mut driven, turn) = Driven::running();
    driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
    let (request, from) = driven.last_attach();
    assert_eq!(from, Some(at(3)), "what is missing has to come all the same");
    driven.done(request, Reply::Attached(view(3, &[(&turn, 2)])));
    let (request, from) = driven.last_attach();
    assert_eq!(from, Some(at(1)));
    assert_eq!(driven.sent(), ["b accepted"]);
    // The transport has not heard of it yet.
    driven.happens(4, said(&turn, "x"));
    assert_eq!(driven.sent(), Vec::<String>::new());
    driven.done(request, Reply::Attached(view(4, &[(&turn, 2)])));
    driven.happens(2, accepted(&turn));
    driven.happens(3, started(&turn));
    assert_eq!(driven.sent(), ["b started", "b event status", "b event usage"], "each hears what it lacks");
    driven.happens(4, said(&turn, "x"));
    assert_eq!(driven.sent(), [r#"a event "x""#, r#"b event "x""#]);
    driven.happens(4, said(&turn, "x"));
    assert_eq!(driven.sent(), Vec::<String>::new(), "and nothing twice");
}

#[test]
fn a_transport_that_has_jumped_ahead_is_led_back() {
    let mut driven = Driven::new();
    driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
    let (first, _) = driven.last_attach();
    driven.say(&start_in("rpc_a", "sess_s", "hi"));
    let (second, from) = driven.last_attach();
    assert_eq!(from, None, "nobody knows whether the first one finds anything");
    driven.done(first, Reply::Attached(view(1, &[])));
    assert_eq!(driven.sent(), ["b error refused"]);
    let turn = driven.turn();
    driven.done(second, Reply::Attached(view(4, &[(&turn, 3)])));
    let (third, from) = driven.last_attach();
    assert_eq!(from, Some(at(1)));
    driven.happens(5, said(&turn, "late"));
    assert_eq!(driven.sent(), Vec::<String>::new());
    driven.done(third, Reply::Attached(view(5, &[(&turn, 3)])));
    driven.happens(2, Event::ParticipantLeft { principal: "x".into() });
    driven.happens(3, accepted(&turn));
    driven.happens(4, started(&turn));
    driven.happens(5, said(&turn, "late"));
    assert_eq!(driven.sent()[4..], [r#"a event "late""#]);
}

#[test]
fn the_answer_for_a_chat_that_is_gone_lets_go_of_its_session() {
    let mut driven = Driven::new();
    driven.say(&start_in("rpc_a", "sess_s", "hi"));
    let (request, _) = driven.last_attach();
    let start = driven.last(|asked| matches!(asked, Asked::Op(Op::StartTurn(_))));
    driven.reject(start, Reject::Forbidden);
    assert_eq!(driven.sent(), ["a accepted", "a started", "a error E_SANDBOX_VIOLATION"]);
    assert_eq!(driven.detached, 1);
    driven.done(request, Reply::Attached(view(1, &[])));
    assert_eq!(driven.detached, 2, "the transport follows it only now");
}

#[test]
fn a_way_back_that_is_refused_fails_every_chat_of_the_session_and_the_next_asks_again() {
    let (mut driven, turn) = Driven::running();
    driven.say(&start_in("rpc_w", "sess_s", "next"));
    driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
    let (request, _) = driven.last_attach();
    driven.done(request, Reply::Attached(view(3, &[(&turn, 2)])));
    driven.sent.clear();
    let (back, from) = driven.last_attach();
    assert_eq!(from, Some(at(1)));
    // Somebody still looks something up there.
    driven.say(&attach("rpc_c", None, Some("sess_s"), 0));
    driven.reject(back, unavailable());
    let waiting = ["w accepted", "w started", "w error E_UNKNOWN"];
    let running = ["a error E_UNKNOWN", "b started", "b error E_UNKNOWN"];
    assert_eq!(driven.sent(), [running, waiting].concat());
    driven.say(&start_in("rpc_n", "sess_s", "next"));
    assert_eq!(driven.count(|op| matches!(op, Op::Interrupt { turn: stopped, .. } if *stopped == turn)), 1);
    assert!(driven.turn() != turn, "the next one runs");
    let (request, from) = driven.last_attach();
    assert_eq!(from, None, "from where it begins");
    driven.done(request, Reply::Attached(view(9, &[])));
    let next = driven.turn();
    driven.happens(10, accepted(&next));
    driven.happens(11, started(&next));
    assert_eq!(driven.sent()[..2], ["n accepted", "n started"]);
}

#[test]
fn a_stopping_turn_that_cannot_be_followed_frees_its_place() {
    let (mut driven, turn) = Driven::running();
    driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
    let (request, _) = driven.last_attach();
    driven.done(request, Reply::Attached(view(3, &[(&turn, 2)])));
    driven.say(&abort("rpc_x", "rpc_a"));
    driven.say(&start_in("rpc_w", "sess_s", "next"));
    let interrupt = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
    driven.done(interrupt, Reply::Applied { head: at(4) });
    let sent = driven.sent();
    assert_eq!(sent[sent.len() - 2..], ["a error E_ABORTED", "x abort.result true"]);
    assert_eq!(driven.count(|op| matches!(op, Op::Release { .. })), 0, "the agent has not stopped");
    let (back, _) = driven.last_attach();
    driven.reject(back, unavailable());
    assert_eq!(driven.sent().last().unwrap(), "w error E_UNKNOWN", "nobody would hear of it either");
    driven.say(&start_in("rpc_n", "sess_s", "free"));
    let held = |op: &Op| matches!(op, Op::StartTurn(new) if new.held);
    assert_eq!(driven.count(held), 1, "the place is free");
}

#[test]
fn a_task_that_is_attached_goes_on_when_it_cannot_be_followed() {
    let mut driven = Driven::new();
    driven.say(&attach("rpc_b", Some("task_1"), Some("sess_s"), 0));
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::TakeOver { .. })));
    let turn = TurnId::from("inv_1");
    let turns = view(3, &[(&turn, 2)]).turns;
    let attachment =
        AttachmentView { attachment: "task_1".into(), generation: 4, linked: Vec::new(), turns, head: at(3) };
    driven.done(request, Reply::Attachment(Box::new(attachment)));
    let (back, from) = driven.last_attach();
    assert_eq!(from, Some(at(1)));
    driven.reject(back, Reject::Busy);
    assert_eq!(driven.sent(), ["b accepted", "b started", "b error E_OVERLOADED"]);
    assert_eq!(driven.count(|op| matches!(op, Op::Detach { generation: 4, .. })), 1);
    let stops = |op: &Op| matches!(op, Op::Interrupt { .. } | Op::CloseAttachment { .. });
    assert_eq!(driven.count(stops), 0);
}

#[test]
fn an_attachment_without_its_turn_is_closed_again() {
    let mut driven = Driven::new();
    driven.say(&attach("rpc_b", Some("task_1"), Some("sess_s"), 0));
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::TakeOver { .. })));
    let attachment = AttachmentView {
        attachment: "task_1".into(),
        generation: 4,
        linked: Vec::new(),
        turns: Vec::new(),
        head: at(3),
    };
    driven.done(request, Reply::Attachment(Box::new(attachment)));
    assert_eq!(driven.sent(), ["b error refused"]);
    assert_eq!(driven.count(|op| matches!(op, Op::CloseAttachment { generation: 4, .. })), 1);
}

#[test]
fn lookups_that_fail_are_answered_all_the_same() {
    let mut driven = Driven::new();
    driven.say(&json!({"id": "rpc_t", "type": "task.status", "payload": {"taskId": "task_1"}}));
    let request = driven.last(|asked| matches!(asked, Asked::Find(turn) if turn.as_str() == "inv_1"));
    driven.reject(request, unavailable());
    assert_eq!(driven.sent.pop(), Some(json!({"id": "rpc_t", "type": "task.status.result", "task": null})));
    // The same for one that is to be told again.
    driven.say(&attach("rpc_b", Some("task_1"), Some("sess_s"), 0));
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::TakeOver { .. })));
    driven.reject(request, Reject::AttachmentGone);
    let (request, _) = driven.last_attach();
    driven.done(request, Reply::Attached(view(3, &[])));
    let request = driven.last(|asked| matches!(asked, Asked::Find(_)));
    driven.reject(request, unavailable());
    assert_eq!((driven.sent(), driven.detached), (vec!["b error refused".to_owned()], 1));
}

#[test]
fn an_abort_that_meets_the_end_is_answered_after_it() {
    for reject_first in [true, false] {
        let (mut driven, turn) = Driven::running();
        driven.say(&abort("rpc_x", "rpc_a"));
        let request = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
        let over = Reject::TurnOver(turn.clone());
        if reject_first {
            driven.reject(request, over.clone());
            assert_eq!(driven.sent(), Vec::<String>::new());
        }
        driven.happens(4, said(&turn, "x"));
        driven.happens(5, ended(&turn, TurnOutcome::Done(Finish::Complete)));
        if !reject_first {
            driven.reject(request, over);
        }
        let sent = driven.sent();
        assert_eq!(sent[sent.len() - 2..], [r#"a done "x""#, "x abort.result false"]);
    }
}

#[test]
fn an_abort_that_somebody_else_was_faster_with_is_answered_true() {
    let (mut driven, turn) = Driven::running();
    driven.say(&abort("rpc_x", "rpc_a"));
    driven.happens(4, ended(&turn, TurnOutcome::Interrupted { abandoned: false }));
    assert_eq!(driven.sent(), ["a error E_ABORTED", "x abort.result true"]);
}

#[test]
fn what_comes_after_an_abort_is_not_told() {
    let (mut driven, turn) = Driven::running();
    driven.say(&abort("rpc_x", "rpc_a"));
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
    driven.done(request, Reply::Applied { head: at(6) });
    assert_eq!(driven.sent(), ["a error E_ABORTED", "x abort.result true"]);
    // Said before the interrupt, and on its way until now.
    driven.happens(4, said(&turn, "x"));
    driven.happens(5, said(&turn, "y"));
    driven.say(&start_in("rpc_a", "sess_s", "again"));
    driven.happens(6, Event::TurnInterrupted { turn: turn.clone(), by: None, reason: None });
    assert_eq!(driven.sent(), Vec::<String>::new(), "it is not stored yet");
    let start = driven.last(|asked| matches!(asked, Asked::Op(Op::StartTurn(_))));
    let next = driven.turn();
    driven.done(start, Reply::Turn { session: session(), turn: next, accepted: at(7), replayed: false });
    assert_eq!(driven.sent(), ["a accepted", "a queued 1"]);
    assert_eq!(driven.count(|op| matches!(op, Op::Release { .. })), 0);
    driven.happens(7, ended(&turn, TurnOutcome::Interrupted { abandoned: false }));
    assert_eq!(driven.count(|op| matches!(op, Op::Release { .. })), 1, "its place is free");
    assert_eq!(driven.sent(), Vec::<String>::new());
}

#[test]
fn two_aborts_are_one_interrupt() {
    let (mut driven, _) = Driven::running();
    driven.say(&abort("rpc_x", "rpc_a"));
    driven.say(&abort("rpc_y", "rpc_a"));
    assert_eq!(driven.count(|op| matches!(op, Op::Interrupt { .. })), 1);
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
    driven.done(request, Reply::Applied { head: at(4) });
    assert_eq!(driven.sent(), ["a error E_ABORTED", "x abort.result true", "y abort.result true"]);
}

#[test]
fn a_busy_session_refuses_the_abort_and_another_one_is_tried() {
    let (mut driven, _) = Driven::running();
    for reject in
        [Reject::Busy, unavailable(), Reject::RateLimited { retry_after: std::time::Duration::ZERO }]
    {
        driven.say(&abort("rpc_x", "rpc_a"));
        let request = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
        driven.reject(request, reject);
        assert_eq!(driven.sent(), ["x error refused"]);
    }
    assert_eq!(driven.count(|op| matches!(op, Op::Interrupt { .. })), 3);
    driven.say(&abort("rpc_x", "rpc_a"));
    let request = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
    driven.reject(request, Reject::Forbidden);
    assert_eq!(driven.sent(), ["x abort.result false"]);
}

#[test]
fn an_abort_that_is_under_way_when_the_chat_comes_too_fast_ends_it() {
    let mut driven = Driven::new();
    driven.say(&start_in("rpc_a", "sess_s", "hi"));
    driven.say(&abort("rpc_x", "rpc_a"));
    let start = driven.last(|asked| matches!(asked, Asked::Op(Op::StartTurn(_))));
    let interrupt = driven.last(|asked| matches!(asked, Asked::Op(Op::Interrupt { .. })));
    driven.reject(start, Reject::RateLimited { retry_after: std::time::Duration::from_secs(1) });
    assert_eq!(driven.sent(), ["a accepted", "a error E_ABORTED", "x abort.result true"]);
    driven.reject(interrupt, Reject::UnknownTurn(driven.turn()));
    driven.now = Timestamp::from_secs(2000);
    driven.feed(Input::Frame(Frame::Pong(Vec::new().into())));
    driven.feed(Input::Timeout);
    assert_eq!(driven.count(|op| matches!(op, Op::StartTurn(_))), 1, "it is not tried again");
    assert_eq!(driven.sent(), Vec::<String>::new());
}

#[test]
fn the_id_of_an_attach_that_is_under_way_is_in_use() {
    let mut driven = Driven::new();
    driven.say(&attach("rpc_b", Some("task_1"), Some("sess_s"), 0));
    let asked = driven.asked.len();
    driven.say(&start_in("rpc_b", "sess_s", "hi"));
    driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
    assert_eq!(driven.sent(), ["b error refused", "b error refused"]);
    assert_eq!(driven.asked.len(), asked);
}

#[test]
fn ac_080_a_minute_counts_from_the_last_bytes_that_were_taken() {
    // Seconds after the beginning, what waits then, and whether the peer is gone.
    let cases: [&[(u64, usize, bool)]; 4] = [
        &[(0, 100_000, false), (59, 100_000, false), (60, 100_000, true)],
        &[(0, 100_000, false), (50, 90_000, false), (109, 90_000, false), (110, 90_000, true)],
        &[(0, 100_000, false), (50, 200_000, false), (60, 200_000, true)],
        &[
            (0, 100_000, false),
            (50, 0, false),
            (100, 100_000, false),
            (159, 100_000, false),
            (160, 100_000, true),
        ],
    ];
    for case in cases {
        let (mut driven, _) = Driven::running();
        let begin = driven.now;
        for (second, backlog, gone) in case {
            driven.now = begin.after(std::time::Duration::from_secs(*second));
            driven.feed(Input::Frame(Frame::Pong(Vec::new().into())));
            driven.feed(Input::Backlog(*backlog));
            driven.feed(Input::Timeout);
            assert_eq!(driven.closed, gone.then_some(1013), "{case:?} at {second}");
        }
    }
}

#[test]
fn what_waits_is_looked_at_every_five_seconds() {
    let (mut driven, _) = Driven::running();
    let begin = driven.now;
    let after = |seconds| begin.after(std::time::Duration::from_secs(seconds));
    driven.feed(Input::Backlog(100_000));
    assert_eq!(driven.wake, Some(after(5)), "progress that nobody reports is seen by looking");
    driven.now = after(58);
    driven.feed(Input::Frame(Frame::Pong(Vec::new().into())));
    driven.feed(Input::Timeout);
    assert_eq!(driven.wake, Some(after(60)), "and the end is not missed");
    driven.feed(Input::Backlog(0));
    assert_eq!(driven.wake, Some(after(88)));
}

#[test]
fn what_other_protocols_remember_of_a_turn_is_not_ours() {
    for (protocol, model) in [("acolyte", "gpt"), ("asp", "demo")] {
        let mut driven = Driven::new();
        driven.say(&attach("rpc_b", None, Some("sess_s"), 0));
        let (request, _) = driven.last_attach();
        let turn = TurnId::from("inv_1");
        driven.done(request, Reply::Attached(view(1, &[(&turn, 1)])));
        let (request, _) = driven.last_attach();
        driven.done(request, Reply::Attached(view(1, &[(&turn, 1)])));
        let mut event = accepted(&turn);
        if let Event::TurnAccepted { origin, .. } = &mut event {
            protocol.clone_into(&mut origin.protocol);
            origin.options = json!({"model": "gpt"});
        }
        driven.happens(1, event);
        driven.happens(2, started(&turn));
        driven.happens(3, ended(&turn, TurnOutcome::Done(Finish::Complete)));
        assert_eq!(driven.sent.last().unwrap()["reply"]["model"], model);
    }
}
