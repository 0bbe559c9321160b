//! The user's consent: asked for by the server, given by the user, and worth exactly one call.

use std::collections::VecDeque;

use serde_json::{Value, json};
use switchboard_core::Timestamp;

use super::calls::Call;
use super::event::{CommandError, Event, Question};
use super::{VipClient, millis};
use crate::action::{confirmation_entry, digest};
use crate::context::{Channel, Confirmation, SYSTEM_CONFIRM};
use crate::error::{Code, Fault};
use crate::message::ActionInvoke;

/// What the user has agreed to.
#[derive(Debug, Default)]
pub(super) struct Consents {
    given: VecDeque<Consent>,
}

#[derive(Debug)]
struct Consent {
    id: String,
    action_id: String,
    digest: String,
    by: Timestamp,
}

/// What the user is asked.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// The action that it is about.
    reference: String,
    digest: String,
    ttl_ms: u64,
    /// What is done then, where nobody has to be told first.
    pub(super) then: Option<Then>,
}

/// The call that waits for consent.
#[derive(Clone)]
pub(super) struct Then(pub(super) Value);

crate::message::quiet!(Then);

const MOST_GIVEN: usize = 32;

impl Consents {
    fn give(&mut self, consent: Consent) {
        self.given.push_back(consent);
        if self.given.len() > MOST_GIVEN {
            self.given.pop_front();
        }
    }

    /// Uses a consent up; whether it was one for this call (VIP-057).
    pub(super) fn redeem(&mut self, id: &str, action_id: &str, digest: &str, now: Timestamp) -> bool {
        let place = self.given.iter().position(|consent| consent.id == id);
        let consent = place.and_then(|place| self.given.remove(place));
        consent.is_some_and(|consent| {
            consent.action_id == action_id && consent.digest == digest && consent.by > now
        })
    }
}

impl Asking {
    pub(super) fn new(reference: String, parameters: &Value, ttl_ms: u64, then: Option<Then>) -> Self {
        Self { reference, digest: digest(parameters), ttl_ms, then }
    }
}

impl VipClient {
    /// The server wants the user to be asked.
    pub(super) fn ask(&mut self, invoke: &ActionInvoke, mut call: Call) -> Result<(), Fault> {
        let wrong = |why: &'static str| Fault::new(Code::ActInvalidParameters).because(why);
        let Some(context) = self.screen.context() else { return Err(Fault::new(Code::ActNotFound)) };
        if invoke.action_id != SYSTEM_CONFIRM && invoke.action_id != confirmation_entry(context) {
            return Err(Fault::new(Code::ActNotFound));
        }
        let text = |key: &str| invoke.parameters.get(key).and_then(Value::as_str);
        let Some(reference) = text("reference_action_id") else {
            return Err(wrong("reference_action_id is missing"));
        };
        let Some(action) = context.actions.get(reference) else {
            let is_old = invoke.context_version < context.version;
            return Err(Fault::new(if is_old { Code::ActStaleContext } else { Code::ActNotFound }));
        };
        let parameters = invoke.parameters.get("reference_parameters").filter(|value| value.is_object());
        let Some(parameters) = parameters else { return Err(wrong("reference_parameters is missing")) };
        let Some(expires_at) = invoke.parameters.get("expires_at").and_then(Value::as_u64) else {
            return Err(wrong("expires_at is missing"));
        };
        let expires_at = Timestamp::from_millis(expires_at);
        if expires_at <= self.now {
            return Err(Fault::new(Code::ActConfirmationExpired));
        }
        let confirmation = action.confirmation.clone().unwrap_or_default();
        let asking = Asking::new(reference.to_owned(), parameters, confirmation.ttl_ms, None);
        if text("channel") == Some("voice") && self.was_said(&confirmation, invoke) {
            self.agreed_to(&invoke.invocation_id, &call, &asking, Channel::Voice);
            return Ok(());
        }
        let question = Question {
            invocation_id: invoke.invocation_id.clone(),
            action_id: reference.to_owned(),
            prompt: text("prompt").map(str::to_owned).or(confirmation.prompt),
            parameters: parameters.clone(),
            by: call.by.min(expires_at),
        };
        call.by = question.by;
        call.asking = Some(asking);
        self.calls.running.insert(invoke.invocation_id.clone(), call);
        self.event(Event::Ask(question));
        Ok(())
    }

    /// Whether what the server says of the user's voice is what the user has just said, as far as that can be
    /// known here.
    fn was_said(&self, confirmation: &Confirmation, invoke: &ActionInvoke) -> bool {
        let Some(evidence) = invoke.parameters.get("voice_evidence") else { return false };
        let text = |key: &str| evidence.get(key).and_then(Value::as_str);
        let latest = self.turn.as_ref().filter(|turn| text("turn_id") == Some(turn.id.as_str()));
        let heard =
            latest.is_some_and(|turn| turn.text.as_deref() == text("transcript") && turn.text.is_some());
        heard && self.config.voice_consent && confirmation.channels.contains(&Channel::Voice)
    }

    /// The user has decided.
    ///
    /// # Errors
    /// Nobody asks that, or not any more.
    pub fn decide(&mut self, invocation_id: &str, agrees: bool, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        let is_asked =
            self.calls.running.get(invocation_id).is_some_and(|call| call.asking.is_some() && call.by > now);
        let call = self.calls.running.remove(invocation_id).filter(|_| is_asked);
        let Some(mut call) = call else { return Err(CommandError::NoCall) };
        let Some(asking) = call.asking.take() else { return Err(CommandError::NoCall) };
        match (asking.then.clone(), agrees) {
            (Some(Then(parameters)), true) => self.execute(invocation_id, call, parameters),
            (Some(_), false) => {
                let fault = Fault::new(Code::ActCancelled).because("the user does not want it");
                self.refuse(invocation_id, &call, &fault);
            }
            (None, true) => self.agreed_to(invocation_id, &call, &asking, Channel::Ui),
            (None, false) => {
                let data = json!({"status": "rejected", "channel": Channel::Ui});
                let result = call.result(invocation_id, Ok(Some(data)), true, now);
                self.conclude(result, &call);
            }
        }
        self.settle();
        Ok(())
    }

    fn agreed_to(&mut self, invocation_id: &str, call: &Call, asking: &Asking, channel: Channel) {
        let id = self.mint("cf");
        self.consents.give(Consent {
            id: id.clone(),
            action_id: asking.reference.clone(),
            digest: asking.digest.clone(),
            by: self.now.after(millis(asking.ttl_ms)),
        });
        let data = json!({"status": "confirmed", "confirmation_id": id, "channel": channel});
        let result = call.result(invocation_id, Ok(Some(data)), true, self.now);
        self.conclude(result, call);
    }
}
