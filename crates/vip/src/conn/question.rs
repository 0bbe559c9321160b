//! What an agent asks the user in the middle of its turn: it is spoken, and what the user says next is the answer.

use serde_json::{Value, json};
use switchboard_core::model::{CallEnd, CallError, Op};
use switchboard_core::{CallId, TurnId};

use crate::matrix::State;

use super::VipConnection;
use super::confirm::verdict;
use super::speak::Response;

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) turn: TurnId,
    pub(super) call: CallId,
    /// Whether the answer is yes or no.
    decides: bool,
    /// What is said once it is answered.
    pub(super) parked: Option<Response>,
}

impl VipConnection {
    pub(super) fn put_question(&mut self, turn: &TurnId, call: &CallId, text: &str, schema: Option<&Value>) {
        if self.state() != State::AiThinking || self.acts.parked_turn().is_some() {
            let error = CallError::new("busy", "the user cannot be asked now");
            return self.answer_call(turn, call, CallEnd::Failed(error));
        }
        let turn_id = self.floor.as_ref().map(|floor| floor.turn_id.clone());
        let mut question = self.new_response(turn_id);
        text.clone_into(&mut question.text);
        question.ended = true;
        question.expects_reply = true;
        let parked = self.response.replace(question);
        let decides = schema.is_some_and(|schema| {
            schema["type"] == "boolean" || schema["properties"]["approve"]["type"] == "boolean"
        });
        self.acts.question = Some(Pending { turn: turn.clone(), call: call.clone(), decides, parked });
        self.open_response();
        self.complete_speech();
    }

    pub(super) const fn has_question(&self) -> bool {
        self.acts.question.is_some()
    }

    pub(super) fn answer_question(&mut self, text: &str) {
        let Some(Pending { turn, call, decides, parked }) = self.acts.question.take() else { return };
        self.unpark(parked);
        let answer = if decides { json!(verdict(text) == Some(true)) } else { json!(text) };
        self.answer_call(&turn, &call, CallEnd::done(answer));
    }

    /// Nobody waits for the answer any more; what the agent still says comes as it would have.
    pub(super) fn question_over(&mut self, question: Pending) {
        if self.state() == State::Idle {
            self.unpark(question.parked);
        }
    }

    fn answer_call(&mut self, turn: &TurnId, call: &CallId, end: CallEnd) {
        self.ask(Op::Answer { turn: turn.clone(), call: call.clone(), end });
    }
}
