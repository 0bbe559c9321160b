//! The states of a task (§7.1) and of a chat.

use serde::{Deserialize, Serialize};

/// Where a task is.
///
/// ```text
/// accepted ─▶ queued ─▶ running ─▶ completed │ failed │ cancelled
///    │           │                                        ▲
///    └───────────┴────────────────────────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// It exists.
    Accepted,
    /// It waits for others.
    Queued,
    /// It is being worked on.
    Running,
    /// It is over, with an answer.
    Completed,
    /// It is over, without one.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl TaskState {
    /// Whether nothing follows.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Whether this may become that. To stay is always allowed.
    pub fn may_become(self, next: Self) -> bool {
        self == next
            || match self {
                Self::Accepted => matches!(next, Self::Queued | Self::Running | Self::Cancelled),
                Self::Queued => matches!(next, Self::Running | Self::Cancelled),
                Self::Running => next.is_terminal(),
                Self::Completed | Self::Failed | Self::Cancelled => false,
            }
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Where a chat of a connection is.
///
/// ```text
/// Waiting ─▶ Starting ─▶ Running ─▶ (terminal sent, gone)
///    │          │           │
///    └──────────┴───────────┴─ abort ─▶ (terminal sent, its turn stops)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatState {
    /// Others go first.
    Waiting,
    /// It was handed to its session.
    Starting,
    /// Its agent is at work, and the client knows.
    Running,
}

#[cfg(test)]
mod tests {
    use super::TaskState::{self, *};

    const ALL: [TaskState; 6] = [Accepted, Queued, Running, Completed, Failed, Cancelled];

    #[test]
    fn ac_054_the_transitions_are_those_of_the_table() {
        let table = [
            (Accepted, vec![Queued, Running, Cancelled]),
            (Queued, vec![Running, Cancelled]),
            (Running, vec![Completed, Failed, Cancelled]),
            (Completed, vec![]),
            (Failed, vec![]),
            (Cancelled, vec![]),
        ];
        for (from, allowed) in table {
            for to in ALL {
                assert_eq!(from.may_become(to), from == to || allowed.contains(&to), "{from:?} {to:?}");
            }
            assert_eq!(from.is_terminal(), allowed.is_empty());
        }
    }
}
