//! The socket of a client, and the attempts to have one.

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::error::Cause;
use super::options::{Options, OptionsError};
use crate::socket::{DialError, Dialer, Incoming, Socket, Upgrade, sleep_until};

/// At most one socket, or one attempt.
pub(super) struct Wire {
    dialer: Dialer,
    upgrade: Upgrade,
    socket: Option<Socket>,
    /// At most one attempt; dropped, it is given up.
    dialing: JoinSet<Result<Socket, DialError>>,
    farewells: JoinSet<()>,
    /// The server does not want to be asked before.
    not_before: Option<Instant>,
}

/// What there is to know.
pub(super) enum Report {
    Opened,
    /// The attempt failed.
    Failed(Cause),
    Message(Bytes),
    Closed(Option<u16>),
}

impl Wire {
    pub(super) fn new(options: &Options) -> Result<Self, OptionsError> {
        let (endpoint, upgrade) = options.upgrade()?;
        Ok(Self {
            dialer: Dialer::new(endpoint, &options.trust, options.dial_timeout, MAX_MESSAGE)?,
            upgrade,
            socket: None,
            dialing: JoinSet::new(),
            farewells: JoinSet::new(),
            not_before: None,
        })
    }

    /// Begins an attempt; its end is reported.
    pub(super) fn dial(&mut self) {
        let (dialer, upgrade) = (self.dialer.clone(), self.upgrade.clone());
        let not_before = self.not_before.take();
        self.dialing.spawn(async move {
            if not_before.is_some() {
                sleep_until(not_before).await;
            }
            dialer.dial(upgrade).await
        });
    }

    pub(super) fn send(&mut self, message: String) {
        if let Some(socket) = &mut self.socket {
            socket.send_text(message);
        }
    }

    /// Closes the socket or gives up the attempt; nothing more is reported of it.
    pub(super) fn close(&mut self, code: u16) {
        self.dialing = JoinSet::new();
        if let Some(socket) = self.socket.take() {
            self.farewells.spawn(socket.close(code));
        }
    }

    /// Whether much waits to be written.
    pub(super) fn is_full(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| socket.backlog() >= MAX_BACKLOG)
    }

    /// The next report; may be dropped at any time without loss.
    pub(super) async fn next(&mut self) -> Report {
        loop {
            tokio::select! {
                Some(dialed) = self.dialing.join_next() => return match dialed {
                    Ok(Ok(socket)) => {
                        self.socket = Some(socket);
                        Report::Opened
                    }
                    Ok(Err(error)) => {
                        let cause = Cause::from(error);
                        self.not_before = cause.retry_after().map(|wait| Instant::now() + wait);
                        Report::Failed(cause)
                    }
                    // Nothing in it panics, and whoever gives it up forgets it.
                    Err(error) => Report::Failed(Cause::Unreachable(error.to_string())),
                },
                incoming = next(&mut self.socket) => match incoming {
                    Incoming::Binary(message) | Incoming::Text(message) => return Report::Message(message),
                    Incoming::Alive => {}
                    Incoming::Closed(code) => {
                        if let Some(socket) = self.socket.take() {
                            self.farewells.spawn(socket.finish());
                        }
                        return Report::Closed(code);
                    }
                },
                Some(_) = self.farewells.join_next() => {}
            }
        }
    }

    /// Waits until every goodbye is said.
    pub(super) async fn finish(&mut self) {
        while self.farewells.join_next().await.is_some() {}
    }
}

async fn next(socket: &mut Option<Socket>) -> Incoming {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

/// Bytes that may wait to be written before callers wait, too.
const MAX_BACKLOG: usize = 4 << 20;
/// What the protocol allows (§2.1).
const MAX_MESSAGE: usize = 100 << 20;
