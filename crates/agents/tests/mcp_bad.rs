//! Servers that are broken, slow or malicious.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod mcp_support;

use std::time::Duration;

use mcp_support::{call, error, eventually, inline, is_alive, one, pid, result, start, status, why};
use serde_json::json;
use switchboard_agents::{McpConfig, McpServers};
use switchboard_core::ToolName;
use switchboard_core::model::CallEnd;
use tokio::time::Instant;

#[tokio::test]
async fn rubbish_between_messages_is_skipped() {
    let program = r#"
print("starting up...", flush=True)
sys.stdout.buffer.write(b"\xff\xfe\n{}\n[]\nnull\n" + b"x" * 10_000_000 + b"\n")
initialize()
def calls(id, params):
    print('{"jsonrpc": "2.0", "id": "another", "result": 5}', flush=True)
    print("working on it", flush=True)
    send(id=id, result=text("fine"))
serve(lambda cursor: {"tools": [tool("work")]}, calls)
"#;
    let servers = start(inline(program)).await;
    assert_eq!(result(&servers, "py.work", json!({})).await, json!("fine"));
    assert_eq!(status(&servers).restarts, 0);
}

#[tokio::test]
async fn a_server_that_never_begins_is_given_up() {
    for program in
        ["time.sleep(600)", "while True: print('rubbish', flush=True)", "initialize(); time.sleep(600)"]
    {
        let servers =
            McpServers::start(one(McpConfig { start_timeout_ms: 1500, ..inline(program) }), |_| None);
        let late = "the server did not start in time";
        eventually("two attempts", &servers, || status(&servers).restarts >= 1).await;
        // Rubbish is over sooner, when there was too much of it.
        let given_up = |why: String| why == late || (program.contains("rubbish") && why.contains("ended"));
        eventually("a reason", &servers, || why(&servers).is_some_and(given_up)).await;
        assert!(servers.tools().is_empty());
    }
}

#[tokio::test]
async fn a_server_that_refuses_is_down_and_says_why() {
    let program =
        "request = receive(); send(id=request['id'], error={'code': -32602, 'message': 'hidden'}); receive()";
    let servers = McpServers::start(one(inline(program)), |_| None);
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.contains("invalid_parameters")))
        .await;
    let program = "initialize(); request = receive(); send(id=request['id'], error={'code': -32601, 'message': 'hidden'}); receive()";
    servers.reconfigure(one(inline(program)));
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.contains("method_not_found")))
        .await;
    servers.reconfigure(one(inline("sys.exit(7)")));
    eventually("a reason", &servers, || why(&servers).is_some_and(|why| why.contains("exit status: 7")))
        .await;
    assert!(!format!("{servers:?}").contains("hidden"));
}

#[tokio::test]
async fn errors_of_the_protocol_keep_their_names() {
    let program = r#"
initialize()
def calls(id, params):
    send(id=id, error={"code": params["arguments"]["code"], "message": "sorry"})
serve(lambda cursor: {"tools": [tool("refuse")]}, calls)
"#;
    let servers = start(inline(program)).await;
    for (code, name) in [(-32602, "invalid_parameters"), (-32603, "internal_error"), (42, "mcp_error")] {
        let error = error(&servers, "py.refuse", json!({ "code": code })).await;
        assert_eq!((error.name.as_str(), error.message.as_str()), (name, "sorry"));
    }
}

#[tokio::test]
async fn more_tools_than_anybody_needs_are_left_out() {
    let one_page =
        "initialize()\nserve(lambda cursor: {'tools': [tool(f't{n}') for n in range(10000)]}, None)";
    let pages = r#"
initialize()
def lists(cursor):
    page = int(cursor or 0)
    return {"tools": [tool(f"t{page}")], "nextCursor": str(page + 1)}
serve(lists, None)
"#;
    let servers = start(inline(one_page)).await;
    assert_eq!(servers.tools().len(), 256);
    let servers = start(inline(pages)).await;
    assert_eq!(servers.tools().len(), 64, "pages without end are read up to a bound");
    let chosen = McpConfig { tools: Some(vec!["t9999".into()]), ..inline(one_page) };
    let servers = start(chosen).await;
    assert_eq!(servers.tools().len(), 1, "what is chosen is found behind the others");
}

#[tokio::test]
async fn tools_that_cannot_be_offered_are_left_out() {
    let program = r#"
initialize()
tools = [tool("good"), tool("good"), {**tool("wordy"), "description": "x" * 2000}, tool("x" * 300), tool("sp ace")]
tools.append({"name": "large", "inputSchema": {"type": "object", "title": "x" * 20000}})
serve(lambda cursor: {"tools": tools}, lambda id, params: send(id=id, result=text(params["name"])))
"#;
    let servers = start(inline(program)).await;
    let names: Vec<_> = servers.tools().into_iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "py.good");
    assert!(names[1].starts_with("py.sp_ace_"));
    assert_eq!(result(&servers, &names[1], json!({})).await, json!("sp ace"));
}

#[tokio::test]
async fn tools_that_change_all_the_time_are_listed_now_and_then() {
    let program = r#"
initialize()
listed = 0
def lists(cursor):
    global listed
    listed += 1
    return {"tools": [tool("count"), tool(f"t{listed}")]}
def flood():
    while True:
        os.write(1, b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n' * 50)
        time.sleep(0.001)
threading.Thread(target=flood, daemon=True).start()
serve(lists, lambda id, params: send(id=id, result=text(str(listed))))
"#;
    let began = Instant::now();
    let servers = start(inline(program)).await;
    eventually("some lists", &servers, || *servers.changes().borrow() >= 4).await;
    let listed = result(&servers, "py.count", json!({})).await;
    let listed: u64 = listed.as_str().unwrap().parse().unwrap();
    let most = began.elapsed().as_secs() + 2;
    assert!((4..=most).contains(&listed), "{listed} lists in {most} seconds");
    assert_eq!(status(&servers).restarts, 0);
}

#[tokio::test]
async fn notifications_without_end_do_no_harm() {
    let program = r#"
initialize()
def calls(id, params):
    token = params["_meta"]["progressToken"]
    for n in range(20000):
        send(method="notifications/progress", params={"progressToken": token, "progress": n, "message": "m" * 100})
        send(method="notifications/message", params={"level": "info", "data": "d" * 100})
    send(id=id, result=text("over"))
serve(lambda cursor: {"tools": [tool("flood")]}, calls)
"#;
    let servers = start(inline(program)).await;
    assert_eq!(result(&servers, "py.flood", json!({})).await, json!("over"));
    assert_eq!(status(&servers).restarts, 0);
}

#[tokio::test]
async fn who_asks_and_never_listens_is_cut_off() {
    let program = r#"
initialize()
request = receive()
send(id=request["id"], result={"tools": [tool("any")]})
for n in range(1000000):
    send(id=n, method="ping")
time.sleep(600)
"#;
    let servers = start(inline(program)).await;
    eventually("a restart", &servers, || status(&servers).restarts >= 1).await;
}

#[tokio::test]
async fn a_server_that_falls_silent_is_started_again() {
    let program = r#"
initialize()
request = receive()
send(id=request["id"], result={"tools": [tool("wait")]})
while True: receive()
"#;
    let servers = start(McpConfig { start_timeout_ms: 3000, ..inline(program) }).await;
    let wait = ToolName::from("py.wait");
    assert_eq!(servers.call(&wait, json!({}), Duration::from_millis(300), |_| ()).await, CallEnd::TimedOut);
    eventually("a restart", &servers, || status(&servers).restarts >= 1).await;
}

#[tokio::test]
async fn a_server_that_dies_in_many_calls_ends_them_all() {
    let program = r#"
initialize()
waiting = 0
def calls(id, params):
    global waiting
    waiting += 1
    if waiting == 5:
        os._exit(1)
serve(lambda cursor: {"tools": [tool("wait")]}, calls)
"#;
    let servers = start(inline(program)).await;
    let ends = futures_util::future::join_all((0..5).map(|_| call(&servers, "py.wait", json!({})))).await;
    for end in ends {
        assert!(matches!(&end, CallEnd::Failed(error) if error.name == "unavailable"), "{end:?}");
    }
}

#[tokio::test]
async fn a_server_that_will_not_leave_is_made_to() {
    let program = r#"
signal.signal(signal.SIGTERM, signal.SIG_IGN)
initialize()
def calls(id, params):
    send(id=id, result={"content": [], "structuredContent": {"result": os.getpid()}})
try:
    serve(lambda cursor: {"tools": [tool("pid")]}, calls)
except SystemExit:
    time.sleep(600)
"#;
    let servers = start(inline(program)).await;
    let stubborn = pid(&servers, "py.pid").await;
    servers.stop().await;
    eventually("it is gone", &servers, || !is_alive(stubborn)).await;
}
