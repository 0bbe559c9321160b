//! What an agent does while the client waits: VIP-022, 034 to 036, 064, 070.

use serde_json::json;
use switchboard_core::model::FailureKind;

use crate::client::{Client, Stage, is_valid, tree};

#[test]
fn the_limits_of_these_tests_are_settings() {
    assert!(is_valid(&["vip.limits.thinking_ms=500", "vip.limits.connect_ms=500", "vip.limits.resume_s=1"]));
}

#[tokio::test]
async fn vip_022_every_transition_is_signalled_while_an_agent_streams() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("tell me").await;
    scene.say("One sentence. ").await;
    let response = client.speaking().await;
    scene.say("Another one. ").await;
    scene.say("And the last.").await;
    scene.finish().await;
    assert_eq!(client.finished(&response).await.trim(), "One sentence. Another one. And the last.");
    let seqs: Vec<_> = client
        .log
        .iter()
        .filter(|event| event["type"] == "state.changed")
        .map(|event| &event["data"]["state_seq"])
        .collect();
    assert_eq!(seqs, [&json!(1), &json!(2), &json!(3), &json!(4), &json!(5)]);
}

#[tokio::test]
async fn vip_036_a_barge_in_while_thinking_cancels_the_inference() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("think long").await;
    let turn = client.barge_in().await;
    client.changed("user_speaking").await;
    scene.stopped().await;
    for event in client.barrier().await {
        assert_ne!(event["type"], "response.audio", "{event}");
    }
    client.conclude(&turn, "something else").await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "something else");
    scene.answer("Here.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn vip_034_an_interrupted_answer_is_never_finished() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("talk").await;
    scene.say("This goes on and on. ").await;
    let response = client.speaking().await;
    // An agent that does not listen.
    scene.babble("And on. ").await;
    let turn = client.barge_in().await;
    loop {
        let event = client.next().await;
        if event["type"] == "state.changed" {
            assert_eq!(
                (&event["data"]["state"], &event["data"]["previous"]),
                (&json!("user_speaking"), &json!("ai_speaking"))
            );
            break;
        }
    }
    let mut kinds = Vec::new();
    for event in client.barrier().await {
        assert_eq!(event["data"]["response_id"], response.as_str(), "{event}");
        kinds.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["audio.interrupted", "response.done"]);
    client.conclude(&turn, "enough").await;
    stage.scenes.next().await.answer("Fine.").await;
    let next = client.speaking().await;
    assert_ne!(next, response);
    assert_eq!(client.finished(&next).await, "Fine.");
    let after = client.log.iter().position(|event| event["type"] == "response.done").unwrap();
    let late: Vec<_> = client.log[after + 1..]
        .iter()
        .filter(|event| event["data"]["response_id"] == response.as_str())
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

#[tokio::test]
async fn vip_035_the_history_keeps_what_was_spoken() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("talk").await;
    scene.say("This goes on and on. ").await;
    client.speaking().await;
    client.barge_in().await;
    let interrupted = client.until("audio.interrupted").await;
    client.barrier().await;
    let history = client.history().await;
    let answer = history.iter().find(|item| item["role"] == "assistant").expect("the answer");
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(answer["text"], interrupted["data"]["spoken_text"]);
}

#[tokio::test]
async fn vip_070_each_response_is_done_once_however_it_ends() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("fail").await;
    scene.say("So far. ").await;
    let response = client.speaking().await;
    scene.fail(FailureKind::ModelUnavailable, "away").await;
    let done = client.until("response.done").await;
    assert!(["failed", "incomplete"].contains(&done["data"]["status"].as_str().unwrap()), "{done}");
    client.send("audio.complete", json!({ "response_id": response, "played_ms": 0 })).await;
    client.until("state.changed").await;
    client.barrier().await;
    let count = client.log.iter().filter(|event| event["type"] == "response.done").count();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn vip_064_a_failure_while_thinking_leads_to_idle() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("fail").await;
    scene.fail(FailureKind::ModelUnavailable, "the model is away").await;
    let error = client.expect("error.recoverable").await;
    assert_eq!(
        (&error["data"]["code"], &error["data"]["category"]),
        (&json!("PROV_UNAVAILABLE"), &json!("provider"))
    );
    let changed = client.changed("idle").await;
    assert_eq!(
        (&changed["data"]["previous"], &changed["data"]["trigger"]),
        (&json!("ai_thinking"), &json!("error.recoverable"))
    );
    client.barrier().await;
    client.say("again").await;
    stage.scenes.next().await.answer("Now it works.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
}

#[tokio::test]
async fn vip_064_an_agent_that_hangs_is_given_up() {
    let mut stage = Stage::start(&["vip.limits.thinking_ms=2000"]).await;
    let (mut client, scene) = stage.asked("hang").await;
    client.error("PROV_TIMEOUT").await;
    client.changed("idle").await;
    scene.stopped().await;
    // Once something was said there is no such limit.
    client.barrier().await;
    client.say("slowly").await;
    let scene = stage.scenes.next().await;
    scene.say("Well. ").await;
    let response = client.speaking().await;
    tokio::time::sleep(std::time::Duration::from_millis(3000)).await;
    scene.say("Yes.").await;
    scene.finish().await;
    assert_eq!(client.finished(&response).await.trim(), "Well. Yes.");
}

#[tokio::test]
async fn an_agent_that_says_nothing_ends_the_turn() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("nothing").await;
    scene.finish().await;
    let changed = client.until("state.changed").await;
    assert_eq!(
        (&changed["data"]["state"], &changed["data"]["trigger"]),
        (&json!("idle"), &json!("response.none"))
    );
}

#[tokio::test]
async fn what_was_said_before_is_known() {
    let mut stage = Stage::start(&[]).await;
    let (mut client, scene) = stage.asked("first").await;
    scene.answer("The first answer.").await;
    let response = client.speaking().await;
    client.finished(&response).await;
    client.say("second").await;
    let scene = stage.scenes.next().await;
    assert!(scene.history.iter().any(|row| row == "first"), "{:?}", scene.history);
    assert!(scene.history.iter().any(|row| row == "The first answer."), "{:?}", scene.history);
}

#[tokio::test]
async fn a_cancelled_turn_asks_nobody() {
    let mut stage = Stage::start(&[]).await;
    let mut client = stage.idle().await;
    let turn = client.listen().await;
    client.send_in("input.text", json!({ "text": "never" }), Some(&turn)).await;
    client.send_in("input.cancel", json!({ "reason": "user" }), Some(&turn)).await;
    client.changed("idle").await;
    client.say("this").await;
    assert_eq!(stage.scenes.next().await.request, "this");
    stage.scenes.assert_none();
}

#[tokio::test]
async fn two_sessions_do_not_hear_each_other() {
    let mut stage = Stage::start(&[]).await;
    let (mut one, scene) = stage.asked("one").await;
    let mut two = Client::idle(stage.address(), tree(1)).await;
    scene.answer("For one.").await;
    let response = one.speaking().await;
    one.finished(&response).await;
    assert!(two.barrier().await.is_empty());
}
