//! Recordings of sessions: files with one JSON object per line, which a person can read and change.
//!
//! The first line is a [`Header`]. Of a wire recording every other line is an [`Entry`]; of a log
//! recording it is an event of the session, and the last one says what the events lead to.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use switchboard_core::{Committed, SessionId};

use crate::failure::Failure;

pub(crate) mod message;
pub(crate) mod placeholder;
pub(crate) mod secrets;
pub(crate) mod state;
pub(crate) mod target;

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// What this file is, and in which version of the format.
    pub(crate) recording: u32,
    /// What it is a recording of.
    pub(crate) kind: Kind,
    /// The protocol that is spoken first, or through which the first turn came.
    pub(crate) protocol: String,
    /// Where it was recorded.
    pub(crate) origin: String,
    /// When, in UTC.
    pub(crate) recorded_at: String,
    /// The session, of a log recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<SessionId>,
}

/// What a recording is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// What went over the wire.
    Wire,
    /// The events of a session.
    Log,
}

/// One thing that went over the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Milliseconds since the beginning.
    pub(crate) at: u64,
    /// The connection, counted from 1 in the order in which they began.
    pub(crate) on: u32,
    /// Who sent it.
    pub(crate) from: Side,
    /// What it was.
    #[serde(flatten)]
    pub(crate) what: What,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// Whoever connects.
    Client,
    /// Whoever is connected to.
    Server,
}

/// What goes over the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// An HTTP request; the beginning of a connection.
    Request(Request),
    /// The head of the answer; after 101 both sides send messages.
    Answer(Answer),
    /// A piece of the body of an answer.
    Chunk(Payload),
    /// The answer is complete.
    End(bool),
    /// A text message.
    Text(String),
    /// A binary message, in base64.
    Binary(String),
    /// The goodbye of a WebSocket.
    Close(Goodbye),
    /// The connection was lost without a goodbye.
    Lost(bool),
}

impl What {
    /// The request that begins a connection, if it is one.
    pub(crate) fn request(&self) -> Option<&Request> {
        match self {
            Self::Request(request) => Some(request),
            Self::Answer(_)
            | Self::Chunk(_)
            | Self::End(_)
            | Self::Text(_)
            | Self::Binary(_)
            | Self::Close(_)
            | Self::Lost(_) => None,
        }
    }
}

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// GET, POST and so on.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// What it says besides, without what belongs to the single hop.
    pub(crate) headers: Vec<(String, String)>,
    /// What is sent along.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub(crate) body: Payload,
    /// Whether it asks for a WebSocket.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) websocket: bool,
}

impl Request {
    /// The path alone.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// The head of an HTTP answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// What it says besides.
    pub(crate) headers: Vec<(String, String)>,
}

/// The value of a header.
pub(crate) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The end of a WebSocket, as its close frame says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goodbye {
    /// The code; 1005 stands for a frame without one.
    pub(crate) code: u16,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
}

/// Bytes, as text where they are text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Payload {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes {
        /// The bytes, in base64.
        base64: String,
    },
}

impl Payload {
    /// As it is written down.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes { base64: STANDARD.encode(bytes) },
        }
    }

    /// As it is sent.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            Self::Bytes { base64 } => Bytes::from(STANDARD.decode(base64).unwrap_or_default()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Bytes { base64 } => base64.is_empty(),
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

/// What the events of a session lead to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// How many events there are.
    pub(crate) events: u64,
    /// SHA-256 of the state in JSON.
    pub(crate) sha256: String,
    /// The state itself, to say where another one differs.
    pub(crate) state: Value,
}

/// A recording that was read.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Its first line.
    pub(crate) header: Header,
    /// All the others.
    pub(crate) body: Body,
}

/// What a recording holds.
#[derive(Debug)]
pub(crate) enum Body {
    /// Of a wire recording, with the number of the line.
    Wire(Vec<(usize, Entry)>),
    /// Of a log recording.
    Log {
        /// What happened.
        events: Vec<Committed>,
        /// What that leads to.
        outcome: Outcome,
    },
}

impl Recording {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable = |why: String| Failure::usage(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut lines = Vec::new();
        for (index, line) in BufReader::new(file.take(MAX_FILE + 1)).lines().enumerate() {
            let line = line.map_err(|error| unreadable(error.to_string()))?;
            if !line.trim().is_empty() {
                lines.push((index + 1, line));
            }
        }
        Self::parse(&lines).map_err(unreadable)
    }

    fn parse(lines: &[(usize, String)]) -> Result<Self, String> {
        let size: usize = lines.iter().map(|(_, line)| line.len() + 1).sum();
        if u64::try_from(size).is_ok_and(|size| size > MAX_FILE) {
            return Err(format!("larger than {} MiB", MAX_FILE >> 20));
        }
        let Some(((_, first), rest)) = lines.split_first() else {
            return Err("is empty: the first line of a recording is its header".to_owned());
        };
        let header: Header = serde_json::from_str(first).map_err(|error| {
            format!("line 1 is not the header of a recording ({error}); `switchboard record` makes one")
        })?;
        if header.recording != FORMAT {
            let version = header.recording;
            return Err(format!(
                "is a recording of format {version}, and this program knows {FORMAT}: use another version of it"
            ));
        }
        let body = match header.kind {
            Kind::Wire => Body::Wire(
                rest.iter()
                    .map(|(number, line)| Ok((*number, parsed(*number, line)?)))
                    .collect::<Result<_, String>>()?,
            ),
            Kind::Log => {
                let Some(((number, last), events)) = rest.split_last() else {
                    return Err("holds no events".to_owned());
                };
                Body::Log {
                    events: events
                        .iter()
                        .map(|(number, line)| parsed(*number, line))
                        .collect::<Result<_, String>>()?,
                    outcome: parsed(*number, last)?,
                }
            }
        };
        Ok(Self { header, body })
    }
}

fn parsed<'a, T: Deserialize<'a>>(number: usize, line: &'a str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("line {number} cannot be read: {error}"))
}

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;
/// The largest recording that is read or written.
pub(crate) const MAX_FILE: u64 = 256 << 20;
/// The largest message or body that is recorded or replayed.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect()
    }

    const HEADER: &str = r#"{"recording":1,"kind":"wire","protocol":"asp","origin":"ws://127.0.0.1:4600","recorded_at":"2026-11-16 05:00:00"}"#;

    #[test]
    fn an_entry_is_one_line_that_a_person_can_read() {
        let entry = Entry { at: 12, on: 1, from: Side::Client, what: What::Text("{\"a\":1}".to_owned()) };
        let line = serde_json::to_string(&entry).unwrap();
        assert_eq!(line, r#"{"at":12,"on":1,"from":"client","text":"{\"a\":1}"}"#);
        assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
    }

    #[test]
    fn what_is_no_text_is_written_in_base64() {
        assert_eq!(Payload::of(b"abc"), Payload::Text("abc".to_owned()));
        let payload = Payload::of(&[0xff, 0]);
        assert_eq!(serde_json::to_string(&payload).unwrap(), r#"{"base64":"/wA="}"#);
        assert_eq!(payload.bytes().as_ref(), [0xff, 0]);
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let text =
            format!("{HEADER}\n{{\"at\":1,\"on\":1,\"from\":\"client\",\"close\":{{\"code\":1000}}}}\n{{}}");
        let error = Recording::parse(&lines(&text)).unwrap_err();
        assert!(error.starts_with("line 3 cannot be read"), "{error}");
    }

    #[test]
    fn other_files_and_other_versions_are_refused() {
        assert!(Recording::parse(&lines("{}")).unwrap_err().contains("not the header"));
        assert!(Recording::parse(&[]).unwrap_err().contains("is empty"));
        let newer = HEADER.replace("\"recording\":1", "\"recording\":2");
        assert!(Recording::parse(&lines(&newer)).unwrap_err().contains("format 2"));
    }
}
