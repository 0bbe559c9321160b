//! What each content type means.

use switchboard_asp::message::{Call, End, Finish, Metrics, Record, RecordBody, ToolDefOp};
use switchboard_asp::relay::{BadBody, ContentKind, Ended, Finished, Piece, PieceError};
use switchboard_asp::value::decode_json;
use switchboard_asp::{Code, Value};

use super::support::{RID, frame, read};

fn expect(kind: ContentKind, body: impl AsRef<[u8]>, pieces: &[Piece], ended: Ended, dropped: u64) {
    let (read, finished) = read(kind, body.as_ref());
    assert!(read == pieces, "{kind:?}: {read:?}");
    assert_eq!(finished, Ok(Finished { ended, dropped }), "{kind:?}");
}

fn refuse(kind: ContentKind, body: impl AsRef<[u8]>) -> BadBody {
    let (_, finished) = read(kind, body.as_ref());
    finished.unwrap_err()
}

fn text(d: &str) -> Piece {
    Piece::text(d)
}

fn end() -> Piece {
    Piece::end(Finish::Complete)
}

fn json(text: &str) -> Value {
    decode_json(text.as_bytes()).unwrap()
}

/// T26.
#[test]
fn asp_062_ndjson_is_one_record_per_line() {
    let body = "{\"t\":\"text\",\"d\":\"A\"}\n{\"t\":\"end\",\"finish\":\"complete\"}\n";
    expect(ContentKind::Ndjson, body, &[text("A"), end()], Ended::Terminal, 0);
    // Blank lines, CRLF and a last line without its end.
    let body = "\r\n\n{\"t\":\"text\",\"n\":3,\"d\":\"A\"}\r\n \t\r\n{\"t\":\"end\",\"finish\":\"complete\"}";
    let numbered = Piece::Record(Record::new(RecordBody::Text("A".to_owned())).numbered(3));
    expect(ContentKind::Ndjson, body, &[numbered, end()], Ended::Terminal, 0);
}

#[test]
fn asp_062_lines_also_carry_errors_tools_pings_and_calls() {
    let body = concat!(
        r#"{"t":"ping"}"#,
        "\n",
        r#"{"t":"nobody-knows","d":1}"#,
        "\n",
        r#"{"t":"tool_def","op":"add","rev":4,"tools":[{"name":"echo","input_schema":{"type":"object"}}]}"#,
        "\n",
        r#"{"t":"call","call_id":"c1","name":"pick","args":{"a":1}}"#,
        "\n",
        r#"{"t":"error","code":2401,"name":"TOOL_FAILED","msg":"no","retry":true,"fatal":true,"ref":9}"#,
        "\n",
    );
    let (pieces, finished) = read(ContentKind::Ndjson, body.as_bytes());
    assert_eq!(finished, Ok(Finished { ended: Ended::Terminal, dropped: 0 }));
    let [Piece::Ping, Piece::ToolDef(tools), Piece::Record(call), Piece::Error(error)] = pieces.as_slice()
    else {
        panic!("{pieces:?}")
    };
    assert_eq!((tools.op, tools.rev, tools.tools[0].name.as_str()), (ToolDefOp::Add, Some(4), "echo"));
    let expected = Call {
        call_id: "c1".to_owned(),
        name: "pick".to_owned(),
        args: json(r#"{"a":1}"#).as_map().unwrap().clone(),
        timeout_ms: 30_000,
    };
    assert_eq!(call.body, RecordBody::Call(expected));
    assert_eq!((error.known(), error.msg.as_str(), error.retry), (Some(Code::ToolFailed), "no", true));
    // A function can neither close the client's connection nor point at another request.
    assert_eq!((error.fatal, error.reference), (false, None));
    // One tool without a list around it.
    let body = r#"{"t":"tool_def","name":"echo","input_schema":{}}"#;
    let (pieces, _) = read(ContentKind::Ndjson, body.as_bytes());
    assert!(matches!(pieces.as_slice(), [Piece::ToolDef(frame)] if frame.tools[0].name == "echo"));
}

#[test]
fn success_may_be_said_as_code_0() {
    let body = r#"{"t":"error","code":0,"metrics":{"cpu_ms":45}}"#;
    let metrics = Metrics { cpu_ms: Some(45), ..Metrics::default() };
    let end = End { metrics: Some(metrics), ..End::new(Finish::Complete) };
    let expected = [Piece::Record(Record::new(RecordBody::End(end)))];
    expect(ContentKind::Ndjson, body, &expected, Ended::Terminal, 0);
    // T14, as a frame.
    let body = frame(0x16, 0, RID, b"\x82\xA4code\x00\xA7metrics\x81\xA6cpu_ms\x2D");
    expect(ContentKind::Frames, body, &expected, Ended::Terminal, 0);
}

#[test]
fn asp_062_an_event_stream_carries_the_same_in_data() {
    let body = "data: {\"t\":\"text\",\"d\":\"A\"}\n\ndata:{\"t\":\"end\",\"finish\":\"complete\"}\n\n";
    expect(ContentKind::Sse, body, &[text("A"), end()], Ended::Terminal, 0);
    let body = "\u{feff}data: {\"t\":\"text\",\ndata:  \"d\":\"A\"}\nevent: error\nid: 3\nfoo\n: comment\n\n\
                :\n\n\n\ndata\n\nevent: empty\n\nretry: 10\ndata: {\"t\":\"end\",\"finish\":\"complete\"}\n\n";
    expect(ContentKind::Sse, body, &[text("A"), end()], Ended::Terminal, 0);
    for ending in ["\r", "\r\n", "\n"] {
        let body = body.replace('\n', ending);
        expect(ContentKind::Sse, body, &[text("A"), end()], Ended::Terminal, 0);
    }
    // A mark elsewhere is part of an unknown field's name.
    let body = "\n\u{feff}data: {\"t\":\"ping\"}\n\ndata: {\"t\":\"end\",\"finish\":\"complete\"}\n\n";
    expect(ContentKind::Sse, body, &[end()], Ended::Terminal, 0);
}

#[test]
fn asp_062_frames_are_validated() {
    let record = |flags, payload: &str| frame(0x13, flags, RID, payload.as_bytes());
    // T08 and T09 with this request's id.
    let body = [record(0x04, r#"{"t":"text","d":"A"}"#), record(0x05, r#"{"t":"end","finish":"complete"}"#)];
    expect(ContentKind::Frames, body.concat(), &[text("A"), end()], Ended::Terminal, 0);
    // Bare text, sniffed JSON, raw text, MessagePack; a zero-length STREAM is the end.
    let body = [
        record(0, "He"),
        record(0, r#"{"t":"text","d":"y"}"#),
        record(0x08, r#"{"t"}"#),
        frame(0x13, 0x0C, RID, b"\x82\xA1t\xA4text\xA1d\xA1B"),
        record(0, ""),
    ];
    let pieces = [text("He"), text("y"), text(r#"{"t"}"#), text("B"), end()];
    expect(ContentKind::Frames, body.concat(), &pieces, Ended::Terminal, 0);
    // END on a delta.
    expect(ContentKind::Frames, record(0x01, "last"), &[text("last"), end()], Ended::Terminal, 0);
    // Raw bytes that are no text stay bytes.
    let body = frame(0x13, 0x09, RID, &[0xFF, 0xFE]);
    let raw = Piece::Raw(vec![0xFF, 0xFE].into());
    expect(ContentKind::Frames, body, &[raw, end()], Ended::Terminal, 0);
    // An unknown record is ignored; bits that nobody uses are, too.
    let body = [record(0x04, r#"{"t":"later"}"#), record(0xC0, "x"), record(0x20, "")];
    expect(ContentKind::Frames, body.concat(), &[text("x"), end()], Ended::Terminal, 0);
}

#[test]
fn asp_062_frames_of_other_types_or_requests_are_refused() {
    let tools = br#"{"op":"remove","names":["echo"]}"#;
    for id in [RID, 0] {
        let (pieces, finished) = read(ContentKind::Frames, &frame(0x15, 0x04, id, tools));
        assert!(matches!(pieces.as_slice(), [Piece::ToolDef(_)]), "{id}");
        assert_eq!(finished.unwrap().ended, Ended::WithoutTerminal);
    }
    let (pieces, _) = read(ContentKind::Frames, &frame(0x16, 0, RID, b"broken"));
    assert!(matches!(pieces.as_slice(), [Piece::Error(body)] if body.code == 2400 && body.msg == "broken"));
    let request_id = BadBody::Piece(PieceError::RequestId);
    for (first, id, payload) in [
        (0x13, 0, b"x".as_slice()),
        (0x13, RID + 1, b"x"),
        (0x16, 0, b"x"),
        (0x16, RID - 1, b"x"),
        (0x15, RID + 1, tools),
    ] {
        assert_eq!(refuse(ContentKind::Frames, frame(first, 0, id, payload)), request_id, "{first:#x} {id}");
    }
    for nibble in [0, 1, 2, 4, 7, 8, 15] {
        let refused = refuse(ContentKind::Frames, frame(0x10 | nibble, 0, RID, b"x"));
        assert_eq!(refused, BadBody::Piece(PieceError::Type(nibble)));
    }
    for version in [0, 2, 15] {
        let refused = refuse(ContentKind::Frames, frame(version << 4 | 3, 0, RID, b"x"));
        assert!(matches!(refused, BadBody::Frame(_)), "{refused}");
    }
    // Nothing is agreed with a function, so nothing is fragmented or compressed.
    for flags in [0x02, 0x03, 0x10] {
        let refused = refuse(ContentKind::Frames, frame(0x13, flags, RID, b"x"));
        assert!(matches!(refused, BadBody::Piece(PieceError::Flags(_))), "{refused}");
    }
    for (flags, payload) in [(0x04, b"{".as_slice()), (0x0C, b"\x81"), (0, b"\xFF\xFE"), (0x04, b"[1]")] {
        assert!(matches!(refuse(ContentKind::Frames, frame(0x13, flags, RID, payload)), BadBody::Piece(_)));
    }
    for payload in [b"[]".as_slice(), b"text", b"", br#"{"op":"add"}"#] {
        assert!(matches!(refuse(ContentKind::Frames, frame(0x15, 0, RID, payload)), BadBody::Piece(_)));
    }
}

#[test]
fn asp_062_plain_text_is_deltas_and_its_end_is_success() {
    expect(ContentKind::Text, "Grüße {}", &[text("Grüße {}"), end()], Ended::Terminal, 0);
    expect(ContentKind::Text, "", &[end()], Ended::Terminal, 0);
    assert_eq!(refuse(ContentKind::Text, b"a\xFFb"), BadBody::Utf8);
    assert_eq!(refuse(ContentKind::Text, b"\xE2\x28\xA1"), BadBody::Utf8);
    expect(ContentKind::Text, b"cut \xF0\x9F\x91", &[text("cut ")], Ended::WithoutTerminal, 0);
}

#[test]
fn asp_062_octets_are_raw_output_and_their_end_is_success() {
    let raw = Piece::Raw(vec![0, 0xFF].into());
    expect(ContentKind::Bytes, [0, 0xFF], &[raw, end()], Ended::Terminal, 0);
    expect(ContentKind::Bytes, [], &[end()], Ended::Terminal, 0);
}

#[test]
fn asp_062_json_is_the_whole_output() {
    for body in [r#"{"answer":42}"#, "[1,2]", " \"text\"\n", "null", "{\"t\":\"text\",\"d\":\"A\"}"] {
        let end = End { output: Some(json(body)), ..End::new(Finish::Complete) };
        let expected = [Piece::Record(Record::new(RecordBody::End(end)))];
        expect(ContentKind::Json, body, &expected, Ended::Terminal, 0);
    }
    for body in ["", "{", "{}{}", "text"] {
        assert!(matches!(refuse(ContentKind::Json, body), BadBody::Piece(PieceError::Value(_))), "{body}");
    }
}

#[test]
fn asp_063_a_stream_without_terminal_record_is_told_from_a_bad_one() {
    let text_line = "{\"t\":\"text\",\"d\":\"A\"}\n";
    for body in ["", "\n\n", "{\"t\":\"ping\"}\n", "{\"t\":\"end\"", "{\"t\":\"end\",\"finish\":\"comp"] {
        let (_, finished) = read(ContentKind::Ndjson, format!("{text_line}{body}").as_bytes());
        assert_eq!(finished, Ok(Finished { ended: Ended::WithoutTerminal, dropped: 0 }), "{body}");
    }
    let event = format!("data: {text_line}\n");
    for body in [
        "",
        ":\n\n",
        "data: {\"t\":\"end\",\"finish\":\"complete\"}",
        "data: {\"t\":\"end\",\"finish\":\"complete\"}\n",
    ] {
        let (pieces, finished) = read(ContentKind::Sse, format!("{event}{body}").as_bytes());
        assert!(pieces == [text("A")], "{body}");
        assert_eq!(finished, Ok(Finished { ended: Ended::WithoutTerminal, dropped: 0 }), "{body}");
    }
    let whole = frame(0x13, 0, RID, b"A");
    for cut in 0..8 {
        let body = [whole.clone(), frame(0x13, 0, RID, b"")[..cut].to_vec()].concat();
        expect(ContentKind::Frames, body, &[text("A")], Ended::WithoutTerminal, 0);
    }
}

#[test]
fn a_malformed_line_is_a_bad_body() {
    for line in [
        "nonsense",
        "{",
        "[1]",
        "7",
        "{}",
        "{\"t\":7}",
        "{\"t\":\"text\"}",
        "{\"t\":\"end\",\"finish\":\"x\"}",
    ] {
        for (kind, body) in
            [(ContentKind::Ndjson, format!("{line}\n")), (ContentKind::Sse, format!("data: {line}\n\n"))]
        {
            let body = format!("{body}{body}");
            assert!(matches!(refuse(kind, &body), BadBody::Piece(_)), "{line}");
        }
    }
    // What was there before it still counts.
    let (pieces, finished) = read(ContentKind::Ndjson, b"{\"t\":\"text\",\"d\":\"A\"}\nnonsense\n");
    assert!(pieces == [text("A")] && finished.is_err());
}

#[test]
fn a_suspend_ends_the_leg_and_carries_state() {
    let state = Piece::Suspend(json(r#"{"step":2}"#));
    let line = r#"{"t":"suspend","state":{"step":2}}"#;
    let late = r#"{"t":"text","d":"late"}"#;
    let length = u64::try_from(late.len()).unwrap();
    expect(
        ContentKind::Ndjson,
        format!("{line}\n{late}"),
        std::slice::from_ref(&state),
        Ended::Suspended,
        length,
    );
    expect(
        ContentKind::Sse,
        format!("data: {line}\n\n{late}\n\n"),
        std::slice::from_ref(&state),
        Ended::Suspended,
        length,
    );
    let body = [frame(0x13, 0x05, RID, line.as_bytes()), frame(0x13, 0, RID, b"late")].concat();
    expect(ContentKind::Frames, body, &[state], Ended::Suspended, 12);
    let missing = refuse(ContentKind::Ndjson, "{\"t\":\"suspend\"}\n");
    assert!(matches!(missing, BadBody::Piece(PieceError::Field(error)) if error.member == "state"));
}

#[test]
fn what_follows_the_terminal_record_is_dropped_and_counted() {
    let end_line = "{\"t\":\"end\",\"finish\":\"complete\"}";
    expect(ContentKind::Ndjson, format!("{end_line}\n\r\n  \n"), &[end()], Ended::Terminal, 0);
    expect(ContentKind::Ndjson, format!("{end_line}\nnonsense \n{end_line}"), &[end()], Ended::Terminal, 39);
    let body = format!("data: {end_line}\r\n\r\ndata: {end_line}\r\n\r\n");
    expect(ContentKind::Sse, body, &[end()], Ended::Terminal, 36);
    let body = [frame(0x13, 0, RID, b""), frame(0x13, 0, RID, b""), vec![1, 2, 3]].concat();
    expect(ContentKind::Frames, body, &[end()], Ended::Terminal, 11);
    let body = format!("{}\n{end_line}\n", r#"{"t":"error","code":2400,"msg":""}"#);
    let (pieces, finished) = read(ContentKind::Ndjson, body.as_bytes());
    assert_eq!((pieces.len(), finished.unwrap().dropped), (1, 31));
}

#[test]
fn nothing_of_a_body_is_shown() {
    let body = concat!(
        r#"{"t":"text","d":"s3cr3t"}"#,
        "\n",
        r#"{"t":"data","value":"s3cr3t"}"#,
        "\n",
        r#"{"t":"tool_def","name":"s3cr3t","input_schema":{}}"#,
        "\n",
        r#"{"t":"suspend","state":"s3cr3t"}"#,
        "\n",
    );
    let (mut pieces, _) = read(ContentKind::Ndjson, body.as_bytes());
    pieces.extend(read(ContentKind::Ndjson, br#"{"t":"error","code":2400,"msg":"s3cr3t"}"#).0);
    pieces.push(Piece::Raw(b"s3cr3t".to_vec().into()));
    assert_eq!(pieces.len(), 6);
    assert!(!format!("{pieces:?}").contains("s3cr3t"), "{pieces:?}");
    for kind in ContentKind::ALL {
        let limits = switchboard_asp::relay::Limits::default();
        let mut decoder = switchboard_asp::relay::Decoder::new(*kind, RID, limits);
        let _ = decoder.feed(b"\x13\0\0\x07s3cr3t", &mut Vec::new());
        assert!(!format!("{decoder:?}").contains("s3cr3t") && !format!("{decoder:?}").contains("115, 51"));
    }
}
