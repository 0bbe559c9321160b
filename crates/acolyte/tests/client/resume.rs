//! Chats that outlive their connection, with `task.resume`.

use serde_json::json;
use switchboard_acolyte::client::{Ending, Event, Input, Loss};
use switchboard_acolyte::message::TaskId;

use switchboard_core::{ClientMachine as _, Timestamp};

use crate::support::{RESUME, World, delta, reply};

fn cut(world: &mut World) {
    world.give(Input::Closed(None));
}

/// The next connection, on which one chat is attached; answers its id there.
fn back(world: &mut World, after: u64) -> String {
    world.open(RESUME);
    let attach = world.take("chat.attach");
    let payload = &attach["payload"];
    assert_eq!((&payload["taskId"], &payload["sessionId"]), (&"task_1".into(), &"sess_a".into()));
    assert_eq!(payload["after"].as_u64().unwrap_or(0), after, "{payload}");
    attach["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_offer_names_resume_and_the_version() {
    let mut world = World::new();
    world.give(Input::Opened);
    let offer = world.take("status.get");
    assert_eq!(offer["payload"]["protocol_version"], "1");
    let capabilities = offer["payload"]["capabilities"].as_str().unwrap();
    assert!(capabilities.split(", ").any(|word| word == "task.resume"), "{capabilities}");
}

#[test]
fn a_chat_goes_on_where_it_was_cut() {
    let mut world = World::up(RESUME);
    let (chat, first) = world.begin("count");
    world.placed(&first, &delta("1 "), 5);
    world.placed(&first, &delta("2 "), 6);
    // Two that belong together, and the second is lost on the way.
    world.stream(&first, &delta("3 "));
    cut(&mut world);
    assert!(!world.events.iter().any(|event| matches!(event, Event::Ended(..))));

    let second = back(&mut world, 6);
    assert_ne!(first, second);
    world.tell(&second, "chat.accepted", json!({"taskId": "task_1"}));
    assert_eq!(world.events.last(), Some(&Event::Resumed { lost: 0 }));
    world.tell(&second, "chat.started", json!({}));
    world.stream(&second, &json!({"type": "status", "state": {"kind": "running"}}));
    world.stream(&second, &delta("3 "));
    world.placed(&second, &delta("4 "), 7);
    cut(&mut world);

    let third = back(&mut world, 7);
    world.tell(&third, "chat.accepted", json!({"taskId": "task_1"}));
    world.placed(&second, &delta("from the past"), 8);
    world.placed(&third, &delta("5"), 8);
    world.tell(&third, "chat.done", reply("1 2 3 4 5", true));
    assert_eq!(world.text(), "1 2 3 4 5");
    assert!(matches!(world.events.last(), Some(Event::Ended(ended, Ending::Done(_))) if *ended == chat));
    let begun = world.events.iter().filter(|event| format!("{event:?}").contains("Started")).count();
    assert_eq!(begun, 0, "it began once, before all this");
}

#[test]
fn a_chat_that_the_server_has_lost_ends() {
    let mut world = World::up(RESUME);
    let (chat, _) = world.begin("hi");
    cut(&mut world);
    let wire = back(&mut world, 0);
    world.told();
    world.tell(&wire, "error", json!({"error": "No such task to attach to"}));
    let lost = Ending::Lost { loss: Loss::Gone, task: TaskId::parse("task_1") };
    assert_eq!(world.told(), [Event::Ended(chat, lost), Event::Resumed { lost: 1 }]);
}

#[test]
fn a_server_that_cannot_resume_any_more_has_lost_it() {
    let mut world = World::up(RESUME);
    let (chat, _) = world.begin("hi");
    cut(&mut world);
    world.told();
    world.open("");
    assert!(world.sent.is_empty());
    assert!(matches!(world.events[0], Event::Up { resuming: 1, .. }));
    let lost = Ending::Lost { loss: Loss::Gone, task: TaskId::parse("task_1") };
    assert_eq!(world.events[1..], [Event::Ended(chat, lost), Event::Resumed { lost: 1 }]);
}

#[test]
fn what_is_started_without_a_connection_waits_for_one() {
    let mut world = World::new();
    let first = world.client.start(crate::support::request("one")).unwrap();
    let second = world.client.start(crate::support::request("two")).unwrap();
    world.drain();
    world.abort(first);
    assert_eq!(world.told(), [Event::Ended(first, Ending::Aborted)], "nobody else knows of it");
    world.open(RESUME);
    let sent = world.take("chat.start");
    assert_eq!(sent["payload"]["request"]["message"], "two");
    world.client.give_up(Loss::Closed);
    world.drain();
    let lost = Ending::Lost { loss: Loss::Closed, task: None };
    assert_eq!(world.events.last(), Some(&Event::Ended(second, lost)));
}

#[test]
fn an_abort_waits_for_the_connection() {
    let mut world = World::up(RESUME);
    let (chat, _) = world.begin("hi");
    cut(&mut world);
    world.abort(chat);
    assert!(world.sent.is_empty());
    let wire = back(&mut world, 0);
    world.tell(&wire, "chat.accepted", json!({"taskId": "task_1"}));
    let abort = world.take("chat.abort");
    assert_eq!(abort["payload"]["requestId"], wire.as_str(), "the id that the server knows now");
    // And once more, if the answer is lost.
    cut(&mut world);
    let wire = back(&mut world, 0);
    world.tell(&wire, "chat.accepted", json!({"taskId": "task_1"}));
    assert_eq!(world.take("chat.abort")["payload"]["requestId"], wire.as_str());
}

#[test]
fn a_task_can_be_followed_from_elsewhere() {
    let mut world = World::up(RESUME);
    let attach =
        switchboard_acolyte::message::Attach { task: None, session: Some("sess_b".to_owned()), after: 3 };
    world.client.attach(attach.clone()).unwrap();
    world.drain();
    let sent = world.take("chat.attach");
    assert_eq!(sent["payload"], json!({"sessionId": "sess_b", "after": 3}));
    let wire = sent["id"].as_str().unwrap().to_owned();
    world.tell(&wire, "chat.accepted", json!({"taskId": "task_9"}));
    world.placed(&wire, &delta("old"), 3);
    world.placed(&wire, &delta("new"), 4);
    assert_eq!(world.text(), "new");
    let mut world = World::up("");
    assert!(world.client.attach(attach).is_err());
}

#[test]
fn whoever_leaves_stops_what_they_asked_for() {
    let mut world = World::up(RESUME);
    let (chat, wire) = world.begin("hi");
    world.client.handle_input(Input::Leave, Timestamp::default());
    world.drain();
    assert_eq!(world.take("chat.abort")["payload"]["requestId"], wire.as_str());
    assert_eq!(world.closed, Some(1000));
    assert!(world.told().contains(&Event::Ended(chat, Ending::Aborted)));
}
