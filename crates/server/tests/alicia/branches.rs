//! Branches as they are listed and chosen over HTTP, and history as a client loads it: AL-080, AL-092, AL-109.

use serde_json::{Value, json};

use crate::device::{ACK, ASSISTANT, ERROR, SENTENCE, START, STATS, SUBSCRIBE, SUBSCRIBED, USER, VARIATION};
use crate::stage::Stage;
use crate::support::ANN;

/// The ids of a list of messages, wherever it is in the answer.
fn ids(answer: &Value) -> Vec<&str> {
    let list = answer.as_array().or_else(|| answer.as_object()?.values().find_map(Value::as_array));
    let list = list.unwrap_or_else(|| panic!("no list in {answer}"));
    list.iter().map(|message| message["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn al_080_a_branch_can_be_chosen_without_writing() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "One.").await;
    let stanza = device.send(VARIATION, json!({ "targetId": "am_1", "mode": "regenerate" })).await;
    stage.scenes.next().await.answer("Two.").await;
    let [ack, start, ..] = device.expect([(0, ACK), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(stanza, true);
    let second = start.assert_start("am_1");
    let (status, siblings) =
        stage.http(&format!("GET /api/v1/messages/{first}/siblings"), ANN, &Value::Null).await;
    assert_eq!(status, 200, "{siblings}");
    let mut listed = ids(&siblings);
    listed.sort_unstable();
    let mut expected = [first.as_str(), second.as_str()];
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert_eq!(stage.tip(&conversation), json!(second));
    let switch = format!("POST /api/v1/conversations/{conversation}/switch-branch");
    let (status, answer) = stage.http(&switch, ANN, &json!({ "tip_message_id": first })).await;
    assert!((200..300).contains(&status), "{status} {answer}");
    assert_eq!(stage.tip(&conversation), json!(first));
    // What is said next follows what was chosen, and so does what is brought to others.
    stage.turn(&mut device, -5, "am_2", "Yes.").await;
    assert!(stage.messages(&conversation).contains(&json!(["am_2", first, "user", "am_2", "completed"])));
    let mut other = stage.ann().await;
    other.send_to(&conversation, SUBSCRIBE, json!({ "fromSequence": 0 })).await;
    let [_, _, brought, ..] =
        other.expect([(0, SUBSCRIBED), (0, USER), (0, ASSISTANT), (0, USER), (0, ASSISTANT)]).await;
    assert_eq!((brought.id(), brought.text("content")), (first.as_str(), "One."));
    let (status, _) = stage.http(&switch, ANN, &json!({ "tip_message_id": "am_of_nobody" })).await;
    assert!((400..500).contains(&status), "{status}");
}

#[tokio::test]
async fn al_109_history_and_stream_are_two_views_of_one_thing() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "One.").await;
    let second = stage.turn(&mut device, -3, "am_2", "Two.").await;
    let list = format!("GET /api/v1/conversations/{conversation}/messages");
    let (status, history) = stage.http(&list, ANN, &Value::Null).await;
    assert_eq!(status, 200, "{history}");
    assert_eq!(ids(&history), ["am_1", first.as_str(), "am_2", second.as_str()]);
    // Who has loaded that goes on from the head.
    let mut other = stage.ann().await;
    assert_eq!(other.resume(&conversation, 0).await, []);
    stage.turn(&mut device, -5, "am_3", "Three.").await;
    let [announced, ..] = other.expect([(0, USER), (-5, START), (-6, SENTENCE), (0, STATS)]).await;
    assert_eq!(announced.body["previousId"], json!(second));
}

#[tokio::test]
async fn al_043_a_message_posted_twice_is_one() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let post = format!("POST /api/v1/conversations/{conversation}/messages");
    let body = json!({ "contents": "by post", "local_id": "local_1" });
    let (status, _) = stage.http(&post, ANN, &body).await;
    assert!((200..300).contains(&status), "{status}");
    stage.scenes.next().await.answer("Yes.").await;
    device.until(|envelope| envelope.kind == STATS).await;
    let (status, _) = stage.http(&post, ANN, &body).await;
    assert!((200..300).contains(&status), "{status}");
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 2);
}

#[tokio::test]
async fn al_100_synced_over_http_or_the_socket_is_the_same() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let sync = format!("POST /api/v1/conversations/{conversation}/sync");
    let body = json!({ "messages": [{
        "local_id": "local_1", "sequence_number": 1, "role": "user", "contents": "offline",
        "created_at": "2026-01-01T00:00:00Z",
    }] });
    let (status, synced) = stage.http(&sync, ANN, &body).await;
    assert_eq!(status, 200, "{synced}");
    let result = &synced["synced_messages"][0];
    assert_eq!((&result["local_id"], &result["status"]), (&json!("local_1"), &json!("synced")));
    let [announced] = device.expect([(0, USER)]).await;
    assert_eq!(json!(announced.id()), result["server_id"]);
    let again = json!({ "messages": [{
        "localId": "local_1", "sequenceNumber": 1, "role": "user", "contents": "offline",
        "createdAt": "2026-01-01T00:00:00Z",
    }] });
    device.send(crate::device::SYNC, again).await;
    let [answer] = device.expect([(0, crate::device::SYNCED)]).await;
    assert_eq!(answer.body["syncedMessages"][0]["serverId"], result["server_id"]);
    let status = format!("GET /api/v1/conversations/{conversation}/sync/status");
    let (_, counts) = stage.http(&status, ANN, &Value::Null).await;
    assert_eq!(counts["conversation_id"], json!(conversation));
    assert_eq!((&counts["synced_count"], &counts["conflict_count"]), (&json!(1), &json!(0)), "{counts}");
}

#[tokio::test]
async fn al_079_a_variation_is_for_messages_of_its_own_conversation() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let elsewhere = stage.turn_elsewhere(&mut device).await;
    device.create().await;
    for (target, mode) in
        [(elsewhere.as_str(), "regenerate"), ("am_elsewhere", "edit"), (&elsewhere, "continue")]
    {
        let stanza =
            device.send(VARIATION, json!({ "targetId": target, "mode": mode, "newContent": "x" })).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(203, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
}
