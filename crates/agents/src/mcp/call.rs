//! One call of a tool.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use switchboard_core::model::CallEnd;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::outcome::{answered, failed, refused, unavailable};
use super::tap::{Notices, ProgressSink};

/// A connection to a server that is ready.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) peer: Peer<RoleClient>,
    pub(super) notices: Arc<Notices>,
    /// Cancelled as soon as the server is known to be gone.
    gone: CancellationToken,
    slots: Arc<Semaphore>,
}

impl Link {
    pub(super) fn new(peer: Peer<RoleClient>, notices: Arc<Notices>, gone: CancellationToken) -> Self {
        Self { peer, notices, gone, slots: Arc::new(Semaphore::new(MAX_CALLS)) }
    }

    /// Whether calls are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.slots.available_permits() < MAX_CALLS
    }

    /// Calls a tool by the name that the server gives it. Dropping the future cancels the call.
    pub(super) async fn call(
        &self,
        tool: String,
        args: Value,
        patience: Duration,
        progress: impl FnMut(String) + Send,
    ) -> CallEnd {
        let mut params = CallToolRequestParams::new(tool);
        match args {
            Value::Object(args) => params.arguments = Some(args),
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return failed("invalid_parameters", "the arguments are not an object");
            }
        }
        tokio::select! {
            biased;
            end = self.exchange(params, progress) => match end {
                Ok(result) => answered(result),
                Err(error) => {
                    if !matches!(error, ServiceError::McpError(_)) {
                        self.notices.suspicion.notify_one();
                    }
                    refused(error)
                }
            },
            () = self.gone.cancelled() => unavailable(),
            () = sleep(patience) => {
                self.notices.suspicion.notify_one();
                CallEnd::TimedOut
            }
        }
    }

    async fn exchange(
        &self,
        params: CallToolRequestParams,
        mut progress: impl FnMut(String) + Send,
    ) -> Result<rmcp::model::ServerResult, ServiceError> {
        let _slot = self.slots.acquire().await.map_err(|_| ServiceError::TransportClosed)?;
        let (sink, mut told) = mpsc::channel(MAX_PROGRESS);
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(ProgressSink(sink));
        let request = ClientRequest::CallToolRequest(request);
        let handle = self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await?;
        let mut pending = Pending(Some(handle));
        let answer = loop {
            tokio::select! {
                biased;
                Some(words) = told.recv() => progress(words),
                answer = pending.answer() => break answer,
            }
        };
        // What was told before the answer came is in the channel by now.
        while let Ok(words) = told.try_recv() {
            progress(words);
        }
        answer
    }
}

/// A request that has not been answered; the server is told when nobody waits for it any more.
#[derive(Debug)]
struct Pending(Option<RequestHandle<RoleClient>>);

impl Pending {
    async fn answer(&mut self) -> Result<rmcp::model::ServerResult, ServiceError> {
        let answer = match &mut self.0 {
            Some(handle) => (&mut handle.rx).await,
            None => return Err(ServiceError::TransportClosed),
        };
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some((handle, runtime)) = self.0.take().zip(Handle::try_current().ok()) {
            let cancel = handle.cancel(Some("nobody waits for the result any more".to_owned()));
            runtime.spawn(timeout(CANCEL_PATIENCE, cancel));
        }
    }
}

/// How many calls of one server may be under way; others wait for their turn.
const MAX_CALLS: usize = 64;
const MAX_PROGRESS: usize = 16;
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
