//! Sessions that other protocols see too (§15): what is in the log, and turns that come from elsewhere.

use serde_json::{Value, json};
use switchboard_core::model::{
    CallEnd, Executor, NewTurn, Origin, Part, Place, Tool, ToolAnnotations, ToolChange, TurnRequest,
};
use switchboard_core::{Actor, Event, Op, PrincipalId, SessionId, Timestamp};

use crate::support::{Talk, results, session, short, stop, task, text};

fn ann() -> Actor {
    Actor::client(PrincipalId::from("ann"))
}

/// A turn of another protocol for a device.
fn start(turn: &str, request: &str, device: Option<&str>) -> Op {
    Op::StartTurn(Box::new(NewTurn {
        turn: turn.into(),
        request: TurnRequest::Chat { parts: vec![Part::Text(request.into())] },
        agent: None,
        device: device.map(Into::into),
        origin: Origin {
            principal: "ann".into(),
            protocol: "asp".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: json!({ "session_id": "forged", "task_name": "forged" }),
        },
        place: Place::default(),
        history: None,
        workspace: None,
        serial: false,
        held: false,
        once: false,
        setting: None,
        deadline: Timestamp::NEVER,
        key: None,
        meta: Value::Null,
    }))
}

impl Talk {
    /// A turn of another protocol that is for no device, in a session that has a tool of one.
    pub(crate) fn use_tool_elsewhere(&mut self, session: &SessionId, device: &str) {
        let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
        self.world.ask(session, ann(), open).unwrap();
        let tool = Tool {
            name: "look".into(),
            description: String::new(),
            input_schema: json!({}).into(),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor: Executor::Device(device.into()),
            grace_ms: 0,
            options: json!({ "tool_type": "data_collection", "agent_name": "AppAgent" }),
        };
        let change = ToolChange { add: vec![tool], remove: Vec::new(), turn: None };
        self.world.ask(session, Actor::server(), Op::ChangeTools(change)).unwrap();
        self.world.ask(session, ann(), start("t1", "one", None)).unwrap();
    }
}

#[test]
fn the_log_tells_the_story_of_a_task() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "two");
    let call = command["actions"][1]["call_id"].clone();
    let given = json!([{ "status": "skipped", "error": "not run", "call_id": call, "namespace": "n" }]);
    talk.say(dev, &results(&command, given));
    let command = talk.one(dev);
    talk.obey(dev, &command);
    assert_eq!(talk.short(boss), ["end s1 completed"]);
    assert_eq!(
        talk.events(&session("s1")),
        [
            "session_opened",
            "chronicle_begun",
            "message_added",
            "turn_accepted",
            "turn_started",
            "call_requested",
            "call_requested",
            "call_ended",
            "call_ended",
            "call_requested",
            "call_ended",
            "turn_ended",
        ]
    );
    let ends: Vec<_> = talk
        .world
        .log(&session("s1"))
        .iter()
        .filter_map(|committed| match &committed.event {
            Event::CallEnded { end, .. } => Some(end.clone()),
            _ => None,
        })
        .collect();
    let CallEnd::Failed(missing) = &ends[0] else { panic!("{ends:?}") };
    assert_eq!((missing.name.as_str(), missing.message.as_str()), ("failure", "no result returned"));
    let CallEnd::Failed(skipped) = &ends[1] else { panic!("{ends:?}") };
    assert_eq!((skipped.name.as_str(), skipped.message.as_str()), ("skipped", "not run"));
    assert_eq!(skipped.detail["namespace"], "n");
    assert!(matches!(&ends[2], CallEnd::Done { .. }));
    assert_eq!(talk.world.check_replay(), Ok(()));
}

#[test]
fn a_device_works_for_turns_of_other_protocols_too() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "task_announce": true }));
    let elsewhere = session("elsewhere");
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    talk.world.ask(&elsewhere, ann(), open).unwrap();
    talk.world.ask(&elsewhere, ann(), start("t1", "one", Some("dev"))).unwrap();
    let told = talk.heard(dev);
    assert_eq!(
        told.iter().map(short).collect::<Vec<_>>(),
        ["task one".to_owned(), format!("command {elsewhere} look")]
    );
    assert_eq!(told[0]["session_id"], elsewhere.as_str(), "by its real name, whatever the origin says");
    assert!(told[1]["task_name"].is_null());
    talk.obey(dev, &told[1]);
    assert_eq!(talk.short(dev), [format!("end {elsewhere} completed")]);
    assert_eq!(talk.events(&elsewhere).last(), Some(&"turn_ended"));
    assert!(talk.world.followed(dev).is_empty());
}

#[test]
fn whoever_shares_a_session_can_be_joined_by_its_real_name() {
    let mut talk = Talk::new();
    let dev = talk.device_of("bob", "his", json!({}));
    let shared = session("shared");
    let open = Op::Open { epoch: 1, agent: "planner".into(), name: None };
    talk.world.ask(&shared, ann(), open).unwrap();
    let admit = Op::Admit { principal: "bob".into(), role: Some(switchboard_core::Role::Contributor) };
    talk.world.ask(&shared, ann(), admit).unwrap();
    let message = json!({
        "type": "task", "status": "continue", "session_id": shared.as_str(), "request": "one", "task_name": "t",
    });
    talk.say(dev, &message);
    let told = talk.heard(dev);
    assert_eq!(
        told.iter().map(short).collect::<Vec<_>>(),
        [format!("ack {shared}"), format!("command {shared} look")]
    );
    talk.obey(dev, &told[1]);
    assert_eq!(talk.short(dev), [format!("end {shared} completed")]);
    assert!(talk.events(&shared).contains(&"turn_accepted"));
    assert_eq!(text(&talk.task_result("bob", "t"), "status"), "done");
}

#[test]
fn a_turn_of_another_that_runs_in_the_session_is_not_ours_to_tell() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let command = talk.command(boss, dev, "s1", "one");
    talk.world.ask(&session("s1"), ann(), start("t2", "hello", None)).unwrap();
    assert!(talk.short(boss).is_empty() && talk.short(dev).is_empty(), "no device is asked for it");
    talk.obey(dev, &command);
    assert_eq!(
        (talk.short(boss), talk.short(dev)),
        (vec!["end s1 completed".to_owned()], vec!["end s1 completed".to_owned()])
    );
}

#[test]
fn aip_049_turns_of_one_session_share_the_device_message_by_message() {
    let mut talk = Talk::new();
    let (dev, boss) = talk.pair();
    let first = talk.command(boss, dev, "s1", "one");
    talk.world.ask(&session("s1"), ann(), start("t2", "one", Some("dev"))).unwrap();
    assert!(talk.short(dev).is_empty(), "the first is not answered yet");
    talk.obey(dev, &first);
    let told = talk.heard(dev);
    let real = session("s1");
    let lines: Vec<String> = told.iter().map(short).collect();
    assert_eq!(lines, [format!("command {real} look"), "end s1 completed".to_owned()]);
    talk.obey(dev, &told[0]);
    assert_eq!(talk.short(dev), [format!("end {real} completed")]);
    assert_eq!(talk.short(boss), ["end s1 completed"], "the other one is not theirs");
}

#[test]
fn a_device_hears_nothing_of_what_others_do_in_the_same_session() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "task_announce": true }));
    let boss = talk.boss("boss", "dev");
    let (other, second) = (talk.device("other"), talk.boss("second", "other"));
    talk.say(boss, &task("dev", "s1", "one"));
    let told = talk.heard(dev);
    assert_eq!(told.len(), 2);
    // At the same time, and behind it in the queue of the session.
    talk.world.ask(&session("s1"), ann(), start("t2", "one", Some("other"))).unwrap();
    let real = session("s1");
    talk.say(second, &task("other", real.as_str(), "one"));
    assert!(talk.short(dev).is_empty());
    let parallel = talk.one(other);
    talk.obey(other, &parallel);
    assert_eq!(talk.short(other), [format!("end {real} completed")]);
    assert!(talk.short(dev).is_empty());
    talk.obey(dev, &told[1]);
    assert_eq!(talk.short(dev), ["end s1 completed"]);
    let queued = talk.one(other);
    talk.obey(other, &queued);
    assert_eq!(talk.short(second), [format!("ack {real}"), format!("end {real} completed")]);
    assert!(talk.short(dev).is_empty(), "it is not there any more");
    talk.say(boss, &task("dev", "s2", "hang"));
    assert_eq!(talk.short(dev), ["task t1 hang"]);
    talk.world.ask(&session("s2"), ann(), start("t3", "one", Some("other"))).unwrap();
    assert_eq!((talk.heard(other).len(), talk.short(dev).len()), (2, 0), "also while it has nothing to do");
}

#[test]
fn a_device_whose_tools_are_used_by_a_turn_for_nobody_is_asked_and_not_told_the_end() {
    let mut talk = Talk::new();
    let dev = talk.device_of("ann", "dev", json!({ "task_announce": true }));
    let elsewhere = session("elsewhere");
    talk.use_tool_elsewhere(&elsewhere, "dev");
    let command = talk.one(dev);
    assert_eq!(short(&command), format!("command {elsewhere} look"));
    talk.say(dev, &stop("device", elsewhere.as_str(), "failed", None));
    assert!(!talk.events(&elsewhere).contains(&"turn_interrupted"), "the turn is not for the device");
    talk.obey(dev, &command);
    assert!(talk.short(dev).is_empty(), "neither announced nor told");
    assert_eq!(talk.events(&elsewhere).last(), Some(&"turn_ended"));
    assert!(talk.world.followed(dev).is_empty());
}
