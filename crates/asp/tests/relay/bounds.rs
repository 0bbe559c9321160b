//! Every bound of a body, from both sides.

use switchboard_asp::error::{FrameError, ValueError};
use switchboard_asp::message::{Record, RecordBody};
use switchboard_asp::relay::{BadBody, ContentKind, Decoder, Limits, MAX_STATE, Piece, PieceError};

use super::support::{RID, frame, read_chunks};

const LIMITS: Limits = Limits { max_unit: 64, max_body: 64 };

fn fault(kind: ContentKind, body: &[u8]) -> Option<BadBody> {
    read_chunks(kind, [body], LIMITS).1.err()
}

/// A text record whose line has this many bytes.
fn line(length: usize) -> String {
    let empty = r#"{"t":"text","d":""}"#;
    format!(r#"{{"t":"text","d":"{}"}}"#, "x".repeat(length - empty.len()))
}

#[test]
fn a_line_is_bounded() {
    let too_long = Some(BadBody::TooLong { what: "line", limit: 64 });
    assert_eq!(fault(ContentKind::Ndjson, format!("{}\n", line(64)).as_bytes()), None);
    assert_eq!(fault(ContentKind::Ndjson, line(64).as_bytes()), None);
    assert_eq!(fault(ContentKind::Ndjson, format!("{}\n", line(65)).as_bytes()), too_long);
    assert_eq!(fault(ContentKind::Ndjson, &[b' '; 65]), too_long);
    assert_eq!(fault(ContentKind::Ndjson, &[b'\n'; 1000]), None);
}

#[test]
fn an_event_is_bounded_however_many_lines_it_has() {
    let too_long = Some(BadBody::TooLong { what: "event", limit: 64 });
    assert_eq!(fault(ContentKind::Sse, format!("data: {}\n\n", line(64)).as_bytes()), None);
    assert_eq!(fault(ContentKind::Sse, format!("data: {}\n\n", line(65)).as_bytes()), too_long);
    assert_eq!(fault(ContentKind::Sse, "data:\n".repeat(65).as_bytes()), None);
    assert_eq!(fault(ContentKind::Sse, "data:\n".repeat(66).as_bytes()), too_long);
    assert_eq!(fault(ContentKind::Sse, "event: x\n".repeat(1000).as_bytes()), None);
    let comment = format!(":{}", "x".repeat(200));
    assert!(matches!(fault(ContentKind::Sse, comment.as_bytes()), Some(BadBody::TooLong { .. })));
}

#[test]
fn a_frame_is_refused_by_its_declared_length() {
    assert_eq!(fault(ContentKind::Frames, &frame(0x13, 0, RID, &[b'x'; 64])), None);
    let too_large = BadBody::Frame(FrameError::TooLarge { length: 65, cap: 64 });
    assert_eq!(fault(ContentKind::Frames, &frame(0x13, 0, RID, &[b'x'; 65])[..8]), Some(too_large));
    // The largest length that can be declared makes nothing wait and nothing grow.
    let mut decoder = Decoder::new(ContentKind::Frames, RID, Limits::default());
    let refused = decoder.feed(&[0x13, 0, 0, 7, 0xFF, 0xFF, 0xFF, 0xFF], &mut Vec::new());
    assert!(matches!(refused, Err(BadBody::Frame(FrameError::TooLarge { .. }))));
}

#[test]
fn a_json_body_is_bounded() {
    let body = |length: usize| format!("\"{}\"", "x".repeat(length - 2)).into_bytes();
    assert_eq!(fault(ContentKind::Json, &body(64)), None);
    assert_eq!(fault(ContentKind::Json, &body(65)), Some(BadBody::TooLong { what: "body", limit: 64 }));
}

#[test]
fn pieces_of_text_and_bytes_are_bounded() {
    let text = "ä€👋".repeat(100);
    let (pieces, _) = read_chunks(ContentKind::Text, [text.as_bytes()], LIMITS);
    let mut joined = String::new();
    for piece in &pieces {
        if let Piece::Record(Record { body: RecordBody::Text(delta), .. }) = piece {
            assert!(!delta.is_empty() && delta.len() <= 64);
            joined.push_str(delta);
        }
    }
    assert_eq!(joined, text);
    let bytes = [7; 200];
    let (pieces, _) = read_chunks(ContentKind::Bytes, [bytes.as_slice()], LIMITS);
    let lengths: Vec<usize> = pieces
        .iter()
        .filter_map(|piece| if let Piece::Raw(raw) = piece { Some(raw.len()) } else { None })
        .collect();
    assert_eq!(lengths, [64, 64, 64, 8]);
    // A limit of nothing still lets something through.
    let none = Limits { max_unit: 0, max_body: 0 };
    assert_eq!(read_chunks(ContentKind::Bytes, [b"ab".as_slice()], none).0.len(), 3);
    assert_eq!(read_chunks(ContentKind::Text, [b"ab".as_slice()], none).0.len(), 3);
}

#[test]
fn state_and_nesting_are_bounded() {
    let read = |body: String| read_chunks(ContentKind::Ndjson, [body.as_bytes()], Limits::default()).1.err();
    let suspend = |length: usize| format!("{{\"t\":\"suspend\",\"state\":\"{}\"}}\n", "x".repeat(length - 2));
    assert_eq!(read(suspend(MAX_STATE)), None);
    assert_eq!(read(suspend(MAX_STATE + 1)), Some(BadBody::Piece(PieceError::StateTooLarge)));
    let nested =
        |depth: usize| format!("{{\"t\":\"data\",\"value\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(read(nested(31)), None);
    let too_deep = Some(BadBody::Piece(PieceError::Value(ValueError::TooDeep)));
    assert_eq!(read(nested(32)), too_deep);
    assert_eq!(read(nested(100_000)), too_deep);
}
