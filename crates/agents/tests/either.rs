//! Tools that the agent has, and that whoever asks can run as well.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, Brief, Script, Story, ToolUse, Toolbox, Turn};
use switchboard_core::model::{Call, CallEnd, CallError, CallKind, CallRequest, Executor, TurnEnd};
use switchboard_core::{Event, PrincipalId, Timestamp, ToolName};
use tokio::sync::{mpsc, watch};

use support::{Port, brief, chat, replay_brief, tool};

/// The tools of the process, which says what it has run.
#[derive(Debug, Default)]
struct Own {
    ran: Mutex<Vec<String>>,
}

#[async_trait]
impl Toolbox for Own {
    fn knows(&self, name: &ToolName) -> bool {
        matches!(name.as_str(), "clock" | "calendar" | "wipe")
    }

    fn approval(&self, name: &ToolName) -> Option<Duration> {
        (name.as_str() == "wipe").then_some(Duration::from_secs(9))
    }

    async fn run(&self, name: &ToolName, _: Value, _: Duration, _: mpsc::Sender<String>) -> CallEnd {
        self.ran.lock().unwrap().push(name.to_string());
        CallEnd::done(json!("own"))
    }
}

/// An agent with those tools.
#[derive(Debug)]
struct Equipped<A> {
    inner: A,
    own: Arc<Own>,
}

#[async_trait]
impl<A: Agent> Agent for Equipped<A> {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        turn.equip(self.own.clone());
        self.inner.run(turn).await
    }
}

fn script() -> Script {
    let story = r#"
        name = "either"
        [[rules]]
        match = '^call (?P<name>\S+)$'
        steps = [
            { text = "a", chunk = "whole" },
            { call = { name = "{name}", args = { n = 1 }, timeout_ms = 7000, on_timeout = "continue" } },
            { text = "{outcome} {result} {error.name}", chunk = "whole" },
        ]
        [[rules]]
        match = '^tool$'
        steps = [
            { tool = { name = "worker", args = { n = 1 }, output = ["half"], result = "own", timeout_ms = 9000 } },
            { text = "after", chunk = "whole" },
        ]
    "#;
    Script::new(Story::parse(story, "either").unwrap())
}

fn equipped() -> Equipped<Script> {
    Equipped { inner: script(), own: Arc::default() }
}

/// A turn of somebody who can run these tools.
fn asked(text: &str, tools: Value, fence: u32) -> Brief {
    let mut brief = brief(chat(text), fence);
    brief.origin.options = json!({ "streaming": true, "tools": tools });
    brief
}

fn ann() -> Executor {
    Executor::Principal(PrincipalId::from("ann"))
}

/// Whoever asks answers with this.
fn answering(end: CallEnd) -> Arc<Port> {
    Port::new(move |call: &CallRequest| (call.executor == Some(ann())).then(|| end.clone()))
}

fn unknown_tool() -> CallEnd {
    CallEnd::Failed(CallError::new("unknown_tool", "no such tool here"))
}

fn executors(port: &Port) -> Vec<Executor> {
    port.calls().into_iter().map(|call| call.executor).collect()
}

#[tokio::test]
async fn whoever_asks_runs_the_tool_if_they_can() {
    let (port, agent) = (answering(CallEnd::done(json!("theirs"))), equipped());
    replay_brief(&agent, &port, asked("call clock", json!(["other", "clock"]), 1), Vec::new()).await.unwrap();
    assert_eq!(port.text(), "adone theirs ");
    assert!(agent.own.ran.lock().unwrap().is_empty());
    let calls = port.calls();
    let [Call { kind, executor, deadline, options, .. }] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(*kind, CallKind::Tool { name: "clock".into(), args: json!({ "n": 1 }).into() });
    assert_eq!((executor, &**options), (&ann(), &json!({ "either": true, "grace_ms": 2000 })));
    assert_eq!(*deadline, Timestamp::from_secs(1_009));
}

#[tokio::test]
async fn the_agent_runs_it_once_if_they_do_not_know_it_or_are_late() {
    for end in [unknown_tool(), CallEnd::TimedOut] {
        let (port, agent) = (answering(end), equipped());
        replay_brief(&agent, &port, asked("call clock", json!(["clock"]), 1), Vec::new()).await.unwrap();
        assert_eq!(port.text(), "adone own ");
        assert_eq!(*agent.own.ran.lock().unwrap(), ["clock"]);
        assert_eq!(executors(&port), [ann(), Executor::Agent]);
        let calls = port.calls();
        assert_ne!(calls[0].id, calls[1].id);
        assert_eq!(calls[1].options, Value::Null.into());
    }
}

#[tokio::test]
async fn a_failure_of_theirs_is_the_result() {
    let (port, agent) = (answering(CallEnd::Failed(CallError::new("execution_error", "no"))), equipped());
    replay_brief(&agent, &port, asked("call clock", json!(["clock"]), 1), Vec::new()).await.unwrap();
    assert_eq!(port.text(), "afailed  execution_error");
    assert!(agent.own.ran.lock().unwrap().is_empty());
    assert_eq!(executors(&port), [ann()]);
}

#[tokio::test]
async fn al_068_nobody_is_asked_to_run_a_tool_who_has_not_said_that_they_can() {
    for tools in [json!([]), json!(["calendar"]), json!("clock"), Value::Null, json!([["clock"], 7])] {
        let (port, agent) = (answering(CallEnd::done(json!("theirs"))), equipped());
        replay_brief(&agent, &port, asked("call clock", tools, 1), Vec::new()).await.unwrap();
        assert_eq!((port.text().as_str(), executors(&port)), ("adone own ", vec![Executor::Agent]));
    }
}

#[tokio::test]
async fn a_tool_that_the_agent_does_not_have_is_asked_for_as_ever() {
    let port = Port::new(|_| Some(unknown_tool()));
    let agent = equipped();
    replay_brief(&agent, &port, asked("call light", json!(["light"]), 1), Vec::new()).await.unwrap();
    let calls = port.calls();
    assert_eq!((calls.len(), &*calls[0].options), (1, &Value::Null));
    assert_eq!(port.text(), "afailed  unknown_tool");
}

#[tokio::test]
async fn who_has_asked_the_agent_for_a_tool_is_not_asked_for_it() {
    #[derive(Debug)]
    struct Runs;
    #[async_trait]
    impl Agent for Runs {
        async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
            let end = turn.call(&"clock".into(), json!({}), Duration::from_secs(1)).await?;
            assert_eq!(end, CallEnd::done(json!("own")));
            Ok(TurnEnd::complete())
        }
    }
    let (port, agent) =
        (answering(CallEnd::done(json!("theirs"))), Equipped { inner: Runs, own: Arc::default() });
    let brief = Brief { request: tool("clock", json!({})), ..asked("", json!(["clock"]), 1) };
    replay_brief(&agent, &port, brief, Vec::new()).await.unwrap();
    assert_eq!(executors(&port), [Executor::Agent]);
}

#[tokio::test]
async fn several_tools_are_offered_at_the_same_time() {
    let port = Port::new(|call: &CallRequest| match (&call.executor, &call.kind) {
        (Some(Executor::Agent), _) => None,
        (Some(_), CallKind::Tool { name, .. }) if name.as_str() == "calendar" => Some(unknown_tool()),
        (Some(_), _) => Some(CallEnd::done(json!("theirs"))),
        (None, _) => Some(CallEnd::done(json!("far"))),
    });
    let own = Arc::new(Own::default());
    let (_keep, interrupted) = watch::channel(false);
    let mut turn =
        Turn::new(asked("x", json!(["clock", "calendar", "far"]), 1), port.clone(), interrupted, Vec::new());
    turn.equip(own.clone());
    let uses = ["calendar", "clock", "far", "calendar"]
        .map(|name| ToolUse { name: name.into(), args: json!({ "for": name }) });
    let ended = turn.call_all(uses.to_vec(), Duration::from_secs(3_600)).await.unwrap();
    let results: Vec<CallEnd> = ended.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, ["own", "theirs", "far", "own"].map(|text| CallEnd::done(json!(text))));
    assert_eq!(*own.ran.lock().unwrap(), ["calendar", "calendar"]);
    let calls = port.calls();
    assert_eq!(calls.len(), 6);
    assert!(
        calls[..2].iter().all(|call| call.deadline == Timestamp::from_secs(1_302)),
        "nobody waits for an hour"
    );
}

#[tokio::test]
async fn an_interrupt_leaves_the_tool_alone() {
    let (port, own) = (Port::silent(), Arc::new(Own::default()));
    let (interrupt, interrupted) = watch::channel(false);
    let mut turn = Turn::new(asked("x", json!(["clock"]), 1), port.clone(), interrupted, Vec::new());
    turn.equip(own.clone());
    let waiting =
        tokio::spawn(async move { turn.call(&"clock".into(), json!({}), Duration::from_secs(60)).await });
    while port.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    interrupt.send(true).unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(AgentError::Over)));
    assert!(own.ran.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_story_offers_the_tools_that_it_shows() {
    let port = answering(CallEnd::done(json!("theirs")));
    replay_brief(&script(), &port, asked("tool", json!(["worker"]), 1), Vec::new()).await.unwrap();
    assert_eq!((executors(&port), port.text().as_str()), (vec![ann()], "after"));
    assert_eq!(port.calls()[0].deadline, Timestamp::from_secs(1_011));

    let port = answering(unknown_tool());
    replay_brief(&script(), &port, asked("tool", json!(["worker"]), 1), Vec::new()).await.unwrap();
    assert_eq!((executors(&port), port.text().as_str()), (vec![ann(), Executor::Agent], "after"));
    let progress = port.events().iter().filter(|event| matches!(event, Event::CallProgress { .. })).count();
    assert_eq!(progress, 1);
}

#[tokio::test]
async fn a_repetition_asks_nobody_twice() {
    for (text, tools) in [("call clock", json!(["clock"])), ("tool", json!(["worker"]))] {
        for answer in [CallEnd::done(json!("theirs")), unknown_tool(), CallEnd::TimedOut] {
            let (port, agent) = (answering(answer.clone()), equipped());
            let end = replay_brief(&agent, &port, asked(text, tools.clone(), 1), Vec::new()).await.unwrap();
            let whole = port.events();
            for cut in 0..=whole.len() {
                let journal = whole[..cut].to_vec();
                let again = answering(answer.clone());
                again.take_over(&journal);
                let brief = asked(text, tools.clone(), 2);
                let ended = replay_brief(&equipped(), &again, brief, journal.clone()).await;
                assert_eq!(ended.unwrap(), end, "{text}, {answer:?}, cut at {cut}");
                let events = [journal, again.events()].concat();
                assert_eq!(support::text(&events), support::text(&whole), "{text}, {answer:?}, cut at {cut}");
                let theirs = events.iter().filter(
                    |event| matches!(event, Event::CallRequested { call, .. } if call.executor == ann()),
                );
                assert_eq!(theirs.count(), 1, "{text}, {answer:?}, cut at {cut}");
            }
        }
    }
}

fn kinds(port: &Port) -> Vec<&'static str> {
    let kind = |call: Call| if call.kind.is_approval() { "approval" } else { "tool" };
    port.calls().into_iter().map(kind).collect()
}

/// Whoever is asked says this.
fn saying(end: CallEnd) -> Arc<Port> {
    Port::new(move |call: &CallRequest| call.kind.is_approval().then(|| end.clone()))
}

#[tokio::test]
async fn an_agent_without_a_policy_of_its_own_asks_before_a_marked_tool_of_this_process_runs() {
    let (yes, no) = (CallEnd::done(json!("yes")), CallEnd::done(json!("no")));
    for (said, ran, text) in
        [(yes, 1, "adone own "), (no, 0, "afailed  denied"), (CallEnd::TimedOut, 0, "afailed  denied")]
    {
        let (port, mut agent) = (saying(said), equipped());
        agent.inner = Script::new(Story::parse(STORY_THAT_GOES_ON, "approval").unwrap());
        replay_brief(&agent, &port, brief(chat("call wipe"), 1), Vec::new()).await.unwrap();
        assert_eq!((port.text().as_str(), agent.own.ran.lock().unwrap().len()), (text, ran));
        assert_eq!(kinds(&port), ["approval", "tool"][..=ran]);
        assert_eq!(port.calls()[0].deadline, Timestamp::from_secs(1_009));
    }
    // Nothing is asked about what is not marked.
    let (port, agent) = (Port::silent(), equipped());
    replay_brief(&agent, &port, brief(chat("call clock"), 1), Vec::new()).await.unwrap();
    assert_eq!(kinds(&port), ["tool"]);
}

#[tokio::test]
async fn an_approval_is_not_asked_for_again_and_neither_is_what_was_done_without_one() {
    let agent = equipped();
    let port = saying(CallEnd::done(json!("yes")));
    replay_brief(&agent, &port, brief(chat("call wipe"), 1), Vec::new()).await.unwrap();
    let whole = port.events();
    // Lost while the tool ran: it runs once more, with the approval of before.
    let began =
        |event: &Event| matches!(event, Event::CallRequested { call, .. } if !call.kind.is_approval());
    let cut = whole.iter().position(began).unwrap() + 1;
    let port = Port::silent();
    replay_brief(&agent, &port, brief(chat("call wipe"), 2), support::lose(whole[..cut].to_vec()))
        .await
        .unwrap();
    assert_eq!((kinds(&port), port.text()), (vec!["tool"], "done own ".into()));
    // Lost afterwards, and by now the tool is not marked any more.
    let unmarked = script();
    let port = Port::silent();
    replay_brief(&unmarked, &port, brief(chat("call wipe"), 2), whole).await.unwrap();
    assert_eq!(port.calls(), []);
    // Done without an approval, and by now the tool is marked.
    let agent = equipped();
    let port = Port::silent();
    replay_brief(&agent, &port, brief(chat("call clock"), 1), Vec::new()).await.unwrap();
    let renamed = serde_json::to_string(&port.events()).unwrap().replace("clock", "wipe");
    let port = Port::silent();
    let journal = serde_json::from_str(&renamed).unwrap();
    replay_brief(&agent, &port, brief(chat("call wipe"), 2), journal).await.unwrap();
    assert_eq!(port.calls(), []);
}

const STORY_THAT_GOES_ON: &str = r#"
    name = "approval"
    [[rules]]
    match = '^call (?P<name>\S+)$'
    steps = [
        { text = "a", chunk = "whole" },
        { call = { name = "{name}", args = { n = 1 }, timeout_ms = 7000, on_timeout = "continue", on_error = "continue" } },
        { text = "{outcome} {result} {error.name}", chunk = "whole" },
    ]
"#;
