//! Stopping an answer (§5.5).

use switchboard_core::{Op, Reject, SessionId, TurnId, Within};

use super::AliciaConnection;
use super::jobs::{Answer, Job, Task};
use crate::annals::tables;
use crate::id::Id;
use crate::message::{Body, StopType};
use crate::rows;

/// A ControlStop is being done.
#[derive(Debug)]
pub(super) enum Stopping {
    /// So many turns are still being stopped.
    Interrupting(usize),
    /// Whether its target ever was is being looked up.
    Seeking,
}

impl AliciaConnection {
    pub(super) fn begin_stopping(&mut self, job: Job) {
        let (Body::ControlStop(stop), Some(session)) = (&job.body, job.session()) else { return };
        let (target, reason) = (stop.target_id.clone(), stop.reason.clone());
        let turns = self.answering(&session, target.as_ref());
        let speech = stop.stop_type.unwrap_or_default() == StopType::Speech;
        match target {
            // Nothing is spoken on a socket.
            _ if speech && !turns.is_empty() => self.acknowledge(&job, true),
            Some(target) if turns.is_empty() => {
                self.look(rows::by_id(&tables::MESSAGES, Within::Session(session), &target));
                self.wait(job, Task::Stopping(Stopping::Seeking));
            }
            Some(_) | None if turns.is_empty() => self.acknowledge(&job, true),
            Some(_) | None => {
                for turn in &turns {
                    let reason = reason.clone().map(|reason| clipped(&reason));
                    self.submit(&session, Op::Interrupt { turn: turn.clone(), reason });
                }
                self.wait(job, Task::Stopping(Stopping::Interrupting(turns.len())));
            }
        }
    }

    pub(super) fn go_on_stopping(&mut self, job: Job, stopping: Stopping, answer: Answer) {
        match stopping {
            Stopping::Interrupting(left) => {
                let refused = match answer.reply() {
                    Ok(reply) => {
                        self.expect(&job, &reply);
                        None
                    }
                    // It is over already.
                    Err(Reject::UnknownTurn(_) | Reject::TurnOver(_)) => None,
                    Err(reject) => Some(reject),
                };
                match refused {
                    _ if left > 1 => self.wait(job, Task::Stopping(Stopping::Interrupting(left - 1))),
                    Some(reject) => self.refuse_rejected(&job, &reject),
                    None => self.acknowledge(&job, true),
                }
            }
            Stopping::Seeking => match answer.rows() {
                Ok(found) => self.acknowledge(&job, !found.is_empty()),
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
        }
    }

    /// The turns whose answers are under way: all of them, or the one whose answer or question this is.
    pub(super) fn answering(&self, session: &SessionId, target: Option<&Id>) -> Vec<TurnId> {
        let Some(known) = self.followed.get(session) else { return Vec::new() };
        let meant =
            |answer: &Id, question: &Id| target.is_none_or(|target| target == answer || target == question);
        let live = known.annals.live_answers();
        live.filter(|(_, live)| meant(live.id(), live.question())).map(|(turn, _)| turn.clone()).collect()
    }
}

/// A reason, as long as one may be.
fn clipped(reason: &str) -> String {
    reason.get(..reason.floor_char_boundary(MAX_REASON)).unwrap_or_default().to_owned()
}

const MAX_REASON: usize = 256;
