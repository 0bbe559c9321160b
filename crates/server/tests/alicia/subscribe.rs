//! Subscriptions: AL-089 to AL-095.

use serde_json::{Value, json};

use crate::device::{
    ACK, ASSISTANT, COMMENTARY, Device, ELITE, ERROR, FEEDBACK, MEMORY, MEMORY_DONE, NOTE, NOTE_DONE, RESULT,
    SENTENCE, START, STATS, STOP, SUBSCRIBE, SUBSCRIBED, SYNC, SYNCED, UNSUBSCRIBE, UNSUBSCRIBED, USER,
    VARIATION, WEIGHTS, places,
};
use crate::stage::Stage;
use crate::support::{ANN, BOB};

async fn upgrade(stage: &Stage, headers: &[(&'static str, &str)]) -> Result<Device, u16> {
    let headers: Vec<(&'static str, String)> =
        headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Device::open_with(stage.address, &headers).await
}

#[tokio::test]
async fn al_089_without_a_credential_there_is_no_upgrade() {
    let stage = Stage::start(&[]).await;
    for headers in [
        &[][..],
        &[("Authorization", "Bearer key-of-nobody-0123456789abcdef")],
        &[("Authorization", "Basic YW5uOmFubg==")],
        &[("X-User-ID", "ann")],
        &[("Sec-WebSocket-Protocol", "bearer.key-of-nobody-0123456789abcdef")],
    ] {
        assert_eq!(upgrade(&stage, headers).await.err(), Some(401), "{headers:?}");
    }
}

#[tokio::test]
async fn al_089_a_foreign_origin_is_refused_before_the_upgrade() {
    let stage = Stage::start(&["allowed_origins=['https://app.example']"]).await;
    let key = format!("Bearer {}", ANN.unwrap());
    let from = |origin: &'static str| [("Authorization", key.clone()), ("Origin", origin.to_owned())];
    let refused = Device::open_with(stage.address, &from("https://evil.example")).await;
    assert_eq!(refused.err(), Some(403));
    let mut allowed = Device::open_with(stage.address, &from("https://app.example")).await.expect("allowed");
    allowed.create().await;
    let mut absent = Device::open(stage.address, ANN).await.expect("no origin is fine");
    absent.create().await;
}

#[tokio::test]
async fn al_089_the_caller_is_who_the_credential_says() {
    let stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    let key = format!("Bearer {}", BOB.unwrap());
    let headers = [("Authorization", key), ("X-User-ID", "ann".to_owned())];
    let mut bob = Device::open_with(stage.address, &headers).await.expect("an upgrade");
    bob.send_to(&conversation, SUBSCRIBE, json!({})).await;
    let [ack] = bob.expect([(0, SUBSCRIBED)]).await;
    assert_eq!(ack.body["error"], json!("not_found"));
}

#[tokio::test]
async fn al_090_the_ack_comes_before_anything_of_the_conversation() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.say("am_2", "go on").await;
    stage.scenes.next().await.babble("More. And ").await;
    for body in [json!({}), json!({ "fromSequence": 0 })].iter().cycle().take(20) {
        let mut other = stage.ann().await;
        other.send_to(&conversation, SUBSCRIBE, body.clone()).await;
        let first = other.next().await;
        assert_eq!(first.kind, SUBSCRIBED, "{first:?}");
        let mut live = other.until(|envelope| envelope.kind == SENTENCE).await;
        let next = other.until(|envelope| envelope.kind == SENTENCE).await;
        live.extend(next);
        let stanzas: Vec<i64> = live.iter().map(|e| e.stanza).filter(|stanza| *stanza < 0).collect();
        assert!(stanzas.windows(2).all(|pair| pair[1] == pair[0] - 1), "{stanzas:?}");
    }
}

#[tokio::test]
async fn al_091_what_cannot_be_seen_is_not_found() {
    let stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    for (device, id) in [
        (&mut stage.bob().await, conversation.as_str()),
        (&mut stage.bob().await, "ac_000000000000000000000"),
        (&mut stage.ann().await, "ac_000000000000000000000"),
    ] {
        for _ in 0..2 {
            device.send_to(id, SUBSCRIBE, json!({ "fromSequence": 0 })).await;
            let [ack] = device.expect([(0, SUBSCRIBED)]).await;
            let expected = json!({ "conversationId": id, "success": false, "error": "not_found" });
            assert_eq!((ack.conversation.as_str(), &ack.body), (id, &expected));
        }
        device.quiet().await;
    }
}

#[tokio::test]
async fn al_091_what_is_no_request_is_told() {
    let stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.send_to("", SUBSCRIBE, json!({})).await;
    let [ack] = device.expect([(0, SUBSCRIBED)]).await;
    let expected = json!({ "conversationId": "", "success": false, "error": "conversation_id_required" });
    assert_eq!(ack.body, expected);
    device.send_to("ac_1", SUBSCRIBE, json!({ "fromSequence": "all" })).await;
    let [ack] = device.expect([(0, SUBSCRIBED)]).await;
    assert_eq!((&ack.body["success"], &ack.body["error"]), (&json!(false), &json!("invalid_request")));
    device.send_to("", UNSUBSCRIBE, json!({})).await;
    let [ack] = device.expect([(0, UNSUBSCRIBED)]).await;
    assert_eq!(ack.body, json!({ "conversationId": "", "success": false }));
}

#[tokio::test]
async fn al_091_the_conversation_may_be_named_in_the_body_alone() {
    let stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    let mut other = stage.ann().await;
    other.send_to("", SUBSCRIBE, json!({ "conversationId": conversation })).await;
    let [ack] = other.expect([(0, SUBSCRIBED)]).await;
    assert_eq!(ack.body, json!({ "conversationId": conversation, "success": true }));
}

#[tokio::test]
async fn al_092_later_messages_of_the_active_path_are_brought() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "One.").await;
    stage.turn(&mut device, -3, "am_2", "Two.").await;
    // The path goes on from the first answer; the second turn is off it.
    device.send(USER, json!({ "id": "am_3", "previousId": first, "content": "three" })).await;
    stage.scenes.next().await.answer("Three.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let third = got[1].assert_start("am_3");
    let number = |id: &str| {
        let sql = "SELECT sequence_number FROM alicia_messages WHERE id = ?";
        stage.rows(sql, id)[0][0].as_i64().unwrap()
    };
    let path = [("am_1", USER), (first.as_str(), ASSISTANT), ("am_3", USER), (third.as_str(), ASSISTANT)];
    let mut froms: Vec<i64> = vec![0];
    froms.extend(path.iter().map(|(id, _)| number(id)));
    for (held, from) in froms.into_iter().enumerate() {
        let mut other = stage.ann().await;
        other.send_to(&conversation, SUBSCRIBE, json!({ "fromSequence": from })).await;
        let [ack] = other.expect([(0, SUBSCRIBED)]).await;
        let missed = path.len() - held;
        let expected = json!({ "conversationId": conversation, "success": true, "missedMessages": missed });
        assert_eq!(ack.body, expected);
        let wanted: Vec<(i64, u64)> = path[held..].iter().map(|(_, kind)| (0, *kind)).collect();
        let brought = other.expect_all(&wanted).await;
        let ids: Vec<&str> = brought.iter().map(|message| message.id()).collect();
        assert_eq!(ids, path[held..].iter().map(|(id, _)| *id).collect::<Vec<_>>());
        for message in &brought {
            assert_eq!(message.body["sequenceNumber"], json!(number(message.id())));
        }
        other.quiet().await;
    }
}

#[tokio::test]
async fn al_092_a_thousand_messages_are_brought_and_of_more_none() {
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for batch in 0..3 {
        let count = if batch == 2 { 1 } else { 500 };
        let messages: Vec<Value> = (0..count)
            .map(|number| {
                json!({
                    "localId": format!("local_{batch}_{number}"), "sequenceNumber": number + 1,
                    "role": "user", "contents": "offline", "createdAt": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        device.send(SYNC, json!({ "messages": messages })).await;
        device.expect([(0, SYNCED)]).await;
    }
    let mut other = stage.ann().await;
    other.send_to(&conversation, SUBSCRIBE, json!({ "fromSequence": 0 })).await;
    let [ack] = other.expect([(0, SUBSCRIBED)]).await;
    assert_eq!(ack.body["missedMessages"], json!(1001));
    other.quiet().await;
    other.send_to(&conversation, SUBSCRIBE, json!({ "fromSequence": 1 })).await;
    let [ack] = other.expect([(0, SUBSCRIBED)]).await;
    assert_eq!(ack.body["missedMessages"], json!(1000));
    let brought = other.expect_all(&[(0, USER); 1000]).await;
    let numbers: Vec<u64> = brought.iter().map(|m| m.body["sequenceNumber"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (2..=1001).collect::<Vec<_>>());
    other.quiet().await;
}

#[tokio::test]
async fn al_093_to_subscribe_and_unsubscribe_again_succeeds() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut other = stage.follow(&conversation).await;
    other.subscribe(&conversation).await;
    for _ in 0..2 {
        other.send(SUBSCRIBE, json!({ "fromSequence": 1 })).await;
        let [ack, _] = other.expect([(0, SUBSCRIBED), (0, ASSISTANT)]).await;
        assert_eq!(ack.body["missedMessages"], json!(1));
    }
    // Everything comes once, however often it was asked for.
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
    other.expect([(0, USER), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    for _ in 0..3 {
        other.send(UNSUBSCRIBE, json!({})).await;
        let [ack] = other.expect([(0, UNSUBSCRIBED)]).await;
        assert_eq!(ack.body, json!({ "conversationId": conversation, "success": true }));
    }
    stage.turn(&mut device, -5, "am_3", "Yes.").await;
    other.quiet().await;
    other.subscribe(&conversation).await;
    stage.turn(&mut device, -7, "am_4", "Yes.").await;
    other.expect([(0, USER), (-7, START), (-8, SENTENCE), (0, STATS)]).await;
}

#[tokio::test]
async fn al_094_nothing_of_a_conversation_follows_its_unsubscribe_ack() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    scene.babble("More. And ").await;
    for _ in 0..10 {
        let mut other = stage.follow(&conversation).await;
        let elsewhere = other.create_between(&conversation).await;
        other.until(|envelope| envelope.kind == SENTENCE).await;
        other.send_to(&conversation, UNSUBSCRIBE, json!({})).await;
        other.until(|envelope| envelope.kind == UNSUBSCRIBED).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        other.quiet().await;
        assert_ne!(elsewhere, conversation);
    }
}

#[tokio::test]
async fn al_094_other_conversations_go_on() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, first) = stage.begin().await;
    let second = device.create().await;
    device.send_to(&first, UNSUBSCRIBE, json!({})).await;
    device.expect([(0, UNSUBSCRIBED)]).await;
    assert_eq!(device.conversation, second);
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_095_requests_without_a_subscription_do_nothing() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let mut other = stage.ann().await;
    other.conversation.clone_from(&conversation);
    let offline = json!({
        "localId": "local_1", "sequenceNumber": 3, "role": "user", "contents": "offline",
        "createdAt": "2026-01-01T00:00:00Z",
    });
    let requests: [(u64, bool, &str, Value); 11] = [
        (USER, true, "am_2", json!({ "id": "am_2", "content": "hi" })),
        (RESULT, true, "atu_1", json!({ "id": "atu_1", "success": true })),
        (STOP, true, "", json!({})),
        (VARIATION, true, "", json!({ "targetId": "am_1", "mode": "regenerate" })),
        (COMMENTARY, true, "aucc_1", json!({ "id": "aucc_1", "messageId": "", "content": "x" })),
        (WEIGHTS, true, "", json!({ "weights": {}, "timestamp": 1 })),
        (ELITE, true, "", json!({ "eliteId": "pa_1", "timestamp": 1 })),
        (SYNC, false, "", json!({ "messages": [offline] })),
        (
            FEEDBACK,
            false,
            "av_1",
            json!({
                "id": "av_1", "messageId": answer, "targetType": "message", "targetId": answer, "vote": "up",
                "timestamp": 1,
            }),
        ),
        (
            NOTE,
            false,
            "an_1",
            json!({
                "id": "an_1", "messageId": answer, "content": "x", "category": "general", "action": "create",
                "timestamp": 1,
            }),
        ),
        (
            MEMORY,
            false,
            "amem_1",
            json!({ "id": "amem_1", "action": "create", "memory": { "content": "x" }, "timestamp": 1 }),
        ),
    ];
    for (kind, acknowledged, id, body) in &requests {
        let stanza = other.send(*kind, body.clone()).await;
        let [error] = other.expect([(0, ERROR)]).await;
        let origin = if id.is_empty() { stanza.to_string() } else { (*id).to_owned() };
        error.assert_error(202, true, &origin);
        assert!(error.text("message").contains("not subscribed"), "{error:?}");
        if *acknowledged {
            let [ack] = other.expect([(0, ACK)]).await;
            ack.assert_ack(stanza, false);
        }
    }
    other.quiet().await;
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 2);
    for table in ["alicia_votes", "alicia_notes", "alicia_memory", "alicia_user_conversation_commentaries"] {
        assert_eq!(stage.rows(&format!("SELECT id FROM {table} WHERE id != ?"), ""), Vec::<Value>::new());
    }
    // Notes and memories need no conversation.
    for (kind, done) in [(NOTE, NOTE_DONE), (MEMORY, MEMORY_DONE)] {
        let (.., body) = requests.iter().find(|(known, ..)| *known == kind).unwrap();
        other.send_to("", kind, body.clone()).await;
        let [answer] = other.expect([(0, done)]).await;
        assert_eq!((answer.conversation.as_str(), &answer.body["success"]), ("", &json!(true)));
    }
}

#[tokio::test]
async fn al_095_a_subscription_ends_with_its_socket() {
    let mut stage = Stage::start(&[]).await;
    let (device, conversation) = stage.begin().await;
    drop(device);
    let mut device = stage.ann().await;
    device.conversation = conversation;
    device.say("am_1", "hi").await;
    let got = device.expect([(0, ERROR), (0, ACK)]).await;
    assert_eq!(places(&got).len(), 2);
    device.quiet().await;
    stage.scenes.assert_none();
}
