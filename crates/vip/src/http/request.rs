//! The body with which a session is created (§2.2), read strictly where that matters.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use switchboard_core::json;

use crate::audio::Format;
use crate::error::{Code, Fault};
use crate::message::{DetectionType, TurnDetection};

/// What a session is to be.
#[derive(Clone, Debug)]
pub(super) struct CreateRequest {
    pub(super) protocol_versions: Vec<String>,
    pub(super) development: bool,
    pub(super) mode: Mode,
    pub(super) app_id: String,
    pub(super) locale: Option<String>,
    pub(super) transports: Vec<String>,
    pub(super) actions: bool,
    pub(super) resume: bool,
    pub(super) confirmation_channels: Vec<String>,
    pub(super) input_formats: Vec<Format>,
    pub(super) output_formats: Vec<Format>,
    pub(super) framing: String,
    pub(super) turn_detection: TurnDetection,
    pub(super) prompt_id: Option<String>,
    pub(super) prompt_variables: BTreeMap<String, String>,
    pub(super) instructions: Option<String>,
    pub(super) activate_on: String,
    pub(super) first_visit: bool,
    pub(super) provider_preferences: Vec<String>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// The mode that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Internal,
    External,
    Auto,
}

impl CreateRequest {
    pub(super) fn read(body: &[u8]) -> Result<Self, Fault> {
        let body: Value = json::from_slice(body).map_err(|_| malformed("", "the body is not JSON"))?;
        let body = Object {
            members: body.as_object().ok_or_else(|| malformed("", "the body is no object"))?,
            at: "",
        };
        let protocol_versions = body.texts("protocol_versions", 16)?.unwrap_or_default();
        if protocol_versions.is_empty() {
            return Err(malformed("protocol_versions", "name at least one version"));
        }
        let client = body.object("client")?.ok_or_else(|| malformed("client", "is required"))?;
        client.required("name", 64)?;
        client.required("version", 32)?;
        let platform = client.required("platform", 16)?;
        if !PLATFORMS.contains(&platform) {
            return Err(malformed("client.platform", "is none of web, ios, android, desktop, iot, other"));
        }
        client.text("device_id", 128)?;
        let audio = body.object("audio")?.ok_or_else(|| malformed("audio", "is required"))?;
        let none = Map::new();
        let or_none =
            |name| Ok::<_, Fault>(body.object(name)?.unwrap_or(Object { members: &none, at: name }));
        let (capabilities, prompt, visit) = (or_none("capabilities")?, or_none("prompt")?, or_none("visit")?);
        let metadata = body.map_of_texts("metadata", 256)?;
        if metadata.len() > MOST_METADATA {
            return Err(malformed("metadata", "has more than 16 keys"));
        }
        Ok(Self {
            protocol_versions,
            development: body.choice("environment", &["production", "development"])? == "development",
            mode: match body.choice("mode", &["auto", "internal", "external"])? {
                "internal" => Mode::Internal,
                "external" => Mode::External,
                _ => Mode::Auto,
            },
            app_id: body.required("app_id", 64)?.to_owned(),
            locale: body.text("locale", 35)?.map(str::to_owned),
            transports: capabilities.texts("transports", 8)?.unwrap_or_else(|| vec!["websocket".to_owned()]),
            actions: capabilities.flag("actions", true)?,
            resume: capabilities.flag("resume", true)?,
            confirmation_channels: channels(&capabilities)?,
            input_formats: formats(&audio, "input_formats")?,
            output_formats: formats(&audio, "output_formats")?,
            framing: audio.choice("framing", &["binary", "base64"])?.to_owned(),
            turn_detection: turn_detection(&body)?,
            prompt_id: prompt.text("id", 64)?.map(str::to_owned),
            prompt_variables: prompt.map_of_texts("variables", 4_096)?,
            instructions: prompt.text("instructions", 16_384)?.map(str::to_owned),
            activate_on: body.choice("activate_on", &["manual", "first_visit", "connect"])?.to_owned(),
            first_visit: visit.flag("first", false)?,
            provider_preferences: body.texts("provider_preferences", 16)?.unwrap_or_default(),
            metadata,
        })
    }
}

fn channels(capabilities: &Object<'_>) -> Result<Vec<String>, Fault> {
    let channels = capabilities.texts("confirmation_channels", 4)?.unwrap_or_else(|| vec!["ui".to_owned()]);
    if channels.iter().any(|channel| channel != "ui" && channel != "voice") {
        return Err(malformed("capabilities.confirmation_channels", "knows ui and voice only"));
    }
    Ok(channels)
}

/// The formats that are known; one that is not may be known to another server.
fn formats(audio: &Object<'_>, name: &str) -> Result<Vec<Format>, Fault> {
    let listed = audio.texts(name, 16)?.unwrap_or_default();
    if listed.is_empty() {
        return Err(malformed(&format!("audio.{name}"), "name at least one format"));
    }
    Ok(listed.iter().filter_map(|format| Format::from_name(format)).collect())
}

fn turn_detection(body: &Object<'_>) -> Result<TurnDetection, Fault> {
    let none = Map::new();
    let wanted = body.object("turn_detection")?.unwrap_or(Object { members: &none, at: "turn_detection" });
    let kind = match wanted.choice("type", &["client_vad", "server_vad", "manual"])? {
        "server_vad" => DetectionType::ServerVad,
        "manual" => DetectionType::Manual,
        _ => DetectionType::ClientVad,
    };
    let silence_ms = wanted.number("silence_ms", 700)?;
    if !(200..=3_000).contains(&silence_ms) {
        return Err(malformed("turn_detection.silence_ms", "is not between 200 and 3000"));
    }
    Ok(TurnDetection {
        kind,
        silence_ms,
        no_speech_ms: wanted.number("no_speech_ms", 8_000)?,
        interrupt_response: wanted.flag("interrupt_response", true)?,
        follow_up_listen: wanted.flag("follow_up_listen", true)?,
    })
}

/// An object of the body, and where it stands.
#[derive(Clone, Copy)]
struct Object<'a> {
    members: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Object<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, why: &str) -> Fault {
        if self.at.is_empty() { malformed(name, why) } else { malformed(&format!("{}.{name}", self.at), why) }
    }

    fn text(&self, name: &str, longest: usize) -> Result<Option<&'a str>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.wrong(name, "is no text"))?;
        if text.chars().count() > longest {
            return Err(self.wrong(name, "is too long"));
        }
        Ok(Some(text))
    }

    fn required(&self, name: &str, longest: usize) -> Result<&'a str, Fault> {
        self.text(name, longest)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| self.wrong(name, "is required"))
    }

    /// One of these words; the first where there is none.
    fn choice(&self, name: &str, words: &[&'static str]) -> Result<&'static str, Fault> {
        let Some(text) = self.text(name, 64)? else { return Ok(words.first().copied().unwrap_or_default()) };
        let known = words.iter().find(|word| **word == text).copied();
        known.ok_or_else(|| self.wrong(name, &format!("is none of {}", words.join(", "))))
    }

    fn flag(&self, name: &str, otherwise: bool) -> Result<bool, Fault> {
        let Some(value) = self.get(name) else { return Ok(otherwise) };
        value.as_bool().ok_or_else(|| self.wrong(name, "is neither true nor false"))
    }

    fn number(&self, name: &str, otherwise: u32) -> Result<u32, Fault> {
        let Some(value) = self.get(name) else { return Ok(otherwise) };
        value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| self.wrong(name, "is no whole number"))
    }

    fn texts(&self, name: &str, most: usize) -> Result<Option<Vec<String>>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let list = value.as_array().ok_or_else(|| self.wrong(name, "is no list"))?;
        if list.len() > most {
            return Err(self.wrong(name, "has too many entries"));
        }
        let texts = list.iter().map(|entry| entry.as_str().map(str::to_owned)).collect::<Option<_>>();
        texts.map(Some).ok_or_else(|| self.wrong(name, "is no list of texts"))
    }

    fn map_of_texts(&self, name: &'static str, longest: usize) -> Result<BTreeMap<String, String>, Fault> {
        let Some(object) = self.object(name)? else { return Ok(BTreeMap::new()) };
        object
            .members
            .iter()
            .map(|(key, value)| match value.as_str() {
                Some(text) if text.chars().count() <= longest => Ok((key.clone(), text.to_owned())),
                _ => Err(self.wrong(name, "has values that are no texts, or too long")),
            })
            .collect()
    }

    fn object(&self, name: &'static str) -> Result<Option<Self>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let members = value.as_object().ok_or_else(|| self.wrong(name, "is no object"))?;
        Ok(Some(Self { members, at: name }))
    }
}

fn malformed(path: &str, why: &str) -> Fault {
    let message = if path.is_empty() { why.to_owned() } else { format!("{path} {why}") };
    Fault::new(Code::ProtoMalformed).because(message).with(serde_json::json!({ "path": path }))
}

const PLATFORMS: [&str; 6] = ["web", "ios", "android", "desktop", "iot", "other"];
const MOST_METADATA: usize = 16;
