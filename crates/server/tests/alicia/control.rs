//! Stopping: AL-071 to AL-074.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::device::{ACK, Device, ERROR, SENTENCE, START, STATS, STOP, USER, bytes, places};
use crate::puppet::Scene;
use crate::stage::Stage;

/// A device to which an answer is being streamed: one sentence was sent, one is whole, one is not.
async fn streaming(stage: &mut Stage) -> (Device, String, Scene, String) {
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Tw").await;
    let [_, start, _] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE)]).await;
    let answer = start.assert_start("am_1");
    (device, conversation, scene, answer)
}

/// Entries that go with a message.
fn meta(stage: &Stage, message: &str) -> Vec<Value> {
    stage.rows("SELECT key, value FROM alicia_meta WHERE ref = ? ORDER BY key", message)
}

#[tokio::test]
async fn al_071_a_stop_is_acknowledged_whatever_the_agent_does() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, answer) = streaming(&mut stage).await;
    scene.babble("more ").await;
    let begun = Instant::now();
    let stanza = device.send(STOP, json!({ "targetId": answer, "reason": "user_clicked_stop" })).await;
    let [ack, last] = device.expect([(0, ACK), (-3, SENTENCE)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!(last.body["isFinal"], json!(true));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn al_071_a_stop_without_anything_to_stop_is_acknowledged() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let stanza = device.send(STOP, json!({})).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza = device.send(STOP, json!({ "targetId": answer })).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_071_another_device_may_stop_an_answer() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation, scene, answer) = streaming(&mut stage).await;
    let mut other = stage.follow(&conversation).await;
    let stanza = other.send(STOP, json!({ "targetId": answer })).await;
    let [ack, last] = other.expect([(0, ACK), (-3, SENTENCE)]).await;
    ack.assert_ack(stanza, true);
    scene.stopped().await;
    let [seen] = device.expect([(-3, SENTENCE)]).await;
    assert_eq!(bytes(&[seen]), bytes(&[last]));
}

#[tokio::test]
async fn al_072_after_a_stop_only_the_final_sentence_follows() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, answer) = streaming(&mut stage).await;
    // The agent does not listen: it goes on speaking.
    scene.babble("Three. Four. ").await;
    device.expect([(-3, SENTENCE), (-4, SENTENCE)]).await;
    let stanza = device.send(STOP, json!({ "targetId": answer })).await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let stopped = got.iter().position(|envelope| envelope.kind == ACK).expect("an acknowledgement");
    got[stopped].assert_ack(stanza, true);
    let [last, _] = &got[stopped + 1..] else { panic!("{got:#?}") };
    assert_eq!((last.kind, &last.body["isFinal"]), (SENTENCE, &json!(true)));
    let finals = got.iter().filter(|envelope| envelope.body["isFinal"] == true).count();
    assert_eq!(finals, 1);
    device.quiet().await;
    stage.turn(&mut device, last.stanza - 1, "am_2", "Yes.").await;
    let rows = stage.messages(&conversation);
    assert_eq!((&rows[1][0], &rows[1][4]), (&json!(answer), &json!("completed")), "{rows:?}");
}

#[tokio::test]
async fn al_072_what_was_said_stays_and_the_reason_is_kept() {
    for (body, reason) in [(json!({}), "stopped"), (json!({ "reason": "user_requested" }), "user_requested")]
    {
        let mut stage = Stage::stored(&[]).await;
        let (mut device, conversation, scene, answer) = streaming(&mut stage).await;
        device.send(STOP, body).await;
        let got = device.until(|envelope| envelope.kind == STATS).await;
        scene.stopped().await;
        assert_eq!(places(&got), [(0, ACK), (-3, SENTENCE), (0, STATS)]);
        let rows = stage.messages(&conversation);
        assert_eq!((&rows[1][0], &rows[1][4]), (&json!(answer), &json!("completed")), "{rows:?}");
        assert!(rows[1][3].as_str().unwrap().starts_with("One."), "{rows:?}");
        assert_eq!(meta(&stage, &answer), [json!(["truncated", reason])]);
        assert_eq!(stage.tip(&conversation), json!(answer));
    }
}

#[tokio::test]
async fn al_072_an_answer_of_which_nothing_was_said_has_failed() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let _scene = stage.scenes.next().await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let answer = start.assert_start("am_1");
    device.send(STOP, json!({})).await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(places(&got), [(0, ACK), (-2, SENTENCE), (0, STATS)]);
    got[1].assert_sentence(&answer, 1, "", true);
    assert_eq!(stage.messages(&conversation)[1], json!([answer, "am_1", "assistant", "", "failed"]));
}

#[tokio::test]
async fn al_073_without_a_type_generation_is_stopped() {
    for body in [
        json!({}),
        json!({ "stopType": null }),
        json!({ "stopType": "generation" }),
        json!({ "stopType": "all" }),
    ] {
        let mut stage = Stage::start(&[]).await;
        let (mut device, _, scene, _) = streaming(&mut stage).await;
        let stanza = device.send(STOP, body).await;
        let [ack, last] = device.expect([(0, ACK), (-3, SENTENCE)]).await;
        ack.assert_ack(stanza, true);
        assert_eq!(last.body["isFinal"], json!(true));
        scene.stopped().await;
    }
}

#[tokio::test]
async fn al_073_to_stop_speech_leaves_the_text() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, answer) = streaming(&mut stage).await;
    let stanza = device.send(STOP, json!({ "stopType": "speech" })).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    scene.answer("o. Three.").await;
    let [two, three, _] = device.expect([(-3, SENTENCE), (-4, SENTENCE), (0, STATS)]).await;
    two.assert_sentence(&answer, 2, "Two.", false);
    three.assert_sentence(&answer, 3, "Three.", true);
}

#[tokio::test]
async fn al_073_an_unknown_type_is_malformed_and_stops_nothing() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, answer) = streaming(&mut stage).await;
    for kind in [json!("everything"), json!(""), json!(1)] {
        let stanza = device.send(STOP, json!({ "stopType": kind })).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(101, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    scene.answer("o.").await;
    let [two, _] = device.expect([(-3, SENTENCE), (0, STATS)]).await;
    two.assert_sentence(&answer, 2, "Two.", true);
}

#[tokio::test]
async fn al_074_a_stop_of_what_is_unknown_is_refused_without_an_error() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation, scene, answer) = streaming(&mut stage).await;
    let mut elsewhere = stage.ann().await;
    elsewhere.create().await;
    let foreign = stage.turn_elsewhere(&mut elsewhere).await;
    for target in ["am_of_nobody", foreign.as_str()] {
        let stanza = device.send(STOP, json!({ "targetId": target })).await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    scene.answer("o.").await;
    let [two, _] = device.expect([(-3, SENTENCE), (0, STATS)]).await;
    two.assert_sentence(&answer, 2, "Two.", true);
    assert_eq!(device.conversation, conversation);
}

#[tokio::test]
async fn al_074_a_stop_is_for_its_own_conversation() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, _) = streaming(&mut stage).await;
    let busy = device.conversation.clone();
    device.create().await;
    let stanza = device.send(STOP, json!({})).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    scene.answer("o.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert!(got.iter().all(|envelope| envelope.conversation == busy && envelope.kind != USER));
    assert_eq!(places(&got), [(-3, SENTENCE), (0, STATS)]);
}
