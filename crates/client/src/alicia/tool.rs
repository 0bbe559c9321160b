//! Tools that this client runs, and those that run.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use switchboard_alicia::Id;
use switchboard_core::Pii;
use tokio::task::{AbortHandle, JoinSet};

use switchboard_alicia::client::{ConversationKey, ToolOutcome, ToolRun};

/// A tool that is to be run.
#[derive(Clone, PartialEq)]
pub struct ToolCall {
    /// The request.
    pub id: Id,
    /// The assistant message that needs it.
    pub message: Id,
    /// The tool.
    pub name: String,
    /// Its arguments, an object.
    pub parameters: Value,
    /// How long it may take; the client sees to it.
    pub budget: Duration,
}

/// Does not show the arguments.
impl fmt::Debug for ToolCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ToolCall")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Why a tool failed; the assistant reads it.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum ToolFailure {
    /// Its arguments are wrong.
    #[error("{0}")]
    Invalid(String),
    /// It failed, possibly with a part of what it was to give.
    #[error("{message}")]
    Failed {
        /// What happened.
        message: String,
        /// What there is.
        partial: Option<Value>,
    },
}

/// Shows none of what there is.
impl fmt::Debug for ToolFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invalid(_) => "Invalid(…)",
            Self::Failed { .. } => "Failed(…)",
        })
    }
}

impl ToolFailure {
    /// A failure without a part of a result.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), partial: None }
    }

    /// Wrong arguments.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

/// Runs a tool.
#[derive(Clone)]
pub(super) struct Handler(
    Arc<dyn Fn(ToolCall) -> BoxFuture<'static, Result<Value, ToolFailure>> + Send + Sync>,
);

impl Handler {
    pub(super) fn new<F, R>(handler: F) -> Self
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
    {
        Self(Arc::new(move |call| Box::pin(handler(call))))
    }

    /// Runs it to its end, whatever happens.
    async fn run(self, call: ToolCall) -> ToolOutcome {
        let failed = |message: String, partial| ToolOutcome::Failed { message: Pii(message), partial };
        // Also what a tool does before its first await may panic.
        let ran = AssertUnwindSafe(async move { (self.0)(call).await }).catch_unwind().await;
        match ran {
            Ok(Ok(value)) => match value.try_into() {
                Ok(value) => ToolOutcome::Done(value),
                Err(_) => failed("the result cannot be sent".to_owned(), None),
            },
            Ok(Err(ToolFailure::Invalid(message))) => ToolOutcome::Invalid(Pii(message)),
            Ok(Err(ToolFailure::Failed { message, partial })) => {
                failed(message, partial.and_then(|partial| partial.try_into().ok()))
            }
            Err(_) => failed("the tool broke".to_owned(), None),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handler(…)")
    }
}

/// The tools of all conversations, and those that run. The state machine keeps their time.
#[derive(Default)]
pub(super) struct Workshop {
    handlers: BTreeMap<(ConversationKey, String), Handler>,
    tasks: JoinSet<Done>,
    running: BTreeMap<(ConversationKey, Id), AbortHandle>,
}

/// A tool that has run.
pub(super) struct Done {
    pub(super) conversation: ConversationKey,
    pub(super) request: Id,
    pub(super) outcome: ToolOutcome,
}

impl Workshop {
    pub(super) fn add(&mut self, conversation: ConversationKey, name: String, handler: Handler) {
        self.handlers.insert((conversation, name), handler);
    }

    pub(super) fn start(&mut self, conversation: ConversationKey, run: ToolRun) {
        let handler = self.handlers.get(&(conversation, run.name.clone())).cloned();
        let request = run.id.clone();
        let key = (conversation, run.id.clone());
        let call = ToolCall {
            id: run.id,
            message: run.message,
            name: run.name,
            parameters: serde_json::to_value(&run.parameters.0).unwrap_or_default(),
            budget: Duration::from_millis(run.budget_ms.into()),
        };
        let task = self.tasks.spawn(async move {
            let outcome = match handler {
                Some(handler) => handler.run(call).await,
                None => ToolOutcome::Failed { message: Pii("nobody runs it".to_owned()), partial: None },
            };
            Done { conversation, request, outcome }
        });
        self.running.insert(key, task);
    }

    /// Its outcome is not wanted any more.
    pub(super) fn stop(&mut self, conversation: ConversationKey, request: Id) {
        if let Some(task) = self.running.remove(&(conversation, request)) {
            task.abort();
        }
    }

    /// The conversation is over.
    pub(super) fn forget(&mut self, conversation: ConversationKey) {
        self.handlers.retain(|(of, _), _| *of != conversation);
    }

    /// The next one that is done; none while nothing runs. May be dropped at any time.
    pub(super) async fn next(&mut self) -> Option<Done> {
        loop {
            // Those that were stopped have nothing to say.
            if let Ok(done) = self.tasks.join_next().await? {
                self.running.remove(&(done.conversation, done.request.clone()));
                return Some(done);
            }
        }
    }

    /// Stops everything and waits until it has.
    pub(super) async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }
}
