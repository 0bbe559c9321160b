//! What came back against what was recorded, and the difference in words.

use serde_json::Value;

use super::variables::Variables;
use crate::console::{Palette, one_line};
use crate::recording::secrets::is_secret;

/// Something that is not as recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Difference {
    /// Where: the connection, the line of the recording, what kind of message.
    pub(super) place: Place,
    /// What.
    pub(super) kind: Odd,
}

/// Where a difference is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The connection.
    pub(super) on: u32,
    /// The line of the recording, of something that was recorded.
    pub(super) line: Option<usize>,
    /// What kind of message it is.
    pub(super) label: String,
}

/// How something differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Odd {
    /// Members that differ: path, recorded, now.
    Members(Vec<Member>),
    /// It was recorded, and did not come.
    Missing(Value),
    /// It came, and was not recorded.
    New(Value),
}

/// One member that differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    /// Where in the message.
    pub(super) path: String,
    /// What was recorded; none if there was nothing.
    pub(super) recorded: Option<Value>,
    /// What came; none if there was nothing.
    pub(super) now: Option<Value>,
}

/// Compares two trees; binds what is new.
pub(super) fn compare(variables: &mut Variables, recorded: &Value, now: &Value) -> Vec<Member> {
    let mut members = Vec::new();
    walk(variables, "", "", recorded, now, &mut members);
    members
}

/// Compares two states in which nothing may differ. What a newer version remembers besides, and is empty,
/// is no difference.
pub(super) fn exactly(recorded: &Value, now: &Value) -> Vec<Member> {
    let mut members = Vec::new();
    difference(recorded, now, "", &mut members);
    members
}

fn difference(recorded: &Value, now: &Value, path: &str, members: &mut Vec<Member>) {
    match (recorded, now) {
        _ if recorded == now || members.len() >= MAX_MEMBERS => {}
        (Value::Object(theirs), Value::Object(ours)) => {
            let names = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
            for name in names {
                match (theirs.get(name), ours.get(name)) {
                    (Some(recorded), Some(now)) => difference(recorded, now, &join(path, name), members),
                    (None, Some(now)) if is_empty(now) => {}
                    (recorded, now) => members.push(Member {
                        path: join(path, name),
                        recorded: recorded.cloned(),
                        now: now.cloned(),
                    }),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (index, (recorded, now)) in theirs.iter().zip(ours).enumerate() {
                difference(recorded, now, &format!("{path}[{index}]"), members);
            }
        }
        _ => members.push(Member {
            path: path.to_owned(),
            recorded: Some(recorded.clone()),
            now: Some(now.clone()),
        }),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn walk(
    variables: &mut Variables,
    path: &str,
    key: &str,
    recorded: &Value,
    now: &Value,
    members: &mut Vec<Member>,
) {
    if members.len() >= MAX_MEMBERS {
        return;
    }
    let mut differ = |path: &str, recorded: Option<&Value>, now: Option<&Value>| {
        let path = if path.is_empty() { "(all)".to_owned() } else { path.to_owned() };
        let hidden = is_secret(key).then(|| Value::from("(hidden)"));
        let (recorded, now) = (hidden.as_ref().or(recorded), hidden.as_ref().or(now));
        members.push(Member { path, recorded: recorded.cloned(), now: now.cloned() });
    };
    match (recorded, now) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (name, value) in theirs {
                let path = join(path, name);
                match ours.get(name) {
                    Some(now) => walk(variables, &path, name, value, now, members),
                    None => members.push(Member { path, recorded: Some(value.clone()), now: None }),
                }
            }
            for (name, value) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
                members.push(Member { path: join(path, name), recorded: None, now: Some(value.clone()) });
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (index, (recorded, now)) in theirs.iter().zip(ours).enumerate() {
                walk(variables, &format!("{path}[{index}]"), key, recorded, now, members);
            }
        }
        (Value::String(recorded_text), Value::String(now_text)) => {
            if !variables.text(key, recorded_text, now_text) {
                differ(path, Some(recorded), Some(now));
            }
        }
        (Value::Number(_), Value::Number(_)) => {
            if !Variables::number(key, recorded, now) {
                differ(path, Some(recorded), Some(now));
            }
        }
        _ if recorded == now => {}
        _ => differ(path, Some(recorded), Some(now)),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// All differences, as a person reads them.
pub(super) fn text(differences: &[Difference], palette: Palette) -> String {
    let Palette { bold, dim, red, green, reset, .. } = palette;
    let mut text = String::new();
    for Difference { place, kind } in differences.iter().take(SHOWN) {
        let Place { on, line, label } = place;
        let line = line.map(|line| format!(", line {line}")).unwrap_or_default();
        let place = match on {
            0 => format!("{bold}{}{reset}{dim}{line}{reset}", one_line(label, WIDTH)),
            _ => format!("{bold}connection {on}, {}{reset}{dim}{line}{reset}", one_line(label, WIDTH)),
        };
        text += &match kind {
            Odd::Missing(value) => format!("{place}: did not come\n  {red}- {}{reset}\n", shown(value)),
            Odd::New(value) => format!("{place}: was not recorded\n  {green}+ {}{reset}\n", shown(value)),
            Odd::Members(members) => {
                let mut text = format!("{place}: differs\n");
                for Member { path, recorded, now } in members {
                    let value =
                        |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), shown);
                    text += &format!("  {}\n", one_line(path, WIDTH));
                    text += &format!("    {red}- {}{reset}\n", value(recorded));
                    text += &format!("    {green}+ {}{reset}\n", value(now));
                }
                text
            }
        };
    }
    if differences.len() > SHOWN {
        text += &format!("{dim}… and {} more{reset}\n", differences.len() - SHOWN);
    }
    text
}

/// A value on one line; a credential is nobody's business.
fn shown(value: &Value) -> String {
    one_line(&veiled(value).to_string(), WIDTH)
}

fn veiled(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let veil = |(name, member): (&String, &Value)| {
                let hidden = is_secret(name) && member.is_string();
                (name.clone(), if hidden { Value::from("(hidden)") } else { veiled(member) })
            };
            Value::Object(members.iter().map(veil).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(veiled).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

const SHOWN: usize = 20;
const MAX_MEMBERS: usize = 20;
const WIDTH: usize = 160;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_must_not_differ_is_a_difference() {
        let mut variables = Variables::default();
        let recorded =
            json!({"id": "rpc_aaaa1111", "text": "Hello", "n": 1, "at": 1_794_738_008, "old": true});
        let now = json!({"id": "rpc_bbbb2222", "text": "Hallo", "n": 1, "at": 1_794_738_999, "new": [1]});
        let members = compare(&mut variables, &recorded, &now);
        let paths: Vec<&str> = members.iter().map(|member| member.path.as_str()).collect();
        assert_eq!(paths, ["text", "old", "new"]);
        assert!(
            compare(&mut variables, &recorded, &recorded.clone()).iter().any(|member| member.path == "id")
        );
    }

    #[test]
    fn a_state_may_have_room_for_more_but_not_more_in_it() {
        let recorded = json!({"name": "tea", "turns": {"t": {"n": 1}}});
        assert_eq!(exactly(&recorded, &json!({"name": "tea", "turns": {"t": {"n": 1}}, "new": []})), []);
        let members = exactly(&recorded, &json!({"name": "tea", "turns": {"t": {"n": 2}}, "new": [1]}));
        let paths: Vec<&str> = members.iter().map(|member| member.path.as_str()).collect();
        assert_eq!(paths, ["turns.t.n", "new"]);
    }

    #[test]
    fn a_difference_says_where_it_is() {
        let members =
            compare(&mut Variables::default(), &json!({"a": [{"b": 1}]}), &json!({"a": [{"b": 2}]}));
        let place = Place { on: 2, line: Some(7), label: "STREAM".to_owned() };
        let text = text(&[Difference { place, kind: Odd::Members(members) }], Palette::PLAIN);
        assert_eq!(text, "connection 2, STREAM, line 7: differs\n  a[0].b\n    - 1\n    + 2\n");
    }
}
