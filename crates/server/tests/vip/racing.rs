//! Events that cross each other on the way: 10.4, R1 to R5.

use serde_json::{Value, json};

use crate::client::{Stage, tree};
use crate::device::PATIENCE;

#[tokio::test]
async fn vip_037_a_barge_in_that_crossed_an_invocation_is_refused() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, _scene, called, invoke) = stage.acting("help.open", json!({})).await;
    client.barge_in().await;
    let error = client.error("PROTO_INVALID_TRANSITION").await;
    assert_eq!(error["data"]["details"]["state"], "invoke_action");
    let interrupted = json!({ "error": { "code": "ACT_USER_INTERRUPTED", "message": "the user spoke" } });
    client.result(&invoke, &interrupted).await;
    client.changed("ai_thinking").await;
    assert_eq!(called.end().await, Err("ACT_USER_INTERRUPTED".to_owned()));
    client.barge_in().await;
    client.changed("user_speaking").await;
}

#[tokio::test]
async fn vip_040_a_tree_that_crossed_the_end_of_a_turn_is_deferred() {
    let mut stage = Stage::start(&[]).await;
    let mut client = stage.idle().await;
    let before = client.state_seq;
    client.say("think").await;
    let scene = stage.scenes.next().await;
    let now = std::mem::replace(&mut client.state_seq, before);
    client.send("state.update", tree(2)).await;
    client.state_seq = now;
    let ack = client.expect("state.ack").await;
    assert_eq!((&ack["data"]["applied"], &ack["data"]["context_version"]), (&json!("deferred"), &json!(2)));
    // With the state in force it would have been refused.
    client.send("state.update", tree(3)).await;
    client.error("CTX_FORBIDDEN_STATE").await;
    // It is in force once the agent acts.
    let called = scene.call("help.open", json!({}), PATIENCE);
    let invoke = client.until("action.invoke").await;
    client.changed("invoke_action").await;
    client.result(&invoke, &Value::Null).await;
    client.changed("ai_thinking").await;
    called.end().await.unwrap();
    scene.answer("Done.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
    client.send("state.update", tree(2)).await;
    let refused = client.next().await;
    assert_eq!(refused["type"], "error.recoverable", "version 2 was applied before: {refused}");
}

#[tokio::test]
async fn a_result_and_a_barge_in_at_the_same_time() {
    let mut stage = Stage::start(&[]).await;
    for _ in 0..5 {
        let (mut client, scene, called, invoke) = stage.acting("help.open", json!({})).await;
        client.result(&invoke, &Value::Null).await;
        let turn = client.barge_in().await;
        client.changed("ai_thinking").await;
        client.changed("user_speaking").await;
        scene.stopped().await;
        drop(called);
        client.barrier().await;
        client.conclude(&turn, "after").await;
        let scene = stage.scenes.next().await;
        assert_eq!(scene.request, "after");
    }
}

#[tokio::test]
async fn a_hang_up_wins_over_everything() {
    let mut stage = Stage::start(&[]).await;
    for action in [false, true] {
        let (mut client, scene) = stage.asked("talk").await;
        if action {
            let _called = scene.call("help.open", json!({}), PATIENCE);
            client.until("action.invoke").await;
        } else {
            scene.say("Some words. ").await;
            client.speaking().await;
        }
        client.send("session.close", json!({ "reason": "user_hangup" })).await;
        let terminated = client.until("session.terminated").await;
        assert_eq!(terminated["data"]["reason"], "user_hangup");
        scene.stopped().await;
    }
}

#[tokio::test]
async fn barge_in_after_barge_in_leaves_one_turn() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("talk").await;
    let mut last = scene;
    for number in 0..10 {
        let turn = client.barge_in().await;
        client.until("state.changed").await;
        last.stopped().await;
        client.barrier().await;
        let text = format!("number {number}");
        client.conclude(&turn, &text).await;
        last = stage.scenes.next().await;
        assert_eq!(last.request, text);
        if number % 2 == 0 {
            last.say("Well, ").await;
            client.speaking().await;
        }
    }
}
