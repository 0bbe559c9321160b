//! A server in this process whose agent is a puppet, and what it has stored, seen from outside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use switchboard_core::{AgentId, hex};
use switchboard_server::Server;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::device::{ACK, Device, Envelope, PATIENCE, SENTENCE, START, STATS};
use crate::puppet::{Scenes, puppet};
use crate::support::rpc::{Answer, http};
use crate::support::{ANN, BOB, config};

/// A server that is gone when this is dropped.
pub(crate) struct Stage {
    pub(crate) address: SocketAddr,
    pub(crate) scenes: Scenes,
    data: TempDir,
    /// A server has a runtime of its own, so that it can be ended as a process is.
    runtime: Option<Runtime>,
    shutdown: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
}

impl Stage {
    /// A server that keeps nothing, as changed by `settings`.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let settings: Vec<&str> = ["store.kind=memory"].iter().chain(settings).copied().collect();
        Self::start_on(tempfile::tempdir().unwrap(), &settings).await
    }

    /// A server with a database.
    pub(crate) async fn stored(settings: &[&str]) -> Self {
        Self::start_on(tempfile::tempdir().unwrap(), settings).await
    }

    async fn start_on(data: TempDir, settings: &[&str]) -> Self {
        let basic = [
            "alicia.limits.envelopes_per_10_s=1000000",
            "alicia.limits.envelopes_burst=1000000",
            "drain.retry_ms=10",
            "drain.spread_ms=10",
        ];
        let settings: Vec<&str> = basic.iter().chain(settings).copied().collect();
        let mut config = config(data.path(), &settings);
        config.agent = "puppet".into();
        let (agent, scenes) = puppet();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (shutdown, stopped) = oneshot::channel::<()>();
        let (listening, listens) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        runtime.spawn(async move {
            let agents = BTreeMap::from([(AgentId::from("puppet"), agent)]);
            let server = Server::start_with(config, agents).await.expect("a server");
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listening.send(listener.local_addr().unwrap()).unwrap();
            let stopped = async {
                let _ = stopped.await;
            };
            server.run(listener, stopped).await.unwrap();
            drop(end);
        });
        let address = timeout(PATIENCE, listens).await.expect("in time").expect("a server");
        Self { address, scenes, data, runtime: Some(runtime), shutdown: Some(shutdown), ended }
    }

    /// The server dies as it is, and another takes its place on the same data.
    pub(crate) async fn crash(self, settings: &[&str]) -> Self {
        let data = self.die().await;
        Self::start_on(data, settings).await
    }

    async fn die(mut self) -> TempDir {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(20))).await.unwrap();
        std::mem::replace(&mut self.data, tempfile::tempdir().unwrap())
    }

    /// The server leaves in an orderly way, and another takes its place.
    pub(crate) async fn restart(mut self, settings: &[&str]) -> Self {
        drop(self.shutdown.take());
        let _ = timeout(Duration::from_secs(40), &mut self.ended).await.expect("an end");
        self.crash(settings).await
    }

    pub(crate) async fn ann(&self) -> Device {
        Device::open(self.address, ANN).await.expect("an upgrade")
    }

    pub(crate) async fn bob(&self) -> Device {
        Device::open(self.address, BOB).await.expect("an upgrade")
    }

    /// A device of Ann's in a new conversation.
    pub(crate) async fn begin(&self) -> (Device, String) {
        let mut device = self.ann().await;
        let conversation = device.create().await;
        (device, conversation)
    }

    /// Another device of Ann's that follows the conversation.
    pub(crate) async fn follow(&self, conversation: &str) -> Device {
        let mut device = self.ann().await;
        device.subscribe(conversation).await;
        device
    }

    /// A whole turn in one sentence; answers the id of the answer. `next` is its first stanza.
    pub(crate) async fn turn(&mut self, device: &mut Device, next: i64, id: &str, text: &str) -> String {
        let stanza = device.say(id, id).await;
        self.scenes.next().await.answer(text).await;
        let [ack, start, sentence, _] =
            device.expect([(0, ACK), (next, START), (next - 1, SENTENCE), (0, STATS)]).await;
        ack.assert_ack(stanza, true);
        let answer = start.assert_start(id);
        sentence.assert_sentence(&answer, 1, text, true);
        answer
    }

    /// The same at the beginning of another conversation.
    pub(crate) async fn turn_elsewhere(&mut self, device: &mut Device) -> String {
        self.turn(device, -1, "am_elsewhere", "Elsewhere.").await
    }

    /// The turns, for somebody else to play; here none come any more.
    pub(crate) fn take_scenes(&mut self) -> Scenes {
        std::mem::replace(&mut self.scenes, puppet().1)
    }

    /// What the database says, seen by another reader; bytes are in hexadecimal.
    pub(crate) fn rows(&self, sql: &str, of: &str) -> Vec<Value> {
        let path = self.data.path().join("switchboard.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let count = statement.column_count();
        let rows = statement.query_map([of], |row| {
            let cells = (0..count).map(|at| match row.get_ref(at).unwrap() {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                ValueRef::Blob(bytes) => hex(bytes).into(),
            });
            Ok(cells.collect::<Value>())
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// Whether the server log holds an envelope, byte for byte.
    pub(crate) fn has_logged(&self, envelope: &Envelope) -> bool {
        let sql = "SELECT stanza_id, type, envelope FROM alicia_server_log WHERE conversation_id = ?";
        let row = json!([envelope.stanza, envelope.kind, hex(&envelope.bytes)]);
        self.rows(sql, &envelope.conversation).contains(&row)
    }

    /// Id, parent, role, contents and status of every message, in their order.
    pub(crate) fn messages(&self, conversation: &str) -> Vec<Value> {
        let sql = "SELECT id, previous_id, message_role, contents, completion_status FROM alicia_messages \
                   WHERE conversation_id = ? ORDER BY created_at, sequence_number";
        self.rows(sql, conversation)
    }

    /// The message at the end of the active path.
    pub(crate) fn tip(&self, conversation: &str) -> Value {
        let sql = "SELECT tip_message_id FROM alicia_conversations WHERE id = ?";
        self.rows(sql, conversation).remove(0)[0].take()
    }

    /// A request over HTTP, and what it was answered with.
    pub(crate) async fn http(&self, request: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let Answer { status, body, .. } =
            http(self.address, request, key, &["Content-Type: application/json"], body).await;
        (status, serde_json::from_str(&body).unwrap_or_default())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
