//! An answer, put together from its pieces and passed on as they come.

use switchboard_core::model::{FailureKind, Finish, Output};

use super::think::{Said, Thought};
use super::wire::{self, Calls, Choice, Chunk, Counts, Delta};
use crate::agent::AgentError;
use crate::chunk;
use crate::turn::Turn;

/// What the model said to one question.
#[derive(Debug)]
pub(super) struct Answer {
    /// Without its reasoning.
    pub(super) text: String,
    pub(super) calls: Vec<wire::Call>,
    pub(super) finish: Finish,
    pub(super) counts: Option<Counts>,
}

/// The answer as far as it has come.
pub(super) struct Progress {
    begun: bool,
    thought: Thought,
    /// Bytes of reasoning, which nobody else counts.
    reasoned: usize,
    text: String,
    refused: bool,
    calls: Calls,
    reason: Option<String>,
    counts: Option<Counts>,
}

impl Progress {
    /// Nothing yet; `tags` tells whether reasoning comes as a part of the text.
    pub(super) fn new(tags: bool) -> Self {
        Self {
            begun: false,
            thought: Thought::new(tags),
            reasoned: 0,
            text: String::new(),
            refused: false,
            calls: Calls::default(),
            reason: None,
            counts: None,
        }
    }

    /// Whether something of it was passed on, so that there is no second attempt.
    pub(super) const fn begun(&self) -> bool {
        self.begun
    }

    /// Whether the model has said that it is through.
    pub(super) const fn is_whole(&self) -> bool {
        self.reason.is_some()
    }

    /// Takes a piece, and passes on what it says.
    pub(super) async fn take(&mut self, turn: &mut Turn, chunk: Chunk) -> Result<(), AgentError> {
        if chunk.usage.is_some() {
            self.counts = chunk.usage;
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            self.take_choice(turn, choice).await?;
        }
        Ok(())
    }

    async fn take_choice(&mut self, turn: &mut Turn, choice: Choice) -> Result<(), AgentError> {
        let mut delta = choice.delta.or(choice.message).unwrap_or_default();
        let reasoning = delta.take_reasoning();
        self.pass_on(turn, Said::Reasoning(reasoning)).await?;
        let Delta { content, refusal, tool_calls, .. } = delta;
        if let Some(text) = content {
            for said in self.thought.take(text) {
                self.pass_on(turn, said).await?;
            }
        }
        if let Some(text) = refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            self.pass_on(turn, Said::Text(text)).await?;
        }
        for fragment in tool_calls.unwrap_or_default() {
            self.begun = true;
            if !self.calls.take(fragment) {
                let message = "the model asked for more or larger tool calls than are taken";
                return Err(AgentError::failed(FailureKind::Execution, message));
            }
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.reason = Some(reason);
        }
        Ok(())
    }

    async fn pass_on(&mut self, turn: &mut Turn, said: Said) -> Result<(), AgentError> {
        match said {
            Said::Reasoning(text) => {
                self.reasoned = self.reasoned.saturating_add(text.len());
                if self.reasoned > MAX_REASONING_BYTES {
                    let message = "the model reasons longer than is taken";
                    return Err(AgentError::failed(FailureKind::Execution, message));
                }
                self.say(turn, &text, Output::Reasoning).await
            }
            Said::Text(text) => {
                self.text.push_str(&text);
                self.say(turn, &text, Output::Text).await
            }
        }
    }

    async fn say(
        &mut self,
        turn: &mut Turn,
        text: &str,
        output: fn(String) -> Output,
    ) -> Result<(), AgentError> {
        for piece in chunk::Chunk::Whole.split(text) {
            self.begun = true;
            turn.emit(output(piece.to_owned())).await?;
        }
        Ok(())
    }

    /// Nothing follows.
    pub(super) async fn finish(mut self, turn: &mut Turn) -> Result<Answer, AgentError> {
        if let Some(said) = self.thought.finish() {
            self.pass_on(turn, said).await?;
        }
        let finish = if self.refused { Finish::Filtered } else { wire::finish(self.reason.as_deref()) };
        Ok(Answer { text: self.text, calls: self.calls.finish(), finish, counts: self.counts })
    }
}

/// Bytes of reasoning in one answer. A model that never comes to its answer ends here, and not when the disk is full.
const MAX_REASONING_BYTES: usize = 4 << 20;
