//! Every vector of §14 and of other peoples' encoders, from `vectors/alicia/frames`: decoded, encoded again,
//! and cut at every length.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use bytes::{Bytes, BytesMut};
use switchboard_alicia::value::encode_msgpack;
use switchboard_alicia::{
    AliciaLimits, Code, DecodeError, Decoded, Dialect, Map, Side, Value, decode, encode, encode_lite,
};
use switchboard_testkit::vectors::{Vector, load, unhex};

fn valid() -> Vec<Vector> {
    load("alicia").into_iter().filter(|vector| vector.error.is_none()).collect()
}

fn named(id: &str) -> Vector {
    load("alicia").into_iter().find(|vector| vector.id == id).unwrap()
}

fn is_canonical(vector: &Vector) -> bool {
    vector.all["canonical"].as_bool().unwrap()
}

fn bytes(vector: &Vector) -> Bytes {
    let messages = vector.messages();
    let [bytes] = messages.as_slice() else { panic!("{}: one packet expected", vector.id) };
    bytes.clone()
}

/// The value that a vector describes; bytes are written as `{"$hex": "…"}`.
fn described(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Object(members) => match members.get("$hex").and_then(|hex| hex.as_str()) {
            Some(hex) => Value::Bin(unhex(hex)),
            None => Value::Map(
                members.iter().map(|(key, member)| (key.clone(), described(member))).collect::<Map>(),
            ),
        },
        serde_json::Value::Array(items) => Value::Array(items.iter().map(described).collect()),
        other => Value::try_from(other.clone()).unwrap(),
    }
}

fn read(vector: &Vector, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let (from, dialect) = match (vector.is_to_server(), vector.all["profile"].as_str()) {
        (true, _) => (Side::Client, Dialect::Undecided),
        (false, Some("lite")) => (Side::Server, Dialect::Lite),
        (false, _) => (Side::Server, Dialect::Full),
    };
    let mut read = decode(bytes, from, dialect, &AliciaLimits::default());
    assert_eq!(read.len(), 1, "{}", vector.id);
    read.remove(0)
}

fn again(decoded: &Decoded) -> (Value, Bytes) {
    match decoded {
        Decoded::Full { envelope, .. } => (Value::Map(envelope.to_map()), encode(envelope)),
        Decoded::Lite(envelope) => (Value::Map(envelope.to_map()), encode_lite(envelope)),
    }
}

/// Decodes a vector and compares it with its description.
fn check(id: &str) {
    let vector = named(id);
    let decoded = read(&vector, &bytes(&vector)).unwrap();
    // Formatting hides content, so the comparison is not an `assert_eq`.
    assert!(again(&decoded).0 == described(&vector.all["envelope"]), "{id}: {decoded:?}");
}

#[test]
fn all_vectors_of_the_reference_are_there() {
    let ids: Vec<String> = load("alicia").into_iter().map(|vector| vector.id).collect();
    for number in 1..=21 {
        assert!(ids.contains(&format!("TV-{number:02}")));
    }
    assert_eq!(ids.iter().filter(|id| id.starts_with("N-")).count(), 12);
    assert_eq!(ids.len(), 46);
}

#[test]
fn vectors_decode_to_what_they_describe() {
    for vector in valid() {
        check(&vector.id);
        let decoded = read(&vector, &bytes(&vector)).unwrap();
        let lite = vector.all["profile"] == "lite";
        assert_eq!(decoded.dialect() == Dialect::Lite, lite, "{}", vector.id);
    }
}

#[test]
fn al_001_canonical_vectors_encode_to_the_same_bytes() {
    let mut checked = 0;
    for vector in valid() {
        let decoded = read(&vector, &bytes(&vector)).unwrap();
        let mut plain = BytesMut::new();
        encode_msgpack(&described(&vector.all["envelope"]), &mut plain);
        // The typed way and the plain one agree; whatever came in, what goes out is canonical.
        assert_eq!(again(&decoded).1, plain, "{}", vector.id);
        assert_eq!(plain == bytes(&vector), is_canonical(&vector), "{}", vector.id);
        checked += usize::from(is_canonical(&vector));
    }
    assert_eq!(checked, 18);
}

#[test]
fn al_002_every_integer_width_is_accepted_as_in_tv_18() {
    check("TV-18");
    check("go-01");
}

#[test]
fn al_003_wide_map_headers_are_accepted_as_in_tv_19() {
    check("TV-19");
    check("browser-02");
}

#[test]
fn al_004_integral_floats_are_integers_as_in_tv_19() {
    check("TV-19");
    check("browser-03");
}

#[test]
fn al_005_nil_and_undefined_are_absent_as_in_tv_19() {
    check("TV-19");
    check("browser-04");
    check("python-01");
}

#[test]
fn al_006_floats_of_both_widths_are_accepted_as_in_tv_13() {
    check("TV-13");
    check("python-03");
    check("browser-06");
}

#[test]
fn al_011_unknown_types_are_skipped_as_in_tv_17() {
    check("TV-17");
    let decoded = read(&named("TV-17"), &bytes(&named("TV-17"))).unwrap();
    let Decoded::Full { envelope, .. } = decoded else { panic!("not lite") };
    assert_eq!(envelope.body.kind(), None);
}

#[test]
fn al_021_a_stanza_id_beyond_32_bits_is_processed_as_0_as_in_tv_21() {
    check("TV-21");
}

#[test]
fn invalid_vectors_give_the_error_they_name_and_end_nothing() {
    let vectors: Vec<Vector> = load("alicia").into_iter().filter(|vector| vector.error.is_some()).collect();
    for vector in &vectors {
        let expected = vector.error.as_ref().unwrap();
        let error = read(vector, &bytes(vector)).unwrap_err();
        assert_eq!(
            (error.code().number(), error.code().name()),
            (expected.code, expected.name.as_str()),
            "{}",
            vector.id
        );
        assert_eq!(error.close(), None, "{}", vector.id);
        assert!(error.is_undecodable(), "{}", vector.id);
    }
    assert_eq!(vectors.len(), 12);
}

#[test]
fn every_vector_cut_at_every_length_is_malformed() {
    for vector in valid() {
        let whole = bytes(&vector);
        for length in 0..whole.len() {
            let error = read(&vector, &whole[..length]).unwrap_err();
            assert_eq!(error.code(), Code::Malformed, "{} at {length}", vector.id);
        }
        for extra in [0x00, 0xC0, 0x80] {
            let longer = [&whole[..], &[extra]].concat();
            assert_eq!(read(&vector, &longer).unwrap_err().code(), Code::Malformed, "{}", vector.id);
        }
    }
}
