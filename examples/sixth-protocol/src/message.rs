//! What is said on the wire, under the protocol's own names.

use switchboard_core::{Pii, Position};

use crate::error::Code;

/// A line of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLine {
    /// Goes with the answer; makes `say` safe to repeat.
    pub tag: Option<Tag>,
    /// What it says.
    pub message: ClientMessage,
}

/// What a client can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// `join NAME [since POSITION]`: take part in a session, and hear what came after the position; only
    /// what is still to come without one.
    Join {
        /// What the client calls the session, or the identifier of one that was shared.
        session: String,
        /// The last position that the client has seen.
        since: Option<Position>,
    },
    /// `say TEXT`: ask the agent of the session.
    Say(Pii<String>),
    /// `stop`: stop the oldest answer that is under way.
    Stop,
    /// `history`: hear everything once more, from the beginning.
    History,
}

/// A line of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerLine {
    /// `hello linewise/1`: the first line.
    Hello,
    /// `[@TAG] ok POSITION`: it is done. After `join` and `history`: what follows up to this position is
    /// from the past.
    Ok {
        /// The tag of the line that is answered.
        tag: Option<Tag>,
        /// Where the session is afterwards.
        at: Position,
    },
    /// `[@TAG] error CODE WORDS`: it is not done.
    Error {
        /// The tag of the line that is answered.
        tag: Option<Tag>,
        /// For a program.
        code: Code,
        /// For a person.
        words: String,
    },
    /// `POSITION WORD TURN …`: something has happened in the session, whoever caused it.
    News {
        /// Where; to be shown to `join` after a cut.
        at: Position,
        /// What the turn is called that it is about.
        turn: String,
        /// What.
        news: News,
    },
    /// `bye MILLISECONDS`: the server is leaving; come back after this.
    Bye {
        /// How long to wait.
        retry_ms: u64,
    },
}

/// What can happen in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// `asked TURN WHO TEXT`: somebody asks.
    Asked {
        /// Who.
        who: String,
        /// What.
        text: Pii<String>,
    },
    /// `text TURN TEXT`: a piece of the answer.
    Text(Pii<String>),
    /// `status TURN TEXT`: what the agent is busy with.
    Status(Pii<String>),
    /// `done TURN ENDING`: the answer is over.
    Done(Ending),
    /// `failed TURN TEXT`: there is no answer, or not all of it.
    Failed(Pii<String>),
    /// `stopped TURN`: somebody stopped it.
    Stopped,
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `complete`
    Complete,
    /// `cut`: it was too long.
    Cut,
    /// `withheld`: it may not be said.
    Withheld,
    /// `empty`: there was nothing to say.
    Empty,
}

impl Ending {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Complete, Self::Cut, Self::Withheld, Self::Empty];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Withheld => "withheld",
            Self::Empty => "empty",
        }
    }
}

/// What a client calls one of its lines: 1 to 64 letters, digits, `-` and `_`. Under the same tag, the same
/// `say` in the same session is taken only once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Reads one; none if that is no tag.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        ((1..=64).contains(&text.len()) && text.bytes().all(allowed)).then(|| Self(text.to_owned()))
    }

    /// As it is written, without its `@`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
