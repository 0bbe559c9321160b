//! Peers of the period with their own encodings: whole sessions as a browser and as a fixed-width encoder write
//! them (AL-002 to AL-007 on the real server).

use serde_json::{Value, json};

use crate::device::{
    ACK, CONFIGURATION, Device, INFO, OPTIONS, SENTENCE, START, STATS, SUBSCRIBED, USER, VARIATION,
};
use crate::pack::{pack, pack_float};
use crate::stage::Stage;

const UNDEFINED: [u8; 3] = [0xd4, 0, 0];

/// How somebody writes envelopes.
#[derive(Clone, Copy, Debug)]
enum Hand {
    /// Wide maps, floats for large numbers, "undefined" for what is absent.
    Browser,
    /// Numbers and lengths as wide as their type, body before the rest, unknown keys.
    Fixed,
}

impl Hand {
    fn map(self, entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = match self {
            Self::Browser => vec![0xde],
            Self::Fixed => vec![0xdf, 0, 0],
        };
        bytes.extend_from_slice(&u16::try_from(entries.len()).unwrap().to_be_bytes());
        for (key, value) in entries {
            bytes.extend(self.text(key));
            bytes.extend_from_slice(value);
        }
        bytes
    }

    fn text(self, text: &str) -> Vec<u8> {
        match self {
            Self::Browser => pack(&json!(text)),
            Self::Fixed => {
                let mut bytes = vec![0xda];
                bytes.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
                bytes
            }
        }
    }

    fn value(self, value: &Value) -> Vec<u8> {
        match (self, value) {
            (Self::Browser, Value::Null) => UNDEFINED.to_vec(),
            (Self::Browser, Value::Number(number)) => pack_float(number.as_f64().unwrap()),
            (Self::Fixed, Value::Number(number)) => {
                let mut bytes = vec![0xd3];
                bytes.extend_from_slice(&number.as_i64().unwrap().to_be_bytes());
                bytes
            }
            (_, Value::String(text)) => self.text(text),
            (_, Value::Object(map)) => {
                let entries: Vec<(&str, Vec<u8>)> =
                    map.iter().map(|(key, value)| (key.as_str(), self.value(value))).collect();
                self.map(&entries)
            }
            (_, Value::Null | Value::Bool(_) | Value::Array(_)) => pack(value),
        }
    }

    fn envelope(self, stanza: i32, conversation: &str, kind: u16, body: &Value) -> Vec<u8> {
        let wide = |code: u8, bytes: &[u8]| [&[code], bytes].concat();
        let (conversation, body) = (self.text(conversation), self.value(body));
        match self {
            Self::Browser => self.map(&[
                ("stanzaId", pack_float(stanza.into())),
                ("conversationId", conversation),
                ("type", pack_float(kind.into())),
                ("meta", UNDEFINED.to_vec()),
                ("body", body),
            ]),
            Self::Fixed => self.map(&[
                ("body", body),
                ("meta", vec![0xc0]),
                ("type", wide(0xcd, &kind.to_be_bytes())),
                ("priority", vec![0x07]),
                ("conversationId", conversation),
                ("stanzaId", wide(0xd2, &stanza.to_be_bytes())),
            ]),
        }
    }
}

async fn session(hand: Hand) {
    let mut stage = Stage::stored(&[]).await;
    let mut device = stage.ann().await;
    let own =
        json!({ "conversationId": "", "lastSequenceSeen": 0, "features": ["streaming"], "device": null });
    device.send_bytes(hand.envelope(1, "", 12, &own)).await;
    let [own, ack, ..] =
        device.expect([(0, CONFIGURATION), (0, ACK), (0, INFO), (0, STATS), (0, OPTIONS)]).await;
    ack.assert_ack(0, true);
    let conversation = own.conversation;
    let message = json!({
        "id": "am_1", "previousId": null, "conversationId": conversation, "content": "hi",
        "timestamp": 1_767_225_600_000_i64, "nobody": "knows this",
    });
    device.send_bytes(hand.envelope(2, &conversation, 2, &message)).await;
    stage.scenes.next().await.answer("Yes.").await;
    let [ack, start, last, _] = device.expect([(0, ACK), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(2, true);
    let answer = start.assert_start("am_1");
    last.assert_sentence(&answer, 1, "Yes.", true);
    let row = json!(["am_1", null, "user", "hi", "completed"]);
    assert_eq!(stage.messages(&conversation)[0], row);
    let again = json!({ "targetId": answer, "mode": "regenerate", "conversationId": conversation, "newContent": null });
    device.send_bytes(hand.envelope(3, &conversation, u16::try_from(VARIATION).unwrap(), &again)).await;
    stage.scenes.next().await.answer("Again.").await;
    let [ack, ..] = device.expect([(0, ACK), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    ack.assert_ack(3, true);
    resumed(&stage, hand, &conversation).await;
}

async fn resumed(stage: &Stage, hand: Hand, conversation: &str) {
    let mut device: Device = stage.ann().await;
    let own = json!({ "conversationId": conversation, "lastSequenceSeen": -2, "features": null });
    device.send_bytes(hand.envelope(1, conversation, 12, &own)).await;
    let [_, ack, ..] = device
        .expect([
            (0, CONFIGURATION),
            (0, ACK),
            (-3, START),
            (-4, SENTENCE),
            (0, INFO),
            (0, STATS),
            (0, OPTIONS),
        ])
        .await;
    ack.assert_ack(-2, true);
    let mut device = stage.ann().await;
    let subscribe = json!({ "conversationId": conversation, "fromSequence": 1 });
    device.send_bytes(hand.envelope(1, conversation, 40, &subscribe)).await;
    let [ack] = device.expect([(0, SUBSCRIBED)]).await;
    assert_eq!(ack.body["missedMessages"], json!(1));
}

#[tokio::test]
async fn al_003_a_browser_is_understood() {
    session(Hand::Browser).await;
}

#[tokio::test]
async fn al_002_a_fixed_width_encoder_is_understood() {
    session(Hand::Fixed).await;
}

#[tokio::test]
async fn al_005_nil_is_absent_also_where_it_changes_the_outcome() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    let first = stage.turn(&mut device, -1, "am_1", "Yes.").await;
    device.send(USER, json!({ "id": "am_2", "previousId": null, "content": "hi", "timestamp": null })).await;
    stage.scenes.next().await.answer("Yes.").await;
    device.expect([(0, ACK), (-3, START), (-4, SENTENCE), (0, STATS)]).await;
    assert!(stage.messages(&conversation).contains(&json!(["am_2", first, "user", "hi", "completed"])));
}
