//! Questions, refusals, queues and silence.

use serde_json::json;
use switchboard_acolyte::TaskState;
use switchboard_acolyte::client::{
    Answer, CallError, Cause, ChatEvent, CommandError, Ending, Event, Fault, Input,
};
use switchboard_acolyte::message::TaskId;
use switchboard_core::Timestamp;
use switchboard_core::client::Down;

use crate::support::{World, delta, down, request, status};

#[test]
fn answers_find_their_questions() {
    let mut world = World::up("");
    let one = world.client.status(Timestamp::default()).unwrap();
    let two = world
        .client
        .task_status(TaskId::parse("task_1").unwrap(), Some("sess_a".into()), Timestamp::default())
        .unwrap();
    world.drain();
    assert_eq!(world.sent[0]["type"], "status.get");
    assert_eq!(world.sent[1]["payload"], json!({"taskId": "task_1", "sessionId": "sess_a"}));
    let task = json!({"id": "task_1", "state": "cancelled", "createdAt": "a", "updatedAt": "b"});
    world.tell(two.as_str(), "task.status.result", json!({"task": task}));
    world.tell(one.as_str(), "status.result", json!({"status": status("")}));
    let told = world.told();
    match told.as_slice() {
        [
            Event::Answer(first, Ok(Answer::Task(Some(task)))),
            Event::Answer(second, Ok(Answer::Status(_))),
        ] => {
            assert_eq!((first, second, task.state), (&two, &one, TaskState::Cancelled));
        }
        other => panic!("{other:?}"),
    }
    world.tell(one.as_str(), "status.result", json!({"status": status("")}));
    assert_eq!(world.told(), [], "answered already");
}

#[test]
fn questions_without_an_answer_fail() {
    let mut world = World::up("");
    let ask = |world: &mut World| {
        let id = world.client.status(world.at()).unwrap();
        world.drain();
        id
    };
    let id = ask(&mut world);
    world.tell(id.as_str(), "error", json!({"error": "no"}));
    assert_eq!(world.told(), [Event::Answer(id, Err(CallError::Refused("no".into())))]);
    let id = ask(&mut world);
    world.tell(id.as_str(), "status.outcome", json!({}));
    assert_eq!(world.told(), [Event::Answer(id, Err(CallError::Unusable))]);
    let id = ask(&mut world);
    world.pass(9_999);
    assert_eq!(world.told(), []);
    world.pass(1);
    assert_eq!(world.told(), [Event::Answer(id, Err(CallError::Timeout))]);
    let id = ask(&mut world);
    world.give(Input::Closed(None));
    assert_eq!(world.told(), [Event::Answer(id, Err(CallError::Disconnected)), down(Cause::Closed(1006))]);
    assert_eq!(world.client.status(Timestamp::default()), Err(CommandError::NotConnected));
}

#[test]
fn a_refused_chat_ends_and_a_running_one_is_left_alone() {
    let mut world = World::up("");
    let (chat, wire) = world.start("hi");
    world.tell(&wire, "error", json!({"error": "RPC queue is full"}));
    assert_eq!(world.told(), [Event::Ended(chat, Ending::Refused("RPC queue is full".into()))]);
    let (_, wire) = world.begin("hi");
    world.tell(&wire, "error", json!({"error": "Chat request already running for id"}));
    world.tell("rpc_unknown", "error", json!({"error": "Invalid RPC message"}));
    assert_eq!(world.told(), []);
    world.stream(&wire, &delta("on"));
    assert_eq!(world.text(), "on");
}

#[test]
fn places_in_the_queue_are_told_when_they_change() {
    let mut world = World::up("");
    let (chat, wire) = world.start("hi");
    world.tell(&wire, "chat.accepted", json!({"taskId": "task_1"}));
    for position in [2, 2, 1, 1] {
        world.tell(&wire, "chat.queued", json!({"position": position}));
    }
    world.tell(&wire, "chat.started", json!({}));
    let told = |event| Event::Chat(chat, event);
    assert_eq!(
        world.told(),
        [
            told(ChatEvent::Accepted(TaskId::parse("task_1").unwrap())),
            told(ChatEvent::Queued(2)),
            told(ChatEvent::Queued(1)),
            told(ChatEvent::Started),
        ]
    );
}

#[test]
fn blanks_before_the_first_word_are_left_out() {
    let mut world = World::up("");
    let (_, wire) = world.begin("hi");
    for text in ["\n", " \n one", "\n", " two"] {
        world.stream(&wire, &delta(text));
    }
    assert_eq!(world.text(), "one\n two");
}

#[test]
fn another_version_is_the_end() {
    let mut world = World::new();
    world.give(Input::Opened);
    let offer = world.take("status.get");
    let mut status = status("");
    status["protocol_version"] = "2".into();
    world.tell(offer["id"].as_str().unwrap(), "status.result", json!({"status": status}));
    assert_eq!(world.closed, Some(1000));
    assert_eq!(world.told(), [down(Fault::Version { theirs: "2".into(), ours: "1" })]);

    let mut world = World::new();
    world.give(Input::Opened);
    let offer = world.take("status.get");
    world.tell(offer["id"].as_str().unwrap(), "error", json!({"error": "Unsupported protocol version"}));
    match world.told().as_slice() {
        [Event::Down(Down { cause: Cause::Protocol(Fault::Refused(_)), .. })] => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn silence_is_tried_with_a_ping_and_then_is_the_end() {
    let mut world = World::up("");
    world.pass(30_000);
    assert_eq!(world.pings, 1);
    world.give(Input::Alive);
    world.pass(30_000);
    assert_eq!((world.pings, world.closed), (2, None));
    world.pass(45_000);
    assert_eq!((world.told(), world.closed), (vec![down(Cause::Silent)], Some(1001)));
    // A transport that lives does not help a chat of which nothing is heard.
    let mut world = World::up("");
    world.begin("hi");
    for _ in 0..9 {
        world.pass(20_000);
        world.give(Input::Alive);
    }
    assert_eq!(world.closed, Some(1001));
    // An offer that nobody answers.
    let mut world = World::new();
    world.give(Input::Opened);
    world.pass(10_000);
    assert_eq!(world.told(), [down(Cause::Silent)]);
}

#[test]
fn requests_that_no_server_takes_are_not_sent() {
    let mut world = World::up("");
    let mut long = request(&"x".repeat(100_001));
    assert_eq!(world.client.start(long.clone()), Err(CommandError::Unfit));
    long.message = "x".repeat(100_000);
    assert!(world.client.start(long).is_ok());
    let mut odd = request("hi");
    odd.session_id = Some("sess_A-b".into());
    assert_eq!(world.client.start(odd), Err(CommandError::Unfit));
    while world.client.start(request("hi")).is_ok() {}
    assert_eq!(world.client.start(request("hi")), Err(CommandError::Full { limit: 256 }));
}

#[test]
fn an_abort_that_is_refused_can_be_asked_for_again() {
    let mut world = World::up("");
    let (chat, _) = world.begin("hi");
    world.abort(chat);
    let abort = world.take("chat.abort");
    world.tell(abort["id"].as_str().unwrap(), "error", json!({"error": "not now"}));
    assert_eq!(world.told(), [Event::NotAborted(chat, "not now".into())]);
    world.abort(chat);
    world.take("chat.abort");
}
