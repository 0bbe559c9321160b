//! Clients and servers that go away in the middle: AL-017, AL-034 to AL-036.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::hex;
use tokio::time::Instant;

use crate::device::{
    ACK, ASSISTANT, ERROR, Envelope, REASONING, REQUEST, RESULT, SENTENCE, START, STATS, USER, bytes, places,
};
use crate::puppet::{Called, Scene};
use crate::stage::Stage;
use crate::support::config;

#[tokio::test]
async fn al_017_stanzas_go_on_after_a_restart_and_after_a_crash() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut stage = stage.restart(&[]).await;
    let mut device = stage.ann().await;
    assert_eq!(device.resume(&conversation, -2).await, []);
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
    let mut stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    assert_eq!(device.resume(&conversation, -4).await, []);
    stage.turn(&mut device, -5, "am_3", "Yes.").await;
    let sql = "SELECT last_server_stanza_id FROM alicia_conversations WHERE id = ?";
    assert_eq!(stage.rows(sql, &conversation), [json!([-6])]);
}

#[tokio::test]
async fn al_017_no_stanza_that_was_sent_before_a_crash_is_used_again() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two. Thr").await;
    let seen = device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE)]).await;
    let mut stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -1).await;
    assert_eq!(bytes(&replayed[..2]), bytes(&seen[2..]));
    let stanzas: Vec<i64> = replayed.iter().map(|envelope| envelope.stanza).collect();
    assert_eq!(stanzas, (1..).map(|number: i64| -1 - number).take(stanzas.len()).collect::<Vec<_>>());
    stage.turn(&mut device, stanzas.last().unwrap() - 1, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_034_every_entry_is_in_the_database_when_it_arrives() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    for number in 0..5 {
        device.say(&format!("am_{number}"), "go").await;
        let scene = stage.scenes.next().await;
        scene.think("Hm.").await;
        scene.say("One. Two. Three").await;
        scene.tool("clock", Ok(json!({ "time": "12:00" }))).await;
        scene.answer(". Four.").await;
        let mut kinds = Vec::new();
        loop {
            let envelope = watching.next().await;
            if envelope.kind == STATS {
                break;
            }
            kinds.push(envelope.kind);
            if envelope.stanza < 0 {
                assert!(stage.has_logged(&envelope), "{envelope:?}");
            } else {
                let sql = "SELECT envelope FROM alicia_server_log WHERE conversation_id = ? AND ordinal > 0";
                assert!(stage.rows(sql, &conversation).contains(&json!([hex(&envelope.bytes)])));
            }
            let row = match envelope.kind {
                START => format!("alicia_messages WHERE id = '{}' AND conversation_id = ?", envelope.id()),
                SENTENCE => {
                    format!("alicia_sentences WHERE id = '{}' AND conversation_id = ?", envelope.id())
                }
                REQUEST => format!("alicia_tool_uses WHERE id = '{}' AND conversation_id = ?", envelope.id()),
                REASONING => {
                    format!("alicia_reasoning_steps WHERE id = '{}' AND conversation_id = ?", envelope.id())
                }
                _ => continue,
            };
            let rows = stage.rows(&format!("SELECT id FROM {row}"), &conversation);
            assert_eq!(rows, [json!([envelope.id()])], "{envelope:?}");
        }
        let expected = [USER, START, REASONING, SENTENCE, SENTENCE, REQUEST, RESULT, SENTENCE, SENTENCE];
        assert_eq!(kinds, expected);
    }
}

#[tokio::test]
async fn al_035_an_answer_goes_on_while_nobody_is_there() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    drop(device);
    // Agents may be silent for a while, before they begin and in between.
    for word in ["One. ", "Two. ", "Three. "] {
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.say(word).await;
    }
    scene.answer("Four.").await;
    // The end is told when it is in the log.
    let over = async {
        while stage.messages(&conversation)[1][4] != json!("completed") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), over).await.expect("the answer ends");
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -1).await;
    let texts: Vec<&str> = replayed.iter().map(|sentence| sentence.text("text")).collect();
    assert_eq!(texts, ["One.", "Two.", "Three.", "Four."]);
    assert_eq!(replayed[3].body["isFinal"], json!(true));
}

#[tokio::test]
async fn al_035_an_answer_that_takes_too_long_is_ended() {
    let mut stage = Stage::stored(&["alicia.limits.generation_s=4"]).await;
    let (mut device, conversation) = stage.begin().await;
    let begun = Instant::now();
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Tw").await;
    drop(device);
    scene.stopped().await;
    assert!(begun.elapsed() >= Duration::from_millis(3900), "not before its time: {:?}", begun.elapsed());
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -2).await;
    let [.., last, error] = &replayed[..] else { panic!("{replayed:#?}") };
    let row = &stage.messages(&conversation)[1];
    let answer = row[0].as_str().unwrap();
    assert_eq!(row[4], json!("failed"));
    last.assert_sentence(answer, last.body["sequence"].as_u64().unwrap(), "", true);
    error.assert_error(503, true, answer);
    stage.turn(&mut device, error.stanza - 1, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_035_five_minutes_are_the_default() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(config(folder.path(), &[]).alicia.limits.generation_s, 300);
}

#[tokio::test]
async fn al_036_an_answer_cut_by_a_crash_gets_its_final_sentence_and_a_501() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two. Thr").await;
    let [_, start, ..] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE)]).await;
    let answer = start.assert_start("am_1");
    let mut stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -3).await;
    let [.., last, error] = &replayed[..] else { panic!("{replayed:#?}") };
    last.assert_sentence(&answer, last.stanza.unsigned_abs() - 1, "", true);
    error.assert_error(501, true, &answer);
    let finals = replayed.iter().filter(|envelope| envelope.body["isFinal"] == true).count();
    assert_eq!(finals, 1, "{replayed:#?}");
    let row = &stage.messages(&conversation)[1];
    assert_eq!((&row[0], &row[4]), (&json!(answer), &json!("failed")));
    assert!(row[3].as_str().unwrap().starts_with("One. Two."), "the partial text stays: {row}");
    let statuses =
        "SELECT id FROM alicia_sentences WHERE conversation_id = ? AND completion_status != 'completed'";
    assert_eq!(stage.rows(statuses, &conversation), Vec::<Value>::new());
    stage.turn(&mut device, error.stanza - 1, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_036_an_answer_cut_before_its_first_word_is_ended_as_well() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let _scene = stage.scenes.next().await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let answer = start.assert_start("am_1");
    let stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -1).await;
    assert_eq!(places(&replayed), [(-2, SENTENCE), (-3, ERROR)], "{replayed:#?}");
    replayed[0].assert_sentence(&answer, 1, "", true);
    replayed[1].assert_error(501, true, &answer);
    assert_eq!(stage.messages(&conversation)[1][4], json!("failed"));
}

#[tokio::test]
async fn al_036_an_answer_is_ended_for_a_server_that_leaves_in_order_too() {
    let settings = ["drain.timeout_ms=500"];
    let mut stage = Stage::stored(&settings).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Tw").await;
    let [_, start, _] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE)]).await;
    let answer = start.assert_start("am_1");
    let stage = stage.restart(&settings).await;
    let mut device = stage.ann().await;
    let replayed = device.resume(&conversation, -2).await;
    let [.., last, error] = &replayed[..] else { panic!("{replayed:#?}") };
    last.assert_sentence(&answer, last.body["sequence"].as_u64().unwrap(), "", true);
    error.assert_error(501, true, &answer);
}

#[tokio::test]
async fn al_036_a_whole_answer_cut_by_a_crash_gets_an_error_that_names_the_question() {
    let mut stage = Stage::stored(&[]).await;
    let mut device = stage.ann().await;
    let conversation = device.create_with(&[]).await;
    device.say("am_0", "go").await;
    stage.scenes.next().await.answer("Yes.").await;
    device.expect([(0, ACK), (-1, ASSISTANT), (0, STATS)]).await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two.").await;
    device.expect([(0, ACK)]).await;
    let stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    let replayed = device.resume_with(&conversation, -1, &[]).await;
    assert_eq!(places(&replayed), [(0, USER), (-2, ERROR)], "{replayed:#?}");
    replayed[1].assert_error(501, true, "am_1");
}

/// A device that runs `clock`, and a turn that waits for it.
async fn waiting_for_clock(stage: &mut Stage) -> (String, Called, Scene, Envelope) {
    let mut device = stage.ann().await;
    let conversation = device.create_with(&["streaming", "tool:clock"]).await;
    device.say("am_1", "time?").await;
    let scene = stage.scenes.next().await;
    let called = scene.call("clock", json!({}), Duration::from_secs(20));
    let [.., request] = device.expect([(0, ACK), (-1, START), (-2, REQUEST)]).await;
    (conversation, called, scene, request)
}

#[tokio::test]
async fn al_024_an_open_tool_is_replayed_and_its_clock_is_not_started_again() {
    let mut stage = Stage::stored(&[]).await;
    let (conversation, called, scene, request) = waiting_for_clock(&mut stage).await;
    let mut device = stage.ann().await;
    let replayed = device.resume_with(&conversation, -1, &["streaming", "tool:clock"]).await;
    assert_eq!(bytes(&replayed), bytes(std::slice::from_ref(&request)), "the same time, the same bytes");
    let result = json!({ "id": request.id(), "success": true, "result": "12:00" });
    let stanza = device.send(RESULT, result).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!(called.end().await, Ok(json!("12:00")));
    scene.answer("Noon.").await;
    device.expect([(-3, SENTENCE), (0, STATS)]).await;
}

#[tokio::test]
async fn al_036_an_open_tool_does_not_outlive_its_answer() {
    let mut stage = Stage::stored(&[]).await;
    let (conversation, _called, _scene, request) = waiting_for_clock(&mut stage).await;
    let stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    let replayed = device.resume_with(&conversation, -2, &["streaming", "tool:clock"]).await;
    let [.., last, error] = &replayed[..] else { panic!("{replayed:#?}") };
    assert_eq!((last.kind, &last.body["isFinal"]), (SENTENCE, &json!(true)));
    assert_eq!((error.kind, &error.body["code"]), (ERROR, &json!(501)));
    // The client settles its view, and its late result harms nobody.
    let settled = replayed.iter().filter(|envelope| envelope.kind == RESULT).count();
    assert_eq!(settled, 1, "{replayed:#?}");
    let stanza = device.send(RESULT, json!({ "id": request.id(), "success": true, "result": "12:00" })).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    let sql = "SELECT status FROM alicia_tool_uses WHERE conversation_id = ?";
    let rows = stage.rows(sql, &conversation);
    assert!(rows == [json!(["cancelled"])] || rows == [json!(["error"])], "{rows:?}");
}

#[tokio::test]
async fn al_035_a_message_that_was_acknowledged_survives_a_crash_and_one_that_was_not_can_be_sent_again() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut stage = stage.crash(&[]).await;
    let mut device = stage.ann().await;
    device.resume(&conversation, -2).await;
    // As a client does that has lost the acknowledgement, and one whose message never arrived.
    let stanza = device.say("am_1", "am_1").await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
    assert_eq!(stage.messages(&conversation).len(), 4);
}
