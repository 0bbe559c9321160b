//! Everything between a server and the MCP library passes here.
//!
//! Notifications are dealt with and go no further: the library would start a task for each of them,
//! however many there are, and write their content to the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, ProgressNotificationParam, ProgressToken,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use tokio::sync::{Notify, mpsc};
use tracing::debug;

/// A transport whose notifications end up in [`Notices`].
#[derive(Debug)]
pub(super) struct Tap<T> {
    inner: T,
    notices: Arc<Notices>,
    /// Requests of the server that have not been answered.
    unanswered: Arc<AtomicUsize>,
}

/// What a connection has been told beside answers.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// The server says that its tools have changed.
    pub(super) tools_changed: Notify,
    /// Something suggests that the server may be gone.
    pub(super) suspicion: Notify,
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<String>>>,
}

/// Travels with a request, up to where it is sent; takes the progress that is reported about it.
#[derive(Clone, Debug)]
pub(super) struct ProgressSink(pub(super) mpsc::Sender<String>);

impl<T> Tap<T> {
    pub(super) fn new(inner: T, notices: Arc<Notices>) -> Self {
        Self { inner, notices, unanswered: Arc::default() }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Request(request) => {
                let sink = request.request.extensions().get::<ProgressSink>();
                if let Some((sink, token)) = sink.zip(request.request.get_meta().get_progress_token()) {
                    self.notices.follow(token, sink);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                self.unanswered.fetch_sub(1, Ordering::Relaxed);
            }
            JsonRpcMessage::Notification(_) => {}
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.inner.receive().await? {
                JsonRpcMessage::Notification(message) => self.notices.take(message.notification),
                // Nothing is offered to servers that they could have so much to ask about.
                JsonRpcMessage::Request(_)
                    if self.unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_UNANSWERED =>
                {
                    debug!("a server asks more than it lets be answered");
                    return None;
                }
                message @ (JsonRpcMessage::Request(_)
                | JsonRpcMessage::Response(_)
                | JsonRpcMessage::Error(_)) => {
                    return Some(message);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

impl Notices {
    fn follow(&self, token: ProgressToken, sink: &ProgressSink) {
        let mut progress = self.progress.lock();
        progress.retain(|_, sink| !sink.is_closed());
        progress.insert(token, sink.0.clone());
    }

    fn take(&self, notification: ServerNotification) {
        if let ServerNotification::ToolListChangedNotification(_) = notification {
            self.tools_changed.notify_one();
        } else if let ServerNotification::ProgressNotification(notification) = notification {
            let told = words(&notification.params);
            if let Some(sink) = self.progress.lock().get(&notification.params.progress_token) {
                // Who does not keep up misses some of it.
                let _ = sink.try_send(told);
            }
        }
    }
}

fn words(progress: &ProgressNotificationParam) -> String {
    match (&progress.message, progress.total) {
        (Some(message), _) => message.chars().take(MAX_PROGRESS_CHARS).collect(),
        (None, Some(total)) => format!("{}/{total}", progress.progress),
        (None, None) => progress.progress.to_string(),
    }
}

const MAX_UNANSWERED: usize = 32;
const MAX_PROGRESS_CHARS: usize = 1024;

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;
    use serde_json::json;

    use super::*;

    fn notification(value: serde_json::Value) -> ServerNotification {
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn progress_reaches_whoever_follows_it_and_nobody_else() {
        let notices = Notices::default();
        let (sender, mut receiver) = mpsc::channel(2);
        notices.follow(ProgressToken(NumberOrString::Number(7)), &ProgressSink(sender));
        for (token, message) in [(7, "one"), (8, "stray"), (7, "two"), (7, "too many")] {
            let params = json!({ "progressToken": token, "progress": 1, "message": message });
            notices.take(notification(json!({ "method": "notifications/progress", "params": params })));
        }
        assert_eq!(receiver.recv().await.unwrap(), "one");
        assert_eq!(receiver.recv().await.unwrap(), "two");
        assert!(receiver.try_recv().is_err());
        drop(receiver);
        let (sender, _receiver) = mpsc::channel(2);
        notices.follow(ProgressToken(NumberOrString::Number(9)), &ProgressSink(sender));
        assert_eq!(notices.progress.lock().len(), 1);
    }

    #[test]
    fn progress_without_words_is_told_in_numbers() {
        let mut progress = ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(1)), 2.0);
        assert_eq!(words(&progress), "2");
        progress.total = Some(8.0);
        assert_eq!(words(&progress), "2/8");
        progress.message = Some("m".repeat(2000));
        assert_eq!(words(&progress).len(), 1024);
    }
}
