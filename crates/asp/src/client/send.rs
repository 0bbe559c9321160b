//! Frames that the client sends.

use bytes::{Bytes, BytesMut};
use switchboard_core::Timestamp;

use super::requests::Sending;
use super::{AspClient, Ending};
use crate::codec::{HEADER, compress, encode_frame};
use crate::error::Code;
use crate::message::{
    EncFlag, ErrorBody, ErrorFrame, Feature, Features, Flags, Hello, Input as ChatInput, Interrupt, Invoke,
    InvokeBody, Mode, Opcode,
};
use crate::value::Map;

impl AspClient {
    /// Sends what waits, as far as there are places at the server.
    pub(super) fn send_waiting(&mut self, now: Timestamp) {
        if self.requests.queued() == 0 {
            return;
        }
        let mut places = self.agreed.max_inflight.saturating_sub(self.requests.in_flight());
        for id in self.requests.unsent() {
            let Some(request) = self.requests.get(id) else { continue };
            let due = matches!(request.sending, Sending::Due(at) if at <= now);
            if !due || places == 0 && !request.is_answer() {
                continue;
            }
            if !request.is_answer() {
                places = places.saturating_sub(1);
            }
            self.send_invoke(id);
        }
    }

    /// When a deferred request is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let due = self.requests.iter().filter_map(|(_, request)| match request.sending {
            Sending::Due(at) if at > Timestamp::default() => Some(at),
            Sending::Due(_) | Sending::Sent => None,
        });
        due.min()
    }

    pub(super) fn send_hello(&mut self, hello: &Hello) {
        self.send_map(Opcode::Hello, 0, &hello.to_map());
    }

    pub(super) fn send_interrupt(&mut self, id: u16, interrupt: &Interrupt) {
        // The draft's own form, which a strict peer understands.
        if interrupt.mode == Mode::Cancel && interrupt.reason.is_none() {
            self.send_payload(Opcode::Interrupt, Flags::NONE, id, &[]);
        } else {
            self.send_map(Opcode::Interrupt, id, &interrupt.to_map());
        }
    }

    /// Tells the server that this client cannot go on with a request.
    pub(super) fn send_error(&mut self, id: u16, error: ErrorBody) {
        self.send_map(Opcode::Error, id, &ErrorFrame::Error(error).to_map());
    }

    fn send_invoke(&mut self, id: u16) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.sending = Sending::Sent;
        request.attempts = request.attempts.saturating_add(1);
        let Some(invoke) = request.invoke.as_deref() else { return };
        let (mut flags, mut payload) = encode_invoke(invoke, &self.agreed.features, self.agreed.enc);
        let limit = self.agreed.max_payload;
        if payload.len() > limit {
            let msg = format!("payload of {} bytes exceeds the server's {limit}", payload.len());
            self.finish(id, Ending::error(Code::PayloadTooLarge, &msg));
            return;
        }
        let packed = self.agreed.features.compression().filter(|_| payload.len() >= COMPRESS_FROM);
        if let Some(packed) = packed.and_then(|algorithm| compress(algorithm, &payload)) {
            flags = flags.with(Flags::COMPRESSED);
            payload = packed;
        }
        let most = self.agreed.max_message.saturating_sub(HEADER).max(1);
        if self.agreed.features.has(Feature::Frag) {
            self.send_fragments(Opcode::Invoke, flags, id, &payload, most.min(FRAGMENT));
        } else if payload.len() <= most {
            self.send_payload(Opcode::Invoke, flags, id, &payload);
        } else {
            self.finish(id, Ending::error(Code::PayloadTooLarge, "payload does not fit one message"));
        }
    }

    fn send_map(&mut self, opcode: Opcode, id: u16, map: &Map) {
        let mut payload = BytesMut::new();
        map.encode(self.agreed.enc, &mut payload);
        let flags = enc_flags(self.agreed.features, self.agreed.enc.into());
        self.send_payload(opcode, flags, id, &payload);
    }

    /// One message per fragment, so that a gateway with small messages lets them through.
    fn send_fragments(&mut self, opcode: Opcode, flags: Flags, id: u16, payload: &[u8], most: usize) {
        let mut rest = payload;
        while let Some((head, tail)) = rest.split_at_checked(most).filter(|(_, tail)| !tail.is_empty()) {
            self.send_payload(opcode, flags.with(Flags::MORE), id, head);
            rest = tail;
        }
        self.send_payload(opcode, flags, id, rest);
    }

    fn send_payload(&mut self, opcode: Opcode, flags: Flags, id: u16, payload: &[u8]) {
        let mut message = BytesMut::new();
        // Everything sent was held against a limit below the cap before.
        if encode_frame(&mut message, opcode, flags, id, payload).is_ok() {
            self.send_message(message.freeze());
        }
    }
}

/// A chat that a strict draft peer would send as text is sent as text on a bare connection; anything else, and
/// any text that would be taken for a map, is a map.
fn encode_invoke(invoke: &Invoke, features: &Features, enc: crate::message::Enc) -> (Flags, Bytes) {
    if *features == Features::BARE
        && let InvokeBody::Chat(ChatInput::Text(text)) = &invoke.body
        && !matches!(text.as_bytes().first(), None | Some(b'{' | b'[' | 0xDE | 0xDF))
        && *invoke == Invoke::chat(text.as_str())
    {
        return (Flags::NONE, Bytes::copy_from_slice(text.as_bytes()));
    }
    let mut payload = BytesMut::new();
    invoke.to_map().encode(enc, &mut payload);
    (enc_flags(*features, enc.into()), payload.freeze())
}

fn enc_flags(features: Features, enc: EncFlag) -> Flags {
    if features.has(Feature::Flags) { Flags::NONE.with_enc(enc) } else { Flags::NONE }
}

/// Some gateways let WebSocket frames of 32 KiB through.
const FRAGMENT: usize = (32 << 10) - HEADER;
const COMPRESS_FROM: usize = 1024;
