//! Which message each call of §5.5 makes.

use serde_json::{Value, json};
use switchboard_aip::client::{
    CommandBatch, CommandResults, Commands, DeviceInfo, Heartbeat, Ids, Registration, TaskAssignment,
    TaskEnd, TaskExecution, TaskRequest, ack, error_message,
};
use switchboard_aip::codec::{encode_client, encode_server, uuid};
use switchboard_aip::message::*;
use switchboard_core::Seed;

use crate::support::{STAMP, START, object};

fn ids() -> Ids {
    Ids::new(Seed::new([1; 32]))
}

/// The first id these make up.
fn fresh() -> String {
    uuid(&Seed::new([1; 32]), 1)
}

/// What is set besides the timestamp, which always is.
fn set(text: &str) -> Value {
    let mut message = object(serde_json::from_str(text).unwrap());
    assert_eq!(message.remove("timestamp"), Some(json!(STAMP)));
    message.retain(|_, value| !value.is_null());
    message.into()
}

fn said(message: &ClientMessage) -> Value {
    set(&encode_client(message))
}

fn told(message: &ServerMessage) -> Value {
    set(&encode_server(message))
}

fn name(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn registration() {
    let mut registration = Registration::new(ids());
    let metadata = object(json!({"a": 1}));
    assert_eq!(
        said(&registration.register_as_device("d", metadata, "windows", START)),
        json!({"type": "register", "status": "ok", "client_type": "device", "client_id": "d",
            "metadata": {"a": 1, "platform": "windows", "registration_time": STAMP}})
    );
    let metadata = object(json!({"platform": "linux", "registration_time": "never"}));
    assert_eq!(
        said(&registration.register_as_device("d", metadata, "windows", START))["metadata"],
        json!({"platform": "linux", "registration_time": STAMP})
    );
    let metadata = object(json!({"type": "x", "targeted_device_id": "x", "registration_time": "x", "v": 2}));
    assert_eq!(
        said(&registration.register_as_constellation("c", "d", metadata, START)),
        json!({"type": "register", "status": "ok", "client_type": "constellation", "client_id": "c",
            "target_id": "d", "metadata": {"type": "constellation_client", "targeted_device_id": "d",
            "registration_time": STAMP, "v": 2}})
    );
    let confirmed = registration.confirmation(None, START);
    assert!(Registration::is_accepted(&confirmed));
    assert_eq!(told(&confirmed), json!({"type": "heartbeat", "status": "ok", "response_id": fresh()}));
    let refused = registration.refusal("no", name("r"), START);
    assert!(!Registration::is_accepted(&refused));
    assert_eq!(
        told(&refused),
        json!({"type": "error", "status": "error", "error": "no", "response_id": "r"})
    );
}

#[test]
fn task_execution() {
    let mut tasks = TaskExecution::new(ids());
    let task = TaskRequest {
        task_name: name("n"),
        session_id: name("s"),
        target_id: name("t"),
        client_type: ClientType::Constellation,
        metadata: Some(object(json!({"p": 1}))),
        ..TaskRequest::new("do it", "c")
    };
    assert_eq!(
        said(&tasks.task_request(task, START)),
        json!({"type": "task", "status": "continue", "client_type": "constellation", "request": "do it",
            "task_name": "n", "session_id": "s", "client_id": "c", "target_id": "t", "request_id": fresh(),
            "metadata": {"p": 1}})
    );
    let mut tasks = TaskExecution::new(ids());
    assert_eq!(
        said(&tasks.task_request(TaskRequest::new("do it", "c"), START)),
        json!({"type": "task", "status": "continue", "client_type": "device", "request": "do it",
            "client_id": "c", "request_id": fresh()})
    );
    let assignment = TaskAssignment {
        user_request: "do it".to_owned(),
        task_name: "n".to_owned(),
        session_id: "s".to_owned(),
        response_id: "r".to_owned(),
        agent_name: name("AppAgent"),
        process_name: name("notepad.exe"),
    };
    assert_eq!(
        told(&tasks.task_assignment(assignment, START)),
        json!({"type": "task", "status": "continue", "user_request": "do it", "task_name": "n",
            "session_id": "s", "response_id": "r", "agent_name": "AppAgent", "process_name": "notepad.exe"})
    );
    let action = || Command {
        tool_name: "t".to_owned(),
        parameters: None,
        tool_type: ToolType::Action,
        call_id: None,
    };
    let batch = CommandBatch {
        agent_name: name("a"),
        process_name: name("p"),
        root_name: name("w"),
        task_name: name("n"),
        ..CommandBatch::new(vec![action(), action()], "s", "r")
    };
    let action = json!({"tool_name": "t", "parameters": null, "tool_type": "action", "call_id": null});
    assert_eq!(
        told(&tasks.commands(batch, START)),
        json!({"type": "command", "status": "continue", "actions": [action, action], "session_id": "s",
            "response_id": "r", "agent_name": "a", "process_name": "p", "root_name": "w", "task_name": "n"})
    );
}

#[test]
fn results_and_ends() {
    let mut tasks = TaskExecution::new(ids());
    let results = |client_id| CommandResults {
        action_results: vec![Outcome::new(ResultStatus::None)],
        session_id: name("s"),
        client_id,
        prev_response_id: "r".to_owned(),
        status: TaskStatus::Failed,
    };
    let outcome =
        json!({"status": "none", "error": null, "result": null, "namespace": null, "call_id": null});
    assert_eq!(
        said(&tasks.command_results(results(name("d")), START)),
        json!({"type": "command_results", "status": "failed", "client_type": "device", "session_id": "s",
            "client_id": "d", "action_results": [outcome], "prev_response_id": "r", "request_id": fresh()})
    );
    assert_eq!(said(&tasks.command_results(results(None), START))["client_id"], "unknown_client");
    let mut tasks = TaskExecution::new(ids());
    let end = TaskEnd {
        session_id: "s".to_owned(),
        status: TaskStatus::Completed,
        result: json!({"ok": true}),
        error: None,
        response_id: None,
    };
    assert_eq!(
        told(&tasks.task_end(end.clone(), START)),
        json!({"type": "task_end", "status": "completed", "session_id": "s", "result": {"ok": true},
            "response_id": fresh()})
    );
    let end = TaskEnd { status: TaskStatus::Failed, error: name("e"), response_id: name("r"), ..end };
    assert_eq!(
        told(&tasks.task_end(end, START)),
        json!({"type": "task_end", "status": "failed", "session_id": "s", "result": {"ok": true},
            "error": "e", "response_id": "r"})
    );
    assert_eq!(
        said(&tasks.task_end_ack("s", "d", TaskStatus::Failed, name("operator pressed stop"), START)),
        json!({"type": "task_end", "status": "failed", "client_type": "device", "session_id": "s",
            "client_id": "d", "error": "operator pressed stop"})
    );
}

#[test]
fn heartbeats_and_device_info() {
    let mut heartbeat = Heartbeat::new(ids());
    assert_eq!(
        said(&heartbeat.heartbeat("c", Some(object(json!({"device_id": "d"}))), START)),
        json!({"type": "heartbeat", "status": "ok", "client_type": "device", "client_id": "c",
            "metadata": {"device_id": "d"}})
    );
    let acked = json!({"type": "heartbeat", "status": "ok", "response_id": fresh()});
    assert_eq!(told(&heartbeat.heartbeat_ack(None, START)), acked);

    let mut info = DeviceInfo::new(ids());
    let asked = |id: &str| {
        json!({"type": "device_info_request", "status": "ok", "client_type": "constellation",
            "client_id": "c", "target_id": "d", "request_id": id})
    };
    assert_eq!(said(&info.request_device_info("c", "d", name("q"), START)), asked("q"));
    assert_eq!(said(&info.request_device_info("c", "d", None, START)), asked(&fresh()));
    assert_eq!(
        told(&info.device_info_response(json!({"cpu_count": 8}), name("q"), None, START)),
        json!({"type": "device_info_response", "status": "ok", "response_id": "q", "result": {"cpu_count": 8}})
    );
    assert_eq!(
        told(&info.device_info_response(Value::Null, name("q"), name("gone"), START)),
        json!({"type": "device_info_response", "status": "error", "response_id": "q", "error": "gone"})
    );
    let facts = || object(json!({"cpu_count": 8}));
    assert_eq!(
        said(&info.device_info_push("d", facts(), START)),
        json!({"type": "device_info_response", "status": "ok", "client_type": "device", "client_id": "d",
            "metadata": {"cpu_count": 8}})
    );
    assert_eq!(
        said(&info.device_info_reply("d", facts(), name("R"), START)),
        json!({"type": "device_info_response", "status": "ok", "client_type": "device", "client_id": "d",
            "metadata": {"cpu_count": 8}, "request_id": "R", "prev_response_id": "R"})
    );
}

#[test]
fn errors_acks_and_ids() {
    let mut some = ids();
    assert_eq!(
        told(&ack(&mut some, name("s"), None, START)),
        json!({"type": "heartbeat", "status": "ok", "session_id": "s", "response_id": fresh()})
    );
    let error = told(&error_message(&mut some, "bad", None, START));
    assert_eq!(error["error"], "bad");
    assert_ne!(error["response_id"], fresh());
    assert_eq!(told(&error_message(&mut some, "bad", name("r"), START))["response_id"], "r");
}

#[test]
fn aip_082_command_validation_says_yes_or_no() {
    let command = |tool_name: &str| Command {
        tool_name: tool_name.to_owned(),
        parameters: None,
        tool_type: ToolType::DataCollection,
        call_id: None,
    };
    assert!(Commands::is_command(&command("t")) && !Commands::is_command(&command("")));
    assert!(Commands::are_commands(&[]) && Commands::are_commands(&[command("t")]));
    assert!(!Commands::are_commands(&[command("t"), command("")]));
    assert!(Commands::is_result(&Outcome::new(ResultStatus::Skipped)) && Commands::are_results(&[]));
}
