//! A peer of VIP on its WebSocket, written from the reference alone. It types, and shows a small screen.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Outcome, Run, Stop, must};
use super::super::inbox::Inbox;
use crate::clock;
use crate::probe::{Over, PATIENCE, Received, Request, Socket};

pub(super) const SESSIONS: &str = "/v1/vip/sessions";

/// A request for a session in development.
pub(super) fn request() -> Value {
    json!({
        "protocol_versions": ["0.1"],
        "environment": "development",
        "mode": "external",
        "app_id": "conform",
        "client": { "name": "conform", "version": "1", "platform": "other" },
        "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] },
    })
}

/// Creates a session: what the server answered.
pub(super) async fn create(run: &Run<'_>, members: &Value) -> Outcome<Value> {
    let mut body = request();
    for (name, value) in members.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let answer = run.ask(Request::post(SESSIONS, &body).without_key()).await?;
    if answer.status == 403 && answer.json()["error"]["code"] == "AUTH_ENVIRONMENT_FORBIDDEN" {
        return Err(Stop::needs("a server that allows sessions in development (vip.allow_development)"));
    }
    must!(answer.status == 201, "201 for a new session, got {} {}", answer.status, answer.body);
    Ok(answer.json())
}

/// A small screen.
pub(super) fn screen(version: u64) -> Value {
    let button =
        |description: &str| json!({ "type": "button", "description": description, "element_id": "b" });
    let mut quick = button("Has to be quick");
    quick["timeout_ms"] = 500.into();
    let mut order = button("Places the order");
    order["sensitive"] = true.into();
    json!({
        "mode": "full",
        "context_version": version,
        "route": { "id": "home" },
        "routes": [{ "target": "/orders" }],
        "narration": "A shop with a few buttons.",
        "actions": {
            "nav": { "type": "navigation", "description": "Goes to a page" },
            "cart.add": button("Puts something into the cart"),
            "hidden.press": button("Is not on the screen"),
            "quick.press": quick,
            "order.place": order,
            "secret.fill": { "type": "input", "description": "The password", "element_id": "p", "input_type": "password" },
        },
        "visibility": ["cart.add", "quick.press", "order.place", "secret.fill", "nav"],
    })
}

/// A session and its transport.
pub(super) struct Call<'run> {
    socket: Socket,
    inbox: VecDeque<Value>,
    /// What the server said when it made the session.
    pub(super) created: Value,
    seq: u64,
    /// The last number that the server has used.
    pub(super) last_seq: u64,
    /// The last state that the server has told, and its number.
    pub(super) state: String,
    pub(super) state_seq: u64,
    /// Whether what comes may be told again, of states that were left long ago.
    replaying: bool,
    run: &'run Run<'run>,
}

impl<'run> Call<'run> {
    /// A transport of a session, before anything is said.
    pub(super) async fn open(run: &'run Run<'run>, created: &Value) -> Outcome<Self> {
        let token = created["session_token"].as_str().unwrap_or_default();
        let path = format!("{SESSIONS}/{}/stream", created["session_id"].as_str().unwrap_or_default());
        let upgrade = Request::upgrade(path, &["vip.v1"]).header("authorization", &format!("Bearer {token}"));
        let socket = run.socket(upgrade).await?;
        Ok(Self {
            socket,
            inbox: VecDeque::new(),
            created: created.clone(),
            seq: 0,
            last_seq: 0,
            state: "connecting".to_owned(),
            state_seq: 0,
            replaying: false,
            run,
        })
    }

    /// A session that is connected, and whose screen is not known.
    pub(super) async fn connected(run: &'run Run<'run>) -> Outcome<(Self, Value)> {
        let created = create(run, &json!({})).await?;
        let mut call = Self::open(run, &created).await?;
        let connected = call.connect(json!({})).await?;
        Ok((call, connected))
    }

    /// A session that is idle.
    pub(super) async fn idle(run: &'run Run<'run>) -> Outcome<Self> {
        Self::idle_with(run, &json!({})).await
    }

    /// The same, asked for with other members.
    pub(super) async fn idle_with(run: &'run Run<'run>, members: &Value) -> Outcome<Self> {
        let created = create(run, members).await?;
        let mut call = Self::open(run, &created).await?;
        call.connect(json!({})).await?;
        call.show(1).await?;
        Ok(call)
    }

    /// `client.connect`, and what it is answered with.
    pub(super) async fn connect(&mut self, members: Value) -> Outcome<Value> {
        let mut data = json!({ "session_id": self.created["session_id"], "protocol_version": "0.1" });
        for (name, value) in members.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        self.send("client.connect", data).await?;
        let first = self.wait("session.connected", |_| true).await?;
        must!(first["type"] == "session.connected", "session.connected first, got {first}");
        self.replaying = first["data"]["resumed"] == true;
        Ok(first)
    }

    /// Shows the first screen.
    pub(super) async fn show(&mut self, version: u64) -> Outcome {
        self.send("state.update", screen(version)).await?;
        self.event("state.ack").await?;
        self.event("server.ready").await?;
        self.until("idle").await
    }

    /// Sends an event.
    pub(super) async fn send(&mut self, kind: &str, data: Value) -> Outcome {
        self.send_with(kind, data, &json!({})).await
    }

    /// Sends an event with more around its data.
    pub(super) async fn send_with(&mut self, kind: &str, data: Value, around: &Value) -> Outcome {
        self.seq += 1;
        let now = clock::now().as_millis();
        let mut event = json!({ "type": kind, "id": format!("c-{}", self.run.fresh()?), "seq": self.seq, "ts": now,
            "state_seq": self.state_seq, "data": data });
        for (name, value) in around.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        self.socket.text(&event.to_string()).await;
        Ok(())
    }

    /// Sends a binary frame.
    pub(super) async fn frame(&mut self, bytes: Vec<u8>) {
        self.socket.binary(bytes, "an audio frame").await;
    }

    /// Every state is one of the seven, follows the one before, and is counted by one.
    fn note(&mut self, event: &Value) -> Outcome {
        self.last_seq = event["seq"].as_u64().unwrap_or_default().max(self.last_seq);
        if event["type"] != "state.changed" || self.replaying {
            return Ok(());
        }
        let (state, previous) =
            (event["data"]["state"].as_str().unwrap_or_default(), &event["data"]["previous"]);
        must!(STATES.contains(&state), "one of the seven states, got {event}");
        must!(*previous == self.state.as_str(), "previous {}, got {event}", self.state);
        let number = event["data"]["state_seq"].as_u64().unwrap_or_default();
        must!(number == self.state_seq + 1, "state_seq {}, got {event}", self.state_seq + 1);
        state.clone_into(&mut self.state);
        self.state_seq = number;
        Ok(())
    }

    /// The next event of a kind: its data.
    pub(super) async fn event(&mut self, kind: &str) -> Outcome<Value> {
        Ok(self.wait(kind, |event| event["type"] == kind).await?["data"].clone())
    }

    /// A recoverable error with this code.
    pub(super) async fn error(&mut self, code: &str) -> Outcome<Value> {
        let error = self.event("error.recoverable").await?;
        must!(error["code"] == code, "{code}, got {error}");
        Ok(error)
    }

    /// That this state is reached.
    pub(super) async fn until(&mut self, state: &str) -> Outcome {
        let reached = |event: &Value| event["type"] == "state.changed" && event["data"]["state"] == state;
        self.wait(&format!("the state {state}"), reached).await?;
        Ok(())
    }

    /// Takes the floor by typing: the turn.
    pub(super) async fn take_the_floor(&mut self) -> Outcome<String> {
        let turn = format!("t-{}", self.run.fresh()?);
        self.send_with(
            "input.start",
            json!({ "mode": "text", "trigger": "text" }),
            &json!({ "turn_id": turn }),
        )
        .await?;
        self.until("user_speaking").await?;
        Ok(turn)
    }

    /// Types something, until the server thinks.
    pub(super) async fn say(&mut self, text: &str) -> Outcome {
        let turn = self.take_the_floor().await?;
        let around = json!({ "turn_id": turn });
        self.send_with("input.text", json!({ "text": text }), &around).await?;
        self.send_with("input.end", json!({ "reason": "text" }), &around).await?;
        self.until("ai_thinking").await
    }

    /// The end of the next answer, whose playback is reported.
    pub(super) async fn answer(&mut self) -> Outcome<Value> {
        self.until("ai_speaking").await?;
        let done = self.event("response.done").await?;
        self.send("audio.complete", json!({ "response_id": done["response_id"], "played_ms": 1 })).await?;
        self.until("idle").await?;
        Ok(done)
    }

    /// Has the agent ask the app for something: the invocation.
    pub(super) async fn invoked(&mut self, text: &str) -> Outcome<Value> {
        self.say(text).await?;
        let invocation = self.event("action.invoke").await?;
        self.until("invoke_action").await?;
        Ok(invocation)
    }

    /// Tells what came of an invocation.
    pub(super) async fn result(&mut self, invocation: &Value, members: &Value) -> Outcome {
        let kind = if invocation["type"] == "navigation" { "navigation" } else { "action" };
        let mut data = json!({ "invocation_id": invocation["invocation_id"], "action_id": invocation["action_id"], "status": "success",
            "event": format!("{kind}.success"), "executed": true, "duration_ms": 1 });
        for (name, value) in members.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        self.send_with("action.result", data, &json!({ "role": "user" })).await
    }

    /// That it still serves: a ping of the application is answered.
    pub(super) async fn still_serves(&mut self) -> Outcome {
        self.send("session.ping", json!({ "nonce": "x" })).await?;
        self.event("session.pong").await?;
        Ok(())
    }

    /// That the server closes with this code; the events before.
    pub(super) async fn closed(&mut self, code: u16) -> Outcome<Vec<Value>> {
        let end = Instant::now() + PATIENCE;
        let mut events: Vec<Value> = self.inbox.drain(..).collect();
        loop {
            match self.read(end).await? {
                Ok(event) => events.push(event),
                Err(Over::Closed(closed)) if closed == code => return Ok(events),
                Err(over) => return Err(Stop::fault(format!("expected a close with {code}: {over}"))),
            }
        }
    }

    /// An HTTP request about the session, with its token.
    pub(super) fn about(&self, method: &'static str, rest: &str) -> Request {
        let (id, token) = (self.created["session_id"].as_str(), self.created["session_token"].as_str());
        let path = format!("{SESSIONS}/{}{rest}", id.unwrap_or_default());
        Request::new(method, path).header("authorization", &format!("Bearer {}", token.unwrap_or_default()))
    }

    /// Hangs up.
    pub(super) async fn hang_up(mut self) -> Outcome {
        self.send("session.close", json!({ "reason": "user_hangup" })).await?;
        self.event("session.terminated").await?;
        self.socket.close().await;
        Ok(())
    }

    /// Goes away without a word.
    pub(super) fn cut(self) {
        self.socket.cut();
    }
}

impl Inbox for Call<'_> {
    type Message = Value;

    fn inbox(&mut self) -> &mut VecDeque<Value> {
        &mut self.inbox
    }

    async fn read(&mut self, end: Instant) -> Outcome<Result<Value, Over>> {
        loop {
            match self.socket.next_until(end).await {
                Ok(Received::Text(text)) => {
                    let event: Value = serde_json::from_str(&text)
                        .map_err(|error| Stop::fault(format!("an event that is no JSON: {error}")))?;
                    self.note(&event)?;
                    return Ok(Ok(event));
                }
                Ok(Received::Binary(_) | Received::Ping | Received::Pong) => {}
                Err(over) => return Ok(Err(over)),
            }
        }
    }
}

const STATES: [&str; 7] =
    ["not_connected", "connecting", "idle", "user_speaking", "ai_thinking", "ai_speaking", "invoke_action"];
