//! Nodes of the message tree.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, MessageId, PrincipalId, TurnId};

/// One message. Messages are added, never changed or removed; a variation is a sibling.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
