//! What the app is asked to do: checked, done once, and always answered.

use std::collections::BTreeMap;

use serde_json::Value;
use switchboard_core::Timestamp;

use super::consent::Asking;
use super::event::{CommandError, Event, Execution, Outcome};
use super::results::Results;
use super::{About, VipClient, millis};
use crate::action::{admit, digest};
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    ActionAck, ActionCancel, ActionCancelReason, ActionError, ActionInvoke, ActionResult, ClientEvent,
    ResultEvent, ResultStatus,
};
use crate::size::json_bytes;

/// What is being done, and what came of what was done.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) running: BTreeMap<String, Call>,
    pub(super) results: Results,
}

/// Something that is being done, or that the user is asked about.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) action_id: String,
    pub(super) kind: String,
    pub(super) began: Timestamp,
    pub(super) by: Timestamp,
    pub(super) parallel: bool,
    pub(super) follow_up: bool,
    /// Whether a provider asked for it, and not the server.
    pub(super) provider: bool,
    /// What was on the screen when it began.
    pub(super) context_version: u64,
    pub(super) asking: Option<Asking>,
}

/// What an action may answer, in bytes.
const MAX_DATA: usize = 32 << 10;

impl Calls {
    pub(super) fn new(max_results: usize) -> Self {
        Self { running: BTreeMap::new(), results: Results::new(max_results) }
    }

    pub(super) fn first_due(&self) -> Option<Timestamp> {
        self.running.values().map(|call| call.by).min()
    }

    pub(super) fn take_unsent(&self) -> Vec<ActionResult> {
        self.results.unsent().to_vec()
    }

    pub(super) fn keep_unconfirmed(&mut self) {
        self.results.keep_unconfirmed();
    }
}

impl Call {
    /// Something that the server wants to be done.
    pub(super) fn of(invoke: &ActionInvoke, now: Timestamp, context_version: u64) -> Self {
        Self {
            action_id: invoke.action_id.clone(),
            kind: invoke.kind.clone(),
            began: now,
            by: now.after(millis(invoke.timeout_ms)),
            parallel: invoke.parallel,
            follow_up: invoke.follow_up,
            provider: false,
            context_version,
            asking: None,
        }
    }

    pub(super) fn result(
        &self,
        invocation_id: &str,
        outcome: Result<Option<Value>, Fault>,
        executed: bool,
        now: Timestamp,
    ) -> ActionResult {
        let navigates = self.kind == "navigation";
        let event = match (navigates, &outcome) {
            (true, Ok(_)) => ResultEvent::NavigationSuccess,
            (true, Err(_)) => ResultEvent::NavigationFailure,
            (false, Ok(_)) => ResultEvent::ActionSuccess,
            (false, Err(_)) => ResultEvent::ActionFailure,
        };
        ActionResult {
            invocation_id: invocation_id.to_owned(),
            action_id: self.action_id.clone(),
            status: if outcome.is_ok() { ResultStatus::Success } else { ResultStatus::Error },
            event,
            executed,
            error: outcome.as_ref().err().map(ActionError::from),
            data: outcome.ok().flatten(),
            context: None,
            duration_ms: u64::try_from(now.since(self.began).as_millis()).unwrap_or_default(),
        }
    }
}

impl VipClient {
    /// The server wants something to be done: the checks of the reference, in their order.
    pub(super) fn invoke(&mut self, invoke: &ActionInvoke) {
        let id = &invoke.invocation_id;
        if let Some(result) = self.calls.results.get(id).cloned() {
            return self.send_result(&result, false);
        }
        if self.calls.running.contains_key(id) {
            return self.acknowledge(id);
        }
        let interrupted = self.follow.awaits(Trigger::InputBargeIn);
        if !invoke.parallel {
            self.follow.led(Trigger::ResponseTool);
        }
        let call = Call::of(invoke, self.now, self.screen.version());
        if interrupted {
            self.refuse(id, &call, &Fault::new(Code::ActUserInterrupted));
            if !invoke.parallel {
                self.barge_in_again();
            }
            return;
        }
        let expected = if invoke.parallel { State::AiSpeaking } else { State::InvokeAction };
        if self.state() != expected {
            let fault = Fault::new(Code::ProtoInvalidTransition).because("nothing can be done in this state");
            return self.refuse(id, &call, &fault);
        }
        if self.calls.running.len() >= self.config.max_calls {
            let fault = Fault::new(Code::ActExecutionFailed).because("too much is being done already");
            return self.refuse(id, &call, &fault);
        }
        let outcome = if invoke.kind == "confirmation" {
            self.ask(invoke, call.clone())
        } else {
            self.admit(invoke).map(|()| self.execute(id, call.clone(), invoke.parameters.clone()))
        };
        if let Err(fault) = outcome {
            self.refuse(id, &call, &fault);
        }
    }

    /// Whether the app may do this: checks 3 to 9.
    fn admit(&mut self, invoke: &ActionInvoke) -> Result<(), Fault> {
        let Some(context) = self.screen.context() else { return Err(Fault::new(Code::ActNotFound)) };
        admit(context, invoke)?;
        let sensitive = context.actions.get(&invoke.action_id).is_some_and(|action| action.sensitive);
        if !sensitive {
            return Ok(());
        }
        let digest = digest(&invoke.parameters);
        let given = invoke.confirmation_id.as_deref();
        let agreed = given.is_some_and(|id| self.consents.redeem(id, &invoke.action_id, &digest, self.now));
        if agreed { Ok(()) } else { Err(Fault::new(Code::ActConfirmationRequired)) }
    }

    pub(super) fn execute(&mut self, invocation_id: &str, call: Call, parameters: Value) {
        if !call.provider {
            self.acknowledge(invocation_id);
        }
        let execution = Execution {
            invocation_id: invocation_id.to_owned(),
            action_id: call.action_id.clone(),
            kind: call.kind.clone(),
            parameters,
            by: call.by,
        };
        self.calls.running.insert(invocation_id.to_owned(), call);
        self.event(Event::Execute(execution));
    }

    fn acknowledge(&mut self, invocation_id: &str) {
        let ack = ActionAck { invocation_id: invocation_id.to_owned(), started: true };
        self.send(&ClientEvent::ActionAck(ack), About::default());
    }

    /// Answers without doing anything.
    pub(super) fn refuse(&mut self, invocation_id: &str, call: &Call, fault: &Fault) {
        let result = call.result(invocation_id, Err(fault.clone()), false, self.now);
        self.conclude(result, call);
    }

    /// How something came out that the app was told to do. Where that led to another page, what is on it has to
    /// be said along with it, unless it was shown already (VIP-059).
    ///
    /// # Errors
    /// There is no such call, what is shown breaks a rule, or the answer is too long. The call stays.
    pub fn finish(
        &mut self,
        invocation_id: &str,
        outcome: Outcome,
        screen: Option<Value>,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.now = now;
        let call = self.calls.running.get(invocation_id).filter(|call| call.asking.is_none());
        let Some(call) = call.cloned() else { return Err(CommandError::NoCall) };
        let (outcome, executed) = match outcome {
            Outcome::Done(data) => {
                if data.as_ref().is_some_and(|data| json_bytes(data) > MAX_DATA) {
                    return Err(CommandError::TooLong);
                }
                let narrated = screen.is_some() || self.screen.version() > call.context_version;
                if call.kind == "navigation" && !narrated {
                    return Err(CommandError::NoNarration);
                }
                (Ok(data), true)
            }
            Outcome::Failed { message, executed } => {
                (Err(Fault::new(Code::ActExecutionFailed).because(message)), executed)
            }
            Outcome::Cancelled { executed } => (Err(Fault::new(Code::ActCancelled)), executed),
        };
        let mut result = call.result(invocation_id, outcome, executed, now);
        result.context = match screen {
            Some(screen) => self.refreshed(screen)?,
            None => self.unsent_screen(),
        };
        self.calls.running.remove(invocation_id);
        self.conclude(result, &call);
        self.settle();
        Ok(())
    }

    /// The server does not want something any more.
    pub(super) fn cancelled(&mut self, cancel: &ActionCancel) {
        let ActionCancel { invocation_id, reason } = cancel;
        match self.calls.running.get(invocation_id) {
            Some(call) if call.asking.is_some() => {
                let call = call.clone();
                self.calls.running.remove(invocation_id);
                self.refuse(invocation_id, &call, &Fault::new(Code::ActCancelled));
                self.event(Event::Asked { invocation_id: invocation_id.clone() });
            }
            Some(_) => {
                self.event(Event::Abandon { invocation_id: invocation_id.clone(), reason: *reason });
            }
            None => {}
        }
    }

    /// Answers in the place of whoever took too long.
    pub(super) fn calls_timeout(&mut self) {
        let now = self.now;
        let late = self.calls.running.iter().filter(|(_, call)| call.by <= now);
        let late: Vec<(String, Call)> = late.map(|(id, call)| (id.clone(), call.clone())).collect();
        for (invocation_id, call) in late {
            self.calls.running.remove(&invocation_id);
            if call.asking.is_some() {
                self.refuse(&invocation_id, &call, &Fault::new(Code::ActConfirmationExpired));
                self.event(Event::Asked { invocation_id });
            } else {
                let fault = Fault::new(Code::ActTimeout);
                let result = call.result(&invocation_id, Err(fault), true, now);
                self.conclude(result, &call);
                self.event(Event::Abandon { invocation_id, reason: ActionCancelReason::Timeout });
            }
        }
    }
}
