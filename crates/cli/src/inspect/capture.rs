//! What a capture looks like: hex digits, base64, bytes, or JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use switchboard_asp::message::Direction;
use switchboard_asp::value::decode_json;
use switchboard_asp::{Features, Map, Value};

use super::{Profile, Spoken, features_named, text};

/// One WebSocket message of a capture.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// What the capture calls it.
    pub(super) label: Option<String>,
    /// The message.
    pub(super) bytes: Bytes,
    /// Which way it travelled, if the capture says so.
    pub(super) direction: Option<Direction>,
    /// What is spoken, if the capture says so.
    pub(super) spoken: Option<Spoken>,
    /// What was agreed, if the capture says so.
    pub(super) features: Option<Features>,
    /// The profile of an envelope, if the capture says so.
    pub(super) profile: Option<Profile>,
}

impl Item {
    /// A message that nothing is known about.
    pub(super) fn message(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { label: None, bytes, direction: None, spoken: None, features: None, profile: None }
    }

    /// What its bytes look like: envelopes are maps or lists, and no frame of ASP begins like one.
    pub(super) fn looks_like(&self) -> Option<Spoken> {
        self.bytes.first().map(|first| match first {
            0x80..=0x9F | 0xC0 | 0xDC..=0xDF => Spoken::Alicia,
            _ => Spoken::Asp,
        })
    }
}

/// Reads a capture of whatever form it has.
pub(super) fn guess(bytes: &[u8]) -> Result<Vec<Item>, String> {
    if is_hex(bytes) {
        return hex(bytes);
    }
    match bytes.trim_ascii_start().first() {
        Some(b'{' | b'[') => json(bytes),
        _ => Ok(vec![Item::message(bytes.to_vec())]),
    }
}

/// Whether this is hex text; frames never are, since their first byte is no printable character.
pub(super) fn is_hex(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut lines = text.lines().map(|line| Line::read(line).digits);
    let digits = |line: &str| line.chars().all(|c| c.is_ascii_hexdigit() || c.is_whitespace());
    text.bytes().any(|byte| byte.is_ascii_hexdigit()) && lines.all(digits)
}

/// Reads hex text.
pub(super) fn hex(bytes: &[u8]) -> Result<Vec<Item>, String> {
    lines(bytes, unhex)
}

/// Reads base64 text.
pub(super) fn base64(bytes: &[u8]) -> Result<Vec<Item>, String> {
    lines(bytes, unbase64)
}

fn lines(bytes: &[u8], read: Unwritten) -> Result<Vec<Item>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "this is no text: it is not UTF-8".to_owned())?;
    let mut items: Vec<Item> = Vec::new();
    let mut digits = String::new();
    let mut direction = None;
    let mut finish = |digits: &mut String, direction: Option<Direction>| -> Result<(), String> {
        if !digits.is_empty() {
            items.push(Item { direction, ..Item::message(read(&std::mem::take(digits))?) });
        }
        Ok(())
    };
    for line in text.lines().map(Line::read) {
        if line.is_empty || line.direction.is_some() {
            finish(&mut digits, direction)?;
            direction = line.direction;
        }
        digits.extend(line.digits.chars().filter(|character| !character.is_whitespace()));
    }
    finish(&mut digits, direction)?;
    Ok(items)
}

/// How text is turned into bytes.
type Unwritten = fn(&str) -> Result<Bytes, String>;

/// One line of hex or base64 text.
struct Line<'a> {
    digits: &'a str,
    direction: Option<Direction>,
    is_empty: bool,
}

impl<'a> Line<'a> {
    fn read(line: &'a str) -> Self {
        let is_empty = line.trim().is_empty();
        let line = line.split('#').next().unwrap_or_default().trim();
        let (digits, direction) = match (line.strip_prefix("C>"), line.strip_prefix("S<")) {
            (Some(rest), _) => (rest, Some(Direction::ToServer)),
            (None, Some(rest)) => (rest, Some(Direction::ToClient)),
            (None, None) => (line, None),
        };
        let digits = digits.trim();
        Self { digits: digits.strip_prefix("0x").unwrap_or(digits), direction, is_empty }
    }
}

/// Reads one object, a list of objects, or one object per line.
fn json(bytes: &[u8]) -> Result<Vec<Item>, String> {
    match decode_json(bytes) {
        Ok(Value::Array(objects)) => collect(objects.into_iter().map(Ok)),
        Ok(object) => collect([Ok(object)]),
        Err(whole) => {
            let lines = bytes.split(|byte| *byte == b'\n').enumerate();
            let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
            collect(lines.map(|(index, line)| {
                decode_json(line.trim_ascii()).map_err(|error| {
                    format!("this is no JSON: {whole}, and line {} by itself: {error}", index + 1)
                })
            }))
        }
    }
}

fn collect(objects: impl IntoIterator<Item = Result<Value, String>>) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    for (index, object) in objects.into_iter().enumerate() {
        let Value::Map(map) = object? else {
            return Err(format!("entry {} of the capture is no object", index + 1));
        };
        entry(&map, &mut items)
            .map_err(|problem| format!("entry {} of the capture: {problem}", index + 1))?;
    }
    Ok(items)
}

/// One entry may hold several messages, or none that travels over a socket.
fn entry(map: &Map, items: &mut Vec<Item>) -> Result<(), String> {
    let direction = match text(map.get("direction")) {
        Some("to_server") => Some(Direction::ToServer),
        Some("to_client") => Some(Direction::ToClient),
        Some(other) => return Err(format!("direction must be to_server or to_client, not {other}")),
        None => None,
    };
    let features = match map.get("features").and_then(Value::as_array) {
        Some(names) => Some(features_named(names.iter().filter_map(Value::as_str))?),
        None => None,
    };
    let spoken = match (text(map.get("protocol")), text(map.get("kind"))) {
        (Some("asp"), _) => Some(Spoken::Asp),
        (Some("alicia"), _) | (None, Some("envelope")) => Some(Spoken::Alicia),
        (Some(other), _) => return Err(format!("protocol must be asp or alicia, not {other}")),
        (None, _) => None,
    };
    let profile = match text(map.get("profile")) {
        Some("full") => Some(Profile::Full),
        Some("lite") => Some(Profile::Lite),
        Some(other) => return Err(format!("profile must be full or lite, not {other}")),
        None => None,
    };
    let label: Vec<&str> = [map.get("id"), map.get("name")].into_iter().filter_map(text).collect();
    let label = (!label.is_empty()).then(|| label.join(", "));
    let (written, read): (_, Unwritten) = match map.get("base64") {
        Some(written) => (Some(written), unbase64),
        None => (map.get("hex"), unhex),
    };
    let messages = match written {
        Some(Value::Str(digits)) => vec![read(digits)?],
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(read).collect::<Result<Vec<_>, _>>()?
        }
        // Some vectors are about headers and signatures.
        None if map.contains_key("kind") => Vec::new(),
        Some(_) | None => return Err("there is no hex and no base64: text, or a list of texts".to_owned()),
    };
    items.extend(messages.into_iter().map(|bytes| Item {
        label: label.clone(),
        bytes,
        direction,
        spoken,
        features,
        profile,
    }));
    Ok(())
}

fn unhex(digits: &str) -> Result<Bytes, String> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if let Some(wrong) = digits.iter().find(|byte| !byte.is_ascii_hexdigit()) {
        return Err(format!("{:?} is no hex digit", char::from(*wrong)));
    }
    if !digits.len().is_multiple_of(2) {
        return Err(format!("there are {} hex digits, an odd number: one is missing", digits.len()));
    }
    let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
    Ok(digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | value(*digit)))
        .collect())
}

fn unbase64(text: &str) -> Result<Bytes, String> {
    let text: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    STANDARD.decode(text).map(Bytes::from).map_err(|error| format!("this is no base64: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(capture: &[u8]) -> Vec<Vec<u8>> {
        guess(capture).unwrap().into_iter().map(|item| item.bytes.to_vec()).collect()
    }

    #[test]
    fn forms_are_recognised() {
        let hello = [0x11, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes(b"1100 0000\n00000000\n"), [hello]);
        assert_eq!(bytes(b"0x1100000000000000"), [hello]);
        assert_eq!(bytes(&hello), [hello]);
        assert_eq!(bytes(br#"{"hex":"1100000000000000"}"#), [hello]);
        let lines = b"{\"hex\":\"1100000000000000\"}\n\n{\"hex\":[\"11\",\"22\"]}\n";
        assert_eq!(bytes(lines), [hello.to_vec(), vec![0x11], vec![0x22]]);
        assert_eq!(bytes(b""), [Vec::<u8>::new()]);
    }

    #[test]
    fn empty_lines_and_arrows_separate_messages() {
        let text = b"# a comment\nC> 11 # another\n22\nS< 33\n\n44\n";
        let items = guess(text).unwrap();
        let seen: Vec<_> = items.iter().map(|item| (item.bytes.to_vec(), item.direction)).collect();
        let (to_server, to_client) = (Some(Direction::ToServer), Some(Direction::ToClient));
        assert_eq!(seen, [(vec![0x11, 0x22], to_server), (vec![0x33], to_client), (vec![0x44], None)]);
    }

    #[test]
    fn base64_is_read_as_hex_is() {
        let items = base64(b"C> EQ== # one\nIi\nIz\n\nMw==\n").unwrap_err();
        assert!(items.contains("base64"), "{items}");
        let items = base64(b"C> EQ== # one\nS< Ii\n Iz\n\nMw==\n").unwrap();
        let seen: Vec<_> = items.iter().map(|item| (item.bytes.to_vec(), item.direction)).collect();
        let (to_server, to_client) = (Some(Direction::ToServer), Some(Direction::ToClient));
        assert_eq!(seen, [(vec![0x11], to_server), (vec![0x22, 0x22, 0x33], to_client), (vec![0x33], None)]);
        assert_eq!(bytes(br#"{"base64":["EQ==","gA=="]}"#), [vec![0x11], vec![0x80]]);
    }

    #[test]
    fn envelopes_look_like_no_frame() {
        let spoken = |bytes: &'static [u8]| Item::message(bytes).looks_like();
        assert_eq!(spoken(&[0x84, 0xA8]), Some(Spoken::Alicia));
        assert_eq!(spoken(&[0xDE, 0, 4]), Some(Spoken::Alicia));
        assert_eq!(spoken(&[0x11, 0]), Some(Spoken::Asp));
        assert_eq!(spoken(&[]), None);
        let said = guess(br#"{"hex":"","kind":"envelope","profile":"lite"}"#).unwrap();
        assert_eq!((said[0].spoken, said[0].profile), (Some(Spoken::Alicia), Some(Profile::Lite)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(hex(b"123").unwrap_err().contains("odd"));
        assert!(hex(b"12 zz").unwrap_err().contains("'z'"));
        assert!(guess(b"{\"hex\":1}").unwrap_err().contains("hex"));
        assert!(guess(b"{\"hex\":\"11\",\"features\":[\"x\"]}").unwrap_err().contains("no feature x"));
        assert!(guess(b"{\"hex\":\"11\"}\n{nope").unwrap_err().contains("line 2"));
    }
}
