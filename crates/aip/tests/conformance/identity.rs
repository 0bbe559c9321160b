//! Who may do what (§6.1, §9): AIP-029 to AIP-036, A10, A19.

use serde_json::{Value, json};
use switchboard_core::{Principal, SessionId};
use switchboard_testkit::PeerId;

use crate::support::{
    DEVICE_LOST, Talk, beat, done, own_task, register, register_boss, results, session, stop, task, text,
};

const OTHER_ID: &str = "error client_id does not match the registered connection";
const OTHER_TYPE: &str = "error client_type does not match the registered connection";

fn nothing() -> Vec<String> {
    Vec::new()
}

fn with(mut message: Value, field: &str, value: &str) -> Value {
    message[field] = value.into();
    message
}

#[test]
fn aip_029_messages_in_the_name_of_others_are_refused_and_do_nothing() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let command = talk.command(boss, dev, "s1", "one");
    let before = talk.world.history().len();
    let info = json!({ "type": "device_info_response", "status": "ok", "metadata": { "cpu_count": 1 } });
    for message in [
        beat(),
        own_task("s2", "one"),
        done(&command),
        stop("device", "s1", "failed", None),
        info,
        json!({ "type": "error", "status": "error", "error": "x", "session_id": "s1" }),
    ] {
        talk.say(other, &with(message.clone(), "client_id", "dev"));
        let told = talk.short(other);
        assert_eq!(told, [OTHER_ID], "{message}");
    }
    talk.say(other, &with(with(own_task("s2", "one"), "client_id", "other2"), "request_id", "r9"));
    let error = talk.one(other);
    assert_eq!((text(&error, "response_id"), text(&error, "session_id")), ("r9".into(), "s2".into()));
    assert_eq!(talk.world.history().len(), before, "nothing happened");
    assert_eq!((talk.short(dev), talk.short(boss)), (nothing(), nothing()));
    talk.say(other, &with(beat(), "client_id", "other"));
    assert_eq!(talk.short(other), ["ack"], "its own name is fine");
    talk.say(other, &with(beat(), "client_id", ""));
    assert_eq!(talk.short(other), [OTHER_ID], "an empty name is another one");
}

#[test]
fn aip_030_messages_in_another_role_are_refused() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let request = json!({ "type": "device_info_request", "status": "ok", "request_id": "r" });
    for message in [own_task("s2", "one"), stop("device", "s1", "failed", None), request] {
        talk.say(boss, &message);
        assert_eq!(talk.short(boss), [OTHER_TYPE], "{message}");
    }
    for message in [
        task("dev", "s2", "one"),
        with(done(&command), "client_type", "constellation"),
        with(register("dev", json!({})), "client_type", "constellation"),
    ] {
        talk.say(dev, &message);
        assert_eq!(talk.short(dev), [OTHER_TYPE], "{message}");
    }
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "nothing has happened to it");
    talk.say(dev, &with(beat(), "client_type", "constellation"));
    talk.say(boss, &beat());
    assert_eq!(
        (talk.short(boss), talk.short(dev)),
        (vec!["ack".into()], vec!["end s1 completed".into(), "ack".into()]),
        "A2"
    );
}

#[test]
fn aip_031_a_device_has_tasks_for_itself_only() {
    let mut talk = Talk::new();
    let (dev, other) = (talk.device("dev"), talk.device("other"));
    talk.say(dev, &with(own_task("s1", "one"), "target_id", "other"));
    let why = "Device clients may not target other devices";
    assert_eq!(talk.short(dev), [format!("error {why}"), format!("end s1 failed {why}")]);
    talk.say(dev, &with(own_task("s1", "one"), "target_id", "nobody"));
    assert_eq!(talk.short(dev).len(), 2, "whether it is there or not");
    assert_eq!((talk.short(other), talk.count("turn_accepted")), (nothing(), 0));
    talk.say(dev, &with(own_task("s1", "one"), "target_id", "dev"));
    assert_eq!(talk.short(dev), ["ack s1", "command s1 look"]);
    assert_eq!(talk.short(other), nothing());
}

#[test]
fn aip_032_names_and_roles_are_bound_to_the_credential() {
    let mut talk = Talk::new();
    talk.device("dev");
    let refused = ["error client_id is not permitted for this credential", "close 1008"];
    for message in [
        register("cat", json!({})),
        register("dog-1", json!({})),
        register("cat@x", json!({})),
        // Nothing of who is online: a name that is taken is refused in the same words.
        register("dev", json!({})),
        register_boss("cat-1", Some("dev")),
        register_boss("dev", Some("dev")),
        register_boss("boss", Some("nobody")),
    ] {
        let peer = talk.enter("cat");
        talk.say(peer, &message);
        assert_eq!(talk.short(peer), refused, "{message}");
    }
    talk.device_of("cat", "cat-1", json!({}));
    talk.boss_of("cat", "cat@1", Some("dev"));
    talk.boss_of("cat", "cat@2", Some("cat-1"));
}

#[test]
fn aip_032_targets_are_bound_to_the_credential() {
    let mut talk = Talk::new();
    let (dev, lab) = (talk.device("dev"), talk.device("lab"));
    for (token, target) in [("bob", "dev"), ("bob", "lab"), ("cat", "lab")] {
        let peer = talk.enter(token);
        talk.say(peer, &register_boss("cat@x", Some(target)));
        let why = format!("error Target device '{target}' is not connected");
        assert_eq!(talk.short(peer), [why, "close 1008".into()], "as if it were not there");
    }
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    talk.say(cat, &task("dev", "s1", "one"));
    assert_eq!(talk.short(cat), ["ack s1"]);
    assert_eq!(talk.short(dev), ["command s1 look"], "a device of ann's, for cat");
    talk.say(cat, &task("lab", "s2", "one"));
    let why = "Target device 'lab' is not connected";
    assert_eq!(talk.short(cat), [format!("error {why}"), format!("end s2 failed {why}")]);
    assert_eq!(talk.short(lab), nothing());
}

#[test]
fn aip_032_strangers_see_nobody() {
    let mut talk = Talk::new();
    talk.pair();
    talk.device_of("bob", "his", json!({}));
    talk.device("lab");
    assert_eq!(talk.online("ann"), ["dev", "boss", "lab"]);
    assert_eq!(talk.online("bob"), ["his"]);
    assert_eq!(talk.online("cat"), ["dev"]);
    assert_eq!(talk.http("bob", "/api/health", "", &Value::Null).1["online_clients"], json!(["his"]));
}

#[test]
fn aip_033_a_constellation_has_tasks_for_its_own_target_only() {
    let mut talk = Talk::new();
    let (_dev, boss) = talk.pair();
    let other = talk.device("other");
    talk.say(boss, &task("other", "s1", "one"));
    let why = "Not authorized to task this device";
    assert_eq!(talk.short(boss), [format!("error {why}"), format!("end s1 failed {why}")], "A19");
    assert_eq!((talk.short(other), talk.count("turn_accepted")), (nothing(), 0));
    talk.say(boss, &task("dev", "s1", "one"));
    assert_eq!(talk.short(boss), ["ack s1"], "the id was not used up");
}

#[test]
fn aip_033_without_a_target_every_device_within_reach_can_be_used() {
    let mut talk = Talk::untargeted();
    let (dev, other) = (talk.device("dev"), talk.device("other"));
    talk.device_of("bob", "his", json!({}));
    let boss = talk.boss_of("ann", "boss", None);
    for (target, peer) in [("dev", dev), ("other", other)] {
        talk.say(boss, &task(target, &format!("s-{target}"), "one"));
        assert_eq!(talk.short(boss), [format!("ack s-{target}")]);
        assert_eq!(talk.short(peer), [format!("command s-{target} look")]);
    }
    for target in ["his", "nobody"] {
        talk.say(boss, &task(target, "s3", "one"));
        let why = format!("Target device '{target}' is not connected");
        assert_eq!(talk.short(boss), [format!("error {why}"), format!("end s3 failed {why}")]);
    }
}

/// Everything that somebody else may say about a command that is not theirs.
fn meddle(talk: &mut Talk, command: &Value, who: PeerId, role: &str) {
    let forged = results(command, json!([{ "status": "failure", "error": "forged" }]));
    for status in ["continue", "completed", "failed"] {
        talk.say(who, &with(with(forged.clone(), "client_type", role), "status", status));
    }
    for status in ["completed", "failed"] {
        talk.say(who, &with(stop(role, "s1", status, Some("forged")), "task_name", "t1"));
    }
    assert_eq!(talk.short(who), nothing(), "dropped without a word");
}

#[test]
fn aip_034_results_are_taken_from_the_executor_only() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let other = talk.device("other");
    let second = talk.boss("second", "dev");
    let his = talk.device_of("bob", "his", json!({}));
    let before = talk.world.history().len();
    meddle(&mut talk, &command, other, "device");
    meddle(&mut talk, &command, his, "device");
    meddle(&mut talk, &command, second, "constellation");
    let forged = with(results(&command, json!([{ "status": "failure" }])), "client_type", "constellation");
    talk.say(boss, &forged);
    assert_eq!(talk.world.history().len(), before, "nothing happened, not even for its owner");
    talk.obey(dev, &command);
    assert_eq!(talk.one(boss)["result"]["turns"][0][0]["result"]["tool"], "look");
}

#[test]
fn aip_034_a_device_that_works_itself_cannot_answer_for_another() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let second = talk.boss("second", "other");
    let command = talk.command(boss, dev, "s1", "one");
    talk.say(second, &task("other", "s2", "one"));
    let own = talk.one(other);
    // The right device, the wrong command, and the other way round.
    let mut mixed = done(&command);
    mixed["session_id"] = "s2".into();
    talk.say(other, &mixed);
    let mut mixed = done(&own);
    mixed["session_id"] = "s1".into();
    talk.say(other, &mixed);
    talk.say(other, &done(&command));
    assert_eq!((talk.short(other), talk.count("call_ended")), (nothing(), 0));
    talk.obey(other, &own);
    talk.obey(dev, &command);
    assert_eq!(talk.short(second), ["ack s2", "end s2 completed"]);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_035_a_session_id_belongs_to_the_client_that_uses_it() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let second = talk.boss("second", "dev");
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    let owned = "session_id 's1' is owned by another client";
    talk.say(second, &task("dev", "s1", "one"));
    let told = talk.short(second);
    assert_eq!(
        told,
        [format!("error {owned}"), format!("end s1 failed {owned}")],
        "AIP-091: whoever waits for it is told, and not by whom it is owned (A10)"
    );
    // The device works for that very task, which is not over.
    talk.say(dev, &own_task("s1", "one"));
    assert_eq!(talk.short(dev), [format!("error {owned}")]);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"], "undisturbed");
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    // After its end, anybody may use it, each in a session of their own.
    talk.say(cat, &task("dev", "s1", "one"));
    assert_eq!(talk.short(cat), ["ack s1"]);
    assert_eq!(talk.short(dev), ["command s1 look"]);
    assert_eq!(talk.events(&session("s1")).iter().filter(|name| **name == "turn_accepted").count(), 1);
}

#[test]
fn aip_035_the_session_of_another_principal_cannot_be_entered_by_its_real_name() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    talk.short(dev);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    let real = session("s1");
    let his = talk.device_of("bob", "his", json!({}));
    talk.say(his, &own_task(real.as_str(), "one"));
    assert_eq!(
        talk.short(his),
        [format!("ack {real}"), format!("command {real} look")],
        "AIP-097: to him it is a name like any other"
    );
    assert_eq!(talk.events(&SessionId::named(&Principal::new("bob"), real.as_str())).len(), 6);
    assert_eq!(talk.events(&real).iter().filter(|name| **name == "turn_accepted").count(), 1);
    // Its owner may.
    talk.say(boss, &task("dev", real.as_str(), "one"));
    assert_eq!(talk.short(boss), [format!("ack {real}")]);
    assert_eq!(talk.short(dev), [format!("command {real} look")]);
    assert_eq!(talk.events(&real).iter().filter(|name| **name == "turn_accepted").count(), 2);
}

#[test]
fn aip_036_every_reply_comes_on_the_connection_of_its_request() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let second = talk.boss("second", "dev");
    let ask = json!({
        "type": "device_info_request", "status": "ok", "client_type": "constellation", "request_id": "q",
    });
    talk.say(second, &ask);
    assert_eq!(talk.short(dev), ["info?"]);
    talk.world.advance(1_000);
    assert_eq!(talk.short(second).len(), 1);
    talk.say(second, &beat());
    talk.say(second, &json!({ "type": "nonsense", "status": "ok" }));
    talk.say(second, &task("dev", "s2", "raise"));
    assert_eq!(talk.short(second).len(), 4);
    assert_eq!(talk.short(boss), nothing());
    assert_eq!(talk.short(dev), ["end s2 failed no plan"]);
    talk.world.cut(dev);
    assert_eq!((talk.short(boss), talk.short(second)), (nothing(), nothing()));
}

#[test]
fn one_client_learns_nothing_of_the_tasks_of_others() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let second = talk.boss("second", "other");
    let command = talk.command(boss, dev, "s1", "two");
    talk.obey(dev, &command);
    let command = talk.one(dev);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    assert_eq!((talk.short(other), talk.short(second)), (nothing(), nothing()));
    assert_eq!(talk.task_result("bob", "t1")["status"], "pending");
    assert_eq!(talk.task_result("ann", "t1")["status"], "done");
}

#[test]
fn errors_name_nobody_but_whom_the_sender_named() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "one");
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    let mut told = Vec::new();
    for message in [
        task("dev", "s1", "one"),
        task("boss", "s9", "one"),
        task("lab", "s9", "one"),
        json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation", "target_id": "lab" }),
    ] {
        talk.say(cat, &message);
        told.extend(talk.short(cat));
    }
    talk.world.cut(dev);
    told.extend(talk.short(cat));
    let told = told.join("\n");
    assert!(!told.contains("ann") && !told.contains("'boss' is owned") && !told.contains("second"), "{told}");
    assert!(!told.contains("inv_") && !told.contains("ses_"), "{told}");
    assert_eq!(talk.short(boss), [format!("end s1 failed {DEVICE_LOST}")]);
}

#[test]
fn addresses_in_metadata_are_data() {
    let mut talk = Talk::new();
    let odd =
        json!({ "platform": "linux", "system_info": { "url": "http://10.0.0.1/x", "$ref": "file:///etc" } });
    let dev = talk.device_of("ann", "../../etc/passwd", odd);
    let boss = talk.boss("http://boss/", "../../etc/passwd");
    let mut message = task("../../etc/passwd", "file:///s", "one");
    message["metadata"] = json!({ "webhook": "http://169.254.169.254/", "path": "/etc/shadow" });
    message["task_name"] = "../../../etc/cron.d/x".into();
    talk.say(boss, &message);
    assert_eq!(talk.short(boss), ["ack file:///s"]);
    let command = talk.one(dev);
    assert_eq!(command["task_name"], "_.._.._etc_cron.d_x", "AIP-045: no path is left");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end file:///s completed"]);
}
