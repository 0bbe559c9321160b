//! Tools that run on this side.

use crate::Value;
use crate::message::ToolError;

use super::*;

fn failed(result: &ToolUseResult, error: ToolError) {
    assert!(!result.success);
    assert_eq!(result.error_code, Some(Word::Known(error)));
}

fn run(lab: &mut Lab) -> ToolRun {
    assert!(matches!(lab.next(), ConversationEvent::ToolUsed(_)));
    let event = lab.next();
    let ConversationEvent::RunTool(run) = event else { panic!("{event:?}") };
    run
}

fn done() -> ToolOutcome {
    ToolOutcome::Done(Value::from("12:00"))
}

#[test]
fn al_061_what_the_server_runs_is_told_and_left_alone() {
    let (mut lab, _) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Server, None));
    assert!(matches!(lab.next(), ConversationEvent::ToolUsed(_)));
    let result = tools::failure(&id("atu_1"), ToolError::ExecutionError, "no".to_owned(), None);
    lab.hear(-2, result);
    assert!(matches!(lab.next(), ConversationEvent::ToolResult(_)));
    lab.live(400_000);
    assert!(lab.sent.iter().all(|sent| !matches!(sent.body, Body::ToolUseResult(_))));
}

#[test]
fn al_062_every_request_of_a_client_tool_has_one_result() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    let mut requests = Vec::new();
    for number in 1..=4 {
        let request = format!("atu_{number}");
        lab.hear(-number, tool(&request, "clock", Execution::Client, Some(5_000)));
        let run = run(&mut lab);
        assert_eq!((run.name.as_str(), run.budget_ms), ("clock", 5_000));
        assert_eq!(run.parameters.0.get_str("tz"), Some("UTC"));
        requests.push(run.id);
    }
    lab.nothing();
    let text = || Pii("broken".to_owned());
    let outcomes = [
        (done(), None),
        (ToolOutcome::Invalid(text()), Some(ToolError::InvalidParameters)),
        (
            ToolOutcome::Failed { message: text(), partial: Some(true.into()) },
            Some(ToolError::ExecutionError),
        ),
    ];
    for (request, (outcome, error)) in requests.iter().zip(outcomes) {
        lab.client.tool_done(key, request, outcome, lab.now);
        lab.client.tool_done(key, request, done(), lab.now);
        lab.drain();
        let result = result_of(lab.take());
        assert_eq!(result.id.as_str(), format!("{request}_result"));
        assert_eq!(result.request(), request);
        assert_eq!(result.success, error.is_none());
        if let Some(error) = error {
            failed(&result, error);
        }
        assert!(lab.sent.is_empty(), "one result each");
    }
    lab.hear(-5, tool("atu_5", "abacus", Execution::Client, None));
    failed(&result_of(lab.take()), ToolError::UnknownTool);
    assert!(matches!(lab.next(), ConversationEvent::ToolUsed(_)));
    lab.nothing();
}

#[test]
fn al_063_a_request_without_a_known_execution_is_refused_and_not_run() {
    let (mut lab, _) = Lab::joined_with(&["clock"]);
    for (stanza, execution) in [(-1, Some("moon")), (-2, None)] {
        let mut body = tool("atu_1", "clock", Execution::Client, None).to_map(Some(&id(CONV)));
        body.remove("execution");
        if let Some(execution) = execution {
            body.insert("execution", execution);
        }
        lab.hear(stanza, Body::Unknown { number: 6, body });
        let sent = lab.take();
        let Body::ErrorMessage(report) = sent.body else { panic!() };
        assert_eq!((report.code, report.originating_id), (101, Some(id("atu_1"))));
    }
    lab.nothing();
    lab.hear(-3, start("am_a", "am_q"));
    assert!(matches!(lab.next(), ConversationEvent::Started { .. }), "and it leaves no hole");
}

#[test]
fn al_064_thirty_seconds_unless_said_otherwise_and_nothing_out_of_range() {
    let (mut lab, _) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Client, None));
    assert_eq!(run(&mut lab).budget_ms, 30_000);
    for (stanza, time) in [(-2, 0), (-3, 300_001), (-4, -1)] {
        lab.hear(stanza, tool(&format!("atu{stanza}"), "clock", Execution::Client, Some(time)));
        failed(&result_of(lab.take()), ToolError::InvalidParameters);
        assert!(matches!(lab.next(), ConversationEvent::ToolUsed(_)));
        lab.nothing();
    }
}

#[test]
fn al_065_a_tool_that_takes_too_long_is_stopped_and_timed_out() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Client, Some(5_000)));
    run(&mut lab);
    lab.pass(4_999);
    assert!(lab.sent.is_empty());
    lab.pass(1);
    let result = result_of(lab.take());
    failed(&result, ToolError::Timeout);
    assert_eq!(result.error_message, Some(Pii("clock: 5000 ms elapsed".to_owned())));
    assert_eq!(lab.next(), ConversationEvent::StopTool(id("atu_1")));
    lab.client.tool_done(key, &id("atu_1"), done(), lab.now);
    lab.drain();
    lab.nothing();
}

#[test]
fn al_068_either_is_run_only_where_it_was_declared() {
    let (mut lab, key) = Lab::joined();
    lab.hear(-1, tool("atu_1", "clock", Execution::Either, None));
    assert!(matches!(lab.next(), ConversationEvent::ToolUsed(_)));
    lab.nothing();
    lab.client.declare_tool(key, "clock", lab.now).unwrap();
    lab.drain();
    let Body::Configuration(configuration) = lab.take().body else { panic!() };
    assert_eq!(configuration.last_sequence_seen, None);
    assert_eq!(configuration.tools().collect::<Vec<_>>(), ["clock"]);
    // A stanza on its way is not taken for missed, whatever the answer says of the head.
    lab.hear(0, theirs(-2));
    lab.hear(-2, tool("atu_2", "clock", Execution::Either, None));
    run(&mut lab);
    lab.reconnect();
    let Body::Configuration(configuration) = lab.take().body else { panic!() };
    assert_eq!(configuration.tools().collect::<Vec<_>>(), ["clock"]);
}

#[test]
fn a_result_is_given_again_for_a_request_that_comes_again_and_nothing_is_run_twice() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    let request = tool("atu_1", "clock", Execution::Client, Some(60_000));
    lab.hear(-1, request.clone());
    run(&mut lab);
    lab.hear(-1, request.clone());
    lab.nothing();
    lab.client.tool_done(key, &id("atu_1"), done(), lab.now);
    lab.drain();
    let first = result_of(lab.take());
    lab.hear(0, ack(2));
    lab.hear(-1, request.clone());
    assert_eq!(result_of(lab.take()), first);
    lab.hear(0, ack(3));
    // Under another stanza, too.
    lab.hear(-2, request.clone());
    assert_eq!(result_of(lab.take()), first);
    lab.hear(0, ack(4));
    lab.live(5 * 60_000);
    lab.hear(-1, request);
    assert!(lab.sent.is_empty(), "forgotten by now, and still not run");
    assert!(lab.events.is_empty());
}

#[test]
fn a_result_that_was_not_acknowledged_is_given_again_on_the_next_connection() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Client, Some(60_000)));
    run(&mut lab);
    lab.input(Input::Closed(None));
    // It goes on running, and ends while there is no connection.
    lab.client.tool_done(key, &id("atu_1"), done(), lab.now);
    lab.drain();
    lab.again();
    lab.handshake(-1, -1);
    assert!(result_of(lab.take()).success);
    lab.reconnect();
    lab.handshake(-1, -1);
    assert!(result_of(lab.take()).success, "it was not acknowledged");
    lab.hear(0, ack(2));
    lab.reconnect();
    lab.handshake(-1, -1);
    assert!(lab.sent.is_empty());
}

#[test]
fn what_a_replay_shows_to_be_settled_is_not_run() {
    let (mut lab, _) = Lab::joined_with(&["clock"]);
    lab.hear(-1, start("am_a", "am_q"));
    lab.reconnect();
    lab.handshake(-1, -4);
    lab.hear(-2, tool("atu_1", "clock", Execution::Client, None));
    lab.hear(-3, tools::failure(&id("atu_1"), ToolError::Timeout, "late".to_owned(), None));
    lab.events.clear();
    lab.hear(-4, tool("atu_2", "clock", Execution::Client, None));
    assert_eq!(run(&mut lab).id, id("atu_2"));
    lab.nothing();
}

#[test]
fn what_the_server_settles_is_stopped_here() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Client, None));
    run(&mut lab);
    lab.hear(-2, tools::failure(&id("atu_1"), ToolError::Cancelled, "stopped".to_owned(), None));
    assert_eq!(lab.next(), ConversationEvent::StopTool(id("atu_1")));
    assert!(matches!(lab.next(), ConversationEvent::ToolResult(_)));
    lab.client.tool_done(key, &id("atu_1"), done(), lab.now);
    lab.drain();
    lab.nothing();
}

#[test]
fn a_result_that_fits_no_frame_is_a_failure() {
    let (mut lab, key) = Lab::joined_with(&["clock"]);
    lab.hear(-1, tool("atu_1", "clock", Execution::Client, None));
    run(&mut lab);
    let huge = ToolOutcome::Done(Value::from("x".repeat(1 << 20)));
    lab.client.tool_done(key, &id("atu_1"), huge, lab.now);
    lab.drain();
    failed(&result_of(lab.take()), ToolError::ExecutionError);
}
