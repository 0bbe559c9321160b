//! Sessions with their log and annals in one thread; exchanges are answered as the server answers them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use switchboard_alicia::annals::{Annalist, Annals};
use switchboard_alicia::deed;
use switchboard_alicia::message::{Dimensions, Elite, ModelInfo};
use switchboard_alicia::{Alicia, AliciaLimits, Facts, Id, Offer, Service};
use switchboard_core::model::{Actor, FailureKind, TurnEnd};
use switchboard_core::{
    Committed, Connection, Event, Frame, Head, Input, Lookup, Method, Op, Opening, OpeningRequest, Output,
    Position, Principal, Protocol, Reject, Reply, Row, Seed, Session, SessionId, SessionLimits, Timestamp,
    TurnId, Upgrade, Within, WorkerId, rows,
};
use switchboard_store::{Append, Batch, Log, MemoryLog};

/// A server without a network.
pub(crate) struct Town {
    log: MemoryLog,
    sessions: BTreeMap<SessionId, (Session, Annals)>,
    /// Rows of sessions of which nobody has asked for an account.
    unwritten: BTreeMap<SessionId, Vec<Row>>,
    protocol: Alicia,
    pub(crate) now: Timestamp,
    seed: u8,
    /// Called before the next op, as if somebody else were faster.
    pub(crate) meanwhile: Option<(SessionId, Op)>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media: Option<String>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }
}

impl Town {
    pub(crate) fn new() -> Self {
        let elite = Elite {
            id: Id::new("pa_1").unwrap(),
            label: "Quick".into(),
            scores: Dimensions::from_array([0.5; 7]),
            description: String::new(),
            best_for: String::new(),
        };
        let facts = |_: &_| Facts {
            model: ModelInfo { name: String::new(), provider: String::new() },
            servers: Vec::new(),
        };
        let elites = Arc::new([Offer { elite, agent: Some("quick".into()) }]);
        Self {
            log: MemoryLog::with_chroniclers(vec![Arc::new(Annalist)]),
            sessions: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            protocol: Alicia::new(
                AliciaLimits::default(),
                Service { elites, facts: Arc::new(facts), hears: false },
            ),
            now: Timestamp::from_millis(1_767_225_600_000),
            seed: 0,
            meanwhile: None,
        }
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask("ann", Method::Get, target, &[], "")
    }

    pub(crate) fn post(&mut self, target: &str, body: &Value) -> Answer {
        self.ask("ann", Method::Post, target, &[], body.to_string())
    }

    pub(crate) fn ask(
        &mut self,
        who: &str,
        method: Method,
        target: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        self.seed += 1;
        self.now = self.now.after(Duration::from_millis(1));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = OpeningRequest {
            path: self.route(method, path),
            target: path.to_owned(),
            query: query.to_owned(),
            headers: headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            method,
            ..OpeningRequest::default()
        };
        let opening =
            Opening { credentials: Vec::new(), subprotocol: None, agent: None, parameters: Vec::new() };
        let upgrade = Upgrade {
            known: Vec::new(),
            principal: Principal::new(who),
            now: self.now,
            request,
            opening,
            agent: "agent".into(),
            agents: vec!["agent".into()],
            remote: false,
            tools: Vec::new(),
        };
        let mut exchange = self.protocol.accept(upgrade, Seed::new([self.seed; 32])).expect("an exchange");
        exchange.handle_input(Input::Frame(Frame::Binary(body.into())), self.now).expect("no violation");
        self.serve(who, &mut *exchange)
    }

    fn route(&self, method: Method, path: &str) -> &'static str {
        let fits = |route: &str| {
            let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
            route.len() == path.len() && route.iter().zip(path).all(|(a, b)| *a == "{id}" || *a == b)
        };
        let mut routes = self.protocol.routes().iter();
        let found = routes
            .find(|route| route.transport == switchboard_core::Transport::Http(method) && fits(route.path));
        found.unwrap_or_else(|| panic!("no route for {path}")).path
    }

    /// Does what an exchange wants until it has answered.
    fn serve(&mut self, who: &str, exchange: &mut dyn Connection) -> Answer {
        let (mut head, mut body) = (None, Vec::new());
        loop {
            match exchange.poll_output() {
                Output::Send(Frame::Head(answered)) => {
                    assert!(head.replace(*answered).is_none(), "one head");
                }
                Output::Send(Frame::Binary(bytes)) => body.extend_from_slice(&bytes),
                Output::Submit(request, session, op) => {
                    if let Some((other, op)) =
                        self.meanwhile.take_if(|_| matches!(op, Op::Import(_) | Op::StartTurn(_)))
                    {
                        self.submit("ann", &other, &op).expect("somebody else is faster");
                    }
                    let outcome = self.submit(who, &session, &op);
                    self.feed(exchange, request, outcome);
                }
                Output::Look(request, lookup) => {
                    let outcome = self.look(who, &lookup);
                    self.feed(exchange, request, outcome);
                }
                Output::SubmitLast(session, op) => {
                    self.submit(who, &session, &op).expect("what is told last");
                }
                Output::Close(_) => break,
                other => panic!("{other:?}"),
            }
        }
        let Head { status, headers } = head.expect("a head");
        let media = headers.into_iter().find(|(name, _)| *name == "content-type").map(|(_, value)| value);
        Answer { status, media, body: body.into() }
    }

    fn feed(
        &self,
        exchange: &mut dyn Connection,
        request: switchboard_core::RequestId,
        outcome: Result<Reply, Reject>,
    ) {
        let input = match outcome {
            Ok(reply) => Input::Done(request, reply),
            Err(reject) => Input::Rejected(request, reject),
        };
        exchange.handle_input(input, self.now).expect("no violation");
    }

    pub(crate) fn submit(&mut self, who: &str, session: &SessionId, op: &Op) -> Result<Reply, Reject> {
        self.submit_as(&Actor::client(who.into()), session, op)
    }

    pub(crate) fn submit_as(&mut self, actor: &Actor, id: &SessionId, op: &Op) -> Result<Reply, Reject> {
        let now = self.now;
        let (session, annals) = self
            .sessions
            .entry(id.clone())
            .or_insert_with(|| (Session::new(id.clone(), SessionLimits::default()), Annals::new(id)));
        let vouched: Vec<_> = session
            .relies_on(op)
            .filter(|message| !now_or_never(self.log.history(id, message, 1)).unwrap().is_empty())
            .cloned()
            .into_iter()
            .collect();
        let decision = session.decide_knowing(actor, op, now, &vouched)?;
        let (after, mut events, mut changed) = (session.head(), Vec::new(), Vec::new());
        for event in decision.events {
            let position = match event {
                Event::SessionOpened { epoch, .. } => Position { epoch, seq: 1 },
                _ => session.head().next(),
            };
            let committed = Committed { position, at: now, event };
            changed.extend(rows(session, &committed));
            session.apply(&committed);
            let unwritten = self.unwritten.entry(id.clone()).or_default();
            unwritten.extend(annals.take(&committed).records.into_iter().map(Row::Chronicled));
            if session.chronicles().any(|name| name == deed::CHRONICLE) {
                changed.append(unwritten);
            }
            events.push(committed);
        }
        if !events.is_empty() {
            let summary = session.summary().expect("an open session");
            let batch = Arc::new(Batch { events });
            let append = Append { session: id.clone(), after, batch, rows: changed, summary, snapshot: None };
            now_or_never(self.log.append(append)).expect("appended");
        }
        Ok(decision.reply)
    }

    fn look(&self, who: &str, lookup: &Lookup) -> Result<Reply, Reject> {
        if let Within::Session(session) = &lookup.within {
            let row = now_or_never(self.log.session(session)).unwrap().ok_or(Reject::NotFound)?;
            let gone =
                self.annals(session).status() == switchboard_alicia::message::ConversationStatus::Deleted;
            if row.owner.as_str() != who || gone {
                return Err(Reject::NotFound);
            }
        }
        Ok(Reply::Rows(
            now_or_never(self.log.look(&who.into(), lookup)).expect("a look-up that is understood"),
        ))
    }

    pub(crate) fn annals(&self, session: &SessionId) -> &Annals {
        &self.sessions[session].1
    }

    /// A new conversation.
    pub(crate) fn conversation(&mut self) -> String {
        let answer = self.post("/api/v1/conversations", &Value::Null);
        // No body at all, and null, are not the same: this one is refused, that one is not.
        assert_eq!(answer.status, 400);
        let answer = self.ask("ann", Method::Post, "/api/v1/conversations", &[], "");
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// The agent that is asked when a message is posted.
    pub(crate) fn agent_of_next_turn(&mut self, conversation: &str, contents: &str) -> String {
        let path = format!("/api/v1/conversations/{conversation}/messages");
        let answer = self.post(&path, &serde_json::json!({ "contents": contents }));
        assert_eq!(answer.status, 202, "{answer:?}");
        let (session, _) = &self.sessions[&SessionId::new(conversation)];
        let turn = session.turns().next().expect("a turn");
        turn.agent.to_string()
    }

    /// Lets the turn that is under way fail before there is any answer.
    pub(crate) fn fail(&mut self, conversation: &str) -> String {
        self.work(conversation, None, TurnEnd::failed(FailureKind::Execution, "broken"))
    }

    /// Answers the turn that is under way.
    pub(crate) fn answer(&mut self, conversation: &str, text: &str) -> String {
        self.work(conversation, Some(text), TurnEnd::complete())
    }

    fn work(&mut self, conversation: &str, text: Option<&str>, end: TurnEnd) -> String {
        let session = SessionId::new(conversation);
        let live = self.annals(&session).live_answers().find(|(_, answer)| !answer.is_settled());
        let (turn, answer): (TurnId, String) =
            live.map(|(turn, answer)| (turn.clone(), answer.id().to_string())).expect("a live turn");
        let worker = Actor::worker(WorkerId::from("worker"));
        let mut op = |op| self.submit_as(&worker, &session, &op).unwrap();
        op(Op::Claim { turn: turn.clone(), relayed: false });
        if let Some(text) = text {
            let output = switchboard_core::model::Output::Text(text.to_owned());
            op(Op::Emit { turn: turn.clone(), fence: 1, output });
        }
        op(Op::Finish { turn, fence: 1, end });
        answer
    }
}

/// The store in memory never waits.
fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the store in memory never waits"),
    }
}
