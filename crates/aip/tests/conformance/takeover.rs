//! A name held by a dead link (§9.4): AIP-028, A4.

use serde_json::json;
use switchboard_core::Frame;

use crate::support::{DEVICE_LOST, OWNER_LOST, Talk, beat, register, register_boss};

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
    talk.world.advance(4_999);
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
        talk.world.advance(4_000);
        match sign {
            "pong" => pong(&mut talk, dev),
            "beat" => talk.say(dev, &beat()),
            _ => talk.obey(dev, &command),
        }
        talk.world.advance(10_000);
        assert!(talk.world.is_open(dev), "{sign}");
        // The next asker begins anew.
        contest(&mut talk, "ann");
        talk.world.advance(4_999);
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
    talk.world.advance(5_000);
    assert_eq!(talk.short(boss), ["ping", "close 4001"]);
    assert_eq!(talk.short(dev), [format!("end s1 failed {OWNER_LOST}")]);
    let boss = talk.boss("boss", "dev");
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "the id is free again");
}
