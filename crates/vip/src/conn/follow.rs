//! What happens in the session: the agent's turn, and what others do.

use switchboard_core::model::{CallKind, Executor, Op, Output, Part, TurnOutcome};
use switchboard_core::{Chronicle as _, Committed, Event, MessageId, TurnId};

use crate::message::AnnounceReason;
use crate::minutes::{CHRONICLE, LONGEST_ANSWER, Minute};

use super::speak::Announcement;
use super::{Phase, VipConnection};

impl VipConnection {
    pub(super) fn committed(&mut self, committed: &Committed) {
        if self.phase == Phase::Over {
            return;
        }
        // Until the client is let in, others may still have something to put on record.
        if let Some(before) = &mut self.incoming.before {
            before.take(committed);
        }
        match &committed.event {
            Event::Recorded { chronicle, record, .. } if **chronicle == *CHRONICLE => {
                for minute in serde_json::from_value::<Vec<Minute>>((**record).clone()).unwrap_or_default() {
                    self.noted(&minute);
                }
            }
            Event::AttachmentOpened { attachment, generation, .. } => {
                if *attachment == self.attachment && *generation > self.generation && self.generation > 0 {
                    self.regain();
                }
            }
            Event::TurnAccepted { turn, origin, .. } => {
                let ours = origin.attachment.as_ref() == Some(&self.attachment);
                if ours && !self.is_ours(turn) {
                    // The last word of the transport before.
                    self.orphans.insert(turn.clone(), String::new());
                } else if !ours && self.foreign.len() < MOST_FOREIGN {
                    self.foreign.insert(turn.clone(), String::new());
                }
            }
            Event::TurnOutput { turn, output } if self.is_ours(turn) => self.output(output),
            Event::TurnOutput { turn, output: Output::Text(text) } => {
                let said = self.foreign.get_mut(turn).or_else(|| self.orphans.get_mut(turn));
                if let Some(said) = said.filter(|said| said.len() + text.len() <= LONGEST_ANSWER) {
                    said.push_str(text);
                }
            }
            Event::CallRequested { turn, call } if self.is_ours(turn) => {
                if call.executor == Executor::Attachment(self.attachment.clone()) {
                    self.act(turn.clone(), call.clone());
                } else if let CallKind::Question { text, schema, .. } = &call.kind {
                    self.put_question(turn, &call.id, text, schema.as_ref());
                }
            }
            Event::CallRequested { turn, call } if self.orphans.contains_key(turn) => {
                if call.executor == Executor::Attachment(self.attachment.clone()) {
                    self.refuse_orphan(turn, &call.id);
                }
            }
            Event::CallEnded { call, .. } => self.call_ended(call),
            Event::TurnEnded { turn, end } => {
                if self.is_ours(turn) {
                    self.turn_ended(end);
                }
                self.turn_over(turn, matches!(end.outcome, TurnOutcome::Done(_)));
            }
            Event::SessionOpened { .. }
            | Event::Recorded { .. }
            | Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::ToolsChanged { .. }
            | Event::MessageAdded { .. }
            | Event::MessageEdited { .. }
            | Event::TipMoved { .. }
            | Event::SessionRenamed { .. }
            | Event::StandingChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::TurnQueued { .. }
            | Event::TurnStarted { .. }
            | Event::TurnReleased { .. }
            | Event::TurnOutput { .. }
            | Event::CallRequested { .. }
            | Event::CallProgress { .. }
            | Event::TurnInterrupted { .. } => {}
        }
    }

    fn noted(&mut self, minute: &Minute) {
        if let Minute::Opened { arrival } = minute {
            self.succession.open(arrival);
            let held = self.succession.is_held_by(&self.arrival);
            if *arrival == self.arrival {
                self.in_line(held);
            } else if self.phase != Phase::Opening && !held {
                self.replaced();
            }
        }
        if let Minute::Ended { .. } = minute {
            self.ended_elsewhere();
        }
    }

    /// Whether a turn is the one that is being answered here.
    pub(super) fn is_ours(&self, turn: &TurnId) -> bool {
        let answered = |response: &super::speak::Response| response.turn.as_ref() == Some(turn);
        self.response.as_ref().is_some_and(answered) || self.acts.parked_turn() == Some(turn)
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Text(text) => self.add_words(text),
            Output::Reasoning(_)
            | Output::Status(_)
            | Output::Usage(_)
            | Output::Checklist(_)
            | Output::Data { .. }
            | Output::Notice { .. }
            | Output::Remembered(_)
            | Output::Began { .. }
            | Output::Standby(_)
            | Output::Suspended(_) => {}
        }
    }

    /// A turn is over, and its answer is what it will be.
    fn turn_over(&mut self, turn: &TurnId, complete: bool) {
        let message = MessageId::answer_of(turn);
        if let Some(heard) = self.corrections.remove(&message) {
            self.ask(Op::Edit { message, parts: vec![Part::Text(heard)] });
        }
        let worth_telling = |text: &String| complete && !text.trim().is_empty();
        // What others were answered in this session is told here too.
        if let Some(text) = self.foreign.remove(turn).filter(worth_telling) {
            self.announce(Announcement::new(AnnounceReason::Notification, text));
        }
        // Until the client is let in, the minutes keep what it has not been told.
        let orphan = self.orphans.remove(turn).filter(|_| self.incoming.before.is_none());
        if let Some(text) = orphan.filter(worth_telling) {
            self.miss(text);
        }
    }
}

const MOST_FOREIGN: usize = 64;
