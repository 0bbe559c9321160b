//! Ends of transports and sessions: VIP-018, 072 to 075, 078.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Stage, ask, tree};
use crate::support::wire::Over;

#[tokio::test]
async fn vip_018_a_transport_without_client_connect_is_closed() {
    let stage = Stage::start(&["vip.limits.connect_ms=500"]).await;
    let mut client = Client::create(stage.address(), &Value::Null).await;
    assert_eq!(client.over().await, (Over::Closed(4408), json!("PROTO_HANDSHAKE_TIMEOUT")));
}

#[tokio::test]
async fn vip_018_a_transport_without_a_tree_is_closed() {
    let stage = Stage::start(&["vip.limits.context_ms=500"]).await;
    let mut client = Client::create(stage.address(), &Value::Null).await;
    client.connect(&Value::Null).await;
    assert_eq!(client.over().await, (Over::Closed(4408), json!("SES_CONTEXT_TIMEOUT")));
}

#[tokio::test]
async fn vip_072_the_window_closes() {
    let stage = Stage::start(&["vip.limits.resume_s=1"]).await;
    let mut client = stage.idle().await;
    client.come_back(tree(2)).await;
    client.lose().await;
    ends(&stage, &client.session).await;
}

#[tokio::test]
async fn vip_072_the_window_closes_behind_a_transport_that_came_to_nothing() {
    let stage = Stage::start(&["vip.limits.resume_s=1"]).await;
    let mut client = stage.idle().await;
    let newer = Client::dial(stage.address(), &client.session).await.expect("an upgrade");
    assert_eq!(client.over().await, (Over::Closed(4409), json!("SES_REPLACED")));
    drop(newer);
    ends(&stage, &client.session).await;
}

/// Waits for a session to be over.
async fn ends(stage: &Stage, session: &Value) {
    let path = format!("GET /v1/vip/sessions/{}", session["session_id"].as_str().unwrap());
    for _ in 0..300 {
        let (status, answer) =
            ask(stage.address(), &path, session["session_token"].as_str(), &Value::Null).await;
        if status == 410 {
            assert_eq!(answer["error"]["code"], "SES_TERMINATED");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the session is still there");
}

#[tokio::test]
async fn vip_072_a_lost_transport_stops_the_answer() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("talk").await;
    scene.say("This is heard. ").await;
    let response = client.speaking().await;
    client.come_back(tree(2)).await;
    scene.stopped().await;
    let done: Vec<_> = client.log.iter().filter(|event| event["type"] == "response.done").collect();
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!(
        (&done[0]["data"]["response_id"], &done[0]["data"]["status"]),
        (&json!(response), &json!("incomplete"))
    );
    client.say("go on").await;
    stage.scenes.next().await.answer("Something new.").await;
    let next = client.speaking().await;
    assert_eq!(client.finished(&next).await, "Something new.");
}

#[tokio::test]
async fn vip_073_the_resume_token_rotates() {
    let stage = Stage::start(&[]).await;
    let mut client = stage.idle().await;
    let first = client.resume.clone();
    client.come_back(tree(2)).await;
    assert_ne!(client.resume, first);
}

#[tokio::test]
async fn vip_078_hanging_up_stops_the_agent() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("think").await;
    client.send("session.close", json!({ "reason": "user_hangup" })).await;
    client.until("session.terminated").await;
    assert_eq!(client.over().await.0, Over::Closed(1000));
    scene.stopped().await;
    let path = format!("GET /v1/vip/sessions/{}/history", client.session["session_id"].as_str().unwrap());
    let (status, _) =
        ask(stage.address(), &path, client.session["session_token"].as_str(), &Value::Null).await;
    assert_eq!(status, 410);
}

#[tokio::test]
async fn vip_078_hanging_up_over_http_ends_the_transport() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene, called, _) = stage.acting("help.open", json!({})).await;
    let path = format!("DELETE /v1/vip/sessions/{}", client.session["session_id"].as_str().unwrap());
    let (status, _) =
        ask(stage.address(), &path, client.session["session_token"].as_str(), &Value::Null).await;
    assert_eq!(status, 204);
    client.until("session.terminated").await;
    assert_eq!(client.over().await.0, Over::Closed(1000));
    scene.stopped().await;
    drop(called);
}

#[tokio::test]
async fn an_action_survives_a_lost_transport_only_as_a_result() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, _scene, called, invoke) = stage.acting("help.open", json!({})).await;
    client.come_back(tree(2)).await;
    drop(called);
    client.barrier().await;
    let again = client
        .log
        .iter()
        .filter(|event| {
            event["type"] == "action.invoke"
                && event["data"]["invocation_id"] != invoke["data"]["invocation_id"]
        })
        .count();
    assert_eq!(again, 0);
}
