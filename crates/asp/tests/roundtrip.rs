//! Properties: what is encoded is decoded again, and no bytes make a decoder panic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Compression, Incoming, ReaderOptions, compress,
    decompress, encode_fragments, encode_map_frame, open_payload,
};
use switchboard_asp::error::FrameError;
use switchboard_asp::message::*;
use switchboard_asp::value::{MAX_INT, canonical_json, decode_json, decode_msgpack, json_size};
use switchboard_asp::{
    ClientMessage, Feature, Features, Flags, Frame, FrameReader, Map, Opcode, ServerMessage, Value,
};

const MAX: usize = 1 << 20;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_INT..=MAX_INT).prop_map(Value::Int),
        (-300_i64..300).prop_map(Value::Int),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Value::Float),
        ".{0,40}".prop_map(Value::Str),
        vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Bin(bytes.into())),
    ]
}

fn map_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map> {
    vec(("[a-z$é]{0,6}", value), 0..20).prop_map(|members| members.into_iter().collect::<Map>())
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 64, 12, |inner| {
        prop_oneof![vec(inner.clone(), 0..12).prop_map(Value::Array), map_of(inner).prop_map(Value::Map)]
    })
}

fn map() -> impl Strategy<Value = Map> {
    map_of(value())
}

fn opcode() -> impl Strategy<Value = Opcode> {
    select(&Opcode::ALL[..])
}

fn frame() -> impl Strategy<Value = Frame> {
    (opcode(), any::<u8>(), any::<u16>(), vec(any::<u8>(), 0..200)).prop_map(|(opcode, byte, id, payload)| {
        Frame::new(opcode, id, payload).with_flags(Flags::from_byte(byte))
    })
}

fn count() -> impl Strategy<Value = u64> {
    0..=MAX_INT.unsigned_abs()
}

fn text() -> impl Strategy<Value = String> {
    ".{0,30}"
}

fn short() -> impl Strategy<Value = String> {
    "[ -~]{0,32}"
}

fn metrics() -> impl Strategy<Value = Metrics> {
    (of(count()), of(count()), of(count()), of(count()))
        .prop_map(|(cpu_ms, wall_ms, queue_ms, first_ms)| Metrics { cpu_ms, wall_ms, queue_ms, first_ms })
}

fn usage() -> impl Strategy<Value = Usage> {
    proptest::collection::btree_map("[a-m]{1,8}", count(), 0..5)
        .prop_map(|counts| Usage(counts.into_iter().collect()))
}

fn record() -> impl Strategy<Value = Record> {
    let body = prop_oneof![
        (text(), of(text())).prop_map(|(run, model)| RecordBody::Start { run, model }),
        (select(State::ALL), of(count()), of(text()))
            .prop_map(|(state, pos, msg)| RecordBody::Status(Status { state, pos, msg })),
        text().prop_map(RecordBody::Text),
        text().prop_map(RecordBody::Reason),
        (text(), text(), select(Phase::ALL), of(value()), of(text()), of(value())).prop_map(
            |(call_id, name, phase, args, d, output)| {
                RecordBody::Tool(ToolActivity { call_id, name, phase, args, d, output })
            }
        ),
        (short(), text(), map(), count()).prop_map(|(call_id, name, args, timeout_ms)| RecordBody::Call(
            Call { call_id, name, args, timeout_ms }
        )),
        (short(), text(), of(map())).prop_map(|(ask_id, text, schema)| RecordBody::Ask(Ask {
            ask_id,
            text,
            schema
        })),
        (of(text()), value()).prop_map(|(mime, value)| RecordBody::Data { mime, value }),
        usage().prop_map(RecordBody::Usage),
        (select(Level::ALL), text(), of(value()))
            .prop_map(|(level, text, data)| RecordBody::Notice(Notice { level, text, data })),
        (select(Finish::ALL), of(value()), of(usage()), of(metrics()), any::<bool>()).prop_map(
            |(finish, output, usage, metrics, abandoned)| {
                RecordBody::End(End { finish, output, usage, metrics, abandoned })
            }
        ),
        (
            "x[a-z]{1,5}",
            map().prop_filter("t and n are not members", |map| {
                !map.contains_key("t") && !map.contains_key("n")
            })
        )
            .prop_map(|(t, members)| RecordBody::Unknown { t, members }),
    ];
    (of(count()), body).prop_map(|(n, body)| Record { n, body })
}

fn input() -> impl Strategy<Value = Input> {
    let part = prop_oneof![
        text().prop_map(Part::Text),
        (text(), vec(any::<u8>(), 0..40)).prop_map(|(mime, data)| Part::Data { mime, data: data.into() }),
        text().prop_map(|uri| Part::Ref { uri }),
    ];
    prop_oneof![text().prop_map(Input::Text), vec(part, 0..4).prop_map(Input::Parts)]
}

fn invoke() -> impl Strategy<Value = Invoke> {
    let failure = (text(), text()).prop_map(|(name, msg)| CallFailure { name, msg });
    let budget = (of(count()), of(count())).prop_map(|(tokens, ms)| Budget { tokens, ms });
    let body = prop_oneof![
        input().prop_map(InvokeBody::Chat),
        (short(), map()).prop_map(|(tool, args)| InvokeBody::Tool { tool, args }),
        (text(), of(value()), of(budget)).prop_map(|(goal, state, budget)| InvokeBody::Step(Step {
            goal,
            state,
            budget
        })),
        (1_u16.., text(), any::<bool>(), of(value()), of(failure)).prop_map(
            |(parent, call_id, ok, output, error)| {
                InvokeBody::Result(CallResult { parent, call_id, ok, output, error })
            }
        ),
        (1_u16.., text(), of(text()), of(value())).prop_map(
            |(parent, ask_id, text, data)| InvokeBody::Reply(AskReply { parent, ask_id, text, data })
        ),
        Just(InvokeBody::List),
    ];
    let meta = map().prop_filter("meta is small", |map| json_size(&Value::Map(map.clone())) <= 4096);
    let common = (of(short()), of(short()), any::<bool>(), 1_000_u32..=3_600_000, of(short()), any::<bool>());
    (body, common, of(vec(short(), 0..4)), of(meta)).prop_map(|(body, common, want, meta)| {
        let (session, agent, serial, deadline_ms, idem, stream) = common;
        Invoke { body, session, agent, serial, deadline_ms, idem, stream, want, meta }
    })
}

fn tool() -> impl Strategy<Value = ToolDef> {
    let schema =
        || map().prop_filter("schema is small", |map| json_size(&Value::Map(map.clone())) <= 16 * 1024);
    let annotations = (of(any::<bool>()), of(any::<bool>()), of(any::<bool>()), of(any::<bool>())).prop_map(
        |(read_only, destructive, idempotent, confirm)| Annotations {
            read_only,
            destructive,
            idempotent,
            confirm,
        },
    );
    let strategy = (
        "[A-Za-z0-9_.-]{1,64}",
        of(text()),
        schema(),
        of(schema()),
        of(annotations),
        of(short()),
        of(count()),
    );
    strategy.prop_map(|(name, description, input_schema, output_schema, annotations, version, ttl_s)| {
        ToolDef { name, description, input_schema, output_schema, annotations, version, ttl_s }
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    let client = (short(), short(), of(short())).prop_map(|(name, version, platform)| ClientInfo {
        name,
        version,
        platform,
    });
    let limits = (of(any::<u32>()), of(any::<u32>()))
        .prop_map(|(max_payload, window)| ClientLimits { max_payload, window });
    let next = proptest::collection::btree_map(1_u16.., count(), 0..5);
    let resume = (short(), text(), next).prop_map(|(cid, token, next)| ResumeRequest {
        cid,
        token: Secret::new(token),
        next: next.into_iter().collect(),
    });
    let negotiation = (vec(0_u64..9, 0..3), vec(short(), 0..5), vec(select(Enc::ALL), 0..3));
    let rest = (of(client), of(limits), of(vec(tool(), 0..2)), of(resume), of(short()), of(text()));
    (select(HelloOp::ALL), negotiation, rest).prop_map(|(op, (ver, features, enc), rest)| {
        let (client, limits, tools, resume, nonce, token) = rest;
        let mut hello = Hello::new(op);
        if op == HelloOp::Hello {
            (hello.ver, hello.features, hello.enc) = (ver, features, enc);
        }
        Hello { client, limits, tools, resume, nonce, token: token.map(Secret::new), ..hello }
    })
}

fn server_hello() -> impl Strategy<Value = ServerHello> {
    let set =
        vec(select(Feature::ALL), 0..12).prop_map(|features| features.into_iter().collect::<Features>());
    let number = || of(any::<u32>());
    let limits = (number(), number(), number(), number(), number(), number()).prop_map(
        |(max_payload, max_message, max_inflight, window, frames_per_s, invokes_per_s)| ServerLimits {
            max_payload,
            max_message,
            max_inflight,
            window,
            frames_per_s,
            invokes_per_s,
        },
    );
    let grant = (text(), any::<u32>())
        .prop_map(|(token, window_s)| ResumeGrant { token: Secret::new(token), window_s });
    let server = (text(), text(), select(ServerMode::ALL)).prop_map(|(name, version, mode)| ServerInfo {
        name,
        version,
        mode,
    });
    let first =
        (select(ServerHelloOp::ALL), number(), of("[A-Za-z0-9_-]{16,64}"), of(set), of(select(Enc::ALL)));
    let second = (of(limits), number(), of(grant), of(any::<bool>()), of(vec(1_u16.., 0..4)), of(server));
    let third = (of(short()), of(count()), of(count()), of(text()));
    (first, second, third).prop_map(|(first, second, third)| {
        let (op, ver, cid, features, enc) = first;
        let (limits, heartbeat_s, resume, resumed, lost, server) = second;
        let (nonce, exp, retry_ms, reason) = third;
        ServerHello {
            op,
            ver,
            cid,
            features,
            enc,
            limits,
            heartbeat_s,
            resume,
            resumed,
            lost,
            server,
            nonce,
            exp,
            retry_ms,
            reason,
        }
    })
}

fn interrupt() -> impl Strategy<Value = Interrupt> {
    (select(Mode::ALL), of(text()), 1..=MAX_INT.unsigned_abs()).prop_map(|(mode, reason, bytes)| Interrupt {
        mode,
        reason,
        bytes: (mode == Mode::Credit).then_some(bytes),
    })
}

fn error() -> impl Strategy<Value = ErrorFrame> {
    let complete = (of(select(Finish::ALL)), of(metrics()))
        .prop_map(|(finish, metrics)| ErrorFrame::Complete(Completion { finish, metrics }));
    let strategy =
        (1_u16.., text(), text(), any::<bool>(), of(count()), any::<bool>(), of(any::<u16>()), of(map()));
    let failure = strategy.prop_map(|(code, name, msg, retry, retry_ms, fatal, reference, detail)| {
        ErrorFrame::Error(ErrorBody { code, name, msg, retry, retry_ms, fatal, reference, detail })
    });
    prop_oneof![complete, failure]
}

fn tool_frame() -> impl Strategy<Value = ToolDefFrame> {
    (select(ToolDefOp::ALL), of(count()), vec(tool(), 0..3), vec(short(), 0..3)).prop_map(
        |(op, rev, tools, names)| {
            let removes = op == ToolDefOp::Remove;
            ToolDefFrame {
                op,
                rev,
                tools: if removes { vec![] } else { tools },
                names: if removes { names } else { vec![] },
            }
        },
    )
}

/// Sends a map through frame, flags, assembly and both encodings.
fn over_the_wire(opcode: Opcode, map: &Map) -> Vec<switchboard_asp::codec::Payload> {
    let payloads = [Enc::Json, Enc::Msgpack].map(|enc| {
        let flags = Flags::NONE.with_enc(enc.into());
        let mut out = BytesMut::new();
        encode_map_frame(&mut out, opcode, flags, 7, enc, map).unwrap();
        let mut reader = FrameReader::new(out.freeze(), ReaderOptions::default());
        let Some(Ok(Incoming::Frame(frame))) = reader.next() else { panic!("no frame") };
        let flags = frame.flags.agreed(Features::STANDARD).unwrap();
        let mut assembler = Assembler::new(AssemblerLimits { max_payload: 16 << 20, ..Default::default() });
        let Assembly::Whole(message) = assembler.push(frame, flags, 0).unwrap() else { panic!("not whole") };
        open_payload(&message, Features::STANDARD, 16 << 20).unwrap()
    });
    payloads.into()
}

fn to_server(message: &ClientMessage) {
    for payload in over_the_wire(message.opcode(), &message.to_map()) {
        assert_eq!(ClientMessage::from_payload(message.opcode(), payload).as_ref(), Ok(message));
    }
}

fn to_client(message: &ServerMessage, map: &Map) {
    for payload in over_the_wire(message.opcode(), map) {
        assert_eq!(ServerMessage::from_payload(message.opcode(), payload).as_ref(), Ok(message));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn frames_round_trip(frames in vec(frame(), 0..8)) {
        let mut out = BytesMut::new();
        for frame in &frames {
            frame.encode(&mut out).unwrap();
        }
        let read: Vec<_> = FrameReader::new(out.freeze(), ReaderOptions::default()).collect();
        let expected: Vec<_> = frames.into_iter().map(|frame| Ok(Incoming::Frame(frame))).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn values_round_trip_in_both_encodings(value in value()) {
        for enc in [Enc::Json, Enc::Msgpack] {
            let mut out = BytesMut::new();
            value.encode(enc, &mut out);
            prop_assert_eq!(Value::decode(enc, &out), Ok(value.clone()));
            if enc == Enc::Json {
                prop_assert_eq!(json_size(&value), out.len());
                // Other JSON libraries read the same.
                let foreign: serde_json::Value = serde_json::from_slice(&out).unwrap();
                prop_assert_eq!(&foreign, &serde_json::Value::from(value.clone()));
            }
        }
    }

    #[test]
    fn canonical_json_does_not_depend_on_order(map in map()) {
        let mut members: Vec<_> = map.clone().into_iter().collect();
        members.reverse();
        let reversed: Map = members.into_iter().collect();
        prop_assert_eq!(canonical_json(&Value::Map(map)), canonical_json(&Value::Map(reversed)));
    }

    #[test]
    fn foreign_json_converts(value in value()) {
        let foreign = serde_json::Value::from(value);
        let back = Value::try_from(foreign.clone()).unwrap();
        prop_assert_eq!(serde_json::Value::from(back), foreign);
    }

    #[test]
    fn records_round_trip(record in record()) {
        to_client(&ServerMessage::Stream(Stream::Record(record.clone())), &record.to_map());
    }

    #[test]
    fn invokes_round_trip(invoke in invoke()) {
        to_server(&ClientMessage::Invoke(Box::new(invoke)));
    }

    #[test]
    fn hellos_round_trip(hello in hello()) {
        to_server(&ClientMessage::Hello(Box::new(hello)));
    }

    #[test]
    fn server_hellos_round_trip(hello in server_hello()) {
        to_client(&ServerMessage::Hello(Box::new(hello.clone())), &hello.to_map());
    }

    #[test]
    fn controls_round_trip(interrupt in interrupt(), error in error()) {
        to_server(&ClientMessage::Interrupt(interrupt));
        to_server(&ClientMessage::Error(error.clone()));
        to_client(&ServerMessage::Error(error.clone()), &error.to_map());
    }

    #[test]
    fn tool_definitions_round_trip(frame in tool_frame()) {
        to_client(&ServerMessage::ToolDef(frame.clone()), &frame.to_map());
    }

    #[test]
    fn fragments_round_trip(payload in vec(any::<u8>(), 0..300), size in 1_usize..50, other in 0_u16..3) {
        let mut out = BytesMut::new();
        let flags = Flags::END.with_enc(EncFlag::Raw);
        encode_fragments(&mut out, Opcode::Stream, flags, 1, &payload, size).unwrap();
        let mut assembler = Assembler::new(AssemblerLimits::default());
        let mut whole = Vec::new();
        for (index, incoming) in FrameReader::new(out.freeze(), ReaderOptions::default()).enumerate() {
            let Ok(Incoming::Frame(frame)) = incoming else { panic!("no frame") };
            let flags = frame.flags.agreed(Features::STANDARD).unwrap();
            prop_assert!(frame.payload.len() <= size);
            // Frames of other ids between the fragments change nothing.
            let stranger = Frame::new(Opcode::Stream, 10 + other, "x");
            prop_assert!(matches!(assembler.push(stranger, Flags::NONE, 0), Ok(Assembly::Whole(_))));
            if let Assembly::Whole(message) = assembler.push(frame, flags, index as u64).unwrap() {
                whole.push(message);
            }
        }
        let expected = Assembled { opcode: Opcode::Stream, flags, id: 1, payload: payload.into(), aborted: None };
        prop_assert_eq!(whole, [expected]);
        prop_assert_eq!(assembler.held(), 0);
    }

    #[test]
    fn compression_round_trips(payload in vec(select(&b"abc"[..]), 0..2000)) {
        for algorithm in [Compression::Deflate, Compression::Zstd] {
            if let Some(packed) = compress(algorithm, &payload) {
                prop_assert_eq!(decompress(algorithm, &packed, MAX).unwrap(), &payload);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400), opcode in opcode(), flags in any::<u8>(), mask in any::<u16>()) {
        let _ = decode_json(&bytes);
        let _ = decode_msgpack(&bytes);
        let _ = decompress(Compression::Deflate, &bytes, MAX);
        let _ = decompress(Compression::Zstd, &bytes, MAX);
        let _ = FrameReader::new(bytes.clone().into(), ReaderOptions::default()).count();
        let offered = Feature::ALL.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        let features = Features::agree(offered.map(|(_, feature)| feature.name()), Features::ALL);
        let Ok(flags) = Flags::from_byte(flags).agreed(features) else { return Ok(()) };
        let message = Assembled { opcode, flags, id: 1, payload: bytes.into(), aborted: None };
        if let Ok(payload) = open_payload(&message, features, MAX) {
            let _ = ClientMessage::from_payload(opcode, payload.clone());
            let _ = ServerMessage::from_payload(opcode, payload);
        }
    }

    #[test]
    fn arbitrary_maps_never_panic(map in map(), t in select(&["start", "status", "text", "tool", "call", "ask", "data", "usage", "notice", "end"][..]), opcode in opcode()) {
        let payload = switchboard_asp::codec::Payload::Value(Value::Map(map.with("t", t).with("kind", t)));
        let _ = ClientMessage::from_payload(opcode, payload.clone());
        let _ = ServerMessage::from_payload(opcode, payload);
    }

    #[test]
    fn damaged_encodings_never_panic(value in value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for enc in [Enc::Json, Enc::Msgpack] {
            let mut out = BytesMut::new();
            value.encode(enc, &mut out);
            let index = at.index(out.len());
            out[index] = byte;
            if let Ok(decoded) = Value::decode(enc, &out) {
                let mut again = BytesMut::new();
                decoded.encode(enc, &mut again);
                prop_assert_eq!(Value::decode(enc, &again), Ok(decoded));
            }
            let _ = Value::decode(enc, &out[..index]);
        }
    }

    #[test]
    fn damaged_compression_never_panics(payload in vec(select(&b"abc"[..]), 50..500), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        for algorithm in [Compression::Deflate, Compression::Zstd] {
            let Some(packed) = compress(algorithm, &payload) else { continue };
            let mut packed = packed.to_vec();
            let index = at.index(packed.len());
            packed[index] = byte;
            if let Ok(out) = decompress(algorithm, &packed, 600) {
                prop_assert!(out.len() <= 600);
            }
        }
    }

    #[test]
    fn lying_lengths_are_found_out(declared in any::<u32>(), payload in vec(any::<u8>(), 0..100), nibble in 0_u8..16) {
        let mut message = vec![0x10 | nibble, 0, 0, 1];
        message.extend(declared.to_be_bytes());
        message.extend(&payload);
        let first = FrameReader::new(Bytes::from(message), ReaderOptions::default()).next().unwrap();
        let have = payload.len() as u64;
        match first {
            Err(FrameError::TooLarge { length, cap }) => prop_assert!(length > u64::from(cap)),
            Err(FrameError::Truncated { need, .. }) => prop_assert!(need > have + 8),
            Err(FrameError::Version(_)) => prop_assert!(false, "version is fine"),
            Ok(_) => prop_assert!(u64::from(declared) <= have),
        }
    }
}
