//! Tools and questions.

use serde_json::json;
use switchboard_alicia::message::{Execution, ToolUseRequest, ToolUseResult, Word};
use switchboard_alicia::{Body, Id};
use switchboard_core::model::{Actor, CallEnd, CallError, CallKind, Executor, Op, TurnEnd};

use crate::support::{World, is_null, kinds, number, sentences, text, worker};

fn tool(args: serde_json::Value) -> CallKind {
    CallKind::Tool { name: "clock".into(), args: args.into() }
}

fn running() -> World {
    let mut world = World::new();
    world.run("t1");
    world.bodies();
    world
}

#[track_caller]
fn request(body: &Body) -> &ToolUseRequest {
    if let Body::ToolUseRequest(request) = body { request } else { panic!("{body:?}") }
}

#[track_caller]
fn result(body: &Body) -> &ToolUseResult {
    if let Body::ToolUseResult(result) = body { result } else { panic!("{body:?}") }
}

#[test]
fn a_tool_of_the_server_is_told_with_its_result() {
    let mut world = running();
    world.call("t1", "c1", tool(json!({"tz": "UTC"})), Executor::Agent);
    world.answer("t1", "c1", CallEnd::done(json!({"now": 1})), &worker());
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [6, 7]);
    let asked = request(&bodies[0]);
    assert!(asked.id.as_str().starts_with("atu_"));
    assert_eq!((asked.tool_name.as_str(), asked.execution), ("clock", Execution::Server));
    assert_eq!((asked.message_id.as_str(), asked.timeout_ms), ("am_t1_out", Some(30_000)));
    assert_eq!(asked.parameters.get_str("tz"), Some("UTC"));
    let given = result(&bodies[1]);
    assert_eq!((given.request_id.as_ref(), given.success), (Some(&asked.id), true));
    assert_eq!(given.id.as_str(), format!("{}_result", asked.id));
    let row = world.rows.one("alicia_tool_uses", "id", asked.id.as_str());
    assert_eq!((text(row, "status"), text(row, "tool_result")), ("success", r#"{"now":1}"#));
    assert_eq!((text(row, "tool_arguments"), number(row, "sequence_number")), (r#"{"tz":"UTC"}"#, 1));
    assert_eq!(number(row, "completed_at"), i64::try_from(world.now.as_millis()).unwrap());
    assert_eq!(world.annals.stats(world.now).tool_call_count, 1);
}

#[test]
fn al_050_a_sentence_before_a_tool_is_told_before_the_tool() {
    let mut world = running();
    world.tell("t1", "Hm. Let me look that up for you.");
    world.call("t1", "c1", tool(json!({})), Executor::Agent);
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [16, 16, 6]);
    assert_eq!(sentences(&bodies), [(1, "Hm.", false), (2, "Let me look that up for you.", false)]);
    world.answer("t1", "c1", CallEnd::done(json!({})), &worker());
    world.tell("t1", "It is noon");
    // Half a sentence waits.
    world.call("t1", "c2", tool(json!({})), Executor::Agent);
    world.answer("t1", "c2", CallEnd::done(json!({})), &worker());
    world.tell("t1", ", almost.");
    world.complete("t1");
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [7, 6, 7, 16]);
    assert_eq!(sentences(&bodies), [(3, "It is noon, almost.", true)]);
    let stored = text(world.rows.message("am_t1_out"), "contents");
    assert_eq!(stored, "Hm. Let me look that up for you. It is noon, almost.");
}

#[test]
fn a_tool_of_somebody_elsewhere_is_not_for_the_client_to_run() {
    let mut world = running();
    for (call, executor) in [
        ("c1", Executor::Attachment("app".into())),
        ("c2", Executor::Device("lab-1".into())),
        ("c3", Executor::Principal("ann".into())),
    ] {
        world.call("t1", call, tool(json!({})), executor);
    }
    let bodies = world.bodies();
    let asked: Vec<Execution> = bodies.iter().map(|body| request(body).execution).collect();
    assert_eq!(asked, [Execution::Server, Execution::Server, Execution::Client]);
    world.answer("t1", "c1", CallEnd::done(json!(1)), &Actor::server());
    assert!(result(&world.bodies()[0]).success, "what it gave is told");
}

#[test]
fn a_failure_of_a_tool_is_a_result() {
    let mut world = running();
    for (call, name) in [("c1", "EXECUTION_ERROR"), ("c2", "out_of_stock"), ("c3", "")] {
        world.call("t1", call, tool(json!({})), Executor::Agent);
        world.answer("t1", call, CallEnd::Failed(CallError::new(name, "no luck")), &worker());
    }
    let bodies = world.bodies();
    let errors: Vec<_> = bodies.iter().skip(1).step_by(2).map(result).collect();
    let codes: Vec<String> =
        ["execution_error", "out_of_stock", "execution_error"].map(str::to_owned).to_vec();
    for (error, code) in errors.iter().zip(&codes) {
        assert!(!error.success && error.result.is_none());
        let row = world.rows.one("alicia_tool_uses", "id", error.request_id.as_ref().unwrap().as_str());
        assert_eq!(
            (text(row, "status"), text(row, "error_message")),
            ("error", format!("{code}: no luck").as_str())
        );
    }
}

#[test]
fn what_a_client_answers_is_not_told_to_it() {
    let mut world = running();
    world.call("t1", "c1", tool(json!({})), Executor::Principal("ann".into()));
    let bodies = world.bodies();
    let asked = request(&bodies[0]);
    assert_eq!((asked.execution, asked.timeout_ms), (Execution::Client, Some(30_000)));
    assert_eq!(world.annals.call_of(&asked.id), Some(("t1".into(), "c1".into())));
    assert!(!world.annals.is_answered(&asked.id));
    world.answer("t1", "c1", CallEnd::done(json!("noon")), &Actor::client("ann".into()));
    assert!(world.bodies().is_empty());
    assert_eq!(text(world.rows.one("alicia_tool_uses", "id", asked.id.as_str()), "status"), "success");
    assert_eq!(world.annals.call_of(&asked.id), None);
    assert!(world.annals.is_answered(&asked.id));
    assert!(!world.annals.is_answered(&Id::new("atu_other").unwrap()));
}

#[test]
fn al_065_what_a_client_does_not_answer_times_out() {
    let mut world = running();
    world.call("t1", "c1", tool(json!({})), Executor::Anyone);
    let bodies = world.bodies();
    let id = request(&bodies[0]).id.clone();
    world.pass(30_000);
    world.ask_as(&Actor::server(), Op::Wake);
    let bodies = world.bodies();
    let given = result(&bodies[0]);
    assert_eq!((given.request_id.as_ref(), given.success), (Some(&id), false));
    assert_eq!(
        text(world.rows.one("alicia_tool_uses", "id", id.as_str()), "error_message"),
        "timeout: clock: 30000 ms elapsed"
    );
}

#[test]
fn al_070_a_stop_cancels_the_tools() {
    let mut world = running();
    world.call("t1", "c1", tool(json!({})), Executor::Anyone);
    let bodies = world.bodies();
    let id = request(&bodies[0]).id.clone();
    world.interrupt("t1", None);
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [7, 16]);
    assert_eq!(
        result(&bodies[0]).error_code.as_ref().and_then(|code| code.known()).map(|code| code.name()),
        Some("cancelled")
    );
    let row = world.rows.one("alicia_tool_uses", "id", id.as_str());
    assert_eq!(text(row, "status"), "cancelled");
    assert!(is_null(row, "tool_result"));
    assert!(world.annals.is_answered(&id));
}

#[test]
fn a_question_is_a_tool_of_the_client() {
    let mut world = running();
    let kind = CallKind::question("Sure?", Some(json!({"type": "boolean"})));
    world.call("t1", "c1", kind, Executor::Anyone);
    let bodies = world.bodies();
    let asked = request(&bodies[0]);
    assert_eq!((asked.tool_name.as_str(), asked.execution), ("question", Execution::Client));
    assert_eq!(asked.parameters.get_str("text"), Some("Sure?"));
    assert!(asked.parameters.contains_key("schema"));
}

#[test]
fn what_does_not_fit_into_an_envelope_is_described() {
    let mut world = running();
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    for (call, output) in
        [("c1", json!("x".repeat(2_000_000))), ("c2", deep), ("c3", json!(vec![0; 200_000]))]
    {
        world.call("t1", call, tool(output.clone()), Executor::Agent);
        world.answer("t1", call, CallEnd::done(output.clone()), &worker());
        // Draining checks that a client can read it.
        let bodies = world.bodies();
        let result = result(&bodies[1]).result.as_ref().and_then(|result| result.as_map()).expect("a map");
        assert_eq!(result.get_int("bytes"), Some(i64::try_from(output.to_string().len()).unwrap()));
        assert!(result.get_str("preview").is_some_and(|preview| preview.len() <= 4_096));
        assert!(request(&bodies[0]).parameters.contains_key("truncated"));
    }
    let rows = world.rows.of("alicia_tool_uses", "message_id", "am_t1_out");
    assert!(rows.iter().all(|row| !text(row, "tool_result").contains("truncated")), "stored in full");
}

#[test]
fn arguments_are_a_map_whatever_they_are() {
    let mut world = running();
    world.call("t1", "c1", tool(json!(null)), Executor::Agent);
    world.call("t1", "c2", tool(json!([1])), Executor::Agent);
    let bodies = world.bodies();
    assert!(request(&bodies[0]).parameters.is_empty());
    assert!(request(&bodies[1]).parameters.contains_key("value"));
    world.finish("t1", TurnEnd::complete());
    assert_eq!(kinds(&world.bodies()), [7, 7, 16], "what is open at the end is cancelled");
}

#[test]
fn the_uses_that_are_remembered_are_bounded() {
    let mut world = running();
    let mut ids = Vec::new();
    for number in 0..300 {
        let call = format!("c{number}");
        world.call("t1", &call, tool(json!({})), Executor::Agent);
        world.answer("t1", &call, CallEnd::done(json!(1)), &worker());
        ids.push(request(&world.bodies()[0]).id.clone());
    }
    assert!(!world.annals.is_answered(&ids[0]) && world.annals.is_answered(&ids[299]));
    assert!(world.annals.state().len() < 64 << 10);
}

#[test]
fn al_070_a_tool_that_its_client_has_cancelled_is_stored_as_such() {
    let mut world = running();
    let end = |name: &str, message: &str| {
        CallEnd::Failed(CallError { name: name.into(), message: message.into(), detail: json!(null) })
    };
    for (call, end, status, message) in [
        ("c1", end("TOOL_CANCELLED", ""), "cancelled", "cancelled"),
        ("c2", end("cancelled", "by the user"), "cancelled", "cancelled: by the user"),
        ("c3", end("execution_error", ""), "error", "execution_error"),
    ] {
        world.call("t1", call, tool(json!({})), Executor::Agent);
        world.answer("t1", call, end, &worker());
        let bodies = world.bodies();
        let (asked, given) = (request(&bodies[0]), result(&bodies[1]));
        assert!(given.error_message.as_ref().is_none_or(|message| !message.0.is_empty()));
        let row = world.rows.one("alicia_tool_uses", "id", asked.id.as_str());
        assert_eq!((text(row, "status"), text(row, "error_message")), (status, message));
    }
}

#[test]
fn al_117_a_failing_tool_is_told_in_the_words_of_the_protocol_whoever_ran_it() {
    let mut world = running();
    let names = [
        ("tool_error", "execution_error"),
        ("mcp_error", "execution_error"),
        ("unavailable", "execution_error"),
        ("failure", "execution_error"),
        ("gone", "execution_error"),
        ("method_not_found", "unknown_tool"),
        ("invalid_params", "invalid_parameters"),
        ("ACT_TIMEOUT", "timeout"),
    ];
    let runners = [Executor::Agent, Executor::Attachment("att-1".into()), Executor::Device("lab-1".into())];
    for (number, (name, word)) in names.into_iter().enumerate() {
        let (call, runner) = (format!("c{number}"), runners[number % runners.len()].clone());
        world.call("t1", &call, tool(json!({})), runner);
        let end = CallEnd::Failed(CallError::new(name, "no luck"));
        world.answer("t1", &call, end, &Actor::server());
        let bodies = world.bodies();
        let told = result(&bodies[1]);
        let code = match told.error_code.as_ref().expect("a word") {
            Word::Known(known) => known.name().to_owned(),
            Word::Other(other) => other.clone(),
        };
        assert_eq!(code, word, "{name}");
        let row = world.rows.one("alicia_tool_uses", "id", told.request_id.as_ref().unwrap().as_str());
        assert_eq!(text(row, "error_message"), format!("{word}: no luck"));
    }
}
