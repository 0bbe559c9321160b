//! What one test logs, while the others log beside it.

use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::dispatcher::{DefaultGuard, Dispatch};
use tracing_subscriber::Registry;

use crate::config::TelemetryConfig;
use crate::telemetry;

/// What this thread has logged so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Writes down what this thread logs until the guard is dropped.
    pub(crate) fn start(config: &TelemetryConfig) -> (Self, DefaultGuard) {
        keep_everybody_interested();
        let captured = Self::default();
        let writer = captured.clone();
        let subscriber = telemetry::subscriber(config, move || writer.clone());
        (captured, tracing::subscriber::set_default(subscriber))
    }

    /// What was written down.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As long as there is a single subscriber, `tracing` asks the thread that comes by a log statement first
/// whether anybody wants it, and believes the answer for the whole process: another test, which captures
/// nothing, silences it. From the second one on it asks the subscribers themselves.
fn keep_everybody_interested() {
    static LISTENERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
    LISTENERS.get_or_init(|| [Dispatch::new(Registry::default()), Dispatch::new(Registry::default())]);
}
