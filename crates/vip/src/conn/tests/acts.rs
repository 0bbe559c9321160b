//! What the app is asked to do, and what it answers.

use super::*;

/// Thinking about what was asked.
fn thinking() -> Stage {
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "switch the lamp on");
    stage.said();
    stage
}

/// Speaking, with everything said that will be.
fn speaking() -> Stage {
    let mut stage = thinking();
    stage.words("A whole sentence. And another one. And a third. ");
    assert_eq!(stage.state(), State::AiSpeaking);
    stage.said();
    stage
}

#[test]
fn vip_062_success_without_a_sequel_leads_to_idle() {
    let mut stage = thinking();
    let turn = stage.turn.clone().unwrap();
    stage.call("call-1", "lamp.on", json!({}), json!({ "follow_up": false }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.invoke", "state.changed"]);
    assert_eq!(said[0]["data"]["follow_up"], false);
    let invocation = said[0]["data"]["invocation_id"].clone();
    stage.succeed(&invocation, "lamp.on", Value::Null);
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.done", "state.changed", "response.done"]);
    assert_eq!(said[0]["data"]["invocation_id"], invocation);
    assert_eq!(said[1]["data"]["state"], "idle");
    assert_eq!(said[1]["data"]["trigger"], "action.done");
    assert!(stage.told("call-1").unwrap().is_ok());
    assert_eq!(stage.stopped(), [turn]);
}

#[test]
fn vip_061_a_failure_is_thought_about_even_without_a_sequel() {
    let mut stage = thinking();
    stage.call("call-1", "lamp.on", json!({}), json!({ "follow_up": false }));
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    let result = json!({ "invocation_id": invocation, "action_id": "lamp.on", "status": "error",
        "event": "action.failure", "executed": true, "duration_ms": 1,
        "error": { "code": "ACT_EXECUTION_FAILED", "message": "it is broken" } });
    stage.send("action.result", None, result);
    assert_eq!(kinds(&stage.said()), ["state.changed"]);
    assert_eq!(stage.state(), State::AiThinking);
    assert_eq!(stage.told("call-1"), Some(Err("ACT_EXECUTION_FAILED".to_owned())));
    assert!(stage.stopped().is_empty());
}

#[test]
fn one_thing_is_done_after_another_and_not_without_end() {
    let mut stage = thinking();
    for number in 0..34 {
        stage.call(&format!("call-{number}"), "lamp.on", json!({}), Value::Null);
    }
    // The first is being done, and so many wait for it.
    assert_eq!(stage.told("call-32"), None);
    assert_eq!(stage.told("call-33"), Some(Err("ACT_EXECUTION_FAILED".to_owned())));
    let first = stage.one("action.invoke")["data"]["invocation_id"].clone();
    stage.succeed(&first, "lamp.on", Value::Null);
    let said = stage.said();
    assert_eq!(kinds(&said), ["state.changed", "action.invoke", "state.changed"]);
    assert_ne!(said[1]["data"]["invocation_id"], first);
}

#[test]
fn a_result_is_of_what_was_asked_for() {
    let mut stage = thinking();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    stage.succeed(&json!("i-9"), "lamp.on", Value::Null);
    assert_eq!(stage.codes(), ["ACT_LATE_RESULT"]);
    stage.succeed(&invocation, "pay", Value::Null);
    assert_eq!(stage.codes(), ["PROTO_MALFORMED"]);
    assert_eq!((stage.state(), stage.told("call-1")), (State::InvokeAction, None));
    stage.succeed(&invocation, "lamp.on", json!({ "lit": true }));
    let told = stage.told("call-1").unwrap().unwrap();
    assert_eq!(told, json!({ "status": "success", "data": { "lit": true } }));
}

#[test]
fn vip_060_what_is_not_answered_is_asked_once_more_and_then_given_up() {
    let mut stage = thinking();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    let first = stage.one("action.invoke");
    stage.pass(2_999);
    assert!(stage.said().is_empty());
    stage.pass(1);
    let again = stage.one("action.invoke");
    assert_eq!(again["data"]["invocation_id"], first["data"]["invocation_id"]);
    assert_eq!((&first["data"]["attempt"], &again["data"]["attempt"]), (&Value::Null, &json!(2)));
    stage.pass(7_999);
    assert!(stage.said().is_empty(), "ten seconds, and one to come back");
    stage.pass(1);
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.cancel", "state.changed"]);
    assert_eq!(
        (&said[0]["data"]["reason"], &said[1]["data"]["reason"]),
        (&json!("timeout"), &json!("ACT_TIMEOUT"))
    );
    assert_eq!(stage.told("call-1"), Some(Err("ACT_TIMEOUT".to_owned())));
    stage.succeed(&first["data"]["invocation_id"], "lamp.on", Value::Null);
    assert_eq!(stage.codes(), ["ACT_LATE_RESULT"]);
    assert_eq!((stage.state(), stage.told("call-1").unwrap().is_err()), (State::AiThinking, true));
}

#[test]
fn what_is_acknowledged_is_not_asked_again() {
    let mut stage = thinking();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    stage.send("action.ack", None, json!({ "invocation_id": invocation, "started": true }));
    stage.pass(10_999);
    assert!(stage.said().is_empty());
}

#[test]
fn vip_063_only_what_is_meant_for_it_is_done_while_the_system_speaks() {
    let mut stage = speaking();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    assert!(stage.said().is_empty());
    assert_eq!(stage.told("call-1"), Some(Err("ACT_EXECUTION_FAILED".to_owned())));
    stage.call("call-2", "aside", json!({}), Value::Null);
    let invoke = stage.one("action.invoke");
    assert_eq!((invoke["data"]["parallel"].clone(), stage.state()), (json!(true), State::AiSpeaking));
    stage.succeed(&invoke["data"]["invocation_id"], "aside", Value::Null);
    assert!(stage.said().is_empty() && stage.told("call-2").unwrap().is_ok());
    // Nobody waits for ever for what is done aside, either.
    stage.call("call-3", "aside", json!({}), Value::Null);
    stage.pass(11_000);
    let said = stage.said();
    assert_eq!(kinds(&said), ["action.invoke", "action.invoke", "action.cancel"]);
    assert_eq!(
        (stage.told("call-3"), stage.state()),
        (Some(Err("ACT_TIMEOUT".to_owned())), State::AiSpeaking)
    );
}

#[test]
fn what_was_done_aside_is_late_once_the_user_speaks() {
    let mut stage = speaking();
    stage.call("call-1", "aside", json!({}), Value::Null);
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 0 }));
    stage.said();
    let mut shown = screen();
    shown["context_version"] = json!(2);
    let result = json!({ "invocation_id": invocation, "action_id": "aside", "status": "success",
        "event": "action.success", "executed": true, "duration_ms": 1, "context": shown });
    stage.send("action.result", None, result);
    assert_eq!(stage.codes(), ["ACT_LATE_RESULT"]);
    assert_eq!(stage.state(), State::UserSpeaking);
    // An agent that waits for it is told nevertheless; the screen is as it was (VIP-039).
    assert!(stage.told("call-1").unwrap().is_ok());
    assert_eq!(stage.connection.context.as_ref().map(|context| context.version), Some(1));
}

#[test]
fn vip_055_nothing_sensitive_is_done_by_the_server_without_consent() {
    let mut stage = speaking();
    stage.call("call-1", "wire", json!({}), Value::Null);
    assert!(stage.errands.is_empty(), "nobody was asked");
    assert_eq!(stage.told("call-1"), Some(Err("ACT_EXECUTION_FAILED".to_owned())));
    stage.call("call-2", "look.up", json!({}), Value::Null);
    assert_eq!(stage.run_errand(json!({ "data": 4 }))["name"], "look.up");
    assert_eq!(stage.told("call-2"), Some(Ok(json!(4))));

    let mut stage = thinking();
    stage.call("call-1", "wire", json!({}), Value::Null);
    assert!(stage.errands.is_empty());
    let asked = stage.one("action.invoke");
    assert_eq!(asked["data"]["type"], "confirmation");
    let agreed = json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": "ui" });
    stage.succeed(&asked["data"]["invocation_id"], "system.confirm", agreed);
    assert_eq!(stage.run_errand(json!({ "data": 5 }))["name"], "wire");
    assert_eq!(stage.told("call-1"), Some(Ok(json!(5))));
}

#[test]
fn vip_079_a_password_is_fetched_for_the_app_and_put_on_record_for_nobody() {
    let mut stage = thinking();
    stage.call("call-1", "password", json!({ "value": "[REDACTED]" }), json!({ "secret": true }));
    assert!(stage.said().is_empty(), "what it is has to be found out first");
    let errand = stage.run_errand(json!({ "args": { "value": "hunter2" } }));
    assert_eq!((&errand["errand"], &errand["call"]), (&json!("unseal"), &json!("call-1")));
    let asked = stage.one("action.invoke");
    assert_eq!(asked["data"]["parameters"]["reference_parameters"]["value"], "hunter2");
    let agreed = json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": "ui" });
    stage.succeed(&asked["data"]["invocation_id"], "system.confirm", agreed);
    assert_eq!(stage.one("action.invoke")["data"]["parameters"]["value"], "hunter2");
    let record = json!(stage.recorded()).to_string();
    assert!(record.contains("[REDACTED]") && !record.contains("hunter2"), "{record}");
}

/// The app was given a password, and is to say what became of it.
fn given_a_password() -> (Stage, Value) {
    let mut stage = thinking();
    stage.call("call-1", "password", json!({ "value": "[REDACTED]" }), json!({ "secret": true }));
    stage.run_errand(json!({ "args": { "value": "hunter2" } }));
    let asked = stage.one("action.invoke");
    let agreed = json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": "ui" });
    stage.succeed(&asked["data"]["invocation_id"], "system.confirm", agreed);
    let invoke = stage.one("action.invoke");
    (stage, invoke["data"]["invocation_id"].clone())
}

#[test]
fn vip_079_a_password_that_the_app_says_again_is_not_kept() {
    let (mut stage, invocation) = given_a_password();
    stage.succeed(&invocation, "password", json!({ "value": "hunter2", "hint": "not hunter2!" }));
    let told = stage.told("call-1").unwrap().unwrap();
    assert_eq!(told["data"], json!({ "value": "[REDACTED]", "hint": "not [REDACTED]!" }));
    // Nor is it on the screen.
    let mut shown = screen();
    shown["context_version"] = json!(2);
    shown["narration"] = json!("The password is hunter2.");
    shown["data"] = json!({ "field": "hunter2" });
    stage.end_turn(TurnEnd::complete());
    stage.send("state.update", None, shown);
    assert_eq!(stage.one("state.ack")["data"]["context_version"], 2);
    let (mut failed, invocation) = given_a_password();
    let result = json!({ "invocation_id": invocation, "action_id": "password", "status": "error",
        "event": "action.failure", "executed": false, "duration_ms": 1,
        "error": { "code": "ACT_EXECUTION_FAILED", "message": "hunter2 is too short" } });
    failed.send("action.result", None, result);
    assert_eq!(failed.told("call-1"), Some(Err("ACT_EXECUTION_FAILED".to_owned())));
    for stage in [stage, failed] {
        let kept = format!("{:?}", stage.ops);
        assert!(kept.contains("[REDACTED]") && !kept.contains("hunter2"));
    }
}

#[test]
fn vip_034_what_the_user_interrupts_is_not_done_when_its_secret_comes_late() {
    let mut stage = thinking();
    stage.call("call-1", "password", json!({ "value": "[REDACTED]" }), json!({ "secret": true }));
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    stage.send("input.text", Some("t-2"), json!({ "text": "never mind" }));
    stage.send("input.end", Some("t-2"), json!({ "reason": "text" }));
    stage.said();
    stage.run_errand(json!({ "args": { "value": "hunter2" } }));
    assert!(stage.said().is_empty());
    assert_eq!(stage.told("call-1"), Some(Err("ACT_CANCELLED".to_owned())));
}

#[test]
fn vip_036_an_interruption_calls_off_what_was_thought_of() {
    let mut stage = thinking();
    let turn = stage.turn.clone().unwrap();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    stage.call("call-2", "lamp.on", json!({}), Value::Null);
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    // While something is done, nothing can be interrupted (VIP-037).
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    assert_eq!(stage.state(), State::InvokeAction);
    let refused = json!({ "invocation_id": invocation, "action_id": "lamp.on", "status": "error",
        "event": "action.failure", "executed": false, "duration_ms": 1,
        "error": { "code": "ACT_USER_INTERRUPTED", "message": "" } });
    stage.send("action.result", None, refused);
    // The next call crosses the interruption, and is called off.
    assert_eq!(kinds(&stage.said()), ["state.changed", "action.invoke", "state.changed"]);
    stage.connection.call_ended(&CallId::new("call-2"));
    stage.feed(Input::Timeout);
    assert_eq!(kinds(&stage.said()), ["action.cancel", "state.changed"]);
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual" }));
    let said = stage.said();
    assert_eq!(kinds(&said), ["state.changed", "response.done"]);
    assert_eq!((stage.state(), &said[1]["data"]["status"]), (State::UserSpeaking, &json!("incomplete")));
    assert_eq!(stage.stopped(), [turn]);
    stage.send("input.cancel", Some("t-2"), json!({ "reason": "user" }));
    stage.type_in("t-3", "go on");
    assert!(!kinds(&stage.said()).contains(&"action.invoke"));
}

#[test]
fn what_is_over_for_the_agent_is_called_off_in_the_app() {
    let mut stage = thinking();
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    stage.call("call-2", "lamp.on", json!({}), Value::Null);
    stage.said();
    let turn = stage.turn.clone().unwrap();
    let ended = |call: &str| Event::CallEnded {
        turn: turn.clone(),
        call: CallId::new(call),
        end: CallEnd::Cancelled,
    };
    stage.commit(ended("call-2"));
    assert!(stage.said().is_empty(), "it was not asked for yet");
    stage.commit(ended("call-1"));
    assert_eq!(kinds(&stage.said()), ["action.cancel", "state.changed"]);
    assert_eq!(stage.state(), State::AiThinking);
}

#[test]
fn a_question_of_the_agent_is_asked_when_nobody_speaks() {
    let ask = |stage: &mut Stage, id: &str| {
        let turn = stage.turn.clone().unwrap();
        let schema = Some(json!({ "type": "boolean" }));
        let call = Arc::new(Call {
            id: CallId::new(id),
            kind: CallKind::question("Shall I?", schema),
            executor: Executor::Anyone,
            deadline: Timestamp::NEVER,
            batch: None,
            options: Value::Null.into(),
        });
        stage.commit(Event::CallRequested { turn, call });
    };
    let mut stage = speaking();
    ask(&mut stage, "call-1");
    assert_eq!(stage.told("call-1"), Some(Err("busy".to_owned())));
    for (answer, agreed) in [("yes please", true), ("maybe later", false), ("no", false)] {
        let mut stage = thinking();
        ask(&mut stage, "call-1");
        let asked = stage.one("response.audio");
        assert_eq!(
            (&asked["data"]["content"], &asked["data"]["expects_reply"]),
            (&json!("Shall I?"), &json!(true))
        );
        stage.feed(Input::Voice(VoiceEvent::Said { response: stage.response(), duration_ms: 0 }));
        stage.send(
            "audio.complete",
            None,
            json!({ "response_id": asked["data"]["response_id"], "played_ms": 0 }),
        );
        stage.type_in("t-2", answer);
        // What nobody has agreed to is not agreed to.
        assert_eq!(stage.told("call-1"), Some(Ok(json!(agreed))), "{answer}");
    }
}
