//! What a server says in the lite profile (Appendix A, "Serving a lite web client").
//!
//! Everything is made from what the full profile would say: entries of the server log and notices of the
//! annals. What the lite profile has no words for is left out.

use switchboard_core::{Pii, Timestamp};

use super::{
    GenerationComplete, LiteAssistantMessage, LiteAssistantSentence, LiteBody, LiteEnvelope, LiteError,
    LiteStartAnswer, LiteSubscribeAck, LiteToolUseRequest, LiteToolUseResult, LiteTrace, LiteUserMessage,
    TitleUpdate,
};
use crate::annals::{Annals, Entry, Notice, Page, Settled};
use crate::id::Id;
use crate::message::{
    AssistantMessage, AssistantSentence, Body, Envelope, ErrorMessage, MemoryTrace, Role, StartAnswer,
    SubscribeAck, ToolUseRequest, ToolUseResult, Transcription, UserMessage, Word,
};
use crate::moment::rfc3339;

/// A reply to this connection alone.
pub fn answer(envelope: &Envelope) -> Vec<LiteEnvelope> {
    let body: LiteBody = if let Body::SubscribeAck(SubscribeAck { success, error, .. }) = &envelope.body {
        let error = error.as_ref().map(|error| match error {
            Word::Known(known) => known.name().to_owned(),
            Word::Other(other) => other.clone(),
        });
        LiteSubscribeAck { agent_mode: false, success: *success, error }.into()
    } else if let Body::ErrorMessage(error) = &envelope.body {
        lite_error(error).into()
    } else {
        return Vec::new();
    };
    vec![LiteEnvelope::new(envelope.conversation_id.clone(), body)]
}

/// What one event adds, as it happens; nothing is replayed.
pub fn page(annals: &Annals, page: &Page) -> Vec<LiteEnvelope> {
    let entries = page.entries.iter().flat_map(|told| entry(annals, told, &page.notices));
    entries.chain(page.notices.iter().flat_map(|told| notice(annals, told))).collect()
}

/// An entry of the server log, among these notices.
fn entry(annals: &Annals, entry: &Entry, notices: &[Notice]) -> Vec<LiteEnvelope> {
    let trace = entry.envelope.meta.trace().map(|trace| LiteTrace { trace, flags: SAMPLED });
    let bodies = bodies(annals, entry, notices).into_iter();
    bodies
        .map(|body| LiteEnvelope {
            trace: trace.clone(),
            ..LiteEnvelope::new(entry.envelope.conversation_id.clone(), body)
        })
        .collect()
}

/// What followers are told besides.
fn notice(annals: &Annals, notice: &Notice) -> Vec<LiteEnvelope> {
    let bodies = match notice {
        Notice::Settled(settled) => settled_bodies(settled),
        Notice::Updated => {
            let title = annals.title().map(|title| TitleUpdate { title: Pii(title.to_owned()) });
            title.into_iter().map(LiteBody::from).collect()
        }
        Notice::TurnOver { .. } | Notice::Replied { .. } | Notice::Elites => Vec::new(),
    };
    bodies.into_iter().map(|body| LiteEnvelope::new(Some(annals.id().clone()), body)).collect()
}

fn bodies(annals: &Annals, entry: &Entry, notices: &[Notice]) -> Vec<LiteBody> {
    match entry.envelope.body.clone() {
        Body::ErrorMessage(error) => vec![lite_error(&error).into()],
        Body::UserMessage(UserMessage { id, previous_id, content, superset, .. }) => {
            let created_at = superset.map(|superset| superset.created_at);
            vec![user_message(id, previous_id, content, created_at).into()]
        }
        // There is no word for what was spoken.
        Body::Transcription(Transcription { id, previous_id, text, is_final: true, .. }) => {
            vec![user_message(id, previous_id, text, Some(rfc3339(annals.updated_at()))).into()]
        }
        Body::AssistantMessage(message) => vec![assistant_message(message, notices)],
        Body::StartAnswer(StartAnswer { id, previous_id, .. }) => {
            vec![LiteStartAnswer { message_id: id, previous_id: Some(previous_id) }.into()]
        }
        Body::AssistantSentence(AssistantSentence { id, previous_id, sequence, text, is_final, audio }) => {
            let message_id = previous_id.clone();
            vec![
                LiteAssistantSentence { id, previous_id, sequence, text, is_final, audio, message_id }.into(),
            ]
        }
        Body::ReasoningStep(step) => vec![step.into()],
        // Lite clients show what was remembered below the answer, and not below the question.
        Body::MemoryTrace(trace) => {
            let message_id = annals.answer_to(&trace.message_id).unwrap_or(&trace.message_id).clone();
            vec![MemoryTrace { message_id, source: None, ..trace }.into()]
        }
        Body::ToolUseRequest(ToolUseRequest { id, message_id, tool_name, parameters, execution, .. }) => {
            let execution = Some(Word::Known(execution));
            vec![LiteToolUseRequest { id, message_id, tool_name, arguments: parameters, execution }.into()]
        }
        Body::ToolUseResult(result) => vec![tool_result(result).into()],
        Body::AudioChunk(_)
        | Body::Acknowledgement(_)
        | Body::Transcription(_)
        | Body::ControlStop(_)
        | Body::ControlVariation(_)
        | Body::Configuration(_)
        | Body::Commentary(_)
        | Body::SyncRequest(_)
        | Body::SyncResponse(_)
        | Body::Feedback(_)
        | Body::FeedbackConfirmation(_)
        | Body::UserNote(_)
        | Body::NoteConfirmation(_)
        | Body::MemoryAction(_)
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
        | Body::Unknown { .. } => Vec::new(),
    }
}

fn user_message(
    id: Id,
    previous_id: Option<Id>,
    content: Pii<String>,
    created_at: Option<String>,
) -> LiteUserMessage {
    LiteUserMessage { id: Some(id), content, previous_id, role: Some(Word::Known(Role::User)), created_at }
}

/// A whole answer begins like any other, and its text is told when it is over, behind its thoughts. One that
/// is put right, or comes from elsewhere, is known.
fn assistant_message(message: AssistantMessage, notices: &[Notice]) -> LiteBody {
    let AssistantMessage { id, previous_id, content, timestamp, superset } = message;
    let given = |notice: &Notice| matches!(notice, Notice::Settled(settled) if settled.answer == id && !settled.streamed);
    if notices.iter().any(given) {
        return LiteStartAnswer { message_id: id, previous_id }.into();
    }
    LiteAssistantMessage {
        id,
        previous_id,
        content,
        timestamp,
        reasoning: None,
        role: Some(Word::Known(Role::Assistant)),
        created_at: superset.map(|superset| superset.created_at),
    }
    .into()
}

fn tool_result(result: ToolUseResult) -> LiteToolUseResult {
    let request_id = result.request().clone();
    let ToolUseResult { id, success, result, error_code, error_message, .. } = result;
    let code = error_code.map(|code| match code {
        Word::Known(known) => known.name().to_owned(),
        Word::Other(other) => other,
    });
    let error = match (code, error_message) {
        (Some(code), Some(Pii(message))) => Some(format!("{code}: {message}")),
        (code, message) => code.or_else(|| message.map(|Pii(message)| message)),
    };
    LiteToolUseResult { id, request_id, message_id: None, success, result, error: error.map(Pii) }
}

fn lite_error(error: &ErrorMessage) -> LiteError {
    LiteError {
        code: error.code.to_string(),
        message: error.message.clone(),
        message_id: error.originating_id.clone(),
    }
}

/// The authoritative text, then that the generation is over.
fn settled_bodies(settled: &Settled) -> Vec<LiteBody> {
    let Settled { answer, question, contents, complete, failure, at, .. } = settled;
    // One that does not fit into an envelope has been told in sentences.
    let told = *complete && contents.0.len() <= MOST_CONTENT;
    let text = told.then(|| LiteAssistantMessage {
        id: answer.clone(),
        previous_id: Some(question.clone()),
        content: contents.clone(),
        timestamp: Some(millis(*at)),
        reasoning: None,
        role: Some(Word::Known(Role::Assistant)),
        created_at: Some(rfc3339(*at)),
    });
    let error = match failure {
        Some(code) => Some(code.number().to_string()),
        None if *complete => None,
        None => Some("stopped".to_owned()),
    };
    let over = GenerationComplete { message_id: answer.clone(), success: *complete, error };
    text.map(LiteBody::from).into_iter().chain([over.into()]).collect()
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// Longest text of a message, in bytes, so that its envelope stays below 1 MiB.
const MOST_CONTENT: usize = 1_000_000;
/// Whoever sent a trace wants it kept.
const SAMPLED: u8 = 1;
