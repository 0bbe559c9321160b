//! What remains of an answer when everything is taken out that is different each time.

use serde_json::{Map, Value};

use crate::world::Names;

/// An answer without the names that were asked for, and without what is made up for each answer. Ids and times are
/// replaced by their kind, so that one who looks at two answers sees what another client could tell them apart by.
pub(crate) fn scrubbed(text: &str, names: &Names) -> String {
    let mut text = text.to_owned();
    for name in names.all() {
        text = text.replace(name, "NAME");
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => plain(value).to_string(),
        Err(_) => text,
    }
}

fn plain(value: Value) -> Value {
    match value {
        Value::Number(ref number) if number.as_f64().is_some_and(|number| number.abs() > 1e8) => {
            "TIME".into()
        }
        Value::String(ref text) if is_made_up(text) => "ID".into(),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(members) => {
            let keep = |(key, value): (String, Value)| {
                let lasts = key.ends_with("_ms") && value.is_number();
                let value = if lasts { "DURATION".into() } else { plain(value) };
                (key, value)
            };
            Value::Object(members.into_iter().map(keep).collect::<Map<String, Value>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Whether a text is an id, a token or a time: long, without spaces, and with digits or with letters of both cases.
fn is_made_up(text: &str) -> bool {
    let any = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    let mixed = any(u8::is_ascii_uppercase) && any(u8::is_ascii_lowercase);
    !text.contains(' ') && (text.len() >= 12 && any(u8::is_ascii_digit) || text.len() >= 20 && mixed)
}
