//! Histories that clients tell: found again in the tree, as far as they are there.
//!
//! A client that keeps its own history tells all of it with every turn. What the session remembers
//! word for word is not stored again; from where the two part, what is told becomes a branch.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::id::{AgentId, MessageId, PrincipalId, TurnId};
use crate::model::{Author, Event, Message, Part, Told, Voice};
use crate::session::{Session, TurnState};

/// What a session knows of a message by heart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownMessage {
    pub(super) id: MessageId,
    pub(super) parent: Option<MessageId>,
    mark: Mark,
    #[serde(default = "agent")]
    voice: Voice,
}

/// In the beginning it was not noted, and it only matters for what an agent has said.
const fn agent() -> Voice {
    Voice::Agent
}

/// Who said what, as a digest; two messages with the same one say the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Mark(u64, u64);

impl KnownMessage {
    pub(super) fn of(message: &Message) -> Self {
        let voice = match message.author {
            Author::User(_) => Voice::User,
            Author::Agent(_) => Voice::Agent,
            Author::System => Voice::System,
        };
        Self {
            id: message.id.clone(),
            parent: message.parent.clone(),
            mark: Mark::of(voice, &message.text()),
            voice,
        }
    }

    pub(super) fn answer(turn: &TurnState) -> Self {
        Self {
            id: turn.answer(),
            parent: turn.parent.clone(),
            mark: Mark::of(Voice::Agent, &turn.text),
            voice: Voice::Agent,
        }
    }
}

impl KnownMessage {
    /// It says something else from now on.
    pub(super) fn edit(&mut self, text: &str) {
        self.mark = Mark::of(self.voice, text);
    }
}

impl Mark {
    fn of(voice: Voice, text: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update([match voice {
            Voice::User => 0,
            Voice::Agent => 1,
            Voice::System => 2,
        }]);
        hash.update(text.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut words = digest
            .chunks_exact(8)
            .map(|word| word.iter().fold(0u64, |number, byte| (number << 8) | u64::from(*byte)));
        Self(words.next().unwrap_or_default(), words.next().unwrap_or_default())
    }
}

impl Session {
    /// Puts into the tree what is told and not there yet; answers the message that the input
    /// follows.
    pub(super) fn recall(
        &self,
        turn: &TurnId,
        agent: &AgentId,
        teller: &PrincipalId,
        history: &[Told],
        events: &mut Vec<Event>,
    ) -> Option<MessageId> {
        let marks: Vec<Mark> = history.iter().map(|told| Mark::of(told.voice, &told.text)).collect();
        let (known, mut parent) = self.longest_match(&marks);
        for (number, told) in history.iter().enumerate().skip(known) {
            let id = MessageId::told_with(turn, number);
            let message = Message {
                id: id.clone(),
                parent: parent.replace(id),
                author: match told.voice {
                    Voice::User => Author::User(teller.clone()),
                    Voice::Agent => Author::Agent(agent.clone()),
                    Voice::System => Author::System,
                },
                parts: vec![Part::Text(told.text.clone())],
                turn: turn.clone(),
                meta: Value::Null,
            };
            events.push(Event::MessageAdded { message: Box::new(message) });
        }
        parent
    }

    /// How many of the first messages stand in the tree one after another, and the last of them. The
    /// first need not be a root: clients forget the beginning of a long conversation.
    fn longest_match(&self, marks: &[Mark]) -> (usize, Option<MessageId>) {
        let Some(first) = marks.first() else { return (0, None) };
        let mut children: HashMap<(&MessageId, Mark), &KnownMessage> = HashMap::new();
        for known in &self.recent_messages {
            if let Some(parent) = &known.parent {
                children.insert((parent, known.mark), known);
            }
        }
        let mut best = (0, None);
        for begin in self.recent_messages.iter().filter(|known| known.mark == *first) {
            let (mut length, mut last) = (1, begin);
            while let Some(next) = marks.get(length).and_then(|mark| children.get(&(&last.id, *mark))) {
                (length, last) = (length + 1, next);
            }
            // Of equals the latest: that is where the conversation went on.
            if length >= best.0 {
                best = (length, Some(last.id.clone()));
            }
        }
        best
    }
}
