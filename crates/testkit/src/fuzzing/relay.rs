//! What passes between a relay and a function.

use bytes::{Bytes, BytesMut};
use switchboard_asp::message::Enc;
use switchboard_asp::relay::{
    ContentKind, Decoder, Finished, Format, Invocation, Limits, Piece, PushForm, PushLimits, Pushed, Writer,
};

const RID: u16 = 1;
const LIMITS: Limits = Limits { max_unit: 4096, max_body: 4096 };

/// What a function answers and pushes, and what a relay asks of it. The first byte chooses what the rest is, the
/// second where it is cut.
pub fn relay(bytes: &[u8]) {
    let [choice, cut, body @ ..] = bytes else { return };
    match usize::from(*choice) % (ContentKind::ALL.len() + PushForm::ALL.len() + 1) {
        chosen if chosen < ContentKind::ALL.len() => {
            answer(ContentKind::ALL[chosen], usize::from(*cut), body)
        }
        chosen if chosen < ContentKind::ALL.len() + PushForm::ALL.len() => {
            push(PushForm::ALL[chosen - ContentKind::ALL.len()], body);
        }
        _ => invocation(body),
    }
}

/// Cut or whole, a body means the same; what was understood is written and read again.
fn answer(kind: ContentKind, cut: usize, body: &[u8]) {
    let (head, tail) = body.split_at(cut.min(body.len()));
    let (whole, cut) = (read(kind, &[body]), read(kind, &[head, tail]));
    if !matches!(kind, ContentKind::Text | ContentKind::Bytes) {
        assert!(whole == cut, "a cut changes nothing");
    }
    assert_eq!(whole.1, cut.1, "a cut does not change the end");
    let (pieces, _) = whole;
    let last = pieces.len().saturating_sub(1);
    assert!(!pieces[..last].iter().any(Piece::is_terminal), "nothing follows the end");
    for format in [Format::Ndjson, Format::Sse, Format::Frames(Enc::Json), Format::Frames(Enc::Msgpack)] {
        let mut writer = Writer::new(format, RID, 0);
        let mut out = BytesMut::new();
        for piece in &pieces {
            assert!(writer.write(piece, &mut out).is_ok(), "what was read can be written");
        }
        let (again, finished) = read_within(format.kind(), &[&out], Limits::default());
        assert_eq!((again.len(), finished.is_some()), (pieces.len(), true), "what was written can be read");
    }
}

fn push(form: PushForm, body: &[u8]) {
    let limits = PushLimits { max_bytes: 4096, max_frames: 16 };
    let Ok(pushed) = Pushed::read(form, Bytes::copy_from_slice(body), limits) else { return };
    assert!(pushed.count <= limits.max_frames, "frames are bounded");
    let again = Pushed::read(PushForm::Json, pushed.to_json(), PushLimits::default());
    let frames = again.map(|again| again.frames.len());
    assert_eq!(frames, Ok(pushed.frames.len()), "what was read can be written");
}

fn invocation(body: &[u8]) {
    let Ok(read) = Invocation::from_json(body) else { return };
    let written = read.to_json();
    let again = Invocation::from_json(&written).map(|again| again.to_json());
    assert_eq!(again, Ok(written), "what was read can be written, in one form");
}

fn read(kind: ContentKind, chunks: &[&[u8]]) -> (Vec<Piece>, Option<Finished>) {
    read_within(kind, chunks, LIMITS)
}

fn read_within(kind: ContentKind, chunks: &[&[u8]], limits: Limits) -> (Vec<Piece>, Option<Finished>) {
    let mut pieces = Vec::new();
    let mut decoder = Decoder::new(kind, RID, limits);
    for chunk in chunks {
        if decoder.feed(chunk, &mut pieces).is_err() {
            return (pieces, None);
        }
    }
    let finished = decoder.finish(&mut pieces).ok();
    (pieces, finished)
}
