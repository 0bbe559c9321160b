//! Results of commands (§6.2, §10.2, §12): AIP-051, AIP-052, AIP-057 to AIP-059, AIP-072, A12, A21,
//! A32.

use serde_json::{Value, json};
use switchboard_testkit::{BatchCommand, Step};

use crate::support::{Talk, batch, done, finish, results, short, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

fn with(mut message: Value, field: &str, value: Value) -> Value {
    message[field] = value;
    message
}

/// The results of the only batch of a task that ended.
fn told(end: &Value) -> Vec<Value> {
    assert_eq!(end["type"], "task_end", "{end}");
    end["result"]["turns"][0].as_array().unwrap().clone()
}

fn call(command: &Value, index: usize) -> Value {
    command["actions"][index]["call_id"].clone()
}

#[test]
fn aip_051_results_that_answer_nothing_are_dropped_without_a_word() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let before = talk.world.history().len();
    let good = done(&command);
    for bad in [
        with(good.clone(), "session_id", json!("s2")),
        with(good.clone(), "session_id", Value::Null),
        with(good.clone(), "session_id", json!("")),
        with(good.clone(), "prev_response_id", json!("unknown")),
        with(good.clone(), "prev_response_id", Value::Null),
        with(good.clone(), "prev_response_id", json!("")),
        with(good.clone(), "action_results", Value::Null),
        with(with(good.clone(), "prev_response_id", Value::Null), "status", json!("failed")),
        with(with(good.clone(), "session_id", json!("s2")), "status", json!("completed")),
    ] {
        talk.say(dev, &bad);
        assert_eq!((talk.short(dev), talk.short(boss)), (nothing(), nothing()), "{bad}");
    }
    assert_eq!(talk.world.history().len(), before);
    talk.say(dev, &good);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn aip_051_results_never_make_a_session() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    let sessions = talk.world.session_ids();
    let command = json!({ "session_id": "s9", "response_id": "r", "actions": [] });
    talk.say(dev, &results(&command, json!([])));
    assert_eq!((talk.short(dev), talk.world.session_ids()), (nothing(), sessions));
}

#[test]
fn aip_052_a_second_copy_of_results_is_ignored() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let first = talk.command(boss, dev, "s1", "two");
    let other = results(
        &first,
        json!([
            { "status": "failure", "error": "again", "call_id": call(&first, 0) },
            { "status": "failure", "error": "again", "call_id": call(&first, 1) },
        ]),
    );
    talk.enqueue(dev, &done(&first));
    talk.enqueue(dev, &other);
    talk.enqueue(dev, &done(&first));
    talk.enqueue(dev, &with(other.clone(), "status", json!("failed")));
    talk.world.settle();
    let second = talk.one(dev);
    talk.say(dev, &other);
    talk.say(dev, &with(other.clone(), "status", json!("failed")));
    assert_eq!(talk.short(boss), nothing());
    talk.obey(dev, &second);
    talk.obey(dev, &second);
    let end = talk.one(boss);
    assert_eq!(end["status"], "completed");
    assert_eq!(told(&end).iter().map(|one| text(one, "status")).collect::<Vec<_>>(), ["success", "success"]);
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    assert_eq!(talk.count("call_ended"), 3);
}

#[test]
fn aip_057_commands_that_are_not_answered_fail_after_their_time() {
    let mut talk = Talk::new();
    let commands = ["a", "b", "c"].map(|tool| BatchCommand::new(tool, json!({}))).to_vec();
    talk.plan("timed", vec![Step::Batch { commands, timeout_ms: 5_000 }, batch(&["next"]), finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "timed");
    talk.world.advance(4_999);
    assert_eq!(talk.short(dev), nothing());
    talk.world.advance(1);
    let next = talk.one(dev);
    assert_eq!(short(&next), "command s1 next", "the planner went on");
    talk.say(dev, &done(&command));
    assert_eq!((talk.short(dev), talk.short(boss)), (nothing(), nothing()), "too late");
    talk.obey(dev, &next);
    let end = talk.one(boss);
    let statuses: Vec<String> = told(&end).iter().map(|one| text(one, "status")).collect();
    assert_eq!(statuses, ["failure", "failure", "failure"], "one for each command (A32)");
    assert_eq!(end["status"], "completed");
}

#[test]
fn aip_058_a_planner_may_go_on_after_failures_or_not() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let first = talk.command(boss, dev, "s1", "two");
    let failed = results(
        &first,
        json!([
            { "status": "failure", "error": "broken", "call_id": call(&first, 0), "namespace": "Bash" },
            { "status": "skipped", "error": "after a failure", "call_id": call(&first, 1) },
        ]),
    );
    talk.say(dev, &failed);
    let second = talk.one(dev);
    assert_eq!(short(&second), "command s1 type");
    talk.obey(dev, &second);
    let end = talk.one(boss);
    assert_eq!(end["status"], "completed");
    let told = told(&end);
    assert_eq!((text(&told[0], "status"), text(&told[0], "error")), ("failure".into(), "broken".into()));
    assert_eq!(told[0]["namespace"], "Bash");
    assert_eq!(
        (text(&told[1], "status"), text(&told[1], "error")),
        ("skipped".into(), "after a failure".into())
    );
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    let command = talk.command(boss, dev, "s2", "strict");
    talk.say(dev, &results(&command, json!([{ "status": "failure", "call_id": call(&command, 0) }])));
    assert_eq!(talk.short(boss), ["end s2 failed it failed"]);
}

#[test]
fn aip_059_results_may_end_the_task() {
    for (status, end) in [
        ("completed", "end s1 completed"),
        ("failed", "end s1 failed the device ended the task as failed"),
        ("error", "end s1 failed the device ended the task as failed"),
    ] {
        for seed in 0..20 {
            let mut talk = Talk::seeded(seed);
            let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
            let command = talk.command(boss, dev, "s1", "two");
            talk.say(dev, &with(done(&command), "status", status.into()));
            assert_eq!(talk.short(boss), [end], "A12");
            assert_eq!(talk.short(dev), [end], "{seed}: no further command");
            assert_eq!(talk.count("call_ended"), 2, "the results are kept all the same");
        }
    }
    for status in ["continue", "ok"] {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        let command = talk.command(boss, dev, "s1", "two");
        talk.say(dev, &with(done(&command), "status", status.into()));
        assert_eq!(talk.short(dev), ["command s1 type"], "{status}");
        assert_eq!(talk.short(boss), nothing());
    }
}

#[test]
fn aip_059_a_device_may_say_why_it_gave_up() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "two");
    let message = with(with(done(&command), "status", json!("failed")), "error", json!("no such agent"));
    talk.say(dev, &message);
    assert_eq!(talk.short(boss), ["end s1 failed no such agent"]);
}

#[test]
fn more_results_than_commands_and_unknown_ones_are_ignored() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let message = results(
        &command,
        json!([
            { "status": "failure", "error": "unknown", "call_id": "c-unknown" },
            { "status": "success", "result": 1, "call_id": call(&command, 0) },
            { "status": "success", "result": 2, "call_id": call(&command, 0) },
            { "status": "success", "result": 3 },
        ]),
    );
    talk.say(dev, &message);
    let told = told(&talk.one(boss));
    assert_eq!(told.len(), 1);
    assert_eq!((text(&told[0], "status"), &told[0]["result"]), ("success".into(), &json!(1)));
}

#[test]
fn missing_results_are_failures() {
    for count in [0, 1] {
        let mut talk = Talk::new();
        talk.plan("three", vec![batch(&["a", "b", "c"]), finish()]);
        let (dev, boss) = talk.pair();
        let command = talk.command(boss, dev, "s1", "three");
        // The last of the three, if any.
        let given = [json!({ "status": "success", "result": 7, "call_id": call(&command, 2) })];
        talk.say(dev, &results(&command, given.iter().take(count).cloned().collect()));
        let told = told(&talk.one(boss));
        let missing = ("failure".to_owned(), json!("no result returned"));
        let all: Vec<_> = told.iter().map(|one| (text(one, "status"), one["error"].clone())).collect();
        let last = if count == 1 { ("success".to_owned(), Value::Null) } else { missing.clone() };
        assert_eq!(all, [missing.clone(), missing, last]);
    }
}

#[test]
fn results_without_ids_are_matched_by_their_place() {
    let mut talk = Talk::new();
    talk.plan("three", vec![batch(&["a", "b", "c"]), finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "three");
    let given = json!([
        { "status": "success", "result": "first" },
        { "status": "none", "error": "nothing to see", "namespace": "n" },
        { "status": "failure", "error": "third", "result": { "exit": 1 }, "call_id": null },
    ]);
    talk.say(dev, &results(&command, given));
    let told = told(&talk.one(boss));
    assert_eq!((text(&told[0], "status"), text(&told[0], "result")), ("success".into(), "first".into()));
    assert_eq!((text(&told[1], "status"), &told[1]["result"]), ("none".into(), &Value::Null));
    assert_eq!((text(&told[1], "error"), text(&told[1], "namespace")), ("nothing to see".into(), "n".into()));
    assert_eq!((text(&told[2], "status"), text(&told[2], "error")), ("failure".into(), "third".into()));
    assert_eq!(told[2]["result"], json!({ "exit": 1 }));
    assert_eq!(talk.short(dev).len(), 1);
    // Fewer of them have no place.
    let command = talk.command(boss, dev, "s2", "three");
    talk.say(dev, &results(&command, json!([{ "status": "success" }, { "status": "success" }])));
    let end = talk.heard(boss).remove(0);
    assert!(self::told(&end).iter().all(|one| one["error"] == "no result returned"), "{end}");
}

#[test]
fn results_with_ids_are_matched_by_them_in_any_order() {
    let mut talk = Talk::new();
    talk.plan("three", vec![batch(&["a", "b", "c"]), finish()]);
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "three");
    let one =
        |index: usize| json!({ "status": "success", "result": index, "call_id": call(&command, index) });
    talk.say(dev, &results(&command, json!([one(2), one(0), one(1)])));
    let told = told(&talk.one(boss));
    assert_eq!(told.iter().map(|one| one["result"].clone()).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn aip_072_late_results_are_dropped_and_the_device_stays_usable() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.world.cut(boss);
    assert_eq!(talk.short(dev).len(), 1);
    talk.obey(dev, &command);
    assert_eq!(talk.short(dev), nothing());
    let boss = talk.boss("boss", "dev");
    // The same session id again: the results of before are not for it.
    let next = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!((talk.short(dev), talk.short(boss)), (nothing(), nothing()));
    talk.obey(dev, &next);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    talk.obey(dev, &next);
    assert_eq!((talk.short(dev).len(), talk.short(boss)), (1, nothing()));
}

#[test]
fn results_that_could_not_be_stored_are_not_lost() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.world.fail_appends(2);
    talk.obey(dev, &command);
    talk.world.advance(5_000);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
}

#[test]
fn results_of_a_mebibyte_and_more_pass() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    let big = "x".repeat(4 << 20);
    talk.say(
        dev,
        &results(&command, json!([{ "status": "success", "result": big, "call_id": call(&command, 0) }])),
    );
    assert_eq!(told(&talk.one(boss))[0]["result"].as_str().unwrap().len(), 4 << 20);
    talk.say(boss, &task("dev", "s2", "one"));
    assert_eq!(talk.short(boss), ["ack s2"]);
}

#[test]
fn aip_016_a_failure_without_a_reason_stays_without_one() {
    let reported = |error: Option<&str>| {
        let outcome =
            json!({ "status": "failure", "error": error, "result": null, "namespace": null, "call_id": "c" });
        switchboard_aip::map::call_end(serde_json::from_value(outcome).unwrap())
    };
    let of = |end| match end {
        switchboard_core::model::CallEnd::Failed(error) => (error.message, error.detail),
        other => panic!("{other:?}"),
    };
    assert_eq!(of(reported(Some("disk full"))), ("disk full".into(), Value::Null));
    assert_eq!(of(reported(Some(""))), (String::new(), Value::Null));
    let (message, detail) = of(reported(None));
    assert_eq!(detail, json!({ "error": null }), "as the device said it");
    assert!(!message.is_empty(), "for whoever reads the log");
}
