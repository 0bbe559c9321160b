//! How the OpenAI-compatible agent uses tools: at the same time, with approval, within bounds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use switchboard_agents::{Agent, Approval, OpenAi, Toolbox, Turn};
use switchboard_core::model::{
    CallEnd, CallError, CallKind, CallRequest, Executor, Tool, ToolAnnotations, TurnOutcome,
};
use switchboard_core::{Event, ToolName};
use tokio::sync::{Barrier, mpsc, watch};

use support::endpoint::{Reply, Server};
use support::{Port, brief, chat, run};

fn tool(name: &str, executor: Executor) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: "A tool.".into(),
        input_schema: json!({ "type": "object" }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor,
        grace_ms: 0,
        options: Value::Null,
    }
}

fn destructive(name: &str) -> Tool {
    let annotations = ToolAnnotations { destructive: Some(true), ..ToolAnnotations::default() };
    Tool { annotations, ..tool(name, Executor::Anyone) }
}

/// Waits for something that has to come, but not for ever.
async fn until(come: impl Fn() -> bool) {
    let waiting = async {
        while !come() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
}

/// An answer that asks for these tools, each with its own arguments.
fn asks_for(names: &[&str]) -> Reply {
    let calls = names.iter().enumerate().map(|(index, name)| {
        let function = json!({ "name": name, "arguments": json!({ "n": index }).to_string() });
        json!({ "index": index, "id": format!("id_{index}"), "type": "function", "function": function })
    });
    let calls: Vec<Value> = calls.collect();
    Reply::Stream(vec![
        json!({ "choices": [{ "index": 0, "delta": { "tool_calls": calls } }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }),
    ])
}

fn says(text: &str) -> Reply {
    Reply::Stream(vec![
        json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": "stop" }] }),
    ])
}

/// What the model was told about its calls, in order.
fn told(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let messages = requests[1].body["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool").enumerate();
    results
        .map(|(index, message)| {
            assert_eq!(message["tool_call_id"], format!("id_{index}"));
            message["content"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// What was asked for, and how it ended, in order.
fn story(port: &Port) -> Vec<String> {
    let calls = port.calls();
    let name = |id| {
        let call = calls.iter().find(|call| call.id == id).unwrap();
        match &call.kind {
            CallKind::Tool { name, .. } => name.to_string(),
            CallKind::Question { .. } => "?".to_owned(),
        }
    };
    let step = |event: Event| {
        if let Event::CallRequested { call, .. } = event {
            Some(format!("+{}", name(call.id.clone())))
        } else if let Event::CallEnded { call, .. } = event {
            Some(format!("-{}", name(call)))
        } else {
            None
        }
    };
    port.events().into_iter().filter_map(step).collect()
}

#[tokio::test]
async fn calls_that_nobody_can_run_are_seen_to_fail() {
    let long = "x".repeat(65);
    let call = |index: u64, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "index": index, "id": format!("id_{index}"), "function": function })
    };
    let calls = [
        call(0, "no_such", r#"{"a":1}"#),
        call(1, "good", r#"{"b":2}"#),
        call(2, "list", "[1]"),
        call(3, &long, "{"),
    ];
    let choice = json!({ "index": 0, "delta": { "tool_calls": calls }, "finish_reason": "tool_calls" });
    let asks = Reply::Stream(vec![json!({ "choices": [choice] })]);
    let server = Server::start(vec![asks, says("So be it.")]).await;
    let port = Port::new(|_| Some(CallEnd::done(json!("done"))));
    *port.tools.lock().unwrap() = vec![tool("good", Executor::Anyone), tool("list", Executor::Anyone)];
    run(&server.agent(|_| {}), &port, chat("go")).await.unwrap();

    let cut = &long[..64];
    let wanted =
        ["+no_such", "+list", &format!("+{cut}"), "+good", "-good", "-no_such", "-list", &format!("-{cut}")];
    assert_eq!(story(&port), wanted);
    let args = port.calls().into_iter().map(|call| match call.kind {
        CallKind::Tool { args, .. } => Value::clone(&args),
        CallKind::Question { text, .. } => panic!("{text}"),
    });
    let wanted = [json!({ "a": 1 }), json!({}), json!({}), json!({ "b": 2 })];
    assert_eq!(args.collect::<Vec<Value>>(), wanted);
    let ends = port.events().into_iter().filter_map(|event| match event {
        Event::CallEnded { end: CallEnd::Failed(error), .. } => Some((error.name, error.message)),
        _ => None,
    });
    let (names, messages): (Vec<String>, Vec<String>) = ends.unzip();
    assert_eq!(names, ["unknown_tool", "invalid_args", "unknown_tool"]);
    let told = told(&server);
    assert_eq!(told[1], "done");
    assert_eq!([&told[0], &told[2], &told[3]].map(|text| &text["error: ".len()..]), *messages);
}

#[tokio::test]
async fn a_call_that_the_session_does_not_take_is_seen_to_fail() {
    let server = Server::start(vec![asks_for(&["good"]), says("So be it.")]).await;
    let port = Port::new(|_| Some(CallEnd::done(json!("done"))));
    port.gone.lock().unwrap().push(ToolName::from("good"));
    *port.tools.lock().unwrap() = vec![tool("good", Executor::Anyone)];
    run(&server.agent(|_| {}), &port, chat("go")).await.unwrap();
    assert_eq!(story(&port), ["+good", "-good"]);
    assert_eq!(told(&server), ["error: no such tool: good"]);
}

/// Tools that end only once all of them run at the same time.
#[derive(Debug)]
struct Together {
    barrier: Barrier,
    ran: Mutex<Vec<String>>,
}

#[async_trait]
impl Toolbox for Together {
    fn knows(&self, name: &ToolName) -> bool {
        name.as_str().starts_with("mine_")
    }

    fn approval(&self, _: &ToolName) -> Option<Duration> {
        None
    }

    async fn run(
        &self,
        name: &ToolName,
        args: Value,
        _timeout: Duration,
        _progress: mpsc::Sender<String>,
    ) -> CallEnd {
        self.barrier.wait().await;
        self.ran.lock().unwrap().push(name.to_string());
        CallEnd::done(json!(format!("{name} {}", args["n"])))
    }
}

#[tokio::test]
async fn the_tools_of_one_answer_run_at_the_same_time() {
    let server = Server::start(vec![asks_for(&["mine_a", "far", "mine_b", "mine_a"]), says("ok")]).await;
    let port = Port::new(|call| match &call.executor {
        Some(Executor::Agent) => None,
        _ => Some(CallEnd::done(json!("from afar"))),
    });
    *port.tools.lock().unwrap() = vec![
        tool("mine_a", Executor::Agent),
        tool("mine_b", Executor::Agent),
        tool("far", Executor::Anyone),
        tool("of_another_agent", Executor::Agent),
    ];
    let toolbox = Arc::new(Together { barrier: Barrier::new(3), ran: Mutex::default() });
    let (_keep, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
    turn.equip(toolbox.clone());
    let agent = server.agent(|_| {});
    tokio::time::timeout(PATIENCE, agent.run(&mut turn)).await.unwrap().unwrap();
    assert_eq!(toolbox.ran.lock().unwrap().len(), 3);
    assert_eq!(told(&server), ["mine_a 0", "from afar", "mine_b 2", "mine_a 3"]);
    let body = &server.requests()[0].body;
    let offered: Vec<&Value> =
        body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(offered, ["mine_a", "mine_b", "far"]);
    assert_eq!(body.get("parallel_tool_calls"), None);
}

#[tokio::test]
async fn tools_of_others_are_asked_for_at_the_same_time_and_all_are_given_up_together() {
    let server = Server::start(vec![asks_for(&["far", "far", "far"])]).await;
    let port = Port::silent();
    *port.tools.lock().unwrap() = vec![tool("far", Executor::Anyone)];
    let agent = server.agent(|_| {});
    let (interrupt, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
    let running = tokio::spawn(async move { agent.run(&mut turn).await.map(drop).unwrap_err().to_string() });
    until(|| port.calls().len() >= 3).await;
    interrupt.send(true).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap(), "the turn is over");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn tools_run_one_after_another_if_that_is_wanted() {
    let server = Server::start(vec![asks_for(&["a", "b"]), says("ok")]).await;
    let port = Port::new(|_| Some(CallEnd::done(json!(1))));
    *port.tools.lock().unwrap() = vec![tool("a", Executor::Anyone), tool("b", Executor::Anyone)];
    run(&server.agent(|config| config.parallel_tool_calls = false), &port, chat("x")).await.unwrap();
    assert_eq!(story(&port), ["+a", "-a", "+b", "-b"]);
    assert_eq!(server.requests()[0].body["parallel_tool_calls"], false);

    // Nothing is said about tools where there are none.
    let server = Server::start(vec![says("ok")]).await;
    run(&server.agent(|config| config.parallel_tool_calls = false), &Port::silent(), chat("x"))
        .await
        .unwrap();
    assert_eq!(server.requests()[0].body.get("parallel_tool_calls"), None);
}

/// A person who approves what they were asked about first, and nothing else.
fn hesitant(call: &CallRequest) -> Option<CallEnd> {
    match &call.kind {
        CallKind::Question { text, .. } if text.contains("\"n\":0") => {
            Some(CallEnd::done(json!({ "approve": true })))
        }
        CallKind::Question { .. } => Some(CallEnd::done(json!({ "approve": false }))),
        CallKind::Tool { name, .. } => Some(CallEnd::done(json!(format!("did {name}")))),
    }
}

#[tokio::test]
async fn destructive_tools_are_used_only_with_approval() {
    let server =
        Server::start(vec![asks_for(&["wipe", "look", "wipe", "sign", "nothing"]), says("ok")]).await;
    let port = Port::new(hesitant);
    let annotations = ToolAnnotations { confirm: Some(true), ..ToolAnnotations::default() };
    let sign = Tool { annotations, ..tool("sign", Executor::Anyone) };
    *port.tools.lock().unwrap() = vec![destructive("wipe"), tool("look", Executor::Anyone), sign];
    let end =
        run(&server.agent(|config| config.approval_timeout_ms = 7_000), &port, chat("x")).await.unwrap();
    assert!(matches!(end.outcome, TurnOutcome::Done(_)));
    let denied = "error: denied: the user did not approve";
    let wanted = ["did wipe", "did look", denied, denied, "error: there is no tool called nothing"];
    assert_eq!(told(&server), wanted);
    // Every question is answered before the next is asked, and all of them before a tool runs.
    let wanted = ["+nothing", "+?", "-?", "+?", "-?", "+?", "-?", "+wipe", "-wipe"];
    assert_eq!(story(&port)[..9], wanted);
    let calls = port.calls();
    assert_eq!(calls.len(), 6);
    let CallKind::Question { text, schema, approves } = &calls[1].kind else { panic!("{:?}", calls[1]) };
    let who = "The agent \"agent\" asks, on behalf of \"ann\"";
    assert_eq!(*text, format!("{who}: may the tool \"wipe\" be used with these arguments?\n{{\"n\":0}}"));
    assert_eq!(approves.as_ref().map(ToolName::as_str), Some("wipe"));
    let wanted = json!({ "type": "object", "properties": { "approve": { "type": "boolean" } }, "required": ["approve"] });
    assert_eq!(schema.as_ref(), Some(&wanted));
    // The clock of the test stands at 1000 seconds.
    assert_eq!(calls[1].deadline.as_secs(), 1_007);
}

async fn used(agent: &OpenAi, server: &Server, end: Option<CallEnd>) -> Vec<String> {
    let port = Port::new(move |call| match &call.kind {
        CallKind::Question { .. } => end.clone(),
        CallKind::Tool { .. } => Some(CallEnd::done(json!("done"))),
    });
    *port.tools.lock().unwrap() = vec![destructive("wipe"), tool("look", Executor::Anyone)];
    run(agent, &port, chat("x")).await.unwrap();
    told(server)
}

#[tokio::test]
async fn only_a_yes_is_an_approval() {
    let denied = "error: denied: the user did not approve";
    let nobody = "error: denied: nobody has approved it";
    for (end, wanted) in [
        (CallEnd::done(json!("Yes.")), "done"),
        (CallEnd::done(json!(true)), "done"),
        (CallEnd::done(json!("rather not")), denied),
        (CallEnd::done(Value::Null), denied),
        (CallEnd::TimedOut, nobody),
        (CallEnd::Failed(CallError::new("Denied", "nobody is there")), denied),
    ] {
        let server = Server::start(vec![asks_for(&["wipe"]), says("ok")]).await;
        assert_eq!(used(&server.agent(|_| {}), &server, Some(end.clone())).await, [wanted], "{end:?}");
    }
}

#[tokio::test]
async fn everything_or_nothing_may_need_approval() {
    for (approve, wanted) in
        [(Approval::Always, "error: denied: nobody has approved it"), (Approval::Never, "done")]
    {
        let server = Server::start(vec![asks_for(&["wipe", "look"]), says("ok")]).await;
        let agent = server.agent(|config| config.approve = approve);
        assert_eq!(used(&agent, &server, Some(CallEnd::TimedOut)).await, [wanted, wanted]);
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_an_approval() {
    let server = Server::start(vec![asks_for(&["wipe"])]).await;
    let port = Port::silent();
    *port.tools.lock().unwrap() = vec![destructive("wipe")];
    let agent = server.agent(|_| {});
    let (interrupt, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(chat("x"), 1), port.clone(), interrupted, Vec::new());
    let running = tokio::spawn(async move { agent.run(&mut turn).await.map(drop).unwrap_err().to_string() });
    until(|| !port.calls().is_empty()).await;
    interrupt.send(true).unwrap();
    assert_eq!(tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap(), "the turn is over");
    assert_eq!(story(&port), ["+?"]);
}

#[tokio::test]
async fn long_results_are_cut_before_the_model_sees_them() {
    let server = Server::start(vec![asks_for(&["read", &"x".repeat(500)]), says("ok")]).await;
    let port = Port::new(|_| Some(CallEnd::done(json!("ü".repeat(1000)))));
    *port.tools.lock().unwrap() = vec![tool("read", Executor::Anyone)];
    run(&server.agent(|config| config.tool_result_bytes = 101), &port, chat("x")).await.unwrap();
    let told = told(&server);
    assert_eq!(told[0], "ü".repeat(50) + "\n[cut: the first 100 of 2000 bytes]");
    assert!(told[1].starts_with("error: there is no tool called xxx") && told[1].len() < 150, "{}", told[1]);
}

#[tokio::test]
async fn every_step_is_offered_the_tools_of_its_moment_under_names_that_last() {
    let server = Server::start(vec![
        asks_for(&["page_open"]),
        asks_for(&["cart_add", "page_open", "page_open_2"]),
        says("ok"),
    ])
    .await;
    let shown: Arc<OnceLock<Weak<Port>>> = Arc::default();
    let app = shown.clone();
    let port = Port::new(move |call| {
        let CallKind::Tool { name, .. } = &call.kind else { return None };
        if name.as_str() == "page.open" {
            let port = app.get().unwrap().upgrade().unwrap();
            let next = ["page:open", "cart.add"].map(|name| tool(name, Executor::Anyone));
            *port.tools.lock().unwrap() = next.to_vec();
        }
        Some(CallEnd::done(json!(format!("did {name}"))))
    });
    shown.set(Arc::downgrade(&port)).unwrap();
    *port.tools.lock().unwrap() = vec![tool("page.open", Executor::Anyone)];
    run(&server.agent(|_| {}), &port, chat("x")).await.unwrap();
    let requests = server.requests();
    let offered = |round: usize| -> Vec<&Value> {
        let tools = requests[round].body["tools"].as_array().unwrap();
        tools.iter().map(|tool| &tool["function"]["name"]).collect()
    };
    assert_eq!(offered(0), ["page_open"]);
    assert_eq!(offered(1), ["page_open_2", "cart_add"]);
    assert_eq!(offered(2), ["page_open_2", "cart_add"]);
    let results = requests[2].body["messages"].as_array().unwrap().iter();
    let results: Vec<&Value> =
        results.filter(|message| message["role"] == "tool").map(|message| &message["content"]).collect();
    assert_eq!(
        results,
        ["did page.open", "did cart.add", "error: there is no tool called page_open", "did page:open"]
    );
    assert_eq!(
        story(&port),
        [
            "+page.open",
            "-page.open",
            "+page_open",
            "+cart.add",
            "-cart.add",
            "+page:open",
            "-page:open",
            "-page_open"
        ]
    );
}

/// How long a test waits for what should not take long.
const PATIENCE: Duration = Duration::from_secs(20);
