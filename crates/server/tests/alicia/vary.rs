//! Variations: AL-075 to AL-080.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::device::{ACK, ASSISTANT, Device, ERROR, SENTENCE, START, STATS, USER, VARIATION, bytes, places};
use crate::stage::Stage;

/// Number of each message in its conversation, by id.
fn number_of(stage: &Stage, message: &str) -> Value {
    stage.rows("SELECT sequence_number FROM alicia_messages WHERE id = ?", message).remove(0)[0].take()
}

/// An answer in one sentence that is asked for by something else than a message.
async fn answered(stage: &mut Stage, device: &mut Device, stanza: i64, first: i64, about: &str) -> String {
    stage.scenes.next().await.answer("Again.").await;
    let [ack, start, last, _] =
        device.expect([(0, ACK), (first, START), (first - 1, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(stanza, true);
    let answer = start.assert_start(about);
    last.assert_sentence(&answer, 1, "Again.", true);
    answer
}

#[tokio::test]
async fn al_075_regenerate_takes_question_or_answer_and_keeps_the_old() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza = device.send(VARIATION, json!({ "targetId": "am_1", "mode": "regenerate" })).await;
    let second = answered(&mut stage, &mut device, stanza, -3, "am_1").await;
    let stanza = device.send(VARIATION, json!({ "targetId": first, "mode": "regenerate" })).await;
    let third = answered(&mut stage, &mut device, stanza, -5, "am_1").await;
    let rows = [
        json!(["am_1", null, "user", "am_1", "completed"]),
        json!([first, "am_1", "assistant", "Yes.", "completed"]),
        json!([second, "am_1", "assistant", "Again.", "completed"]),
        json!([third, "am_1", "assistant", "Again.", "completed"]),
    ];
    let mut stored = stage.messages(&conversation);
    stored.sort_by_key(|row| rows.iter().position(|known| known[0] == row[0]));
    assert_eq!(stored, rows);
    let got = watching.until(|envelope| envelope.stanza == -6).await;
    let users = got.iter().filter(|envelope| envelope.kind == USER).count();
    assert_eq!(users, 1, "no UserMessage but the first: {got:#?}");
}

#[tokio::test]
async fn al_075_the_agent_is_asked_the_same_again() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.say("am_2", "the second question").await;
    let scene = stage.scenes.next().await;
    let (request, history) = (scene.request.clone(), scene.history.clone());
    scene.answer("No.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let answer = got[1].assert_start("am_2");
    device.send(VARIATION, json!({ "targetId": answer, "mode": "regenerate" })).await;
    let again = stage.scenes.next().await;
    assert_eq!((&again.request, &again.history), (&request, &history));
    again.finish().await;
}

#[tokio::test]
async fn al_075_regenerate_ends_what_is_under_way_first() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let old = start.assert_start("am_1");
    let stanza = device.send(VARIATION, json!({ "targetId": old, "mode": "regenerate" })).await;
    scene.stopped().await;
    stage.scenes.next().await.answer("Again.").await;
    let got = device.until(|envelope| envelope.stanza == -4).await;
    let order: Vec<(i64, u64)> = places(&got).into_iter().filter(|(_, kind)| *kind != STATS).collect();
    assert_eq!(order, [(0, ACK), (-2, SENTENCE), (-3, START), (-4, SENTENCE)]);
    got[0].assert_ack(stanza, true);
    got[1].assert_sentence(&old, 1, "", true);
}

#[tokio::test]
async fn al_076_a_question_edited_is_a_sibling_announced_and_answered() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let second = stage.turn(&mut device, -3, "am_2", "Yes.").await;
    let mut watching = stage.follow(&conversation).await;
    let edit = json!({ "targetId": "am_2", "mode": "edit", "newContent": "in other words" });
    let stanza = device.send(VARIATION, edit).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "in other words");
    scene.answer("Better.").await;
    let [ack, announced, start, last, _] =
        device.expect([(0, ACK), (0, USER), (-5, START), (-6, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(stanza, true);
    let new = announced.id().to_owned();
    assert!(new.starts_with("am_") && new != "am_2");
    assert_eq!((announced.text("content"), announced.text("previousId")), ("in other words", &*first));
    let answer = start.assert_start(&new);
    let seen = watching.expect([(0, USER), (-5, START), (-6, SENTENCE), (0, STATS)]).await;
    assert_eq!(bytes(&seen[..3]), bytes(&[announced, start, last]));
    assert_eq!(number_of(&stage, &new), number_of(&stage, "am_2"), "a sibling has the same number");
    let rows = stage.messages(&conversation);
    for row in [
        json!(["am_2", first, "user", "am_2", "completed"]),
        json!([second, "am_2", "assistant", "Yes.", "completed"]),
        json!([new, first, "user", "in other words", "completed"]),
        json!([answer, new, "assistant", "Better.", "completed"]),
    ] {
        assert!(rows.contains(&row), "{row} is not in {rows:#?}");
    }
    assert_eq!(stage.tip(&conversation), json!(answer));
}

#[tokio::test]
async fn al_076_the_first_question_can_be_edited_too() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.send(VARIATION, json!({ "targetId": "am_1", "mode": "edit", "newContent": "first, again" })).await;
    let scene = stage.scenes.next().await;
    assert_eq!((scene.request.as_str(), scene.history.len()), ("first, again", 0));
    scene.answer("Yes.").await;
    let [_, announced, ..] =
        device.expect([(0, ACK), (0, USER), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    assert!(announced.body["previousId"].is_null(), "{announced:?}");
    let rows = stage.messages(&conversation);
    assert!(rows.contains(&json!([announced.id(), null, "user", "first, again", "completed"])));
}

#[tokio::test]
async fn al_076_an_edit_without_words_is_refused() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for target in ["am_1", answer.as_str()] {
        let stanza =
            device.send(VARIATION, json!({ "targetId": target, "mode": "edit", "newContent": " " })).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(105, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
}

#[tokio::test]
async fn al_077_an_edit_waits_for_its_message() {
    for previous in [json!(null), json!("am_2")] {
        let mut stage = Stage::stored(&[]).await;
        let (mut device, conversation) = stage.begin().await;
        let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
        stage.turn(&mut device, -3, "am_2", "Yes.").await;
        let stanza = device.send(VARIATION, json!({ "targetId": "am_2", "mode": "edit" })).await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
        stage.scenes.assert_none();
        let body = json!({ "id": "am_3", "previousId": previous, "content": "in other words" });
        let stanza = device.send(USER, body).await;
        stage.scenes.next().await.answer("Better.").await;
        let [ack, start, ..] = device.expect([(0, ACK), (-5, START), (-6, SENTENCE), (0, STATS)]).await;
        ack.assert_ack(stanza, true);
        start.assert_start("am_3");
        let row = json!(["am_3", first, "user", "in other words", "completed"]);
        assert!(stage.messages(&conversation).contains(&row));
        assert_eq!(number_of(&stage, "am_3"), number_of(&stage, "am_2"));
    }
}

#[tokio::test]
async fn al_077_an_edit_whose_message_does_not_come_is_over() {
    let mut stage = Stage::stored(&["alicia.limits.edit_s=1"]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let begun = Instant::now();
    device.send(VARIATION, json!({ "targetId": "am_1", "mode": "edit" })).await;
    let [_, error] = device.expect([(0, ACK), (0, ERROR)]).await;
    assert!(begun.elapsed() >= Duration::from_millis(950), "{:?}", begun.elapsed());
    assert_eq!((&error.body["code"], &error.body["recoverable"]), (&json!(202), &json!(true)));
    assert_eq!(stage.tip(&conversation), json!(answer));
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
    let row = json!(["am_2", answer, "user", "am_2", "completed"]);
    assert!(stage.messages(&conversation).contains(&row), "an ordinary message");
}

#[tokio::test]
async fn al_078_an_answer_edited_keeps_its_id_and_is_told_whole() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    watching.until(|envelope| envelope.kind == STATS).await;
    let edit = json!({ "targetId": answer, "mode": "edit", "newContent": "No, rather not." });
    let stanza = device.send(VARIATION, edit).await;
    let [ack, whole] = device.expect([(0, ACK), (-3, ASSISTANT)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!((whole.id(), whole.text("content")), (&*answer, "No, rather not."));
    assert_eq!(whole.text("previousId"), "am_1");
    let [seen] = watching.expect([(-3, ASSISTANT)]).await;
    assert_eq!(seen, whole);
    device.quiet().await;
    stage.scenes.assert_none();
    let rows = stage.messages(&conversation);
    assert_eq!(rows[1], json!([answer, "am_1", "assistant", "No, rather not.", "completed"]));
    assert_eq!(rows.len(), 2);
    // Whoever answers next knows the new words.
    device.say("am_2", "sure?").await;
    let scene = stage.scenes.next().await;
    assert!(scene.history.contains(&"No, rather not.".to_owned()), "{:?}", scene.history);
    scene.finish().await;
}

#[tokio::test]
async fn al_078_an_answer_is_not_edited_without_words() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza = device.send(VARIATION, json!({ "targetId": answer, "mode": "edit" })).await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    assert!(matches!(error.body["code"].as_u64(), Some(101 | 105 | 202)), "{error:?}");
    ack.assert_ack(stanza, false);
    stage.turn(&mut device, -3, "am_2", "Nothing waits for this.").await;
}

#[tokio::test]
async fn al_079_continue_adds_a_child_of_its_target() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza = device.send(VARIATION, json!({ "targetId": first, "mode": "continue" })).await;
    let second = answered(&mut stage, &mut device, stanza, -3, &first).await;
    let rows = stage.messages(&conversation);
    assert_eq!(rows.len(), 3, "{rows:#?}");
    assert!(rows.contains(&json!([first, "am_1", "assistant", "Yes.", "completed"])));
    assert!(rows.contains(&json!([second, first, "assistant", "Again.", "completed"])));
    assert_eq!(stage.tip(&conversation), json!(second));
    stage.turn(&mut device, -5, "am_2", "Yes.").await;
    assert!(stage.messages(&conversation).contains(&json!(["am_2", second, "user", "am_2", "completed"])));
}

#[tokio::test]
async fn al_079_retry_is_regenerate() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza = device.send(VARIATION, json!({ "targetId": first, "mode": "retry" })).await;
    let second = answered(&mut stage, &mut device, stanza, -3, "am_1").await;
    assert!(stage.messages(&conversation).contains(&json!([
        second,
        "am_1",
        "assistant",
        "Again.",
        "completed"
    ])));
}

#[tokio::test]
async fn al_079_what_cannot_be_varied_is_refused() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for (body, code) in [
        (json!({ "targetId": "am_1", "mode": "continue" }), 202),
        (json!({ "targetId": "am_of_nobody", "mode": "regenerate" }), 203),
        (json!({ "targetId": answer, "mode": "improve" }), 101),
        (json!({ "targetId": answer }), 101),
        (json!({ "targetId": "", "mode": "regenerate" }), 101),
    ] {
        let stanza = device.send(VARIATION, body).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(code, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_080_the_tip_follows_the_newest_message_of_the_active_path() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "one").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    assert_eq!(stage.tip(&conversation), json!("am_1"), "the answer is not there yet");
    scene.answer("Yes.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let first = got[0].body["previousId"].clone();
    assert_eq!(stage.tip(&conversation), first);
    let second = stage.turn(&mut device, -3, "am_2", "Yes.").await;
    assert_eq!(stage.tip(&conversation), json!(second));
    // A branch: it begins elsewhere, and is the active path from now on.
    device.send(USER, json!({ "id": "am_3", "previousId": first, "content": "or else" })).await;
    let scene = stage.scenes.next().await;
    assert!(!scene.history.contains(&"am_2".to_owned()), "{:?}", scene.history);
    scene.answer("Else.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let third = got[1].assert_start("am_3");
    assert_eq!(stage.tip(&conversation), json!(third));
    let rows = stage.messages(&conversation);
    assert!(rows.contains(&json!(["am_3", first, "user", "or else", "completed"])), "{rows:#?}");
    assert_eq!(rows.len(), 6);
    // What follows follows the branch.
    stage.turn(&mut device, -7, "am_4", "Yes.").await;
    assert!(stage.messages(&conversation).contains(&json!(["am_4", third, "user", "am_4", "completed"])));
}
