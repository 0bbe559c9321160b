//! A client that speaks the wire by hand, written from the reference alone, and a server whose agent is a
//! puppet.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::device::PATIENCE;
use crate::puppet::{Scene, Scenes, puppet};
use crate::support::rpc::http;
use crate::support::wire::Over;
use crate::support::{InProcess, config};

/// A server whose agent does what the test says.
pub(crate) struct Stage {
    pub(crate) server: InProcess,
    pub(crate) scenes: Scenes,
}

impl Stage {
    /// A server on which developers need no token, and nothing is spoken aloud.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let basic = [
            "vip.allow_development=true",
            "vip.limits.sessions=1000",
            "voice.recogniser=none",
            "voice.synthesiser=none",
            "vip.webrtc.enabled=false",
        ];
        let settings: Vec<&str> = basic.iter().chain(settings).copied().collect();
        let (agent, scenes) = puppet();
        Self { server: InProcess::with_agent(agent, &settings).await, scenes }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// A client in a session that is idle.
    pub(crate) async fn idle(&self) -> Client {
        Client::idle(self.address(), tree(1)).await
    }

    /// A client that has asked something, and the turn of the agent.
    pub(crate) async fn asked(&mut self, text: &str) -> (Client, Scene) {
        let mut client = self.idle().await;
        client.say(text).await;
        let scene = self.scenes.next().await;
        assert_eq!(scene.request, text);
        (client, scene)
    }

    /// A client whose application was asked to do something: the invocation, and how the agent waits.
    pub(crate) async fn acting(
        &mut self,
        action: &str,
        args: Value,
    ) -> (Client, Scene, crate::puppet::Called, Value) {
        let (mut client, scene) = self.asked("do it").await;
        let called = scene.call(action, args, PATIENCE);
        let invoke = client.expect("action.invoke").await;
        client.changed("invoke_action").await;
        (client, scene, called, invoke)
    }
}

/// The defaults that a test starts from are those of the server.
pub(crate) fn is_valid(settings: &[&str]) -> bool {
    let data = tempfile::tempdir().unwrap();
    config(data.path(), settings).vip.enabled
}

/// A screen with one action of each kind.
pub(crate) fn tree(version: u64) -> Value {
    let count =
        json!({ "type": "object", "required": ["count"], "properties": { "count": { "type": "integer" } } });
    json!({
        "mode": "full", "context_version": version, "route": { "id": "shop" },
        "routes": [{ "target": "home" }, { "target": "settings" }],
        "narration": format!("The shop, version {version}."),
        "actions": {
            "nav.go": { "type": "navigation", "description": "Open a page", "global": true },
            "cart.add": { "type": "button", "description": "Add", "element_id": "add", "parameters": count },
            "help.open": { "type": "button", "description": "Help", "element_id": "help", "global": true },
            "hidden.press": { "type": "button", "description": "Hidden", "element_id": "hidden" },
            "off.press": { "type": "button", "description": "Off", "element_id": "off", "enabled": false },
            "music.play": { "type": "button", "description": "Music", "element_id": "music", "parallel": true },
            "quick.press": { "type": "button", "description": "Quick", "element_id": "quick", "timeout_ms": 300 },
            "once.press": { "type": "button", "description": "Once", "element_id": "once", "timeout_ms": 300,
                "idempotent": false },
            "secret.fill": { "type": "input", "description": "Password", "element_id": "pw",
                "input_type": "password" },
            "order.cancel": { "type": "button", "description": "Cancel", "element_id": "cancel",
                "sensitive": true, "confirmation": { "prompt": "Cancel?", "channels": ["ui"] } },
        },
        "visibility": ["cart.add", "off.press", "music.play", "quick.press", "once.press", "secret.fill",
            "order.cancel"],
    })
}

/// Answers a request over HTTP.
pub(crate) async fn ask(
    address: SocketAddr,
    request: &str,
    token: Option<&str>,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = http(address, request, token, &["Content-Type: application/json"], body).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

/// One transport of a session.
pub(crate) struct Client {
    address: SocketAddr,
    socket: WebSocketStream<TcpStream>,
    inbox: VecDeque<Value>,
    /// What E3 answered.
    pub(crate) session: Value,
    /// Its resume token.
    pub(crate) resume: Value,
    /// The last event that it has sent.
    pub(crate) seq: u64,
    /// The last event that it has received.
    pub(crate) seen: u64,
    pub(crate) state_seq: u64,
    /// Everything that has come, in its order.
    pub(crate) log: Vec<Value>,
    count: u64,
}

impl Client {
    /// A new session, before `client.connect`.
    pub(crate) async fn create(address: SocketAddr, more: &Value) -> Self {
        let mut request = json!({
            "protocol_versions": ["0.1"], "environment": "development", "mode": "external", "app_id": "shop",
            "client": { "name": "test", "version": "1", "platform": "other" },
            "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] },
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        let (status, session) = ask(address, "POST /v1/vip/sessions", None, &request).await;
        assert_eq!(status, 201, "{session}");
        let socket = Self::dial(address, &session).await.expect("an upgrade");
        Self {
            address,
            socket,
            inbox: VecDeque::new(),
            session,
            resume: Value::Null,
            seq: 0,
            seen: 0,
            state_seq: 0,
            log: Vec::new(),
            count: 0,
        }
    }

    /// One more transport of a session.
    pub(crate) async fn dial(address: SocketAddr, session: &Value) -> Option<WebSocketStream<TcpStream>> {
        let path = format!("ws://{address}/v1/vip/sessions/{}/stream", session["session_id"].as_str()?);
        let mut request = path.into_client_request().unwrap();
        let token = format!("Bearer {}", session["session_token"].as_str()?);
        request.headers_mut().insert("Authorization", token.parse().unwrap());
        request.headers_mut().insert("Sec-WebSocket-Protocol", "vip.v1".parse().unwrap());
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).unwrap();
        Some(tokio_tungstenite::client_async(request, stream).await.ok()?.0)
    }

    /// A session that is idle.
    pub(crate) async fn idle(address: SocketAddr, tree: Value) -> Self {
        let mut client = Self::create(address, &Value::Null).await;
        client.connect(&Value::Null).await;
        client.ready(tree).await;
        client
    }

    pub(crate) async fn connect(&mut self, resume: &Value) -> Value {
        let mut data = json!({ "session_id": self.session["session_id"], "protocol_version": "0.1" });
        if !resume.is_null() {
            data["resume"] = resume.clone();
        }
        self.send("client.connect", data).await;
        let connected = self.expect("session.connected").await;
        self.resume = connected["data"]["resume_token"].clone();
        connected
    }

    pub(crate) async fn ready(&mut self, tree: Value) {
        self.send("state.update", tree).await;
        self.expect("state.ack").await;
        self.expect("server.ready").await;
        self.changed("idle").await;
    }

    /// The transport is lost, and there is another.
    pub(crate) async fn come_back(&mut self, tree: Value) -> Value {
        self.lose().await;
        self.socket = Self::dial(self.address, &self.session).await.expect("an upgrade");
        self.inbox.clear();
        let resume = json!({ "resume_token": self.resume, "last_server_seq": self.seen });
        let connected = self.connect(&resume).await;
        assert_eq!(connected["data"]["resumed"], true, "{connected}");
        self.send("state.update", tree).await;
        self.until("server.ready").await;
        self.changed("idle").await;
        connected
    }

    /// The transport is gone without a word, and the server knows.
    pub(crate) async fn lose(&mut self) {
        let path = format!("GET /v1/vip/sessions/{}", self.session["session_id"].as_str().unwrap());
        let token = self.session["session_token"].as_str().unwrap().to_owned();
        // Dropped, a socket is closed without the closing handshake.
        let stream = TcpStream::connect(self.address).await.unwrap();
        let fresh = WebSocketStream::from_raw_socket(
            stream,
            tokio_tungstenite::tungstenite::protocol::Role::Client,
            None,
        )
        .await;
        drop(std::mem::replace(&mut self.socket, fresh));
        for _ in 0..600 {
            let (status, answer) = ask(self.address, &path, Some(&token), &Value::Null).await;
            if status != 200 || answer["connected"] == false {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("still connected");
    }

    /// Sends an event; its id.
    pub(crate) async fn send(&mut self, kind: &str, data: Value) -> String {
        self.send_in(kind, data, None).await
    }

    /// The same, of a turn.
    pub(crate) async fn send_in(&mut self, kind: &str, data: Value, turn: Option<&str>) -> String {
        self.seq += 1;
        let id = format!("c-{}", self.seq);
        let mut event = json!({
            "type": kind, "id": id, "seq": self.seq, "ts": 1_767_225_600_000u64, "state_seq": self.state_seq,
            "data": data,
        });
        if let Some(turn) = turn {
            event["turn_id"] = turn.into();
        }
        let _ = timeout(PATIENCE, self.socket.send(Message::text(event.to_string()))).await;
        id
    }

    /// What comes next, whatever it is.
    pub(crate) async fn try_next(&mut self) -> Result<Value, Over> {
        if let Some(event) = self.inbox.pop_front() {
            return Ok(event);
        }
        let next = async {
            loop {
                match self.socket.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Ok(serde_json::from_str::<Value>(&text).expect("JSON"));
                    }
                    Some(Ok(Message::Close(close))) => {
                        return Err(close.map_or(Over::Lost, |close| Over::Closed(close.code.into())));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(Over::Lost),
                }
            }
        };
        let event = timeout(PATIENCE, next).await.unwrap_or(Err(Over::Late))?;
        self.seen = self.seen.max(event["seq"].as_u64().expect("a seq"));
        self.state_seq = event["state_seq"].as_u64().expect("a state_seq");
        self.log.push(event.clone());
        Ok(event)
    }

    /// What comes next that is no caption.
    pub(crate) async fn next(&mut self) -> Value {
        loop {
            let event = match self.try_next().await {
                Ok(event) => event,
                Err(over) => {
                    panic!("{over:?} after {:#?}", self.log.iter().rev().take(6).collect::<Vec<_>>())
                }
            };
            if event["type"] != "response.text.delta" {
                return event;
            }
        }
    }

    /// The next event is of this kind.
    pub(crate) async fn expect(&mut self, kind: &str) -> Value {
        let event = self.next().await;
        assert_eq!(
            event["type"],
            kind,
            "{event} after {:#?}",
            self.log.iter().rev().take(6).collect::<Vec<_>>()
        );
        event
    }

    /// The next event of this kind, whatever comes before.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await;
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// The next event signals this state.
    pub(crate) async fn changed(&mut self, state: &str) -> Value {
        let event = self.expect("state.changed").await;
        assert_eq!(event["data"]["state"], state, "{event}");
        event
    }

    /// The next event is an error with this code.
    pub(crate) async fn error(&mut self, code: &str) -> Value {
        let event = self.expect("error.recoverable").await;
        assert_eq!(event["data"]["code"], code, "{event}");
        event
    }

    /// Whatever was sent before is answered; what came.
    pub(crate) async fn barrier(&mut self) -> Vec<Value> {
        self.count += 1;
        let nonce = self.count.to_string();
        self.send("session.ping", json!({ "nonce": nonce })).await;
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            if event["type"] == "session.pong" && event["data"]["nonce"] == nonce.as_str() {
                return events;
            }
            events.push(event);
        }
    }

    /// Begins a typed turn; its id.
    pub(crate) async fn listen(&mut self) -> String {
        self.count += 1;
        let turn = format!("t-{}", self.count);
        self.send_in("input.start", json!({ "mode": "text", "trigger": "text" }), Some(&turn)).await;
        self.changed("user_speaking").await;
        turn
    }

    /// Ends it.
    pub(crate) async fn conclude(&mut self, turn: &str, text: &str) {
        self.send_in("input.text", json!({ "text": text }), Some(turn)).await;
        self.send_in("input.end", json!({ "reason": "text" }), Some(turn)).await;
        self.changed("ai_thinking").await;
        let complete = self.expect("input.complete").await;
        assert_eq!(complete["data"]["text"], text);
    }

    /// A typed turn, until the server thinks.
    pub(crate) async fn say(&mut self, text: &str) -> String {
        let turn = self.listen().await;
        self.conclude(&turn, text).await;
        turn
    }

    /// The server begins to answer; the response.
    pub(crate) async fn speaking(&mut self) -> String {
        let opened = self.expect("response.audio").await;
        self.changed("ai_speaking").await;
        opened["data"]["response_id"].as_str().unwrap().to_owned()
    }

    /// The answer is over; what was said.
    pub(crate) async fn finished(&mut self, response: &str) -> String {
        let done = self.until("response.done").await;
        assert_eq!(
            (&done["data"]["response_id"], &done["data"]["status"]),
            (&json!(response), &json!("complete"))
        );
        self.send("audio.complete", json!({ "response_id": response, "played_ms": 0 })).await;
        self.changed("idle").await;
        done["data"]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// A barge-in; the new turn.
    pub(crate) async fn barge_in(&mut self) -> String {
        self.count += 1;
        let turn = format!("t-{}", self.count);
        self.send_in("input.barge_in", json!({ "trigger": "manual", "played_ms": 0 }), Some(&turn)).await;
        turn
    }

    /// The result of an action.
    pub(crate) async fn result(&mut self, invoke: &Value, more: &Value) -> String {
        let kind = if invoke["data"]["type"] == "navigation" { "navigation" } else { "action" };
        let mut data = json!({
            "invocation_id": invoke["data"]["invocation_id"], "action_id": invoke["data"]["action_id"],
            "status": "success", "event": format!("{kind}.success"), "executed": true, "duration_ms": 5,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        if data.get("error").is_some() {
            data["status"] = "error".into();
            data["event"] = format!("{kind}.failure").into();
            data["executed"] = false.into();
        }
        self.send("action.result", data).await
    }

    /// How the server ends the transport, and the last error that it gave.
    pub(crate) async fn over(&mut self) -> (Over, Value) {
        loop {
            if let Err(over) = self.try_next().await {
                let fatal = self.log.iter().rev().find(|event| event["type"] == "error.fatal");
                return (over, fatal.map_or(Value::Null, |event| event["data"]["code"].clone()));
            }
        }
    }

    /// The whole history.
    pub(crate) async fn history(&self) -> Vec<Value> {
        let path = format!(
            "GET /v1/vip/sessions/{}/history?limit=200",
            self.session["session_id"].as_str().unwrap()
        );
        let (status, answer) =
            ask(self.address, &path, self.session["session_token"].as_str(), &Value::Null).await;
        assert_eq!(status, 200, "{answer}");
        answer["items"].as_array().unwrap().clone()
    }
}
