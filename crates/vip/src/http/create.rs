//! Creating a session (E3). The checks come in the order of §2.3, and the first that fails counts.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_core::{Comparison, Condition, Lookup, Op, Order, PrincipalId, Question, SessionId, Within};

use crate::audio::Format;
use crate::errand::{Errand, Minted, Vouched};
use crate::error::{Code, Fault};
use crate::minutes::{CHRONICLE, Minute, Settings, tables};
use crate::protocol::{EXTERNAL, INTERNAL, NATIVE, Provider, SUBPROTOCOL, VERSION};
use crate::record::SessionRecord;
use crate::token::{self, SessionClaims};

use super::compact;
use super::exchange::Exchange;
use super::recent::Repetition;
use super::request::{CreateRequest, Mode};

/// A session that is being created.
struct Draft {
    request: CreateRequest,
    vouched: Vouched,
    key: Option<String>,
    token: Option<String>,
}

impl Exchange {
    pub(super) fn create(&mut self, body: &[u8]) -> Result<(), Fault> {
        let request = CreateRequest::read(body)?;
        let key = self.header("idempotency-key").map(str::to_owned);
        if key.as_ref().is_some_and(|key| key.is_empty() || key.chars().count() > LONGEST_KEY) {
            return Err(Fault::new(Code::ProtoMalformed).because("Idempotency-Key is empty or too long"));
        }
        if request.development && !self.service.allow_development {
            return Err(Fault::new(Code::AuthEnvironmentForbidden));
        }
        let token = match (&self.request.authorization, self.bearer()) {
            (Some(_), None) => return Err(Fault::new(Code::AuthTokenInvalid)),
            (_, token) => token,
        };
        if token.is_none() && !request.development {
            return Err(Fault::new(Code::AuthTokenMissing));
        }
        let digest: [u8; 32] = Sha256::digest(body).into();
        let errand = Errand::Vouch { token: token.clone(), development: request.development, redeem: false };
        self.send_out(&errand, move |exchange, vouched: Vouched| {
            let draft = Draft { request, vouched, key, token };
            exchange.with_key(draft, digest);
        });
        Ok(())
    }

    /// A repetition is answered as before, and its token is not used up twice.
    fn with_key(&mut self, draft: Draft, digest: [u8; 32]) {
        if let Some(key) = &draft.key {
            match self.recent.ask(&draft.vouched.own, key, digest, self.now) {
                Repetition::New => self.reserved = Some((draft.vouched.own.clone(), key.clone())),
                Repetition::Answered(answer) => return self.answer_with(201, "no-store", answer),
                Repetition::Underway if self.now < self.began.after(PATIENCE) => {
                    return self.do_later(LOOK_EVERY, move |exchange| exchange.with_key(draft, digest));
                }
                Repetition::Underway => {
                    let fault = Fault::new(Code::NetServerDraining);
                    return self.refuse(&fault.because("the same is still being answered, try again"));
                }
                Repetition::Conflict => return self.refuse(&Fault::new(Code::SesIdempotencyConflict)),
            }
        }
        if draft.vouched.replayed {
            return self.refuse(&Fault::new(Code::AuthTokenReplayed));
        }
        let Some(token) = draft.token.clone() else { return self.check(draft) };
        let errand =
            Errand::Vouch { token: Some(token), development: draft.request.development, redeem: true };
        self.send_out(&errand, move |exchange, vouched: Vouched| {
            if vouched.replayed {
                return exchange.refuse(&Fault::new(Code::AuthTokenReplayed));
            }
            exchange.check(draft);
        });
    }

    fn check(&mut self, draft: Draft) {
        match self.agree(&draft) {
            Err(fault) => self.refuse(&fault),
            Ok((settings, provider)) => {
                let lookup = Lookup {
                    table: tables::SESSIONS.name,
                    within: Within::Own,
                    conditions: vec![Condition { column: "live", is: Comparison::Equal, value: true.into() }],
                    question: Question::Rows(vec![("created_at", Order::Falling)]),
                    limit: MOST_ROWS,
                };
                self.look(lookup, move |exchange, rows| {
                    let alive = |record: &SessionRecord| {
                        record.settings.sub == settings.sub
                            && record.settings.app_id == settings.app_id
                            && record.check(&exchange.limits, exchange.now).is_ok()
                    };
                    let sessions = rows.iter().filter_map(SessionRecord::read).filter(alive).count();
                    // Whoever tries things out shares one name with everybody else who does.
                    let counted = draft.vouched.iss.is_some();
                    if counted && sessions >= exchange.limits.sessions as usize {
                        return exchange.refuse(&Fault::new(Code::SesQuota));
                    }
                    exchange.mint_and_open(draft, settings, provider);
                });
            }
        }
    }

    /// What the session will be, if it may be.
    fn agree(&self, draft: &Draft) -> Result<(Settings, Option<Provider>), Fault> {
        let Draft { request, vouched, .. } = draft;
        let environment = if request.development { "development" } else { "production" };
        if vouched.env.as_deref().is_some_and(|env| env != environment) {
            return Err(Fault::new(Code::AuthEnvironmentMismatch));
        }
        let scoped = |scope: &str| vouched.scopes.iter().any(|known| known == scope);
        if vouched.iss.is_some() && !scoped("session:create") {
            return Err(Fault::new(Code::AuthScope).because("the token does not allow session:create"));
        }
        if vouched.app_id.as_ref().is_some_and(|app| *app != request.app_id) {
            return Err(Fault::new(Code::AuthScope).because("the token is for another app_id"));
        }
        let origin = self.header("origin");
        let named =
            |origins: &Vec<String>| origin.is_none_or(|origin| origins.iter().any(|one| one == origin));
        if self.request.foreign || vouched.origins.as_ref().is_some_and(|origins| !named(origins)) {
            return Err(Fault::new(Code::AuthOrigin));
        }
        if !request.protocol_versions.iter().any(|version| version == VERSION) {
            return Err(Fault::new(Code::ProtoVersion).with(json!({ "protocol_versions": [VERSION] })));
        }
        let allows =
            |mode: &str| vouched.modes.as_ref().is_none_or(|modes| modes.iter().any(|known| known == mode));
        let mode = match request.mode {
            Mode::Internal => INTERNAL,
            Mode::External => EXTERNAL,
            // Whoever leaves it open speaks with this server, unless the token is for another.
            Mode::Auto if allows(EXTERNAL) || self.usable(request).next().is_none() => EXTERNAL,
            Mode::Auto => INTERNAL,
        };
        if !allows(mode) {
            return Err(Fault::new(Code::AuthScope).because("the token does not allow this mode"));
        }
        let provider = if mode == INTERNAL { Some(self.provider_for(request)?) } else { None };
        let input = pick(&request.input_formats)?;
        let output = pick(&request.output_formats)?;
        let inline = request.instructions.is_some();
        if inline && !request.development && !scoped("prompt:inline") {
            return Err(Fault::new(Code::AuthScope).because("the token does not allow prompt:inline"));
        }
        let longest = if request.development { self.limits.development_s } else { self.limits.session_s };
        let longest = vouched.max_session_s.unwrap_or(u64::MAX).min(longest.into());
        let created_at = self.now.as_millis();
        let settings = Settings {
            app_id: request.app_id.clone(),
            sub: vouched.sub.clone(),
            environment: environment.to_owned(),
            mode: mode.to_owned(),
            scopes: if vouched.iss.is_some() { vouched.scopes.clone() } else { all_scopes() },
            locale: request
                .locale
                .clone()
                .or_else(|| vouched.locale.clone())
                .unwrap_or_else(|| "en-US".to_owned()),
            actions: request.actions,
            confirmation_channels: request.confirmation_channels.clone(),
            input,
            output,
            framing: request.framing.clone(),
            turn_detection: request.turn_detection,
            instructions: request.instructions.clone().or_else(|| self.prompt(request)),
            voice: None,
            activate_on: request.activate_on.clone(),
            first_visit: request.first_visit,
            agent: self.agent.to_string(),
            provider: provider.as_ref().map(|provider| provider.id.clone()),
            metadata: request.metadata.clone(),
            resume_s: if request.resume { self.limits.resume_s } else { 0 },
            created_at,
            expires_at: created_at.saturating_add(longest.saturating_mul(1_000)),
        };
        Ok((settings, provider))
    }

    /// The providers that may speak with the client.
    fn usable(&self, request: &CreateRequest) -> impl Iterator<Item = &Provider> {
        let development = request.development;
        self.service.providers.iter().filter(move |provider| !(development && provider.production))
    }

    /// The provider that speaks with the client in the place of this server.
    fn provider_for(&self, request: &CreateRequest) -> Result<Provider, Fault> {
        let preferred = request
            .provider_preferences
            .iter()
            .find_map(|id| self.usable(request).find(|provider| provider.id == *id));
        let chosen = preferred.or_else(|| self.usable(request).next());
        chosen.cloned().ok_or_else(|| {
            Fault::new(Code::ProvUnavailable).because("no provider for internal mode is configured")
        })
    }

    /// The instructions of a prompt, with its variables filled in.
    fn prompt(&self, request: &CreateRequest) -> Option<String> {
        let mut text = self.service.prompts.get(request.prompt_id.as_ref()?)?.clone();
        for (name, value) in &request.prompt_variables {
            text = text.replace(&format!("{{{{{name}}}}}"), value);
        }
        Some(text)
    }

    fn mint_and_open(&mut self, draft: Draft, settings: Settings, provider: Option<Provider>) {
        let session = self.session_id();
        let Some(provider) = provider else { return self.open(draft, settings, session, None) };
        let own = draft.vouched.own.clone();
        let (terms, name) = (settings.clone(), session.clone());
        self.mint(&settings, &session, &own, provider, move |exchange, shown| {
            exchange.open(draft, terms, name, Some(shown));
        });
    }

    /// Gets a credential for a provider, and goes on with the `provider` object (§3.3).
    pub(super) fn mint(
        &mut self,
        settings: &Settings,
        session: &str,
        own: &str,
        provider: Provider,
        then: impl FnOnce(&mut Self, Value) + Send + 'static,
    ) {
        if provider.adapter == NATIVE && provider.url.is_none() {
            let minted = self.mint_ourselves(settings, session, own, &provider);
            let shown = self.show_provider(&provider, &minted);
            return then(self, shown);
        }
        let errand = Errand::Mint {
            provider: provider.id.clone(),
            session: session.to_owned(),
            development: settings.environment == "development",
            instructions: settings.instructions.clone(),
            sub: settings.sub.clone(),
        };
        self.send_out(&errand, move |exchange, minted: Minted| {
            let shown = exchange.show_provider(&provider, &minted);
            then(exchange, shown);
        });
    }

    /// A credential for the endpoint of this server itself.
    fn mint_ourselves(&self, settings: &Settings, session: &str, own: &str, provider: &Provider) -> Minted {
        let locked = json!({ "instructions": settings.instructions, "model": provider.model });
        let (iat, expires_at) = (self.now.as_secs(), self.now.as_secs() + provider.ttl_s);
        let claims = token::EphemeralClaims {
            iss: self.issuer(),
            aud: provider.id.clone(),
            sub: settings.sub.clone(),
            sid: session.to_owned(),
            cfg: URL_SAFE_NO_PAD.encode(Sha256::digest(locked.to_string())),
            iat,
            exp: expires_at,
            jti: self.seed.token("ephemeral", iat),
            own: own.to_owned(),
        };
        let value = self.service.seal.sign(token::EPHEMERAL, &json!(claims));
        Minted { value, expires_at }
    }

    fn show_provider(&self, provider: &Provider, minted: &Minted) -> Value {
        let url = provider
            .url
            .clone()
            .unwrap_or_else(|| format!("{}{}", self.sockets(), crate::protocol::PROVIDER_STREAM));
        let auth = compact(json!({
            "style": provider.auth_style,
            "subprotocol_prefix": provider.subprotocol_prefix,
        }));
        compact(json!({
            "id": provider.id,
            "adapter": provider.adapter,
            "transport": provider.transport,
            "url": url,
            "model": provider.model,
            "voice": provider.voice,
            "credential": { "type": "bearer", "value": minted.value, "expires_at": minted.expires_at },
            "auth": auth,
            "data_channel": provider.data_channel,
            "locked": ["instructions", "model"],
        }))
    }

    fn open(&mut self, draft: Draft, settings: Settings, session: String, provider: Option<Value>) {
        let id = SessionId::new(session.as_str());
        let created = Minute::Created(Box::new(settings.clone()));
        let ops = VecDeque::from([
            Op::Open { epoch: self.seed.epoch(1), agent: self.agent.clone(), name: None },
            Op::Chronicle { chronicle: CHRONICLE.into() },
            Op::Record { chronicle: CHRONICLE.into(), record: json!([created]) },
        ]);
        self.submit_all(id, ops, move |exchange| {
            let (session_token, expires_at) = exchange.issue(&settings, &session, &draft.vouched.own);
            let body = exchange.created(&draft, &settings, &session, &session_token, expires_at, provider);
            let body = body.to_string();
            if let Some((who, key)) = exchange.reserved.take() {
                exchange.recent.answered(&who, &key, Some(body.clone()));
            }
            exchange.answer_with(201, "no-store", body);
        });
    }

    /// A session token, and when it ends, in seconds.
    pub(super) fn issue(&self, settings: &Settings, session: &str, own: &str) -> (String, u64) {
        let iat = self.now.as_secs();
        let exp = (iat + u64::from(self.limits.token_s)).min(settings.expires_at.div_ceil(1_000));
        let claims = SessionClaims {
            iss: self.issuer(),
            aud: token::AUDIENCE.to_owned(),
            sub: settings.sub.clone(),
            sid: session.to_owned(),
            app: settings.app_id.clone(),
            env: settings.environment.clone(),
            mode: settings.mode.clone(),
            scp: settings.scopes.join(" "),
            iat,
            exp,
            jti: self.seed.token("session token", iat),
            own: PrincipalId::from(own).to_string(),
        };
        (self.service.seal.sign(token::SESSION, &json!(claims)), exp)
    }

    /// The answer (§2.3).
    fn created(
        &self,
        draft: &Draft,
        settings: &Settings,
        session: &str,
        session_token: &str,
        expires_at: u64,
        provider: Option<Value>,
    ) -> Value {
        let at = |what: &str| format!("{}/v1/vip/sessions/{session}/{what}", self.sockets());
        let socket = |what: &str| json!({ "url": at(what), "subprotocol": SUBPROTOCOL });
        let external = settings.mode == EXTERNAL;
        let wants_webrtc = draft.request.transports.iter().any(|transport| transport == "webrtc");
        let webrtc = (external && self.service.webrtc && wants_webrtc).then(|| {
            json!({
                "offer_url": format!("{}/v1/vip/sessions/{session}/webrtc", self.base()),
                "data_channel": crate::protocol::DATA_CHANNEL,
                "ice_servers": self.ice_servers(),
            })
        });
        let transport = external.then(|| compact(json!({ "websocket": socket("stream"), "webrtc": webrtc })));
        compact(json!({
            "session_id": session,
            "protocol_version": VERSION,
            "environment": settings.environment,
            "mode": settings.mode,
            "state": "connecting",
            "session_token": session_token,
            "session_token_expires_at": expires_at,
            "expires_at": settings.expires_at / 1_000,
            "resume": { "window_s": settings.resume_s },
            "audio": {
                "input": settings.input.name(),
                "output": settings.output.name(),
                "frame_ms": 20,
                "framing": settings.framing,
            },
            "turn_detection": settings.turn_detection,
            "transport": transport,
            "control": (!external).then(|| socket("control")),
            "provider": provider,
            "limits": {
                "max_actions": 128,
                "max_context_bytes": self.limits.text_bytes,
                "max_text_bytes": self.limits.text_bytes,
                "idle_timeout_s": self.limits.idle_s,
                "max_session_s": settings.expires_at.saturating_sub(settings.created_at) / 1_000,
            },
            "issued_in_development": draft.request.development,
        }))
    }

    fn ice_servers(&self) -> Vec<Value> {
        let shown = self.service.ice_servers.iter().map(|server| {
            compact(
                json!({ "urls": server.urls, "username": server.username, "credential": server.credential }),
            )
        });
        shown.collect()
    }

    /// The origin under which clients reach the sockets of the server.
    fn sockets(&self) -> String {
        let base = self.base();
        match base.strip_prefix("http") {
            Some(rest) => format!("ws{rest}"),
            None => base,
        }
    }

    fn session_id(&self) -> String {
        let fresh = SessionId::fresh(&self.seed, 1);
        let digits = fresh.as_str().trim_start_matches("ses_");
        format!("vs_{}", digits.to_ascii_uppercase())
    }
}

/// The first that is wanted; all that are known are served.
fn pick(wanted: &[Format]) -> Result<Format, Fault> {
    wanted.first().copied().ok_or_else(|| Fault::new(Code::ProtoAudioFormat))
}

fn all_scopes() -> Vec<String> {
    ["session:create", "prompt:inline", "function:call", "history:read"].map(str::to_owned).to_vec()
}

const LONGEST_KEY: usize = 64;
/// How often it is looked whether the same request has its answer, and for how long.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const PATIENCE: Duration = Duration::from_secs(30);
const MOST_ROWS: usize = 100;
