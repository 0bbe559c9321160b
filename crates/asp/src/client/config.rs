//! What a client wants, and what was agreed.

use std::time::Duration;

use switchboard_core::{Backoff, Jitter};

use crate::codec::{MAX_MESSAGE, MAX_PAYLOAD, MAX_PAYLOAD_BARE};
use crate::message::{ClientInfo, Enc, Features, ServerHello, ToolDef};

/// What a client wants.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Features to offer; none of them makes a bare client that sends no HELLO.
    pub features: Features,
    /// Encodings of maps in order of preference; the first is used until one is agreed.
    pub enc: Vec<Enc>,
    /// Who asks.
    pub client: Option<ClientInfo>,
    /// Tools that this client executes; offered with `client_tools`.
    pub tools: Vec<ToolDef>,
    /// Largest payload to receive, in bytes.
    pub max_payload: u32,
    /// Credit per request to offer, in bytes; at least 16 KiB.
    pub window: u32,
    /// Who returns credit.
    pub credit: CreditMode,
    /// Requests that may wait for a connection or for a free place.
    pub max_queued: usize,
    /// How long to wait for the accept before the connection stays bare.
    pub accept_timeout_ms: u64,
    /// Pauses between attempts to connect.
    pub backoff: Backoff,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            features: Features::STANDARD,
            enc: vec![Enc::Msgpack, Enc::Json],
            client: None,
            tools: Vec::new(),
            max_payload: MAX_PAYLOAD,
            window: WINDOW,
            credit: CreditMode::Automatic,
            max_queued: 256,
            accept_timeout_ms: 10_000,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(30), Jitter::Around(50)),
        }
    }
}

/// Who decides that received output has been consumed and its credit may be returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditMode {
    /// Output counts as consumed when it is delivered.
    Automatic,
    /// The user calls `consumed`; until then a slow reader holds up its own request only.
    Manual,
}

/// What applies to the connection now.
#[derive(Debug, Clone)]
pub(super) struct Agreed {
    pub(super) features: Features,
    pub(super) enc: Enc,
    pub(super) max_payload: usize,
    pub(super) max_message: usize,
    pub(super) max_inflight: usize,
    pub(super) window: u64,
    pub(super) heartbeat: Duration,
}

impl Agreed {
    /// Nothing agreed: the bare profile.
    pub(super) fn bare(config: &ClientConfig) -> Self {
        Self {
            features: Features::BARE,
            enc: config.enc.first().copied().unwrap_or(Enc::Msgpack),
            max_payload: MAX_PAYLOAD_BARE as usize,
            max_message: MAX_MESSAGE as usize,
            max_inflight: MAX_INFLIGHT_BARE,
            window: u64::from(WINDOW),
            heartbeat: HEARTBEAT,
        }
    }

    /// What an accept says; a feature that was never offered is not agreed.
    pub(super) fn from_accept(hello: &ServerHello, config: &ClientConfig) -> Self {
        let bare = Self::bare(config);
        let limits = hello.limits.unwrap_or_default();
        let size = |limit: Option<u32>, default: u32| limit.unwrap_or(default) as usize;
        let offered = hello.features.unwrap_or(Features::BARE).iter();
        Self {
            features: offered.filter(|feature| config.features.has(*feature)).collect(),
            enc: hello.enc.unwrap_or(bare.enc),
            max_payload: size(limits.max_payload, MAX_PAYLOAD),
            max_message: size(limits.max_message, MAX_MESSAGE),
            max_inflight: size(limits.max_inflight, MAX_INFLIGHT).max(1),
            window: u64::from(limits.window.unwrap_or(WINDOW).min(offered_window(config))),
            heartbeat: hello.heartbeat_s.map_or(HEARTBEAT, |s| Duration::from_secs(s.clamp(5, 300).into())),
        }
    }
}

/// The window that a HELLO offers.
pub(super) fn offered_window(config: &ClientConfig) -> u32 {
    config.window.clamp(WINDOW_LEAST, WINDOW_MOST)
}

const WINDOW: u32 = 256 << 10;
const WINDOW_LEAST: u32 = 16 << 10;
const WINDOW_MOST: u32 = 16 << 20;
const MAX_INFLIGHT: u32 = 64;
const MAX_INFLIGHT_BARE: usize = 16;
const HEARTBEAT: Duration = Duration::from_secs(30);
