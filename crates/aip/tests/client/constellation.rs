//! A constellation against a scripted server: AIP-042 and AIP-084.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_aip::client::{
    Cause, CommandError, Constellation, ConstellationConfig, ConstellationEvent, DeviceState, Ending,
    FailureKind, Input, NewTask, NoInfo, Output, Strategy, Trouble,
};

use switchboard_core::client::Down;

use crate::support::{World, object};

fn config() -> ConstellationConfig {
    let mut config = ConstellationConfig::new("c", "d");
    config.times.reconnect = Strategy { jitter: 0.0, ..Strategy::default() };
    config
}

/// Connected, and past its first question.
fn ready() -> World<Constellation> {
    World::constellation(ConstellationConfig { ask_info: false, ..config() }).up()
}

fn state(state: DeviceState) -> ConstellationEvent {
    ConstellationEvent::State(state)
}

fn failed(session: &str, kind: FailureKind, error: &str) -> ConstellationEvent {
    let ending = Ending::Failed { kind, error: error.to_owned(), result: Value::Null };
    ConstellationEvent::TaskEnded { session_id: session.to_owned(), ending }
}

const LOST: &str = "the connection to the server was lost";

impl World<Constellation> {
    fn submit(&mut self, session: &str) {
        let task = NewTask {
            task_name: Some("galaxy/x".to_owned()),
            session_id: Some(session.to_owned()),
            ..NewTask::new("do it")
        };
        assert_eq!(self.client.submit(task, self.now), Ok(session.to_owned()));
        self.drain();
    }

    fn end(&mut self, session: &str, status: &str) {
        self.hear(json!({"type": "task_end", "status": status, "session_id": session, "result": [1]}));
    }
}

#[test]
fn it_registers_asks_about_the_device_and_is_ready() {
    let mut world =
        World::constellation(ConstellationConfig { metadata: object(json!({"version": "2.0"})), ..config() });
    world.give(Input::Connect);
    world.open();
    let sent = world.take_sent();
    assert_eq!(
        (
            &sent[0]["client_type"],
            &sent[0]["client_id"],
            &sent[0]["target_id"],
            &sent[0]["metadata"]["version"]
        ),
        (&json!("constellation"), &json!("c"), &json!("d"), &json!("2.0"))
    );
    assert_eq!((&sent[1]["type"], &sent[1]["target_id"]), (&json!("device_info_request"), &json!("d")));
    let question = sent[1]["request_id"].as_str().unwrap().to_owned();
    let steps = [DeviceState::Connecting, DeviceState::Registering, DeviceState::Connected];
    assert_eq!(world.take_events(), steps.map(state));
    // Tasks wait for the answer.
    world.submit("s");
    assert!(world.sent().is_empty());
    world.hear(
        json!({"type": "device_info_response", "status": "ok", "response_id": "another", "result": {}}),
    );
    assert_eq!(world.take_events(), []);
    world.hear(json!({"type": "device_info_response", "status": "ok", "response_id": question, "result": {"cpu_count": 8}}));
    let info = ConstellationEvent::Info { request_id: question, info: Ok(object(json!({"cpu_count": 8}))) };
    assert_eq!(world.take_events(), [info, state(DeviceState::Idle), state(DeviceState::Busy)]);
    assert_eq!(world.take_sent()[0]["type"], "task");
    let words = [DeviceState::Disconnected, DeviceState::Failed, DeviceState::Busy, DeviceState::Idle]
        .map(DeviceState::as_str);
    assert_eq!(words, ["disconnected", "failed", "busy", "idle"]);
}

#[test]
fn info_that_does_not_come_is_not_waited_for_and_errors_are_no_info() {
    let mut world = World::constellation(config()).up();
    assert_eq!(world.client.state(), DeviceState::Connected);
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(10))));
    world.sleep();
    let events = world.take_events();
    assert!(matches!(&events[0], ConstellationEvent::Info { info: Err(NoInfo::Timeout), .. }));
    assert_eq!(events[1..], [state(DeviceState::Idle)]);
    for (answer, why) in [
        (
            json!({"type": "device_info_response", "status": "ok", "result": {"error": "not found"}}),
            "not found",
        ),
        (
            json!({"type": "device_info_response", "status": "error", "error": "gone", "result": {"a": 1}}),
            "gone",
        ),
        (json!({"type": "device_info_response", "status": "ok"}), "the answer is not an object"),
        (json!({"type": "error", "status": "error", "error": "not yours"}), "not yours"),
    ] {
        let question = world.client.request_info(world.now).unwrap();
        world.drain();
        let mut answer = answer;
        answer["response_id"] = question.clone().into();
        world.hear(answer.clone());
        let info = Err(NoInfo::Unknown(why.to_owned()));
        assert_eq!(world.take_events(), [ConstellationEvent::Info { request_id: question, info }]);
        // Once is enough.
        world.hear(answer);
        assert!(world.take_events().iter().all(|event| matches!(event, ConstellationEvent::Trouble(_))));
    }
    assert_eq!(world.client.state(), DeviceState::Idle);
}

#[test]
fn tasks_run_one_after_another_in_their_order() {
    let mut world = ready();
    for session in ["1", "2", "3"] {
        world.submit(session);
    }
    let sent = world.take_sent();
    let [task] = &sent[..] else { panic!("{sent:?}") };
    let mut task = task.clone();
    assert!(task["request_id"].take().is_string() && task["timestamp"].take().is_string());
    task.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(
        task,
        json!({"type": "task", "status": "continue", "client_type": "constellation", "session_id": "1",
            "task_name": "galaxy/x", "client_id": "c", "target_id": "d", "request": "do it"})
    );
    assert_eq!(world.take_events(), [state(DeviceState::Busy)]);
    world.hear(json!({"type": "heartbeat", "status": "ok", "session_id": "other"}));
    world.hear(json!({"type": "heartbeat", "status": "ok", "session_id": "1"}));
    world.hear(json!({"type": "heartbeat", "status": "ok", "session_id": "1"}));
    assert_eq!(world.take_events(), [ConstellationEvent::TaskAccepted { session_id: "1".to_owned() }]);
    world.end("2", "completed");
    assert_eq!(world.take_events(), [], "it has not begun");
    world.end("1", "completed");
    let done =
        ConstellationEvent::TaskEnded { session_id: "1".to_owned(), ending: Ending::Completed(json!([1])) };
    assert_eq!(world.take_events(), [done, state(DeviceState::Idle), state(DeviceState::Busy)]);
    assert_eq!(world.take_sent()[0]["session_id"], "2");
    world.end("2", "failed");
    world.end("2", "failed");
    assert_eq!(world.take_sent()[0]["session_id"], "3");
    world.end("3", "continue");
    assert_eq!(world.client.state(), DeviceState::Idle);
    let ended = world.take_events().into_iter().filter_map(|event| match event {
        ConstellationEvent::TaskEnded { session_id, ending: Ending::Failed { kind, .. } } => {
            Some((session_id, kind))
        }
        _ => None,
    });
    let execution = FailureKind::ExecutionError;
    assert_eq!(ended.collect::<Vec<_>>(), [("2".to_owned(), execution), ("3".to_owned(), execution)]);
}

#[test]
fn the_reasons_of_failures_are_told_apart() {
    let mut world = ready();
    let words = [FailureKind::DeviceDisconnection, FailureKind::Timeout, FailureKind::ExecutionError]
        .map(FailureKind::as_str);
    assert_eq!(words, ["device_disconnection", "timeout", "execution_error"]);
    // The server has lost the device.
    world.submit("1");
    world.take_events();
    let lost = "Task was cancelled because target device disconnected";
    world.hear(json!({"type": "task_end", "status": "failed", "session_id": "1", "error": lost}));
    assert_eq!(world.take_events()[0], failed("1", FailureKind::DeviceDisconnection, lost));
    // The server did not take the task: by its session, or by its request.
    world.submit("2");
    let request = world.take_sent().pop().unwrap()["request_id"].clone();
    world.hear(json!({"type": "error", "status": "error", "error": "no", "response_id": request}));
    world.submit("3");
    world.hear(json!({"type": "error", "status": "error", "error": "busy", "session_id": "3"}));
    world.end("3", "failed");
    let ends: Vec<ConstellationEvent> = world
        .take_events()
        .into_iter()
        .filter(|event| matches!(event, ConstellationEvent::TaskEnded { .. }))
        .collect();
    let execution = FailureKind::ExecutionError;
    assert_eq!(ends, [failed("2", execution, "no"), failed("3", execution, "busy")]);
    // An error about a task that runs is not its end.
    world.submit("4");
    world.hear(json!({"type": "heartbeat", "status": "ok", "session_id": "4"}));
    world.take_events();
    world.hear(json!({"type": "error", "status": "error", "error": "odd", "session_id": "4"}));
    let trouble = Trouble::Server { error: "odd".to_owned(), session_id: Some("4".to_owned()) };
    assert_eq!(world.take_events(), [ConstellationEvent::Trouble(trouble)]);
    // It takes too long: the server is told, and the next has its turn.
    world.submit("5");
    world.outputs.clear();
    let by = world.now.after(Duration::from_secs(300));
    while world.now < by {
        world.sleep();
        world.hear(json!({"type": "heartbeat", "status": "ok"}));
    }
    assert_eq!(world.now, by);
    assert_eq!(world.take_events()[0], failed("4", FailureKind::Timeout, "the task took too long"));
    let sent = world.take_sent();
    let end = sent.iter().find(|sent| sent["type"] == "task_end").unwrap();
    assert_eq!(
        (&end["session_id"], &end["status"], &end["client_type"]),
        (&json!("4"), &json!("failed"), &json!("constellation"))
    );
    assert_eq!(sent.last().unwrap()["session_id"], "5");
}

#[test]
fn aip_084_on_disconnect_tasks_fail_first_and_then_it_comes_back() {
    let mut world = ready();
    world.submit("1");
    world.submit("2");
    let question = world.client.request_info(world.now).unwrap();
    world.drain();
    world.outputs.clear();
    world.give(Input::Closed(None));
    let again = world.now.after(Duration::from_secs(1));
    let lost = |session: &str| failed(session, FailureKind::DeviceDisconnection, LOST);
    let no_info = ConstellationEvent::Info { request_id: question, info: Err(NoInfo::Disconnected) };
    let down = ConstellationEvent::Down(Down { cause: Cause::Closed(1006), retry_at: Some(again) });
    assert_eq!(world.take_events(), [lost("1"), lost("2"), no_info, down, state(DeviceState::Disconnected)]);
    assert!(!world.is_asked_to_connect());
    // What is given to it now waits for the next connection.
    world.submit("3");
    world.sleep();
    assert!(world.is_asked_to_connect());
    world.give(Input::Closed(None));
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(2))));
    world.sleep();
    world.take_sent();
    world.open();
    assert_eq!(world.take_sent().last().unwrap()["session_id"], "3");
    assert!(world.take_events().iter().all(|event| !matches!(event, ConstellationEvent::TaskEnded { .. })));
    // A success begins anew.
    world.give(Input::Closed(None));
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(1))));
}

#[test]
fn after_enough_tries_the_device_has_failed() {
    let mut world = ready();
    world.give(Input::Closed(None));
    world.submit("1");
    for _ in 0..5 {
        world.outputs.clear();
        world.sleep();
        assert!(world.is_asked_to_connect());
        world.give(Input::Closed(None));
    }
    assert_eq!(
        world.take_events(),
        [
            state(DeviceState::Connecting),
            failed("1", FailureKind::DeviceDisconnection, LOST),
            ConstellationEvent::Down(Down { cause: Cause::Closed(1006), retry_at: None }),
            state(DeviceState::Failed)
        ]
    );
    assert_eq!(world.wake, None);
    assert_eq!(world.client.submit(NewTask::new("x"), world.now), Err(CommandError::NotConnected));
    assert_eq!(world.client.request_info(world.now), Err(CommandError::NotConnected));
    // Until it is asked again.
    world.give(Input::Connect);
    assert_eq!(world.client.state(), DeviceState::Connecting);
}

#[test]
fn aip_042_it_beats_and_says_device_as_the_reference_does() {
    let mut world = ready();
    world.sleep();
    let sent = world.take_sent();
    assert_eq!(
        (&sent[0]["type"], &sent[0]["client_type"], &sent[0]["client_id"], &sent[0]["metadata"]),
        (&json!("heartbeat"), &json!("device"), &json!("c"), &json!({"device_id": "d"}))
    );
    // A server that refuses that is alive.
    world.hear(json!({"type": "error", "status": "error", "error": "client_type does not match"}));
    world.sleep();
    assert_eq!((world.take_sent().len(), world.client.state()), (1, DeviceState::Idle));
    world.take_events();
    world.sleep();
    assert_eq!((world.closed(), world.client.state()), (Some(1001), DeviceState::Disconnected));
    assert!(matches!(
        &world.take_events()[0],
        ConstellationEvent::Down(Down { cause: Cause::Silent, retry_at: Some(_) })
    ));
}

#[test]
fn it_wakes_for_a_task_that_takes_too_long() {
    let task = Duration::from_secs(7);
    let mut world = World::constellation(ConstellationConfig { ask_info: false, task, ..config() }).up();
    world.submit("1");
    world.take_events();
    assert_eq!(world.wake, Some(world.now.after(task)));
    world.sleep();
    assert_eq!(world.take_events()[0], failed("1", FailureKind::Timeout, "the task took too long"));
}

#[test]
fn tasks_can_be_called_off() {
    let mut world = ready();
    world.submit("1");
    world.submit("2");
    world.outputs.clear();
    assert_eq!(world.client.cancel("2", "enough", world.now), Ok(()));
    assert_eq!(world.client.cancel("2", "enough", world.now), Err(CommandError::Unknown));
    world.drain();
    assert_eq!(world.take_events(), [failed("2", FailureKind::ExecutionError, "cancelled: enough")]);
    assert!(world.sent().is_empty(), "the server does not know of it");
    assert_eq!(world.client.cancel("1", "enough", world.now), Ok(()));
    world.drain();
    let sent = world.take_sent();
    assert_eq!(
        (&sent[0]["type"], &sent[0]["error"], &sent[0]["client_type"]),
        (&json!("task_end"), &json!("enough"), &json!("constellation"))
    );
    assert_eq!(world.take_events(), [], "its end follows");
    world.hear(
        json!({"type": "task_end", "status": "failed", "session_id": "1", "error": "cancelled: enough"}),
    );
    assert_eq!(world.take_events()[0], failed("1", FailureKind::ExecutionError, "cancelled: enough"));
}

#[test]
fn tasks_that_cannot_be_taken_change_nothing() {
    let mut world = World::constellation(ConstellationConfig { ask_info: false, max_waiting: 1, ..config() });
    assert_eq!(world.client.submit(NewTask::new("x"), world.now), Err(CommandError::NotConnected));
    let mut world = world.up();
    assert_eq!(world.client.submit(NewTask::new(""), world.now), Err(CommandError::Empty));
    world.submit("1");
    let again = || NewTask { session_id: Some("1".to_owned()), ..NewTask::new("x") };
    assert_eq!(world.client.submit(again(), world.now), Err(CommandError::Duplicate));
    let made_up = world.client.submit(NewTask::new("x"), world.now).unwrap();
    assert_eq!(made_up.len(), 36);
    assert_eq!(world.client.submit(NewTask::new("x"), world.now), Err(CommandError::Full { limit: 1 }));
    world.drain();
    assert_eq!(world.take_sent().len(), 1);
}

#[test]
fn leaving_ends_everything() {
    let mut world = ready();
    world.submit("1");
    world.outputs.clear();
    world.give(Input::Leave);
    assert_eq!(
        world.outputs,
        [
            Output::Event(failed("1", FailureKind::DeviceDisconnection, "this client left")),
            Output::Close(1000),
            Output::Event(ConstellationEvent::Down(Down { cause: Cause::Left, retry_at: None })),
            Output::Event(state(DeviceState::Disconnected)),
        ]
    );
    assert_eq!(world.wake, None);
}

#[test]
fn what_is_not_for_constellations_is_reported() {
    let mut world = ready();
    for kind in ["task", "command", "device_info_request"] {
        world.hear(json!({"type": kind, "status": "continue", "response_id": "r"}));
        assert!(matches!(&world.take_events()[..], [ConstellationEvent::Trouble(Trouble::Unusable(_))]));
    }
    assert!(world.sent().is_empty());
}
