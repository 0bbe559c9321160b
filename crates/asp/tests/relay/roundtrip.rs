//! What is written is read again, in every format.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use switchboard_asp::message::{
    Ask, Call, Enc, End, ErrorBody, Finish, Level, Metrics, Notice, Phase, Record, RecordBody, State, Status,
    ToolActivity, ToolDef, ToolDefFrame, ToolDefOp, Usage,
};
use switchboard_asp::relay::{
    BadBody, ContentKind, Ended, Finished, Format, Limits, MAX_STATE, Piece, PushForm, PushLimits, Pushed,
    PushedFrame, WriteError, Writer,
};
use switchboard_asp::value::MAX_INT;
use switchboard_asp::{Code, Map, Value};

use super::support::{RID, read, read_chunks};

const FORMATS: [Format; 4] =
    [Format::Ndjson, Format::Sse, Format::Frames(Enc::Json), Format::Frames(Enc::Msgpack)];

fn text() -> impl Strategy<Value = String> {
    "(?s).{0,20}"
}

fn count() -> impl Strategy<Value = u64> {
    0..=MAX_INT.unsigned_abs()
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_INT..=MAX_INT).prop_map(Value::Int),
        (-1e9..1e9_f64).prop_map(Value::Float),
        text().prop_map(Value::Str),
        vec(any::<u8>(), 0..20).prop_map(|bytes| Value::Bin(bytes.into())),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        let map = vec(("[a-z]{1,4}", inner.clone()), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::Array),
            map.prop_map(|members| Map::from_iter(members).into())
        ]
    })
}

fn map() -> impl Strategy<Value = Map> {
    vec(("[a-z]{1,4}", value()), 0..3).prop_map(Map::from_iter)
}

fn usage() -> impl Strategy<Value = Usage> {
    proptest::collection::btree_map("[a-m]{1,8}", count(), 0..4)
        .prop_map(|counts| Usage(counts.into_iter().collect()))
}

fn record() -> impl Strategy<Value = RecordBody> {
    prop_oneof![
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
        ("[ -~]{0,40}", text(), map(), count()).prop_map(|(call_id, name, args, timeout_ms)| {
            RecordBody::Call(Call { call_id, name, args, timeout_ms })
        }),
        ("[ -~]{0,40}", text(), of(map())).prop_map(|(ask_id, text, schema)| RecordBody::Ask(Ask {
            ask_id,
            text,
            schema
        })),
        (of(text()), value()).prop_map(|(mime, value)| RecordBody::Data { mime, value }),
        usage().prop_map(RecordBody::Usage),
        (select(Level::ALL), text(), of(value()))
            .prop_map(|(level, text, data)| RecordBody::Notice(Notice { level, text, data })),
    ]
}

fn tools() -> impl Strategy<Value = ToolDefFrame> {
    let tool =
        ("[A-Za-z0-9_.-]{1,64}", of(text()), of(count())).prop_map(|(name, description, ttl_s)| ToolDef {
            name,
            description,
            input_schema: Map::new().with("type", "object"),
            output_schema: None,
            annotations: None,
            version: None,
            ttl_s,
        });
    let names = vec("[a-z]{1,8}", 0..3);
    let added = (select(vec![ToolDefOp::Add, ToolDefOp::Set]), of(count()), vec(tool, 0..3))
        .prop_map(|(op, rev, tools)| ToolDefFrame { op, rev, tools, names: Vec::new() });
    let removed = (of(count()), names).prop_map(|(rev, names)| ToolDefFrame {
        op: ToolDefOp::Remove,
        rev,
        tools: Vec::new(),
        names,
    });
    prop_oneof![added, removed]
}

fn ordinary() -> impl Strategy<Value = Piece> {
    prop_oneof![
        8 => record().prop_map(|body| Piece::Record(Record::new(body))),
        1 => tools().prop_map(Piece::ToolDef),
        1 => Just(Piece::Ping),
    ]
}

fn terminal() -> impl Strategy<Value = Piece> {
    let metrics = (of(count()), of(count())).prop_map(|(cpu_ms, wall_ms)| Metrics {
        cpu_ms,
        wall_ms,
        ..Metrics::default()
    });
    let end = (select(Finish::ALL), of(value()), of(usage()), of(metrics), any::<bool>()).prop_map(
        |(finish, output, usage, metrics, abandoned)| {
            let end = End { finish, output, usage, metrics, abandoned };
            Piece::Record(Record::new(RecordBody::End(end)))
        },
    );
    let failures: Vec<Code> = Code::ALL.iter().copied().filter(|code| *code != Code::Ok).collect();
    let error =
        (select(failures), text(), of(count()), of(map())).prop_map(|(code, msg, retry_ms, detail)| {
            Piece::Error(ErrorBody { retry_ms, detail, ..ErrorBody::new(code, &msg) })
        });
    prop_oneof![end, error, value().prop_map(Piece::Suspend)]
}

fn write(format: Format, pieces: &[Piece], next_n: u64) -> (Vec<u8>, u64) {
    let mut writer = Writer::new(format, RID, next_n);
    let mut out = BytesMut::new();
    for piece in pieces {
        writer.write(piece, &mut out).unwrap();
    }
    assert_eq!(writer.ended(), pieces.last().is_some_and(Piece::is_terminal));
    (out.to_vec(), writer.next_n())
}

/// The pieces as they come out: records are numbered, from `next_n` and without holes.
fn numbered(pieces: &[Piece], mut next_n: u64) -> (Vec<Piece>, u64) {
    let mut number = |piece: &Piece| match piece {
        Piece::Record(record) => {
            next_n += 1;
            Piece::Record(record.clone().numbered(next_n - 1))
        }
        Piece::Error(_) | Piece::ToolDef(_) | Piece::Suspend(_) | Piece::Raw(_) | Piece::Ping => {
            piece.clone()
        }
    };
    (pieces.iter().map(&mut number).collect(), next_n)
}

proptest! {
    #[test]
    fn an_answer_goes_there_and_back_in_every_format(
        mut pieces in vec(ordinary(), 0..8),
        last in of(terminal()),
        next_n in 0_u64..1000,
        chunk in 1_usize..50,
    ) {
        let ended = match &last {
            None => Ended::WithoutTerminal,
            Some(Piece::Suspend(_)) => Ended::Suspended,
            Some(_) => Ended::Terminal,
        };
        pieces.extend(last);
        let (expected, expected_n) = numbered(&pieces, next_n);
        for format in FORMATS {
            let (body, after) = write(format, &pieces, next_n);
            prop_assert_eq!(after, expected_n);
            for (read, finished) in [
                read(format.kind(), &body),
                read_chunks(format.kind(), body.chunks(chunk), Limits::default()),
            ] {
                prop_assert!(read == expected, "{:?}: {:?} is not {:?}", format, read, expected);
                prop_assert_eq!(finished, Ok(Finished { ended, dropped: 0 }));
            }
        }
    }

    #[test]
    fn a_push_goes_there_and_back(
        frames in vec((1_u16.., ordinary()), 0..6),
        last in terminal(),
        idem in of("[ -~]{0,64}"),
    ) {
        let mut frames: Vec<PushedFrame> =
            frames.into_iter().map(|(rid, piece)| PushedFrame { rid, piece }).collect();
        if !matches!(last, Piece::Suspend(_)) {
            frames.push(PushedFrame { rid: 3, piece: last });
        }
        let pushed = Pushed { idem, count: frames.len(), frames };
        let again = Pushed::read(PushForm::Json, pushed.to_json(), PushLimits::default());
        prop_assert!(again.as_ref() == Ok(&pushed), "{:?} is not {:?}", again, pushed);
    }

    #[test]
    fn garbage_that_is_pushed_never_panics(body in vec(any::<u8>(), 0..200), document in "[\\[\\]{}:,\"a-z0-9]{0,60}") {
        for form in PushForm::ALL {
            let _ = Pushed::read(*form, body.clone().into(), PushLimits::default());
            let _ = Pushed::read(*form, document.clone().into(), PushLimits::default());
        }
    }
}

/// T08, T09 and T26: one answer, byte for byte.
#[test]
fn each_format_has_its_form() {
    let tools =
        ToolDefFrame { op: ToolDefOp::Remove, rev: None, tools: Vec::new(), names: vec!["a".to_owned()] };
    let pieces = [Piece::text("A"), Piece::ToolDef(tools), Piece::Ping, Piece::end(Finish::Complete)];
    let lines = concat!(
        r#"{"t":"text","n":5,"d":"A"}"#,
        "\n",
        r#"{"t":"tool_def","op":"remove","names":["a"]}"#,
        "\n",
        r#"{"t":"ping"}"#,
        "\n",
        r#"{"t":"end","n":6,"finish":"complete"}"#,
        "\n",
    );
    let (body, next_n) = write(Format::Ndjson, &pieces, 5);
    assert_eq!((std::str::from_utf8(&body).unwrap(), next_n), (lines, 7));
    let events: String = lines.lines().map(|line| format!("data: {line}\n\n")).collect();
    assert_eq!(std::str::from_utf8(&write(Format::Sse, &pieces, 5).0).unwrap(), events);
    let framed = [
        b"\x13\x04\0\x07\0\0\0\x1A".as_slice(),
        br#"{"t":"text","n":5,"d":"A"}"#,
        b"\x15\x04\0\x07\0\0\0\x1D",
        br#"{"op":"remove","names":["a"]}"#,
        b"\x13\x04\0\x07\0\0\0\x0C",
        br#"{"t":"ping"}"#,
        b"\x13\x05\0\x07\0\0\0\x25",
        br#"{"t":"end","n":6,"finish":"complete"}"#,
    ];
    assert_eq!(write(Format::Frames(Enc::Json), &pieces, 5).0, framed.concat());
    let error = [Piece::Error(ErrorBody::new(Code::ToolFailed, "no"))];
    let line = "{\"t\":\"error\",\"code\":2401,\"name\":\"TOOL_FAILED\",\"msg\":\"no\",\"retry\":false}\n";
    assert_eq!(write(Format::Ndjson, &error, 0), (line.as_bytes().to_vec(), 0));
}

#[test]
fn bytes_are_written_as_data() {
    for format in FORMATS {
        let bytes = vec![0, 0xFF, b'\n'];
        let (body, next_n) = write(format, &[Piece::Raw(bytes.clone().into())], 2);
        let (pieces, _) = read(format.kind(), &body);
        let data = RecordBody::Data { mime: None, value: Value::Bin(bytes.into()) };
        assert!(pieces == [Piece::Record(Record::new(data).numbered(2))] && next_n == 3, "{format:?}");
    }
}

#[test]
fn nothing_is_written_after_the_end_or_beyond_a_bound() {
    for format in FORMATS {
        let mut out = BytesMut::new();
        let mut writer = Writer::new(format, RID, 0);
        assert_eq!(writer.write(&Piece::text("x".repeat(1 << 20)), &mut out), Err(WriteError::TooLarge));
        let state = Piece::Suspend(Value::from("x".repeat(MAX_STATE)));
        assert_eq!(writer.write(&state, &mut out), Err(WriteError::StateTooLarge));
        assert_eq!((out.len(), writer.next_n(), writer.ended()), (0, 0, false));
        writer.write(&Piece::end(Finish::Complete), &mut out).unwrap();
        let length = out.len();
        assert_eq!(writer.write(&Piece::text("late"), &mut out), Err(WriteError::Ended));
        assert_eq!((out.len(), writer.next_n()), (length, 1));
    }
}

/// The largest piece that is written can be read under the usual limits.
#[test]
fn the_largest_piece_is_read_again() {
    for format in FORMATS {
        let write = |length: usize| {
            let mut out = BytesMut::new();
            Writer::new(format, RID, 0).write(&Piece::text("x".repeat(length)), &mut out).map(|()| out)
        };
        let (mut fits, mut too_large) = ((1 << 20) - 64, 1 << 20);
        while too_large - fits > 1 {
            let length = usize::midpoint(fits, too_large);
            *(if write(length).is_ok() { &mut fits } else { &mut too_large }) = length;
        }
        let (pieces, finished) = read(format.kind(), &write(fits).unwrap());
        assert!(pieces.len() == 1 && finished.is_ok(), "{format:?} {fits}");
        assert_eq!(write(too_large), Err(WriteError::TooLarge));
    }
    let one_more = [b"{\"t\":\"text\",\"d\":\"".as_slice(), &[b'x'; 1 << 20], b"\"}\n"].concat();
    let (_, finished) = read(ContentKind::Ndjson, &one_more);
    assert_eq!(finished, Err(BadBody::TooLong { what: "line", limit: 1 << 20 }));
}
