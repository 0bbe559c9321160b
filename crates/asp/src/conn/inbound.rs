//! From a transport message to what it asks for, in the order of §3.4.

use std::time::Duration;

use bytes::Bytes;

use super::requests::Request;
use super::{AspConnection, Lifecycle};
use crate::codec::{
    Assembled, Assembly, Frame, FrameReader, Incoming, Payload, ReaderOptions, VersionZero, open_payload,
};
use crate::error::{Close, Code, DecodeError};
use crate::message::{ClientMessage, Direction, Enc, ErrorBody, Hello, HelloOp, Invoke, Opcode, digest};
use crate::state::{Happening, RequestState};
use crate::value::Value;

impl AspConnection {
    pub(super) fn receive(&mut self, message: Bytes) {
        if message.is_empty() {
            return;
        }
        if self.life == Lifecycle::Negotiating {
            return self.hold_back(message);
        }
        let version_zero =
            if self.limits.accept_version_zero { VersionZero::Accept } else { VersionZero::Refuse };
        let options = ReaderOptions { hard_cap: self.limits.hard_cap, version_zero };
        let mut reader = FrameReader::new(message, options);
        loop {
            match self.life {
                Lifecycle::Negotiating => return self.hold_back(reader.into_rest()),
                Lifecycle::Closed => return,
                Lifecycle::Open | Lifecycle::Ready | Lifecycle::Draining => {}
            }
            let Some(next) = reader.next_frame(self.max_payload()) else { return };
            match next {
                Ok(incoming) => self.incoming(incoming),
                Err(error) => return self.fatal(error.code(), &error.to_string(), error.close()),
            }
        }
    }

    /// Takes up what came while the accept waited.
    pub(super) fn release_held_back(&mut self) {
        self.held_back_bytes = 0;
        for message in std::mem::take(&mut self.held_back) {
            self.receive(message);
        }
    }

    fn hold_back(&mut self, message: Bytes) {
        if message.is_empty() {
            return;
        }
        self.held_back_bytes += message.len();
        if self.held_back.len() >= MAX_HELD_BACK || self.held_back_bytes > MAX_HELD_BACK_BYTES {
            return self.fatal(Code::Flood, "too much before the accept", Close::Flood);
        }
        self.held_back.push(message);
    }

    /// What the server takes now.
    fn max_payload(&self) -> u32 {
        if self.wire.greeted || self.life == Lifecycle::Open {
            self.limits.max_payload
        } else {
            self.limits.max_payload_bare
        }
    }

    fn incoming(&mut self, incoming: Incoming) {
        let (nibble, id, length) = match &incoming {
            Incoming::Frame(frame) => (frame.opcode.nibble(), frame.id, frame.payload.len()),
            Incoming::Unknown { nibble, id } => (*nibble, *id, 0),
            Incoming::Oversized { nibble, id, length, .. } => (*nibble, *id, *length),
        };
        let opcode = Opcode::from_nibble(nibble);
        if self.life == Lifecycle::Open && opcode != Some(Opcode::Hello) {
            self.become_bare();
        }
        if let Err(delay) = self.within_rates(opcode, length) {
            return self.drop_frame(&incoming, opcode, id, delay);
        }
        match incoming {
            Incoming::Frame(frame) => self.frame(frame),
            Incoming::Unknown { id, .. } => self.stray(Code::UnknownOpcode, "unknown opcode", id),
            Incoming::Oversized { id, flags, .. } => {
                let Some(opcode) = opcode else {
                    return self.stray(Code::UnknownOpcode, "unknown opcode", id);
                };
                let flags = flags.agreed(self.wire.features).unwrap_or_default();
                self.assembler.refuse(opcode, id, flags, self.now.as_millis());
                self.refuse_frame(
                    opcode,
                    id,
                    Code::PayloadTooLarge,
                    "the payload is larger than max_payload",
                );
            }
        }
    }

    fn within_rates(&mut self, opcode: Option<Opcode>, length: usize) -> Result<(), Duration> {
        let now = self.now;
        let frames = self.buckets.frames.take(1, now);
        let bytes = self.buckets.bytes.take(length as u64, now);
        // A cancel always gets through; how often it may come is looked at later.
        if opcode == Some(Opcode::Interrupt) {
            return Ok(());
        }
        frames.and(bytes)?;
        match opcode {
            Some(Opcode::Invoke) => Ok(()),
            Some(Opcode::Hello) if self.life != Lifecycle::Open => self.buckets.hellos.take(1, now),
            _ => Ok(()),
        }
    }

    fn drop_frame(&mut self, incoming: &Incoming, opcode: Option<Opcode>, id: u16, delay: Duration) {
        if opcode == Some(Opcode::Invoke) && id != 0 {
            if let Incoming::Frame(Frame { flags, .. }) | Incoming::Oversized { flags, .. } = incoming {
                let flags = flags.agreed(self.wire.features).unwrap_or_default();
                self.assembler.refuse(Opcode::Invoke, id, flags, self.now.as_millis());
            }
            self.rate_limited(id, delay);
        }
        self.note_drop();
    }

    /// Tells that an INVOKE came too fast; a running request of the same id is left alone.
    pub(super) fn rate_limited(&mut self, id: u16, delay: Duration) {
        let retry_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX).max(1);
        let error = ErrorBody::new(Code::RateLimited, "too fast").retry_in(retry_ms);
        match self.requests.get(id) {
            Some(request) if request.state != RequestState::Receiving => self.send_error(0, &error.about(id)),
            Some(_) => {
                self.requests.end(id, self.now);
                self.send_error(id, &error);
            }
            None => self.send_error(id, &error),
        }
    }

    pub(super) fn note_drop(&mut self) {
        if self.buckets.dropped(self.now) {
            self.fatal(Code::Flood, "too many frames", Close::Flood);
        }
    }

    fn stray(&mut self, code: Code, message: &str, id: u16) {
        self.send_error(0, &ErrorBody::new(code, message).about(id));
        if self.buckets.stray(self.now) {
            self.fatal(Code::ProtocolError, "too many frames that make no sense", Close::Protocol);
        }
    }

    /// An error that the client caused; too many of them are a flood.
    pub(super) fn offence(&mut self, id: u16, error: &ErrorBody) {
        self.send_error(id, error);
        if self.buckets.errors.take(1, self.now).is_err() {
            self.fatal(Code::Flood, "too many errors", Close::Flood);
        }
    }

    fn frame(&mut self, frame: Frame) {
        let (opcode, id) = (frame.opcode, frame.id);
        if !opcode.travels(Direction::ToServer) {
            return self.stray(Code::WrongDirection, "clients do not send this", id);
        }
        if !opcode.carries(id, self.wire.features) {
            let error = ErrorBody::new(Code::BadRequestId, "this opcode cannot carry this id").about(id);
            return self.offence(0, &error);
        }
        let now_ms = self.now.as_millis();
        let in_use = self.requests.get(id).is_some_and(|known| known.state != RequestState::Receiving);
        if opcode == Opcode::Invoke && in_use {
            let flags = frame.flags.agreed(self.wire.features).unwrap_or_default();
            self.assembler.refuse(opcode, id, flags, now_ms);
            let error = ErrorBody::new(Code::DuplicateRequest, "the id is in use").about(id);
            return self.offence(0, &error);
        }
        let flags = match frame.flags.agreed(self.wire.features) {
            Ok(flags) => flags,
            Err(error) => {
                self.assembler.refuse(opcode, id, crate::Flags::NONE, now_ms);
                return self.refuse_frame(opcode, id, Code::BadFlags, &error.to_string());
            }
        };
        if opcode == Opcode::Invoke && self.assembler.discards(id) && self.begins_anew(&frame, flags) {
            self.assembler.abort(id);
        }
        match self.assembler.push(frame, flags, now_ms) {
            Ok(Assembly::Whole(message)) => {
                self.forget_aborted(message.id, message.aborted);
                self.message(message);
            }
            Ok(Assembly::Partial { aborted }) => {
                self.forget_aborted(id, aborted);
                if opcode != Opcode::Invoke || self.requests.get(id).is_some() {
                    return;
                }
                if self.may_invoke(id) {
                    let home = self.link.home.clone();
                    self.requests.insert(id, Request::new(RequestState::Receiving, home, self.wire.window));
                } else {
                    self.assembler.refuse(opcode, id, flags, now_ms);
                }
            }
            Ok(Assembly::Discarded) => {}
            Err(error) => self.refuse_frame(opcode, id, error.code(), &error.to_string()),
        }
    }

    /// Whether a frame is an INVOKE by itself, and not the tail of one that was refused: a tail does not read as
    /// a map with everything that an INVOKE needs.
    fn begins_anew(&self, frame: &Frame, flags: crate::Flags) -> bool {
        if flags.has(crate::Flags::MORE) {
            return false;
        }
        let payload = frame.payload.clone();
        let whole = Assembled { opcode: frame.opcode, flags, id: frame.id, payload, aborted: None };
        match open_payload(&whole, self.wire.features, self.max_payload() as usize) {
            Ok(Payload::Value(Value::Map(map))) => Invoke::from_map(map).is_ok(),
            Ok(Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_)) | Err(_) => false,
        }
    }

    /// An INTERRUPT or ERROR between the fragments of an INVOKE has ended it.
    fn forget_aborted(&mut self, id: u16, aborted: Option<Opcode>) {
        if aborted == Some(Opcode::Invoke) && self.requests.get(id).is_some() {
            self.end_interrupted(id);
        }
    }

    fn message(&mut self, message: Assembled) {
        let (opcode, id) = (message.opcode, message.id);
        let payload = match open_payload(&message, self.wire.features, self.max_payload() as usize) {
            Ok(payload) => payload,
            Err(error) if opcode == Opcode::Hello => {
                let _ = error;
                Payload::None
            }
            Err(error) => return self.refuse_frame(opcode, id, error.code(), &error.to_string()),
        };
        if !self.wire.greeted && matches!(payload, Payload::Value(_)) {
            let json = matches!(message.payload.first(), Some(b'{' | b'['));
            self.wire.enc = if json { Enc::Json } else { Enc::Msgpack };
            self.wire.heard = self.wire.enc;
        }
        let digest = match &payload {
            Payload::Value(Value::Map(map)) if opcode == Opcode::Invoke && map.contains_key("idem") => {
                Some(digest(map))
            }
            Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_) => None,
        };
        match ClientMessage::from_payload(opcode, payload) {
            Ok(ClientMessage::Hello(hello)) => self.hello(*hello),
            Ok(ClientMessage::Invoke(invoke)) => self.invoke(id, *invoke, digest),
            Ok(ClientMessage::Interrupt(interrupt)) => self.interrupt(id, &interrupt),
            Ok(ClientMessage::Error(_)) => self.client_error(id),
            // A HELLO that cannot be read counts as one without features.
            Err(_) if opcode == Opcode::Hello => self.hello(Hello::new(HelloOp::Hello)),
            Err(error) => self.refuse_message(opcode, id, &error),
        }
    }

    fn refuse_message(&mut self, opcode: Opcode, id: u16, error: &DecodeError) {
        if let DecodeError::Invoke(_) = error {
            // Well-formed, but not something that can be done: no protocol error.
            if self.may_invoke(id) {
                self.fail_request(id, Code::InvalidInvoke, &error.to_string(), None);
            }
            return;
        }
        self.refuse_frame(opcode, id, error.code(), &error.to_string());
    }

    /// Refuses a frame for what it is: on its id when it would have opened a request, otherwise on
    /// id 0, so that nothing that runs is ended by it.
    fn refuse_frame(&mut self, opcode: Opcode, id: u16, code: Code, message: &str) {
        let error = ErrorBody::new(code, message);
        let running = self.requests.get(id).is_some_and(|known| known.state != RequestState::Receiving);
        if opcode == Opcode::Invoke && id != 0 && !running {
            self.requests.end(id, self.now);
            self.offence(id, &error);
        } else {
            self.offence(0, &error.about(id));
        }
    }

    /// From here on a peer of the draft, for good.
    pub(super) fn become_bare(&mut self) {
        self.happen(Happening::Serving);
        self.assembler.set_max_payload(self.limits.max_payload_bare as usize);
    }

    /// Ends the connection for a reason that cannot be mended.
    pub(super) fn fatal(&mut self, code: Code, message: &str, close: Close) {
        if self.life == Lifecycle::Closed {
            return;
        }
        self.send_error(0, &ErrorBody::new(code, message).fatal());
        if close.resumable() {
            self.leave()
        } else {
            self.leave_for_good()
        }
        self.close(close);
    }

    /// Whether an INVOKE may open a request now; if not, its sender has been told why.
    pub(super) fn may_invoke(&mut self, id: u16) -> bool {
        if self.requests.get(id).is_some() {
            return true;
        }
        if let Err(delay) = self.buckets.invokes.take(1, self.now) {
            self.rate_limited(id, delay);
            self.note_drop();
            return false;
        }
        if self.life == Lifecycle::Draining {
            let error = ErrorBody::new(Code::RelayUnavailable, "the server is leaving; come back later");
            self.send_error(id, &error.retry_in(self.clocks.retry_ms()));
            return false;
        }
        let most = if self.wire.greeted { self.limits.max_inflight } else { self.limits.max_inflight_bare };
        if self.requests.len() >= most as usize {
            self.send_error(id, &ErrorBody::new(Code::TooManyRequests, "too many requests are in flight"));
            return false;
        }
        true
    }
}

const MAX_HELD_BACK: usize = 64;
const MAX_HELD_BACK_BYTES: usize = 4 << 20;
