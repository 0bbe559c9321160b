//! Votes, notes and memories: AL-081 to AL-085.

use serde_json::{Value, json};

use crate::device::{
    ACK, COMMENTARY, Device, ERROR, Envelope, FEEDBACK, FEEDBACK_DONE, MEMORY, MEMORY_DONE, NOTE, NOTE_DONE,
    REASONING, REQUEST, SENTENCE, STATS, TRACE,
};
use crate::stage::Stage;

fn vote(id: &str, answer: &str, vote: &str) -> Value {
    json!({
        "id": id, "messageId": answer, "targetType": "message", "targetId": answer, "vote": vote,
        "timestamp": 1_767_225_600_000_u64,
    })
}

fn note(id: &str, message: &str, action: &str, content: &str) -> Value {
    json!({
        "id": id, "messageId": message, "content": content, "category": "general", "action": action,
        "timestamp": 1_767_225_600_000_u64,
    })
}

fn memory(id: &str, action: &str, memory: Value) -> Value {
    let mut body = json!({ "id": id, "action": action, "timestamp": 1_767_225_600_000_u64 });
    if !memory.is_null() {
        body["memory"] = memory;
    }
    body
}

/// The only thing that answers it.
async fn confirmed(device: &mut Device, kind: u64, body: Value) -> Envelope {
    device.send(kind, body).await;
    let [answer] = device.expect([(0, kind + 1)]).await;
    device.quiet().await;
    answer
}

#[tokio::test]
async fn al_081_a_vote_has_one_confirmation_and_nothing_else() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut body = vote("av_1", &answer, "up");
    (body["quickFeedback"], body["note"]) = (json!("too_generic"), json!("say more"));
    let done = confirmed(&mut device, FEEDBACK, body.clone()).await;
    let expected = json!({
        "feedbackId": "av_1", "targetType": "message", "targetId": answer,
        "aggregates": { "upvotes": 1, "downvotes": 0 }, "userVote": "up",
    });
    assert_eq!(done.body, expected);
    let sql = "SELECT id, message_id, target_type, target_id, vote, quick_feedback, note, deleted_at \
               FROM alicia_votes WHERE conversation_id = ?";
    let row = json!(["av_1", answer, "message", answer, "up", "too_generic", "say more", null]);
    assert_eq!(stage.rows(sql, &conversation), std::slice::from_ref(&row));
    // Sent again, it is confirmed again and counts once.
    let again = confirmed(&mut device, FEEDBACK, body).await;
    assert_eq!(again.body, expected);
    assert_eq!(stage.rows(sql, &conversation), [row]);
}

#[tokio::test]
async fn al_081_a_vote_that_cannot_count_has_one_error_and_nothing_else() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let with = |key: &str, value: Value| {
        let mut body = vote("av_1", &answer, "up");
        body[key] = value;
        body
    };
    for (body, code) in [
        (with("vote", json!("sideways")), 105),
        (with("targetType", json!("weather")), 105),
        (with("targetId", json!("am_of_nobody")), 203),
        (with("messageId", json!("am_of_nobody")), 203),
        (with("note", json!("x".repeat(4097))), 104),
    ] {
        device.send(FEEDBACK, body).await;
        let [error] = device.expect([(0, ERROR)]).await;
        error.assert_error(code, true, "av_1");
        device.quiet().await;
    }
    let sql = "SELECT id FROM alicia_votes WHERE conversation_id = ?";
    assert_eq!(stage.rows(sql, &conversation), Vec::<Value>::new());
    let done = confirmed(&mut device, FEEDBACK, with("quickFeedback", json!("no such word"))).await;
    assert_eq!(done.body["userVote"], json!("up"), "the vote stands");
    let sql = "SELECT quick_feedback FROM alicia_votes WHERE conversation_id = ?";
    assert_eq!(stage.rows(sql, &conversation), [json!([null])]);
}

#[tokio::test]
async fn al_081_everything_in_an_answer_can_be_voted_on() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device
        .send(MEMORY, memory("amem_1", "create", json!({ "content": "likes tea", "category": "fact" })))
        .await;
    device.expect([(0, MEMORY_DONE)]).await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.9).await;
    scene.think("Hm.").await;
    scene.tool("clock", Ok(json!({}))).await;
    scene.answer("Yes.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let answer = got[1].assert_start("am_1");
    let id = |kind| got.iter().find(|e| e.kind == kind).unwrap_or_else(|| panic!("{got:#?}")).id();
    for (number, (target_type, target)) in [
        ("message", answer.as_str()),
        ("message", "am_1"),
        ("tool_use", id(REQUEST)),
        ("reasoning", id(REASONING)),
        ("sentence", id(SENTENCE)),
        ("memory_usage", id(TRACE)),
        ("memory", "amem_1"),
        ("memory_extraction", "amem_1"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = vote(&format!("av_{number}"), &answer, "down");
        (body["targetType"], body["targetId"]) = (json!(target_type), json!(target));
        if target == "am_1" {
            body["messageId"] = json!("am_1");
        }
        let mut misplaced = body.clone();
        misplaced["messageId"] = json!(if target == "am_1" { &answer } else { "am_1" });
        if ["message", "tool_use", "reasoning", "sentence"].contains(&target_type) {
            device.send(FEEDBACK, misplaced).await;
            let [error] = device.expect([(0, ERROR)]).await;
            error.assert_error(203, true, &format!("av_{number}"));
        }
        let done = confirmed(&mut device, FEEDBACK, body).await;
        assert_eq!(done.body["aggregates"], json!({ "upvotes": 0, "downvotes": 1 }), "{target_type}");
        assert_eq!((&done.body["targetType"], &done.body["targetId"]), (&json!(target_type), &json!(target)));
    }
}

#[tokio::test]
async fn al_081_a_note_has_one_confirmation_and_nothing_else() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let rows = |stage: &Stage| {
        let sql = "SELECT id, message_id, content, category, deleted_at IS NOT NULL FROM alicia_notes \
                   WHERE conversation_id = ?";
        stage.rows(sql, &conversation)
    };
    let success = |yes: bool| json!({ "noteId": "an_1", "messageId": "am_1", "success": yes });
    for (body, yes) in [
        (note("an_1", "am_1", "update", "too early"), false),
        (note("an_1", "am_1", "create", "first"), true),
        (note("an_1", "am_1", "create", "first"), true),
        (note("an_1", "am_1", "update", "second"), true),
        (note("an_1", "am_1", "shred", "third"), false),
    ] {
        assert_eq!(confirmed(&mut device, NOTE, body).await.body, success(yes));
    }
    assert_eq!(rows(&stage), [json!(["an_1", "am_1", "second", "general", 0])]);
    assert_eq!(confirmed(&mut device, NOTE, note("an_1", "am_1", "delete", "")).await.body, success(true));
    assert_eq!(rows(&stage), [json!(["an_1", "am_1", "second", "general", 1])]);
    let unknown = confirmed(&mut device, NOTE, note("an_2", "am_of_nobody", "create", "x")).await;
    assert_eq!(unknown.body, json!({ "noteId": "an_2", "messageId": "am_of_nobody", "success": false }));
    // Neither a conversation nor a subscription is needed: the message tells.
    let mut other = stage.ann().await;
    let done = confirmed(&mut other, NOTE, note("an_3", "am_1", "create", "from elsewhere")).await;
    assert_eq!(done.body, json!({ "noteId": "an_3", "messageId": "am_1", "success": true }));
    assert_eq!(rows(&stage).len(), 2);
}

#[tokio::test]
async fn al_081_a_repeated_note_or_memory_is_confirmed_again_whatever_became_of_it() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let says = |content: &str| json!({ "content": content });
    let note_row = |stage: &Stage| {
        let sql = "SELECT content, deleted_at IS NOT NULL FROM alicia_notes WHERE id = ?";
        stage.rows(sql, "an_1").remove(0)
    };
    let memory_row = |stage: &Stage| {
        let sql = "SELECT content, deleted_at IS NOT NULL FROM alicia_memory WHERE id = ?";
        stage.rows(sql, "amem_1").remove(0)
    };
    let steps = [
        ("create", "first", true, ("first", 0)),
        ("update", "second", true, ("second", 0)),
        ("create", "first", true, ("second", 0)),
        ("create", "second", false, ("second", 0)),
        ("delete", "", true, ("second", 1)),
        ("create", "first", true, ("second", 1)),
    ];
    for (action, content, success, row) in steps {
        let done = confirmed(&mut device, NOTE, note("an_1", "am_1", action, content)).await;
        assert_eq!(done.body["success"], json!(success), "{action} {content}");
        assert_eq!(note_row(&stage), json!(row), "{action} {content}");
        let memory = memory("amem_1", action, if content.is_empty() { Value::Null } else { says(content) });
        let done = confirmed(&mut device, MEMORY, memory).await;
        assert_eq!(done.body["success"], json!(success), "{action} {content}");
        assert_eq!(memory_row(&stage), json!(row), "{action} {content}");
    }
}

#[tokio::test]
async fn al_081_a_note_of_no_category_is_general_and_of_an_unknown_one_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let with = |id: &str, category: &str| {
        let mut body = note(id, "am_1", "create", "text");
        body["category"] = json!(category);
        body
    };
    for category in ["improvement", "correction", "context", "general", ""] {
        confirmed(&mut device, NOTE, with(&format!("an_{category}"), category)).await;
    }
    let sql = "SELECT category FROM alicia_notes WHERE id = ?";
    assert_eq!(stage.rows(sql, "an_"), [json!(["general"])]);
    assert_eq!(stage.rows(sql, "an_context"), [json!(["context"])]);
    device.send(NOTE, with("an_x", "gossip")).await;
    let [error] = device.expect([(0, ERROR)]).await;
    error.assert_error(105, true, "an_x");
    device.quiet().await;
}

#[tokio::test]
async fn al_081_remarks_are_acknowledged_and_never_answered() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let about = json!({
        "id": "aucc_1", "messageId": answer, "content": "well said", "commentaryType": "feedback-positive",
    });
    let stanza = device.send(COMMENTARY, about).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.send(COMMENTARY, json!({ "id": "aucc_2", "messageId": "", "content": "a fine talk" })).await;
    device.expect([(0, ACK)]).await;
    device.quiet().await;
    stage.scenes.assert_none();
    let sql = "SELECT id, message_id, content, created_by FROM alicia_user_conversation_commentaries \
               WHERE conversation_id = ? ORDER BY id";
    let rows = [json!(["aucc_1", answer, "well said", "ann"]), json!(["aucc_2", null, "a fine talk", "ann"])];
    assert_eq!(stage.rows(sql, &conversation), rows);
}

/// Votes; there are so many up and down then, and this is the vote of whoever asks.
async fn counts(device: &mut Device, vote: Value, (up, down, own): (u64, u64, &str)) {
    let id = vote["id"].clone();
    let done = confirmed(device, FEEDBACK, vote).await;
    assert_eq!(done.body["feedbackId"], id);
    assert_eq!(done.body["aggregates"], json!({ "upvotes": up, "downvotes": down }), "{id}");
    assert_eq!(done.body["userVote"], json!(own), "{id}");
}

#[tokio::test]
async fn al_082_a_second_vote_replaces_the_first_and_remove_leaves_none() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for (id, kind, up, down, own) in [
        ("av_1", "up", 1, 0, "up"),
        ("av_2", "down", 0, 1, "down"),
        ("av_3", "up", 1, 0, "up"),
        ("av_4", "remove", 0, 0, ""),
        ("av_5", "remove", 0, 0, ""),
        ("av_6", "down", 0, 1, "down"),
    ] {
        counts(&mut device, vote(id, &answer, kind), (up, down, own)).await;
    }
    let sql = "SELECT vote FROM alicia_votes WHERE conversation_id = ? AND deleted_at IS NULL";
    assert_eq!(stage.rows(sql, &conversation), [json!(["down"])]);
}

#[tokio::test]
async fn al_082_a_repeated_vote_has_no_second_effect_also_if_another_followed() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for (id, kind, up, down, own) in [
        ("av_1", "up", 1, 0, "up"),
        ("av_2", "down", 0, 1, "down"),
        ("av_1", "up", 0, 1, "down"),
        ("av_3", "remove", 0, 0, ""),
        ("av_2", "down", 0, 0, ""),
        ("av_4", "up", 1, 0, "up"),
        ("av_3", "remove", 1, 0, "up"),
    ] {
        counts(&mut device, vote(id, &answer, kind), (up, down, own)).await;
    }
    let mut other = vote("av_1", &answer, "up");
    (other["messageId"], other["targetId"]) = (json!("am_1"), json!("am_1"));
    for body in [vote("av_1", &answer, "down"), other] {
        device.send(FEEDBACK, body).await;
        let [error] = device.expect([(0, ERROR)]).await;
        error.assert_error(202, true, "av_1");
    }
    let sql = "SELECT id, vote FROM alicia_votes WHERE conversation_id = ? AND deleted_at IS NULL";
    assert_eq!(stage.rows(sql, &conversation), [json!(["av_4", "up"])]);
}

#[tokio::test]
async fn al_083_critical_is_a_special_vote_and_no_downvote() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let done = confirmed(&mut device, FEEDBACK, vote("av_1", &answer, "critical")).await;
    let aggregates = json!({ "upvotes": 0, "downvotes": 0, "specialVotes": { "critical": 1 } });
    assert_eq!((&done.body["aggregates"], &done.body["userVote"]), (&aggregates, &json!("critical")));
    let done = confirmed(&mut device, FEEDBACK, vote("av_2", &answer, "down")).await;
    assert_eq!((&done.body["aggregates"]["downvotes"], &done.body["userVote"]), (&json!(1), &json!("down")));
    assert_eq!(done.body["aggregates"]["specialVotes"]["critical"].as_u64().unwrap_or_default(), 0);
}

#[tokio::test]
async fn al_084_confirmations_have_the_id_of_the_request() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let done = confirmed(&mut device, NOTE, note("an_of_mine", "am_1", "create", "x")).await;
    assert_eq!(done.text("noteId"), "an_of_mine");
    let tea = json!({ "content": "likes tea", "category": "preference", "pinned": true });
    let done = confirmed(&mut device, MEMORY, memory("amem_of_mine", "create", tea)).await;
    assert_eq!(done.body, json!({ "memoryId": "amem_of_mine", "action": "create", "success": true }));
    let sql = "SELECT id, content, tags, pinned, archived, created_by, source_type, deleted_at FROM alicia_memory \
               WHERE id = ?";
    let row = json!(["amem_of_mine", "likes tea", "[\"preference\"]", 1, 0, "ann", "manual", null]);
    assert_eq!(stage.rows(sql, "amem_of_mine"), [row]);
    let coffee = json!({ "content": "likes coffee", "category": "fact" });
    let done = confirmed(&mut device, MEMORY, memory("amem_of_mine", "update", coffee)).await;
    assert_eq!(done.body, json!({ "memoryId": "amem_of_mine", "action": "update", "success": true }));
    let row = json!(["amem_of_mine", "likes coffee", "[\"fact\"]", 0, 0, "ann", "manual", null]);
    assert_eq!(stage.rows(sql, "amem_of_mine"), [row]);
    let done = confirmed(&mut device, MEMORY, memory("amem_of_mine", "delete", Value::Null)).await;
    assert_eq!(done.body, json!({ "memoryId": "amem_of_mine", "action": "delete", "success": true }));
    assert!(!stage.rows(sql, "amem_of_mine")[0][7].is_null(), "deleted softly");
}

#[tokio::test]
async fn al_084_what_cannot_be_done_to_a_memory_is_confirmed_as_such() {
    let stage = Stage::start(&[]).await;
    // A conversation is not needed.
    let mut device = stage.ann().await;
    let tea = json!({ "content": "likes tea" });
    for action in ["update", "delete", "pin", "archive", "forget"] {
        let body = memory("amem_x", action, if action == "update" { tea.clone() } else { Value::Null });
        let done = confirmed(&mut device, MEMORY, body).await;
        assert_eq!(done.body, json!({ "memoryId": "amem_x", "action": action, "success": false }));
        assert_eq!(done.conversation, "");
    }
    let done = confirmed(&mut device, MEMORY, memory("amem_x", "create", tea)).await;
    assert_eq!(done.body["success"], json!(true));
}

#[tokio::test]
async fn al_085_pin_and_archive_set_flags_and_nothing_else() {
    let stage = Stage::stored(&[]).await;
    let mut device = stage.ann().await;
    let tea = json!({ "content": "likes tea", "category": "fact" });
    confirmed(&mut device, MEMORY, memory("amem_1", "create", tea)).await;
    let row = |stage: &Stage| {
        let sql =
            "SELECT pinned, archived, importance, confidence, content, tags FROM alicia_memory WHERE id = ?";
        stage.rows(sql, "amem_1").remove(0)
    };
    let expected = |pinned, archived| json!([pinned, archived, 0.5, 1.0, "likes tea", "[\"fact\"]"]);
    assert_eq!(row(&stage), expected(0, 0));
    for _ in 0..2 {
        confirmed(&mut device, MEMORY, memory("amem_1", "pin", Value::Null)).await;
        assert_eq!(row(&stage), expected(1, 0));
    }
    let off = json!({ "content": "ignored", "category": "context", "pinned": false });
    confirmed(&mut device, MEMORY, memory("amem_1", "pin", off)).await;
    assert_eq!(row(&stage), expected(0, 0));
    for (flags, pinned) in [(json!({ "pinned": true }), 1), (json!({}), 0)] {
        confirmed(&mut device, MEMORY, memory("amem_1", "pin", flags)).await;
        assert_eq!(row(&stage), expected(pinned, 0), "no content is needed");
    }
    for _ in 0..2 {
        let done = confirmed(&mut device, MEMORY, memory("amem_1", "archive", Value::Null)).await;
        assert_eq!(done.body, json!({ "memoryId": "amem_1", "action": "archive", "success": true }));
        assert_eq!(row(&stage), expected(0, 1));
    }
}

#[tokio::test]
async fn al_081_replies_come_in_the_order_of_their_requests() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let tea = json!({ "content": "likes tea" });
    device.send(FEEDBACK, vote("av_1", &answer, "up")).await;
    device.send(MEMORY, memory("amem_1", "create", tea)).await;
    device.send(NOTE, note("an_1", "am_1", "create", "x")).await;
    device.send(FEEDBACK, vote("av_2", &answer, "sideways")).await;
    device.send(COMMENTARY, json!({ "id": "aucc_1", "messageId": "", "content": "x" })).await;
    device.send(MEMORY, memory("amem_1", "pin", Value::Null)).await;
    device.expect([(0, FEEDBACK_DONE), (0, MEMORY_DONE), (0, NOTE_DONE)]).await;
    let rest = device.expect_all(&[(0, ERROR), (0, ACK), (0, MEMORY_DONE)]).await;
    rest[0].assert_error(105, true, "av_2");
}
