//! The head of a response, before its records.

use std::time::Duration;

use hyper::StatusCode;
use switchboard_asp::relay::Format;
use tokio::sync::oneshot;

use super::invocation::Invocation;
use super::output::Output;
use super::records::Records;
use super::relay::{Relay, RelayError};
use super::run::Progress;

/// How to answer an invocation: with records at once, with records by push, or not at all.
#[derive(Debug)]
pub struct Reply {
    invocation: Invocation,
    progress: Progress,
    relay: Option<Relay>,
    format: Format,
    cpu_time: Option<Duration>,
    head: oneshot::Sender<Head>,
}

impl Reply {
    pub(super) fn new(
        invocation: Invocation,
        progress: Progress,
        relay: Option<Relay>,
        format: Format,
    ) -> (Self, oneshot::Receiver<Head>) {
        let (head, receiver) = oneshot::channel();
        (Self { invocation, progress, relay, format, cpu_time: None, head }, receiver)
    }

    /// Answers in this format.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Says how much processor time was used so far; what is known only later fits the metrics of an end.
    #[must_use]
    pub fn cpu_time(mut self, time: Duration) -> Self {
        self.cpu_time = Some(time);
        self
    }

    /// The relay, if it said how to call it.
    pub fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// Answers with records in the response: 200.
    pub fn records(self) -> Records {
        let (records, output) = Records::in_response(&self.invocation, self.format, self.progress);
        // Whoever does not listen any more makes the first record fail.
        let _ = self.head.send(Head::Records { output, cpu_time: self.cpu_time });
        records
    }

    /// Answers later, by push: 202. The function may take as long as the request has time.
    ///
    /// # Errors
    /// The relay did not say where to push; what was asked is answered with 500.
    pub fn later(self) -> Result<Records, RelayError> {
        let relay = self.relay.ok_or(RelayError::NotGranted)?;
        let _ = self.head.send(Head::Later);
        Ok(Records::by_push(&self.invocation, relay, self.progress))
    }

    /// Answers with nothing: 204.
    pub fn empty(self) {
        self.progress.end();
        let _ = self.head.send(Head::Empty);
    }

    /// Refuses with a status and words for people. The relay tries again after 408, 429, 502, 503 and 504.
    pub fn refuse(self, status: StatusCode, message: &str) {
        let _ = self.head.send(Head::Refused(status, message.to_owned()));
    }
}

/// What the response begins with.
#[derive(Debug)]
pub(super) enum Head {
    Records { output: Output, cpu_time: Option<Duration> },
    Later,
    Empty,
    Refused(StatusCode, String),
}
