//! Somebody else, and conversations that are put away: AL-030, AL-091, AL-095 and the rule that knowing an id
//! grants nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::device::{
    ACK, COMMENTARY, CONFIGURATION, ERROR, FEEDBACK, MEMORY, MEMORY_DONE, NOTE, NOTE_DONE, REQUEST, RESULT,
    START, STATS, STOP, SUBSCRIBE, SUBSCRIBED, UPDATE, USER, VARIATION,
};
use crate::stage::Stage;
use crate::support::{ANN, BOB};

#[tokio::test]
async fn al_095_a_stranger_can_do_nothing_in_a_conversation_by_its_id() {
    let mut stage = Stage::stored(&[]).await;
    let (mut ann, conversation) = stage.begin().await;
    let answer = stage.turn(&mut ann, -1, "am_1", "Yes.").await;
    ann.say("am_2", "go").await;
    let scene = stage.scenes.next().await;
    ann.expect([(0, ACK), (-3, START)]).await;
    let mut bob = stage.bob().await;
    bob.conversation.clone_from(&conversation);
    bob.send(SUBSCRIBE, json!({})).await;
    bob.expect([(0, SUBSCRIBED)]).await;
    bob.send(CONFIGURATION, json!({ "lastSequenceSeen": -1 })).await;
    let [error] = bob.expect([(0, ERROR)]).await;
    error.assert_error(201, false, "2");
    let requests: [(u64, Value); 5] = [
        (USER, json!({ "id": "am_9", "content": "hi" })),
        (STOP, json!({})),
        (VARIATION, json!({ "targetId": answer, "mode": "edit", "newContent": "no" })),
        (COMMENTARY, json!({ "id": "aucc_1", "messageId": answer, "content": "x" })),
        (RESULT, json!({ "id": "atu_1", "success": true })),
    ];
    for (kind, body) in requests {
        let stanza = bob.send(kind, body).await;
        let [error, ack] = bob.expect([(0, ERROR), (0, ACK)]).await;
        assert_eq!(error.body["code"], json!(202));
        ack.assert_ack(stanza, false);
    }
    bob.quiet().await;
    ann.quiet().await;
    stage.scenes.assert_none();
    scene.answer("Undisturbed.").await;
    ann.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(stage.messages(&conversation).len(), 4);
}

#[tokio::test]
async fn al_095_what_is_somebody_elses_is_unknown_in_ones_own_conversation() {
    let mut stage = Stage::stored(&[]).await;
    let mut ann = stage.ann().await;
    ann.create_with(&["streaming", "tool:clock"]).await;
    let foreign = stage.turn(&mut ann, -1, "am_1", "Yes.").await;
    ann.say("am_2", "time?").await;
    let scene = stage.scenes.next().await;
    let called = scene.call("clock", json!({}), Duration::from_secs(60));
    let [.., request] = ann.expect([(0, ACK), (-3, START), (-4, REQUEST)]).await;
    let mut bob = stage.bob().await;
    let conversation = bob.create().await;
    let own = stage.turn(&mut bob, -1, "am_of_bob", "Yes.").await;
    let vote = json!({
        "id": "av_1", "messageId": own, "targetType": "message", "targetId": foreign, "vote": "up",
        "timestamp": 1,
    });
    let requests: [(u64, &str, Value); 6] = [
        (USER, "am_9", json!({ "id": "am_9", "previousId": foreign, "content": "hi" })),
        (VARIATION, "", json!({ "targetId": foreign, "mode": "regenerate" })),
        (VARIATION, "", json!({ "targetId": "am_1", "mode": "edit", "newContent": "x" })),
        (COMMENTARY, "aucc_1", json!({ "id": "aucc_1", "messageId": foreign, "content": "x" })),
        (RESULT, "r", json!({ "id": "r", "requestId": request.id(), "success": true, "result": "bob's" })),
        (FEEDBACK, "av_1", vote),
    ];
    for (kind, id, body) in requests {
        let stanza = bob.send(kind, body).await;
        let [error] = bob.expect([(0, ERROR)]).await;
        let origin = if id.is_empty() { stanza.to_string() } else { id.to_owned() };
        error.assert_error(203, true, &origin);
        if kind != FEEDBACK {
            let [ack] = bob.expect([(0, ACK)]).await;
            ack.assert_ack(stanza, false);
        }
    }
    let stanza = bob.send(STOP, json!({ "targetId": foreign })).await;
    let [ack] = bob.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, false);
    let note = json!({
        "id": "an_1", "messageId": foreign, "content": "x", "category": "general", "action": "create",
        "timestamp": 1,
    });
    bob.send_to("", NOTE, note).await;
    let [done] = bob.expect([(0, NOTE_DONE)]).await;
    assert_eq!(done.body["success"], json!(false));
    // The id of somebody else's message is free for one's own.
    stage.turn(&mut bob, -3, "am_1", "Mine.").await;
    assert_eq!(stage.messages(&conversation).len(), 4);
    ann.send(RESULT, json!({ "id": request.id(), "success": true, "result": "ann's" })).await;
    ann.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!("ann's")));
}

#[tokio::test]
async fn al_085_memories_belong_to_one_person() {
    let stage = Stage::stored(&[]).await;
    let (mut ann, mut bob) = (stage.ann().await, stage.bob().await);
    let body = |action: &str, content: &str| {
        let memory = json!({ "content": content, "category": "fact" });
        json!({ "id": "amem_1", "action": action, "memory": memory, "timestamp": 1 })
    };
    ann.send_to("", MEMORY, body("create", "ann likes tea")).await;
    ann.expect([(0, MEMORY_DONE)]).await;
    for action in ["update", "delete", "pin", "archive"] {
        bob.send_to("", MEMORY, body(action, "bob was here")).await;
        let [done] = bob.expect([(0, MEMORY_DONE)]).await;
        assert_eq!(done.body["success"], json!(false), "{action}");
    }
    bob.send_to("", MEMORY, body("create", "bob likes coffee")).await;
    let [done] = bob.expect([(0, MEMORY_DONE)]).await;
    assert_eq!(done.body["success"], json!(true));
    let sql = "SELECT created_by, content, pinned, archived, deleted_at FROM alicia_memory WHERE id = ? \
               ORDER BY created_by";
    let rows = [json!(["ann", "ann likes tea", 0, 0, null]), json!(["bob", "bob likes coffee", 0, 0, null])];
    assert_eq!(stage.rows(sql, "amem_1"), rows);
}

#[tokio::test]
async fn al_030_over_http_a_stranger_finds_nothing_either() {
    let mut stage = Stage::stored(&[]).await;
    let (mut ann, conversation) = stage.begin().await;
    let answer = stage.turn(&mut ann, -1, "am_1", "Yes.").await;
    let offline = json!({ "messages": [{
        "local_id": "local_1", "sequence_number": 1, "role": "user", "contents": "x",
        "created_at": "2026-01-01T00:00:00Z",
    }] });
    let mut answers = Vec::new();
    for (id, message) in
        [(conversation.as_str(), answer.as_str()), ("ac_000000000000000000000", "am_of_nobody")]
    {
        let requests: [(String, Value); 9] = [
            (format!("GET /api/v1/conversations/{id}"), Value::Null),
            (format!("PATCH /api/v1/conversations/{id}"), json!({ "title": "mine" })),
            (format!("DELETE /api/v1/conversations/{id}"), Value::Null),
            (format!("GET /api/v1/conversations/{id}/messages"), Value::Null),
            (format!("POST /api/v1/conversations/{id}/messages"), json!({ "contents": "hi" })),
            (format!("POST /api/v1/conversations/{id}/sync"), offline.clone()),
            (format!("GET /api/v1/conversations/{id}/sync/status"), Value::Null),
            (format!("POST /api/v1/conversations/{id}/switch-branch"), json!({ "tip_message_id": message })),
            (format!("GET /api/v1/messages/{message}/siblings"), Value::Null),
        ];
        let mut told = Vec::new();
        for (request, body) in requests {
            let (status, answer) = stage.http(&request, BOB, &body).await;
            assert_eq!(status, 404, "{request}: {answer}");
            told.push(answer);
        }
        answers.push(told);
    }
    assert_eq!(answers[0], answers[1], "foreign and unknown look the same");
    ann.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 2);
}

#[tokio::test]
async fn al_091_an_archived_conversation_is_inactive() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let path = format!("PATCH /api/v1/conversations/{conversation}");
    let (status, _) = stage.http(&path, ANN, &json!({ "status": "archived" })).await;
    assert_eq!(status, 200);
    let [update] = device.expect([(0, UPDATE)]).await;
    assert_eq!(
        (&update.body["conversationId"], &update.body["status"]),
        (&json!(conversation), &json!("archived"))
    );
    assert!(update.body["updatedAt"].is_string(), "{update:?}");
    // Neither to whoever comes, nor to whoever is there.
    for other in [&mut stage.ann().await, &mut device] {
        other.send_to(&conversation, SUBSCRIBE, json!({ "fromSequence": 0 })).await;
        let [ack] = other.expect([(0, SUBSCRIBED)]).await;
        let inactive = json!({ "conversationId": conversation, "success": false, "error": "inactive" });
        assert_eq!(ack.body, inactive);
        let stanza = other.configure(&conversation, -1, &["streaming"]).await;
        let [error] = other.expect([(0, ERROR)]).await;
        error.assert_error(202, false, &stanza.to_string());
        assert!(error.text("message").contains("inactive"), "{error:?}");
        other.quiet().await;
    }
    let stanza = device.say("am_2", "hi").await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    assert_eq!((&error.body["code"], &error.body["originatingId"]), (&json!(202), &json!("am_2")));
    ack.assert_ack(stanza, false);
    stage.scenes.assert_none();
    // It can be brought back as it was.
    let (status, _) = stage.http(&path, ANN, &json!({ "status": "active" })).await;
    assert_eq!(status, 200);
    let mut back = stage.ann().await;
    let replayed = back.resume(&conversation, -1).await;
    assert_eq!(replayed.len(), 1);
    stage.turn(&mut back, -3, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_091_a_deleted_conversation_is_not_found() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let (status, _) =
        stage.http(&format!("DELETE /api/v1/conversations/{conversation}"), ANN, &Value::Null).await;
    assert!((200..300).contains(&status));
    let [update] = device.expect([(0, UPDATE)]).await;
    assert_eq!(update.body["status"], json!("deleted"));
    let stanza = device.say("am_2", "hi").await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    assert!(matches!(error.body["code"].as_u64(), Some(201 | 202)), "{error:?}");
    ack.assert_ack(stanza, false);
    for _ in 0..2 {
        device.send(SUBSCRIBE, json!({})).await;
        let [ack] = device.expect([(0, SUBSCRIBED)]).await;
        assert_eq!(ack.body["error"], json!("not_found"));
    }
    stage.scenes.assert_none();
    let (status, _) =
        stage.http(&format!("GET /api/v1/conversations/{conversation}"), ANN, &Value::Null).await;
    assert_eq!(status, 404);
    let sql = "SELECT id FROM alicia_conversations WHERE id = ? AND deleted_at IS NULL";
    assert_eq!(stage.rows(sql, &conversation), Vec::<Value>::new());
}

#[tokio::test]
async fn al_091_an_answer_under_way_is_stopped_when_its_conversation_is_deleted() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    stage.http(&format!("DELETE /api/v1/conversations/{conversation}"), ANN, &Value::Null).await;
    scene.stopped().await;
}

#[tokio::test]
async fn al_097_a_message_posted_over_http_is_announced_and_answered_on_the_socket() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let path = format!("POST /api/v1/conversations/{conversation}/messages");
    let (status, _) = stage.http(&path, ANN, &json!({ "contents": "by post" })).await;
    assert!((200..300).contains(&status), "{status}");
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "by post");
    scene.answer("Received.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!((got[0].stanza, got[0].kind, got[0].text("contents")), (0, USER, "by post"));
    let last = &got[got.len() - 2];
    assert!(last.stanza < 0, "{got:#?}");
    assert_eq!(stage.messages(&conversation)[1][3], json!("Received."));
}
