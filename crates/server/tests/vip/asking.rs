//! Confirmations: VIP-055, 057, 058.

use serde_json::{Value, json};

use crate::client::Stage;
use crate::device::PATIENCE;

const CONFIRMED: &str = "cf-1";

fn confirmed() -> Value {
    json!({ "data": { "status": "confirmed", "confirmation_id": CONFIRMED, "channel": "ui" } })
}

#[tokio::test]
async fn vip_055_a_sensitive_action_runs_after_its_confirmation() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("cancel it").await;
    let called = scene.call("order.cancel", json!({ "order": "A-17" }), PATIENCE);
    let confirm = client.expect("action.invoke").await;
    client.changed("invoke_action").await;
    let asked = &confirm["data"]["parameters"];
    assert_eq!(
        (&confirm["data"]["action_id"], &confirm["data"]["type"]),
        (&json!("system.confirm"), &json!("confirmation"))
    );
    assert_eq!(asked["reference_parameters"], json!({ "element_id": "cancel", "order": "A-17" }));
    client.result(&confirm, &confirmed()).await;
    client.changed("ai_thinking").await;
    let invoke = client.expect("action.invoke").await;
    client.changed("invoke_action").await;
    assert_eq!(invoke["data"]["invocation_id"], asked["reference_invocation_id"]);
    assert_eq!(invoke["data"]["confirmation_id"], CONFIRMED);
    assert_eq!(invoke["data"]["parameters"], asked["reference_parameters"]);
    client.result(&invoke, &json!({ "data": { "cancelled": true } })).await;
    client.changed("ai_thinking").await;
    assert_eq!(called.end().await.unwrap()["data"]["cancelled"], true);
    scene.answer("Done.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn vip_058_a_rejected_action_is_dropped() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("cancel it").await;
    for answer in [
        json!({ "data": { "status": "rejected", "channel": "ui" } }),
        json!({ "data": { "status": "confirmed", "channel": "ui" } }),
        json!({ "data": { "status": "perhaps", "confirmation_id": "cf-x" } }),
        json!({ "error": { "code": "ACT_EXECUTION_FAILED", "message": "no dialog" } }),
        Value::Null,
    ] {
        let called = scene.call("order.cancel", json!({}), PATIENCE);
        let confirm = client.expect("action.invoke").await;
        assert_eq!(confirm["data"]["type"], "confirmation");
        client.changed("invoke_action").await;
        client.result(&confirm, &answer).await;
        client.changed("ai_thinking").await;
        assert!(called.end().await.is_err(), "{answer}");
        assert!(client.barrier().await.is_empty(), "{answer}");
    }
}

#[tokio::test]
async fn vip_057_a_confirmation_is_for_one_call() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("cancel it").await;
    for first in [true, false] {
        let called = scene.call("order.cancel", json!({ "order": "A-17" }), PATIENCE);
        let confirm = client.expect("action.invoke").await;
        assert_eq!(confirm["data"]["type"], "confirmation", "{confirm}");
        client.changed("invoke_action").await;
        client.result(&confirm, &confirmed()).await;
        client.changed("ai_thinking").await;
        if !first {
            // The same id again confirms nothing.
            assert!(called.end().await.is_err());
            assert!(client.barrier().await.is_empty());
            break;
        }
        let invoke = client.expect("action.invoke").await;
        client.changed("invoke_action").await;
        client.result(&invoke, &Value::Null).await;
        client.changed("ai_thinking").await;
        called.end().await.unwrap();
    }
}

#[tokio::test]
async fn vip_055_an_agent_cannot_confirm_for_the_user() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("cancel it").await;
    let args = json!({ "confirmation_id": "cf-of-the-model", "confirmed": true });
    let called = scene.call("order.cancel", args, PATIENCE);
    let confirm = client.expect("action.invoke").await;
    assert_eq!(confirm["data"]["type"], "confirmation", "{confirm}");
    client.changed("invoke_action").await;
    client.result(&confirm, &json!({ "data": { "status": "rejected" } })).await;
    client.changed("ai_thinking").await;
    assert!(called.end().await.is_err());
}

#[tokio::test]
async fn vip_055_a_tree_that_changes_meanwhile_voids_the_confirmation() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("cancel it").await;
    let called = scene.call("order.cancel", json!({}), PATIENCE);
    let confirm = client.expect("action.invoke").await;
    client.changed("invoke_action").await;
    let mut without = crate::client::tree(2);
    without["actions"].as_object_mut().unwrap().remove("order.cancel");
    without["visibility"] = json!(["cart.add"]);
    let mut answer = confirmed();
    answer["context"] = without;
    client.result(&confirm, &answer).await;
    client.changed("ai_thinking").await;
    assert!(called.end().await.is_err());
    assert!(client.barrier().await.iter().all(|event| event["type"] != "action.invoke"));
}
