//! What was asked of the server and has no answer yet.

use std::collections::BTreeMap;

use crate::message::{AssistantMessage, ControlVariation, Mode, StartAnswer, UserMessage};
use crate::{Body, Id};

use super::answers::Answers;
use super::{ConversationKey, RequestKey};

/// In the order in which they were asked.
#[derive(Debug, Default)]
pub(super) struct Requests {
    open: BTreeMap<RequestKey, Request>,
    last: u64,
}

/// One request.
#[derive(Debug)]
pub(super) struct Request {
    /// None for notes and memories, which belong to none.
    pub(super) conversation: Option<ConversationKey>,
    pub(super) body: Body,
    /// The stanza it has on this connection, once it is sent.
    pub(super) stanza: Option<i32>,
    /// Whether somebody wants to know what became of it.
    pub(super) told: bool,
    /// Whether it was ever sent.
    pub(super) tried: bool,
    /// Whether its effect was seen, so that it must not be asked for again.
    pub(super) seen: bool,
}

impl Requests {
    pub(super) fn add(
        &mut self,
        conversation: Option<ConversationKey>,
        body: Body,
        told: bool,
    ) -> RequestKey {
        self.last += 1;
        let key = RequestKey(self.last);
        self.open.insert(key, Request { conversation, body, stanza: None, told, tried: false, seen: false });
        key
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get_mut(&mut self, key: RequestKey) -> Option<&mut Request> {
        self.open.get_mut(&key)
    }

    pub(super) fn remove(&mut self, key: RequestKey) -> Option<Request> {
        self.open.remove(&key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (RequestKey, &Request)> {
        self.open.iter().map(|(key, request)| (*key, request))
    }

    /// The oldest on this connection of which this is so.
    pub(super) fn sent(&self, mut is: impl FnMut(&Request) -> bool) -> Option<RequestKey> {
        self.iter().find(|(_, request)| request.stanza.is_some() && is(request)).map(|(key, _)| key)
    }

    /// The one that an ErrorMessage names: by the id of its body, or by its stanza.
    pub(super) fn named(&self, origin: &Id) -> Option<RequestKey> {
        let stanza: Option<i32> = origin.as_str().parse().ok();
        self.sent(|request| request.id() == Some(origin) || stanza.is_some() && request.stanza == stanza)
    }

    /// The connection is gone: everything is to be sent again. Answers what must not be, since by then it
    /// might do something else.
    pub(super) fn cut(&mut self) -> Vec<RequestKey> {
        let mut lost = Vec::new();
        for (key, request) in &mut self.open {
            let sent = request.stanza.take().is_some();
            let aimless = matches!(&request.body, Body::ControlStop(stop) if stop.target_id.is_none());
            if sent && aimless {
                lost.push(*key);
            }
        }
        lost
    }

    pub(super) fn of(&self, conversation: ConversationKey) -> Vec<RequestKey> {
        let of = |(_, request): &(RequestKey, &Request)| request.conversation == Some(conversation);
        self.iter().filter(of).map(|(key, _)| key).collect()
    }

    /// The message under this id is in the server's log, acknowledged or not. Answers who waits to know so;
    /// it is sent again all the same, until it is acknowledged.
    pub(super) fn stored(&mut self, conversation: ConversationKey, message: &Id) -> Option<RequestKey> {
        let said =
            |request: &Request| matches!(&request.body, Body::UserMessage(body) if body.id == *message);
        let waits = |request: &Request| request.told && request.conversation == Some(conversation);
        let (key, request) = self.open.iter_mut().find(|(_, request)| waits(request) && said(request))?;
        request.told = false;
        Some(*key)
    }

    /// Notes that variations of a conversation have had this effect.
    pub(super) fn took_effect(
        &mut self,
        conversation: ConversationKey,
        answers: &Answers,
        effect: &Effect<'_>,
    ) {
        for request in self.open.values_mut() {
            if let Body::ControlVariation(variation) = &request.body
                && request.tried
                && request.conversation == Some(conversation)
                && effect.is_of(variation, answers)
            {
                request.seen = true;
            }
        }
    }
}

impl Request {
    /// The durable id of what is asked.
    pub(super) fn id(&self) -> Option<&Id> {
        match &self.body {
            Body::UserMessage(body) => Some(&body.id),
            Body::ToolUseResult(body) => Some(&body.id),
            Body::Commentary(body) => Some(&body.id),
            Body::Feedback(body) => Some(&body.id),
            Body::UserNote(body) => Some(&body.id),
            Body::MemoryAction(body) => Some(&body.id),
            Body::ErrorMessage(_)
            | Body::AssistantMessage(_)
            | Body::AudioChunk(_)
            | Body::ReasoningStep(_)
            | Body::ToolUseRequest(_)
            | Body::Acknowledgement(_)
            | Body::Transcription(_)
            | Body::ControlStop(_)
            | Body::ControlVariation(_)
            | Body::Configuration(_)
            | Body::StartAnswer(_)
            | Body::MemoryTrace(_)
            | Body::AssistantSentence(_)
            | Body::SyncRequest(_)
            | Body::SyncResponse(_)
            | Body::FeedbackConfirmation(_)
            | Body::NoteConfirmation(_)
            | Body::MemoryConfirmation(_)
            | Body::ServerInfo(_)
            | Body::SessionStats(_)
            | Body::ConversationUpdate(_)
            | Body::DimensionPreference(_)
            | Body::EliteSelect(_)
            | Body::EliteOptions(_)
            | Body::Subscribe(_)
            | Body::Unsubscribe(_)
            | Body::SubscribeAck(_)
            | Body::UnsubscribeAck(_)
            | Body::Unknown { .. } => None,
        }
    }
}

/// Something that a variation may have led to. A variation has no id by which a server could tell that it
/// comes again, so that its sender has to look for itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect<'a> {
    Started(&'a StartAnswer),
    Answered(&'a AssistantMessage),
    Announced(&'a UserMessage),
}

impl Effect<'_> {
    fn is_of(&self, variation: &ControlVariation, answers: &Answers) -> bool {
        let target = &variation.target_id;
        let question = answers.question_of(target).unwrap_or(target);
        let follows = |previous: Option<&Id>| match variation.mode {
            Mode::Regenerate => previous == Some(question),
            Mode::Continue => previous == Some(target),
            Mode::Edit => false,
        };
        let edits = variation.mode == Mode::Edit;
        match self {
            Self::Started(start) => follows(Some(&start.previous_id)),
            Self::Answered(answer) => {
                follows(answer.previous_id.as_ref())
                    || edits
                        && answer.id == *target
                        && variation.new_content.as_ref() == Some(&answer.content)
            }
            Self::Announced(message) => edits && variation.new_content.as_ref() == Some(&message.content),
        }
    }
}
