//! A server on which Ann has something of everything, and those who would like to have it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use switchboard_alicia::annals::Annalist;
use switchboard_core::{
    Chronicler, Committed, Event, Position, Principal, PrincipalId, Role, Session, SessionId, SessionLimits,
    rows,
};
use switchboard_server::vouch::Keys;
use switchboard_store::{Append, Batch, Log as _, SessionFilter, SqliteLog, SqliteOptions};
use switchboard_vip::minutes::Secretary;
use switchboard_vip::token::{self, Seal as _};
use tempfile::TempDir;

use crate::line::{Line, Speech};
use crate::support::function::{Exchange, Function};
use crate::support::rpc::{Answer, http};
use crate::support::wire::Peer;
use crate::support::{ADMIN, ANN, BOB, InProcess, SECRET, token};

/// In everything that is Ann's, and in nothing else.
pub(crate) const MARK: &str = "xyzzy7c1";
const APP: &str = "https://app.test";
const SCOPES: [&str; 3] = ["session:create", "history:read", "function:call"];
const AUDIENCE: &str = "https://vip.test";

/// Who tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Shows nothing.
    Anonymous,
    /// Shows what nobody has given out.
    Wrong,
    /// Shows what was good once.
    Expired,
    /// Shows what is good, but for other things than Ann's.
    Foreign,
    /// Takes part in Ann's sessions, but may only watch.
    Observer,
    /// Whose it is.
    Owner,
    /// Sees everything.
    Admin,
}

/// What can be shown at a kind of door, by each of those who try.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) expired: String,
    pub(crate) foreign: String,
    pub(crate) observer: String,
    pub(crate) owner: String,
    pub(crate) admin: String,
}

impl Credentials {
    pub(crate) fn of(&self, who: Who) -> Option<&str> {
        match who {
            Who::Anonymous => None,
            Who::Wrong => Some("sk-nobody-has-given-this-out-0123456789"),
            Who::Expired => Some(&self.expired),
            Who::Foreign => Some(&self.foreign),
            Who::Observer => Some(&self.observer),
            Who::Owner => Some(&self.owner),
            Who::Admin => Some(&self.admin),
        }
    }
}

/// The names of somebody's things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) session: String,
    pub(crate) turn: String,
    pub(crate) call: String,
    pub(crate) cid: String,
    pub(crate) inv: String,
    pub(crate) device: String,
    pub(crate) task: String,
    pub(crate) task_name: String,
    pub(crate) conversation: String,
    pub(crate) message: String,
    pub(crate) memory: String,
    pub(crate) vip: String,
    pub(crate) vip_internal: String,
}

impl Names {
    /// Names of the same form that nobody has.
    pub(crate) fn of_nobody(&self) -> Self {
        let other = |name: &String| {
            let (prefix, rest) =
                name.split_once('_').map_or(("", name.as_str()), |(prefix, rest)| (prefix, rest));
            let turned: String = rest.chars().rev().collect();
            assert_ne!(turned, rest, "{name} reads the same backwards");
            if prefix.is_empty() { turned } else { format!("{prefix}_{turned}") }
        };
        Self {
            session: other(&self.session),
            turn: other(&self.turn),
            call: other(&self.call),
            cid: other(&self.cid),
            inv: other(&self.inv),
            device: other(&self.device),
            task: other(&self.task),
            task_name: other(&self.task_name),
            conversation: other(&self.conversation),
            message: other(&self.message),
            memory: other(&self.memory),
            vip: other(&self.vip),
            vip_internal: other(&self.vip_internal),
        }
    }

    pub(crate) fn all(&self) -> [&str; 13] {
        [
            &self.session,
            &self.turn,
            &self.call,
            &self.cid,
            &self.inv,
            &self.device,
            &self.task,
            &self.task_name,
            &self.conversation,
            &self.message,
            &self.memory,
            &self.vip,
            &self.vip_internal,
        ]
    }
}

/// The server, and what Ann has on it.
pub(crate) struct World {
    pub(crate) server: InProcess,
    pub(crate) names: Names,
    /// Keys and tokens of this server.
    pub(crate) keys: Credentials,
    /// Tokens of sessions of VIP, of Ann's for Ann and of Bob's for Bob.
    pub(crate) sessions: Credentials,
    pub(crate) internal: Credentials,
    /// Credentials for our own provider endpoint.
    pub(crate) ephemeral: Credentials,
    /// The leave of functions to push.
    pub(crate) push: Credentials,
    /// Ann's connections, which stay open, and requests to functions that wait.
    _kept: (Vec<Line>, Vec<Exchange>, [Peer; 2], Function),
}

impl World {
    pub(crate) async fn start() -> Self {
        let function = Function::start().await;
        let settings = settings(&function.url());
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let conversation = {
            let server = InProcess::start(&settings).await;
            let conversation = first_visit(server.address).await;
            (server.stop().await, conversation)
        };
        let (data, conversation) = conversation;
        admit_observer(&data).await;
        let server = InProcess::start_on(data, &settings).await;
        Self::furnish(server, function, conversation).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    async fn furnish(server: InProcess, mut function: Function, conversation: String) -> Self {
        let address = server.address;
        let mut lines = Vec::new();
        let session = SessionId::named(&Principal::new("ann"), "plan").to_string();

        // A turn that waits for an answer, in a session with an observer.
        let mut ann = Line::open(address, "/v1/agent-socket", Speech::Asp, ANN, &[]).await.unwrap();
        ann.say(&hello()).await;
        ann.hear_until(|heard| heard["payload"]["op"] == "accept").await;
        let question = format!("ask {MARK} within 3600000");
        ann.say(&json!({ "op": 2, "id": 1, "payload": { "input": question, "session": "plan" } })).await;
        let asked = ann.hear_until(|heard| heard["payload"]["t"] == "ask").await;
        let call = asked["payload"]["ask_id"].as_str().or_else(|| asked["payload"]["id"].as_str());
        let call = call.unwrap_or_else(|| panic!("{asked}")).to_owned();
        let turns = admin(address, &format!("/admin/v1/sessions/{session}/turns")).await;
        let turn = turns["turns"].as_array().and_then(|turns| turns.last()).map(|turn| turn["turn"].clone());
        let turn =
            turn.and_then(|turn| turn.as_str().map(str::to_owned)).unwrap_or_else(|| panic!("{turns}"));
        lines.push(ann);

        // A device, and a task that waits on it.
        let mut device = Line::open(address, "/ws", Speech::Aip, ANN, &[]).await.unwrap();
        let name = format!("dev-{MARK}");
        device
            .say(&json!({ "type": "register", "status": "ok", "client_id": name, "client_type": "device",
                "metadata": { "system_info": { "hostname": MARK } } }))
            .await;
        device.hear_until(|heard| heard["type"] == "heartbeat").await;
        let task = format!("task-{MARK}");
        device
            .say(&json!({ "type": "task", "status": "continue", "client_id": name, "client_type": "device",
                "session_id": task, "task_name": format!("name-{MARK}"), "request": question }))
            .await;
        // The planner asks for the tools of the device first, and then its question.
        let command = device.hear_until(|heard| heard["type"] == "command").await;
        let none =
            json!([{ "status": "success", "result": [], "call_id": command["actions"][0]["call_id"] }]);
        device
            .say(&json!({ "type": "command_results", "status": "continue", "client_id": name, "session_id": task,
                "prev_response_id": command["response_id"], "action_results": none }))
            .await;
        let at_work = SessionId::named(&Principal::new("ann"), &task);
        wait_for(address, at_work.as_str(), "\"question\"", 1).await;
        lines.push(device);

        // A conversation with a message, and something remembered.
        let mut alicia = Line::open(address, "/api/v1/ws", Speech::Alicia, ANN, &[]).await.unwrap();
        let memory = json!({ "content": format!("likes {MARK}"), "category": "fact" });
        alicia
            .say(&json!({ "type": 24, "conversation": "", "body": { "id": format!("amem_{MARK}"),
                "action": "create", "memory": memory, "timestamp": 1 } }))
            .await;
        alicia.hear_until(|heard| heard["type"] == 25).await;
        let joining = json!({ "lastSequenceSeen": 0 });
        alicia.say(&json!({ "type": 12, "conversation": conversation, "body": joining })).await;
        alicia.hear_until(|heard| heard["type"] == 31).await;
        // An answer that is being given, and does not end.
        let message = json!({ "id": format!("am_run_{MARK}"), "content": "hang after 1" });
        alicia.say(&json!({ "type": 2, "conversation": conversation, "body": message })).await;
        alicia.hear_until(|heard| heard["type"] == 8).await;
        wait_for(address, &conversation, "turn_started", 2).await;
        lines.push(alicia);

        // Requests that a function works on, Ann's and Bob's.
        let mut peers = [Peer::standard(address, ANN).await, Peer::standard(address, BOB).await];
        let request = json!({ "input": MARK, "agent": "fn" });
        let mut waiting = Vec::new();
        for peer in &mut peers {
            peer.send(2, 1, &request).await;
            waiting.push(function.next().await);
        }
        let [of_ann, of_bob] = [&waiting[0].asked, &waiting[1].asked];
        let push = Credentials {
            expired: outdated_leave(server.data.path(), of_ann.push_token()),
            foreign: of_bob.push_token().to_owned(),
            observer: of_bob.push_token().to_owned(),
            owner: of_ann.push_token().to_owned(),
            admin: ADMIN.unwrap().to_owned(),
        };
        let (cid, inv) = (of_ann.cid().to_owned(), of_ann.inv().to_owned());

        let keys = Credentials {
            expired: token("ann", -100),
            foreign: BOB.unwrap().to_owned(),
            observer: token("olga", 3600),
            owner: ANN.unwrap().to_owned(),
            admin: ADMIN.unwrap().to_owned(),
        };
        let external = [create(address, "ann", "external").await, create(address, "bob", "external").await];
        let own = [create(address, "ann", "internal").await, create(address, "bob", "internal").await];
        let seal =
            Keys::open(Some(&server.data.path().join("vip/keys")), switchboard_core::Timestamp::default)
                .unwrap();
        let sessions = session_tokens(&seal, &external);
        let internal = session_tokens(&seal, &own);
        let ephemeral = Credentials {
            expired: outdated(&seal, token::EPHEMERAL, &ephemeral_of(&own[0])),
            foreign: sessions.foreign.clone(),
            observer: sessions.foreign.clone(),
            owner: ephemeral_of(&own[0]),
            admin: ADMIN.unwrap().to_owned(),
        };
        let sid = |session: &Value| session["session_id"].as_str().unwrap().to_owned();
        let names = Names {
            session,
            turn,
            call,
            cid,
            inv,
            device: name,
            task,
            task_name: format!("name-{MARK}"),
            conversation,
            message: format!("am_{MARK}"),
            memory: format!("amem_{MARK}"),
            vip: sid(&external[0]),
            vip_internal: sid(&own[0]),
        };
        let _kept = (lines, waiting, peers, function);
        Self { server, names, keys, sessions, internal, ephemeral, push, _kept }
    }

    /// Gets fresh ones of those credentials that live for seconds.
    pub(crate) async fn renew(&mut self) {
        self.ephemeral.owner = ephemeral_of(&create(self.address(), "ann", "internal").await);
    }

    /// Everything that has happened in Ann's sessions, without who came and went, and without what agents say.
    pub(crate) async fn happened(&self) -> Vec<(String, Vec<String>)> {
        let mut all = Vec::new();
        let sessions = admin(self.address(), "/admin/v1/sessions?limit=500").await;
        let own = |row: &&Value| {
            row["owner"].as_str().is_some_and(|owner| owner == "ann" || owner.ends_with("|ann"))
        };
        for row in sessions["sessions"].as_array().unwrap().iter().filter(own) {
            let id = row["session"].as_str().unwrap();
            let events = admin(self.address(), &format!("/admin/v1/sessions/{id}/events?limit=500")).await;
            let kind =
                |event: &Value| event["event"].as_object().and_then(|event| event.keys().next().cloned());
            let kinds = events["events"].as_array().unwrap().iter().filter_map(kind);
            all.push((
                id.to_owned(),
                kinds.filter(|kind| !kind.starts_with("attachment_") && kind != "turn_output").collect(),
            ));
        }
        all.sort();
        assert!(all.len() >= 6, "{all:?}");
        all
    }
}

/// Asks the admin API as its admin.
pub(crate) async fn admin(address: SocketAddr, path: &str) -> Value {
    let Answer { status, body, .. } = http(address, &format!("GET {path}"), ADMIN, &[], "").await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until the events of a session say something so many times.
async fn wait_for(address: SocketAddr, session: &str, what: &str, times: usize) {
    for _ in 0..600 {
        let events = admin(address, &format!("/admin/v1/sessions/{session}/events?limit=500")).await;
        if events.to_string().matches(what).count() >= times {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{session} does not come to {what}");
}

/// The first message of a client of ASP that understands everything.
pub(crate) fn hello() -> Value {
    let features = ["flags", "events", "push", "resume", "ping", "reauth", "client_tools", "watch"];
    json!({ "op": 1, "id": 0, "payload": { "features": features, "enc": ["json"] } })
}

fn settings(function: &str) -> Vec<String> {
    let mut settings: Vec<String> = [
        "agents.fn.kind=function",
        "agents.fn.allow_private=true",
        "agents.fn.secret_env=FUNCTION_SECRET",
        "drain.retry_ms=10",
        "drain.spread_ms=10",
        "voice.recogniser=none",
        "voice.synthesiser=none",
        "vip.demo=true",
        "vip.webrtc.listen=127.0.0.1:0",
        "vip.limits.sessions=1000",
        "vip.limits.open_s=600",
        "aip.limits.silence_s=3600",
        "agents.fn.first_byte_timeout_ms=3600000",
        "agents.fn.gap_timeout_ms=3600000",
        "limits.admin_page=500",
        "limits.bad_credentials_per_minute=100000",
        "telemetry.metrics=true",
        "vip.providers=[{id='house',adapter='vip-native',model='m'}]",
    ]
    .map(str::to_owned)
    .into();
    settings.push(format!("agents.fn.url={function}"));
    settings.push(format!("vip.issuer={AUDIENCE}"));
    settings.push(format!(
        "vip.issuers=[{{issuer='{APP}',namespace='shop',algorithms=['HS256'],secret_env='JWT_SECRET'}}]"
    ));
    settings
}

/// Ann comes for the first time: a session with a turn in it, and a conversation with a message.
async fn first_visit(address: SocketAddr) -> String {
    let mut ann = Line::open(address, "/v1/agent-socket", Speech::Asp, ANN, &[]).await.unwrap();
    ann.say(&hello()).await;
    ann.hear_until(|heard| heard["payload"]["op"] == "accept").await;
    let said = format!("echo {MARK}");
    ann.say(&json!({ "op": 2, "id": 1, "payload": { "input": said, "session": "plan" } })).await;
    ann.hear_until(|heard| heard["payload"]["t"] == "end").await;
    let mut alicia = Line::open(address, "/api/v1/ws", Speech::Alicia, ANN, &[]).await.unwrap();
    let greeting = json!({ "lastSequenceSeen": 0, "device": "web", "features": ["streaming"] });
    alicia.say(&json!({ "type": 12, "conversation": "", "body": greeting })).await;
    let opened = alicia.hear_until(|heard| heard["type"] == 12).await;
    let conversation = opened["conversation"].as_str().unwrap().to_owned();
    let message = json!({ "id": format!("am_{MARK}"), "content": said });
    alicia.say(&json!({ "type": 2, "conversation": conversation, "body": message })).await;
    alicia.hear_until(|heard| heard["type"] == 16 && heard["body"]["isFinal"] == true).await;
    conversation
}

/// Makes Olga an observer of all that Ann has. No protocol can say this yet, so it is written into the log.
async fn admit_observer(data: &TempDir) {
    let chroniclers: Vec<Arc<dyn Chronicler>> = vec![Arc::new(Annalist), Arc::new(Secretary)];
    let path = data.path().join("switchboard.db");
    let log = SqliteLog::open_with(path, SqliteOptions::default(), chroniclers).unwrap();
    let filter =
        SessionFilter { owner: Some(PrincipalId::from("ann")), limit: 100, ..SessionFilter::default() };
    for row in log.sessions(&filter).await.unwrap() {
        let loaded = log.load(&row.session).await.unwrap().unwrap();
        let fresh = || Session::new(row.session.clone(), SessionLimits::default());
        let mut session = loaded.snapshot.unwrap_or_else(fresh);
        for committed in loaded.batches.iter().flat_map(|batch| &batch.events) {
            session.apply(committed);
        }
        let after = session.head();
        let event = Event::ParticipantJoined {
            principal: PrincipalId::from("https://issuer.test|olga"),
            role: Role::Observer,
        };
        let position = Position { epoch: after.epoch, seq: after.seq + 1 };
        let committed = Committed { position, at: session.updated_at(), event };
        let rows = rows(&session, &committed);
        session.apply(&committed);
        let append = Append {
            session: row.session.clone(),
            after,
            batch: Arc::new(Batch { events: vec![committed] }),
            rows,
            summary: session.summary().unwrap(),
            snapshot: None,
        };
        log.append(append).await.unwrap();
    }
    log.close().await.unwrap();
}

/// A token with which an application vouches for somebody.
pub(crate) fn app_token(subject: &str, lifetime_s: i64) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let now = i64::try_from(jsonwebtoken::get_current_timestamp()).unwrap();
    let claims = json!({
        "iss": APP, "aud": AUDIENCE, "sub": subject, "iat": now.min(now + lifetime_s - 240), "exp": now + lifetime_s,
        "jti": COUNT.fetch_add(1, Ordering::Relaxed).to_string(),
        "vip": { "app_id": "shop", "env": "production", "scopes": SCOPES },
    });
    let header = jsonwebtoken::Header { typ: Some(token::APP.to_owned()), ..jsonwebtoken::Header::default() };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&header, &claims, &key).unwrap()
}

/// What is asked for when a session of VIP is created.
pub(crate) fn creation(mode: &str) -> Value {
    json!({
        "protocol_versions": ["0.1"], "environment": "production", "mode": mode, "app_id": "shop",
        "client": { "name": "test", "version": "1", "platform": "other" },
        "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] },
        "metadata": { "note": "one's own" },
    })
}

pub(crate) async fn create(address: SocketAddr, subject: &str, mode: &str) -> Value {
    let token = app_token(subject, 200);
    let headers = ["Content-Type: application/json"];
    let answer =
        http(address, "POST /v1/vip/sessions", Some(&token), &headers, creation(mode).to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The tokens of two sessions: the owner's, and somebody else's.
fn session_tokens(seal: &Keys, [of_ann, of_bob]: &[Value; 2]) -> Credentials {
    let of = |session: &Value| session["session_token"].as_str().unwrap().to_owned();
    Credentials {
        expired: outdated(seal, token::SESSION, &of(of_ann)),
        foreign: of(of_bob),
        observer: of(of_bob),
        owner: of(of_ann),
        admin: ADMIN.unwrap().to_owned(),
    }
}

/// The credential for our own provider endpoint that comes with a session.
fn ephemeral_of(session: &Value) -> String {
    let credential = session["provider"]["credential"]["value"].as_str();
    credential.unwrap_or_else(|| panic!("no credential in {}", session["provider"])).to_owned()
}

/// The same leave to push, as it would be if it had ended a while ago; under the server's own signature.
fn outdated_leave(data: &Path, leave: &str) -> String {
    let seed: [u8; 32] = std::fs::read(data.join("relay.key")).unwrap().try_into().unwrap();
    let [head, claims, _]: [&str; 3] = leave.split('.').collect::<Vec<_>>().try_into().unwrap();
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["exp"] = 1_000_000_000.into();
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = SigningKey::from_bytes(&seed).sign(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
}

/// The same token, as it would be if it had ended a while ago; under the server's own signature.
fn outdated(seal: &Keys, typ: &str, token: &str) -> String {
    let mut claims = seal.open(typ, token).unwrap();
    claims["exp"] = 1_000_000_000.into();
    seal.sign(typ, &claims)
}
