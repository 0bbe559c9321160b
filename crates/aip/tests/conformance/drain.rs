//! A server that leaves (§6.6).

use serde_json::json;
use switchboard_core::CloseReason;

use crate::support::{DEVICE_LOST, Talk, beat, own_task, socket, task};

const LEAVING: &str = "the server is shutting down";

#[test]
fn whoever_has_nothing_to_do_is_closed_with_1001() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let silent = talk.enter("ann");
    talk.world.drain(1_000);
    for peer in [dev, boss, silent] {
        assert_eq!(talk.short(peer), ["close 1001"]);
    }
    assert!(talk.world.knock(&talk.aip, &socket("ann")).is_err());
}

#[test]
fn what_runs_is_finished_and_nothing_new_is_taken() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let first = talk.command(boss, dev, "s1", "two");
    talk.world.drain(1_000);
    assert!(talk.short(dev).is_empty() && talk.short(boss).is_empty());
    talk.say(boss, &task("dev", "s2", "one"));
    assert_eq!(talk.short(boss), [format!("error {LEAVING}"), format!("end s2 failed {LEAVING}")]);
    talk.say(dev, &own_task("s3", "one"));
    assert_eq!(talk.short(dev), [format!("error {LEAVING}"), format!("end s3 failed {LEAVING}")]);
    talk.say(dev, &beat());
    assert_eq!(talk.short(dev), ["ack"]);
    talk.obey(dev, &first);
    let second = talk.one(dev);
    talk.obey(dev, &second);
    assert_eq!(talk.short(boss), ["end s1 completed", "close 1001"]);
    assert_eq!(talk.short(dev), ["end s1 completed", "close 1001"]);
    assert_eq!(talk.task_result_while_leaving(), 503);
}

impl Talk {
    fn task_result_while_leaving(&mut self) -> u16 {
        self.http("ann", "/api/task_result/{task_name}", "/api/task_result/t1", &json!(null)).0
    }
}

#[test]
fn at_the_end_of_its_patience_owners_are_told_before_the_close() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.say(boss, &task("dev", "s2", "hang"));
    talk.say(dev, &own_task("s3", "hang"));
    assert_eq!((talk.short(boss).len(), talk.short(dev).len()), (1, 1));
    talk.world.evict(boss, CloseReason::Restart);
    let told = talk.short(boss);
    assert_eq!(
        told,
        [format!("end s1 failed {LEAVING}"), format!("end s2 failed {LEAVING}"), "close 1001".into()]
    );
    let mut told = talk.short(dev);
    told.sort();
    assert_eq!(told, [format!("end s1 failed {LEAVING}"), format!("end s2 failed {LEAVING}")]);
    talk.world.evict(dev, CloseReason::Restart);
    assert_eq!(talk.short(dev), [format!("end s3 failed {LEAVING}"), "close 1001".into()]);
    assert_eq!(talk.count("turn_ended"), 3);
}

#[test]
fn a_device_that_is_closed_first_takes_its_tasks_along() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.world.evict(dev, CloseReason::Restart);
    assert_eq!(talk.short(dev), ["close 1001"]);
    assert_eq!(talk.short(boss), [format!("end s1 failed {DEVICE_LOST}")]);
}

#[test]
fn aip_099_owners_hear_that_the_server_leaves_whatever_became_of_the_device() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let second = talk.boss("second", "other");
    let _command = talk.command(boss, dev, "s1", "one");
    talk.say(second, &task("other", "s2", "one"));
    talk.say(boss, &task("dev", "s3", "hang"));
    assert_eq!((talk.short(second).len(), talk.short(boss).len(), talk.short(other).len()), (1, 1, 1));
    talk.world.drain(1_000);
    // One device is closed before its owner is, the other one hangs up.
    talk.world.evict(dev, CloseReason::Restart);
    talk.world.cut(other);
    let mut told = talk.short(boss);
    told.sort();
    assert_eq!(
        told,
        ["close 1001".to_owned(), format!("end s1 failed {LEAVING}"), format!("end s3 failed {LEAVING}")]
    );
    assert_eq!(talk.short(second), [format!("end s2 failed {LEAVING}"), "close 1001".into()]);
}

#[test]
fn a_task_that_is_refused_while_leaving_does_not_keep_the_connection() {
    let mut talk = Talk::new();
    let (_, boss) = talk.pair();
    // The task is on its way when the server begins to leave.
    talk.enqueue(boss, &task("dev", "s1", "one"));
    talk.world.step();
    talk.world.fail_appends(1);
    talk.world.drain(1_000);
    let told = talk.short(boss);
    assert_eq!(told.last().map(String::as_str), Some("close 1001"), "{told:?}");
}

#[test]
fn every_reason_has_its_close_code() {
    for (reason, code) in [
        (CloseReason::Restart, 1001),
        (CloseReason::Unauthorized, 1008),
        (CloseReason::TooBig, 1009),
        (CloseReason::Internal, 1011),
        (CloseReason::TooSlow, 1013),
    ] {
        let mut talk = Talk::new();
        let dev = talk.device("dev");
        talk.world.evict(dev, reason);
        assert_eq!(talk.short(dev), [format!("close {code}")]);
    }
}
