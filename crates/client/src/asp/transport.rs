//! The upgrade of §2, and what a WebSocket means to the state machine.

use switchboard_asp::client::{Input, Refused};
use switchboard_asp::message::{ErrorBody, ErrorFrame, Secret};
use switchboard_asp::upgrade::{SUBPROTOCOL, bearer_entry};
use switchboard_asp::value::decode_json;
use tokio_tungstenite::tungstenite::http::Uri;

use super::options::{Bearer, Options, OptionsError};
use crate::socket::{DialError, Dialer, Incoming, Socket, Upgrade};

/// Where and how to dial.
#[derive(Clone)]
pub(super) struct Target {
    dialer: Dialer,
    uri: Uri,
    bearer: Bearer,
}

impl Target {
    pub(super) fn new(options: &Options) -> Result<Self, OptionsError> {
        let (endpoint, uri) = options.endpoint()?;
        // Whatever one frame may carry, several of them fit one message.
        let max_message = (options.config.max_payload as usize).saturating_mul(2).max(4 << 20);
        let dialer = Dialer::new(endpoint, &options.trust, options.dial_timeout, max_message)?;
        Ok(Self { dialer, uri, bearer: options.bearer })
    }

    /// Dials once.
    pub(super) async fn dial(self, token: Option<Secret>) -> Result<Socket, DialError> {
        let mut headers = Vec::new();
        let mut subprotocols = vec![SUBPROTOCOL.to_owned()];
        match (&token, self.bearer) {
            (None, _) => {}
            (Some(token), Bearer::Header) => {
                headers.push(("Authorization", format!("Bearer {}", token.expose())));
            }
            (Some(token), Bearer::Subprotocol) => subprotocols.push(bearer_entry(token.expose())),
        }
        let upgrade = Upgrade { uri: self.uri, headers, subprotocols, expected: Some(SUBPROTOCOL) };
        self.dialer.dial(upgrade).await
    }
}

/// What the state machine is told of a failure to dial.
pub(super) fn failure(error: &DialError) -> Input {
    match error {
        DialError::Refused { status, retry_after_ms, body } => Input::Refused(Refused {
            status: *status,
            retry_after_ms: *retry_after_ms,
            error: read_error(body),
        }),
        DialError::OtherProtocol => {
            Input::Refused(Refused { status: 101, retry_after_ms: None, error: None })
        }
        DialError::Timeout | DialError::Io(_) | DialError::Name | DialError::WebSocket(_) => {
            Input::Unreachable
        }
    }
}

/// The next report of the transport, if there is one.
pub(super) async fn next_input(socket: &mut Option<Socket>) -> Input {
    match socket {
        Some(socket) => input(socket.next().await),
        None => std::future::pending().await,
    }
}

fn input(incoming: Incoming) -> Input {
    match incoming {
        Incoming::Binary(message) => Input::Binary(message),
        Incoming::Text(_) => Input::Text,
        Incoming::Alive => Input::Alive,
        Incoming::Closed(code) => Input::Closed(code),
    }
}

/// The body of a failed upgrade: `{"error":{code,name,msg,retry,retry_ms?}}`.
fn read_error(body: &[u8]) -> Option<ErrorBody> {
    let body = decode_json(body).ok()?;
    match ErrorFrame::from_map(body.as_map()?.get("error")?.as_map()?.clone()) {
        ErrorFrame::Error(error) => Some(error),
        ErrorFrame::Complete(_) => None,
    }
}
