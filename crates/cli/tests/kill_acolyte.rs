//! The binary is killed in the middle of chats: those whose client has agreed to come back go on
//! without a hole, the others are gone without a trace.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::net::SocketAddr;

use serde_json::{Value, json};

use support::rpc::{Rpc, delta, is_terminal};
use support::wire::Over;
use support::{ANN, BASIC, BOB, GENEROUS, Served};

/// Chats at the same time, each on a connection of its own: a connection runs one.
const CHATS: usize = 50;
const WORDS: usize = 400;

/// Agents that take their time, so that a kill always finds them in the middle; a chat that names
/// one as its model is served by it.
const PACED: &[&str] = &["agents.paced.kind=echo", "agents.paced.delay_ms=20"];

/// One chat, what its client has of it, and what the client needs to come back.
struct Chat {
    number: usize,
    task: Value,
    /// Where the last event that is known as a whole was.
    after: u64,
    events: Vec<Value>,
    /// Events that came since then, and come again.
    unsettled: Vec<Value>,
    terminals: Vec<Value>,
}

impl Chat {
    fn key(&self) -> Option<&'static str> {
        if self.number.is_multiple_of(3) { BOB } else { ANN }
    }

    /// Half of them have a session of their own, half none.
    fn session(&self) -> Option<String> {
        self.number.is_multiple_of(2).then(|| format!("sess_kill{}", self.number))
    }

    /// Two kinds of agents; in both cases the text is known beforehand.
    fn request(&self) -> (String, Value, String) {
        let mut more = match self.session() {
            Some(session) => json!({ "sessionId": session }),
            None => json!({}),
        };
        if self.number % 4 < 2 {
            let text: String = (1..=WORDS).map(|word| format!("{word} ")).collect();
            return (format!("count {WORDS} every 20"), more, text);
        }
        more["model"] = "paced".into();
        let text: String = (1..=WORDS).map(|word| format!("c{}w{word} ", self.number)).collect();
        let text = text.trim_end().to_owned();
        (text.clone(), more, text)
    }

    /// Starts, and reads until the server is gone.
    async fn run(number: usize, address: SocketAddr, begun: tokio::sync::mpsc::Sender<()>) -> Self {
        let mut chat = Self {
            number,
            task: Value::Null,
            after: 0,
            events: Vec::new(),
            unsettled: Vec::new(),
            terminals: Vec::new(),
        };
        let mut rpc = Rpc::resumable(address, chat.key()).await;
        let (message, more, _) = chat.request();
        let id = rpc.start(&message, more).await;
        loop {
            match rpc.next().await {
                Ok(message) => {
                    let first = delta(&message).is_some() && chat.text().is_empty();
                    chat.take(&id, message);
                    if first {
                        begun.send(()).await.unwrap();
                    }
                }
                Err(Over::Late) => panic!("chat {number}: nothing comes any more"),
                Err(Over::Lost | Over::Closed(_)) => return chat,
            }
        }
    }

    /// Comes back and reads the rest.
    async fn come_back(mut self, address: SocketAddr) -> Self {
        self.unsettled.clear();
        let mut rpc = Rpc::resumable(address, self.key()).await;
        let mut attach = json!({ "taskId": self.task, "after": self.after });
        if let Some(session) = self.session() {
            attach["sessionId"] = session.into();
        }
        let id = rpc.send("chat.attach", attach).await;
        while self.terminals.is_empty() {
            let message = rpc.next().await.unwrap_or_else(|over| panic!("chat {}: {over:?}", self.number));
            self.take(&id, message);
        }
        // Whatever is said now is answered, so nothing of the chat can still be on its way.
        let state = rpc.task(&self.task, self.session().as_deref()).await;
        assert_eq!(state, "completed", "chat {}", self.number);
        rpc.close().await;
        self
    }

    fn take(&mut self, id: &str, message: Value) {
        let at = format!("chat {}: {message}", self.number);
        assert_eq!(message["id"], id, "{at}");
        match message["type"].as_str() {
            Some("chat.accepted") => {
                assert!(self.task.is_null() || self.task == message["taskId"], "{at}");
                self.task = message["taskId"].clone();
            }
            Some("chat.started") => {}
            Some("chat.event") => {
                self.unsettled.push(message["event"].clone());
                if let Some(position) = message["position"].as_u64() {
                    assert!(position > self.after, "twice: {at}");
                    self.after = position;
                    self.events.append(&mut self.unsettled);
                }
            }
            _ if is_terminal(&message) => {
                self.events.append(&mut self.unsettled);
                self.terminals.push(message);
            }
            _ => panic!("{at}"),
        }
    }

    fn text(&self) -> String {
        let text = |event: &Value| {
            (event["type"] == "text-delta").then(|| event["text"].as_str().unwrap().to_owned())
        };
        self.events.iter().chain(&self.unsettled).filter_map(text).collect()
    }

    /// Nothing lost, nothing doubled, order kept, exactly one end.
    fn verify(&self) {
        let (_, _, expected) = self.request();
        assert_eq!(self.text(), expected, "chat {}", self.number);
        let [done] = self.terminals.as_slice() else { panic!("{:?}", self.terminals) };
        assert_eq!(done["reply"]["output"], expected, "chat {}: {done}", self.number);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_during_50_chats_loses_and_doubles_nothing() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS, PACED];
    let server = Served::start(data.path(), settings);
    let (begun, mut all_begun) = tokio::sync::mpsc::channel(CHATS);
    let readers: Vec<_> =
        (0..CHATS).map(|number| tokio::spawn(Chat::run(number, server.address, begun.clone()))).collect();
    for _ in 0..CHATS {
        all_begun.recv().await.unwrap();
    }
    server.kill();
    let mut chats = Vec::new();
    for reader in readers {
        chats.push(reader.await.unwrap());
    }
    let cut = chats.iter().filter(|chat| chat.terminals.is_empty()).count();
    assert!(cut >= CHATS / 2, "only {cut} chats were cut");
    let server = Served::start(data.path(), settings);
    let mut readers = Vec::new();
    for chat in chats {
        if chat.terminals.is_empty() {
            readers.push(tokio::spawn(chat.come_back(server.address)));
        } else {
            chat.verify();
        }
    }
    for reader in readers {
        reader.await.unwrap().verify();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ac_049_tasks_are_null_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[BASIC, GENEROUS];
    let server = Served::start(data.path(), settings);
    let mut tasks = Vec::new();
    let mut rpcs = Vec::new();
    for number in 0..10 {
        let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
        let session = json!({ "sessionId": format!("sess_lost{number}") });
        let id = rpc.start("count 100000 every 20", session.clone()).await;
        tasks.push(rpc.wait(|message| message["type"] == "chat.accepted").await["taskId"].clone());
        rpc.wait(|message| message["id"] == id && delta(message).is_some()).await;
        // One that waits.
        rpc.start("echo waiting", session).await;
        tasks.push(rpc.wait(|message| message["type"] == "chat.accepted").await["taskId"].clone());
        rpcs.push(rpc);
    }
    server.kill();
    for mut rpc in rpcs {
        assert_eq!(rpc.closed().await, Over::Lost);
    }
    let server = Served::start(data.path(), settings);
    let mut rpc = Rpc::open(server.address, ANN).await.unwrap();
    for task in &tasks {
        assert_eq!(rpc.task(task, None).await, Value::Null);
    }
    let id = rpc.send("status.get", json!({})).await;
    let status = rpc.wait(|message| message["id"] == id).await["status"].clone();
    let counts = ["tasks_total", "tasks_running", "rpc_queue_length"].map(|name| status[name].clone());
    assert_eq!(counts, [json!(0), json!(0), json!(0)]);
    // And nothing goes on behind the client's back.
    let mut other = Rpc::resumable(server.address, ANN).await;
    for number in 0..10 {
        let id = other.send("chat.attach", json!({ "sessionId": format!("sess_lost{number}") })).await;
        let refused = other.wait(|message| message["id"] == id).await;
        assert_eq!(refused["error"], "No such task to attach to", "{refused}");
    }
    assert_eq!(rpc.chat("echo fine").await.0, "fine");
}
