//! What does not fit on the wire: AL-049, AL-052, AL-053, AL-069 at their bounds.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::FailureKind;

use crate::device::{ACK, ASSISTANT, ERROR, REASONING, REQUEST, RESULT, SENTENCE, START, STATS, TRACE};
use crate::stage::Stage;

const FRAME: usize = 1 << 20;

#[tokio::test]
async fn al_049_a_whole_answer_that_does_not_fit_is_streamed() {
    let mut stage = Stage::stored(&[]).await;
    let mut device = stage.ann().await;
    let conversation = device.create_with(&[]).await;
    device.say("am_1", "a book, please").await;
    let scene = stage.scenes.next().await;
    let page = "Lorem ipsum dolor sit amet. ".repeat(2000);
    for _ in 0..25 {
        scene.say(&page).await;
    }
    scene.finish().await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert!(got.iter().all(|envelope| envelope.bytes.len() <= FRAME), "frames");
    let kinds: Vec<u64> = got.iter().map(|envelope| envelope.kind).collect();
    assert!(kinds.contains(&START) && !kinds.contains(&ASSISTANT), "{:?}", &kinds[..3]);
    let stored = stage.messages(&conversation).remove(1);
    assert_eq!((stored[3].as_str().unwrap().len() + 1) / 28, 50_000);
}

#[tokio::test]
async fn al_049_a_whole_answer_that_fits_is_whole() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&[]).await;
    device.say("am_1", "a chapter, please").await;
    let page = "Lorem ipsum dolor sit amet. ".repeat(10_000);
    stage.scenes.next().await.answer(page.trim()).await;
    let [_, whole, _] = device.expect([(0, ACK), (-1, ASSISTANT), (0, STATS)]).await;
    assert_eq!(whole.text("content"), page.trim());
}

#[tokio::test]
async fn al_069_a_result_that_does_not_fit_is_shown_in_part_and_stored_whole() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "read it").await;
    let scene = stage.scenes.next().await;
    let text = "x".repeat(FRAME + 1000);
    scene.tool("read", Ok(json!({ "text": text }))).await;
    scene.answer("Read.").await;
    let [_, _, _, result, ..] =
        device.expect([(0, ACK), (-1, START), (-2, REQUEST), (-3, RESULT), (-4, SENTENCE), (0, STATS)]).await;
    assert!(result.bytes.len() <= FRAME, "{}", result.bytes.len());
    assert_eq!(result.body["success"], json!(true));
    let shown = &result.body["result"];
    assert_eq!(shown["truncated"], json!(true));
    assert!(shown["bytes"].as_u64().unwrap() > FRAME as u64 && shown["preview"].is_string());
    let sql = "SELECT tool_result FROM alicia_tool_uses WHERE conversation_id = ?";
    let stored: Value = serde_json::from_str(stage.rows(sql, &conversation)[0][0].as_str().unwrap()).unwrap();
    assert_eq!(stored, json!({ "text": text }));
}

#[tokio::test]
async fn al_053_of_a_long_memory_a_snippet_is_shown() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "remember?").await;
    let scene = stage.scenes.next().await;
    let memory = "ü".repeat(3000);
    scene.remember("amem_1", &memory, 0.9).await;
    scene.answer("Yes.").await;
    let [_, _, trace, ..] =
        device.expect([(0, ACK), (-1, START), (-2, TRACE), (-3, SENTENCE), (0, STATS)]).await;
    let shown = trace.text("content");
    assert!(
        (1000..=1024).contains(&shown.len()) && memory.starts_with(shown.trim_end_matches('…')),
        "{}",
        shown.len()
    );
}

#[tokio::test]
async fn al_052_the_words_of_an_error_are_bounded() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go").await;
    stage.scenes.next().await.fail(FailureKind::Internal, &"ä".repeat(5000)).await;
    let got = device.until(|envelope| envelope.kind == ERROR).await;
    let length = got.last().unwrap().text("message").len();
    assert!((1..=2048).contains(&length), "{length}");
}

#[tokio::test]
async fn al_054_a_thought_that_does_not_fit_is_several() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "think").await;
    let scene = stage.scenes.next().await;
    for _ in 0..40 {
        scene.think(&"thinking and thinking ".repeat(1500)).await;
    }
    scene.answer("Done.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let thoughts: Vec<_> = got.iter().filter(|envelope| envelope.kind == REASONING).collect();
    assert!(thoughts.iter().all(|thought| thought.bytes.len() <= FRAME), "frames");
    let numbers: Vec<u64> =
        thoughts.iter().map(|thought| thought.body["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>());
    let whole: usize =
        thoughts.iter().map(|thought| thought.text("content").matches("thinking").count()).sum();
    assert_eq!(whole, 40 * 2 * 1500, "nothing is lost");
}

#[tokio::test]
async fn al_064_parameters_beyond_a_mebibyte_fail_the_tool() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&["streaming", "tool:print"]).await;
    device.say("am_1", "print it").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    let called = scene.call("print", json!({ "text": "x".repeat(FRAME + 10) }), Duration::from_secs(20));
    let end = called.end().await;
    assert!(end.is_err(), "{end:?}");
    scene.answer("It is too long.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert!(got.iter().all(|envelope| envelope.bytes.len() <= FRAME), "frames");
    assert!(got.iter().all(|envelope| envelope.kind != ERROR), "a failed tool is no ErrorMessage");
}
