//! One connection, seen from the server: decode, move on, map, and answer.

use std::collections::VecDeque;

use switchboard_core::{
    AgentId, Asked, Backlog, Close, CloseReason, Committed, Connection, Event, Frame, Input, Op, Output,
    Position, Principal, Reject, Reply, RequestId, Seed, SessionId, SessionView, Timestamp, TurnId, Upgrade,
    Violation,
};

use crate::codec;
use crate::error::{Code, words};
use crate::limits::LinewiseLimits;
use crate::map;
use crate::message::{ClientLine, ClientMessage, ServerLine, Tag};
use crate::state::{State, Step};

/// The server's half of one connection.
#[derive(Debug)]
pub struct LinewiseConnection {
    limits: LinewiseLimits,
    principal: Principal,
    agent: AgentId,
    seed: Seed,
    /// Counts what was derived from the seed.
    derived: u64,
    state: State,
    /// The session that it takes part in, or has asked for.
    session: Option<SessionId>,
    /// Which history of the session this is.
    epoch: u32,
    /// The turns under way in the session, oldest first; the session bounds them.
    under_way: Vec<TurnId>,
    /// Lines that came while a session was being joined.
    waiting: VecDeque<ClientLine>,
    pending: Asked<Pending>,
    backlog: Backlog,
    heard_at: Timestamp,
    pinged_at: Timestamp,
    /// The server is leaving.
    leaving: bool,
    out: VecDeque<Output>,
    now: Timestamp,
}

/// What an answer of a session is for.
#[derive(Debug)]
enum Pending {
    /// The session exists; it is followed next.
    Open { tag: Option<Tag>, since: Option<Position> },
    /// The session is followed.
    Join { tag: Option<Tag>, since: Option<Position> },
    /// The session is followed once more, from its beginning.
    History { tag: Option<Tag>, session: SessionId },
    /// A line that is answered when it is done.
    Line(Option<Tag>),
}

impl LinewiseConnection {
    pub(crate) fn new(limits: LinewiseLimits, upgrade: Upgrade, seed: Seed) -> Self {
        let Upgrade { principal, agent, agents, now, .. } = upgrade;
        let agent = principal.scopes.reachable(&agent, &agents);
        let mut connection = Self {
            limits,
            principal,
            agent,
            seed,
            derived: 0,
            state: State::Outside,
            session: None,
            epoch: 0,
            under_way: Vec::new(),
            waiting: VecDeque::new(),
            pending: Asked::default(),
            backlog: Backlog::default(),
            heard_at: now,
            pinged_at: now,
            leaving: false,
            out: VecDeque::new(),
            now,
        };
        connection.send(&ServerLine::Hello);
        connection
    }

    fn receive(&mut self, line: &str) {
        match codec::decode_client(line) {
            Err(malformed) => self.fail(malformed.tag, Code::Malformed, malformed.why),
            Ok(line) if self.state != State::Joining => self.act(line),
            Ok(line) if self.waiting.len() < self.limits.waiting => self.waiting.push_back(line),
            Ok(line) => self.fail(line.tag, Code::Limit, "too many lines before the session was joined"),
        }
    }

    fn act(&mut self, line: ClientLine) {
        let ClientLine { tag, message } = line;
        let here = self.session.clone().filter(|_| self.state == State::Inside);
        match (message, here) {
            (ClientMessage::Join { session, since }, _) => self.join(tag, &session, since),
            (ClientMessage::Say(text), Some(session)) => {
                let counter = self.derive();
                let turn = TurnId::fresh(&self.seed, counter);
                let deadline = self.now.after(self.limits.turn);
                let new = map::new_turn(turn, &text.0, tag.as_ref(), &session, &self.principal, deadline);
                self.submit(&session, Op::StartTurn(Box::new(new)), Pending::Line(tag));
            }
            (ClientMessage::Stop, Some(session)) => match self.under_way.first().cloned() {
                Some(turn) => {
                    self.submit(&session, Op::Interrupt { turn, reason: None }, Pending::Line(tag));
                }
                None => self.fail(tag, Code::Nothing, "nothing is under way"),
            },
            (ClientMessage::History, Some(session)) => {
                let start = Position::start(self.epoch);
                let pending = Pending::History { tag, session: session.clone() };
                self.attach(session, Some(start), pending);
            }
            (ClientMessage::Say(_) | ClientMessage::Stop | ClientMessage::History, None) => {
                self.fail(tag, Code::Outside, "join a session first");
            }
        }
    }

    fn join(&mut self, tag: Option<Tag>, name: &str, since: Option<Position>) {
        if let Some(left) = self.session.take() {
            self.out.push_back(Output::Detach(left));
        }
        self.step(Step::Join);
        self.under_way.clear();
        // May be somebody else's that was shared: that one exists, or does not.
        if SessionId::is_canonical(name) {
            let session = SessionId::from(name);
            self.session = Some(session.clone());
            return self.attach(session, since, Pending::Join { tag, since });
        }
        let session = SessionId::named(&self.principal, name);
        self.session = Some(session.clone());
        let counter = self.derive();
        let epoch = self.seed.epoch(counter);
        let open = Op::Open { epoch, agent: self.agent.clone(), name: Some(name.to_owned()) };
        self.submit(&session, open, Pending::Open { tag, since });
    }

    fn done(&mut self, request: RequestId, reply: &Reply) {
        match (self.pending.answered(request), reply) {
            (Some(Pending::Open { tag, since }), _) => {
                if let Some(session) = self.session.clone() {
                    self.attach(session, since, Pending::Join { tag, since });
                }
            }
            (Some(Pending::Join { tag, .. }), Reply::Attached(view)) => self.joined(tag, view),
            (Some(Pending::History { tag, session }), Reply::Attached(view)) => {
                if self.session.as_ref() == Some(&session) {
                    self.send(&ServerLine::Ok { tag, at: view.head });
                } else {
                    // The client has joined another one meanwhile.
                    self.out.push_back(Output::Detach(session));
                }
            }
            (Some(Pending::Line(tag)), Reply::Applied { head: at } | Reply::Turn { accepted: at, .. }) => {
                self.send(&ServerLine::Ok { tag, at: *at });
            }
            (Some(Pending::Join { .. } | Pending::History { .. } | Pending::Line(_)) | None, _) => {}
        }
    }

    fn joined(&mut self, tag: Option<Tag>, view: &SessionView) {
        self.step(Step::Joined);
        self.epoch = view.head.epoch;
        let mut turns: Vec<_> = view.turns.iter().map(|turn| (turn.accepted, turn.turn.clone())).collect();
        turns.sort();
        self.under_way = turns.into_iter().map(|(_, turn)| turn).collect();
        self.send(&ServerLine::Ok { tag, at: view.head });
        self.go_on();
    }

    fn rejected(&mut self, request: RequestId, reject: &Reject) {
        let (code, why) = words(reject);
        match (self.pending.answered(request), reject) {
            (Some(Pending::Join { tag, since: Some(_) }), Reject::Invalid(_)) => {
                self.not_joined(tag, Code::Stale, "this position is not one of the session");
            }
            (Some(Pending::Open { tag, .. } | Pending::Join { tag, .. }), _) => {
                self.not_joined(tag, code, why);
            }
            (Some(Pending::History { tag, .. } | Pending::Line(tag)), _) => self.fail(tag, code, why),
            (None, _) => {}
        }
    }

    fn not_joined(&mut self, tag: Option<Tag>, code: Code, why: &str) {
        self.step(Step::Refused);
        self.session = None;
        self.fail(tag, code, why);
        self.go_on();
    }

    /// Takes up the lines that came while a session was being joined.
    fn go_on(&mut self) {
        while self.state != State::Joining
            && let Some(line) = self.waiting.pop_front()
        {
            self.act(line);
        }
    }

    fn committed(&mut self, session: &SessionId, committed: &Committed) {
        if self.session.as_ref() != Some(session) {
            return;
        }
        if let Event::TurnAccepted { turn, .. } = &committed.event
            // In a replay it may be known already.
            && !self.under_way.contains(turn)
        {
            self.under_way.push(turn.clone());
        }
        if let Event::TurnEnded { turn, .. } = &committed.event {
            self.under_way.retain(|known| known != turn);
        }
        if let Some(line) = map::line(committed) {
            self.send(&line);
        }
    }

    fn timeout(&mut self) {
        if self.principal.expires_at.is_some_and(|at| at <= self.now) {
            self.close(CloseReason::Unauthorized);
        } else if self.backlog.is_stalled(self.now, self.limits.stall) {
            self.close(CloseReason::TooSlow);
        } else if self.heard_at.after(self.limits.dead) <= self.now {
            self.close(CloseReason::TransportLost);
        } else if self.next_ping() <= self.now {
            self.pinged_at = self.now;
            self.out.push_back(Output::Send(Frame::Ping(Vec::new().into())));
        }
    }

    /// When something is to be done if nothing else happens.
    fn wake(&self) -> Option<Timestamp> {
        if self.state == State::Closed {
            return None;
        }
        let dead = self.heard_at.after(self.limits.dead);
        let slow = self.backlog.wake(self.now, self.limits.stall);
        [Some(dead), Some(self.next_ping()), slow, self.principal.expires_at].into_iter().flatten().min()
    }

    fn next_ping(&self) -> Timestamp {
        self.heard_at.max(self.pinged_at).after(self.limits.ping)
    }

    /// A server that leaves waits for what the client has asked.
    fn leave_if_done(&mut self) {
        if self.leaving && self.under_way.is_empty() && self.pending.is_empty() {
            self.close(CloseReason::Restart);
        }
    }

    fn close(&mut self, reason: CloseReason) {
        if self.step(Step::Close) {
            self.out.push_back(Output::Close(reason.close()));
        }
    }

    /// Moves on; false if that is not possible from here.
    fn step(&mut self, step: Step) -> bool {
        let next = self.state.after(step);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    fn submit(&mut self, session: &SessionId, op: Op, pending: Pending) {
        let request = self.pending.ask(pending);
        self.out.push_back(Output::Submit(request, session.clone(), op));
    }

    fn attach(&mut self, session: SessionId, from: Option<Position>, pending: Pending) {
        let request = self.pending.ask(pending);
        self.out.push_back(Output::Attach(request, session, from));
    }

    fn fail(&mut self, tag: Option<Tag>, code: Code, words: &str) {
        self.send(&ServerLine::Error { tag, code, words: words.to_owned() });
    }

    fn send(&mut self, line: &ServerLine) {
        self.out.push_back(Output::Send(Frame::Text(codec::encode_server(line))));
    }

    fn derive(&mut self) -> u64 {
        self.derived += 1;
        self.derived
    }
}

impl Connection for LinewiseConnection {
    fn handle_input(&mut self, input: Input<'_>, now: Timestamp) -> Result<(), Violation> {
        self.now = now;
        if self.state == State::Closed {
            return Ok(());
        }
        match input {
            Input::Frame(frame) => {
                self.heard_at = now;
                match frame {
                    Frame::Text(line) => self.receive(&line),
                    Frame::Binary(_) => {
                        self.step(Step::Close);
                        return Err(Violation(NOT_TEXT));
                    }
                    Frame::Ping(_) | Frame::Pong(_) | Frame::Media(_) | Frame::Head(_) => {}
                }
            }
            Input::Committed(session, committed) => self.committed(session, committed),
            Input::Done(request, reply) => self.done(request, &reply),
            Input::Rejected(request, reject) => self.rejected(request, &reject),
            Input::Timeout => self.timeout(),
            Input::Backlog(bytes) => self.backlog.report(bytes, now),
            Input::Drain { retry_ms } => {
                self.leaving = true;
                self.send(&ServerLine::Bye { retry_ms });
            }
            Input::Closed(reason) => self.close(reason),
            // Neither enrolled nor with a voice: nobody has anything to say to it.
            Input::Signal(_) | Input::Voice(_) => {}
        }
        self.leave_if_done();
        Ok(())
    }

    fn wants_events(&self) -> bool {
        self.backlog.is_below(self.limits.backlog)
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }
}

const NOT_TEXT: Close = Close { code: 1003, reason: "lines are text" };
