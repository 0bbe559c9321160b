//! Lost connections (§6.6, §10.2): AIP-070, AIP-071, AIP-074, A14, A15.

use serde_json::json;
use switchboard_core::{CloseReason, Frame};
use switchboard_testkit::{PeerId, Recovery, Script, Step};

use crate::support::{DEVICE_LOST, OWNER_LOST, Talk, batch, finish, own_task, session, task};

fn nothing() -> Vec<String> {
    Vec::new()
}

/// Every way in which a client can go.
const WAYS: [fn(&mut Talk, PeerId); 5] = [
    |talk, peer| talk.world.cut(peer),
    |talk, peer| talk.world.close(peer, Some(1000)),
    |talk, peer| talk.world.close(peer, None),
    |talk, peer| talk.world.evict(peer, CloseReason::TooSlow),
    |talk, peer| talk.world.evict(peer, CloseReason::Unauthorized),
];

#[test]
fn aip_070_the_tasks_of_a_lost_device_fail_at_once() {
    for lose in WAYS {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        let _command = talk.command(boss, dev, "s1", "one");
        talk.say(boss, &task("dev", "s2", "hang"));
        assert_eq!(talk.short(boss), ["ack s2"]);
        lose(&mut talk, dev);
        let mut told = talk.short(boss);
        told.sort();
        assert_eq!(told, ["s1", "s2"].map(|id| format!("end {id} failed {DEVICE_LOST}")));
        talk.world.advance(10_000);
        assert_eq!(talk.short(boss), nothing(), "once each");
        assert!(talk.world.is_open(boss), "the constellation stays");
        let dev = talk.device("dev");
        let command = talk.command(boss, dev, "s1", "one");
        talk.obey(dev, &command);
        assert_eq!(talk.short(boss), ["end s1 completed"]);
    }
}

#[test]
fn aip_071_the_tasks_of_a_lost_constellation_end_and_the_device_is_told() {
    for lose in WAYS {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        let command = talk.command(boss, dev, "s1", "one");
        talk.say(boss, &task("dev", "s2", "hang"));
        let second = talk.boss("second", "dev");
        let other = talk.command(second, dev, "s3", "one");
        lose(&mut talk, boss);
        let mut told = talk.short(dev);
        told.sort();
        assert_eq!(told, ["s1", "s2"].map(|id| format!("end {id} failed {OWNER_LOST}")), "A14");
        talk.obey(dev, &command);
        assert_eq!((talk.short(dev), talk.short(second)), (nothing(), nothing()));
        talk.obey(dev, &other);
        assert_eq!(talk.short(second), ["end s3 completed"], "others are not touched");
        assert_eq!(talk.short(dev), ["end s3 completed"]);
        for name in ["s1", "s2"] {
            assert_eq!(talk.events(&session(name)).last(), Some(&"turn_ended"), "the planner has stopped");
        }
    }
}

#[test]
fn aip_071_also_those_that_were_just_being_taken() {
    for seed in 0..40 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        talk.enqueue(boss, &task("dev", "s1", "one"));
        talk.world.enqueue_cut(boss);
        talk.world.settle();
        let told = talk.short(dev);
        assert!(
            told.is_empty() || told.last() == Some(&format!("end s1 failed {OWNER_LOST}")),
            "{seed}: {told:?}"
        );
        assert_eq!(talk.count("turn_accepted"), talk.count("turn_ended"), "{seed}");
        let boss = talk.boss("boss", "dev");
        let command = talk.command(boss, dev, "s1", "one");
        talk.obey(dev, &command);
        assert_eq!(talk.short(boss), ["end s1 completed"], "{seed}");
    }
}

#[test]
fn aip_071_a_log_that_refuses_does_not_keep_the_tasks_of_the_lost_alive() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.world.fail_appends(1);
    talk.world.cut(boss);
    talk.world.advance(1_000);
    assert_eq!(talk.short(dev), [format!("end s1 failed {OWNER_LOST}")]);
}

#[test]
fn aip_074_every_session_of_a_lost_device_fails_and_each_owner_is_told_once() {
    for seed in [None, Some(1), Some(2), Some(3)] {
        let mut talk = seed.map_or_else(Talk::new, Talk::seeded);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        let (second, cat) = (talk.boss("second", "dev"), talk.boss_of("cat", "cat@x", Some("dev")));
        let other = talk.device("other");
        let owners = [(boss, "a"), (second, "b"), (cat, "c")];
        for n in 0..10 {
            for (peer, name) in owners {
                let request = ["one", "hang", "slow"][n % 3];
                talk.say(peer, &task("dev", &format!("{name}{n}"), request));
                assert_eq!(talk.short(peer), [format!("ack {name}{n}")]);
            }
        }
        talk.say(dev, &own_task("self", "one"));
        talk.say(other, &own_task("other", "one"));
        talk.world.cut(dev);
        for (peer, name) in owners {
            let mut told = talk.short(peer);
            told.sort();
            assert_eq!(
                told,
                (0..10).map(|n| format!("end {name}{n} failed {DEVICE_LOST}")).collect::<Vec<_>>()
            );
        }
        assert_eq!(talk.short(other), ["ack other", "command other look"], "others go on");
        assert_eq!(talk.count("turn_ended"), 31);
        talk.world.advance(10_000);
        for (peer, _) in owners {
            assert_eq!(talk.short(peer), nothing());
        }
    }
}

#[test]
fn aip_074_a_task_for_a_device_that_goes_just_now_ends_too() {
    for seed in 0..40 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        talk.enqueue(boss, &task("dev", "s1", "one"));
        talk.world.enqueue_cut(dev);
        talk.world.settle();
        let told = talk.short(boss);
        assert_eq!(told.len(), 2, "{seed}: {told:?}");
        let lost = ["ack s1".to_owned(), format!("end s1 failed {DEVICE_LOST}")];
        let gone = "Target device 'dev' is not connected";
        let refused = [format!("error {gone}"), format!("end s1 failed {gone}")];
        assert!(told == lost || told == refused, "{seed}: {told:?}");
    }
}

#[test]
fn the_own_tasks_of_a_lost_device_end() {
    for lose in WAYS {
        let mut talk = Talk::new();
        let dev = talk.device("dev");
        talk.say(dev, &own_task("s1", "one"));
        lose(&mut talk, dev);
        assert_eq!(talk.count("turn_ended"), 1, "A15");
        let result = talk.task_result("ann", "own");
        assert_eq!(result["status"], "done", "whoever asks is told");
        assert!(result["result"]["error"].as_str().unwrap().contains("disconnect"), "{result}");
        let dev = talk.device("dev");
        talk.say(dev, &own_task("s1", "one"));
        assert_eq!(talk.short(dev), ["ack s1", "command s1 look"], "the id is free");
    }
}

#[test]
fn a_message_that_is_too_large_closes_with_1009_and_cleans_up() {
    let mut talk = Talk::limited(switchboard_aip::AipLimits { max_message: 10_000, ..Default::default() });
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.world.send(dev, Frame::Text("x".repeat(10_001)));
    assert_eq!(talk.short(dev), ["close 1009"]);
    assert_eq!(talk.short(boss), [format!("end s1 failed {DEVICE_LOST}")]);
    let fit = json!({ "type": "heartbeat", "status": "ok", "metadata": { "x": "x".repeat(9_000) } });
    talk.say(boss, &fit);
    assert_eq!(talk.short(boss), ["ack"]);
}

#[test]
fn after_a_crash_of_the_server_tasks_are_over_and_ids_are_free() {
    let mut talk = Talk::new();
    let script = Script::new().on("one", vec![batch(&["look"]), finish()]).on("hang", vec![Step::Hang]);
    talk.world.set_default_agent("planner", script.recovering(Recovery::Replay));
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.say(boss, &task("dev", "s2", "hang"));
    assert_eq!(talk.short(boss), ["ack s2"]);
    talk.world.crash();
    assert_eq!((talk.short(dev), talk.short(boss)), (vec!["lost".to_owned()], vec!["lost".to_owned()]));
    talk.aip = switchboard_aip::Aip::new(Default::default(), Default::default());
    talk.world.restart();
    talk.world.advance(2_000);
    for name in ["s1", "s2"] {
        assert_eq!(talk.events(&session(name)).last(), Some(&"turn_ended"), "its owner is gone");
    }
    assert!(talk.task_result("ann", "t1")["result"]["error"].is_string(), "which can still be read");
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "the next turn of the same session");
    assert_eq!(talk.world.check_replay(), Ok(()));
}

#[test]
fn a_credential_that_ends_takes_its_connection_along() {
    let mut talk = Talk::new();
    let until = talk.world.now().after(std::time::Duration::from_secs(30));
    let brief =
        switchboard_core::Principal { expires_at: Some(until), ..switchboard_core::Principal::new("ann") };
    talk.world.issue("brief", brief);
    let dev = talk.device_of("brief", "dev", json!({}));
    let boss = talk.boss("boss", "dev");
    let _command = talk.command(boss, dev, "s1", "one");
    talk.world.advance(29_999);
    assert_eq!(talk.short(dev), ["ping"]);
    talk.world.advance(1);
    assert_eq!(talk.short(dev), ["close 1008"]);
    assert_eq!(talk.short(boss), ["ping".to_owned(), format!("end s1 failed {DEVICE_LOST}")]);
}
