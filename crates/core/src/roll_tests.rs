//! Who may enrol under which name, and who reaches whom.

use super::*;
use crate::scopes::Scopes;

fn enrolment(callsign: &str, role: Role, target: Option<&str>) -> Enrolment {
    Enrolment { callsign: callsign.into(), role, target: target.map(Callsign::from) }
}

fn roll() -> Roll<u32> {
    let mut roll = Roll::default();
    enter(&mut roll, "ann", enrolment("dev", Role::Device, None), 1);
    enter(&mut roll, "ann", enrolment("boss", Role::Orchestrator, Some("dev")), 2);
    roll
}

/// Enrols somebody under a name that nobody has had.
fn enter(roll: &mut Roll<u32>, who: &str, enrolment: Enrolment, place: u32) {
    let callsign = enrolment.callsign.clone();
    let granted = roll.enrol(enrolment, &Principal::new(who), place, Timestamp::default());
    assert_eq!(granted, Ok(Granted::IfUnclaimed));
    roll.confirm(&callsign, &place);
}

#[test]
fn a_name_is_taken_until_its_own_connection_leaves() {
    let mut roll = roll();
    let again = |roll: &mut Roll<u32>, who| {
        roll.enrol(enrolment("dev", Role::Device, None), &Principal::new(who), 9, Timestamp::default())
    };
    let refused = again(&mut roll, "ann").unwrap_err();
    assert_eq!((refused.reject, refused.contested), (Reject::Enrolled("dev".into()), Some(1)));
    assert_eq!(again(&mut roll, "bob").unwrap_err().contested, None, "a stranger contests nothing");
    assert!(roll.leave(&"dev".into(), &9).is_empty());
    assert!(again(&mut roll, "ann").is_err(), "it was not the stranger's to leave");
    roll.leave(&"dev".into(), &1);
    again(&mut roll, "bob").unwrap();
}

#[test]
fn targets_are_devices_within_reach() {
    let mut roll = roll();
    let mut enrol = |who: &Principal, name: &str, target: &str| {
        roll.enrol(enrolment(name, Role::Orchestrator, Some(target)), who, 9, Timestamp::default())
    };
    let bob = Principal::new("bob");
    let offline = |refused: RefusedEnrolment<u32>| refused.reject;
    assert_eq!(enrol(&bob, "b", "dev").map_err(offline), Err(Reject::Offline("dev".into())));
    assert_eq!(enrol(&bob, "b", "boss").map_err(offline), Err(Reject::Offline("boss".into())));
    let trusted = Principal { scopes: Scopes::parse("target:de*"), ..bob };
    assert_eq!(enrol(&trusted, "b", "dev").map_err(offline), Err(Reject::Forbidden), "under no name");
    let trusted = Principal { scopes: Scopes::parse("target:de* constellation:b"), ..trusted };
    assert_eq!(enrol(&trusted, "b", "dev"), Ok(Granted::Now));
    assert_eq!(
        enrol(&Principal::new("ann"), "c", "boss").map_err(offline),
        Err(Reject::Offline("boss".into())),
        "an orchestrator is no device"
    );
}

#[test]
fn sessions_are_told_once_each_and_again_after_parting() {
    let mut roll = roll();
    let (dev, one) = (Callsign::from("dev"), SessionId::from("one"));
    let at = |seq| Position { epoch: 7, seq };
    assert_eq!(roll.invite(&dev, &one, at(3)), Invitation::Deliver(1));
    assert_eq!(roll.invite(&dev, &one, at(5)), Invitation::Known);
    assert!(roll.is_noted(&dev, &one));
    assert_eq!(roll.part(&dev, &one, 4), Some(at(4)), "the event at 5 has not been seen");
    assert_eq!(roll.part(&dev, &one, 5), None);
    assert!(!roll.is_noted(&dev, &one));
    assert_eq!(roll.invite(&dev, &one, at(8)), Invitation::Deliver(1));
    assert_eq!(roll.invite(&"boss".into(), &one, at(8)), Invitation::Offline);
    assert_eq!(roll.invite(&"nobody".into(), &one, at(8)), Invitation::Offline);
    assert_eq!(roll.leave(&dev, &1), [one]);
}

#[test]
fn whoever_is_asked_may_answer_and_strangers_see_nobody() {
    let mut roll = roll();
    let (ann, bob) = (Principal::new("ann"), Principal::new("bob"));
    enter(&mut roll, "bob", enrolment("his", Role::Device, None), 3);
    let names = |list: Vec<Enrolled>| list.iter().map(|e| e.callsign.to_string()).collect::<Vec<_>>();
    assert_eq!(names(roll.list(&ann)), ["dev", "boss"]);
    assert_eq!(names(roll.list(&bob)), ["his"]);
    assert_eq!(roll.find(&bob, Some(&"his".into()), &"boss".into()), None);
    assert_eq!(roll.find(&ann, Some(&"dev".into()), &"boss".into()), Some(2), "its own orchestrator");
    assert_eq!(
        roll.find(&bob, Some(&"dev".into()), &"boss".into()),
        None,
        "AIP-093: another device of that name"
    );
    assert_eq!(roll.find(&ann, None, &"dev".into()), Some(1));
    assert_eq!(roll.find(&bob, None, &"dev".into()), None);
}

#[test]
fn aip_092_names_are_for_those_for_whom_they_are_reserved() {
    let mut roll = Roll::default();
    let reserved = |names: &[&str], who: &str| Reservation {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        principal: who.into(),
    };
    roll.reserve(vec![reserved(&["pi-*", "desk"], "ann"), reserved(&["pi-7"], "carol")]);
    let mut ask = |who: &str, scopes: &str, name: &str, role: Role| {
        // Without a list it has every ordinary scope.
        let scopes = if scopes.is_empty() { Scopes::default() } else { Scopes::parse(scopes) };
        let principal = Principal { scopes, ..Principal::new(who) };
        let granted = roll.enrol(enrolment(name, role, None), &principal, 1, Timestamp::default());
        roll.leave(&name.into(), &1);
        granted.map_err(|refused| refused.reject)
    };
    for role in [Role::Device, Role::Orchestrator] {
        assert_eq!(ask("bob", "", "pi-1", role), Err(Reject::Forbidden));
        assert_eq!(ask("bob", "connect invoke", "desk", role), Err(Reject::Forbidden));
        assert_eq!(ask("bob", "", "desk-2", role), Ok(Granted::IfUnclaimed));
        assert_eq!(ask("ann", "", "pi-1", role), Ok(Granted::Now), "another credential of hers");
        assert_eq!(ask("carol", "", "pi-7", role), Ok(Granted::Now), "one of several");
        assert_eq!(ask("carol", "", "pi-8", role), Err(Reject::Forbidden));
    }
    assert_eq!(ask("dan", "device:pi-*", "pi-1", Role::Device), Ok(Granted::Now), "shown a moment ago");
    assert_eq!(ask("dan", "device:pi-*", "pi-1", Role::Orchestrator), Err(Reject::Forbidden));
    assert_eq!(ask("dan", "target:pi-*", "pi-1", Role::Device), Err(Reject::Forbidden));
    assert_eq!(
        ask("ops", "constellation:*", "pi-boss", Role::Orchestrator),
        Ok(Granted::Now),
        "said outright"
    );
}

#[test]
fn aip_092_nobody_is_reached_under_a_name_before_its_history_is_known() {
    let mut roll: Roll<u32> = Roll::default();
    let (ann, dev) = (Principal::new("ann"), Callsign::from("dev"));
    let ask = |roll: &mut Roll<u32>, who: &str, place| {
        roll.enrol(enrolment("dev", Role::Device, None), &Principal::new(who), place, Timestamp::default())
    };
    assert_eq!(ask(&mut roll, "ann", 1), Ok(Granted::IfUnclaimed));
    assert!(!roll.reaches(&ann, None, &dev) && roll.list(&ann).is_empty());
    assert_eq!(roll.find(&ann, None, &dev), None);
    assert_eq!(roll.invite(&dev, &"s".into(), Position::default()), Invitation::Offline);
    assert_eq!(ask(&mut roll, "bob", 2).unwrap_err().reject, Reject::Enrolled(dev.clone()), "it is held");
    roll.confirm(&dev, &2);
    assert!(!roll.reaches(&ann, None, &dev), "not by another connection");
    roll.confirm(&dev, &1);
    assert!(roll.reaches(&ann, None, &dev));
}

#[test]
fn aip_093_a_target_is_the_device_that_had_the_name_then() {
    let mut roll = Roll::default();
    enter(&mut roll, "ann", enrolment("dev", Role::Device, None), 1);
    let ops = Principal { scopes: Scopes::parse("constellation:boss* target:dev"), ..Principal::new("ops") };
    let (boss, dev) = (Callsign::from("boss"), Callsign::from("dev"));
    let enrolled =
        roll.enrol(enrolment("boss", Role::Orchestrator, Some("dev")), &ops, 2, Timestamp::default());
    assert_eq!(enrolled, Ok(Granted::Now));
    let reached = |roll: &Roll<u32>| {
        (roll.reaches(&ops, Some(&boss), &dev), roll.find(&ops, Some(&boss), &dev).is_some())
    };
    assert_eq!(reached(&roll), (true, true));
    roll.leave(&dev, &1);
    enter(&mut roll, "ann", enrolment("dev", Role::Device, None), 3);
    assert_eq!(reached(&roll), (true, true), "the same owner");
    roll.leave(&dev, &3);
    enter(&mut roll, "bob", enrolment("dev", Role::Device, None), 4);
    assert_eq!(reached(&roll), (false, false));
    assert_eq!(roll.find(&Principal::new("bob"), Some(&dev), &boss), None, "nor can it answer");
    assert!(roll.reaches(&ops, None, &dev), "whoever was not enrolled for it means the one that is there");
}
