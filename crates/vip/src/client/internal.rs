//! Internal mode: the client drives the conversation with a provider, and the server is told of it.

use serde_json::Value;
use switchboard_core::Timestamp;

use super::calls::Call;
use super::consent::{Asking, Then};
use super::event::{CommandError, Event, Question};
use super::{About, VipClient, millis};
use crate::action::check;
use crate::context::Executor;
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{ClientEvent, FunctionCall, HistoryAppend, HistoryItem, ProviderAttached, StateReport};

/// How many items of the history one event may carry.
const MOST_ITEMS: usize = 50;

impl VipClient {
    /// The provider is connected; the server answers with `server.ready`.
    ///
    /// # Errors
    /// There is no provider in external mode, or no connection to the server.
    pub fn attached(
        &mut self,
        provider_session_id: Option<String>,
        transport: &str,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.now = now;
        self.must_be_internal()?;
        let attached = ProviderAttached { provider_session_id, transport: transport.to_owned() };
        self.send(&ClientEvent::ProviderAttached(attached), About::default());
        Ok(())
    }

    /// Something happened between the client and its provider that changes the state; the server is told
    /// (VIP-087).
    ///
    /// # Errors
    /// It cannot have happened in this state.
    pub fn happened(&mut self, trigger: Trigger, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.must_be_internal()?;
        if !self.report(trigger) {
            return Err(CommandError::State(self.state()));
        }
        self.settle();
        Ok(())
    }

    /// Changes the state, and tells the server.
    pub(super) fn report(&mut self, trigger: Trigger) -> bool {
        let previous = self.follow.state();
        if !self.follow.fire(trigger) {
            return false;
        }
        let turn_id = self.turn.as_ref().map(|turn| turn.id.clone()).filter(|id| !id.is_empty());
        let report =
            StateReport { state: self.follow.state(), previous, trigger: trigger.name().to_owned(), turn_id };
        if self.link.is_up() {
            self.send(&ClientEvent::StateReport(report), About::default());
        }
        true
    }

    /// The model of the provider wants something to be done. What is not allowed is not done, and the reason is
    /// what the provider is to be told instead (VIP-088); otherwise [`Event::Result`] or [`Event::Function`]
    /// follows under the same id.
    ///
    /// # Errors
    /// It is not allowed.
    pub fn provider_call(
        &mut self,
        invocation_id: &str,
        action_id: &str,
        parameters: &Value,
        now: Timestamp,
    ) -> Result<(), Fault> {
        self.now = now;
        if self.must_be_internal().is_err() {
            return Err(Fault::new(Code::NetTransportLost));
        }
        if self.calls.results.get(invocation_id).is_some() || self.calls.running.contains_key(invocation_id) {
            return Err(Fault::new(Code::ActExecutionFailed).because("this was asked for already"));
        }
        let Some(context) = self.screen.context() else { return Err(Fault::new(Code::ActNotFound)) };
        let prepared = check(context, action_id, parameters)?;
        if prepared.executor == Executor::Server {
            let call = FunctionCall {
                invocation_id: invocation_id.to_owned(),
                name: action_id.to_owned(),
                parameters: prepared.parameters,
            };
            self.send(&ClientEvent::FunctionCall(call), About::default());
            return Ok(());
        }
        let confirmation =
            context.actions.get(action_id).and_then(|action| action.confirmation.clone()).unwrap_or_default();
        let parallel = prepared.parallel && self.state() == State::AiSpeaking;
        if !parallel && self.state() != State::AiThinking {
            return Err(Fault::new(Code::ProtoInvalidTransition));
        }
        if self.calls.running.len() >= self.config.max_calls {
            return Err(Fault::new(Code::ActExecutionFailed).because("too much is being done already"));
        }
        if !parallel {
            self.report(Trigger::ResponseTool);
        }
        let mut call = Call {
            action_id: action_id.to_owned(),
            kind: prepared.kind,
            began: now,
            by: now.after(millis(prepared.timeout_ms)),
            parallel,
            follow_up: true,
            provider: true,
            context_version: self.screen.version(),
            asking: None,
        };
        if prepared.sensitive {
            let by = now.after(millis(confirmation.ttl_ms));
            let then = Then(prepared.parameters.clone());
            let asking =
                Asking::new(action_id.to_owned(), &prepared.parameters, confirmation.ttl_ms, Some(then));
            call.by = by;
            call.asking = Some(asking);
            self.calls.running.insert(invocation_id.to_owned(), call);
            self.event(Event::Ask(Question {
                invocation_id: invocation_id.to_owned(),
                action_id: action_id.to_owned(),
                prompt: confirmation.prompt,
                parameters: prepared.parameters,
                by,
            }));
        } else {
            self.execute(invocation_id, call, prepared.parameters);
        }
        self.settle();
        Ok(())
    }

    /// Puts on record what was said between the client and its provider.
    ///
    /// # Errors
    /// Not in external mode, and not too much at a time.
    pub fn append_history(&mut self, items: Vec<HistoryItem>, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.must_be_internal()?;
        if items.len() > MOST_ITEMS {
            return Err(CommandError::TooLong);
        }
        self.send(&ClientEvent::HistoryAppend(HistoryAppend { items }), About::default());
        Ok(())
    }

    fn must_be_internal(&self) -> Result<(), CommandError> {
        if !self.is_internal() {
            return Err(CommandError::Mode);
        }
        if self.link.is_up() { Ok(()) } else { Err(CommandError::NotConnected) }
    }
}
