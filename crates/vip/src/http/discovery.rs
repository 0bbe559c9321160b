//! What can be known without being anybody (E1, E2).

use serde_json::json;

use crate::audio::Format;
use crate::protocol::{self, SUBPROTOCOL, VERSION};

use super::exchange::Exchange;

impl Exchange {
    pub(super) fn discover(&mut self) {
        let base = self.base();
        let formats: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        let environments: &[&str] =
            if self.service.allow_development { &["development", "production"] } else { &["production"] };
        let modes: &[&str] =
            if self.service.providers.is_empty() { &["external"] } else { &["internal", "external"] };
        let transports: &[&str] = if self.service.webrtc { &["websocket", "webrtc"] } else { &["websocket"] };
        let limits = &self.limits;
        let body = json!({
            "protocol_versions": [VERSION],
            "environments": environments,
            "modes": modes,
            "transports": transports,
            "audio": { "input": formats, "output": formats },
            "speech": {
                "hears": self.service.speech.hears,
                "speaks": self.service.speech.speaks,
                "missing": self.service.speech.missing,
            },
            "subprotocols": [SUBPROTOCOL],
            "jwks_uri": format!("{base}{}", protocol::KEYS),
            "session_endpoint": format!("{base}{}", protocol::SESSIONS),
            "issuer": self.issuer(),
            "limits": {
                "max_actions": 128,
                "max_context_bytes": limits.text_bytes,
                "max_text_bytes": limits.text_bytes,
                "max_frame_bytes": limits.frame_bytes,
                "idle_timeout_s": limits.idle_s,
                "max_session_s": limits.session_s,
                "resume_window_s": limits.resume_s,
                "sessions_per_user": limits.sessions,
            },
        });
        self.answer_with(200, CACHEABLE, body.to_string());
    }

    pub(super) fn show_keys(&mut self) {
        let keys = self.service.seal.key_set();
        self.answer_with(200, CACHEABLE, keys.to_string());
    }
}

/// What is understood and spoken.
pub(super) const FORMATS: [Format; 4] = [Format::Pcm16k, Format::Pcm24k, Format::Pcm48k, Format::Opus];
const CACHEABLE: &str = "public, max-age=300";
