use super::*;
use crate::matrix::Trigger;

fn internal() -> Rig {
    let config = ClientConfig { mode: Mode::Internal, ..ClientConfig::new("vs_1") };
    let mut rig = Rig::new(config);
    rig.client.show(shop(), rig.now).unwrap();
    rig.input(Input::Opened);
    rig.say(ServerEvent::SessionConnected(Box::new(SessionConnected {
        mode: Mode::Internal,
        ..connected()
    })));
    rig.client.attached(None, "websocket", rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said().last(), Some(&"provider.attached"));
    rig.state = State::Connecting;
    rig.say(ServerEvent::ServerReady(ServerReady { context_version: 1 }));
    rig.go(State::Idle, "server.ready");
    rig.forget();
    rig
}

fn thinking() -> Rig {
    let mut rig = internal();
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.client.stop(InputEndReason::PttRelease, rig.now).unwrap();
    rig.drain();
    rig
}

fn reports(rig: &Rig) -> Vec<(State, State, String)> {
    let reports = rig.sent.iter().filter_map(|(_, event)| {
        if let ClientEvent::StateReport(report) = event {
            Some((report.previous, report.state, report.trigger.clone()))
        } else {
            None
        }
    });
    reports.collect()
}

#[test]
fn vip_087_every_transition_is_reported() {
    let mut rig = thinking();
    rig.client.happened(Trigger::ResponseAudio, rig.now).unwrap();
    rig.client.interrupt(rig.now).unwrap();
    rig.client.cancel(InputCancelReason::User, rig.now).unwrap();
    rig.drain();
    let triggers: Vec<String> = reports(&rig).into_iter().map(|(_, _, trigger)| trigger).collect();
    assert_eq!(triggers, ["input.start", "input.end", "response.audio", "input.barge_in", "input.cancel"]);
    for (previous, state, trigger) in reports(&rig) {
        let trigger = Trigger::from_name(&trigger).unwrap();
        assert_eq!(crate::matrix::transition(previous, trigger), Some(state));
    }
    // What comes back of it is not news, however late.
    rig.state_seq = 2;
    rig.state = State::Idle;
    rig.go(State::UserSpeaking, "input.start");
    assert_eq!(rig.client.state(), State::Idle);
    // Nothing else about it is for the server.
    assert!(rig.said().iter().all(|name| *name == "state.report"));
    // What cannot be is not reported.
    assert_eq!(rig.client.happened(Trigger::AudioComplete, rig.now), Err(CommandError::State(State::Idle)));
}

#[test]
fn vip_088_what_a_provider_may_not_do_is_not_done() {
    let mut rig = thinking();
    for (action, parameters, expected) in [
        ("gone", json!({}), "ACT_NOT_FOUND"),
        ("hidden", json!({}), "ACT_NOT_VISIBLE"),
        ("off", json!({}), "ACT_DISABLED"),
        ("press", json!({"n": "one"}), "ACT_INVALID_PARAMETERS"),
        ("go", json!({"target": "admin"}), "ACT_TARGET_UNKNOWN"),
        ("count", json!({"value": "five"}), "ACT_TYPE_MISMATCH"),
    ] {
        let refused = rig.client.provider_call("i-1", action, &parameters, rig.now).unwrap_err();
        assert_eq!(refused.code.name(), expected);
    }
    rig.drain();
    assert!(rig.executed().is_empty());
    assert_eq!(rig.client.state(), State::AiThinking);

    rig.client.provider_call("i-2", "press", &json!({"n": 1}), rig.now).unwrap();
    rig.drain();
    assert_eq!(
        (rig.executed()[0].parameters.to_string().as_str(), rig.client.state()),
        (r#"{"element_id":"b","n":1}"#, State::InvokeAction)
    );
    rig.client.finish("i-2", Outcome::Done(Some(json!("ok"))), None, rig.now).unwrap();
    rig.drain();
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Result(result) if result.data == Some(json!("ok"))))
    );
    assert_eq!((rig.client.state(), rig.results().len()), (State::AiThinking, 0));
    // Nor is anything done twice.
    assert!(rig.client.provider_call("i-2", "press", &json!({"n": 1}), rig.now).is_err());
}

#[test]
fn a_sensitive_call_of_a_provider_waits_for_the_user() {
    let mut rig = thinking();
    rig.client.provider_call("i-1", "cancel", &json!({}), rig.now).unwrap();
    rig.drain();
    assert!(rig.executed().is_empty());
    rig.client.decide("i-1", true, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.executed().len(), 1);

    let mut rig = thinking();
    rig.client.provider_call("i-1", "cancel", &json!({}), rig.now).unwrap();
    rig.client.decide("i-1", false, rig.now).unwrap();
    rig.drain();
    assert!(rig.executed().is_empty());
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Result(result) if code(result) == "ACT_CANCELLED"))
    );
    assert_eq!(rig.client.state(), State::AiThinking);
}

#[test]
fn functions_of_the_server_are_called_over_the_server() {
    let mut rig = thinking();
    rig.client.provider_call("i-1", "lookup", &json!({}), rig.now).unwrap();
    rig.drain();
    let ClientEvent::FunctionCall(call) = &rig.sent.last().unwrap().1 else { panic!("a call") };
    assert_eq!((call.name.as_str(), rig.client.state()), ("lookup", State::AiThinking));
    let result = FunctionResult {
        invocation_id: "i-1".into(),
        status: ResultStatus::Success,
        data: Some(json!(1)),
        error: None,
    };
    rig.say(ServerEvent::FunctionResult(Box::new(result.clone())));
    assert!(rig.events.contains(&Event::Function(Box::new(result))));
}

#[test]
fn what_was_said_is_put_on_record() {
    let mut rig = internal();
    let item = HistoryItem {
        seq: 0,
        id: "h-1".into(),
        role: Role::User,
        kind: HistoryKind::Message,
        text: Some("hi".into()),
        status: HistoryStatus::Complete,
        turn_id: None,
        response_id: None,
        action_id: None,
        data: None,
        ts: 1,
        metadata: serde_json::Map::new(),
    };
    rig.client.append_history(vec![item.clone()], rig.now).unwrap();
    assert_eq!(rig.client.append_history(vec![item; 51], rig.now), Err(CommandError::TooLong));
    rig.drain();
    assert_eq!(rig.said(), ["history.append"]);
    assert!(!rig.client.hear(&packet(), rig.now));
    let mut external = Rig::idle();
    assert_eq!(external.client.attached(None, "websocket", external.now), Err(CommandError::Mode));
}
