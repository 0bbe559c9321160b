//! Registration (§6.1, §10.1): AIP-009, AIP-018 to AIP-027, A1, A3, A27.

use serde_json::{Value, json};
use switchboard_aip::AipLimits;
use switchboard_core::{Event, Frame, Principal, SessionId};

use crate::support::{Talk, beat, register, register_boss, socket, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn aip_009_whoever_does_not_register_in_time_is_closed_without_a_word() {
    let mut talk = Talk::new();
    let peer = talk.enter("ann");
    talk.world.advance(9_999);
    assert_eq!(talk.short(peer), nothing());
    // Signs of life on the transport do not help.
    talk.world.send(peer, Frame::Pong(Vec::new().into()));
    talk.world.advance(1);
    assert_eq!(talk.short(peer), ["close 1008"]);
    let dev = talk.device("dev");
    talk.world.advance(15_000);
    assert_eq!(talk.short(dev), nothing(), "whoever has registered stays");
}

#[test]
fn aip_018_the_first_message_is_a_registration_or_the_last() {
    for first in [
        beat().to_string(),
        json!({ "type": "heartbeat", "status": "ok", "client_id": "dev" }).to_string(),
        json!({ "type": "task", "status": "continue", "client_id": "dev", "request": "one" }).to_string(),
        task("dev", "s", "one").to_string(),
        json!({ "type": "command_results", "status": "ok" }).to_string(),
        "{".to_owned(),
        String::new(),
        "[]".to_owned(),
        json!({ "type": "register" }).to_string(),
        json!({ "type": "register", "status": "ok", "client_id": 5 }).to_string(),
        json!({ "type": "REGISTER", "status": "ok", "client_id": "dev" }).to_string(),
    ] {
        let mut talk = Talk::new();
        let peer = talk.enter("ann");
        talk.world.send(peer, Frame::Text(first.clone()));
        let told = talk.short(peer);
        assert_eq!(told.len(), 2, "{first}: {told:?}");
        assert!(told[0].starts_with("error "), "{first}: {told:?}");
        assert_eq!(told[1], "close 1008");
        assert_eq!(talk.online("ann"), nothing());
    }
    let mut talk = Talk::new();
    let peer = talk.enter("ann");
    talk.world.send_bytes(peer, b"{}");
    assert_eq!(talk.short(peer), ["error Binary messages are not supported", "close 1008"]);
}

#[test]
fn aip_018_a_first_message_of_more_than_a_mebibyte_is_refused() {
    let mut talk = Talk::new();
    let mut message = register("dev", json!({ "fill": "" }));
    let fill = (1 << 20) - message.to_string().len();
    message["metadata"]["fill"] = "x".repeat(fill).into();
    let peer = talk.enter("ann");
    talk.say(peer, &message);
    assert_eq!(talk.short(peer), ["ack"]);
    message["client_id"] = "dev2".into();
    let peer = talk.enter("ann");
    talk.say(peer, &message);
    assert_eq!(talk.short(peer).last().map(String::as_str), Some("close 1008"));
}

#[test]
fn aip_019_a_registration_needs_a_name() {
    for id in [Value::Null, json!("")] {
        let mut talk = Talk::new();
        let peer = talk.enter("ann");
        let message = json!({ "type": "register", "status": "ok", "client_id": id, "request_id": "r1" });
        talk.say(peer, &message);
        let seen = talk.seen(peer);
        assert_eq!(seen.len(), 2, "{seen:?}");
        let crate::support::Seen::Message(error) = &seen[0] else { panic!("{seen:?}") };
        assert_eq!(
            (text(error, "error"), text(error, "response_id")),
            ("client_id is required".into(), "r1".into())
        );
        assert_eq!(talk.online("ann"), nothing());
    }
}

#[test]
fn aip_019_a_name_has_256_characters_at_most() {
    let mut talk = Talk::new();
    let long = "ü".repeat(256);
    talk.device(&long);
    let peer = talk.enter("ann");
    talk.say(peer, &register(&format!("{long}x"), json!({})));
    assert_eq!(talk.short(peer), ["error client_id is longer than 256 characters", "close 1008"]);
    let peer = talk.enter("ann");
    talk.say(peer, &register_boss("boss", Some(&"t".repeat(257))));
    assert_eq!(talk.short(peer), ["error target_id is longer than 256 characters", "close 1008"]);
}

#[test]
fn aip_020_a_registration_is_confirmed_by_an_acknowledgement_of_its_own() {
    let mut talk = Talk::new();
    let mut ids = Vec::new();
    for id in ["dev-7", "windows_agent_001", "run42@dev-7", "über/../dev", " "] {
        let peer = talk.enter("ann");
        talk.say(peer, &register(id, json!({})));
        let ack = talk.one(peer);
        assert_eq!((text(&ack, "type"), text(&ack, "status")), ("heartbeat".into(), "ok".into()));
        assert!(ack["session_id"].is_null() && ack["error"].is_null(), "{ack}");
        assert!(ack["timestamp"].is_string());
        ids.push(text(&ack, "response_id"));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5, "each has an id of its own");
    let boss = talk.enter("ann");
    talk.say(boss, &register_boss("run1@dev-7", Some("dev-7")));
    assert_eq!(talk.short(boss), ["ack"]);
    assert_eq!(talk.online("ann").len(), 6);
}

#[test]
fn aip_020_the_confirmation_comes_first_whatever_else_is_going_on() {
    // The profile takes its time to be kept; meanwhile the device is known already.
    let settings = switchboard_testkit::Settings { commit_ms: 100, ..Default::default() };
    let mut talk = Talk::with(AipLimits::default(), Default::default(), settings);
    let dev = talk.enter("ann");
    talk.say(
        dev,
        &json!({
            "type": "register", "status": "ok", "client_id": "dev", "metadata": { "task_announce": true },
        }),
    );
    assert_eq!(talk.short(dev), nothing());
    let boss = talk.enter("ann");
    talk.say(boss, &register_boss("boss", Some("dev")));
    assert_eq!(talk.short(boss), ["ack"]);
    talk.say(boss, &json!({ "type": "device_info_request", "status": "ok", "client_type": "constellation" }));
    assert_eq!(
        talk.dispatch("ann", &json!({ "client_id": "dev", "request": "hi", "task_name": "d" })).0,
        200
    );
    talk.world.send_bytes(dev, b"early");
    talk.say(dev, &beat());
    assert_eq!(talk.short(dev), nothing(), "nothing before the confirmation");
    talk.say(boss, &task("dev", "s1", "one"));
    talk.world.advance(150);
    let mut told = talk.short(dev);
    assert_eq!(told.first().map(String::as_str), Some("ack"), "{told:?}");
    talk.world.advance(500);
    told.extend(talk.short(dev));
    let mut rest = told[1..].to_vec();
    rest.sort();
    assert_eq!(
        rest,
        [
            "ack",
            "command s1 look",
            "error Binary messages are not supported",
            "info?",
            "task d hi",
            "task t1 one"
        ]
    );
}

#[test]
fn aip_021_a_name_that_is_online_is_refused_and_its_holder_stays() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let taken = |id: &str| {
        let why = format!("client_id '{id}' is already registered; duplicate registrations are not allowed");
        [format!("error {why}"), "close 1008".to_owned()]
    };
    for (token, message, id) in [
        ("ann", register("dev", json!({})), "dev"),
        ("bob", register("dev", json!({})), "dev"),
        ("ann", register("boss", json!({})), "boss"),
        ("ann", register_boss("dev", Some("dev")), "dev"),
        ("ann", register_boss("boss", Some("dev")), "boss"),
    ] {
        let peer = talk.enter(token);
        talk.say(peer, &message);
        assert_eq!(talk.short(peer), taken(id), "{token} {message}");
    }
    let pings = |told: Vec<String>| told.iter().all(|line| line == "ping");
    assert!(pings(talk.short(dev)) && pings(talk.short(boss)), "asked for a sign of life at most");
    for peer in [dev, boss] {
        talk.world.send(peer, Frame::Pong(Vec::new().into()));
    }
    let command = talk.command(boss, dev, "s1", "one");
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    assert_eq!(talk.online("ann"), ["dev", "boss"]);
}

#[test]
fn aip_022_a_name_is_free_once_its_connection_is_gone() {
    let ways: [fn(&mut Talk, switchboard_testkit::PeerId); 3] = [
        |talk, peer| talk.world.cut(peer),
        |talk, peer| talk.world.close(peer, Some(1000)),
        |talk, peer| talk.world.evict(peer, switchboard_core::CloseReason::TooSlow),
    ];
    for lose in ways {
        let mut talk = Talk::new();
        let (dev, boss) = talk.pair();
        lose(&mut talk, dev);
        lose(&mut talk, boss);
        assert_eq!(talk.online("ann"), nothing());
        let (dev, boss) = (talk.device("dev"), talk.boss("boss", "dev"));
        let command = talk.command(boss, dev, "s1", "one");
        talk.obey(dev, &command);
        assert_eq!(talk.short(boss), ["end s1 completed"]);
    }
}

#[test]
fn aip_022_a_refused_registration_holds_no_name() {
    let mut talk = Talk::new();
    let peer = talk.enter("ann");
    talk.say(peer, &register_boss("boss", Some("dev")));
    assert_eq!(talk.short(peer).len(), 2);
    talk.device("boss");
    talk.device("dev");
    assert_eq!(talk.online("ann"), ["boss", "dev"]);
}

#[test]
fn aip_023_a_target_has_to_be_a_device_that_is_online() {
    let mut talk = Talk::new();
    let (_, _boss) = talk.pair();
    let _his = talk.device_of("bob", "his", json!({}));
    for target in ["nobody", "boss", "his", "second", "DEV"] {
        let peer = talk.enter("ann");
        talk.say(peer, &register_boss("second", Some(target)));
        let why = format!("error Target device '{target}' is not connected");
        assert_eq!(talk.short(peer), [why, "close 1008".to_owned()]);
    }
    assert_eq!(talk.online("ann"), ["dev", "boss"]);
}

#[test]
fn aip_024_a_constellation_names_its_target_unless_it_need_not() {
    for target in [None, Some("")] {
        let mut talk = Talk::new();
        talk.device("dev");
        let peer = talk.enter("ann");
        talk.say(peer, &register_boss("boss", target));
        let why = "error target_id is required for constellation clients";
        assert_eq!(talk.short(peer), [why, "close 1008"], "A1");
        let mut talk = Talk::untargeted();
        let dev = talk.device("dev");
        let boss = talk.boss_of("ann", "boss", target);
        let command = talk.command(boss, dev, "s1", "one");
        talk.obey(dev, &command);
        assert_eq!(talk.short(boss), ["end s1 completed"]);
    }
}

#[test]
fn aip_025_a_refused_registration_is_told_why_then_closed_with_1008() {
    let mut talk = Talk::new();
    talk.device("dev");
    for (token, message) in [
        ("ann", register("", json!({}))),
        ("ann", register("dev", json!({}))),
        ("ann", register_boss("boss", None)),
        ("ann", register_boss("boss", Some("nobody"))),
        ("cat", register("dog", json!({}))),
        ("ann", beat()),
    ] {
        let peer = talk.enter(token);
        talk.enqueue(peer, &message);
        talk.enqueue(peer, &beat());
        talk.world.settle();
        let told = talk.short(peer);
        assert_eq!(told.len(), 2, "nothing after the close: {told:?}");
        assert!(told[0].starts_with("error "), "{told:?}");
        assert_eq!(told[1], "close 1008", "A27");
        assert!(!talk.world.is_open(peer));
    }
}

#[test]
fn aip_026_a_second_registration_is_an_error_and_changes_nothing() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.device("other");
    talk.say(dev, &register("dev", json!({ "platform": "android", "task_announce": true })));
    talk.say(boss, &register_boss("boss", Some("other")));
    assert_eq!(talk.short(dev), ["error Unknown message type: register"]);
    assert_eq!(talk.short(boss), ["error Unknown message type: register"]);
    talk.say(dev, &register("third", json!({})));
    assert_eq!(talk.short(dev), ["error client_id does not match the registered connection"]);
    assert_eq!(talk.online("ann"), ["dev", "boss", "other"]);
    let command = talk.command(boss, dev, "s1", "one");
    assert_eq!(command["agent_name"], "LinuxAgent", "still the platform of the first");
}

#[test]
fn aip_027_the_profile_is_kept_with_platform_and_facts() {
    let mut talk = Talk::new();
    let info = json!({ "device_id": "dev", "platform": "linux", "cpu_count": 8 });
    let metadata = json!({ "platform": "linux", "registration_time": "now", "system_info": info });
    talk.device_of("ann", "dev", metadata);
    talk.device_of("ann", "plain", json!({}));
    let mute = talk.enter("ann");
    talk.say(mute, &json!({ "type": "register", "status": "ok", "client_id": "mute" }));
    let joined: Vec<_> = talk
        .world
        .history()
        .iter()
        .filter_map(|(session, committed)| match &committed.event {
            Event::DeviceJoined { device, principal } => {
                Some((session.clone(), principal.clone(), (**device).clone()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(joined.len(), 3);
    let (home, principal, device) = &joined[0];
    assert_eq!((principal.as_str(), device.callsign.as_str()), ("ann", "dev"));
    assert_eq!((device.protocol.as_str(), device.platform.as_str()), ("aip", "linux"));
    assert_eq!(device.facts, info);
    assert_eq!(device.profile, json!({ "platform": "linux", "registration_time": "now" }));
    assert_eq!((joined[1].2.platform.as_str(), joined[2].2.platform.as_str()), ("windows", "windows"));
    assert!(joined[2].2.profile.is_null() && joined[2].2.facts.is_null());
    let known = talk.world.session(home).unwrap().device(&"dev".into()).unwrap();
    assert!(known.left_at.is_none());
    assert_ne!(joined[0].0, joined[1].0, "each device has a home of its own");
}

#[test]
fn aip_027_the_log_knows_when_a_device_has_left_and_come_back() {
    let mut talk = Talk::new();
    let home = SessionId::named(&Principal::new("ann"), "\0aip\0dev");
    let dev = talk.device("dev");
    talk.world.cut(dev);
    assert!(talk.world.session(&home).unwrap().device(&"dev".into()).unwrap().left_at.is_some());
    talk.device_of("ann", "dev", json!({ "platform": "ios" }));
    let known = talk.world.session(&home).unwrap().device(&"dev".into()).unwrap();
    assert_eq!((known.left_at, known.device.platform.as_str()), (None, "ios"));
    assert_eq!(talk.events(&home), ["session_opened", "device_joined", "device_left", "device_joined"]);
}

#[test]
fn a_registration_that_cannot_be_kept_is_refused() {
    let mut talk = Talk::new();
    let dev = talk.enter("ann");
    talk.world.fail_appends(1);
    talk.say(dev, &register("dev", json!({})));
    assert_eq!(talk.short(dev), ["error internal error", "close 1008"]);
    talk.device("dev");
}

#[test]
fn what_comes_before_the_confirmation_waits_for_it_however_much_it_is() {
    let settings = switchboard_testkit::Settings { commit_ms: 1000, ..Default::default() };
    let mut talk = Talk::with(AipLimits::default(), Default::default(), settings);
    let dev = talk.enter("ann");
    talk.say(dev, &register("dev", json!({})));
    for _ in 0..500 {
        talk.say(dev, &beat());
    }
    talk.say(dev, &json!({ "type": "heartbeat", "status": "ok", "metadata": { "x": "x".repeat(1 << 20) } }));
    assert_eq!(talk.short(dev), nothing());
    talk.world.advance(3000);
    assert!(talk.world.is_open(dev));
    let told = talk.short(dev);
    assert_eq!(told.iter().filter(|line| *line == "ack").count(), 502, "{:?}", told.last());
}

#[test]
fn whoever_is_refused_too_often_has_to_wait() {
    let mut talk = Talk::new();
    for _ in 0..120 {
        let peer = talk.enter("ann");
        talk.say(peer, &beat());
    }
    let refusal = talk.world.knock(&talk.aip, &socket("ann")).unwrap_err();
    assert!(matches!(refusal, switchboard_core::Refusal::TooMany { retry_ms: 1.. }), "{refusal:?}");
    talk.device_of("bob", "his", json!({}));
    assert_eq!(talk.online("ann"), nothing(), "the endpoints are not shut");
    talk.world.advance(59_000);
    talk.world.knock(&talk.aip, &socket("ann")).unwrap_err();
    talk.world.advance(1_000);
    talk.device("dev");
}

#[test]
fn aip_095_only_what_is_malformed_or_not_permitted_counts_as_refused() {
    let limits = || AipLimits { refusals_per_minute: 2, ..AipLimits::default() };
    let mut talk = Talk::limited(limits());
    talk.device("dev");
    for _ in 0..20 {
        let peer = talk.enter("ann");
        talk.say(peer, &register("dev", json!({})));
        assert_eq!(talk.short(peer).len(), 2, "a name that is online");
        let peer = talk.enter("ann");
        talk.say(peer, &register_boss("boss", Some("away")));
        assert_eq!(talk.short(peer).len(), 2, "a device that is not");
        talk.enter("ann");
    }
    // Also those who said nothing.
    talk.world.advance(10_000);
    talk.device("another");
    for first in [register("", json!({})), beat(), register("not-a-cat", json!({}))] {
        let mut talk = Talk::limited(limits());
        for _ in 0..2 {
            let peer = talk.enter("cat");
            talk.say(peer, &first);
            assert_eq!(talk.short(peer).len(), 2, "{first}");
        }
        assert!(talk.world.knock(&talk.aip, &socket("cat")).is_err(), "{first}");
    }
}
