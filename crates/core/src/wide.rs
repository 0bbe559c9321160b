//! Integers that do not fit into 64 bits, for protocols whose peers have no such limit.
//!
//! The values of the model hold 64-bit integers and doubles. Before a text is read, a wider integer
//! is put into shelter: a string that begins with a mark nobody types. When the value is written
//! again, the mark is taken off, and the integer is what it was, digit by digit. Protocols that do
//! not know of it see a string.

use std::borrow::Cow;

/// Puts integers that do not fit into 64 bits into shelter. The text need not be valid JSON; what
/// is not stays so.
pub fn shelter(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    if !has_many_digits(bytes) {
        return Cow::Borrowed(json);
    }
    let mut sheltered = String::new();
    let (mut copied, mut at) = (0, 0);
    let mut in_string = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let end = at + number_length(&bytes[at..]);
                let number = &json[at..end];
                if is_wide(number) {
                    sheltered.push_str(&json[copied..at]);
                    sheltered.push('"');
                    sheltered.push_str(MARK);
                    sheltered.push_str(number);
                    sheltered.push('"');
                    copied = end;
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    sheltered.push_str(&json[copied..]);
    Cow::Owned(sheltered)
}

/// Takes sheltered integers out again.
pub fn restore(json: String) -> String {
    if !json.contains(MARK) {
        return json;
    }
    let quoted = format!("\"{MARK}");
    let mut restored = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some((before, after)) = rest.split_once(&quoted) {
        restored.push_str(before);
        match after.split_once('"') {
            // Only what was sheltered: anybody can write the mark.
            Some((number, behind)) if is_wide(number) => {
                restored.push_str(number);
                rest = behind;
            }
            _ => {
                restored.push_str(&quoted);
                rest = after;
            }
        }
    }
    restored.push_str(rest);
    restored
}

/// Whether there are as many digits in a row as the shortest wide integer has: most texts are seen to
/// hold none at little cost. So many in a row cannot lie between two places that are as far apart, so only those are
/// looked at, and what is around them where there is a digit.
fn has_many_digits(bytes: &[u8]) -> bool {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let mut at = SHORTEST - 1;
    while let Some((before, after)) = bytes.split_at_checked(at) {
        let Some((b'0'..=b'9', after)) = after.split_first() else {
            at += SHORTEST;
            continue;
        };
        let behind = after.iter().take_while(is_digit).count();
        if before.iter().rev().take_while(is_digit).count() + 1 + behind >= SHORTEST {
            return true;
        }
        at += behind + SHORTEST;
    }
    false
}

fn number_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')).count()
}

/// Whether this is an integer, as JSON writes it, that does not fit into 64 bits.
fn is_wide(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    digits.len() >= SHORTEST
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
}

/// A noncharacter, which no text is supposed to hold.
const MARK: &str = "\u{fdd0}int:";
/// Every integer of fewer digits fits.
const SHORTEST: usize = 19;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn round(json: &str) -> String {
        let value: Value = serde_json::from_str(&shelter(json)).unwrap();
        restore(serde_json::to_string(&value).unwrap())
    }

    #[test]
    fn integers_of_any_size_come_back_as_they_were() {
        for json in [
            r#"{"a":[123456789012345678901234567890,-123456789012345678901234567890]}"#,
            r#"[18446744073709551616,-9223372036854775809]"#,
            r#"[18446744073709551615,-9223372036854775808,9007199254740993,0,-1,1.5]"#,
            r#"{"text":"no 123456789012345678901234567890 here","b\"":123456789012345678901234567890}"#,
        ] {
            assert_eq!(round(json), json);
        }
    }

    #[test]
    fn no_place_hides_many_digits() {
        for (before, digits) in (0..60).flat_map(|before| (16..44).map(move |digits| (before, digits))) {
            let short = format!("{}x", "1".repeat(SHORTEST - 1)).repeat(2);
            for text in [
                format!("{}{}{}", "x".repeat(before), "7".repeat(digits), "x".repeat(before % 7)),
                format!("{}{short}{}", "x".repeat(before), "7".repeat(digits)),
            ] {
                assert_eq!(has_many_digits(text.as_bytes()), digits >= SHORTEST, "{text}");
            }
        }
        assert!(!has_many_digits(b""));
    }

    #[test]
    fn what_fits_is_left_alone() {
        for json in ["{}", "[1,2.5e300,-7]", r#""12345678901234567890123""#, "[1e400000000000000000000]"] {
            assert!(matches!(shelter(json), Cow::Borrowed(_)), "{json}");
        }
    }

    #[test]
    fn broken_text_stays_broken() {
        for json in [
            "",
            "\"",
            "\"\\",
            "123456789012345678901234567890",
            "[12345678901234567890123",
            "--",
            "0123456789012345678901234",
        ] {
            let sheltered = shelter(json).into_owned();
            assert_eq!(restore(sheltered), json);
        }
    }

    #[test]
    fn a_forged_mark_is_a_string_unless_it_is_what_would_be_sheltered() {
        let forged = format!("[\"{MARK}12\",\"{MARK}x\",\"{MARK}\"]");
        assert_eq!(restore(forged.clone()), forged);
        assert_eq!(restore(format!("\"{MARK}")), format!("\"{MARK}"));
    }
}
