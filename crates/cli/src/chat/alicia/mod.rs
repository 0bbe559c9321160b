//! A conversation over Alicia.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use switchboard_client::alicia::{
    Client, Conversation, ConversationEvent, ConversationRow, Ended, Events, Id, Join, Library, LibraryError,
    MessageRow, ToolCall, ToolFailure, Updates,
};
use tokio::sync::mpsc;

use super::link;
use super::past::Past;
use super::said::{Answer, Did, Link, Peer, Said};
use super::tools::{self, Consents, LocalTool};
use crate::failure::Failure;
use crate::remote::Remote;

mod answer;
mod commands;
mod tree;

use answer::{AliciaAnswer, Expected, trouble};
use tree::Tree;

/// A server that speaks Alicia.
pub(super) struct AliciaPeer {
    client: Client,
    conversation: Conversation,
    library: Library,
    links: Events,
    /// What happens while nothing is being answered.
    idle: mpsc::Receiver<ConversationEvent>,
    /// Who hears what happens now.
    listener: Listener,
    place: Place,
    timeout: Option<u32>,
}

/// Where the events of an answer go while there is one.
type Listener = Arc<Mutex<Option<mpsc::Sender<ConversationEvent>>>>;

/// The newest messages of the active path, as far as they are known.
#[derive(Clone, Debug, Default)]
struct Place(Arc<Mutex<Newest>>);

#[derive(Clone, Debug, Default)]
struct Newest {
    question: Option<Id>,
    answer: Option<Id>,
}

impl Place {
    fn newest(&self) -> Newest {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn asked(&self, question: Id) {
        self.put(Newest { question: Some(question), answer: None });
    }

    fn put(&self, newest: Newest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = newest;
    }

    fn answered(&self, answer: Id) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answer = Some(answer);
    }

    fn set(&self, tree: &Tree) {
        let id = |role| tree.newest(role).and_then(|row| Id::new(row.id.clone()).ok());
        self.put(Newest { question: id("user"), answer: id("assistant") });
    }
}

/// What `chat` wants of the conversation.
pub(super) struct Wanted<'a> {
    /// Its id or title; none for a new one.
    pub(super) session: Option<&'a str>,
    /// Whether what was said before is to be shown.
    pub(super) past: usize,
    pub(super) tools: &'a [LocalTool],
    /// Where to ask whether a tool may run.
    pub(super) consents: Option<Consents>,
    pub(super) timeout: Option<u32>,
}

/// Joins the conversation; answers what was said before, too, the newest first.
pub(super) async fn meet(remote: &Remote, wanted: Wanted<'_>) -> Result<(AliciaPeer, Vec<Past>), Failure> {
    let options = remote.alicia();
    let library = Library::new(&options).map_err(|error| remote.disconnected(&error))?;
    let client = Client::connect(options).await.map_err(|error| remote.disconnected(&error))?;
    let links = client.events();
    let id = match wanted.session {
        Some(session) => Some(find(remote, &library, session).await?),
        None => None,
    };
    let mut join = id.map_or_else(Join::create, Join::existing);
    for tool in wanted.tools {
        let (command, consents) = (tool.command.clone(), wanted.consents.clone());
        join = join.tool(tool.definition.name.clone(), move |call: ToolCall| {
            let (command, consents) = (command.clone(), consents.clone());
            async move {
                let ran = tools::run(&command, &call.parameters, consents.as_ref()).await;
                ran.map_err(|failure| ToolFailure::new(failure.message))
            }
        });
    }
    let (conversation, updates) = client
        .conversation(join)
        .await
        .map_err(|error| Failure::failed(format!("{}: {error}", remote.url)))?;
    let place = Place::default();
    let mut past = Vec::new();
    // Without the past, the conversation can go on as well.
    if wanted.session.is_some()
        && let Ok(tree) = tree(&library, conversation.id()).await
    {
        place.set(&tree);
        past = tree.past(wanted.past);
    }
    let (to_idle, idle) = mpsc::channel(WAITING);
    let listener = Listener::default();
    tokio::spawn(distribute(updates, listener.clone(), to_idle, place.clone()));
    let timeout = wanted.timeout;
    Ok((AliciaPeer { client, conversation, library, links, idle, listener, place, timeout }, past))
}

/// The conversation with this id or title; one that is not there is made.
async fn find(remote: &Remote, library: &Library, session: &str) -> Result<Id, Failure> {
    let refused = |error: LibraryError| remote.refused_alicia(&error);
    let id = |row: ConversationRow| {
        Id::new(row.id).map_err(|_| Failure::failed("the server names a conversation that has no name"))
    };
    if session.starts_with("ac_") {
        return Id::new(session)
            .map_err(|_| Failure::usage(format!("{session:?} is not the id of anything")));
    }
    let mut before = None;
    for _ in 0..MAX_PAGES {
        let page = library.conversations(before).await.map_err(refused)?;
        let titled = |row: &ConversationRow| row.title.as_deref() == Some(session);
        if let Some(row) = page.items.into_iter().find(titled) {
            return id(row);
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    id(library.create(Some(session)).await.map_err(refused)?)
}

/// All messages of a conversation.
async fn tree(library: &Library, conversation: &Id) -> Result<Tree, LibraryError> {
    let row = library.conversation(conversation).await?;
    let (mut rows, mut after): (Vec<MessageRow>, _) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = library.tree(conversation, after).await?;
        rows.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(Tree::new(rows, row.tip_message_id.as_deref()))
}

/// Hands on what happens to the answer that is under way, or else to whoever waits for the next.
async fn distribute(
    mut updates: Updates,
    listener: Listener,
    idle: mpsc::Sender<ConversationEvent>,
    place: Place,
) {
    while let Some(event) = updates.next().await {
        if let ConversationEvent::Question(message) = &event {
            place.asked(message.id.clone());
        }
        if let ConversationEvent::Answered(answer) = &event {
            place.answered(answer.id.clone());
        }
        let now = listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let left = match now {
            None => event,
            // An answer that is not heard any more leaves the rest to others.
            Some(answer) => match answer.send(event).await {
                Ok(()) => continue,
                Err(unheard) => unheard.0,
            },
        };
        if idle.send(left).await.is_err() {
            return;
        }
    }
}

impl AliciaPeer {
    /// From now on, what happens belongs to an answer.
    fn listen(&self) -> mpsc::Receiver<ConversationEvent> {
        let (sender, events) = mpsc::channel(WAITING);
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        events
    }

    fn answer(
        &self,
        expected: Expected,
        ask: impl Future<Output = answer::Asked> + Send + 'static,
    ) -> Box<dyn Answer> {
        self.answer_among(self.listen(), expected, ask)
    }

    fn answer_among(
        &self,
        events: mpsc::Receiver<ConversationEvent>,
        expected: Expected,
        ask: impl Future<Output = answer::Asked> + Send + 'static,
    ) -> Box<dyn Answer> {
        let (conversation, library) = (self.conversation.clone(), self.library.clone());
        let place = self.place.clone();
        Box::new(AliciaAnswer::new(conversation, library, place, events, expected, tokio::spawn(ask)))
    }
}

#[async_trait::async_trait]
impl Peer for AliciaPeer {
    async fn say(&mut self, text: String) -> Result<Box<dyn Answer>, Failure> {
        let events = self.listen();
        // A replay may bring the answer before the server says that it has the message.
        let (expected, sent) = match self.conversation.send(text, None).await {
            Ok(sent) => (Expected::To(sent.id().clone()), Ok(sent)),
            Err(error) => (Expected::Nothing, Err(error)),
        };
        let (place, before) = (self.place.clone(), self.place.newest());
        if let Expected::To(question) = &expected {
            place.asked(question.clone());
        }
        Ok(self.answer_among(events, expected, async move {
            let taken = sent?.taken().await;
            if taken.is_err() {
                place.put(before);
            }
            taken.map(drop)
        }))
    }

    async fn command(&mut self, line: &str) -> Result<Did, Failure> {
        Ok(self.carry_out(line).await)
    }

    fn commands(&self) -> &'static [&'static str] {
        commands::HELP
    }

    async fn event(&mut self) -> Option<Link> {
        loop {
            tokio::select! {
                event = self.links.next() => return Some(link(event?)),
                Some(event) = self.idle.recv() => {
                    if let Some(link) = idle(event) {
                        return Some(link);
                    }
                }
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.client.snapshot().connected
    }

    fn patience(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    async fn leave(&self) {
        self.client.close().await;
    }
}

/// What is told of things that belong to no answer of this client.
fn idle(event: ConversationEvent) -> Option<Link> {
    let notice = |text: String| Some(Link::Said(Said::Notice { level: "info", text }));
    match event {
        ConversationEvent::Question(message) => notice(format!("elsewhere: {}", message.content.0)),
        ConversationEvent::Answered(answer) if !answer.text.0.is_empty() => notice(answer.text.0),
        ConversationEvent::Updated(update) => notice(format!("the title is now {}", update.title?.0)),
        ConversationEvent::Reload => notice(answer::MISSED.to_owned()),
        ConversationEvent::Failed(error) => Some(Link::Trouble(trouble(&error))),
        ConversationEvent::Closed(Ended::Refused(error)) => Some(Link::Over { why: error.message.0 }),
        ConversationEvent::Closed(Ended::NotFollowed(why)) => Some(Link::Over { why }),
        // What happens to the connection is told by itself, and half of something is not worth telling.
        ConversationEvent::Closed(Ended::Off | Ended::Left)
        | ConversationEvent::Joined(_)
        | ConversationEvent::Heard(_)
        | ConversationEvent::Started { .. }
        | ConversationEvent::Piece { .. }
        | ConversationEvent::Interrupted { .. }
        | ConversationEvent::Answered(_)
        | ConversationEvent::Reasoning(_)
        | ConversationEvent::Remembered(_)
        | ConversationEvent::ToolUsed(_)
        | ConversationEvent::RunTool(_)
        | ConversationEvent::StopTool(_)
        | ConversationEvent::ToolResult(_)
        | ConversationEvent::Remarked(_)
        | ConversationEvent::Audio(_)
        | ConversationEvent::ServerInfo(_)
        | ConversationEvent::Stats(_)
        | ConversationEvent::Elites(_)
        | ConversationEvent::Error(_) => None,
    }
}

/// Events that may wait.
const WAITING: usize = 256;
/// Pages of a list that are looked at.
const MAX_PAGES: usize = 20;
