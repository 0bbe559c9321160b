//! What tests begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use switchboard_core::model::{Origin, TurnRequest};
use switchboard_core::{Cell, Event, Found, Timestamp, TurnId};

use crate::audio::Format;
use crate::message::TurnDetection;
use crate::minutes::{Settings, tables};
use crate::protocol::{EXTERNAL, Service, Speech};
use crate::token::{Seal, Unsealed};

/// Believes whatever it has written itself, and anybody else who can.
#[derive(Debug)]
struct PaperSeal;

impl Seal for PaperSeal {
    fn sign(&self, typ: &str, claims: &Value) -> String {
        URL_SAFE_NO_PAD.encode(json!([typ, claims]).to_string())
    }

    fn open(&self, typ: &str, token: &str) -> Result<Value, Unsealed> {
        let read = URL_SAFE_NO_PAD.decode(token).ok().and_then(|text| serde_json::from_slice(&text).ok());
        match read {
            Some((known, claims)) if String::eq(&known, typ) => Ok(claims),
            _ => Err(Unsealed::Invalid),
        }
    }

    fn key_set(&self) -> Value {
        json!({ "keys": [] })
    }
}

/// A deployment that allows everything and has nothing.
pub(crate) fn service() -> Service {
    Service {
        seal: Arc::new(PaperSeal),
        issuer: None,
        public_url: None,
        allow_development: true,
        agent: None,
        prompts: BTreeMap::new(),
        providers: Vec::new(),
        ice_servers: Vec::new(),
        webrtc: false,
        speech: Speech { hears: true, speaks: true, missing: Vec::new() },
        introduction: "Hello. This is a notice.".to_owned(),
        introduction_interruptible: true,
    }
}

/// A session of ten minutes.
pub(crate) fn settings() -> Settings {
    Settings {
        app_id: "shop".to_owned(),
        sub: "ann".to_owned(),
        environment: "development".to_owned(),
        mode: EXTERNAL.to_owned(),
        scopes: Vec::new(),
        locale: "en-US".to_owned(),
        actions: true,
        confirmation_channels: vec!["ui".to_owned()],
        input: Format::Pcm16k,
        output: Format::Pcm24k,
        framing: "binary".to_owned(),
        turn_detection: TurnDetection::default(),
        instructions: None,
        voice: None,
        activate_on: "manual".to_owned(),
        first_visit: false,
        agent: "butler".to_owned(),
        provider: None,
        metadata: BTreeMap::new(),
        resume_s: 60,
        created_at: 1_000_000,
        expires_at: 1_600_000,
    }
}

/// The row of a session with these settings, and with these columns besides.
pub(crate) fn row(settings: &Settings, columns: &[(&str, Cell)]) -> Found {
    let known = [
        ("session_id", SESSION.into()),
        ("settings", json!(settings).to_string().into()),
        ("live", true.into()),
    ];
    let cell = |name: &str| {
        let own = columns.iter().chain(&known).find(|(column, _)| *column == name);
        own.map_or(Cell::Null, |(_, cell)| cell.clone())
    };
    tables::SESSIONS.columns.iter().map(|column| cell(column.name)).collect()
}

/// A turn of Ann's that came through a protocol.
pub(crate) fn accepted(turn: &TurnId, protocol: &str) -> Event {
    Event::TurnAccepted {
        turn: turn.clone(),
        request: Box::new(TurnRequest::Chat { parts: Vec::new() }),
        agent: "butler".into(),
        device: None,
        origin: Box::new(Origin::new("ann".into(), protocol)),
        serial: false,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        parent: None,
        names: None,
        recall: None,
        workspace: None,
        key: None,
        meta: Box::new(Value::Null),
    }
}

/// What it is called.
pub(crate) const SESSION: &str = "vs_00000000000000000000000000";
