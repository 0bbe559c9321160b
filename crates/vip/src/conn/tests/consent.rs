//! Consent to what is sensitive.

use switchboard_core::{CloseReason, Heard};

use super::*;

fn thinking(channels: &[&str]) -> Stage {
    let mut stage = Stage::new(|settings, _| {
        settings.confirmation_channels = channels.iter().map(|channel| (*channel).to_owned()).collect();
    });
    stage.type_in("t-1", "do it");
    stage.said();
    stage
}

/// The user is asked on the screen; answers what was asked.
fn asked(stage: &mut Stage, call: &str, action: &str) -> Value {
    stage.call(call, action, json!({}), Value::Null);
    let asked = stage.one("action.invoke");
    assert_eq!(
        (&asked["data"]["type"], &asked["data"]["confirmation_id"]),
        (&json!("confirmation"), &Value::Null)
    );
    asked
}

fn decide(stage: &mut Stage, asked: &Value, data: Value) {
    stage.succeed(&asked["data"]["invocation_id"], "system.confirm", data);
}

fn agreed(id: &str) -> Value {
    json!({ "status": "confirmed", "confirmation_id": id, "channel": "ui" })
}

#[test]
fn vip_055_what_is_confirmed_is_done_under_the_name_that_was_reserved() {
    let mut stage = thinking(&["ui"]);
    let asked = asked(&mut stage, "call-1", "pay");
    assert_eq!(asked["data"]["parameters"]["reference_parameters"], json!({ "element_id": "e" }));
    decide(&mut stage, &asked, agreed("cf-1"));
    let invoke = stage.one("action.invoke");
    assert_eq!(invoke["data"]["action_id"], "pay");
    assert_eq!(invoke["data"]["confirmation_id"], "cf-1");
    assert_eq!(invoke["data"]["invocation_id"], asked["data"]["parameters"]["reference_invocation_id"]);
}

#[test]
fn vip_058_whatever_is_no_clear_yes_drops_the_action() {
    for data in [
        json!({ "status": "rejected", "channel": "ui" }),
        json!({ "status": "confirmed", "channel": "ui" }),
        agreed(""),
        agreed(&"x".repeat(41)),
        json!({ "confirmation_id": "cf-1", "channel": "ui" }),
        // The user was asked on the screen.
        json!({ "status": "confirmed", "confirmation_id": "cf-1" }),
        json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": "voice" }),
        json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": "post" }),
        Value::Null,
    ] {
        let mut stage = thinking(&["ui"]);
        let asked = asked(&mut stage, "call-1", "pay");
        decide(&mut stage, &asked, data.clone());
        assert_eq!(stage.told("call-1"), Some(Err("ACT_CONFIRMATION_REQUIRED".to_owned())), "{data}");
        assert_eq!(kinds(&stage.said()), ["state.changed"]);
        assert_eq!(stage.state(), State::AiThinking);
    }
    let mut stage = thinking(&["ui"]);
    let asked = asked(&mut stage, "call-1", "pay");
    let failed = json!({ "invocation_id": asked["data"]["invocation_id"], "action_id": "system.confirm",
        "status": "error", "event": "action.failure", "executed": false, "duration_ms": 1,
        "data": agreed("cf-1"),
        "error": { "code": "ACT_EXECUTION_FAILED", "message": "" } });
    stage.send("action.result", None, failed);
    assert_eq!(stage.told("call-1"), Some(Err("ACT_CONFIRMATION_REQUIRED".to_owned())));
}

#[test]
fn vip_057_a_consent_counts_once_and_not_for_long() {
    let mut stage = thinking(&["ui"]);
    let first = asked(&mut stage, "call-1", "pay");
    decide(&mut stage, &first, agreed("cf-1"));
    let invoke = stage.one("action.invoke");
    stage.succeed(&invoke["data"]["invocation_id"], "pay", Value::Null);
    stage.said();
    let second = asked(&mut stage, "call-2", "pay");
    decide(&mut stage, &second, agreed("cf-1"));
    assert_eq!(stage.told("call-2"), Some(Err("ACT_CONFIRMATION_REQUIRED".to_owned())));

    stage.said();
    let third = asked(&mut stage, "call-3", "pay");
    let expires_at = third["data"]["parameters"]["expires_at"].as_u64().unwrap();
    assert_eq!(expires_at, stage.now.as_millis() + 60_000);
    stage.pass(60_000);
    assert_eq!(stage.told("call-3"), Some(Err("ACT_CONFIRMATION_EXPIRED".to_owned())));
    assert_eq!(stage.state(), State::AiThinking);
    stage.said();
    decide(&mut stage, &third, agreed("cf-3"));
    assert_eq!(stage.codes(), ["ACT_LATE_RESULT"]);

    // Even if nobody was woken in time.
    let fourth = asked(&mut stage, "call-4", "pay");
    stage.now = stage.now.after(Duration::from_secs(60));
    decide(&mut stage, &fourth, agreed("cf-4"));
    assert_eq!(stage.told("call-4"), Some(Err("ACT_CONFIRMATION_EXPIRED".to_owned())));
}

#[test]
fn a_screen_that_changes_meanwhile_voids_the_consent() {
    let mut stage = thinking(&["ui"]);
    let asked = asked(&mut stage, "call-1", "pay");
    // The button of that name is another one now.
    let other = json!({ "type": "button", "description": "Do it", "element_id": "other", "sensitive": true });
    let change = json!({ "mode": "delta", "base_version": 1, "context_version": 2, "actions_upsert": { "pay": other } });
    stage.send("state.update", None, change);
    stage.said();
    decide(&mut stage, &asked, agreed("cf-1"));
    assert_eq!(stage.told("call-1"), Some(Err("ACT_CONFIRMATION_REQUIRED".to_owned())));
    assert_eq!(kinds(&stage.said()), ["state.changed"]);
}

/// The question is heard to its end.
fn hear_out(stage: &mut Stage) -> Value {
    let question = stage.one("response.audio");
    assert_eq!(question["data"]["expects_reply"], true);
    stage.feed(Input::Voice(VoiceEvent::Said { response: stage.response(), duration_ms: 0 }));
    let id = question["data"]["response_id"].clone();
    stage.send("audio.complete", None, json!({ "response_id": id, "played_ms": 0 }));
    assert_eq!(stage.state(), State::Idle);
    stage.said();
    question
}

#[test]
fn consent_by_voice_goes_to_the_app_as_evidence_and_not_as_consent() {
    // The app believes it, or asks on the screen.
    for channel in ["voice", "ui"] {
        consent_by_voice(channel);
    }
}

fn consent_by_voice(channel: &str) {
    let mut stage = thinking(&["voice", "ui"]);
    stage.call("call-1", "pay", json!({}), Value::Null);
    hear_out(&mut stage);
    stage.send("input.start", Some("t-2"), json!({ "trigger": "ptt", "stream_id": 1 }));
    stage.send("input.end", Some("t-2"), json!({ "reason": "manual" }));
    stage.said();
    // Nothing else is begun until that is settled.
    stage.call("call-2", "lamp.on", json!({}), Value::Null);
    assert!(stage.said().is_empty());
    let heard = Heard { text: Pii("Yes, please!".to_owned()), confidence: None, language: None };
    stage.feed(Input::Voice(VoiceEvent::Heard { turn: 2, heard, took_ms: 1 }));
    let asked = stage.one("action.invoke");
    let parameters = &asked["data"]["parameters"];
    assert_eq!((&asked["data"]["type"], &parameters["channel"]), (&json!("confirmation"), &json!("voice")));
    assert_eq!(parameters["voice_evidence"], json!({ "turn_id": "t-2", "transcript": "Yes, please!" }));
    decide(
        &mut stage,
        &asked,
        json!({ "status": "confirmed", "confirmation_id": "cf-1", "channel": channel }),
    );
    assert_eq!(stage.one("action.invoke")["data"]["action_id"], "pay");
}

#[test]
fn what_is_no_clear_yes_is_asked_on_the_screen_or_not_at_all() {
    for (answer, channel, verdict) in [
        ("no", "pay", Some("refused")),
        ("yes but do not do it", "pay", Some("refused")),
        ("what would that cost me", "pay", Some("screen")),
        ("yes I mean I have said so before", "pay", Some("screen")),
        // This one may be asked by voice only.
        ("what would that cost me", "shout", Some("refused")),
    ] {
        let mut stage = thinking(&["voice", "ui"]);
        stage.call("call-1", channel, json!({}), Value::Null);
        hear_out(&mut stage);
        stage.type_in("t-2", answer);
        let said = stage.said();
        let asked = said.iter().find(|event| event["type"] == "action.invoke");
        let refused = stage.told("call-1") == Some(Err("ACT_CONFIRMATION_REQUIRED".to_owned()));
        let seen = match asked {
            Some(asked) => Some(asked["data"]["parameters"]["channel"].as_str().unwrap()),
            None => refused.then_some("refused"),
        };
        assert_eq!(seen, verdict.map(|verdict| if verdict == "screen" { "ui" } else { verdict }), "{answer}");
    }
}

#[test]
fn whoever_cannot_hear_is_not_asked_by_voice() {
    let mut stage = Stage::new(|settings, _| settings.confirmation_channels = vec!["voice".to_owned()]);
    stage.send("control.mute", None, json!({ "target": "output", "muted": true }));
    stage.type_in("t-1", "do it");
    stage.said();
    stage.call("call-1", "pay", json!({}), Value::Null);
    assert_eq!(stage.one("action.invoke")["data"]["parameters"]["channel"], "ui");
    // And nobody is who is not to be asked so.
    let mut stage = thinking(&["voice", "ui"]);
    let only_on_screen = json!({ "type": "button", "description": "Do it", "element_id": "e", "sensitive": true,
        "confirmation": { "channels": ["ui"] } });
    let change = json!({ "mode": "delta", "base_version": 1, "context_version": 2,
        "actions_upsert": { "pay": only_on_screen } });
    stage.send_since(1, "state.update", None, change);
    stage.words("I will. ");
    stage.call("call-0", "lamp.on", json!({}), Value::Null);
    let invocation = stage.one("action.invoke")["data"]["invocation_id"].clone();
    stage.succeed(&invocation, "lamp.on", Value::Null);
    stage.said();
    stage.call("call-1", "pay", json!({}), Value::Null);
    assert_eq!(stage.one("action.invoke")["data"]["parameters"]["channel"], "ui");
}

#[test]
fn a_user_who_does_not_answer_has_not_agreed_and_is_told_what_follows() {
    let mut stage = thinking(&["voice"]);
    stage.call("call-1", "shout", json!({}), Value::Null);
    hear_out(&mut stage);
    stage.pass(19_999);
    assert_eq!(stage.told("call-1"), None);
    stage.pass(1);
    assert_eq!(stage.told("call-1"), Some(Err("ACT_CONFIRMATION_EXPIRED".to_owned())));
    stage.words("Then I will not.");
    stage.end_turn(TurnEnd::complete());
    let said = stage.said();
    assert_eq!(kinds(&said), ["server.announce", "state.changed"], "{said:?}");
    assert_eq!(
        (&said[0]["data"]["reason"], &said[0]["data"]["content"]),
        (&json!("follow_up"), &json!("Then I will not."))
    );
}

/// A question that is being spoken, and that a response of which the client knows waits for.
fn asking() -> (Stage, Value, Value) {
    let mut stage = thinking(&["voice"]);
    stage.call("call-0", "lamp.on", json!({}), Value::Null);
    let invoke = stage.one("action.invoke");
    let waiting = invoke["data"]["response_id"].clone();
    stage.succeed(&invoke["data"]["invocation_id"], "lamp.on", Value::Null);
    stage.said();
    stage.call("call-1", "shout", json!({}), Value::Null);
    let question = stage.one("response.audio")["data"]["response_id"].clone();
    assert_ne!(question, waiting);
    (stage, waiting, question)
}

#[test]
fn vip_070_a_question_that_is_interrupted_ends_the_response_that_waits_for_it() {
    let (mut stage, waiting, question) = asking();
    let turn = stage.turn.clone().unwrap();
    stage.send("input.barge_in", Some("t-2"), json!({ "trigger": "manual", "played_ms": 0 }));
    let said = stage.said();
    let ended = |id: &Value| {
        let done = |event: &&Value| event["type"] == "response.done" && event["data"]["response_id"] == *id;
        said.iter().filter(done).count()
    };
    assert_eq!((ended(&waiting), ended(&question)), (1, 1), "{said:?}");
    // And the agent does not wait for an answer that nobody will give.
    assert_eq!(stage.stopped(), [turn]);

    // Who is lost with the transport has not said anything about it.
    let (mut stage, waiting, question) = asking();
    stage.feed(Input::Closed(CloseReason::TransportLost));
    let record = json!(stage.recorded());
    let sent = record.as_array().unwrap().iter().filter_map(|minute| minute["sent"].as_array()).flatten();
    let done: Vec<&Value> = sent
        .filter(|event| event["type"] == "response.done")
        .map(|event| &event["data"]["response_id"])
        .collect();
    assert_eq!(done, [&waiting, &question]);
    assert!(stage.stopped().is_empty());
}

#[test]
fn vip_034_what_waits_for_a_consent_is_dropped_with_it() {
    let mut stage = thinking(&["voice"]);
    stage.call("call-1", "shout", json!({}), Value::Null);
    hear_out(&mut stage);
    stage.call("call-2", "lamp.on", json!({}), Value::Null);
    stage.send("input.start", Some("t-2"), json!({ "trigger": "ptt", "stream_id": 1 }));
    stage.send("input.end", Some("t-2"), json!({ "reason": "manual" }));
    // The user thinks better of it while what was said is being understood.
    stage.send("input.barge_in", Some("t-3"), json!({ "trigger": "manual" }));
    stage.send("input.cancel", Some("t-3"), json!({ "reason": "user" }));
    stage.type_in("t-4", "something else");
    stage.said();
    stage.call("call-3", "aside", json!({}), Value::Null);
    assert_eq!(stage.one("action.invoke")["data"]["action_id"], "aside");
}
