//! Turns, from question to answer: AL-041 to AL-050.

use serde_json::{Value, json};

use crate::device::{
    ACK, ASSISTANT, ERROR, Envelope, SENTENCE, START, STATS, STOP, SUBSCRIBE, SUBSCRIBED, USER, places,
};
use crate::stage::Stage;

#[tokio::test]
async fn al_041_a_message_is_stored_before_it_is_acknowledged() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for number in 0..20 {
        let id = format!("am_{number}");
        let stanza = device.say(&id, "hello").await;
        let [ack] = device.expect([(0, ACK)]).await;
        let sql = format!(
            "SELECT message_role, contents, completion_status, sequence_number FROM alicia_messages \
             WHERE conversation_id = ? AND id = '{id}'"
        );
        assert_eq!(stage.rows(&sql, &conversation), [json!(["user", "hello", "completed", 2 * number + 1])]);
        ack.assert_ack(stanza, true);
        stage.scenes.next().await.answer("Yes.").await;
        device.until(|envelope| envelope.kind == STATS).await;
    }
}

#[tokio::test]
async fn al_041_a_message_is_acknowledged_before_its_answer_starts() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    for number in 0..20 {
        stage.turn(&mut device, -1 - 2 * number, &format!("am_{number}"), "Yes.").await;
    }
}

#[tokio::test]
async fn al_042_the_stored_id_is_that_of_the_client() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_mine_ABCdef0123456789-_", "Yes.").await;
    let next = stage.turn(&mut device, -3, "am_next", "No.").await;
    let rows = [
        json!(["am_mine_ABCdef0123456789-_", null, "user", "am_mine_ABCdef0123456789-_", "completed"]),
        json!([answer, "am_mine_ABCdef0123456789-_", "assistant", "Yes.", "completed"]),
        json!(["am_next", answer, "user", "am_next", "completed"]),
        json!([next, "am_next", "assistant", "No.", "completed"]),
    ];
    assert_eq!(stage.messages(&conversation), rows);
}

#[tokio::test]
async fn al_043_a_repeated_message_is_acknowledged_and_starts_nothing() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let stanza = device.say("am_1", "hello").await;
    let [ack, _] = device.expect([(0, ACK), (-1, START)]).await;
    ack.assert_ack(stanza, true);
    // While it is answered, from here and from elsewhere.
    let mut other = stage.follow(&conversation).await;
    for device in [&mut device, &mut other] {
        let stanza = device.say("am_1", "hello").await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
    }
    let scene = stage.scenes.next().await;
    stage.scenes.assert_none();
    scene.answer("Yes.").await;
    for device in [&mut device, &mut other] {
        device.expect([(-2, SENTENCE), (0, STATS)]).await;
    }
    // And after that, even where the server is another.
    let stanza = device.say("am_1", "hello").await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    let mut stage = stage.restart(&[]).await;
    let mut device = stage.ann().await;
    device.resume(&conversation, -2).await;
    let stanza = device.say("am_1", "hello").await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 2);
}

#[tokio::test]
async fn al_044_another_text_under_the_same_id_is_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for (id, content) in [("am_1", "something else"), (answer.as_str(), "Yes.")] {
        let stanza = device.say(id, content).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        assert_eq!((&error.body["code"], &error.body["originatingId"]), (&json!(202), &json!(id)));
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
    let contents: Vec<Value> = stage.messages(&conversation).iter().map(|row| row[3].clone()).collect();
    assert_eq!(contents, ["am_1", "Yes."]);
}

#[tokio::test]
async fn al_044_the_same_message_in_another_conversation_is_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, first) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let second = device.create().await;
    let stanza = device.say("am_1", "am_1").await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    assert_eq!((&error.body["code"], &error.body["originatingId"]), (&json!(202), &json!("am_1")));
    ack.assert_ack(stanza, false);
    device.quiet().await;
    assert_eq!((stage.messages(&first).len(), stage.messages(&second).len()), (2, 0));
}

#[tokio::test]
async fn al_045_a_message_without_content_is_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for content in ["", "  ", "\n\t "] {
        let stanza = device.say("am_1", content).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(105, true, "am_1");
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation), Vec::<Value>::new());
    stage.turn(&mut device, -1, "am_1", "The id is still free.").await;
}

#[tokio::test]
async fn al_045_a_message_behind_an_unknown_one_is_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, elsewhere) = stage.begin().await;
    stage.turn(&mut device, -1, "am_elsewhere", "Yes.").await;
    let conversation = device.create().await;
    for previous in ["am_of_nobody", "am_elsewhere"] {
        let body = json!({ "id": "am_1", "previousId": previous, "content": "hi" });
        let stanza = device.send(USER, body).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(203, true, "am_1");
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!((stage.messages(&elsewhere).len(), stage.messages(&conversation).len()), (2, 0));
}

#[tokio::test]
async fn al_045_a_message_may_have_65536_bytes_and_no_more() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let stanza = device.say("am_1", &"x".repeat(65_537)).await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    error.assert_error(104, true, "am_1");
    ack.assert_ack(stanza, false);
    device.say("am_1", &"x".repeat(65_536)).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request.len(), 65_536);
    scene.finish().await;
    device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
}

/// The sentences of an answer: exactly one is final, and it is the last.
fn assert_one_final(sentences: &[Envelope]) {
    let last: Vec<bool> = sentences.iter().map(|sentence| sentence.body["isFinal"] == true).collect();
    let expected: Vec<bool> = (1..=sentences.len()).map(|number| number == sentences.len()).collect();
    assert!(!sentences.is_empty() && last == expected, "{sentences:#?}");
}

#[tokio::test]
async fn al_046_every_answer_has_one_final_sentence_and_it_is_the_last() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    let texts = ["", "no end", "One.", "One. ", "One. Two. Three.", "Line\nLine\n", "1. Item\n2. Item", "🦀"];
    for (number, text) in texts.iter().enumerate() {
        device.say(&format!("am_{number}"), "go").await;
        let scene = stage.scenes.next().await;
        // A character at a time, as models do.
        for character in text.chars() {
            scene.say(&character.to_string()).await;
        }
        scene.finish().await;
        let got = device.until(|envelope| envelope.kind == STATS).await;
        let kinds: Vec<u64> = got.iter().map(|envelope| envelope.kind).collect();
        assert_eq!((kinds[0], kinds[1]), (ACK, START), "{got:#?}");
        assert!(kinds[2..kinds.len() - 1].iter().all(|kind| *kind == SENTENCE), "{got:#?}");
        assert_one_final(&got[2..got.len() - 1]);
    }
    device.quiet().await;
}

#[tokio::test]
async fn al_047_sentences_name_their_answer_and_count_from_one() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    for turn in 0..2 {
        let id = format!("am_{turn}");
        device.say(&id, "count").await;
        let scene = stage.scenes.next().await;
        scene.say("One. Two").await;
        scene.tool("clock", Ok(json!({}))).await;
        scene.answer(". Three.").await;
        let got = device.until(|envelope| envelope.kind == STATS).await;
        let answer = got[1].assert_start(&id);
        let sentences: Vec<&Envelope> = got.iter().filter(|e| e.kind == SENTENCE).collect();
        let texts = ["One.", "Two.", "Three."];
        assert_eq!(sentences.len(), texts.len(), "{got:#?}");
        for (number, (sentence, text)) in (1..).zip(sentences.iter().zip(texts)) {
            sentence.assert_sentence(&answer, number, text, number == 3);
        }
    }
}

#[tokio::test]
async fn al_048_an_answer_is_streamed_or_whole_for_everybody() {
    let mut stage = Stage::stored(&[]).await;
    let (mut streaming, conversation) = stage.begin().await;
    let mut whole = stage.ann().await;
    whole.resume_with(&conversation, 0, &[]).await;
    streaming.say("am_1", "stream").await;
    stage.scenes.next().await.answer("One. Two.").await;
    streaming.expect([(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE), (0, STATS)]).await;
    whole.expect([(0, USER), (-1, START), (-2, SENTENCE), (-3, SENTENCE), (0, STATS)]).await;
    whole.say("am_2", "whole").await;
    stage.scenes.next().await.answer("One. Two.").await;
    whole.expect([(0, ACK), (-4, ASSISTANT), (0, STATS)]).await;
    streaming.expect([(0, USER), (-4, ASSISTANT), (0, STATS)]).await;
    let mut late = stage.ann().await;
    let replayed = late.resume(&conversation, -1).await;
    assert_eq!(places(&replayed), [(-2, SENTENCE), (-3, SENTENCE), (0, USER), (-4, ASSISTANT)]);
}

#[tokio::test]
async fn al_049_who_does_not_stream_gets_an_assistant_message() {
    let mut stage = Stage::stored(&[]).await;
    for features in [vec![], vec!["tool_use", "reasoning_steps", "no_such_feature"]] {
        let mut device = stage.ann().await;
        let conversation = device.create_with(&features).await;
        let stanza = device.say("am_1", "hi").await;
        stage.scenes.next().await.answer("One. Two.\n\nThree.").await;
        let [ack, whole, _] = device.expect([(0, ACK), (-1, ASSISTANT), (0, STATS)]).await;
        ack.assert_ack(stanza, true);
        assert_eq!(whole.body["previousId"], json!("am_1"));
        assert_eq!(whole.body["content"], json!("One. Two.\n\nThree."));
        assert_eq!(stage.messages(&conversation)[1][3], json!("One. Two.\n\nThree."));
        // Ids are unique to their owner, not to a conversation.
        stage = Stage::stored(&[]).await;
    }
}

#[tokio::test]
async fn al_049_partial_responses_stand_for_streaming() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&["partial_responses"]).await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_049_who_only_subscribes_does_not_stream() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    let mut other = stage.ann().await;
    other.send_to(&conversation, SUBSCRIBE, json!({})).await;
    other.expect([(0, SUBSCRIBED)]).await;
    other.conversation = conversation;
    other.say("am_1", "hi").await;
    stage.scenes.next().await.answer("Yes.").await;
    other.expect([(0, ACK), (-1, ASSISTANT), (0, STATS)]).await;
}

/// The joining rule: one space, unless there is white space already.
fn joined(sentences: &[&str]) -> String {
    let mut text = String::new();
    for sentence in sentences {
        let apart = text.chars().last().is_none_or(char::is_whitespace)
            || sentence.chars().next().is_none_or(char::is_whitespace);
        if !apart {
            text.push(' ');
        }
        text.push_str(sentence);
    }
    text
}

#[tokio::test]
async fn al_050_joined_sentences_are_the_stored_text() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let long = format!("{} {}", "word ".repeat(4000), "x".repeat(20_000));
    let texts = [
        "One. Two.  Three!\n\nFour? Yes... no.",
        "# Title\n\n* a\n* b\n\n```rust\nfn main() {}\n```\nDone.",
        "e.g. this, 3.14 and v1.2.3 are no ends. \"Quoted.\" Then (more.) End",
        "日本語の文。もう一つ。\n終わり",
        "  leading and trailing  \n",
        long.as_str(),
    ];
    for (number, text) in texts.iter().enumerate() {
        let id = format!("am_{number}");
        device.say(&id, "go").await;
        stage.scenes.next().await.answer(text).await;
        let got = device.until(|envelope| envelope.kind == STATS).await;
        let sentences: Vec<&str> =
            got.iter().filter(|e| e.kind == SENTENCE).map(|sentence| sentence.text("text")).collect();
        assert!(sentences.iter().all(|sentence| sentence.len() <= 8192), "sizes");
        let sql = format!(
            "SELECT contents FROM alicia_messages WHERE conversation_id = ? AND previous_id = '{id}'"
        );
        let stored = stage.rows(&sql, &conversation);
        assert_eq!(stored, [json!([joined(&sentences)])], "{sentences:?}");
        let rows = format!(
            "SELECT s.text FROM alicia_sentences s JOIN alicia_messages m ON s.message_id = m.id \
             WHERE s.conversation_id = ? AND m.previous_id = '{id}' ORDER BY s.sentence_sequence_number"
        );
        let rows = stage.rows(&rows, &conversation);
        assert_eq!(rows, sentences.iter().map(|text| json!([text])).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn al_050_what_was_said_before_a_stop_is_stored() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two. Thr").await;
    device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE)]).await;
    device.send(STOP, json!({})).await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let rest: Vec<&str> = got.iter().filter(|e| e.kind == SENTENCE).map(|s| s.text("text")).collect();
    let sentences = [vec!["One.", "Two."], rest].concat();
    assert_eq!(stage.messages(&conversation)[1][3], json!(joined(&sentences)));
}
