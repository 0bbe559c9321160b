//! Speech from an endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard_agents::Secret;

use super::{SpeakError, Synthesiser};
use crate::audio::{Sound, read_pcm16, read_wav};

/// How an endpoint is reached that is compatible with OpenAI's speech.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpeechConfig {
    /// Where the API is; `/audio/speech` is added.
    pub base_url: String,
    /// The model to ask.
    pub model: String,
    /// The voice of those who do not choose one.
    pub voice: String,
    /// The environment variable that holds the key; read by the program, not by this crate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// The key itself; never read from a file, and never written to one.
    #[serde(skip)]
    pub api_key: Option<Secret>,
    /// How long a connection may take, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long one sentence may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for SpeechConfig {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".into(),
            model: String::new(),
            voice: "alloy".into(),
            api_key_env: None,
            api_key: None,
            connect_timeout_ms: 5_000,
            timeout_ms: 15_000,
        }
    }
}

/// Asks an endpoint that is compatible with OpenAI's speech.
pub struct OpenAiSpeech {
    config: SpeechConfig,
    url: Url,
    client: Client,
}

impl OpenAiSpeech {
    /// Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense; says how.
    pub fn new(config: SpeechConfig) -> Result<Self, String> {
        if config.model.is_empty() {
            return Err("`model` is missing".into());
        }
        if config
            .api_key
            .as_ref()
            .is_some_and(|key| !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()))
        {
            return Err("the API key holds characters that no key can have".into());
        }
        let url = Url::parse(&format!("{}/audio/speech", config.base_url.trim_end_matches('/')))
            .map_err(|error| format!("`base_url`: {error}"))?;
        let client = client(url.scheme(), Duration::from_millis(config.connect_timeout_ms))?;
        Ok(Self { config, url, client })
    }

    async fn ask(&self, text: &str, voice: &str) -> Result<Vec<u8>, reqwest::Error> {
        let question = json!({
            "model": self.config.model,
            "input": text,
            "voice": voice,
            "response_format": "wav",
        });
        let limit = Duration::from_millis(self.config.timeout_ms);
        let mut request = self.client.post(self.url.clone()).timeout(limit).json(&question);
        if let Some(key) = &self.config.api_key {
            request = request.bearer_auth(key.reveal());
        }
        let mut response = request.send().await?.error_for_status()?;
        let mut answer = Vec::new();
        while let Some(bytes) = response.chunk().await? {
            answer.extend_from_slice(&bytes);
            if answer.len() > MOST_ANSWER {
                break;
            }
        }
        Ok(answer)
    }
}

#[async_trait]
impl Synthesiser for OpenAiSpeech {
    async fn speak(&self, text: &str, _language: &str, voice: Option<&str>) -> Result<Sound, SpeakError> {
        let answer = self.ask(text, voice.unwrap_or(&self.config.voice)).await.map_err(|error| {
            if error.is_timeout() {
                SpeakError::Late
            } else if let Some(status) = error.status() {
                SpeakError::Failed(format!("the speech endpoint answers {}", status.as_u16()))
            } else {
                SpeakError::Failed("the speech endpoint cannot be reached".into())
            }
        })?;
        if answer.len() > MOST_ANSWER {
            return Err(SpeakError::Failed("the speech endpoint does not stop to speak".into()));
        }
        // Some know no files, and send bare samples at the rate that OpenAI has chosen.
        let sound = read_wav(&answer).unwrap_or_else(|_| {
            let mut samples = Vec::new();
            if !answer.starts_with(b"{") {
                read_pcm16(&answer, &mut samples);
            }
            Sound { samples, rate: BARE_RATE }
        });
        if sound.samples.is_empty() {
            return Err(SpeakError::Failed("the answer of the speech endpoint cannot be used".into()));
        }
        Ok(sound)
    }

    /// It guesses the language from the words.
    fn knows(&self, _language: &str) -> bool {
        true
    }
}

/// A client which goes where it is told: no redirects, no proxies of the environment.
fn client(scheme: &str, connect_timeout: Duration) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .no_proxy();
    let provider = rustls::crypto::ring::default_provider();
    let builder = match scheme {
        "https" => {
            // Somebody else may have chosen a provider already, which is as good.
            let _ = provider.install_default();
            builder
        }
        "http" => {
            // Without TLS there is no need for certificates, which some small systems do not have.
            let tls = ClientConfig::builder_with_provider(Arc::new(provider))
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth();
            builder.tls_backend_preconfigured(tls)
        }
        _ => return Err("`base_url` has to begin with http:// or https://".into()),
    };
    builder.build().map_err(|_| "cannot set up HTTP".into())
}

impl fmt::Debug for OpenAiSpeech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAiSpeech({})", self.config.model)
    }
}

/// Samples per second of answers that do not say it.
const BARE_RATE: u32 = 24_000;
/// Bytes of two minutes at a high rate: one sentence is never so long.
const MOST_ANSWER: usize = 2 * 60 * 48_000 * 2;
