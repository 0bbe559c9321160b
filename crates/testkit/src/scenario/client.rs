//! The client of a scenario: it reads what arrives, and remembers what it takes to resume.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use serde_json::Value as Json;
use switchboard_asp::codec::{Assembled, Incoming, Payload, ReaderOptions, open_payload};
use switchboard_asp::message::Features;
use switchboard_asp::{Flags, Frame, FrameReader, Opcode};
use switchboard_core::Frame as TransportFrame;

use super::pattern::fits;
use super::shorthand::{Shorthand, Written};
use crate::world::{PeerId, Received};

/// One connection, seen from its client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: PeerId,
    pub(super) features: Features,
    pub(super) queue: VecDeque<Item>,
    /// Index of the next record, by request, for those that have not ended.
    pub(super) next: BTreeMap<u16, u64>,
}

/// Something that arrived.
#[derive(Debug)]
pub(super) enum Item {
    Frame(Frame),
    /// A transport-level ping.
    Ping,
    /// The server closed.
    Close(u16),
    /// The transport broke.
    Lost,
}

impl Client {
    pub(super) fn new(peer: PeerId) -> Self {
        Self { peer, features: Features::BARE, queue: VecDeque::new(), next: BTreeMap::new() }
    }

    /// Splits what arrived into frames.
    pub(super) fn take_in(&mut self, received: Vec<Received>) -> Result<(), String> {
        for received in received {
            match received {
                Received::Frame(TransportFrame::Binary(message)) => {
                    for frame in FrameReader::new(message, ReaderOptions::default()) {
                        match frame {
                            Ok(Incoming::Frame(frame)) => self.queue.push_back(Item::Frame(frame)),
                            other => return Err(format!("the server sent nonsense: {other:?}")),
                        }
                    }
                }
                Received::Frame(TransportFrame::Ping(_)) => self.queue.push_back(Item::Ping),
                Received::Frame(other) => return Err(format!("the server sent {other:?}")),
                Received::Close(close) => self.queue.push_back(Item::Close(close.code)),
                Received::Lost => self.queue.push_back(Item::Lost),
            }
        }
        Ok(())
    }

    /// Notes what the client sends.
    pub(super) fn sent(&mut self, frame: &Frame) {
        if frame.opcode == Opcode::Invoke && frame.id != 0 {
            self.next.entry(frame.id).or_insert(0);
        }
    }

    /// Takes the next frame, or with `whole` the next message of one or more fragments.
    pub(super) fn next_frame(&mut self, whole: bool) -> Result<Frame, String> {
        let first = match self.queue.pop_front() {
            Some(Item::Frame(frame)) => frame,
            Some(item) => {
                let found = describe(&item, self.features);
                self.queue.push_front(item);
                return Err(format!("{found} found"));
            }
            None => return Err("nothing found".into()),
        };
        if !whole {
            return Ok(first);
        }
        let mut payload = BytesMut::from(first.payload.as_ref());
        let mut flags = first.flags;
        while flags.has(Flags::MORE) {
            let rest = self.queue.iter().position(
                |item| matches!(item, Item::Frame(frame) if frame.id == first.id && frame.opcode == first.opcode),
            );
            let Some(Item::Frame(next)) = rest.and_then(|index| self.queue.remove(index)) else {
                return Err("the last fragment is missing".into());
            };
            payload.extend_from_slice(&next.payload);
            flags = next.flags;
        }
        Ok(Frame { payload: payload.freeze(), flags, ..first })
    }

    /// Takes the next frame of one id; there is no order across ids.
    pub(super) fn next_of(&mut self, id: u16) -> Result<Frame, String> {
        let index = self.queue.iter().position(|item| matches!(item, Item::Frame(frame) if frame.id == id));
        match index.and_then(|index| self.queue.remove(index)) {
            Some(Item::Frame(frame)) => Ok(frame),
            _ => Err(format!("nothing found on #{id}")),
        }
    }

    /// Whether a frame is what is written. Remembers what a client has to remember of it.
    pub(super) fn check(
        &mut self,
        expected: &Shorthand,
        frame: &Frame,
        captures: &mut BTreeMap<String, Json>,
    ) -> Result<(), String> {
        if frame.opcode != expected.opcode || frame.id != expected.id {
            return Err("another opcode or id".into());
        }
        if !expected.flags.fits(frame.flags) {
            return Err(format!("flags {:?}", frame.flags));
        }
        match &expected.payload {
            Written::Anything => {}
            Written::Nothing if frame.payload.is_empty() => {}
            Written::Nothing => return Err("no payload expected".into()),
            Written::Text(text) if frame.payload == text.as_bytes() => {}
            Written::Text(text) => return Err(format!("payload {text:?} expected")),
            Written::Hex(bytes) if frame.payload == bytes => {}
            Written::Hex(_) => return Err("another payload".into()),
            Written::Map(_, pattern) => {
                let value = decode(frame, self.features).ok_or("the payload is no map")?;
                fits(pattern, Some(&value), captures)?;
            }
        }
        self.remember(frame);
        Ok(())
    }

    /// Notes what the client has seen of its requests, and what was agreed.
    pub(super) fn remember(&mut self, frame: &Frame) {
        let value = decode(frame, self.features);
        let member = |name: &str| value.as_ref().and_then(|value| value.get(name)).cloned();
        match frame.opcode {
            Opcode::Hello if member("op") == Some("accept".into()) => {
                let names = member("features").and_then(|names| serde_json::from_value(names).ok());
                let names: Vec<String> = names.unwrap_or_default();
                self.features = Features::agree(names.iter().map(String::as_str), Features::ALL);
            }
            Opcode::Error if frame.id != 0 => {
                self.next.remove(&frame.id);
            }
            Opcode::Stream if frame.id != 0 => {
                let over = frame.payload.is_empty() || member("t") == Some("end".into());
                if over {
                    self.next.remove(&frame.id);
                } else if let Some(n) = member("n").as_ref().and_then(Json::as_u64) {
                    self.next.insert(frame.id, n + 1);
                }
            }
            _ => {}
        }
    }
}

/// The payload as JSON; none if it is no map.
pub(super) fn decode(frame: &Frame, features: Features) -> Option<Json> {
    let flags = frame.flags.agreed(features).unwrap_or_default().without(Flags::MORE);
    let message = Assembled {
        opcode: frame.opcode,
        flags,
        id: frame.id,
        payload: Bytes::copy_from_slice(&frame.payload),
        aborted: None,
    };
    match open_payload(&message, features, 16 << 20) {
        Ok(Payload::Value(value)) => Some(Json::from(value)),
        Ok(Payload::None | Payload::Text(_) | Payload::Raw(_)) | Err(_) => None,
    }
}

/// Something that arrived, for a person to read.
pub(super) fn describe(item: &Item, features: Features) -> String {
    match item {
        Item::Ping => "ping".into(),
        Item::Close(code) => format!("close {code}"),
        Item::Lost => "lost".into(),
        Item::Frame(frame) => {
            let payload = match decode(frame, features) {
                Some(value) => value.to_string(),
                None => match std::str::from_utf8(&frame.payload) {
                    Ok(text) => format!("{text:?}"),
                    Err(_) => format!("{:02x?}", frame.payload),
                },
            };
            let payload: String = payload.chars().take(400).collect();
            format!("{} #{} {:?} {payload}", frame.opcode, frame.id, frame.flags)
        }
    }
}
