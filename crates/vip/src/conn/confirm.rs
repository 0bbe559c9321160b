//! Consent to what is sensitive: asked on the screen or by voice, for these parameters, once (§9.4).

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::Timestamp;

use crate::action::{self, Prepared};
use crate::context::{Channel, Executor};
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{ActionInvoke, ActionResult, ResultStatus};

use super::VipConnection;
use super::act::Wanted;
use super::speak::Response;

/// What consent is asked for.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) wanted: Wanted,
    /// The name that the real invocation will have.
    invocation: String,
    parameters: Value,
    digest: String,
    prompt: String,
    expires_at: Timestamp,
    ui: bool,
}

/// Consent is being asked for by voice.
#[derive(Debug)]
pub(super) struct Confirming {
    pub(super) reference: Reference,
    pub(super) expires_at: Timestamp,
    /// What is said once the matter is settled.
    pub(super) parked: Option<Response>,
}

impl VipConnection {
    /// Asks the user before anything sensitive is done.
    pub(super) fn ask_consent(&mut self, wanted: Wanted, prepared: &Prepared) {
        let (prompt, channels, ttl_ms) = self.terms_of(&wanted.action);
        let invocation = self.new_invocation();
        let ttl = Duration::from_millis(ttl_ms);
        let mut preferred = self.settings.confirmation_channels.iter().map(String::as_str);
        let allowed = |channel: &str| match channel {
            "voice" => channels.contains(&Channel::Voice),
            _ => channels.contains(&Channel::Ui),
        };
        let channel = preferred.find(|channel| allowed(channel));
        let reference = Reference {
            wanted,
            invocation,
            digest: action::digest(&prepared.parameters),
            parameters: prepared.parameters.clone(),
            prompt,
            expires_at: self.now.after(ttl),
            ui: channels.contains(&Channel::Ui),
        };
        if channel == Some("voice") && self.service.speech.speaks && !self.muted {
            return self.ask_by_voice(reference);
        }
        self.ask_on_screen(reference, "ui", None);
    }

    fn terms_of(&self, action: &str) -> (String, Vec<Channel>, u64) {
        let known = self.context.as_ref().and_then(|context| context.actions.get(action));
        let confirmation = known.and_then(|action| action.confirmation.clone());
        let described =
            known.map(|action| action.label.clone().unwrap_or_else(|| action.description.clone()));
        let otherwise = format!("{}?", described.unwrap_or_default().trim_end_matches(['.', '?']));
        match confirmation {
            Some(terms) => (terms.prompt.unwrap_or(otherwise), terms.channels, terms.ttl_ms),
            None => (otherwise, vec![Channel::Ui, Channel::Voice], DEFAULT_TTL_MS),
        }
    }

    fn ask_on_screen(&mut self, reference: Reference, channel: &str, evidence: Option<Value>) {
        let response_id = self.mention_response();
        let mut parameters = json!({
            "reference_action_id": reference.wanted.action,
            "reference_invocation_id": reference.invocation,
            "reference_parameters": reference.parameters,
            "prompt": reference.prompt,
            "channel": channel,
            "expires_at": reference.expires_at.as_millis(),
        });
        if let Some(evidence) = evidence {
            parameters["voice_evidence"] = evidence;
        }
        let ttl_ms = u64::try_from(reference.expires_at.since(self.now).as_millis()).unwrap_or_default();
        let invoke = ActionInvoke {
            invocation_id: self.new_invocation(),
            action_id: self
                .context
                .as_ref()
                .map_or(crate::context::SYSTEM_CONFIRM, |context| action::confirmation_entry(context))
                .to_owned(),
            kind: "confirmation".to_owned(),
            parameters,
            context_version: self.context.as_ref().map_or(1, |context| context.version),
            response_id,
            timeout_ms: ttl_ms.clamp(100, LONGEST_MS),
            follow_up: true,
            parallel: false,
            attempt: 1,
            confirmation_id: None,
        };
        let (wanted, deadline) = (reference.wanted.clone(), reference.expires_at);
        self.ask_app(wanted, invoke, Some(Box::new(reference)), deadline);
    }

    /// What the user has decided on the screen, or the app on the word of the user.
    pub(super) fn consent_result(
        &mut self,
        reference: Reference,
        asked: &ActionInvoke,
        result: &ActionResult,
    ) {
        let decision = self.decision(&reference, asked, result);
        self.go(Trigger::ActionResult, None, None);
        match decision {
            Err(fault) => {
                self.refuse_act(&reference.wanted, &fault);
                self.act_next();
            }
            Ok((prepared, confirmation)) => {
                let Reference { wanted, invocation, .. } = reference;
                if prepared.executor == Executor::Server {
                    self.perform(wanted, prepared.parameters);
                    return self.act_next();
                }
                self.invoke(wanted, prepared, Some((invocation, confirmation)), false);
            }
        }
    }

    /// What may be done now, with whose consent.
    fn decision(
        &mut self,
        reference: &Reference,
        asked: &ActionInvoke,
        result: &ActionResult,
    ) -> Result<(Prepared, String), Fault> {
        let data = result.data.as_ref().unwrap_or(&Value::Null);
        if result.status == ResultStatus::Error {
            let fault = Fault::new(Code::ActConfirmationRequired);
            return Err(fault.because("the user could not be asked"));
        }
        if data["status"] != "confirmed" || result.invocation_id != asked.invocation_id {
            return Err(Fault::new(Code::ActConfirmationRequired).because("the user said no"));
        }
        if self.now >= reference.expires_at {
            return Err(Fault::new(Code::ActConfirmationExpired));
        }
        // A voice counts where it was asked for one; the screen always does.
        let by_voice = data["channel"] == "voice" && asked.parameters["channel"] == "voice";
        if data["channel"] != "ui" && !by_voice {
            let fault = Fault::new(Code::ActConfirmationRequired);
            return Err(
                fault.because("the consent does not say how it was given, or not as it was asked for")
            );
        }
        let confirmation = data["confirmation_id"].as_str().unwrap_or_default().to_owned();
        if confirmation.is_empty() || confirmation.len() > 40 || self.acts.used.contains(&confirmation) {
            return Err(Fault::new(Code::ActConfirmationRequired).because("the consent is not a fresh one"));
        }
        if self.acts.used.len() >= MOST_USED {
            self.acts.used.pop_front();
        }
        self.acts.used.push_back(confirmation.clone());
        // The screen may have changed while the user made up their mind.
        let context = self.context.as_ref().ok_or_else(|| Fault::new(Code::ActNotFound))?;
        let prepared = action::check(context, &reference.wanted.action, &reference.wanted.parameters)?;
        if action::digest(&prepared.parameters) != reference.digest {
            return Err(Fault::new(Code::ActConfirmationRequired).because("the parameters have changed"));
        }
        Ok((prepared, confirmation))
    }

    fn ask_by_voice(&mut self, reference: Reference) {
        let turn_id = self.floor.as_ref().map(|floor| floor.turn_id.clone());
        let mut question = self.new_response(turn_id);
        question.text.clone_from(&reference.prompt);
        question.ended = true;
        question.expects_reply = true;
        let parked = self.response.replace(question);
        let expires_at = reference.expires_at;
        self.acts.confirming = Some(Confirming { reference, expires_at, parked });
        self.open_response();
        self.complete_speech();
    }

    /// Whether the next thing that the user says is about consent.
    pub(super) fn confirms_by_voice(&self) -> bool {
        self.acts.confirming.is_some()
    }

    /// What the user has said about it. The words of the model never count.
    pub(super) fn confirmed_by_voice(&mut self, turn_id: &str, text: &str) {
        let Some(Confirming { reference, parked, .. }) = self.acts.confirming.take() else { return };
        self.unpark(parked);
        match verdict(text) {
            Some(true) => {
                let evidence = json!({ "turn_id": turn_id, "transcript": text });
                self.ask_on_screen(reference, "voice", Some(evidence));
            }
            // Better asked once more than misunderstood.
            None if reference.ui => self.ask_on_screen(reference, "ui", None),
            Some(false) | None => {
                let fault = Fault::new(Code::ActConfirmationRequired).because("the user said no");
                self.refuse_act(&reference.wanted, &fault);
                self.act_next();
            }
        }
    }

    pub(super) fn consent_expired(&mut self) {
        let Some(Confirming { reference, parked, .. }) = self.acts.confirming.take() else { return };
        if self.state() == State::Idle {
            self.unpark(parked);
        }
        self.refuse_act(&reference.wanted, &Fault::new(Code::ActConfirmationExpired));
    }
}

/// Whether somebody has agreed; none if that cannot be told.
pub(super) fn verdict(text: &str) -> Option<bool> {
    let words: Vec<String> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    match (any(YES), any(NO)) {
        (true, false) if words.len() <= LONGEST_YES => Some(true),
        (_, true) => Some(false),
        (_, false) => None,
    }
}

const YES: &[&str] = &[
    "yes",
    "yeah",
    "yep",
    "yup",
    "sure",
    "ok",
    "okay",
    "confirm",
    "confirmed",
    "correct",
    "ja",
    "oui",
    "si",
];
const NO: &[&str] = &["no", "nope", "not", "don't", "dont", "cancel", "stop", "never", "wait", "nein", "non"];
const LONGEST_YES: usize = 6;
const DEFAULT_TTL_MS: u64 = 60_000;
/// The longest time that an invocation may name (§7.2).
const LONGEST_MS: u64 = 120_000;
const MOST_USED: usize = 256;
