//! Bounds of a connection: AL-010 (rates and sizes), AL-098, AL-106.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::device::{
    ACK, COMMENTARY, CONFIGURATION, ERROR, Envelope, SENTENCE, START, STATS, SUBSCRIBE, SUBSCRIBED,
    UNSUBSCRIBE, UNSUBSCRIBED, envelope, places,
};
use crate::stage::Stage;
use crate::support::config;
use crate::support::wire::Over;

#[tokio::test]
async fn al_098_the_server_pings_and_whoever_answers_stays() {
    let mut stage = Stage::start(&["alicia.limits.ping_s=1", "alicia.limits.idle_s=3"]).await;
    let (mut device, _) = stage.begin().await;
    let begun = Instant::now();
    let mut pings = Vec::new();
    // Reading answers pings.
    while begun.elapsed() < Duration::from_secs(6) {
        match timeout(Duration::from_millis(200), device.socket.next()).await {
            Ok(Some(Ok(Message::Ping(_)))) => pings.push(begun.elapsed()),
            Ok(other) => panic!("{other:?} after {pings:?}"),
            Err(_) => {}
        }
    }
    assert!((3..=7).contains(&pings.len()), "{pings:?}");
    stage.turn(&mut device, -1, "am_1", "Still here.").await;
}

#[tokio::test]
async fn al_098_whoever_is_silent_is_dropped() {
    let stage = Stage::start(&["alicia.limits.ping_s=1", "alicia.limits.idle_s=2"]).await;
    let (mut device, _) = stage.begin().await;
    // Nothing is read, so no ping is answered.
    sleep(Duration::from_secs(5)).await;
    let over = device.over().await;
    assert!(matches!(over, Over::Closed(_) | Over::Lost), "{over:?}");
}

#[tokio::test]
async fn al_098_any_frame_is_a_sign_of_life() {
    let stage = Stage::start(&["alicia.limits.ping_s=1", "alicia.limits.idle_s=4"]).await;
    let (mut device, conversation) = stage.begin().await;
    for number in 0..8 {
        sleep(Duration::from_secs(1)).await;
        let ack = json!({ "acknowledgedStanzaId": -1, "success": true });
        let message = if number % 2 == 0 {
            Message::text("hello")
        } else {
            Message::binary(envelope(0, &conversation, 8, &ack))
        };
        device.socket.send(message).await.expect("still connected");
    }
    device.quiet().await;
}

#[tokio::test]
async fn al_098_text_is_ignored() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for text in ["", "hello", "{\"type\":2}", "\u{82}"] {
        device.socket.send(Message::text(text)).await.unwrap();
    }
    let lookalike =
        String::from_utf8_lossy(&envelope(9, &conversation, 2, &json!({ "id": "am_1" }))).into_owned();
    device.socket.send(Message::text(lookalike)).await.unwrap();
    device.quiet().await;
    stage.scenes.assert_none();
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_098_half_a_minute_and_a_minute_are_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let limits = config(folder.path(), &[]).alicia.limits;
    assert_eq!((limits.ping_s, limits.idle_s, limits.write_s), (30, 60, 10));
}

/// Envelopes in one frame.
fn batch(envelopes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0xdc];
    bytes.extend_from_slice(&u16::try_from(envelopes.len()).unwrap().to_be_bytes());
    envelopes.iter().for_each(|envelope| bytes.extend_from_slice(envelope));
    bytes
}

#[tokio::test]
async fn al_106_what_does_not_fit_the_queue_is_504_and_what_does_keeps_its_order() {
    let stage = Stage::stored(&["alicia.limits.work_queue=5"]).await;
    let (mut device, conversation) = stage.begin().await;
    let remark = |number: i64| {
        let body = json!({ "id": format!("aucc_{number}"), "messageId": "", "content": "x" });
        envelope(100 + number, &conversation, COMMENTARY, &body)
    };
    let remarks: Vec<Vec<u8>> = (0..64).map(remark).collect();
    device.send_bytes(batch(&remarks)).await;
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    while taken.len() + refused.len() < 64 {
        let next = device.next().await;
        if next.kind == ERROR {
            let [ack] = device.expect([(0, ACK)]).await;
            let stanza = ack.body["acknowledgedStanzaId"].as_i64().unwrap();
            next.assert_error(504, true, &format!("aucc_{}", stanza - 100));
            ack.assert_ack(stanza, false);
            refused.push(stanza);
        } else {
            let stanza = next.body["acknowledgedStanzaId"].as_i64().unwrap();
            next.assert_ack(stanza, true);
            taken.push(stanza);
        }
    }
    assert!(taken.len() >= 5 && !refused.is_empty(), "{taken:?} {refused:?}");
    assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "{taken:?}");
    let sql =
        "SELECT id FROM alicia_user_conversation_commentaries WHERE conversation_id = ? ORDER BY created_at";
    let mut stored: Vec<i64> = stage
        .rows(sql, &conversation)
        .iter()
        .map(|row| 100 + row[0].as_str().unwrap()["aucc_".len()..].parse::<i64>().unwrap())
        .collect();
    stored.sort_unstable();
    assert_eq!(stored, taken, "what was taken is stored, what was refused is not");
}

#[tokio::test]
async fn al_106_a_hundred_requests_may_wait() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(config(folder.path(), &[]).alicia.limits.work_queue, 100);
    let stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for half in 0..2 {
        let remarks: Vec<Vec<u8>> = (0..50)
            .map(|number| {
                let number = 100 + 50 * half + number;
                let body = json!({ "id": format!("aucc_{number}"), "messageId": "", "content": "x" });
                envelope(number, &conversation, COMMENTARY, &body)
            })
            .collect();
        device.send_bytes(batch(&remarks)).await;
    }
    for stanza in 100..200 {
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
    }
}

#[tokio::test]
async fn al_010_who_is_too_fast_is_told_to_slow_down() {
    let settings = ["alicia.limits.envelopes_per_10_s=1", "alicia.limits.envelopes_burst=5"];
    let mut stage = Stage::start(&settings).await;
    let (mut device, _) = stage.begin().await;
    for number in 0..4 {
        device
            .send(COMMENTARY, json!({ "id": format!("aucc_{number}"), "messageId": "", "content": "x" }))
            .await;
        device.expect([(0, ACK)]).await;
    }
    let stanza = device.say("am_1", "hi").await;
    let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
    error.assert_error(505, true, "am_1");
    ack.assert_ack(stanza, false);
    stage.scenes.assert_none();
    sleep(Duration::from_millis(10_500)).await;
    let stanza = device.say("am_1", "hi").await;
    let [ack, _] = device.expect([(0, ACK), (-1, START)]).await;
    ack.assert_ack(stanza, true);
}

#[tokio::test]
async fn al_010_sixty_envelopes_in_ten_seconds_are_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let limits = config(folder.path(), &[]).alicia.limits;
    assert_eq!((limits.envelopes_per_10_s, limits.envelopes_burst, limits.undecodable_per_min), (60, 60, 10));
}

#[tokio::test]
async fn al_010_a_frame_above_a_mebibyte_is_refused_and_above_four_ends_it() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    device.say("am_1", &"x".repeat(1 << 20)).await;
    let error = device.next().await;
    assert_eq!(
        (error.kind, &error.body["code"], &error.body["recoverable"]),
        (ERROR, &json!(104), &json!(true))
    );
    let rest = device.until_quiet().await;
    assert!(
        rest.iter().all(|envelope| envelope.kind == ACK && envelope.body["success"] == false),
        "{rest:?}"
    );
    stage.scenes.assert_none();
    device.say("am_2", &"x".repeat((4 << 20) + 1)).await;
    assert_eq!(device.over().await, Over::Closed(1009));
}

#[tokio::test]
async fn al_010_envelopes_may_come_in_an_array_of_64() {
    let stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let remark = |number: i64| {
        let body = json!({ "id": format!("aucc_{number}"), "messageId": "", "content": "x" });
        envelope(number, &conversation, COMMENTARY, &body)
    };
    device.send_bytes(batch(&(100..164).map(remark).collect::<Vec<_>>())).await;
    for stanza in 100..164 {
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(stanza, true);
    }
    device.stanza = 200;
    device.send_bytes(batch(&(300..365).map(remark).collect::<Vec<_>>())).await;
    let [error] = device.expect([(0, ERROR)]).await;
    assert!(matches!(error.body["code"].as_u64(), Some(101 | 104)), "{error:?}");
    device.quiet().await;
}

#[tokio::test]
async fn al_091_a_hundred_subscriptions_and_not_one_more() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    let mut conversations = Vec::new();
    for _ in 0..100 {
        conversations.push(device.create().await);
    }
    let (_other, another) = stage.begin().await;
    device.send_to(&another, SUBSCRIBE, json!({})).await;
    let [ack] = device.expect([(0, SUBSCRIBED)]).await;
    let refused = json!({ "conversationId": another, "success": false, "error": "too_many_subscriptions" });
    assert_eq!(ack.body, refused);
    for conversation in ["", another.as_str()] {
        device.send_to(conversation, CONFIGURATION, json!({ "features": ["streaming"] })).await;
        let [error] = device.expect([(0, ERROR)]).await;
        assert_eq!(error.body["code"], json!(202), "{error:?}");
    }
    // What it has goes on, and can be asked for again.
    device.subscribe(&conversations[99]).await;
    device.conversation.clone_from(&conversations[50]);
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.send_to(&conversations[0], UNSUBSCRIBE, json!({})).await;
    device.expect([(0, UNSUBSCRIBED)]).await;
    device.subscribe(&another).await;
}

/// The stanzas among envelopes.
fn stanzas(envelopes: &[Envelope]) -> Vec<i64> {
    places(envelopes).into_iter().map(|(stanza, _)| stanza).filter(|stanza| *stanza < 0).collect()
}

#[tokio::test]
async fn al_025_a_slow_reader_holds_up_nobody_and_misses_nothing() {
    let mut stage = Stage::stored(&["alicia.limits.write_s=60"]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut slow = stage.follow(&conversation).await;
    let mut fast = stage.follow(&conversation).await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    let mut sentence = "Word ".repeat(1600);
    sentence.push_str("end. ");
    let said = async {
        for _ in 0..800 {
            scene.say(&sentence).await;
        }
        scene.finish().await;
    };
    let is_over = |envelope: &Envelope| envelope.kind == STATS;
    let ((), seen, told) = tokio::join!(said, fast.until(is_over), device.until(is_over));
    let last = &seen[seen.len() - 2];
    assert_eq!((last.stanza, last.kind), (-801, SENTENCE), "{:.200}", format!("{last:?}"));
    assert_eq!(stanzas(&seen), (-801..=-1).rev().collect::<Vec<_>>());
    assert_eq!(stanzas(&told), stanzas(&seen));
    let read = slow.until(is_over).await;
    assert_eq!(stanzas(&read), stanzas(&seen));
    assert!(
        read.iter()
            .filter(|e| e.kind == SENTENCE)
            .zip(seen.iter().filter(|e| e.kind == SENTENCE))
            .all(|(a, b)| a.bytes == b.bytes)
    );
}

#[tokio::test]
async fn al_025_a_reader_that_does_not_read_at_all_is_disconnected_and_can_resume() {
    let mut stage = Stage::stored(&["alicia.limits.write_s=1"]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut stuck = stage.follow(&conversation).await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    let mut sentence = "Word ".repeat(1600);
    sentence.push_str("end. ");
    let said = async {
        for _ in 0..900 {
            scene.say(&sentence).await;
        }
        // More than any buffer of the system holds is on its way; time passes without a byte taken.
        sleep(Duration::from_secs(12)).await;
        scene.finish().await;
    };
    let ((), seen) = tokio::join!(said, device.until(|envelope| envelope.kind == STATS));
    let mut read = Vec::new();
    let over = loop {
        match stuck.try_next().await {
            Ok(envelope) if envelope.kind == STATS => break None,
            Ok(envelope) => read.push(envelope),
            Err(over) => break Some(over),
        }
    };
    let known = stanzas(&read);
    let head = known.last().copied().unwrap_or_default();
    assert_eq!(known, (head..=-1).rev().collect::<Vec<_>>(), "no hole");
    if let Some(over) = over {
        assert!(matches!(over, Over::Closed(_) | Over::Lost), "{over:?}");
        let mut again = stage.ann().await;
        let rest = again.resume(&conversation, head.min(-1)).await;
        assert_eq!(stanzas(&rest), stanzas(&seen)[head.min(-1).unsigned_abs() as usize..]);
    }
}

#[tokio::test]
async fn al_095_what_a_client_acknowledges_or_reports_has_no_effect() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let acks: [Value; 3] = [
        json!({ "acknowledgedStanzaId": -2, "success": true }),
        json!({ "acknowledgedStanzaId": -9999, "success": false }),
        json!({ "acknowledgedStanzaId": 3, "success": true }),
    ];
    for ack in acks {
        device.send(ACK, ack).await;
    }
    let fault =
        json!({ "id": "err_1", "code": 501, "message": "local", "severity": 3, "recoverable": false });
    device.send(ERROR, fault).await;
    device.send(ERROR, json!({ "nonsense": true })).await;
    device.quiet().await;
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
}
