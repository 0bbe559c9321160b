//! What a protocol cannot express. Whatever is not in this table has to work; what is in it is checked to
//! be so, and stands in the protocol's page in the same words.

use crate::side::Protocol;

/// Something that clients of a protocol cannot do in a session that they share.
#[derive(Debug)]
pub(crate) struct Cannot {
    pub(crate) who: Protocol,
    pub(crate) what: What,
    pub(crate) because: &'static str,
}

/// What cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Enter,
    BeTwice,
    AskThere,
    HearOthers,
    StreamOthers,
    StreamOwn,
    StopOthers,
    OfferTools,
    RunForOthers,
    ComeBack,
    GoOn,
    CatchUp,
    LookBack,
    TellStopped,
    Observe,
}

impl What {
    /// In words, after "cannot".
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Enter => "enter a session that another protocol has opened",
            Self::BeTwice => "be in a session twice",
            Self::AskThere => "ask something in a session that Alicia or VIP has opened",
            Self::HearOthers => "hear what others are answered",
            Self::StreamOthers => "hear what others are answered while it is being said",
            Self::StreamOwn => "hear an answer while it is being said",
            Self::StopOthers => "stop what others are answered",
            Self::OfferTools => "offer tools",
            Self::RunForOthers => "run its tools for what others have asked",
            Self::ComeBack => "come back to an answer after a cut",
            Self::GoOn => "go on with an answer that was half said when it was cut",
            Self::CatchUp => "catch up on what others were answered while it was away",
            Self::LookBack => "see on its socket what was answered before it came",
            Self::TellStopped => "tell an answer that was stopped from one that is complete",
            Self::Observe => "be let into a session of somebody else",
        }
    }
}

/// What somebody cannot do; none if it can.
pub(crate) fn cannot(who: Protocol, what: What) -> Option<&'static Cannot> {
    TABLE.iter().find(|cannot| cannot.who == who && cannot.what == what)
}

pub(crate) const TABLE: &[Cannot] = &[
    Cannot {
        who: Protocol::Asp,
        what: What::RunForOthers,
        because: "a client hears of calls in its own requests; turns of others are not offered its tools",
    },
    Cannot {
        who: Protocol::Asp,
        what: What::CatchUp,
        because: "a request that watches is not resumed, and a turn that is over cannot be watched; it \
            watches again while the turn runs, and then sees all of it",
    },
    Cannot {
        who: Protocol::Asp,
        what: What::LookBack,
        because: "a turn that is over cannot be watched; the agent knows it, and the admin API shows it",
    },
    Cannot {
        who: Protocol::Acolyte,
        what: What::AskThere,
        because: "`sessionId` of a chat is `sess_…`, a name of the client's own; it can be attached to what \
            runs there, and stop it",
    },
    Cannot { who: Protocol::Acolyte, what: What::OfferTools, because: "the server runs all tools" },
    Cannot {
        who: Protocol::Aip,
        what: What::HearOthers,
        because: "messages are about tasks that one owns or works for",
    },
    Cannot {
        who: Protocol::Aip,
        what: What::LookBack,
        because: "messages are about tasks that one owns or works for",
    },
    Cannot {
        who: Protocol::Aip,
        what: What::StreamOwn,
        because: "the text of a task comes with its `task_end`",
    },
    Cannot {
        who: Protocol::Aip,
        what: What::StopOthers,
        because: "`task_end` is taken from the owner of a task and from the device that it is for",
    },
    Cannot {
        who: Protocol::Aip,
        what: What::ComeBack,
        because: "a lost owner or device ends its tasks, as the reference has it",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::Enter,
        because: "`POST /v1/vip/sessions` makes a new session; others enter that one by its id",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::BeTwice,
        because: "a session has one transport, and a newer one takes it over",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::StreamOthers,
        because: "such an answer is announced as a whole, once it is complete and nobody has the floor",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::StopOthers,
        because: "`input.barge_in` interrupts what is being said to the user, and nothing else",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::RunForOthers,
        because: "an action is invoked in answer to the user of the app; turns of others are not offered it",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::GoOn,
        because: "a half-spoken response is `incomplete`, and its turn is stopped; what was still being thought \
            about is announced afterwards",
    },
    Cannot {
        who: Protocol::Vip,
        what: What::CatchUp,
        because: "an announcement is for whoever is there; the history holds it all the same",
    },
    Cannot { who: Protocol::Vip, what: What::LookBack, because: "`GET …/{sid}/history` is for that" },
    Cannot {
        who: Protocol::Vip,
        what: What::Observe,
        because: "a session token is for the session that was created with it",
    },
    Cannot { who: Protocol::Alicia, what: What::TellStopped, because: "both end with the final sentence" },
];
