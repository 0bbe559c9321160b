//! Memories: they belong to a person, and are noted in a session of their own (§4.20).

use switchboard_core::{Found, Op, SessionId, Within};

use super::AliciaConnection;
use super::jobs::{Answer, Job, Task};
use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed, NOTEBOOK};
use crate::message::{Body, MemoryAction, MemoryActionKind, MemoryConfirmation};
use crate::rows::{self, Row};

/// A MemoryAction is being done.
#[derive(Debug)]
pub(super) enum Remembering {
    /// The notebook is being opened, if there is none.
    Opening,
    /// Its account is being begun, if it is not kept yet.
    Chronicling,
    /// The memory is being looked up.
    Seeking,
    /// The change is being noted.
    Noting,
}

impl AliciaConnection {
    fn notebook(&self) -> SessionId {
        SessionId::named(&self.principal, NOTEBOOK)
    }

    pub(super) fn begin_remembering(&mut self, job: Job) {
        let (agent, notebook) = (self.agent.clone(), self.notebook());
        self.derived += 1;
        let epoch = self.seed.epoch(self.derived);
        self.submit(&notebook, Op::Open { epoch, agent, name: Some(NOTEBOOK.to_owned()) });
        self.wait(job, Task::Remembering(Remembering::Opening));
    }

    pub(super) fn go_on_remembering(&mut self, job: Job, remembering: Remembering, answer: Answer) {
        let Body::MemoryAction(action) = &job.body else { return };
        let (action, notebook) = (action.clone(), self.notebook());
        match (remembering, answer.reply()) {
            (_, Err(_)) => self.remembered(&job, &action, false),
            (Remembering::Opening, Ok(_)) => {
                self.submit(&notebook, Op::Chronicle { chronicle: CHRONICLE.into() });
                self.wait(job, Task::Remembering(Remembering::Chronicling));
            }
            (Remembering::Chronicling, Ok(_)) => {
                self.look(rows::by_id(&tables::MEMORY, Within::Session(notebook), &action.id));
                self.wait(job, Task::Remembering(Remembering::Seeking));
            }
            (Remembering::Seeking, Ok(reply)) => {
                let found = Answer::Done(Box::new(reply)).rows().unwrap_or_default();
                self.remember(job, &action, &notebook, &found);
            }
            (Remembering::Noting, Ok(_)) => self.remembered(&job, &action, true),
        }
    }

    fn remember(&mut self, job: Job, action: &MemoryAction, notebook: &SessionId, found: &[Found]) {
        let known = found.first().map(|cells| Row::new(&tables::MEMORY, cells));
        let alive = known.is_some_and(|row| !row.is_deleted());
        let id = action.id.to_string();
        let nothing = Deed::Memorised {
            id: id.clone(),
            content: None,
            category: None,
            pinned: None,
            archived: None,
            deleted: false,
            created: false,
        };
        let deed = match (action.action.known(), &action.memory) {
            (Some(MemoryActionKind::Create), Some(memory)) if known.is_some() => {
                // A repeat, if it says what was said then, whatever became of that.
                let same = known.is_some_and(|row| row.was_made_with(&memory.content.0));
                return self.remembered(&job, action, same);
            }
            (Some(MemoryActionKind::Create), Some(_)) if action.id.is_fallback() => {
                return self.remembered(&job, action, false);
            }
            (Some(kind @ (MemoryActionKind::Create | MemoryActionKind::Update)), Some(memory))
                if alive || kind == MemoryActionKind::Create =>
            {
                Deed::Memorised {
                    id,
                    content: Some(memory.content.0.clone()),
                    category: Some(memory.category.name().to_owned()),
                    pinned: Some(memory.pinned),
                    archived: None,
                    deleted: false,
                    created: kind == MemoryActionKind::Create,
                }
            }
            (Some(MemoryActionKind::Delete), _) if alive => with(nothing, |deleted, _, _| *deleted = true),
            (Some(MemoryActionKind::Delete), _) => return self.remembered(&job, action, known.is_some()),
            (Some(MemoryActionKind::Pin), memory) if alive => {
                let flag = memory.as_ref().is_none_or(|memory| memory.pinned);
                with(nothing, |_, pinned, _| *pinned = Some(flag))
            }
            (Some(MemoryActionKind::Archive), _) if alive => {
                with(nothing, |_, _, archived| *archived = Some(true))
            }
            (Some(_) | None, _) => return self.remembered(&job, action, false),
        };
        if job.stale {
            return self.refuse_stale(&job);
        }
        self.record(notebook, &deed);
        self.wait(job, Task::Remembering(Remembering::Noting));
    }

    fn remembered(&mut self, job: &Job, action: &MemoryAction, success: bool) {
        let (memory_id, action) = (action.id.clone(), action.action.clone());
        self.say(job.conversation.as_ref(), MemoryConfirmation { memory_id, action, success });
    }
}

/// A change of flags alone.
fn with(mut deed: Deed, change: impl FnOnce(&mut bool, &mut Option<bool>, &mut Option<bool>)) -> Deed {
    if let Deed::Memorised { deleted, pinned, archived, .. } = &mut deed {
        change(deleted, pinned, archived);
    }
    deed
}
