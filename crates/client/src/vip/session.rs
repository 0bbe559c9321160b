//! The handle of a session.

use bytes::Bytes;
use serde_json::Value;
use switchboard_core::Timestamp;
use switchboard_vip::client::{ClientConfig, CommandError, Event, Outcome, VipClient};
use switchboard_vip::matrix::State;
use switchboard_vip::message::{
    CloseReason, InputCancelReason, InputEndReason, InputStartTrigger, PlaybackStatus,
};
use tokio::sync::mpsc;

use super::create::Created;
use super::error::{ClientError, ConnectError};
use super::options::Connect;
use super::shell::Shell;
use crate::clock::Clock;
use crate::driver::{Handle, seed};
use crate::endpoint::OptionsError;

/// A session that comes back by itself. Clones share it; when the last is dropped, it is hung up.
#[derive(Debug, Clone)]
pub struct Session {
    id: String,
    handle: Handle<Shell>,
}

/// What happens in a session, from its beginning on. A reader that falls far behind loses the newest.
pub type Events = crate::Events<Event>;

impl Session {
    /// Creates a session, connects, and says what is on the screen; ready to be talked to. Must be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// There is no session; [`ConnectError::advice`] says what to do.
    pub async fn connect(connect: Connect) -> Result<(Self, Events), ConnectError> {
        let now = Clock::new().now();
        let Created { id, target, renewal } = Created::new(&connect, now).await?;
        let (backoff, settings) = (connect.backoff, connect.config);
        let silent = settings.silent;
        let mut config =
            ClientConfig { microphone: !silent, voice_consent: !silent, ..ClientConfig::new(&id) };
        config.backoff = backoff.unwrap_or(config.backoff);
        let mut machine = VipClient::new(config, seed());
        machine.show(settings.screen, now).map_err(|error| OptionsError::Settings(error.to_string()))?;
        let (events, told) = mpsc::channel(EVENTS);
        let shell = Shell { handlers: settings.handlers, silent, events, renewal };
        let handle = Handle::start(shell, machine, target, connect.first, State::NotConnected);
        handle.teller().tell(|shell, work| shell.renew(shell.renewal.after, work));
        handle.online().await?;
        Ok((Self { id, handle }, Events::new(told)))
    }

    /// The id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Who has the floor now.
    pub fn state(&self) -> State {
        self.handle.snapshot()
    }

    /// Waits until the session is in some state.
    ///
    /// # Errors
    /// The session is over.
    pub async fn until(&self, wanted: State) -> Result<(), ClientError> {
        let mut states = self.handle.watch();
        states.wait_for(|state| *state == wanted).await.map(drop).map_err(|_| ClientError::Over)
    }

    /// The user has typed something: a turn of its own, for which the system is interrupted if need be.
    ///
    /// # Errors
    /// Nobody reads now, or it is too long.
    pub async fn say(&self, text: impl Into<String>) -> Result<(), ClientError> {
        let text = text.into();
        self.ask(move |client, now| client.say(&text, now)).await
    }

    /// The user takes the floor, to speak.
    ///
    /// # Errors
    /// Not now, or there is no microphone.
    pub async fn listen(&self, trigger: InputStartTrigger) -> Result<(), ClientError> {
        self.ask(move |client, now| client.listen(trigger, now)).await
    }

    /// A packet from the microphone, which goes nowhere unless the user has the floor.
    ///
    /// # Errors
    /// The session is over.
    pub async fn hear(&self, audio: Bytes) -> Result<(), ClientError> {
        self.ask(move |client, now| {
            client.hear(&audio, now);
            Ok(())
        })
        .await
    }

    /// The user has finished.
    ///
    /// # Errors
    /// The user does not have the floor.
    pub async fn stop(&self, reason: InputEndReason) -> Result<(), ClientError> {
        self.ask(move |client, now| client.stop(reason, now)).await
    }

    /// The turn of the user never was.
    ///
    /// # Errors
    /// The user does not have the floor.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.ask(|client, now| client.cancel(InputCancelReason::User, now)).await
    }

    /// Stops the answer, and says nothing instead.
    ///
    /// # Errors
    /// There is none, or it cannot be interrupted.
    pub async fn quiet(&self) -> Result<(), ClientError> {
        self.ask(VipClient::quiet).await
    }

    /// Something else is on the screen; told as soon as the state allows it.
    ///
    /// # Errors
    /// It breaks a rule.
    pub async fn show(&self, screen: Value) -> Result<(), ClientError> {
        self.ask(move |client, now| client.show(screen, now)).await
    }

    /// The last of a response was heard, or cannot be played.
    ///
    /// # Errors
    /// More of it is to come, or nothing of it is played.
    pub async fn played_out(
        &self,
        response_id: impl Into<String>,
        played_ms: u64,
        status: PlaybackStatus,
    ) -> Result<(), ClientError> {
        let response_id = response_id.into();
        self.ask(move |client, now| client.played_out(&response_id, played_ms, status, now)).await
    }

    /// What came of an action that was told as [`Event::Execute`].
    ///
    /// # Errors
    /// There is no such call, or what is shown breaks a rule.
    pub async fn finish(
        &self,
        invocation_id: impl Into<String>,
        outcome: Outcome,
        screen: Option<Value>,
    ) -> Result<(), ClientError> {
        let invocation_id = invocation_id.into();
        self.ask(move |client, now| client.finish(&invocation_id, outcome, screen, now)).await
    }

    /// The user has decided what was told as [`Event::Ask`].
    ///
    /// # Errors
    /// Nobody asks that, or not any more.
    pub async fn decide(&self, invocation_id: impl Into<String>, agrees: bool) -> Result<(), ClientError> {
        let invocation_id = invocation_id.into();
        self.ask(move |client, now| client.decide(&invocation_id, agrees, now)).await
    }

    /// Ends the session. Done when it has ended.
    pub async fn hang_up(&self) {
        // If it is over already, that is fine.
        if self.ask(|client, now| client.hang_up(CloseReason::UserHangup, now)).await.is_ok() {
            self.handle.closed().await;
        }
    }

    async fn ask(
        &self,
        act: impl FnOnce(&mut VipClient, Timestamp) -> Result<(), CommandError> + Send + 'static,
    ) -> Result<(), ClientError> {
        let done = self.handle.ask(move |_, work| {
            let now = work.now();
            act(&mut work.machine, now)
        });
        Ok(done.await??)
    }
}

/// Events that may wait: a minute of audio, about.
const EVENTS: usize = 4096;
