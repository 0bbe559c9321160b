//! What happens in a conversation, as its user sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use switchboard_alicia::Id;
use switchboard_alicia::message::ErrorMessage;
use tokio::sync::mpsc;

use super::conversation::Guard;
use super::half::{Answer, ConversationEvent, Ended};

/// A stream of what happens in a conversation. It ends with [`ConversationEvent::Closed`], or when the client
/// is closed. What is not read holds up the connection, so that the server stops sending.
#[derive(Debug)]
pub struct Updates {
    receiver: mpsc::Receiver<ConversationEvent>,
    _guard: Arc<Guard>,
}

impl Updates {
    pub(super) const fn new(receiver: mpsc::Receiver<ConversationEvent>, guard: Arc<Guard>) -> Self {
        Self { receiver, _guard: guard }
    }

    /// The next event; none after the last one.
    pub async fn next(&mut self) -> Option<ConversationEvent> {
        self.receiver.recv().await
    }

    /// Reads on until this message is answered; what else happens is passed over.
    ///
    /// # Errors
    /// The turn failed, or the conversation is over.
    pub async fn answer_to(&mut self, question: &Id) -> Result<Answer, TurnError> {
        let mut of_it = None;
        let mut answered: Option<Answer> = None;
        while let Some(event) = self.next().await {
            match event {
                ConversationEvent::Started { answer, question: Some(of) } if of == *question => {
                    of_it = Some(answer);
                }
                ConversationEvent::Answered(answer) if answer.question.as_ref() == Some(question) => {
                    if answer.whole {
                        return Ok(answer);
                    }
                    answered = Some(answer);
                }
                ConversationEvent::Failed(error) => {
                    let about = error.originating_id.as_ref();
                    if about == Some(question) || about.is_some() && about == of_it.as_ref() {
                        return Err(TurnError::Failed(error));
                    }
                }
                ConversationEvent::Reload => {
                    if let Some(answer) = answered.take() {
                        return Ok(answer);
                    }
                }
                ConversationEvent::Closed(why) => return Err(TurnError::Closed(why)),
                ConversationEvent::Joined(_)
                | ConversationEvent::Question(_)
                | ConversationEvent::Heard(_)
                | ConversationEvent::Started { .. }
                | ConversationEvent::Piece { .. }
                | ConversationEvent::Interrupted { .. }
                | ConversationEvent::Answered(_)
                | ConversationEvent::Reasoning(_)
                | ConversationEvent::Remembered(_)
                | ConversationEvent::ToolUsed(_)
                | ConversationEvent::RunTool(_)
                | ConversationEvent::StopTool(_)
                | ConversationEvent::ToolResult(_)
                | ConversationEvent::Remarked(_)
                | ConversationEvent::Audio(_)
                | ConversationEvent::ServerInfo(_)
                | ConversationEvent::Stats(_)
                | ConversationEvent::Updated(_)
                | ConversationEvent::Elites(_)
                | ConversationEvent::Error(_) => {}
            }
        }
        Err(TurnError::Closed(Ended::Left))
    }
}

impl Stream for Updates {
    type Item = ConversationEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context)
    }
}

/// Why a message has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TurnError {
    /// The turn failed.
    #[error("{}", .0.message.0)]
    Failed(ErrorMessage),
    /// The conversation is over.
    #[error("the conversation is followed no longer")]
    Closed(Ended),
}
