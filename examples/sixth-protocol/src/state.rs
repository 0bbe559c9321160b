//! Where a connection is.

/// Where a connection is.
///
/// ```text
///            Join              Joined
/// Outside ─────────▶ Joining ─────────▶ Inside
///    ▲                │   ▲                │
///    └─── Refused ────┘   └───── Join ─────┘        each ─ Close ─▶ Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes part in no session.
    Outside,
    /// A session was asked for.
    Joining,
    /// It takes part in a session.
    Inside,
    /// It is over.
    Closed,
}

/// What changes where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client asks for a session.
    Join,
    /// It has the session.
    Joined,
    /// It has it not.
    Refused,
    /// The connection ends.
    Close,
}

impl State {
    /// Where a step leads; none if it cannot be taken here.
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Outside | Self::Inside, Step::Join) => Some(Self::Joining),
            (Self::Joining, Step::Joined) => Some(Self::Inside),
            (Self::Joining, Step::Refused) => Some(Self::Outside),
            (Self::Outside | Self::Joining | Self::Inside, Step::Close) => Some(Self::Closed),
            (Self::Joining, Step::Join)
            | (Self::Outside | Self::Inside, Step::Joined | Step::Refused)
            | (Self::Closed, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::{Closed, Inside, Joining, Outside};
    use super::Step::{Close, Join, Joined, Refused};

    #[test]
    fn the_steps_are_those_of_the_picture() {
        let table = [
            (Outside, [Some(Joining), None, None, Some(Closed)]),
            (Joining, [None, Some(Inside), Some(Outside), Some(Closed)]),
            (Inside, [Some(Joining), None, None, Some(Closed)]),
            (Closed, [None; 4]),
        ];
        for (state, expected) in table {
            assert_eq!([Join, Joined, Refused, Close].map(|step| state.after(step)), expected, "{state:?}");
        }
    }
}
