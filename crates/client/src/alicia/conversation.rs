//! One conversation, as whoever takes part in it holds it.

use std::future::Future;
use std::sync::Arc;

use switchboard_alicia::Id;
use switchboard_alicia::message::{
    CommentaryType, ControlVariation, FeedbackConfirmation, Mode, NoteAction, NoteCategory, Preset, StopType,
    SyncMessage, SyncResponse, Vote, Weights,
};
use switchboard_core::{Pii, Timestamp};

use super::client::{Client, Settling};
use super::error::ClientError;
use super::shell::Shell;
use super::tool::{Handler, ToolCall, ToolFailure};
use crate::driver::Teller;
use switchboard_alicia::client::{self as half, Ballot, ConversationKey, Outcome, RequestError, Since};

/// Which conversation to follow, from where on, and with which tools.
#[derive(Debug)]
pub struct Join {
    pub(super) conversation: Option<Id>,
    pub(super) since: Since,
    pub(super) tools: Vec<(String, Handler)>,
}

impl Join {
    /// A new conversation.
    pub const fn create() -> Self {
        Self { conversation: None, since: Since::Now, tools: Vec::new() }
    }

    /// One that is there, from now on.
    pub const fn existing(id: Id) -> Self {
        Self { conversation: Some(id), since: Since::Now, tools: Vec::new() }
    }

    /// From where on it is followed.
    #[must_use]
    pub const fn since(mut self, since: Since) -> Self {
        self.since = since;
        self
    }

    /// A tool that this client runs for it.
    #[must_use]
    pub fn tool<F, R>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<serde_json::Value, ToolFailure>> + Send + 'static,
    {
        self.tools.push((name.into(), Handler::new(handler)));
        self
    }
}

/// A conversation that is followed. Clones share it; when the last clone and its
/// [`Updates`](super::Updates) are dropped, it is left.
///
/// What is asked while the connection is lost waits for it. To drop the future of a request does not take
/// it back.
#[derive(Debug, Clone)]
pub struct Conversation {
    id: Id,
    client: Client,
    guard: Arc<Guard>,
}

impl Conversation {
    pub(super) const fn new(id: Id, client: Client, guard: Arc<Guard>) -> Self {
        Self { id, client, guard }
    }

    /// Its id.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// Says something; done when the server has it. Answers the id of the message, which its answer names.
    ///
    /// # Errors
    /// Nothing or too much was said, or the server does not take it.
    pub async fn say(&self, text: impl Into<String>) -> Result<Id, ClientError> {
        self.say_after(text, None).await
    }

    /// Says something behind this message, which starts a branch unless it is the newest.
    ///
    /// # Errors
    /// As for [`Self::say`].
    pub async fn say_after(&self, text: impl Into<String>, previous: Option<Id>) -> Result<Id, ClientError> {
        self.send(text, previous).await?.taken().await
    }

    /// The same; done when the message is on its way, so that its id is known before anything that follows
    /// from it is told.
    ///
    /// # Errors
    /// Nothing or too much was said, or there is to be no connection.
    pub async fn send(&self, text: impl Into<String>, previous: Option<Id>) -> Result<Sent, ClientError> {
        let (key, text) = (self.guard.key, text.into());
        let begun = self.client.begin(move |machine, now| machine.say(key, &text, previous, now));
        let (id, settling) = begun.await?;
        Ok(Sent { id, settling })
    }

    /// Stops the answer that is being given.
    ///
    /// # Errors
    /// There is no connection, or nothing to stop.
    pub async fn stop(&self) -> Result<(), ClientError> {
        self.stop_what(None, None).await
    }

    /// Stops this answer, or what is being given of one.
    ///
    /// # Errors
    /// As for [`Self::stop`].
    pub async fn stop_what(&self, answer: Option<Id>, what: Option<StopType>) -> Result<(), ClientError> {
        let reason = Some("user_requested".to_owned());
        self.ask(move |key, machine, now| machine.stop(key, answer, what, reason, now)).await
    }

    /// Has a message answered once more: one of the user, or the one that an answer is for.
    ///
    /// # Errors
    /// There is no such message.
    pub async fn regenerate(&self, message: Id) -> Result<(), ClientError> {
        self.vary(message, Mode::Regenerate, None).await
    }

    /// Changes what a message says. That of a user gets a sibling, which is announced and answered; that of
    /// the assistant is replaced.
    ///
    /// # Errors
    /// There is no such message.
    pub async fn edit(&self, message: Id, text: impl Into<String>) -> Result<(), ClientError> {
        self.vary(message, Mode::Edit, Some(text.into())).await
    }

    /// Has an answer go on.
    ///
    /// # Errors
    /// There is no such answer.
    pub async fn go_on(&self, answer: Id) -> Result<(), ClientError> {
        self.vary(answer, Mode::Continue, None).await
    }

    async fn vary(&self, target_id: Id, mode: Mode, text: Option<String>) -> Result<(), ClientError> {
        let variation = ControlVariation { target_id, mode, new_content: text.map(Pii) };
        self.ask(move |key, machine, now| machine.vary(key, variation, now)).await
    }

    /// Runs a tool for this conversation from now on. It is run once for each request, and stopped when its
    /// time is over or its outcome is not wanted any more.
    ///
    /// # Errors
    /// The conversation is over, or has too many tools.
    pub async fn tool<F, R>(&self, name: impl Into<String>, handler: F) -> Result<(), ClientError>
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<serde_json::Value, ToolFailure>> + Send + 'static,
    {
        let (key, name, handler) = (self.guard.key, name.into(), Handler::new(handler));
        self.client.handle.ask(move |shell, work| shell.tool(key, name, handler, work)).await?
    }

    /// Votes; answers all votes.
    ///
    /// # Errors
    /// There is nothing of that kind to vote on.
    pub async fn feedback(&self, ballot: Ballot) -> Result<FeedbackConfirmation, ClientError> {
        let key = self.guard.key;
        let vote = self.client.request(move |machine, now| Ok((machine.vote(key, ballot, now)?, ())));
        match vote.await?.0 {
            Outcome::Votes(votes) => Ok(votes),
            Outcome::Accepted | Outcome::Synced(_) => Err(RequestError::Declined.into()),
        }
    }

    /// Votes on a message.
    ///
    /// # Errors
    /// As for [`Self::feedback`].
    pub async fn vote(&self, message: Id, vote: Vote) -> Result<FeedbackConfirmation, ClientError> {
        self.feedback(Ballot::on(message, vote)).await
    }

    /// Remarks on a message, or on the conversation; nobody answers.
    ///
    /// # Errors
    /// Nothing or too much was said.
    pub async fn remark(
        &self,
        message: Option<Id>,
        text: impl Into<String>,
        kind: Option<CommentaryType>,
    ) -> Result<(), ClientError> {
        let text = text.into();
        self.ask(move |key, machine, now| machine.remark(key, message, &text, kind, now)).await
    }

    /// Writes a note on a message; answers its id.
    ///
    /// # Errors
    /// There is no such message.
    pub async fn note(
        &self,
        message: Id,
        text: impl Into<String>,
        category: NoteCategory,
    ) -> Result<Id, ClientError> {
        let text = text.into();
        let note = self.client.request(move |machine, now| machine.note(message, &text, category, now));
        Ok(note.await?.1)
    }

    /// Changes a note, or deletes it.
    ///
    /// # Errors
    /// There is no such note.
    pub async fn change_note(
        &self,
        note: Id,
        message: Id,
        action: NoteAction,
        text: impl Into<String>,
    ) -> Result<(), ClientError> {
        let text = text.into();
        self.ask(move |_, machine, now| {
            machine.change_note(note, message, action, &text, NoteCategory::General, now)
        })
        .await
    }

    /// Says how answers are to be weighed.
    ///
    /// # Errors
    /// The server does not take it.
    pub async fn weigh(&self, weights: Weights, preset: Option<Preset>) -> Result<(), ClientError> {
        self.ask(move |key, machine, now| machine.weigh(key, weights, preset, now)).await
    }

    /// Chooses an elite.
    ///
    /// # Errors
    /// It is not on offer.
    pub async fn choose(&self, elite: Id) -> Result<(), ClientError> {
        self.ask(move |key, machine, now| machine.choose(key, elite, now)).await
    }

    /// Hands in messages that were written offline, up to 500; none of them is answered.
    ///
    /// # Errors
    /// The server does not take them at all; conflicts are told one by one.
    pub async fn sync(&self, messages: Vec<SyncMessage>) -> Result<SyncResponse, ClientError> {
        let key = self.guard.key;
        let synced = self.client.request(move |machine, now| Ok((machine.sync(key, messages, now)?, ())));
        match synced.await?.0 {
            Outcome::Synced(response) => Ok(response),
            Outcome::Accepted | Outcome::Votes(_) => Err(RequestError::Declined.into()),
        }
    }

    /// The stanza up to which everything was told, to go on from there with [`Since::Stanza`].
    ///
    /// # Errors
    /// The client was closed.
    pub async fn mark(&self) -> Result<i32, ClientError> {
        let key = self.guard.key;
        let mark = self.client.handle.ask(move |_, work| work.machine.mark(key)).await?;
        mark.ok_or(ClientError::Closed)
    }

    /// Follows it no longer.
    pub fn leave(&self) {
        self.guard.leave();
    }

    async fn ask(
        &self,
        ask: impl FnOnce(
            ConversationKey,
            &mut half::AliciaClient,
            Timestamp,
        ) -> Result<half::RequestKey, half::CommandError>
        + Send
        + 'static,
    ) -> Result<(), ClientError> {
        let key = self.guard.key;
        self.client.request(move |machine, now| Ok((ask(key, machine, now)?, ()))).await.map(drop)
    }
}

/// A message on its way to the server. To drop it does not take the message back.
#[derive(Debug)]
pub struct Sent {
    id: Id,
    settling: Settling,
}

impl Sent {
    /// The id of the message, which its answer names.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// Waits until the server has it; answers its id.
    ///
    /// # Errors
    /// The server does not take it.
    pub async fn taken(self) -> Result<Id, ClientError> {
        self.settling.outcome().await?;
        Ok(self.id)
    }
}

/// Leaves a conversation that nobody holds any more.
#[derive(Debug)]
pub(super) struct Guard {
    key: ConversationKey,
    teller: Teller<Shell>,
}

impl Guard {
    pub(super) const fn new(key: ConversationKey, teller: Teller<Shell>) -> Self {
        Self { key, teller }
    }

    fn leave(&self) {
        let key = self.key;
        self.teller.tell(move |_, work| work.machine.leave(key));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.leave();
    }
}
