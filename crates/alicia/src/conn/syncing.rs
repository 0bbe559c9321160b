//! Messages written offline (§7): carries a [`Sync`] from step to step.

use super::AliciaConnection;
use super::jobs::{Answer, Job, Task};
use crate::limits::size;
use crate::message::Body;
use crate::sync::{Stage, Step, Sync};

/// A SyncRequest is being done.
#[derive(Debug)]
pub(super) struct Syncing {
    sync: Sync,
    stage: Stage,
}

impl AliciaConnection {
    pub(super) fn begin_syncing(&mut self, job: Job) {
        let (Body::SyncRequest(request), Some(session)) = (&job.body, job.session()) else { return };
        let room = size(self.limits.frame) / 2;
        let mut sync = Sync::new(session, self.principal.id.clone(), request.clone(), room);
        let step = sync.begin(self.now);
        self.step(job, sync, step);
    }

    pub(super) fn go_on_syncing(&mut self, job: Job, syncing: Syncing, answer: Answer) {
        let Syncing { mut sync, stage } = syncing;
        let outcome = answer.reply();
        if let Ok(reply) = &outcome {
            self.expect(&job, reply);
        }
        let step = sync.proceed(stage, outcome, self.now);
        self.step(job, sync, step);
    }

    fn step(&mut self, job: Job, sync: Sync, step: Step) {
        let Some(session) = job.session() else { return };
        let stage = match step {
            Step::Look(lookup, stage) => {
                self.look(lookup);
                stage
            }
            Step::Submit(op, stage) => {
                if let (Some(id), Some(known)) = (stage.imports(), self.followed.get_mut(&session)) {
                    known.own.insert(id.clone());
                }
                self.submit(&session, op);
                stage
            }
            Step::Done(response) => return self.say(job.conversation.as_ref(), response),
            Step::Failed(reject) => return self.refuse_rejected(&job, &reject),
        };
        self.wait(job, Task::Syncing(Box::new(Syncing { sync, stage })));
    }
}
