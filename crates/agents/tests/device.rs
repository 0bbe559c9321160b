//! Turns that are about a device: batches of commands, and the script that spells them out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{Agent, AgentError, Brief, Command, DeviceScript, Recovery, Turn};
use switchboard_core::model::{
    CallEnd, CallError, CallKind, CallRequest, Executor, FailureKind, TurnEnd, TurnOutcome,
};
use switchboard_core::{CallId, Callsign, Event, Timestamp, ToolName, TurnId};
use tokio::sync::watch;

use support::{Port, brief, chat, replay, replay_on_device, run, run_on_device};

/// A device that does what it is told, and fails when it is told so.
fn device(call: &CallRequest) -> Option<CallEnd> {
    assert_eq!(call.executor, Some(Executor::Device(Callsign::from("dev-7"))));
    let CallKind::Tool { name, args } = &call.kind else { panic!("a question to a device") };
    let failed = |name: &str, message: &str, detail: Value| {
        CallEnd::Failed(CallError { name: name.into(), message: message.into(), detail })
    };
    Some(match name.as_str() {
        "fail" => failed("failure", "disk full", json!({ "namespace": "fs", "result": { "left": 0 } })),
        "skip" => failed("skipped", "after a failure", Value::Null),
        "mute" => failed("failure", "the device reported failure", json!({ "error": null })),
        "blank" => failed("failure", "", Value::Null),
        "gone" => failed("gone", "whoever was to execute this has left", Value::Null),
        "late" => CallEnd::TimedOut,
        "none" => CallEnd::Done { output: Value::Null.into(), detail: json!({ "status": "none" }) },
        "deaf" => return None,
        _ => CallEnd::Done { output: json!({ "did": args }).into(), detail: json!({ "namespace": "ui" }) },
    })
}

fn script(script: &Value) -> String {
    format!("aip-script:{script}")
}

fn step(name: &str) -> Value {
    json!({ "tool_name": name, "tool_type": "action", "parameters": { "n": 1 } })
}

/// The results of the turns, without the names of their calls, and what is beside them.
fn output(end: &TurnEnd) -> (Vec<Vec<Value>>, Value) {
    let output = end.output.clone().unwrap();
    let turns = output["turns"].as_array().unwrap().iter();
    let turns = turns.map(|results| {
        let results = results.as_array().unwrap().iter().cloned();
        let nameless = results.map(|mut result| {
            assert!(result["call_id"].is_string());
            result.as_object_mut().unwrap().remove("call_id");
            result
        });
        nameless.collect()
    });
    (turns.collect(), output["result"].clone())
}

fn statuses(end: &TurnEnd) -> Vec<Vec<String>> {
    let (turns, _) = output(end);
    let status = |result: &Value| result["status"].as_str().unwrap().to_owned();
    turns.iter().map(|results| results.iter().map(status).collect()).collect()
}

fn failure(result: Result<TurnEnd, AgentError>) -> (FailureKind, String, Option<Value>) {
    match result {
        Err(AgentError::Failed(failure)) => (failure.kind, failure.message, None),
        Ok(TurnEnd { outcome: TurnOutcome::Failed(failure), output, .. }) => {
            (failure.kind, failure.message, output.as_deref().cloned())
        }
        other => panic!("not failed: {other:?}"),
    }
}

fn is_uuid4(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = |(index, byte): (usize, &u8)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        14 => *byte == b'4',
        19 => b"89ab".contains(byte),
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(byte),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(shape)
}

#[tokio::test]
async fn each_turn_of_a_script_is_one_batch() {
    let port = Port::new(device);
    let text = script(&json!({
        "turns": [
            [step("open"), { "tool_name": "look", "tool_type": "data_collection", "parameters": {} }],
            [{ "tool_name": "close", "tool_type": "action" }],
        ],
        "end": "completed", "result": { "ok": [1, "ü"] }, "error": null, "stop_on_failure": true,
        "delay_s": 0, "command_timeout_s": 1.5, "agent_name": "HostAgent",
    }));
    let end = run_on_device(&DeviceScript, &port, &text).await.unwrap();
    assert_eq!(end.outcome, TurnEnd::complete().outcome);
    let (turns, result) = output(&end);
    assert_eq!(result, json!({ "ok": [1, "ü"] }));
    let done = |args: Value| json!({ "status": "success", "error": null, "result": { "did": args }, "namespace": "ui" });
    assert_eq!(turns, [vec![done(json!({ "n": 1 })), done(json!({}))], vec![done(Value::Null)]]);

    let calls = port.calls();
    let batches: Vec<_> = calls.iter().map(|call| call.batch.clone().unwrap()).collect();
    assert_eq!(batches.iter().map(|batch| batch.size).collect::<Vec<_>>(), [2, 2, 1]);
    assert!(batches[0] == batches[1] && batches[1] != batches[2]);
    let names: BTreeSet<&str> =
        calls.iter().map(|call| call.id.as_str()).chain(batches.iter().map(|b| &*b.id)).collect();
    assert_eq!(names.len(), 5);
    assert!(names.iter().all(|name| is_uuid4(name)), "{names:?}");
    assert_eq!(calls[0].options, json!({ "tool_type": "action", "agent_name": "HostAgent" }).into());
    assert_eq!(calls[1].options, json!({ "tool_type": "data_collection", "agent_name": "HostAgent" }).into());
    assert_eq!(calls[0].deadline, Timestamp::from_secs(1_000).after(Duration::from_millis(1_500)));
    let told = |result: &Value| result["call_id"].as_str().unwrap().to_owned();
    assert_eq!(told(&end.output.unwrap()["turns"][0][1]), calls[1].id.as_str());
    // The commands of a batch are asked for before any of them ends.
    let events = port.events();
    assert!(matches!(events[1], Event::CallRequested { .. }) && matches!(events[2], Event::CallEnded { .. }));
}

#[tokio::test]
async fn results_are_written_in_the_order_of_the_protocol() {
    let port = Port::new(device);
    let end = run_on_device(&DeviceScript, &port, &script(&json!({ "turns": [[step("x")]] }))).await.unwrap();
    let text = end.output.unwrap().to_string();
    let keys = [
        "\"turns\"",
        "\"status\"",
        "\"error\"",
        "\"result\"",
        "\"namespace\"",
        "\"call_id\"",
        "\"result\":null",
    ];
    let mut from = 0;
    for key in keys {
        from += text[from..].find(key).unwrap_or_else(|| panic!("{key} in {text}")) + 1;
    }
}

#[tokio::test]
async fn every_end_of_a_command_has_its_result() {
    let port = Port::new(device);
    let steps = ["fail", "skip", "mute", "blank", "gone", "late", "none"].map(step);
    let end = run_on_device(&DeviceScript, &port, &script(&json!({ "turns": [steps] }))).await.unwrap();
    let result = |status: &str, error: Value, result: Value, namespace: Value| json!({ "status": status, "error": error, "result": result, "namespace": namespace });
    let wanted = [vec![
        result("failure", json!("disk full"), json!({ "left": 0 }), json!("fs")),
        result("skipped", json!("after a failure"), Value::Null, Value::Null),
        result("failure", Value::Null, Value::Null, Value::Null),
        result("failure", json!(""), Value::Null, Value::Null),
        result("failure", json!("whoever was to execute this has left"), Value::Null, Value::Null),
        result("failure", json!("command timed out"), Value::Null, Value::Null),
        result("none", Value::Null, Value::Null, Value::Null),
    ]];
    assert_eq!(output(&end).0, wanted);
}

#[tokio::test]
async fn a_script_goes_on_after_failures_unless_it_says_otherwise() {
    let turns = json!([[step("x"), step("fail"), step("skip")], [step("y")]]);
    let port = Port::new(device);
    let end = run_on_device(&DeviceScript, &port, &script(&json!({ "turns": turns }))).await.unwrap();
    assert_eq!(statuses(&end), [vec!["success", "failure", "skipped"], vec!["success"]]);
    assert_eq!(end.outcome, TurnEnd::complete().outcome);

    let port = Port::new(device);
    let text = script(&json!({ "turns": turns, "stop_on_failure": true, "result": 7 }));
    let (kind, message, output) = failure(run_on_device(&DeviceScript, &port, &text).await);
    assert_eq!((kind, message.as_str()), (FailureKind::Execution, "disk full"));
    let output = output.unwrap();
    assert_eq!((output["turns"].as_array().unwrap().len(), &output["result"]), (1, &json!(7)));
    assert_eq!(port.calls().len(), 3);
}

#[tokio::test]
async fn a_script_says_how_it_ends() {
    for (end, kept) in [("failed", true), ("raise", false)] {
        let port = Port::new(device);
        let text = script(&json!({ "turns": [[step("x")]], "end": end, "error": "out of luck" }));
        let (kind, message, output) = failure(run_on_device(&DeviceScript, &port, &text).await);
        assert_eq!((kind, message.as_str(), output.is_some()), (FailureKind::Execution, "out of luck", kept));
        assert_eq!(port.calls().len(), 1);
    }
    let port = Port::new(device);
    let end = run_on_device(&DeviceScript, &port, "aip-script:{}").await.unwrap();
    assert_eq!(end.output, Some(json!({ "turns": [], "result": null }).into()));
}

#[tokio::test]
async fn any_other_text_is_echoed() {
    for text in ["open the log", "", "{\"turns\":[]}", " aip-script:{}"] {
        let port = Port::new(device);
        let end = run_on_device(&DeviceScript, &port, text).await.unwrap();
        assert_eq!(output(&end).0[0][0]["result"], json!({ "did": { "text": text } }));
        let calls = port.calls();
        assert!(matches!(&calls[0].kind, CallKind::Tool { name, .. } if name.as_str() == "echo"));
        assert_eq!((calls.len(), &*calls[0].options), (1, &json!({ "tool_type": "action" })));
    }
    // Whatever the device makes of it.
    let port = Port::new(|_| Some(CallEnd::TimedOut));
    let end = run_on_device(&DeviceScript, &port, "hello").await.unwrap();
    assert_eq!(
        (statuses(&end), end.outcome),
        (vec![vec!["failure".to_owned()]], TurnEnd::complete().outcome)
    );
}

#[tokio::test]
async fn a_broken_script_fails_before_its_first_command() {
    let many: Vec<Value> = std::iter::repeat_n(step("x"), 129).collect();
    for (text, reason) in [
        ("aip-script:".to_owned(), "cannot be read"),
        ("aip-script:{".to_owned(), "cannot be read"),
        ("aip-script:[]".to_owned(), "not a JSON object"),
        ("aip-script:{}extra".to_owned(), "cannot be read"),
        (script(&json!({ "turns": 1 })), "cannot be read"),
        (script(&json!({ "turns": [[{ "tool_type": "action" }]] })), "tool_name"),
        (script(&json!({ "turns": [[step("")]] })), "without a tool_name"),
        (script(&json!({ "turns": [[{ "tool_name": "x", "tool_type": "magic" }]] })), "magic"),
        (script(&json!({ "turns": [[{ "tool_name": "x", "parameters": [1] }]] })), "cannot be read"),
        (script(&json!({ "turns": [[step("x")], []] })), "turn 2 of the script has 0 commands"),
        (script(&json!({ "turns": [[step("x")], many] })), "turn 2 of the script has 129 commands"),
        (script(&json!({ "turns": [[step("x")]], "end": "maybe" })), "maybe"),
        (script(&json!({ "turns": [[step("x")]], "delay_s": -1 })), "delay_s"),
        (script(&json!({ "turns": [[step("x")]], "command_timeout_s": -0.5 })), "command_timeout_s"),
        (format!("aip-script:{}1{}", "[".repeat(5000), "]".repeat(5000)), "cannot be read"),
    ] {
        let port = Port::new(device);
        let (_, message, output) = failure(run_on_device(&DeviceScript, &port, &text).await);
        assert!(message.contains(reason), "{message}");
        assert!(output.is_none() && port.events().is_empty(), "{message}");
    }
    let full: Vec<Value> = std::iter::repeat_n(step("x"), 128).collect();
    let port = Port::new(device);
    run_on_device(&DeviceScript, &port, &script(&json!({ "turns": [full] }))).await.unwrap();
    assert_eq!(port.calls().len(), 128);
}

#[tokio::test]
async fn integers_of_any_size_pass_through() {
    let big = "123456789012345678901234567890";
    let text = format!(
        "aip-script:{{\"turns\":[[{{\"tool_name\":\"x\",\"tool_type\":\"action\",\"parameters\":{{\"n\":{big}}}}}]],\"result\":-{big}}}"
    );
    let port = Port::new(device);
    let end = run_on_device(&DeviceScript, &port, &text).await.unwrap();
    let restored = switchboard_core::wide::restore(end.output.unwrap().to_string());
    assert!(restored.contains(&format!("{{\"did\":{{\"n\":{big}}}}}")), "{restored}");
    assert!(restored.ends_with(&format!("\"result\":-{big}}}")), "{restored}");
}

#[tokio::test(start_paused = true)]
async fn each_batch_waits_for_its_delay() {
    let port = Port::new(device);
    let began = tokio::time::Instant::now();
    let text = script(&json!({ "turns": [[step("a"), step("b")], [step("c")]], "delay_s": 1.5 }));
    run_on_device(&DeviceScript, &port, &text).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    // Long waits are cut short, not refused.
    let text = script(&json!({ "turns": [[step("a")]], "command_timeout_s": 1e6 }));
    let port = Port::new(device);
    run_on_device(&DeviceScript, &port, &text).await.unwrap();
    assert_eq!(port.calls()[0].deadline, Timestamp::from_secs(7_000));
}

#[tokio::test]
async fn without_a_device_there_is_nothing_to_do() {
    let port = Port::new(device);
    let (kind, message, _) = failure(run(&DeviceScript, &port, chat("hello")).await);
    assert_eq!((kind, message.as_str()), (FailureKind::Unprepared, "the turn is for no device"));
    let (kind, _, _) = failure(run(&DeviceScript, &port, support::tool("x", json!({}))).await);
    assert_eq!(kind, FailureKind::ToolNotFound);
    assert!(port.events().is_empty());
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_a_batch() {
    let port = Port::new(device);
    let (interrupt, interrupted) = watch::channel(false);
    let brief = Brief {
        device: Some("dev-7".into()),
        ..brief(chat(&script(&json!({ "turns": [[step("x"), step("deaf")]] }))), 1)
    };
    let mut turn = Turn::new(brief, port.clone(), interrupted, Vec::new());
    let (end, ()) = tokio::join!(DeviceScript.run(&mut turn), async {
        tokio::task::yield_now().await;
        interrupt.send_replace(true);
    });
    assert!(matches!(end, Err(AgentError::Over)));

    let port = Port::new(|_| Some(CallEnd::Cancelled));
    assert!(matches!(run_on_device(&DeviceScript, &port, "x").await, Err(AgentError::Over)));
}

/// Where a run can be lost: the commands of a batch are committed together.
fn cuts(events: &[Event]) -> impl Iterator<Item = usize> {
    let batch = |index: usize| match events.get(index) {
        Some(Event::CallRequested { call, .. }) => call.batch.clone(),
        _ => None,
    };
    (0..=events.len()).filter(move |cut| *cut == 0 || batch(*cut).is_none() || batch(cut - 1) != batch(*cut))
}

#[tokio::test]
async fn a_run_that_was_lost_within_a_batch_is_taken_up_there() {
    let text = script(&json!({
        "turns": [[step("a"), step("fail"), step("late")], [step("b")], [step("c"), step("a")]],
        "result": 1,
    }));
    assert_eq!(DeviceScript.recovery(), Recovery::Replay);
    let port = Port::new(device);
    let end = run_on_device(&DeviceScript, &port, &text).await.unwrap();
    let whole = port.events();
    let asked = port.calls();
    for cut in cuts(&whole) {
        let journal = whole[..cut].to_vec();
        let port = Port::new(device);
        let again = replay_on_device(&DeviceScript, &port, &text, journal.clone(), 2).await.unwrap();
        assert_eq!(again, end, "cut at {cut}");
        let calls = [journal, port.events()].concat().into_iter().filter_map(|event| match event {
            Event::CallRequested { call, .. } => Some((*call).clone()),
            _ => None,
        });
        assert_eq!(calls.collect::<Vec<_>>(), asked, "cut at {cut}: each command is sent once");
    }
}

#[tokio::test]
async fn a_command_that_was_cancelled_is_not_sent_again() {
    let text = script(&json!({ "turns": [[step("a"), step("b")]] }));
    let port = Port::new(device);
    run_on_device(&DeviceScript, &port, &text).await.unwrap();
    let mut journal = port.events();
    let Some(Event::CallEnded { end, .. }) = journal.last_mut() else { panic!("no end") };
    *end = CallEnd::Cancelled;
    let port = Port::new(device);
    let end = replay_on_device(&DeviceScript, &port, &text, journal, 2).await.unwrap();
    assert_eq!(statuses(&end), [["success", "failure"]]);
    assert!(port.calls().is_empty());
}

#[tokio::test]
async fn other_commands_than_before_are_not_sent() {
    let run_of = |steps: Vec<Value>| script(&json!({ "turns": [steps] }));
    let port = Port::new(device);
    run_on_device(&DeviceScript, &port, &run_of(vec![step("a"), step("b")])).await.unwrap();
    for other in [vec![step("a"), step("c")], vec![step("a"), step("b"), step("c")]] {
        let again = Port::new(device);
        let end = replay_on_device(&DeviceScript, &again, &run_of(other), port.events(), 2).await;
        assert!(failure(end).1.contains("did not repeat"));
        assert!(again.calls().is_empty());
    }
}

/// Mixes batches with the other things that an agent does.
#[derive(Debug)]
struct Mixed;

#[async_trait]
impl Agent for Mixed {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let command =
            |name: &str| Command { name: ToolName::from(name), args: json!({}), options: Value::Null.into() };
        turn.text("one").await?;
        assert_eq!(turn.batch(Vec::new(), Duration::ZERO).await?, []);
        let ends = turn.batch(vec![command("a"), command("b")], Duration::from_secs(1)).await?;
        turn.text(format!("two {}", ends.len())).await?;
        let own = turn.begin_tool(&ToolName::from("own"), json!({})).await?;
        turn.end_tool(&own, CallEnd::done(json!(1))).await?;
        turn.batch(vec![command("c")], Duration::from_secs(1)).await?;
        turn.text("three").await?;
        Ok(TurnEnd::complete())
    }
}

#[tokio::test]
async fn batches_mix_with_everything_else() {
    let port = Port::new(device_or_none);
    run_on_device(&Mixed, &port, "x").await.unwrap();
    let whole = port.events();
    let names: BTreeSet<CallId> = port.calls().into_iter().map(|call| call.id).collect();
    assert_eq!(names.len(), 4);
    assert_eq!(names.iter().filter(|name| name.as_str().starts_with("call_")).count(), 1);
    for cut in cuts(&whole) {
        let mut journal = whole[..cut].to_vec();
        // What the agent was doing itself is cancelled with its run.
        if let Some(Event::CallRequested { call, .. }) = journal.last()
            && call.executor == Executor::Agent
        {
            let call = call.id.clone();
            journal.push(Event::CallEnded { turn: TurnId::from("inv_test"), call, end: CallEnd::Cancelled });
        }
        let port = Port::new(device_or_none);
        replay_on_device(&Mixed, &port, "x", journal.clone(), 2).await.unwrap();
        let all = [journal, port.events()].concat();
        assert_eq!(support::text(&all), "onetwo 2three", "cut at {cut}");
        let commands = all.iter().filter(
            |event| matches!(event, Event::CallRequested { call, .. } if call.executor != Executor::Agent),
        );
        assert_eq!(commands.count(), 3, "cut at {cut}");
    }
    let port = Port::silent();
    let (kind, _, _) = failure(replay(&Mixed, &port, chat("x"), Vec::new(), 1).await);
    assert_eq!(kind, FailureKind::Unprepared);
}

fn device_or_none(call: &CallRequest) -> Option<CallEnd> {
    matches!(call.executor, Some(Executor::Device(_))).then(|| device(call)).flatten()
}
