//! Everybody at once: what holds in any order of things (AL-016, AL-024, AL-043, AL-046, AL-051, AL-072).

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::device::{ACK, Device, ERROR, Envelope, SENTENCE, START, STATS, STOP, USER, VARIATION, bytes};
use crate::puppet::Scenes;
use crate::stage::Stage;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Answers everything that is asked, in several pieces, until it is dropped.
async fn answer_all(scenes: &mut Scenes) {
    let mut number = 0;
    loop {
        let scene = scenes.next_of_any().await;
        number += 1;
        tokio::spawn(async move {
            for piece in ["One. ", "Two. ", "Thr", "ee. "] {
                if !scene.try_say(piece).await {
                    return;
                }
            }
            if number % 3 == 0 && !scene.try_tool("clock").await {
                return;
            }
            scene.try_finish().await;
        });
    }
}

/// Sequenced envelopes, which every follower must see alike.
fn sequenced(envelopes: &[Envelope]) -> Vec<&Envelope> {
    envelopes.iter().filter(|envelope| envelope.stanza < 0).collect()
}

/// What the server log must be, whatever happened.
fn assert_sound(log: &[&Envelope]) {
    let stanzas: Vec<i64> = log.iter().map(|envelope| envelope.stanza).collect();
    assert_eq!(stanzas, (1..=i64::try_from(log.len()).unwrap()).map(|n| -n).collect::<Vec<_>>());
    let mut open: Option<(&str, u64)> = None;
    let mut answers = BTreeSet::new();
    for envelope in log {
        match envelope.kind {
            START => {
                assert!(open.is_none(), "one at a time: {envelope:?}");
                assert!(answers.insert(envelope.id()), "{envelope:?}");
                open = Some((envelope.id(), 0));
            }
            SENTENCE => {
                let (answer, count) = open.take().unwrap_or_else(|| panic!("of no answer: {envelope:?}"));
                assert_eq!(envelope.body["previousId"], json!(answer));
                assert_eq!(envelope.body["sequence"], json!(count + 1));
                if envelope.body["isFinal"] != true {
                    open = Some((answer, count + 1));
                }
            }
            _ => {}
        }
    }
    assert!(open.is_none(), "every answer has its end");
}

/// A device that does this and that; answers what it saw, and how often its messages were acknowledged.
async fn busy(mut device: Device, name: &str, seed: u64, rounds: usize) -> Vec<Envelope> {
    let mut dice = Dice(seed);
    let (mut seen, mut sent) = (Vec::new(), BTreeMap::new());
    let mut known: Vec<String> = Vec::new();
    for round in 0..rounds {
        let id = format!("am_{name}_{round}");
        let stanza = match dice.roll(8) {
            0 => device.send(STOP, json!({})).await,
            1 if !known.is_empty() => {
                let target = &known[usize::try_from(dice.roll(known.len() as u64)).unwrap()];
                let mode = if dice.roll(2) == 0 { "regenerate" } else { "edit" };
                device
                    .send(VARIATION, json!({ "targetId": target, "mode": mode, "newContent": "else" }))
                    .await
            }
            2 if round > 0 => {
                // Once more what was said before.
                device.say(&format!("am_{name}_{}", dice.roll(round as u64)), "hello").await
            }
            _ => {
                known.push(id.clone());
                device.say(&id, "hello").await
            }
        };
        sent.insert(stanza, 0);
        for _ in 0..dice.roll(12) {
            let Ok(envelope) = device.try_next_within(std::time::Duration::from_millis(dice.roll(15))).await
            else {
                break;
            };
            seen.push(envelope);
        }
    }
    while !sent.values().all(|count| *count > 0) {
        let drained = std::mem::take(&mut seen);
        for envelope in &drained {
            if envelope.kind == ACK {
                let stanza = envelope.body["acknowledgedStanzaId"].as_i64().unwrap();
                *sent.get_mut(&stanza).unwrap_or_else(|| panic!("{envelope:?}")) += 1;
            }
        }
        device.kept.extend(drained);
        if !sent.values().all(|count| *count > 0) {
            seen.push(device.next().await);
        }
    }
    assert!(sent.values().all(|count| *count == 1), "each is acknowledged once: {sent:?}");
    std::mem::take(&mut device.kept)
}

async fn scuffle(seed: u64) {
    let mut stage = Stage::stored(&[]).await;
    let (mut watching, conversation) = stage.begin().await;
    let mut devices = Vec::new();
    for number in 0..3 {
        let mut device = stage.ann().await;
        device.resume(&conversation, 0).await;
        devices.push((device, format!("{number}")));
    }
    let mut scenes = stage.take_scenes();
    let play = tokio::spawn(async move { answer_all(&mut scenes).await });
    let work = devices
        .into_iter()
        .zip(1..)
        .map(|((device, name), number)| async move { busy(device, &name, seed * 31 + number, 25).await });
    let mut seen = join_all(work).await;
    watching.say("am_end", "enough").await;
    seen.push(watching.until_answered("am_end").await);
    play.abort();
    // The longest account is the whole one; the others may have left before its end.
    let log: Vec<&Envelope> = seen.iter().map(|all| sequenced(all)).max_by_key(Vec::len).unwrap_or_default();
    assert_sound(&log);
    assert!(log.len() > 25, "a scuffle: {}", log.len());
    for all in &seen {
        let own = sequenced(all);
        assert_eq!(own[..], log[..own.len()], "everybody is told the same");
        assert!(all.iter().all(|e| e.kind != ERROR || e.body["code"] != json!(501)), "{all:?}");
    }
    let mut other = stage.ann().await;
    let replayed = other.resume(&conversation, -1).await;
    let told: Vec<&[u8]> = sequenced(&replayed).into_iter().map(|e| e.bytes.as_slice()).collect();
    assert_eq!(told, log[1..].iter().map(|e| e.bytes.as_slice()).collect::<Vec<_>>());
    let unfinished = "SELECT id FROM alicia_messages WHERE conversation_id = ? \
                      AND completion_status IN ('streaming', 'pending')";
    assert_eq!(stage.rows(unfinished, &conversation), Vec::<Value>::new());
    let users = |all: &[Envelope]| {
        all.iter().filter(|e| e.kind == USER).map(|e| e.id().to_owned()).collect::<Vec<_>>()
    };
    let announced = users(&seen[3]);
    assert_eq!(announced.len(), announced.iter().collect::<BTreeSet<_>>().len(), "each message once");
}

#[tokio::test]
async fn al_046_whatever_three_devices_do_every_answer_ends_once_and_all_see_the_same() {
    for seed in 1..=6 {
        scuffle(seed).await;
    }
}

#[tokio::test]
async fn al_043_the_same_message_from_many_devices_at_once_is_one() {
    let mut stage = Stage::stored(&[]).await;
    let (mut watching, conversation) = stage.begin().await;
    let mut devices = Vec::new();
    for _ in 0..6 {
        let mut device = stage.ann().await;
        device.resume(&conversation, 0).await;
        devices.push(device);
    }
    let said = devices.iter_mut().map(|device| async {
        let stanza = device.say("am_1", "all together").await;
        let got = device.until(|envelope| envelope.kind == ACK).await;
        got.last().unwrap().assert_ack(stanza, true);
        assert!(got.iter().all(|envelope| envelope.kind != ERROR), "{got:?}");
    });
    join_all(said).await;
    let scene = stage.scenes.next().await;
    stage.scenes.assert_none();
    scene.answer("Yes.").await;
    watching.expect([(0, USER), (-1, START), (-2, SENTENCE), (0, STATS)]).await;
    assert_eq!(stage.messages(&conversation).len(), 2);
}

#[tokio::test]
async fn al_051_of_many_messages_in_a_row_each_answer_has_its_end() {
    let mut stage = Stage::stored(&[]).await;
    let (mut device, conversation) = stage.begin().await;
    for number in 0..20 {
        device.say(&format!("am_{number}"), "hello").await;
    }
    let mut scenes = stage.take_scenes();
    let play = tokio::spawn(async move { answer_all(&mut scenes).await });
    let got = device.until_answered("am_19").await;
    play.abort();
    let log = sequenced(&got);
    assert_sound(&log);
    let acks: Vec<i64> = got
        .iter()
        .filter(|e| e.kind == ACK)
        .map(|e| e.body["acknowledgedStanzaId"].as_i64().unwrap())
        .collect();
    assert_eq!(acks, (2..22).collect::<Vec<_>>());
    let mut other = stage.ann().await;
    let replayed = other.resume(&conversation, -1).await;
    let replayed: Vec<Envelope> = replayed.into_iter().filter(|e| e.stanza < 0).collect();
    assert_eq!(bytes(&replayed), log[1..].iter().map(|e| e.bytes.as_slice()).collect::<Vec<_>>());
    let questions = "SELECT id FROM alicia_messages WHERE conversation_id = ? AND message_role = 'user'";
    assert_eq!(stage.rows(questions, &conversation).len(), 20);
}

#[tokio::test]
async fn al_072_a_stop_in_the_moment_of_the_end_leaves_one_end() {
    let mut stage = Stage::start(&[]).await;
    let (mut device, _) = stage.begin().await;
    for number in 0..40 {
        device.say(&format!("am_{number}"), "go").await;
        let scene = stage.scenes.next().await;
        scene.say("One.").await;
        let (stanza, ()) = tokio::join!(device.send(STOP, json!({})), scene.try_finish());
        let got = device.until(|e| e.kind == STATS).await;
        let mut all = got;
        if all.iter().all(|e| e.kind != ACK || e.body["acknowledgedStanzaId"] != json!(stanza)) {
            all.extend(device.until(|e| e.kind == ACK).await);
        }
        let finals = all.iter().filter(|e| e.kind == SENTENCE && e.body["isFinal"] == true).count();
        assert_eq!(finals, 1, "{all:#?}");
    }
    device.quiet().await;
}
