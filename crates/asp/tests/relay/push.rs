//! What a function pushes.

use bytes::Bytes;
use switchboard_asp::error::FrameError;
use switchboard_asp::message::{Finish, Reason};
use switchboard_asp::relay::push::FrameFault;
use switchboard_asp::relay::{
    BodyError, Piece, PieceError, PushError, PushForm, PushLimits, Pushed, PushedFrame,
};

use super::support::frame;

fn json(body: &str) -> Result<Pushed, PushError> {
    Pushed::read(PushForm::Json, Bytes::copy_from_slice(body.as_bytes()), PushLimits::default())
}

fn frames(frames: &[Vec<u8>]) -> Result<Pushed, PushError> {
    Pushed::read(PushForm::Frames, frames.concat().into(), PushLimits::default())
}

fn one(item: &str) -> Result<Pushed, PushError> {
    json(&format!(r#"{{"frames":[{item}]}}"#))
}

fn fault(item: &str) -> FrameFault {
    match one(item) {
        Err(PushError::Frame { index: 0, cause }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_holds_frames_in_order() {
    let pushed = json(
        r#"{"idem":"k1","later":1,"frames":[
            {"type":"STREAM","rid":1,"payload":{"t":"text","d":"A"}},
            {"type":"STREAM","rid":2,"payload":"B"},
            {"type":"STREAM","rid":1,"payload":{"t":"nobody-knows"}},
            {"type":"TOOL_DEF","payload":{"name":"echo","input_schema":{}}},
            {"type":"STREAM","rid":0,"payload":{"t":"notice","level":"info","text":"hello"}},
            {"type":"STREAM","rid":2,"payload":{"t":"end","finish":"complete"},"later":1},
            {"type":"ERROR","rid":1,"payload":{"code":2401,"msg":"no","fatal":true}},
            {"type":"ERROR","rid":3,"payload":"broken"}]}"#,
    )
    .unwrap();
    assert_eq!((pushed.idem.as_deref(), pushed.count), (Some("k1"), 8));
    let rids: Vec<u16> = pushed.frames.iter().map(|frame| frame.rid).collect();
    assert_eq!(rids, [1, 2, 0, 0, 2, 1, 3]);
    let pieces: Vec<&Piece> = pushed.frames.iter().map(|frame| &frame.piece).collect();
    assert!(*pieces[0] == Piece::text("A") && *pieces[1] == Piece::text("B"));
    assert!(matches!(pieces[2], Piece::ToolDef(frame) if frame.tools[0].name == "echo"));
    assert!(*pieces[4] == Piece::end(Finish::Complete));
    assert!(matches!(pieces[5], Piece::Error(body) if body.code == 2401 && !body.fatal));
    assert!(matches!(pieces[6], Piece::Error(body) if body.code == 2400 && body.msg == "broken"));
}

#[test]
fn frames_may_be_pushed_as_they_are() {
    let pushed = frames(&[
        frame(0x13, 0x04, 1, br#"{"t":"text","d":"A"}"#),
        frame(0x15, 0x04, 0, br#"{"op":"remove","names":["echo"]}"#),
        frame(0x13, 0x01, 2, b"last"),
        frame(0x13, 0, 3, b""),
        frame(0x16, 0, 4, b"broken"),
    ])
    .unwrap();
    assert_eq!((pushed.idem, pushed.count), (None, 5));
    let rids: Vec<u16> = pushed.frames.iter().map(|frame| frame.rid).collect();
    assert_eq!(rids, [1, 0, 2, 2, 3, 4], "END on a delta gives a piece of its own");
    assert!(pushed.frames[3].piece == Piece::end(Finish::Complete));
    assert!(pushed.frames[4].piece == Piece::end(Finish::Complete));
    assert_eq!(frames(&[]).unwrap().count, 0);
}

#[test]
fn what_is_wrong_with_a_document_is_named() {
    let field = |body: &str| match json(body) {
        Err(PushError::Document(BodyError::Field(error))) => (error.member, error.reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(field("{}"), ("frames".to_owned(), Reason::Missing));
    assert_eq!(field(r#"{"frames":{}}"#), ("frames".to_owned(), Reason::Type("a list")));
    let long = format!(r#"{{"frames":[],"idem":"{}"}}"#, "k".repeat(65));
    assert_eq!(field(&long), ("idem".to_owned(), Reason::TooLong(64)));
    for body in ["", "[]", "nonsense", "{\"frames\":["] {
        assert_eq!(json(body), Err(PushError::Document(BodyError::Json)), "{body}");
    }
    assert_eq!(json(r#"{"frames":[]}"#).unwrap().frames, []);
}

#[test]
fn what_is_wrong_with_a_frame_is_named() {
    let field = |item: &str| match fault(item) {
        FrameFault::Document(BodyError::Field(error)) => (error.member, error.reason),
        other => panic!("{other:?}"),
    };
    let choice = Reason::Choice(&["STREAM", "TOOL_DEF", "ERROR"]);
    assert_eq!(field(r#"{"type":"INVOKE","rid":1,"payload":{}}"#), ("type".to_owned(), choice));
    assert_eq!(field(r#"{"type":"stream","rid":1,"payload":{}}"#), ("type".to_owned(), choice));
    assert_eq!(field(r#"{"rid":1,"payload":{}}"#), ("type".to_owned(), Reason::Missing));
    assert_eq!(field(r#"{"type":"STREAM","payload":"x"}"#), ("rid".to_owned(), Reason::Missing));
    assert_eq!(field(r#"{"type":"STREAM","rid":1}"#), ("payload".to_owned(), Reason::Missing));
    assert_eq!(
        field(r#"{"type":"STREAM","rid":-1,"payload":"x"}"#),
        ("rid".to_owned(), Reason::Range(0, 65535))
    );
    assert_eq!(fault("7"), FrameFault::Document(BodyError::Json));
    for payload in ["7", "null", "[]", "true"] {
        for kind in ["STREAM", "ERROR", "TOOL_DEF"] {
            let item = format!(r#"{{"type":"{kind}","rid":1,"payload":{payload}}}"#);
            assert_eq!(fault(&item), FrameFault::Piece(PieceError::NotAMap));
        }
    }
    assert!(matches!(
        fault(r#"{"type":"STREAM","rid":1,"payload":{"t":"text"}}"#),
        FrameFault::Piece(PieceError::Field(error)) if error.member == "d"
    ));
    let suspend = r#"{"type":"STREAM","rid":1,"payload":{"t":"suspend","state":1}}"#;
    assert_eq!(fault(suspend), FrameFault::Suspend);
    assert_eq!(fault(r#"{"type":"ERROR","rid":0,"payload":"x"}"#), FrameFault::NoRequest);
    // The place is named, and what came before is not taken.
    let second = json(r#"{"frames":[{"type":"STREAM","rid":1,"payload":"x"},{"type":"STREAM","rid":1}]}"#);
    assert!(matches!(&second, Err(error @ PushError::Frame { index: 1, .. }) if error.status() == 400));
}

#[test]
fn frames_that_are_none_are_refused() {
    let cause = |body: &[Vec<u8>]| match frames(body) {
        Err(PushError::Frame { cause, .. }) => cause,
        other => panic!("{other:?}"),
    };
    let good = frame(0x13, 0, 1, b"x");
    for (first, nibble) in [(0x11, 1), (0x12, 2), (0x14, 4), (0x1F, 15)] {
        let expected = FrameFault::Piece(PieceError::Type(nibble));
        assert_eq!(cause(&[good.clone(), frame(first, 0, 1, b"x")]), expected);
    }
    assert!(matches!(cause(&[frame(0x23, 0, 1, b"")]), FrameFault::Layout(FrameError::Version(2))));
    for cut in 1..good.len() {
        let refused = cause(&[good.clone(), good[..cut].to_vec()]);
        assert!(matches!(refused, FrameFault::Layout(FrameError::Truncated { .. })), "{cut}");
    }
    assert_eq!(cause(&[frame(0x16, 0, 0, b"x")]), FrameFault::NoRequest);
    assert_eq!(cause(&[frame(0x13, 0, 1, br#"{"t":"suspend","state":1}"#)]), FrameFault::Suspend);
    assert!(matches!(cause(&[frame(0x13, 0x10, 1, b"x")]), FrameFault::Piece(PieceError::Flags(_))));
}

#[test]
fn a_push_is_bounded() {
    let limits = PushLimits { max_bytes: 200, max_frames: 3 };
    let read = |form, body: Vec<u8>| Pushed::read(form, body.into(), limits);
    let too_many = PushError::TooMany { limit: 3 };
    let document = |count: usize| {
        let item = r#"{"type":"STREAM","rid":1,"payload":""}"#;
        format!(r#"{{"frames":[{}]}}"#, vec![item; count].join(",")).into_bytes()
    };
    assert_eq!(read(PushForm::Json, document(3)).unwrap().count, 3);
    assert_eq!(read(PushForm::Json, document(4)), Err(too_many.clone()));
    assert_eq!(read(PushForm::Frames, frame(0x13, 0, 1, b"").repeat(3)).unwrap().count, 3);
    assert_eq!(read(PushForm::Frames, frame(0x13, 0, 1, b"").repeat(4)), Err(too_many.clone()));
    let too_large = PushError::TooLarge { limit: 200 };
    assert_eq!(read(PushForm::Json, vec![b' '; 201]), Err(too_large.clone()));
    assert_eq!(read(PushForm::Frames, frame(0x13, 0, 1, &[b'x'; 193])), Err(too_large.clone()));
    assert!(read(PushForm::Frames, frame(0x13, 0, 1, &[b'x'; 192])).is_ok());
    assert_eq!((too_many.status(), too_large.status()), (413, 413));
}

#[test]
fn a_payload_may_be_as_deep_as_on_its_own_and_no_deeper() {
    let deep = |levels: usize| {
        let value = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        one(&format!(r#"{{"type":"STREAM","rid":1,"payload":{{"t":"data","value":{value}}}}}"#))
    };
    assert!(deep(31).is_ok());
    assert!(deep(32).is_err());
    assert!(deep(100_000).is_err());
}

#[test]
fn content_types_of_a_push_are_known_whatever_their_case_and_parameters() {
    assert_eq!(PushForm::from_content_type("Application/JSON; charset=utf-8"), Some(PushForm::Json));
    assert_eq!(PushForm::from_content_type("application/vnd.asp.frames"), Some(PushForm::Frames));
    for other in ["", "text/plain", "application/x-ndjson", "application/json5"] {
        assert_eq!(PushForm::from_content_type(other), None);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let pushed = Pushed {
        idem: Some("k".to_owned()),
        frames: vec![
            PushedFrame { rid: 1, piece: Piece::text("A") },
            PushedFrame { rid: 1, piece: Piece::Ping },
            PushedFrame { rid: 1, piece: Piece::end(Finish::Complete) },
        ],
        count: 3,
    };
    let body = pushed.to_json();
    let expected = concat!(
        r#"{"idem":"k","frames":[{"type":"STREAM","rid":1,"payload":{"t":"text","d":"A"}},"#,
        r#"{"type":"STREAM","rid":1,"payload":{"t":"ping"}},"#,
        r#"{"type":"STREAM","rid":1,"payload":{"t":"end","finish":"complete"}}]}"#
    );
    assert_eq!(std::str::from_utf8(&body).unwrap(), expected);
    assert_eq!(Pushed::read(PushForm::Json, body, PushLimits::default()), Ok(pushed));
}
