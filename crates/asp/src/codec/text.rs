//! Cutting text for bare STREAM frames.

/// Pieces of at most `most` bytes that never split a code point (ASP-035); a `most` below four still lets one
/// code point through at a time.
pub fn chunk_text(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let cut = rest.floor_char_boundary(most.max(first));
        let (piece, tail) = rest.split_at_checked(cut)?;
        rest = tail;
        Some(piece)
    })
}
