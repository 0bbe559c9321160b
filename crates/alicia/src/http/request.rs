//! What a request asks for: path, query, headers and body.

use serde_json::{Map, Value};
use switchboard_core::{Method, OpeningRequest, json};

use crate::id::Id;

use super::Problem;

/// The head of a request.
#[derive(Debug)]
pub(super) struct Request(pub(super) OpeningRequest);

impl Request {
    /// The route that it came to.
    pub(super) fn path(&self) -> &'static str {
        self.0.path
    }

    pub(super) fn method(&self) -> Method {
        self.0.method
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The segment of its path that the route leaves open.
    pub(super) fn named(&self) -> Option<Id> {
        let open = self.0.path.split('/').position(|segment| segment == "{id}")?;
        let segment = self.0.target.split('/').nth(open)?;
        Id::conversation(decoded(segment)?).ok()
    }

    /// The value of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.0.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut values = pairs.filter(|(key, _)| decoded(key).as_deref() == Some(name));
        values.next().and_then(|(_, value)| decoded(&value.replace('+', " ")))
    }

    /// The whole number of a parameter.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(value) = self.parameter(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| Problem::malformed(format!("{name} must be a whole number")))
    }

    /// How many items a page may have.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        match self.number("limit")? {
            None => Ok(MOST_ITEMS),
            Some(limit) => match usize::try_from(limit) {
                Ok(limit @ 1..) => Ok(limit.min(MOST_ITEMS)),
                Ok(_) | Err(_) => Err(Problem::malformed("limit must be at least 1")),
            },
        }
    }
}

/// A body that is a JSON object; nothing at all is an empty one.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    match json::from_slice(body) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) | Err(_) => Err(Problem::malformed("the body must be a JSON object")),
    }
}

/// The text of a member; null counts as absent.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Result<Option<String>, Problem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Problem::malformed(format!("{key} must be text"))),
    }
}

/// The flag in a member; null counts as absent.
pub(super) fn flag(object: &Map<String, Value>, key: &str) -> Result<Option<bool>, Problem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Problem::malformed(format!("{key} must be true or false"))),
    }
}

/// The id in a member; null and nothing count as absent.
pub(super) fn id(object: &Map<String, Value>, key: &str) -> Result<Option<Id>, Problem> {
    match text(object, key)?.filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => Id::new(text).map(Some).map_err(|_| Problem::malformed(format!("{key} is no id"))),
    }
}

/// Text without its percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let (digits, behind) = behind.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

/// Most items of one page.
pub(super) const MOST_ITEMS: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_taken_off() {
        assert_eq!(decoded("am_%2B%2f-x").as_deref(), Some("am_+/-x"));
        assert_eq!(decoded("%C3%A9").as_deref(), Some("é"));
        for text in ["%", "%2", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }

    #[test]
    fn parameters_are_found_by_name() {
        let request = |query: &str| Request(OpeningRequest { query: query.into(), ..Default::default() });
        let page = request("a=1&limit=20&after=&l%69mit=30");
        assert_eq!(page.limit().unwrap(), 20);
        assert_eq!(page.parameter("after").as_deref(), Some(""));
        assert_eq!(page.parameter("before"), None);
        assert_eq!(request("limit=100000").limit().unwrap(), MOST_ITEMS);
        for query in ["limit=0", "limit=-1", "limit=x", "limit="] {
            assert!(request(query).limit().is_err(), "{query}");
        }
    }

    #[test]
    fn the_open_segment_of_a_path_is_found() {
        let request = |target: &str| {
            let path = crate::protocol::SYNC_STATUS;
            Request(OpeningRequest { path, target: target.into(), ..Default::default() }).named()
        };
        let named = request("/api/v1/conversations/conv_ac_1/sync/status").unwrap();
        assert_eq!(named.as_str(), "ac_1", "the name of a room stands for its conversation");
        assert_eq!(request("/api/v1/conversations/%20/sync/status"), None);
    }
}
