//! The example sessions of the reference (§5.10), with their stanzas, one after another in one conversation.

use serde_json::json;

use crate::device::{
    ACK, CONFIGURATION, Device, INFO, MEMORY, MEMORY_DONE, OPTIONS, REQUEST, RESULT, SENTENCE, START, STATS,
    TRACE, TRANSCRIPTION, USER, VARIATION, bytes,
};
use crate::ear::Ear;
use crate::pack::{pack, pack_bin, pack_map};
use crate::stage::Stage;

/// The session "Text": a new conversation and its first turn.
async fn text(stage: &mut Stage) -> (Device, String) {
    let mut device = stage.ann().await;
    assert_eq!(device.configure("", 0, &["streaming"]).await, 1);
    let [own, ack, ..] =
        device.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
    ack.assert_ack(0, true);
    device.conversation.clone_from(&own.conversation);
    assert_eq!(device.say("am_1", "hello").await, 2);
    stage.scenes.next().await.answer("Hello. How are you?").await;
    let [ack, start, first, second, _] =
        device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (-3, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(2, true);
    let answer = start.assert_start("am_1");
    first.assert_sentence(&answer, 1, "Hello.", false);
    second.assert_sentence(&answer, 2, "How are you?", true);
    (device, own.conversation)
}

#[tokio::test]
async fn the_sessions_of_the_reference_in_one_conversation() {
    let ear = Ear::open([json!({ "text": "what time is it" })]).await;
    let mut stage = Stage::stored(&ear.settings()).await;
    let (mut device, conversation) = text(&mut stage).await;
    voice(&mut stage, &mut device).await;
    edit_while_streaming(&mut stage, &mut device).await;
    memory(&mut stage, &mut device).await;
    tool_failure_and_retry(&mut stage, &mut device).await;
    // And all of it is there for whoever was away.
    let mut other = stage.ann().await;
    let replayed = other.resume(&conversation, -1).await;
    let stanzas: Vec<i64> = replayed.iter().map(|e| e.stanza).filter(|stanza| *stanza < 0).collect();
    assert_eq!(stanzas, (-23..=-2).rev().collect::<Vec<_>>());
}

/// The audio comes in a chunk, since there is no track.
async fn voice(stage: &mut Stage, device: &mut Device) {
    let conversation = pack(&json!(device.conversation));
    let body = pack_map(&[
        ("conversationId", conversation.clone()),
        ("format", pack(&json!("audio/wav"))),
        ("sequence", pack(&json!(1))),
        ("durationMs", pack(&json!(900))),
        ("data", pack_bin(b"speech")),
        ("isLast", pack(&json!(true))),
    ]);
    device.stanza = 3;
    let envelope = [
        ("stanzaId", pack(&json!(3))),
        ("conversationId", conversation),
        ("type", pack(&json!(4))),
        ("body", body),
    ];
    device.send_bytes(pack_map(&envelope)).await;
    let scene = stage.scenes.next().await;
    scene.tool("clock", Ok(json!({ "time": "12:00" }))).await;
    scene.answer("It is noon.").await;
    let [heard, start, request, result, last, _] = device
        .expect([(-4, TRANSCRIPTION), (-5, START), (-6, REQUEST), (-7, RESULT), (-8, SENTENCE), (0, STATS)])
        .await;
    let answer = start.assert_start(heard.id());
    assert_eq!(request.text("execution"), "server");
    assert_eq!((&result.body["requestId"], &result.body["success"]), (&json!(request.id()), &json!(true)));
    last.assert_sentence(&answer, 1, "It is noon.", true);
}

async fn edit_while_streaming(stage: &mut Stage, device: &mut Device) {
    device.send_as(0, &device.conversation.clone(), USER, json!({ "id": "am_5", "content": "tea" })).await;
    let scene = stage.scenes.next().await;
    let [start] = device.expect([(-9, START)]).await;
    let old = start.assert_start("am_5");
    let edit = json!({ "targetId": "am_5", "mode": "edit", "newContent": "coffee" });
    assert_eq!(device.send(VARIATION, edit).await, 4);
    scene.stopped().await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "coffee");
    scene.answer("Coffee it is.").await;
    let got = device.until(|envelope| envelope.stanza == -12).await;
    let got: Vec<_> = got.into_iter().filter(|envelope| envelope.kind != STATS).collect();
    let [ack, ended, announced, start, last] = &got[..] else { panic!("{got:#?}") };
    ack.assert_ack(4, true);
    assert_eq!(ended.stanza, -10);
    ended.assert_sentence(&old, 1, "", true);
    assert_eq!((announced.stanza, announced.kind, announced.text("content")), (0, USER, "coffee"));
    assert_eq!(start.stanza, -11);
    let answer = start.assert_start(announced.id());
    last.assert_sentence(&answer, 1, "Coffee it is.", true);
    device.expect([(0, STATS)]).await;
}

/// The preference is stored by the person; the server finds it by itself.
async fn memory(stage: &mut Stage, device: &mut Device) {
    let memory = json!({ "content": "Is allergic to peanuts", "category": "fact" });
    let body = json!({ "id": "amem_1", "action": "create", "memory": memory, "timestamp": 1 });
    device.send_as(0, &device.conversation.clone(), MEMORY, body).await;
    device.expect([(0, MEMORY_DONE)]).await;
    let question = json!({ "id": "am_9", "content": "what am I allergic to" });
    assert_eq!(device.send(USER, question).await, 5);
    stage.scenes.next().await.answer("To peanuts.").await;
    let [_, start, trace, last, _] =
        device.expect([(0, ACK), (-13, START), (-14, TRACE), (-15, SENTENCE), (0, STATS)]).await;
    let answer = start.assert_start("am_9");
    assert_eq!((trace.text("memoryId"), trace.text("messageId")), ("amem_1", "am_9"));
    assert_eq!(trace.text("content"), "Is allergic to peanuts");
    let relevance = trace.body["relevance"].as_f64().unwrap();
    assert!((0.3..=1.0).contains(&relevance), "{relevance}");
    last.assert_sentence(&answer, 1, "To peanuts.", true);
}

async fn tool_failure_and_retry(stage: &mut Stage, device: &mut Device) {
    device.send_as(0, &device.conversation.clone(), USER, json!({ "id": "am_11", "content": "rain?" })).await;
    let scene = stage.scenes.next().await;
    scene.tool("weather", Err(("execution_error", "no line"))).await;
    scene.answer("I cannot say.").await;
    let [start, request, result, last, _] =
        device.expect([(-16, START), (-17, REQUEST), (-18, RESULT), (-19, SENTENCE), (0, STATS)]).await;
    let answer = start.assert_start("am_11");
    assert_eq!(request.text("execution"), "server");
    assert_eq!(
        (&result.body["success"], &result.body["errorCode"]),
        (&json!(false), &json!("execution_error"))
    );
    last.assert_sentence(&answer, 1, "I cannot say.", true);
    assert_eq!(device.send(VARIATION, json!({ "targetId": answer, "mode": "regenerate" })).await, 6);
    let scene = stage.scenes.next().await;
    scene.tool("weather", Ok(json!({ "rain": false }))).await;
    scene.answer("No.").await;
    let [ack, start, _, result, last, _] = device
        .expect([(0, ACK), (-20, START), (-21, REQUEST), (-22, RESULT), (-23, SENTENCE), (0, STATS)])
        .await;
    ack.assert_ack(6, true);
    let again = start.assert_start("am_11");
    assert_ne!(again, answer);
    assert_eq!(result.body["success"], json!(true));
    last.assert_sentence(&again, 1, "No.", true);
}

#[tokio::test]
async fn the_session_that_resumes_in_the_middle_of_an_answer() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = text(&mut stage).await;
    let mut watching = stage.follow(&conversation).await;
    device.say("am_3", "count").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two").await;
    device.expect([(0, ACK), (-4, START), (-5, SENTENCE)]).await;
    drop(device);
    scene.answer(". Three. Four.").await;
    let live = watching.until(|envelope| envelope.kind == STATS).await;
    let mut device = stage.ann().await;
    assert_eq!(device.configure(&conversation, -5, &["streaming"]).await, 1);
    let [own, ack, replayed @ ..] = device
        .expect([
            (0, CONFIGURATION),
            (0, ACK),
            (-6, SENTENCE),
            (-7, SENTENCE),
            (-8, SENTENCE),
            (0, INFO),
            (0, STATS),
            (0, OPTIONS),
        ])
        .await;
    assert_eq!(
        (&own.body["conversationId"], &own.body["lastSequenceSeen"]),
        (&json!(conversation), &json!(-8))
    );
    ack.assert_ack(-5, true);
    assert_eq!(bytes(&replayed[..3]), bytes(&live[live.len() - 4..live.len() - 1]));
    device.quiet().await;
}
