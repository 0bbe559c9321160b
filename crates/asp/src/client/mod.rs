//! The client half of ASP: [`AspClient`] is the [`ClientMachine`] of the protocol, the state machines of a connection
//! and of its requests without sockets, clock or randomness.
//!
//! A request keeps its id from [`AspClient::invoke`] to [`Event::Ended`], across lost connections and when it is
//! invoked again; exactly one `Ended` comes for each.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use switchboard_core::client::{Down, LinkChange, Liveness, Pulse};
use switchboard_core::{Backoff, ClientInput, ClientMachine, ClientOutput, Seed, Timestamp};

use self::config::Agreed;
use self::handshake::{Grant, Resuming};
use self::requests::Requests;
use self::state::{Action, LinkEvent, RequestEvent};
use self::tools::Tools;
use crate::codec::{Assembler, AssemblerLimits};
use crate::error::Close;
use crate::message::{Features, Finish, ToolDef};

mod command;
mod config;
mod event;
mod handshake;
mod receive;
mod requests;
mod send;
mod state;
mod tools;

pub use command::Answer;
pub use config::{ClientConfig, CreditMode};
pub use event::{CommandError, Ending, Event, Fault, Loss, Violation};
pub use state::{Link, RequestState};

/// What can happen to a client.
pub type Input = ClientInput;
/// What a client wants done.
pub type Output = ClientOutput<Event>;
/// Why there is no connection.
pub type Cause = switchboard_core::client::Cause<Fault>;

/// One client: at most one transport at a time, any number of them one after another.
#[derive(Debug)]
pub struct AspClient {
    config: ClientConfig,
    link: Link,
    agreed: Agreed,
    /// Whether an accept was received on this transport.
    accepted: bool,
    cid: Option<String>,
    grant: Option<Grant>,
    /// Whether the HELLO of this transport asked to resume, and whether that was refused.
    resuming: Resuming,
    /// Until when the server keeps what this client left behind.
    resume_until: Option<Timestamp>,
    leaving: Option<Leaving>,
    requests: Requests,
    tools: Tools,
    assembler: Assembler,
    backoff: Backoff,
    accept_by: Option<Timestamp>,
    retry_at: Option<Timestamp>,
    liveness: Liveness,
    outputs: VecDeque<Output>,
}

impl ClientMachine for AspClient {
    type Event = Event;
    type Fault = Fault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        let dialing = self.link == Link::Dialing;
        match input {
            Input::Connect => self.connect(),
            Input::Opened => self.opened(now),
            Input::Refused(refusal) if dialing => self.down(Cause::Refused(refusal), now),
            Input::Unreachable(why) if dialing => self.down(Cause::Unreachable(why), now),
            Input::Closed(_) if dialing => {
                self.down(Cause::Unreachable("the connection broke off".into()), now)
            }
            Input::Closed(code) if self.link.is_open() => self.down(Cause::closed(code), now),
            Input::Binary(message) if self.link.is_open() => {
                self.liveness.heard(now);
                self.receive(message, now);
            }
            Input::Text(_) if self.link.is_open() => self.violate(Violation::Text, now),
            Input::Alive => self.liveness.heard(now),
            Input::Timeout => self.timeout(now),
            Input::Leave => self.leave(now),
            // About a transport that is not there.
            Input::Refused(_)
            | Input::Unreachable(_)
            | Input::Closed(_)
            | Input::Binary(_)
            | Input::Text(_) => {}
        }
        self.settle(now);
    }

    fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }

    fn link(event: &Event) -> Option<LinkChange<'_, Fault>> {
        event.link()
    }
}

impl AspClient {
    /// A client that is off. The seed spreads its attempts to connect.
    pub fn new(config: ClientConfig, seed: &Seed) -> Self {
        let limits =
            AssemblerLimits { max_payload: config.max_payload as usize, ..AssemblerLimits::default() };
        Self {
            link: Link::Off,
            agreed: Agreed::bare(&config),
            accepted: false,
            cid: None,
            grant: None,
            resuming: Resuming::No,
            resume_until: None,
            leaving: None,
            requests: Requests::default(),
            tools: Tools::default(),
            assembler: Assembler::new(limits),
            backoff: config.backoff.clone().seeded(seed),
            accept_by: None,
            retry_at: None,
            liveness: Liveness::default(),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Where the connection is.
    pub fn link(&self) -> Link {
        self.link
    }

    /// The ConnectionId, once the server has told it.
    pub fn cid(&self) -> Option<&str> {
        self.cid.as_deref()
    }

    /// What is agreed now.
    pub fn features(&self) -> Features {
        self.agreed.features
    }

    /// Where a request is.
    pub fn request(&self, id: u16) -> RequestState {
        self.requests.get(id).map_or(RequestState::Free, |request| request.state)
    }

    /// The server's tools, by name.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDef> {
        self.tools.iter()
    }

    /// The transport is gone, or was never there.
    fn down(&mut self, cause: Cause, now: Timestamp) {
        let temporary = cause.is_temporary();
        let event = if temporary { LinkEvent::LostForNow } else { LinkEvent::LostForGood };
        let Some(next) = self.link.after(event) else { return };
        self.link = next;
        self.accept_by = None;
        self.accepted = false;
        self.resuming = Resuming::No;
        self.agreed = Agreed::bare(&self.config);
        self.assembler.abort_all();
        let leaving = self.leaving.take();
        if temporary {
            let retry_at = match leaving {
                Some(leaving) if leaving.reconnect_at > now => leaving.reconnect_at,
                Some(_) if cause == Cause::Protocol(Fault::Moved) => now,
                Some(_) | None => now.after(cause.retry_after().unwrap_or_else(|| self.backoff.pause())),
            };
            self.retry_at = Some(retry_at);
            self.event(Event::Down(Down { cause, retry_at: self.retry_at }));
            let step = match &self.grant {
                Some(grant) => {
                    let until = now.after(grant.window);
                    self.resume_until.get_or_insert(until);
                    RequestEvent::CutResumable
                }
                None => RequestEvent::CutForGood,
            };
            for id in self.requests.sent() {
                self.lose(id, step, Loss::Disconnected);
            }
        } else {
            let loss = if cause == Cause::Left { Loss::Left } else { Loss::Closed };
            (self.grant, self.resume_until, self.retry_at) = (None, None, None);
            self.backoff.reset();
            self.event(Event::Down(Down { cause, retry_at: None }));
            for id in self.requests.ids() {
                self.lose(id, RequestEvent::CutForGood, loss);
            }
            if self.tools.clear() {
                self.event(Event::ToolsChanged);
            }
        }
    }

    /// What a cut or a loss does to one request: it goes on, is invoked again, or ends.
    fn lose(&mut self, id: u16, step: RequestEvent, loss: Loss) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (next, action) = request.state.on(step);
        request.state = next;
        if action == Action::End || action == Action::Fail && request.interrupt.is_some() {
            return self.finish_interrupted(id);
        }
        if action != Action::Fail {
            return;
        }
        let parent_open = loss == Loss::Replay;
        let repeat = matches!(loss, Loss::Replay | Loss::Refused | Loss::Expired)
            && request.is_repeatable()
            && (parent_open || !request.is_answer());
        if repeat {
            request.rerun = request.next_n > 0;
            request.resend_at(Timestamp::default());
        } else {
            self.finish(id, Ending::Lost(loss));
        }
    }

    fn finish_interrupted(&mut self, id: u16) {
        self.finish(id, Ending::finish(Finish::Interrupted));
    }

    fn violate(&mut self, violation: Violation, now: Timestamp) {
        self.hang_up(violation.close());
        self.down(Fault::Violation(violation).into(), now);
    }

    fn timeout(&mut self, now: Timestamp) {
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        match self.link {
            Link::Off | Link::Up => {}
            Link::Dialing => {
                if due(self.resume_until) {
                    self.expire();
                }
            }
            Link::Waiting => {
                if due(self.resume_until) {
                    self.expire();
                }
                if due(self.retry_at)
                    && let Some(dialing) = self.link.after(LinkEvent::RetryDue)
                {
                    self.link = dialing;
                    self.retry_at = None;
                    self.output(Output::Dial);
                }
            }
            Link::Greeting => {
                if due(self.bare_at())
                    && let Some(up) = self.link.after(LinkEvent::AcceptOverdue)
                {
                    self.link = up;
                    self.grant = None;
                    self.resume_until = None;
                    self.up_bare();
                }
            }
        }
        if !self.link.is_open() {
            return;
        }
        let (ping, dead) = self.patience();
        match self.liveness.check(ping, dead, now) {
            Pulse::Alive => {}
            Pulse::Ping => self.output(Output::Ping),
            Pulse::Dead => {
                self.hang_up(Close::Dead);
                return self.down(Cause::Silent, now);
            }
        }
        for (id, error) in self.assembler.expire(now.as_millis()) {
            self.give_up(id, error.code(), &error.to_string());
        }
    }

    /// What follows from where everything is now.
    fn settle(&mut self, now: Timestamp) {
        if self.link != Link::Up {
            return;
        }
        match self.leaving {
            Some(leaving) => {
                if now >= leaving.reconnect_at && (self.requests.is_idle() || now >= leaving.give_up_at) {
                    self.hang_up(Close::GoingAway);
                    self.down(Fault::Moved.into(), now);
                }
            }
            None => self.send_waiting(now),
        }
    }

    fn wake(&self) -> Option<Timestamp> {
        let alive = || {
            let (ping, dead) = self.patience();
            let fragments = self.assembler.next_deadline().map(Timestamp::from_millis);
            [Some(self.liveness.wake(ping, dead)), fragments].into_iter().flatten().min()
        };
        match self.link {
            Link::Off => None,
            Link::Dialing => self.resume_until,
            Link::Waiting => [self.retry_at, self.resume_until].into_iter().flatten().min(),
            Link::Greeting => [self.bare_at(), alive()].into_iter().flatten().min(),
            Link::Up => {
                let work = match self.leaving {
                    Some(leaving) if self.requests.is_idle() => Some(leaving.reconnect_at),
                    Some(leaving) => Some(leaving.give_up_at.max(leaving.reconnect_at)),
                    None => self.next_due(),
                };
                [work, alive()].into_iter().flatten().min()
            }
        }
    }

    /// When a server that has not answered counts as bare. One that has let this client in before knows better:
    /// it is only slow, and has what is to be resumed.
    fn bare_at(&self) -> Option<Timestamp> {
        let resumable = self.resume_until.filter(|_| self.grant.is_some());
        self.accept_by.map(|by| resumable.map_or(by, |until| by.max(until)))
    }

    /// Silence after which the server is tried, and silence after which it is dead: 30 s and 75 s, if it does not
    /// want it otherwise.
    fn patience(&self) -> (Duration, Duration) {
        let ping = self.agreed.heartbeat;
        (ping, ping.saturating_mul(5) / 2)
    }

    fn finish(&mut self, id: u16, ending: Ending) {
        let Some(request) = self.requests.remove(id) else { return };
        self.assembler.abort(id);
        if request.origin == requests::Origin::User {
            let ending = match request.failure {
                Some(failure) => Ending::Error(failure),
                None => ending,
            };
            self.event(Event::Ended { id, ending });
        }
    }

    fn event(&mut self, event: Event) {
        self.output(Output::Event(event));
    }

    fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    fn send_message(&mut self, message: Bytes) {
        self.output(Output::Binary(message));
    }

    fn hang_up(&mut self, code: Close) {
        self.output(Output::Close(code.number()));
    }
}

/// The server has said goaway.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    reconnect_at: Timestamp,
    give_up_at: Timestamp,
}

/// How long a leaving server lets requests finish, and then some.
const DRAIN: Duration = Duration::from_secs(35);
