//! Envelopes of the server. Whatever this version does not know is ignored.

use crate::message::{AssistantMessage, AssistantSentence, StartAnswer, Transcription, UserMessage};
use crate::{Body, DecodeError, Decoded, Dialect, Envelope, MessageType, Side, decode};
use switchboard_core::Timestamp;

use super::conversation::{CatchUp, Place};
use super::requests::Effect;
use super::seen::Novelty;
use super::{AliciaClient, Answer, ConversationEvent, ConversationKey, Event, Outcome};

impl AliciaClient {
    pub(super) fn receive(&mut self, packet: &[u8], now: Timestamp) {
        for decoded in decode(packet, Side::Server, Dialect::Full, &self.reading) {
            match decoded {
                Ok(Decoded::Full { envelope, .. }) => self.envelope(*envelope, now),
                Ok(Decoded::Lite(_)) => {}
                Err(error) => self.undecodable(&error, now),
            }
        }
    }

    /// An envelope that cannot be read has its place in the log all the same.
    fn undecodable(&mut self, error: &DecodeError, now: Timestamp) {
        let origin = &error.origin;
        let key = origin.conversation_id.as_ref().and_then(|id| self.keys.get(id).copied());
        if let Some(key) = key
            && origin.stanza_id < 0
        {
            if self.takes(key, origin.stanza_id, now) != Some(Place::Next) {
                return;
            }
            self.check_replayed(key, now);
        }
        if origin.number == Some(MessageType::ToolUseRequest.number()) {
            self.tool_misasked(error);
        }
    }

    fn envelope(&mut self, envelope: Envelope, now: Timestamp) {
        let Envelope { stanza_id, conversation_id, body, .. } = envelope;
        if let Body::Configuration(theirs) = body {
            return self.configured(conversation_id.as_ref(), theirs, now);
        }
        let key = conversation_id.as_ref().and_then(|id| self.keys.get(id).copied());
        let Some(key) = key else { return self.beside(body, now) };
        if stanza_id < 0 {
            match (self.takes(key, stanza_id, now), &body) {
                (Some(Place::Next), _) => {}
                (Some(Place::Known), Body::ToolUseRequest(request)) => {
                    return self.tool_asked_again(key, &request.id, now);
                }
                (Some(Place::Known | Place::Hole) | None, _) => return,
            }
        }
        self.within(key, stanza_id, body, now);
        if stanza_id < 0 {
            self.check_replayed(key, now);
        }
    }

    /// What belongs to no conversation that is followed.
    fn beside(&mut self, body: Body, now: Timestamp) {
        match body {
            Body::ErrorMessage(error) => self.complained(None, error, false, now),
            Body::NoteConfirmation(confirmation) => self.noted(&confirmation),
            Body::MemoryConfirmation(confirmation) => self.memorised(&confirmation),
            Body::UserMessage(_)
            | Body::AssistantMessage(_)
            | Body::AudioChunk(_)
            | Body::ReasoningStep(_)
            | Body::ToolUseRequest(_)
            | Body::ToolUseResult(_)
            | Body::Acknowledgement(_)
            | Body::Transcription(_)
            | Body::ControlStop(_)
            | Body::ControlVariation(_)
            | Body::Configuration(_)
            | Body::StartAnswer(_)
            | Body::MemoryTrace(_)
            | Body::Commentary(_)
            | Body::AssistantSentence(_)
            | Body::SyncRequest(_)
            | Body::SyncResponse(_)
            | Body::Feedback(_)
            | Body::FeedbackConfirmation(_)
            | Body::UserNote(_)
            | Body::MemoryAction(_)
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
            | Body::Unknown { .. } => {}
        }
    }

    fn within(&mut self, key: ConversationKey, stanza: i32, body: Body, now: Timestamp) {
        match body {
            Body::ErrorMessage(error) => self.complained(Some(key), error, stanza < 0, now),
            Body::UserMessage(message) => self.announced(key, message),
            Body::AssistantMessage(message) => self.answered(key, message, stanza),
            Body::AudioChunk(chunk) => self.tell(key, ConversationEvent::Audio(chunk)),
            Body::ReasoningStep(step) => {
                if self.is_new(key, MessageType::ReasoningStep, &step.id) {
                    self.tell(key, ConversationEvent::Reasoning(step));
                }
            }
            Body::ToolUseRequest(request) => {
                if self.is_new(key, MessageType::ToolUseRequest, &request.id) {
                    self.tool_asked(key, request, now);
                } else {
                    self.tool_asked_again(key, &request.id, now);
                }
            }
            Body::ToolUseResult(result) => {
                if self.is_new(key, MessageType::ToolUseResult, &result.id) {
                    self.tool_settled(key, result);
                }
            }
            Body::Acknowledgement(ack) => self.acknowledged(&ack),
            Body::Transcription(transcription) => self.transcribed(key, transcription),
            Body::StartAnswer(start) => self.started(key, &start),
            Body::MemoryTrace(trace) => {
                if self.is_new(key, MessageType::MemoryTrace, &trace.id) {
                    self.tell(key, ConversationEvent::Remembered(trace));
                }
            }
            Body::Commentary(commentary) => {
                if self.is_new(key, MessageType::Commentary, &commentary.id) {
                    self.tell(key, ConversationEvent::Remarked(commentary));
                }
            }
            Body::AssistantSentence(sentence) => self.sentence(key, &sentence),
            Body::SyncResponse(response) => self.synced(key, response),
            Body::FeedbackConfirmation(confirmation) => self.voted(confirmation),
            Body::NoteConfirmation(confirmation) => self.noted(&confirmation),
            Body::MemoryConfirmation(confirmation) => self.memorised(&confirmation),
            Body::ServerInfo(info) => self.tell(key, ConversationEvent::ServerInfo(info)),
            Body::SessionStats(stats) => self.tell(key, ConversationEvent::Stats(stats)),
            Body::ConversationUpdate(update) => self.tell(key, ConversationEvent::Updated(update)),
            Body::EliteOptions(options) => self.tell(key, ConversationEvent::Elites(options)),
            Body::SubscribeAck(ack) => self.subscribed(key, &ack),
            Body::Configuration(_)
            | Body::ControlStop(_)
            | Body::ControlVariation(_)
            | Body::SyncRequest(_)
            | Body::Feedback(_)
            | Body::UserNote(_)
            | Body::MemoryAction(_)
            | Body::DimensionPreference(_)
            | Body::EliteSelect(_)
            | Body::Subscribe(_)
            | Body::Unsubscribe(_)
            | Body::UnsubscribeAck(_)
            | Body::Unknown { .. } => {}
        }
    }

    fn is_new(&mut self, key: ConversationKey, kind: MessageType, id: &crate::Id) -> bool {
        self.conversations.get_mut(&key).is_some_and(|conversation| conversation.seen.is_new(kind, id))
    }

    /// A message of this client that a replay or an answer names is with the server, whatever became of its
    /// acknowledgement. Whoever said it learns so before what follows from it.
    fn stored(&mut self, key: ConversationKey, message: &crate::Id) {
        if let Some(request) = self.requests.stored(key, message) {
            self.event(Event::Settled(request, Ok(Outcome::Accepted)));
        }
    }

    fn announced(&mut self, key: ConversationKey, message: UserMessage) {
        self.stored(key, &message.id);
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let number =
            message.superset.as_ref().and_then(|superset| u64::try_from(superset.sequence_number).ok());
        conversation.number = conversation.number.max(number.unwrap_or_default());
        self.requests.took_effect(key, &conversation.answers, &Effect::Announced(&message));
        if conversation.seen.is_new(MessageType::UserMessage, &message.id) {
            self.tell(key, ConversationEvent::Question(message));
        }
    }

    /// Once final, it is the user's message, and known as such.
    fn transcribed(&mut self, key: ConversationKey, transcription: Transcription) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let kind = MessageType::UserMessage;
        let news = match transcription.is_final {
            true => conversation.seen.is_new(kind, &transcription.id),
            false => !conversation.seen.contains(kind, &transcription.id),
        };
        if news {
            self.tell(key, ConversationEvent::Heard(transcription));
        }
    }

    fn started(&mut self, key: ConversationKey, start: &StartAnswer) {
        self.stored(key, &start.previous_id);
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        self.requests.took_effect(key, &conversation.answers, &Effect::Started(start));
        let known = conversation.seen.contains(MessageType::AssistantMessage, &start.id);
        if !known && conversation.answers.start(&start.id, Some(&start.previous_id)) {
            let (answer, question) = (start.id.clone(), Some(start.previous_id.clone()));
            self.tell(key, ConversationEvent::Started { answer, question });
        }
    }

    fn sentence(&mut self, key: ConversationKey, sentence: &AssistantSentence) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let known = conversation.answers.of(sentence).is_none()
            && conversation.seen.contains(MessageType::AssistantMessage, &sentence.previous_id);
        if known {
            // A subscription brought the answer before it was complete: once it is, it is asked for again.
            if sentence.is_final {
                conversation.catch_up = CatchUp::Wanted;
            }
            return;
        }
        let Some(added) = conversation.answers.add(sentence, self.config.max_answer) else { return };
        if let Some(answer) = &added.complete {
            conversation.seen.compare(MessageType::AssistantMessage, &answer.id, &answer.text.0);
            if !answer.whole {
                conversation.catch_up = CatchUp::Wanted;
            }
        }
        let answer = added.answer;
        if added.began {
            self.tell(key, ConversationEvent::Started { answer: answer.clone(), question: None });
        }
        if let Some(text) = added.piece {
            self.tell(key, ConversationEvent::Piece { answer, text });
        }
        if let Some(answer) = added.complete {
            self.tell(key, ConversationEvent::Answered(answer));
        }
    }

    /// A whole answer, or a new text for one.
    fn answered(&mut self, key: ConversationKey, message: AssistantMessage, stanza: i32) {
        if let Some(question) = &message.previous_id {
            self.stored(key, question);
        }
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        self.requests.took_effect(key, &conversation.answers, &Effect::Answered(&message));
        // What a subscription says of an answer that is being given may be a part of it only.
        if stanza == 0 && conversation.answers.is_streaming(&message.id) {
            return;
        }
        conversation.answers.settle(&message.id);
        if let Some(question) = &message.previous_id {
            conversation.answers.note(&message.id, question);
        }
        let novelty =
            conversation.seen.compare(MessageType::AssistantMessage, &message.id, &message.content.0);
        let replaces = match novelty {
            Novelty::None => return,
            Novelty::New => false,
            Novelty::Changed => true,
        };
        let AssistantMessage { id, previous_id: question, content: text, .. } = message;
        self.tell(key, ConversationEvent::Answered(Answer { id, question, text, replaces, whole: true }));
    }
}
