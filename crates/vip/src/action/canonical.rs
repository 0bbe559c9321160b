//! One way to write every JSON value (RFC 8785), and the digest of it.

use std::fmt::Write as _;

use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};
use switchboard_core::hex;

/// The SHA-256 of the canonical form, in lower-case hexadecimal digits.
pub fn digest(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    hex(&Sha256::digest(text))
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(number, text),
        Value::String(string) => write_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_value(item, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (place, (key, value)) in members.into_iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_string(key, text);
                text.push(':');
                write_value(value, text);
            }
            text.push('}');
        }
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Every number is a double there, and written as ECMAScript prints it.
fn write_number(number: &Number, text: &mut String) {
    let number = number.as_f64().unwrap_or_default();
    if number == 0.0 {
        return text.push('0');
    }
    if number < 0.0 {
        text.push('-');
    }
    // The shortest digits that lead back to the number: `d.ddde±x`.
    let shortest = format!("{:e}", number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The place of the decimal point among the digits.
    let point = exponent + 1;
    let split = usize::try_from(point).unwrap_or_default();
    if length <= point && point <= 21 {
        text.push_str(&digits);
        text.extend(std::iter::repeat_n('0', split - digits.len()));
    } else if 0 < point && point <= 21 {
        text.push_str(&digits[..split]);
        text.push('.');
        text.push_str(&digits[split..]);
    } else if -6 < point && point <= 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', usize::try_from(-point).unwrap_or_default()));
        text.push_str(&digits);
    } else {
        text.push_str(&digits[..1]);
        if length > 1 {
            text.push('.');
            text.push_str(&digits[1..]);
        }
        let _ = write!(text, "e{}{}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn canonical(value: &Value) -> String {
        let mut text = String::new();
        write_value(value, &mut text);
        text
    }

    #[test]
    fn numbers_are_printed_as_ecmascript_prints_them() {
        // From the samples of RFC 8785, appendix B, and the borders between the four ways to print.
        for (bits, text) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        ] {
            assert_eq!(canonical(&json!(f64::from_bits(bits))), text);
        }
        for (value, text) in [
            (json!(1), "1"),
            (json!(-120), "-120"),
            (json!(1.0), "1"),
            (json!(4.50), "4.5"),
            (json!(u64::MAX), "18446744073709552000"),
            (json!(0.002), "0.002"),
            (json!(1e30), "1e+30"),
        ] {
            assert_eq!(canonical(&value), text);
        }
    }

    #[test]
    fn strings_and_members_are_written_in_one_way() {
        let value: Value = serde_json::from_str(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
        )
        .unwrap();
        assert_eq!(
            canonical(&value),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        let sorted: Value = serde_json::from_str(
            r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
        )
        .unwrap();
        let order = ["Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let text = canonical(&sorted);
        let places: Vec<Option<usize>> = order.iter().map(|word| text.find(word)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    }

    #[test]
    fn the_digest_does_not_depend_on_the_order_of_members() {
        let digest_of = |text: &str| digest(&serde_json::from_str(text).unwrap());
        assert_eq!(
            digest_of(r#"{"element_id":"btn-cancel","order_id":"A-17"}"#),
            "6d90c92799de43597e37ae862fca81b6762de8fb516b460e66565081a44bcde7"
        );
        assert_eq!(digest_of(r#"{"a":1,"b":[2.0]}"#), digest_of(r#"{"b":[2],"a":1.0}"#));
        assert_ne!(digest_of(r#"{"a":1}"#), digest_of(r#"{"a":"1"}"#));
    }
}
