//! What becomes of requests, and of conversations that end.

use crate::Body;
use crate::message::{
    Acknowledgement, ErrorMessage, FeedbackConfirmation, MemoryConfirmation, NoteConfirmation, SyncResponse,
    Unsubscribe,
};
use switchboard_core::Timestamp;

use super::conversation::Stage;
use super::{
    AliciaClient, ConversationEvent, ConversationKey, Ended, Event, Link, Outcome, RequestError, RequestKey,
};

impl AliciaClient {
    pub(super) fn settle(&mut self, key: RequestKey, outcome: Result<Outcome, RequestError>) {
        if let Some(request) = self.requests.remove(key)
            && request.told
        {
            self.event(Event::Settled(key, outcome));
        }
    }

    pub(super) fn acknowledged(&mut self, ack: &Acknowledgement) {
        // Those of handshakes are not above 0, and no request has such a stanza.
        let stanza = ack.acknowledged_stanza_id;
        let is = |kind: crate::MessageType| kind.is_acknowledged();
        let key = self
            .requests
            .sent(|request| request.stanza == Some(stanza) && request.body.kind().is_some_and(is));
        if let Some(key) = key {
            let outcome = if ack.success { Ok(Outcome::Accepted) } else { Err(RequestError::Declined) };
            self.settle(key, outcome);
        }
    }

    pub(super) fn voted(&mut self, confirmation: FeedbackConfirmation) {
        let key = self.requests.sent(
            |request| matches!(&request.body, Body::Feedback(vote) if vote.id == confirmation.feedback_id),
        );
        if let Some(key) = key {
            self.settle(key, Ok(Outcome::Votes(confirmation)));
        }
    }

    pub(super) fn noted(&mut self, confirmation: &NoteConfirmation) {
        let key = self
            .requests
            .sent(|request| matches!(&request.body, Body::UserNote(note) if note.id == confirmation.note_id));
        self.confirmed(key, confirmation.success);
    }

    pub(super) fn memorised(&mut self, confirmation: &MemoryConfirmation) {
        let key = self.requests.sent(|request| {
            matches!(&request.body, Body::MemoryAction(action)
                if action.id == confirmation.memory_id && action.action == confirmation.action)
        });
        self.confirmed(key, confirmation.success);
    }

    fn confirmed(&mut self, key: Option<RequestKey>, success: bool) {
        if let Some(key) = key {
            self.settle(key, if success { Ok(Outcome::Accepted) } else { Err(RequestError::Declined) });
        }
    }

    pub(super) fn synced(&mut self, conversation: ConversationKey, response: SyncResponse) {
        let key = self.requests.sent(|request| {
            request.conversation == Some(conversation) && matches!(request.body, Body::SyncRequest(_))
        });
        if let Some(key) = key {
            self.settle(key, Ok(Outcome::Synced(response)));
        }
    }

    /// A complaint of the server. `failed_turn` says that it has a place in the log.
    pub(super) fn complained(
        &mut self,
        conversation: Option<ConversationKey>,
        error: ErrorMessage,
        failed_turn: bool,
        now: Timestamp,
    ) {
        if failed_turn {
            if let Some(key) = conversation {
                self.tell(key, ConversationEvent::Failed(error));
            }
            return;
        }
        if let Some(key) = self.refused_handshake(conversation, &error) {
            return self.handshake_refused(key, error, now);
        }
        let request = error.originating_id.as_ref().and_then(|origin| self.requests.named(origin));
        if let Some(key) = request {
            self.settle(key, Err(RequestError::Refused(error.clone())));
        }
        match conversation {
            Some(key) if !error.recoverable => self.close(key, Ended::Refused(error)),
            Some(key) if request.is_none() => self.tell(key, ConversationEvent::Error(error)),
            Some(_) | None => {}
        }
    }

    /// A conversation is followed no longer.
    pub(super) fn close(&mut self, key: ConversationKey, why: Ended) {
        let Some(conversation) = self.conversations.remove(&key) else { return };
        if let Some(id) = conversation.id {
            self.keys.remove(&id);
            let followed = matches!(conversation.stage, Stage::Ready | Stage::Replaying { .. });
            if self.link == Link::Up && followed {
                self.send(Some(id), Unsubscribe {}.into());
            }
        }
        for request in self.requests.of(key) {
            self.settle(request, Err(RequestError::Closed));
        }
        for tool in conversation.tools.running() {
            self.tell(key, ConversationEvent::StopTool(tool.clone()));
        }
        self.tell(key, ConversationEvent::Closed(why));
    }
}
