//! VIP as it is configured: the protocol, and what runs its errands.

use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{AgentId, Protocol, Rate};
use switchboard_rtc::{Endpoint, RtcConfig};
use switchboard_vip::{DATA_CHANNEL, IceServer, Provider, SUBPROTOCOL, Service, Speech, Vip};
use tokio::sync::Semaphore;

use super::{ABROAD, Peers, SharedKeys, VipErrands};
use crate::agents::Workshop;
use crate::clock::Clock;
use crate::config::{AgentConfig, Config, StoreKind};
use crate::host::Host;
use crate::limits::AddressRate;
use crate::upgrade::Door;
use crate::vouch::{
    DevelopmentConfig, Functions, Keys, ProviderAdapter, ProviderConfig, ProviderTransport, Providers,
    Vouching,
};

/// Everything that VIP stands on.
#[derive(Debug)]
pub(crate) struct VipHouse {
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) errands: Arc<VipErrands>,
    keys: Arc<Keys>,
}

impl VipHouse {
    /// Reads keys, and opens the port of WebRTC peers. `speech` says what there is of a voice.
    pub(crate) async fn open(
        config: &Config,
        host: &Arc<Host>,
        workshop: &Workshop,
        clock: Clock,
        speech: Speech,
    ) -> Result<Self, String> {
        let vip = &config.vip;
        let folder = (config.store.kind == StoreKind::Sqlite).then(|| config.data_dir.join("vip"));
        let because = |error: crate::auth::AuthSetupError| error.to_string();
        let kept = folder.as_ref().map(|folder| folder.join("keys"));
        let keys = Arc::new(Keys::open(kept.as_deref(), move || clock.now()).map_err(because)?);
        let others = workshop.relay.jwks().get("keys").and_then(|keys| keys.as_array().cloned());
        let seal = Arc::new(SharedKeys { own: keys.clone(), others: others.unwrap_or_default() });
        let development = DevelopmentConfig {
            allowed: config.allows_vip_development(),
            secret_env: vip.development_secret_env.clone(),
        };
        if development.allowed && !config.listen.ip().is_loopback() {
            tracing::warn!(
                "vip.allow_development: anybody who reaches this server makes sessions without a credential, and has \
                 its agents and voices work for them; set it to false unless that is meant"
            );
        }
        let (everybody, secrets) = (config.is_development(), &config.secrets);
        let vouching =
            Vouching::open(&vip.issuers, &development, everybody, secrets, folder.as_deref(), clock.now());
        let peers = if vip.webrtc.enabled { Some(Peers::new(endpoint(config).await?)) } else { None };
        let issuer = vip.issuer.clone().or_else(|| vip.public_url.clone());
        let errands = VipErrands {
            vouching: vouching.map_err(because)?,
            providers: Providers::open(&vip.providers, secrets, seal.clone()).map_err(because)?,
            functions: Functions::open(&vip.functions, secrets).map_err(because)?,
            mcp: workshop.mcp.clone(),
            host: host.clone(),
            peers,
            clock,
            issuer: issuer.clone(),
            abroad: Semaphore::new(ABROAD),
            unvouched: AddressRate::new(Rate::per_minute(
                vip.development_sessions_per_minute,
                vip.development_sessions_per_minute,
            )),
        };
        let service = Service {
            seal,
            issuer,
            public_url: vip.public_url.clone(),
            allow_development: development.allowed,
            agent: agent_for(config).map(AgentId::from),
            prompts: vip
                .prompts
                .iter()
                .map(|(id, prompt)| (id.clone(), prompt.instructions.clone()))
                .collect(),
            providers: vip.providers.iter().map(provider).collect(),
            ice_servers: ice_servers(config),
            webrtc: vip.webrtc.enabled,
            speech,
            introduction: vip.introduction.clone(),
            introduction_interruptible: vip.introduction_interruptible,
        };
        let protocol = Arc::new(Vip::new(vip.limits.clone(), service));
        Ok(Self { protocol, errands: Arc::new(errands), keys })
    }

    /// Says where peers come in.
    pub(crate) fn lead_to(&self, door: &Arc<Door>) {
        if let Some(peers) = &self.errands.peers {
            peers.lead_to(door, self.protocol.clone());
        }
    }

    /// What has to be looked at now and then: the age of keys.
    pub(crate) fn keep_up(&self) {
        match self.keys.tend() {
            Ok(true) => tracing::info!("VIP signs with a new key from now on"),
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "a new key cannot be written; going on with the old one"),
        }
    }

    /// Ends every peer.
    pub(crate) async fn close(&self) {
        if let Some(peers) = &self.errands.peers {
            peers.close().await;
        }
    }
}

async fn endpoint(config: &Config) -> Result<Arc<Endpoint>, String> {
    let (listen, webrtc) = (config.webrtc_listen(), &config.vip.webrtc);
    let endpoint = Endpoint::bind(RtcConfig {
        listen,
        public: webrtc.public_ips.clone(),
        max_peers: webrtc.peers,
        connect_timeout: Duration::from_millis(webrtc.connect_timeout_ms),
        channel_label: DATA_CHANNEL.to_owned(),
        channel_protocol: SUBPROTOCOL.to_owned(),
        ..RtcConfig::default()
    });
    endpoint.await.map_err(|error| format!("vip.webrtc.listen: {listen} cannot be used: {error}"))
}

fn provider(config: &ProviderConfig) -> Provider {
    let (auth_style, prefix, channel) = match (config.adapter, config.transport) {
        (ProviderAdapter::VipNative, _) => ("subprotocol", Some("vip.bearer."), None),
        (ProviderAdapter::OpenAiRealtime, ProviderTransport::Websocket) => {
            ("subprotocol", Some("openai-insecure-api-key."), None)
        }
        (ProviderAdapter::OpenAiRealtime, ProviderTransport::Webrtc) => {
            ("sdp_post", None, Some("oai-events"))
        }
    };
    Provider {
        id: config.id.clone(),
        adapter: config.adapter.name().to_owned(),
        transport: match config.transport {
            ProviderTransport::Websocket => "websocket".to_owned(),
            ProviderTransport::Webrtc => "webrtc".to_owned(),
        },
        url: config.url.clone().filter(|url| !url.is_empty()),
        model: config.model.clone(),
        voice: config.voice.clone(),
        auth_style: auth_style.to_owned(),
        subprotocol_prefix: prefix.map(str::to_owned),
        data_channel: channel.map(str::to_owned),
        ttl_s: config.ttl_s,
        production: config.production,
    }
}

fn ice_servers(config: &Config) -> Vec<IceServer> {
    let secret = |name: &String| config.secrets.find(name).map(str::to_owned);
    let server = |server: &crate::config::IceServerConfig| IceServer {
        urls: server.urls.clone(),
        username: server.username.clone(),
        credential: server.credential_env.as_ref().and_then(secret),
    };
    config.vip.ice_servers.iter().map(server).collect()
}

/// The agent that answers; none for the one that routes and `agent` name. The story of the demo cannot use an app,
/// so without another choice it is the butler, who can.
fn agent_for(config: &Config) -> Option<&str> {
    let story = matches!(config.agents.get(&config.agent), Some(AgentConfig::Demo(_)));
    let butler = config.agents.contains_key(BUTLER).then_some(BUTLER);
    config.vip.agent.as_deref().or_else(|| butler.filter(|_| story && config.routes.is_empty()))
}

const BUTLER: &str = "butler";
