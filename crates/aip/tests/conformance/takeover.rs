//! A name held by a dead link (§9.4): AIP-028, AIP-094, AIP-095, A4.

use serde_json::json;
use switchboard_core::Frame;

use crate::support::{DEVICE_LOST, OWNER_LOST, Talk, beat, register, register_boss, socket};

fn pong(talk: &mut Talk, peer: switchboard_testkit::PeerId) {
    talk.world.send(peer, Frame::Pong(Vec::new().into()));
}

/// Somebody else asks for the name `dev`, and is refused.
fn contest(talk: &mut Talk, token: &str) {
    let peer = talk.enter(token);
    talk.say(peer, &register("dev", json!({})));
    let told = talk.short(peer);
    assert_eq!(told.len(), 2, "refused at once: {told:?}");
    assert!(told[0].contains("is already registered"), "{told:?}");
}

#[test]
fn aip_028_a_dead_link_gives_way_to_the_same_principal() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    contest(&mut talk, "ann");
    assert_eq!(talk.short(dev), ["ping"], "asked for a sign of life");
    talk.world.advance(2_999);
    assert!(talk.short(dev).is_empty());
    contest(&mut talk, "ann");
    talk.world.advance(1);
    let told = talk.short(dev);
    assert_eq!(told, ["ping", "close 4001"], "the first asker counts");
    assert_eq!(talk.short(boss), [format!("end s1 failed {DEVICE_LOST}")]);
    let dev = talk.device("dev");
    let command = talk.command(boss, dev, "s2", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s2 completed"]);
}

#[test]
fn aip_028_any_frame_is_a_sign_of_life() {
    for sign in ["pong", "beat", "results"] {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        let command = talk.command(boss, dev, "s1", "one");
        contest(&mut talk, "ann");
        talk.world.advance(2_000);
        match sign {
            "pong" => pong(&mut talk, dev),
            "beat" => talk.say(dev, &beat()),
            _ => talk.obey(dev, &command),
        }
        talk.world.advance(10_000);
        assert!(talk.world.is_open(dev), "{sign}");
        // The next asker begins anew.
        contest(&mut talk, "ann");
        talk.world.advance(2_999);
        assert!(talk.world.is_open(dev));
        talk.world.advance(1);
        assert!(!talk.world.is_open(dev));
    }
}

#[test]
fn aip_028_another_principal_never_takes_anything_over() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    contest(&mut talk, "bob");
    assert!(talk.short(dev).is_empty(), "not even asked");
    talk.world.advance(10_000);
    assert!(talk.world.is_open(dev) && talk.world.is_open(boss));
}

#[test]
fn a_dead_constellation_gives_way_and_its_tasks_end() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    let again = talk.enter("ann");
    talk.say(again, &register_boss("boss", Some("dev")));
    assert_eq!(talk.short(again).len(), 2);
    talk.world.advance(3_000);
    assert_eq!(talk.short(boss), ["ping", "close 4001"]);
    assert_eq!(talk.short(dev), [format!("end s1 failed {OWNER_LOST}")]);
    let boss = talk.boss("boss", "dev");
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "the id is free again");
}

/// A device asks for its name back; whether it has it.
fn come_back(talk: &mut Talk, id: &str) -> bool {
    let Ok((peer, ..)) = talk.world.knock(&talk.aip, &socket("ann")) else { return false };
    talk.say(peer, &register(id, json!({})));
    talk.short(peer) == ["ack"]
}

#[test]
fn aip_094_a_device_with_the_defaults_of_the_reference_gets_back_in() {
    let mut talk = Talk::new();
    talk.device("dev");
    // Its network is gone, and the server does not know. It tries after 2 s, and 4 s later.
    talk.world.advance(2_000);
    assert!(!come_back(&mut talk, "dev"), "the dead link has the name");
    talk.world.advance(4_000);
    assert!(come_back(&mut talk, "dev"), "and has lost it by the second try of three");
}

#[test]
fn aip_095_a_fleet_that_loses_its_network_at_once_comes_back() {
    let mut talk = Talk::new();
    let mut away: Vec<String> = (0..500).map(|number| format!("dev-{number}")).collect();
    for id in &away {
        talk.device(id);
    }
    let mut passed = 0;
    // It waits 2, 4 and 8 s, without jitter.
    for at in [2_000, 6_000, 14_000] {
        talk.world.advance(at - passed);
        passed = at;
        away.retain(|id| !come_back(&mut talk, id));
        // An orchestrator that waits for a device that is not there asks for it in vain, again and again.
        for number in 0..50 {
            let peer = talk.enter("ann");
            talk.say(peer, &register_boss(&format!("boss-{number}"), Some("nobody")));
        }
    }
    assert_eq!(away, Vec::<String>::new(), "everybody is back within the three tries of the reference");
}
