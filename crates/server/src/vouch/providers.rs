//! Credentials with which clients talk to a provider by themselves (§3.3, §12).
//!
//! The long-term key stays here; what leaves is good for opening one connection within seconds, to a session whose
//! settings are fixed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use switchboard_core::{Pii, Timestamp};
use switchboard_vip::errand::{Failed, Minted};
use switchboard_vip::token::{EPHEMERAL, EphemeralClaims, Seal};

use super::config::{ProviderAdapter, ProviderConfig};
use super::http::{Answer, Lost, Place, is_header_value};
use super::{failed, setup_error};
use crate::auth::AuthSetupError;
use crate::config::Secrets;
use crate::entropy;

/// The providers for which credentials can be made.
#[derive(Debug)]
pub struct Providers {
    providers: BTreeMap<String, Provider>,
    seal: Arc<dyn Seal>,
}

#[derive(Debug)]
struct Provider {
    config: ProviderConfig,
    maker: Maker,
}

/// Who makes the credentials.
#[derive(Debug)]
enum Maker {
    /// This server.
    Own,
    /// The provider, for whoever shows the long-term key.
    Realtime { place: Place, key: Pii<String> },
}

/// What a credential is asked for.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The id of the provider.
    pub provider: &'a str,
    /// The instructions that the provider's session is fixed to.
    pub instructions: Option<&'a str>,
    /// The user, as the application names it.
    pub sub: &'a str,
    /// The principal behind it.
    pub own: &'a str,
    /// The session on whose behalf.
    pub session: &'a str,
    /// Whether that is one of development.
    pub development: bool,
    /// The issuer of this server, as discovery names it.
    pub issuer: &'a str,
}

impl fmt::Debug for Order<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Providers {
    /// Reads keys as configured. `seal` signs the credentials that this server makes itself.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn open(
        providers: &[ProviderConfig],
        secrets: &Secrets,
        seal: Arc<dyn Seal>,
    ) -> Result<Self, AuthSetupError> {
        let mut known = BTreeMap::new();
        for (index, config) in providers.iter().enumerate() {
            let at = |name: &str| format!("vip.providers[{index}].{name}");
            let elsewhere = config.adapter != ProviderAdapter::VipNative;
            let url = config.url.as_deref().unwrap_or(if elsewhere { "" } else { "this server" });
            for (name, value) in [("id", config.id.as_str()), ("url", url), ("model", &config.model)] {
                if value.is_empty() {
                    return Err(setup_error(at(name), "is required"));
                }
            }
            let lifetimes = config.adapter.lifetimes();
            if !lifetimes.contains(&config.ttl_s) {
                let (shortest, longest) = lifetimes.into_inner();
                let what = format!("has to be between {shortest} and {longest}");
                return Err(setup_error(at("ttl_s"), what));
            }
            let maker = match config.adapter {
                ProviderAdapter::VipNative => Maker::Own,
                ProviderAdapter::OpenAiRealtime => {
                    let key = config
                        .api_key_env
                        .as_deref()
                        .and_then(|name| secrets.find(name))
                        .filter(|key| is_header_value(key))
                        .ok_or_else(|| {
                            setup_error(at("api_key_env"), "has to name a variable that holds a key")
                        })?;
                    let url = format!("{}/v1/realtime/client_secrets", config.base_url.trim_end_matches('/'));
                    let timeout = Duration::from_millis(config.timeout_ms);
                    let place = Place::new(&at("base_url"), &url, timeout)?;
                    Maker::Realtime { place, key: Pii(key.to_owned()) }
                }
            };
            let provider = Provider { config: config.clone(), maker };
            if known.insert(config.id.clone(), provider).is_some() {
                return Err(setup_error(at("id"), "is used twice"));
            }
        }
        Ok(Self { providers: known, seal })
    }

    /// A credential for one connection to a provider.
    ///
    /// # Errors
    /// There is none; the code says why.
    pub async fn mint(&self, order: Order<'_>, now: Timestamp) -> Result<Minted, Failed> {
        let provider = self
            .providers
            .get(order.provider)
            .ok_or_else(|| failed("PROV_CREDENTIAL", "there is no such provider"))?;
        if order.development && provider.config.production {
            return Err(failed("PROV_CREDENTIAL", "the key of this provider is for production only"));
        }
        match &provider.maker {
            Maker::Own => Ok(self.sign(&provider.config, order, now)),
            Maker::Realtime { place, key } => {
                let minted = ask(place, &key.0, &provider.config, order, now).await;
                minted.inspect_err(|refused| {
                    tracing::warn!(
                        code = refused.failed,
                        provider = provider.config.id,
                        "no provider credential"
                    );
                })
            }
        }
    }

    fn sign(&self, provider: &ProviderConfig, order: Order<'_>, now: Timestamp) -> Minted {
        let [jti @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = entropy::bytes();
        let expires_at = now.as_secs() + provider.ttl_s;
        let claims = EphemeralClaims {
            iss: order.issuer.to_owned(),
            aud: provider.id.clone(),
            sub: order.sub.to_owned(),
            sid: order.session.to_owned(),
            cfg: provider.digest(order.instructions),
            iat: now.as_secs(),
            exp: expires_at,
            jti: URL_SAFE_NO_PAD.encode(jti),
            own: order.own.to_owned(),
        };
        Minted { value: self.seal.sign(EPHEMERAL, &json!(claims)), expires_at }
    }
}

impl ProviderConfig {
    /// Digest of the settings that are locked: base64url of the SHA-256 of their JSON, members in the order of
    /// their names, without spaces.
    pub fn digest(&self, instructions: Option<&str>) -> String {
        let settings: Map<String, Value> = self
            .locked()
            .into_iter()
            .map(|name| {
                let value = match name {
                    "instructions" => json!(instructions),
                    "model" => json!(self.model),
                    _ => json!(self.voice),
                };
                (name.to_owned(), value)
            })
            .collect();
        URL_SAFE_NO_PAD.encode(Sha256::digest(Value::Object(settings).to_string()))
    }
}

/// Has the Realtime API make a credential.
async fn ask(
    place: &Place,
    key: &str,
    provider: &ProviderConfig,
    order: Order<'_>,
    now: Timestamp,
) -> Result<Minted, Failed> {
    let mut session = json!({"type": "realtime", "model": provider.model});
    if let Some(instructions) = order.instructions {
        session["instructions"] = json!(instructions);
    }
    if let Some(voice) = &provider.voice {
        session["audio"] = json!({"output": {"voice": voice}});
    }
    let body = json!({
        "expires_after": {"anchor": "created_at", "seconds": provider.ttl_s},
        "session": session,
    });
    let answer = place.post(Some(key), &body, MAX_ANSWER_BYTES).await.map_err(|lost| match lost {
        Lost::Unreachable => failed("PROV_CREDENTIAL", "the provider cannot be reached"),
        Lost::TimedOut => failed("PROV_CREDENTIAL", "the provider took too long"),
        Lost::TooLong => failed("PROV_CREDENTIAL", "the provider's answer is too long"),
    })?;
    let secret = understand(&answer)?;
    if secret.value == key || !is_header_value(&secret.value) || secret.expires_at <= now.as_secs() {
        return Err(failed("PROV_CREDENTIAL", "the provider's answer holds no usable credential"));
    }
    // Whatever the provider grants, clients are told to use it while ours would count.
    let expires_at = secret.expires_at.min(now.as_secs() + MAX_TTL_S);
    Ok(Minted { value: secret.value, expires_at })
}

fn understand(answer: &Answer) -> Result<ClientSecret, Failed> {
    let (code, message) = match answer.status {
        200..=299 => {
            return serde_json::from_slice(&answer.body)
                .map_err(|_| failed("PROV_CREDENTIAL", "the provider's answer is not understood"));
        }
        401 | 403 => ("PROV_CREDENTIAL", "the provider refused the key of this server"),
        402 | 429 => ("PROV_QUOTA", "the provider is overloaded, or its quota is used up"),
        408 | 500.. => ("PROV_CREDENTIAL", "the provider fails"),
        _ => ("PROV_CREDENTIAL", "the provider refused the request"),
    };
    Err(failed(code, format!("{message} (HTTP {})", answer.status)))
}

/// What the Realtime API answers.
#[derive(Deserialize)]
struct ClientSecret {
    value: String,
    expires_at: u64,
}

const MAX_TTL_S: u64 = 600;
const MAX_ANSWER_BYTES: usize = 256 << 10;
