use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::Value;
use switchboard_core::model::{AttachmentSecret, Author, Message, Origin, Part, TurnEnd, TurnRequest};
use switchboard_core::{Committed, Event, MessageId, Position, Session, SessionLimits, TurnId, rows};
use switchboard_store::{Append, Batch, MemoryLog};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::*;
use crate::agents::Workshop;
use crate::auth::hash_key;
use crate::config::ApiKey;
use crate::host::Host;
use crate::sessions::testing::sessions_on;
use crate::workspace::Workspaces;

mod devices;

const ANN: &str = "key-of-ann-0123456789";
const BOB: &str = "key-of-bob-0123456789";
const ROOT: &str = "key-of-root-0123456789";

#[derive(Debug, Default)]
struct Opened;

impl Connections for Opened {
    fn list(&self) -> Vec<ConnectionInfo> {
        [3, 1, 2]
            .map(|connection| ConnectionInfo {
                connection,
                protocol: "asp".into(),
                principal: "ann".into(),
                address: [192, 0, 2, 1].into(),
                opened_at: Timestamp::from_secs(1),
                expires_at: None,
                sessions: vec!["s1".into()],
            })
            .to_vec()
    }
}

struct World {
    router: Router,
    readiness: Readiness,
    log: Arc<MemoryLog>,
    schemas: Value,
    _folder: TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn error(&self) -> (u16, String) {
        (
            self.status,
            self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("{}", self.text)).to_owned(),
        )
    }
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        let key = |id: &str, key: &str, scopes: &[&str]| ApiKey {
            id: id.into(),
            hash: Some(hash_key(key)),
            principal: id.into(),
            scopes: (!scopes.is_empty()).then(|| scopes.iter().map(|&scope| scope.into()).collect()),
            ..ApiKey::default()
        };
        config.auth.api_keys =
            vec![key("ann", ANN, &[]), key("bob", BOB, &[]), key("root", ROOT, &["admin"])];
        change(&mut config);
        let log = Arc::new(MemoryLog::new());
        let authenticator = Arc::new(Authenticator::new(&config).unwrap());
        let workshop = Workshop::new(&config, crate::relay::open(&config).unwrap());
        let directory = workshop.directory(&config).unwrap();
        let workspaces = Workspaces::Within(Vec::new());
        let host = Arc::new(Host::new(directory, "node".into(), &config.limits, workspaces));
        let agents = Agents { host, workshop: Arc::new(workshop) };
        let sessions = sessions_on(log.clone(), &config, Vec::new(), BTreeMap::new());
        let state = AdminState::new(&config, sessions, authenticator, Arc::new(Opened), agents);
        let readiness = state.readiness();
        let schemas = serde_json::from_str(OPENAPI).unwrap();
        Self { router: router(state), readiness, log, schemas, _folder: folder }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(to_bytes(body, 1 << 24).await.unwrap().to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    /// Asks as the holder of `key`, and holds the answer against the OpenAPI document.
    async fn get(&self, key: Option<&str>, path: &str) -> Answer {
        let mut request = Request::get(path).header("host", "localhost:4600");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = self.send(request.body(Body::empty()).unwrap()).await;
        self.check(path, &answer);
        answer
    }

    /// The same, to have something changed.
    async fn post(&self, key: &str, path: &str) -> Answer {
        let request = Request::post(path).header("host", "localhost:4600");
        let request = request.header("authorization", format!("Bearer {key}"));
        let answer = self.send(request.body(Body::empty()).unwrap()).await;
        self.check(path, &answer);
        answer
    }

    fn check(&self, path: &str, answer: &Answer) {
        let path = path.split('?').next().unwrap();
        let template = match path.split('/').collect::<Vec<_>>()[..] {
            ["", "admin", "v1", "sessions", _] => "/admin/v1/sessions/{session}".to_owned(),
            ["", "admin", "v1", "sessions", _, tail] => format!("/admin/v1/sessions/{{session}}/{tail}"),
            ["", "admin", "v1", "devices", _, "release"] => "/admin/v1/devices/{device}/release".to_owned(),
            ["", "admin", "v1", "devices", _] => "/admin/v1/devices/{device}".to_owned(),
            _ => path.to_owned(),
        };
        let Some(operation) = self.schemas["paths"].get(&template) else { return };
        let operation = operation.get("get").unwrap_or_else(|| &operation["post"]);
        let response = &operation["responses"][answer.status.to_string()];
        assert!(response.is_object(), "{path} may not answer {}: {}", answer.status, answer.text);
        let kind = answer.headers["content-type"].to_str().unwrap().split(';').next().unwrap();
        let media = &response["content"][kind];
        assert!(media.is_object(), "{path} may not answer with {kind}");
        if kind == "application/json" {
            let mut schema = media["schema"].clone();
            schema["components"] = self.schemas["components"].clone();
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            let json = answer.json();
            let errors: Vec<_> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{path} {}: {errors:?}\n{}", answer.status, answer.text);
        }
    }

    /// A session with one attachment and `turns` answered chats.
    async fn session(&self, id: &str, owner: &str, turns: u32, at: u64) {
        let mut events = vec![
            Event::SessionOpened {
                owner: owner.into(),
                epoch: 7,
                agent: "echo".into(),
                name: Some("notes".into()),
            },
            Event::AttachmentOpened {
                attachment: "a1".into(),
                generation: 1,
                principal: owner.into(),
                secret: Some(AttachmentSecret::new("resume-secret").hash()),
                window_ms: 1,
            },
            Event::AttachmentClosed { attachment: "a1".into() },
        ];
        let mut parent = None;
        for number in 1..=turns {
            let turn = TurnId::new(format!("t{number}"));
            events.push(Event::MessageAdded {
                message: Box::new(Message {
                    id: MessageId::input_of(&turn),
                    parent: parent.take(),
                    author: Author::User(owner.into()),
                    parts: vec![
                        Part::Text(format!("question {number}")),
                        Part::Data { mime: "a/b".into(), data: bytes::Bytes::from_static(b"\x00\xff") },
                        Part::Reference { uri: "https://example.test/".into() },
                    ],
                    turn: turn.clone(),
                    meta: Value::Null,
                }),
            });
            events.push(Event::TurnAccepted {
                turn: turn.clone(),
                request: Box::new(TurnRequest::Chat {
                    parts: vec![Part::Text(format!("question {number}"))],
                }),
                agent: "echo".into(),
                device: None,
                origin: Box::new(Origin {
                    principal: owner.into(),
                    protocol: "asp".into(),
                    attachment: None,
                    handle: None,
                    bound: false,
                    options: Value::Null,
                }),
                serial: true,
                held: false,
                once: false,
                setting: None,
                deadline: Timestamp::NEVER,
                parent: None,
                names: None,
                recall: None,
                workspace: None,
                key: None,
                meta: Box::new(Value::Null),
            });
            events.push(Event::TurnEnded { turn: turn.clone(), end: Box::new(TurnEnd::complete()) });
            parent = Some(MessageId::input_of(&turn));
        }
        self.write(id, events, at).await;
    }

    /// A new session with these events.
    async fn write(&self, id: &str, events: Vec<Event>, at: u64) {
        let mut session = Session::new(id.into(), SessionLimits::default());
        for event in events {
            let after = session.head();
            let position = Position { epoch: 7, seq: after.seq + 1 };
            let committed = Committed { position, at: Timestamp::from_secs(at), event };
            let rows = rows(&session, &committed);
            session.apply(&committed);
            let append = Append {
                session: id.into(),
                after,
                batch: Arc::new(Batch { events: vec![committed] }),
                rows,
                summary: session.summary().unwrap(),
                snapshot: None,
            };
            self.log.append(append).await.unwrap();
        }
    }
}

#[tokio::test]
async fn health_needs_no_credential() {
    let world = World::new();
    let answer = world.get(None, "/healthz").await;
    assert_eq!((answer.status, answer.json()), (200, json!({"ok": true})));
}

#[tokio::test]
async fn readiness_follows_the_server_and_its_log() {
    let world = World::new();
    assert_eq!(world.get(None, "/readyz").await.json(), json!({"ready": true}));
    for (phase, reason) in [(Phase::Starting, "starting"), (Phase::Draining, "draining")] {
        world.readiness.set(phase);
        let answer = world.get(None, "/readyz").await;
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (503, Some(reason)));
    }
    assert_eq!(world.get(None, "/healthz").await.status, 200);
    world.readiness.set(Phase::Ready);
    world.log.close().await.unwrap();
    let answer = world.get(None, "/readyz").await;
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (503, Some("store")));
    assert_eq!(world.get(Some(ANN), "/admin/v1/sessions").await.error(), (503, "store_unavailable".into()));
}

#[tokio::test]
async fn metrics_need_the_scope_admin_unless_public() {
    let world = World::new();
    assert_eq!(world.get(None, "/metrics").await.error(), (401, "credential_missing".into()));
    assert_eq!(world.get(Some(ANN), "/metrics").await.error(), (403, "forbidden".into()));
    let answer = world.get(Some(ROOT), "/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text.contains("switchboard_build_info{version="), "{}", answer.text);
    assert!(answer.text.contains("switchboard_store_commits 0"), "{}", answer.text);
    let public = World::with(|config| config.telemetry.metrics_public = true);
    assert_eq!(public.get(None, "/metrics").await.status, 200);
    let off = World::with(|config| {
        config.telemetry.metrics = false;
        config.telemetry.admin = false;
    });
    for path in ["/metrics", "/admin/v1/sessions"] {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        assert_eq!(off.send(request).await.status, 404);
    }
}

#[tokio::test]
async fn every_admin_path_needs_a_credential() {
    let world = World::new();
    world.session("s1", "ann", 1, 1).await;
    world.device("d1", "ann", "s2", 1).await;
    let paths: Vec<String> = world.schemas["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, methods)| path.starts_with("/admin/") && methods.get("get").is_some())
        .map(|(path, _)| path.replace("{session}", "s1").replace("{device}", "d1"))
        .collect();
    assert_eq!(paths.len(), 11);
    for path in &paths {
        let answer = world.get(None, path).await;
        assert_eq!(answer.error(), (401, "credential_missing".into()), "{path}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert_eq!(
            world.get(Some("wrong"), path).await.error(),
            (401, "credential_invalid".into()),
            "{path}"
        );
        let read = if path.ends_with("/release") { 405 } else { 200 };
        assert_eq!(world.get(Some(ROOT), path).await.status, read, "{path}");
    }
    for header in ["", "Basic YTpi", "Bearer"] {
        let request =
            Request::get("/admin/v1/sessions").header("host", "localhost").header("authorization", header);
        let answer = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(answer.error(), (401, "credential_invalid".into()), "{header:?}");
    }
    let twice = Request::get("/admin/v1/sessions")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ANN}"))
        .header("authorization", format!("Bearer {ROOT}"));
    assert_eq!(world.send(twice.body(Body::empty()).unwrap()).await.status, 401);
    assert_eq!(world.get(Some(ANN), "/admin/v1/connections").await.error(), (403, "forbidden".into()));
}

#[tokio::test]
async fn host_and_origin_are_checked_everywhere() {
    let world = World::new();
    for path in ["/healthz", "/readyz", "/metrics", "/admin/v1/sessions"] {
        for (host, origin) in [("evil.test", None), ("localhost:4600", Some("https://evil.test"))] {
            let mut request =
                Request::get(path).header("host", host).header("authorization", format!("Bearer {ROOT}"));
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let answer = world.send(request.body(Body::empty()).unwrap()).await;
            assert_eq!(answer.error(), (403, "forbidden".into()), "{path} {host}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_json() {
    let world = World::new();
    assert_eq!(world.get(Some(ANN), "/admin/v1/nothing").await.error(), (404, "unknown_path".into()));
    assert_eq!(world.get(None, "/admin/v1/nothing").await.error(), (401, "credential_missing".into()));
    let post = Request::post("/admin/v1/sessions")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {ANN}"))
        .body(Body::empty())
        .unwrap();
    assert_eq!(world.send(post).await.error(), (405, "read_only".into()));
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let world = World::new();
    for number in 1..=5 {
        let owner = if number == 3 { "bob" } else { "ann" };
        world.session(&format!("s{number}"), owner, u32::from(number % 2 == 1), number).await;
    }
    let ids = |answer: &Answer| {
        let sessions = answer.json()["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let page = world.get(Some(ANN), "/admin/v1/sessions?limit=3").await;
    assert_eq!(ids(&page), ["s5", "s4", "s2"]);
    let cursor = page.json()["next"].as_str().unwrap().to_owned();
    let page = world.get(Some(ANN), &format!("/admin/v1/sessions?limit=3&cursor={cursor}")).await;
    assert_eq!(ids(&page), ["s1"]);
    assert_eq!(page.json()["next"], Value::Null);

    assert_eq!(ids(&world.get(Some(ROOT), "/admin/v1/sessions").await).len(), 5);
    assert_eq!(ids(&world.get(Some(ROOT), "/admin/v1/sessions?owner=bob").await), ["s3"]);
    assert_eq!(ids(&world.get(Some(ANN), "/admin/v1/sessions?owner=ann&used=true").await), ["s5", "s1"]);
    assert_eq!(ids(&world.get(Some(ANN), "/admin/v1/sessions?live=true").await), Vec::<String>::new());
    assert_eq!(world.get(Some(ANN), "/admin/v1/sessions?owner=bob").await.error(), (403, "forbidden".into()));
    for wrong in ["limit=0", "limit=-1", "limit=x", "live=maybe", "cursor=***", "cursor=YQ", "colour=red"] {
        let answer = world.get(Some(ANN), &format!("/admin/v1/sessions?{wrong}")).await;
        assert_eq!(answer.error(), (400, "invalid_request".into()), "{wrong}");
    }
}

#[tokio::test]
async fn a_foreign_session_looks_like_an_unknown_one() {
    let world = World::new();
    world.session("s1", "ann", 1, 1).await;
    for tail in ["", "/events", "/turns", "/messages", "/messages?tip=t1.in", "/events?after=nonsense"] {
        let foreign = world.get(Some(BOB), &format!("/admin/v1/sessions/s1{tail}")).await;
        let unknown = world.get(Some(BOB), &format!("/admin/v1/sessions/s2{tail}")).await;
        assert_eq!(foreign.error(), (404, "unknown_session".into()), "{tail}");
        assert_eq!(foreign.text, unknown.text, "{tail}");
        assert_eq!(foreign.headers, unknown.headers, "{tail}");
    }
    let row = world.get(Some(ANN), "/admin/v1/sessions/s1").await.json();
    assert_eq!((&row["owner"], &row["head"], &row["turns"]), (&json!("ann"), &json!(6), &json!(1)));
    assert_eq!(world.get(Some(ROOT), "/admin/v1/sessions/s1").await.status, 200);
}

#[tokio::test]
async fn events_are_read_from_a_position() {
    let world = World::new();
    world.session("s1", "ann", 2, 1).await;
    let all = world.get(Some(ANN), "/admin/v1/sessions/s1/events").await.json();
    assert_eq!(all["events"].as_array().unwrap().len(), 9);
    assert_eq!((&all["head"], &all["next"]), (&json!("7-9"), &Value::Null));
    assert_eq!(all["events"][0]["event"]["session_opened"]["owner"], "ann");
    let attachment = &all["events"][1]["event"]["attachment_opened"];
    assert!(attachment["attachment"] == "a1" && attachment.get("secret").is_none(), "{attachment}");

    let mut seen = Vec::new();
    let mut after = "0".to_owned();
    loop {
        let path = format!("/admin/v1/sessions/s1/events?limit=4&after={after}");
        let page = world.get(Some(ANN), &path).await.json();
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 4);
        seen.extend(events.iter().map(|event| event["position"]["seq"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, (1..=9).collect::<Vec<_>>());

    let at_head = world.get(Some(ANN), "/admin/v1/sessions/s1/events?after=9").await.json();
    assert_eq!((at_head["events"].as_array().unwrap().len(), &at_head["next"]), (0, &Value::Null));
    let gone = world.get(Some(ANN), "/admin/v1/sessions/s1/events?after=6-1").await;
    assert_eq!(gone.error(), (410, "history_replaced".into()));
    for wrong in ["after=-1", "after=x", "after=1-", "limit=0"] {
        let answer = world.get(Some(ANN), &format!("/admin/v1/sessions/s1/events?{wrong}")).await;
        assert_eq!(answer.error(), (400, "invalid_request".into()), "{wrong}");
    }
}

#[tokio::test]
async fn turns_are_listed_in_order() {
    let world = World::new();
    world.session("s1", "ann", 3, 1).await;
    let page = world.get(Some(ANN), "/admin/v1/sessions/s1/turns?limit=2").await.json();
    let turns = page["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[0]["turn"], &turns[1]["status"]), (2, &json!("t1"), &json!("done")));
    let next = page["next"].as_str().unwrap();
    let page =
        world.get(Some(ANN), &format!("/admin/v1/sessions/s1/turns?limit=2&after={next}")).await.json();
    assert_eq!((&page["turns"][0]["turn"], &page["next"]), (&json!("t3"), &Value::Null));
}

#[tokio::test]
async fn messages_lead_back_from_a_tip() {
    let world = World::new();
    world.session("s1", "ann", 3, 1).await;
    let ids = |page: &Value| {
        let messages = page["messages"].as_array().unwrap();
        messages.iter().map(|message| message["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let newest = world.get(Some(ANN), "/admin/v1/sessions/s1/messages").await.json();
    assert_eq!(ids(&newest), ["t3.in", "t2.in", "t1.in"]);
    assert_eq!(newest["messages"][0]["parts"][0]["text"], "question 3");
    let page = world.get(Some(ANN), "/admin/v1/sessions/s1/messages?tip=t3.in&limit=2").await.json();
    assert_eq!((ids(&page), page["next"].as_str()), (vec!["t3.in".into(), "t2.in".into()], Some("t1.in")));
    let page = world.get(Some(ANN), "/admin/v1/sessions/s1/messages?tip=t1.in").await.json();
    assert_eq!((ids(&page), &page["next"]), (vec!["t1.in".into()], &Value::Null));
    let unknown = world.get(Some(ANN), "/admin/v1/sessions/s1/messages?tip=t9.in").await;
    assert_eq!(unknown.error(), (404, "unknown_message".into()));
    world.session("s2", "ann", 0, 1).await;
    let empty = world.get(Some(ANN), "/admin/v1/sessions/s2/messages").await.json();
    assert_eq!(ids(&empty), Vec::<String>::new());
}

/// A session that was opened, and in which nothing has happened yet.
fn opened(owner: &str, name: Option<&str>) -> Event {
    Event::SessionOpened {
        epoch: 7,
        owner: owner.into(),
        agent: "echo".into(),
        name: name.map(str::to_owned),
    }
}

#[tokio::test]
async fn messages_are_found_whatever_they_are_called() {
    let world = World::new();
    let said = |id: &str, parent: Option<&str>, text: &str| Event::MessageAdded {
        message: Box::new(Message {
            id: id.into(),
            parent: parent.map(MessageId::from),
            author: Author::User("ann".into()),
            parts: vec![Part::Text(text.into())],
            turn: TurnId::new(format!("{id}.import")),
            meta: Value::Null,
        }),
    };
    let events = vec![
        opened("ann", None),
        said("am_1", None, "one"),
        said("am_2", Some("am_1"), "two"),
        said("am_3", Some("am_1"), "another two"),
        Event::TipMoved { tip: "am_2".into() },
    ];
    world.write("ac_1", events, 1).await;
    let page = world.get(Some(ANN), "/admin/v1/sessions/ac_1/messages").await.json();
    let ids: Vec<_> = page["messages"].as_array().unwrap().iter().map(|row| &row["message"]).collect();
    assert_eq!(ids, ["am_2", "am_1"], "the path on which the session goes on");
}

#[tokio::test]
async fn a_session_answers_to_the_name_that_its_owner_gave_it() {
    let world = World::new();
    let id = SessionId::named(&Principal::new("ann"), "notes");
    world.write(id.as_str(), vec![opened("ann", Some("notes"))], 1).await;
    for tail in ["", "/events", "/turns", "/messages"] {
        let named = world.get(Some(ANN), &format!("/admin/v1/sessions/notes{tail}")).await;
        let by_id = world.get(Some(ANN), &format!("/admin/v1/sessions/{id}{tail}")).await;
        assert_eq!((named.status, named.json()), (200, by_id.json()), "{tail}");
        // Names are each principal's own, also for those who may see everything.
        for key in [BOB, ROOT] {
            let answer = world.get(Some(key), &format!("/admin/v1/sessions/notes{tail}")).await;
            assert_eq!(answer.error(), (404, "unknown_session".into()), "{tail}");
        }
    }
}

#[tokio::test]
async fn sessions_in_which_nothing_was_asked_are_listed_on_request() {
    let world = World::new();
    world.write("ses_home", vec![opened("ann", None)], 1).await;
    world.write("ses_named", vec![opened("ann", Some("plans"))], 2).await;
    world.write("ac_new", vec![opened("ann", None)], 3).await;
    world.session("ses_used", "ann", 1, 4).await;
    let ids = |answer: &Answer| {
        let sessions = answer.json()["sessions"].as_array().unwrap().clone();
        sessions.iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let list = |query: &'static str| {
        let world = &world;
        async move { ids(&world.get(Some(ANN), &format!("/admin/v1/sessions{query}")).await) }
    };
    assert_eq!(list("").await, ["ses_used", "ac_new", "ses_named"]);
    assert_eq!(list("?homes=true").await, ["ses_used", "ac_new", "ses_named", "ses_home"]);
    assert_eq!(world.get(Some(ANN), "/admin/v1/sessions/ses_home").await.status, 200);
}

#[tokio::test]
async fn connections_are_listed_to_admins() {
    let world = World::new();
    let page = world.get(Some(ROOT), "/admin/v1/connections?limit=2").await.json();
    let numbers = |page: &Value| {
        let connections = page["connections"].as_array().unwrap();
        connections.iter().map(|entry| entry["connection"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((numbers(&page), &page["next"]), (vec![1, 2], &json!(2)));
    let page = world.get(Some(ROOT), "/admin/v1/connections?limit=2&after=2").await.json();
    assert_eq!((numbers(&page), &page["next"]), (vec![3], &Value::Null));
    assert_eq!(numbers(&world.get(Some(ROOT), "/admin/v1/connections?limit=3").await.json()), [1, 2, 3]);
}

#[tokio::test]
async fn the_page_is_bounded_by_the_configuration() {
    let world = World::with(|config| config.limits.admin_page = 2);
    world.session("s1", "ann", 2, 1).await;
    for query in ["", "?limit=100"] {
        let page = world.get(Some(ANN), &format!("/admin/v1/sessions/s1/events{query}")).await.json();
        assert_eq!((page["events"].as_array().unwrap().len(), page["next"].as_str()), (2, Some("7-2")));
    }
}

#[tokio::test]
async fn development_sees_everything() {
    let world = World::with(|config| config.auth.api_keys.clear());
    world.session("s1", "ann", 1, 1).await;
    assert_eq!(world.get(None, "/admin/v1/sessions/s1").await.status, 200);
    assert_eq!(world.get(None, "/metrics").await.status, 200);
}

#[test]
fn the_document_is_whole() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    // Every reference leads somewhere, and every schema is one.
    let mut references = Vec::new();
    let mut pending = vec![&document];
    while let Some(value) = pending.pop() {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            references.push(reference.trim_start_matches('#').to_owned());
        }
        pending.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        pending.extend(value.as_array().into_iter().flatten());
    }
    assert!(references.len() > 20);
    for reference in references {
        assert!(document.pointer(&reference).is_some(), "{reference}");
    }
    for schema in document["components"]["schemas"].as_object().unwrap().values() {
        assert!(jsonschema::meta::is_valid(schema), "{schema}");
    }
    // Every event can be shown.
    let names =
        document.pointer("/components/schemas/Committed/properties/event/propertyNames/enum").unwrap();
    for event in
        [Event::TurnReleased { turn: "t".into(), deadline: None }, Event::DeviceLeft { device: "d".into() }]
    {
        assert!(names.as_array().unwrap().contains(&json!(event.name())));
    }
}
