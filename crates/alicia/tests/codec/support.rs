//! Envelopes member by member.

use bytes::BytesMut;
use switchboard_alicia::value::encode_msgpack;
use switchboard_alicia::{
    AliciaLimits, Body, Code, DecodeError, Decoded, Dialect, Envelope, Map, Side, Value, decode,
};

pub(crate) const CONV: &str = "ac_0123456789abcdefghijk";

/// A value from JSON text.
pub(crate) fn json(text: &str) -> Value {
    Value::try_from(serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap()
}

/// A map from JSON text.
pub(crate) fn map(text: &str) -> Map {
    match json(text) {
        Value::Map(map) => map,
        other => panic!("{other:?}"),
    }
}

/// An envelope of this type in the conversation, unsequenced.
pub(crate) fn envelope(number: u16, body: Map) -> Map {
    Map::new()
        .with("stanzaId", 0_i64)
        .with("conversationId", CONV)
        .with("type", i64::from(number))
        .with("body", body)
}

pub(crate) fn bytes(value: impl Into<Value>) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode_msgpack(&value.into(), &mut out);
    out.to_vec()
}

/// Everything in one packet.
pub(crate) fn all(packet: &[u8], from: Side, dialect: Dialect) -> Vec<Result<Decoded, DecodeError>> {
    decode(packet, from, dialect, &AliciaLimits::default())
}

/// The only envelope in a packet on a full socket.
pub(crate) fn one(packet: &[u8], from: Side) -> Result<Decoded, DecodeError> {
    let mut read = all(packet, from, Dialect::Full);
    assert_eq!(read.len(), 1);
    read.remove(0)
}

pub(crate) fn read(map: Map, from: Side) -> Result<Envelope, DecodeError> {
    match one(&bytes(map), from)? {
        Decoded::Full { envelope, .. } => Ok(*envelope),
        Decoded::Lite(_) => panic!("not lite"),
    }
}

/// The body of an envelope with this type and these members.
pub(crate) fn body(number: u16, members: Map, from: Side) -> Result<Body, DecodeError> {
    read(envelope(number, members), from).map(|envelope| envelope.body)
}

/// The code that answers a client for this body.
pub(crate) fn client_code(number: u16, members: &str) -> Result<(), Code> {
    body(number, map(members), Side::Client).map(|_| ()).map_err(|error| error.code())
}

/// The code for this body from a server.
pub(crate) fn server_code(number: u16, members: &str) -> Result<(), Code> {
    body(number, map(members), Side::Server).map(|_| ()).map_err(|error| error.code())
}
