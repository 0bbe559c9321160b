//! Actions of the application: VIP-047 to 049, 060 to 063.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Stage, tree};
use crate::device::PATIENCE;

#[tokio::test]
async fn vip_047_what_is_not_in_the_registry_is_not_asked_for() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("do it").await;
    for name in ["ghost", "system.confirm", "system.other"] {
        let end = scene.call(name, json!({}), PATIENCE).end().await;
        assert!(end.is_err(), "{name}: {end:?}");
    }
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
}

#[tokio::test]
async fn vip_048_what_is_hidden_or_disabled_is_not_asked_for() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("do it").await;
    for name in ["hidden.press", "off.press"] {
        let end = scene.call(name, json!({}), PATIENCE).end().await;
        assert!(end.is_err(), "{name}: {end:?}");
    }
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
}

#[tokio::test]
async fn vip_048_visibility_counts_when_the_call_is_made() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("help.open", json!({})).await;
    let mut dialog = tree(2);
    dialog["visibility"] = json!([]);
    client.result(&invoke, &json!({ "context": dialog })).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
    let end = scene.call("cart.add", json!({ "count": 1 }), PATIENCE).end().await;
    assert!(end.is_err(), "{end:?}");
    assert!(client.barrier().await.is_empty());
}

#[tokio::test]
async fn vip_049_targets_that_are_no_routes_are_not_asked_for() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("go").await;
    let end = scene.call("nav.go", json!({ "target": "admin" }), PATIENCE).end().await;
    assert_eq!(end, Err("ACT_TARGET_UNKNOWN".to_owned()));
    for wrong in [json!({}), json!({ "target": 7 })] {
        assert!(scene.call("nav.go", wrong.clone(), PATIENCE).end().await.is_err(), "{wrong}");
    }
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
    let called = scene.call("nav.go", json!({ "target": "settings" }), PATIENCE);
    let invoke = client.expect("action.invoke").await;
    assert_eq!(invoke["data"]["parameters"], json!({ "target": "settings" }));
    client.changed("invoke_action").await;
    client.result(&invoke, &json!({ "context": tree(2) })).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
}

#[tokio::test]
async fn parameters_that_break_the_schema_are_told_to_the_agent() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("do it").await;
    for wrong in [json!({}), json!({ "count": "1" }), json!({ "count": 1.5 }), json!([]), Value::Null] {
        let end = scene.call("cart.add", wrong.clone(), PATIENCE).end().await;
        assert_eq!(end, Err("ACT_INVALID_PARAMETERS".to_owned()), "{wrong}");
    }
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
}

#[tokio::test]
async fn vip_061_an_error_of_the_client_reaches_the_agent() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("help.open", json!({})).await;
    client.result(&invoke, &json!({ "error": { "code": "ACT_EXECUTION_FAILED", "message": "no" } })).await;
    let changed = client.changed("ai_thinking").await;
    assert_eq!(changed["data"]["trigger"], "action.result");
    assert_eq!(called.end().await, Err("ACT_EXECUTION_FAILED".to_owned()));
    scene.answer("It did not work.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn vip_060_a_result_that_does_not_come_is_a_timeout() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("quick.press", json!({})).await;
    assert_eq!(called.end().await, Err("ACT_TIMEOUT".to_owned()));
    let changed = client.until("state.changed").await;
    assert_eq!(changed["data"]["state"], "ai_thinking");
    client.barrier().await;
    let cancel = client.log.iter().find(|event| event["type"] == "action.cancel").expect("action.cancel");
    assert_eq!(
        (&cancel["data"]["invocation_id"], &cancel["data"]["reason"]),
        (&invoke["data"]["invocation_id"], &json!("timeout"))
    );
    let id = client.result(&invoke, &Value::Null).await;
    let late = client.error("ACT_LATE_RESULT").await;
    assert_eq!(late["data"]["ref_id"], id.as_str());
    scene.answer("Too slow.").await;
    let response = client.speaking().await;
    assert_eq!(client.finished(&response).await, "Too slow.");
}

#[tokio::test]
async fn vip_063_a_parallel_action_keeps_ai_speaking() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("music").await;
    scene.say("Here it comes. ").await;
    let response = client.speaking().await;
    let called = scene.call("music.play", json!({}), PATIENCE);
    let invoke = client.expect("action.invoke").await;
    assert_eq!(invoke["data"]["parallel"], true, "{invoke}");
    client.result(&invoke, &json!({ "data": { "playing": true } })).await;
    assert_eq!(called.end().await.unwrap()["data"]["playing"], true);
    assert!(client.barrier().await.iter().all(|event| event["type"] != "state.changed"));
    scene.say("Enjoy.").await;
    scene.finish().await;
    assert_eq!(client.finished(&response).await.trim(), "Here it comes. Enjoy.");
}

#[tokio::test]
async fn an_action_that_is_not_parallel_never_comes_in_the_middle_of_speech() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("help").await;
    scene.say("One moment. ").await;
    let response = client.speaking().await;
    // 10.2 has no way from ai_speaking to invoke_action.
    let end = scene.call("help.open", json!({}), PATIENCE).end().await;
    assert!(end.is_err(), "{end:?}");
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
    scene.finish().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn several_calls_are_made_one_after_another() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("both").await;
    let called = scene.call_all(&[("cart.add", json!({ "count": 1 })), ("help.open", json!({}))], PATIENCE);
    for action in ["cart.add", "help.open"] {
        let invoke = client.expect("action.invoke").await;
        assert_eq!(invoke["data"]["action_id"], action);
        client.changed("invoke_action").await;
        assert!(client.barrier().await.is_empty(), "two actions at once");
        client.result(&invoke, &json!({ "data": { "of": action } })).await;
        client.changed("ai_thinking").await;
    }
    let ends: Vec<_> =
        called.ends().await.into_iter().map(|end| end.unwrap()["data"]["of"].clone()).collect();
    assert_eq!(ends, ["cart.add", "help.open"]);
}

#[tokio::test]
async fn a_result_counts_once() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("help.open", json!({})).await;
    client.result(&invoke, &json!({ "data": { "number": 1 } })).await;
    client.result(&invoke, &json!({ "data": { "number": 2 } })).await;
    client.changed("ai_thinking").await;
    client.error("ACT_LATE_RESULT").await;
    assert_eq!(called.end().await.unwrap()["data"]["number"], 1);
    scene.answer("Once.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn the_agent_sees_the_tree_that_came_with_the_result() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("nav.go", json!({ "target": "settings" })).await;
    let mut settings = tree(2);
    settings["actions"]["lamp.on"] = json!({ "type": "button", "description": "Lamp", "element_id": "lamp" });
    settings["visibility"] = json!(["lamp.on"]);
    client.result(&invoke, &json!({ "context": settings })).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
    let called = scene.call("lamp.on", json!({}), PATIENCE);
    let invoke = client.expect("action.invoke").await;
    assert_eq!(
        (&invoke["data"]["action_id"], &invoke["data"]["context_version"]),
        (&json!("lamp.on"), &json!(2))
    );
    client.changed("invoke_action").await;
    client.result(&invoke, &Value::Null).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
}

#[tokio::test]
async fn an_agent_that_is_stopped_leaves_no_action_behind() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, invoke) = stage.acting("help.open", json!({})).await;
    let error = json!({ "code": "ACT_USER_INTERRUPTED", "message": "the user spoke" });
    client.result(&invoke, &json!({ "error": error })).await;
    let turn = client.barge_in().await;
    client.changed("ai_thinking").await;
    client.changed("user_speaking").await;
    scene.stopped().await;
    drop(called);
    client.barrier().await;
    client.conclude(&turn, "next").await;
    stage.scenes.next().await.answer("Next.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn the_limit_of_the_agent_does_not_outlast_that_of_the_action() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("do it").await;
    let called = scene.call("help.open", json!({}), Duration::from_millis(700));
    let invoke = client.expect("action.invoke").await;
    client.changed("invoke_action").await;
    assert!(called.end().await.is_err());
    client.until("state.changed").await;
    client.barrier().await;
    client.result(&invoke, &Value::Null).await;
    client.error("ACT_LATE_RESULT").await;
}
