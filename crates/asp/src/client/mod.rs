//! The client half of ASP, sans-IO: §17.3 and §17.4 as a state machine without sockets, clock or randomness.
//!
//! ```text
//! transport ─ Input ─▶ handle_input ─┐                 ┌─▶ Output::Send, Ping, Close, Connect ─▶ transport
//!                                    ├─▶ AspClient ────┤
//! user ──── commands (invoke, …) ────┘   poll_output   └─▶ Output::Event ─▶ user
//! ```
//!
//! After every input and every command, call [`AspClient::poll_output`] until it answers [`Output::Idle`],
//! which says when to give [`Input::Timeout`]. Times are milliseconds of any clock that does not go back.
//!
//! A request keeps its id from [`AspClient::invoke`] to [`Event::Ended`], across lost connections and when it is
//! invoked again; exactly one `Ended` comes for each.

use std::collections::VecDeque;

use bytes::Bytes;

use self::backoff::Backoff;
use self::config::Agreed;
use self::handshake::{Grant, Resuming};
use self::requests::Requests;
use self::state::{Action, LinkEvent, RequestEvent};
use self::tools::Tools;
use crate::codec::{Assembler, AssemblerLimits};
use crate::error::Close;
use crate::message::{Features, Finish, ToolDef};

mod backoff;
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
pub use event::{Cause, CommandError, Ending, Event, Input, Loss, Output, Refused, Violation};
pub use state::{Link, RequestState};

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
    resume_until: Option<u64>,
    leaving: Option<Leaving>,
    requests: Requests,
    tools: Tools,
    assembler: Assembler,
    backoff: Backoff,
    accept_by: Option<u64>,
    retry_at: Option<u64>,
    heard_at: u64,
    pinged: bool,
    outputs: VecDeque<Output>,
}

impl AspClient {
    /// A client that is off. The seed spreads its attempts to connect.
    pub fn new(config: ClientConfig, seed: u64) -> Self {
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
            backoff: Backoff::new(config.backoff_first_ms, config.backoff_most_ms, seed),
            accept_by: None,
            retry_at: None,
            heard_at: 0,
            pinged: false,
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Takes one report of the transport; drain [`Self::poll_output`] afterwards.
    pub fn handle_input(&mut self, input: Input, now: u64) {
        let open = self.link.is_open();
        match input {
            Input::Opened => self.opened(now),
            Input::Refused(refused) => {
                if self.link == Link::Dialing {
                    self.down(Cause::Refused(refused), now);
                }
            }
            Input::Unreachable => {
                if self.link == Link::Dialing {
                    self.down(Cause::Unreachable, now);
                }
            }
            Input::Binary(message) => {
                if open {
                    self.heard(now);
                    self.receive(message, now);
                }
            }
            Input::Text => {
                if open {
                    self.violate(Violation::Text, now);
                }
            }
            Input::Alive => self.heard(now),
            Input::Closed(code) => match self.link {
                Link::Dialing => self.down(Cause::Unreachable, now),
                Link::Greeting | Link::Up => {
                    self.down(Cause::Closed(code.unwrap_or_else(|| Close::Abnormal.number())), now);
                }
                Link::Off | Link::Waiting => {}
            },
            Input::Timeout => self.timeout(now),
        }
        self.settle(now);
    }

    /// What to do next; [`Output::Idle`] once there is nothing.
    pub fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
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
    fn down(&mut self, cause: Cause, now: u64) {
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
            let pause = match leaving {
                Some(leaving) if leaving.reconnect_at > now => leaving.reconnect_at - now,
                Some(_) if cause == Cause::Moved => 0,
                Some(_) | None => cause.retry_after_ms().unwrap_or_else(|| self.backoff.pause_ms()),
            };
            let retry_at = now.saturating_add(pause);
            self.retry_at = Some(retry_at);
            self.event(Event::Disconnected { cause, retry_at });
            let step = match &self.grant {
                Some(grant) => {
                    let window_ms = grant.window_ms;
                    self.resume_until.get_or_insert_with(|| now.saturating_add(window_ms));
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
            self.event(Event::Off { cause });
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
        match action {
            Action::End => self.finish_interrupted(id),
            Action::Fail if request.interrupt.is_some() => self.finish_interrupted(id),
            Action::Fail => {
                let parent_open = loss == Loss::Replay;
                let repeat = matches!(loss, Loss::Replay | Loss::Refused | Loss::Expired)
                    && request.is_repeatable()
                    && (parent_open || !request.is_answer());
                if repeat {
                    request.rerun = request.next_n > 0;
                    request.resend_at(0);
                } else {
                    self.finish(id, Ending::Lost(loss));
                }
            }
            Action::Nothing
            | Action::Send
            | Action::Refuse
            | Action::Deliver
            | Action::Drop
            | Action::Queue => {}
        }
    }

    fn finish_interrupted(&mut self, id: u16) {
        self.finish(id, Ending::finish(Finish::Interrupted));
    }

    fn violate(&mut self, violation: Violation, now: u64) {
        self.output(Output::Close(violation.close()));
        self.down(Cause::Violation(violation), now);
    }

    fn heard(&mut self, now: u64) {
        self.heard_at = now;
        self.pinged = false;
    }

    fn timeout(&mut self, now: u64) {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
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
                    self.output(Output::Connect);
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
        let silent = now.saturating_sub(self.heard_at);
        if silent >= self.dead_ms() {
            self.output(Output::Close(Close::Dead));
            self.down(Cause::Silent, now);
            return;
        }
        if silent >= self.agreed.heartbeat_ms && !self.pinged {
            self.pinged = true;
            self.output(Output::Ping);
        }
        for (id, error) in self.assembler.expire(now) {
            self.give_up(id, error.code(), &error.to_string());
        }
    }

    /// What follows from where everything is now.
    fn settle(&mut self, now: u64) {
        if self.link != Link::Up {
            return;
        }
        match self.leaving {
            Some(leaving) => {
                if now >= leaving.reconnect_at && (self.requests.is_idle() || now >= leaving.give_up_at) {
                    self.output(Output::Close(Close::GoingAway));
                    self.down(Cause::Moved, now);
                }
            }
            None => self.send_waiting(now),
        }
    }

    fn wake(&self) -> Option<u64> {
        let alive = || {
            let patience = if self.pinged { self.dead_ms() } else { self.agreed.heartbeat_ms };
            let alive = Some(self.heard_at.saturating_add(patience));
            [alive, self.assembler.next_deadline()].into_iter().flatten().min()
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
    fn bare_at(&self) -> Option<u64> {
        let resumable = self.resume_until.filter(|_| self.grant.is_some());
        self.accept_by.map(|by| resumable.map_or(by, |until| by.max(until)))
    }

    /// Silence after which the server is dead: 75 s for a heartbeat of 30 s.
    fn dead_ms(&self) -> u64 {
        self.agreed.heartbeat_ms.saturating_mul(5) / 2
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
        self.output(Output::Send(message));
    }
}

/// The server has said goaway.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    reconnect_at: u64,
    give_up_at: u64,
}

/// How long a leaving server lets requests finish, and then some.
const DRAIN_MS: u64 = 35_000;
