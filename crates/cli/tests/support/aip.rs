//! Servers for peers of AIP, and a raw peer on tokio-tungstenite that is written from the reference
//! alone: the server's own codec is not asked.

use std::collections::VecDeque;
use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::rpc::{PATIENCE, http};
use super::wire::Over;

/// Principals by API key, whose scopes say who they may be and whom they may use (see
/// `tests/peers/python/aip_peer.py`), and one issuer of tokens.
pub(crate) const FLEET: &[&str] = &[
    "listen=127.0.0.1:0",
    // Whoever is not quick reads from the log, as slow peers do elsewhere.
    "limits.ring_events=1",
    "auth.api_keys=[\
        {id='ann',key_env='PEER_KEY_ANN',principal='ann'},\
        {id='bob',key_env='PEER_KEY_BOB',principal='bob'},\
        {id='lab',key_env='PEER_KEY_LAB',principal='lab',scopes=['device:lab-*','read']},\
        {id='boss',key_env='PEER_KEY_BOSS',principal='boss',\
            scopes=['constellation:boss-*','target:lab-*','dispatch','read']},\
        {id='scout',key_env='PEER_KEY_SCOUT',principal='scout',scopes=['constellation:scout-*','target:lab-1*']},\
        {id='mute',key_env='PEER_KEY_MUTE',principal='mute',scopes=['target:lab-*']},\
        {id='admin',key_env='PEER_KEY_ADMIN',principal='admin',scopes=['connect','invoke','admin']}]",
    "auth.jwt=[{issuer='https://issuer.test',audience='https://switchboard.test',algorithm='HS256',\
        secret_env='PEER_JWT_SECRET',leeway_s=0,\
            default_scopes=['connect','read','invoke','tools','approve','manage','dispatch']}]",
    "aip.limits.refusals_per_minute=100000",
];

/// Tasks are planned by the deterministic planner of the reference.
pub(crate) const PLANNED: &[&str] = &["aip.test_planner=true"];

/// Little room and little patience.
pub(crate) const TIGHT: &[&str] = &[
    "aip.limits.max_message=1048576",
    "aip.limits.max_first_message=65536",
    "aip.limits.registration_s=3",
    "aip.limits.ping_s=1",
    "aip.limits.silence_s=6",
    "aip.limits.takeover_ms=3000",
    "aip.limits.refusals_per_minute=20",
    "aip.allow_untargeted=true",
    "limits.write_buffer_bytes=4194304",
];

/// A registered connection to `/ws`.
pub(crate) struct Link {
    socket: WebSocketStream<TcpStream>,
    inbox: VecDeque<Value>,
    name: String,
    target: Option<String>,
}

impl Link {
    /// Registers a device with a few facts.
    pub(crate) async fn device(address: SocketAddr, key: &str, name: &str) -> Self {
        let facts = json!({ "device_id": name, "platform": "linux", "cpu_count": 8 });
        let metadata = json!({ "platform": "linux", "system_info": facts });
        Self::register(address, key, name, None, metadata).await
    }

    /// Registers a constellation for a device.
    pub(crate) async fn constellation(address: SocketAddr, key: &str, name: &str, device: &str) -> Self {
        Self::register(address, key, name, Some(device.to_owned()), Value::Null).await
    }

    async fn register(
        address: SocketAddr,
        key: &str,
        name: &str,
        target: Option<String>,
        metadata: Value,
    ) -> Self {
        let request = format!("ws://{address}/ws?token={key}").into_client_request().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (socket, _) = match tokio_tungstenite::client_async(request, stream).await {
            Ok(opened) => opened,
            Err(Error::Http(response)) => panic!("refused with {}", response.status()),
            Err(error) => panic!("{error}"),
        };
        let mut link = Self { socket, inbox: VecDeque::new(), name: name.to_owned(), target };
        let target = link.target.clone();
        link.send("register", "ok", json!({ "target_id": target, "metadata": metadata })).await;
        let answer = link.next().await.expect("an answer");
        assert_eq!((&answer["type"], &answer["status"]), (&json!("heartbeat"), &json!("ok")), "{answer}");
        link
    }

    /// Sends a message; that the server is gone shows when something is read.
    pub(crate) async fn send(&mut self, kind: &str, status: &str, fields: Value) {
        let role = if self.target.is_some() { "constellation" } else { "device" };
        let mut message =
            json!({ "type": kind, "status": status, "client_type": role, "client_id": self.name });
        for (name, value) in fields.as_object().unwrap() {
            message[name] = value.clone();
        }
        let _ = self.socket.send(Message::text(message.to_string())).await;
    }

    /// Submits a task and waits until it is accepted.
    pub(crate) async fn task(&mut self, session: &str, request: &str) {
        self.submit(session, request).await;
        let ack = self.wait(|message| message["session_id"] == session).await;
        assert_eq!(ack["type"], "heartbeat", "{ack}");
    }

    pub(crate) async fn submit(&mut self, session: &str, request: &str) {
        let fields = json!({ "session_id": session, "request": request, "task_name": session,
            "target_id": self.target });
        self.send("task", "continue", fields).await;
    }

    /// Answers a command: each of its actions succeeded.
    pub(crate) async fn succeed(&mut self, command: &Value) {
        let actions = command["actions"].as_array().expect("actions");
        let results: Vec<Value> = actions
            .iter()
            .map(|action| json!({ "status": "success", "call_id": action["call_id"] }))
            .collect();
        let fields = json!({ "session_id": command["session_id"], "action_results": results,
            "prev_response_id": command["response_id"] });
        self.send("command_results", "continue", fields).await;
    }

    /// The next of a kind in a session; others are kept for later.
    pub(crate) async fn kind(&mut self, kind: &str, session: &str) -> Value {
        self.wait(|message| message["type"] == kind && message["session_id"] == session).await
    }

    pub(crate) async fn wait(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        let mut others = VecDeque::new();
        loop {
            let message = self.next().await.unwrap_or_else(|over| panic!("{over:?} instead; {others:?}"));
            if matches(&message) {
                others.append(&mut self.inbox);
                self.inbox = others;
                return message;
            }
            others.push_back(message);
        }
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Value, Over> {
        if let Some(message) = self.inbox.pop_front() {
            return Ok(message);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            match timeout_at(end, self.socket.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                Ok(Some(Ok(Message::Close(close)))) => {
                    return Err(close.map_or(Over::Lost, |close| Over::Closed(close.code.into())));
                }
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(_)) | None) => return Err(Over::Lost),
                Err(_) => return Err(Over::Late),
            }
        }
    }
}

/// A request for the deterministic planner: one command per turn of the plan.
pub(crate) fn script(tools: &[&str]) -> String {
    let command = |tool: &&str| json!([{ "tool_name": tool, "tool_type": "action", "parameters": {} }]);
    let turns: Vec<Value> = tools.iter().map(command).collect();
    format!("aip-script:{}", json!({ "turns": turns }))
}

/// A page of the admin API.
pub(crate) async fn admin(address: SocketAddr, key: &str, path: &str) -> Value {
    get(address, key, &format!("/admin/v1/{path}")).await
}

/// What can be read under a path.
pub(crate) async fn get(address: SocketAddr, key: &str, path: &str) -> Value {
    let answer = http(address, &format!("GET {path}"), Some(key), &[], "").await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}
