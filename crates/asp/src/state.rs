//! The state machines of §17.1 and §17.2, seen from the server.
//!
//! ```text
//!            HELLO, nothing to wait for
//!   Open ───────────────────────────────▶ Ready ──drain──▶ Draining
//!    │ HELLO that needs the log             ▲                 │
//!    └────────▶ Negotiating ───accept───────┘                 │
//!   Open ──any other frame──▶ Ready (bare)                    │
//!   every state ──fatal, bye, loss, end of drain──▶ Closed ◀──┘
//! ```

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// Upgraded; no frame yet.
    Open,
    /// The accept waits until what it promises is durable.
    Negotiating,
    /// Serving.
    Ready,
    /// Serving what runs, taking nothing new.
    Draining,
    /// Over.
    Closed,
}

/// What can happen to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The first frame is a HELLO that has to wait for the log.
    HelloPending,
    /// The accept is sent, or the first frame was no HELLO.
    Serving,
    /// The server is leaving.
    Drain,
    /// The end, whatever the reason.
    Close,
}

impl Lifecycle {
    /// The state after `happening`; none if it cannot happen here.
    #[must_use]
    pub const fn after(self, happening: Happening) -> Option<Self> {
        match (self, happening) {
            (Self::Open, Happening::HelloPending) => Some(Self::Negotiating),
            (Self::Open | Self::Negotiating, Happening::Serving) => Some(Self::Ready),
            (Self::Open | Self::Negotiating | Self::Ready, Happening::Drain) => Some(Self::Draining),
            // A client that was still being greeted is served while the server leaves.
            (Self::Draining, Happening::Serving) => Some(Self::Draining),
            (Self::Open | Self::Negotiating | Self::Ready | Self::Draining, Happening::Close) => {
                Some(Self::Closed)
            }
            (Self::Closed, _)
            | (Self::Negotiating | Self::Ready | Self::Draining, Happening::HelloPending)
            | (Self::Ready, Happening::Serving)
            | (Self::Draining, Happening::Drain) => None,
        }
    }
}

/// Where a request is. One that has ended is not in the table any more, only its tombstone is.
///
/// ```text
///   INVOKE+MORE        INVOKE last        run slot       window ≤ 0, pause
///  ────────────▶ Receiving ─────▶ Queued ────────▶ Running ◀──────────────▶ Held
///                    └───────────────┴──────────────┴─────────────────────────┴──▶ ended
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// Fragments of its INVOKE are coming in.
    Receiving,
    /// Submitted; nobody executes it yet.
    Queued,
    /// Being executed.
    Running,
    /// Being executed; its output waits for credit, resume or the transport.
    Held,
}

impl RequestState {
    /// What a queued request becomes when its execution begins.
    #[must_use]
    pub const fn started(self) -> Self {
        match self {
            Self::Receiving | Self::Queued => Self::Running,
            Self::Running | Self::Held => self,
        }
    }

    /// What a running request becomes when its output may not, or may again, be sent.
    #[must_use]
    pub const fn held(self, hold: bool) -> Self {
        match (self, hold) {
            (Self::Running, true) => Self::Held,
            (Self::Held, false) => Self::Running,
            (Self::Receiving | Self::Queued | Self::Running | Self::Held, _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_stays_closed() {
        for happening in [Happening::HelloPending, Happening::Serving, Happening::Drain, Happening::Close] {
            assert_eq!(Lifecycle::Closed.after(happening), None);
        }
    }

    #[test]
    fn draining_is_not_left_but_by_closing() {
        assert_eq!(Lifecycle::Draining.after(Happening::Serving), Some(Lifecycle::Draining));
        assert_eq!(Lifecycle::Draining.after(Happening::Drain), None);
        assert_eq!(Lifecycle::Draining.after(Happening::Close), Some(Lifecycle::Closed));
    }

    #[test]
    fn only_running_requests_are_held() {
        assert_eq!(RequestState::Queued.held(true), RequestState::Queued);
        assert_eq!(RequestState::Queued.started().held(true), RequestState::Held);
        assert_eq!(RequestState::Held.held(false), RequestState::Running);
    }
}
