//! What happens in a conversation, as its user sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use switchboard_alicia::Id;
use switchboard_alicia::message::ErrorMessage;
use tokio::sync::mpsc;

use super::conversation::Guard;
use switchboard_alicia::client::{Answer, ConversationEvent, Ended};

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
        let (mut of_it, mut answered): (_, Option<Answer>) = (None, None);
        loop {
            // A turn that fails says so after the end of its answer.
            let event = match &answered {
                Some(answer) if answer.whole => match tokio::time::timeout(AFTERMATH, self.next()).await {
                    Ok(event) => event,
                    Err(_) => return Ok(answer.clone()),
                },
                Some(_) | None => self.next().await,
            };
            let Some(event) = event else { return Err(TurnError::Closed(Ended::Left)) };
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else belongs to the answer")]
            match event {
                ConversationEvent::Started { answer, question: Some(of) } if of == *question => {
                    of_it = Some(answer);
                }
                ConversationEvent::Answered(answer) if answer.question.as_ref() == Some(question) => {
                    answered = Some(answer);
                }
                ConversationEvent::Failed(error) => {
                    let about = error.originating_id.as_ref();
                    if about == Some(question) || about.is_some() && about == of_it.as_ref() {
                        return Err(TurnError::Failed(error));
                    }
                }
                // The turn is over, or what is missing is not to be had here.
                ConversationEvent::Stats(_) | ConversationEvent::Reload => match answered.take() {
                    Some(answer) if answer.whole || matches!(event, ConversationEvent::Reload) => {
                        return Ok(answer);
                    }
                    other => answered = other,
                },
                ConversationEvent::Closed(why) => return Err(TurnError::Closed(why)),
                _ => {}
            }
        }
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

/// How long after its end an answer may still say that it has failed, if nothing says that its turn is over.
const AFTERMATH: Duration = Duration::from_secs(1);
