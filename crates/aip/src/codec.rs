//! JSON in both directions (§3).
//!
//! A message that is written as usual is read in one go; any other by serde, straight into its
//! struct. Only when that fails is it looked at again: a key may have come twice with the first of them
//! unusable, and the refusal should name the field and carry the ids of what is refused.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Map, Value, json};
use switchboard_core::{Seed, Timestamp, wide};

use crate::message::{ClientMessage, Rest, ServerMessage, ToolType, Usual, Written};
pub use crate::refusal::DecodeError;
use crate::refusal::{complaint, kind, refused};

/// Writes what a server sends: every field, in the order of the reference, without blanks.
pub fn encode_server(message: &ServerMessage) -> String {
    written(message)
}

/// Writes what a client sends: every field, in the order of the reference, without blanks.
pub fn encode_client(message: &ClientMessage) -> String {
    written(message)
}

/// Reads what a client sent.
///
/// # Errors
/// It cannot be used; the connection may stay as it is.
pub fn decode_client(text: &str) -> Result<ClientMessage, DecodeError> {
    read(text)
}

/// Reads what a server sent.
///
/// # Errors
/// It cannot be used.
pub fn decode_server(text: &str) -> Result<ServerMessage, DecodeError> {
    read(text)
}

/// Writes a confirmation, by far the most frequent message, without a detour.
pub fn encode_confirmation(session_id: Option<&str>, timestamp: &str, response_id: &str) -> String {
    let mut text = String::with_capacity(CONFIRMATION);
    text.push_str(concat!(
        r#"{"type":"heartbeat","status":"ok","user_request":null,"agent_name":null,"process_name":null,"#,
        r#""root_name":null,"actions":null,"messages":null,"error":null,"session_id":"#
    ));
    match session_id {
        // A string can always be written.
        Some(session_id) => text.push_str(&serde_json::to_string(session_id).unwrap_or_default()),
        None => text.push_str("null"),
    }
    text.push_str(r#","task_name":null,"timestamp":""#);
    text.push_str(timestamp);
    text.push_str(r#"","response_id":""#);
    text.push_str(response_id);
    text.push_str(r#"","result":null}"#);
    text
}

/// What a message with commands says beside them.
pub(crate) struct Commands<'a> {
    pub(crate) agent_name: &'a str,
    pub(crate) process_name: Option<&'a str>,
    pub(crate) root_name: Option<&'a str>,
    /// Who asks and for which task, for devices that want to know.
    pub(crate) messages: Option<&'a [String]>,
    pub(crate) session_id: Option<&'a str>,
    pub(crate) task_name: Option<&'a str>,
    pub(crate) timestamp: &'a str,
    pub(crate) response_id: &'a str,
}

/// One of its commands, in parts that somebody else has.
pub(crate) struct CommandParts<'a> {
    pub(crate) tool_name: &'a str,
    pub(crate) parameters: Option<Cow<'a, Map<String, Value>>>,
    pub(crate) tool_type: ToolType,
    pub(crate) call_id: Cow<'a, str>,
}

/// Writes a message with commands, second in number to confirmations only, without a copy of anything. There is at
/// least one command.
pub(crate) fn encode_commands<'a>(
    message: &Commands<'_>,
    commands: impl Iterator<Item = CommandParts<'a>>,
) -> String {
    let mut json = Vec::with_capacity(USUAL_MESSAGE);
    put(
        &mut json,
        r#"{"type":"command","status":"continue","user_request":null,"agent_name":"#,
        message.agent_name,
    );
    put(&mut json, r#","process_name":"#, &message.process_name);
    put(&mut json, r#","root_name":"#, &message.root_name);
    let mut before = r#","actions":[{"tool_name":"#;
    for command in commands {
        put(&mut json, before, command.tool_name);
        put(&mut json, r#","parameters":"#, &command.parameters.as_deref());
        put(&mut json, r#","tool_type":"#, &command.tool_type);
        put(&mut json, r#","call_id":"#, &*command.call_id);
        before = r#"},{"tool_name":"#;
    }
    json.extend_from_slice(br#"}],"messages":"#);
    match message.messages {
        Some(messages) => put(&mut json, "", &json!(messages)),
        None => json.extend_from_slice(b"null"),
    }
    put(&mut json, r#","error":null,"session_id":"#, &message.session_id);
    put(&mut json, r#","task_name":"#, &message.task_name);
    put(&mut json, r#","timestamp":"#, message.timestamp);
    put(&mut json, r#","response_id":"#, message.response_id);
    json.extend_from_slice(br#","result":null}"#);
    wide::restore(text_of(json))
}

fn put<T: Written + ?Sized>(json: &mut Vec<u8>, name: &str, value: &T) {
    json.extend_from_slice(name.as_bytes());
    value.write(json);
}

/// The time as it is written: UTC, with microseconds where there are any.
pub fn timestamp(time: Timestamp) -> String {
    Stamp::default().write(time).to_owned()
}

/// Writes times, which mostly differ from the one before in their fraction alone.
#[derive(Clone, Debug, Default)]
pub struct Stamp {
    second: Option<u64>,
    /// Date and time of day, to the second.
    whole: usize,
    text: String,
}

impl Stamp {
    /// The time as it is written.
    pub fn write(&mut self, time: Timestamp) -> &str {
        if self.second != Some(time.as_secs()) {
            self.second = Some(time.as_secs());
            let date = time.calendar();
            self.text.clear();
            // Writing to memory cannot fail.
            let _ = write!(
                self.text,
                "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
                date.year, date.month, date.day, date.hour, date.minute, date.second
            );
            self.whole = self.text.len();
        }
        self.text.truncate(self.whole);
        let micros = time.as_micros() % 1_000_000;
        if micros > 0 {
            // Writing to memory cannot fail.
            let _ = write!(self.text, ".{micros:06}");
        }
        self.text.push_str("+00:00");
        &self.text
    }
}

/// A random UUID (version 4) that depends on the seed and the counter alone.
pub fn uuid(seed: &Seed, counter: u64) -> String {
    switchboard_core::uuid(&seed.derive("uuid", counter))
}

fn written(message: &impl Written) -> String {
    wide::restore(json(message))
}

/// As JSON, with wide integers in their shelter.
pub(crate) fn json(value: &impl Written) -> String {
    let mut json = Vec::with_capacity(USUAL_MESSAGE);
    value.write(&mut json);
    text_of(json)
}

fn text_of(json: Vec<u8>) -> String {
    // Whatever is written is text.
    String::from_utf8(json).unwrap_or_default()
}

fn read<T: Usual + DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    let sheltered = wide::shelter(text);
    if let Cow::Borrowed(text) = sheltered
        && let Some(message) = read_usual(text)
    {
        return Ok(message);
    }
    let text = &*sheltered;
    if !is_shallow(text) {
        return Err(refused(text, format!("nested more than {MAX_DEPTH} levels deep")));
    }
    parse(text).or_else(|_| read_again(text))
}

/// What is written as usual, and holds no wide integers.
fn read_usual<T: Usual>(text: &str) -> Option<T> {
    let mut rest = Rest::new(text);
    T::read(&mut rest).filter(|_| rest.is_over())
}

/// Without serde's own limit on depth: the text is known to be shallow.
fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut deserializer = Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// As [`read`], but with every key counted once, the last time it comes.
fn read_again<T: DeserializeOwned>(text: &str) -> Result<T, DecodeError> {
    let value = match parse::<Value>(text) {
        Ok(value @ Value::Object(_)) => value,
        Ok(other) => return Err(refused(text, format!("the message must not be {}", kind(&other)))),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            return Err(refused(text, format!("not JSON at line {line} column {column}")));
        }
    };
    // The path is followed only here: it costs.
    serde_path_to_error::deserialize(&value).map_err(|error| refused(text, complaint(&error, &value)))
}

/// Whether nothing is nested too deep, in one pass over the bytes, and a quick one where there is hardly
/// anything that could be nested. Where the text is not JSON, the count is right up to there, and nobody
/// reads further.
fn is_shallow(text: &str) -> bool {
    if text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count() <= MAX_DEPTH {
        return true;
    }
    let mut bytes = text.bytes();
    let mut depth = 0_usize;
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                if depth > MAX_DEPTH {
                    return false;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            bytes.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    true
}

/// Room for most messages.
const USUAL_MESSAGE: usize = 512;
/// Room for a confirmation with a session id of usual length.
const CONFIRMATION: usize = 384;

/// What the reference still reads, the message itself included.
const MAX_DEPTH: usize = 201;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;
    use crate::message::{Command, ServerMessageType, TaskStatus};

    #[test]
    fn the_short_way_to_a_confirmation_leads_to_the_same_text() {
        for session_id in [None, Some("run42@t1"), Some("a \"quoted\"\n\u{e9}")] {
            let confirmation = ServerMessage {
                session_id: session_id.map(str::to_owned),
                timestamp: Some("2025-11-06T10:30:00+00:00".into()),
                response_id: Some("r1".into()),
                ..ServerMessage::new(ServerMessageType::Heartbeat, TaskStatus::Ok)
            };
            let short = encode_confirmation(session_id, "2025-11-06T10:30:00+00:00", "r1");
            assert_eq!(short, encode_server(&confirmation));
        }
    }

    #[test]
    fn the_short_way_to_commands_leads_to_the_same_text() {
        let parameters: Map<String, Value> =
            serde_json::from_str(&wide::shelter(r#"{"a":[1,"\"",null],"b":123456789012345678901234567890}"#))
                .unwrap();
        let all = [(Some(parameters), "ab\n"), (None, "")];
        for (count, process_name) in [(1, None), (2, Some("p \"1\""))] {
            let commands = all.get(..count).unwrap();
            let asked = process_name.map(|_| vec!["asked by \"ann\"".to_owned(), "é\n".to_owned()]);
            let command = ServerMessage {
                messages: asked.clone(),
                agent_name: Some("HostAgent".into()),
                process_name: process_name.map(str::to_owned),
                root_name: Some("é".into()),
                actions: Some(
                    commands
                        .iter()
                        .map(|(parameters, name)| Command {
                            tool_name: (*name).to_owned(),
                            parameters: parameters.clone(),
                            tool_type: ToolType::DataCollection,
                            call_id: Some("c".into()),
                        })
                        .collect(),
                ),
                session_id: Some("s".into()),
                timestamp: Some("2025-11-06T10:30:00+00:00".into()),
                response_id: Some("r1".into()),
                ..ServerMessage::new(ServerMessageType::Command, TaskStatus::Continue)
            };
            let message = Commands {
                agent_name: "HostAgent",
                process_name,
                root_name: Some("é"),
                messages: asked.as_deref(),
                session_id: Some("s"),
                task_name: None,
                timestamp: "2025-11-06T10:30:00+00:00",
                response_id: "r1",
            };
            let parts = commands.iter().map(|(parameters, name)| CommandParts {
                tool_name: name,
                parameters: parameters.as_ref().map(Cow::Borrowed),
                tool_type: ToolType::DataCollection,
                call_id: "c".into(),
            });
            assert_eq!(encode_commands(&message, parts), encode_server(&command));
        }
    }

    const USUAL: [&str; 3] = [
        r#"{"type":"command_results","status":"continue","client_type":"device","session_id":"s","task_name":null,"client_id":"d","target_id":null,"request":null,"action_results":[{"status":"success","error":null,"result":"ok","namespace":null,"call_id":"c"},{"status":"failure","error":"no","result":{"a":[1,-2.5e3,true]},"namespace":"n","call_id":null}],"timestamp":null,"request_id":null,"prev_response_id":"r","error":null,"metadata":{"k":"v"}}"#,
        r#"{"type": "heartbeat", "status": "ok", "client_type": "device", "client_id": "é"}"#,
        "{\"type\":\"register\",\"status\":\"ok\",\n\t\"client_type\":\"constellation\",\"action_results\":[]}\r\n",
    ];

    #[test]
    fn the_usual_message_is_read_in_one_go() {
        for text in USUAL {
            let read: ClientMessage = read_usual(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(read, parse(text).unwrap());
        }
    }

    proptest! {
        #[test]
        fn what_is_read_in_one_go_is_what_serde_reads(
            text in select(&USUAL),
            changes in vec((any::<Index>(), 0..3_usize, select(&CHANGES)), 1..4),
        ) {
            let mut text = text.to_owned();
            for (place, gone, new) in changes {
                let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
                let start = *place.get(&places);
                let end = places.iter().copied().filter(|end| *end >= start).nth(gone).unwrap_or(text.len());
                text.replace_range(start..end, new);
            }
            if let Some(read) = read_usual::<ClientMessage>(&text) {
                prop_assert_eq!(read, parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?);
            }
        }
    }

    const CHANGES: [&str; 24] = [
        "",
        " ",
        "\"",
        "\\",
        "\\n",
        "\\ud800",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        "null",
        "1",
        "-",
        "0",
        "true",
        "\u{1}",
        "\u{fdd0}",
        "\u{feff}",
        "\"type\":\"task\"",
        "\"error\":\"e\"",
        "\"x\":1",
        "[1,{\"a\":null}]",
    ];

    #[test]
    fn a_stamp_writes_the_same_whatever_it_wrote_before() {
        let mut stamp = Stamp::default();
        for (micros, text) in [
            (1_762_425_000_123_456, "2025-11-06T10:30:00.123456+00:00"),
            (1_762_425_000_000_001, "2025-11-06T10:30:00.000001+00:00"),
            (1_762_425_000_000_000, "2025-11-06T10:30:00+00:00"),
            (1_762_425_001_900_000, "2025-11-06T10:30:01.900000+00:00"),
        ] {
            assert_eq!(stamp.write(Timestamp::from_micros(micros)), text);
            assert_eq!(timestamp(Timestamp::from_micros(micros)), text);
        }
    }
}
