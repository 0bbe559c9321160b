//! Tasks that somebody stops (§6.6, §10.2): AIP-073, A13, and interrupts from elsewhere.

use serde_json::json;
use switchboard_core::{Actor, Op, PrincipalId, TurnId};

use crate::support::{Talk, batch, done, finish, own_task, results, session, stop, task};

fn nothing() -> Vec<String> {
    Vec::new()
}

fn turn_of(talk: &Talk, name: &str) -> TurnId {
    talk.world.session(&session(name)).unwrap().turns().next().unwrap().turn.clone()
}

#[test]
fn aip_073_the_owner_may_stop_a_task() {
    for status in ["failed", "error"] {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        let command = talk.command(boss, dev, "s1", "one");
        talk.say(boss, &stop("constellation", "s1", status, Some("operator pressed stop")));
        let (owner, executor) = (talk.one(boss), talk.one(dev));
        assert_eq!(crate::support::short(&owner), "end s1 failed cancelled: operator pressed stop");
        assert_eq!(owner, executor);
        assert!(owner["result"].is_null());
        talk.obey(dev, &command);
        talk.say(boss, &stop("constellation", "s1", "failed", None));
        assert_eq!((talk.short(boss), talk.short(dev)), (nothing(), nothing()), "it is over");
    }
}

#[test]
fn aip_073_the_executor_may_stop_a_task() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.say(dev, &stop("device", "s1", "failed", Some("disk full")));
    assert_eq!(talk.short(boss), ["end s1 failed cancelled: disk full"]);
    assert_eq!(talk.short(dev), ["end s1 failed cancelled: disk full"]);
    // Also before it was asked anything.
    talk.say(boss, &task("dev", "s2", "hang"));
    talk.say(dev, &stop("device", "s2", "failed", None));
    assert_eq!(talk.short(boss), ["ack s2", "end s2 failed cancelled: interrupted"]);
    assert_eq!(talk.short(dev), ["end s2 failed cancelled: interrupted"]);
    talk.say(dev, &own_task("s3", "hang"));
    talk.say(dev, &stop("device", "s3", "failed", Some("")));
    assert_eq!(talk.short(dev), ["ack s3", "end s3 failed cancelled: interrupted"], "its own, once");
}

#[test]
fn aip_073_completed_ends_a_task_if_the_executor_says_so() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.say(boss, &stop("constellation", "s1", "completed", None));
    talk.say(boss, &stop("constellation", "s1", "continue", None));
    talk.say(boss, &stop("constellation", "s1", "ok", None));
    for status in ["continue", "ok"] {
        talk.say(dev, &stop("device", "s1", status, None));
    }
    assert_eq!((talk.short(boss), talk.short(dev)), (nothing(), nothing()), "these say nothing");
    talk.say(dev, &stop("device", "s1", "completed", None));
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    talk.obey(dev, &command);
    talk.say(dev, &own_task("s2", "hang"));
    talk.say(dev, &stop("device", "s2", "completed", None));
    assert_eq!(talk.short(dev), ["ack s2", "end s2 completed"]);
}

#[test]
fn aip_073_a_task_that_is_just_being_taken_can_be_stopped() {
    for seed in 0..40 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        talk.enqueue(boss, &task("dev", "s1", "hang"));
        talk.enqueue(boss, &stop("constellation", "s1", "failed", Some("no")));
        talk.enqueue(dev, &own_task("s2", "hang"));
        talk.enqueue(dev, &stop("device", "s2", "failed", None));
        talk.world.settle();
        assert_eq!(talk.short(boss), ["ack s1", "end s1 failed cancelled: no"], "{seed}");
        let mut told = talk.short(dev);
        told.retain(|line| line.contains("s2"));
        assert_eq!(told, ["ack s2", "end s2 failed cancelled: interrupted"], "{seed}");
    }
}

#[test]
fn aip_073_unknown_sessions_and_those_of_others_are_left_alone() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let (second, other) = (talk.boss("second", "dev"), talk.device("other"));
    for status in ["failed", "completed"] {
        talk.say(second, &stop("constellation", "s1", status, None));
        talk.say(other, &stop("device", "s1", status, None));
        talk.say(boss, &stop("constellation", "s9", status, None));
        talk.say(dev, &stop("device", "s9", status, None));
    }
    let mut nameless = stop("device", "", "failed", None);
    nameless["session_id"] = json!(null);
    talk.say(dev, &nameless);
    for peer in [second, other, boss, dev] {
        assert_eq!(talk.short(peer), nothing(), "ignored without a word");
    }
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_073_a_planner_that_does_not_listen_is_left_behind_within_two_seconds() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "deaf");
    talk.say(boss, &stop("constellation", "s1", "failed", Some("enough")));
    talk.obey(dev, &command);
    talk.world.advance(2_000);
    assert_eq!(talk.short(boss), ["end s1 failed cancelled: enough"]);
    assert_eq!(talk.short(dev), ["end s1 failed cancelled: enough"]);
    let next = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &next);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn an_interrupt_from_elsewhere_ends_the_task_on_both_sides() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let interrupt = Op::Interrupt { turn: turn_of(&talk, "s1"), reason: Some("from the console".into()) };
    let stranger = Actor::client(PrincipalId::from("bob"));
    assert!(talk.world.ask(&session("s1"), stranger, interrupt.clone()).is_err());
    assert_eq!(talk.short(boss), nothing());
    talk.world.ask(&session("s1"), Actor::client(PrincipalId::from("ann")), interrupt).unwrap();
    assert_eq!(talk.short(boss), ["end s1 failed cancelled: from the console"]);
    assert_eq!(talk.short(dev), ["end s1 failed cancelled: from the console"]);
    talk.obey(dev, &command);
    assert_eq!((talk.short(dev), talk.short(boss)), (nothing(), nothing()));
    assert_eq!(talk.task_result("ann", "t1")["result"]["error"], "cancelled: from the console");
}

#[test]
fn nothing_is_asked_of_the_device_once_a_task_is_being_stopped() {
    let mut talk = Talk::new();
    talk.plan("busy", vec![switchboard_testkit::Step::Deaf, batch(&["a"]), batch(&["b"]), finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "busy");
    talk.enqueue(boss, &stop("constellation", "s1", "failed", None));
    talk.enqueue(dev, &done(&command));
    talk.world.settle();
    talk.world.advance(5_000);
    let told = talk.short(dev);
    assert_eq!(told, ["end s1 failed cancelled: interrupted"], "no command after the stop");
}

#[test]
fn a_client_error_is_echoed_and_kept_with_what_the_device_was_doing() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "two");
    let complain = |session: Option<&str>, error: Option<&str>| json!({ "type": "error", "status": "error", "session_id": session, "error": error, "request_id": "r1" });
    talk.say(dev, &complain(Some("s1"), Some("disk full")));
    let echo = talk.one(dev);
    assert_eq!((echo["error"].as_str(), echo["session_id"].as_str()), (Some("disk full"), Some("s1")));
    assert_eq!(echo["response_id"], "r1");
    assert_eq!(talk.events(&session("s1")).last(), Some(&"call_progress"));
    for (session, error) in
        [(None, Some("disk full")), (Some("s9"), Some("x")), (None, None), (Some("s1"), Some(""))]
    {
        talk.say(dev, &complain(session, error));
        let told = talk.short(dev);
        assert_eq!(told, [format!("error {}", error.filter(|e| !e.is_empty()).unwrap_or("Unknown error"))]);
    }
    talk.say(boss, &json!({ "type": "error", "status": "error", "client_type": "constellation", "error": "hm", "session_id": "s1" }));
    assert_eq!(talk.short(boss), ["error hm"]);
    talk.say(dev, &results(&command, json!([])));
    assert_eq!(talk.short(dev), ["command s1 type"], "the task goes on");
}

#[test]
fn what_a_client_gives_as_its_reason_is_cut_where_it_is_too_long() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.say(boss, &stop("constellation", "s1", "failed", Some(&"x".repeat(5_000))));
    let (owner, executor) = (talk.one(boss), talk.one(dev));
    assert_eq!(owner["error"].as_str().unwrap().len(), 1024, "AIP-078");
    assert_eq!(owner, executor);
}

#[test]
fn a_stop_that_cannot_be_stored_is_not_lost() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    talk.world.fail_appends(2);
    talk.say(boss, &stop("constellation", "s1", "failed", Some("enough")));
    talk.world.advance(5_000);
    assert_eq!(talk.short(boss), ["end s1 failed cancelled: enough"]);
    assert_eq!(talk.short(dev), ["end s1 failed cancelled: enough"]);
}
