//! From bytes to envelopes, by the codec that the server uses.

use switchboard_alicia::value::decode_msgpack;
use switchboard_alicia::{
    AliciaLimits, Body, Code, DecodeError, Decoded, Dialect, LiteType, Map, MessageType, Severity, Side,
    StanzaForm, Value, decode, encode, encode_lite,
};

use crate::inspect::Profile;
use crate::inspect::capture::Item;

/// Reads the messages of one connection.
#[derive(Debug)]
pub(super) struct Inspector {
    dialect: Dialect,
    limits: AliciaLimits,
}

impl Inspector {
    pub(super) fn new(profile: Option<Profile>) -> Self {
        Self { dialect: profile.map_or(Dialect::Undecided, dialect), limits: AliciaLimits::default() }
    }

    /// The envelopes of one message, and who sent it if that is known or can be told.
    pub(super) fn message(&mut self, item: &Item, from: Option<Side>) -> (Option<Side>, Vec<Report>) {
        let spoken = item.profile.map_or(self.dialect, dialect);
        let read = |side| decode(&item.bytes, side, spoken, &self.limits);
        let (from, results) = match from {
            Some(side) => (Some(side), read(side)),
            None => either(read(Side::Client), read(Side::Server)),
        };
        if self.dialect == Dialect::Undecided
            && let Some(decided) = results.iter().find_map(told_apart)
        {
            self.dialect = decided;
        }
        let (values, many) = match decode_msgpack(&item.bytes) {
            Ok(Value::Array(values)) if values.len() == results.len() => (values, true),
            Ok(value) => (vec![value], false),
            Err(_) => (Vec::new(), false),
        };
        let mut values = values.into_iter();
        let reports = results.into_iter().enumerate().map(|(place, result)| {
            Report::new(many.then_some(place), values.next(), result, (!many).then_some(&*item.bytes))
        });
        (from, reports.collect())
    }
}

/// One envelope, or what was meant to be one.
#[derive(Debug)]
pub(super) struct Report {
    /// Its place in an array of several.
    pub(super) place: Option<usize>,
    /// Whether it is of the lite profile, as far as it could be told apart.
    pub(super) lite: Option<bool>,
    /// Its stanza id, as it is read.
    pub(super) stanza: i32,
    /// How the stanza id came, if the envelope could be read.
    pub(super) form: Option<StanzaForm>,
    /// Number and name of its type.
    pub(super) number: Option<u16>,
    pub(super) name: Option<&'static str>,
    pub(super) conversation: Option<String>,
    /// What it says of an error, if it is one.
    pub(super) error: Option<Code>,
    /// Its top level as it came, in the order of the wire.
    pub(super) value: Option<Value>,
    /// Whether its bytes are those that we would write; unknown for what cannot be read and in arrays.
    pub(super) canonical: Option<bool>,
    /// What is wrong with it.
    pub(super) problem: Option<Problem>,
}

/// What is wrong with an envelope.
#[derive(Debug)]
pub(super) struct Problem {
    /// Why.
    pub(super) reason: String,
    /// How a server answers.
    pub(super) code: Code,
    /// How a server closes the connection, if it has to.
    pub(super) close: Option<u16>,
}

impl Report {
    fn new(
        place: Option<usize>,
        value: Option<Value>,
        result: Result<Decoded, DecodeError>,
        bytes: Option<&[u8]>,
    ) -> Self {
        match result {
            Ok(Decoded::Full { envelope, stanza }) => Self {
                place,
                lite: Some(false),
                stanza: envelope.stanza_id,
                form: Some(stanza),
                number: Some(envelope.body.number()),
                name: envelope.body.kind().map(MessageType::name),
                conversation: envelope.conversation_id.as_ref().map(ToString::to_string),
                error: if let Body::ErrorMessage(error) = &envelope.body {
                    Code::from_number(error.code)
                } else {
                    None
                },
                value,
                canonical: bytes.map(|bytes| encode(&envelope) == bytes),
                problem: None,
            },
            Ok(Decoded::Lite(envelope)) => Self {
                place,
                lite: Some(true),
                stanza: 0,
                form: None,
                number: Some(envelope.body.number()),
                name: envelope.body.kind().map(LiteType::name),
                conversation: envelope.conversation_id.as_ref().map(ToString::to_string),
                error: None,
                value,
                canonical: bytes.map(|bytes| encode_lite(&envelope) == bytes),
                problem: None,
            },
            Err(error) => {
                let problem = Problem {
                    reason: error.to_string(),
                    code: error.code(),
                    close: error.close().map(|close| close.code),
                };
                let origin = error.origin;
                let name = |number| match origin.lite {
                    Some(true) => LiteType::from_number(number).map(LiteType::name),
                    Some(false) | None => MessageType::from_number(number).map(MessageType::name),
                };
                Self {
                    place,
                    lite: origin.lite,
                    stanza: origin.stanza_id,
                    form: None,
                    number: origin.number,
                    name: origin.number.and_then(name),
                    conversation: origin.conversation_id.as_ref().map(ToString::to_string),
                    error: None,
                    value,
                    canonical: None,
                    problem: Some(problem),
                }
            }
        }
    }

    /// A member of its top level.
    pub(super) fn member(&self, key: &str) -> Option<&Value> {
        self.value.as_ref().and_then(Value::as_map).and_then(|map| map.get(key))
    }

    /// What stands beside the body: `meta`, or what the lite profile has instead.
    pub(super) fn aside(&self) -> Map {
        let shown = ["stanzaId", "conversationId", "type", "body"];
        let members = self.value.as_ref().and_then(Value::as_map).into_iter().flat_map(Map::iter);
        members
            .filter(|(key, _)| !shown.contains(key))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect()
    }
}

/// How bad an error is, in a word.
pub(super) fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Critical => "critical",
    }
}

/// Who sent a message that both sides could have sent, or that only one of them could.
fn either(client: Results, server: Results) -> (Option<Side>, Results) {
    let valid = |results: &Results| results.iter().filter(|result| result.is_ok()).count();
    let stanzas = server.iter().filter_map(|result| match result {
        Ok(Decoded::Full { envelope, .. }) => Some(envelope.stanza_id),
        Ok(Decoded::Lite(_)) => None,
        Err(error) => Some(error.origin.stanza_id),
    });
    let sign = stanzas.map(i32::signum).find(|sign| *sign != 0).unwrap_or(0);
    match valid(&client).cmp(&valid(&server)) {
        std::cmp::Ordering::Greater => (Some(Side::Client), client),
        std::cmp::Ordering::Less => (Some(Side::Server), server),
        std::cmp::Ordering::Equal if sign > 0 => (Some(Side::Client), client),
        std::cmp::Ordering::Equal if sign < 0 => (Some(Side::Server), server),
        std::cmp::Ordering::Equal => (None, client),
    }
}

type Results = Vec<Result<Decoded, DecodeError>>;

/// The profile that an envelope shows.
fn told_apart(result: &Result<Decoded, DecodeError>) -> Option<Dialect> {
    match result {
        Ok(decoded) => Some(decoded.dialect()),
        Err(error) => error.origin.lite.map(|lite| if lite { Dialect::Lite } else { Dialect::Full }),
    }
}

fn dialect(profile: Profile) -> Dialect {
    match profile {
        Profile::Full => Dialect::Full,
        Profile::Lite => Dialect::Lite,
    }
}
