//! Envelopes and stanzas: AL-010 to AL-021.

use serde_json::{Value, json};

use crate::device::{
    ACK, COMMENTARY, Device, ELITE, ERROR, FEEDBACK, FEEDBACK_DONE, OPTIONS, RESULT, SENTENCE, START, STATS,
    STOP, SUBSCRIBE, SUBSCRIBED, USER, VARIATION, WEIGHTS, envelope, places,
};
use crate::pack::{pack, pack_float, pack_map};
use crate::stage::Stage;
use crate::support::wire::Over;

/// Inputs that are no envelope.
fn malformed() -> Vec<Vec<u8>> {
    let whole = envelope(1, "ac_1", 8, &json!({ "acknowledgedStanzaId": 1, "success": true }));
    let unknown = envelope(-4, "ac_1", 999, &json!({}));
    vec![
        vec![],
        vec![0xc0],
        vec![0x80],
        b"\x81\xa4type\x02".to_vec(),
        b"\x82\xa4type\x02\xa4body\xc0".to_vec(),
        b"\x82\xa4type\xa3foo\xa4body\x80".to_vec(),
        [unknown, vec![0]].concat(),
        whole[..whole.len() - 1].to_vec(),
        vec![0xdf, 0xff, 0xff, 0xff, 0xff],
    ]
}

#[tokio::test]
async fn al_010_a_malformed_envelope_is_answered_and_ends_nothing() {
    for bytes in malformed() {
        let stage = Stage::start(&[]).await;
        let (mut device, _) = stage.begin().await;
        device.send_bytes(bytes.clone()).await;
        let [error] = device.expect([(0, ERROR)]).await;
        let said = (&error.body["code"], &error.body["severity"], &error.body["recoverable"]);
        assert_eq!(said, (&json!(101), &json!(2), &json!(true)), "{bytes:02x?}: {error:?}");
        device.quiet().await;
    }
}

#[tokio::test]
async fn al_010_nine_malformed_envelopes_are_borne_and_the_tenth_ends_the_connection() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    for bytes in malformed() {
        device.send_bytes(bytes).await;
        device.expect([(0, ERROR)]).await;
    }
    stage.turn(&mut device, -1, "am_1", "Still here.").await;
    device.send_bytes(vec![0xc0]).await;
    let over = device.over().await;
    assert!(matches!(over, Over::Closed(_) | Over::Lost), "{over:?}");
}

#[tokio::test]
async fn al_011_unknown_types_are_skipped_in_silence() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for kind in [19, 32, 35, 44, 56, 93, 999, 65535] {
        device.send_to(&conversation, kind, json!({ "id": "am_1", "content": "hi" })).await;
    }
    device.quiet().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_012_types_of_the_server_are_refused_from_a_client() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    for kind in [3, 5, 6, 9, 13, 14, 16, 18, 21, 23, 25, 26, 27, 28, 31, 42, 43] {
        let stanza = device.send(kind, json!({ "conversationId": conversation })).await;
        let [error] = device.expect([(0, ERROR)]).await;
        error.assert_error(102, true, &stanza.to_string());
    }
    let final_transcription = json!({
        "id": "am_spoken", "conversationId": conversation, "text": "hello", "final": true,
    });
    device.send(9, final_transcription).await;
    let [error] = device.expect([(0, ERROR)]).await;
    error.assert_error(102, true, "am_spoken");
    device.quiet().await;
    watching.quiet().await;
    stage.scenes.assert_none();
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
}

#[tokio::test]
async fn al_013_two_conversations_in_one_envelope_are_refused() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, other) = stage.begin().await;
    let conversation = device.create().await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let bodies: [(u64, &str, Value); 7] = [
        (USER, "am_2", json!({ "id": "am_2", "content": "hi" })),
        (RESULT, "atu_1_result", json!({ "id": "atu_1_result", "requestId": "atu_1", "success": true })),
        (STOP, "", json!({})),
        (VARIATION, "", json!({ "targetId": answer, "mode": "regenerate" })),
        (COMMENTARY, "aucc_1", json!({ "id": "aucc_1", "messageId": answer, "content": "good" })),
        (WEIGHTS, "", json!({ "weights": {}, "timestamp": 1 })),
        (ELITE, "", json!({ "eliteId": "pa_1", "timestamp": 1 })),
    ];
    for (kind, id, mut body) in bodies {
        body["conversationId"] = json!(other);
        let stanza = device.send(kind, body).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        let origin = if id.is_empty() { stanza.to_string() } else { id.to_owned() };
        error.assert_error(201, true, &origin);
        ack.assert_ack(stanza, false);
    }
    let vote = json!({
        "id": "av_1", "conversationId": other, "messageId": answer, "targetType": "message",
        "targetId": answer, "vote": "up", "timestamp": 1,
    });
    device.send(FEEDBACK, vote).await;
    let [error] = device.expect([(0, ERROR)]).await;
    error.assert_error(201, true, "av_1");
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&other).len(), 0);
    assert_eq!(stage.messages(&conversation).len(), 2);
    for table in ["alicia_votes", "alicia_user_conversation_commentaries"] {
        assert_eq!(stage.rows(&format!("SELECT id FROM {table} WHERE id != ?"), ""), Vec::<Value>::new());
    }
}

#[tokio::test]
async fn al_014_the_name_of_a_room_stands_for_its_conversation() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    let mut other = stage.ann().await;
    let room = format!("conv_{conversation}");
    other.send_to(&room, SUBSCRIBE, json!({})).await;
    let [ack] = other.expect([(0, SUBSCRIBED)]).await;
    assert_eq!((ack.conversation.as_str(), &ack.body["success"]), (conversation.as_str(), &json!(true)));
    let stanza = other.send_to(&room, USER, json!({ "id": "am_1", "content": "hi" })).await;
    let [ack] = other.expect([(0, ACK)]).await;
    assert_eq!(ack.conversation, conversation);
    ack.assert_ack(stanza, true);
    stage.scenes.next().await.finish().await;
}

#[tokio::test]
async fn al_015_ids_are_opaque_up_to_128_bytes() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let longest = "+/=~!\"'%_-".repeat(13)[..128].to_owned();
    stage.turn(&mut device, -1, &longest, "Yes.").await;
    stage.turn(&mut device, -3, "7", "Yes.").await;
    let [announced] = watching.expect([(0, USER)]).await;
    assert_eq!(announced.id(), longest);
    assert_eq!(stage.messages(&conversation)[0][0], json!(longest));
    for id in ["x".repeat(129), "with space".to_owned(), "ümlaut".to_owned(), String::new()] {
        let stanza = device.say(&id, "hi").await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        assert!(matches!(error.body["code"].as_u64(), Some(101 | 104 | 105)), "{error:?}");
        assert_eq!(error.body["recoverable"], json!(true));
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 4);
}

#[tokio::test]
async fn al_016_stanzas_are_dense_from_minus_one_in_each_conversation() {
    let mut stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    let conversations = [device.create().await, device.create().await];
    for first in [-1, -3, -5] {
        for conversation in &conversations {
            device.conversation.clone_from(conversation);
            stage.turn(&mut device, first, &format!("am_{first}_of_{conversation}"), "Yes.").await;
        }
    }
}

#[tokio::test]
async fn al_018_what_is_unsequenced_has_0_and_takes_no_number() {
    let mut stage = Stage::start(&["alicia.elites=[{id='pa_1',label='one'}]"]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let answer = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.send(WEIGHTS, json!({ "weights": {}, "preset": "speed", "timestamp": 1 })).await;
    device.expect([(0, ACK), (0, OPTIONS)]).await;
    device.send(ELITE, json!({ "eliteId": "pa_1", "timestamp": 1 })).await;
    device.expect([(0, ACK), (0, OPTIONS)]).await;
    let vote = json!({
        "id": "av_1", "messageId": answer, "targetType": "message", "targetId": answer, "vote": "up",
        "timestamp": 1,
    });
    device.send(FEEDBACK, vote).await;
    device.expect([(0, FEEDBACK_DONE)]).await;
    device.send(USER, json!({ "id": "am_2", "content": " " })).await;
    device.expect([(0, ERROR), (0, ACK)]).await;
    device.resume(&conversation, 0).await;
    stage.turn(&mut device, -3, "am_3", "Yes.").await;
    let got = watching.until(|envelope| envelope.stanza == -4).await;
    let sequenced: Vec<(i64, u64)> = places(&got).into_iter().filter(|(stanza, _)| *stanza != 0).collect();
    assert_eq!(sequenced, [(-1, START), (-2, SENTENCE), (-3, START), (-4, SENTENCE)]);
}

#[tokio::test]
async fn al_019_a_decreasing_stanza_with_something_new_is_dropped() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.stanza = 9;
    let answer = stage.turn(&mut device, -1, "am_1", "Gaps are fine.").await;
    let vote = json!({
        "id": "av_1", "messageId": answer, "targetType": "message", "targetId": answer, "vote": "up",
        "timestamp": 1,
    });
    let new: [(u64, &str, Value); 5] = [
        (USER, "am_2", json!({ "id": "am_2", "content": "hi" })),
        (COMMENTARY, "aucc_1", json!({ "id": "aucc_1", "messageId": "am_1", "content": "hm" })),
        (FEEDBACK, "av_1", vote),
        (STOP, "", json!({})),
        (VARIATION, "", json!({ "targetId": "am_1", "mode": "regenerate" })),
    ];
    for stanza in [10, 3] {
        for (kind, id, body) in &new {
            device.send_as(stanza, &conversation, *kind, body.clone()).await;
            let [error] = device.expect([(0, ERROR)]).await;
            let origin = if id.is_empty() { stanza.to_string() } else { (*id).to_owned() };
            error.assert_error(103, true, &origin);
        }
    }
    device.quiet().await;
    stage.scenes.assert_none();
    assert_eq!(stage.messages(&conversation).len(), 2);
    assert_eq!(stage.rows("SELECT id FROM alicia_votes WHERE id != ?", ""), Vec::<Value>::new());
}

#[tokio::test]
async fn al_019_a_repeated_stanza_with_something_known_is_acknowledged_again() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.stanza = 4;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let stanza =
        device.send(COMMENTARY, json!({ "id": "aucc_1", "messageId": "am_1", "content": "hm" })).await;
    device.expect([(0, ACK)]).await;
    for repeated in [5, 2] {
        device.send_as(repeated, &conversation, USER, json!({ "id": "am_1", "content": "am_1" })).await;
        let [ack] = device.expect([(0, ACK)]).await;
        ack.assert_ack(repeated, true);
    }
    let again = json!({ "id": "aucc_1", "messageId": "am_1", "content": "hm" });
    device.send_as(stanza, &conversation, COMMENTARY, again).await;
    let [ack] = device.expect([(0, ACK)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    stage.scenes.assert_none();
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
}

#[tokio::test]
async fn al_020_a_new_connection_begins_at_1_again() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.stanza = 40;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    drop(device);
    let mut device = stage.ann().await;
    device.resume(&conversation, -2).await;
    assert_eq!(device.stanza, 1);
    stage.turn(&mut device, -3, "am_2", "Yes.").await;
}

/// Sends an envelope whose stanza is packed already.
async fn send_odd(device: &mut Device, stanza: Vec<u8>, kind: u64, mut body: Value) {
    body["conversationId"] = json!(device.conversation);
    let bytes = pack_map(&[
        ("stanzaId", stanza),
        ("conversationId", pack(&json!(device.conversation))),
        ("type", pack(&json!(kind))),
        ("body", pack(&body)),
    ]);
    device.send_bytes(bytes).await;
}

#[tokio::test]
async fn al_021_a_stanza_beyond_32_bits_is_processed_and_not_acknowledged() {
    let mut stage = Stage::start(&["alicia.elites=[{id='pa_1',label='one'}]"]).await;
    let (mut device, _) = stage.begin().await;
    let choice = json!({ "eliteId": "pa_1", "timestamp": 1_767_225_600_000_u64 });
    send_odd(&mut device, pack_float(1_767_225_600_000_001.0), ELITE, choice).await;
    let [options] = device.expect([(0, OPTIONS)]).await;
    assert_eq!(options.body["currentEliteId"], "pa_1");
    for (stanza, id) in
        [(pack(&json!(1_u64 << 40)), "am_1"), (pack_float(1.5), "am_2"), (pack(&json!(0)), "am_3")]
    {
        send_odd(&mut device, stanza, USER, json!({ "id": id, "content": "hi" })).await;
        stage.scenes.next().await.finish().await;
        let got = device.until(|envelope| envelope.kind == STATS).await;
        assert!(got.iter().all(|envelope| envelope.kind != ACK && envelope.kind != ERROR), "{got:#?}");
    }
    stage.turn(&mut device, -7, "am_4", "The order goes on where it was.").await;
}
