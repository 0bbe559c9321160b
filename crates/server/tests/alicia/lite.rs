//! The lite profile on the same socket: AL-108.

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::device::ASSISTANT;
use crate::device::{
    Device, ERROR, PATIENCE, REASONING, REQUEST, RESULT, SENTENCE, START, SUBSCRIBE, SUBSCRIBED, TRACE,
    UNSUBSCRIBE, USER,
};
use crate::pack::{pack, pack_map, unpack};
use crate::stage::Stage;
use crate::support::ANN;
use switchboard_core::model::FailureKind;

pub(crate) const GENERATE: u64 = 33;
const TITLE: u64 = 35;
pub(crate) const COMPLETE: u64 = 80;

/// A client of the later variant.
pub(crate) struct Lite {
    pub(crate) device: Device,
    pub(crate) conversation: String,
}

impl Lite {
    pub(crate) async fn subscribe(stage: &Stage, conversation: &str) -> Self {
        let mut lite = Self { device: stage.ann().await, conversation: conversation.to_owned() };
        lite.send(SUBSCRIBE, json!({})).await;
        let ack = lite.next().await;
        assert_eq!(ack, (SUBSCRIBED, json!({ "conversationId": conversation, "success": true })));
        lite
    }

    pub(crate) async fn send(&mut self, kind: u64, mut body: Value) {
        body["conversationId"] = json!(self.conversation);
        let bytes = pack_map(&[
            ("conversationId", pack(&json!(self.conversation))),
            ("type", pack(&json!(kind))),
            ("body", pack(&body)),
        ]);
        self.device.send_bytes(bytes).await;
    }

    /// Type and body of what comes next: an envelope without anything that lite clients do not know.
    pub(crate) async fn next(&mut self) -> (u64, Value) {
        loop {
            match timeout(PATIENCE, self.device.socket.next()).await.expect("in time") {
                Some(Ok(Message::Binary(bytes))) => {
                    let entries = unpack(&bytes);
                    let known = [
                        "conversationId",
                        "type",
                        "body",
                        "trace_id",
                        "span_id",
                        "trace_flags",
                        "session_id",
                        "user_id",
                    ];
                    assert!(entries.iter().all(|(key, _)| known.contains(&key.as_str())), "{entries:?}");
                    let get = |key: &str| {
                        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
                    };
                    assert_eq!(get("conversationId"), Some(json!(self.conversation)), "{entries:?}");
                    let kind = get("type").and_then(|kind| kind.as_u64()).expect("a type");
                    return (kind, get("body").expect("a body"));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Exactly these types.
    pub(crate) async fn expect<const N: usize>(&mut self, kinds: [u64; N]) -> [Value; N] {
        let mut got = Vec::new();
        for kind in kinds {
            got.push(self.next().await);
            assert_eq!(got.last().unwrap().0, kind, "of {kinds:?}: {got:#?}");
        }
        got.into_iter().map(|(_, body)| body).collect::<Vec<_>>().try_into().unwrap()
    }

    /// Nothing came that was not read.
    pub(crate) async fn quiet(&mut self) {
        self.send(SUBSCRIBE, json!({})).await;
        self.expect([SUBSCRIBED]).await;
    }
}

#[tokio::test]
async fn al_108_a_missing_stanza_makes_a_connection_lite_for_good() {
    let mut stage = Stage::start(&[]).await;
    let (mut full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    // A stanza later does not change that.
    lite.device.send_as(2, &conversation, SUBSCRIBE, json!({})).await;
    lite.expect([SUBSCRIBED]).await;
    stage.turn(&mut full, -1, "am_1", "Yes.").await;
    lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
    lite.quiet().await;
}

#[tokio::test]
async fn al_108_a_turn_is_told_in_the_spelling_of_lite() {
    let mut stage = Stage::stored(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(USER, json!({ "id": "msg_of_mine", "content": "what time is it?" })).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "what time is it?");
    scene.remember("amem_1", "likes tea", 0.75).await;
    scene.think("Hm.").await;
    let call = scene.begin_tool("clock", json!({ "tz": "UTC" })).await;
    scene.end_tool(call, Ok(json!({ "time": "12:00" }))).await;
    let call = scene.begin_tool("clock", json!({})).await;
    scene.end_tool(call, Err(("execution_error", "broken"))).await;
    scene.answer("Noon. Or so.").await;
    let [user, start, trace, thought, request, result, _, failed, first, second, whole, complete] = lite
        .expect([
            USER, START, TRACE, REASONING, REQUEST, RESULT, REQUEST, RESULT, SENTENCE, SENTENCE, ASSISTANT,
            COMPLETE,
        ])
        .await;
    let question = user["id"].as_str().unwrap();
    assert_ne!(question, "msg_of_mine", "the server gives it an id");
    assert_eq!((&user["content"], &user["role"]), (&json!("what time is it?"), &json!("user")));
    assert!(user["createdAt"].is_string(), "{user}");
    let answer = &start["messageId"];
    assert!(start.get("id").is_none() && start["previousId"] == json!(question), "{start}");
    assert_eq!((&trace["messageId"], &trace["relevance"]), (answer, &json!(0.75)));
    assert_eq!((&thought["messageId"], &thought["content"]), (answer, &json!("Hm.")));
    assert_eq!((&request["arguments"], request.get("parameters")), (&json!({ "tz": "UTC" }), None));
    assert_eq!((&result["requestId"], &result["success"]), (&request["id"], &json!(true)));
    assert_eq!(result["result"], json!({ "time": "12:00" }));
    assert!(failed["success"] == json!(false) && failed["error"].is_string(), "{failed}");
    assert!(failed.get("errorCode").is_none() && failed.get("errorMessage").is_none(), "{failed}");
    for (sentence, text, last) in [(&first, "Noon.", false), (&second, "Or so.", true)] {
        assert_eq!((&sentence["messageId"], &sentence["text"]), (answer, &json!(text)));
        assert_eq!(sentence["isFinal"].as_bool().unwrap_or_default(), last);
    }
    assert_eq!(
        (&whole["id"], &whole["content"], &whole["role"]),
        (answer, &json!("Noon. Or so."), &json!("assistant"))
    );
    assert!(whole["createdAt"].is_string(), "{whole}");
    assert_eq!(complete["success"], json!(true));
    assert_eq!(&complete["messageId"], answer);
    lite.quiet().await;
    let rows = stage.messages(&conversation);
    assert_eq!((&rows[0][0], &rows[1][0]), (&json!(question), answer));
}

#[tokio::test]
async fn al_108_a_failure_is_an_error_in_words_and_an_end_without_success() {
    let mut stage = Stage::start(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(USER, json!({ "content": "go" })).await;
    let scene = stage.scenes.next().await;
    lite.expect([USER, START]).await;
    scene.fail(FailureKind::ModelUnavailable, "it broke").await;
    let mut got = Vec::new();
    while got.last().is_none_or(|(kind, _)| *kind != COMPLETE) {
        got.push(lite.next().await);
    }
    let (_, error) = got.iter().find(|(kind, _)| *kind == ERROR).unwrap_or_else(|| panic!("{got:?}"));
    assert!(error["code"].is_string() && error["messageId"].is_string(), "{error}");
    assert_eq!(got.last().unwrap().1["success"], json!(false));
    assert_eq!(got[got.len() - 2].0, ERROR, "{got:?}");
}

#[tokio::test]
async fn al_108_variations_come_as_requests_to_generate() {
    let mut stage = Stage::stored(&[]).await;
    let (mut full, conversation) = stage.begin().await;
    let answer = stage.turn(&mut full, -1, "am_1", "Yes.").await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(GENERATE, json!({ "messageId": answer, "requestType": "regenerate" })).await;
    stage.scenes.next().await.answer("Again.").await;
    let [start, _, whole, _] = lite.expect([START, SENTENCE, ASSISTANT, COMPLETE]).await;
    assert_eq!((&start["previousId"], &whole["content"]), (&json!("am_1"), &json!("Again.")));
    lite.send(GENERATE, json!({ "messageId": "am_1", "requestType": "edit", "newContent": "else" })).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "else");
    scene.answer("Else.").await;
    let [user, ..] = lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
    assert_eq!(user["content"], json!("else"));
    lite.send(GENERATE, json!({ "messageId": answer, "requestType": "continue" })).await;
    stage.scenes.next().await.answer("More.").await;
    let [start, ..] = lite.expect([START, SENTENCE, ASSISTANT, COMPLETE]).await;
    assert_eq!(start["previousId"], json!(answer));
    lite.send(GENERATE, json!({ "messageId": "am_1", "requestType": "send" })).await;
    lite.expect([ERROR]).await;
    lite.quiet().await;
    stage.scenes.assert_none();
}

#[tokio::test]
async fn al_108_what_lite_does_not_know_is_not_sent() {
    let mut stage = Stage::start(&[]).await;
    let (mut full, conversation) = stage.begin().await;
    stage.turn(&mut full, -1, "am_1", "Yes.").await;
    // No replay, no acknowledgement, no introduction, no statistics.
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.quiet().await;
    let path = format!("PATCH /api/v1/conversations/{conversation}");
    stage.http(&path, ANN, &json!({ "title": "Tea" })).await;
    let [title] = lite.expect([TITLE]).await;
    assert_eq!(title, json!({ "conversationId": conversation, "title": "Tea" }));
    lite.send(UNSUBSCRIBE, json!({})).await;
    lite.send(SUBSCRIBE, json!({})).await;
    lite.expect([SUBSCRIBED]).await;
}

#[tokio::test]
async fn al_108_who_somebody_says_they_are_proves_nothing() {
    let mut stage = Stage::start(&[]).await;
    let (_full, conversation) = stage.begin().await;
    let mut bob = Lite { device: stage.bob().await, conversation: conversation.clone() };
    bob.send(SUBSCRIBE, json!({})).await;
    let [ack] = bob.expect([SUBSCRIBED]).await;
    assert_eq!((&ack["success"], ack["error"].is_string()), (&json!(false), true));
    let bytes = pack_map(&[
        ("conversationId", pack(&json!(conversation))),
        ("type", pack(&json!(USER))),
        ("body", pack(&json!({ "conversationId": conversation, "content": "hi" }))),
        ("user_id", pack(&json!("ann"))),
    ]);
    bob.device.send_bytes(bytes).await;
    bob.expect([ERROR]).await;
    bob.send(SUBSCRIBE, json!({ "agentMode": true })).await;
    let [ack] = bob.expect([SUBSCRIBED]).await;
    assert_eq!(ack["success"], json!(false), "service modes are refused");
    stage.scenes.assert_none();
}

#[tokio::test]
async fn al_108_full_and_lite_devices_share_a_conversation() {
    let mut stage = Stage::start(&[]).await;
    let (mut full, conversation) = stage.begin().await;
    let mut lite = Lite::subscribe(&stage, &conversation).await;
    lite.send(USER, json!({ "content": "from lite" })).await;
    stage.scenes.next().await.answer("Yes.").await;
    let [user, ..] = lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
    let [announced, ..] = full.expect([(0, USER), (-1, START), (-2, SENTENCE), (0, 27)]).await;
    assert_eq!((announced.id(), announced.text("content")), (user["id"].as_str().unwrap(), "from lite"));
    stage.turn(&mut full, -3, "am_1", "Yes.").await;
    lite.expect([USER, START, SENTENCE, ASSISTANT, COMPLETE]).await;
}
