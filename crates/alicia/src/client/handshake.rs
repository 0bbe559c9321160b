//! Handshakes, holes and what a subscription has to bring; and what is sent when.

use crate::message::{Configuration, ErrorMessage, Feature, Subscribe, SubscribeAck, Word};
use crate::{Body, Code, Id};
use switchboard_core::Timestamp;

use super::conversation::{CatchUp, Conversation, Place, Stage};
use super::{
    AliciaClient, ClientConfig, ConversationEvent, ConversationKey, Ended, Joined, Link, RequestKey, millis,
};

impl AliciaClient {
    /// Sends everything whose time has come, as fast as a server bears it: handshakes first, for nothing
    /// goes without them.
    pub(super) fn flush(&mut self, now: Timestamp) {
        self.refilled_at = None;
        if self.link != Link::Up {
            return;
        }
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        for key in keys {
            if !self.flush_conversation(key, now) {
                return;
            }
        }
        let requests: Vec<RequestKey> = self
            .requests
            .iter()
            .filter(|(_, request)| request.stanza.is_none())
            .map(|(key, _)| key)
            .collect();
        for key in requests {
            if !self.flush_request(key, now) {
                return;
            }
        }
    }

    /// Answers whether more may be sent.
    fn flush_conversation(&mut self, key: ConversationKey, now: Timestamp) -> bool {
        let Some(conversation) = self.conversations.get(&key) else { return true };
        let (id, mark) = (conversation.id.clone(), conversation.mark);
        match conversation.stage {
            // The answer to one that is to be made does not say to which request: one after the other.
            Stage::Waiting if id.is_none() && self.is_creating() => true,
            Stage::Waiting if conversation.not_before.is_some_and(|time| now < time) => true,
            Stage::Waiting => {
                let configuration = configuration(&self.config, conversation, mark);
                if !self.may_send(now) {
                    return false;
                }
                let stanza = self.send(id, configuration.into());
                let by = now.after(millis(self.config.handshake_ms));
                if let Some(conversation) = self.conversations.get_mut(&key) {
                    conversation.stage = Stage::Asked { stanza, by, mark };
                    conversation.not_before = None;
                    conversation.undeclared = false;
                }
                true
            }
            Stage::Asked { .. } | Stage::Replaying { .. } => true,
            Stage::Ready => self.flush_beside(key, id, now),
        }
    }

    /// What else there is to say to the server about a conversation.
    fn flush_beside(&mut self, key: ConversationKey, id: Option<Id>, now: Timestamp) -> bool {
        let Some(conversation) = self.conversations.get(&key) else { return true };
        let (undeclared, catch_up) = (conversation.undeclared, conversation.catch_up);
        let from_sequence = Some(conversation.number);
        if undeclared {
            // Without a mark nothing is replayed.
            let configuration = configuration(&self.config, conversation, 0);
            if !self.may_send(now) {
                return false;
            }
            self.send(id.clone(), configuration.into());
            if let Some(conversation) = self.conversations.get_mut(&key) {
                conversation.undeclared = false;
                conversation.declaring += 1;
            }
        }
        if catch_up == CatchUp::Wanted {
            if !self.may_send(now) {
                return false;
            }
            self.send(id, Subscribe { from_sequence }.into());
            let by = now.after(millis(self.config.handshake_ms));
            if let Some(conversation) = self.conversations.get_mut(&key) {
                conversation.catch_up = CatchUp::Asked(by);
            }
        }
        true
    }

    fn flush_request(&mut self, key: RequestKey, now: Timestamp) -> bool {
        let Some(request) = self.requests.get_mut(key) else { return true };
        if request.seen {
            self.settle(key, Ok(super::Outcome::Accepted));
            return true;
        }
        let (of, body) = (request.conversation, request.body.clone());
        let id = match of {
            None => None,
            Some(of) => match self.conversations.get(&of) {
                Some(conversation) if conversation.stage == Stage::Ready => conversation.id.clone(),
                Some(_) | None => return true,
            },
        };
        // Its answer names no request: one after the other.
        let is_sync = |body: &Body| matches!(body, Body::SyncRequest(_));
        let syncing =
            |request: &super::requests::Request| request.conversation == of && is_sync(&request.body);
        if is_sync(&body) && self.requests.sent(syncing).is_some() {
            return true;
        }
        if !self.may_send(now) {
            return false;
        }
        let stanza = self.send(id, body);
        if let Some(request) = self.requests.get_mut(key) {
            request.stanza = Some(stanza);
            request.tried = true;
        }
        true
    }

    pub(super) fn is_creating(&self) -> bool {
        self.creating().is_some()
    }

    /// The conversation that the server is making.
    fn creating(&self) -> Option<ConversationKey> {
        let creating = |(_, conversation): &(&ConversationKey, &Conversation)| {
            conversation.id.is_none() && matches!(conversation.stage, Stage::Asked { .. })
        };
        self.conversations.iter().find(creating).map(|(key, _)| *key)
    }

    /// The server's half of a handshake, or something it wants to be known.
    pub(super) fn configured(&mut self, id: Option<&Id>, theirs: Configuration, now: Timestamp) {
        let Some(id) = id else { return };
        let known = self.keys.get(id).copied();
        let Some(key) = known.or_else(|| self.creating()) else { return };
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        if conversation.declaring > 0 {
            conversation.declaring -= 1;
            return;
        }
        let Stage::Asked { mark: asked, .. } = conversation.stage else { return };
        conversation.id = Some(id.clone());
        self.keys.insert(id.clone(), key);
        let head = theirs.last_sequence_seen.and_then(|head| i32::try_from(head).ok()).unwrap_or(asked);
        let again = conversation.joined;
        conversation.joined = true;
        conversation.refusals = 0;
        if head > conversation.mark {
            // The log is not the one that was known. The server complains besides, about a handshake that is
            // over by then.
            conversation.mark = head;
            conversation.catch_up = CatchUp::Wanted;
            conversation.stage = Stage::Waiting;
            return;
        }
        if asked == 0 && conversation.mark == 0 {
            // Nothing is replayed: it goes on from here.
            conversation.mark = head;
            if again && head != 0 {
                conversation.catch_up = CatchUp::Wanted;
            }
        }
        let by = now.after(millis(self.config.handshake_ms));
        conversation.stage =
            if head < conversation.mark { Stage::Replaying { head, by } } else { Stage::Ready };
        let features = theirs.features.unwrap_or_default();
        self.tell(key, ConversationEvent::Joined(Joined { id: id.clone(), again, head, features }));
        self.check_replayed(key, now);
    }

    /// Whether a stanza is to be taken. Those after a hole are not: they come again, in their order.
    pub(super) fn takes(&mut self, key: ConversationKey, stanza: i32, now: Timestamp) -> Option<Place> {
        let by = now.after(millis(self.config.handshake_ms));
        let conversation = self.conversations.get_mut(&key)?;
        let place = conversation.place(stanza);
        match (place, conversation.stage) {
            (Place::Next, Stage::Replaying { head, .. }) => {
                conversation.stage = Stage::Replaying { head, by };
                Some(place)
            }
            (Place::Next | Place::Known, _) => Some(place),
            (Place::Hole, Stage::Waiting | Stage::Asked { .. }) => None,
            (Place::Hole, Stage::Replaying { .. } | Stage::Ready) => {
                self.hole(key);
                None
            }
        }
    }

    /// Something is missing: once more from the mark. If the server does not have it either, go on without.
    fn hole(&mut self, key: ConversationKey) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        conversation.strikes += 1;
        conversation.stage = Stage::Waiting;
        if conversation.strikes > MAX_STRIKES {
            conversation.strikes = 0;
            conversation.mark = 0;
        }
    }

    /// A replay that does not go on lacks something.
    pub(super) fn check_replay(&mut self, key: ConversationKey, now: Timestamp) {
        let stage = self.conversations.get(&key).map(|conversation| conversation.stage);
        if matches!(stage, Some(Stage::Replaying { by, .. }) if by <= now) {
            self.hole(key);
        }
    }

    /// Once everything that was missed is here, what waited for it goes on.
    pub(super) fn check_replayed(&mut self, key: ConversationKey, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        if matches!(conversation.stage, Stage::Replaying { head, .. } if conversation.mark <= head) {
            conversation.stage = Stage::Ready;
        }
        if conversation.stage == Stage::Ready {
            for request in conversation.tools.release() {
                self.start_tool(key, &request, now);
            }
        }
    }

    /// The conversation whose handshake an ErrorMessage is about.
    pub(super) fn refused_handshake(
        &self,
        named: Option<ConversationKey>,
        error: &ErrorMessage,
    ) -> Option<ConversationKey> {
        let origin = error.originating_id.as_ref().and_then(|id| id.as_str().parse::<i32>().ok());
        let asked = |conversation: &Conversation| match conversation.stage {
            Stage::Asked { stanza, .. } => Some(stanza),
            Stage::Waiting | Stage::Replaying { .. } | Stage::Ready => None,
        };
        let by_stanza = || {
            let of = |(_, conversation): &(&ConversationKey, &Conversation)| {
                origin.is_some() && asked(conversation) == origin
            };
            self.conversations.iter().find(of).map(|(key, _)| *key)
        };
        // Without an origin, its conversation has to do.
        let by_name =
            || named.filter(|key| origin.is_none() && self.conversations.get(key).and_then(asked).is_some());
        by_stanza().or_else(by_name)
    }

    /// The server does not go on from the mark. If that may be for its age, it is asked for nothing but the
    /// present; what lies between is to be had otherwise. What is not for good is tried again.
    pub(super) fn handshake_refused(&mut self, key: ConversationKey, error: ErrorMessage, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let Stage::Asked { mark, .. } = conversation.stage else { return };
        let too_old = error.code == Code::InvalidState.number() && mark != 0;
        if too_old {
            conversation.mark = 0;
            conversation.stage = Stage::Waiting;
            // What was missed is asked for even if this is the first connection.
            conversation.joined = true;
        } else if error.recoverable && conversation.refusals < MAX_REFUSALS {
            let pause = millis(1_000 << conversation.refusals);
            conversation.refusals += 1;
            conversation.stage = Stage::Waiting;
            conversation.not_before = Some(now.after(pause));
        } else {
            self.close(key, Ended::Refused(error));
        }
    }

    /// The answer to a subscription.
    pub(super) fn subscribed(&mut self, key: ConversationKey, ack: &SubscribeAck) {
        let most = u64::from(self.config.limits.replay);
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        if !matches!(conversation.catch_up, CatchUp::Asked(_)) {
            return;
        }
        conversation.catch_up = CatchUp::Idle;
        if !ack.success {
            let why = ack.error.as_ref().map_or("unknown", |error| match error {
                Word::Known(error) => error.name(),
                Word::Other(other) => other,
            });
            return self.close(key, Ended::NotFollowed(why.to_owned()));
        }
        if ack.missed_messages.unwrap_or_default() > most {
            self.tell(key, ConversationEvent::Reload);
        }
    }
}

fn configuration(config: &ClientConfig, conversation: &Conversation, mark: i32) -> Configuration {
    let mut features = Vec::new();
    if config.streaming {
        features.push(Feature::Streaming.name().to_owned());
    }
    if config.reasoning {
        features.push(Feature::ReasoningSteps.name().to_owned());
    }
    features.push(Feature::ToolUse.name().to_owned());
    features.extend(conversation.tools.declared().map(|tool| format!("tool:{tool}")));
    Configuration {
        last_sequence_seen: (mark != 0).then(|| mark.into()),
        client_version: config.version.clone(),
        preferred_language: config.language.clone(),
        device: config.device.clone(),
        features: Some(features),
    }
}

/// Handshakes that a server may not be able to take just then: for half a minute.
const MAX_REFUSALS: u32 = 5;
/// Handshakes for the same hole.
const MAX_STRIKES: u32 = 2;
