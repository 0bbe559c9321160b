//! One conversation in two protocols at once: a client of the Agent Socket Protocol in the session that the
//! conversation is.

use serde_json::json;

use crate::device::{ACK, SENTENCE, START, STATS, STOP, USER};
use crate::stage::Stage;
use crate::support::wire::{INTERRUPT, INVOKE, Peer};
use crate::support::{ANN, BOB};

async fn peer(stage: &Stage) -> Peer {
    let features = ["flags", "events", "push", "resume", "ping", "watch"];
    Peer::with(stage.address, ANN, json!({ "features": features })).await
}

#[tokio::test]
async fn what_is_asked_elsewhere_is_told_and_answered_here_too() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "One, two.").await;
    let mut peer = peer(&stage).await;
    peer.send(INVOKE, 1, &json!({ "input": "from elsewhere", "session": conversation })).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "from elsewhere");
    assert_eq!(scene.history, ["am_1", "One, two."], "one history");
    scene.say("Three. F").await;
    scene.answer("our.").await;
    let (text, end) = peer.finish(1).await;
    assert_eq!((text.as_str(), end.outcome().as_str()), ("Three. Four.", "complete"));
    let [announced, start, third, fourth, _] =
        device.expect([(0, USER), (-3, START), (-4, SENTENCE), (-5, SENTENCE), (0, STATS)]).await;
    assert_eq!(announced.text("content"), "from elsewhere");
    assert_eq!(announced.body["previousId"], json!(first));
    assert_eq!(start.body["previousId"], json!(announced.id()));
    let answer = start.id().to_owned();
    third.assert_sentence(&answer, 1, "Three.", false);
    fourth.assert_sentence(&answer, 2, "Four.", true);
    let rows = stage.messages(&conversation);
    assert_eq!(rows[3], json!([answer, announced.id(), "assistant", "Three. Four.", "completed"]));
    // And the other way round: what follows here follows that.
    stage.turn(&mut device, -6, "am_2", "Yes.").await;
}

#[tokio::test]
async fn an_answer_can_be_watched_and_stopped_from_elsewhere() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut peer = peer(&stage).await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Tw").await;
    let [_, start, _] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE)]).await;
    let answer = start.assert_start("am_1");
    peer.send(INVOKE, 1, &json!({ "kind": "watch", "session": conversation })).await;
    let seen = peer.wait(|frame| frame.text().is_some()).await;
    assert_eq!(seen.text(), Some("One. Tw"));
    peer.send(INTERRUPT, 1, &json!({})).await;
    scene.stopped().await;
    let (_, end) = peer.finish(1).await;
    assert_eq!(end.outcome(), "interrupted");
    let [last, _] = device.expect([(-3, SENTENCE), (0, STATS)]).await;
    assert_eq!((&last.body["previousId"], &last.body["isFinal"]), (&json!(answer), &json!(true)));
    device.quiet().await;
}

#[tokio::test]
async fn an_answer_to_somebody_elsewhere_can_be_stopped_here() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut peer = peer(&stage).await;
    peer.send(INVOKE, 1, &json!({ "input": "go on", "session": conversation })).await;
    let scene = stage.scenes.next().await;
    scene.say("One. Tw").await;
    device.expect([(0, USER), (-1, START), (-2, SENTENCE)]).await;
    let stanza = device.send(STOP, json!({})).await;
    let [ack, last, _] = device.expect([(0, ACK), (-3, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!(last.body["isFinal"], json!(true));
    let (text, end) = peer.finish(1).await;
    assert_eq!((text.as_str(), end.outcome().as_str()), ("One. Tw", "interrupted"));
}

#[tokio::test]
async fn a_message_here_supersedes_an_answer_to_somebody_elsewhere() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut peer = peer(&stage).await;
    peer.send(INVOKE, 1, &json!({ "input": "go on", "session": conversation })).await;
    let old = stage.scenes.next().await;
    device.expect([(0, USER), (-1, START)]).await;
    device.say("am_1", "enough").await;
    old.stopped().await;
    let (_, end) = peer.finish(1).await;
    assert_eq!(end.outcome(), "interrupted");
    stage.scenes.next().await.answer("Yes.").await;
    let got = device.until(|envelope| envelope.stanza == -4).await;
    let order: Vec<u64> = got.iter().filter(|e| e.stanza < 0).map(|e| e.kind).collect();
    assert_eq!(order, [SENTENCE, START, SENTENCE]);
}

#[tokio::test]
async fn a_conversation_of_somebody_else_cannot_be_entered_from_elsewhere() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut bob = Peer::standard(stage.address, BOB).await;
    // To Bob it is a name like any other, of a session of his own.
    bob.send(INVOKE, 1, &json!({ "input": "hi", "session": conversation })).await;
    let scene = stage.scenes.next().await;
    assert_eq!((scene.request.as_str(), scene.history.len()), ("hi", 0));
    scene.answer("To Bob alone.").await;
    let (text, _) = bob.finish(1).await;
    assert_eq!(text, "To Bob alone.");
    device.quiet().await;
    assert_eq!(stage.messages(&conversation).len(), 2);
}
