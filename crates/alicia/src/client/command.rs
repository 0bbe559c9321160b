//! What the user asks for. A command that is refused changes nothing; one that is accepted while there is no
//! connection waits for it.

use crate::message::{
    Commentary, CommentaryType, ControlStop, ControlVariation, DimensionPreference, EliteSelect, Feedback,
    MemoryAction, MemoryActionKind, MemoryContent, NoteAction, NoteCategory, Preset, QuickFeedback, StopType,
    SyncMessage, SyncRequest, TargetType, UserMessage, UserNote, Vote, Weights, Word,
};
use crate::{Body, Id, MessageType, Prefix};
use switchboard_core::{Pii, Timestamp};

use super::conversation::{CatchUp, Conversation, Stage};
use super::{AliciaClient, CommandError, ConversationKey, Ended, Link, RequestKey};

/// Which conversation to follow, and from where on.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// None makes a new one.
    pub conversation: Option<Id>,
    /// From where on.
    pub since: Since,
    /// Tools that this client runs for it.
    pub tools: Vec<String>,
}

/// From where on a conversation is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// From now on; what was before is to be had over HTTP.
    Now,
    /// From behind this stanza, which [`AliciaClient::mark`] has told an earlier client.
    Stanza(i32),
    /// From behind the message with this number.
    Message(u64),
}

impl AliciaClient {
    /// Follows a conversation; [`super::ConversationEvent::Joined`] tells when it does.
    ///
    /// # Errors
    /// There is to be no connection; it is followed already, or too many are; or it has too many tools.
    pub fn join(&mut self, join: Join, now: Timestamp) -> Result<ConversationKey, CommandError> {
        if self.link == Link::Off {
            return Err(CommandError::NotConnected);
        }
        let limit = usize::try_from(self.config.limits.subscriptions).unwrap_or(usize::MAX);
        if self.conversations.len() >= limit {
            return Err(CommandError::Full { limit });
        }
        if join.conversation.as_ref().is_some_and(|id| self.keys.contains_key(id)) {
            return Err(CommandError::Followed);
        }
        let mark = match join.since {
            Since::Stanza(mark) => mark.saturating_abs().saturating_neg(),
            Since::Now | Since::Message(_) => 0,
        };
        let mut conversation = Conversation::new(join.conversation.clone(), mark);
        if let Since::Message(number) = join.since {
            conversation.number = number;
            conversation.catch_up = CatchUp::Wanted;
        }
        for tool in &join.tools {
            declare(&mut conversation, tool)?;
        }
        self.last_key += 1;
        let key = ConversationKey(self.last_key);
        if let Some(id) = join.conversation {
            self.keys.insert(id, key);
        }
        self.conversations.insert(key, conversation);
        self.flush(now);
        Ok(key)
    }

    /// Declares a tool that this client runs for a conversation.
    ///
    /// # Errors
    /// The conversation is not followed, or has too many tools.
    pub fn declare_tool(
        &mut self,
        conversation: ConversationKey,
        tool: &str,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        let at = self.conversations.get_mut(&conversation).ok_or(CommandError::NotFollowed)?;
        if declare(at, tool)? {
            // A handshake that is still to come declares it by itself.
            at.undeclared = at.stage != Stage::Waiting;
        }
        self.flush(now);
        Ok(())
    }

    /// Follows a conversation no longer.
    pub fn leave(&mut self, conversation: ConversationKey) {
        self.close(conversation, Ended::Left);
    }

    /// Says something. Without `previous` it follows the conversation's tip; otherwise it starts a branch
    /// there. Answers the id of the message, too.
    ///
    /// # Errors
    /// Nothing is said, or too much; or too much waits.
    pub fn say(
        &mut self,
        conversation: ConversationKey,
        text: &str,
        previous: Option<Id>,
        now: Timestamp,
    ) -> Result<(RequestKey, Id), CommandError> {
        let id = self.mint(Prefix::Message);
        let message = UserMessage {
            id: id.clone(),
            previous_id: previous,
            content: Pii(text.to_owned()),
            timestamp: Some(epoch_ms(now)),
            superset: None,
        };
        let key = self.ask(Some(conversation), message.into(), now)?;
        // What comes back of it is no news.
        if let Some(at) = self.conversations.get_mut(&conversation) {
            at.seen.is_new(MessageType::UserMessage, &id);
        }
        Ok((key, id))
    }

    /// Stops an answer: this one, or the one that is being given.
    ///
    /// # Errors
    /// There is no connection, and nothing that could be stopped is known.
    pub fn stop(
        &mut self,
        conversation: ConversationKey,
        target: Option<Id>,
        stop_type: Option<StopType>,
        reason: Option<String>,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let at = self.conversations.get(&conversation).ok_or(CommandError::NotFollowed)?;
        // With a target it stops nothing else, even if it comes late.
        let target_id = target.or_else(|| at.answers.newest().cloned());
        if target_id.is_none() && at.stage != Stage::Ready {
            return Err(CommandError::NotConnected);
        }
        self.ask(Some(conversation), ControlStop { target_id, reason, stop_type }.into(), now)
    }

    /// Regenerates, edits or continues a message.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn vary(
        &mut self,
        conversation: ConversationKey,
        variation: ControlVariation,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        self.ask(Some(conversation), variation.into(), now)
    }

    /// Remarks on a message, or on the conversation.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn remark(
        &mut self,
        conversation: ConversationKey,
        message: Option<Id>,
        text: &str,
        kind: Option<CommentaryType>,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let commentary = Commentary {
            id: self.mint(Prefix::Commentary),
            message_id: message,
            content: Pii(text.to_owned()),
            commentary_type: kind.map(Word::Known),
            author_role: None,
            rating: None,
        };
        let id = commentary.id.clone();
        let key = self.ask(Some(conversation), commentary.into(), now)?;
        if let Some(at) = self.conversations.get_mut(&conversation) {
            at.seen.is_new(MessageType::Commentary, &id);
        }
        Ok(key)
    }

    /// Votes; [`super::Outcome::Votes`] tells all votes.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn vote(
        &mut self,
        conversation: ConversationKey,
        ballot: Ballot,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let feedback = Feedback {
            id: self.mint(Prefix::Vote),
            message_id: ballot.message,
            target_type: ballot.target_type,
            target_id: ballot.target,
            vote: ballot.vote,
            quick_feedback: ballot.why,
            note: ballot.note.map(Pii),
            timestamp: epoch_ms(now),
        };
        self.ask(Some(conversation), feedback.into(), now)
    }

    /// Writes a note on a message; answers the id of the note, too.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn note(
        &mut self,
        message: Id,
        text: &str,
        category: NoteCategory,
        now: Timestamp,
    ) -> Result<(RequestKey, Id), CommandError> {
        let id = self.mint(Prefix::Note);
        let key = self.change_note(id.clone(), message, NoteAction::Create, text, category, now)?;
        Ok((key, id))
    }

    /// Changes a note, or deletes it.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn change_note(
        &mut self,
        note: Id,
        message: Id,
        action: NoteAction,
        text: &str,
        category: NoteCategory,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let note = UserNote {
            id: note,
            message_id: message,
            content: Pii(text.to_owned()),
            category,
            action: Word::Known(action),
            timestamp: epoch_ms(now),
        };
        self.ask(None, note.into(), now)
    }

    /// Has something remembered; answers the id of the memory, too.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn remember(
        &mut self,
        memory: MemoryContent,
        now: Timestamp,
    ) -> Result<(RequestKey, Id), CommandError> {
        let id = self.mint(Prefix::Memory);
        let key = self.change_memory(id.clone(), MemoryActionKind::Create, Some(memory), now)?;
        Ok((key, id))
    }

    /// Changes a memory: its content, whether it is pinned, archived or there at all.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn change_memory(
        &mut self,
        id: Id,
        action: MemoryActionKind,
        memory: Option<MemoryContent>,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let action = MemoryAction { id, action: Word::Known(action), memory, timestamp: epoch_ms(now) };
        self.ask(None, action.into(), now)
    }

    /// Says how answers are to be weighed; the elites follow.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn weigh(
        &mut self,
        conversation: ConversationKey,
        weights: Weights,
        preset: Option<Preset>,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let preference = DimensionPreference { weights, preset, timestamp: epoch_ms(now) };
        self.ask(Some(conversation), preference.into(), now)
    }

    /// Chooses an elite; the elites follow.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub fn choose(
        &mut self,
        conversation: ConversationKey,
        elite: Id,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        let select = EliteSelect { elite_id: elite, timestamp: epoch_ms(now) };
        self.ask(Some(conversation), select.into(), now)
    }

    /// Hands in messages that were written offline; [`super::Outcome::Synced`] tells what became of each.
    /// None of them is answered.
    ///
    /// # Errors
    /// There are too many at once, or as for [`Self::say`].
    pub fn sync(
        &mut self,
        conversation: ConversationKey,
        messages: Vec<SyncMessage>,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        self.ask(Some(conversation), SyncRequest { messages }.into(), now)
    }

    fn ask(
        &mut self,
        conversation: Option<ConversationKey>,
        body: Body,
        now: Timestamp,
    ) -> Result<RequestKey, CommandError> {
        if conversation.is_some_and(|key| !self.conversations.contains_key(&key)) {
            return Err(CommandError::NotFollowed);
        }
        if self.link == Link::Off {
            return Err(CommandError::NotConnected);
        }
        let limit = self.config.max_requests;
        if self.requests.len() >= limit {
            return Err(CommandError::Full { limit });
        }
        // What a server would not read is better refused here.
        let kind = body.kind().ok_or_else(|| CommandError::Unfit("of no known type".to_owned()))?;
        Body::from_map(kind, body.to_map(None), &self.config.limits)
            .map_err(|error| CommandError::Unfit(error.to_string()))?;
        let key = self.requests.add(conversation, body, true);
        self.flush(now);
        Ok(key)
    }
}

/// A vote.
#[derive(Clone, Debug, PartialEq)]
pub struct Ballot {
    /// The message that owns what is voted on.
    pub message: Id,
    /// What is voted on.
    pub target_type: TargetType,
    /// Which one.
    pub target: Id,
    /// The vote.
    pub vote: Vote,
    /// Why, in one word.
    pub why: Option<QuickFeedback>,
    /// Why, in words.
    pub note: Option<String>,
}

impl Ballot {
    /// A vote on a message.
    pub fn on(message: Id, vote: Vote) -> Self {
        let (target, target_type) = (message.clone(), TargetType::Message);
        Self { message, target_type, target, vote, why: None, note: None }
    }
}

/// Answers whether it is new.
fn declare(conversation: &mut Conversation, tool: &str) -> Result<bool, CommandError> {
    if tool.is_empty() || tool.len() > MAX_TOOL_NAME {
        return Err(CommandError::Unfit(format!("the name of a tool has 1 to {MAX_TOOL_NAME} bytes")));
    }
    if conversation.tools.len() >= MAX_TOOLS {
        return Err(CommandError::Full { limit: MAX_TOOLS });
    }
    Ok(conversation.tools.declare(tool))
}

/// Milliseconds since the Unix epoch.
fn epoch_ms(now: Timestamp) -> i64 {
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

const MAX_TOOL_NAME: usize = 100;
/// Each is a feature word, of which a server reads so many.
const MAX_TOOLS: usize = 1_000;
