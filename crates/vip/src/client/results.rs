//! What came of what was done: kept for a while, so that nothing is ever done twice (VIP-053).

use std::collections::VecDeque;

use super::calls::Call;
use super::event::Event;
use super::{About, VipClient};
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{ActionInvoke, ActionResult, ClientEvent, ResultStatus, Role};

/// Results, the oldest first.
#[derive(Debug)]
pub(super) struct Results {
    most: usize,
    kept: VecDeque<ActionResult>,
    /// What the server could not be told, for lack of a connection.
    unsent: Vec<ActionResult>,
    /// What the server was told, and has not reacted to.
    unconfirmed: Option<ActionResult>,
    /// What the server is told when it is ready for it.
    owed: Vec<ActionResult>,
}

/// How much a client can bring when it comes back.
const MOST_UNSENT: usize = 64;

impl Results {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, kept: VecDeque::new(), unsent: Vec::new(), unconfirmed: None, owed: Vec::new() }
    }

    pub(super) fn get(&self, invocation_id: &str) -> Option<&ActionResult> {
        self.kept.iter().find(|result| result.invocation_id == invocation_id)
    }

    fn keep(&mut self, result: ActionResult) {
        self.kept.push_back(result);
        if self.kept.len() > self.most {
            self.kept.pop_front();
        }
    }

    pub(super) fn unsent(&self) -> &[ActionResult] {
        &self.unsent
    }

    fn put_off(&mut self, mut result: ActionResult) {
        // The whole screen is told anyway.
        result.context = None;
        self.unsent.push(result);
        if self.unsent.len() > MOST_UNSENT {
            self.unsent.remove(0);
        }
    }

    pub(super) fn keep_unconfirmed(&mut self) {
        let results: Vec<ActionResult> =
            self.unconfirmed.take().into_iter().chain(self.owed.drain(..)).collect();
        results.into_iter().for_each(|result| self.put_off(result));
    }

    /// The server has moved on, and so knows.
    pub(super) fn confirmed(&mut self) {
        self.unconfirmed = None;
    }

    /// The server has got everything that was put off.
    pub(super) fn delivered(&mut self) {
        self.unsent.clear();
    }
}

impl VipClient {
    /// Answers a call, exactly once (VIP-052).
    pub(super) fn conclude(&mut self, result: ActionResult, call: &Call) {
        self.calls.results.keep(result.clone());
        if call.provider {
            self.event(Event::Result(Box::new(result)));
            if !call.parallel && self.state() == State::InvokeAction {
                self.report(Trigger::ActionResult);
            }
        } else if self.link.is_up() {
            let goes_on = result.status == ResultStatus::Error || call.follow_up;
            self.send_result(&result, !call.parallel && goes_on);
        } else {
            self.calls.results.put_off(result);
        }
    }

    /// Sends a result, whether for the first time or not.
    pub(super) fn send_result(&mut self, result: &ActionResult, leads_on: bool) {
        let event = ClientEvent::ActionResult(Box::new(result.clone()));
        let about = About { role: Role::User, ..About::default() };
        if leads_on && self.state() == State::InvokeAction {
            self.calls.results.unconfirmed = Some(result.clone());
            self.send_trigger(&event, about, Trigger::ActionResult);
        } else {
            self.send(&event, about);
        }
    }

    /// A call that was lost with a transport: nothing is done, but it is answered all the same.
    pub(super) fn missed(&mut self, invoke: &ActionInvoke) {
        let id = &invoke.invocation_id;
        if self.calls.results.get(id).is_some() || self.calls.running.contains_key(id) {
            return;
        }
        let call = Call::of(invoke, self.now, self.screen.version());
        let fault = Fault::new(Code::ActCancelled).because("the connection was lost before it could be done");
        let result = call.result(id, Err(fault), false, self.now);
        self.calls.results.keep(result.clone());
        self.calls.results.owed.push(result);
    }

    pub(super) fn settle_results(&mut self) {
        if self.follow.agreed() != State::Idle || self.calls.results.owed.is_empty() {
            return;
        }
        for result in std::mem::take(&mut self.calls.results.owed) {
            self.send_result(&result, false);
        }
    }
}
