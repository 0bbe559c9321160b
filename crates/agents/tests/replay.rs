//! The key property of agents that can be replayed: whatever of a run was committed before it was
//! lost, the next run adds exactly the rest.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeMap;

use serde_json::json;
use switchboard_agents::{Agent, Echo, EchoConfig, Script, Story};
use switchboard_core::Event;
use switchboard_core::model::{CallEnd, CallRequest, TurnRequest};

use support::{Port, chat, lose, outputs, replay, run};

fn answer(call: &CallRequest) -> Option<CallEnd> {
    Some(match &call.kind {
        switchboard_core::model::CallKind::Tool { args, .. } => CallEnd::done(json!({ "got": args })),
        switchboard_core::model::CallKind::Question { .. } => CallEnd::done(json!("blue")),
    })
}

/// Every call that was not cancelled, in the order of the requests, without the names of attempts.
fn calls(events: &[Event]) -> Vec<(String, Vec<String>, CallEnd)> {
    let mut order = Vec::new();
    let mut progress: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut ends = BTreeMap::new();
    for event in events {
        match event {
            Event::CallRequested { call, .. } => order.push((call.id.clone(), format!("{:?}", call.kind))),
            Event::CallProgress { call, delta, .. } => {
                progress.entry(call.clone()).or_default().push(delta.clone());
            }
            Event::CallEnded { call, end, .. } => {
                assert!(ends.insert(call.clone(), end.clone()).is_none(), "{call} ended twice");
            }
            _ => {}
        }
    }
    order
        .into_iter()
        .filter_map(|(id, kind)| {
            let end = ends.remove(&id).unwrap_or_else(|| panic!("{id} has no end"));
            let progress = progress.remove(&id).unwrap_or_default();
            (end != CallEnd::Cancelled).then_some((kind, progress, end))
        })
        .collect()
}

fn tool_changes(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::ToolsChanged { .. })).count()
}

async fn check(agent: &dyn Agent, request: TurnRequest) {
    let port = Port::new(answer);
    let end = format!("{:?}", run(agent, &port, request.clone()).await);
    let whole = port.events();
    for first in 0..=whole.len() {
        // The first run is lost after any event …
        let journal = lose(whole[..first].to_vec());
        let port = Port::new(answer);
        let again = replay(agent, &port, request.clone(), journal.clone(), 2).await;
        let rest = port.events();
        assert_eq!(format!("{again:?}"), end, "cut at {first}");
        let all = [journal.clone(), rest.clone()].concat();
        assert_eq!(outputs(&all), outputs(&whole), "cut at {first}");
        assert_eq!(calls(&all), calls(&whole), "cut at {first}");
        assert_eq!(tool_changes(&all), tool_changes(&whole), "cut at {first}");
        // … and so is the second.
        for second in 0..=rest.len() {
            let journal = lose([journal.clone(), rest[..second].to_vec()].concat());
            let port = Port::new(answer);
            let again = replay(agent, &port, request.clone(), journal.clone(), 3).await;
            assert_eq!(format!("{again:?}"), end, "cut at {first} and {second}");
            let all = [journal, port.events()].concat();
            assert_eq!(outputs(&all), outputs(&whole), "cut at {first} and {second}");
            assert_eq!(calls(&all), calls(&whole), "cut at {first} and {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn echo_goes_on_where_it_stopped() {
    for config in [
        EchoConfig::default(),
        EchoConfig { repeat: 3, prefix: "> ".into(), ..EchoConfig::default() },
        EchoConfig { deltas: Some(20), ..EchoConfig::default() },
    ] {
        let echo = Echo::new(config);
        check(&echo, chat("one two  three\nfour")).await;
        check(
            &echo,
            TurnRequest::Step { goal: "g".into(), state: json!({ "steps": 1 }), budget: Default::default() },
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_conformance_answer_goes_on_where_it_stopped() {
    let script = Script::new(Story::conformance().unwrap());
    for input in [
        "everything",
        "count 12 every 10",
        "deltas 5 of 100",
        "tool shell 4 every 5",
        "tool-error no",
        "call weather {\"city\":\"Bern\"}",
        "calls 4 weather",
        "ask what colour?",
        "add tool",
        "remove tool",
        "fail tool after 3",
        "finish length {\"a\":1}",
        "checklist",
        "something else",
    ] {
        check(&script, chat(input)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_demo_answer_goes_on_where_it_stopped() {
    let script = Script::demo().unwrap();
    for input in ["hello", "count 5", "think", "plan", "use a tool", "ask me", "call shell {\"a\":1}", "fail"]
    {
        check(&script, chat(input)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_lost_runs_in_a_row_still_come_to_one_answer() {
    let script = Script::new(Story::conformance().unwrap());
    let mut journal = Vec::new();
    for fence in 1..6 {
        // Nobody answers: the run is lost while it waits.
        let port = Port::silent();
        let waiting = replay(&script, &port, chat("call weather"), journal.clone(), fence);
        assert!(tokio::time::timeout(std::time::Duration::from_secs(1), waiting).await.is_err());
        journal = lose([journal, port.events()].concat());
    }
    let port = Port::new(answer);
    replay(&script, &port, chat("call weather"), journal.clone(), 6).await.unwrap();
    let all = [journal, port.events()].concat();
    assert_eq!(support::text(&all), "result: {\"got\":{}}");
    let mut names: Vec<_> = all
        .iter()
        .filter_map(|event| match event {
            Event::CallRequested { call, .. } => Some(call.id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(names.len(), 6);
    names.dedup();
    assert_eq!(names.len(), 6, "each attempt has a name of its own");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_something_else_is_stopped() {
    let port = Port::new(answer);
    run(&Echo::default(), &port, chat("one two")).await.unwrap();
    let other = Port::new(answer);
    let end = replay(&Echo::default(), &other, chat("one three"), port.events(), 2).await;
    assert!(end.unwrap_err().to_string().contains("did not repeat"));
    assert!(other.events().is_empty(), "nothing of the wrong run is committed");
}
