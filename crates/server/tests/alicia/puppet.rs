//! An agent that does nothing until the test says so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, ToolUse, Toolbox, Turn};
use switchboard_core::model::{CallEnd, CallError, Failure, FailureKind, Output, Part, Remembered, TurnEnd};
use switchboard_core::{CallId, ToolName};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::device::PATIENCE;

/// An agent, and where its turns come up.
pub(crate) fn puppet() -> (Arc<dyn Agent>, Scenes) {
    let (raise, raised) = mpsc::unbounded_channel();
    (Arc::new(Puppet { raise }), Scenes(raised))
}

#[derive(Debug)]
struct Puppet {
    raise: mpsc::UnboundedSender<Scene>,
}

/// The turns that the agent is asked for, in their order.
#[derive(Debug)]
pub(crate) struct Scenes(mpsc::UnboundedReceiver<Scene>);

/// A turn in the hands of the test. Dropped, its agent stays silent until it is stopped.
#[derive(Debug)]
pub(crate) struct Scene {
    /// What is asked.
    pub(crate) request: String,
    /// What was said before, oldest first.
    pub(crate) history: Vec<String>,
    cues: mpsc::UnboundedSender<Cue>,
}

#[derive(Debug)]
enum Act {
    Emit(Output),
    Begin(ToolName, Value, oneshot::Sender<CallId>),
    End(CallId, CallEnd),
    Call(Vec<ToolUse>, Duration, oneshot::Sender<Vec<Result<CallEnd, Failure>>>),
    Finish(Result<TurnEnd, AgentError>),
    /// Listens to nothing more, and says this again and again.
    Babble(String),
}

#[derive(Debug)]
struct Cue(Act, oneshot::Sender<()>);

#[async_trait]
impl Agent for Puppet {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let (cues, mut given) = mpsc::unbounded_channel();
        turn.equip(Arc::new(Abacus));
        let history = turn.history(100).await.iter().map(|row| words(&row.parts)).collect();
        let _ = self.raise.send(Scene { request: turn.request().text(), history, cues });
        loop {
            let cue = tokio::select! {
                cue = given.recv() => cue,
                () = turn.interrupted() => return Err(AgentError::Over),
            };
            let Some(Cue(act, done)) = cue else {
                turn.interrupted().await;
                return Err(AgentError::Over);
            };
            match act {
                Act::Emit(output) => turn.emit(output).await?,
                Act::Begin(name, args, id) => {
                    let _ = id.send(turn.begin_tool(&name, args).await?);
                }
                Act::End(call, end) => turn.end_tool(&call, end).await?,
                Act::Call(uses, limit, ends) => {
                    let _ = ends.send(turn.call_all(uses, limit).await?);
                }
                Act::Babble(text) => {
                    let _ = done.send(());
                    loop {
                        let _ = turn.text(text.clone()).await;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                Act::Finish(end) => {
                    let _ = done.send(());
                    return end;
                }
            }
            turn.settled().await;
            let _ = done.send(());
        }
    }
}

/// The one tool that the agent has itself, and could leave to a client: [`ABACUS`].
#[derive(Debug)]
struct Abacus;

pub(crate) const ABACUS: &str = "abacus";

#[async_trait]
impl Toolbox for Abacus {
    fn knows(&self, name: &ToolName) -> bool {
        name.as_str() == ABACUS
    }

    fn approval(&self, _: &ToolName) -> Option<Duration> {
        None
    }

    async fn run(&self, _: &ToolName, _: Value, _: Duration, _: mpsc::Sender<String>) -> CallEnd {
        CallEnd::done(json!({ "by": "server" }))
    }
}

fn words(parts: &[Part]) -> String {
    parts
        .iter()
        .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
        .collect()
}

impl Scenes {
    /// The next turn.
    pub(crate) async fn next(&mut self) -> Scene {
        timeout(PATIENCE, self.0.recv()).await.expect("a turn in time").expect("a server")
    }

    /// The next turn, however long that takes.
    pub(crate) async fn next_of_any(&mut self) -> Scene {
        match self.0.recv().await {
            Some(scene) => scene,
            None => std::future::pending().await,
        }
    }

    /// No turn has been asked for. Only meaningful once something was answered that comes later.
    pub(crate) fn assert_none(&mut self) {
        if let Ok(scene) = self.0.try_recv() {
            panic!("a turn about {:?}", scene.request);
        }
    }
}

impl Scene {
    /// Does something, and waits until it is committed.
    async fn act(&self, act: Act) {
        let (done, is_done) = oneshot::channel();
        self.cues.send(Cue(act, done)).expect("a turn that goes on");
        timeout(PATIENCE, is_done).await.expect("in time").expect("a turn that goes on");
    }

    /// The same; false if the turn is over meanwhile.
    async fn try_act(&self, act: Act) -> bool {
        let (done, is_done) = oneshot::channel();
        self.cues.send(Cue(act, done)).is_ok() && is_done.await.is_ok()
    }

    pub(crate) async fn try_say(&self, text: &str) -> bool {
        self.try_act(Act::Emit(Output::Text(text.into()))).await
    }

    pub(crate) async fn try_tool(&self, name: &str) -> bool {
        let (send, receive) = oneshot::channel();
        if !self.try_act(Act::Begin(ToolName::new(name), json!({}), send)).await {
            return false;
        }
        let Ok(call) = receive.await else { return false };
        self.try_act(Act::End(call, CallEnd::done(json!({})))).await
    }

    pub(crate) async fn try_finish(self) {
        self.try_act(Act::Finish(Ok(TurnEnd::complete()))).await;
    }

    pub(crate) async fn say(&self, text: &str) {
        self.act(Act::Emit(Output::Text(text.into()))).await;
    }

    pub(crate) async fn think(&self, text: &str) {
        self.act(Act::Emit(Output::Reasoning(text.into()))).await;
    }

    pub(crate) async fn remember(&self, memory: &str, content: &str, relevance: f64) {
        let (memory, content) = (memory.to_owned(), content.to_owned());
        self.act(Act::Emit(Output::Remembered(Remembered { memory, content, relevance, source: None })))
            .await;
    }

    /// Begins a tool of the agent's own.
    pub(crate) async fn begin_tool(&self, name: &str, args: Value) -> CallId {
        let (send, receive) = oneshot::channel();
        self.act(Act::Begin(ToolName::new(name), args, send)).await;
        receive.await.unwrap()
    }

    pub(crate) async fn end_tool(&self, call: CallId, end: Result<Value, (&str, &str)>) {
        let end = match end {
            Ok(value) => CallEnd::done(value),
            Err((code, message)) => CallEnd::Failed(CallError::new(code, message)),
        };
        self.act(Act::End(call, end)).await;
    }

    /// A tool of the agent's own, from begin to end.
    pub(crate) async fn tool(&self, name: &str, end: Result<Value, (&str, &str)>) {
        let call = self.begin_tool(name, json!({})).await;
        self.end_tool(call, end).await;
    }

    /// Asks for a tool of somebody's; the end can be waited for.
    pub(crate) fn call(&self, name: &str, args: Value, limit: Duration) -> Called {
        self.call_all(&[(name, args)], limit)
    }

    /// Asks for several at once.
    pub(crate) fn call_all(&self, uses: &[(&str, Value)], limit: Duration) -> Called {
        let uses = uses.iter().map(|(name, args)| ToolUse { name: ToolName::new(*name), args: args.clone() });
        let (ends, ended) = oneshot::channel();
        let (done, _) = oneshot::channel();
        self.cues.send(Cue(Act::Call(uses.collect(), limit, ends), done)).expect("a turn that goes on");
        Called(ended)
    }

    /// Ends the turn in an ordinary way.
    pub(crate) async fn finish(self) {
        self.act(Act::Finish(Ok(TurnEnd::complete()))).await;
    }

    /// Says something, and ends the turn.
    pub(crate) async fn answer(self, text: &str) {
        self.say(text).await;
        self.finish().await;
    }

    pub(crate) async fn fail(self, kind: FailureKind, message: &str) {
        self.act(Act::Finish(Err(AgentError::failed(kind, message)))).await;
    }

    /// Says this from now on whatever happens, also when it is told to stop.
    pub(crate) async fn babble(self, text: &str) {
        self.act(Act::Babble(text.to_owned())).await;
    }

    /// Waits until the agent has been stopped.
    pub(crate) async fn stopped(&self) {
        timeout(PATIENCE, self.cues.closed()).await.expect("a stop in time");
    }
}

/// Tools that somebody was asked to run.
#[derive(Debug)]
pub(crate) struct Called(oneshot::Receiver<Vec<Result<CallEnd, Failure>>>);

impl Called {
    /// How they ended, in the order in which they were asked for: what came, or the name of what went wrong.
    pub(crate) async fn ends(self) -> Vec<Result<Value, String>> {
        let ends = timeout(PATIENCE, self.0).await.expect("in time").expect("a turn that goes on");
        ends.into_iter()
            .map(|end| match end {
                Ok(CallEnd::Done { output, .. }) => Ok(Arc::unwrap_or_clone(output)),
                Ok(CallEnd::Failed(error)) => Err(error.name),
                Ok(CallEnd::TimedOut) => Err("timeout".to_owned()),
                Ok(CallEnd::Cancelled) => Err("cancelled".to_owned()),
                Err(failure) => Err(failure.message),
            })
            .collect()
    }

    /// How the only one ended.
    pub(crate) async fn end(self) -> Result<Value, String> {
        self.ends().await.remove(0)
    }
}
