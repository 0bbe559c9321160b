//! Several devices at once: AL-096, AL-097, AL-107, AL-109, AL-110.

use serde_json::{Value, json};

use crate::device::{
    ACK, ASSISTANT, COMMENTARY, Envelope, FEEDBACK, FEEDBACK_DONE, MEMORY, MEMORY_DONE, NOTE, NOTE_DONE,
    SENTENCE, START, STATS, STOP, SUBSCRIBE, SUBSCRIBED, SYNC, SYNCED, USER, VARIATION, bytes, places,
};
use crate::pack::{pack, pack_map};
use crate::stage::Stage;

#[tokio::test]
async fn al_096_what_a_client_sends_is_not_passed_on() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    watching.expect([(0, USER), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    device.send(STOP, json!({})).await;
    device.expect([(0, ACK)]).await;
    device.send(COMMENTARY, json!({ "id": "aucc_1", "messageId": "", "content": "x" })).await;
    device.expect([(0, ACK)]).await;
    let vote = json!({
        "id": "av_1", "messageId": answer, "targetType": "message", "targetId": answer, "vote": "up",
        "timestamp": 1,
    });
    device.send(FEEDBACK, vote).await;
    device.expect([(0, FEEDBACK_DONE)]).await;
    let note = json!({
        "id": "an_1", "messageId": answer, "content": "x", "category": "general", "action": "create",
        "timestamp": 1,
    });
    device.send(NOTE, note).await;
    device.expect([(0, NOTE_DONE)]).await;
    let memory = json!({ "id": "amem_1", "action": "create", "memory": { "content": "x" }, "timestamp": 1 });
    device.send(MEMORY, memory).await;
    device.expect([(0, MEMORY_DONE)]).await;
    device.send(8, json!({ "acknowledgedStanzaId": -2, "success": true })).await;
    device
        .send(1, json!({ "id": "err_1", "code": 501, "message": "x", "severity": 2, "recoverable": true }))
        .await;
    device.resume(&conversation, 0).await;
    device.quiet().await;
    watching.quiet().await;
}

#[tokio::test]
async fn al_096_an_announcement_says_what_is_stored_not_what_was_sent() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let sent = json!({ "id": "am_1", "content": "hi", "attachments": ["x"], "unknown": 7, "timestamp": 5 });
    device.send(USER, sent).await;
    let [announced] = watching.expect([(0, USER)]).await;
    assert!(announced.body.get("attachments").is_none() && announced.body.get("unknown").is_none());
    assert_eq!(announced.text("content"), "hi");
    stage.scenes.next().await.finish().await;
}

/// A moment as RFC 3339 has it.
fn assert_moment(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no moment"));
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert!(shape.starts_with("0000-00-00T00:00:00") && shape.ends_with('Z'), "{text}");
}

fn assert_superset(message: &Envelope, role: &str, number: u64) {
    let body = &message.body;
    assert_eq!((&body["contents"], &body["role"]), (&body["content"], &json!(role)), "{message:?}");
    assert_eq!(body["sequenceNumber"], json!(number), "{message:?}");
    assert_moment(&body["createdAt"]);
    assert_moment(&body["updatedAt"]);
}

#[tokio::test]
async fn al_097_messages_from_the_server_have_the_superset_keys() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut whole = stage.ann().await;
    whole.resume_with(&conversation, 0, &[]).await;
    // A whole answer, and the announcement of its question.
    whole.say("am_1", "hi").await;
    stage.scenes.next().await.answer("Yes.").await;
    let [announced, answer, _] = device.expect([(0, USER), (-1, ASSISTANT), (0, STATS)]).await;
    assert_superset(&announced, "user", 1);
    assert_superset(&answer, "assistant", 2);
    // An edit of each.
    device.send(VARIATION, json!({ "targetId": answer.id(), "mode": "edit", "newContent": "No." })).await;
    let [_, edited] = device.expect([(0, ACK), (-2, ASSISTANT)]).await;
    assert_superset(&edited, "assistant", 2);
    device.send(VARIATION, json!({ "targetId": "am_1", "mode": "edit", "newContent": "hello" })).await;
    stage.scenes.next().await.answer("Yes.").await;
    let [_, announced, ..] =
        device.expect([(0, ACK), (0, USER), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    assert_superset(&announced, "user", 1);
    // What was missed, and what was written offline.
    let offline = json!({
        "localId": "local_1", "sequenceNumber": 9, "role": "user", "contents": "offline",
        "createdAt": "2026-01-01T00:00:00Z",
    });
    let mut late = stage.follow(&conversation).await;
    device.send(SYNC, json!({ "messages": [offline] })).await;
    let [synced] = device.expect([(0, SYNCED)]).await;
    let id = synced.body["syncedMessages"][0]["serverId"].clone();
    let [announced] = late.expect([(0, USER)]).await;
    assert_superset(&announced, "user", announced.body["sequenceNumber"].as_u64().unwrap());
    assert_eq!((&announced.body["localId"], &announced.body["serverId"]), (&json!("local_1"), &id));
    late.send(SUBSCRIBE, json!({ "fromSequence": 1 })).await;
    let [_, brought, offline] = late.expect([(0, SUBSCRIBED), (0, ASSISTANT), (0, USER)]).await;
    assert_superset(&brought, "assistant", brought.body["sequenceNumber"].as_u64().unwrap());
    assert_eq!((&offline.body["localId"], &offline.body["serverId"]), (&json!("local_1"), &id));
}

#[tokio::test]
async fn al_107_every_entry_of_meta_is_a_row() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let meta = json!({
        "timestamp": 1_767_225_600_000_u64, "clientVersion": "0.1.0", "source": "asr", "flag": true,
        "ratio": 0.5, "list": [1, "a"], "map": { "k": null },
        "messaging.trace_id": "0123456789abcdef0123456789abcdef", "messaging.span_id": "0123456789abcdef",
        "otel_span": "plain",
    });
    let bytes = pack_map(&[
        ("stanzaId", pack(&json!(7))),
        ("conversationId", pack(&json!(conversation))),
        ("type", pack(&json!(USER))),
        ("meta", pack(&meta)),
        ("body", pack(&json!({ "id": "am_1", "content": "hi" }))),
    ]);
    device.send_bytes(bytes).await;
    stage.scenes.next().await.finish().await;
    device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    let mut expected: Vec<Value> = meta
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| json!([key, value.as_str().map_or_else(|| value.to_string(), str::to_owned)]))
        .collect();
    expected.sort_by_key(|row| row[0].as_str().unwrap().to_owned());
    let sql = "SELECT key, value FROM alicia_meta WHERE ref = ? ORDER BY key";
    assert_eq!(stage.rows(sql, "am_1"), expected);
}

#[tokio::test]
async fn al_107_too_much_meta_is_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let bytes = pack_map(&[
        ("stanzaId", pack(&json!(7))),
        ("conversationId", pack(&json!(conversation))),
        ("type", pack(&json!(USER))),
        ("meta", pack(&json!({ "long": "x".repeat(4096) }))),
        ("body", pack(&json!({ "id": "am_1", "content": "hi" }))),
    ]);
    device.send_bytes(bytes).await;
    let [error, ack] = device.expect([(0, crate::device::ERROR), (0, ACK)]).await;
    error.assert_error(104, true, "am_1");
    ack.assert_ack(7, false);
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation), Vec::<Value>::new());
}

#[tokio::test]
async fn al_109_a_message_reaches_every_other_device_live() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut others = [stage.follow(&conversation).await, stage.ann().await];
    others[1].resume(&conversation, 0).await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut told = Vec::new();
    for other in &mut others {
        let got = other.expect([(0, USER), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
        assert_eq!((got[0].id(), got[0].text("content")), ("am_1", "am_1"));
        assert!(got[0].body["previousId"].is_null());
        told.push(got[0].bytes.clone());
    }
    assert_eq!(told[0], told[1]);
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
    let [announced, ..] = others[0].expect([(0, USER), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    assert_eq!(announced.body["previousId"], json!(answer));
}

#[tokio::test]
async fn al_109_a_message_comes_again_in_its_place_on_replay() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    // Superseded before its answer began to say anything: two messages behind one stanza would be possible.
    device.say("am_2", "second").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-3, START)]).await;
    device.say("am_3", "third").await;
    scene.stopped().await;
    stage.scenes.next().await.answer("Yes.").await;
    device.until(|envelope| envelope.stanza == -6).await;
    let mut live = watching.until(|envelope| envelope.stanza == -6).await;
    live.retain(|envelope| envelope.kind != STATS);
    let order = [
        (0, USER),
        (-1, START),
        (-2, SENTENCE),
        (0, USER),
        (-3, START),
        (-4, SENTENCE),
        (0, USER),
        (-5, START),
        (-6, SENTENCE),
    ];
    assert_eq!(places(&live), order);
    for mark in [-1, -2, -3, -4, -5] {
        let at = live.iter().position(|envelope| envelope.stanza == mark).unwrap();
        let mut other = stage.ann().await;
        let replayed = other.resume(&conversation, mark).await;
        assert_eq!(bytes(&replayed), bytes(&live[at + 1..]), "{mark}");
    }
}

#[tokio::test]
async fn al_110_the_sender_does_not_get_its_message_back() {
    let mut stage = Stage::start(&[]).await;
    let (mut first, conversation) = stage.begin().await;
    let mut second = stage.ann().await;
    second.resume(&conversation, 0).await;
    for round in 0..3 {
        let start = -1 - 4 * round;
        stage.turn(&mut first, start, &format!("am_{round}_first"), "Yes.").await;
        second.expect([(0, USER), (start, START), (start - 1, SENTENCE), (0, STATS)]).await;
        stage.turn(&mut second, start - 2, &format!("am_{round}_second"), "Yes.").await;
        first.expect([(0, USER), (start - 2, START), (start - 3, SENTENCE), (0, STATS)]).await;
    }
    first.quiet().await;
    second.quiet().await;
}

#[tokio::test]
async fn al_110_not_even_a_repeat_is_announced() {
    let mut stage = Stage::start(&[]).await;
    let (mut first, conversation) = stage.begin().await;
    let mut second = stage.ann().await;
    second.resume(&conversation, 0).await;
    stage.turn(&mut first, -1, "am_1", "Yes.").await;
    second.expect([(0, USER), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    for device in [&mut first, &mut second] {
        device.say("am_1", "am_1").await;
        device.expect([(0, ACK)]).await;
    }
    first.quiet().await;
    second.quiet().await;
}
