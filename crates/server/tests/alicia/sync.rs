//! Messages written offline: AL-099 to AL-101.

use serde_json::{Value, json};

use crate::device::{ACK, ASSISTANT, Device, ERROR, SENTENCE, START, STATS, SYNC, SYNCED, USER, VARIATION};
use crate::stage::Stage;
use crate::support::ANN;
use switchboard_core::model::FailureKind;

fn offline(local: &str, contents: &str) -> Value {
    json!({
        "localId": local, "sequenceNumber": 1, "role": "user", "contents": contents,
        "createdAt": "2026-01-01T00:00:00Z",
    })
}

/// Sends messages; answers the one result of each.
async fn sync(device: &mut Device, messages: &[Value]) -> Vec<Value> {
    device.send(SYNC, json!({ "messages": messages })).await;
    let [synced] = device.expect([(0, SYNCED)]).await;
    device.quiet().await;
    assert!(synced.text("syncedAt").ends_with('Z'), "{synced:?}");
    synced.body["syncedMessages"].as_array().expect("results").clone()
}

#[tokio::test]
async fn al_099_there_is_one_result_per_message_in_order() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let with = |local: &str, key: &str, value: Value| {
        let mut message = offline(local, local);
        message[key] = value;
        message
    };
    let messages = [
        offline("local_1", "first"),
        with("", "contents", json!("no id")),
        with("local_2", "role", json!("")),
        with("local_3", "role", json!("system")),
        with("local_4", "previousId", json!("am_of_nobody")),
        with("local_5", "role", json!("assistant")),
        with("local_6", "previousId", json!("local_1")),
        with("local_7", "previousId", json!("am_1")),
    ];
    let results = sync(&mut device, &messages).await;
    let told: Vec<(&str, &str, &str)> = results
        .iter()
        .map(|result| {
            let reason = result["conflict"]["reason"].as_str().unwrap_or_default();
            (result["localId"].as_str().unwrap(), result["status"].as_str().unwrap(), reason)
        })
        .collect();
    let expected = [
        ("local_1", "synced", ""),
        ("", "conflict", "Local ID is required"),
        ("local_2", "conflict", "Message role is required"),
        ("local_3", "conflict", "Role not allowed"),
        ("local_4", "conflict", "Previous message not found"),
        ("local_5", "synced", ""),
        ("local_6", "synced", ""),
        ("local_7", "synced", ""),
    ];
    assert_eq!(told, expected);
    for (message, result) in messages.iter().zip(&results) {
        if result["status"] == "conflict" {
            assert_eq!(
                (&result["serverId"], &result["conflict"]["resolution"]),
                (&json!(""), &json!("manual"))
            );
            continue;
        }
        let id = result["serverId"].as_str().unwrap();
        assert!(id.starts_with("am_"));
        let row = &result["message"];
        assert_eq!(
            (&row["id"], &row["serverId"], &row["localId"]),
            (&json!(id), &json!(id), &message["localId"])
        );
        assert_eq!((&row["contents"], &row["role"]), (&message["contents"], &message["role"]));
        assert_eq!(row["conversationId"], json!(conversation));
        assert!(
            row["sequenceNumber"].is_u64() && row["createdAt"].is_string() && row["updatedAt"].is_string()
        );
        let sql = "SELECT local_id, server_id, sync_status, completion_status, contents, synced_at IS NOT NULL \
                   FROM alicia_messages WHERE id = ?";
        let stored = json!([message["localId"], id, "synced", "completed", message["contents"], 1]);
        assert_eq!(stage.rows(sql, id), [stored]);
    }
    let id = |number: usize| results[number]["serverId"].clone();
    let parent = |number: usize| {
        let id = id(number);
        stage.rows("SELECT previous_id FROM alicia_messages WHERE id = ?", id.as_str().unwrap()).remove(0)[0]
            .take()
    };
    assert_eq!(parent(0), json!(answer), "the tip");
    assert_eq!(parent(5), id(0), "the tip");
    assert_eq!(parent(6), id(0), "by its local id");
    assert_eq!(parent(7), json!("am_1"));
    assert_eq!(stage.tip(&conversation), id(7), "the last that was inserted");
    assert_eq!(sync(&mut device, &[]).await, Vec::<Value>::new());
}

#[tokio::test]
async fn al_099_numbers_that_are_taken_are_replaced() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut messages: Vec<Value> = (0..4).map(|number| offline(&format!("local_{number}"), "x")).collect();
    for (message, number) in messages.iter_mut().zip([1, 9, 9, 0]) {
        message["sequenceNumber"] = json!(number);
    }
    let results = sync(&mut device, &messages).await;
    let numbers: Vec<u64> =
        results.iter().map(|result| result["message"]["sequenceNumber"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]) && numbers[0] > 2, "{numbers:?}");
    assert!(results.iter().all(|result| result["status"] == "synced"));
}

#[tokio::test]
async fn al_099_a_batch_of_500_is_taken_and_of_more_refused() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let batch: Vec<Value> = (0..501).map(|number| offline(&format!("local_{number}"), "x")).collect();
    let stanza = device.send(SYNC, json!({ "messages": batch })).await;
    let [error] = device.expect([(0, ERROR)]).await;
    assert!(matches!(error.body["code"].as_u64(), Some(104 | 105)), "{error:?}");
    assert_eq!(error.body["originatingId"], json!(stanza.to_string()));
    assert_eq!(stage.messages(&conversation), Vec::<Value>::new());
    let results = sync(&mut device, &batch[..500]).await;
    let locals: Vec<&Value> = results.iter().map(|result| &result["localId"]).collect();
    assert_eq!(locals, batch[..500].iter().map(|message| &message["localId"]).collect::<Vec<_>>());
    assert_eq!(stage.messages(&conversation).len(), 500);
}

#[tokio::test]
async fn al_100_synced_again_it_is_the_same_row() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = sync(&mut device, &[offline("local_1", "hello")]).await;
    let again = sync(&mut device, &[offline("local_1", "hello"), offline("local_1", "hello")]).await;
    for result in &again {
        assert_eq!((&result["status"], &result["serverId"]), (&json!("synced"), &first[0]["serverId"]));
    }
    assert_eq!(stage.messages(&conversation).len(), 1);
    let stage = stage.restart(&[]).await;
    let mut device = stage.ann().await;
    device.subscribe(&conversation).await;
    let later = sync(&mut device, &[offline("local_1", "hello")]).await;
    assert_eq!(later[0]["serverId"], first[0]["serverId"]);
    // Local ids belong to their conversation.
    device.create().await;
    let elsewhere = sync(&mut device, &[offline("local_1", "something else")]).await;
    assert_eq!(elsewhere[0]["status"], json!("synced"));
    assert_ne!(elsewhere[0]["serverId"], first[0]["serverId"]);
}

#[tokio::test]
async fn al_100_other_contents_conflict_and_change_nothing() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = sync(&mut device, &[offline("local_1", "hello")]).await;
    let id = &first[0]["serverId"];
    let results = sync(&mut device, &[offline("local_1", "goodbye")]).await;
    assert_eq!((&results[0]["status"], &results[0]["serverId"]), (&json!("conflict"), id));
    let conflict = &results[0]["conflict"];
    assert_eq!(conflict["reason"], json!("Content mismatch with existing message"));
    assert_eq!(conflict["resolution"], json!("manual"));
    assert_eq!(
        (&conflict["serverMessage"]["id"], &conflict["serverMessage"]["contents"]),
        (id, &json!("hello"))
    );
    let sql = "SELECT contents, sync_status FROM alicia_messages WHERE conversation_id = ?";
    assert_eq!(stage.rows(sql, &conversation), [json!(["hello", "conflict"])]);
}

#[tokio::test]
async fn al_101_sync_starts_no_answer_until_one_is_asked_for() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let results = sync(&mut device, &[offline("local_1", "hello?")]).await;
    let id = results[0]["serverId"].as_str().unwrap().to_owned();
    let [announced] = watching.expect([(0, USER)]).await;
    assert_eq!((announced.id(), announced.text("content")), (&*id, "hello?"));
    watching.quiet().await;
    stage.scenes.assert_none();
    device.send(VARIATION, json!({ "targetId": id, "mode": "regenerate" })).await;
    let scene = stage.scenes.next().await;
    assert_eq!(scene.request, "hello?");
    scene.answer("Yes.").await;
    let [_, start, ..] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    start.assert_start(&id);
}

#[tokio::test]
async fn al_101_sync_does_not_disturb_an_answer_under_way() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-1, START)]).await;
    let results = sync(&mut device, &[offline("local_1", "meanwhile")]).await;
    assert_eq!(results[0]["status"], json!("synced"));
    scene.answer("Yes.").await;
    device.expect([(-2, SENTENCE), (0, STATS)]).await;
}

#[tokio::test]
async fn al_101_each_message_stands_alone() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let mut bad = offline("local_2", "bad");
    bad["previousId"] = json!("am_of_nobody");
    let mut reply = offline("local_3", "an answer of old");
    (reply["role"], reply["createdAt"]) = (json!("assistant"), json!("not a moment"));
    let results = sync(&mut device, &[offline("local_1", "good"), bad.clone(), reply]).await;
    let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["synced", "conflict", "synced"]);
    let contents: Vec<Value> = stage.messages(&conversation).iter().map(|row| row[3].clone()).collect();
    assert_eq!(contents.len(), 2);
    assert!(contents.contains(&json!("good")) && contents.contains(&json!("an answer of old")));
    watching.expect([(0, USER), (0, ASSISTANT)]).await;
    // What was wrong with one can be put right.
    bad["previousId"] = json!("local_1");
    let results = sync(&mut device, &[bad]).await;
    assert_eq!(results[0]["status"], json!("synced"));
    assert_eq!(stage.messages(&conversation).len(), 3);
}

#[tokio::test]
async fn al_114_what_is_synced_during_an_answer_stays_on_the_active_path() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go").await;
    let scene = stage.scenes.next().await;
    let [_, start] = device.expect([(0, ACK), (-1, START)]).await;
    let answer = start.id().to_owned();
    scene.say("Half of it. ").await;
    let first = sync(&mut stage.follow(&conversation).await, &[offline("local_1", "meanwhile")]).await;
    assert_eq!(first[0]["message"]["previousId"], json!(answer), "{first:?}");
    let mut named = offline("local_2", "to be exact");
    named["previousId"] = first[0]["serverId"].clone();
    let second = sync(&mut stage.follow(&conversation).await, &[named]).await;
    scene.answer("The rest.").await;
    device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(stage.tip(&conversation), second[0]["serverId"], "the answer does not take the tip back");
    let path = format!("GET /api/v1/conversations/{conversation}/messages");
    let (_, list) = stage.http(&path, ANN, &Value::Null).await;
    let texts: Vec<&str> =
        list["messages"].as_array().unwrap().iter().map(|row| row["contents"].as_str().unwrap()).collect();
    assert_eq!(texts, ["go", "Half of it. The rest.", "meanwhile", "to be exact"]);
    device.say("am_2", "and now?").await;
    assert_eq!(stage.scenes.next().await.history, texts, "so the agent knows of it");
}

#[tokio::test]
async fn al_114_also_where_that_answer_never_comes() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.say("am_2", "go").await;
    let scene = stage.scenes.next().await;
    device.expect([(0, ACK), (-3, START)]).await;
    let results = sync(&mut stage.follow(&conversation).await, &[offline("local_1", "meanwhile")]).await;
    scene.fail(FailureKind::ModelUnavailable, "it broke").await;
    device.until(|envelope| envelope.kind == STATS).await;
    assert_eq!(stage.tip(&conversation), results[0]["serverId"]);
    let path = format!("GET /api/v1/conversations/{conversation}/messages");
    let (_, list) = stage.http(&path, ANN, &Value::Null).await;
    let texts: Vec<&str> =
        list["messages"].as_array().unwrap().iter().map(|row| row["contents"].as_str().unwrap()).collect();
    assert_eq!(texts, ["am_1", "Yes.", "go", "", "meanwhile"]);
    device.say("am_3", "and now?").await;
    assert_eq!(stage.scenes.next().await.history, ["am_1", "Yes.", "go", "meanwhile"]);
}

/// A queue as no client should write it: nothing of it but the last two can be used.
fn poisoned() -> Vec<Value> {
    let with = |local: &str, key: &str, value: Value| {
        let mut message = offline(local, local);
        message[key] = value;
        message
    };
    let mut numberless = offline("local_7", "without a number");
    numberless.as_object_mut().unwrap().remove("sequenceNumber");
    vec![
        json!(9),
        with("local_1", "localId", json!(5)),
        with("local_2", "contents", json!("  ")),
        with("local_3", "contents", json!(7)),
        with("local_4", "role", json!(3)),
        with("local_5", "previousId", json!(5)),
        with("local_6", "createdAt", json!(5)),
        numberless,
    ]
}

fn reasons(results: &[Value], local: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = |row: &Value| (text(&row[local]), text(&row["status"]), text(&row["conflict"]["reason"]));
    results.iter().map(told).collect()
}

#[tokio::test]
async fn al_116_what_cannot_be_used_is_a_conflict_of_its_own() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let results = sync(&mut device, &poisoned()).await;
    let row = |local: &str, status: &str, why: &str| (local.to_owned(), status.to_owned(), why.to_owned());
    let expected = [
        row("", "conflict", "Local ID is required"),
        row("", "conflict", "Local ID is required"),
        row("local_2", "conflict", "Message contents are required"),
        row("local_3", "conflict", "Message contents are required"),
        row("local_4", "conflict", "Message role is required"),
        row("local_5", "conflict", "Previous message not found"),
        row("local_6", "synced", ""),
        row("local_7", "synced", ""),
    ];
    assert_eq!(reasons(&results, "localId"), expected);
    let number = |at: usize| results[at]["message"]["sequenceNumber"].as_i64().unwrap();
    assert!(number(7) > number(6), "the next free one: {results:?}");
    assert_eq!(stage.messages(&conversation).len(), 2);
    // The same over HTTP, of which the server remembers what it has.
    let path = format!("POST /api/v1/conversations/{conversation}/sync");
    let (status, answer) = stage.http(&path, ANN, &json!({ "messages": poisoned() })).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(reasons(answer["synced_messages"].as_array().unwrap(), "local_id"), expected);
    assert_eq!(stage.messages(&conversation).len(), 2);
}
