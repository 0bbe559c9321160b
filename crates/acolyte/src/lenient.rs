//! JSON that holds what no value of ours can, where nobody looks at it: more levels than a reader follows, and
//! numbers beyond a double. Both are read as null. Texts without them are read in one go.

use serde::de::IgnoredAny;
use serde_json::Value;
use switchboard_core::json;

/// Reads a value.
///
/// # Errors
/// It is not JSON.
pub(crate) fn read(text: &[u8]) -> serde_json::Result<Value> {
    json::read(text, |text| {
        serde_json::from_slice(text).or_else(|error| match loosened(text) {
            Some(text) => serde_json::from_slice(&text),
            None => Err(error),
        })
    })
}

/// The text with null in place of whatever is too deep or too large; none if it is no JSON.
fn loosened(text: &[u8]) -> Option<Vec<u8>> {
    // Without values, nesting is followed to any depth and numbers may be of any size; and what is left out below is
    // known to be well-formed.
    serde_json::from_slice::<IgnoredAny>(text).ok()?;
    let mut loosened = Vec::with_capacity(text.len());
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some(byte) = rest.first() {
        let length = match byte {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => number_length(rest),
            _ => 1,
        };
        let (token, behind) = rest.split_at_checked(length)?;
        rest = behind;
        let closes = matches!(byte, b'}' | b']');
        if matches!(byte, b'{' | b'[') {
            depth += 1;
            if depth == MAX_DEPTH + 1 {
                loosened.extend_from_slice(b"null");
            }
        }
        // What is closed was opened too deep to be written.
        let shown = depth <= MAX_DEPTH;
        depth -= usize::from(closes && depth > 0);
        if shown {
            loosened.extend_from_slice(if is_too_large(token) { b"null" } else { token });
        }
    }
    Some(loosened)
}

/// Bytes of a string, its quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn number_length(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')).count()
}

/// Whether this is a number beyond a double.
fn is_too_large(token: &[u8]) -> bool {
    let number = matches!(token, [b'-' | b'0'..=b'9', ..]).then(|| std::str::from_utf8(token).ok()).flatten();
    number.and_then(|number| number.parse::<f64>().ok()).is_some_and(f64::is_infinite)
}

/// Levels that are followed: fewer than the reader's own 128.
const MAX_DEPTH: usize = 100;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_too_large_or_too_deep_is_null() {
        for (text, expected) in [
            (
                r#"{"a":1e999,"b":[-1e999,1e9,"1e999\"[[",2]}"#,
                json!({"a": null, "b": [null, 1e9, "1e999\"[[", 2]}),
            ),
            (r#"["\ud83d",1e999]"#, json!(["\u{fffd}", null])),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap(), expected, "{text}");
        }
        for levels in [100, 101, 5_000, 100_000] {
            let text = format!(r#"[{}{}, 7]"#, r#"{"a":["#.repeat(levels / 2), "]}".repeat(levels / 2));
            let value = read(text.as_bytes()).unwrap();
            assert_eq!(value[1], 7, "{levels}");
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        let deep = format!("{}oops{}", "[".repeat(200), "]".repeat(200));
        for text in ["", "{", "1e999 2", "[1e999,]", r#"{"a":1e999"#, deep.as_str()] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
