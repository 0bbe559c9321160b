//! A raw client that costs as little as possible, so that the server is what is measured.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_alicia::message::{Configuration, UserMessage};
use switchboard_alicia::{AliciaLimits, Body, Decoded, Dialect, Envelope, Id, Side, decode, encode};
use switchboard_core::Pii;
use tokio_tungstenite::tungstenite::Message;

use crate::bench::peer::{Socket, open_socket};
use crate::bench::servers::micros;

/// One connection.
pub(super) struct Client {
    socket: Socket,
    limits: AliciaLimits,
    stanza: i32,
}

/// An envelope, and when it came.
pub(super) struct Received {
    /// In microseconds since the Unix epoch.
    pub(super) at: u64,
    pub(super) envelope: Envelope,
}

impl Client {
    pub(super) async fn connect(address: &str) -> anyhow::Result<Self> {
        let socket = open_socket(address, PATH, None).await.context("no Alicia at /api/v1/ws")?;
        Ok(Self { socket, limits: AliciaLimits::default(), stanza: 0 })
    }

    /// Begins a conversation, or goes on with one from this mark; answers its id and the newest stanza.
    pub(super) async fn configure(
        &mut self,
        conversation: Option<Id>,
        mark: Option<i32>,
    ) -> anyhow::Result<(Id, i32)> {
        self.send(conversation, configuration(mark)).await?;
        let answer = self.until(|body| matches!(body, Body::Configuration(_))).await?;
        let Body::Configuration(configuration) = answer.body else { bail!("no configuration") };
        let head = i32::try_from(configuration.last_sequence_seen.unwrap_or_default())?;
        Ok((answer.conversation_id.context("a conversation without an id")?, head))
    }

    /// Says something; the answer is to be received.
    pub(super) async fn say(&mut self, conversation: &Id, text: &str) -> anyhow::Result<()> {
        let id =
            Id::new(format!("am_{conversation}_{}", self.stanza)).map_err(|_| anyhow::anyhow!("no id"))?;
        let message = UserMessage {
            id,
            previous_id: None,
            content: Pii(text.to_owned()),
            timestamp: None,
            superset: None,
        };
        self.send(Some(conversation.clone()), message).await
    }

    pub(super) async fn send(
        &mut self,
        conversation: Option<Id>,
        body: impl Into<Body>,
    ) -> anyhow::Result<()> {
        self.stanza += 1;
        let envelope = Envelope::new(conversation, body).numbered(self.stanza);
        Ok(self.socket.send(Message::Binary(encode(&envelope))).await?)
    }

    /// The next envelope that is no error.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Received> {
        let bytes = tokio::time::timeout(PATIENCE, self.next_message()).await.context("silence")??;
        let at = micros();
        let mut decoded = decode(&bytes, Side::Server, Dialect::Full, &self.limits);
        ensure!(decoded.len() == 1, "{} envelopes in one message", decoded.len());
        let Decoded::Full { envelope, .. } = decoded.remove(0)? else {
            bail!("an envelope of another profile")
        };
        if let Body::ErrorMessage(error) = &envelope.body {
            bail!("error {}: {}", error.code, error.message.0);
        }
        Ok(Received { at, envelope: *envelope })
    }

    /// The next envelope of some kind; those before it are overlooked.
    pub(super) async fn until(&mut self, wanted: impl Fn(&Body) -> bool) -> anyhow::Result<Envelope> {
        loop {
            let received = self.receive().await?;
            if wanted(&received.envelope.body) {
                return Ok(received.envelope);
            }
        }
    }

    async fn next_message(&mut self) -> anyhow::Result<Bytes> {
        loop {
            match self.socket.next().await.context("the connection ended")?? {
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// The handshake of somebody who streams.
pub(super) fn configuration(mark: Option<i32>) -> Configuration {
    Configuration {
        last_sequence_seen: mark.map(i64::from),
        client_version: None,
        preferred_language: None,
        device: None,
        features: Some(vec!["streaming".to_owned()]),
    }
}

pub(in crate::bench) const PATH: &str = "/api/v1/ws";
const PATIENCE: Duration = Duration::from_secs(60);
