//! Wire-only statements of the conformance checklist (§22).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

use bytes::{Bytes, BytesMut};
use switchboard_asp::codec::{
    Assembler, AssemblerLimits, Assembly, Compression, HARD_CAP, Incoming, MAX_RATIO, Payload, ReaderOptions,
    VersionZero, chunk_text, compress, decode_payload, decompress, encode_frame, encode_frame_with,
    encode_reason_record, encode_text_frame, encode_text_record,
};
use switchboard_asp::error::{
    AssembleError, Close, CompressionError, Fatal, FlagsError, FrameError, ValueError,
};
use switchboard_asp::message::{
    Direction, Enc, EncFlag, ErrorFrame, Hello, HelloOp, Interrupt, Invoke, InvokeBody, Mode, Reason, Record,
    RecordBody, Secret, Stream, ToolDef, ToolDefFrame,
};
use switchboard_asp::value::{MAX_NODES, decode_json, decode_msgpack};
use switchboard_asp::{
    ClientMessage, Code, DecodeError, Feature, Features, Flags, Frame, FrameReader, Map, Opcode,
    ServerMessage, Value,
};

fn read(message: &[u8]) -> Vec<Result<Incoming, FrameError>> {
    FrameReader::new(Bytes::copy_from_slice(message), ReaderOptions::default()).collect()
}

fn json(text: &str) -> Map {
    match decode_json(text.as_bytes()).unwrap() {
        Value::Map(map) => map,
        other => panic!("{other:?}"),
    }
}

fn features(names: &[&str]) -> Features {
    Features::agree(names.iter().copied(), Features::ALL)
}

fn frame(opcode: Opcode, id: u16, payload: &'static str) -> Frame {
    Frame::new(opcode, id, payload)
}

#[test]
fn asp_001_header_is_eight_octets_big_endian() {
    let mut out = BytesMut::new();
    let flags = Flags::END.with(Flags::REPLAY);
    encode_frame(&mut out, Opcode::Error, flags, 0x1234, &[0xAB; 0x0102]).unwrap();
    assert_eq!(out[..8], [0x16, 0x21, 0x12, 0x34, 0x00, 0x00, 0x01, 0x02]);
    assert_eq!(out.len(), 8 + 0x0102);
    let mut patched = BytesMut::from(&b"before"[..]);
    let written = encode_frame_with(&mut patched, Opcode::Error, flags, 0x1234, |out| {
        out.extend_from_slice(&[0xAB; 0x0102])
    });
    assert_eq!(written, Ok(0x0102));
    assert_eq!(patched[6..], out[..]);
}

#[test]
fn asp_002_every_frame_is_version_one() {
    for opcode in Opcode::ALL {
        let mut out = BytesMut::new();
        encode_frame(&mut out, opcode, Flags::NONE, 0, b"").unwrap();
        assert_eq!(out[0] >> 4, 1);
        assert_eq!(out[0] & 0x0F, opcode.nibble());
    }
}

#[test]
fn validation_order_decides_the_error() {
    // Fewer than eight bytes before version, version before length, length before bytes present.
    let first = |message: &[u8]| read(message).remove(0).unwrap_err();
    assert_eq!(first(&[0x22, 0, 0, 0, 0, 0, 0]), FrameError::Truncated { need: 8, have: 7 });
    assert_eq!(first(&[0x2F, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]), FrameError::Version(2));
    let cap = HARD_CAP;
    assert_eq!(first(&[0x1F, 0, 0, 0, 1, 0, 0, 1]), FrameError::TooLarge { length: u64::from(cap) + 1, cap });
    assert_eq!(
        first(&[0x1F, 0, 0, 0, 1, 0, 0, 0]),
        FrameError::Truncated { need: u64::from(cap) + 8, have: 8 }
    );
}

#[test]
fn version_zero_is_refused_unless_the_knob_is_on() {
    let message = Bytes::from_static(&[0x03, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(read(&message), [Err(FrameError::Version(0))]);
    let options = ReaderOptions { version_zero: VersionZero::Accept, ..ReaderOptions::default() };
    let read: Vec<_> = FrameReader::new(message, options).collect();
    assert_eq!(read, [Ok(Incoming::Frame(Frame::new(Opcode::Stream, 1, "")))]);
}

#[test]
fn asp_010_frames_of_one_message_come_in_order() {
    let mut out = BytesMut::new();
    let frames: Vec<Frame> = (1..=50).map(|id| Frame::new(Opcode::Invoke, id, id.to_string())).collect();
    frames.iter().for_each(|frame| {
        frame.encode(&mut out).unwrap();
    });
    let expected: Vec<_> = frames.into_iter().map(|frame| Ok(Incoming::Frame(frame))).collect();
    assert_eq!(read(&out), expected);
    assert!(read(b"").is_empty());
}

#[test]
fn whole_frames_before_a_partial_one_are_yielded_then_nothing_more() {
    let mut message = [0x13, 0, 0, 1, 0, 0, 0, 1, b'A'].repeat(2);
    message.extend([0x13, 0, 0]);
    let outcomes = read(&message);
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok());
    let error = outcomes[2].clone().unwrap_err();
    assert_eq!((error.code(), error.close()), (Code::FrameTruncated, Close::Protocol));
    let mut reader = FrameReader::new(message.into(), ReaderOptions::default());
    assert_eq!(reader.by_ref().count(), 3);
    assert_eq!(reader.next(), None);
}

#[test]
fn asp_012_payload_shares_the_message_and_lengths_never_allocate() {
    let message = Bytes::from(vec![0x13, 0, 0, 1, 0, 0, 0, 3, b'a', b'b', b'c']);
    let inside = message.as_ptr_range();
    let Some(Ok(Incoming::Frame(frame))) = FrameReader::new(message, ReaderOptions::default()).next() else {
        panic!("no frame");
    };
    assert!(inside.contains(&frame.payload.as_ptr()), "payload was copied");
    for declared in [4_u32, 1024, HARD_CAP, HARD_CAP + 1, u32::MAX] {
        let mut message = vec![0x12, 0, 0, 1];
        message.extend(declared.to_be_bytes());
        message.extend(b"abc");
        let error = read(&message).remove(0).unwrap_err();
        let expected = if declared > HARD_CAP { Code::PayloadTooLarge } else { Code::FrameTruncated };
        assert_eq!(error.code(), expected, "{declared}");
    }
    // The same for lengths inside a payload, each refused before its items are looked at.
    for marker in [0xC6, 0xDB, 0xDD] {
        assert_eq!(decode_msgpack(&[marker, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0]), Err(ValueError::Truncated));
    }
    assert_eq!(decode_msgpack(&[0xDF, 0xFF, 0xFF, 0xFF, 0xFF, 0xC0]), Err(ValueError::Truncated));
}

#[test]
fn payload_between_limit_and_cap_is_skipped_and_the_next_frame_read() {
    let mut out = BytesMut::new();
    encode_frame(&mut out, Opcode::Invoke, Flags::MORE, 7, &[b'x'; 100]).unwrap();
    encode_frame(&mut out, Opcode::Invoke, Flags::NONE, 8, &[b'x'; 99]).unwrap();
    let mut reader = FrameReader::new(out.freeze(), ReaderOptions::default());
    let oversized = Incoming::Oversized { nibble: 2, flags: Flags::MORE, id: 7, length: 100 };
    assert_eq!(reader.next_frame(99), Some(Ok(oversized)));
    assert!(matches!(reader.next_frame(99), Some(Ok(Incoming::Frame(frame))) if frame.id == 8));
    assert_eq!(reader.next_frame(99), None);
    assert_eq!(Code::PayloadTooLarge.fatal(), Fatal::Sometimes(Close::TooBig));
}

#[test]
fn unknown_opcode_is_skipped_by_its_length() {
    let outcomes = read(&[0x1F, 0, 0, 3, 0, 0, 0, 2, 0x12, 0x13, 0x14, 0, 0, 1, 0, 0, 0, 0]);
    let interrupt = Frame::new(Opcode::Interrupt, 1, "");
    assert_eq!(outcomes, [Ok(Incoming::Unknown { nibble: 15, id: 3 }), Ok(Incoming::Frame(interrupt))]);
}

#[test]
fn directions_and_ids_follow_the_opcode_table() {
    let to_server: Vec<_> = Opcode::ALL.iter().filter(|opcode| opcode.travels(Direction::ToServer)).collect();
    assert_eq!(to_server, [&Opcode::Hello, &Opcode::Invoke, &Opcode::Interrupt, &Opcode::Error]);
    let to_client: Vec<_> = Opcode::ALL.iter().filter(|opcode| opcode.travels(Direction::ToClient)).collect();
    assert_eq!(to_client, [&Opcode::Hello, &Opcode::Stream, &Opcode::ToolDef, &Opcode::Error]);
    for opcode in [Opcode::Stream, Opcode::ToolDef] {
        let error = ClientMessage::from_payload(opcode, Payload::None).unwrap_err();
        assert_eq!(error.code(), Code::WrongDirection);
    }
    assert!(!Opcode::Invoke.carries(0, Features::STANDARD));
    assert!(!Opcode::Hello.carries(1, Features::STANDARD));
    assert!(Opcode::Stream.carries(0, Features::STANDARD) && !Opcode::Stream.carries(0, Features::BARE));
}

#[test]
fn asp_017_unknown_records_and_members_are_harmless() {
    let map = json(r#"{"t":"sparkle","n":4,"colour":"red"}"#);
    let record = Record::from_map(map.clone()).unwrap();
    assert_eq!((record.t(), record.n), ("sparkle", Some(4)));
    assert_eq!(record.to_map(), map);
    let record = Record::from_map(json(r#"{"t":"text","d":"A","later":{"x":[1]}}"#)).unwrap();
    assert_eq!(record.body, RecordBody::Text("A".into()));
    Hello::from_map(json(r#"{"features":["flags","teleport"],"enc":["cbor","json"],"x":1}"#)).unwrap();
}

#[test]
fn asp_018_reserved_byte_is_zero_and_ignored_until_agreed() {
    for byte in 0..=u8::MAX {
        assert_eq!(Flags::from_byte(byte).agreed(Features::BARE), Ok(Flags::NONE));
        let without = Features::ALL.without(Feature::Flags);
        assert_eq!(Flags::from_byte(byte).agreed(without), Ok(Flags::NONE));
    }
    let mut out = BytesMut::new();
    Frame::new(Opcode::Stream, 1, "A").encode(&mut out).unwrap();
    assert_eq!(out[1], 0);
    // A bare peer that writes ENC JSON is still read as text.
    let flags = Flags::NONE.with_enc(EncFlag::Json).agreed(Features::BARE).unwrap();
    let payload = decode_payload(Opcode::Invoke, flags, Features::BARE, &Bytes::from_static(b"hi"));
    assert_eq!(payload, Ok(Payload::Text("hi".into())));
}

#[test]
fn flags_need_their_features_and_unused_bits_are_ignored() {
    let agreed = |byte: u8, names: &[&str]| Flags::from_byte(byte).agreed(features(names));
    assert_eq!(agreed(0x03, &["flags", "frag"]), Err(FlagsError::EndAndMore));
    assert_eq!(agreed(0x02, &["flags"]), Err(FlagsError::MoreNotAgreed));
    assert_eq!(agreed(0x10, &["flags"]), Err(FlagsError::CompressedNotAgreed));
    assert_eq!(agreed(0xC5, &["flags"]), Ok(Flags::END.with_enc(EncFlag::Json)));
    assert_eq!(agreed(0x32, &["flags", "frag", "zstd"]).map(Flags::byte), Ok(0x32));
    assert_eq!(format!("{:?}", Flags::from_byte(0x4D)), "{END, Msgpack, 0x40}");
}

#[test]
fn asp_021_only_offered_features_are_agreed() {
    assert_eq!(features(&[]), Features::BARE);
    assert_eq!(features(&["flags", "nonsense"]), Features::BARE.with(Feature::Flags));
    assert_eq!(Features::agree(["flags", "events"], Features::BARE.with(Feature::Events)).iter().count(), 1);
    // Prerequisites, and at most one compression in the client's order.
    assert_eq!(features(&["frag", "deflate", "resume", "client_tools"]), Features::BARE);
    let both = features(&["flags", "zstd", "deflate"]);
    assert!(both.has(Feature::Zstd) && !both.has(Feature::Deflate));
    let both = features(&["deflate", "zstd", "flags"]);
    assert_eq!(both.compression(), Some(Compression::Deflate));
    let no_zstd = Features::agree(["flags", "zstd", "deflate"], Features::ALL.without(Feature::Zstd));
    assert_eq!(no_zstd.compression(), Some(Compression::Deflate));
}

#[test]
fn asp_023_empty_or_undecodable_hello_has_no_features() {
    for bytes in ["", "{broken", "plain", "[1]", "\u{80}"] {
        let payload = decode_payload(
            Opcode::Hello,
            Flags::NONE,
            Features::BARE,
            &Bytes::copy_from_slice(bytes.as_bytes()),
        );
        let hello = Hello::from_payload(payload.unwrap()).unwrap();
        assert_eq!(hello, Hello::new(HelloOp::Hello), "{bytes}");
    }
}

#[test]
fn asp_032_zero_length_stream_is_terminal_in_every_profile() {
    for agreed in [Features::BARE, Features::STANDARD, Features::ALL] {
        for byte in [0x00, 0x04, 0x08, 0x0C] {
            let flags = Flags::from_byte(byte).agreed(agreed).unwrap();
            let payload = decode_payload(Opcode::Stream, flags, agreed, &Bytes::new()).unwrap();
            let message = ServerMessage::from_payload(Opcode::Stream, payload).unwrap();
            assert_eq!(message, ServerMessage::Stream(Stream::Terminator));
        }
    }
}

#[test]
fn asp_033_code_zero_or_metrics_alone_is_success() {
    for text in [
        r#"{"code":0}"#,
        r#"{"metrics":{"cpu_ms":45}}"#,
        r#"{"metrics":{"cpu_ms":"45ms"}}"#,
        r#"{"code":0,"finish":"interrupted","msg":"x"}"#,
    ] {
        assert!(matches!(ErrorFrame::from_map(json(text)), ErrorFrame::Complete(_)), "{text}");
    }
    for text in
        [r#"{"code":2400,"metrics":{}}"#, r#"{"msg":"no code"}"#, r#"{"code":99999}"#, r#"{"code":"0"}"#]
    {
        let ErrorFrame::Error(body) = ErrorFrame::from_map(json(text)) else { panic!("{text}") };
        assert_ne!(body.code, 0, "{text}");
    }
    let text = decode_payload(Opcode::Error, Flags::NONE, Features::BARE, &Bytes::from_static(b"bo\xFFom"));
    let ErrorFrame::Error(body) = ErrorFrame::from_payload(text.unwrap()) else { panic!("success") };
    assert_eq!((body.code, body.msg.as_str()), (2400, "bo\u{FFFD}om"));
}

#[test]
fn asp_035_chunks_never_split_a_code_point() {
    let text = "aé€😀".repeat(40);
    for most in 0..=20 {
        let chunks: Vec<&str> = chunk_text(&text, most).collect();
        assert_eq!(chunks.concat(), text);
        assert!(chunks.iter().all(|chunk| !chunk.is_empty()));
        assert!(chunks.iter().all(|chunk| chunk.len() <= most || chunk.chars().count() == 1), "{most}");
        // As many as fit: two neighbours never fit together when the next one starts with a small character.
        for pair in chunks.windows(2) {
            let next = pair[1].chars().next().unwrap().len_utf8();
            assert!(pair[0].len() + next > most, "{most}: {pair:?}");
        }
    }
    assert_eq!(chunk_text("", 10).count(), 0);
}

#[test]
fn asp_037_interrupt_without_a_map_cancels() {
    for bytes in ["", "stop", "{broken", "[]"] {
        let bytes = Bytes::copy_from_slice(bytes.as_bytes());
        let payload = decode_payload(Opcode::Interrupt, Flags::NONE, Features::BARE, &bytes).unwrap();
        assert_eq!(Interrupt::from_payload(payload), Ok(Interrupt::cancel()));
    }
    let long = Map::new().with("reason", "é".repeat(100));
    assert_eq!(Interrupt::from_map(long).unwrap().reason.unwrap().len(), 128);
    for bytes in ["0", "-1", "\"a\"", "null"] {
        let error =
            Interrupt::from_map(json(&format!(r#"{{"mode":"credit","bytes":{bytes}}}"#))).unwrap_err();
        assert_eq!(error.member, "bytes");
        assert_eq!(DecodeError::from(error).code(), Code::BadPayload);
    }
    assert_eq!(Interrupt::from_map(json(r#"{"mode":"pause"}"#)).unwrap().mode, Mode::Pause);
}

#[test]
fn asp_057_fragments_interleave_only_across_ids_and_expire() {
    let more = Flags::MORE;
    let mut assembler = Assembler::new(AssemblerLimits::default());
    let push = |assembler: &mut Assembler, frame: Frame, flags, now| assembler.push(frame, flags, now);
    let partial = Ok(Assembly::Partial { aborted: None });

    // Other ids may interleave.
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 1, "a"), more, 0), partial);
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 2, "x"), more, 0), partial);
    let Ok(Assembly::Whole(one)) = push(&mut assembler, frame(Opcode::Invoke, 1, "b"), Flags::NONE, 10_000)
    else {
        panic!("not whole");
    };
    assert_eq!((one.payload.as_ref(), one.id), (b"ab".as_ref(), 1));

    // Another opcode of the same id may not, and the tail of the message is discarded.
    let fault = push(&mut assembler, frame(Opcode::Stream, 2, "?"), Flags::NONE, 0);
    assert_eq!(fault, Err(AssembleError::Interleaved(Opcode::Invoke)));
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 2, "y"), more, 0), Ok(Assembly::Discarded));
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 2, "z"), Flags::NONE, 0), Ok(Assembly::Discarded));
    assert!(matches!(
        push(&mut assembler, frame(Opcode::Invoke, 2, "n"), Flags::NONE, 0),
        Ok(Assembly::Whole(_))
    ));

    // INTERRUPT and ERROR of the same id abort, without discarding what comes next.
    for opcode in [Opcode::Interrupt, Opcode::Error] {
        assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 3, "a"), more, 0), partial);
        let Ok(Assembly::Whole(abort)) = push(&mut assembler, frame(opcode, 3, ""), Flags::NONE, 0) else {
            panic!("{opcode} lost");
        };
        assert_eq!(abort.aborted, Some(Opcode::Invoke));
        let Ok(Assembly::Whole(next)) = push(&mut assembler, frame(Opcode::Invoke, 3, "n"), Flags::NONE, 0)
        else {
            panic!("next lost");
        };
        assert_eq!((next.payload.as_ref(), next.aborted), (b"n".as_ref(), None));
    }

    // Ten seconds and not more, whether the next fragment or the clock finds out.
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 4, "a"), more, 1_000), partial);
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 5, "a"), more, 1_000), partial);
    assert_eq!(assembler.next_deadline(), Some(11_001));
    let slow = AssembleError::TooSlow(Opcode::Invoke);
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 4, "b"), Flags::NONE, 11_001), Err(slow));
    assert_eq!(assembler.expire(11_000), []);
    assert_eq!(assembler.expire(11_001), [(5, slow)]);
    assert_eq!(slow.code(), Code::FragmentError);
    assert_eq!(assembler.held(), 0);
    // After a silence the next one begins anew; the rest of one that did not stop is discarded.
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 5, "b"), more, 11_002), partial);
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 5, "c"), more, 20_000), partial);
    assert_eq!(assembler.expire(21_003), [(5, slow)]);
    assert!(assembler.discards(5));
    assert_eq!(push(&mut assembler, frame(Opcode::Invoke, 5, "d"), more, 21_004), Ok(Assembly::Discarded));
    assert_eq!(assembler.expire(40_000), []);
    assert_eq!(assembler.next_deadline(), None);
}

#[test]
fn fragments_are_bounded_and_must_agree() {
    let limits = AssemblerLimits { max_payload: 4, max_open: 2, max_held: 6, timeout_ms: 10_000 };
    let mut assembler = Assembler::new(limits);
    let more = Flags::MORE;
    assert_eq!(
        assembler.push(frame(Opcode::Invoke, 1, "abcd"), more, 0),
        Ok(Assembly::Partial { aborted: None })
    );
    let too_large = Err(AssembleError::TooLarge { limit: 4 });
    assert_eq!(assembler.push(frame(Opcode::Invoke, 1, "e"), more, 0), too_large);
    assert_eq!(assembler.push(frame(Opcode::Invoke, 1, "f"), Flags::NONE, 0), Ok(Assembly::Discarded));
    assert_eq!(assembler.push(frame(Opcode::Invoke, 1, "abcde"), Flags::NONE, 0), too_large);
    assert_eq!(assembler.held(), 0);

    let msgpack = more.with_enc(EncFlag::Msgpack);
    assembler.push(frame(Opcode::Invoke, 1, "a"), msgpack, 0).unwrap();
    for changed in [Flags::NONE, Flags::NONE.with_enc(EncFlag::Msgpack).with(Flags::COMPRESSED)] {
        let fault = assembler.push(frame(Opcode::Invoke, 1, "a"), changed, 0);
        assert_eq!(fault, Err(AssembleError::Inconsistent(Opcode::Invoke)));
        assembler.push(frame(Opcode::Invoke, 1, "a"), msgpack, 0).unwrap();
    }
    assert_eq!(assembler.abort(1), Some(Opcode::Invoke));

    assembler.push(frame(Opcode::Invoke, 1, "abc"), more, 0).unwrap();
    assembler.push(frame(Opcode::Invoke, 2, "abc"), more, 0).unwrap();
    assert_eq!(assembler.push(frame(Opcode::Invoke, 3, ""), more, 0), Err(AssembleError::TooMany));
    assert_eq!(assembler.push(frame(Opcode::Invoke, 1, "d"), more, 0), Err(AssembleError::TooMany));
    assembler.refuse(Opcode::Invoke, 2, more, 0);
    assert_eq!((assembler.held(), assembler.abort_all()), (0, vec![]));
}

#[test]
fn asp_058_decompression_is_bounded_by_size_and_ratio() {
    let zeros = vec![0_u8; 1 << 20];
    let mut seed = 1_u32;
    let noise: Vec<u8> = (0..100_000)
        .map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b'a' + (seed >> 28) as u8
        })
        .collect();
    for algorithm in [Compression::Deflate, Compression::Zstd] {
        assert_eq!(compress(algorithm, &zeros), None, "nobody may be sent a bomb");
        let bomb = bomb(algorithm);
        let limit = bomb.len() * MAX_RATIO;
        let refused = decompress(algorithm, &bomb, usize::MAX).unwrap_err();
        assert_eq!(refused, CompressionError::TooLarge { limit }, "{algorithm:?}");
        assert_eq!(refused.code(), Code::PayloadTooLarge);

        let packed = compress(algorithm, &noise).unwrap();
        assert_eq!(decompress(algorithm, &packed, noise.len()).unwrap(), noise, "{algorithm:?}");
        let limit = noise.len() - 1;
        assert_eq!(decompress(algorithm, &packed, limit), Err(CompressionError::TooLarge { limit }));
        for length in (0..packed.len()).step_by(997) {
            let cut = decompress(algorithm, &packed[..length], noise.len()).unwrap_err();
            assert!(length < 1000 || cut == CompressionError::Damaged, "{algorithm:?} at {length}: {cut}");
        }
        let trailing = [packed.as_ref(), b"!"].concat();
        assert_eq!(decompress(algorithm, &trailing, noise.len()), Err(CompressionError::Damaged));
    }
    assert_eq!(compress(Compression::Deflate, b"ab"), None);
}

/// More zeros than the ratio allows, packed by hand.
fn bomb(algorithm: Compression) -> Vec<u8> {
    match algorithm {
        Compression::Deflate => {
            // Fixed codes, least significant bit first: a zero, 258 bytes at distance 1 over and over, the end.
            let again = "11000101".to_owned() + "00000";
            let bits = "110".to_owned() + "00110000" + &again.repeat(4000) + "0000000";
            let bits: Vec<u8> = bits.bytes().map(|bit| bit - b'0').collect();
            bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect()
        }
        Compression::Zstd => {
            // A window of 2 MiB, and blocks that are one byte 128 Ki times.
            let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58];
            for last in [0_u32, 0, 0, 0, 0, 0, 0, 1] {
                let header = last | 1 << 1 | (128 << 10) << 3;
                frame.extend_from_slice(&header.to_le_bytes()[..3]);
                frame.push(0);
            }
            frame
        }
    }
}

#[test]
fn asp_085_bare_stream_is_text_even_if_it_looks_like_a_map() {
    for text in [r#"{"t":"end","finish":"complete"}"#, "[1,2]", "{"] {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let bare = decode_payload(Opcode::Stream, Flags::NONE, Features::BARE, &bytes).unwrap();
        assert_eq!(bare, Payload::Text(text.to_owned()));
        let flags_only = decode_payload(Opcode::Stream, Flags::NONE, features(&["flags"]), &bytes).unwrap();
        assert_eq!(flags_only, Payload::Text(text.to_owned()));
    }
    let record = Bytes::from_static(br#"{"t":"text","d":"A"}"#);
    let events = decode_payload(Opcode::Stream, Flags::NONE, features(&["events"]), &record).unwrap();
    assert!(matches!(events, Payload::Value(_)));
}

#[test]
fn invoke_is_sniffed_and_falls_back_to_text() {
    let invoke = |bytes: &[u8]| {
        let bytes = Bytes::copy_from_slice(bytes);
        let payload = decode_payload(Opcode::Invoke, Flags::NONE, Features::BARE, &bytes)?;
        Invoke::from_payload(payload)
    };
    assert_eq!(invoke(b"hi"), Ok(Invoke::chat("hi")));
    assert_eq!(invoke(br#"{"input":"hi"}"#), Ok(Invoke::chat("hi")));
    assert_eq!(invoke(br#"{"prompt":"hi"}"#), Ok(Invoke::chat("hi")));
    assert_eq!(invoke(b"{not json"), Ok(Invoke::chat("{not json")));
    assert_eq!(invoke(br#"{"input":"hi"} trailing"#), Ok(Invoke::chat(r#"{"input":"hi"} trailing"#)));
    assert_eq!(invoke(b"\x81\xA5input\xA2hi"), Ok(Invoke::chat("hi")));
    assert_eq!(invoke(b"\xDE\x00\x01\xA5input\xA2hi"), Ok(Invoke::chat("hi")));
    let parts =
        invoke(br#"[{"type":"data","mime":"a/b","data":{"$b64":"aGk="}},{"type":"ref","uri":"u"}]"#).unwrap();
    assert!(matches!(parts.body, InvokeBody::Chat(_)));
    assert_eq!(invoke(b"\x81\xA5input").unwrap_err().code(), Code::BadPayload);
    assert_eq!(invoke(b"\xFF").unwrap_err().code(), Code::BadPayload);
    let tool = invoke(br#"{"tool":"t","args":{}}"#).unwrap();
    assert!(matches!(tool.body, InvokeBody::Tool { .. }));
    for (text, member) in [
        (r#"{}"#, "kind"),
        (r#"{"kind":"dance"}"#, "kind"),
        (r#"{"kind":"chat"}"#, "input"),
        (r#"{"kind":"tool","tool":"t"}"#, "args"),
        (r#"{"input":"x","deadline_ms":999}"#, "deadline_ms"),
        (r#"{"input":[{"type":"text"}]}"#, "input[0].text"),
        (r#"{"kind":"result","parent":0,"call_id":"c","ok":true}"#, "parent"),
        (r#"{"kind":"step","step":{"goal":"g","budget":{"ms":-1}}}"#, "step.budget.ms"),
    ] {
        match invoke(text.as_bytes()).unwrap_err() {
            DecodeError::Invoke(error) => assert_eq!(error.member, member, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let meta = format!(r#"{{"input":"x","meta":{{"m":"{}"}}}}"#, "y".repeat(4096));
    assert_eq!(invoke(meta.as_bytes()).unwrap_err().code(), Code::InvalidInvoke);
    let long = format!(r#"{{"input":"x","session":"{}"}}"#, "s".repeat(65));
    assert_eq!(
        invoke(long.as_bytes()).unwrap_err().to_string(),
        "INVOKE member session: is longer than 64 bytes"
    );
}

#[test]
fn declared_encoding_that_fails_is_a_bad_payload() {
    let flags = Flags::NONE.with_enc(EncFlag::Json);
    let bytes = Bytes::from_static(b"plain");
    assert!(decode_payload(Opcode::Invoke, flags, Features::STANDARD, &bytes).is_err());
    assert_eq!(decode_payload(Opcode::Hello, flags, Features::STANDARD, &bytes), Ok(Payload::None));
    assert_eq!(decode_payload(Opcode::Interrupt, flags, Features::STANDARD, &bytes), Ok(Payload::None));
    let text = Payload::Text("plain".into());
    assert_eq!(decode_payload(Opcode::Error, flags, Features::STANDARD, &bytes), Ok(text));
}

#[test]
fn text_record_writer_equals_the_typed_record() {
    for enc in [Enc::Json, Enc::Msgpack] {
        for n in [None, Some(0), Some(127), Some(128), Some(65_536), Some(1 << 40)] {
            for text in ["", "A", "quote \" slash \\ line\n tab\t \u{1} € 😀", &"x".repeat(70_000)] {
                let mut typed = BytesMut::new();
                let record = Record { n, body: RecordBody::Text(text.to_owned()) };
                record.to_map().encode(enc, &mut typed);
                let mut direct = BytesMut::new();
                encode_text_record(&mut direct, enc, n, text);
                assert_eq!(direct, typed);
                let mut framed = BytesMut::new();
                encode_text_frame(&mut framed, Flags::NONE.with_enc(enc.into()), 1, enc, n, text).unwrap();
                assert_eq!(framed[8..], typed[..]);
                let record = Record { n, body: RecordBody::Reason(text.to_owned()) };
                let (mut typed, mut direct) = (BytesMut::new(), BytesMut::new());
                record.to_map().encode(enc, &mut typed);
                encode_reason_record(&mut direct, enc, n, text);
                assert_eq!(direct, typed);
            }
        }
    }
}

#[test]
fn frames_above_the_cap_are_not_encoded() {
    let mut out = BytesMut::from(&b"kept"[..]);
    let big = vec![0; HARD_CAP as usize + 1];
    assert!(encode_frame(&mut out, Opcode::Stream, Flags::NONE, 1, &big).is_err());
    let written =
        encode_frame_with(&mut out, Opcode::Stream, Flags::NONE, 1, |out| out.extend_from_slice(&big));
    assert!(written.is_err());
    assert_eq!(out, b"kept"[..]);
}

#[test]
fn values_are_bounded_in_depth_width_and_number() {
    let nested =
        |depth: usize| (format!("{}1{}", "[".repeat(depth), "]".repeat(depth)), [vec![0x91; depth], vec![1]]);
    let (fits_json, fits_msgpack) = nested(32);
    assert!(decode_json(fits_json.as_bytes()).is_ok() && decode_msgpack(&fits_msgpack.concat()).is_ok());
    for depth in [33, 100, 100_000] {
        let (deep_json, deep_msgpack) = nested(depth);
        assert_eq!(decode_json(deep_json.as_bytes()), Err(ValueError::TooDeep));
        assert_eq!(decode_msgpack(&deep_msgpack.concat()), Err(ValueError::TooDeep));
    }
    for (entries, expected) in [(4096_u16, None), (4097, Some(ValueError::TooWide))] {
        let wide: Vec<String> = (0..entries).map(|index| format!("\"k{index}\":1")).collect();
        assert_eq!(decode_json(format!("{{{}}}", wide.join(",")).as_bytes()).err(), expected);
        let mut wide = vec![0xDE];
        wide.extend(entries.to_be_bytes());
        for index in 0..entries {
            wide.extend([0xA4, b'a' + (index >> 12) as u8, b'a' + (index >> 8 & 15) as u8]);
            wide.extend([b'a' + (index >> 4 & 15) as u8, b'a' + (index & 15) as u8, 1]);
        }
        assert_eq!(decode_msgpack(&wide).err(), expected);
    }
    let many = [vec![0xDD, 0, 4, 0, 0], vec![1; MAX_NODES]].concat();
    assert_eq!(decode_msgpack(&many), Err(ValueError::TooManyNodes));
    assert_eq!(
        decode_json(format!("[1{}]", ",1".repeat(MAX_NODES)).as_bytes()),
        Err(ValueError::TooManyNodes)
    );
}

#[test]
fn values_follow_the_data_model() {
    for (bytes, error) in [
        (&b"\xC7\x01\x01\x00"[..], ValueError::Extension),
        (b"\xD6\x01\x00\x00\x00\x00", ValueError::Extension),
        (b"\xC1", ValueError::Marker),
        (b"\x81\x01\x01", ValueError::Key),
        (b"\x82\xA1a\x01\xA1a\x02", ValueError::DuplicateKey),
        (b"\xA1\xFF", ValueError::Utf8),
        (b"\xCF\x00\x20\x00\x00\x00\x00\x00\x01", ValueError::IntegerRange),
        (b"\xD3\xFF\xDF\xFF\xFF\xFF\xFF\xFF\xFF", ValueError::IntegerRange),
        (b"\xCB\x7F\xF8\x00\x00\x00\x00\x00\x00", ValueError::NotFinite),
        (b"\xC0\xC0", ValueError::Trailing),
        (b"", ValueError::Truncated),
    ] {
        assert_eq!(decode_msgpack(bytes), Err(error), "{bytes:02x?}");
    }
    for (text, error) in [
        ("9007199254740993", ValueError::IntegerRange),
        ("-9007199254740993", ValueError::IntegerRange),
        (r#"{"a":1,"a":2}"#, ValueError::DuplicateKey),
        (r#"{"$b64":"***"}"#, ValueError::Base64),
        ("1 2", ValueError::Json),
        ("", ValueError::Json),
    ] {
        assert_eq!(decode_json(text.as_bytes()), Err(error), "{text}");
    }
    assert_eq!(decode_json(b"\"\xFF\""), Err(ValueError::Json));
    // Half a surrogate pair, as JavaScript writes a text that was cut in the middle of a character.
    assert_eq!(decode_json(br#""hi \ud800""#), Ok(Value::Str("hi \u{fffd}".into())));
    assert_eq!(decode_json(b"9007199254740992"), Ok(Value::Int(1 << 53)));
    assert_eq!(decode_json(br#"{"$b64":"aGk="}"#), Ok(Value::Bin(Bytes::from_static(b"hi"))));
    assert_eq!(decode_msgpack(b"\xC4\x02hi"), Ok(Value::Bin(Bytes::from_static(b"hi"))));
}

#[test]
fn tool_definitions_are_validated() {
    let tool = |text: &str| ToolDef::from_map(json(text)).map_err(|error| (error.member, error.reason));
    assert!(
        tool(r##"{"name":"a.b-c_1","input_schema":{"$ref":"#/x"},"annotations":{"confirm":true}}"##).is_ok()
    );
    let pattern = Reason::Pattern("^[A-Za-z0-9_.-]{1,64}$");
    for name in ["", "a b", "ü", &"n".repeat(65)] {
        assert_eq!(
            tool(&format!(r#"{{"name":"{name}","input_schema":{{}}}}"#)),
            Err(("name".into(), pattern))
        );
    }
    let remote = tool(r#"{"name":"a","input_schema":{"properties":{"p":{"$ref":"https://x/y.json"}}}}"#);
    assert_eq!(remote, Err(("input_schema".into(), Reason::RemoteRef)));
    let large = format!(r#"{{"name":"a","input_schema":{{"title":"{}"}}}}"#, "t".repeat(16 * 1024));
    assert_eq!(tool(&large), Err(("input_schema".into(), Reason::TooLarge(16 * 1024))));
    let long = format!(r#"{{"name":"a","description":"{}","input_schema":{{}}}}"#, "d".repeat(1025));
    assert_eq!(tool(&long), Err(("description".into(), Reason::TooLong(1024))));
    assert_eq!(tool(r#"{"name":"a"}"#), Err(("input_schema".into(), Reason::Missing)));
    assert_eq!(
        tool(r#"{"name":"a","input_schema":true}"#),
        Err(("input_schema".into(), Reason::Type("a map")))
    );

    let single = ToolDefFrame::from_map(json(r#"{"name":"a","input_schema":{}}"#)).unwrap();
    assert_eq!((single.tools.len(), single.rev), (1, None));
    let entry = r#"{"name":"a","input_schema":{}}"#;
    let many = format!(r#"{{"tools":[{}]}}"#, vec![entry; 257].join(","));
    let error = ToolDefFrame::from_map(json(&many)).unwrap_err();
    assert_eq!((error.member.as_str(), error.reason), ("tools", Reason::TooMany(256)));
    let error = ToolDefFrame::from_map(json(r#"{"tools":[{"name":"a","input_schema":{}},{"name":"?"}]}"#));
    assert_eq!(error.unwrap_err().member, "tools[1].name");
}

#[test]
fn resume_ids_are_decimal_and_unique() {
    let hello = |next: &str| {
        Hello::from_map(json(&format!(r#"{{"resume":{{"cid":"c","token":"t","next":{next}}}}}"#)))
    };
    assert_eq!(hello(r#"{"1":17,"65535":0}"#).unwrap().resume.unwrap().next, [(1, 17), (65_535, 0)]);
    for next in [r#"{"0":1}"#, r#"{"01":1}"#, r#"{"+1":1}"#, r#"{"65536":1}"#, r#"{"x":1}"#, r#"{"1":-1}"#] {
        let resume = hello(next).unwrap().resume.unwrap();
        assert_eq!((resume.cid.as_str(), resume.next), ("", Vec::new()), "{next}: it names nothing");
    }
}

#[test]
fn secrets_are_not_printed() {
    let mut hello = Hello::new(HelloOp::Auth);
    hello.token = Some(Secret::new("s3cr3t"));
    assert!(!format!("{hello:?}").contains("s3cr3t"));
}

#[test]
fn code_table_is_consistent() {
    assert_eq!(Code::ALL.len(), 46);
    for code in Code::ALL {
        assert_eq!(Code::from_number(code.number()), Some(*code));
        assert_eq!(code.to_string(), code.name());
        if let Fatal::Always(_) = code.fatal() {
            assert!(code.http_status().is_none_or(|status| status >= 400));
        }
    }
    assert_eq!(Code::from_number(2404), None);
    assert_eq!(Code::from_number(2900), None);
    let resumable: Vec<u16> =
        Close::ALL.iter().filter(|close| close.resumable()).map(|close| close.number()).collect();
    assert_eq!(resumable, [1001, 1006, 1012, 1013, 4408, 4500]);
    assert_eq!(Close::from_number(4409), Some(Close::TakenOver));
    assert_eq!(Close::from_number(1234), None);
}
