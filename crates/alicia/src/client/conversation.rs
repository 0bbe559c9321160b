//! One conversation: how far its log is known, and where its handshake is.

use crate::Id;
use switchboard_core::Timestamp;

use super::answers::Answers;
use super::seen::Seen;
use super::tools::Tools;

/// One conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    /// None until the server has made it.
    pub(super) id: Option<Id>,
    pub(super) stage: Stage,
    /// Whether it was followed before.
    pub(super) joined: bool,
    /// Every stanza up to here was taken; 0 or negative.
    pub(super) mark: i32,
    /// Handshakes because of holes since the mark last moved.
    pub(super) strikes: u32,
    /// Handshakes in a row that the server could not take just then.
    pub(super) refusals: u32,
    /// No handshake before.
    pub(super) not_before: Option<Timestamp>,
    /// The highest number of a user's message that is known.
    pub(super) number: u64,
    pub(super) catch_up: CatchUp,
    /// The tools have changed since they were declared.
    pub(super) undeclared: bool,
    /// Declarations that the server has not answered.
    pub(super) declaring: u32,
    pub(super) seen: Seen,
    pub(super) answers: Answers,
    pub(super) tools: Tools,
}

/// Where the handshake is.
///
/// ```text
///   Waiting ──▶ Asked ──▶ Replaying ──▶ Ready
///      ▲          └────── nothing missed ─▲ │
///      └──── cut, or a hole in the ids ─────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// For a connection, or for its turn.
    Waiting,
    /// The Configuration is sent.
    Asked {
        /// Under this stanza.
        stanza: i32,
        /// To be answered by then.
        by: Timestamp,
        /// With this mark.
        mark: i32,
    },
    /// What was missed is coming.
    Replaying {
        /// Up to this stanza.
        head: i32,
        /// To go on by then.
        by: Timestamp,
    },
    /// Nothing is missing.
    Ready,
}

/// Messages that no replay brings any more, and a subscription does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// There are none.
    Idle,
    /// They are to be asked for.
    Wanted,
    /// They were asked for, to be answered by then.
    Asked(Timestamp),
}

/// What a stanza is to a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The next one.
    Next,
    /// It was here before.
    Known,
    /// There is one missing before it.
    Hole,
}

impl Conversation {
    pub(super) fn new(id: Option<Id>, mark: i32) -> Self {
        Self {
            id,
            stage: Stage::Waiting,
            joined: false,
            mark,
            strikes: 0,
            refusals: 0,
            not_before: None,
            number: 0,
            catch_up: CatchUp::Idle,
            undeclared: false,
            declaring: 0,
            seen: Seen::default(),
            answers: Answers::default(),
            tools: Tools::default(),
        }
    }

    /// Where a stanza of the server stands; the mark moves along.
    pub(super) fn place(&mut self, stanza: i32) -> Place {
        if stanza >= self.mark {
            Place::Known
        } else if stanza == self.mark.saturating_sub(1) {
            self.mark = stanza;
            self.strikes = 0;
            Place::Next
        } else {
            Place::Hole
        }
    }

    /// The connection is gone.
    pub(super) fn cut(&mut self) {
        self.stage = Stage::Waiting;
        self.not_before = None;
        self.declaring = 0;
        // The handshake declares them.
        self.undeclared = false;
        if matches!(self.catch_up, CatchUp::Asked(_)) {
            self.catch_up = CatchUp::Wanted;
        }
    }

    pub(super) fn wake(&self) -> Option<Timestamp> {
        let stage = match self.stage {
            Stage::Asked { by, .. } | Stage::Replaying { by, .. } => Some(by),
            Stage::Waiting => self.not_before,
            Stage::Ready => None,
        };
        let catch_up = match self.catch_up {
            CatchUp::Asked(by) => Some(by),
            CatchUp::Idle | CatchUp::Wanted => None,
        };
        [stage, catch_up].into_iter().flatten().min()
    }
}
