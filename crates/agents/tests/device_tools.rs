//! Agents that are offered the tools of the device that their turn is for.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_agents::{
    Agent, CommandContext, DeviceTools, Echo, EchoConfig, Recovery, Script, Story, WithDevice,
};
use switchboard_core::model::{
    Call, CallEnd, CallError, CallKind, CallRequest, Executor, Tool, ToolAnnotations, TurnOutcome,
};
use switchboard_core::{Callsign, Event, Timestamp, ToolName};

use support::endpoint::{Reply, Server};
use support::{Port, chat, replay_on_device, run, run_on_device};

fn listing() -> Value {
    json!([
        { "tool_key": "data_collection::list_tools", "tool_name": "list_tools", "title": null, "namespace": "core",
          "tool_type": "data_collection", "description": "Lists.", "input_schema": null, "output_schema": null,
          "meta": null, "annotations": null },
        { "tool_key": "action::open.log", "tool_name": "open.log", "title": "Open", "namespace": "fs",
          "tool_type": "action", "description": null,
          "input_schema": { "type": "object", "properties": { "path": { "type": "string" } } },
          "output_schema": { "type": "object" }, "meta": { "x": 1 },
          "annotations": { "readOnlyHint": false, "destructiveHint": true } },
        { "tool_key": "data_collection::count", "tool_name": "count", "namespace": "fs",
          "tool_type": "data_collection", "description": "Counts lines." },
        { "tool_key": "action::count", "tool_name": "count", "namespace": "fs", "tool_type": "action" },
        { "tool_key": "other::count", "tool_name": "count", "namespace": "copy", "tool_type": "action" },
        { "tool_key": "broken" },
        7,
    ])
}

/// A device that lists its tools, and does whatever it is asked for.
fn device(call: &CallRequest) -> Option<CallEnd> {
    let CallKind::Tool { name, args } = &call.kind else { return None };
    Some(CallEnd::done(match name.as_str() {
        "list_tools" => listing(),
        _ => json!({ "did": args }),
    }))
}

fn echo() -> Echo {
    Echo::new(EchoConfig { delay_ms: 0, ..EchoConfig::default() })
}

fn with_device<A: Agent>(inner: A) -> WithDevice<A> {
    WithDevice::new(inner, Arc::new(DeviceTools::new(CommandContext::default())))
}

fn executor() -> Executor {
    Executor::Device(Callsign::from("dev-7"))
}

fn called(calls: &[Call]) -> Vec<&str> {
    let name = |call: &'_ Call| matches!(&call.kind, CallKind::Tool { .. });
    assert!(calls.iter().all(name));
    calls
        .iter()
        .filter_map(|call| match &call.kind {
            CallKind::Tool { name, .. } => Some(name.as_str()),
            CallKind::Question { .. } => None,
        })
        .collect()
}

fn tool(name: &str, executor: Executor) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: String::new(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor,
        grace_ms: 0,
        options: Value::Null,
    }
}

#[tokio::test]
async fn the_tools_of_the_device_are_offered_before_the_agent_begins() {
    let port = Port::new(device);
    *port.tools.lock().unwrap() = vec![tool("open_log", Executor::Agent)];
    let context = CommandContext { agent_name: Some("LinuxAgent".into()), ..CommandContext::default() };
    let agent = WithDevice::new(echo(), Arc::new(DeviceTools::new(context)));
    run_on_device(&agent, &port, "hello").await.unwrap();
    assert_eq!(port.text(), "hello");

    let calls = port.calls();
    assert_eq!(called(&calls), ["list_tools"]);
    assert_eq!(calls[0].kind, CallKind::Tool { name: "list_tools".into(), args: json!({}).into() });
    assert_eq!(
        calls[0].options,
        json!({ "tool_type": "data_collection", "agent_name": "LinuxAgent" }).into()
    );
    assert_eq!((&calls[0].executor, calls[0].batch.as_ref().unwrap().size), (&executor(), 1));

    let events = port.events();
    let Event::ToolsChanged { added, removed, turn, .. } = &events[2] else { panic!("{:?}", events[2]) };
    assert!(removed.is_empty() && turn.is_some());
    let open = Tool {
        name: ToolName::from("open_log_2"),
        description: "Open".into(),
        input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }).into(),
        output_schema: Some(json!({ "type": "object" }).into()),
        annotations: ToolAnnotations {
            read_only: Some(false),
            destructive: Some(true),
            ..ToolAnnotations::default()
        },
        version: None,
        executor: executor(),
        grace_ms: 0,
        options: json!({ "tool_type": "action", "agent_name": "LinuxAgent", "tool_name": "open.log" }),
    };
    let count = Tool {
        description: "Counts lines.".into(),
        options: json!({ "tool_type": "data_collection", "agent_name": "LinuxAgent" }),
        ..tool("count", executor())
    };
    let count_too = Tool {
        options: json!({ "tool_type": "action", "agent_name": "LinuxAgent", "tool_name": "count" }),
        ..tool("count_2", executor())
    };
    assert_eq!(*added, [open, count, count_too]);
}

#[tokio::test]
async fn a_turn_for_no_device_is_left_alone() {
    let port = Port::new(device);
    let agent = with_device(Arc::new(echo()) as Arc<dyn Agent>);
    run(&agent, &port, chat("hello")).await.unwrap();
    assert!(port.calls().is_empty());
    assert_eq!((port.text().as_str(), agent.recovery()), ("hello", Recovery::Replay));
    let tools = with_device(Echo::new(EchoConfig { tool: true, ..EchoConfig::default() })).tools();
    assert_eq!(tools.len(), 1);
}

#[tokio::test]
async fn an_agent_does_without_a_device_that_does_not_list_its_tools() {
    let answers = [
        CallEnd::TimedOut,
        CallEnd::Failed(CallError::new("failure", "no such tool")),
        CallEnd::done(Value::Null),
        CallEnd::done(json!({ "tools": 7 })),
        CallEnd::done(json!([])),
    ];
    for answer in answers {
        let port = Port::new(move |_| Some(answer.clone()));
        run_on_device(&with_device(echo()), &port, "hello").await.unwrap();
        let calls = port.calls();
        assert_eq!((called(&calls), port.text().as_str()), (vec!["list_tools"], "hello"));
        assert!(calls[0].deadline <= Timestamp::from_secs(1_010), "nobody waits long for it");
        assert!(!port.events().iter().any(|event| matches!(event, Event::ToolsChanged { .. })));
    }
}

#[tokio::test]
async fn a_listing_is_remembered_for_a_minute_and_not_over_a_failure() {
    let tools = Arc::new(DeviceTools::new(CommandContext::default()));
    let agent = WithDevice::new(echo(), tools.clone());
    let at = async |seconds: u64| {
        let port = Port::new(device);
        port.clock.store(seconds, Ordering::Relaxed);
        run_on_device(&agent, &port, "hello").await.unwrap();
        assert_eq!(port.tools.lock().unwrap().len(), 3);
        port.calls().len()
    };
    assert_eq!((at(1_000).await, at(1_059).await, at(1_060).await, at(1_061).await), (1, 0, 1, 0));
    tools.forget(&Callsign::from("dev-8"));
    assert_eq!(at(1_062).await, 0);
    tools.forget(&Callsign::from("dev-7"));
    assert_eq!((at(1_063).await, at(1_064).await), (1, 0));

    let failing = WithDevice::new(Script::new(Story::conformance().unwrap()), tools);
    let port = Port::new(device);
    port.clock.store(1_065, Ordering::Relaxed);
    assert!(run_on_device(&failing, &port, "fail tool after 1").await.is_err());
    assert_eq!((port.calls().len(), at(1_066).await), (0, 1));
}

#[tokio::test]
async fn what_is_offered_already_is_not_offered_again() {
    let agent = with_device(echo());
    let port = Port::new(device);
    run_on_device(&agent, &port, "hello").await.unwrap();
    let changes = |port: &Port| {
        port.events().iter().filter(|event| matches!(event, Event::ToolsChanged { .. })).count()
    };
    assert_eq!(changes(&port), 1);
    run_on_device(&agent, &port, "again").await.unwrap();
    assert_eq!(changes(&port), 1);
    // What the device has no more is withdrawn, and what is somebody else's is left alone.
    port.tools.lock().unwrap().extend([tool("old", executor()), tool("theirs", Executor::Anyone)]);
    run_on_device(&agent, &port, "again").await.unwrap();
    let Some(Event::ToolsChanged { removed, .. }) =
        port.events().into_iter().rfind(|event| matches!(event, Event::ToolsChanged { .. }))
    else {
        panic!("no change")
    };
    assert_eq!(removed, [ToolName::from("old")]);
}

#[tokio::test]
async fn a_large_listing_is_cut() {
    let port = Port::new(|_| {
        let info = |number: usize| {
            json!({ "tool_key": "k", "tool_name": format!("tool {number}"), "namespace": "n",
            "tool_type": "action", "description": "x".repeat(3000) })
        };
        let mut infos: Vec<Value> = (0..200).map(info).collect();
        infos[0]["input_schema"] = json!({ "type": "object", "description": "x".repeat(40_000) });
        Some(CallEnd::done(Value::Array(infos)))
    });
    run_on_device(&with_device(echo()), &port, "hello").await.unwrap();
    let tools = port.tools.lock().unwrap().clone();
    assert_eq!((tools.len(), tools[0].name.as_str(), tools[0].description.len()), (128, "tool_1", 1024));
}

/// The calls of the turn that count, and what was said.
fn story(events: &[Event]) -> (Vec<Call>, String, usize) {
    let calls = events.iter().filter_map(|event| match event {
        Event::CallRequested { call, .. } => Some((**call).clone()),
        _ => None,
    });
    let changes = events.iter().filter(|event| matches!(event, Event::ToolsChanged { .. })).count();
    (calls.collect(), support::text(events), changes)
}

#[tokio::test(start_paused = true)]
async fn a_repetition_takes_what_the_lost_run_was_given() {
    for warm in [false, true] {
        let tools = Arc::new(DeviceTools::new(CommandContext::default()));
        let agent = WithDevice::new(Script::new(Story::conformance().unwrap()), tools);
        if warm {
            run_on_device(&agent, &Port::new(device), "hello").await.unwrap();
        }
        for text in ["call open_log {\"path\":\"a\"}", "calls 3 count", "everything", "add tool"] {
            let port = Port::new(device);
            let end = run_on_device(&agent, &port, text).await.unwrap();
            let whole = port.events();
            for cut in 0..=whole.len() {
                let journal = whole[..cut].to_vec();
                let own = journal.iter().rev().any(
                    |event| matches!(event, Event::CallRequested { call, .. } if call.executor == Executor::Agent),
                );
                if own {
                    // Tools of the agent's own have their tests elsewhere.
                    break;
                }
                let offered = |event: &Event| match event {
                    Event::ToolsChanged { added, .. } => added.clone(),
                    _ => Vec::new(),
                };
                // The next run knows the listing, or it does not, whatever the lost one did.
                for again in [&agent, &with_device_like(&agent)] {
                    let port = Port::new(device);
                    *port.tools.lock().unwrap() = journal.iter().flat_map(offered).collect();
                    let ended = replay_on_device(again, &port, text, journal.clone(), 2).await.unwrap();
                    assert_eq!(ended, end, "{text}, cut at {cut}");
                    let (calls, said, changes) = story(&[journal.clone(), port.events()].concat());
                    let (wanted_calls, wanted_said, wanted_changes) = story(&whole);
                    assert_eq!((said, changes), (wanted_said, wanted_changes), "{text}, cut at {cut}");
                    let agents_own = |calls: Vec<Call>| -> Vec<Call> {
                        let listed = |call: &Call| called(std::slice::from_ref(call)) == ["list_tools"];
                        calls.into_iter().filter(|call| !listed(call)).collect()
                    };
                    assert_eq!(agents_own(calls), agents_own(wanted_calls), "{text}, cut at {cut}");
                }
            }
        }
    }
}

/// The same agent in a process that knows nothing yet.
fn with_device_like(_: &WithDevice<Script>) -> WithDevice<Script> {
    with_device(Script::new(Story::conformance().unwrap()))
}

#[tokio::test]
async fn a_model_uses_the_tools_of_the_device() {
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let stop = |reason: &str| json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] });
    let server = Server::start(vec![
        Reply::Stream(vec![
            delta(json!({ "tool_calls": [
                call(0, "a", "open_log", "{\"path\":\"x.log\"}"),
                call(1, "b", "count", "{}"),
            ] })),
            stop("tool_calls"),
        ]),
        Reply::Stream(vec![delta(json!({ "content": "There are 3 errors." })), stop("stop")]),
    ])
    .await;
    let port = Port::new(|call: &CallRequest| match &call.kind {
        CallKind::Tool { name, .. } if name.as_str() == "count" => {
            let wide = switchboard_core::wide::shelter("[123456789012345678901234567890]");
            Some(CallEnd::done(serde_json::from_str(&wide).unwrap()))
        }
        _ => device(call),
    });
    let other = Executor::Device(Callsign::from("dev-8"));
    *port.tools.lock().unwrap() = vec![tool("of_another_device", other), tool("shared", Executor::Anyone)];
    let agent = with_device(server.agent(|config| config.system = Some("Be brief.".into())));
    let end = tokio::time::timeout(
        Duration::from_secs(10),
        run_on_device(&agent, &port, "open the log and count the errors"),
    );
    let end = end.await.unwrap().unwrap();
    assert!(matches!(end.outcome, TurnOutcome::Done(_)));
    assert_eq!(port.text(), "There are 3 errors.");

    let calls = port.calls();
    assert_eq!(called(&calls), ["list_tools", "open_log", "count"]);
    assert_eq!(
        calls[1].kind,
        CallKind::Tool { name: "open_log".into(), args: json!({ "path": "x.log" }).into() }
    );
    assert_eq!((&calls[1].executor, &calls[2].executor), (&executor(), &executor()));
    assert_eq!(calls[1].options, json!({ "tool_type": "action", "tool_name": "open.log" }).into());
    assert_eq!(calls[2].options, json!({ "tool_type": "data_collection" }).into());

    let requests = server.requests();
    let names: Vec<&Value> =
        requests[0].body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["shared", "open_log", "count", "count_2"]);
    assert_eq!(requests[0].body.get("parallel_tool_calls"), None);
    let messages = requests[0].body["messages"].as_array().unwrap();
    assert_eq!((messages.len(), &messages[0]["role"]), (2, &json!("system")));
    let system = messages[0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be brief.\n\n") && system.contains("the device \"dev-7\""), "{system}");
    let messages = requests[1].body["messages"].as_array().unwrap();
    assert_eq!(messages[3]["content"], "{\"did\":{\"path\":\"x.log\"}}");
    assert_eq!(messages[4]["content"], "[123456789012345678901234567890]");
}
