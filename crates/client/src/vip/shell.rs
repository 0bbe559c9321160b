//! What is done for the app: actions that have a handler, silence, and a fresh token in time.

use std::time::Duration;

use switchboard_core::Pii;
use switchboard_vip::client::{Event, Execution, VipClient};
use switchboard_vip::matrix::State;
use switchboard_vip::message::{MuteTarget, PlaybackStatus};
use tokio::sync::mpsc;

use super::action::{Answer, Handler, Handlers};
use super::create::Renewal;
use super::error::Cause;
use crate::driver;

pub(super) struct Shell {
    pub(super) handlers: Handlers,
    /// Whether there are neither microphone nor loudspeaker.
    pub(super) silent: bool,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) renewal: Renewal,
}

pub(super) type Work = driver::Work<Shell>;

/// What runs beside the connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// This call.
    Act(String),
    Renew,
}

/// What comes of it.
pub(super) enum Done {
    Acted(Answer),
    Renewed(Option<String>),
}

impl driver::Shell for Shell {
    type Machine = VipClient;
    type Snapshot = State;
    type Notice = ();
    type Update = ();
    type Task = Task;
    type Done = Done;

    fn event(&mut self, event: Event, work: &mut Work) {
        let now = work.now();
        #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is for the app alone")]
        match &event {
            Event::Execute(execution) => {
                if let Some(handler) = self.handlers.get(&execution.action_id).cloned() {
                    return act(execution.clone(), handler, work);
                }
            }
            // Nobody hears what would be spoken.
            Event::Connected(_) if self.silent => {
                let _ = work.machine.mute(MuteTarget::Output, true, now);
            }
            Event::LastPlayed { response_id, duration_ms } if self.silent => {
                let played = PlaybackStatus::Played;
                let _ = work.machine.played_out(response_id, *duration_ms, played, now);
            }
            Event::State(changed) => drop(work.snapshot.send_replace(changed.state)),
            Event::Down(down) if down.retry_at.is_none() => work.finish(),
            _ => {}
        }
        // An app that falls behind loses the newest.
        let _ = self.events.try_send(event);
    }

    fn done(&mut self, task: Task, done: Done, work: &mut Work) {
        match (task, done) {
            (Task::Act(invocation), Done::Acted(Answer { outcome, screen })) => {
                let now = work.now();
                if let Err(error) = work.machine.finish(&invocation, outcome, screen, now) {
                    // It came too late, or what it showed breaks a rule: the server is told in time.
                    tracing::debug!(%error, "the answer of an action was not taken");
                }
            }
            (_, Done::Renewed(token)) => {
                let pause = if token.is_some() { self.renewal.after } else { RENEW_AGAIN };
                work.target.token = token.map(Pii).or_else(|| work.target.token.take());
                self.renew(pause, work);
            }
            (Task::Renew, Done::Acted(_)) => {}
        }
    }

    /// Told as an event of the session.
    fn lost(_: Cause, _: Option<Duration>) -> Option<()> {
        None
    }
}

impl Shell {
    /// Has the token renewed after this time.
    pub(super) fn renew(&self, pause: Duration, work: &mut Work) {
        let token = work.target.token.as_ref().map(|token| token.0.clone()).unwrap_or_default();
        let renewing = self.renewal.renew(token);
        work.tasks.start(Task::Renew, async move {
            tokio::time::sleep(pause).await;
            Done::Renewed(renewing.await)
        });
    }
}

fn act(execution: Execution, handler: Handler, work: &mut Work) {
    let (task, due) = (Task::Act(execution.invocation_id.clone()), work.instant(execution.by));
    work.tasks.start(task, async move {
        Done::Acted(match tokio::time::timeout_at(due, handler.run(execution)).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Answer::failed("the action broke", true),
            Err(_) => Answer::failed("it took too long", true),
        })
    });
}

/// After an attempt to renew a token that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(5);
