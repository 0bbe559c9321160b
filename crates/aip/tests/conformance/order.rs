//! Order and slow readers (§11): AIP-077, AIP-079, A23.

use serde_json::json;
use switchboard_aip::{AipLimits, Service};
use switchboard_core::Frame;
use switchboard_testkit::{Order, Settings};

use crate::support::{OWNER_LOST, Talk, beat, done, own_task, results, stop, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn aip_077_others_are_served_while_one_does_not_read() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let (other, second) = (talk.device("other"), talk.boss("second", "other"));
    talk.world.stall(dev);
    talk.world.stall(boss);
    talk.say(boss, &task("dev", "s1", "two"));
    for _ in 0..100 {
        talk.say(boss, &beat());
    }
    talk.say(second, &task("other", "s2", "one"));
    let command = talk.one(other);
    talk.obey(other, &command);
    assert_eq!(talk.short(second), ["ack s2", "end s2 completed"]);
    talk.world.unstall(boss);
    assert_eq!(talk.short(boss).len(), 101, "nothing is lost");
    talk.world.unstall(dev);
    assert_eq!(talk.short(dev), ["command s1 look,click"]);
}

#[test]
fn aip_077_a_reader_that_takes_nothing_is_closed_with_1013_and_its_tasks_end() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.world.stall(boss);
    // Every error is answered with some six kilobytes.
    let crabs = |count: usize| "\u{1f980}".repeat(count);
    let big = json!({
        "type": "error", "status": "error", "client_type": "constellation", "error": crabs(1024),
        "session_id": crabs(256), "request_id": crabs(256),
    });
    let frame = Frame::Text(big.to_string());
    for _ in 0..6_000 {
        talk.world.enqueue(boss, frame.clone());
    }
    talk.world.settle();
    assert!(!talk.world.is_open(boss));
    assert_eq!(talk.short(dev), [format!("end s1 failed {OWNER_LOST}")]);
    talk.obey(dev, &command);
    talk.world.unstall(boss);
    let last = talk.world.take(boss).pop();
    assert!(
        matches!(last, Some(switchboard_testkit::Received::Close(close)) if close.code == 1013),
        "{last:?}"
    );
}

#[test]
fn aip_077_events_wait_in_the_log_for_a_device_that_does_not_read() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair_that_is_stalled();
    for n in 0..50 {
        talk.say(boss, &task("dev", &format!("s{n}"), "big"));
    }
    let backlog = talk.world.backlog(dev);
    assert!(backlog < 1 << 20, "the rest is in the log: {backlog}");
    talk.world.unstall(dev);
    assert_eq!(talk.short(dev).len(), 50, "and comes in the end");
}

#[test]
fn aip_079_messages_of_one_connection_are_applied_in_order() {
    for seed in 0..60 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        let command = talk.command(boss, dev, "s1", "one");
        // The results come before the stop, so they count.
        talk.enqueue(dev, &done(&command));
        talk.enqueue(dev, &stop("device", "s1", "failed", Some("late")));
        for n in 0..3 {
            talk.enqueue(
                dev,
                &json!({ "type": "device_info_response", "status": "ok", "metadata": { "n": n } }),
            );
        }
        talk.world.settle();
        let told = talk.heard(boss);
        assert_eq!(told.len(), 1, "{seed}");
        let ended = text(&told[0], "status") == "completed";
        assert!(ended || text(&told[0], "error") == "cancelled: late", "{seed}: {told:?}");
        assert_eq!(talk.count("call_ended"), 1, "{seed}");
        let home = switchboard_core::SessionId::named(&switchboard_core::Principal::new("ann"), "\0aip\0dev");
        let facts = &talk.world.session(&home).unwrap().device(&"dev".into()).unwrap().device.facts;
        assert_eq!(facts["n"], 2, "{seed}: the last one stands");
    }
}

#[test]
fn aip_079_tasks_are_taken_and_answered_in_the_order_in_which_they_come() {
    for seed in 0..60 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        for n in 0..8 {
            talk.enqueue(boss, &task("dev", &format!("s{n}"), "one"));
            talk.enqueue(boss, &beat());
            talk.enqueue(boss, &task("elsewhere", &format!("r{n}"), "one"));
            talk.enqueue(dev, &own_task(&format!("o{n}"), "hang"));
        }
        talk.world.settle();
        let told: Vec<String> =
            talk.short(boss).into_iter().filter(|line| !line.starts_with("end")).collect();
        let refusal = "error Target device 'elsewhere' is not connected";
        let expected: Vec<String> =
            (0..8).flat_map(|n| [format!("ack s{n}"), "ack".into(), refusal.into()]).collect();
        assert_eq!(told, expected, "{seed}");
        let own: Vec<String> = talk.short(dev).into_iter().filter(|line| line.starts_with("ack")).collect();
        assert_eq!(own, (0..8).map(|n| format!("ack o{n}")).collect::<Vec<_>>(), "{seed}");
    }
}

#[test]
fn aip_079_a_stop_after_a_task_stops_it_whatever_has_to_be_looked_up_first() {
    for seed in 0..40 {
        let service = Service { allow_untargeted: true, ..Service::default() };
        let settings = Settings { order: Order::Seeded(seed), seed, ..Settings::default() };
        let mut talk = Talk::with(AipLimits::default(), service, settings);
        let dev = talk.device("dev");
        let boss = talk.boss_of("ann", "boss", None);
        talk.enqueue(boss, &task("dev", "s1", "hang"));
        talk.enqueue(boss, &task("dev", "s1", "one"));
        talk.enqueue(boss, &stop("constellation", "s1", "failed", Some("no")));
        talk.enqueue(boss, &beat());
        talk.world.settle();
        let mut told = talk.short(boss);
        told.retain(|line| line != "ack");
        assert_eq!(
            told,
            ["ack s1", "error session_id 's1' is already running", "end s1 failed cancelled: no"],
            "{seed}"
        );
        let told = talk.short(dev);
        assert!(told.is_empty() || told == ["end s1 failed cancelled: no"], "{seed}: {told:?}");
    }
}

#[test]
fn whole_conversations_come_out_the_same_in_every_order() {
    for seed in 0..60 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        let second = talk.boss("second", "dev");
        talk.enqueue(boss, &task("dev", "s1", "two"));
        talk.enqueue(second, &task("dev", "s2", "one"));
        talk.enqueue(dev, &own_task("s3", "one"));
        talk.world.settle();
        let mut ends = Vec::new();
        for _ in 0..4 {
            for message in talk.heard(dev) {
                match message["type"].as_str().unwrap() {
                    "command" => talk.enqueue(dev, &done(&message)),
                    "task_end" => ends.push(text(&message, "session_id")),
                    _ => {}
                }
            }
            talk.world.settle();
        }
        ends.sort();
        assert_eq!(ends, ["s1", "s2", "s3"], "{seed}");
        assert_eq!(talk.short(boss), ["ack s1", "end s1 completed"], "{seed}");
        assert_eq!(talk.short(second), ["ack s2", "end s2 completed"], "{seed}");
        assert_eq!(talk.world.check_replay(), Ok(()));
        assert!(talk.world.followed(dev).is_empty(), "{seed}");
    }
}

#[test]
fn an_end_and_the_next_task_of_the_same_session_may_meet() {
    for seed in 0..60 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        let first = talk.command(boss, dev, "s1", "one");
        talk.enqueue(boss, &stop("constellation", "s1", "failed", None));
        talk.world.settle();
        talk.enqueue(boss, &task("dev", "s1", "one"));
        talk.enqueue(dev, &results(&first, json!([])));
        talk.world.settle();
        let told = talk.heard(dev);
        let command = told.last().unwrap();
        assert_eq!(text(command, "type"), "command", "{seed}: {told:?}");
        talk.obey(dev, command);
        let cancelled = "end s1 failed cancelled: interrupted";
        assert_eq!(talk.short(boss), [cancelled, "ack s1", "end s1 completed"], "{seed}");
        assert_eq!(talk.short(dev), ["end s1 completed"], "{seed}");
    }
}

#[test]
fn a_slow_log_changes_nothing_but_the_time() {
    let settings = Settings { commit_ms: 50, ..Settings::default() };
    let mut talk = Talk::with(AipLimits::default(), Service::default(), settings);
    let dev = talk.enter("ann");
    talk.say(dev, &crate::support::register("dev", json!({})));
    talk.world.advance(100);
    assert_eq!(talk.short(dev), ["ack"]);
    let boss = talk.boss("boss", "dev");
    talk.say(boss, &task("dev", "s1", "one"));
    talk.say(boss, &beat());
    assert_eq!(talk.short(boss), nothing(), "what comes after a task is answered after it");
    talk.world.advance(1_000);
    assert_eq!(talk.short(boss), ["ack s1", "ack"]);
    let command = talk.one(dev);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), nothing(), "nothing is told that is not in the log");
    talk.world.advance(1_000);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}
