//! Where a connection is on its way (§10.1).

/// The phases of a connection.
///
/// ```text
///          REGISTER            name granted            profile kept
///   Open ────────────▶ Enrolling ───────────▶ Joining ─────────────▶ Registered
///     │                    │      (devices)      │                       │
///     │ anything else,     │ refused             │ not kept              │ closed, silent,
///     │ deadline           ▼                     ▼                       │ too slow
///     └──────────────▶ Closed ◀──────────────────┴───────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nobody has said who they are.
    Open,
    /// A name was asked for.
    Enrolling,
    /// A device has its name, and its profile is being kept.
    Joining,
    /// The client may do what its role allows.
    Registered,
    /// It is over.
    Closed,
}

/// What moves a connection from phase to phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A good REGISTER has come.
    Register,
    /// The name is the client's, and there is a profile to be kept.
    GrantedToDevice,
    /// The name is the client's, and nothing is to be kept.
    Granted,
    /// The profile is kept.
    Kept,
    /// The connection ends.
    End,
}

impl Phase {
    /// The next phase; none where the step makes no sense.
    pub const fn after(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Closed, _) => None,
            (_, Step::End) => Some(Self::Closed),
            (Self::Open, Step::Register) => Some(Self::Enrolling),
            (Self::Enrolling, Step::GrantedToDevice) => Some(Self::Joining),
            (Self::Enrolling, Step::Granted) | (Self::Joining, Step::Kept) => Some(Self::Registered),
            (
                Self::Open | Self::Enrolling | Self::Joining | Self::Registered,
                Step::Register | Step::GrantedToDevice | Step::Granted | Step::Kept,
            ) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_way_in_and_none_back() {
        use Phase::{Closed, Enrolling, Joining, Open, Registered};
        let phases = [Open, Enrolling, Joining, Registered, Closed];
        let row = |step| phases.map(|phase| phase.after(step));
        assert_eq!(row(Step::Register), [Some(Enrolling), None, None, None, None]);
        assert_eq!(row(Step::GrantedToDevice), [None, Some(Joining), None, None, None]);
        assert_eq!(row(Step::Granted), [None, Some(Registered), None, None, None]);
        assert_eq!(row(Step::Kept), [None, None, Some(Registered), None, None]);
        assert_eq!(row(Step::End), [Some(Closed), Some(Closed), Some(Closed), Some(Closed), None]);
    }
}
