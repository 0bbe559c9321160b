//! Frames between one client and the server, read a second time: what may follow what.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Incoming, Payload, ReaderOptions, decompress,
    open_payload,
};
use switchboard_asp::message::{ClientMessage, ErrorFrame, RecordBody, ServerHelloOp, Stream};
use switchboard_asp::{Code, Features, Flags, Frame, FrameReader, Opcode, ServerMessage};
use switchboard_core::PrincipalId;

use super::ledger::Ledger;
use super::{Fault, Invariant};

/// One transport.
#[derive(Debug)]
pub(super) struct Wire {
    principal: PrincipalId,
    features: Features,
    assembler: Assembler,
    /// Requests that wait for their end, with the least index that may come.
    open: BTreeMap<u16, u64>,
    /// Requests that the client wants to resume.
    resumed: BTreeSet<u16>,
    /// Requests that could not be resumed, and whether they were invoked again since.
    lost: BTreeMap<u16, bool>,
    /// INVOKEs under an id that was open as far as the client knew; the server may have known better.
    repeated: BTreeMap<u16, u32>,
    /// INVOKEs of which the client has sent some fragments, and not the last.
    unfinished: BTreeSet<u16>,
}

/// Something that a frame said, as far as peers without a client of their own care.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Text(u16, String),
    End(u16),
    Error(u16),
}

impl Wire {
    pub(super) fn new(principal: PrincipalId) -> Self {
        let limits =
            AssemblerLimits { max_payload: 16 << 20, max_held: 64 << 20, ..AssemblerLimits::default() };
        Self {
            principal,
            features: Features::BARE,
            assembler: Assembler::new(limits),
            open: BTreeMap::new(),
            resumed: BTreeSet::new(),
            lost: BTreeMap::new(),
            repeated: BTreeMap::new(),
            unfinished: BTreeSet::new(),
        }
    }

    /// The ids of requests that wait for their end.
    pub(super) fn open(&self) -> BTreeSet<u16> {
        self.open.keys().copied().collect()
    }

    /// The client sends a message.
    pub(super) fn sent(&mut self, message: &Bytes) {
        let frames = FrameReader::new(message.clone(), ReaderOptions::default());
        for incoming in frames.flatten() {
            let Incoming::Frame(frame) = incoming else { continue };
            match frame.opcode {
                Opcode::Invoke if frame.id != 0 => {
                    // Whatever the reserved byte says is a flag only once that was agreed.
                    let flags = frame.flags.agreed(self.features).unwrap_or_default();
                    let continues = self.unfinished.remove(&frame.id);
                    if flags.has(Flags::MORE) {
                        self.unfinished.insert(frame.id);
                    }
                    if !continues {
                        self.invoked(frame.id);
                    }
                }
                Opcode::Interrupt | Opcode::Error => {
                    self.unfinished.remove(&frame.id);
                }
                Opcode::Hello => self.greeted(frame),
                _ => {}
            }
        }
    }

    fn invoked(&mut self, id: u16) {
        if self.resumed.remove(&id) {
            self.open.remove(&id);
        }
        if let Some(again) = self.lost.get_mut(&id) {
            *again = true;
            self.open.remove(&id);
        }
        if self.open.insert(id, 0).is_some() {
            *self.repeated.entry(id).or_default() += 1;
        }
    }

    fn greeted(&mut self, frame: Frame) {
        let Frame { opcode, id, payload, .. } = frame;
        let message = Assembled { opcode, flags: Flags::NONE, id, payload, aborted: None };
        let payload = open_payload(&message, Features::BARE, usize::MAX).unwrap_or(Payload::None);
        if let Ok(ClientMessage::Hello(hello)) = ClientMessage::from_payload(opcode, payload)
            && let Some(resume) = hello.resume
        {
            self.resumed.extend(resume.next.iter().map(|(id, _)| *id));
            self.open.extend(resume.next);
        }
    }

    /// The client receives a message.
    pub(super) fn received(&mut self, message: &Bytes, ledger: &Ledger) -> Result<Vec<Said>, Fault> {
        let mut said = Vec::new();
        for incoming in FrameReader::new(message.clone(), ReaderOptions::default()) {
            let frame = match incoming {
                Ok(Incoming::Frame(frame)) => frame,
                other => return Err(unreadable(format!("{other:?}"))),
            };
            let flags = frame.flags.agreed(self.features).map_err(|error| unreadable(error.to_string()))?;
            let id = frame.id;
            let told = matches!(frame.opcode, Opcode::Stream | Opcode::Error) && id != 0;
            let gone = frame.opcode == Opcode::Error && self.lost.contains_key(&id);
            if told && !gone && !self.open.contains_key(&id) {
                let detail = format!("{:?} on {id}, which is over or was never open", frame.opcode);
                return Err(Fault::new(Invariant::OneTerminal, detail));
            }
            match self.assembler.push(frame, flags, 0) {
                Ok(Assembly::Whole(whole)) => said.extend(self.message(&whole, ledger)?),
                Ok(Assembly::Partial { .. }) => {}
                Ok(Assembly::Discarded) => return Err(unreadable("a tail without a head".into())),
                Err(error) => return Err(unreadable(error.to_string())),
            }
        }
        Ok(said)
    }

    fn message(&mut self, whole: &Assembled, ledger: &Ledger) -> Result<Option<Said>, Fault> {
        self.check_privacy(whole, ledger)?;
        let id = whole.id;
        let payload =
            open_payload(whole, self.features, 16 << 20).map_err(|error| unreadable(error.to_string()))?;
        let message = ServerMessage::from_payload(whole.opcode, payload)
            .map_err(|error| unreadable(format!("{error}: {whole:?}")))?;
        match message {
            ServerMessage::Hello(hello) if hello.op == ServerHelloOp::Accept => {
                self.features = hello.features.unwrap_or(Features::BARE);
                if hello.resumed == Some(true) {
                    self.lost = hello.lost.unwrap_or_default().into_iter().map(|id| (id, false)).collect();
                } else {
                    // What is sent again is open again.
                    std::mem::take(&mut self.resumed).iter().for_each(|id| {
                        self.open.remove(id);
                    });
                }
                Ok(None)
            }
            ServerMessage::Stream(stream) if id != 0 => self.stream(id, stream, whole.flags),
            ServerMessage::Error(error) if id != 0 => Ok(self.over(id, &error)),
            ServerMessage::Error(ErrorFrame::Error(error)) => {
                // An INVOKE that came while its id was in use came to nothing.
                if let Some(Code::DuplicateRequest | Code::RateLimited) = error.known()
                    && let Some(left) = error.reference.and_then(|id| self.repeated.get_mut(&id))
                {
                    *left = left.saturating_sub(1);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn stream(&mut self, id: u16, stream: Stream, flags: Flags) -> Result<Option<Said>, Fault> {
        let (terminal, n, text) = match stream {
            Stream::Terminator => (true, None, None),
            Stream::Text(text) => (false, None, Some(text)),
            Stream::Raw(_) => (false, None, None),
            Stream::Record(record) => {
                let terminal = record.is_terminal();
                let text = match record.body {
                    RecordBody::Text(text) => Some(text),
                    _ => None,
                };
                (terminal, record.n, text)
            }
        };
        if let (Some(n), Some(least)) = (n, self.open.get_mut(&id)) {
            if n < *least {
                let detail = format!("record {n} on {id} came again, {least} is next");
                return Err(Fault::new(Invariant::SameView, detail));
            }
            *least = n + 1;
        }
        if terminal || flags.has(Flags::END) {
            self.close(id);
            return Ok(Some(Said::End(id)));
        }
        Ok(text.map(|text| Said::Text(id, text)))
    }

    fn over(&mut self, id: u16, error: &ErrorFrame) -> Option<Said> {
        let gone = matches!(error, ErrorFrame::Error(error) if error.known() == Some(Code::ReplayGone));
        if gone && self.lost.remove(&id) == Some(true) {
            return None;
        }
        self.close(id);
        Some(if matches!(error, ErrorFrame::Complete(_)) { Said::End(id) } else { Said::Error(id) })
    }

    fn close(&mut self, id: u16) {
        match self.repeated.get_mut(&id).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => {
                self.open.remove(&id);
            }
        }
    }

    /// Nobody is told identifiers or words of somebody else.
    fn check_privacy(&self, whole: &Assembled, ledger: &Ledger) -> Result<(), Fault> {
        let unpacked;
        let bytes = match self.features.compression().filter(|_| whole.flags.has(Flags::COMPRESSED)) {
            Some(algorithm) => {
                unpacked = decompress(algorithm, &whole.payload, 16 << 20).unwrap_or_default();
                &unpacked
            }
            None => &whole.payload,
        };
        ledger.check_own_words(&self.principal, bytes)
    }
}

/// How the simulation marks the words of a principal.
pub(super) fn marker(principal: &PrincipalId) -> String {
    format!("~{principal}~")
}

fn unreadable(detail: String) -> Fault {
    Fault::new(Invariant::SameView, format!("the client cannot read this: {detail}"))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use switchboard_asp::codec::encode_frame;
    use switchboard_asp::message::{Enc, ErrorBody, Feature, ServerHello};
    use switchboard_core::SessionLimits;

    use super::*;

    fn bytes(opcode: Opcode, flags: Flags, id: u16, payload: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        encode_frame(&mut out, opcode, flags, id, payload).unwrap();
        out.freeze()
    }

    fn map(opcode: Opcode, map: &switchboard_asp::Map) -> Bytes {
        let mut payload = BytesMut::new();
        map.encode(Enc::Json, &mut payload);
        bytes(opcode, Flags::NONE, 0, &payload)
    }

    fn wire() -> (Wire, Ledger) {
        (Wire::new("ann".into()), Ledger::new(SessionLimits::default()))
    }

    fn ends(wire: &mut Wire, ledger: &Ledger) -> Result<Vec<Said>, Fault> {
        wire.received(&bytes(Opcode::Stream, Flags::NONE, 3, b""), ledger)
    }

    /// Seed 2582: a copy with a bit in its reserved byte was taken for a fragment, though nothing was
    /// agreed (§3.1), and its answer for a second one.
    #[test]
    fn a_repeated_invoke_may_be_answered_whatever_its_reserved_byte() {
        for reserved in 0..=u8::MAX {
            let (mut wire, ledger) = wire();
            wire.sent(&bytes(Opcode::Invoke, Flags::NONE, 3, b"hi"));
            let mut copy = bytes(Opcode::Invoke, Flags::NONE, 3, b"hi").to_vec();
            copy[1] = reserved;
            wire.sent(&copy.into());
            assert_eq!(ends(&mut wire, &ledger).unwrap(), [Said::End(3)]);
            assert_eq!(ends(&mut wire, &ledger).unwrap(), [Said::End(3)]);
            assert_eq!(ends(&mut wire, &ledger).unwrap_err().invariant, Invariant::OneTerminal);
        }
    }

    #[test]
    fn a_repeated_invoke_that_was_refused_is_not_answered() {
        let (mut wire, ledger) = wire();
        wire.sent(&bytes(Opcode::Invoke, Flags::NONE, 3, b"hi"));
        wire.sent(&bytes(Opcode::Invoke, Flags::NONE, 3, b"hi"));
        let refusal = ErrorBody::new(Code::DuplicateRequest, "the id is in use").about(3);
        wire.received(&map(Opcode::Error, &refusal.to_map()), &ledger).unwrap();
        ends(&mut wire, &ledger).unwrap();
        assert_eq!(ends(&mut wire, &ledger).unwrap_err().invariant, Invariant::OneTerminal);
    }

    #[test]
    fn an_invoke_in_fragments_is_answered_once() {
        let (mut wire, ledger) = wire();
        let mut accept = ServerHello::new(ServerHelloOp::Accept);
        accept.features = Some(Features::BARE.with(Feature::Flags).with(Feature::Frag));
        wire.received(&map(Opcode::Hello, &accept.to_map()), &ledger).unwrap();
        for flags in [Flags::MORE, Flags::MORE, Flags::NONE] {
            wire.sent(&bytes(Opcode::Invoke, flags, 3, b"hi"));
        }
        ends(&mut wire, &ledger).unwrap();
        assert_eq!(ends(&mut wire, &ledger).unwrap_err().invariant, Invariant::OneTerminal);
    }
}
