//! The endpoints over HTTP (§2.2, §6.3): AIP-086 to AIP-089, A16, A17, A31.

use serde_json::{Value, json};
use switchboard_aip::AipLimits;
use switchboard_core::Protocol as _;

use crate::support::{Talk, endpoint, own_task, short, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

fn refusal(talk: &mut Talk, key: &str, body: &Value) -> (u16, String) {
    let (status, body) = talk.dispatch(key, body);
    (status, text(&body, "detail"))
}

/// What the reference device does with a dispatched task.
fn take_up(talk: &mut Talk, dev: switchboard_testkit::PeerId) -> Value {
    let assigned = talk.one(dev);
    assert_eq!(assigned["type"], "task");
    talk.say(
        dev,
        &json!({
            "type": "task", "status": "continue", "session_id": null, "task_name": assigned["task_name"],
            "client_id": "dev", "request": assigned["user_request"], "request_id": "5b1d",
            "metadata": { "platform": "linux" },
        }),
    );
    assigned
}

#[test]
fn aip_086_a_dispatch_is_checked_in_the_order_of_the_reference() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.boss("boss", "dev");
    for body in [json!([]), json!("x"), json!(null), json!({ "request": 5 }), json!({ "client_id": [] })] {
        assert_eq!(talk.dispatch("ann", &body).0, 422, "{body}");
    }
    let request = endpoint("ann", "/api/dispatch", "");
    let (head, body) = talk.world.exchange(&talk.aip, &request, b"{").unwrap();
    assert_eq!(head.status, 422);
    assert!(serde_json::from_str::<Value>(&body).unwrap()["detail"].is_string());
    // Half a surrogate pair, as a page writes a text that was cut in the middle of a character.
    let (head, _) = talk.world.exchange(&talk.aip, &request, br#"{"request":"\ud83d"}"#).unwrap();
    assert_eq!(head.status, 400, "its client is what is missing");
    let bad = "Invalid task_name: must be a non-empty string of characters [A-Za-z0-9._-] and must not start with '.'";
    for (body, status, why) in [
        (json!({}), 400, "Empty task content"),
        (json!({ "request": "" }), 400, "Empty task content"),
        (json!({ "request": "", "client_id": "", "task_name": "" }), 400, "Empty task content"),
        (json!({ "request": "r" }), 400, "Empty client ID"),
        (json!({ "request": "r", "client_id": "", "task_name": "/" }), 400, "Empty client ID"),
        (json!({ "request": "r", "client_id": "nobody", "task_name": "" }), 400, bad),
        (json!({ "request": "r", "client_id": "dev", "task_name": ".x" }), 400, bad),
        (json!({ "request": "r", "client_id": "dev", "task_name": "a/b" }), 400, bad),
        (json!({ "request": "r", "client_id": "dev", "task_name": "ü" }), 400, bad),
        (json!({ "request": "r", "client_id": "dev", "task_name": "x".repeat(257) }), 400, bad),
        (json!({ "request": "r", "client_id": "nobody", "task_name": "t" }), 404, "Client not online"),
        (json!({ "request": "r", "client_id": "boss" }), 404, "Client not online"),
    ] {
        assert_eq!(refusal(&mut talk, "ann", &body), (status, why.to_owned()), "{body}");
    }
    assert_eq!(talk.short(dev), nothing());
}

#[test]
fn aip_086_strangers_cannot_dispatch_and_learn_nothing() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.device("lab");
    let to = |client: &str| json!({ "request": "r", "client_id": client, "task_name": "t" });
    assert_eq!(refusal(&mut talk, "bob", &to("dev")), (404, "Client not online".to_owned()));
    assert_eq!(refusal(&mut talk, "sender", &to("lab")), (404, "Client not online".to_owned()));
    for client in ["dev", "lab", "nobody"] {
        let (status, _) = refusal(&mut talk, "watcher", &to(client));
        assert_eq!(status, 403, "a credential without dispatch, whoever is online");
    }
    assert_eq!(talk.short(dev), nothing());
    assert_eq!(talk.dispatch("sender", &to("dev")).0, 200);
    assert_eq!(talk.short(dev), ["task t r"]);
}

#[test]
fn aip_087_a_dispatched_task_is_told_to_the_device_under_the_session_of_the_reply() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let body = json!({ "client_id": "dev", "request": "Collect the last 20 lines", "task_name": "T1" });
    let (status, reply) = talk.dispatch("ann", &body);
    assert_eq!(status, 200);
    assert_eq!((text(&reply, "status"), text(&reply, "task_name")), ("dispatched".into(), "T1".into()));
    assert_eq!(reply["client_id"], "dev");
    let keys: Vec<_> = reply.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["status", "task_name", "client_id", "session_id"]);
    let assigned = talk.one(dev);
    assert_eq!((text(&assigned, "type"), text(&assigned, "status")), ("task".into(), "continue".into()));
    assert_eq!(assigned["session_id"], reply["session_id"]);
    assert_eq!(
        (text(&assigned, "user_request"), text(&assigned, "task_name")),
        ("Collect the last 20 lines".into(), "T1".into())
    );
    assert!(assigned["response_id"].is_string() && assigned["agent_name"].is_null());
    let (_, reply) = talk.dispatch("ann", &json!({ "client_id": "dev", "request": "x" }));
    assert_eq!((text(&reply, "task_name").len(), text(&reply, "session_id").len()), (36, 36), "UUIDs");
    assert_ne!(reply["task_name"], reply["session_id"]);
    assert_eq!(talk.one(dev)["task_name"], reply["task_name"]);
    assert_eq!(talk.count("turn_accepted"), 0, "nothing runs until the device takes it up");
}

#[test]
fn aip_088_the_answer_of_the_device_runs_under_that_session_and_is_reported_as_done() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let (_, reply) =
        talk.dispatch("ann", &json!({ "client_id": "dev", "request": "one", "task_name": "T1" }));
    let session = text(&reply, "session_id");
    assert_eq!(talk.task_result("ann", "T1"), json!({ "status": "pending" }));
    take_up(&mut talk, dev);
    let told = talk.heard(dev);
    assert_eq!(
        told.iter().map(short).collect::<Vec<_>>(),
        [format!("ack {session}"), format!("command {session} look")],
        "A16"
    );
    assert_eq!(talk.task_result("ann", "T1"), json!({ "status": "pending" }));
    talk.obey(dev, &told[1]);
    let end = talk.one(dev);
    assert_eq!(end["session_id"], session.as_str());
    let result = talk.task_result("ann", "T1");
    assert_eq!(result, json!({ "status": "done", "result": end["result"] }), "A17");
    assert_eq!(talk.task_result("ann", "T1"), result, "as often as one asks");
    assert_eq!(talk.task_result("ann", "T%31"), result, "and however it is written");
    assert_eq!(talk.task_result("bob", "T1"), json!({ "status": "pending" }), "by its principal only");
}

#[test]
fn aip_088_the_result_belongs_to_whoever_dispatched() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let body = json!({ "client_id": "dev", "request": "raise", "task_name": "T1" });
    assert_eq!(talk.dispatch("sender", &body).0, 200);
    take_up(&mut talk, dev);
    assert_eq!(talk.short(dev).len(), 2);
    let result = talk.task_result("sender", "T1");
    assert_eq!(result, json!({ "status": "done", "result": { "error": "no plan" } }));
    assert_eq!(talk.task_result("ann", "T1")["status"], "pending", "not to whose device it is");
    assert_eq!(talk.task_result("watcher", "T1")["status"], "pending");
}

#[test]
fn aip_088_a_device_may_name_the_session_itself_and_each_is_taken_up_once() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let body = json!({ "client_id": "dev", "request": "hang", "task_name": "T1" });
    let first = text(&talk.dispatch("ann", &body).1, "session_id");
    let second = text(&talk.dispatch("ann", &body).1, "session_id");
    talk.short(dev);
    let up = |session: Option<&str>| json!({ "type": "task", "status": "continue", "session_id": session, "task_name": "T1", "request": "hang" });
    talk.say(dev, &up(Some(&second)));
    assert_eq!(talk.short(dev), [format!("ack {second}")]);
    talk.say(dev, &up(None));
    assert_eq!(talk.short(dev), [format!("ack {first}")]);
    talk.say(dev, &up(None));
    let third = text(&talk.one(dev), "session_id");
    assert!(third != first && third != second, "nothing is left to be taken up");
}

#[test]
fn aip_088_a_task_of_another_name_or_too_late_is_a_task_of_its_own() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let body = json!({ "client_id": "dev", "request": "hang", "task_name": "T1" });
    let session = text(&talk.dispatch("ann", &body).1, "session_id");
    talk.short(dev);
    let up =
        |name: &str| json!({ "type": "task", "status": "continue", "task_name": name, "request": "hang" });
    talk.say(dev, &up("T2"));
    assert_ne!(text(&talk.one(dev), "session_id"), session);
    talk.say(dev, &json!({ "type": "task", "status": "continue", "request": "hang" }));
    assert_ne!(text(&talk.one(dev), "session_id"), session);
    for _ in 0..2 {
        talk.world.advance(19_000);
        talk.world.send(dev, switchboard_core::Frame::Pong(Vec::new().into()));
    }
    talk.world.advance(19_000);
    talk.world.send(dev, switchboard_core::Frame::Pong(Vec::new().into()));
    talk.world.advance(3_000);
    talk.short(dev);
    talk.say(dev, &up("T1"));
    assert_ne!(text(&talk.one(dev), "session_id"), session, "after 60 s");
}

#[test]
fn aip_088_a_dispatched_task_that_comes_to_nothing_is_done_as_well() {
    let mut talk = Talk::limited(AipLimits { tasks_per_device: 1, ..AipLimits::default() });
    let dev = talk.device("dev");
    talk.say(dev, &own_task("busy", "hang"));
    assert_eq!(talk.short(dev), ["ack busy"]);
    assert_eq!(
        talk.dispatch("sender", &json!({ "client_id": "dev", "request": "one", "task_name": "T1" })).0,
        200
    );
    take_up(&mut talk, dev);
    assert_eq!(talk.short(dev), ["error device busy"]);
    assert_eq!(talk.task_result("sender", "T1")["result"], json!({ "error": "device busy" }));
    talk.say(dev, &crate::support::stop("device", "busy", "failed", None));
    talk.short(dev);
    assert_eq!(
        talk.dispatch("sender", &json!({ "client_id": "dev", "request": "one", "task_name": "T2" })).0,
        200
    );
    take_up(&mut talk, dev);
    talk.world.cut(dev);
    let result = talk.task_result("sender", "T2");
    assert!(result["result"]["error"].as_str().unwrap().contains("disconnect"), "{result}");
}

#[test]
fn aip_088_a_device_that_comes_back_takes_up_what_it_was_sent_before() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let body = json!({ "client_id": "dev", "request": "raise", "task_name": "T1" });
    let session = text(&talk.dispatch("sender", &body).1, "session_id");
    talk.world.cut(dev);
    assert_eq!(talk.task_result("sender", "T1")["status"], "pending");
    let back = talk.device("dev");
    talk.say(back, &json!({ "type": "task", "status": "continue", "task_name": "T1", "request": "raise" }));
    assert_eq!(talk.short(back)[0], format!("ack {session}"));
    assert_eq!(talk.task_result("sender", "T1")["result"], json!({ "error": "no plan" }));
}

#[test]
fn aip_088_what_no_device_takes_up_is_done_in_the_end() {
    let mut talk = Talk::limited(AipLimits { silence_s: 10_000, ..AipLimits::default() });
    let dev = talk.device("dev");
    let dispatch = |talk: &mut Talk, name: &str| {
        let body = json!({ "client_id": "dev", "request": "one", "task_name": name });
        text(&talk.dispatch("sender", &body).1, "session_id")
    };
    dispatch(&mut talk, "T1");
    talk.world.advance(59_000);
    assert_eq!(talk.task_result("sender", "T1")["status"], "pending");
    talk.world.advance(1_000);
    let given_up = json!({ "error": "the device did not take the task up" });
    assert_eq!(talk.task_result("sender", "T1")["result"], given_up);
    // The device may also say no; nobody else may.
    let other = talk.device("other");
    for (name, why, told) in [("T2", Some("no time"), json!({ "error": "no time" })), ("T3", None, given_up)]
    {
        let session = dispatch(&mut talk, name);
        talk.say(other, &crate::support::stop("device", &session, "failed", why));
        assert_eq!(talk.task_result("sender", name)["status"], "pending");
        talk.say(dev, &crate::support::stop("device", &session, "failed", why));
        assert_eq!(talk.task_result("sender", name)["result"], told);
    }
}

#[test]
fn an_earlier_result_is_not_told_while_a_later_task_of_that_name_is_to_come() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let send = |talk: &mut Talk, request: &str| {
        talk.world.advance(10);
        let body = json!({ "client_id": "dev", "request": request, "task_name": "T1" });
        assert_eq!(talk.dispatch("ann", &body).0, 200);
    };
    send(&mut talk, "raise");
    take_up(&mut talk, dev);
    assert_eq!(talk.task_result("ann", "T1")["status"], "done");
    send(&mut talk, "hang");
    assert_eq!(talk.task_result("ann", "T1")["status"], "pending", "it waits for the device");
    talk.short(dev);
    talk.say(dev, &json!({ "type": "task", "status": "continue", "task_name": "T1", "request": "hang" }));
    talk.world.advance(10);
    assert_eq!(talk.task_result("ann", "T1")["status"], "pending", "it runs");
    talk.world.cut(dev);
    assert_eq!(talk.task_result("ann", "T1")["status"], "done");
    // Whoever asks for it over a socket is in no other position.
    talk.device("dev");
    let run = |request: &str, session: &str| {
        json!({ "type": "task", "status": "continue", "client_type": "constellation", "target_id": "dev",
            "session_id": session, "task_name": "T1", "request": request })
    };
    talk.world.advance(10);
    talk.say(boss, &run("hang", "s1"));
    assert_eq!(talk.task_result("ann", "T1")["status"], "pending");
}

#[test]
fn a_dispatch_that_fails_leaves_the_result_before_it() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    assert_eq!(
        talk.dispatch("ann", &json!({ "client_id": "dev", "request": "raise", "task_name": "T1" })).0,
        200
    );
    take_up(&mut talk, dev);
    talk.world.advance(10);
    let request = endpoint("ann", "/api/dispatch", "");
    let (peer, _) = talk.world.knock(&talk.aip, &request).unwrap();
    talk.world.enqueue_cut(dev);
    let body = json!({ "client_id": "dev", "request": "x", "task_name": "T1" });
    talk.world.send_bytes(peer, body.to_string().as_bytes());
    assert_eq!(talk.task_result("ann", "T1")["result"], json!({ "error": "no plan" }));
}

#[test]
fn aip_089_unknown_names_are_pending() {
    let mut talk = Talk::new();
    for name in ["nothing", "..", "%2e%2e%2fetc", "a%20b", "%", "ü", ""] {
        assert_eq!(talk.task_result("ann", name), json!({ "status": "pending" }), "{name}");
    }
}

#[test]
fn aip_089_the_endpoints_answer_while_tasks_run_and_devices_are_slow() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.world.stall(dev);
    assert_eq!(talk.task_result("ann", "t1")["status"], "pending");
    assert_eq!(talk.online("ann"), ["dev", "boss"]);
    assert_eq!(talk.dispatch("ann", &json!({ "client_id": "dev", "request": "x" })).0, 200);
    talk.obey(dev, &command);
    assert_eq!(talk.task_result("ann", "t1")["status"], "done", "tasks of constellations too");
}

#[test]
fn results_are_kept_for_an_hour_and_the_latest_counts() {
    let mut talk = Talk::limited(AipLimits { silence_s: 10_000, ..AipLimits::default() });
    let (_, boss) = talk.pair();
    for request in ["first", "second"] {
        talk.say(boss, &task("dev", request, request));
    }
    assert_eq!(talk.task_result("ann", "t1")["result"][0]["result"], "second");
    talk.world.advance(3_599_000);
    assert_eq!(talk.task_result("ann", "t1")["status"], "done");
    talk.world.advance(1_000);
    assert_eq!(talk.task_result("ann", "t1")["status"], "pending");
}

#[test]
fn the_health_of_the_server_lists_who_is_online_in_order() {
    let mut talk = Talk::new();
    let request = endpoint("ann", "/api/health", "");
    let (head, body) = talk.world.exchange(&talk.aip, &request, b"").unwrap();
    assert_eq!((head.status, body.as_str()), (200, r#"{"status":"healthy","online_clients":[]}"#));
    assert_eq!(head.headers, [("content-type", "application/json".to_owned())]);
    talk.device("zeta");
    talk.device("alpha");
    let boss = talk.boss("boss", "zeta");
    assert_eq!(talk.online("ann"), ["zeta", "alpha", "boss"]);
    talk.world.cut(boss);
    let (_, body) = talk.http("ann", "/api/health", "", &Value::Null);
    assert_eq!(body, json!({ "status": "healthy", "online_clients": ["zeta", "alpha"] }));
    let (_, body) = talk.http("ann", "/api/clients", "", &Value::Null);
    assert_eq!(body, json!({ "online_clients": ["zeta", "alpha"] }));
}

#[test]
fn a_server_that_leaves_says_so_over_http() {
    let mut talk = Talk::new();
    talk.world.drain(1_000);
    let (status, _) = talk.http("ann", "/api/health", "", &Value::Null);
    assert_eq!(status, 503);
    assert_eq!(talk.aip.max_message(), 8 << 20);
}

#[test]
fn a_device_that_goes_while_it_is_dispatched_to_is_not_online() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let request = endpoint("ann", "/api/dispatch", "");
    let (peer, _) = talk.world.knock(&talk.aip, &request).unwrap();
    talk.world.enqueue_cut(dev);
    talk.world.send_bytes(peer, json!({ "client_id": "dev", "request": "x" }).to_string().as_bytes());
    let received = format!("{:?}", talk.world.take(peer));
    assert!(received.contains("status: 404") && received.contains("Client not online"), "{received}");
}

#[test]
fn dispatches_that_wait_for_a_device_are_bounded() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for n in 0..65 {
        let body = json!({ "client_id": "dev", "request": "hang", "task_name": format!("T{n}") });
        assert_eq!(talk.dispatch("ann", &body).0, 200);
    }
    let told = talk.heard(dev);
    for (n, expected) in [(0, false), (1, true), (64, true)] {
        let up =
            json!({ "type": "task", "status": "continue", "task_name": format!("T{n}"), "request": "hang" });
        talk.say(dev, &up);
        let taken_up = talk.one(dev)["session_id"] == told[n]["session_id"];
        assert_eq!(taken_up, expected, "{n}: the oldest is forgotten");
    }
}
