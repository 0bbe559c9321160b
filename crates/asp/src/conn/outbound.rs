//! From records to frames: encoding per profile, credit, fairness, and what happens when the peer
//! reads too slowly (§8, §12.1).

use bytes::{Bytes, BytesMut};
use switchboard_core::model::{FailureKind, TurnEnd};
use switchboard_core::{Frame as TransportFrame, Op, Output};

use super::requests::{Delta, Queued};
use super::{AspConnection, Lifecycle, Pending};
use crate::codec::{
    HEADER, chunk_text, compress, encode_frame, encode_reason_record, encode_text_frame, encode_text_record,
    fragments,
};
use crate::error::Code;
use crate::map::{ESCAPED, Ending, RECORD_ROOM};
use crate::message::{
    Completion, Enc, EncFlag, End, ErrorBody, Feature, Flags, Opcode, Record, RecordBody, ServerHello,
    ToolDefFrame, ToolDefOp,
};
use crate::value::{Map, Value};

impl AspConnection {
    /// Sends a piece of the answer, or keeps it until it may be sent.
    pub(super) fn emit_delta(&mut self, id: u16, delta: DeltaRef<'_>) {
        let DeltaRef { reasoning, n, text, replay } = delta;
        if self.may_send(id) {
            self.send_delta(id, reasoning, n, text, replay);
            return self.note_hold(id);
        }
        let merge_above = self.limits.merge_above as usize;
        let merge = self.requests.waiting() > merge_above;
        let Some(request) = self.requests.get_mut(id) else { return };
        request.queued_bytes += text.len() + OVERHEAD;
        let most = request.options.piece().min(MAX_MERGED);
        match request.queue.back_mut() {
            Some(Queued::Delta(last))
                if merge && last.reasoning == reasoning && last.text.len() + text.len() <= most =>
            {
                last.text.push_str(text);
                last.n = n;
                last.replay &= replay;
                request.queued_bytes -= OVERHEAD;
            }
            _ => {
                request.queue.push_back(Queued::Delta(Delta { reasoning, n, text: text.to_owned(), replay }))
            }
        }
        self.note_hold(id);
        self.bound_waiting();
    }

    /// Sends a record, or keeps it until it may be sent. Records without an index are the server's
    /// own.
    pub(super) fn emit_record(&mut self, id: u16, n: Option<u64>, body: RecordBody, replay: bool) {
        if !self.wire.features.has(Feature::Events) {
            return;
        }
        if self.may_send(id) {
            self.send_record(id, n, body, replay);
            return self.note_hold(id);
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        request.queued_bytes += RECORD_WEIGHT;
        request.queue.push_back(Queued::Record { n, body, replay });
        self.note_hold(id);
        self.bound_waiting();
    }

    /// Ends a request: after what waits for it, unless there is no point in sending that any more.
    pub(super) fn emit_ending(&mut self, id: u16, ending: Ending, replay: bool) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let n = request.last_number();
        let ending = if request.cancelled { ending.cut_short() } else { ending };
        let orderly = matches!(&ending, Ending::End(_)) && !request.cancelled;
        if orderly && !request.queue.is_empty() {
            request.queue.push_back(Queued::Ending { n, ending, replay });
            return;
        }
        self.send_ending(id, n, &ending, replay);
    }

    pub(super) fn may_send(&self, id: u16) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        !self.pressed && !request.paused && request.queue.is_empty() && self.has_credit(request.window)
    }

    fn has_credit(&self, window: i64) -> bool {
        !self.wire.features.has(Feature::Credit) || window > 0
    }

    /// Whether a client holds back so much of a request that the rest had better stay where it is.
    pub(super) fn overflows(&self, id: u16) -> bool {
        self.requests.get(id).is_some_and(|request| {
            let held = request.paused || !self.has_credit(request.window);
            held && (request.queued_bytes >= HELD_BYTES || self.is_swamped())
        })
    }

    /// Keeps the state of a request in step with whether its output may be sent.
    fn note_hold(&mut self, id: u16) {
        let credit = self.wire.features.has(Feature::Credit);
        if let Some(request) = self.requests.get_mut(id) {
            let hold = request.paused || !request.queue.is_empty() || (credit && request.window <= 0);
            request.state = request.state.held(hold);
        }
    }

    /// Sends what waits for a request, as far as it may be sent.
    pub(super) fn flush(&mut self, id: u16) {
        while self.flush_some(id, usize::MAX) > 0 {}
        self.note_hold(id);
        self.catch_up(id);
    }

    /// Sends up to about `most` bytes of what waits for a request; answers how many it were.
    fn flush_some(&mut self, id: u16, most: usize) -> usize {
        let mut sent = 0;
        while sent < most && !self.pressed {
            let Some(request) = self.requests.get_mut(id) else { break };
            if request.paused {
                break;
            }
            let terminal = matches!(request.queue.front(), Some(Queued::Ending { .. }));
            let window = request.window;
            if !terminal && !self.has_credit(window) {
                break;
            }
            let Some(request) = self.requests.get_mut(id) else { break };
            let Some(next) = request.queue.pop_front() else { break };
            let weight = match &next {
                Queued::Delta(delta) => delta.text.len() + OVERHEAD,
                Queued::Record { .. } => RECORD_WEIGHT,
                Queued::Ending { .. } => 0,
            };
            request.queued_bytes = request.queued_bytes.saturating_sub(weight);
            sent += weight.max(1);
            match next {
                Queued::Delta(delta) => {
                    self.send_delta(id, delta.reasoning, delta.n, &delta.text, delta.replay);
                }
                Queued::Record { n, body, replay } => self.send_record(id, n, body, replay),
                Queued::Ending { n, ending, replay } => self.send_ending(id, n, &ending, replay),
            }
        }
        sent
    }

    /// The transport says how much it has not taken yet.
    pub(super) fn backlog(&mut self, bytes: usize) {
        if bytes < self.clocks.backlog {
            self.clocks.progress_at = self.now;
            self.clocks.given_up = false;
        }
        self.clocks.backlog = bytes;
        self.pressed = bytes >= HIGH_WATER;
        if self.pressed {
            return;
        }
        // Round and round, a little of each, so that no request starves another.
        let enough = self.wire.sent + RELEASE;
        loop {
            let mut progress = false;
            for id in self.requests.ids() {
                progress |= self.flush_some(id, FAIR_SHARE) > 0;
                self.note_hold(id);
                if self.wire.sent >= enough {
                    // More than the transport takes at once, so that it reports again.
                    self.pressed = true;
                    self.clocks.slow_since = self.clocks.slow_since.filter(|_| self.is_full());
                    return;
                }
            }
            if !progress {
                break;
            }
        }
        self.clocks.slow_since = None;
        for id in self.requests.ids() {
            self.catch_up(id);
        }
    }

    fn is_swamped(&self) -> bool {
        self.requests.waiting() + self.clocks.backlog > self.limits.max_waiting as usize
    }

    /// Above the bound nothing more is taken in. A transport that is what is slow gets time to make progress, or
    /// something has to give; what the client itself holds back waits in the log, for as long as it likes.
    fn bound_waiting(&mut self) {
        if self.is_full() {
            self.clocks.slow_since.get_or_insert(self.now);
        }
    }

    /// Whether the buffer is full because the transport does not take it.
    pub(super) fn is_full(&self) -> bool {
        self.pressed && self.is_swamped()
    }

    /// Ends the request with the most bytes waiting.
    pub(super) fn give_up_largest(&mut self) {
        let Some(id) = self.requests.largest() else { return };
        let Some(request) = self.requests.get(id) else { return };
        if let Some(turn) = request.turn.clone().filter(|_| !request.watches) {
            let message = "the client does not read its output".to_owned();
            let end = TurnEnd::failed(FailureKind::SlowConsumer, message);
            let session = request.session.clone();
            self.submit(&session, Op::Conclude { turn, end }, Pending::Nothing);
        }
        self.fail_request(id, Code::SlowConsumer, "the output was not read in time", None);
    }

    fn send_delta(&mut self, id: u16, reasoning: bool, n: u64, text: &str, replay: bool) {
        if text.is_empty() {
            return;
        }
        let events = self.wire.features.has(Feature::Events);
        if !events && reasoning {
            return;
        }
        let numbered = self.wire.features.has(Feature::Resume).then_some(n);
        let room = self.room_for(text);
        let whole = text.len() <= room.min(MAX_DELTA);
        let mut out = BytesMut::new();
        let mut charged = 0;
        if whole && events && !reasoning && !self.compresses(text.len()) {
            out.reserve(text.len() + RECORD_ROOM);
            let flags = self.flags(replay).with_enc(self.enc_flag());
            charged = encode_text_frame(&mut out, flags, id, self.wire.enc, numbered, text).unwrap_or(0);
        } else if events {
            // A client that takes less than when it asked gets one index in several records; the last carries it.
            let mut pieces = chunk_text(text, room).peekable();
            while let Some(piece) = pieces.next() {
                let n = numbered.filter(|_| pieces.peek().is_none());
                let mut payload = BytesMut::with_capacity(piece.len() + RECORD_ROOM);
                if reasoning {
                    encode_reason_record(&mut payload, self.wire.enc, n, piece);
                } else {
                    encode_text_record(&mut payload, self.wire.enc, n, piece);
                }
                charged += self.put(&mut out, Opcode::Stream, id, self.flags(replay), &payload);
            }
        } else {
            for piece in chunk_text(text, room) {
                self.make_room(&mut out, piece.len());
                charged +=
                    encode_frame(&mut out, Opcode::Stream, Flags::NONE, id, piece.as_bytes()).unwrap_or(0);
            }
        }
        self.charge(id, charged);
        self.send_bytes(out.freeze());
    }

    /// How much of a text fits into one record, whatever has to be escaped in it.
    fn room_for(&self, text: &str) -> usize {
        let most = if self.wire.features.has(Feature::Events) { usize::MAX } else { MAX_DELTA };
        let room = self.largest().saturating_sub(RECORD_ROOM).clamp(4 * ESCAPED, most);
        let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\' || byte == 0x7f;
        if self.wire.enc == Enc::Json && text.len() > room / ESCAPED && text.bytes().any(escaped) {
            room / ESCAPED
        } else {
            room
        }
    }

    fn send_record(&mut self, id: u16, n: Option<u64>, body: RecordBody, replay: bool) {
        let n = n.filter(|_| self.wire.features.has(Feature::Resume));
        let payload = self.encoded(&Record { n, body }.to_map());
        if self.is_too_large(&payload) {
            return self.give_up_too_large(id);
        }
        let charged = self.send_payload(Opcode::Stream, id, self.flags(replay), &payload);
        self.charge(id, charged);
    }

    /// Ends a request with something in it that its client cannot receive.
    fn give_up_too_large(&mut self, id: u16) {
        let Some(request) = self.requests.get(id) else { return };
        if let Some(turn) = request.turn.clone().filter(|_| !request.watches) {
            let session = request.session.clone();
            let op = Op::Interrupt { turn, reason: Some(TOO_LARGE.to_owned()) };
            self.submit(&session, op, Pending::Nothing);
        }
        self.fail_request(id, Code::PayloadTooLarge, TOO_LARGE, None);
    }

    /// The terminal frame of a request, in whichever of the five forms applies (§8.3).
    pub(super) fn send_ending(&mut self, id: u16, n: u64, ending: &Ending, replay: bool) {
        let Some(request) = self.requests.end(id, self.now) else { return };
        let features = self.wire.features;
        match ending {
            Ending::Error(error) => {
                self.send_map(Opcode::Error, id, self.flags(replay), &error.to_map());
            }
            Ending::End(end) => {
                let mut end = end.clone();
                // What was streamed is not said again in another form.
                if !features.has(Feature::Events) && !request.spoke {
                    self.send_collected(id, &end);
                }
                if features.has(Feature::Complete06) {
                    // The output is a record of its own then, which may have arrived before a resume.
                    if request.next_n < request.skip_below {
                        end.output = None;
                    }
                    self.send_completion(id, n, end, replay);
                } else if features.has(Feature::Events) {
                    self.send_end(id, n, end, replay);
                } else {
                    let flags = if features.has(Feature::Flags) { Flags::END } else { Flags::NONE };
                    let mut out = BytesMut::with_capacity(8);
                    let _ = encode_frame(&mut out, Opcode::Stream, flags, id, &[]);
                    self.send_bytes(out.freeze());
                }
            }
        }
    }

    /// The end as a record.
    fn send_end(&mut self, id: u16, n: u64, end: End, replay: bool) {
        let n = self.wire.features.has(Feature::Resume).then_some(n);
        let payload = self.encoded(&Record { n, body: RecordBody::End(end) }.to_map());
        if self.is_too_large(&payload) {
            return self.send_error(id, &ErrorBody::new(Code::PayloadTooLarge, TOO_LARGE));
        }
        let flags = if self.wire.features.has(Feature::Flags) { Flags::END } else { Flags::NONE };
        self.send_payload(Opcode::Stream, id, self.flags(replay).with(flags), &payload);
    }

    /// A peer without records gets a collected answer as one delta before the end.
    fn send_collected(&mut self, id: u16, end: &End) {
        let Some(output) = &end.output else { return };
        let text = match output.as_str() {
            Some(text) => text.to_owned(),
            None => serde_json::Value::from(output.clone()).to_string(),
        };
        self.send_delta(id, false, 0, &text, false);
    }

    fn send_completion(&mut self, id: u16, n: u64, end: End, replay: bool) {
        if self.wire.features.has(Feature::Events)
            && let Some(value) = end.output
        {
            let n = self.wire.features.has(Feature::Resume).then_some(n);
            let payload = self.encoded(&Record { n, body: RecordBody::Data { mime: None, value } }.to_map());
            if self.is_too_large(&payload) {
                return self.send_error(id, &ErrorBody::new(Code::PayloadTooLarge, TOO_LARGE));
            }
            self.send_payload(Opcode::Stream, id, self.flags(replay), &payload);
        }
        let completion = Completion { finish: Some(end.finish), metrics: end.metrics };
        self.send_map(Opcode::Error, id, self.flags(replay), &completion.to_map());
    }

    /// Ends a request with an ERROR on its id, whatever waits for it.
    pub(super) fn fail_request(&mut self, id: u16, code: Code, message: &str, retry_ms: Option<u64>) {
        self.requests.end(id, self.now);
        let mut error = ErrorBody::new(code, message);
        error.retry_ms = retry_ms;
        self.send_error(id, &error);
    }

    pub(super) fn send_error(&mut self, id: u16, error: &ErrorBody) {
        if self.life != Lifecycle::Closed {
            // On a request's id it is terminal, also for a request that never came to be.
            if id != 0 && !self.requests.is_buried(id, self.now) {
                self.requests.bury(id, self.now);
            }
            self.send_map(Opcode::Error, id, Flags::NONE, &error.to_map());
        }
    }

    pub(super) fn send_hello(&mut self, hello: &ServerHello) {
        self.send_map(Opcode::Hello, 0, Flags::NONE, &hello.to_map());
    }

    /// Tells of tools, in as many frames as the client needs.
    pub(super) fn send_tool_def(&mut self, id: u16, mut frame: ToolDefFrame) {
        let payload = self.encoded(&frame.to_map());
        if !self.is_too_large(&payload) || frame.tools.len() < 2 {
            self.send_payload(Opcode::ToolDef, id, Flags::NONE, &payload);
            return;
        }
        let tools = frame.tools.split_off(frame.tools.len() / 2);
        self.send_tool_def(id, frame);
        let rev = Some(self.next_revision());
        self.send_tool_def(id, ToolDefFrame { op: ToolDefOp::Add, rev, tools, names: Vec::new() });
    }

    pub(super) fn send_notice(&mut self, notice: crate::message::Notice) {
        if self.wire.features.has(Feature::Push) && self.wire.features.has(Feature::Events) {
            let map = Record::new(RecordBody::Notice(notice)).to_map();
            self.send_map(Opcode::Stream, 0, Flags::NONE, &map);
        }
    }

    /// Shows a record of a function that belongs to no request.
    pub(super) fn pushed(&mut self, record: serde_json::Value) {
        if self.wire.features.has(Feature::Push)
            && self.wire.features.has(Feature::Events)
            && let Ok(Value::Map(map)) = Value::try_from(record)
        {
            self.send_map(Opcode::Stream, 0, Flags::NONE, &map);
        }
    }

    /// Sends one map under an opcode; answers the payload bytes.
    pub(super) fn send_map(&mut self, opcode: Opcode, id: u16, flags: Flags, map: &Map) -> usize {
        let payload = self.encoded(map);
        self.send_payload(opcode, id, flags, &payload)
    }

    fn encoded(&self, map: &Map) -> BytesMut {
        let mut payload = BytesMut::new();
        map.encode(self.wire.enc, &mut payload);
        payload
    }

    /// Whether this is more than the client can receive, in fragments or not (§5).
    fn is_too_large(&self, payload: &[u8]) -> bool {
        payload.len() > self.largest()
    }

    /// The largest payload that can be sent: what the client takes, and, where it cannot be sent in fragments, what
    /// one WebSocket message holds.
    pub(super) fn largest(&self) -> usize {
        let most = self.wire.max_payload as usize;
        if self.wire.features.has(Feature::Frag) { most } else { most.min(self.one_message()) }
    }

    /// The largest payload of a frame that fits into one WebSocket message.
    fn one_message(&self) -> usize {
        (self.limits.max_message as usize).saturating_sub(HEADER)
    }

    fn send_payload(&mut self, opcode: Opcode, id: u16, flags: Flags, payload: &[u8]) -> usize {
        let mut out = BytesMut::new();
        let charged = self.put(&mut out, opcode, id, flags, payload);
        self.send_bytes(out.freeze());
        charged
    }

    /// Writes a message: compressed and in fragments where that was agreed and helps. What would make a WebSocket
    /// message too long is sent in one of its own.
    fn put(&mut self, out: &mut BytesMut, opcode: Opcode, id: u16, flags: Flags, payload: &[u8]) -> usize {
        let mut flags = if self.wire.features.has(Feature::Flags) {
            flags.with_enc(self.enc_flag())
        } else {
            Flags::NONE
        };
        let packed = match self.wire.features.compression() {
            Some(algorithm) if self.compresses(payload.len()) => compress(algorithm, payload),
            _ => None,
        };
        let payload = match &packed {
            Some(packed) => {
                flags = flags.with(Flags::COMPRESSED);
                packed.as_ref()
            }
            None => payload,
        };
        let most = if self.wire.features.has(Feature::Frag) {
            MAX_FRAME.min(self.wire.max_payload as usize).min(self.one_message())
        } else {
            usize::MAX
        };
        let mut written = 0;
        for fragment in fragments(flags, payload, most) {
            self.make_room(out, fragment.payload.len());
            written += encode_frame(out, opcode, fragment.flags, id, fragment.payload).unwrap_or(0);
        }
        written
    }

    /// Sends what was written so far if another frame would make the WebSocket message too long.
    fn make_room(&mut self, out: &mut BytesMut, length: usize) {
        if !out.is_empty() && out.len() + HEADER + length > self.limits.max_message as usize {
            self.send_bytes(out.split().freeze());
        }
    }

    fn compresses(&self, length: usize) -> bool {
        length >= WORTH_COMPRESSING && self.wire.features.compression().is_some()
    }

    fn charge(&mut self, id: u16, bytes: usize) {
        if let Some(request) = self.requests.get_mut(id) {
            request.window = request.window.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    fn flags(&self, replay: bool) -> Flags {
        if replay && self.wire.features.has(Feature::Flags) { Flags::REPLAY } else { Flags::NONE }
    }

    fn enc_flag(&self) -> EncFlag {
        if self.wire.features.has(Feature::Flags) { self.wire.enc.into() } else { EncFlag::Unspecified }
    }

    fn send_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.wire.sent += bytes.len() as u64;
            self.out.push_back(Output::Send(TransportFrame::Binary(bytes)));
        }
    }
}

/// A piece of text to send.
#[derive(Debug)]
pub(super) struct DeltaRef<'a> {
    pub(super) reasoning: bool,
    pub(super) n: u64,
    pub(super) text: &'a str,
    pub(super) replay: bool,
}

/// What a queued delta weighs besides its text.
const OVERHEAD: usize = 64;
/// What any other queued record weighs, roughly.
const RECORD_WEIGHT: usize = 512;
const TOO_LARGE: &str = "the output is larger than the client can receive";
const MAX_MERGED: usize = 16 << 10;
const MAX_DELTA: usize = 64 << 10;
const MAX_FRAME: usize = 64 << 10;
const WORTH_COMPRESSING: usize = 1024;
/// What a client may hold back of one request before the rest stays in the log.
const HELD_BYTES: usize = 512 << 10;
const HIGH_WATER: usize = 64 << 10;
const FAIR_SHARE: usize = 16 << 10;
const RELEASE: u64 = 2 * HIGH_WATER as u64;
