//! Tools that the server asks this client to run.

use crate::message::{ToolError, ToolUseRequest, ToolUseResult};
use crate::{Body, DecodeError, Envelope, Id, Prefix, encode};
use switchboard_core::Timestamp;

use super::conversation::Stage;
use super::tools::{Step, ToolOutcome, failure};
use super::{AliciaClient, ConversationEvent, ConversationKey};

impl AliciaClient {
    /// How a tool ended that this client was told to run. One that is late, or was stopped, has no effect.
    pub fn tool_done(
        &mut self,
        conversation: ConversationKey,
        request: &Id,
        outcome: ToolOutcome,
        now: Timestamp,
    ) {
        let Some(at) = self.conversations.get_mut(&conversation) else { return };
        if let Some(result) = at.tools.done(request, outcome) {
            self.give(conversation, result, now);
        }
        self.flush(now);
    }

    /// A request that was not here before. Within a replay it may be settled already.
    pub(super) fn tool_asked(&mut self, key: ConversationKey, request: ToolUseRequest, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let replaying = conversation.stage != Stage::Ready;
        if replaying {
            conversation.tools.hold(request.clone());
        }
        self.tell(key, ConversationEvent::ToolUsed(request.clone()));
        if !replaying {
            self.start_tool(key, &request, now);
        }
    }

    pub(super) fn start_tool(&mut self, key: ConversationKey, request: &ToolUseRequest, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        match conversation.tools.take(request, &self.config.limits, self.config.max_tools, now) {
            Step::Leave => {}
            Step::Run(run) => self.tell(key, ConversationEvent::RunTool(run)),
            Step::Answer(result) => self.give(key, result, now),
        }
    }

    /// A request comes again: it is not run again, but what it gave is.
    pub(super) fn tool_asked_again(&mut self, key: ConversationKey, request: &Id, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let Some(result) = conversation.tools.given(request, now) else { return };
        let waits = self.requests.iter().any(|(_, waiting)| waiting.id() == Some(&result.id));
        if !waits {
            self.requests.add(Some(key), result.into(), false);
        }
    }

    /// A request that makes no sense is refused, and nothing is run (AL-063).
    pub(super) fn tool_misasked(&mut self, error: &DecodeError) {
        let id = self.mint(Prefix::Error);
        if let Some(report) = error.report(id) {
            self.send(error.origin.conversation_id.clone(), report.into());
        }
    }

    /// What a tool gave elsewhere; what runs here for the same request is not wanted any more.
    pub(super) fn tool_settled(&mut self, key: ConversationKey, result: ToolUseResult) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let request = result.request().clone();
        if conversation.tools.settled(&request) {
            self.tell(key, ConversationEvent::StopTool(request));
        }
        self.tell(key, ConversationEvent::ToolResult(result));
    }

    pub(super) fn expire_tools(&mut self, now: Timestamp) {
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        for key in keys {
            let Some(conversation) = self.conversations.get_mut(&key) else { continue };
            for result in conversation.tools.expire(now) {
                self.tell(key, ConversationEvent::StopTool(result.request().clone()));
                self.give(key, result, now);
            }
        }
    }

    /// Sends the one result of a request, and keeps it for the case that the request comes again.
    fn give(&mut self, key: ConversationKey, result: ToolUseResult, now: Timestamp) {
        let Some(conversation) = self.conversations.get_mut(&key) else { return };
        let fits = |result: &ToolUseResult| {
            let envelope = Envelope::new(conversation.id.clone(), result.clone()).numbered(i32::MAX);
            u32::try_from(encode(&envelope).len()).is_ok_and(|size| size <= self.config.limits.frame)
        };
        let result = if fits(&result) {
            result
        } else {
            let message = "the result is too large".to_owned();
            failure(result.request(), ToolError::ExecutionError, message, None)
        };
        conversation.tools.keep(&result, now);
        // A server that asks for tools and acknowledges no result gets no further ones.
        if self.requests.len() < self.config.max_requests.saturating_mul(2) {
            self.requests.add(Some(key), Body::from(result), false);
        }
    }
}
