//! Properties: what is encoded is decoded again, however it is spelled, and no bytes make a decoder panic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod samples;
mod ways;
mod wide;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use samples::{Gen, body, lite_body};
use switchboard_alicia::value::{MAX_DEPTH, decode_msgpack, encode_msgpack};
use switchboard_alicia::{
    AliciaLimits, Body, DecodeError, Decoded, Dialect, Envelope, LiteBody, LiteEnvelope, LiteType, Map,
    MessageType, Side, Value, decode, encode, encode_lite,
};

/// Both sides that may send a type.
fn senders(kind: MessageType) -> Vec<Side> {
    [Side::Client, Side::Server].into_iter().filter(|side| kind.is_sent_by(*side)).collect()
}

fn one(bytes: &[u8], from: Side, dialect: Dialect) -> Result<Decoded, DecodeError> {
    let mut read = decode(bytes, from, dialect, &AliciaLimits::default());
    assert_eq!(read.len(), 1);
    read.remove(0)
}

fn full(bytes: &[u8], from: Side) -> Envelope {
    match one(bytes, from, Dialect::Undecided) {
        Ok(Decoded::Full { envelope, .. }) => *envelope,
        other => panic!("{other:?}"),
    }
}

fn lite(bytes: &[u8], from: Side) -> LiteEnvelope {
    match one(bytes, from, Dialect::Undecided) {
        Ok(Decoded::Lite(envelope)) => *envelope,
        other => panic!("{other:?}"),
    }
}

/// An envelope of this type as one of its senders writes it.
fn envelope(g: &mut Gen, kind: MessageType, from: Side) -> Envelope {
    let stanza_id = match from {
        Side::Client => g.int(0, i64::from(i32::MAX)),
        Side::Server => -g.int(0, i64::from(i32::MAX)),
    };
    Envelope {
        stanza_id: i32::try_from(stanza_id).unwrap(),
        conversation_id: g.of(),
        meta: g.of(),
        body: body(g, kind),
    }
}

fn lite_envelope(g: &mut Gen, kind: LiteType) -> LiteEnvelope {
    LiteEnvelope {
        conversation_id: g.of(),
        body: lite_body(g, kind),
        trace: g.of(),
        session_id: g.of(),
        user_id: g.chance().then(|| switchboard_core::Pii("someone@example".to_owned())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_type_round_trips_from_every_side(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let envelope = envelope(&mut g, *kind, from);
                let bytes = encode(&envelope);
                let read = full(&bytes, from);
                prop_assert!(read == envelope, "{kind}: {read:?} is not {envelope:?}");
                prop_assert_eq!(encode(&read), bytes, "{}", kind);
            }
        }
    }

    #[test]
    fn every_type_of_the_lite_profile_round_trips(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        for kind in LiteType::ALL {
            for from in [Side::Client, Side::Server].into_iter().filter(|side| kind.is_sent_by(*side)) {
                let envelope = lite_envelope(&mut g, *kind);
                let bytes = encode_lite(&envelope);
                let read = lite(&bytes, from);
                prop_assert!(read == envelope, "{kind}: {read:?} is not {envelope:?}");
                prop_assert_eq!(encode_lite(&read), bytes, "{}", kind);
            }
        }
    }

    #[test]
    fn al_007_order_width_and_unknown_keys_change_nothing(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let envelope = envelope(&mut g, *kind, from);
                let mut map = wide::shuffled(&mut g, envelope.to_map());
                map.insert("x-unknown", g.of::<Value>());
                let mut inner = wide::shuffled(&mut g, envelope.body.to_map(envelope.conversation_id.as_ref()));
                inner.insert("x-unknown", g.of::<Value>());
                inner.insert("x-nil", Value::Nil);
                map.insert("body", inner);
                let read = full(&wide::encode(&mut g, &Value::Map(map)), from);
                prop_assert!(read == envelope, "{kind}: {read:?} is not {envelope:?}");
            }
        }
    }

    #[test]
    fn every_type_cut_at_every_length_is_refused(seed in any::<u64>(), at in any::<prop::sample::Index>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let bytes = encode(&envelope(&mut g, *kind, from));
                prop_assert!(one(&bytes[..at.index(bytes.len())], from, Dialect::Full).is_err());
            }
        }
    }

    #[test]
    fn unknown_types_are_kept(seed in any::<u64>(), number in 1_u16..) {
        let mut g = Gen::new(seed);
        let body: Map = g.of();
        if MessageType::from_number(number).is_none() {
            let unknown = Body::Unknown { number, body: body.clone() };
            let envelope = Envelope { stanza_id: 0, conversation_id: g.of(), meta: g.of(), body: unknown };
            prop_assert!(full(&encode(&envelope), Side::Client) == envelope);
        }
        if LiteType::from_number(number).is_none() {
            let envelope = LiteEnvelope::new(g.of(), LiteBody::Unknown { number, body });
            prop_assert!(lite(&encode_lite(&envelope), Side::Server) == envelope);
        }
    }

    #[test]
    fn values_round_trip_in_every_width(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        let value: Value = g.of();
        let mut out = BytesMut::new();
        encode_msgpack(&value, &mut out);
        prop_assert!(decode_msgpack(&out).unwrap() == value);
        prop_assert!(decode_msgpack(&wide::encode(&mut g, &value)).unwrap() == value);
    }

    #[test]
    fn values_survive_json_but_for_bytes(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        let value: Value = g.of();
        let json = serde_json::to_value(&value).unwrap();
        let back = Value::try_from(json.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(&back).unwrap(), json);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode_msgpack(&bytes);
        for dialect in [Dialect::LiveKit, Dialect::Undecided, Dialect::Full, Dialect::Lite] {
            for from in [Side::Client, Side::Server] {
                for read in decode(&bytes, from, dialect, &AliciaLimits::default()) {
                    let _ = read.map_err(|error| error.to_string());
                }
            }
        }
    }

    #[test]
    fn arbitrary_bodies_never_panic(seed in any::<u64>(), number in 1_u16..100) {
        let mut g = Gen::new(seed);
        let known = MessageType::from_number(number).map(|kind| body(&mut g, kind).to_map(None));
        // The right keys with the wrong values, and wrong keys.
        let keys: Vec<String> = known.iter().flat_map(|map| map.iter().map(|(key, _)| key.to_owned())).collect();
        let mut map: Map = g.of();
        for key in keys {
            map.insert(key, g.of::<Value>());
        }
        let envelope = Map::new().with("stanzaId", 0_i64).with("type", i64::from(number)).with("body", map);
        let bytes = wide::encode(&mut g, &Value::Map(envelope));
        for dialect in [Dialect::Full, Dialect::Lite] {
            for from in [Side::Client, Side::Server] {
                let _ = one(&bytes, from, dialect);
            }
        }
    }

    #[test]
    fn damaged_envelopes_never_panic(seed in any::<u64>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let mut bytes = encode(&envelope(&mut g, *kind, from)).to_vec();
                let index = at.index(bytes.len());
                bytes[index] = byte;
                for read in decode(&bytes, from, Dialect::Undecided, &AliciaLimits::default()) {
                    // Whatever is read has a canonical form that reads the same.
                    if let Ok(Decoded::Full { envelope, .. }) = read {
                        let again = full(&encode(&envelope), from);
                        prop_assert_eq!(encode(&again), encode(&envelope));
                    }
                }
            }
        }
    }

    #[test]
    fn al_009_lying_lengths_are_found_out(declared in any::<u32>(), marker in prop::sample::select(&[0xC6_u8, 0xDB, 0xDD, 0xDF][..]), rest in vec(any::<u8>(), 0..40)) {
        let mut bytes = vec![marker];
        bytes.extend(declared.to_be_bytes());
        bytes.extend(&rest);
        if usize::try_from(declared).unwrap() > rest.len() {
            prop_assert!(decode_msgpack(&bytes).is_err());
        }
    }

    #[test]
    fn al_009_depth_is_bounded(depth in 1_usize..80, lists in any::<bool>()) {
        let mut bytes = Vec::new();
        for _ in 1..depth {
            bytes.extend_from_slice(if lists { &[0x91] } else { &[0x81, 0xA1, b'a'] });
        }
        bytes.push(if lists { 0x90 } else { 0x80 });
        prop_assert_eq!(decode_msgpack(&bytes).is_ok(), depth <= MAX_DEPTH);
    }
}
