//! Where a recorder writes: one entry after the other, whichever connection it comes from.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message as Frame;

use crate::clock;
use crate::recording::message::Dialect;
use crate::recording::secrets::Secrets;
use crate::recording::{Entry, FORMAT, Goodbye, Header, Kind, MAX_FILE, Request, Side, What};

/// The file that is being written.
pub(super) struct Tape {
    begun: Instant,
    origin: String,
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    secrets: Secrets,
    dialects: BTreeMap<u32, Dialect>,
    entries: u64,
    bytes: u64,
    problem: Option<String>,
}

impl Tape {
    pub(super) fn new(out: Box<dyn Write + Send>, origin: String) -> Self {
        let state = State {
            out,
            secrets: Secrets::default(),
            dialects: BTreeMap::new(),
            entries: 0,
            bytes: 0,
            problem: None,
        };
        Self { begun: Instant::now(), origin, state: Mutex::new(state) }
    }

    /// Notes the beginning of a connection; answers its number.
    pub(super) fn begin(&self, request: Request, authority: Option<&str>) -> u32 {
        let mut state = self.state();
        let dialect = Dialect::of(&request);
        let on = u32::try_from(state.dialects.len() + 1).unwrap_or(u32::MAX);
        if on == 1 {
            let header = Header {
                recording: FORMAT,
                kind: Kind::Wire,
                protocol: dialect.name().to_owned(),
                origin: self.origin.clone(),
                recorded_at: clock::utc(clock::now()),
                session: None,
            };
            state.line(serde_json::to_string(&header));
        }
        if let Some(authority) = authority {
            state.secrets.address(authority);
        }
        state.dialects.insert(on, dialect);
        self.write(&mut state, on, Side::Client, What::Request(request));
        on
    }

    /// Notes what one side of a connection sent.
    pub(super) fn note(&self, on: u32, from: Side, what: What) {
        self.write(&mut self.state(), on, from, what);
    }

    /// The same for a message of a WebSocket; pings are no part of a conversation.
    pub(super) fn message(&self, on: u32, from: Side, frame: &Frame) {
        let what = match frame {
            Frame::Text(text) => What::Text(text.to_string()),
            Frame::Binary(bytes) => What::Binary(STANDARD.encode(bytes)),
            Frame::Close(goodbye) => What::Close(Goodbye {
                code: goodbye.as_ref().map_or(NO_STATUS, |goodbye| goodbye.code.into()),
                reason: goodbye.as_ref().map(|goodbye| goodbye.reason.to_string()).unwrap_or_default(),
            }),
            Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_) => return,
        };
        self.note(on, from, what);
    }

    /// How much was written, and what went wrong.
    pub(super) fn finish(&self) -> (usize, u64, Option<String>) {
        let mut state = self.state();
        if let Err(error) = state.out.flush() {
            state.problem.get_or_insert_with(|| error.to_string());
        }
        (state.dialects.len(), state.entries, state.problem.take())
    }

    fn write(&self, state: &mut State, on: u32, from: Side, mut what: What) {
        let dialect = state.dialects.get(&on).copied().unwrap_or(Dialect::Other);
        state.secrets.hide(dialect, from, &mut what);
        let at = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        state.entries += 1;
        state.line(serde_json::to_string(&Entry { at, on, from, what }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn line(&mut self, line: serde_json::Result<String>) {
        if self.problem.is_some() {
            return;
        }
        let written = line.map_err(|error| error.to_string()).and_then(|line| {
            self.bytes += line.len() as u64 + 1;
            if self.bytes > MAX_FILE {
                return Err(format!("the recording is full: it may have {} MiB", MAX_FILE >> 20));
            }
            // A recorder may be killed at any time; what was said before is kept.
            let whole = self.out.write_all(line.as_bytes()).and_then(|()| self.out.write_all(b"\n"));
            whole.and_then(|()| self.out.flush()).map_err(|error| error.to_string())
        });
        self.problem = written.err();
    }
}

/// A close frame without a code.
const NO_STATUS: u16 = 1005;
