//! How to connect over AIP.

use std::fmt;

use switchboard_aip::client::{Handlers, Message, Middleware, Pipeline, Refused, Times};

use crate::connect::Socket;
use crate::endpoint::OptionsError;
use crate::socket::Target;

/// How to connect, and what looks at the messages; a URL may have a path before `/ws`.
pub type Connect = crate::Connect<Settings>;

/// What only AIP knows; see the methods of [`Connect`].
#[derive(Debug, Default)]
pub struct Settings {
    middleware: Vec<Step>,
}

/// A step that is still to be added.
struct Step(Box<dyn FnOnce(&mut Pipeline) + Send>);

impl fmt::Debug for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Step(…)")
    }
}

impl Connect {
    /// Puts a step on the way of every message, closer to the server than those before.
    #[must_use]
    pub fn middleware(mut self, step: impl Middleware + 'static) -> Self {
        self.config.middleware.push(Step(Box::new(move |pipeline| pipeline.add(step))));
        self
    }

    /// Calls these for every message of the server that steps closer to it let pass. They hear of it
    /// before the client acts on it, and must be quick.
    #[must_use]
    pub fn handlers(self, handlers: Handlers) -> Self {
        self.middleware(Dispatch(handlers))
    }

    pub(super) fn add_middleware(&mut self, pipeline: &mut Pipeline) {
        for Step(add) in self.config.middleware.drain(..) {
            add(pipeline);
        }
    }

    /// Pauses as asked for, between attempts to connect.
    pub(super) fn pace(&self, times: &mut Times) {
        if let Some(backoff) = &self.backoff {
            (times.reconnect.initial, times.reconnect.max) = (backoff.first(), backoff.most());
        }
    }

    pub(super) fn socket(&self) -> Result<Target, OptionsError> {
        self.target(&SOCKET)
    }
}

/// Tells handlers of what comes in.
#[derive(Debug)]
struct Dispatch(Handlers);

impl Middleware for Dispatch {
    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        for error in self.0.dispatch(&message).failures {
            tracing::warn!(%error, "a handler failed");
        }
        Ok(message)
    }
}

const SOCKET: Socket = Socket { path: "/ws", subprotocol: None, bearer: None, max_message: 100 << 20 };
