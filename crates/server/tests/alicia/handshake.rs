//! Handshake and replay: AL-022 to AL-032.

use serde_json::{Value, json};

use crate::device::{
    ACK, CONFIGURATION, Device, ERROR, Envelope, INFO, INTRODUCTION, OPTIONS, REASONING, REQUEST, RESULT,
    SENTENCE, START, STATS, SUBSCRIBE, SUBSCRIBED, USER, bytes, places,
};
use crate::stage::Stage;
use crate::support::ANN;

/// A conversation with two turns, the first with everything that an answer can have; what a second device saw
/// of it while it happened, without what is not kept.
async fn rich(stage: &mut Stage) -> (Device, String, Vec<Envelope>) {
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    device.say("am_first", "first").await;
    let scene = stage.scenes.next().await;
    scene.think("Let me see.").await;
    scene.say("One. Two").await;
    scene.tool("clock", Ok(json!({ "time": "12:00" }))).await;
    scene.answer(". Three.").await;
    device.until(|envelope| envelope.kind == STATS).await;
    stage.turn(&mut device, -8, "am_second", "Again.").await;
    let mut seen = watching.until(|envelope| envelope.kind == STATS).await;
    seen.extend(watching.until(|envelope| envelope.kind == STATS).await);
    seen.retain(|envelope| envelope.kind != STATS);
    let told = [
        (0, USER),
        (-1, START),
        (-2, REASONING),
        (-3, SENTENCE),
        (-4, REQUEST),
        (-5, RESULT),
        (-6, SENTENCE),
        (-7, SENTENCE),
        (0, USER),
        (-8, START),
        (-9, SENTENCE),
    ];
    assert_eq!(places(&seen), told, "{seen:#?}");
    (device, conversation, seen)
}

/// What lies behind a stanza.
fn beyond(seen: &[Envelope], mark: i64) -> &[Envelope] {
    let at = seen.iter().position(|envelope| envelope.stanza == mark).unwrap();
    &seen[at + 1..]
}

#[tokio::test]
async fn al_022_a_new_conversation_is_configured_first() {
    let stage = Stage::start(&[]).await;
    let mut device = stage.ann().await;
    device.configure("", 0, &["streaming"]).await;
    let [own] = device.expect([(0, CONFIGURATION)]).await;
    let id = own.conversation.strip_prefix("ac_").expect("an id of a conversation");
    assert!(id.len() == 21 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)));
    assert_eq!(own.body["conversationId"], json!(own.conversation));
    assert_eq!(own.body["lastSequenceSeen"].as_i64().unwrap_or_default(), 0, "{own:?}");
    let features = own.body["features"].as_array().expect("features");
    for feature in ["streaming", "tool_use", "reasoning_steps"] {
        assert!(features.contains(&json!(feature)), "{own:?}");
    }
}

#[tokio::test]
async fn al_022_every_further_configuration_is_answered_by_one_first() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    for _ in 0..2 {
        device.configure(&conversation, 0, &["streaming"]).await;
        let [own, ack, ..] =
            device.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
        assert_eq!(own.body["conversationId"], json!(conversation));
        assert_eq!(own.body["lastSequenceSeen"], json!(-2));
        ack.assert_ack(0, true);
    }
    device.quiet().await;
}

#[tokio::test]
async fn al_022_a_later_configuration_changes_how_answers_come() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.resume_with(&conversation, 0, &[]).await;
    device.say("am_1", "whole?").await;
    stage.scenes.next().await.answer("Whole.").await;
    device.expect([(0, ACK), (-1, crate::device::ASSISTANT), (0, STATS)]).await;
}

#[tokio::test]
async fn al_023_the_mark_is_acknowledged_as_a_negative_number() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation, _) = rich(&mut stage).await;
    for last in [-9, 9, -4, 4] {
        let mut other = stage.ann().await;
        other.configure(&conversation, last, &["streaming"]).await;
        let [own, ack] = other.expect([(0, CONFIGURATION), (0, ACK)]).await;
        assert_eq!(own.body["lastSequenceSeen"], json!(-9));
        ack.assert_ack(-last.abs(), true);
    }
}

#[tokio::test]
async fn al_024_a_replay_is_what_was_seen_live_byte_for_byte_from_every_stanza() {
    let mut stage = Stage::stored(&[]).await;
    let (_device, conversation, seen) = rich(&mut stage).await;
    for mark in -9..=-1 {
        let mut other = stage.ann().await;
        let replayed = other.resume(&conversation, mark).await;
        assert_eq!(bytes(&replayed), bytes(beyond(&seen, mark)), "{mark}: {replayed:#?}");
        other.quiet().await;
    }
}

#[tokio::test]
async fn al_024_a_replay_in_the_middle_of_an_answer_goes_on_live_without_a_seam() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "count").await;
    let scene = stage.scenes.next().await;
    scene.say("One. Two. Three. Four").await;
    let live = device.until(|envelope| envelope.stanza == -4).await;
    let mut resumed = Vec::new();
    for mark in -4..=-1 {
        let mut other = stage.ann().await;
        let replayed = other.resume(&conversation, mark).await;
        let beyond: Vec<&Envelope> = live.iter().filter(|envelope| envelope.stanza < mark).collect();
        assert_eq!(replayed.iter().collect::<Vec<_>>(), beyond);
        resumed.push(other);
    }
    scene.answer(". Five.").await;
    let rest = device.expect([(-5, SENTENCE), (-6, SENTENCE), (0, STATS)]).await;
    for mut other in resumed {
        let got = other.expect([(-5, SENTENCE), (-6, SENTENCE), (0, STATS)]).await;
        assert_eq!(bytes(&got[..2]), bytes(&rest[..2]));
    }
}

#[tokio::test]
async fn al_025_nothing_live_overtakes_a_replay() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    let text: String = (0..600).map(|number| format!("Number {number}. ")).collect();
    scene.say(&text).await;
    let mut other = stage.ann().await;
    other.configure(&conversation, -1, &["streaming"]).await;
    for number in 0..50 {
        scene.say(&format!("More {number}. ")).await;
    }
    scene.answer("End.").await;
    let [own, ack] = other.expect([(0, CONFIGURATION), (0, ACK)]).await;
    ack.assert_ack(-1, true);
    let head = own.body["lastSequenceSeen"].as_i64().unwrap();
    let got = other.until(|envelope| envelope.kind == SENTENCE && envelope.body["isFinal"] == true).await;
    let stanzas: Vec<i64> = got.iter().map(|e| e.stanza).filter(|stanza| *stanza != 0).collect();
    let last = -(1 + 600 + 50 + 1);
    assert_eq!(stanzas, (last..=-2).rev().collect::<Vec<_>>());
    let replayed = got.iter().position(|envelope| envelope.kind == INFO).expect("an introduction");
    assert_eq!(got[replayed - 1].stanza, head, "what comes before is the replay");
    assert_eq!(places(&got[replayed..replayed + 3]), INTRODUCTION);
}

#[tokio::test]
async fn al_026_info_stats_and_options_follow_the_replay() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation, _) = rich(&mut stage).await;
    let mut other = stage.ann().await;
    other.configure(&conversation, -7, &["streaming"]).await;
    let [_, _, _, _, _, info, stats, options] = other
        .expect([
            (0, CONFIGURATION),
            (0, ACK),
            (0, USER),
            (-8, START),
            (-9, SENTENCE),
            (0, INFO),
            (0, STATS),
            (0, OPTIONS),
        ])
        .await;
    assert_eq!(info.keys(), ["connection", "mcpServers", "model"]);
    assert_eq!(info.body["connection"]["status"], "connected");
    assert!(info.body["connection"]["latency"].is_u64() && info.body["mcpServers"].is_array(), "{info:?}");
    assert!(info.body["model"]["name"].is_string() && info.body["model"]["provider"].is_string(), "{info:?}");
    assert_eq!(stats.keys(), ["memoriesUsed", "messageCount", "sessionDuration", "toolCallCount"]);
    assert_eq!((&stats.body["messageCount"], &stats.body["toolCallCount"]), (&json!(4), &json!(1)));
    assert_eq!(options.keys(), ["conversationId", "currentEliteId", "elites", "timestamp"]);
    assert_eq!((&options.body["elites"], &options.body["currentEliteId"]), (&json!([]), &json!("")));
    other.quiet().await;
}

#[tokio::test]
async fn al_027_the_sign_of_the_mark_does_not_matter() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation, _) = rich(&mut stage).await;
    let mut replays = Vec::new();
    for last in [-3, 3] {
        let mut other = stage.ann().await;
        other.configure(&conversation, last, &["streaming"]).await;
        let got = other.until(|envelope| envelope.kind == INFO).await;
        replays.push(got[..got.len() - 1].iter().map(|e| e.bytes.clone()).collect::<Vec<_>>());
    }
    assert_eq!(replays[0].len(), 2 + 7);
    assert_eq!(replays[0], replays[1]);
}

#[tokio::test]
async fn al_028_no_mark_means_no_replay_and_the_head_is_told() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation, _) = rich(&mut stage).await;
    for body in [json!({ "lastSequenceSeen": 0 }), json!({}), json!({ "lastSequenceSeen": null })] {
        let mut other = stage.ann().await;
        other.send_to(&conversation, CONFIGURATION, body).await;
        let [own, ack, ..] =
            other.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
        assert_eq!(own.body["lastSequenceSeen"], json!(-9));
        ack.assert_ack(0, true);
        other.quiet().await;
    }
}

#[tokio::test]
async fn al_028_a_client_ahead_of_the_log_is_told_the_head_and_refused() {
    let mut stage = Stage::start(&[]).await;
    let (_device, conversation, _) = rich(&mut stage).await;
    let mut other = stage.ann().await;
    let stanza = other.configure(&conversation, -10, &["streaming"]).await;
    let [own, error] = other.expect([(0, CONFIGURATION), (0, ERROR)]).await;
    assert_eq!(own.body["lastSequenceSeen"], json!(-9));
    error.assert_error(202, true, &stanza.to_string());
}

#[tokio::test]
async fn al_029_a_gap_of_a_thousand_is_replayed_and_one_more_is_final() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    device.say("am_1", "go on").await;
    let scene = stage.scenes.next().await;
    // One more sentence than stanzas may be missed: with the StartAnswer the head is -1002.
    let text: Vec<String> = (0..1001).map(|number| format!("Number {number}.")).collect();
    scene.answer(&text.join(" ")).await;
    let seen = device.until(|envelope| envelope.kind == STATS).await;
    let mut other = stage.ann().await;
    let replayed = other.resume(&conversation, -2).await;
    assert_eq!(replayed.len(), 1000);
    assert_eq!(bytes(&replayed), bytes(&seen[3..seen.len() - 1]));
    let mut other = stage.ann().await;
    let stanza = other.configure(&conversation, -1, &["streaming"]).await;
    let [error] = other.expect([(0, ERROR)]).await;
    error.assert_error(202, false, &stanza.to_string());
    other.quiet().await;
    assert_eq!(other.resume(&conversation, 0).await, []);
}

/// The refusal of a handshake, without what tells one conversation from another.
async fn refusal(device: &mut Device, conversation: &str) -> Value {
    device.stanza = 0;
    device.configure(conversation, 0, &["streaming"]).await;
    let [error] = device.expect([(0, ERROR)]).await;
    error.assert_error(201, false, "1");
    device.quiet().await;
    let mut body = error.body.clone();
    body["id"] = Value::Null;
    body["conversationId"] = json!(error.text("conversationId").replace(conversation, "it"));
    body
}

#[tokio::test]
async fn al_030_unknown_and_foreign_conversations_look_the_same() {
    let stage = Stage::start(&[]).await;
    let (_device, conversation) = stage.begin().await;
    let foreign = refusal(&mut stage.bob().await, &conversation).await;
    let unknown = refusal(&mut stage.bob().await, "ac_000000000000000000000").await;
    assert_eq!(foreign, unknown);
}

#[tokio::test]
async fn al_030_a_deleted_conversation_looks_like_one_that_never_was() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    stage.turn(&mut device, -1, "am_1", "Yes.").await;
    let (status, _) =
        stage.http(&format!("DELETE /api/v1/conversations/{conversation}"), ANN, &Value::Null).await;
    assert!((200..300).contains(&status), "{status}");
    let deleted = refusal(&mut stage.ann().await, &conversation).await;
    let unknown = refusal(&mut stage.ann().await, "ac_000000000000000000000").await;
    assert_eq!(deleted, unknown);
}

#[tokio::test]
async fn al_031_an_unknown_id_makes_no_conversation() {
    let stage = Stage::stored(&[]).await;
    let (_device, known) = stage.begin().await;
    for id in ["ac_000000000000000000000", "conv_of_mine", "am_1"] {
        let mut device = stage.ann().await;
        let _ = refusal(&mut device, id).await;
        device.send_to(id, SUBSCRIBE, json!({})).await;
        let [ack] = device.expect([(0, SUBSCRIBED)]).await;
        assert_eq!(ack.body, json!({ "conversationId": id, "success": false, "error": "not_found" }));
    }
    let all = stage.rows("SELECT id FROM alicia_conversations WHERE id != ?", "");
    assert_eq!(all, [json!([known])]);
}
