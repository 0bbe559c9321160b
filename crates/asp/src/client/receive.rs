//! Frames that the client receives.
//!
//! Whatever this version does not know is ignored (ASP-017): opcodes, records, members, HELLO ops.

use std::time::Duration;

use bytes::Bytes;
use switchboard_core::Timestamp;

use super::requests::Origin;
use super::state::{Action, LinkEvent, RequestEvent};
use super::tools::Applied;
use super::{AspClient, CreditMode, DRAIN, Ending, Event, Leaving, Link};
use crate::codec::{
    Assembled, Assembly, Frame, FrameReader, Incoming, Payload, ReaderOptions, decode_payload, open_payload,
};
use crate::error::{Code, DecodeError};
use crate::message::{
    Direction, End, ErrorBody, ErrorFrame, Feature, Flags, Invoke, InvokeBody, Opcode, Record, RecordBody,
    ServerHello, ServerHelloOp, ServerMessage, Stream, ToolDefFrame,
};
use crate::value::Value;

impl AspClient {
    /// One WebSocket message: its frames in order (ASP-010).
    pub(super) fn receive(&mut self, message: Bytes, now: Timestamp) {
        let mut reader = FrameReader::new(message, ReaderOptions::default());
        while self.link.is_open() {
            match reader.next_frame(self.config.max_payload) {
                None => return,
                Some(Ok(Incoming::Frame(frame))) => self.receive_frame(frame, now),
                Some(Ok(Incoming::Unknown { .. })) => {}
                Some(Ok(Incoming::Oversized { nibble, flags, id, .. })) => {
                    self.refuse_oversized(nibble, flags, id, now);
                }
                Some(Err(error)) => return self.violate(error.into(), now),
            }
        }
    }

    fn receive_frame(&mut self, frame: Frame, now: Timestamp) {
        let Frame { opcode, id, .. } = frame;
        let features = self.agreed.features;
        if !opcode.travels(Direction::ToClient) || !opcode.carries(id, features) {
            return;
        }
        let flags = match frame.flags.agreed(features) {
            Ok(flags) => flags,
            Err(error) => {
                // With END no tail can follow, whatever MORE says.
                let tail = if frame.flags.has(Flags::END) { Flags::NONE } else { frame.flags };
                self.assembler.refuse(opcode, id, tail, now.as_millis());
                self.give_up(id, Code::BadFlags, &error.to_string());
                return;
            }
        };
        let cost = if opcode == Opcode::Stream { frame.payload.len() } else { 0 };
        match self.assembler.push(frame, flags, now.as_millis()) {
            Ok(Assembly::Whole(message)) => self.receive_message(&message, cost, now),
            Ok(Assembly::Partial { .. }) => self.return_partial(id, cost as u64),
            Ok(Assembly::Discarded) => self.return_credit(id, cost as u64),
            Err(error) => self.give_up(id, error.code(), &error.to_string()),
        }
    }

    fn receive_message(&mut self, message: &Assembled, cost: usize, now: Timestamp) {
        let id = message.id;
        let opened = open_payload(message, self.agreed.features, self.config.max_payload as usize);
        let decoded = opened.and_then(|payload| ServerMessage::from_payload(message.opcode, payload));
        match decoded {
            Ok(ServerMessage::Hello(hello)) => self.receive_hello(*hello, now),
            Ok(ServerMessage::Stream(stream)) => self.receive_stream(id, stream, message.flags, cost),
            Ok(ServerMessage::ToolDef(frame)) => self.receive_tools(frame, now),
            Ok(ServerMessage::Error(ErrorFrame::Error(error))) => self.receive_error(id, error, now),
            Ok(ServerMessage::Error(ErrorFrame::Complete(completion))) => {
                let Some(request) = self.requests.get(id) else { return };
                let finish = completion.finish.unwrap_or_else(|| request.default_finish());
                self.terminal(id, Ending::End(End { metrics: completion.metrics, ..End::new(finish) }));
            }
            Err(error) => self.unreadable(message, &error, cost),
        }
    }

    fn receive_hello(&mut self, hello: ServerHello, now: Timestamp) {
        match hello.op {
            ServerHelloOp::Greet => {
                if self.link.after(LinkEvent::Greet).is_some() {
                    self.cid = hello.cid.or_else(|| self.cid.take());
                }
            }
            ServerHelloOp::Accept => self.accept(hello, now),
            ServerHelloOp::Pong => self.event(Event::Pong { nonce: hello.nonce }),
            ServerHelloOp::Authed => self.event(Event::Authenticated { exp: hello.exp }),
            ServerHelloOp::Goaway => {
                if self.link.after(LinkEvent::GoAway).is_none() || self.leaving.is_some() {
                    return;
                }
                let retry_in = hello.retry_ms.map_or_else(|| self.backoff.pause(), Duration::from_millis);
                let reconnect_at = now.after(retry_in);
                self.leaving = Some(Leaving { reconnect_at, give_up_at: now.after(DRAIN) });
                self.event(Event::GoAway { reason: hello.reason, retry_in });
            }
        }
    }

    fn receive_stream(&mut self, id: u16, stream: Stream, flags: Flags, cost: usize) {
        let (record, end) = match stream {
            Stream::Terminator => (None, None),
            Stream::Text(text) => (Some(Record::new(RecordBody::Text(text))), None),
            Stream::Raw(bytes) => (Some(Record::new(delta(bytes))), None),
            Stream::Record(Record { body: RecordBody::End(end), .. }) => (None, Some(end)),
            Stream::Record(record) => (Some(record), None),
        };
        if id == 0 {
            let known = |record: &Record| !matches!(record.body, RecordBody::Unknown { .. });
            if let Some(record) = record.filter(known) {
                self.event(Event::Push(record));
            }
            return;
        }
        let ends = record.is_none() || flags.has(Flags::END);
        if let Some(record) = record {
            self.deliver(id, record, cost);
        }
        if ends && let Some(request) = self.requests.get(id) {
            let end = end.unwrap_or_else(|| End::new(request.default_finish()));
            self.terminal(id, Ending::End(end));
        }
    }

    fn deliver(&mut self, id: u16, record: Record, cost: usize) {
        let numbered = self.agreed.features.has(Feature::Resume);
        let Some(request) = self.requests.get_mut(id).filter(|request| request.is_sent()) else { return };
        if request.state.on(RequestEvent::Stream).1 != Action::Deliver {
            return;
        }
        request.has_output();
        let cost = (cost as u64).saturating_add(std::mem::take(&mut request.partial));
        let mut restarted = false;
        // Even if the old execution answers, its indices cannot be compared with those of before: deltas may
        // be merged otherwise, and calls be shown otherwise. So everything it says counts as new.
        if request.rerun && (record.n.is_some() || !numbered) {
            request.rerun = false;
            restarted = true;
            request.next_n = 0;
            request.calls.clear();
            request.asks.clear();
        }
        let fresh = record.n.is_none_or(|n| n >= request.next_n);
        if let Some(n) = record.n.filter(|_| fresh) {
            request.next_n = n.saturating_add(1);
        }
        let known = match &record.body {
            RecordBody::Unknown { .. } => false,
            RecordBody::Call(call) => {
                !fresh
                    || !request.answered.contains(&call.call_id) && request.calls.insert(call.call_id.clone())
            }
            RecordBody::Ask(ask) => {
                !fresh || !request.answered.contains(&ask.ask_id) && request.asks.insert(ask.ask_id.clone())
            }
            RecordBody::Start { .. }
            | RecordBody::Status(_)
            | RecordBody::Text(_)
            | RecordBody::Reason(_)
            | RecordBody::Tool(_)
            | RecordBody::Data { .. }
            | RecordBody::Usage(_)
            | RecordBody::Notice(_)
            | RecordBody::End(_) => true,
        };
        if restarted {
            self.event(Event::Restarted { id });
        }
        if !(fresh && known) {
            self.return_credit(id, cost);
            return;
        }
        // A last fragment may be empty; what is delivered must be consumed nevertheless.
        let credit = u32::try_from(cost).unwrap_or(u32::MAX).max(1);
        self.event(Event::Record { id, record, credit });
        match (self.config.credit, self.requests.get_mut(id)) {
            (CreditMode::Automatic, _) => self.return_credit(id, cost),
            (CreditMode::Manual, Some(request)) => {
                request.outstanding = request.outstanding.saturating_add(u64::from(credit));
            }
            (CreditMode::Manual, None) => {}
        }
    }

    /// The terminal frame of a request; everything after it is dropped.
    fn terminal(&mut self, id: u16, ending: Ending) {
        let Some(request) = self.requests.get_mut(id).filter(|request| request.is_sent()) else { return };
        if request.state.on(RequestEvent::Terminal).1 != Action::End {
            return;
        }
        // It ran anew, and had nothing to say.
        if request.rerun && matches!(ending, Ending::End(_)) {
            self.event(Event::Restarted { id });
        }
        self.finish(id, ending);
    }

    fn receive_error(&mut self, id: u16, error: ErrorBody, now: Timestamp) {
        if id == 0 {
            match error.known() {
                Some(Code::AuthExpiring) => self.event(Event::AuthExpiring(error)),
                _ => self.event(Event::Error(error)),
            }
            return;
        }
        let draining = self.leaving.is_some();
        let Some(request) = self.requests.get_mut(id).filter(|request| request.is_sent()) else { return };
        let known = error.known();
        if known == Some(Code::ReplayGone) && std::mem::take(&mut request.expect_replay_gone) {
            return;
        }
        // A leaving server did not take it; the next one will.
        let crossed = draining && known == Some(Code::RelayUnavailable) && request.next_n == 0;
        // An answer must arrive, whatever the rate of INVOKEs is.
        let again = request.is_answer() && error.retry && request.attempts < ANSWER_ATTEMPTS;
        if (crossed || again) && request.state == super::RequestState::Active && request.invoke.is_some() {
            let pause = error.retry_ms.map_or(ANSWER_PAUSE, Duration::from_millis);
            request.resend_at(if crossed { Timestamp::default() } else { now.after(pause) });
            return;
        }
        self.terminal(id, Ending::Error(error));
    }

    fn receive_tools(&mut self, frame: ToolDefFrame, now: Timestamp) {
        match self.tools.apply(frame) {
            Applied::Stale => return,
            Applied::Changed => {}
            Applied::Gap => {
                if self.link == Link::Up {
                    // Without a free id the list stays as it is until the next frame.
                    let _ = self.open(Invoke::new(InvokeBody::List), Origin::Internal, now);
                }
            }
        }
        self.event(Event::ToolsChanged);
    }

    /// A message that cannot be read. Only what makes the rest of a request worthless ends it.
    fn unreadable(&mut self, message: &Assembled, error: &DecodeError, cost: usize) {
        if message.opcode != Opcode::Stream || message.id == 0 {
            return;
        }
        let raw = |payload: &Payload| match payload {
            Payload::Value(Value::Map(map)) => map.get_str("t").map(str::to_owned),
            Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_) => None,
        };
        let payload =
            decode_payload(message.opcode, message.flags, self.agreed.features, &message.payload).ok();
        let t = payload.as_ref().and_then(raw);
        if message.flags.has(Flags::END) || t.as_deref() == Some("end") {
            self.terminal(message.id, Ending::error(Code::BadPayload, &error.to_string()));
            return;
        }
        match t.as_deref() {
            Some("text" | "call" | "ask" | "data") | None => {
                self.give_up(message.id, error.code(), &error.to_string());
            }
            Some(_) => self.return_credit(message.id, cost as u64),
        }
    }

    fn refuse_oversized(&mut self, nibble: u8, flags: Flags, id: u16, now: Timestamp) {
        let Some(opcode) = Opcode::from_nibble(nibble) else { return };
        let flags = flags.agreed(self.agreed.features).unwrap_or(Flags::NONE);
        self.assembler.refuse(opcode, id, flags, now.as_millis());
        let msg = "the server sent more than this client accepts";
        match opcode {
            Opcode::Stream if flags.has(Flags::END) => {
                self.terminal(id, Ending::error(Code::PayloadTooLarge, msg));
            }
            Opcode::Stream => self.give_up(id, Code::PayloadTooLarge, msg),
            Opcode::Error => self.terminal(id, Ending::error(Code::PayloadTooLarge, msg)),
            Opcode::Hello | Opcode::ToolDef | Opcode::Invoke | Opcode::Interrupt => {}
        }
    }

    /// This client cannot go on with a request: the server cancels it, its end tells the user why.
    pub(super) fn give_up(&mut self, id: u16, code: Code, msg: &str) {
        let Some(request) = self.requests.get_mut(id).filter(|request| request.is_sent()) else { return };
        let (next, action) = request.state.on(RequestEvent::Interrupt);
        if action == Action::Send {
            request.state = next;
            request.calls.clear();
            request.asks.clear();
            let error = ErrorBody::new(code, msg);
            request.failure = Some(error.clone());
            self.send_error(id, error);
        }
    }
}

/// A delta as bytes is text, unless it is not.
fn delta(bytes: Bytes) -> RecordBody {
    match String::from_utf8(bytes.to_vec()) {
        Ok(text) => RecordBody::Text(text),
        Err(_) => RecordBody::Data { mime: None, value: Value::Bin(bytes) },
    }
}

/// How often an answer is sent before its refusal is final.
const ANSWER_ATTEMPTS: u32 = 6;
const ANSWER_PAUSE: Duration = Duration::from_millis(500);
