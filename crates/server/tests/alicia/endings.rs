//! How answers end otherwise, and what comes with them: AL-051 to AL-054.

use serde_json::{Value, json};
use switchboard_core::model::FailureKind;

use crate::device::{ACK, ASSISTANT, ERROR, REASONING, SENTENCE, START, STATS, TRACE, USER, places};
use crate::stage::Stage;
use crate::support::ANN;

#[tokio::test]
async fn al_051_a_new_message_ends_the_old_answer_with_its_final_sentence_first() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "first").await;
    let old = stage.scenes.next().await;
    old.say("One. Tw").await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let first = start.assert_start("am_1");
    let stanza = device.say("am_2", "second").await;
    old.stopped().await;
    let new = stage.scenes.next().await;
    assert_eq!(new.request, "second");
    new.answer("Yes.").await;
    let got = device
        .until(|e| e.kind == SENTENCE && e.body["previousId"] != json!(first) && e.body["isFinal"] == true)
        .await;
    let ack = got.iter().find(|e| e.kind == ACK).expect("an acknowledgement");
    ack.assert_ack(stanza, true);
    let order: Vec<(i64, u64)> = places(&got).into_iter().filter(|(stanza, _)| *stanza < 0).collect();
    let last = got.iter().rfind(|e| e.body["previousId"] == json!(first) && e.kind == SENTENCE).unwrap();
    assert_eq!(last.body["isFinal"], json!(true));
    assert_eq!(order.last(), Some(&(last.stanza - 2, SENTENCE)), "{got:#?}");
    assert!(order.contains(&(last.stanza - 1, START)), "{got:#?}");
    let finals = got.iter().filter(|e| e.kind == SENTENCE && e.body["isFinal"] == true).count();
    assert_eq!(finals, 2, "{got:#?}");
    let rows = stage.messages(&conversation);
    assert_eq!((&rows[1][0], &rows[1][4]), (&json!(first), &json!("completed")), "{rows:?}");
    let sql = "SELECT key, value FROM alicia_meta WHERE ref = ?";
    assert!(stage.rows(sql, &first).contains(&json!(["truncated", "superseded"])));
}

#[tokio::test]
async fn al_051_a_new_message_from_another_device_ends_the_answer_as_well() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut other = stage.ann().await;
    other.resume(&conversation, 0).await;
    device.say("am_1", "first").await;
    let old = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    other.expect([(0, USER), (-1, START)]).await;
    other.say("am_2", "second").await;
    old.stopped().await;
    stage.scenes.next().await.answer("Yes.").await;
    let got = device.until(|envelope| envelope.stanza == -4).await;
    let got: Vec<(i64, u64)> = places(&got).into_iter().filter(|(_, kind)| *kind != STATS).collect();
    assert_eq!(got, [(-2, SENTENCE), (0, USER), (-3, START), (-4, SENTENCE)]);
}

#[tokio::test]
async fn al_052_a_failure_behind_the_start_ends_the_answer_and_names_it() {
    for (kind, code) in [(FailureKind::Internal, 501), (FailureKind::ModelUnavailable, 502)] {
        let mut stage = Stage::stored(&[]).await;
        let (mut device, conversation) = stage.begin().await;
        device.say("am_1", "go").await;
        let scene = stage.scenes.next().await;
        scene.say("One. Two. Thr").await;
        scene.fail(kind, "it broke").await;
        let mut got = device.until(|envelope| envelope.kind == ERROR).await;
        assert_eq!(places(&got[..4]), [(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE)]);
        let answer = got[1].assert_start("am_1");
        let error = got.pop().unwrap();
        let last = got.pop().unwrap();
        assert!(last.stanza < -3 && error.stanza == last.stanza - 1, "{last:?} {error:?}");
        last.assert_sentence(&answer, last.stanza.unsigned_abs() - 1, "", true);
        error.assert_error(code, true, &answer);
        let row = &stage.messages(&conversation)[1];
        assert_eq!((&row[0], &row[4]), (&json!(answer), &json!("failed")));
        assert!(row[3].as_str().unwrap().starts_with("One. Two."), "{row}");
        let mut late = stage.ann().await;
        let replayed = late.resume(&conversation, last.stanza + 1).await;
        assert_eq!(replayed, [last, error]);
    }
}

#[tokio::test]
async fn al_052_a_failure_of_a_whole_answer_names_the_question() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&[]).await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. ").await;
    scene.fail(FailureKind::ModelUnavailable, "it broke").await;
    let [_, error] = device.expect([(0, ACK), (-1, ERROR)]).await;
    error.assert_error(502, true, "am_1");
}

#[tokio::test]
async fn al_052_the_turn_after_a_failure_is_answered() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go").await;
    stage.scenes.next().await.fail(FailureKind::Internal, "it broke").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(places(&got), [(0, ACK), (-1, START), (-2, SENTENCE), (-3, ERROR), (0, STATS)]);
    stage.turn(&mut device, -4, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_053_a_memory_trace_has_its_similarity_and_the_question() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "tea?").await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.875).await;
    scene.remember("amem_2", "hates coffee", 0.75).await;
    scene.answer("Yes.").await;
    let [_, _, first, second, _, stats] =
        device.expect([(0, ACK), (-1, START), (-2, TRACE), (-3, TRACE), (-4, SENTENCE), (0, STATS)]).await;
    for (trace, memory, content, relevance) in
        [(&first, "amem_1", "likes tea", 0.875), (&second, "amem_2", "hates coffee", 0.75)]
    {
        let body = json!({
            "id": trace.id(), "messageId": "am_1", "conversationId": conversation, "memoryId": memory,
            "content": content, "relevance": relevance,
        });
        assert_eq!(trace.body, body);
        assert!(trace.id().starts_with("amu_"));
    }
    assert_eq!(stats.body["memoriesUsed"], json!(2));
    let sql = "SELECT id, message_id, memory_id, similarity_score, position_in_results FROM alicia_memory_used \
               WHERE conversation_id = ? ORDER BY position_in_results";
    let rows =
        [json!([first.id(), "am_1", "amem_1", 0.875, 1]), json!([second.id(), "am_1", "amem_2", 0.75, 2])];
    assert_eq!(stage.rows(sql, &conversation), rows);
}

#[tokio::test]
async fn al_053_in_a_whole_answer_traces_come_before_it() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&[]).await;
    device.say("am_1", "tea?").await;
    let scene = stage.scenes.next().await;
    scene.remember("amem_1", "likes tea", 0.9).await;
    scene.think("Hm.").await;
    scene.answer("Yes.").await;
    let [_, trace, whole, thought, _] =
        device.expect([(0, ACK), (-1, TRACE), (-2, ASSISTANT), (-3, REASONING), (0, STATS)]).await;
    assert_eq!(trace.body["messageId"], json!("am_1"));
    assert_eq!(thought.body["messageId"], json!(whole.id()));
}

#[tokio::test]
async fn al_054_a_reasoning_step_has_the_answer_and_counts_from_one() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "think").await;
    let scene = stage.scenes.next().await;
    scene.think("First thought.").await;
    scene.say("One. T").await;
    scene.think("Second thought.").await;
    scene.answer("wo.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let answer = got[1].assert_start("am_1");
    let thoughts: Vec<_> = got.iter().filter(|e| e.kind == REASONING).collect();
    let contents = ["First thought.", "Second thought."];
    assert_eq!(thoughts.len(), 2, "{got:#?}");
    for (number, (thought, content)) in (1..).zip(thoughts.iter().zip(contents)) {
        let body = json!({
            "id": thought.id(), "messageId": answer, "conversationId": conversation, "sequence": number,
            "content": content,
        });
        assert_eq!(thought.body, body);
        assert!(thought.id().starts_with("ar_") && thought.stanza < 0);
    }
    let last = got.iter().rposition(|e| e.kind == SENTENCE).unwrap();
    assert!(got.iter().rposition(|e| e.kind == REASONING).unwrap() < last, "between start and end: {got:#?}");
    let sql = "SELECT id, message_id, sequence_number, content FROM alicia_reasoning_steps \
               WHERE conversation_id = ? ORDER BY sequence_number";
    let rows: Vec<Value> = (1..)
        .zip(&thoughts)
        .map(|(number, thought)| json!([thought.id(), answer, number, thought.body["content"]]))
        .collect();
    assert_eq!(stage.rows(sql, &conversation), rows);
}

#[tokio::test]
async fn al_054_no_reasoning_is_sent_where_it_is_not_wanted() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let (status, answer) = stage
        .http(
            &format!("PATCH /api/v1/conversations/{conversation}"),
            ANN,
            &json!({ "preferences": { "enable_reasoning": false } }),
        )
        .await;
    assert_eq!(status, 200, "{answer}");
    device.say("am_1", "think").await;
    let scene = stage.scenes.next().await;
    scene.think("In secret.").await;
    scene.answer("Yes.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let sequenced: Vec<(i64, u64)> = places(&got).into_iter().filter(|(stanza, _)| *stanza < 0).collect();
    assert_eq!(sequenced, [(-1, START), (-2, SENTENCE)]);
}
