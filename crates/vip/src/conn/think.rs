//! From what was said to what is answered: the turn of the agent (§10.4, T4).

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_core::model::{
    Failure, FailureKind, Finish, NewTurn, Op, Origin, Setting, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{Reject, TurnId};

use crate::context::Context;
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{ResponseStatus, TerminatedReason};
use crate::minutes::CHRONICLE;

use super::VipConnection;

impl VipConnection {
    /// Has the agent answer.
    pub(super) fn think(&mut self, turn_id: String, text: String, took_ms: u64) {
        if self.confirms_by_voice() {
            return self.confirmed_by_voice(&turn_id, &text);
        }
        if self.has_question() {
            return self.answer_question(&text);
        }
        if is_goodbye(&text) {
            return self.finish(TerminatedReason::VoiceHangup, None, 1000);
        }
        // The user goes on: what an earlier transport has begun must not stand in the way.
        self.drop_orphans();
        self.counters.derived += 1;
        let turn = TurnId::fresh(&self.seed, self.counters.derived);
        if let Some(response) = &mut self.response {
            response.turn = Some(turn.clone());
            response.latency.asr_ms = Some(took_ms);
        }
        let origin = Origin {
            attachment: Some(self.attachment.clone()),
            handle: Some(turn_id),
            bound: true,
            ..Origin::new(self.principal.clone(), CHRONICLE)
        };
        let deadline = self.now.after(Duration::from_secs(self.limits.answer_s.into()));
        let new = NewTurn {
            setting: Some(Box::new(self.setting())),
            ..NewTurn::new(turn, TurnRequest::chat(text), origin, deadline)
        };
        self.submit(Op::StartTurn(Box::new(new)), |connection, outcome| {
            if let Err(reject) = outcome {
                connection.not_started(&reject);
            }
        });
    }

    fn not_started(&mut self, reject: &Reject) {
        if self.state() == State::AiThinking {
            let fault = Fault::new(Code::ProvUnavailable).because(reject.to_string());
            self.give_up_thinking(fault);
        }
    }

    /// What the agent is told beside what is asked.
    fn setting(&self) -> Setting {
        let scene = self.context.as_ref().map(scene_of);
        Setting { instructions: self.settings.instructions.clone(), scene }
    }

    /// The agent has not said anything in time.
    pub(super) fn thought_too_long(&mut self) {
        if self.state() == State::AiThinking {
            self.stop_turn("no output in time");
            self.give_up_thinking(Fault::new(Code::ProvTimeout));
        }
    }

    pub(super) fn give_up_thinking(&mut self, fault: Fault) {
        let fault = self.count_provider_failure(fault);
        if fault.fatal {
            return self.fail(&fault);
        }
        self.close_response(ResponseStatus::Failed);
        self.go_saying(Trigger::ErrorRecoverable, None, Some(fault.code.name()), |connection| {
            connection.complain(&fault);
        });
        self.response = None;
        self.announce_next();
    }

    /// Providers that fail again and again end the session.
    pub(super) fn count_provider_failure(&mut self, fault: Fault) -> Fault {
        if fault.code != Code::ProvUnavailable {
            return fault;
        }
        self.counters.provider_failures += 1;
        if self.counters.provider_failures >= MOST_FAILURES { fault.fatally() } else { fault }
    }

    pub(super) fn stop_turn(&mut self, reason: &str) {
        let turn = self
            .response
            .as_ref()
            .filter(|response| !response.ended)
            .and_then(|response| response.turn.clone());
        if let Some(turn) = turn {
            self.ask(Op::Interrupt { turn, reason: Some(reason.to_owned()) });
        }
    }

    /// The turn of the agent has ended.
    pub(super) fn turn_ended(&mut self, end: &TurnEnd) {
        let Some(response) = &mut self.response else { return };
        response.ended = true;
        response.usage = end.usage.as_ref().map(|usage| usage.0.clone());
        match &end.outcome {
            TurnOutcome::Done(finish) => {
                self.counters.provider_failures = 0;
                if *finish == Finish::Complete || self.has_words() {
                    self.answer_complete()
                } else {
                    self.answer_none()
                }
            }
            TurnOutcome::Failed(failure) => {
                self.answer_failed(Fault::new(code_of(failure)).because(failure.message.clone()));
            }
            TurnOutcome::Expired => self.answer_failed(Fault::new(Code::ProvTimeout)),
            TurnOutcome::Interrupted { .. } => self.answer_stopped(),
        }
    }

    fn has_words(&self) -> bool {
        self.response.as_ref().is_some_and(|response| !response.text.trim().is_empty())
    }

    fn answer_complete(&mut self) {
        match self.state() {
            State::AiThinking if !self.has_words() => self.answer_none(),
            State::AiThinking => {
                self.open_response();
                self.complete_speech();
            }
            State::AiSpeaking => self.complete_speech(),
            // The user did not wait for it.
            State::Idle => self.follow_up(),
            State::UserSpeaking | State::InvokeAction | State::NotConnected | State::Connecting => {}
        }
    }

    fn answer_none(&mut self) {
        if self.state() != State::AiThinking {
            return self.answer_complete_silently();
        }
        self.mention_response();
        self.go_saying(Trigger::ResponseNone, None, None, |connection| {
            connection.close_response(ResponseStatus::None);
        });
        self.response = None;
        self.announce_next();
    }

    fn answer_complete_silently(&mut self) {
        if self.state() == State::AiSpeaking {
            self.complete_speech();
        }
    }

    fn answer_failed(&mut self, fault: Fault) {
        match self.state() {
            State::AiThinking => self.give_up_thinking(fault),
            State::AiSpeaking => {
                let fault = self.count_provider_failure(fault);
                self.complain(&fault);
                if let Some(response) = &mut self.response {
                    response.failed = true;
                }
                self.complete_speech();
            }
            State::Idle | State::InvokeAction => self.close_response(ResponseStatus::Failed),
            State::UserSpeaking | State::NotConnected | State::Connecting => {}
        }
    }

    /// Somebody else has stopped the answer, by whatever protocol.
    fn answer_stopped(&mut self) {
        match self.state() {
            State::AiThinking => self.answer_none(),
            State::AiSpeaking => {
                self.quiet();
                self.end_speech(ResponseStatus::Incomplete);
            }
            State::Idle
            | State::UserSpeaking
            | State::InvokeAction
            | State::NotConnected
            | State::Connecting => {}
        }
    }
}

/// What a failure of the agent is called here. Only an agent that cannot be reached is a provider that is down.
fn code_of(failure: &Failure) -> Code {
    match failure.http_status() {
        Some(402 | 429) => return Code::ProvQuota,
        // These may pass.
        Some(408 | 409 | 425) | None => {}
        Some(400..=499) => return Code::ProvRejected,
        Some(_) => {}
    }
    match failure.kind {
        FailureKind::ModelUnavailable
        | FailureKind::WorkerLost
        | FailureKind::Unreachable
        | FailureKind::Aborted
        | FailureKind::Internal => Code::ProvUnavailable,
        FailureKind::CallTimeout | FailureKind::Overdue => Code::ProvTimeout,
        FailureKind::BudgetExhausted => Code::ProvQuota,
        FailureKind::Execution
        | FailureKind::ToolNotFound
        | FailureKind::InvalidArgs
        | FailureKind::Tool
        | FailureKind::BadResponse
        | FailureKind::InvalidRequest
        | FailureKind::UnknownAgent
        | FailureKind::Forbidden
        | FailureKind::SlowConsumer
        | FailureKind::Unprepared => Code::ProvRejected,
    }
}

/// What the user has before their eyes, as data for the agent.
fn scene_of(context: &Context) -> String {
    let mut scene = String::new();
    let route = context.route.title.as_deref().unwrap_or(&context.route.id);
    scene.push_str("Page: ");
    scene.push_str(route);
    scene.push('\n');
    scene.push_str(&context.narration);
    if let Some(data) = &context.data {
        scene.push_str("\nData: ");
        scene.push_str(&data.to_string());
    }
    scene
}

/// Whether the user wants to end the session, and nothing else.
fn is_goodbye(text: &str) -> bool {
    let words: Vec<String> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    GOODBYES.contains(&words.join(" ").as_str())
}

/// Only what can hardly mean anything else.
const GOODBYES: &[&str] = &["hang up", "end the session", "end session", "end the call", "end call"];
const MOST_FAILURES: u32 = 3;

/// Counts by name.
pub(super) type Usage = BTreeMap<String, u64>;
