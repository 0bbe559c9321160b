//! Tools, the server's side: AL-064 to AL-070.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::device::{ACK, Device, ERROR, Envelope, REQUEST, RESULT, SENTENCE, START, STATS, STOP, places};
use crate::puppet::{ABACUS, Scene};
use crate::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);
const CAPABLE: [&str; 4] = ["streaming", "tool_use", "tool:clock", "tool:dice"];

/// A device that runs `clock` and `dice`, and a turn that may ask for them.
async fn capable(stage: &mut Stage) -> (Device, String, Scene, String) {
    let mut device = stage.ann().await;
    let conversation = device.create_with(&CAPABLE).await;
    device.say("am_1", "what time is it?").await;
    let scene = stage.scenes.next().await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let answer = start.assert_start("am_1");
    (device, conversation, scene, answer)
}

fn result_of(request: &Envelope, result: Value) -> Value {
    let id = format!("{}_result", request.id());
    json!({ "id": id, "requestId": request.id(), "success": true, "result": result })
}

/// Status, result and error of the uses of tools.
fn uses(stage: &Stage, conversation: &str) -> Vec<Value> {
    let sql = "SELECT tool_name, status, tool_result, error_message FROM alicia_tool_uses \
               WHERE conversation_id = ? ORDER BY sequence_number";
    stage.rows(sql, conversation)
}

#[tokio::test]
async fn al_064_a_request_names_its_time_and_asks_for_what_the_agent_asks() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, answer) = capable(&mut stage).await;
    let args = json!({ "tz": "UTC", "deep": { "list": [1, 2.5, null, true, "ü"] } });
    let called = scene.call("clock", args.clone(), Duration::from_secs(20));
    let [request] = device.expect([(-2, REQUEST)]).await;
    assert_eq!(
        request.keys(),
        ["conversationId", "execution", "id", "messageId", "parameters", "timeoutMs", "toolName"]
    );
    assert!(request.id().starts_with("atu_"));
    assert_eq!((request.text("messageId"), request.text("conversationId")), (&*answer, &*conversation));
    assert_eq!((request.text("toolName"), request.text("execution")), ("clock", "client"));
    assert_eq!(request.body["parameters"], args);
    let time = request.body["timeoutMs"].as_u64().unwrap();
    assert!((15_000..=20_000).contains(&time), "{time}");
    let stored =
        stage.rows("SELECT id, status, tool_arguments FROM alicia_tool_uses WHERE id = ?", request.id());
    assert!(["pending", "running"].contains(&stored[0][1].as_str().unwrap()), "{stored:?}");
    let stored: Value = serde_json::from_str(stored[0][2].as_str().unwrap()).unwrap();
    assert_eq!(stored, args);
    device.send(RESULT, result_of(&request, json!({}))).await;
    called.end().await.unwrap();
}

#[tokio::test]
async fn al_064_a_time_beyond_the_most_is_cut_to_it() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, _) = capable(&mut stage).await;
    let _called = scene.call("clock", json!({}), 100 * MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    let time = request.body["timeoutMs"].as_u64().unwrap();
    assert!((1..=300_000).contains(&time), "{time}");
}

#[tokio::test]
async fn al_065_a_tool_that_nobody_answers_times_out_and_the_answer_goes_on() {
    let settings = ["alicia.limits.tool_grace_ms=500"];
    let mut stage = Stage::stored(&settings).await;
    let (mut device, conversation, scene, answer) = capable(&mut stage).await;
    let begun = Instant::now();
    let called = scene.call("clock", json!({}), Duration::from_millis(500));
    let [request, result] = device.expect([(-2, REQUEST), (-3, RESULT)]).await;
    assert!(begun.elapsed() >= Duration::from_millis(950), "its time and the grace: {:?}", begun.elapsed());
    assert_eq!((&result.body["requestId"], &result.body["success"]), (&json!(request.id()), &json!(false)));
    assert_eq!(result.id(), format!("{}_result", request.id()));
    assert_eq!(result.body["errorCode"], json!("timeout"));
    assert_eq!(called.end().await, Err("timeout".to_owned()));
    scene.answer("Nobody knows.").await;
    let [last, _] = device.expect([(-4, SENTENCE), (0, STATS)]).await;
    last.assert_sentence(&answer, 1, "Nobody knows.", true);
    let [row] = &uses(&stage, &conversation)[..] else { panic!("one row") };
    assert_eq!((&row[0], &row[1]), (&json!("clock"), &json!("error")));
    assert!(row[3].as_str().unwrap().starts_with("timeout"), "{row}");
    // The client was late: that has no effect, and is no error.
    let stanza = device.send(RESULT, result_of(&request, json!({ "time": "12:00" }))).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    assert_eq!(uses(&stage, &conversation)[0], *row);
}

#[tokio::test]
async fn al_066_results_are_matched_by_request_in_any_order() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, answer) = capable(&mut stage).await;
    let called =
        scene.call_all(&[("clock", json!({})), ("dice", json!({})), ("clock", json!({ "n": 2 }))], MINUTE);
    let requests = device.expect([(-2, REQUEST), (-3, REQUEST), (-4, REQUEST)]).await;
    for (number, request) in requests.iter().enumerate().rev() {
        let stanza = device.send(RESULT, result_of(request, json!({ "number": number }))).await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
    }
    let ends = called.ends().await;
    let by_name = |number: usize| requests[number].body["parameters"].clone();
    assert_eq!(by_name(2), json!({ "n": 2 }), "asked for in order");
    assert_eq!(ends, (0..3).map(|number| Ok(json!({ "number": number }))).collect::<Vec<_>>());
    scene.answer("Done.").await;
    let [last, _] = device.expect([(-5, SENTENCE), (0, STATS)]).await;
    last.assert_sentence(&answer, 1, "Done.", true);
    let statuses: Vec<Value> = uses(&stage, &conversation).iter().map(|row| row[1].clone()).collect();
    assert_eq!(statuses, ["success", "success", "success"]);
}

#[tokio::test]
async fn al_066_without_a_request_id_the_id_is_the_request() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, _) = capable(&mut stage).await;
    let called = scene.call("clock", json!({}), MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    device.send(RESULT, json!({ "id": request.id(), "success": true, "result": 7 })).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!(7)));
}

#[tokio::test]
async fn al_066_the_request_id_wins_over_the_id() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, _) = capable(&mut stage).await;
    let called = scene.call_all(&[("clock", json!({})), ("dice", json!({}))], MINUTE);
    let [clock, dice] = device.expect([(-2, REQUEST), (-3, REQUEST)]).await;
    let crossed = json!({ "id": clock.id(), "requestId": dice.id(), "success": true, "result": "dice" });
    device.send(RESULT, crossed).await;
    let crossed = json!({ "id": dice.id(), "requestId": clock.id(), "success": true, "result": "clock" });
    device.send(RESULT, crossed).await;
    device.expect([(0, ACK), (0, ACK)]).await;
    assert_eq!(called.ends().await, [Ok(json!("clock")), Ok(json!("dice"))]);
}

#[tokio::test]
async fn al_066_a_result_of_no_request_is_refused() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, _) = capable(&mut stage).await;
    let called = scene.call("clock", json!({}), MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    let body = json!({ "id": "atu_x_result", "requestId": "atu_x", "success": true, "result": 1 });
    let stanza = device.send(RESULT, body).await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    error.assert_error(203, true, "atu_x_result");
    ack.assert_ack(stanza, false);
    device.send(RESULT, result_of(&request, json!(2))).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!(2)));
}

#[tokio::test]
async fn al_067_second_results_are_acknowledged_and_have_no_effect() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, _) = capable(&mut stage).await;
    let mut other = stage.follow(&conversation).await;
    let called = scene.call("clock", json!({}), MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    other.expect([(-2, REQUEST)]).await;
    device.send(RESULT, result_of(&request, json!("first"))).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!("first")));
    for second in [&mut device, &mut other] {
        let stanza = second.send(RESULT, result_of(&request, json!("second"))).await;
        let [ack] = second.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
        second.quiet().await;
    }
    scene.answer("Done.").await;
    device.expect([(-3, SENTENCE), (0, STATS)]).await;
    device.send(RESULT, result_of(&request, json!("third"))).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(uses(&stage, &conversation), [json!(["clock", "success", "\"first\"", null])]);
}

#[tokio::test]
async fn a_device_without_the_tool_leaves_it_to_the_one_that_has_it() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation, scene, _) = capable(&mut stage).await;
    let mut other = stage.follow(&conversation).await;
    let called = scene.call("clock", json!({}), MINUTE);
    let asked = other.until(|envelope| envelope.kind == REQUEST).await;
    let request = asked.last().expect("a request");
    let unknown = json!({
        "id": format!("{}_result", request.id()), "requestId": request.id(), "success": false,
        "errorCode": "unknown_tool",
    });
    other.send(RESULT, unknown).await;
    other.until(|envelope| envelope.kind == ACK).await;
    let [request] = device.expect([(-2, REQUEST)]).await;
    device.send(RESULT, result_of(&request, json!("noon"))).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!("noon")));
}

#[tokio::test]
async fn al_068_either_is_run_by_a_client_that_declared_it() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.create_with(&["streaming", "tool:abacus"]).await;
    device.say("am_1", "count").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    let called = scene.call(ABACUS, json!({}), MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    assert!(["client", "either"].contains(&request.text("execution")), "{request:?}");
    device.quiet().await;
    device.send(RESULT, result_of(&request, json!({ "by": "client" }))).await;
    device.expect([(0, ACK)]).await;
    assert_eq!(called.end().await, Ok(json!({ "by": "client" })));
    scene.finish().await;
    device.expect([(-3, SENTENCE), (0, STATS)]).await;
}

#[tokio::test]
async fn al_068_either_is_run_by_the_server_if_nobody_declared_it() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _, scene, answer) = capable(&mut stage).await;
    let called = scene.call(ABACUS, json!({}), MINUTE);
    let [request, result] = device.expect([(-2, REQUEST), (-3, RESULT)]).await;
    assert_eq!(request.text("execution"), "server");
    assert_eq!(request.text("messageId"), answer);
    let body = json!({
        "id": format!("{}_result", request.id()), "requestId": request.id(),
        "conversationId": request.conversation, "success": true, "result": { "by": "server" },
    });
    assert_eq!(result.body, body);
    assert_eq!(called.end().await, Ok(json!({ "by": "server" })));
}

#[tokio::test]
async fn al_068_either_falls_back_to_the_server_once() {
    let mut stage = Stage::start(&["alicia.limits.tool_grace_ms=0"]).await;
    let mut device = stage.ann().await;
    device.create_with(&["streaming", "tool:abacus"]).await;
    device.say("am_1", "count").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    let called = scene.call(ABACUS, json!({}), MINUTE);
    let [request] = device.expect([(-2, REQUEST)]).await;
    let unknown = json!({
        "id": format!("{}_result", request.id()), "requestId": request.id(), "success": false,
        "errorCode": "unknown_tool",
    });
    device.send(RESULT, unknown).await;
    assert_eq!(called.end().await, Ok(json!({ "by": "server" })));
    let called = scene.call(ABACUS, json!({}), Duration::from_millis(300));
    assert_eq!(called.end().await, Ok(json!({ "by": "server" })), "it did not answer in time");
    scene.finish().await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert!(got.iter().all(|envelope| envelope.kind != ERROR), "{got:#?}");
}

#[tokio::test]
async fn al_069_a_tool_of_the_server_that_fails_is_a_result() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, answer) = capable(&mut stage).await;
    scene.tool("search", Err(("execution_error", "the index is gone"))).await;
    scene.answer("I could not look it up.").await;
    let [request, result, last, _] =
        device.expect([(-2, REQUEST), (-3, RESULT), (-4, SENTENCE), (0, STATS)]).await;
    assert_eq!(request.text("execution"), "server");
    assert_eq!(result.body["success"], json!(false));
    assert_eq!(result.body["errorCode"], json!("execution_error"));
    assert_eq!(result.body["errorMessage"], json!("the index is gone"));
    last.assert_sentence(&answer, 1, "I could not look it up.", true);
    let row = json!(["search", "error", null, "execution_error: the index is gone"]);
    assert_eq!(uses(&stage, &conversation), [row]);
}

#[tokio::test]
async fn al_069_a_tool_of_the_client_that_fails_is_no_error() {
    for (code, read) in [
        ("execution_error", "execution_error"),
        ("TOOL_ERROR", "execution_error"),
        ("out_of_paper", "out_of_paper"),
    ] {
        let mut stage = Stage::stored(&[]).await;
        let (mut device, conversation, scene, _) = capable(&mut stage).await;
        let called = scene.call("clock", json!({}), MINUTE);
        let [request] = device.expect([(-2, REQUEST)]).await;
        let body = json!({
            "id": format!("{}_result", request.id()), "requestId": request.id(), "success": false,
            "errorCode": code, "errorMessage": "no",
        });
        let stanza = device.send(RESULT, body).await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
        assert_eq!(called.end().await, Err(read.to_owned()));
        scene.answer("Sorry.").await;
        device.expect([(-3, SENTENCE), (0, STATS)]).await;
        assert_eq!(uses(&stage, &conversation), [json!(["clock", "error", null, format!("{read}: no")])]);
    }
}

/// The request, what the server says of its end, and what follows a stop.
async fn stopped(stage: &Stage, device: &mut Device, conversation: &str) -> Envelope {
    let [request] = device.expect([(-2, REQUEST)]).await;
    let stanza = device.send(STOP, json!({})).await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(places(&got), [(0, ACK), (-3, RESULT), (-4, SENTENCE), (0, STATS)], "{got:#?}");
    got[0].assert_ack(stanza, true);
    assert_eq!(got[1].body["requestId"], json!(request.id()));
    assert_eq!((&got[1].body["success"], &got[1].body["errorCode"]), (&json!(false), &json!("cancelled")));
    assert_eq!(got[2].body["isFinal"], json!(true));
    let statuses: Vec<Value> = uses(stage, conversation).iter().map(|row| row[1].clone()).collect();
    assert_eq!(statuses, ["cancelled"]);
    request
}

#[tokio::test]
async fn al_070_a_stop_cancels_the_tool_of_a_client() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, _) = capable(&mut stage).await;
    let _called = scene.call("clock", json!({}), MINUTE);
    let request = stopped(&stage, &mut device, &conversation).await;
    let stanza = device.send(RESULT, result_of(&request, json!("late"))).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!(uses(&stage, &conversation)[0][1], json!("cancelled"));
    stage.turn(&mut device, -5, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_070_a_stop_cancels_the_tool_of_the_server() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation, scene, _) = capable(&mut stage).await;
    scene.begin_tool("search", json!({})).await;
    stopped(&stage, &mut device, &conversation).await;
    stage.turn(&mut device, -5, "am_2", "Yes.").await;
}
