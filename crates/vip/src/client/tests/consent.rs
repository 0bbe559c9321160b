use super::*;

/// The server asks whether the order may be cancelled.
fn ask(rig: &mut Rig, id: &str, channel: &str, evidence: Option<Value>) {
    let mut parameters = json!({
        "reference_action_id": "cancel",
        "reference_invocation_id": "i-7",
        "reference_parameters": {"element_id": "c"},
        "prompt": "Really?",
        "channel": channel,
        "expires_at": rig.now.as_millis() + 60_000,
    });
    if let Some(evidence) = evidence {
        parameters["voice_evidence"] = evidence;
    }
    rig.invoke_as(id, "system.confirm", "confirmation", parameters, |invoke| invoke.timeout_ms = 60_000);
}

fn confirmed(rig: &mut Rig) -> String {
    ask(rig, "i-c", "ui", None);
    rig.client.decide("i-c", true, rig.now).unwrap();
    rig.drain();
    let data = rig.take_result().data.unwrap();
    data["confirmation_id"].as_str().unwrap().to_owned()
}

fn call(rig: &mut Rig, id: &str, parameters: Value, confirmation: Option<String>) {
    rig.invoke_as(id, "cancel", "button", parameters, |invoke| invoke.confirmation_id = confirmation);
}

#[test]
fn the_user_is_asked_and_the_call_follows() {
    let mut rig = Rig::thinking();
    ask(&mut rig, "i-c", "ui", None);
    let Some(Event::Ask(question)) = rig.events.iter().find(|event| matches!(event, Event::Ask(_))) else {
        panic!("a question")
    };
    assert_eq!((question.action_id.as_str(), question.prompt.as_deref()), ("cancel", Some("Really?")));
    assert_eq!(question.parameters, json!({"element_id": "c"}));
    assert!(rig.results().is_empty());
    rig.client.decide("i-c", true, rig.now).unwrap();
    rig.drain();
    let result = rig.take_result();
    let data = result.data.clone().unwrap();
    assert_eq!(
        (result.status, &data["status"], &data["channel"]),
        (ResultStatus::Success, &json!("confirmed"), &json!("ui"))
    );
    let id = data["confirmation_id"].as_str().unwrap().to_owned();
    call(&mut rig, "i-7", json!({"element_id": "c"}), Some(id));
    assert_eq!(rig.executed().len(), 1);
}

#[test]
fn a_user_who_says_no_is_not_asked_twice() {
    let mut rig = Rig::thinking();
    ask(&mut rig, "i-c", "ui", None);
    rig.client.decide("i-c", false, rig.now).unwrap();
    assert_eq!(rig.client.decide("i-c", true, rig.now), Err(CommandError::NoCall));
    rig.drain();
    let data = rig.take_result().data.unwrap();
    assert_eq!(data, json!({"status": "rejected", "channel": "ui"}));
}

#[test]
fn vip_056_a_sensitive_call_needs_a_consent_of_this_client() {
    let mut rig = Rig::thinking();
    for (id, confirmation) in [("i-1", None), ("i-2", Some("cf-invented".to_owned()))] {
        call(&mut rig, id, json!({"element_id": "c"}), confirmation);
        assert_eq!(code(&rig.take_result()), "ACT_CONFIRMATION_REQUIRED");
    }
    // What was agreed to is these parameters, and this action.
    let id = confirmed(&mut rig);
    call(&mut rig, "i-3", json!({"element_id": "c", "all": true}), Some(id));
    let result = rig.take_result();
    assert_eq!((code(&result), result.executed), ("ACT_CONFIRMATION_REQUIRED", false));
    assert!(rig.executed().is_empty());
}

#[test]
fn vip_057_a_consent_counts_once_and_not_for_long() {
    let mut rig = Rig::thinking();
    let id = confirmed(&mut rig);
    call(&mut rig, "i-7", json!({"element_id": "c"}), Some(id.clone()));
    rig.client.finish("i-7", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    rig.take_result();
    call(&mut rig, "i-8", json!({"element_id": "c"}), Some(id));
    assert_eq!(code(&rig.take_result()), "ACT_CONFIRMATION_REQUIRED");
    assert_eq!(rig.executed().len(), 1);

    let mut rig = Rig::thinking();
    let id = confirmed(&mut rig);
    rig.pass(30_000);
    call(&mut rig, "i-7", json!({"element_id": "c"}), Some(id));
    assert_eq!(code(&rig.take_result()), "ACT_CONFIRMATION_REQUIRED");
    let mut rig = Rig::thinking();
    let id = confirmed(&mut rig);
    rig.pass(29_999);
    call(&mut rig, "i-7", json!({"element_id": "c"}), Some(id));
    assert_eq!(rig.executed().len(), 1);
}

#[test]
fn a_user_who_does_not_answer_has_not_agreed() {
    let mut rig = Rig::thinking();
    ask(&mut rig, "i-c", "ui", None);
    rig.pass(60_000);
    assert_eq!(code(&rig.take_result()), "ACT_CONFIRMATION_EXPIRED");
    assert!(rig.events.contains(&Event::Asked { invocation_id: "i-c".into() }));
    assert_eq!(rig.client.decide("i-c", true, rig.now), Err(CommandError::NoCall));
    // The question can be taken back, too.
    ask(&mut rig, "i-d", "ui", None);
    let cancel = ActionCancel { invocation_id: "i-d".into(), reason: ActionCancelReason::User };
    rig.say(ServerEvent::ActionCancel(cancel));
    assert_eq!(code(&rig.take_result()), "ACT_CANCELLED");
}

#[test]
fn a_voice_counts_if_it_was_the_users_and_the_latest() {
    let heard = |rig: &mut Rig, text: &str| {
        rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
        rig.drain();
        let turn_id = rig.sent.last().unwrap().0.turn_id.clone().unwrap();
        rig.go(State::UserSpeaking, "input.start");
        rig.go(State::AiThinking, "input.end");
        rig.say(ServerEvent::InputComplete(InputComplete {
            turn_id: turn_id.clone(),
            text: text.into(),
            confidence: None,
            locale: None,
        }));
        turn_id
    };
    let asked = |rig: &Rig| rig.events.iter().any(|event| matches!(event, Event::Ask(_)));

    let mut rig = Rig::idle();
    let turn_id = heard(&mut rig, "yes please");
    ask(&mut rig, "i-c", "voice", Some(json!({"turn_id": turn_id, "transcript": "yes please"})));
    assert!(!asked(&rig));
    let data = rig.take_result().data.unwrap();
    assert_eq!((&data["status"], &data["channel"]), (&json!("confirmed"), &json!("voice")));

    // Words that nobody said, another turn, or none at all: the user is asked on the screen.
    for evidence in [
        Some(json!({"turn_id": turn_id, "transcript": "something else"})),
        Some(json!({"turn_id": "t-other", "transcript": "yes please"})),
        None,
    ] {
        let mut rig = Rig::idle();
        heard(&mut rig, "yes please");
        ask(&mut rig, "i-c", "voice", evidence);
        assert!(asked(&rig) && rig.results().is_empty());
    }
    let mut rig =
        Rig::idle_as(ClientConfig { voice_consent: false, ..ClientConfig::new("vs_1") }, connected());
    let turn_id = heard(&mut rig, "yes please");
    ask(&mut rig, "i-c", "voice", Some(json!({"turn_id": turn_id, "transcript": "yes please"})));
    assert!(asked(&rig));
}

#[test]
fn questions_about_nothing_are_not_asked() {
    let mut rig = Rig::thinking();
    let base = json!({
        "reference_action_id": "cancel", "reference_parameters": {"element_id": "c"}, "channel": "ui",
        "expires_at": rig.now.as_millis() + 60_000,
    });
    for (number, (action_id, member, value, expected)) in [
        ("system.other", "channel", json!("ui"), "ACT_NOT_FOUND"),
        ("system.confirm", "reference_action_id", json!("gone"), "ACT_NOT_FOUND"),
        ("system.confirm", "reference_action_id", json!(null), "ACT_INVALID_PARAMETERS"),
        ("system.confirm", "reference_parameters", json!(5), "ACT_INVALID_PARAMETERS"),
        ("system.confirm", "expires_at", json!("soon"), "ACT_INVALID_PARAMETERS"),
        ("system.confirm", "expires_at", json!(1), "ACT_CONFIRMATION_EXPIRED"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut parameters = base.clone();
        parameters[member] = value;
        rig.invoke(&format!("i-{number}"), action_id, "confirmation", parameters);
        assert_eq!(code(&rig.take_result()), expected);
    }
    assert!(!rig.events.iter().any(|event| matches!(event, Event::Ask(_))));
}
