//! Weights, elites and totals: AL-086 to AL-088.

use std::time::Duration;

use serde_json::{Value, json};

use crate::device::{
    ACK, CONFIGURATION, Device, ELITE, ERROR, Envelope, INFO, OPTIONS, STATS, WEIGHTS, envelope,
};
use crate::pack::{pack, pack_float, pack_map};
use crate::stage::Stage;

const DIMENSIONS: [&str; 7] =
    ["successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation"];
const BALANCED: [f64; 7] = [0.25, 0.20, 0.15, 0.15, 0.10, 0.10, 0.05];
const SPEED: [f64; 7] = [0.20, 0.15, 0.35, 0.15, 0.10, 0.03, 0.02];
/// One that is quick, and one that is good.
const ELITES: &str = "alicia.elites=[\
    {id='pa_good',label='good',description='thinks twice',best_for='proofs',scores={quality=1.0,efficiency=0.0}},\
    {id='pa_fast',label='fast',scores={quality=0.0,efficiency=1.0}}]";

fn weights(values: [f64; 7]) -> Value {
    DIMENSIONS
        .iter()
        .zip(values)
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The weights that are stored, in their order, whatever form they have.
fn stored(stage: &Stage, conversation: &str) -> Vec<f64> {
    let sql = "SELECT preferences FROM alicia_conversations WHERE id = ?";
    let text = stage.rows(sql, conversation)[0][0].as_str().expect("preferences").to_owned();
    let preferences: Value = serde_json::from_str(&text).unwrap();
    let kept = &preferences["dimension_weights"];
    let numbers: Vec<f64> = if let Value::Array(list) = kept {
        list.iter().filter_map(Value::as_f64).collect()
    } else {
        DIMENSIONS.iter().filter_map(|name| kept[name].as_f64()).collect()
    };
    assert_eq!(numbers.len(), 7, "{preferences}");
    numbers
}

fn assert_close(numbers: &[f64], expected: [f64; 7]) {
    let close = numbers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
    assert!(close, "{numbers:?} is not {expected:?}");
}

async fn weigh(device: &mut Device, body: Value) -> Envelope {
    let stanza = device.send(WEIGHTS, body).await;
    let [ack, options] = device.expect([(0, ACK), (0, OPTIONS)]).await;
    ack.assert_ack(stanza, true);
    device.quiet().await;
    options
}

fn ranked(options: &Envelope) -> Vec<&str> {
    options.body["elites"].as_array().unwrap().iter().map(|elite| elite["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn al_086_weights_are_divided_by_their_sum() {
    let stage = Stage::stored(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    let body = json!({ "weights": weights([1.0, 0.5, 0.25, 0.0, 0.25, 0.0, 0.0]), "timestamp": 1 });
    weigh(&mut device, body).await;
    assert_close(&stored(&stage, &conversation), [0.5, 0.25, 0.125, 0.0, 0.125, 0.0, 0.0]);
}

#[tokio::test]
async fn al_086_nothing_but_zeros_is_balanced() {
    let stage = Stage::stored(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    weigh(&mut device, json!({ "weights": weights([0.0; 7]), "timestamp": 1 })).await;
    assert_close(&stored(&stage, &conversation), BALANCED);
}

#[tokio::test]
async fn al_086_a_preset_fills_what_is_missing_and_does_not_overrule() {
    let stage = Stage::stored(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    weigh(&mut device, json!({ "weights": {}, "preset": "speed", "timestamp": 1 })).await;
    assert_close(&stored(&stage, &conversation), SPEED);
    let body = json!({ "weights": weights([1.0; 7]), "preset": "speed", "timestamp": 1 });
    weigh(&mut device, body).await;
    assert_close(&stored(&stage, &conversation), [1.0 / 7.0; 7]);
}

#[tokio::test]
async fn al_086_what_is_no_weight_is_refused() {
    let stage = Stage::start(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
        let mut entries: Vec<(&str, Vec<u8>)> =
            DIMENSIONS.iter().map(|name| (*name, pack_float(0.5))).collect();
        entries[3].1 = pack_float(odd);
        device.stanza += 1;
        let stanza = device.stanza;
        let bytes = pack_map(&[
            ("stanzaId", pack(&json!(stanza))),
            ("conversationId", pack(&json!(conversation))),
            ("type", pack(&json!(WEIGHTS))),
            (
                "body",
                pack_map(&[
                    ("conversationId", pack(&json!(conversation))),
                    ("weights", pack_map(&entries)),
                    ("timestamp", pack(&json!(1))),
                ]),
            ),
        ]);
        device.send_bytes(bytes).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(105, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
}

#[tokio::test]
async fn al_087_weights_are_acknowledged_and_rank_the_options_for_everybody() {
    let stage = Stage::start(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    let mut watching = stage.follow(&conversation).await;
    let only = |at: usize| {
        let mut values = [0.0; 7];
        values[at] = 1.0;
        json!({ "weights": weights(values), "timestamp": 1 })
    };
    let options = weigh(&mut device, only(1)).await;
    assert_eq!(ranked(&options), ["pa_good", "pa_fast"]);
    let elite = json!({
        "id": "pa_good", "label": "good", "description": "thinks twice", "bestFor": "proofs",
        "scores": weights([0.5, 1.0, 0.0, 0.5, 0.5, 0.5, 0.5]),
    });
    assert_eq!(options.body["elites"][0], elite);
    assert_eq!(options.body["currentEliteId"], json!(""));
    let options = weigh(&mut device, only(2)).await;
    assert_eq!(ranked(&options), ["pa_fast", "pa_good"]);
    let seen = watching.expect([(0, OPTIONS), (0, OPTIONS)]).await;
    assert_eq!(ranked(&seen[1]), ["pa_fast", "pa_good"]);
}

#[tokio::test]
async fn al_087_a_choice_is_acknowledged_then_told_and_kept() {
    let stage = Stage::stored(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    let stanza = device.send(ELITE, json!({ "eliteId": "pa_fast", "timestamp": 1 })).await;
    let [ack, options] = device.expect([(0, ACK), (0, OPTIONS)]).await;
    ack.assert_ack(stanza, true);
    assert_eq!(options.body["currentEliteId"], json!("pa_fast"));
    for (elite, code) in [("pa_of_nobody", 203), ("", 101)] {
        let stanza = device.send(ELITE, json!({ "eliteId": elite, "timestamp": 1 })).await;
        let [error, ack] = device.expect([(0, ERROR), (0, ACK)]).await;
        error.assert_error(code, true, &stanza.to_string());
        ack.assert_ack(stanza, false);
    }
    device.quiet().await;
    let other = device.create().await;
    assert_ne!(other, conversation);
    let stage = stage.restart(&[ELITES]).await;
    for (conversation, current) in [(conversation, "pa_fast"), (other, "")] {
        let mut device = stage.ann().await;
        device.configure(&conversation, 0, &["streaming"]).await;
        let [.., options] =
            device.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
        assert_eq!(options.body["currentEliteId"], json!(current), "the scope is the conversation");
    }
}

#[tokio::test]
async fn al_087_without_a_place_in_the_order_only_the_options_come() {
    let stage = Stage::start(&[ELITES]).await;
    let (mut device, conversation) = stage.begin().await;
    let bytes = envelope(0, &conversation, ELITE, &json!({ "eliteId": "pa_good", "timestamp": 1 }));
    device.send_bytes(bytes).await;
    let [options] = device.expect([(0, OPTIONS)]).await;
    assert_eq!(options.body["currentEliteId"], json!("pa_good"));
    device.quiet().await;
}

#[tokio::test]
async fn al_088_durations_are_in_milliseconds_on_the_wire_and_in_seconds_in_the_table() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    device.say("am_1", "hi").await;
    stage.scenes.next().await.answer("Yes.").await;
    let got = device.until(|envelope| envelope.kind == STATS).await;
    let stats = got.last().unwrap();
    let duration = stats.body["sessionDuration"].as_u64().unwrap();
    assert!((1200..60_000).contains(&duration), "{duration}");
    assert_eq!(stats.body["messageCount"], json!(2));
    let sql = "SELECT message_count, tool_call_count, memories_used, session_duration_seconds \
               FROM alicia_session_stats WHERE conversation_id = ?";
    assert_eq!(stage.rows(sql, &conversation), [json!([2, 0, 0, duration / 1000])]);
}
