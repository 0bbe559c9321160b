use super::*;

#[test]
fn what_is_allowed_is_done_and_answered() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 2}));
    assert_eq!((rig.said(), rig.client.state()), (vec!["action.ack"], State::InvokeAction));
    let execution = rig.executed().remove(0);
    assert_eq!((execution.action_id.as_str(), &execution.parameters["n"]), ("press", &json!(2)));
    rig.pass(40);
    rig.client.finish("i-1", Outcome::Done(Some(json!({"ok": true}))), None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.client.state(), State::AiThinking);
    let result = rig.take_result();
    assert_eq!((result.status, result.event), (ResultStatus::Success, ResultEvent::ActionSuccess));
    assert_eq!((result.executed, result.duration_ms, result.data), (true, 40, Some(json!({"ok": true}))));
    assert_eq!(rig.sent.last().unwrap().0.role, Role::User);
    assert_eq!(rig.client.finish("i-1", Outcome::Done(None), None, rig.now), Err(CommandError::NoCall));
}

#[test]
fn vip_050_parameters_are_checked_before_anything_is_done() {
    let mut rig = Rig::thinking();
    for (number, (action, kind, parameters, expected)) in [
        ("gone", "button", json!({}), "ACT_NOT_FOUND"),
        ("off", "button", json!({"element_id": "o"}), "ACT_DISABLED"),
        ("hidden", "button", json!({"element_id": "h"}), "ACT_NOT_VISIBLE"),
        ("press", "button", json!({"element_id": "b"}), "ACT_INVALID_PARAMETERS"),
        ("press", "button", json!({"element_id": "b", "n": "2"}), "ACT_INVALID_PARAMETERS"),
        ("press", "button", json!({"element_id": "other", "n": 2}), "ACT_INVALID_PARAMETERS"),
        ("go", "navigation", json!({"target": "admin"}), "ACT_TARGET_UNKNOWN"),
        ("cancel", "button", json!({"element_id": "c"}), "ACT_CONFIRMATION_REQUIRED"),
    ]
    .into_iter()
    .enumerate()
    {
        rig.invoke(&format!("i-{number}"), action, kind, parameters);
        assert!(rig.executed().is_empty(), "{action}");
        let result = rig.take_result();
        assert_eq!((code(&result), result.executed, result.status), (expected, false, ResultStatus::Error));
        assert!(!result.event.is_success());
    }
    // Of an older screen, another reason is given.
    rig.invoke_as("i-old", "gone", "button", json!({}), |invoke| invoke.context_version = 1);
    let mut screen = shop();
    screen["narration"] = json!("New.");
    rig.take_result();
    rig.client.show(screen, rig.now).unwrap();
    rig.invoke_as("i-older", "gone", "button", json!({}), |invoke| invoke.context_version -= 1);
    assert_eq!(code(&rig.take_result()), "ACT_STALE_CONTEXT");
}

#[test]
fn vip_051_values_of_the_wrong_type_are_refused() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "count", "input", json!({"element_id": "n", "input_type": "number", "value": "5"}));
    let result = rig.take_result();
    assert_eq!((code(&result), result.executed), ("ACT_TYPE_MISMATCH", false));
    assert!(rig.executed().is_empty());
    rig.invoke("i-2", "count", "input", json!({"element_id": "n", "input_type": "number", "value": 5}));
    assert_eq!(rig.executed().len(), 1);
}

#[test]
fn vip_052_every_call_has_exactly_one_result() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    assert_eq!(rig.client.finish("i-1", Outcome::Done(None), None, rig.now), Err(CommandError::NoCall));
    rig.drain();
    rig.take_result();
    // Whoever does not answer is answered for.
    rig.invoke("i-2", "press", "button", json!({"element_id": "b", "n": 1}));
    rig.pass(9_999);
    assert_eq!(rig.results().len(), 1);
    rig.pass(1);
    let late = rig.take_result();
    assert_eq!((code(&late), late.executed), ("ACT_TIMEOUT", true));
    assert!(
        rig.events
            .contains(&Event::Abandon { invocation_id: "i-2".into(), reason: ActionCancelReason::Timeout })
    );
    assert_eq!(rig.client.finish("i-2", Outcome::Done(None), None, rig.now), Err(CommandError::NoCall));
    assert_eq!(rig.results().len(), 2);
}

#[test]
fn vip_053_nothing_is_done_twice() {
    let mut rig = Rig::thinking();
    let parameters = || json!({"element_id": "b", "n": 1});
    rig.invoke("i-1", "press", "button", parameters());
    // While it is being done.
    rig.invoke_as("i-1", "press", "button", parameters(), |invoke| invoke.attempt = 2);
    assert_eq!((rig.executed().len(), rig.said()), (1, vec!["action.ack", "action.ack"]));
    rig.client.finish("i-1", Outcome::Done(Some(json!(1))), None, rig.now).unwrap();
    rig.drain();
    // And afterwards, whatever it says then.
    rig.invoke_as("i-1", "press", "button", json!({"element_id": "b", "n": 9}), |invoke| invoke.attempt = 3);
    assert_eq!(rig.executed().len(), 1);
    let results = rig.results();
    assert_eq!(results.len(), 2);
    assert!(results[0] == results[1]);
}

#[test]
fn results_are_kept_for_a_while_and_not_for_ever() {
    let config = ClientConfig { max_results: 2, ..ClientConfig::new("vs_1") };
    let mut rig = Rig::idle_as(config, connected());
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    for number in 0..3 {
        rig.invoke(&format!("i-{number}"), "press", "button", json!({}));
        rig.take_result();
    }
    assert!(rig.client.calls.results.get("i-0").is_none());
    assert!(rig.client.calls.results.get("i-1").is_some() && rig.client.calls.results.get("i-2").is_some());
}

#[test]
fn vip_054_half_done_is_not_done() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    let half = Outcome::Failed { message: "two of three".into(), executed: true };
    rig.client.finish("i-1", half, None, rig.now).unwrap();
    rig.drain();
    let result = rig.take_result();
    assert_eq!((result.status, code(&result)), (ResultStatus::Error, "ACT_EXECUTION_FAILED"));
    assert_eq!((result.executed, result.event), (true, ResultEvent::ActionFailure));
}

#[test]
fn vip_059_a_new_page_is_narrated() {
    let mut rig = Rig::thinking();
    let mut home = shop();
    home["route"] = json!({"id": "home"});
    home["narration"] = json!("Home.");
    rig.invoke("i-1", "go", "navigation", json!({"target": "home"}));
    assert_eq!(rig.client.finish("i-1", Outcome::Done(None), None, rig.now), Err(CommandError::NoNarration));
    rig.client.finish("i-1", Outcome::Done(None), Some(home.clone()), rig.now).unwrap();
    rig.drain();
    let result = rig.take_result();
    assert_eq!(result.event, ResultEvent::NavigationSuccess);
    assert_eq!(result.context.unwrap()["narration"], "Home.");
    assert!(rig.updates().is_empty());

    // Shown while it was done, it goes ahead of the result.
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "go", "navigation", json!({"target": "home"}));
    rig.client.show(home.clone(), rig.now).unwrap();
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["action.ack", "state.update", "action.result"]);

    // The same page once more is said once more.
    rig.go(State::AiThinking, "action.result");
    rig.invoke("i-2", "go", "navigation", json!({"target": "home"}));
    let before = rig.client.screen.version();
    rig.client.finish("i-2", Outcome::Done(None), Some(home), rig.now).unwrap();
    rig.drain();
    let context = rig.take_result().context.unwrap();
    assert_eq!((&context["mode"], context["context_version"].as_u64()), (&json!("full"), Some(before + 1)));

    // What failed needs no new page.
    rig.invoke("i-3", "go", "navigation", json!({"target": "home"}));
    let failed = Outcome::Failed { message: "no".into(), executed: false };
    rig.client.finish("i-3", failed, None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.take_result().event, ResultEvent::NavigationFailure);
}

#[test]
fn a_call_that_crosses_an_interruption_is_not_done() {
    let mut rig = Rig::thinking();
    rig.client.interrupt(rig.now).unwrap();
    rig.drain();
    let turn_id = rig.sent[0].0.turn_id.clone();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    assert!(rig.executed().is_empty());
    assert_eq!(rig.said(), ["input.barge_in", "action.result", "input.barge_in"]);
    let result = &rig.results()[0];
    assert_eq!((code(result), result.executed), ("ACT_USER_INTERRUPTED", false));
    assert_eq!(rig.sent[2].0.turn_id, turn_id);
    // The server refuses the first, and takes the second.
    let fault = crate::error::Fault::new(crate::error::Code::ProtoInvalidTransition)
        .about(rig.sent[0].0.id.clone())
        .with(json!({"state": "invoke_action", "state_seq": rig.state_seq}));
    rig.say(ServerEvent::error(&fault));
    assert_eq!(rig.client.state(), State::UserSpeaking);
    rig.go(State::AiThinking, "action.result");
    assert_eq!(rig.client.state(), State::UserSpeaking);
    rig.go(State::UserSpeaking, "input.barge_in");
    assert_eq!(rig.client.state(), State::UserSpeaking);
    assert!(rig.client.hear(&packet(), rig.now));
}

#[test]
fn calls_come_only_when_something_can_be_done() {
    let mut rig = Rig::idle();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    assert!(rig.executed().is_empty());
    assert_eq!(code(&rig.results()[0]), "PROTO_INVALID_TRANSITION");
    // Beside speech only what is said to be possible beside it.
    let mut rig = Rig::speaking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    assert!(rig.executed().is_empty());
    rig.invoke_as("i-2", "aside", "button", json!({"element_id": "a"}), |invoke| invoke.parallel = true);
    assert_eq!((rig.executed().len(), rig.client.state()), (1, State::AiSpeaking));
    rig.client.finish("i-2", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.client.state(), State::AiSpeaking);
}

#[test]
fn without_a_follow_up_the_server_says_when_it_is_over() {
    let mut rig = Rig::thinking();
    rig.invoke_as("i-1", "press", "button", json!({"element_id": "b", "n": 1}), |invoke| {
        invoke.follow_up = false
    });
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.client.state(), State::InvokeAction);
    rig.say(ServerEvent::ActionDone(ActionDone { invocation_id: "i-1".into() }));
    rig.go(State::Idle, "action.done");
    assert_eq!(rig.client.state(), State::Idle);
}

#[test]
fn what_is_called_off_still_has_a_result() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    let cancel = ActionCancel { invocation_id: "i-1".into(), reason: ActionCancelReason::User };
    rig.say(ServerEvent::ActionCancel(cancel));
    assert!(
        rig.events
            .contains(&Event::Abandon { invocation_id: "i-1".into(), reason: ActionCancelReason::User })
    );
    assert!(rig.results().is_empty());
    rig.client.finish("i-1", Outcome::Cancelled { executed: false }, None, rig.now).unwrap();
    rig.drain();
    assert_eq!(code(&rig.results()[0]), "ACT_CANCELLED");
}

#[test]
fn there_is_an_end_to_what_can_be_done_at_once() {
    let config = ClientConfig { max_calls: 2, ..ClientConfig::new("vs_1") };
    let mut rig = Rig::idle_as(config, connected());
    rig.go(State::AiSpeaking, "server.announce");
    for number in 0..3 {
        let id = format!("i-{number}");
        rig.invoke_as(&id, "aside", "button", json!({"element_id": "a"}), |invoke| invoke.parallel = true);
    }
    assert_eq!((rig.executed().len(), code(&rig.results()[0])), (2, "ACT_EXECUTION_FAILED"));
}

#[test]
fn vip_079_a_password_is_handed_to_the_app_and_nobody_else() {
    let mut rig = Rig::thinking();
    let parameters = json!({"element_id": "p", "input_type": "password", "value": "hunter2"});
    rig.invoke("i-1", "secret", "input", parameters);
    assert_eq!(rig.executed()[0].parameters["value"], "hunter2");
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    assert!(!format!("{:?} {:?}", rig.client, rig.events).contains("hunter2"));
    assert!(rig.results().iter().all(|result| !serde_json::to_string(result).unwrap().contains("hunter2")));
}

#[test]
fn answers_have_a_length() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    let long = Outcome::Done(Some(json!("x".repeat(33 << 10))));
    assert_eq!(rig.client.finish("i-1", long, None, rig.now), Err(CommandError::TooLong));
    assert_eq!(rig.client.finish("i-1", Outcome::Done(None), None, rig.now), Ok(()));
}
