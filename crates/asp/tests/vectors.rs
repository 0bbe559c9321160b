//! Every vector of §23, from `vectors/asp/frames`: decoded, encoded again, and cut at every length.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Compression, Incoming, Payload, ReaderOptions, compress,
    decompress, encode_map_frame, open_payload,
};
use switchboard_asp::error::{Code, FrameError};
use switchboard_asp::message::{
    Direction, Enc, EncFlag, ErrorFrame, Features, Record, RecordBody, Stream, digest,
};
use switchboard_asp::upgrade::{SUBPROTOCOL, bearer_entry, bearer_token, is_bearer_entry};
use switchboard_asp::value::decode_json;
use switchboard_asp::{ClientMessage, Flags, Frame, FrameReader, Map, Opcode, ServerMessage, Value};
use switchboard_core::hex;

const MAX: usize = 1024 * 1024;

struct Vector {
    id: String,
    map: Map,
}

impl Vector {
    fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/asp/frames");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let vectors = paths.iter().map(|path| {
            // Our own decoder keeps the order of members, which byte-exact encoding needs.
            let Ok(Value::Map(map)) = decode_json(&std::fs::read(path).unwrap()) else {
                panic!("{} is not a JSON object", path.display());
            };
            let id = map.get_str("id").unwrap().to_owned();
            assert_eq!(path.file_stem().unwrap().to_str(), Some(id.as_str()));
            Self { id, map }
        });
        vectors.collect()
    }

    fn of_kind(kind: &str) -> Vec<Self> {
        Self::all().into_iter().filter(|vector| vector.map.get_str("kind") == Some(kind)).collect()
    }

    fn named(id: &str) -> Self {
        Self::all().into_iter().find(|vector| vector.id == id).unwrap()
    }

    fn hex(&self) -> Vec<Bytes> {
        self.list("hex").iter().map(|hex| unhex(hex.as_str().unwrap())).collect()
    }

    fn list(&self, key: &str) -> &[Value] {
        self.map.get(key).and_then(Value::as_array).unwrap_or_default()
    }

    fn features(&self) -> Features {
        Features::agree(self.list("features").iter().map(|name| name.as_str().unwrap()), Features::ALL)
    }

    fn direction(&self) -> Direction {
        match self.map.get_str("direction").unwrap() {
            "to_server" => Direction::ToServer,
            "to_client" => Direction::ToClient,
            other => panic!("direction {other}"),
        }
    }

    fn is_valid(&self) -> bool {
        self.map.contains_key("frames")
    }

    fn frames(&self) -> Vec<Frame> {
        let frames = self.list("frames").iter().map(|frame| {
            let frame = frame.as_map().unwrap();
            let reserved = u8::try_from(frame.get_int("reserved").unwrap()).unwrap();
            let id = u16::try_from(frame.get_int("id").unwrap()).unwrap();
            Frame::new(opcode(frame), id, unhex(frame.get_str("payload_hex").unwrap()))
                .with_flags(Flags::from_byte(reserved))
        });
        frames.collect()
    }
}

fn unhex(hex: &str) -> Bytes {
    assert_eq!(hex.len() % 2, 0);
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn opcode(map: &Map) -> Opcode {
    let name = map.get_str("opcode").unwrap();
    *Opcode::ALL.iter().find(|opcode| opcode.to_string() == name).unwrap()
}

fn read(message: Bytes) -> Vec<Result<Incoming, FrameError>> {
    FrameReader::new(message, ReaderOptions::default()).collect()
}

fn assemble(vector: &Vector) -> Vec<Assembled> {
    let mut assembler = Assembler::new(AssemblerLimits::default());
    let mut whole = Vec::new();
    for frame in vector.frames() {
        assert!(frame.opcode.travels(vector.direction()));
        assert!(frame.opcode.carries(frame.id, vector.features()));
        let flags = frame.flags.agreed(vector.features()).unwrap();
        if let Assembly::Whole(message) = assembler.push(frame, flags, 0).unwrap() {
            whole.push(message);
        }
    }
    assert_eq!(assembler.held(), 0);
    whole
}

fn expected_payload(message: &Map) -> Payload {
    let payload = message.get("payload").and_then(Value::as_map).unwrap();
    match payload.get_str("kind").unwrap() {
        "none" => Payload::None,
        "text" => Payload::Text(payload.get_str("text").unwrap().to_owned()),
        "raw" => Payload::Raw(unhex(payload.get_str("hex").unwrap())),
        "value" => Payload::Value(payload.get("value").unwrap().clone()),
        other => panic!("payload kind {other}"),
    }
}

/// The typed message written back as a map; `None` for what is not sent as a map.
fn typed_map(direction: Direction, opcode: Opcode, payload: Payload) -> Option<Map> {
    match direction {
        Direction::ToServer => Some(ClientMessage::from_payload(opcode, payload).unwrap().to_map()),
        Direction::ToClient => match ServerMessage::from_payload(opcode, payload).unwrap() {
            ServerMessage::Hello(hello) => Some(hello.to_map()),
            ServerMessage::Stream(Stream::Record(record)) => Some(record.to_map()),
            ServerMessage::Stream(Stream::Terminator | Stream::Text(_) | Stream::Raw(_)) => None,
            ServerMessage::ToolDef(frame) => Some(frame.to_map()),
            ServerMessage::Error(error) => Some(error.to_map()),
        },
    }
}

#[test]
fn all_26_vectors_are_there() {
    let ids: Vec<String> = Vector::all().into_iter().map(|vector| vector.id).collect();
    let expected: Vec<String> = (1..=26).map(|number| format!("T{number:02}")).collect();
    assert_eq!(ids, expected);
}

#[test]
fn valid_vectors_decode_to_their_frames_and_payloads() {
    for vector in Vector::of_kind("frames").iter().filter(|vector| vector.is_valid()) {
        let frames: Vec<Frame> = vector
            .hex()
            .into_iter()
            .flat_map(read)
            .map(|incoming| match incoming {
                Ok(Incoming::Frame(frame)) => frame,
                other => panic!("{}: {other:?}", vector.id),
            })
            .collect();
        assert_eq!(frames, vector.frames(), "{}", vector.id);

        let messages = assemble(vector);
        assert_eq!(messages.len(), vector.list("messages").len(), "{}", vector.id);
        for (message, expected) in messages.iter().zip(vector.list("messages")) {
            let expected = expected.as_map().unwrap();
            assert_eq!(message.opcode, opcode(expected), "{}", vector.id);
            assert_eq!(i64::from(message.id), expected.get_int("id").unwrap(), "{}", vector.id);
            let payload = open_payload(message, vector.features(), MAX).unwrap();
            assert_eq!(payload, expected_payload(expected), "{}", vector.id);
            typed_map(vector.direction(), message.opcode, payload);
        }
    }
}

#[test]
fn asp_001_valid_vectors_encode_to_the_same_bytes() {
    for vector in Vector::of_kind("frames").iter().filter(|vector| vector.is_valid()) {
        let mut out = BytesMut::new();
        for frame in vector.frames() {
            frame.encode(&mut out).unwrap();
        }
        assert_eq!(out.freeze(), vector.hex().concat(), "{}", vector.id);
    }
}

#[test]
fn typed_messages_encode_to_the_same_payload_bytes() {
    let mut checked = 0;
    let vectors = Vector::of_kind("frames");
    for vector in vectors.iter().filter(|vector| vector.map.get("typed_exact") == Some(&Value::Bool(true))) {
        let messages = assemble(vector);
        let [message] = messages.as_slice() else { panic!("{}: one message expected", vector.id) };
        let expected = vector.list("messages")[0].as_map().unwrap();
        let enc = Enc::from_name(expected.get("payload").unwrap().as_map().unwrap().get_str("enc").unwrap());
        let enc = enc.unwrap();
        let payload = open_payload(message, vector.features(), MAX).unwrap();
        let map = typed_map(vector.direction(), message.opcode, payload).unwrap();
        let mut body = BytesMut::new();
        map.encode(enc, &mut body);
        if vector.map.contains_key("compressed") {
            // Compressors differ; what must hold is that ours unpacks to the same bytes.
            assert_eq!(decompress(Compression::Deflate, &message.payload, MAX).unwrap(), body);
            let packed = compress(Compression::Deflate, &body).unwrap();
            assert_eq!(decompress(Compression::Deflate, &packed, MAX).unwrap(), body);
        } else if vector.frames().len() > 1 {
            // Where a sender cuts is its own affair; the payload is not.
            assert_eq!(message.payload, body, "{}", vector.id);
        } else {
            let mut out = BytesMut::new();
            let flags = vector.frames()[0].flags;
            encode_map_frame(&mut out, message.opcode, flags, message.id, enc, &map).unwrap();
            assert_eq!(out, vector.hex().concat(), "{}", vector.id);
        }
        checked += 1;
    }
    assert_eq!(checked, 12);
}

#[test]
fn invalid_vectors_give_the_error_they_name() {
    for vector in Vector::of_kind("frames").iter().filter(|vector| !vector.is_valid()) {
        let expected = vector.map.get("error").and_then(Value::as_map).unwrap();
        let read = vector.hex().into_iter().flat_map(read).collect::<Vec<_>>();
        let [outcome] = read.as_slice() else { panic!("{}: {read:?}", vector.id) };
        let (code, close) = match outcome {
            Err(error) => (error.code(), Some(i64::from(error.close().number()))),
            Ok(Incoming::Unknown { nibble, id }) => {
                let unknown = vector.map.get("unknown").and_then(Value::as_map).unwrap();
                assert_eq!(Some(i64::from(*nibble)), unknown.get_int("nibble"));
                assert_eq!(Some(i64::from(*id)), unknown.get_int("id"));
                (Code::UnknownOpcode, None)
            }
            Ok(other) => panic!("{}: {other:?}", vector.id),
        };
        assert_eq!(Some(i64::from(code.number())), expected.get_int("code"), "{}", vector.id);
        assert_eq!(Some(code.name()), expected.get_str("name"), "{}", vector.id);
        assert_eq!(close, expected.get_int("close"), "{}", vector.id);
    }
}

#[test]
fn every_vector_cut_at_every_length_is_truncated_or_whole() {
    for vector in Vector::of_kind("frames") {
        for message in vector.hex() {
            let whole = read(message.clone());
            for length in 0..message.len() {
                let cut = message.slice(..length);
                let outcomes = read(cut.clone());
                // Where frames end, found without the reader.
                let mut boundaries = vec![0];
                while let Some(header) =
                    cut.get(boundaries[boundaries.len() - 1]..).and_then(|rest| rest.get(..8))
                {
                    let payload = u32::from_be_bytes(header[4..].try_into().unwrap()) as usize;
                    boundaries.push(boundaries[boundaries.len() - 1] + 8 + payload);
                }
                let complete = boundaries.iter().filter(|end| **end > 0 && **end <= length).count();
                let at_boundary = boundaries.contains(&length);
                assert_eq!(outcomes.len(), complete + usize::from(!at_boundary), "{} at {length}", vector.id);
                assert_eq!(outcomes[..complete], whole[..complete], "{} at {length}", vector.id);
                match outcomes.last() {
                    Some(Err(error)) => assert!(
                        error.code() == Code::FrameTruncated || Some(&Err(*error)) == whole.last(),
                        "{} at {length}: {error}",
                        vector.id
                    ),
                    _ => assert!(at_boundary, "{} at {length}", vector.id),
                }
            }
        }
    }
}

#[test]
fn every_payload_cut_at_every_length_gives_a_defined_result() {
    for vector in Vector::of_kind("frames").iter().filter(|vector| vector.is_valid()) {
        for message in assemble(vector) {
            for length in 0..message.payload.len() {
                let cut = Assembled { payload: message.payload.slice(..length), ..message.clone() };
                let declared = matches!(cut.flags.enc(), EncFlag::Json | EncFlag::Msgpack);
                let strict = matches!(cut.opcode, Opcode::Invoke | Opcode::Stream | Opcode::ToolDef);
                match open_payload(&cut, vector.features(), MAX) {
                    Ok(Payload::Value(value)) => panic!("{} at {length}: {value:?}", vector.id),
                    Ok(payload) => {
                        assert!(length == 0 || !(declared && strict), "{} at {length}", vector.id);
                        let _ = match vector.direction() {
                            Direction::ToServer => {
                                ClientMessage::from_payload(cut.opcode, payload).map(|_| ())
                            }
                            Direction::ToClient => {
                                ServerMessage::from_payload(cut.opcode, payload).map(|_| ())
                            }
                        };
                    }
                    Err(error) => assert_eq!(error.code(), Code::BadPayload, "{} at {length}", vector.id),
                }
            }
        }
    }
}

#[test]
fn vectors_marked_terminal_are_read_as_terminal() {
    for vector in Vector::of_kind("frames").iter().filter(|vector| vector.map.contains_key("terminal")) {
        for message in assemble(vector) {
            let payload = open_payload(&message, vector.features(), MAX).unwrap();
            let terminal = match ServerMessage::from_payload(message.opcode, payload).unwrap() {
                ServerMessage::Stream(Stream::Terminator) => true,
                ServerMessage::Stream(Stream::Record(record)) => record.is_terminal(),
                ServerMessage::Error(_) => message.id != 0,
                other => panic!("{}: {other:?}", vector.id),
            };
            assert!(terminal, "{}", vector.id);
        }
    }
}

#[test]
fn asp_033_vector_t14_is_success() {
    let vector = Vector::named("T14");
    let payload = open_payload(&assemble(&vector)[0], vector.features(), MAX).unwrap();
    let ServerMessage::Error(ErrorFrame::Complete(completion)) =
        ServerMessage::from_payload(Opcode::Error, payload).unwrap()
    else {
        panic!("read as failure");
    };
    assert_eq!(completion.metrics.unwrap().cpu_ms, Some(45));
}

#[test]
fn t24_signature_and_digest() {
    let vector = Vector::named("T24");
    let body = vector.map.get_str("body").unwrap();
    assert_eq!(hex(&Sha256::digest(body)), vector.map.get_str("body_sha256").unwrap());
    let headers = vector.map.get("headers").and_then(Value::as_map).unwrap();
    let signed = format!(
        "{}.{}.{body}",
        headers.get_str("webhook-id").unwrap(),
        headers.get_str("webhook-timestamp").unwrap()
    );
    let key: Vec<u8> = (0..32).collect();
    let signature = Value::Bin(hmac_sha256(&key, signed.as_bytes()).into());
    let serde_json::Value::Object(bytes) = serde_json::Value::from(signature) else {
        panic!("not an object")
    };
    assert_eq!(
        headers.get_str("webhook-signature").unwrap(),
        format!("v1,{}", bytes["$b64"].as_str().unwrap())
    );
}

#[test]
fn t25_browser_credential() {
    let vector = Vector::named("T25");
    let (token, header) = (vector.map.get_str("token").unwrap(), vector.map.get_str("header").unwrap());
    assert_eq!(header, format!("{SUBPROTOCOL}, {}", bearer_entry(token)));
    let entry = header.split(", ").find(|entry| is_bearer_entry(entry)).unwrap();
    assert_eq!(bearer_token(entry).as_deref(), Some(token));
    assert_eq!(bearer_token("asp-v1"), None);
    assert_eq!(bearer_token("asp-bearer.!!"), None);
    // The one way that is the same for all sockets.
    assert!(is_bearer_entry("bearer.a.b-c_d") && is_bearer_entry("bearer."));
    assert_eq!(bearer_token("bearer.a.b-c_d").as_deref(), Some("a.b-c_d"));
    assert_eq!(bearer_token("bearer."), None);
}

#[test]
fn t26_ndjson_lines_become_frames() {
    let vector = Vector::named("T26");
    let enc = Enc::from_name(vector.map.get_str("enc").unwrap()).unwrap();
    let id = u16::try_from(vector.map.get_int("request_id").unwrap()).unwrap();
    for (line, expected) in vector.list("lines").iter().zip(vector.hex()) {
        let Value::Map(map) = decode_json(line.as_str().unwrap().as_bytes()).unwrap() else {
            panic!("no map")
        };
        let record = Record::from_map(map).unwrap();
        let mut flags = Flags::NONE.with_enc(enc.into());
        if matches!(record.body, RecordBody::End(_)) {
            flags = flags.with(Flags::END);
        }
        let mut out = BytesMut::new();
        encode_map_frame(&mut out, Opcode::Stream, flags, id, enc, &record.to_map()).unwrap();
        assert_eq!(out, expected);
    }
}

#[test]
fn digest_ignores_encoding_order_and_the_three_members() {
    let map = |json: &str| match decode_json(json.as_bytes()).unwrap() {
        Value::Map(map) => map,
        other => panic!("{other:?}"),
    };
    let base = digest(&map(r#"{"kind":"tool","tool":"t","args":{"a":1,"b":2}}"#));
    let sha = Sha256::digest(br#"{"args":{"a":1,"b":2},"kind":"tool","tool":"t"}"#);
    assert_eq!(base, <[u8; 32]>::from(sha));
    let other =
        r#"{"idem":"k","meta":{"x":1},"deadline_ms":1000,"args":{"b":2.0,"a":1},"tool":"t","kind":"tool"}"#;
    assert_eq!(base, digest(&map(other)));
    assert_ne!(base, digest(&map(r#"{"kind":"tool","tool":"t","args":{"a":1,"b":3}}"#)));
    let mut packed = BytesMut::new();
    map(other).encode(Enc::Msgpack, &mut packed);
    let Ok(Value::Map(unpacked)) = Value::decode(Enc::Msgpack, &packed) else { panic!("no map") };
    assert_eq!(base, digest(&unpacked));
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5C)).chain_update(inner).finalize().to_vec()
}
