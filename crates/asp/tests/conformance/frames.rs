//! Frames on the wire, from every vector and from nonsense (§3, §4).

use bytes::{Bytes, BytesMut};
use switchboard_asp::codec::Compression;
use switchboard_asp::message::{Enc, EncFlag};
use switchboard_asp::{AspLimits, Flags, Frame, Opcode};
use switchboard_core::Frame as TransportFrame;
use switchboard_testkit::{Received, Script, Settings, Step, opening, vectors};

use crate::support::{Seen, Talk, encoded, split};

/// An agent that shows everything an agent can show.
fn everything() -> Script {
    let tool =
        switchboard_testkit::ToolSpec { name: "t".into(), description: "T".into(), input_schema: None };
    Script::new()
        .on(
            "all",
            vec![
                Step::Text("text".into()),
                Step::Reason("reason".into()),
                Step::Status("status".into()),
                Step::Usage([("output_tokens".to_owned(), 1)].into()),
                Step::Data { mime: None, value: serde_json::json!({"a": [1, null, 2.5]}) },
                Step::Notice { level: switchboard_core::model::NoticeLevel::Info, text: "n".into() },
                Step::Tool {
                    name: "t".into(),
                    args: serde_json::json!({}),
                    progress: vec!["p".into()],
                    output: serde_json::json!(1),
                    error: None,
                },
                Step::AddTools(vec![tool.clone()]),
                Step::RemoveTools(vec!["t".into()]),
                Step::Fill { bytes: 70_000, piece: 70_000 },
            ],
        )
        .with_tool(tool.tool())
}

/// Raw messages of a server that shows everything it can show, in one profile.
fn messages(features: Option<&str>, enc: &str) -> Vec<Bytes> {
    let mut talk = Talk::new(everything());
    if let Some(features) = features {
        let names: Vec<&str> = features.split(' ').collect();
        let hello = serde_json::json!({"features": names, "enc": [enc]});
        talk.say(Opcode::Hello, 0, hello.to_string());
    }
    let invoke = serde_json::json!({"kind": "chat", "input": "all", "want": ["text", "reason", "usage", "data", "tool"]});
    talk.say(Opcode::Invoke, 1, encoded(&invoke, Enc::from_name(enc).unwrap()));
    talk.say(Opcode::Invoke, 2, encoded(&serde_json::json!({"kind": "nonsense"}), Enc::Json));
    talk.say(Opcode::Interrupt, 77, Bytes::new());
    talk.say(Opcode::Invoke, 3, encoded(&serde_json::json!({"kind": "list"}), Enc::Json));
    talk.world.advance(1000);
    let received = talk.world.take(talk.peer).into_iter().filter_map(|received| match received {
        Received::Frame(TransportFrame::Binary(message)) => Some(message),
        _ => None,
    });
    received.collect()
}

const PROFILES: &[Option<&str>] = &[
    None,
    Some("flags"),
    Some("events"),
    Some("flags events"),
    Some("flags events frag credit push client_tools resume ping"),
    Some("flags events deflate"),
    Some("flags events frag zstd push"),
    Some("flags events complete06"),
];

#[test]
fn asp_001_every_frame_has_its_eight_octets_in_network_order() {
    for profile in PROFILES {
        for enc in ["json", "msgpack"] {
            let mut count = 0;
            for message in messages(*profile, enc) {
                let mut rest = &message[..];
                while !rest.is_empty() {
                    assert!(rest.len() >= 8, "{profile:?}: {rest:?}");
                    let length = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
                    let id = u16::from_be_bytes([rest[2], rest[3]]);
                    assert!((0x1..=0x6).contains(&(rest[0] & 0x0f)), "{profile:?}: opcode {:#x}", rest[0]);
                    assert!(matches!(id, 0..=3), "{profile:?}: id {id}");
                    assert!(rest.len() >= 8 + length, "{profile:?}: a frame spans two messages");
                    rest = &rest[8 + length..];
                    count += 1;
                }
            }
            assert!(count > 5, "{profile:?}: {count}");
        }
    }
}

#[test]
fn asp_002_every_frame_says_version_1() {
    for profile in PROFILES {
        for frame in messages(*profile, "json") {
            for seen in split(frame.clone()) {
                // The reader accepts no other version; the first byte is looked at besides.
                assert!(matches!(seen, Seen::Frame(_)));
            }
            assert_eq!(frame[0] >> 4, 1, "{profile:?}");
        }
    }
}

#[test]
fn asp_018_reserved_is_zero_and_ignored_until_flags_are_agreed() {
    for profile in [None, Some("events"), Some("events resume credit")] {
        for message in messages(profile, "json") {
            for seen in split(message) {
                assert!(
                    matches!(&seen, Seen::Frame(frame) if frame.flags == Flags::NONE),
                    "{profile:?}: {seen:?}"
                );
            }
        }
    }
    // Every value of the byte means nothing to a bare connection, and to the HELLO itself.
    for byte in 0..=255 {
        let mut talk = Talk::new(Script::new());
        talk.send(&[Frame::new(Opcode::Invoke, 1, "hi").with_flags(Flags::from_byte(byte))]);
        let frames = talk.frames();
        assert_eq!(frames.len(), 2, "{byte:#x}: {frames:?}");
        assert_eq!(frames[0].payload, "hi");
        let mut talk = Talk::new(Script::new());
        let hello = Frame::new(Opcode::Hello, 0, r#"{"features":["flags"],"enc":["json"]}"#);
        talk.send(&[hello.with_flags(Flags::from_byte(byte))]);
        assert!(matches!(talk.frames().as_slice(), [accept] if accept.flags == Flags::NONE));
    }
}

#[test]
fn asp_010_frames_of_one_message_are_processed_in_order() {
    let mut talk = Talk::new(Script::new());
    talk.hello("flags events ping");
    let frames: Vec<Frame> =
        (0..5).map(|n| Frame::new(Opcode::Hello, 0, format!(r#"{{"op":"ping","nonce":"{n}"}}"#))).collect();
    talk.send(&frames);
    let answers = talk.frames();
    let nonces: Vec<_> =
        answers.iter().map(|frame| talk.json(frame)["nonce"].as_str().unwrap().to_owned()).collect();
    assert_eq!(nonces, ["0", "1", "2", "3", "4"]);
}

#[test]
fn asp_011_every_vector_cut_at_every_length_leaves_no_doubt() {
    for vector in vectors::load("asp").iter().filter(|vector| vector.kind == "frames") {
        for message in vector.messages() {
            for length in 1..message.len() {
                let cut = message.slice(..length);
                let mut talk = Talk::new(Script::new());
                talk.world.send(talk.peer, TransportFrame::Binary(cut.clone()));
                let seen = talk.seen();
                let whole = whole_frames(&cut);
                let wrong_version = cut[0] >> 4 != 1;
                let too_large =
                    cut.len() >= 8 && u32::from_be_bytes([cut[4], cut[5], cut[6], cut[7]]) > 16 << 20;
                let expected = match whole {
                    Some(_) => None,
                    None if length >= 8 && wrong_version => Some(4406),
                    None if too_large => Some(1009),
                    None => Some(4400),
                };
                let closed = seen
                    .iter()
                    .find_map(|seen| if let Seen::Close(code) = seen { Some(*code) } else { None });
                assert_eq!(closed, expected, "{} cut at {length}: {seen:?}", vector.id);
                if expected.is_some() {
                    let fatal = seen.iter().rev().nth(1);
                    assert!(
                        matches!(fatal, Some(Seen::Frame(frame)) if frame.opcode == Opcode::Error),
                        "{seen:?}"
                    );
                }
            }
        }
    }
}

/// How many whole frames a message is; none if something is left over.
fn whole_frames(message: &[u8]) -> Option<usize> {
    let mut rest = message;
    let mut count = 0;
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest.get(4..8)?.try_into().unwrap()) as usize;
        rest = rest.get(8 + length..)?;
        count += 1;
    }
    Some(count)
}

#[test]
fn asp_003_and_013_and_015_wrong_vectors_have_the_outcome_they_name() {
    let wrong = vectors::load("asp");
    let wrong: Vec<_> = wrong.iter().filter(|vector| vector.error.is_some()).collect();
    assert_eq!(wrong.len(), 4);
    for vector in wrong {
        let error = vector.error.as_ref().unwrap();
        let mut talk = Talk::new(Script::new());
        // T22 is a truncated STREAM; as bytes it is just as truncated on the way to the server.
        talk.world.send(talk.peer, TransportFrame::Binary(vector.messages()[0].clone()));
        let seen = talk.seen();
        let Some(Seen::Frame(frame)) = seen.first() else { panic!("{}: {seen:?}", vector.id) };
        assert_eq!(talk.json(frame)["code"], error.code, "{}", vector.id);
        assert_eq!(talk.json(frame)["name"], error.name.as_str(), "{}", vector.id);
        let closed = seen.get(1).map(|seen| if let Seen::Close(code) = seen { *code } else { 0 });
        assert_eq!(closed, error.close, "{}", vector.id);
        assert_eq!(talk.world.is_open(talk.peer), error.close.is_none(), "{}", vector.id);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn asp_012_a_declared_length_allocates_nothing() {
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmPeak:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut talk = Talk::new(Script::new());
    let before = peak();
    for round in 0..300_u32 {
        talk.reconnect(opening());
        if round % 2 == 0 {
            talk.hello("flags events frag");
        }
        // 16 MiB within the cap, none of it there; then 4 GiB.
        let header: [u8; 8] = [0x12, if round % 2 == 0 { 0x02 } else { 0 }, 0, 1, 0x01, 0, 0, 0];
        talk.world.send_bytes(talk.peer, &header);
        assert!(matches!(talk.seen().last(), Some(Seen::Close(4400))));
        talk.reconnect(opening());
        talk.world.send_bytes(talk.peer, &[0x12, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(talk.seen().last(), Some(Seen::Close(1009))));
    }
    // Maps and strings that declare what they do not hold.
    for payload in [
        &[0xdf, 0xff, 0xff, 0xff, 0xff][..],
        &[0x81, 0xa1, b'a', 0xdd, 0xff, 0xff, 0xff, 0xff],
        &[0x81, 0xa1, b'a', 0xc6, 0xff, 0xff, 0xff, 0xff],
    ] {
        for _ in 0..50 {
            talk.reconnect(opening());
            talk.say(Opcode::Invoke, 1, payload.to_vec());
        }
    }
    let grown = peak() - before;
    assert!(grown < 1 << 20, "{grown} KiB");
}

#[test]
fn asp_014_payloads_are_refused_above_max_payload_and_taken_at_it() {
    let mut talk = Talk::new(Script::new());
    talk.say(Opcode::Invoke, 1, vec![b'a'; 256 << 10]);
    assert_eq!(talk.frames().iter().map(|frame| frame.payload.len()).sum::<usize>(), 256 << 10);
    talk.say(Opcode::Invoke, 1, vec![b'a'; (256 << 10) + 1]);
    let frames = talk.frames();
    assert_eq!((frames.len(), frames[0].id, talk.codes(&frames)), (1, 1, vec![2202]));
    talk.reconnect(opening());
    talk.hello("flags");
    talk.say(Opcode::Invoke, 1, vec![b'a'; 1 << 20]);
    assert!(talk.new_codes().is_empty());
    talk.say(Opcode::Invoke, 1, vec![b'a'; (1 << 20) + 1]);
    let frames = talk.frames();
    assert_eq!(talk.codes(&frames), [2202]);
    talk.invoke(1, "still here");
    assert_eq!(talk.frames().len(), 2);
}

#[test]
fn asp_015_and_016_every_opcode_that_is_not_the_clients_is_answered_and_skipped() {
    for nibble in (0x0..=0xf_u8).filter(|nibble| !matches!(nibble, 1 | 2 | 4 | 6)) {
        let mut talk = Talk::new(Script::new());
        talk.hello("flags events");
        let stray = [0x10 | nibble, 0, 0, 9, 0, 0, 0, 3, 1, 2, 3];
        let mut message = BytesMut::from(&stray[..]);
        Frame::new(Opcode::Invoke, 1, r#"{"input":"hi"}"#).encode(&mut message).unwrap();
        talk.world.send(talk.peer, TransportFrame::Binary(message.freeze()));
        let frames = talk.frames();
        let expected = if matches!(nibble, 3 | 5) { 2003 } else { 2002 };
        let error = talk.json(&frames[0]);
        assert_eq!(
            (frames[0].id, &error["code"], &error["ref"]),
            (0, &expected.into(), &9.into()),
            "{nibble:#x}"
        );
        assert!(talk.is_terminal(frames.last().unwrap()), "the next frame is served: {nibble:#x}");
    }
}

#[test]
fn asp_058_compressed_payloads_are_bounded_by_size_and_ratio() {
    // Packed by hand: our own compressor does not make what a peer would have to refuse.
    let compressed = |algorithm, payload: &[u8]| match algorithm {
        Compression::Deflate => {
            let mut packed = Vec::with_capacity(payload.len() + 64);
            let mut state = flate2::Compress::new(flate2::Compression::fast(), false);
            state.compress_vec(payload, &mut packed, flate2::FlushCompress::Finish).unwrap();
            Bytes::from(packed)
        }
        Compression::Zstd => {
            let level = ruzstd::encoding::CompressionLevel::Fastest;
            Bytes::from(ruzstd::encoding::compress_to_vec(payload, level))
        }
    };
    for (features, algorithm) in
        [("flags events deflate", Compression::Deflate), ("flags events zstd", Compression::Zstd)]
    {
        let mut talk = Talk::new(Script::new());
        talk.hello(features);
        let mut offer = |payload: Bytes| {
            let flags = Flags::COMPRESSED.with_enc(EncFlag::Json);
            talk.send(&[Frame::new(Opcode::Invoke, 1, payload).with_flags(flags)]);
            let frames = talk.frames();
            talk.codes(&frames)
        };
        // A ratio of 100 to 1, and more than max_payload.
        let bomb = [br#"{"input":""#.to_vec(), vec![b'a'; 900_000], br#""}"#.to_vec()].concat();
        assert_eq!(offer(compressed(algorithm, &bomb)), [2202], "{features}");
        let noise: Vec<u8> =
            (0..3_000_000_u32).map(|n| b'a' + (n.wrapping_mul(2_654_435_761) >> 29) as u8).collect();
        let large = [br#"{"input":""#.to_vec(), noise[..1_200_000].to_vec(), br#""}"#.to_vec()].concat();
        let packed = compressed(algorithm, &large);
        assert!(packed.len() > large.len() / 100 && packed.len() < 1 << 20, "{}", packed.len());
        assert_eq!(offer(packed), [2202], "{features}");
        let fine = [br#"{"input":""#.to_vec(), noise[..10_000].to_vec(), br#""}"#.to_vec()].concat();
        assert_eq!(offer(compressed(algorithm, &fine)), Vec::<i64>::new(), "{features}");
        assert_eq!(offer(Bytes::from_static(&[1, 2, 3, 4])), [2005], "{features}");
    }
}

#[test]
fn nonsense_of_every_kind_never_breaks_a_connection_without_a_word() {
    let mut state = 7_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let limits = AspLimits { frames_burst: 100_000, ..AspLimits::default() };
    for round in 0..400 {
        let mut talk = Talk::with(everything(), limits.clone(), Settings::default());
        if round % 3 > 0 {
            talk.hello(if round % 3 == 1 { "standard" } else { "flags events frag deflate reauth" });
        }
        for _ in 0..20 {
            let length = (random() % 24) as usize;
            let payload: Vec<u8> = (0..length).map(|_| (random() >> 16) as u8).collect();
            let opcode = Opcode::ALL[(random() % 6) as usize];
            let id = (random() % 4) as u16;
            let frame = Frame::new(opcode, id, payload).with_flags(Flags::from_byte((random() >> 8) as u8));
            let mut message = BytesMut::new();
            frame.encode(&mut message).unwrap();
            if random() % 8 == 0 {
                message.truncate((random() % 8) as usize);
            }
            talk.world.send(talk.peer, TransportFrame::Binary(message.freeze()));
            talk.world.advance(random() % 50);
        }
        talk.world.advance(2000);
        let seen = talk.seen();
        if !talk.world.is_open(talk.peer) {
            let [.., before, Seen::Close(_)] = seen.as_slice() else { panic!("{seen:?}") };
            assert!(
                matches!(before, Seen::Frame(frame) if matches!(frame.opcode, Opcode::Error | Opcode::Hello | Opcode::Stream)),
                "{before:?}"
            );
        }
        assert_eq!(talk.world.check_replay(), Ok(()));
    }
}
