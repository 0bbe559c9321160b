//! The state machines of a connection and of a request, seen from the client.
//!
//! Pure tables: the rest of this module asks them what to do, and does it.

/// Where the connection is.
///
/// ```text
///         connect            101, features wanted          accept, or 10 s without
///   Off ──────────▶ Dialing ─────────────────────▶ Greeting ──────────────────────▶ Up
///    ▲               │  ▲  └────────── 101, bare wanted ─────────────────────────▶ │
///    │  401 403 400  │  │ timer                       │                            │
///    │  404          │  │              429, 503,      │ resumable close or loss    │
///    │◀──────────────┘  └── Waiting ◀──network────────┴────────────────────────────┤
///    └───────────────────────────────── any other close, bye ◀────────────────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Not connected and not about to be.
    Off,
    /// An upgrade is under way.
    Dialing,
    /// Upgraded; HELLO is sent, accept is not here.
    Greeting,
    /// Serving.
    Up,
    /// Will dial again.
    Waiting,
}

/// What can happen to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkEvent {
    /// The user wants to be connected.
    Connect,
    /// 101, and no feature is wanted.
    OpenedBare,
    /// 101, and features are wanted.
    OpenedGreeting,
    /// HELLO greet.
    Greet,
    /// HELLO accept.
    Accept,
    /// 10 s without accept.
    AcceptOverdue,
    /// HELLO goaway.
    GoAway,
    /// 429, 503, a network failure; a resumable close or loss.
    LostForNow,
    /// 401, 403, 400, 404; any other close; the user leaves.
    LostForGood,
    /// The time to dial again has come.
    RetryDue,
}

impl Link {
    /// The state after `event`; none if it means nothing here.
    #[must_use]
    pub(super) const fn after(self, event: LinkEvent) -> Option<Self> {
        use LinkEvent as E;
        match (self, event) {
            (Self::Off, E::Connect) | (Self::Waiting, E::RetryDue) => Some(Self::Dialing),
            (Self::Dialing, E::OpenedBare) | (Self::Greeting, E::Accept | E::AcceptOverdue) => Some(Self::Up),
            (Self::Dialing, E::OpenedGreeting) | (Self::Greeting, E::Greet) => Some(Self::Greeting),
            // A server may leave before it has answered the HELLO; what to do is the same.
            (Self::Greeting, E::GoAway) => Some(Self::Greeting),
            (Self::Up, E::GoAway | E::Greet) => Some(Self::Up),
            (Self::Dialing | Self::Greeting | Self::Up, E::LostForNow) => Some(Self::Waiting),
            (Self::Dialing | Self::Greeting | Self::Up | Self::Waiting, E::LostForGood) => Some(Self::Off),
            _ => None,
        }
    }

    /// Whether frames travel.
    #[must_use]
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Greeting | Self::Up)
    }
}

/// Where a request is. `Free` is never stored: it is an id that nothing is known about.
///
/// ```text
///           INVOKE               INTERRUPT
///   Free ───────────▶ Active ────────────────▶ Cancelling
///    ▲ ▲ ▲              │ ▲                         │
///    │ │ └── terminal ──┤ │ resumed                 │
///    │ │       socket lost, `resume` agreed         │
///    │ │                ▼ │                         │
///    │ └──── lost ── Suspended                      │
///    └──────────── terminal, socket lost ───────────┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// The id may be used.
    Free,
    /// Sent; output is delivered.
    Active,
    /// Interrupted; output is not delivered any more.
    Cancelling,
    /// The socket is lost, the request may go on.
    Suspended,
}

/// What can happen to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestEvent {
    /// The user invokes under this id.
    Invoke,
    /// Output that does not end it.
    Stream,
    /// Its terminal frame.
    Terminal,
    /// The user interrupts.
    Interrupt,
    /// The socket is lost and can be resumed.
    CutResumable,
    /// The socket is lost and cannot be resumed.
    CutForGood,
    /// The server has resumed and still knows it.
    Resumed,
    /// The server has resumed but lost it, or did not resume.
    Lost,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Send the frame.
    Send,
    /// Do not send it: it is forbidden here.
    Refuse,
    /// Give it to the user.
    Deliver,
    /// Drop it.
    Drop,
    /// Tell the user that the request has ended as the server says, or as interrupted.
    End,
    /// Tell the user that the request is lost.
    Fail,
    /// Keep it until the connection is back.
    Queue,
}

impl RequestState {
    /// The state after `event`, and what to do.
    #[must_use]
    pub(super) const fn on(self, event: RequestEvent) -> (Self, Action) {
        use RequestEvent as E;
        match (self, event) {
            (Self::Free, E::Invoke) => (Self::Active, Action::Send),
            (Self::Free, E::Stream | E::Terminal | E::Interrupt) => (Self::Free, Action::Drop),
            (Self::Free, E::CutResumable | E::CutForGood | E::Resumed | E::Lost) => {
                (Self::Free, Action::Nothing)
            }

            (Self::Active | Self::Cancelling | Self::Suspended, E::Invoke) => (self, Action::Refuse),

            (Self::Active, E::Stream) => (Self::Active, Action::Deliver),
            (Self::Active, E::Terminal) => (Self::Free, Action::End),
            (Self::Active, E::Interrupt) => (Self::Cancelling, Action::Send),
            (Self::Active, E::CutResumable) => (Self::Suspended, Action::Nothing),
            (Self::Active, E::CutForGood | E::Lost) => (Self::Free, Action::Fail),
            (Self::Active, E::Resumed) => (Self::Active, Action::Nothing),

            (Self::Cancelling, E::Stream | E::Interrupt) => (Self::Cancelling, Action::Drop),
            (Self::Cancelling, E::Terminal | E::CutResumable | E::CutForGood | E::Lost) => {
                (Self::Free, Action::End)
            }
            (Self::Cancelling, E::Resumed) => (Self::Cancelling, Action::Nothing),

            (Self::Suspended, E::Stream | E::Terminal) => (Self::Suspended, Action::Drop),
            (Self::Suspended, E::Interrupt) => (Self::Suspended, Action::Queue),
            (Self::Suspended, E::CutResumable) => (Self::Suspended, Action::Nothing),
            (Self::Suspended, E::Resumed) => (Self::Active, Action::Nothing),
            (Self::Suspended, E::CutForGood | E::Lost) => (Self::Free, Action::Fail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the reference for requests, cell by cell.
    #[test]
    fn request_table() {
        use Action as A;
        use RequestEvent as E;
        use RequestState::{Active, Cancelling, Free, Suspended};
        let table = [
            (Free, E::Invoke, Active, A::Send),
            (Free, E::Stream, Free, A::Drop),
            (Free, E::Terminal, Free, A::Drop),
            (Free, E::Interrupt, Free, A::Drop),
            (Free, E::CutResumable, Free, A::Nothing),
            (Free, E::CutForGood, Free, A::Nothing),
            (Active, E::Invoke, Active, A::Refuse),
            (Active, E::Stream, Active, A::Deliver),
            (Active, E::Terminal, Free, A::End),
            (Active, E::Interrupt, Cancelling, A::Send),
            (Active, E::CutResumable, Suspended, A::Nothing),
            (Active, E::CutForGood, Free, A::Fail),
            (Cancelling, E::Invoke, Cancelling, A::Refuse),
            (Cancelling, E::Stream, Cancelling, A::Drop),
            (Cancelling, E::Terminal, Free, A::End),
            (Cancelling, E::Interrupt, Cancelling, A::Drop),
            (Cancelling, E::CutResumable, Free, A::End),
            (Cancelling, E::CutForGood, Free, A::End),
            (Suspended, E::Invoke, Suspended, A::Refuse),
            (Suspended, E::Stream, Suspended, A::Drop),
            (Suspended, E::Terminal, Suspended, A::Drop),
            (Suspended, E::Interrupt, Suspended, A::Queue),
            (Suspended, E::Resumed, Active, A::Nothing),
            (Suspended, E::Lost, Free, A::Fail),
            (Suspended, E::CutForGood, Free, A::Fail),
        ];
        for (state, event, next, action) in table {
            assert_eq!(state.on(event), (next, action), "{state:?} on {event:?}");
        }
    }

    /// The table of the reference for connections, row by row; whatever is not in it means nothing.
    #[test]
    fn link_table() {
        use Link::{Dialing, Greeting, Off, Up, Waiting};
        use LinkEvent as E;
        let table = [
            (Off, E::Connect, Dialing),
            (Dialing, E::OpenedBare, Up),
            (Dialing, E::OpenedGreeting, Greeting),
            (Dialing, E::LostForGood, Off),
            (Dialing, E::LostForNow, Waiting),
            (Greeting, E::Greet, Greeting),
            (Greeting, E::GoAway, Greeting),
            (Greeting, E::Accept, Up),
            (Greeting, E::AcceptOverdue, Up),
            (Greeting, E::LostForNow, Waiting),
            (Greeting, E::LostForGood, Off),
            (Up, E::GoAway, Up),
            (Up, E::Greet, Up),
            (Up, E::LostForNow, Waiting),
            (Up, E::LostForGood, Off),
            (Waiting, E::RetryDue, Dialing),
            (Waiting, E::LostForGood, Off),
        ];
        let events = [
            E::Connect,
            E::OpenedBare,
            E::OpenedGreeting,
            E::Greet,
            E::Accept,
            E::AcceptOverdue,
            E::GoAway,
            E::LostForNow,
            E::LostForGood,
            E::RetryDue,
        ];
        for state in [Off, Dialing, Greeting, Up, Waiting] {
            for event in events {
                let row = table.iter().find(|(from, on, _)| (*from, *on) == (state, event));
                assert_eq!(state.after(event), row.map(|row| row.2), "{state:?} on {event:?}");
            }
        }
    }
}
