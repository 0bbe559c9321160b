//! The body of a response.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;

use super::sse::{MAX_EVENT_BYTES, SseParser};

/// The body of a response: a stream of events, or one whole answer from an endpoint that does not
/// stream.
pub(super) struct Source {
    response: Response,
    events: Option<SseParser>,
    whole: Vec<u8>,
}

/// Whether anything may follow.
pub(super) enum More {
    Yes,
    No,
}

/// Why nothing follows that was expected.
pub(super) enum Broken {
    Silent,
    Transport(reqwest::Error),
    Format(String),
}

impl Source {
    pub(super) fn new(response: Response) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let whole = kind.is_some_and(|kind| kind.starts_with("application/json"));
        Self { response, events: (!whole).then(SseParser::default), whole: Vec::new() }
    }

    /// Waits for more, and adds the events that it completes. Nothing is lost when it is dropped.
    pub(super) async fn read(&mut self, events: &mut Vec<String>) -> Result<More, Broken> {
        let bytes = self.response.chunk().await.map_err(Broken::Transport)?;
        let broken = |problem: &dyn ToString| Broken::Format(problem.to_string());
        match (&mut self.events, bytes) {
            (Some(parser), Some(bytes)) => {
                parser.feed(&bytes, events).map_err(|error| broken(&error))?;
                Ok(More::Yes)
            }
            (Some(parser), None) => {
                parser.finish(events).map_err(|error| broken(&error))?;
                Ok(More::No)
            }
            (None, Some(bytes)) if self.whole.len() + bytes.len() > MAX_EVENT_BYTES => {
                Err(broken(&"it is too long"))
            }
            (None, Some(bytes)) => {
                self.whole.extend_from_slice(&bytes);
                Ok(More::Yes)
            }
            (None, None) => {
                let whole = String::from_utf8(std::mem::take(&mut self.whole));
                events.push(whole.map_err(|_| broken(&"it is not UTF-8"))?);
                Ok(More::No)
            }
        }
    }

    /// Reads the little that follows the answer, so that the connection can be used again.
    pub(super) async fn drain(mut self) {
        let _ = timeout(DRAIN_TIME, async { while let Ok(Some(_)) = self.response.chunk().await {} }).await;
    }
}

/// How long the end of a stream may take.
const DRAIN_TIME: Duration = Duration::from_millis(100);
