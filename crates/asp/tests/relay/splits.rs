//! However a body is cut, it means the same.

use proptest::prelude::*;
use switchboard_asp::message::{Record, RecordBody};
use switchboard_asp::relay::{ContentKind, Limits, Piece};

use super::support::{Read, read, read_chunks, samples};

/// Pieces of plain text and bytes may be cut anywhere, so neighbours are joined.
fn joined((pieces, finished): Read) -> Read {
    let mut whole: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (whole.last_mut(), &piece) {
            (
                Some(Piece::Record(Record { n: None, body: RecordBody::Text(text) })),
                Piece::Record(Record { n: None, body: RecordBody::Text(more) }),
            ) => text.push_str(more),
            (Some(Piece::Raw(bytes)), Piece::Raw(more)) => {
                *bytes = [bytes.as_ref(), more.as_ref()].concat().into();
            }
            _ => whole.push(piece),
        }
    }
    (whole, finished)
}

fn same(kind: ContentKind, split: Read, whole: Read, how: &str) {
    let plain = matches!(kind, ContentKind::Text | ContentKind::Bytes);
    let (split, whole) = if plain { (joined(split), joined(whole)) } else { (split, whole) };
    // `Debug` of a piece hides what is in it, so equality is asserted on its own.
    assert!(split == whole, "{kind:?} {how}: {split:?} is not {whole:?}");
}

#[test]
fn asp_062_every_split_of_every_sample_gives_the_same_pieces() {
    for (kind, body) in samples() {
        for at in 0..=body.len() {
            let (head, tail) = body.split_at(at);
            let split = read_chunks(kind, [head, tail], Limits::default());
            same(kind, split, read(kind, &body), &format!("cut at {at} of {body:?}"));
        }
        let single = read_chunks(kind, body.chunks(1), Limits::default());
        same(kind, single, read(kind, &body), &format!("byte by byte: {body:?}"));
    }
}

#[test]
fn samples_cover_success_failure_and_nonsense_of_every_kind() {
    for kind in ContentKind::ALL {
        let ends: Vec<bool> = samples()
            .iter()
            .filter(|(of, _)| of == kind)
            .map(|(_, body)| read(*kind, body).1.is_ok())
            .collect();
        assert!(ends.contains(&true), "{kind:?}");
        assert!(ends.contains(&false) || *kind == ContentKind::Bytes, "{kind:?}");
    }
}

fn kind() -> impl Strategy<Value = ContentKind> {
    proptest::sample::select(ContentKind::ALL)
}

proptest! {
    #[test]
    fn garbage_never_panics_and_its_splits_agree(
        kind in kind(),
        body in proptest::collection::vec(any::<u8>(), 0..200),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        check_cuts(kind, &body, &cuts);
    }

    #[test]
    fn damaged_samples_never_panic_and_their_splits_agree(
        sample in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let samples = samples();
        let (kind, mut body) = samples[sample.index(samples.len())].clone();
        for (at, byte) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
            }
        }
        check_cuts(kind, &body, &cuts);
    }
}

fn check_cuts(kind: ContentKind, body: &[u8], cuts: &[prop::sample::Index]) {
    let limits = Limits { max_unit: 40, max_body: 60 };
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(body.len());
    let mut from = 0;
    let chunks: Vec<&[u8]> = cuts.iter().map(|cut| &body[std::mem::replace(&mut from, *cut)..*cut]).collect();
    let whole = read_chunks(kind, [body], limits);
    same(kind, read_chunks(kind, chunks, limits), whole, &format!("{body:?} cut at {cuts:?}"));
}
