//! What is inside a message, in whatever protocol: a tree that can be looked at, changed, and written
//! in the encoding in which it came.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use switchboard_asp::codec::{Incoming, ReaderOptions};
use switchboard_asp::message::Enc;
use switchboard_asp::{Flags, Frame, FrameReader, Value as AspValue};

use super::{Request, header};

/// The protocol that a connection speaks, as far as its first request tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The Agent Socket Protocol.
    Asp,
    /// Acolyte.
    Acolyte,
    /// AIP.
    Aip,
    /// Alicia.
    Alicia,
    /// VIP.
    Vip,
    /// Something else over HTTP or a WebSocket.
    Other,
}

impl Dialect {
    /// The protocol of a connection that begins so.
    pub(crate) fn of(request: &Request) -> Self {
        let offered = header(&request.headers, "sec-websocket-protocol").unwrap_or_default();
        if offered.split(',').any(|entry| entry.trim() == "asp-v1") {
            return Self::Asp;
        }
        let path = request.path();
        let begins = |start: &str| path.starts_with(start);
        if path == "/v1/agent-socket" {
            Self::Asp
        } else if path == "/v1/rpc" || begins("/v1/chat/") || path == "/v1/status" {
            Self::Acolyte
        } else if begins("/v1/vip/") || begins("/.well-known/vip") {
            Self::Vip
        } else if begins("/api/v1/") {
            Self::Alicia
        } else if path == "/ws" || begins("/api/") {
            Self::Aip
        } else {
            Self::Other
        }
    }

    /// What the header of a recording calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Asp => "asp",
            Self::Acolyte => "acolyte",
            Self::Aip => "aip",
            Self::Alicia => "alicia",
            Self::Vip => "vip",
            Self::Other => "other",
        }
    }
}

/// A message, read as far as it can be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// Frames of ASP.
    Frames(Vec<OpenFrame>),
    /// A map in MessagePack.
    Msgpack(Value),
    /// JSON.
    Json(Value),
    /// Other text.
    Text(String),
    /// Other bytes.
    Bytes(Bytes),
}

/// A frame of ASP with what is inside.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OpenFrame {
    frame: Frame,
    inside: Inside,
}

/// The payload of a frame.
#[derive(Clone, Debug, PartialEq)]
enum Inside {
    /// A map or list, and how it was written.
    Tree(Enc, Value),
    /// Text.
    Text(String),
    /// Fragments, compressed payloads, and whatever else is not to be read here.
    Bytes,
}

impl Message {
    /// Reads a text message or a body.
    pub(crate) fn text(text: &str) -> Self {
        match serde_json::from_str::<Value>(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Self::Json(value),
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_) => {
                Self::Text(text.to_owned())
            }
        }
    }

    /// Reads a binary message.
    pub(crate) fn binary(dialect: Dialect, bytes: &Bytes) -> Self {
        let read = match dialect {
            Dialect::Asp => frames(bytes).map(Self::Frames),
            Dialect::Alicia => AspValue::decode(Enc::Msgpack, bytes)
                .ok()
                .map(Value::from)
                .filter(Value::is_object)
                .map(Self::Msgpack),
            Dialect::Acolyte => std::str::from_utf8(bytes).ok().map(Self::text),
            Dialect::Aip | Dialect::Vip | Dialect::Other => None,
        };
        read.unwrap_or_else(|| Self::Bytes(bytes.clone()))
    }

    /// What there is to compare: one value, or one per frame.
    pub(crate) fn units(&self) -> Vec<Value> {
        match self {
            Self::Frames(frames) => frames.iter().map(OpenFrame::unit).collect(),
            Self::Msgpack(value) | Self::Json(value) => vec![value.clone()],
            Self::Text(text) => vec![Value::String(text.clone())],
            Self::Bytes(bytes) => vec![json!({ "bytes": STANDARD.encode(bytes) })],
        }
    }

    /// Shows every text inside, with the name of its member, to somebody who may change it; answers
    /// whether that happened.
    pub(crate) fn rewrite(&mut self, change: &mut dyn FnMut(&str, &mut String) -> bool) -> bool {
        match self {
            Self::Frames(frames) => {
                let mut changed = false;
                for frame in frames {
                    changed |= match &mut frame.inside {
                        Inside::Tree(_, value) => rewrite(value, "", change),
                        Inside::Text(text) => change("", text),
                        Inside::Bytes => false,
                    };
                }
                changed
            }
            Self::Msgpack(value) | Self::Json(value) => rewrite(value, "", change),
            Self::Text(text) => change("", text),
            Self::Bytes(_) => false,
        }
    }

    /// As it is sent; none if it cannot be written any more.
    pub(crate) fn encode(&self) -> Option<Bytes> {
        match self {
            Self::Frames(frames) => {
                let mut out = BytesMut::new();
                for frame in frames {
                    frame.encode(&mut out)?;
                }
                Some(out.freeze())
            }
            Self::Msgpack(value) => packed(Enc::Msgpack, value),
            Self::Json(value) => Some(Bytes::from(value.to_string())),
            Self::Text(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            Self::Bytes(bytes) => Some(bytes.clone()),
        }
    }
}

impl OpenFrame {
    fn of(frame: Frame) -> Self {
        let sealed = frame.flags.has(Flags::MORE) || frame.flags.has(Flags::COMPRESSED);
        let inside = if sealed { Inside::Bytes } else { opened(&frame.payload) };
        Self { frame, inside }
    }

    fn unit(&self) -> Value {
        let Frame { opcode, flags, id, payload } = &self.frame;
        let inside = match &self.inside {
            Inside::Tree(_, value) => value.clone(),
            Inside::Text(text) => Value::String(text.clone()),
            Inside::Bytes => json!({ "$b64": STANDARD.encode(payload) }),
        };
        json!({ "frame": opcode.to_string(), "id": id, "flags": flags.byte(), "payload": inside })
    }

    fn encode(&self, out: &mut BytesMut) -> Option<()> {
        let payload = match &self.inside {
            Inside::Tree(enc, value) => packed(*enc, value)?,
            Inside::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            Inside::Bytes => self.frame.payload.clone(),
        };
        Frame { payload, ..self.frame.clone() }.encode(out).ok().map(|_| ())
    }
}

/// The frames of a message, if it consists of nothing else.
fn frames(bytes: &Bytes) -> Option<Vec<OpenFrame>> {
    FrameReader::new(bytes.clone(), ReaderOptions::default())
        .map(|incoming| match incoming {
            Ok(Incoming::Frame(frame)) => Some(OpenFrame::of(frame)),
            Ok(Incoming::Unknown { .. } | Incoming::Oversized { .. }) | Err(_) => None,
        })
        .collect()
}

/// A payload, by its first byte (§3.2).
fn opened(payload: &Bytes) -> Inside {
    let enc = match payload.first() {
        Some(b'{' | b'[') => Some(Enc::Json),
        Some(0x80..=0x8f | 0xde | 0xdf) => Some(Enc::Msgpack),
        Some(_) | None => None,
    };
    let tree = enc.and_then(|enc| Some((enc, AspValue::decode(enc, payload).ok()?)));
    match (tree, std::str::from_utf8(payload)) {
        (Some((enc, value)), _) => Inside::Tree(enc, value.into()),
        (None, Ok(text)) => Inside::Text(text.to_owned()),
        (None, Err(_)) => Inside::Bytes,
    }
}

fn packed(enc: Enc, value: &Value) -> Option<Bytes> {
    let mut out = BytesMut::new();
    AspValue::try_from(value.clone()).ok()?.encode(enc, &mut out);
    Some(out.freeze())
}

/// Shows every text of a tree to somebody who may change it.
fn rewrite(value: &mut Value, key: &str, change: &mut dyn FnMut(&str, &mut String) -> bool) -> bool {
    match value {
        Value::String(text) => change(key, text),
        Value::Array(items) => {
            let mut changed = false;
            for item in items {
                changed |= rewrite(item, key, change);
            }
            changed
        }
        Value::Object(members) => {
            let mut changed = false;
            for (name, member) in members {
                // The value of a credential is a credential.
                let name = if name == "value" && !key.is_empty() { key } else { name.as_str() };
                changed |= rewrite(member, name, change);
            }
            changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use switchboard_asp::Opcode;

    use super::*;

    fn shout(_: &str, text: &mut String) -> bool {
        let before = text.clone();
        *text = text.to_uppercase();
        *text != before
    }

    fn request(target: &str, offered: &str) -> Request {
        Request {
            method: "GET".to_owned(),
            target: target.to_owned(),
            headers: vec![("sec-websocket-protocol".to_owned(), offered.to_owned())],
            body: super::super::Payload::default(),
            websocket: true,
        }
    }

    #[test]
    fn a_protocol_is_known_by_its_first_request() {
        for (target, offered, dialect) in [
            ("/v1/agent-socket?agent=a", "asp-v1", Dialect::Asp),
            ("/ws", "asp-v1, asp-bearer.abc", Dialect::Asp),
            ("/ws?token=t", "", Dialect::Aip),
            ("/v1/rpc", "bearer.k", Dialect::Acolyte),
            ("/api/v1/ws", "", Dialect::Alicia),
            ("/v1/vip/sessions", "", Dialect::Vip),
            ("/metrics", "", Dialect::Other),
        ] {
            assert_eq!(Dialect::of(&request(target, offered)), dialect, "{target}");
        }
    }

    #[test]
    fn frames_are_opened_changed_and_written_again() {
        let mut bytes = BytesMut::new();
        let hello = AspValue::decode(Enc::Json, br#"{"op":"accept","resume":{"token":"abc"}}"#).unwrap();
        let mut payload = BytesMut::new();
        hello.encode(Enc::Msgpack, &mut payload);
        Frame::new(Opcode::Hello, 0, payload.freeze()).encode(&mut bytes).unwrap();
        Frame::new(Opcode::Stream, 7, "plain").encode(&mut bytes).unwrap();
        let bytes = bytes.freeze();
        let mut message = Message::binary(Dialect::Asp, &bytes);
        assert_eq!(message.encode().unwrap(), bytes);
        let units = message.units();
        assert_eq!(units[0]["payload"]["resume"]["token"], "abc");
        assert_eq!((&units[1]["id"], &units[1]["payload"]), (&json!(7), &json!("plain")));
        assert!(message.rewrite(&mut |key, text| key == "token" && shout(key, text)));
        let again = Message::binary(Dialect::Asp, &message.encode().unwrap());
        assert_eq!(again.units()[0]["payload"]["resume"]["token"], "ABC");
        assert_eq!(again.units()[1], units[1]);
    }

    #[test]
    fn envelopes_are_opened_and_what_cannot_be_read_stays_as_it_is() {
        let mut packet = BytesMut::new();
        AspValue::decode(Enc::Json, br#"{"type":2,"body":{"content":"hi"}}"#)
            .unwrap()
            .encode(Enc::Msgpack, &mut packet);
        let packet = packet.freeze();
        let mut message = Message::binary(Dialect::Alicia, &packet);
        assert_eq!(message.units()[0]["body"]["content"], "hi");
        assert!(message.rewrite(&mut shout));
        let again = Message::binary(Dialect::Alicia, &message.encode().unwrap());
        assert_eq!(again.units()[0]["body"]["content"], "HI");
        let noise = Bytes::from_static(&[0xc1, 0xff]);
        let mut message = Message::binary(Dialect::Alicia, &noise);
        assert!(!message.rewrite(&mut shout));
        assert_eq!(message.encode().unwrap(), noise);
    }
}
