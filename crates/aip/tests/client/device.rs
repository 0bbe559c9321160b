//! A device against a scripted server: AIP-042, AIP-063, AIP-064 and AIP-084.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_aip::client::{
    Cause, CommandError, Device, DeviceConfig, DeviceEvent, Fault, Input, Message, Middleware, Output,
    Refused, Run, RunId, Strategy, Trouble,
};
use switchboard_aip::message::{Outcome, ResultStatus, TaskStatus};

use switchboard_core::client::Down;

use crate::support::{STAMP, World, object};

fn config() -> DeviceConfig {
    let info = object(json!({"device_id": "d", "cpu_count": 8}));
    let mut config = DeviceConfig { info, ..DeviceConfig::new("d", "linux") };
    config.times.reconnect = Strategy { jitter: 0.0, ..Strategy::device() };
    config
}

fn device() -> World<Device> {
    World::device(config()).up()
}

fn command(session: &str, response: &str, tools: &[&str]) -> Value {
    let action = |(index, tool): (usize, &&str)| json!({"tool_name": tool, "tool_type": "action", "parameters": {"n": index}, "call_id": format!("{response}.{index}")});
    let actions: Vec<Value> = tools.iter().enumerate().map(action).collect();
    json!({"type": "command", "status": "continue", "session_id": session, "response_id": response,
        "actions": actions, "agent_name": "LinuxAgent", "root_name": "root", "process_name": "p"})
}

impl World<Device> {
    /// The commands that were handed out.
    fn runs(&mut self) -> Vec<Run> {
        let run = |event| match event {
            DeviceEvent::Run(run) => run,
            other => panic!("{other:?}"),
        };
        self.take_events().into_iter().map(run).collect()
    }

    /// The one command that was handed out.
    fn run(&mut self) -> Run {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "one at a time");
        runs.remove(0)
    }

    fn finish(&mut self, run: &Run, outcome: Outcome) {
        self.client.finish(run.id, outcome, self.now).unwrap();
        self.drain();
    }
}

fn success(result: Value) -> Outcome {
    Outcome { result, ..Outcome::new(ResultStatus::Success) }
}

fn statuses(results: &Value) -> Vec<(&str, &str)> {
    let results = results["action_results"].as_array().unwrap().iter();
    results.map(|result| (result["call_id"].as_str().unwrap(), result["status"].as_str().unwrap())).collect()
}

#[test]
fn aip_063_commands_run_in_order_and_each_is_answered_under_its_call_id() {
    let mut world = device();
    world.hear(command("s", "r", &["first", "", "third"]));
    let first = world.run();
    assert_eq!((first.command.tool_name.as_str(), first.session_id.as_deref()), ("first", Some("s")));
    assert_eq!(
        (first.agent_name.as_deref(), first.process_name.as_deref(), first.root_name.as_deref()),
        (Some("LinuxAgent"), Some("p"), Some("root"))
    );
    assert_eq!(first.command.parameters.as_ref().unwrap()["n"], 0);
    assert!(world.sent().is_empty());
    let other = Outcome {
        call_id: Some("other".to_owned()),
        namespace: Some("Bash".to_owned()),
        ..success(json!({"out": "ok"}))
    };
    world.finish(&first, other);
    // Nothing to run is a success, and nobody is asked.
    let third = world.run();
    assert_eq!(third.command.tool_name, "third");
    assert_eq!(world.client.finish(first.id, success(Value::Null), world.now), Err(CommandError::Unknown));
    world.finish(&third, Outcome::new(ResultStatus::None));
    let sent = world.take_sent();
    let [results] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(statuses(results), [("r.0", "success"), ("r.1", "success"), ("r.2", "none")]);
    assert_eq!(
        results["action_results"][0],
        json!({"status": "success", "error": null, "result": {"out": "ok"}, "namespace": "Bash", "call_id": "r.0"})
    );
    assert!(results["request_id"].is_string());
    let mut rest = results.clone();
    rest["action_results"] = Value::Null;
    rest["request_id"] = Value::Null;
    rest.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(
        rest,
        json!({"type": "command_results", "status": "continue", "client_type": "device", "session_id": "s",
            "client_id": "d", "prev_response_id": "r", "timestamp": STAMP})
    );
    assert_eq!(world.take_events(), []);
}

#[test]
fn aip_063_messages_wait_for_each_other() {
    let mut world = device();
    world.hear(command("s", "1", &["a"]));
    world.hear(command("t", "2", &["b"]));
    let a = world.run();
    world.finish(&a, success(Value::Null));
    let b = world.run();
    assert_eq!((b.command.tool_name.as_str(), b.session_id.as_deref()), ("b", Some("t")));
    world.finish(&b, success(Value::Null));
    let answered: Vec<Value> = world.sent().iter().map(|sent| sent["prev_response_id"].clone()).collect();
    assert_eq!(answered, ["1", "2"]);
}

#[test]
fn aip_064_after_a_failure_the_rest_is_skipped() {
    let mut world = device();
    world.hear(command("s", "r", &["a", "b", "", "d"]));
    world.hear(command("s", "next", &["e"]));
    let a = world.run();
    // Anything but a failure is good enough to go on.
    world.finish(&a, Outcome::new(ResultStatus::None));
    let b = world.run();
    world.finish(&b, Outcome { error: Some("boom".to_owned()), ..Outcome::new(ResultStatus::Failure) });
    let sent = world.take_sent();
    assert_eq!(
        statuses(&sent[0]),
        [("r.0", "none"), ("r.1", "failure"), ("r.2", "skipped"), ("r.3", "skipped")]
    );
    assert_eq!(sent[0]["action_results"][1]["error"], "boom");
    assert!(sent[0]["action_results"][3]["error"].is_string(), "with a reason");
    // The next message is not concerned.
    assert_eq!(world.run().command.tool_name, "e");
}

#[test]
fn odd_commands_are_answered_where_that_is_possible() {
    let mut world = device();
    world.hear(json!({"type": "command", "status": "ok", "session_id": "s", "response_id": "r"}));
    assert_eq!(world.sent()[0]["action_results"], json!([]));
    assert_eq!(world.take_sent()[0]["status"], "ok", "as the commands said");
    world.hear(json!({"type": "command", "status": "continue", "actions": [{"tool_name": "t", "tool_type": "action"}]}));
    assert!(matches!(&world.take_events()[..], [DeviceEvent::Trouble(Trouble::Unusable(_))]));
    assert!(world.sent().is_empty());
    // The last commands say that they are.
    for (word, expected) in [("completed", TaskStatus::Completed), ("failed", TaskStatus::Failed)] {
        let mut last = command("s", "r", &[""]);
        last["status"] = word.into();
        world.hear(last);
        assert_eq!(world.take_sent()[0]["status"], word);
        let events = world.take_events();
        let [DeviceEvent::TaskEnded { status, session_id, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((*status, session_id.as_deref()), (expected, Some("s")));
    }
}

#[test]
fn too_much_at_a_time_is_refused() {
    let mut world = World::device(DeviceConfig { max_waiting: 2, ..config() }).up();
    for response in ["1", "2", "3"] {
        world.hear(command("s", response, &["a", "b"]));
    }
    let sent = world.take_sent();
    assert_eq!(statuses(&sent[0]), [("3.0", "failure"), ("3.1", "failure")]);
    assert_eq!(world.runs().len(), 1);
}

#[test]
fn an_assigned_task_comes_back_as_the_devices_own() {
    let mut world = device();
    let assignment = json!({"type": "task", "status": "continue", "user_request": "look", "task_name": "T1",
        "session_id": "S", "response_id": "r"});
    world.hear(assignment.clone());
    let mut sent = world.take_sent().remove(0);
    assert!(sent["request_id"].take().is_string());
    sent.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    assert_eq!(
        sent,
        json!({"type": "task", "status": "continue", "client_type": "device", "task_name": "T1",
            "client_id": "d", "request": "look", "timestamp": STAMP, "metadata": {"platform": "linux"}})
    );
    let assigned = DeviceEvent::Assigned {
        session_id: Some("S".to_owned()),
        task_name: Some("T1".to_owned()),
        request: Some("look".to_owned()),
    };
    assert_eq!(world.take_events(), std::slice::from_ref(&assigned));
    // One that asked to be told takes it for the announcement that it is.
    let mut world = World::device(DeviceConfig { task_announce: true, ..config() });
    world.give(Input::Connect);
    world.open();
    assert_eq!(world.take_sent()[0]["metadata"]["task_announce"], true);
    world.take_events();
    world.hear(assignment);
    assert_eq!((world.take_sent(), world.take_events()), (vec![], vec![assigned]));
}

#[test]
fn a_device_tells_what_it_is_like() {
    let mut world = World::device(config());
    world.give(Input::Connect);
    assert!(world.is_asked_to_connect());
    world.open();
    assert_eq!(
        world.take_sent()[0]["metadata"],
        json!({"system_info": {"device_id": "d", "cpu_count": 8}, "platform": "linux", "registration_time": STAMP})
    );
    assert_eq!(world.take_events(), [DeviceEvent::Registered]);
    world.hear(json!({"type": "device_info_request", "status": "ok", "response_id": "R"}));
    let sent = world.take_sent();
    assert_eq!(
        (&sent[0]["type"], &sent[0]["prev_response_id"], &sent[0]["request_id"], &sent[0]["metadata"]),
        (
            &json!("device_info_response"),
            &json!("R"),
            &json!("R"),
            &json!({"device_id": "d", "cpu_count": 8})
        )
    );
    world.client.set_info(object(json!({"cpu_count": 9})), world.now);
    world.drain();
    assert_eq!(world.take_sent()[0]["metadata"], json!({"cpu_count": 9}));
    world.hear(json!({"type": "device_info_request", "status": "ok", "response_id": "R2"}));
    assert_eq!(world.take_sent()[0]["metadata"], json!({"cpu_count": 9}));
}

#[test]
fn a_device_submits_and_cancels_tasks_of_its_own() {
    let mut world = World::device(DeviceConfig { max_waiting: 1, ..config() }).up();
    assert_eq!(world.client.submit("", None, world.now), Err(CommandError::Empty));
    let session = world.client.submit("tidy up", Some("n".to_owned()), world.now).unwrap();
    assert_eq!(world.client.submit("more", None, world.now), Err(CommandError::Full { limit: 1 }));
    world.drain();
    let sent = world.take_sent();
    assert_eq!((&sent[0]["session_id"], &sent[0]["request"]), (&json!(session), &json!("tidy up")));
    world.hear(json!({"type": "heartbeat", "status": "ok", "session_id": session}));
    assert_eq!(world.take_events(), [DeviceEvent::Accepted { session_id: session.clone() }]);
    world.client.cancel(&session, "enough", world.now).unwrap();
    world.drain();
    let sent = world.take_sent();
    assert_eq!(
        (&sent[0]["type"], &sent[0]["status"], &sent[0]["error"]),
        (&json!("task_end"), &json!("failed"), &json!("enough"))
    );
    world.hear(
        json!({"type": "task_end", "status": "failed", "session_id": session, "error": "cancelled: enough"}),
    );
    assert_eq!(
        world.take_events(),
        [DeviceEvent::TaskEnded {
            session_id: Some(session),
            status: TaskStatus::Failed,
            result: Value::Null,
            error: Some("cancelled: enough".to_owned())
        }]
    );
    assert!(world.client.submit("again", None, world.now).is_ok());
}

#[test]
fn the_end_of_a_task_ends_its_commands() {
    let mut world = device();
    world.hear(command("s", "1", &["a", "b"]));
    world.hear(command("t", "2", &["c"]));
    world.hear(command("s", "3", &["d"]));
    let a = world.run();
    world.hear(json!({"type": "task_end", "status": "failed", "session_id": "s", "error": "cancelled"}));
    let events = world.take_events();
    assert_eq!(events[0], DeviceEvent::Abandoned(a.id));
    assert!(matches!(&events[1], DeviceEvent::TaskEnded { status: TaskStatus::Failed, .. }));
    let DeviceEvent::Run(c) = &events[2] else { panic!("{events:?}") };
    assert_eq!((c.command.tool_name.as_str(), events.len()), ("c", 3));
    assert_eq!(world.client.finish(a.id, success(Value::Null), world.now), Err(CommandError::Unknown));
    world.finish(c, success(Value::Null));
    assert_eq!((world.sent().len(), &world.sent()[0]["prev_response_id"]), (1, &json!("2")));
}

#[test]
fn aip_042_it_beats_after_each_interval_and_silence_is_death() {
    let mut world = device();
    let every = Duration::from_secs(30);
    let start = world.now;
    assert_eq!(world.wake, Some(start.after(every)));
    world.pass(every - Duration::from_micros(1));
    assert!(world.sent().is_empty());
    for n in 1..4 {
        world.sleep();
        assert_eq!(world.now, start.after(every * n));
        let sent = world.take_sent();
        let [beat] = &sent[..] else { panic!("{sent:?}") };
        assert_eq!(
            (&beat["type"], &beat["status"], &beat["client_id"]),
            (&json!("heartbeat"), &json!("ok"), &json!("d"))
        );
        world.hear(json!({"type": "heartbeat", "status": "ok", "response_id": "x"}));
    }
    world.sleep();
    assert!(world.client.is_up());
    world.sleep();
    assert_eq!(world.closed(), Some(1001));
    assert!(!world.client.is_up());
    let again = Some(world.now.after(Duration::from_secs(2)));
    assert_eq!(world.take_events(), [DeviceEvent::Down(Down { cause: Cause::Silent, retry_at: again })]);
}

#[test]
fn aip_042_a_closed_transport_is_dead_and_comes_back() {
    let mut world = device();
    world.hear(command("s", "r", &["a"]));
    let a = world.run();
    world.give(Input::Closed(Some(1006)));
    assert!(!world.client.is_up());
    let again = world.now.after(Duration::from_secs(2));
    assert_eq!(
        world.take_events(),
        [
            DeviceEvent::Abandoned(a.id),
            DeviceEvent::Down(Down { cause: Cause::Closed(1006), retry_at: Some(again) })
        ]
    );
    assert_eq!((world.wake, world.is_asked_to_connect()), (Some(again), false));
    // Nothing of the old transport counts any more.
    world.give(Input::Opened);
    assert!(world.sent().is_empty());
    world.hear(command("s", "r2", &["b"]));
    world.give(Input::Closed(None));
    assert_eq!(world.take_events(), []);
    world.sleep();
    assert!(world.is_asked_to_connect());
    world.open();
    world.take_sent();
    world.give(Input::Opened);
    assert!(world.sent().is_empty() && world.client.is_up(), "once is enough");
    assert_eq!(world.take_events(), [DeviceEvent::Registered]);
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(30))));
}

#[test]
fn aip_084_a_devices_own_tasks_fail_before_it_looks_for_another_connection() {
    let mut world = device();
    let session = world.client.submit("tidy up", None, world.now).unwrap();
    world.hear(json!({"type": "task", "status": "continue", "user_request": "look", "session_id": "S"}));
    world.take_events();
    world.outputs.clear();
    world.give(Input::Closed(None));
    let mut failed: Vec<Option<String>> = Vec::new();
    let events = world.take_events();
    for event in &events[..2] {
        let DeviceEvent::TaskEnded { session_id, status: TaskStatus::Failed, .. } = event else {
            panic!("{event:?}")
        };
        failed.push(session_id.clone());
    }
    failed.sort();
    let mut expected = vec![Some("S".to_owned()), Some(session)];
    expected.sort();
    assert_eq!(failed, expected);
    assert!(matches!(&events[2..], [DeviceEvent::Down(Down { retry_at: Some(_), .. })]));
}

#[test]
fn a_refused_registration_is_tried_again_until_it_is_enough() {
    let mut world = World::device(config());
    world.give(Input::Connect);
    for wait in [2, 4, 8] {
        world.give(Input::Opened);
        world.hear(
            json!({"type": "error", "status": "error", "error": "client_id 'd' is already registered"}),
        );
        assert_eq!(world.closed(), Some(1000));
        let again = world.now.after(Duration::from_secs(wait));
        let cause = Cause::Protocol(Fault::Refused("client_id 'd' is already registered".to_owned()));
        assert_eq!(world.take_events(), [DeviceEvent::Down(Down { cause, retry_at: Some(again) })]);
        world.outputs.clear();
        world.sleep();
    }
    world.give(Input::Closed(None));
    assert_eq!(world.take_events(), [DeviceEvent::Down(Down { cause: Cause::Closed(1006), retry_at: None })]);
    assert_eq!(world.wake, None);
}

#[test]
fn a_registration_without_an_answer_is_none() {
    let mut world = World::device(config());
    world.give(Input::Connect);
    world.give(Input::Opened);
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(30))));
    world.sleep();
    assert_eq!(world.closed(), Some(1001));
    assert!(matches!(
        &world.take_events()[..],
        [DeviceEvent::Down(Down { cause: Cause::Protocol(Fault::Unanswered), retry_at: Some(_) })]
    ));
    // A success in between makes up for it.
    world.sleep();
    world.open();
    world.give(Input::Closed(None));
    assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(2))));
}

#[test]
fn leaving_is_for_good_until_asked_again() {
    let mut world = device();
    world.give(Input::Leave);
    assert_eq!((world.closed(), world.wake), (Some(1000), None));
    assert_eq!(world.take_events(), [DeviceEvent::Down(Down { cause: Cause::Left, retry_at: None })]);
    assert_eq!(world.client.submit("x", None, world.now), Err(CommandError::NotConnected));
    assert_eq!(world.client.cancel("x", "y", world.now), Err(CommandError::NotConnected));
    assert_eq!(world.client.finish(RunId(1), success(Value::Null), world.now), Err(CommandError::Unknown));
    // And then with all its tries.
    for tries in 0..2 {
        world.outputs.clear();
        world.give(Input::Connect);
        assert!(world.is_asked_to_connect());
        world.give(Input::Closed(None));
        assert_eq!(world.wake, Some(world.now.after(Duration::from_secs(2))), "{tries}");
        world.give(Input::Leave);
    }
}

#[derive(Debug)]
struct Stop(&'static str);

impl Middleware for Stop {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        if message.kind() == self.0 { Err(Refused(self.0.to_owned())) } else { Ok(message) }
    }

    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        self.outgoing(message)
    }
}

#[test]
fn middleware_sees_what_a_device_says_and_hears() {
    let mut world = device();
    world.client.middleware().add(Stop("command"));
    world.client.middleware().add(Stop("heartbeat"));
    world.hear(command("s", "r", &["a"]));
    let blocked = |kind: &str| DeviceEvent::Trouble(Trouble::Blocked(Refused(kind.to_owned())));
    assert_eq!(world.take_events(), [blocked("command")]);
    world.sleep();
    assert_eq!((world.take_events(), world.sent().len()), (vec![blocked("heartbeat")], 0));

    let mut world = World::device(config());
    world.client.middleware().add(Stop("register"));
    world.give(Input::Connect);
    world.give(Input::Opened);
    let events = world.take_events();
    assert!(
        matches!(&events[1], DeviceEvent::Down(Down { cause: Cause::Protocol(Fault::Blocked), .. })),
        "{events:?}"
    );
    assert_eq!(world.closed(), Some(1000));
}

#[test]
fn what_cannot_be_used_is_reported_and_nothing_more() {
    let mut world = device();
    world.give(Input::Binary(Bytes::from_static(b"\xff")));
    world.give(Input::Binary(Bytes::from_static(b"{}")));
    world.hear(json!({"type": "device_info_response", "status": "ok"}));
    let events = world.take_events();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| matches!(event, DeviceEvent::Trouble(Trouble::Unusable(_)))));
    world.hear(json!({"type": "error", "status": "error", "error": "no", "session_id": "s"}));
    let server = Trouble::Server { error: "no".to_owned(), session_id: Some("s".to_owned()) };
    assert_eq!(world.take_events(), [DeviceEvent::Trouble(server)]);
    assert!(world.client.is_up() && !world.outputs.contains(&Output::Dial));
}
