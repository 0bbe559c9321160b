//! An answer in octets: text as long as it is UTF-8, and bytes from the first piece on that is not.

use bytes::Bytes;
use serde_json::Value as Json;
use switchboard_asp::Value;
use switchboard_core::model::Output;

/// What is known of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Octets {
    /// The beginning of a character whose rest has not come.
    begun: Vec<u8>,
    binary: bool,
}

impl Octets {
    /// What a piece adds to the answer.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Vec<Output> {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        if self.binary {
            return vec![data(bytes)];
        }
        let whole = match std::str::from_utf8(&bytes) {
            Ok(_) => bytes.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => {
                self.binary = true;
                return vec![data(bytes)];
            }
        };
        self.begun = bytes.split_off(whole);
        String::from_utf8(bytes).ok().filter(|text| !text.is_empty()).map(Output::Text).into_iter().collect()
    }

    /// What is left where the answer ends: a character that was broken off.
    pub(super) fn rest(&mut self) -> Option<Output> {
        let begun = std::mem::take(&mut self.begun);
        (!begun.is_empty()).then(|| data(begun))
    }
}

fn data(bytes: Vec<u8>) -> Output {
    let value = Json::from(Value::Bin(Bytes::from(bytes)));
    Output::Data { mime: Some("application/octet-stream".into()), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(pieces: &[&[u8]]) -> Vec<Output> {
        let mut octets = Octets::default();
        let mut outputs: Vec<Output> = pieces.iter().flat_map(|piece| octets.feed(piece)).collect();
        outputs.extend(octets.rest());
        outputs
    }

    #[test]
    fn asp_090_octets_are_text_where_they_are_utf_8() {
        let text = "Z\u{fc}rich \u{1f43b}";
        let joined = |outputs: Vec<Output>| -> String {
            let texts = outputs.into_iter().map(|output| {
                let Output::Text(text) = output else { panic!("{output:?}") };
                text
            });
            texts.collect()
        };
        for size in 1..=text.len() {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(joined(fed(&pieces)), text, "{size}");
        }
        assert_eq!(fed(&[]), []);
    }

    #[test]
    fn asp_090_what_is_no_utf_8_is_bytes_from_there_on() {
        assert_eq!(fed(&[b"\x89PNG", b"abc"]), [data(b"\x89PNG".to_vec()), data(b"abc".to_vec())]);
        assert_eq!(fed(&[b"ab", b"\xffc"]), [Output::Text("ab".into()), data(b"\xffc".to_vec())]);
        assert_eq!(fed(&[b"ab\xc3"]), [Output::Text("ab".into()), data(b"\xc3".to_vec())], "broken off");
        assert_eq!(fed(&[b"\xc3", b"("]), [data(b"\xc3(".to_vec())]);
    }
}
