//! `status.get` and the handshake (§4.1, §10): AC-002, AC-012 to AC-016, AC-079.

use serde_json::{Value, json};
use switchboard_testkit::{Script, Step};

use crate::support::{Talk, events, gist, hang, of_type, short, start, text};

fn is_told(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::String(_) | Value::Number(_) => true,
        Value::Array(items) => items.iter().all(Value::is_string),
        Value::Null | Value::Object(_) => false,
    }
}

#[test]
fn ac_002_every_field_of_the_status_is_there() {
    let mut talk = Talk::new(Script::new());
    let status = talk.status(talk.peer);
    assert_eq!(status["ok"], true);
    assert_eq!(status["providers"], json!(["openai"]));
    assert_eq!(status["provider_auth"], json!(["openai (api key)", "demo (agent)", "echo (agent)"]));
    assert_eq!(status["model"], "demo");
    assert_eq!(status["protocol_version"], "1");
    assert_eq!(status["service"], "http://localhost:6767");
    for key in ["tasks_total", "tasks_running", "rpc_queue_length"] {
        assert_eq!(status[key], 0, "{key}");
    }
}

#[test]
fn ac_012_the_answer_has_the_id_of_the_question() {
    let mut talk = Talk::new(Script::new());
    talk.say(talk.peer, &json!({"id": "rpc_a1b2c3d4", "type": "status.get"}));
    let answer = talk.one();
    assert_eq!((&answer["id"], &answer["type"]), (&"rpc_a1b2c3d4".into(), &"status.result".into()));
}

#[test]
fn ac_013_version_and_capabilities_are_written_as_peers_compare_them() {
    let mut talk = Talk::new(Script::new());
    let status = talk.status(talk.peer);
    assert_eq!(status["protocol_version"], json!("1"));
    let capabilities = status["capabilities"].as_str().unwrap();
    let words: Vec<&str> = capabilities.split(", ").collect();
    assert!(words.is_sorted(), "{capabilities}");
    for word in ["error.structured", "stream.sse", "workspace.path"] {
        assert!(words.contains(&word), "{capabilities}");
    }
    assert!(words.iter().all(|word| !word.contains([' ', ','])), "{capabilities}");
}

#[test]
fn ac_095_the_agents_that_can_be_asked_are_named() {
    let mut talk = Talk::new(hang());
    talk.world.issue(
        "narrow",
        switchboard_core::Principal {
            scopes: switchboard_core::Scopes::parse("connect invoke agent:other"),
            ..switchboard_core::Principal::new("ann")
        },
    );
    let narrow = talk.connect_as("narrow");
    assert_eq!(talk.status(narrow)["provider_auth"], json!(["openai (api key)"]), "none is reached");
    assert_eq!(
        talk.status(talk.peer)["provider_auth"],
        json!(["openai (api key)", "demo (agent)", "echo (agent)"])
    );
}

#[test]
fn ac_014_nothing_in_the_status_makes_a_reader_that_checks_refuse_it() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_1", "hang");
    for payload in [json!({}), json!({"protocol_version": "1", "capabilities": "task.resume"})] {
        talk.say(talk.peer, &json!({"id": "rpc_s", "type": "status.get", "payload": payload}));
        let heard = talk.here();
        let status = heard.last().unwrap()["status"].clone();
        for (key, value) in status.as_object().unwrap() {
            assert!(is_told(value), "{key}: {value}");
        }
        let known = ["anthropic", "google", "openai", "vercel"];
        for provider in status["providers"].as_array().unwrap() {
            assert!(known.contains(&provider.as_str().unwrap()));
        }
    }
}

#[test]
fn ac_015_any_payload_of_status_get_is_taken() {
    let mut talk = Talk::new(Script::new());
    for payload in [
        json!(null),
        json!(5),
        json!("x"),
        json!([1]),
        json!({"x": {"y": 1}}),
        json!({"protocol_version": 9, "capabilities": ["task.resume"]}),
        json!({"capabilities": null}),
    ] {
        talk.say(talk.peer, &json!({"id": "rpc_s", "type": "status.get", "payload": payload}));
        let answer = talk.one();
        assert_eq!(answer["type"], "status.result", "{payload}");
        assert!(answer["status"].get("capabilities_agreed").is_none(), "no offer was made: {payload}");
    }
}

#[test]
fn ac_016_questions_are_answered_while_a_chat_runs() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_1", "hang");
    let heard = talk.here();
    let task = heard[0]["taskId"].as_str().unwrap().to_owned();
    let status = talk.status(talk.peer);
    assert_eq!((&status["tasks_total"], &status["tasks_running"]), (&1.into(), &1.into()));
    assert_eq!(talk.state(talk.peer, &task), "running");
}

#[test]
fn ac_079_a_version_that_is_not_spoken_is_refused_and_so_are_its_chats() {
    let mut talk = Talk::new(Script::new());
    let offer = |version: &str| json!({"id": "rpc_v1", "type": "status.get", "payload": {"protocol_version": version}});
    talk.say(talk.peer, &offer("9"));
    let why = r#"Unsupported protocol version "9"; supported: 1"#;
    assert_eq!(talk.one(), json!({"id": "rpc_v1", "type": "error", "error": why}));
    talk.start("rpc_1", "hi");
    assert_eq!(talk.one(), json!({"id": "rpc_1", "type": "error", "error": why}));
    // A question without an offer changes nothing.
    assert_eq!(talk.status(talk.peer)["ok"], true);
    talk.start("rpc_1", "hi");
    assert_eq!(short(&talk.here()), ["1 error refused"]);
    // Nor is anything attached.
    talk.say(
        talk.peer,
        &json!({"id": "rpc_c", "type": "status.get", "payload": {"capabilities": "task.resume"}}),
    );
    talk.here();
    talk.say(talk.peer, &crate::support::attach("rpc_a", None, Some("sess_x"), 0));
    assert_eq!(talk.one()["error"], why);
    talk.say(talk.peer, &offer("1"));
    let status = talk.one()["status"].clone();
    assert_eq!(status["protocol_versions"], json!(["1"]));
    assert_eq!(status["capabilities_agreed"], "");
    talk.start("rpc_1", "hi");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "hi""#);
}

#[test]
fn an_offer_is_answered_with_what_both_have_in_order() {
    let mut talk = Talk::new(Script::new());
    let agreed = talk.offer(talk.peer, "workspace.path,time.travel , task.resume,,error.structured");
    assert_eq!(agreed, "error.structured, task.resume, workspace.path");
    // The last offer counts.
    assert_eq!(talk.offer(talk.peer, "stream.sse"), "stream.sse");
    talk.say(talk.peer, &crate::support::attach("rpc_a", None, Some("sess_x"), 0));
    assert_eq!(talk.one()["error"], "Invalid RPC message");
}

fn lists(talk: &mut Talk) -> Vec<String> {
    talk.start("rpc_l", "plan");
    let heard = talk.here();
    let events = events(&heard, "rpc_l");
    let lists = events.iter().filter(|event| event.get("groupId").is_some());
    lists.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn ac_029_lists_are_whole_snapshots_under_both_names_unless_one_is_offered() {
    let plan = |states: [&str; 2]| -> Step {
        let items = json!([
            {"id": "1", "label": "Read", "state": states[0]},
            {"id": "2", "label": "Write", "state": states[1]},
        ]);
        serde_json::from_value(json!({"checklist": {"group": "g1", "title": "Plan", "items": items}}))
            .unwrap()
    };
    let script =
        Script::new().on("plan", vec![plan(["pending", "active"]), plan(["done", "failed"]), text("ok")]);
    let mut talk = Talk::new(script);
    talk.start("rpc_0", "plan");
    let heard = talk.here();
    let told: Vec<Value> =
        events(&heard, "rpc_0").into_iter().filter(|event| event.get("groupId").is_some()).collect();
    let snapshot = |kind: &str, states: [&str; 2]| {
        json!({"type": kind, "groupId": "g1", "groupTitle": "Plan", "items": [
            {"id": "1", "label": "Read", "status": states[0], "order": 0},
            {"id": "2", "label": "Write", "status": states[1], "order": 1},
        ]})
    };
    let (before, after) = (["pending", "in_progress"], ["done", "failed"]);
    assert_eq!(
        told,
        [
            snapshot("checklist", before),
            snapshot("tasklist", before),
            snapshot("checklist", after),
            snapshot("tasklist", after),
        ]
    );
    for (offer, names) in [
        ("event.checklist", vec!["checklist"; 2]),
        ("event.tasklist", vec!["tasklist"; 2]),
        ("event.checklist, event.tasklist", vec!["checklist", "tasklist", "checklist", "tasklist"]),
        ("stream.sse", vec!["checklist", "tasklist", "checklist", "tasklist"]),
    ] {
        talk.offer(talk.peer, offer);
        assert_eq!(lists(&mut talk), names, "{offer}");
    }
}

#[test]
fn lists_without_names_get_some_so_that_readers_take_them() {
    let items = json!([
        {"id": "", "label": "First", "state": "pending"},
        {"id": "b", "label": "", "state": "pending"},
        {"id": "", "label": "", "state": "pending"},
    ]);
    let list = json!({"checklist": {"group": "", "title": "", "items": items}});
    let script = Script::new().on("plan", vec![serde_json::from_value(list).unwrap()]);
    let mut talk = Talk::new(script);
    talk.start("rpc_1", "plan");
    let heard = talk.here();
    let list = &of_type(&events(&heard, "rpc_1"), "checklist")[0];
    assert_eq!((&list["groupId"], &list["groupTitle"]), (&"plan".into(), &"Plan".into()));
    let items: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| (&item["id"], &item["label"])).collect();
    assert_eq!(items, [(&json!("0"), &json!("First")), (&json!("b"), &json!("b"))]);
}

#[test]
fn offers_count_for_chats_that_start_after_them() {
    let mut talk = Talk::new(hang());
    talk.say(talk.peer, &start("rpc_1", "soon"));
    talk.offer(talk.peer, "task.resume");
    talk.world.advance(2000);
    let heard = talk.here();
    assert!(heard.iter().all(|message| message.get("position").is_none()), "{heard:#?}");
}
