//! Tasks that are taken and tasks that are not (§6.2, §6.3): AIP-043 to AIP-047, AIP-060, AIP-061,
//! A8, A9, A11, A25, and the limits of §13.

use serde_json::{Value, json};
use switchboard_aip::{AipLimits, Service};
use switchboard_core::{Event, Reject};
use switchboard_testkit::Settings;

use crate::support::{Talk, own_task, session, stop, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

fn with(mut message: Value, field: &str, value: Value) -> Value {
    message[field] = value;
    message
}

/// An error, and the end of a task that never was.
fn refused(session: &str, why: &str) -> [String; 2] {
    [format!("error {why}"), format!("end {session} failed {why}")]
}

#[test]
fn aip_043_a_task_is_acknowledged_before_anything_else_of_it() {
    for request in ["one", "raise", "hello", "panic"] {
        let mut talk = Talk::new();
        let (_, boss) = talk.pair();
        talk.say(boss, &task("dev", "run42@t1", request));
        let told = talk.heard(boss);
        assert_eq!((text(&told[0], "type"), text(&told[0], "status")), ("heartbeat".into(), "ok".into()));
        assert_eq!(told[0]["session_id"], "run42@t1", "{request}");
        assert!(told[0]["task_name"].is_null() && told[0]["result"].is_null());
        let alone = talk.device("alone");
        talk.say(alone, &own_task("s", request));
        assert_eq!(talk.short(alone)[0], "ack s", "{request}");
    }
}

#[test]
fn aip_043_the_acknowledgement_comes_first_in_every_order() {
    for seed in 0..40 {
        let mut talk = Talk::seeded(seed);
        let dev = talk.device("dev");
        let boss = talk.boss("boss", "dev");
        talk.say(boss, &task("dev", "s1", "hello"));
        talk.say(dev, &own_task("s2", "one"));
        assert_eq!(talk.short(boss), ["ack s1", "end s1 completed"], "{seed}");
        let told: Vec<String> = talk.short(dev).into_iter().filter(|line| line.contains("s2")).collect();
        assert_eq!(told, ["ack s2", "command s2 look"], "{seed}");
    }
}

#[test]
fn aip_044_a_session_id_is_made_up_where_none_is_given() {
    for given in [Value::Null, json!("")] {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        talk.say(boss, &with(task("dev", "", "one"), "session_id", given));
        let id = text(&talk.one(boss), "session_id");
        assert_eq!(id.len(), 36, "a UUID: {id}");
        let command = talk.one(dev);
        assert_eq!(command["session_id"], id.as_str());
        talk.obey(dev, &command);
        assert_eq!(talk.one(boss)["session_id"], id.as_str());
        assert_eq!(talk.one(dev)["session_id"], id.as_str());
        talk.say(boss, &with(task("dev", "", "one"), "session_id", Value::Null));
        assert_ne!(text(&talk.one(boss), "session_id"), id);
    }
}

#[test]
fn aip_045_task_names_are_made_fit_for_paths() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    for (given, expected) in [
        ("galaxy/run42/t1", "galaxy_run42_t1"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...x", "x"),
        (".hidden", "hidden"),
        ("a b\u{0}c\\d:e", "a_b_c_d_e"),
        ("ünïcode", "_n_code"),
        ("Fine-1.0_x", "Fine-1.0_x"),
        ("..", ""),
        ("", ""),
    ] {
        talk.say(boss, &with(task("dev", "s1", "one"), "task_name", given.into()));
        assert_eq!(talk.short(boss), ["ack s1"]);
        let command = talk.one(dev);
        let name = text(&command, "task_name");
        if expected.is_empty() {
            assert_eq!(name.len(), 36, "{given:?} becomes a UUID, not {name}");
        } else {
            assert_eq!(name, expected);
        }
        assert_eq!(talk.task_result("ann", &name)["status"], "pending");
        talk.obey(dev, &command);
        assert_eq!(talk.task_result("ann", &name)["status"], "done", "the name under which it is known");
        assert_eq!((talk.short(boss).len(), talk.short(dev).len()), (1, 1));
    }
}

#[test]
fn aip_046_a_task_needs_a_target_that_is_a_device_and_online() {
    let mut talk = Talk::untargeted();
    let dev = talk.device("dev");
    let boss = talk.boss_of("ann", "boss", None);
    for target in [Value::Null, json!("")] {
        talk.say(boss, &with(task("", "s1", "one"), "target_id", target));
        assert_eq!(talk.short(boss), refused("s1", "Constellation task requests require target_id"));
    }
    talk.say(boss, &task("nobody", "s1", "one"));
    assert_eq!(talk.short(boss), refused("s1", "Target device 'nobody' is not connected"));
    talk.say(boss, &task("boss", "s1", "one"));
    assert_eq!(talk.short(boss), refused("s1", "Constellation tasks may only target device clients"));
    assert_eq!((talk.short(dev), talk.count("turn_accepted")), (nothing(), 0));
}

#[test]
fn aip_046_the_target_may_have_gone_since_the_registration() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.say(boss, &with(task("", "s1", "one"), "target_id", Value::Null));
    assert_eq!(talk.short(boss), refused("s1", "Constellation task requests require target_id"));
    talk.world.cut(dev);
    talk.say(boss, &task("dev", "s1", "one"));
    assert_eq!(talk.short(boss), refused("s1", "Target device 'dev' is not connected"));
    let dev = talk.device("dev");
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_047_a_refused_task_is_ended_for_whoever_waits_for_it() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let message = with(with(task("dev", "s1", ""), "request_id", json!("r1")), "request", Value::Null);
    talk.say(boss, &message);
    let told = talk.heard(boss);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((text(&told[0], "session_id"), text(&told[0], "response_id")), ("s1".into(), "r1".into()));
    assert_eq!((text(&told[1], "type"), text(&told[1], "status")), ("task_end".into(), "failed".into()));
    assert_eq!((text(&told[1], "session_id"), &told[1]["error"]), ("s1".into(), &told[0]["error"]));
    for session in [Value::Null, json!("")] {
        talk.say(boss, &with(message.clone(), "session_id", session));
        assert_eq!(talk.short(boss), ["error request is required"], "nobody waits");
    }
    assert_eq!(talk.short(dev), nothing(), "a device is not told of what never began");
}

#[test]
fn aip_047_so_is_one_with_a_name_that_is_too_long() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let long = |count: usize| json!("n".repeat(count));
    let why = |field: &str| format!("{field} is longer than 256 characters");
    talk.say(boss, &with(task("dev", "s1", "one"), "task_name", long(257)));
    assert_eq!(talk.short(boss), refused("s1", &why("task_name")));
    talk.say(boss, &with(task("dev", "s1", "one"), "target_id", long(257)));
    assert_eq!(talk.short(boss), refused("s1", &why("target_id")));
    talk.say(boss, &with(task("dev", "s1", "one"), "request_id", long(257)));
    assert_eq!(talk.short(boss), refused("s1", &why("request_id")));
    talk.say(boss, &with(task("dev", "s1", "one"), "session_id", long(257)));
    assert_eq!(talk.short(boss)[0], format!("error {}", why("session_id")));
    assert_eq!(talk.count("turn_accepted"), 0);
    talk.say(boss, &with(task("dev", "s1", "one"), "task_name", long(256)));
    assert_eq!((talk.short(boss), talk.short(dev).len()), (vec!["ack s1".to_owned()], 1));
    talk.say(boss, &with(task("dev", "s1", "one"), "task_name", long(257)));
    assert_eq!(talk.short(boss), [format!("error {}", why("task_name"))], "s1 runs, and goes on");
}

#[test]
fn aip_047_one_that_the_server_cannot_take_is_ended_too() {
    let mut talk = Talk::new();
    let (_, boss) = talk.pair();
    talk.world.fail_appends(1);
    talk.say(boss, &task("dev", "s1", "one"));
    assert_eq!(talk.short(boss), refused("s1", "the server cannot store anything now, try again"));
    for (reject, why) in [
        (Reject::Busy, "the server is busy, try again"),
        (
            Reject::RateLimited { retry_after: std::time::Duration::from_secs(5) },
            "the server is busy, try again",
        ),
        (Reject::Draining, "the server is shutting down"),
        (Reject::Forbidden, "not permitted"),
        (Reject::Limit { what: "queued_turns" }, "device busy"),
        (Reject::UnknownAgent("planner".into()), "no agent serves this: planner"),
        (Reject::Invalid("a secret".into()), "internal error"),
    ] {
        let mut once = Some(reject);
        talk.world.set_gate(move |_, op, _| match op {
            switchboard_core::Op::StartTurn(_) => once.take().map_or(Ok(()), Err),
            _ => Ok(()),
        });
        talk.say(boss, &task("dev", "s1", "one"));
        assert_eq!(talk.short(boss), refused("s1", why));
    }
    talk.say(boss, &task("dev", "s1", "one"));
    assert_eq!(talk.short(boss), ["ack s1"], "the id was never used up");
}

#[test]
fn aip_060_a_session_id_that_runs_is_refused_and_goes_on() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.enqueue(boss, &task("dev", "s1", "one"));
    talk.enqueue(boss, &task("dev", "s1", "one"));
    talk.world.settle();
    let told = talk.short(boss);
    assert_eq!(told, ["ack s1", "error session_id 's1' is already running"], "also before it has begun");
    let command = talk.one(dev);
    talk.say(boss, &task("dev", "s1", "other"));
    assert_eq!(talk.short(boss), ["error session_id 's1' is already running"], "no end: it runs");
    assert_eq!(talk.count("turn_accepted"), 1);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    assert_eq!(talk.short(dev), ["end s1 completed"]);
}

#[test]
fn aip_060_whoever_comes_behind_a_task_that_is_refused_is_next() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.world.fail_appends(1);
    talk.enqueue(boss, &task("dev", "s1", "one"));
    talk.enqueue(boss, &task("dev", "s1", "two"));
    talk.world.settle();
    let why = "the server cannot store anything now, try again";
    let told = talk.short(boss);
    assert_eq!(told, [format!("error {why}"), format!("end s1 failed {why}"), "ack s1".to_owned()]);
    assert_eq!(talk.short(dev), ["command s1 look,click"]);
}

#[test]
fn aip_060_a_session_id_may_be_used_again_for_the_next_turn_of_the_same_session() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    for _ in 0..3 {
        let command = talk.command(boss, dev, "s1", "one");
        talk.obey(dev, &command);
        assert_eq!(talk.short(boss), ["end s1 completed"]);
        assert_eq!(talk.short(dev), ["end s1 completed"]);
    }
    let turns = talk.events(&session("s1")).iter().filter(|name| **name == "turn_ended").count();
    assert_eq!(turns, 3);
    let sessions = talk.world.session_ids().len();
    assert_eq!(sessions, 2, "one for the profile, one for all three");
}

#[test]
fn aip_061_a_device_gets_commands_and_no_task_unless_it_asked() {
    for announce in [json!(null), json!(false), json!("true"), json!(1)] {
        let mut talk = Talk::new();
        let dev = talk.device_of("ann", "dev", json!({ "task_announce": announce }));
        let boss = talk.boss("boss", "dev");
        talk.say(boss, &task("dev", "s1", "one"));
        assert_eq!(talk.short(dev), ["command s1 look"], "{announce}");
    }
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "task_announce": true }));
    let boss = talk.boss("boss", "dev");
    talk.say(boss, &with(task("dev", "s1", "one"), "task_name", json!("a/b")));
    let told = talk.heard(dev);
    assert_eq!(told.len(), 2, "A25: the task, then its first commands");
    assert_eq!((text(&told[0], "type"), text(&told[1], "type")), ("task".into(), "command".into()));
    assert_eq!((text(&told[0], "session_id"), text(&told[0], "user_request")), ("s1".into(), "one".into()));
    assert_eq!(told[0]["task_name"], "a_b");
    talk.obey(dev, &told[1]);
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    talk.say(dev, &own_task("s2", "one"));
    assert_eq!(talk.short(dev), ["ack s2", "command s2 look"], "its own tasks it knows");
}

#[test]
fn a_task_carries_what_the_client_says_to_the_agent() {
    let mut talk = Talk::new();
    let (_, boss) = talk.pair();
    talk.say(boss, &with(task("dev", "s1", "one"), "metadata", json!({ "priority": "high" })));
    let accepted = talk.world.log(&session("s1")).iter().find_map(|committed| match &committed.event {
        Event::TurnAccepted { meta, device, origin, request, deadline, .. } => {
            Some((meta.clone(), device.clone(), origin.clone(), request.text(), *deadline))
        }
        _ => None,
    });
    let (meta, device, origin, request, deadline) = accepted.unwrap();
    assert_eq!((*meta, device, request), (json!({ "priority": "high" }), Some("dev".into()), "one".into()));
    assert_eq!((origin.principal.as_str(), origin.protocol.as_str()), ("ann", "aip"));
    assert_eq!(deadline.as_secs() - talk.world.now().as_secs(), 3_600, "§13: task wall time");
}

#[test]
fn a_device_takes_so_many_tasks_and_is_busy_then() {
    let mut talk = Talk::limited(AipLimits { tasks_per_device: 3, ..AipLimits::default() });
    let (dev, boss) = talk.pair();
    let second = talk.boss("second", "dev");
    for id in ["a", "b"] {
        talk.say(boss, &task("dev", id, "hang"));
        assert_eq!(talk.short(boss), [format!("ack {id}")]);
    }
    talk.say(second, &task("dev", "c", "hang"));
    assert_eq!(talk.short(second), ["ack c"]);
    talk.say(second, &task("dev", "d", "hang"));
    assert_eq!(talk.short(second), refused("d", "device busy"));
    talk.say(dev, &own_task("e", "hang"));
    assert_eq!(talk.short(dev), refused("e", "device busy"), "its own count as well");
    let other = talk.device("other");
    talk.say(other, &own_task("f", "hang"));
    assert_eq!(talk.short(other), ["ack f"], "others are not busy");
    talk.say(boss, &stop("constellation", "a", "failed", None));
    assert_eq!(talk.short(boss).len(), 1);
    talk.say(second, &task("dev", "d", "hang"));
    assert_eq!(talk.short(second), ["ack d"], "a place is free again");
}

#[test]
fn a_client_has_so_many_tasks() {
    let mut talk = Talk::limited(AipLimits { tasks_per_constellation: 2, ..AipLimits::default() });
    let (_, boss) = talk.pair();
    for id in ["a", "b"] {
        talk.say(boss, &task("dev", id, "hang"));
    }
    assert_eq!(talk.short(boss), ["ack a", "ack b"]);
    talk.say(boss, &task("dev", "c", "hang"));
    assert_eq!(talk.short(boss), refused("c", "too many sessions of this client are running"));
    talk.say(boss, &stop("constellation", "a", "failed", None));
    talk.say(boss, &task("dev", "c", "hang"));
    assert_eq!(talk.short(boss)[1..], ["ack c"]);
}

#[test]
fn tasks_are_planned_by_the_agent_that_the_operator_names() {
    let service = Service { agent: Some("other".into()), ..Service::default() };
    let mut talk = Talk::with(AipLimits::default(), service, Settings::default());
    let script =
        switchboard_testkit::Script::new().on("one", vec![switchboard_testkit::Step::Text("hi".into())]);
    talk.world.add_agent("other", script);
    let (_, boss) = talk.pair();
    talk.say(boss, &task("dev", "s1", "one"));
    let told = talk.heard(boss);
    assert_eq!(told[1]["result"], json!([{ "request": "one", "result": "hi" }]));
}
