//! Device information (§6.5): AIP-065 to AIP-069, A5 to A7.

use serde_json::{Value, json};
use switchboard_aip::AipLimits;
use switchboard_core::{Event, Principal, SessionId};

use crate::support::{Talk, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

fn ask(target: Option<&str>, id: Option<&str>) -> Value {
    json!({
        "type": "device_info_request", "status": "ok", "client_type": "constellation", "target_id": target,
        "request_id": id,
    })
}

fn tell(facts: Value, answers: Option<&str>) -> Value {
    json!({
        "type": "device_info_response", "status": "ok", "metadata": facts, "prev_response_id": answers,
        "request_id": answers,
    })
}

fn info(count: u32) -> Value {
    json!({ "device_id": "dev", "platform": "linux", "cpu_count": count, "supported_features": ["gui"] })
}

fn known(talk: &Talk) -> Value {
    let home = SessionId::named(&Principal::new("ann"), "\0aip\0dev");
    talk.world.session(&home).unwrap().device(&"dev".into()).unwrap().device.facts.clone()
}

#[test]
fn aip_065_a_constellation_is_told_what_its_device_says_of_itself() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let id = "device_info_dev_1762425000.123456";
    talk.say(boss, &ask(Some("dev"), Some(id)));
    let question = talk.one(dev);
    assert_eq!(question["type"], "device_info_request");
    talk.say(dev, &tell(info(8), question["response_id"].as_str()));
    let answer = talk.one(boss);
    assert_eq!((text(&answer, "status"), text(&answer, "response_id")), ("ok".into(), id.into()));
    assert_eq!(answer["result"], info(8));
    assert!(answer["error"].is_null());
    assert_eq!(talk.short(dev), nothing(), "its answer is not answered");
}

#[test]
fn aip_065_without_an_id_the_answer_has_none() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.say(boss, &ask(None, None));
    let question = talk.one(dev);
    talk.say(dev, &tell(info(8), question["response_id"].as_str()));
    let answer = talk.one(boss);
    assert!(answer["response_id"].is_null(), "{answer}");
    assert_eq!(answer["result"], info(8), "the registered target is meant");
}

#[test]
fn aip_066_devices_may_not_ask_and_constellations_only_for_their_own() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let other = talk.device("other");
    let mut message = ask(Some("other"), Some("r1"));
    talk.say(boss, &message);
    let error = talk.one(boss);
    assert_eq!(text(&error, "error"), "Not authorized to request device info for this device");
    assert_eq!(text(&error, "response_id"), "r1");
    talk.say(boss, &ask(Some("nobody"), None));
    assert_eq!(talk.short(boss), ["error Not authorized to request device info for this device"]);
    message["client_type"] = "device".into();
    for target in [json!("other"), json!("dev"), Value::Null] {
        message["target_id"] = target;
        talk.say(dev, &message);
        assert_eq!(
            talk.short(dev),
            ["error DEVICE_INFO_REQUEST is permitted only for constellation clients"]
        );
    }
    assert_eq!(talk.short(other), nothing());
}

#[test]
fn aip_066_without_a_target_every_device_within_reach_may_be_asked_for() {
    let mut talk = Talk::untargeted();
    talk.device_of("ann", "dev", json!({ "system_info": info(4) }));
    let his = talk.device_of("bob", "his", json!({ "system_info": info(5) }));
    let boss = talk.boss_of("ann", "boss", None);
    talk.say(boss, &ask(Some("dev"), Some("r")));
    talk.world.advance(1_000);
    assert_eq!(talk.one(boss)["result"], info(4));
    for target in ["his", "nobody"] {
        talk.say(boss, &ask(Some(target), Some("r")));
        assert_eq!(
            talk.short(boss),
            [format!("info error Device {target} not found or no system info available")],
            "the same for what is not there and what is not theirs"
        );
    }
    assert_eq!(talk.short(his), nothing());
    talk.say(boss, &ask(None, Some("r")));
    assert!(talk.short(boss)[0].starts_with("error "), "whose?");
    talk.say(boss, &ask(Some("boss"), Some("r")));
    talk.world.advance(2_000);
    assert_eq!(talk.short(boss), ["info error Device boss not found or no system info available"]);
}

#[test]
fn aip_067_a_failure_is_told_in_both_ways() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let why = "Device dev not found or no system info available";
    talk.say(boss, &ask(Some("dev"), Some("r1")));
    talk.world.advance(1_000);
    let answer = talk.one(boss);
    assert_eq!((text(&answer, "status"), text(&answer, "error")), ("error".into(), why.into()), "A6");
    assert_eq!((&answer["result"], text(&answer, "response_id")), (&json!({ "error": why }), "r1".into()));
    talk.world.cut(dev);
    talk.say(boss, &ask(Some("dev"), Some("r2")));
    let answer = talk.one(boss);
    assert_eq!((text(&answer, "error"), text(&answer, "response_id")), (why.into(), "r2".into()));
}

#[test]
fn aip_068_fresh_facts_are_asked_for_and_kept() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "system_info": info(4) }));
    let boss = talk.boss("boss", "dev");
    for (count, by_request) in [(8, false), (16, true)] {
        talk.say(boss, &ask(Some("dev"), Some("r")));
        let question = talk.one(dev);
        let mut answer = tell(info(count), question["response_id"].as_str());
        // Either of the two ids is an answer.
        answer[if by_request { "prev_response_id" } else { "request_id" }] = Value::Null;
        talk.world.advance(900);
        talk.say(dev, &answer);
        assert_eq!(talk.one(boss)["result"], info(count));
        assert_eq!(known(&talk), info(count));
    }
}

#[test]
fn aip_068_what_is_known_is_told_after_a_second() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "system_info": info(4) }));
    let boss = talk.boss("boss", "dev");
    talk.say(boss, &ask(Some("dev"), Some("r1")));
    let question = talk.one(dev);
    talk.world.advance(999);
    assert_eq!(talk.short(boss), nothing());
    talk.world.advance(1);
    let answer = talk.one(boss);
    assert_eq!((&answer["result"], text(&answer, "status")), (&info(4), "ok".into()));
    talk.say(boss, &ask(Some("dev"), Some("r2")));
    assert_eq!(talk.one(boss)["result"], info(4), "a device that does not answer is not asked again");
    assert_eq!(talk.short(dev), nothing());
    // What it says late is still news.
    talk.say(dev, &tell(info(8), question["response_id"].as_str()));
    assert_eq!((talk.short(boss), talk.short(dev)), (nothing(), nothing()));
    talk.say(boss, &ask(Some("dev"), Some("r3")));
    assert_eq!(talk.one(boss)["result"], info(8));
    // On its next connection it is asked again.
    talk.world.cut(dev);
    let dev = talk.device("dev");
    talk.say(boss, &ask(Some("dev"), Some("r4")));
    assert_eq!(talk.short(dev), ["info?"]);
}

#[test]
fn aip_068_one_question_serves_everybody_who_asks() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let second = talk.boss("second", "dev");
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    for (peer, id) in [(boss, "r1"), (second, "r2"), (boss, "r3"), (cat, "r4")] {
        talk.say(peer, &ask(Some("dev"), Some(id)));
    }
    let question = talk.one(dev);
    talk.say(dev, &tell(info(8), question["response_id"].as_str()));
    let told: Vec<_> = talk.heard(boss).iter().map(|answer| text(answer, "response_id")).collect();
    assert_eq!(told, ["r1", "r3"]);
    for (peer, id) in [(second, "r2"), (cat, "r4")] {
        let answer = talk.one(peer);
        assert_eq!((text(&answer, "response_id"), &answer["result"]), (id.into(), &info(8)));
    }
    talk.world.advance(5_000);
    assert_eq!(talk.short(boss), nothing(), "one answer each");
}

#[test]
fn aip_068_a_device_that_cannot_tell_leaves_what_is_known() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "system_info": info(4) }));
    let boss = talk.boss("boss", "dev");
    talk.say(boss, &ask(Some("dev"), Some("r1")));
    let question = talk.one(dev);
    let mut answer = tell(info(9), question["response_id"].as_str());
    answer["status"] = "error".into();
    answer["error"] = "no telemetry".into();
    talk.say(dev, &answer);
    assert_eq!(talk.one(boss)["result"], info(4), "at once, without the wait");
    talk.say(boss, &ask(Some("dev"), Some("r2")));
    let question = talk.one(dev);
    talk.say(dev, &tell(Value::Null, question["response_id"].as_str()));
    assert_eq!(talk.one(boss)["result"], info(4));
    talk.world.cut(dev);
}

#[test]
fn aip_068_an_asker_is_answered_though_the_device_goes_away() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.say(boss, &ask(Some("dev"), Some("r1")));
    talk.world.cut(dev);
    talk.world.advance(2_000);
    let answer = talk.one(boss);
    assert_eq!((text(&answer, "status"), text(&answer, "response_id")), ("error".into(), "r1".into()));
    talk.world.cut(boss);
}

#[test]
fn aip_069_facts_that_nobody_asked_for_are_kept_in_silence() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.say(dev, &tell(info(2), None));
    talk.say(dev, &tell(info(3), Some("nothing we asked")));
    assert_eq!(talk.short(dev), nothing());
    assert_eq!(known(&talk), info(3));
    let mut wrong = tell(info(99), None);
    wrong["client_type"] = "constellation".into();
    talk.say(boss, &wrong);
    assert_eq!((talk.short(boss), known(&talk)), (nothing(), info(3)), "constellations have none");
    talk.say(dev, &tell(json!({}), None));
    talk.say(dev, &tell(Value::Null, None));
    assert_eq!(known(&talk), info(3), "nothing is no news");
    talk.say(dev, &tell(info(3), None));
    let reports = |talk: &Talk| {
        let history = talk.world.history().iter();
        history.filter(|(_, committed)| matches!(committed.event, Event::DeviceReported { .. })).count()
    };
    assert_eq!(reports(&talk), 2, "the same again is no news either");
    talk.say(boss, &ask(Some("dev"), Some("r")));
    talk.world.advance(1_000);
    assert_eq!(talk.one(boss)["result"], info(3));
}

#[test]
fn questions_are_bounded() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    for n in 0..64 {
        talk.say(boss, &ask(Some("dev"), Some(&format!("r{n}"))));
    }
    assert_eq!(talk.short(boss), nothing());
    talk.say(boss, &ask(Some("dev"), Some("more")));
    let error = talk.one(boss);
    assert_eq!((text(&error, "type"), text(&error, "response_id")), ("error".into(), "more".into()));
    assert!(!text(&error, "error").contains("session"), "{error}");
    talk.world.advance(1_000);
    assert_eq!((talk.short(boss).len(), talk.short(dev).len()), (64, 1));
    talk.say(boss, &ask(Some("dev"), Some("again")));
    assert_eq!(talk.short(boss).len(), 1);
}

/// How often a device's news were stored.
fn stored(talk: &Talk) -> usize {
    talk.count("device_reported")
}

#[test]
fn aip_098_what_is_no_news_is_not_stored_again() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "system_info": info(8) }));
    for _ in 0..20 {
        talk.say(dev, &tell(info(8), None));
    }
    assert_eq!(stored(&talk), 0, "it said so when it registered");
    talk.say(dev, &tell(info(9), None));
    talk.say(dev, &tell(info(9), None));
    assert_eq!((stored(&talk), known(&talk)), (1, info(9)));
    assert_eq!(talk.short(dev), nothing(), "AIP-069");
}

#[test]
fn aip_098_news_of_a_device_are_stored_so_often_and_the_latest_in_the_end() {
    let limits = AipLimits { facts_per_minute: 6, ..AipLimits::default() };
    let mut talk = Talk::limited(limits);
    let dev = talk.device("dev");
    for count in 0..500 {
        talk.say(dev, &tell(info(count), None));
    }
    assert_eq!((stored(&talk), known(&talk)), (6, info(5)));
    talk.world.advance(9_999);
    assert_eq!(stored(&talk), 6);
    talk.world.advance(1);
    assert_eq!((stored(&talk), known(&talk)), (7, info(499)), "the latest, and none in between");
    talk.world.advance(30_000);
    assert_eq!(stored(&talk), 7);
    assert_eq!(talk.short(dev), ["ping", "ping"]);
    // Whoever asks is told the latest, stored or not.
    let boss = talk.boss("boss", "dev");
    for count in 500..520 {
        talk.say(dev, &tell(info(count), None));
    }
    talk.say(boss, &ask(None, Some("q")));
    talk.world.advance(1_000);
    assert_eq!(talk.one(boss)["result"], info(519));
}

#[test]
fn aip_098_facts_beyond_the_limit_are_not_taken() {
    let limits = AipLimits { facts_bytes: 2_000, ..AipLimits::default() };
    let mut talk = Talk::limited(limits);
    let (dev, boss) = talk.pair();
    talk.say(dev, &tell(info(8), None));
    let large = json!({ "big": "x".repeat(2_000) });
    talk.say(dev, &tell(large.clone(), None));
    assert_eq!((stored(&talk), known(&talk)), (1, info(8)));
    // Not even if they answer a question: what is known is told then.
    talk.say(boss, &ask(None, Some("q")));
    let question = talk.one(dev);
    talk.say(dev, &tell(large, question["response_id"].as_str()));
    assert_eq!(talk.one(boss)["result"], info(8));
    assert_eq!((stored(&talk), talk.short(dev)), (1, nothing()));
}
