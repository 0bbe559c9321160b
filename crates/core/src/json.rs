//! JSON as clients written in JavaScript send it.
//!
//! Their strings are sequences of UTF-16 units. A text that was cut in the middle of a character ends with half a
//! surrogate pair, which `JSON.stringify` writes as an escape (`"\ud83d"`) that no Rust string can hold. Every
//! protocol reads such a half as U+FFFD. Texts without one are read in one go and cost nothing more.

use serde::de::DeserializeOwned;

/// Reads a value.
///
/// # Errors
/// It is not JSON, or not such a value.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    read(json, |json| serde_json::from_slice(json))
}

/// Reads a text in a way of one's own, and once more if it cannot be read and holds halves of surrogate pairs.
///
/// # Errors
/// That of `parse`.
pub fn read<T, E>(json: &[u8], mut parse: impl FnMut(&[u8]) -> Result<T, E>) -> Result<T, E> {
    parse(json).or_else(|error| match mended(json) {
        Some(mended) => parse(&mended),
        None => Err(error),
    })
}

/// [`read`] for whoever reads a `str`.
///
/// # Errors
/// That of `parse`.
pub fn read_str<T, E>(json: &str, mut parse: impl FnMut(&str) -> Result<T, E>) -> Result<T, E> {
    parse(json).or_else(|error| match mended(json.as_bytes()).map(String::from_utf8) {
        Some(Ok(mended)) => parse(&mended),
        Some(Err(_)) | None => Err(error),
    })
}

/// The text with U+FFFD in place of every half of a surrogate pair; none if there is no such half. The text need
/// not be valid JSON.
pub fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(escape) = next_escape(json, at) {
        at = match (unit(json, escape), unit(json, escape + UNIT)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 2 * UNIT,
            (Some(0xd800..=0xdfff), _) => {
                let text = mended.get_or_insert_with(|| json.to_vec());
                if let Some(half) = text.get_mut(escape..escape + UNIT) {
                    half.copy_from_slice(REPLACEMENT);
                }
                escape + UNIT
            }
            (Some(_), _) => escape + UNIT,
            // Another escape, of which `\\` could be taken for the beginning of one more.
            (None, _) => escape + 2,
        };
    }
    mended
}

fn next_escape(json: &[u8], from: usize) -> Option<usize> {
    json.get(from..)?.iter().position(|byte| *byte == b'\\').map(|found| from + found)
}

/// The UTF-16 unit that is escaped here.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + UNIT)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit: u16, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some((unit << 4) | u16::try_from(digit).ok()?)
    })
}

/// Bytes of an escaped unit.
const UNIT: usize = 6;
const REPLACEMENT: &[u8; UNIT] = b"\\ufffd";

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn text(json: &str) -> Option<String> {
        from_slice::<Value>(json.as_bytes()).ok()?.as_str().map(str::to_owned)
    }

    #[test]
    fn half_a_pair_is_read_as_a_replacement() {
        for (json, expected) in [
            (r#""hi \ud83dx""#, "hi \u{fffd}x"),
            (r#""\uD83D""#, "\u{fffd}"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\n\ude00""#, "\u{fffd}\n\u{fffd}"),
            (r#""\\\ud83d\\ud83d""#, "\\\u{fffd}\\ud83d"),
        ] {
            assert_eq!(text(json).as_deref(), Some(expected), "{json}");
        }
    }

    #[test]
    fn whole_pairs_and_what_only_looks_like_half_of_one_stay_as_they_are() {
        for json in [
            r#""\ud83d\ude00""#,
            r#""\\ud83d""#,
            r#""\ufffd\u0041""#,
            "\"😀\"",
            "{}",
            "",
            "\\",
            "\\u",
            "\\ud83",
        ] {
            assert_eq!(mended(json.as_bytes()), None, "{json}");
        }
        assert_eq!(text(r#""\ud83d\ude00""#).unwrap(), "😀");
    }

    #[test]
    fn keys_are_mended_too_and_what_is_no_json_stays_none() {
        let value: Value = from_slice(br#"{"a\ud800":["\udfff",1]}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a\u{fffd}": ["\u{fffd}", 1]}));
        for json in [r#""\ud83d"#, r#"{"a":"\ud83d",}"#, r#""\ud83g""#] {
            assert!(from_slice::<Value>(json.as_bytes()).is_err(), "{json}");
        }
        let read = read_str(r#"["\ud83d"]"#, |json| serde_json::from_str::<Vec<String>>(json)).unwrap();
        assert_eq!(read, ["\u{fffd}"]);
    }
}
