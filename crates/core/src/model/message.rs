//! Nodes of the message tree.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{AgentId, MessageId, PrincipalId, TurnId};

/// One message. Messages are added and never removed; a variation is a sibling. Only what an agent
/// has said can be put right afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Unique within the session.
    pub id: MessageId,
    /// The message it follows; none for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// Who said it.
    pub author: Author,
    /// What was said.
    pub parts: Vec<Part>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// What the protocol of its author adds to it; its own business.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub meta: Value,
}

/// Where the messages of a turn stand in the tree, and what they are called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// What its input follows, unless that is in the tree already.
    pub parent: Parent,
    /// The names of its messages, where they are chosen by the client.
    pub names: Names,
    /// What goes with its input, as [`Message::meta`].
    pub meta: Value,
    /// Whether the turns under way are stopped first; its input then follows what they have said.
    pub supersedes: bool,
}

impl Place {
    /// After this message.
    pub fn after(message: MessageId) -> Self {
        Self { parent: Parent::Message(message), ..Self::default() }
    }
}

/// What a new message follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// Whatever was said last.
    #[default]
    Tip,
    /// This message, wherever it stands.
    Message(MessageId),
    /// Nothing: it begins another tree.
    Root,
}

/// The names of the messages of a turn; each is derived from the turn where there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Of its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<MessageId>,
    /// Of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<MessageId>,
    /// Whether its input is in the tree already: it is answered once more if somebody has asked it,
    /// and gone on with if an agent has said it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

impl Names {
    /// Whether everything is derived from the turn.
    pub const fn is_empty(&self) -> bool {
        self.input.is_none() && self.answer.is_none()
    }

    /// What the input of a turn is called.
    pub fn input_of(&self, turn: &TurnId) -> MessageId {
        self.input.clone().unwrap_or_else(|| MessageId::input_of(turn))
    }

    /// What the answer of a turn is called.
    pub fn answer_of(&self, turn: &TurnId) -> MessageId {
        self.answer.clone().unwrap_or_else(|| MessageId::answer_of(turn))
    }
}

/// A message that was written elsewhere, and is put into the tree without a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// Its name; fresh.
    pub id: MessageId,
    /// What it follows.
    pub parent: Parent,
    /// Who said it: the importer, or the session's agent.
    pub voice: Voice,
    /// What was said.
    pub text: String,
    /// What goes with it, as [`Message::meta`].
    pub meta: Value,
}

/// Who wrote a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// A participant.
    User(PrincipalId),
    /// An agent.
    Agent(AgentId),
    /// Neither: instructions, as a client that keeps its own history tells them.
    System,
}

/// A message as a client tells it, where the client is the authority on what was said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who said it.
    pub voice: Voice,
    /// What was said.
    pub text: String,
}

/// Who said a message that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Voice {
    /// The teller.
    User,
    /// The agent.
    Agent,
    /// Neither.
    System,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text(String),
    /// Bytes of some media type.
    Data {
        /// The media type.
        mime: String,
        /// The bytes.
        data: Bytes,
    },
    /// Something that lies elsewhere.
    Reference {
        /// Where.
        uri: String,
    },
}

impl Part {
    /// How many bytes it takes.
    pub const fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Data { mime, data } => mime.len() + data.len(),
            Self::Reference { uri } => uri.len(),
        }
    }
}

impl Message {
    /// The text parts, one after another.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// The text parts, one after another.
pub(crate) fn text_of(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Data { .. } | Part::Reference { .. } => None,
        })
        .collect()
}
