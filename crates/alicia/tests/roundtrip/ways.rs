//! An envelope by itself is read the short way where that goes, one in an array always the long way: both see the
//! same, in what is right and in what is wrong.

use proptest::prelude::*;
use switchboard_alicia::{
    AliciaLimits, DecodeError, Decoded, Dialect, Fault, Map, MessageType, RELIABLE_PACKET, Side, Value,
    decode, encode, encode_lite,
};
use switchboard_testkit::vectors::load;

use crate::samples::Gen;
use crate::{envelope, senders, wide};

const DIALECTS: [Dialect; 4] = [Dialect::LiveKit, Dialect::Undecided, Dialect::Full, Dialect::Lite];

/// What was read, so that it can be compared whatever floats it holds.
fn seen(read: Result<Decoded, DecodeError>) -> Result<(String, Vec<u8>), DecodeError> {
    read.map(|decoded| {
        let written = match &decoded {
            Decoded::Full { envelope, .. } => encode(envelope),
            Decoded::Lite(envelope) => encode_lite(envelope),
        };
        (format!("{decoded:?}"), written.to_vec())
    })
}

/// Reads a packet both ways; answers whether anything came of it.
fn agree(packet: &[u8], from: Side, dialect: Dialect, what: &str) -> bool {
    // Arrays hold other envelopes, and nothing holds none.
    let bare = matches!(packet, [] | [0x90..=0x9F | 0xDC | 0xDD, ..]);
    // The array itself takes a byte, and makes everything deeper by one.
    let large = dialect == Dialect::LiveKit && packet.len() >= RELIABLE_PACKET;
    if bare || large {
        return false;
    }
    let limits = AliciaLimits::default();
    let mut alone = decode(packet, from, dialect, &limits);
    let mut listed = decode(&[&[0x91], packet].concat(), from, dialect, &limits);
    assert_eq!((alone.len(), listed.len()), (1, 1), "{what}");
    let (alone, listed) = (seen(alone.remove(0)), seen(listed.remove(0)));
    if listed
        .as_ref()
        .is_err_and(|error| error.fault == Fault::Value(switchboard_alicia::error::ValueError::TooDeep))
    {
        return false;
    }
    assert_eq!(alone, listed, "{what}, {from:?}, {dialect:?}");
    alone.is_ok()
}

fn agree_on_all(packet: &[u8], what: &str) {
    for dialect in DIALECTS {
        for from in [Side::Client, Side::Server] {
            agree(packet, from, dialect, what);
        }
    }
}

/// A map whose members may be there twice.
fn packed(g: &mut Gen, members: &[(String, Value)], loose: bool) -> Vec<u8> {
    let mut out = match u8::try_from(members.len()) {
        Ok(length @ 0..=15) => vec![0x80 | length],
        _ => vec![0xDE, 0, u8::try_from(members.len()).unwrap()],
    };
    for (key, value) in members {
        for value in [&Value::from(key.as_str()), value] {
            if loose {
                out.extend(wide::encode(g, value));
            } else {
                switchboard_alicia::value::encode_msgpack(value, &mut out);
            }
        }
    }
    out
}

/// Changes something that may matter.
fn change(g: &mut Gen, members: &mut Vec<(String, Value)>) {
    if members.is_empty() {
        return;
    }
    let (one, other) = (g.below(members.len()), g.below(members.len()));
    match g.below(9) {
        0 => members.swap(one, other),
        1 => members.push(members[one].clone()),
        2 => drop(members.remove(one)),
        3 => members[one].1 = Value::Nil,
        4 => members[one].1 = Value::from(""),
        5 => members[one].1 = g.of(),
        6 => members[one].0 = members[other].0.clone(),
        7 => members.insert(one, ("x-unknown".to_owned(), g.of())),
        _ => members[one].1 = Value::from("conv_ac_0123456789abcdefghijk"),
    }
}

fn members(map: Map) -> Vec<(String, Value)> {
    map.into_iter().map(|(key, value)| (key.into_owned(), value)).collect()
}

#[test]
fn both_ways_read_every_vector_and_every_cut_of_it() {
    let vectors = load("alicia");
    assert!(vectors.len() > 20);
    for vector in vectors {
        for packet in vector.messages() {
            agree_on_all(&packet, &vector.id);
            for length in 1..packet.len() {
                agree(&packet[..length], Side::Server, Dialect::Full, &vector.id);
            }
            for place in 0..packet.len() {
                for byte in
                    [0x00, 0xC0, packet[place] ^ 0x01, packet[place] ^ 0x20, packet[place].wrapping_add(1)]
                {
                    let mut changed = packet.to_vec();
                    changed[place] = byte;
                    let from = if vector.is_to_server() { Side::Client } else { Side::Server };
                    agree(&changed, from, Dialect::Undecided, &vector.id);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_read_the_same(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let packet = encode(&envelope(&mut g, *kind, from));
                prop_assert!(agree(&packet, from, Dialect::Full, kind.name()));
                agree_on_all(&packet, kind.name());
                let mut changed = packet.to_vec();
                for _ in 0..=g.below(3) {
                    let place = g.below(changed.len());
                    changed[place] = u8::try_from(g.below(256)).unwrap();
                }
                agree_on_all(&changed, kind.name());
            }
        }
    }

    #[test]
    fn both_ways_bear_the_same(seed in any::<u64>()) {
        let mut g = Gen::new(seed);
        for kind in MessageType::ALL {
            for from in senders(*kind) {
                let envelope = envelope(&mut g, *kind, from);
                let mut body = members(envelope.body.to_map(envelope.conversation_id.as_ref()));
                let mut outer = members(envelope.to_map());
                for _ in 0..g.below(3) {
                    change(&mut g, &mut body);
                }
                if g.below(4) == 0 {
                    change(&mut g, &mut outer);
                }
                // The body goes where it stood, with whatever it holds twice.
                let loose = g.chance();
                let body = packed(&mut g, &body, loose);
                let mut whole = vec![0x80 | u8::try_from(outer.len()).unwrap()];
                for (key, value) in &outer {
                    switchboard_alicia::value::encode_msgpack(&Value::from(key.as_str()), &mut whole);
                    match (key.as_str(), value) {
                        ("body", Value::Map(_)) => whole.extend(&body),
                        _ => switchboard_alicia::value::encode_msgpack(value, &mut whole),
                    }
                }
                agree_on_all(&whole, kind.name());
            }
        }
    }
}
