//! Memories in a log, found again by words and by meaning, and laid before an agent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering as Counting};
use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::json;
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_alicia::annals::Annalist;
use switchboard_alicia::deed::NOTEBOOK;
use switchboard_core::model::{NewTurn, Origin, Output, Part, Place, TurnEnd, TurnRequest};
use switchboard_core::{AgentId, Event, Reply};
use switchboard_store::SqliteLog;
use tempfile::TempDir;

use super::*;
use crate::sessions::testing::sessions_in;

/// Says how many memories it was shown, and what the first one is.
#[derive(Debug)]
struct Reciter;

#[async_trait]
impl Agent for Reciter {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let remembered = &turn.brief().remembered;
        let first = remembered.first().map_or("", |memory| memory.content.as_str());
        let answer = format!("{}: {first}", remembered.len());
        turn.text(answer).await?;
        Ok(TurnEnd::complete())
    }
}

struct World {
    sessions: Arc<Sessions>,
    log: Arc<SqliteLog>,
    memory: Arc<Memory>,
    _folder: TempDir,
}

impl World {
    fn new(change: impl FnOnce(&mut MemoryConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        change(&mut config.memory);
        let agents = BTreeMap::from([(AgentId::from("reciter"), Arc::new(Reciter) as Arc<dyn Agent>)]);
        let (sessions, log) = sessions_in(folder.path(), &config, vec![Arc::new(Annalist)], agents);
        let memory = sessions.environment.memory.clone();
        Self { sessions, log, memory, _folder: folder }
    }

    async fn ask(&self, session: &SessionId, who: &str, op: Op) -> Reply {
        self.sessions.ask(session, Actor::client(who.into()), op).await.unwrap()
    }

    async fn note(&self, who: &str, deed: Deed) {
        let notebook = notebook_of(&who.into());
        let open = Op::Open { epoch: 1, agent: "reciter".into(), name: Some(NOTEBOOK.into()) };
        self.ask(&notebook, who, open).await;
        self.ask(&notebook, who, Op::Chronicle { chronicle: CHRONICLE.into() }).await;
        let record = Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() };
        self.ask(&notebook, who, record).await;
    }

    async fn memorise(&self, who: &str, id: &str, content: &str) {
        self.note(who, created(id, content)).await;
    }

    async fn recall(&self, who: &str, said: &str) -> Vec<(String, f64)> {
        let found = self.memory.recall(&*self.log, &who.into(), said).await;
        found.into_iter().map(|memory| (memory.memory, memory.relevance)).collect()
    }

    async fn ids(&self, who: &str, said: &str) -> Vec<String> {
        self.recall(who, said).await.into_iter().map(|(id, _)| id).collect()
    }

    /// Asks until what is remembered is this.
    async fn until(&self, who: &str, said: &str, expected: &[(&str, f64)]) {
        let mut found = Vec::new();
        for _ in 0..500 {
            found = self.recall(who, said).await;
            let same = |((id, relevance), (other, near)): (&(String, f64), &(&str, f64))| {
                id == other && (relevance - near).abs() < 1e-3
            };
            if found.len() == expected.len() && found.iter().zip(expected).all(same) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{found:?}");
    }
}

fn changed(id: &str) -> Deed {
    Deed::Memorised {
        id: id.into(),
        content: None,
        category: None,
        pinned: None,
        archived: None,
        deleted: false,
        created: false,
    }
}

fn created(id: &str, text: &str) -> Deed {
    let mut deed = changed(id);
    if let Deed::Memorised { content, category, created, .. } = &mut deed {
        (*content, *category, *created) = (Some(text.into()), Some("fact".into()), true);
    }
    deed
}

const MORNING: &str = "what do I like to drink in the morning?";

#[tokio::test]
async fn memories_are_found_by_their_words() {
    let world = World::new(|_| ());
    assert!(world.ids("ann", MORNING).await.is_empty());
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    world.memorise("ann", "cats", "has two cats called Max and Moritz").await;
    assert_eq!(world.ids("ann", MORNING).await, ["tea"], "though there was nothing a moment ago");
    assert_eq!(world.ids("ann", "how are my cats?").await, ["cats"]);
    assert!(world.ids("ann", "what is the capital of France?").await.is_empty());
    assert!(world.ids("ann", "  ").await.is_empty());
    assert!(world.ids("bob", MORNING).await.is_empty(), "not his");
}

#[tokio::test]
async fn what_is_put_away_is_not_remembered() {
    let world = World::new(|_| ());
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    world.memorise("ann", "coffee", "likes coffee in the morning").await;
    assert_eq!(world.ids("ann", MORNING).await.len(), 2);
    let mut put_away = changed("coffee");
    if let Deed::Memorised { archived, .. } = &mut put_away {
        *archived = Some(true);
    }
    world.note("ann", put_away).await;
    assert_eq!(world.ids("ann", MORNING).await, ["tea"]);
    let mut gone = changed("tea");
    if let Deed::Memorised { deleted, .. } = &mut gone {
        *deleted = true;
    }
    world.note("ann", gone).await;
    assert!(world.ids("ann", MORNING).await.is_empty());
    let mut back = changed("coffee");
    if let Deed::Memorised { archived, .. } = &mut back {
        *archived = Some(false);
    }
    world.note("ann", back).await;
    assert_eq!(world.ids("ann", MORNING).await, ["coffee"]);
}

#[tokio::test]
async fn of_many_the_closest_are_remembered_and_pinned_ones_before_others() {
    let world = World::new(|memory| memory.top = 2);
    world.memorise("ann", "half", "drinks juice in summer").await;
    world.memorise("ann", "most", "drinks water in the morning").await;
    world.memorise("ann", "all", "likes to drink tea in the morning").await;
    assert_eq!(world.ids("ann", MORNING).await, ["all", "most"]);
    let mut pinned = changed("half");
    if let Deed::Memorised { pinned, .. } = &mut pinned {
        *pinned = Some(true);
    }
    world.note("ann", pinned).await;
    assert_eq!(world.ids("ann", MORNING).await, ["all", "half"]);
}

#[tokio::test]
async fn in_a_large_notebook_a_search_finds_what_is_old() {
    let world = World::new(|_| ());
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    for number in 0..=MOST_BY_WORDS {
        world.memorise("ann", &format!("n{number}"), &format!("has read book {number}")).await;
    }
    assert_eq!(world.ids("ann", MORNING).await, ["tea"]);
}

#[tokio::test]
async fn a_notebook_that_somebody_else_made_is_not_believed() {
    let world = World::new(|_| ());
    let notebook = notebook_of(&"ann".into());
    let open = Op::Open { epoch: 1, agent: "reciter".into(), name: Some(NOTEBOOK.into()) };
    world.ask(&notebook, "bob", open).await;
    world.ask(&notebook, "bob", Op::Chronicle { chronicle: CHRONICLE.into() }).await;
    let record = created("lie", "wants to drink whatever bob sells in the morning").to_record();
    world.ask(&notebook, "bob", Op::Record { chronicle: CHRONICLE.into(), record }).await;
    assert!(world.ids("ann", MORNING).await.is_empty());
}

#[tokio::test]
async fn an_agent_is_shown_what_is_remembered_and_so_is_the_log() {
    let world = World::new(|_| ());
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    world.memorise("ann", "early", "drinks a lot in the morning").await;
    let session = SessionId::from("s");
    let open = Op::Open { epoch: 1, agent: "reciter".into(), name: None };
    world.ask(&session, "ann", open).await;
    let turn = |turn: &str, said: &str| {
        Op::StartTurn(Box::new(NewTurn {
            turn: turn.into(),
            request: TurnRequest::Chat { parts: vec![Part::Text(said.into())] },
            agent: None,
            device: None,
            origin: Origin {
                principal: "ann".into(),
                protocol: "test".into(),
                attachment: None,
                handle: None,
                bound: false,
                options: Value::Null,
            },
            place: Place::default(),
            history: None,
            workspace: None,
            serial: true,
            held: false,
            once: false,
            setting: None,
            deadline: world.sessions.environment.clock.now().after(Duration::from_secs(60)),
            key: None,
            meta: Value::Null,
        }))
    };
    world.ask(&session, "ann", turn("one", MORNING)).await;
    world.ask(&session, "ann", turn("two", "what is the capital of France?")).await;
    let mut outputs = Vec::new();
    let mut position = 0;
    while outputs.iter().filter(|output| matches!(output, Output::Text(_))).count() < 2 {
        for batch in world.log.read(&session, position, 100).await.unwrap() {
            position = batch.last();
            for committed in &batch.events {
                if let Event::TurnOutput { output, .. } = &committed.event {
                    outputs.push(output.clone());
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let [Output::Remembered(first), Output::Remembered(second), Output::Text(one), Output::Text(two)] =
        &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert!(first.relevance >= second.relevance && second.relevance >= 0.3, "{first:?} {second:?}");
    assert_eq!(one, &format!("2: {}", first.content));
    assert_eq!(two, "0: ");
}

/// An endpoint that knows what four texts mean.
#[derive(Clone, Debug, Default)]
struct Endpoint {
    asked: Arc<AtomicUsize>,
    broken: bool,
}

impl Endpoint {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let endpoint = self.clone();
        let answer = async move |Json(request): Json<Value>| endpoint.answer(&request);
        let router = Router::new().route("/v1/embeddings", post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn answer(&self, request: &Value) -> Response {
        self.asked.fetch_add(1, Counting::Relaxed);
        if self.broken {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let means = |text: &Value| match text.as_str().unwrap() {
            MORNING => json!([1.0, 0.0]),
            "likes green tea in the morning" => json!([0.8, 0.6]),
            "Darjeeling, always" => json!([1.0, 0.0]),
            _ => json!([0.0, 1.0]),
        };
        let texts = request["input"].as_array().unwrap();
        let data: Vec<Value> = texts.iter().map(|text| json!({ "embedding": means(text) })).collect();
        Json(json!({ "data": data })).into_response()
    }
}

async fn world_with(endpoint: &Endpoint) -> World {
    let url = endpoint.start().await;
    World::new(|memory| {
        memory.embeddings.base_url = url;
        memory.embeddings.model = Some("m".into());
    })
}

#[tokio::test]
async fn memories_are_found_by_their_meaning() {
    let endpoint = Endpoint::default();
    let world = world_with(&endpoint).await;
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    world.memorise("ann", "best", "Darjeeling, always").await;
    world.memorise("ann", "cats", "drinks in the morning are for cats").await;
    world.until("ann", MORNING, &[("best", 1.0), ("tea", 0.8)]).await;
    let mut other = created("best", "Has two cats");
    if let Deed::Memorised { created, .. } = &mut other {
        *created = false;
    }
    world.note("ann", other).await;
    world.until("ann", MORNING, &[("tea", 0.8)]).await;
}

#[tokio::test]
async fn without_its_model_memory_goes_by_words() {
    let endpoint = Endpoint { broken: true, ..Endpoint::default() };
    let world = world_with(&endpoint).await;
    world.memorise("ann", "tea", "likes green tea in the morning").await;
    world.memorise("ann", "best", "Darjeeling, always").await;
    assert_eq!(world.ids("ann", MORNING).await, ["tea"]);
    let asked = endpoint.asked.load(Counting::Relaxed);
    assert!(asked > 0);
    for _ in 0..20 {
        assert_eq!(world.ids("ann", MORNING).await, ["tea"]);
    }
    // One may have been under way, behind the memory that was noted.
    assert!(endpoint.asked.load(Counting::Relaxed) <= asked + 1, "it is left alone for a while");
}
