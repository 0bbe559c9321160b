//! HELLO in both directions (§5).

use std::fmt;

use super::features::{Feature, Features};
use super::fields::{Fields, Required as _, number as as_number};
use super::tool::ToolDef;
use super::wire::Enc;
use super::{Reason, tool};
use crate::codec::Payload;
use crate::error::FieldError;
use crate::value::{Map, Value};

/// HELLO from a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Hello {
    /// What it is for.
    pub op: HelloOp,
    /// Frame versions the client speaks.
    pub ver: Vec<u64>,
    /// Features by name, in the client's order, unknown ones included.
    pub features: Vec<String>,
    /// Encodings in order of preference; unknown ones are dropped.
    pub enc: Vec<Enc>,
    /// Who is asking.
    pub client: Option<ClientInfo>,
    /// What the client can receive.
    pub limits: Option<ClientLimits>,
    /// Client-executed tools.
    pub tools: Option<Vec<ToolDef>>,
    /// Resume of an earlier connection.
    pub resume: Option<ResumeRequest>,
    /// Nonce of a ping.
    pub nonce: Option<String>,
    /// New credential of an auth.
    pub token: Option<Secret>,
}

impl Hello {
    /// A HELLO of this kind with every member at its default.
    pub fn new(op: HelloOp) -> Self {
        Self {
            op,
            ver: vec![1],
            features: Vec::new(),
            enc: vec![Enc::Msgpack],
            client: None,
            limits: None,
            tools: None,
            resume: None,
            nonce: None,
            token: None,
        }
    }

    /// Reads a payload; anything but a map counts as a hello with no features (ASP-023).
    pub fn from_payload(payload: Payload) -> Result<Self, FieldError> {
        match payload {
            Payload::Value(Value::Map(map)) => Self::from_map(map),
            Payload::Value(_) | Payload::None | Payload::Text(_) | Payload::Raw(_) => {
                Ok(Self::new(HelloOp::Hello))
            }
        }
    }

    /// Reads a map.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let op = fields.name("op", HelloOp::from_name, HelloOp::NAMES)?.unwrap_or(HelloOp::Hello);
        let mut hello = Self::new(op);
        if let Some(versions) = fields.list("ver")? {
            let read = |version: &Value| as_number(version, "ver", 0..=u64::from(u32::MAX));
            hello.ver = versions.iter().map(read).collect::<Result<_, _>>()?;
        }
        hello.features = fields.texts("features")?.unwrap_or_default();
        if let Some(names) = fields.texts("enc")? {
            hello.enc = names.iter().filter_map(|name| Enc::from_name(name)).collect();
        }
        hello.client = fields.nested("client", ClientInfo::read)?;
        hello.limits = fields.nested("limits", ClientLimits::read)?;
        hello.tools = fields.list("tools")?.map(|tools| tool::read_tools(tools, "tools")).transpose()?;
        // One that cannot be read is refused as one that names nothing, and takes nothing else with it (§13.2).
        let resume = fields.nested("resume", ResumeRequest::read);
        hello.resume = resume.unwrap_or_else(|_| Some(ResumeRequest::of_nothing()));
        hello.nonce = fields.text("nonce", 64)?;
        hello.token = fields.text("token", usize::MAX)?.map(Secret::new);
        Ok(hello)
    }

    /// Writes a map; `ver`, `features` and `enc` only where they mean something.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        if self.op == HelloOp::Hello {
            map.insert("ver", Value::Array(self.ver.iter().copied().map(Value::count).collect()));
            map.insert("features", texts(&self.features));
            map.insert("enc", Value::Array(self.enc.iter().map(|enc| enc.name().into()).collect()));
        } else {
            map.insert("op", self.op.name());
        }
        map.insert_some("client", self.client.as_ref().map(ClientInfo::to_map));
        map.insert_some("limits", self.limits.map(ClientLimits::to_map));
        map.insert_some("tools", self.tools.as_deref().map(tool::write_tools));
        map.insert_some("resume", self.resume.as_ref().map(ResumeRequest::to_map));
        map.insert_some("nonce", self.nonce.clone());
        map.insert_some("token", self.token.as_ref().map(Secret::expose));
        map
    }
}

names! {
    /// What a client HELLO is for.
    HelloOp {
        /// Negotiation.
        Hello = "hello",
        /// End-to-end liveness.
        Ping = "ping",
        /// A new credential.
        Auth = "auth",
        /// Leaving for good.
        Bye = "bye",
    }
}

/// `client` of HELLO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it runs.
    pub platform: Option<String>,
}

impl ClientInfo {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name", 64)?.required("name")?,
            version: fields.text("version", 32)?.required("version")?,
            platform: fields.text("platform", 32)?,
        })
    }

    fn to_map(&self) -> Map {
        let mut map = Map::new().with("name", self.name.as_str()).with("version", self.version.as_str());
        map.insert_some("platform", self.platform.as_deref());
        map
    }
}

/// `limits` of a client HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientLimits {
    /// Largest payload it accepts.
    pub max_payload: Option<u32>,
    /// Window per request.
    pub window: Option<u32>,
}

impl ClientLimits {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self { max_payload: fields.small("max_payload")?, window: fields.small("window")? })
    }

    fn to_map(self) -> Map {
        let mut map = Map::new();
        map.insert_some("max_payload", self.max_payload);
        map.insert_some("window", self.window);
        map
    }
}

/// `resume` of a client HELLO (§13.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeRequest {
    /// The connection to come back to.
    pub cid: String,
    /// Its single-use token.
    pub token: Secret,
    /// Per request id, the first index `n` wanted.
    pub next: Vec<(u16, u64)>,
}

impl ResumeRequest {
    fn of_nothing() -> Self {
        Self { cid: String::new(), token: Secret::new(String::new()), next: Vec::new() }
    }

    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        let cid = fields.text("cid", 64)?.required("cid")?;
        let token = Secret::new(fields.text("token", usize::MAX)?.required("token")?);
        let mut next = Vec::new();
        for (key, value) in fields.map("next")?.unwrap_or_default() {
            let id = key.parse::<u16>().ok().filter(|id| *id != 0 && id.to_string() == key);
            let id = id.ok_or_else(|| FieldError::new("next", Reason::Pattern("decimal request id")))?;
            next.push((id, as_number(&value, "next", 0..=u64::MAX)?));
        }
        Ok(Self { cid, token, next })
    }

    fn to_map(&self) -> Map {
        let next: Map = self.next.iter().map(|(id, n)| (id.to_string(), Value::count(*n))).collect();
        Map::new().with("cid", self.cid.as_str()).with("token", self.token.expose()).with("next", next)
    }
}

/// HELLO from a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerHello {
    /// What it is for.
    pub op: ServerHelloOp,
    /// Agreed frame version.
    pub ver: Option<u32>,
    /// ConnectionId.
    pub cid: Option<String>,
    /// Agreed features.
    pub features: Option<Features>,
    /// Agreed encoding.
    pub enc: Option<Enc>,
    /// What the server enforces.
    pub limits: Option<ServerLimits>,
    /// Silence after which the server pings.
    pub heartbeat_s: Option<u32>,
    /// How to come back.
    pub resume: Option<ResumeGrant>,
    /// Whether this is the old connection again.
    pub resumed: Option<bool>,
    /// Requests that could not be replayed.
    pub lost: Option<Vec<u16>>,
    /// Who answers.
    pub server: Option<ServerInfo>,
    /// Nonce of a pong.
    pub nonce: Option<String>,
    /// Unix seconds at which the new credential expires.
    pub exp: Option<u64>,
    /// When to come back after a goaway.
    pub retry_ms: Option<u64>,
    /// Why a goaway.
    pub reason: Option<String>,
}

impl ServerHello {
    /// A HELLO of this kind with nothing else in it.
    pub fn new(op: ServerHelloOp) -> Self {
        Self {
            op,
            ver: None,
            cid: None,
            features: None,
            enc: None,
            limits: None,
            heartbeat_s: None,
            resume: None,
            resumed: None,
            lost: None,
            server: None,
            nonce: None,
            exp: None,
            retry_ms: None,
            reason: None,
        }
    }

    /// Reads a map.
    pub fn from_map(map: Map) -> Result<Self, FieldError> {
        let mut fields = Fields::new(map);
        let op = fields.name("op", ServerHelloOp::from_name, ServerHelloOp::NAMES)?.required("op")?;
        let mut hello = Self::new(op);
        hello.ver = fields.small("ver")?;
        hello.cid = fields.text("cid", 64)?;
        if hello.cid.as_deref().is_some_and(|cid| !is_connection_id(cid)) {
            return Err(FieldError::new("cid", Reason::Pattern("[A-Za-z0-9_-]{16,64}")));
        }
        hello.features = fields
            .texts("features")?
            .map(|names| names.iter().filter_map(|name| Feature::from_name(name)).collect());
        hello.enc = fields.name("enc", Enc::from_name, Enc::NAMES)?;
        hello.limits = fields.nested("limits", ServerLimits::read)?;
        hello.heartbeat_s = fields.small("heartbeat_s")?;
        hello.resume = fields.nested("resume", ResumeGrant::read)?;
        hello.resumed = fields.boolean("resumed")?;
        if let Some(lost) = fields.list("lost")? {
            let read = |id: &Value| {
                let number = as_number(id, "lost", 1..=u64::from(u16::MAX))?;
                u16::try_from(number).map_err(|_| FieldError::new("lost", Reason::Type("request ids")))
            };
            hello.lost = Some(lost.iter().map(read).collect::<Result<_, _>>()?);
        }
        hello.server = fields.nested("server", ServerInfo::read)?;
        hello.nonce = fields.text("nonce", 64)?;
        hello.exp = fields.count("exp")?;
        hello.retry_ms = fields.count("retry_ms")?;
        hello.reason = fields.text("reason", usize::MAX)?;
        Ok(hello)
    }

    /// Writes a map.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new().with("op", self.op.name());
        map.insert_some("ver", self.ver);
        map.insert_some("cid", self.cid.as_deref());
        let names = |set: Features| Value::Array(set.iter().map(|feature| feature.name().into()).collect());
        map.insert_some("features", self.features.map(names));
        map.insert_some("enc", self.enc.map(Enc::name));
        map.insert_some("limits", self.limits.map(ServerLimits::to_map));
        map.insert_some("heartbeat_s", self.heartbeat_s);
        map.insert_some("resume", self.resume.as_ref().map(ResumeGrant::to_map));
        map.insert_some("resumed", self.resumed);
        let ids = |ids: &Vec<u16>| Value::Array(ids.iter().copied().map(Value::from).collect());
        map.insert_some("lost", self.lost.as_ref().map(ids));
        map.insert_some("server", self.server.as_ref().map(ServerInfo::to_map));
        map.insert_some("nonce", self.nonce.as_deref());
        map.insert_some("exp", self.exp.map(Value::count));
        map.insert_some("retry_ms", self.retry_ms.map(Value::count));
        map.insert_some("reason", self.reason.as_deref());
        map
    }
}

names! {
    /// What a server HELLO is for.
    ServerHelloOp {
        /// A relay introduces itself.
        Greet = "greet",
        /// Answer to a client's hello.
        Accept = "accept",
        /// Answer to ping.
        Pong = "pong",
        /// Answer to auth.
        Authed = "authed",
        /// The server is leaving.
        Goaway = "goaway",
    }
}

/// `limits` of a server HELLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerLimits {
    /// Largest assembled payload.
    pub max_payload: Option<u32>,
    /// Largest WebSocket message.
    pub max_message: Option<u32>,
    /// Most concurrent requests.
    pub max_inflight: Option<u32>,
    /// Window per request.
    pub window: Option<u32>,
    /// Frames per second.
    pub frames_per_s: Option<u32>,
    /// INVOKEs per second.
    pub invokes_per_s: Option<u32>,
}

impl ServerLimits {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            max_payload: fields.small("max_payload")?,
            max_message: fields.small("max_message")?,
            max_inflight: fields.small("max_inflight")?,
            window: fields.small("window")?,
            frames_per_s: fields.small("frames_per_s")?,
            invokes_per_s: fields.small("invokes_per_s")?,
        })
    }

    fn to_map(self) -> Map {
        let mut map = Map::new();
        map.insert_some("max_payload", self.max_payload);
        map.insert_some("max_message", self.max_message);
        map.insert_some("max_inflight", self.max_inflight);
        map.insert_some("window", self.window);
        map.insert_some("frames_per_s", self.frames_per_s);
        map.insert_some("invokes_per_s", self.invokes_per_s);
        map
    }
}

/// `resume` of a server HELLO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeGrant {
    /// Single-use token.
    pub token: Secret,
    /// How long the server waits.
    pub window_s: u32,
}

impl ResumeGrant {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            token: Secret::new(fields.text("token", usize::MAX)?.required("token")?),
            window_s: fields.small("window_s")?.required("window_s")?,
        })
    }

    fn to_map(&self) -> Map {
        Map::new().with("token", self.token.expose()).with("window_s", self.window_s)
    }
}

/// `server` of a server HELLO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Direct or relay.
    pub mode: ServerMode,
}

impl ServerInfo {
    fn read(mut fields: Fields) -> Result<Self, FieldError> {
        Ok(Self {
            name: fields.text("name", usize::MAX)?.required("name")?,
            version: fields.text("version", usize::MAX)?.required("version")?,
            mode: fields.name("mode", ServerMode::from_name, ServerMode::NAMES)?.required("mode")?,
        })
    }

    fn to_map(&self) -> Map {
        Map::new()
            .with("name", self.name.as_str())
            .with("version", self.version.as_str())
            .with("mode", self.mode.name())
    }
}

names! {
    /// What terminates the socket.
    ServerMode {
        /// The agent runtime itself.
        Direct = "direct",
        /// A relay in front of functions.
        Relay = "relay",
    }
}

/// A token; its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

fn is_connection_id(cid: &str) -> bool {
    (16..=64).contains(&cid.len())
        && cid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn texts(texts: &[String]) -> Value {
    Value::Array(texts.iter().map(|text| text.as_str().into()).collect())
}
