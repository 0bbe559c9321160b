//! Names of sessions and of devices: AIP-091 to AIP-093, AIP-097.

use serde_json::json;
use switchboard_core::{Principal, Reservation, SessionId};

use crate::support::{Talk, own_task, register, register_boss, task, text};

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn aip_097_the_sessions_that_keep_profiles_are_reached_under_no_name() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    talk.device("other");
    for device in ["dev", "other"] {
        let name = format!("\0aip\0{device}");
        let home = SessionId::named(&Principal::new("ann"), &name);
        let before = talk.events(&home);
        for session in [name.as_str(), home.as_str()] {
            let command = talk.command(boss, dev, session, "one");
            talk.obey(dev, &command);
            assert_eq!(talk.short(boss), [format!("end {session} completed")]);
            assert_eq!(talk.short(dev), [format!("end {session} completed")]);
        }
        assert_eq!(talk.events(&home), before, "nothing has happened there");
    }
}

#[test]
fn aip_097_a_session_id_that_looks_like_one_of_ours_is_a_name() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    for id in [
        format!("ses_{}", "a".repeat(26)),
        format!("ac_{}", "a".repeat(21)),
        format!("vs_{}", "A".repeat(26)),
        "\0".to_owned(),
        "\0aip\0".to_owned(),
        "\0\0aip\0dev".to_owned(),
    ] {
        // A second time too: the session is there by then.
        for _ in 0..2 {
            let command = talk.command(boss, dev, &id, "one");
            talk.obey(dev, &command);
            assert_eq!(talk.short(boss), [format!("end {id} completed")]);
            assert_eq!(talk.short(dev), [format!("end {id} completed")]);
        }
    }
    assert_eq!(talk.task_result("ann", "t1")["status"], "done");
}

#[test]
fn aip_091_two_principals_may_use_one_session_id_at_the_same_time() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    let his = talk.device_of("bob", "his", json!({}));
    talk.say(his, &own_task("nightly@t1", "hang"));
    assert_eq!(talk.short(his), ["ack nightly@t1"]);
    let command = talk.command(boss, dev, "nightly@t1", "one");
    // On the same device, the second is told apart by the real name of its session.
    talk.say(cat, &task("dev", "nightly@t1", "one"));
    assert_eq!(talk.short(cat), ["ack nightly@t1"]);
    let second = talk.one(dev);
    let real = SessionId::named(&Principal::new("cat"), "nightly@t1");
    assert_eq!(text(&second, "session_id"), real.as_str());
    talk.obey(dev, &second);
    assert_eq!(talk.short(cat), ["end nightly@t1 completed"]);
    assert_eq!(talk.short(dev), [format!("end {real} completed")]);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end nightly@t1 completed"]);
    assert_eq!(talk.short(dev), ["end nightly@t1 completed"]);
    assert_eq!(talk.short(his), nothing());
}

#[test]
fn aip_093_a_constellation_is_bound_to_the_device_that_it_registered_for() {
    let mut talk = Talk::new();
    let his = talk.device_of("bob", "dev", json!({}));
    let cat = talk.boss_of("cat", "cat@x", Some("dev"));
    let command = talk.command(cat, his, "s1", "one");
    talk.obey(his, &command);
    assert_eq!((talk.short(cat).len(), talk.short(his).len()), (1, 1));
    // The device of somebody else comes to have the name, which cat's credential reaches as well.
    talk.world.cut(his);
    talk.release("dev");
    let hers =
        talk.device_of("ann", "dev", json!({ "platform": "linux", "system_info": { "cpu_count": 1 } }));
    talk.say(cat, &task("dev", "s2", "one"));
    let gone = "Target device 'dev' is not connected";
    assert_eq!(talk.short(cat), [format!("error {gone}"), format!("end s2 failed {gone}")]);
    let ask = json!({
        "type": "device_info_request", "status": "ok", "client_type": "constellation", "request_id": "q",
    });
    talk.say(cat, &ask);
    let told = talk.one(cat);
    assert_eq!((text(&told, "status"), told["result"]["cpu_count"].is_null()), ("error".into(), true));
    assert_eq!(talk.short(hers), nothing(), "it hears of none of it");
    // Whoever registers anew means the device that is there now.
    let second = talk.boss_of("cat", "cat@y", Some("dev"));
    let command = talk.command(second, hers, "s3", "one");
    talk.obey(hers, &command);
    assert_eq!(talk.short(second), ["end s3 completed"]);
}

#[test]
fn aip_092_a_name_that_somebody_else_has_had_is_not_for_a_credential_that_names_none() {
    let mut talk = Talk::new();
    let dev = talk.device("dev");
    talk.world.cut(dev);
    let refused = ["error client_id is not permitted for this credential", "close 1008"];
    for message in [register("dev", json!({})), register_boss("dev", Some("his"))] {
        talk.device_of("bob", "his", json!({}));
        let peer = talk.enter("bob");
        talk.say(peer, &message);
        assert_eq!(talk.short(peer), refused, "as a device or not");
        talk.world.restart();
    }
    talk.device("dev");
    talk.world.restart();
    talk.release("dev");
    talk.device_of("bob", "dev", json!({}));
    talk.world.restart();
    let peer = talk.enter("ann");
    talk.say(peer, &register("dev", json!({})));
    assert_eq!(talk.short(peer), refused, "it is bob's now");
}

#[test]
fn aip_092_a_name_that_is_reserved_is_for_whoever_holds_a_scope_for_it() {
    let mut talk = Talk::new();
    talk.world.reserve(vec![Reservation { names: vec!["cat-*".into()], principal: "cat".into() }]);
    let refused = ["error client_id is not permitted for this credential", "close 1008"];
    for message in [register("cat-1", json!({})), register_boss("cat-1", Some("dev"))] {
        let peer = talk.enter("bob");
        talk.say(peer, &message);
        assert_eq!(talk.short(peer), refused, "though nobody has ever had it");
    }
    talk.device_of("cat", "cat-1", json!({}));
    talk.world.issue("cat-too", Principal::new("cat"));
    talk.device_of("cat-too", "cat-2", json!({}));
    talk.device_of("bob", "dog-1", json!({}));
}
