//! What goes into a [`Device`](super::Device) or [`Constellation`](super::Constellation), and what
//! comes out.

use serde_json::{Map, Value};
use switchboard_core::client::{self, Down};

use super::Refused;
use crate::error::words;
use crate::message::{Command, TaskStatus};

/// What a device tells its user.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceEvent {
    /// The server took the registration.
    Registered,
    /// Run this command, and give its outcome to [`Device::finish`](super::Device::finish).
    Run(Run),
    /// Nobody wants the outcome of this command any more.
    Abandoned(RunId),
    /// A task was assigned, and the device has submitted it as its own; or, for a device that asked to
    /// be told, the server only announces what is to come (A25).
    Assigned {
        /// Its session, as the server calls it.
        session_id: Option<String>,
        /// What a person calls it.
        task_name: Option<String>,
        /// What is to be done.
        request: Option<String>,
    },
    /// The server took a task of this device.
    Accepted {
        /// Its session.
        session_id: String,
    },
    /// A task is over.
    TaskEnded {
        /// Its session.
        session_id: Option<String>,
        /// How; anything but [`TaskStatus::Completed`] is a failure.
        status: TaskStatus,
        /// What came of it.
        result: Value,
        /// What went wrong.
        error: Option<String>,
    },
    /// Something could not be done; the connection stays.
    Trouble(Trouble),
    /// Not connected any more.
    Down(Down<Fault>),
}

/// A command that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Names it in [`Device::finish`](super::Device::finish).
    pub id: RunId,
    /// What to run. Integers of more than 64 bits are in the shelter of [`switchboard_core::wide`].
    pub command: Command,
    /// The task.
    pub session_id: Option<String>,
    /// The agent whose command it is; tools are looked up by it.
    pub agent_name: Option<String>,
    /// The process of the application in use.
    pub process_name: Option<String>,
    /// The application in use.
    pub root_name: Option<String>,
    /// Who asks for it and for which task, for people to read, if the server says so.
    pub asked: Vec<String>,
}

/// A command that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// What a constellation tells its user.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstellationEvent {
    /// The device's state has changed.
    State(DeviceState),
    /// The server took a task.
    TaskAccepted {
        /// Its session.
        session_id: String,
    },
    /// A task is over; exactly one for each.
    TaskEnded {
        /// Its session.
        session_id: String,
        /// How.
        ending: Ending,
    },
    /// What the device is like, or why that is not known.
    Info {
        /// The question.
        request_id: String,
        /// The answer.
        info: Result<Map<String, Value>, NoInfo>,
    },
    /// Something could not be done; the connection stays.
    Trouble(Trouble),
    /// Not connected any more; every task has ended by now.
    Down(Down<Fault>),
}

/// A device, as its constellation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// There is no connection.
    Disconnected,
    /// A connection is being opened.
    Connecting,
    /// Registered; the device is being asked what it is like.
    Connected,
    /// It was tried often enough.
    Failed,
    /// There is a connection, and the server has not answered the registration.
    Registering,
    /// A task runs.
    Busy,
    /// It waits for a task.
    Idle,
}

impl DeviceState {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disconnected => "disconnected",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::Registering => "registering",
            Self::Busy => "busy",
            Self::Idle => "idle",
        }
    }
}

/// How a task of a constellation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Well, with this result.
    Completed(Value),
    /// Badly.
    Failed {
        /// What kind of a failure it is.
        kind: FailureKind,
        /// For a person.
        error: String,
        /// What there is of a result.
        result: Value,
    },
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The device, or the way to it, was lost.
    DeviceDisconnection,
    /// It took too long.
    Timeout,
    /// It was refused, went wrong or was cancelled.
    ExecutionError,
}

impl FailureKind {
    /// Its word, for reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeviceDisconnection => "device_disconnection",
            Self::Timeout => "timeout",
            Self::ExecutionError => "execution_error",
        }
    }
}

/// Why it is not known what a device is like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoInfo {
    /// The server does not say.
    #[error("{0}")]
    Unknown(String),
    /// No answer came in time.
    #[error("no answer in time")]
    Timeout,
    /// The connection was lost before the answer came.
    #[error("the connection was lost before the answer came")]
    Disconnected,
}

/// What went wrong without an end to the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Middleware stopped a message.
    #[error("{0}")]
    Blocked(#[from] Refused),
    /// A message of the server cannot be used.
    #[error("a message of the server cannot be used: {0}")]
    Unusable(String),
    /// The server reports an error.
    #[error("{error}")]
    Server {
        /// What it says.
        error: String,
        /// The session it is about.
        session_id: Option<String>,
    },
}

/// What ends a connection of AIP, beyond what every protocol knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The server did not take the registration.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server did not answer the registration in time.
    #[error("the server did not answer the registration")]
    Unanswered,
    /// The registration could not be sent.
    #[error("the registration was stopped on its way")]
    Blocked,
}

impl client::Fault for Fault {
    const PROTOCOL: &'static str = "AIP";
    const WORDS_AT: &'static str = "/detail";

    fn is_temporary_close(_: u16) -> bool {
        true
    }

    fn is_temporary(&self) -> bool {
        match self {
            // Names become free and devices appear, but permissions do not change by waiting.
            Self::Refused(why) => {
                !matches!(why.as_str(), words::NOT_PERMITTED | words::CLIENT_ID | words::TARGET_NEEDED)
            }
            Self::Unanswered => true,
            Self::Blocked => false,
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Refused(_) => "use another name or token, or wait until it is free",
            Self::Unanswered | Self::Blocked => "connect again",
        }
    }
}

/// Why a call was not carried out; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Not connected.
    #[error("not connected")]
    NotConnected,
    /// Too many tasks wait already.
    #[error("{limit} tasks wait already")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The task's session is in use.
    #[error("a task with this session is there already")]
    Duplicate,
    /// What is to be done is not said.
    #[error("request is required")]
    Empty,
    /// Nothing of this name is there, or not any more.
    #[error("there is no such task or command")]
    Unknown,
}

#[cfg(test)]
mod tests {
    use client::Fault as _;

    use super::*;

    #[test]
    fn what_waiting_cannot_change_is_not_tried_again() {
        let refused = |why: &str| Fault::Refused(why.to_owned());
        assert!(refused(&words::duplicate("lab-1")).is_temporary());
        assert!(refused(&words::not_connected("lab-1")).is_temporary());
        assert!(!refused(words::NOT_PERMITTED).is_temporary());
    }
}
