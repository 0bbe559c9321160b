//! What stands in a recording in place of what must not, or cannot, stand there: `${key}` for a
//! credential of the client, `${token}` for one that the server gave, `${server}` for its address.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// As it is.
    Plain(&'a str),
    /// The name of a placeholder, and whether its value is written in base64.
    Held {
        /// What stands between the braces.
        name: &'a str,
        /// As in the sub-protocol entry of ASP.
        encoded: bool,
    },
}

/// A text, taken apart at its placeholders.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, name, after)) = next(rest) {
        if !before.is_empty() {
            pieces.push(Piece::Plain(before));
        }
        let bare = name.strip_suffix(ENCODED);
        pieces.push(Piece::Held { name: bare.unwrap_or(name), encoded: bare.is_some() });
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Plain(rest));
    }
    pieces
}

/// The first placeholder, and what stands before and after it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("${")?;
        let inside = text.get(start + 2..)?;
        let length = inside.find('}')?;
        let name = inside.get(..length)?;
        if KINDS.iter().any(|kind| name.starts_with(kind)) {
            return Some((text.get(..start)?, name, inside.get(length + 1..)?));
        }
        from = start + 2;
    }
}

/// The text with what is known put in place of placeholders; none if one is not known.
pub(crate) fn filled(text: &str, known: &BTreeMap<String, String>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Held { name, encoded } => {
                let value = known.get(name)?;
                if encoded {
                    out.push_str(&URL_SAFE_NO_PAD.encode(value));
                } else {
                    out.push_str(value);
                }
            }
        }
    }
    Some(out)
}

/// A placeholder as it is written.
pub(crate) fn written(name: &str) -> String {
    format!("${{{name}}}")
}

/// The same, for a value in base64.
pub(crate) fn written_encoded(name: &str) -> String {
    format!("${{{name}{ENCODED}}}")
}

/// What the n-th of a kind is called: `key`, `key-2`, `key-3`.
pub(crate) fn numbered(kind: &str, number: usize) -> String {
    if number <= 1 { kind.to_owned() } else { format!("{kind}-{number}") }
}

/// A credential that the client brought.
pub(crate) const KEY: &str = "key";
/// A credential that the server gave.
pub(crate) const TOKEN: &str = "token";
/// Host and port of the server.
pub(crate) const SERVER: &str = "server";
const KINDS: [&str; 3] = [KEY, TOKEN, SERVER];
const ENCODED: &str = ":base64url";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_falls_into_pieces() {
        assert_eq!(
            pieces("Bearer ${key-2}, ${x} ${token:base64url}"),
            [
                Piece::Plain("Bearer "),
                Piece::Held { name: "key-2", encoded: false },
                Piece::Plain(", ${x} "),
                Piece::Held { name: "token", encoded: true },
            ]
        );
        assert_eq!(pieces("no ${key"), [Piece::Plain("no ${key")]);
    }

    #[test]
    fn what_is_known_is_filled_in() {
        let known = BTreeMap::from([("key".to_owned(), "secret".to_owned())]);
        assert_eq!(filled("a.${key:base64url}/${key}", &known).unwrap(), "a.c2VjcmV0/secret");
        assert_eq!(filled("${key-2}", &known), None);
    }
}
