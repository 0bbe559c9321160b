//! What the user asks for. A command that is refused changes nothing.

use switchboard_core::Timestamp;

use super::requests::{Origin, QueuedInterrupt, Request};
use super::state::{Action, LinkEvent, RequestEvent};
use super::{AspClient, Cause, CommandError, CreditMode, Link, Output, RequestState};
use crate::error::Close;
use crate::message::{
    AskReply, CallFailure, CallResult, Feature, Hello, HelloOp, Interrupt, Invoke, InvokeBody, Secret,
};
use crate::value::Value;

impl AspClient {
    /// Connects, unless that is under way or done.
    pub(super) fn connect(&mut self) {
        if let Some(next) = self.link.after(LinkEvent::Connect) {
            self.link = next;
            self.output(Output::Dial);
        }
    }

    /// Opens a request; answers its id. Without a connection, or without a free place at the server, it waits.
    ///
    /// # Errors
    /// The client is off, or too many requests wait.
    pub fn invoke(&mut self, invoke: Invoke, now: Timestamp) -> Result<u16, CommandError> {
        self.check_on()?;
        if self.requests.queued() >= self.config.max_queued {
            return Err(CommandError::QueueFull { limit: self.config.max_queued });
        }
        self.open(invoke, Origin::User, now)
    }

    /// Stops a request. Its output is not delivered any more; its end still comes.
    pub fn interrupt(&mut self, id: u16, reason: Option<String>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if !request.is_sent() {
            self.finish_interrupted(id);
            return;
        }
        let (_, action) = request.state.on(RequestEvent::Interrupt);
        if action == Action::Queue {
            request.interrupt = Some(QueuedInterrupt { reason });
        } else if action == Action::Send {
            self.interrupt_one(id, reason);
        }
    }

    /// Stops every request.
    pub fn interrupt_all(&mut self, reason: Option<&str>) {
        let mut running = false;
        for id in self.requests.ids() {
            let Some(request) = self.requests.get_mut(id) else { continue };
            if request.is_sent() && request.state.on(RequestEvent::Interrupt).1 == Action::Send {
                running = true;
                cancel(request);
            } else {
                self.interrupt(id, reason.map(str::to_owned));
            }
        }
        if running {
            self.send_interrupt(0, &Interrupt { reason: reason.map(str::to_owned), ..Interrupt::cancel() });
        }
    }

    /// Answers a `call` record, once (ASP-045); answers the id of the answer's own request.
    ///
    /// # Errors
    /// The call is not open, or the client is off.
    pub fn answer_call(
        &mut self,
        id: u16,
        call_id: &str,
        result: Result<Option<Value>, CallFailure>,
        now: Timestamp,
    ) -> Result<u16, CommandError> {
        self.check_on()?;
        let open = self.requests.get_mut(id).is_some_and(|request| request.calls.remove(call_id));
        if !open {
            return Err(CommandError::NotOpen);
        }
        if let Some(request) = self.requests.get_mut(id) {
            request.answered.insert(call_id.to_owned());
        }
        let ok = result.is_ok();
        let (output, error) = match result {
            Ok(output) => (output, None),
            Err(error) => (None, Some(error)),
        };
        let result = CallResult { parent: id, call_id: call_id.to_owned(), ok, output, error };
        self.open(Invoke::new(InvokeBody::Result(result)), Origin::User, now)
    }

    /// Answers an `ask` record, once; answers the id of the answer's own request.
    ///
    /// # Errors
    /// The question is not open, or the client is off.
    pub fn answer_ask(&mut self, ask_id: &str, answer: Answer, now: Timestamp) -> Result<u16, CommandError> {
        self.check_on()?;
        let parent = self.requests.asker(ask_id).ok_or(CommandError::NotOpen)?;
        if let Some(request) = self.requests.get_mut(parent) {
            request.asks.remove(ask_id);
            request.answered.insert(ask_id.to_owned());
        }
        let (text, data) = match answer {
            Answer::Text(text) => (Some(text), None),
            Answer::Data(data) => (None, Some(data)),
        };
        let reply = AskReply { parent, ask_id: ask_id.to_owned(), text, data };
        self.open(Invoke::new(InvokeBody::Reply(reply)), Origin::User, now)
    }

    /// Asks for all of the server's tools; answers the id of that request.
    ///
    /// # Errors
    /// As for [`Self::invoke`].
    pub fn list_tools(&mut self, now: Timestamp) -> Result<u16, CommandError> {
        self.invoke(Invoke::new(InvokeBody::List), now)
    }

    /// Output of a request was processed: its credit goes back (with [`CreditMode::Manual`]).
    pub fn consumed(&mut self, id: u16, bytes: u64) {
        if self.config.credit == CreditMode::Manual
            && let Some(request) = self.requests.get_mut(id)
        {
            request.outstanding = request.outstanding.saturating_sub(bytes);
            self.return_credit(id, bytes);
            self.return_partial(id, 0);
        }
    }

    /// Checks the connection end to end; [`super::Event::Pong`] follows.
    ///
    /// # Errors
    /// `ping` is not agreed, perhaps because there is no connection.
    pub fn ping(&mut self, nonce: &str) -> Result<(), CommandError> {
        self.check_agreed(Feature::Ping)?;
        self.send_hello(&Hello { nonce: Some(nonce.to_owned()), ..Hello::new(HelloOp::Ping) });
        Ok(())
    }

    /// Renews the credential of the live connection; [`super::Event::Authenticated`] follows.
    ///
    /// # Errors
    /// `reauth` is not agreed, perhaps because there is no connection.
    pub fn authenticate(&mut self, token: Secret) -> Result<(), CommandError> {
        self.check_agreed(Feature::Reauth)?;
        self.send_hello(&Hello { token: Some(token), ..Hello::new(HelloOp::Auth) });
        Ok(())
    }

    /// Leaves for good: the server cancels everything and keeps nothing.
    pub(super) fn leave(&mut self, now: Timestamp) {
        if self.accepted {
            self.send_hello(&Hello::new(HelloOp::Bye));
        }
        if matches!(self.link, Link::Dialing | Link::Greeting | Link::Up) {
            self.hang_up(Close::Normal);
        }
        self.down(Cause::Left, now);
    }

    pub(super) fn open(
        &mut self,
        invoke: Invoke,
        origin: Origin,
        now: Timestamp,
    ) -> Result<u16, CommandError> {
        let id = self.requests.add(invoke, origin).ok_or(CommandError::NoFreeId)?;
        self.settle(now);
        Ok(id)
    }

    pub(super) fn interrupt_one(&mut self, id: u16, reason: Option<String>) {
        let Some(request) = self.requests.get_mut(id) else { return };
        cancel(request);
        self.send_interrupt(id, &Interrupt { reason, ..Interrupt::cancel() });
    }

    /// Credit goes back once half of the window is due.
    pub(super) fn return_credit(&mut self, id: u16, bytes: u64) {
        let half = (self.agreed.window / 2).max(1);
        let agreed = self.agreed.features.has(Feature::Credit);
        let Some(request) = self.requests.get_mut(id) else { return };
        request.consumed = request.consumed.saturating_add(bytes);
        if agreed && request.consumed >= half && request.state == RequestState::Active && request.is_sent() {
            let credit = std::mem::take(&mut request.consumed);
            self.send_interrupt(id, &Interrupt::credit(credit));
        }
    }

    /// A record larger than the window could not be finished if its fragments held credit back, so they do
    /// not, unless records before it wait to be consumed.
    pub(super) fn return_partial(&mut self, id: u16, bytes: u64) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.partial = request.partial.saturating_add(bytes);
        if request.outstanding == 0 && request.partial > 0 {
            let partial = std::mem::take(&mut request.partial);
            self.return_credit(id, partial);
        }
    }

    fn check_on(&self) -> Result<(), CommandError> {
        if self.link == Link::Off { Err(CommandError::Off) } else { Ok(()) }
    }

    fn check_agreed(&self, feature: Feature) -> Result<(), CommandError> {
        if self.link == Link::Up && self.agreed.features.has(feature) {
            Ok(())
        } else {
            Err(CommandError::NotAgreed(feature.name()))
        }
    }
}

/// Answer to an `ask` record.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// As text.
    Text(String),
    /// As data that fits the question's schema.
    Data(Value),
}

/// Calls and questions of an interrupted request are void.
fn cancel(request: &mut Request) {
    (request.state, _) = request.state.on(RequestEvent::Interrupt);
    request.calls.clear();
    request.asks.clear();
}
