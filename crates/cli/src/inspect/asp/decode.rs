//! From bytes to frames, in the order of validation of §3.4: the first step that fails decides.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Incoming, Payload, ReaderOptions, decode_payload,
    open_payload,
};
use switchboard_asp::error::FrameError;
use switchboard_asp::message::{Direction, Opcode, ServerHelloOp};
use switchboard_asp::{
    ClientMessage, Close, Code, DecodeError, Features, Flags, Frame, FrameReader, ServerMessage, Value,
};

use crate::inspect::capture::Item;
use crate::inspect::text;

/// Reads the messages of one connection.
#[derive(Debug)]
pub(super) struct Inspector {
    /// What the user says was agreed.
    given: Option<Features>,
    /// What the capture says was agreed.
    agreed: Option<Features>,
    to_server: Assembler,
    to_client: Assembler,
}

impl Inspector {
    pub(super) fn new(given: Option<Features>) -> Self {
        let limits =
            AssemblerLimits { max_payload: MAX_PAYLOAD, max_held: MAX_PAYLOAD, ..AssemblerLimits::default() };
        Self { given, agreed: None, to_server: Assembler::new(limits), to_client: Assembler::new(limits) }
    }

    /// The frames of one message.
    pub(super) fn message(&mut self, item: &Item, direction: Option<Direction>) -> Vec<Report> {
        let message = &item.bytes;
        let features = item.features.or(self.given);
        let mut reports = Vec::new();
        let mut offset = 0;
        for incoming in FrameReader::new(message.clone(), ReaderOptions::default()) {
            let header = message.get(offset..offset + HEADER).map(Header::read);
            let report = Report { offset, header, direction, body: Body::Nothing, problem: None };
            let report = match incoming {
                Ok(Incoming::Frame(frame)) => {
                    let features = features.or(self.agreed).unwrap_or(Features::STANDARD);
                    self.frame(report, frame, direction, features)
                }
                Ok(Incoming::Unknown { nibble, .. }) => {
                    let reason = format!("type {nibble:#x} is not assigned; the frame is skipped");
                    report.wrong(Step::Type, 0..1, reason, Code::UnknownOpcode, None)
                }
                Ok(Incoming::Oversized { length, .. }) => {
                    let reason = format!("payload of {length} bytes is larger than the limit");
                    report.wrong(Step::Length, 4..8, reason, Code::PayloadTooLarge, None)
                }
                Err(error) => report.unreadable(error, message.len()),
            };
            offset += HEADER + report.header.map_or(0, |header| header.length as usize);
            reports.push(report);
        }
        if message.is_empty() {
            let nothing = Report { offset, header: None, direction, body: Body::Nothing, problem: None };
            let empty = FrameError::Truncated { need: HEADER as u64, have: 0 };
            reports.push(nothing.unreadable(empty, 0));
        }
        reports
    }

    /// Messages whose last fragment never came.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        let open = [self.to_server.abort_all(), self.to_client.abort_all()].concat();
        let unfinished = open.into_iter().map(|(id, opcode)| Problem {
            step: Step::Assemble,
            bytes: None,
            reason: format!("the last fragment of {opcode} on id {id} is missing"),
            code: Code::FragmentError,
            close: None,
        });
        unfinished.collect()
    }

    fn frame(
        &mut self,
        mut report: Report,
        frame: Frame,
        direction: Option<Direction>,
        features: Features,
    ) -> Report {
        let direction = direction.unwrap_or_else(|| guess_direction(&frame, features));
        report.direction = Some(direction);
        let Frame { opcode, id, flags, .. } = frame;
        if !opcode.travels(direction) {
            return report.invalid(Step::Direction, 0..1, &DecodeError::Direction(opcode));
        }
        if !opcode.carries(id, features) {
            return report.invalid(Step::Id, 2..4, &DecodeError::RequestId(opcode));
        }
        let flags = match flags.agreed(features) {
            Ok(flags) => flags,
            Err(error) => return report.invalid(Step::Flags, 1..2, &error.into()),
        };
        let payload = HEADER..HEADER + frame.payload.len();
        let assembler = match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        };
        match assembler.push(frame, flags, 0) {
            Ok(Assembly::Whole(message)) => self.open(report, &message, direction, features, payload),
            Ok(Assembly::Partial { .. }) => Report { body: Body::Fragment, ..report },
            Ok(Assembly::Discarded) => Report { body: Body::Discarded, ..report },
            Err(error) => report.invalid(Step::Assemble, payload, &error.into()),
        }
    }

    fn open(
        &mut self,
        mut report: Report,
        message: &Assembled,
        direction: Direction,
        features: Features,
        bytes: Range<usize>,
    ) -> Report {
        let payload = match open_payload(message, features, MAX_PAYLOAD) {
            Ok(payload) => payload,
            Err(error) => {
                let packed = matches!(error, DecodeError::Compression(_) | DecodeError::Flags(_));
                let step = if packed { Step::Decompress } else { Step::Decode };
                report.body = Body::Unread(message.payload.clone());
                return report.invalid(step, bytes, &error);
            }
        };
        report.body = if payload == Payload::None && !message.payload.is_empty() {
            Body::Unread(message.payload.clone())
        } else {
            Body::Payload(payload.clone())
        };
        let problem = match direction {
            Direction::ToServer => ClientMessage::from_payload(message.opcode, payload).err(),
            Direction::ToClient => match ServerMessage::from_payload(message.opcode, payload) {
                Ok(ServerMessage::Hello(hello)) => {
                    if hello.op == ServerHelloOp::Accept {
                        self.agreed = Some(hello.features.unwrap_or(Features::BARE));
                    }
                    None
                }
                Ok(ServerMessage::Stream(_) | ServerMessage::ToolDef(_) | ServerMessage::Error(_)) => None,
                Err(error) => Some(error),
            },
        };
        match problem {
            Some(error) => report.invalid(Step::Schema, bytes, &error),
            None => report,
        }
    }
}

/// One frame.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Where it begins in its message.
    pub(super) offset: usize,
    /// Its header, if all of it is there.
    pub(super) header: Option<Header>,
    /// Which way it travels; none if that cannot be known.
    pub(super) direction: Option<Direction>,
    /// What it carries.
    pub(super) body: Body,
    /// What is wrong with it.
    pub(super) problem: Option<Problem>,
}

impl Report {
    fn wrong(
        self,
        step: Step,
        bytes: Range<usize>,
        reason: impl Into<String>,
        code: Code,
        close: Option<Close>,
    ) -> Self {
        let bytes = Some(self.offset + bytes.start..self.offset + bytes.end);
        Self { problem: Some(Problem { step, bytes, reason: reason.into(), code, close }), ..self }
    }

    fn invalid(self, step: Step, bytes: Range<usize>, error: &DecodeError) -> Self {
        self.wrong(step, bytes, error.to_string(), error.code(), error.close())
    }

    fn unreadable(self, error: FrameError, message: usize) -> Self {
        let (step, bytes) = match error {
            FrameError::Truncated { .. } if self.header.is_none() => (Step::Header, 0..message - self.offset),
            FrameError::Truncated { .. } => (Step::Bytes, 0..message - self.offset),
            FrameError::Version(_) => (Step::Version, 0..1),
            FrameError::TooLarge { .. } => (Step::Length, 4..8),
        };
        self.wrong(step, bytes, error.to_string(), error.code(), Some(error.close()))
    }
}

/// The eight bytes before a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) bytes: [u8; HEADER],
    pub(super) id: u16,
    pub(super) length: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Self {
        let mut header = [0; HEADER];
        header.iter_mut().zip(bytes).for_each(|(into, byte)| *into = *byte);
        let [_, _, high, low, length @ ..] = header;
        Self { bytes: header, id: u16::from_be_bytes([high, low]), length: u32::from_be_bytes(length) }
    }

    /// The opcode, if it is one.
    pub(super) fn opcode(self) -> Option<Opcode> {
        Opcode::from_nibble(self.nibble())
    }

    /// The Type nibble.
    pub(super) fn nibble(self) -> u8 {
        let [first, ..] = self.bytes;
        first & 0x0F
    }

    /// The Reserved byte.
    pub(super) fn flags(self) -> Flags {
        let [_, reserved, ..] = self.bytes;
        Flags::from_byte(reserved)
    }
}

/// What a frame carries.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Nothing that was looked at.
    Nothing,
    /// A part of a message that goes on.
    Fragment,
    /// The tail of a message that was refused.
    Discarded,
    /// A whole message.
    Payload(Payload),
    /// A whole message that is not what its opcode needs.
    Unread(Bytes),
}

/// What is wrong with a frame.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// The step of validation that failed.
    pub(super) step: Step,
    /// Which bytes of the message are to blame.
    pub(super) bytes: Option<Range<usize>>,
    /// Why.
    pub(super) reason: String,
    /// How a peer answers.
    pub(super) code: Code,
    /// How a peer closes the connection, if it has to.
    pub(super) close: Option<Close>,
}

/// The steps of §3.4, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// At least eight bytes.
    Header,
    /// Ver is ours.
    Version,
    /// The length is within the limit.
    Length,
    /// As many bytes are there.
    Bytes,
    /// The Type is assigned.
    Type,
    /// It travels in this direction.
    Direction,
    /// It may carry this request id.
    Id,
    /// Its flags fit each other and what was agreed.
    Flags,
    /// Its fragments fit each other.
    Assemble,
    /// It can be decompressed.
    Decompress,
    /// It is JSON, MessagePack or text.
    Decode,
    /// Its members are there and make sense.
    Schema,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Header => "header",
            Self::Version => "version",
            Self::Length => "length",
            Self::Bytes => "bytes",
            Self::Type => "type",
            Self::Direction => "direction",
            Self::Id => "id",
            Self::Flags => "flags",
            Self::Assemble => "assemble",
            Self::Decompress => "decompress",
            Self::Decode => "decode",
            Self::Schema => "schema",
        })
    }
}

/// Most opcodes travel one way only; what a HELLO is for tells who sent it.
fn guess_direction(frame: &Frame, features: Features) -> Direction {
    match frame.opcode {
        Opcode::Invoke | Opcode::Interrupt => Direction::ToServer,
        Opcode::Stream | Opcode::ToolDef | Opcode::Error => Direction::ToClient,
        Opcode::Hello => {
            let flags = frame.flags.agreed(features).unwrap_or(Flags::NONE);
            if let Ok(Payload::Value(Value::Map(map))) =
                decode_payload(frame.opcode, flags, features, &frame.payload)
                && text(map.get("op")).and_then(ServerHelloOp::from_name).is_some()
            {
                Direction::ToClient
            } else {
                Direction::ToServer
            }
        }
    }
}

const HEADER: usize = switchboard_asp::codec::HEADER;
const MAX_PAYLOAD: usize = switchboard_asp::codec::HARD_CAP as usize;
