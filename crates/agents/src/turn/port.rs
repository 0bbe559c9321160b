//! What a turn is about, and what it stands on.

use async_trait::async_trait;
use serde_json::Value;
use switchboard_core::model::{CallEnd, Origin, Remembered, Setting, Tool, TurnRequest};
use switchboard_core::{AgentId, CallId, Callsign, MessageRow, Op, Reject, SessionId, Timestamp, TurnId};

/// What a [`Turn`](super::Turn) stands on; the server implements it over a session, tests over a script.
#[async_trait]
pub trait TurnPort: Send + Sync {
    /// Submits an op on behalf of the executor and waits until it is committed.
    async fn submit(&self, op: Op) -> Result<(), Reject>;

    /// Submits an op without waiting for the commit; order is kept. Waits only while the session
    /// has no room for it.
    async fn post(&self, op: Op) -> Result<(), Reject>;

    /// Waits for the end of a call.
    async fn call_end(&self, call: &CallId) -> CallEnd;

    /// The messages that lead to this turn's input, without it, oldest first, at most `limit`. Some may be of
    /// this turn: those that its client has told with it.
    async fn history(&self, limit: usize) -> Vec<MessageRow>;

    /// The tools of the session now.
    async fn tools(&self) -> Vec<Tool>;

    /// The time.
    fn now(&self) -> Timestamp;

    /// Waits until everything that was submitted is committed.
    async fn settled(&self) {}

    /// Does something once the end of the turn is committed; not at all if it never is.
    fn when_ended(&self, then: Box<dyn FnOnce() + Send>) {
        then();
    }

    /// Why the turn was stopped, once it was and somebody has said so.
    fn stop_reason(&self) -> Option<String> {
        None
    }
}

/// What a turn is about.
#[derive(Clone, Debug)]
pub struct Brief {
    /// The session it runs in.
    pub session: SessionId,
    /// Which turn.
    pub turn: TurnId,
    /// The agent that was asked for.
    pub agent: AgentId,
    /// Who asked, and through what.
    pub origin: Origin,
    /// What is asked.
    pub request: TurnRequest,
    /// The device that the turn is for, if it is about one.
    pub device: Option<Callsign>,
    /// The folder in which to work, if the client named one; it was there when the turn began.
    pub workspace: Option<Box<str>>,
    /// How many messages before the input are shown; none for all.
    pub recall: Option<u32>,
    /// Opaque data of the client.
    pub meta: Value,
    /// What is remembered of whoever asks, as far as it matters here; the closest first.
    pub remembered: Vec<Remembered>,
    /// What the agent is told beside what is asked, for this turn only.
    pub setting: Option<Box<Setting>>,
    /// After this the turn ends as expired.
    pub deadline: Timestamp,
    /// From the claim; shown with every op.
    pub fence: u32,
}
