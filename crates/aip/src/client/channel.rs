//! The core protocol: messages on their way to the transport and back.

use serde_json::Value;

use super::{Dispatched, Handlers, Pipeline, Refused};
use crate::codec::{DecodeError, decode_client, decode_server, encode_client, encode_server};
use crate::message::{ClientMessage, ServerMessage, TaskStatus};

/// A message of either side, as middleware and handlers see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// From a client.
    Client(ClientMessage),
    /// From a server.
    Server(ServerMessage),
}

impl Message {
    /// Its type, as it is written.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Client(message) => message.kind.as_str(),
            Self::Server(message) => message.kind.as_str(),
        }
    }

    /// Its status.
    pub const fn status(&self) -> TaskStatus {
        match self {
            Self::Client(message) => message.status,
            Self::Server(message) => message.status,
        }
    }

    /// The session it is about.
    pub fn session_id(&self) -> Option<&str> {
        match self {
            Self::Client(message) => message.session_id.as_deref(),
            Self::Server(message) => message.session_id.as_deref(),
        }
    }

    /// What its sender calls it.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Client(message) => message.request_id.as_deref(),
            Self::Server(message) => message.response_id.as_deref(),
        }
    }

    /// As it travels.
    pub fn encode(&self) -> String {
        match self {
            Self::Client(message) => encode_client(message),
            Self::Server(message) => encode_server(message),
        }
    }

    /// A field of the free-form part; servers have none.
    pub fn metadata(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Client(message) => message.metadata.as_ref()?.get(key),
            Self::Server(_) => None,
        }
    }
}

impl From<ClientMessage> for Message {
    fn from(message: ClientMessage) -> Self {
        Self::Client(message)
    }
}

impl From<ServerMessage> for Message {
    fn from(message: ServerMessage) -> Self {
        Self::Server(message)
    }
}

/// Middleware and handlers around one kind of traffic. Several may share a transport; each has its
/// own. Binary transfers do not come by here.
#[derive(Debug, Default)]
pub struct Channel {
    /// What looks at every message.
    pub middleware: Pipeline,
    /// What is done about received messages.
    pub handlers: Handlers,
}

impl Channel {
    /// What to hand to the transport, after the middleware has seen it.
    ///
    /// # Errors
    /// Middleware refused it; nothing is to be sent.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<String, Refused> {
        Ok(self.middleware.outgoing(message.into())?.encode())
    }

    /// What a server said, after the middleware has seen it.
    ///
    /// # Errors
    /// It cannot be read, or middleware refused it.
    pub fn receive_from_server(&mut self, text: &str) -> Result<Message, ReceiveError> {
        let message = decode_server(text)?;
        Ok(self.middleware.incoming(message.into())?)
    }

    /// What a client said, after the middleware has seen it.
    ///
    /// # Errors
    /// It cannot be read, or middleware refused it.
    pub fn receive_from_client(&mut self, text: &str) -> Result<Message, ReceiveError> {
        let message = decode_client(text)?;
        Ok(self.middleware.incoming(message.into())?)
    }

    /// Runs the handlers of the message's type.
    pub fn dispatch(&mut self, message: &Message) -> Dispatched {
        self.handlers.dispatch(message)
    }
}

/// Why a received text is not handed on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// It cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Middleware refused it.
    #[error(transparent)]
    Refused(#[from] Refused),
}
