//! An agent that lives behind an HTTP endpoint: a serverless function, with this server as its socket.
//!
//! ```text
//! turn ─▶ Function ── signed POST ──▶ function
//!           │  ▲                        │
//!           │  ├── streamed records ◀───┤
//!           │  └── Relay ◀── pushes ◀───┘   cancelled?, answers
//!           ▼
//!        Turn::emit, request …
//! ```
//! What a request looks like and what may come back is ASP's Relay Mode (section 14 of its reference);
//! whoever asks may speak any protocol.

mod breaker;
mod config;
mod exchange;
mod guard;
mod keys;
mod octets;
mod relay;
mod request;
mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use switchboard_asp::relay::{Event, Invocation};
use switchboard_core::Timestamp;
use switchboard_core::model::{FailureKind, Standby, TurnEnd};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agent::{Agent, AgentError, Condition, Visit};
use crate::turn::Turn;
use breaker::Breaker;
use request::{Beside, Endpoint};
use work::Work;

pub use config::{FunctionConfig, FunctionError};
pub use keys::RelayKey;
pub use relay::{Grant, PushRefused, Relay};

/// Passes turns on to a function.
#[derive(Debug)]
pub struct Function {
    config: FunctionConfig,
    endpoint: Endpoint,
    relay: Arc<Relay>,
    breaker: Breaker,
    places: Arc<Semaphore>,
}

impl Function {
    /// An agent that asks the configured function. Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system has no usable TLS.
    pub fn new(config: FunctionConfig, relay: Arc<Relay>) -> Result<Arc<Self>, FunctionError> {
        let endpoint = Endpoint::new(&config)?;
        let breaker = Breaker::new(config.breaker_failures, Duration::from_millis(config.breaker_ms));
        let places = Arc::new(Semaphore::new(config.concurrency.min(Semaphore::MAX_PERMITS)));
        Ok(Arc::new(Self { config, endpoint, relay, breaker, places }))
    }

    /// Waits until the function has room for one more turn.
    async fn place(&self, turn: &Turn) -> Result<OwnedSemaphorePermit, AgentError> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        turn.stand_by(Standby::Queued).await?;
        tokio::select! {
            place = self.places.clone().acquire_owned() => place.map_err(|_| AgentError::Over),
            () = turn.interrupted() => Err(AgentError::Over),
        }
    }

    /// Tells the function something that it need not answer.
    fn tell(self: &Arc<Self>, invocation: Invocation, now: Timestamp) {
        let function = self.clone();
        // Whoever is dropped outside of a runtime has nobody left to tell.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let request = function.endpoint.request(&invocation, &Beside::default(), &function.relay, now);
            if let Err(error) = request.timeout(TELL_TIME).send().await {
                tracing::debug!(
                    event = invocation.event.name(),
                    timeout = error.is_timeout(),
                    "a function was not told"
                );
            }
        });
    }

    fn tell_of_visit(self: &Arc<Self>, event: Event, visit: &Visit, now: Timestamp) {
        if !self.config.presence {
            return;
        }
        // A function takes what has an id that it knows for a repetition, also after a restart of the server.
        let inv = format!("{}_{}_{}", event.name(), visit.connection, now.as_micros());
        let mut invocation = Invocation::new(event, visit.connection.to_string(), 0, inv);
        invocation.session = Some(visit.session.to_string());
        invocation.sent_at = Some(now.as_micros() / 1_000);
        invocation.principal = Some(request::principal(&visit.principal));
        self.tell(invocation, now);
    }
}

#[async_trait]
impl Agent for Arc<Function> {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        if let Err(pause) = self.breaker.admit(turn.now()) {
            let seconds = pause.as_secs().max(1);
            let message = format!("the function has failed repeatedly and is left alone for {seconds} s");
            return Err(AgentError::failed(FailureKind::Unreachable, message));
        }
        let _place = self.place(turn).await?;
        Work::new(self.clone(), turn).run().await
    }

    fn kind(&self) -> &'static str {
        "function"
    }

    fn condition(&self, now: Timestamp) -> Condition {
        if self.breaker.is_open(now) {
            Condition::Unavailable("it has failed repeatedly and is left alone for a while".to_owned())
        } else {
            Condition::Ready
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn came(&self, visit: &Visit, now: Timestamp) {
        self.tell_of_visit(Event::Connect, visit, now);
    }

    fn left(&self, visit: &Visit, now: Timestamp) {
        self.tell_of_visit(Event::Disconnect, visit, now);
    }
}

/// How long a function may take to hear what it need not answer.
const TELL_TIME: Duration = Duration::from_secs(2);
