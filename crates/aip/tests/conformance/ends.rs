//! How tasks end (§6.2): AIP-053 to AIP-056, A30.

use serde_json::{Value, json};
use switchboard_aip::AipLimits;
use switchboard_core::model::{FailureKind, Finish};
use switchboard_testkit::Step;

use crate::support::{Talk, batch, own_task, stop, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn aip_053_owner_and_executor_are_told_the_same_end_once_each() {
    for seed in 0..20 {
        let mut talk = Talk::seeded(seed);
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        for (session, request) in [("s1", "one"), ("s2", "raise"), ("s3", "hello"), ("s4", "panic")] {
            talk.say(boss, &task("dev", session, request));
            if request == "one" {
                let command = talk.one(dev);
                talk.obey(dev, &command);
            }
            let (mut owner, executor) = (talk.heard(boss), talk.heard(dev));
            assert_eq!((owner.len(), executor.len()), (2, 1), "{request}: {owner:?} {executor:?}");
            assert_eq!(owner.remove(1), executor[0], "{seed}: the same to the letter, its id included");
            assert_eq!(executor[0]["session_id"], session);
        }
        talk.world.advance(10_000);
        assert_eq!((talk.short(boss), talk.short(dev)), (nothing(), nothing()), "nothing after the end");
    }
}

#[test]
fn aip_053_an_executor_that_reads_late_is_told_the_same_end_as_its_owner() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair_that_is_stalled();
    talk.say(boss, &task("dev", "s1", "big"));
    talk.say(boss, &stop("constellation", "s1", "failed", Some("enough")));
    let owner = talk.heard(boss).pop().unwrap();
    talk.world.advance(5_000);
    talk.world.unstall(dev);
    let executor = talk.heard(dev).pop().unwrap();
    assert_eq!(text(&executor, "type"), "task_end");
    assert_eq!(executor, owner, "to the letter, its time included");
}

#[test]
fn aip_054_whoever_works_for_itself_is_told_once() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    for (request, end) in [("one", "completed"), ("raise", "failed no plan"), ("hello", "completed")] {
        talk.say(dev, &own_task("s1", request));
        let mut told = talk.heard(dev);
        if request == "one" {
            assert_eq!(text(&told[1], "type"), "command");
            let command = told.remove(1);
            talk.obey(dev, &command);
            told.extend(talk.heard(dev));
        }
        let told: Vec<String> = told.iter().map(crate::support::short).collect();
        assert_eq!(told, ["ack s1".to_owned(), format!("end s1 {end}")]);
    }
}

#[test]
fn aip_055_an_end_is_completed_or_failed_and_says_what_came_of_it() {
    let mut talk = Talk::new();
    talk.world.set_default_agent(
        "planner",
        switchboard_testkit::Script::new()
            .on(
                "text",
                vec![Step::Text("it is ".into()), Step::Reason("hm".into()), Step::Text("done".into())],
            )
            .on("length", vec![Step::Text("cut".into()), Step::End(Finish::Length)])
            .on("filtered", vec![Step::End(Finish::Filtered)])
            .on("empty", vec![Step::End(Finish::Empty)])
            .on(
                "value",
                vec![Step::EndWith {
                    finish: Finish::Complete,
                    output: Some(json!({ "path": "x" })),
                    usage: None,
                    cpu_ms: None,
                }],
            )
            .on(
                "null",
                vec![Step::EndWith {
                    finish: Finish::Complete,
                    output: Some(Value::Null),
                    usage: None,
                    cpu_ms: None,
                }],
            )
            .on(
                "both",
                vec![batch(&["look"]), Step::EndWithResults { result: None, error: Some("gave up".into()) }],
            ),
    );
    let (dev, boss) = talk.pair();
    for (request, status, result) in [
        ("text", "completed", json!([{ "request": "text", "result": "it is done" }])),
        ("length", "completed", json!([{ "request": "length", "result": "cut" }])),
        ("filtered", "completed", json!([{ "request": "filtered", "result": "" }])),
        ("empty", "completed", json!([{ "request": "empty", "result": "" }])),
        ("value", "completed", json!({ "path": "x" })),
        ("null", "completed", Value::Null),
    ] {
        talk.say(boss, &task("dev", "s1", request));
        let end = talk.heard(boss).pop().unwrap();
        assert_eq!((text(&end, "status").as_str(), &end["result"]), (status, &result), "{request}");
        assert_eq!(talk.one(dev), end);
    }
    let command = talk.command(boss, dev, "s1", "both");
    talk.obey(dev, &command);
    let end = talk.one(boss);
    assert_eq!((text(&end, "status"), text(&end, "error")), ("failed".into(), "gave up".into()));
    assert_eq!(end["result"]["turns"][0][0]["status"], "success", "a failure may have a result");
}

#[test]
fn aip_056_the_failure_of_a_planner_is_told_in_its_words() {
    let mut talk = Talk::new();
    let raise = |message: &str| Step::Fail { kind: FailureKind::ModelUnavailable, message: message.into() };
    talk.plan("model", vec![Step::Text("half".into()), raise("no model: Überlast")]);
    let (dev, boss) = talk.pair();
    for (request, error) in
        [("raise", "no plan"), ("panic", "the agent crashed"), ("model", "no model: Überlast")]
    {
        talk.say(boss, &task("dev", "s1", request));
        let end = talk.heard(boss).pop().unwrap();
        assert_eq!((text(&end, "status"), text(&end, "error")), ("failed".into(), error.into()));
        assert!(end["result"].is_null());
        assert_eq!(talk.one(dev), end);
    }
    talk.say(boss, &task("dev", "s1", "hello"));
    assert_eq!(talk.short(boss), ["ack s1", "end s1 completed"], "the server goes on");
}

#[test]
fn a_task_that_takes_too_long_fails() {
    let mut talk = Talk::limited(AipLimits { task_s: 100, silence_s: 1_000, ..AipLimits::default() });
    talk.plan("long", vec![batch(&["look"]), Step::Hang]);
    let (dev, boss) = talk.pair();
    let _command = talk.command(boss, dev, "s1", "long");
    talk.world.advance(99_999);
    let ends = |told: Vec<String>| told.into_iter().filter(|line| line != "ping").collect::<Vec<_>>();
    assert_eq!(ends(talk.short(boss)), nothing());
    talk.world.advance(1);
    assert_eq!(ends(talk.short(boss)), ["end s1 failed the task was not done in time"]);
    assert_eq!(ends(talk.short(dev)), ["end s1 failed the task was not done in time"]);
}

#[test]
fn what_a_planner_says_is_cut_where_it_is_too_long() {
    let mut talk = Talk::new();
    let fail = Step::Fail { kind: FailureKind::Execution, message: "ü".repeat(5_000) };
    talk.plan("long", vec![fail]);
    let (dev, boss) = talk.pair();
    talk.say(boss, &task("dev", "s1", "long"));
    let end = talk.heard(boss).pop().unwrap();
    assert_eq!(text(&end, "error").chars().count(), 1024, "AIP-078");
    assert_eq!(talk.one(dev), end);
}
