//! Heartbeats and signs of life (§6.4, A2, A22): AIP-007, AIP-038 to AIP-041.

use std::collections::BTreeSet;

use serde_json::json;
use switchboard_aip::AipLimits;
use switchboard_core::Frame;
use switchboard_testkit::PeerId;

use crate::support::{DEVICE_LOST, OWNER_LOST, Talk, beat, text};

fn pong(talk: &mut Talk, peer: PeerId) {
    talk.world.send(peer, Frame::Pong(Vec::new().into()));
}

#[test]
fn aip_007_a_quiet_peer_is_pinged_every_twenty_seconds() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.world.advance(19_999);
    assert!(talk.short(dev).is_empty());
    talk.world.advance(1);
    assert_eq!(talk.short(dev), ["ping"]);
    pong(&mut talk, dev);
    talk.world.advance(19_999);
    assert!(talk.short(dev).is_empty());
    talk.world.advance(1);
    assert_eq!(talk.short(dev), ["ping"]);
    talk.world.advance(20_000);
    assert_eq!(talk.short(dev), ["ping"], "also while it does not answer");
}

#[test]
fn aip_007_a_peer_that_speaks_is_not_pinged() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for _ in 0..10 {
        talk.world.advance(15_000);
        talk.say(dev, &beat());
        assert_eq!(talk.short(dev), ["ack"]);
    }
}

#[test]
fn aip_038_each_heartbeat_has_one_answer_with_an_id_of_its_own() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for _ in 0..100 {
        talk.enqueue(
            dev,
            &json!({ "type": "heartbeat", "status": "ok", "client_id": "dev", "metadata": { "a": 1 } }),
        );
    }
    talk.world.settle();
    let told = talk.heard(dev);
    assert_eq!(told.len(), 100);
    let ids: BTreeSet<String> = told.iter().map(|ack| text(ack, "response_id")).collect();
    assert_eq!(ids.len(), 100);
    assert!(told.iter().all(|ack| ack["type"] == "heartbeat" && ack["status"] == "ok"));
    assert!(told.iter().all(|ack| ack["session_id"].is_null() && ack["result"].is_null()));
    talk.world.advance(10_000);
    assert!(talk.short(dev).is_empty(), "the server never beats by itself");
}

#[test]
fn aip_038_the_id_of_a_heartbeat_is_not_repeated() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.say(dev, &json!({ "type": "heartbeat", "status": "ok", "request_id": "mine" }));
    assert_ne!(text(&talk.one(dev), "response_id"), "mine");
}

#[test]
fn aip_039_heartbeats_are_answered_while_tasks_run() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "deaf");
    for _ in 0..3 {
        talk.world.advance(5_000);
        for peer in [dev, boss] {
            talk.say(peer, &beat());
            assert_eq!(talk.short(peer), ["ack"]);
        }
    }
    talk.obey(dev, &command);
    talk.say(dev, &beat());
    assert_eq!(talk.short(dev), ["ack"]);
}

#[test]
fn aip_040_heartbeats_of_constellations_that_say_device_are_answered() {
    let mut talk = Talk::new();
    let (_, boss) = talk.pair();
    for client_type in ["device", "constellation"] {
        let mut message = beat();
        message["client_type"] = client_type.into();
        message["client_id"] = "boss".into();
        message["metadata"] = json!({ "device_id": "dev" });
        talk.say(boss, &message);
        assert_eq!(talk.short(boss), ["ack"], "{client_type}");
        message["client_id"] = "dev".into();
        talk.say(boss, &message);
        assert_eq!(talk.short(boss), ["error client_id does not match the registered connection"]);
    }
}

#[test]
fn aip_041_whoever_lives_on_the_transport_stays_without_heartbeats() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    for _ in 0..14 {
        talk.world.advance(20_000);
        for peer in [dev, boss] {
            assert_eq!(talk.short(peer), ["ping"]);
            pong(&mut talk, peer);
        }
    }
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_041_one_that_gives_no_sign_of_life_for_a_minute_is_gone() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    for _ in 0..2 {
        talk.world.advance(20_000);
        pong(&mut talk, boss);
    }
    assert_eq!(talk.short(boss), ["ping", "ping"]);
    talk.world.advance(19_999);
    assert!(talk.world.is_open(dev));
    talk.world.advance(1);
    assert_eq!(talk.short(dev), ["ping", "ping", "close 1001"]);
    let mut told = talk.short(boss);
    told.sort();
    assert_eq!(told, [format!("end s1 failed {DEVICE_LOST}"), "ping".to_owned()]);
    assert_eq!(talk.online("ann"), ["boss"]);
}

#[test]
fn a_constellation_that_gives_no_sign_of_life_is_gone_too() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    for _ in 0..3 {
        talk.world.advance(20_000);
        pong(&mut talk, dev);
    }
    assert_eq!(talk.short(boss).last().map(String::as_str), Some("close 1001"));
    let told = talk.short(dev);
    assert!(told.contains(&format!("end s1 failed {OWNER_LOST}")), "{told:?}");
}

#[test]
fn the_times_are_the_operators_to_choose() {
    let limits = AipLimits { ping_s: 2, silence_s: 5, registration_s: 1, ..AipLimits::default() };
    let mut talk = Talk::limited(limits);
    let (dev, mute) = (talk.device("dev"), talk.enter("ann"));
    talk.world.advance(1_000);
    assert_eq!(talk.short(mute), ["close 1008"]);
    talk.world.advance(1_000);
    assert_eq!(talk.short(dev), ["ping"]);
    talk.world.advance(3_000);
    assert_eq!(talk.short(dev), ["ping", "close 1001"]);
}
