//! An answer while it is given: what a turn becomes on the wire and in the tables (§5.2, §5.5).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use switchboard_core::model::{Names, Output, Remembered};
use switchboard_core::{CallId, Pii, Timestamp, TurnId, hex};

use crate::deed::Wishes;
use crate::id::{Id, Prefix};
use crate::message::{
    AnswerType, AssistantSentence, MemoryTrace, Ratio, ReasoningStep, Role, StartAnswer, Trace,
};

use super::call::ToolUse;
use super::conversation::{Conversation, Recent};
use super::page::Desk;
use super::sentence::Sentences;
use super::thought::Thoughts;
use super::{clip, tables};

/// An answer that is being given.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub(super) turn: TurnId,
    pub(super) id: Id,
    pub(super) question: Id,
    pub(super) streaming: bool,
    trace: Option<(String, String)>,
    /// Whether somebody works on it.
    pub(super) started: bool,
    /// Whether StartAnswer was sent.
    pub(super) opened: bool,
    /// Whether it has its last word.
    pub(super) settled: bool,
    /// Whether something follows it in the tree.
    pub(super) followed: bool,
    /// Whether a reply to the request that asked for it is still to be written.
    #[serde(default)]
    pub(super) unreplied: bool,
    /// Of its row, once there is one.
    pub(super) number: Option<i64>,
    pub(super) created_at: Timestamp,
    pub(super) text: Sentences,
    pub(super) thoughts: Thoughts,
    memories: Vec<String>,
    pub(super) calls: BTreeMap<CallId, ToolUse>,
    pub(super) call_count: u32,
    /// Whether its text belongs to the tree.
    pub(super) counts: bool,
}

impl Answer {
    /// The answer of a turn that was accepted.
    pub(super) fn new(turn: &TurnId, names: Option<&Names>, wishes: &Wishes) -> Self {
        let derived = Names::default();
        let names = names.unwrap_or(&derived);
        Self {
            turn: turn.clone(),
            id: Id::of(Prefix::Message, names.answer_of(turn).as_str()),
            question: Id::of(Prefix::Message, names.input_of(turn).as_str()),
            streaming: wishes.streaming,
            trace: wishes.trace.as_ref().map(|(trace, _)| (trace.clone(), span_of(turn))),
            started: false,
            opened: false,
            settled: false,
            followed: false,
            unreplied: wishes.posted,
            number: None,
            created_at: Timestamp::default(),
            text: Sentences::default(),
            thoughts: Thoughts::default(),
            memories: Vec::new(),
            calls: BTreeMap::new(),
            call_count: 0,
            counts: false,
        }
    }

    /// The id of the answer.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// What it answers, or goes on with.
    pub fn question(&self) -> &Id {
        &self.question
    }

    /// Whether it is given sentence by sentence.
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// Whether StartAnswer was sent.
    pub fn is_opened(&self) -> bool {
        self.opened
    }

    /// Whether it has its last word, although its turn has not ended.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    pub(super) fn trace(&self) -> Option<Trace> {
        let (trace, span) = self.trace.as_ref()?;
        Trace::new(trace, span)
    }

    /// Somebody works on it; a second attempt changes nothing.
    pub(super) fn start(&mut self, book: &mut Conversation, desk: &mut Desk) {
        if self.started || self.settled {
            return;
        }
        self.started = true;
        if self.streaming {
            self.open(book, desk);
        }
    }

    pub(super) fn open(&mut self, book: &mut Conversation, desk: &mut Desk) {
        self.write("streaming", "", book, desk);
        self.opened = true;
        let start = StartAnswer {
            id: self.id.clone(),
            previous_id: self.question.clone(),
            answer_type: Some(AnswerType::Text),
            planned_sentence_count: None,
        };
        book.stanza(start, self.trace().as_ref(), desk);
    }

    /// Makes its row, or changes it.
    pub(super) fn write(
        &mut self,
        status: &'static str,
        contents: &str,
        book: &mut Conversation,
        desk: &mut Desk,
    ) {
        let key = |book: &Conversation| {
            vec![("conversation_id", book.id.as_str().into()), ("id", self.id.as_str().into())]
        };
        if self.number.is_some() {
            desk.set(&tables::MESSAGES, || {
                let mut cells = key(book);
                cells.extend([("contents", contents.into()), ("completion_status", status.into())]);
                cells
            });
            return;
        }
        let (number, branch) = (book.next_number(), book.branch_index(Some(&self.question)));
        desk.make(&tables::MESSAGES, || {
            let mut cells = key(book);
            cells.extend([
                ("previous_id", self.question.as_str().into()),
                ("message_role", Role::Assistant.name().into()),
                ("contents", contents.into()),
                ("sequence_number", number.into()),
                ("branch_index", branch.into()),
                ("completion_status", status.into()),
                ("sync_status", "synced".into()),
            ]);
            cells
        });
        book.remember(Recent {
            id: self.id.clone(),
            previous: Some(self.question.clone()),
            number,
            created_at: desk.at,
            sentences: None,
        });
        (self.number, self.created_at) = (Some(number), desk.at);
    }

    /// Something was produced.
    pub(super) fn take(&mut self, output: &Output, book: &mut Conversation, desk: &mut Desk) {
        if self.settled {
            return;
        }
        match output {
            Output::Text(text) if text.is_empty() => {}
            Output::Text(text) => {
                self.end_thought(book, desk);
                if self.opened {
                    for piece in self.text.push(text) {
                        self.sentence(piece, false, book, desk);
                    }
                } else {
                    self.text.append(text);
                }
            }
            Output::Reasoning(text) if book.shows_reasoning() => {
                self.end_sentence(book, desk);
                for step in self.thoughts.push(text) {
                    self.think(step, book, desk);
                }
            }
            Output::Remembered(remembered) => self.remember(remembered, book, desk),
            Output::Reasoning(_)
            | Output::Status(_)
            | Output::Usage(_)
            | Output::Checklist(_)
            | Output::Data { .. }
            | Output::Notice { .. }
            | Output::Began { .. }
            | Output::Standby(_)
            | Output::Suspended(_) => {}
        }
    }

    pub(super) fn sentence(
        &mut self,
        text: String,
        is_final: bool,
        book: &mut Conversation,
        desk: &mut Desk,
    ) {
        let sequence = self.text.number();
        let id = book.sentence_id(&self.turn, sequence);
        book.said_in(&self.id, &self.turn, sequence);
        desk.make(&tables::SENTENCES, || {
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", id.as_str().into()),
                ("message_id", self.id.as_str().into()),
                ("sentence_sequence_number", i64::from(sequence).into()),
                ("text", text.as_str().into()),
                ("completion_status", "completed".into()),
            ]
        });
        let sentence = AssistantSentence {
            id: Some(id),
            previous_id: self.id.clone(),
            sequence,
            text: Pii(text),
            is_final,
            audio: None,
        };
        book.stanza(sentence, self.trace().as_ref(), desk);
    }

    /// The sentence that is whole, before something else follows.
    pub(super) fn end_sentence(&mut self, book: &mut Conversation, desk: &mut Desk) {
        if self.opened
            && let Some(piece) = self.text.pause()
        {
            self.sentence(piece, false, book, desk);
        }
    }

    /// The thought that ends because something else follows.
    pub(super) fn end_thought(&mut self, book: &mut Conversation, desk: &mut Desk) {
        if let Some(step) = self.thoughts.finish() {
            self.think(step, book, desk);
        }
    }

    fn think(&mut self, step: (u32, String), book: &mut Conversation, desk: &mut Desk) {
        desk.make(&tables::REASONING_STEPS, || {
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", self.step_id(step.0, book).as_str().into()),
                ("message_id", self.id.as_str().into()),
                ("sequence_number", i64::from(step.0).into()),
                ("content", step.1.as_str().into()),
            ]
        });
        if self.opened {
            self.tell_thought(step, book, desk);
        } else {
            self.thoughts.keep(step);
        }
    }

    pub(super) fn tell_thought(
        &self,
        (sequence, content): (u32, String),
        book: &mut Conversation,
        desk: &mut Desk,
    ) {
        let step = ReasoningStep {
            id: self.step_id(sequence, book),
            message_id: self.id.clone(),
            sequence,
            content: Pii(content),
        };
        book.stanza(step, self.trace().as_ref(), desk);
    }

    fn step_id(&self, sequence: u32, book: &Conversation) -> Id {
        book.derived(Prefix::Reasoning, &[self.turn.as_str(), &sequence.to_string()])
    }

    /// A memory was laid before the agent; once per turn, however often it is begun.
    fn remember(&mut self, remembered: &Remembered, book: &mut Conversation, desk: &mut Desk) {
        if self.memories.contains(&remembered.memory) || self.memories.len() >= MOST_MEMORIES {
            return;
        }
        self.memories.push(remembered.memory.clone());
        book.memories = book.memories.saturating_add(1);
        let memory_id = Id::of(Prefix::Memory, &remembered.memory);
        let id = book.derived(Prefix::MemoryUse, &[self.turn.as_str(), &remembered.memory]);
        let position = i64::try_from(self.memories.len()).unwrap_or(i64::MAX);
        let relevance = Ratio::clamped(remembered.relevance);
        desk.make(&tables::MEMORY_USED, || {
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", id.as_str().into()),
                ("message_id", self.question.as_str().into()),
                ("answer_id", self.id.as_str().into()),
                ("memory_id", memory_id.as_str().into()),
                ("similarity_score", relevance.get().into()),
                ("position_in_results", position.into()),
            ]
        });
        let mut content = remembered.content.clone();
        clip(&mut content, MOST_SNIPPET);
        let trace = MemoryTrace {
            id,
            message_id: self.question.clone(),
            memory_id,
            content: Pii(content),
            relevance,
            source: remembered.source.clone(),
        };
        book.stanza(trace, self.trace().as_ref(), desk);
    }
}

// Holds what was said.
impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Answer")
            .field("id", &self.id)
            .field("question", &self.question)
            .field("streaming", &self.streaming)
            .field("opened", &self.opened)
            .field("settled", &self.settled)
            .finish_non_exhaustive()
    }
}

/// The span of what a turn produces, below the span that asked for it.
fn span_of(turn: &TurnId) -> String {
    let digest = Sha256::digest(turn.as_str().as_bytes());
    hex(digest.iter().take(8))
}

/// Longest `content` of a MemoryTrace, in bytes (§11.1).
const MOST_SNIPPET: usize = 1_024;
/// Memories that one turn may use.
const MOST_MEMORIES: usize = 64;
