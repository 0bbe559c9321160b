//! A device: registers, runs commands, comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_client::aip::{
    Cause, Connect, ConnectError, Device, Direction, Ending, Event, Fault, FirstAttempt, Handlers, Metrics,
    TaskStatus, TaskUpdate, ToolCall, ToolFailure, ToolInfo, Tools,
};
use switchboard_client::{Bearer, Refusal};
use tokio::sync::mpsc;

use crate::support::{Server, device, event, soon};

/// Answers with what it was given, fails on `fail`, waits for ever on `wait`.
#[derive(Default)]
struct Workshop {
    facts: AtomicU64,
    /// Told when something is waited for, and when it is not any more.
    waits: Option<mpsc::UnboundedSender<&'static str>>,
}

struct Waits(mpsc::UnboundedSender<&'static str>);

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.0.send("stopped");
    }
}

impl Tools for Workshop {
    async fn run(&self, call: ToolCall) -> Result<Value, ToolFailure> {
        match call.name.as_str() {
            "fail" => Err(ToolFailure::new("as you wished")),
            "panic" => panic!("as you wished"),
            "wait" => {
                let waits = self.waits.clone().expect("somebody to tell");
                waits.send("begun").expect("told");
                let _waits = Waits(waits);
                std::future::pending().await
            }
            name => Ok(json!({"ran": name, "with": call.parameters, "for": call.agent_name})),
        }
    }

    fn list(&self) -> Vec<ToolInfo> {
        ["action", "data_collection"]
            .map(|tool_type| ToolInfo {
                tool_key: format!("{tool_type}::x"),
                tool_name: "x".to_owned(),
                title: None,
                namespace: "shop".to_owned(),
                tool_type: tool_type.to_owned(),
                description: None,
                input_schema: None,
                output_schema: None,
                meta: Some(Map::new()),
                annotations: None,
            })
            .to_vec()
    }

    fn facts(&self) -> Option<Map<String, Value>> {
        let count = self.facts.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Map::from_iter([("asked".to_owned(), count.into())]))
    }

    fn namespace(&self) -> Option<String> {
        Some("shop".to_owned())
    }
}

#[tokio::test]
async fn a_device_registers_with_fresh_facts_and_its_credential() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).token("secret");
    let (device, (mut peer, register)) =
        tokio::join!(Device::connect(options, device(), Workshop::default()), server.accept());
    let device = device.expect("connect");
    assert_eq!((peer.path.as_str(), peer.bearer.as_deref()), ("/ws", Some("Bearer secret")));
    assert_eq!((&register["client_id"], &register["client_type"]), (&json!("dev-7"), &json!("device")));
    assert_eq!(register["metadata"]["system_info"], json!({"asked": 1}));
    assert_eq!(register["metadata"]["platform"], "linux");
    peer.say(json!({"type": "device_info_request", "status": "ok", "response_id": "p1"})).await;
    let info = peer.heard("device_info_response").await;
    assert_eq!((&info["metadata"], &info["prev_response_id"]), (&json!({"asked": 2}), &json!("p1")));
    let (closed, ()) = tokio::join!(peer.closed(), device.close());
    assert_eq!(closed, Some(1000));
}

#[tokio::test]
async fn the_token_may_travel_in_the_address() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).token("a&b").bearer(Bearer::Query);
    let (device, (peer, _)) =
        tokio::join!(Device::connect(options, device(), Workshop::default()), server.accept());
    assert_eq!((peer.path.as_str(), peer.bearer), ("/ws?token=a%26b", None));
    drop(device);
}

#[tokio::test]
async fn commands_are_run_in_order_and_those_after_a_failure_are_skipped() {
    let server = Server::start().await;
    let (device, (mut peer, _)) = tokio::join!(
        Device::connect(Connect::new(server.url()), device(), Workshop::default()),
        server.accept()
    );
    let _device = device.expect("connect");
    peer.command("r1", "s", &["one", "fail", "two"]).await;
    let results = peer.heard("command_results").await;
    assert_eq!((&results["prev_response_id"], &results["session_id"]), (&json!("r1"), &json!("s")));
    let outcome = |number: usize, field: &str| results["action_results"][number][field].clone();
    assert_eq!(outcome(0, "status"), "success");
    assert_eq!(outcome(0, "result"), json!({"ran": "one", "with": {"n": 0}, "for": "LinuxAgent"}));
    assert_eq!((outcome(0, "namespace"), outcome(0, "call_id")), (json!("shop"), json!("c0")));
    assert_eq!((outcome(1, "status"), outcome(1, "error")), (json!("failure"), json!("as you wished")));
    assert_eq!(outcome(2, "status"), "skipped");
    peer.command("r2", "s", &["panic"]).await;
    let results = peer.heard("command_results").await;
    assert_eq!(results["action_results"][0]["error"], "the tool broke");
}

#[tokio::test]
async fn tools_are_listed_by_type() {
    let server = Server::start().await;
    let (device, (mut peer, _)) = tokio::join!(
        Device::connect(Connect::new(server.url()), device(), Workshop::default()),
        server.accept()
    );
    let _device = device.expect("connect");
    for (parameters, keys) in [
        (json!({}), vec!["action::x", "data_collection::x"]),
        (json!({"tool_type": "action"}), vec!["action::x"]),
        (json!({"namespace": "other"}), vec![]),
    ] {
        let action = json!({"tool_name": "list_tools", "tool_type": "action", "parameters": parameters});
        peer.say(json!({"type": "command", "status": "continue", "response_id": "r", "actions": [action]}))
            .await;
        let results = peer.heard("command_results").await;
        let tools = results["action_results"][0]["result"].as_array().expect("a list").clone();
        let found: Vec<&str> = tools.iter().map(|tool| tool["tool_key"].as_str().expect("key")).collect();
        assert_eq!(found, keys);
        assert!(tools.iter().all(|tool| tool["meta"].is_null()), "{tools:?}");
    }
}

#[tokio::test]
async fn what_nobody_wants_any_more_is_stopped() {
    let server = Server::start().await;
    let (waits, mut told) = mpsc::unbounded_channel();
    let tools = Workshop { waits: Some(waits), ..Workshop::default() };
    let (device, (mut peer, _)) =
        tokio::join!(Device::connect(Connect::new(server.url()), device(), tools), server.accept());
    let device = device.expect("connect");
    let mut events = device.events();
    // The task ends without it.
    peer.command("r1", "s1", &["wait"]).await;
    assert_eq!(soon(told.recv()).await, Some("begun"));
    peer.end("s1", "failed", Value::Null, Some("cancelled: enough")).await;
    assert_eq!(soon(told.recv()).await, Some("stopped"));
    let error = Some("cancelled: enough".to_owned());
    let expected = Event::TaskEnded { session_id: Some("s1".to_owned()), status: TaskStatus::Failed, error };
    assert_eq!(event(&mut events).await, expected);
    // The connection is lost; then the device leaves.
    peer.command("r2", "s2", &["wait"]).await;
    assert_eq!(soon(told.recv()).await, Some("begun"));
    peer.hang_up(1001).await;
    assert_eq!(soon(told.recv()).await, Some("stopped"));
    let (mut peer, _) = server.accept().await;
    peer.command("r3", "s3", &["wait"]).await;
    assert_eq!(soon(told.recv()).await, Some("begun"));
    soon(async { tokio::join!(device.close(), peer.closed()) }).await;
    assert_eq!(soon(told.recv()).await, Some("stopped"));
}

#[tokio::test]
async fn a_device_comes_back_by_itself() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).first_attempt(FirstAttempt::KeepTrying);
    let device = Device::new(options, device(), Workshop::default()).expect("options");
    let mut events = device.events();
    let script = async {
        // Refused, cut off, taken; then lost.
        server.refuse("503 Service Unavailable").await;
        drop(server.tcp().await);
        let (peer, _) = server.accept().await;
        peer.hang_up(1001).await;
        server.accept().await
    };
    let (online, (mut peer, register)) = tokio::join!(device.online(), script);
    online.expect("online");
    assert_eq!(register["metadata"]["system_info"], json!({"asked": 2}));
    let Event::Disconnected { cause: Cause::Refused(Refusal { status: 503, .. }), .. } =
        event(&mut events).await
    else {
        panic!("not refused");
    };
    let Event::Disconnected { cause: Cause::Unreachable(_), .. } = event(&mut events).await else {
        panic!("not cut off");
    };
    assert_eq!(event(&mut events).await, Event::Connected);
    let Event::Disconnected { cause: Cause::Closed(_), retry_in } = event(&mut events).await else {
        panic!("not lost");
    };
    assert!(retry_in <= Duration::from_millis(24), "{retry_in:?} is more than the first wait and a fifth");
    assert_eq!(event(&mut events).await, Event::Connected);
    assert!(soon(device.online()).await.is_ok());
    peer.command("r", "s", &["again"]).await;
    peer.heard("command_results").await;
}

#[tokio::test]
async fn what_waiting_cannot_change_is_final() {
    let server = Server::start().await;
    let options = || Connect::new(server.url()).first_attempt(FirstAttempt::KeepTrying);
    let (device_, ()) = tokio::join!(
        Device::connect(options(), device(), Workshop::default()),
        server.refuse("401 Unauthorized")
    );
    let Err(ConnectError::Failed(Cause::Refused(Refusal { status: 401, text, .. }))) = device_ else {
        panic!("{device_:?}");
    };
    assert_eq!(text, "Invalid API key");
    let refuse = async {
        let mut peer = server.upgrade().await;
        peer.heard("register").await;
        let error = "client_id is not permitted for this credential";
        peer.say(json!({"type": "error", "status": "error", "error": error})).await;
    };
    let (refused, ()) = tokio::join!(Device::connect(options(), device(), Workshop::default()), refuse);
    let Err(ConnectError::Failed(Cause::Protocol(Fault::Refused(why)))) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("not permitted"), "{why}");
}

#[tokio::test]
async fn a_device_gives_itself_tasks() {
    let server = Server::start().await;
    let (device, (mut peer, _)) = tokio::join!(
        Device::connect(Connect::new(server.url()), device(), Workshop::default()),
        server.accept()
    );
    let device = device.expect("connect");
    let mut task = device.submit("tidy up", None).await.expect("a task");
    let asked = peer.heard("task").await;
    assert_eq!((&asked["request"], &asked["session_id"]), (&json!("tidy up"), &json!(task.session_id())));
    peer.ok(Some(task.session_id())).await;
    assert_eq!(soon(task.next()).await, Some(TaskUpdate::Accepted));
    task.cancel("too loud");
    let end = peer.heard("task_end").await;
    assert_eq!((&end["status"], &end["error"]), (&json!("failed"), &json!("too loud")));
    peer.end(task.session_id(), "completed", json!("tidy"), None).await;
    assert_eq!(soon(task.next()).await, Some(TaskUpdate::Ended(Ending::Completed(json!("tidy")))));
    assert_eq!(soon(task.next()).await, None);
}

#[tokio::test]
async fn middleware_and_handlers_see_the_messages() {
    let server = Server::start().await;
    let metrics = Metrics::default();
    let heard = Arc::new(AtomicU64::new(0));
    let count = heard.clone();
    let mut handlers = Handlers::default();
    handlers.register("command", |_| Err("not that one".into()));
    handlers.register("command", move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let options = Connect::new(server.url()).middleware(metrics.clone()).handlers(handlers);
    let (device, (mut peer, _)) =
        tokio::join!(Device::connect(options, device(), Workshop::default()), server.accept());
    let _device = device.expect("connect");
    peer.command("r", "s", &["x"]).await;
    peer.heard("command_results").await;
    assert_eq!(metrics.count(Direction::Outgoing, "register"), 1);
    assert_eq!(metrics.count(Direction::Outgoing, "command_results"), 1);
    assert_eq!(metrics.count(Direction::Incoming, "command"), 1);
    assert_eq!(heard.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_function_is_enough_for_tools() {
    let server = Server::start().await;
    let tools = |call: ToolCall| async move { Ok(Value::from(call.name)) };
    let (device, (mut peer, _)) =
        tokio::join!(Device::connect(Connect::new(server.url()), device(), tools), server.accept());
    let _device = device.expect("connect");
    peer.command("r", "s", &["echo"]).await;
    assert_eq!(peer.heard("command_results").await["action_results"][0]["result"], "echo");
}
