//! Variations: answer again, edit, continue (§5.6). Nothing is deleted; what varies stands beside.

use switchboard_core::model::{Names, Parent, Part};
use switchboard_core::{Op, Reject, Reply, SessionId, Timestamp, TurnId, Within};

use super::AliciaConnection;
use super::clock::secs;
use super::jobs::{Answer, Job, Task, message_of};
use super::live::Edit;
use super::say::Asking;
use crate::annals::tables;
use crate::deed::Luggage;
use crate::error::Code;
use crate::id::{Id, Prefix};
use crate::message::{Body, ControlVariation, Mode, Role};
use crate::rows::{self, StoredMessage};

/// A ControlVariation is being done.
#[derive(Debug)]
pub(super) enum Varying {
    /// The target is being looked up.
    Seeking,
    /// The question that it answers is being looked up.
    Asking,
    /// The turn is being started.
    Starting,
    /// What is under way is being stopped, so many turns; then an edit waits for its message.
    Clearing(usize),
    /// What is under way is being stopped, before an answer is changed.
    Resting {
        /// Turns whose stop has not been answered.
        left: usize,
        target: Id,
        content: String,
    },
    /// An answer is being changed; whether that was acknowledged already.
    Editing(bool),
}

impl AliciaConnection {
    pub(super) fn begin_varying(&mut self, job: Job) {
        let (Body::ControlVariation(variation), Some(session)) = (&job.body, job.session()) else { return };
        self.look(rows::by_id(&tables::MESSAGES, Within::Session(session), &variation.target_id));
        self.wait(job, Task::Varying(Varying::Seeking));
    }

    pub(super) fn go_on_varying(&mut self, job: Job, varying: Varying, answer: Answer) {
        let (Body::ControlVariation(variation), Some(session)) = (&job.body, job.session()) else { return };
        let variation = variation.clone();
        match varying {
            Varying::Seeking => match answer.rows() {
                Ok(found) => match rows::messages(&found).first() {
                    Some(target) => self.vary(job, &session, &variation, target),
                    None => self.refuse(&job, Code::NotFound, "targetId names no message here"),
                },
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Varying::Asking => match answer.rows() {
                Ok(found) => match rows::messages(&found).first() {
                    Some(question) if question.role == Role::User => {
                        self.answer_again(job, &session, question)
                    }
                    Some(_) | None => self.refuse(&job, Code::InvalidState, "the message answers nothing"),
                },
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Varying::Starting => match answer.reply() {
                Ok(reply) => {
                    self.expect(&job, &reply);
                    self.acknowledge(&job, true);
                }
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Varying::Clearing(left) => {
                self.note_stop(&job, answer);
                if left > 1 {
                    self.wait(job, Task::Varying(Varying::Clearing(left - 1)));
                }
            }
            Varying::Resting { left, target, content } => {
                self.note_stop(&job, answer);
                self.rest(job, &session, left.saturating_sub(1), target, content);
            }
            Varying::Editing(acknowledged) => self.edited(&job, answer, acknowledged),
        }
    }

    fn note_stop(&mut self, job: &Job, answer: Answer) {
        // One that is refused is over already.
        if let Ok(reply) = answer.reply() {
            self.expect(job, &reply);
        }
    }

    fn vary(&mut self, job: Job, session: &SessionId, variation: &ControlVariation, target: &StoredMessage) {
        let content = variation.new_content.as_ref().map(|content| content.0.as_str());
        match (variation.mode, target.role, content) {
            (Mode::Regenerate, Role::User, _) => self.answer_again(job, session, target),
            (Mode::Regenerate, Role::Assistant, _) => match &target.previous {
                Some(question) => {
                    self.look(rows::by_id(&tables::MESSAGES, Within::Session(session.clone()), question));
                    self.wait(job, Task::Varying(Varying::Asking));
                }
                None => self.refuse(&job, Code::InvalidState, "the message answers nothing"),
            },
            (Mode::Continue, Role::Assistant, _) => {
                self.again(job, session, &target.id, GO_ON.to_owned());
            }
            (Mode::Edit, _, Some(content)) if content.trim().is_empty() => {
                self.refuse(&job, Code::OutOfRange, "newContent must not be empty");
            }
            (Mode::Edit, Role::User, Some(content)) => self.ask_instead(job, session, target, content),
            (Mode::Edit, Role::User, None) => self.await_edit(job, session, target),
            (Mode::Edit, Role::Assistant, Some(content)) => {
                self.correct(job, session, &target.id, content.to_owned());
            }
            (Mode::Edit, Role::Assistant, None) => {
                self.refuse(&job, Code::Malformed, "newContent is missing");
            }
            (Mode::Edit | Mode::Regenerate, Role::System, _)
            | (Mode::Continue, Role::User | Role::System, _) => {
                self.refuse(&job, Code::InvalidState, "not possible for a message of this role");
            }
        }
    }

    fn answer_again(&mut self, job: Job, session: &SessionId, question: &StoredMessage) {
        self.again(job, session, &question.id, question.contents.clone());
    }

    /// Starts a turn about a message that is there already.
    fn again(&mut self, job: Job, session: &SessionId, about: &Id, request: String) {
        let answer = self.fresh(Prefix::Message);
        let names = Names { input: Some(message_of(about)), answer: Some(message_of(&answer)), again: true };
        let asking = Asking { request, names, parent: Parent::Tip, luggage: Luggage::default() };
        self.start_turn(session, asking, &job.meta);
        self.wait(job, Task::Varying(Varying::Starting));
    }

    /// A question in other words, beside the old one.
    fn ask_instead(&mut self, job: Job, session: &SessionId, target: &StoredMessage, content: &str) {
        let (input, answer) = (self.fresh(Prefix::Message), self.fresh(Prefix::Message));
        let names =
            Names { input: Some(message_of(&input)), answer: Some(message_of(&answer)), again: false };
        let parent = target.previous.as_ref().map_or(Parent::Root, |id| Parent::Message(message_of(id)));
        let luggage = Luggage { number: Some(target.number), sibling: true, ..Luggage::default() };
        let asking = Asking { request: content.to_owned(), names, parent, luggage };
        self.start_turn(session, asking, &job.meta);
        self.wait(job, Task::Varying(Varying::Starting));
    }

    /// The words come with the next message.
    fn await_edit(&mut self, job: Job, session: &SessionId, target: &StoredMessage) {
        let until = self.now.after(secs(self.limits.edit_s));
        if let Some(known) = self.followed.get_mut(session) {
            let (target, parent, number) = (target.id.clone(), target.previous.clone(), target.number);
            known.edit = Some(Edit { target, parent, number, until });
        }
        self.acknowledge(&job, true);
        let turns = self.answering(session, None);
        self.interrupt(session, &turns);
        if !turns.is_empty() {
            self.wait(job, Task::Varying(Varying::Clearing(turns.len())));
        }
    }

    fn interrupt(&mut self, session: &SessionId, turns: &[TurnId]) {
        for turn in turns {
            let reason = Some("superseded".to_owned());
            self.submit(session, Op::Interrupt { turn: turn.clone(), reason });
        }
    }

    /// Changes what an agent has said, once nothing is under way.
    fn correct(&mut self, job: Job, session: &SessionId, target: &Id, content: String) {
        let turns = self.answering(session, None);
        if turns.is_empty() {
            return self.edit(job, session, target, content, false);
        }
        self.acknowledge(&job, true);
        self.interrupt(session, &turns);
        let (left, target) = (turns.len(), target.clone());
        self.wait(job, Task::Varying(Varying::Resting { left, target, content }));
    }

    /// Waits until what was stopped has come to rest: what it has said is in the tree only then.
    fn rest(&mut self, job: Job, session: &SessionId, left: usize, target: Id, content: String) {
        if left == 0 && self.answering(session, None).is_empty() {
            return self.edit(job, session, &target, content, true);
        }
        self.wait(job, Task::Varying(Varying::Resting { left, target, content }));
    }

    /// Looks whether a change that waits for rest can be made now.
    pub(super) fn rested(&mut self) {
        let waits = |task: &Task| matches!(task, Task::Varying(Varying::Resting { left: 0, .. }));
        if !self.work.as_ref().is_some_and(|work| waits(&work.task)) {
            return;
        }
        let Some(work) = self.work.take() else { return };
        let (job, task) = (work.job, work.task);
        if let (Task::Varying(Varying::Resting { target, content, .. }), Some(session)) =
            (task, job.session())
        {
            self.rest(job, &session, 0, target, content);
        }
    }

    fn edit(&mut self, job: Job, session: &SessionId, target: &Id, content: String, acknowledged: bool) {
        let op = Op::Edit { message: message_of(target), parts: vec![Part::Text(content)] };
        self.submit(session, op);
        self.wait(job, Task::Varying(Varying::Editing(acknowledged)));
    }

    fn edited(&mut self, job: &Job, answer: Answer, acknowledged: bool) {
        match answer.reply() {
            Ok(reply @ Reply::Applied { .. }) => {
                self.expect(job, &reply);
                if !acknowledged {
                    self.acknowledge(job, true);
                }
            }
            Ok(_) => {}
            Err(Reject::UnknownMessage(_)) => {
                self.refuse(job, Code::InvalidState, "nothing was said that could be changed");
            }
            Err(reject) => self.refuse_rejected(job, &reject),
        }
    }

    /// When the next edit has waited long enough for its message.
    pub(super) fn next_edit_over(&self) -> Option<Timestamp> {
        self.followed.values().filter_map(|known| Some(known.edit.as_ref()?.until)).min()
    }

    /// Edits whose message did not come are over; the old message stays as it is.
    pub(super) fn end_edits(&mut self) {
        let now = self.now;
        let late: Vec<(Id, Id)> = self
            .followed
            .values_mut()
            .filter(|known| known.edit.as_ref().is_some_and(|edit| edit.until <= now))
            .filter_map(|known| Some((known.id.clone(), known.edit.take()?.target)))
            .collect();
        for (conversation, target) in late {
            let error = self.report(Code::InvalidState, "the edited message did not come in time");
            self.say(Some(&conversation), error.about(&target));
        }
    }
}

/// What an agent is asked when it is to go on with its answer.
const GO_ON: &str = "Please continue your last answer where it stopped.";
