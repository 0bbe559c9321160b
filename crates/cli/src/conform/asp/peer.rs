//! A peer of ASP that is written from the reference alone: nothing of the server's own codec is asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Outcome, Run, Stop, must};
use super::super::words::{Heard, TIME};
use crate::probe::{Over, PATIENCE, Received, Request, Socket, Target, Transcript};

pub(super) const HELLO: u8 = 0x1;
pub(super) const INVOKE: u8 = 0x2;
pub(super) const STREAM: u8 = 0x3;
pub(super) const INTERRUPT: u8 = 0x4;
pub(super) const TOOL_DEF: u8 = 0x5;
pub(super) const ERROR: u8 = 0x6;

pub(super) const END: u8 = 0x01;
pub(super) const MORE: u8 = 0x02;
pub(super) const ENC_JSON: u8 = 0x04;
pub(super) const COMPRESSED: u8 = 0x10;
pub(super) const REPLAY: u8 = 0x20;

pub(super) const PATH: &str = "/v1/agent-socket";
/// What most checks ask for.
pub(super) const FEATURES: &[&str] = &["flags", "events", "push", "client_tools", "resume", "ping"];

/// One frame from the server; fragments are put together.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) id: u16,
    pub(super) payload: Vec<u8>,
    /// The payload, where it is JSON.
    pub(super) value: Value,
    pub(super) at: Instant,
}

impl Frame {
    /// Whether it ends its request.
    pub(super) fn is_terminal(&self) -> bool {
        self.id != 0
            && (self.opcode == ERROR
                || (self.opcode == STREAM
                    && (self.payload.is_empty() || self.value["t"] == "end" || self.flags & END != 0)))
    }

    /// Whether it is a record of this kind.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.opcode == STREAM && self.value["t"] == kind
    }

    /// The code of an ERROR.
    pub(super) fn code(&self) -> Option<u64> {
        (self.opcode == ERROR).then(|| self.value["code"].as_u64()).flatten()
    }
}

/// The bytes of one frame.
pub(super) fn frame(opcode: u8, flags: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x10 | opcode, flags];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The texts of the records, joined.
pub(super) fn text_of(frames: &[Frame]) -> String {
    frames.iter().filter(|frame| frame.is("text")).filter_map(|frame| frame.value["d"].as_str()).collect()
}

/// The payloads of bare STREAM frames, joined.
pub(super) fn bare_text(frames: &[Frame]) -> String {
    let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.clone()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The indexes of the records.
pub(super) fn numbers_of(frames: &[Frame]) -> Vec<u64> {
    frames.iter().filter_map(|frame| frame.value["n"].as_u64()).collect()
}

/// A connection.
pub(super) struct Peer {
    socket: Socket,
    inbox: VecDeque<Frame>,
    partial: BTreeMap<(u8, u16), (u8, Vec<u8>)>,
    /// What was agreed.
    pub(super) accept: Value,
    next_id: u16,
    over: Option<Over>,
    /// Bytes of the largest message that has come.
    pub(super) largest: usize,
    log: Transcript,
}

impl Peer {
    /// Upgrades, and says nothing.
    pub(super) async fn bare(run: &Run<'_>) -> Outcome<Self> {
        Self::bare_as(run, run.target).await
    }

    /// The same as somebody else.
    pub(super) async fn bare_as(run: &Run<'_>, target: &Target) -> Outcome<Self> {
        let socket = target.socket(&run.log, &Request::upgrade(PATH, &["asp-v1"])).await?;
        Ok(Self::on(socket, run))
    }

    /// A peer on a socket that is open.
    pub(super) fn on(socket: Socket, run: &Run<'_>) -> Self {
        Self {
            socket,
            inbox: VecDeque::new(),
            partial: BTreeMap::new(),
            accept: Value::Null,
            next_id: 1,
            over: None,
            largest: 0,
            log: run.log.clone(),
        }
    }

    /// Upgrades and agrees on what most checks need.
    pub(super) async fn standard(run: &Run<'_>) -> Outcome<Self> {
        Self::with(run, FEATURES, json!({})).await
    }

    /// Upgrades and asks for these features, with more in the HELLO.
    pub(super) async fn with(run: &Run<'_>, features: &[&str], more: Value) -> Outcome<Self> {
        Self::with_as(run, run.target, features, more).await
    }

    /// The same as somebody else.
    pub(super) async fn with_as(
        run: &Run<'_>,
        target: &Target,
        features: &[&str],
        more: Value,
    ) -> Outcome<Self> {
        let mut peer = Self::bare_as(run, target).await?;
        let mut hello = json!({ "features": features, "enc": ["json"] });
        for (name, value) in more.as_object().into_iter().flatten() {
            hello[name] = value.clone();
        }
        peer.send(HELLO, 0, &hello).await;
        let accept = peer.wait("an accept", |frame| frame.opcode == HELLO && frame.value["op"] == "accept");
        peer.accept = accept.await?.value;
        let agreed = peer.accept["features"].as_array().cloned().unwrap_or_default();
        match features.iter().find(|feature| !agreed.iter().any(|known| known == **feature)) {
            Some(missing) => {
                Err(Stop::needs(format!("the feature {missing}, which the server did not agree to")))
            }
            None => Ok(peer),
        }
    }

    /// A limit that the server has told.
    pub(super) fn limit(&self, name: &str) -> u64 {
        self.accept["limits"][name].as_u64().unwrap_or_default()
    }

    /// An id that was not used.
    pub(super) fn fresh(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Ids are used from here on.
    pub(super) fn skip_to(&mut self, id: u16) {
        self.next_id = id;
    }

    /// Starts a request in text.
    pub(super) async fn say(&mut self, text: &str) -> u16 {
        self.invoke(&json!({ "input": text })).await
    }

    /// Starts a request.
    pub(super) async fn invoke(&mut self, payload: &Value) -> u16 {
        let id = self.fresh();
        self.send(INVOKE, id, payload).await;
        id
    }

    /// Sends a map.
    pub(super) async fn send(&mut self, opcode: u8, id: u16, value: &Value) {
        self.raw(frame(opcode, 0, id, value.to_string().as_bytes())).await;
    }

    /// Sends one message.
    pub(super) async fn raw(&mut self, bytes: Vec<u8>) {
        let described = describe(&bytes);
        self.socket.binary(bytes, &described).await;
    }

    /// Sends a text message.
    pub(super) async fn text_message(&mut self, text: &str) {
        self.socket.text(text).await;
    }

    /// Stops a request.
    pub(super) async fn interrupt(&mut self, id: u16) {
        self.send(INTERRUPT, id, &json!({ "mode": "cancel" })).await;
    }

    async fn read(&mut self, end: Instant) -> Outcome<Result<Frame, Over>> {
        loop {
            if let Some(frame) = self.inbox.pop_front() {
                return Ok(Ok(frame));
            }
            if let Some(over) = self.over {
                return Ok(Err(over));
            }
            match self.socket.next_until(end).await {
                Ok(Received::Binary(bytes)) => self.take(&bytes)?,
                Ok(Received::Text(_)) => return Err(Stop::fault("a text message from the server")),
                Ok(Received::Ping | Received::Pong) => {}
                Err(Over::Late) => return Ok(Err(Over::Late)),
                // It stays over for whoever looks again.
                Err(over) => self.over = Some(over),
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Outcome {
        let at = Instant::now();
        self.largest = self.largest.max(bytes.len());
        while !bytes.is_empty() {
            let Some((head, rest)) = bytes.split_first_chunk::<8>() else {
                return Err(Stop::fault(format!("{} bytes that are no header", bytes.len())));
            };
            let (opcode, flags, id) = (head[0] & 0x0f, head[1], u16::from_be_bytes([head[2], head[3]]));
            must!(head[0] >> 4 == 1, "frames of version 1, got {}", head[0] >> 4);
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
            must!(length <= rest.len(), "a payload of {length} bytes, {} came with the message", rest.len());
            let (payload, after) = rest.split_at(length);
            self.log.received(&describe(&bytes[..8 + length]));
            bytes = after;
            let (first, mut whole) = self.partial.remove(&(opcode, id)).unwrap_or((flags, Vec::new()));
            whole.extend_from_slice(payload);
            if flags & MORE != 0 {
                self.partial.insert((opcode, id), (first, whole));
                continue;
            }
            let value = serde_json::from_slice(&whole).unwrap_or_default();
            self.inbox.push_back(Frame {
                opcode,
                flags: flags | first & !MORE,
                id,
                payload: whole,
                value,
                at,
            });
        }
        Ok(())
    }

    /// The next frame that matches; others are dropped.
    pub(super) async fn wait(&mut self, what: &str, matches: impl Fn(&Frame) -> bool) -> Outcome<Frame> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.read(end).await? {
                Ok(frame) if matches(&frame) => return Ok(frame),
                Ok(_) => {}
                Err(over) => return Err(Stop::fault(format!("expected {what}: {over}"))),
            }
        }
    }

    /// The next record of a kind on this id.
    pub(super) async fn record(&mut self, id: u16, kind: &str) -> Outcome<Value> {
        let what = format!("a record {kind} on #{id}");
        let own = |frame: &Frame| frame.id == id && (frame.is(kind) || frame.is_terminal());
        let frame = self.wait(&what, own).await?;
        must!(frame.is(kind), "a record {kind} on #{id}, but it ended: {}", frame.value);
        Ok(frame.value)
    }

    /// Everything of a request up to its terminal frame. Frames of other requests are kept.
    pub(super) async fn finish(&mut self, id: u16) -> Outcome<Vec<Frame>> {
        let (mut frames, mut others) = (Vec::new(), VecDeque::new());
        loop {
            match self.read(Instant::now() + PATIENCE).await? {
                Ok(frame) if frame.id == id && frame.opcode != TOOL_DEF => {
                    let over = frame.is_terminal();
                    frames.push(frame);
                    if over {
                        others.append(&mut self.inbox);
                        self.inbox = others;
                        return Ok(frames);
                    }
                }
                Ok(frame) => others.push_back(frame),
                Err(over) => return Err(Stop::fault(format!("expected the end of #{id}: {over}"))),
            }
        }
    }

    /// What is answered within a while.
    pub(super) async fn hear(&mut self, text: &str) -> Outcome<Heard> {
        let id = self.say(text).await;
        let end = Instant::now() + TIME;
        let mut heard = Heard::default();
        while heard.end.is_none() {
            match self.read(end).await? {
                Ok(frame) if frame.id == id => {
                    if frame.is("text") {
                        heard.text += frame.value["d"].as_str().unwrap_or_default();
                    }
                    heard.end = frame.is_terminal().then_some(frame.opcode != ERROR);
                }
                Ok(_) => {}
                Err(Over::Late) => break,
                Err(over) => return Err(Stop::fault(over.to_string())),
            }
        }
        if heard.end.is_none() {
            self.interrupt(id).await;
            self.finish(id).await?;
        }
        Ok(heard)
    }

    /// Says something and waits for the whole answer.
    pub(super) async fn turn(&mut self, text: &str) -> Outcome<Vec<Frame>> {
        let id = self.say(text).await;
        self.finish(id).await
    }

    /// An ERROR with this code on this id; its map.
    pub(super) async fn error(&mut self, id: u16, code: u64) -> Outcome<Value> {
        let what = format!("ERROR {code} on #{id}");
        let own = |frame: &Frame| frame.id == id && (frame.opcode == ERROR || frame.is_terminal());
        let frame = self.wait(&what, own).await?;
        must!(frame.code() == Some(code), "ERROR {code} on #{id}, got {}", frame.value);
        Ok(frame.value)
    }

    /// That the server closes with this code; the ERRORs that came before.
    pub(super) async fn closed(&mut self, code: u16) -> Outcome<Vec<Frame>> {
        let (end, mut frames) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            match self.read(end).await? {
                Ok(frame) => frames.push(frame),
                Err(Over::Closed(closed)) if closed == code => return Ok(frames),
                Err(over) => return Err(Stop::fault(format!("expected a close with {code}: {over}"))),
            }
        }
    }

    /// What comes within this time, whatever it is.
    pub(super) async fn listen(&mut self, ms: u64) -> Outcome<Vec<Frame>> {
        let (end, mut frames) = (Instant::now() + Duration::from_millis(ms), Vec::new());
        while let Ok(frame) = self.read(end).await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// That the connection still serves.
    pub(super) async fn still_serves(&mut self, run: &Run<'_>) -> Outcome {
        let id = self.fresh();
        self.raw(frame(INVOKE, 0, id, run.settings.say.as_bytes())).await;
        let frames = self.finish(id).await?;
        let end = frames.last().map(|frame| frame.opcode);
        must!(end == Some(STREAM), "an answer on the same connection afterwards");
        Ok(())
    }

    /// The socket itself, without what was read ahead.
    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        self.socket.close().await;
    }

    /// Goes away without a word.
    pub(super) fn cut(self) {
        self.socket.cut();
    }
}

/// A message in words.
fn describe(mut bytes: &[u8]) -> String {
    let mut words = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let name = match head[0] & 0x0f {
            HELLO => "HELLO".to_owned(),
            INVOKE => "INVOKE".to_owned(),
            STREAM => "STREAM".to_owned(),
            INTERRUPT => "INTERRUPT".to_owned(),
            TOOL_DEF => "TOOL_DEF".to_owned(),
            ERROR => "ERROR".to_owned(),
            other => format!("opcode {other:#x}"),
        };
        let version = head[0] >> 4;
        let version = if version == 1 { String::new() } else { format!(" version {version}") };
        let (flags, id) = (head[1], u16::from_be_bytes([head[2], head[3]]));
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let flags = if flags == 0 { String::new() } else { format!(" flags {flags:#04x}") };
        let payload = &rest[..length.min(rest.len())];
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(SHOWN)]).into_owned();
        let cut = if length > rest.len() { format!(" ({length} bytes declared)") } else { String::new() };
        words.push(format!("{name}{version} #{id}{flags} {shown}{cut}"));
        bytes = &rest[payload.len()..];
    }
    if !bytes.is_empty() {
        words.push(format!("{} bytes that are no frame", bytes.len()));
    }
    words.join(" | ")
}

const SHOWN: usize = 400;
