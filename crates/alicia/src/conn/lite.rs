//! The lite profile on the same connection (Appendix A): what comes in is read as the full profile would
//! say it, what goes out is said in its spelling, and what it does not know is not sent.

use switchboard_core::{Frame, Output, Pii, SessionId, TurnId};

use super::AliciaConnection;
use super::jobs::Job;
use crate::annals::{Notice, Page};
use crate::codec::{Dialect, encode_lite};
use crate::error::Code;
use crate::id::{Id, Prefix};
use crate::lite::serve;
use crate::lite::{
    DeviceToolsAck, GenerationRequest, LiteBody, LiteEnvelope, LiteError, LiteSubscribe, LiteSubscribeAck,
    LiteToolUseResult, LiteUserMessage, RequestType, VoiceJoinAck, VoiceLeaveAck,
};
use crate::message::{
    Body, ControlVariation, ConversationStatus, Envelope, Mode, Subscribe, ToolError, ToolUseResult,
    Unsubscribe, UserMessage,
};

impl AliciaConnection {
    pub(super) fn is_lite(&self) -> bool {
        self.dialect == Dialect::Lite
    }

    pub(super) fn say_lite(&mut self, conversation: Option<Id>, body: impl Into<LiteBody>) {
        let envelope = LiteEnvelope::new(conversation, body);
        self.send_lite(&envelope);
    }

    fn send_lite(&mut self, envelope: &LiteEnvelope) {
        self.out.push_back(Output::Send(Frame::Binary(encode_lite(envelope))));
    }

    pub(super) fn refuse_lite(&mut self, conversation: Option<Id>, code: Code, message: &str) {
        let error =
            LiteError { code: code.number().to_string(), message: Pii(message.to_owned()), message_id: None };
        self.say_lite(conversation, error);
    }

    /// Answers a VoiceJoinRequest, also one that could not be taken: clients wait for this answer, and
    /// understand no other.
    pub(super) fn refuse_voice(&mut self, conversation: Option<Id>) {
        let error = Some("Voice is not available on this server.".to_owned());
        self.say_lite(conversation, VoiceJoinAck { success: false, error, sample_rate: None });
    }

    /// Says in the lite profile what was meant for the full one, as far as it can be said.
    pub(super) fn send_in_lite(&mut self, envelope: &Envelope) {
        for lite in serve::answer(envelope) {
            self.send_lite(&lite);
        }
    }

    /// Tells what an event adds; that of an answer is held while a reply to its question is still to be written.
    pub(super) fn pass_on_lite(&mut self, session: &SessionId, page: &Page, unreplied: Option<&TurnId>) {
        let Some(known) = self.followed.get(session) else { return };
        let updated = page.notices.contains(&Notice::Updated);
        let gone = updated && known.annals.status() == ConversationStatus::Deleted;
        let told = serve::page(&known.annals, page);
        match unreplied {
            Some(turn) => self.hold(session, turn, told.iter().map(encode_lite).collect()),
            None => told.iter().for_each(|lite| self.send_lite(lite)),
        }
        for notice in &page.notices {
            if let Notice::Replied { turn } = notice {
                self.release(session, turn);
            }
        }
        if gone {
            self.unfollow(session);
        }
    }

    /// Reads an envelope of the lite profile as the full profile would say it.
    pub(super) fn take_lite(&mut self, envelope: LiteEnvelope) {
        // `user_id` is a name to show, such as that of a device: who the sender is was authenticated before.
        let LiteEnvelope { conversation_id, body, .. } = envelope;
        let body: Body = match body {
            LiteBody::Subscribe(subscribe) => match self.subscribe_lite(conversation_id.as_ref(), &subscribe)
            {
                Some(body) => body,
                None => return,
            },
            LiteBody::Unsubscribe(_) => Unsubscribe {}.into(),
            LiteBody::UserMessage(LiteUserMessage { content, .. }) => {
                let id = self.fresh(Prefix::Message);
                UserMessage { id, previous_id: None, content, timestamp: None, superset: None }.into()
            }
            LiteBody::ToolUseResult(result) => full_result(result).into(),
            LiteBody::GenerationRequest(request) => match full_variation(request) {
                Some(variation) => variation.into(),
                None => {
                    return self.refuse_lite(
                        conversation_id,
                        Code::WrongSide,
                        "send is not sent from this side",
                    );
                }
            },
            LiteBody::VoiceJoinRequest(_) => return self.refuse_voice(conversation_id),
            LiteBody::VoiceLeaveRequest(_) => {
                return self.say_lite(conversation_id, VoiceLeaveAck { success: true, error: None });
            }
            LiteBody::DeviceToolsRegister(_) => {
                let error = Some("device tools are not offered".to_owned());
                return self
                    .say_lite(conversation_id, DeviceToolsAck { success: false, tool_count: 0, error });
            }
            // Nothing follows from them, or the decoder lets them through from the other side only.
            LiteBody::Error(_)
            | LiteBody::AssistantMessage(_)
            | LiteBody::ReasoningStep(_)
            | LiteBody::ToolUseRequest(_)
            | LiteBody::StartAnswer(_)
            | LiteBody::MemoryTrace(_)
            | LiteBody::AssistantSentence(_)
            | LiteBody::ThinkingSummary(_)
            | LiteBody::TitleUpdate(_)
            | LiteBody::SubscribeAck(_)
            | LiteBody::BranchUpdate(_)
            | LiteBody::VoiceJoinAck(_)
            | LiteBody::VoiceLeaveAck(_)
            | LiteBody::VoiceStatus(_)
            | LiteBody::VoiceSpeaking(_)
            | LiteBody::DeviceToolsAck(_)
            | LiteBody::DeviceHeartbeat(_)
            | LiteBody::GenerationComplete(_)
            | LiteBody::Unknown { .. } => return,
        };
        self.enqueue(Job::new(Envelope::new(conversation_id, body)));
    }

    /// Services are refused: none is configured here.
    fn subscribe_lite(&mut self, conversation: Option<&Id>, subscribe: &LiteSubscribe) -> Option<Body> {
        let refusal = if subscribe.is_service() {
            "service modes are not offered"
        } else if conversation.is_none() {
            "conversation_id_required"
        } else {
            return Some(Subscribe { from_sequence: None }.into());
        };
        let error = Some(refusal.to_owned());
        let ack = LiteSubscribeAck { agent_mode: subscribe.agent_mode, success: false, error };
        self.say_lite(conversation.cloned(), ack);
        None
    }
}

fn full_result(result: LiteToolUseResult) -> ToolUseResult {
    let LiteToolUseResult { id, request_id, success, result, error, .. } = result;
    let error_code = (!success).then(|| ToolError::ExecutionError.into());
    ToolUseResult { id, request_id: Some(request_id), success, result, error_code, error_message: error }
}

fn full_variation(request: GenerationRequest) -> Option<ControlVariation> {
    let GenerationRequest { message_id: target_id, request_type, new_content, .. } = request;
    let mode = match request_type {
        RequestType::Send => return None,
        RequestType::Regenerate => Mode::Regenerate,
        RequestType::Continue => Mode::Continue,
        RequestType::Edit => Mode::Edit,
    };
    Some(ControlVariation { target_id, mode, new_content })
}
