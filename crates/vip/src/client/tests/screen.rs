use super::*;
use crate::error::Code;

fn narrated(narration: &str) -> Value {
    let mut screen = shop();
    screen["narration"] = narration.into();
    screen
}

#[test]
fn vip_020_the_screen_is_told_before_anything_is_said() {
    let mut rig = Rig::new(ClientConfig::new("vs_1"));
    rig.input(Input::Opened);
    let ClientEvent::ClientConnect(hello) = &rig.sent[0].1 else { panic!("a hello") };
    assert_eq!((hello.context.is_none(), hello.protocol_version.as_str()), (true, "0.1"));
    rig.say(ServerEvent::SessionConnected(Box::new(connected())));
    assert_eq!(rig.client.listen(InputStartTrigger::Ptt, rig.now), Err(CommandError::NoContext));
    rig.client.show(shop(), rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["client.connect", "state.update"]);
    assert_eq!(rig.updates()[0]["mode"], "full");
    assert_eq!(
        rig.client.listen(InputStartTrigger::Ptt, rig.now),
        Err(CommandError::State(State::Connecting))
    );

    // What is known at once goes along with the hello.
    let mut rig = Rig::new(ClientConfig::new("vs_1"));
    rig.client.show(shop(), rig.now).unwrap();
    rig.input(Input::Opened);
    let ClientEvent::ClientConnect(hello) = &rig.sent[0].1 else { panic!("a hello") };
    assert_eq!(hello.context.as_ref().unwrap()["mode"], "full");
    rig.say(ServerEvent::SessionConnected(Box::new(connected())));
    assert_eq!(rig.said(), ["client.connect"]);
}

#[test]
fn vip_041_changes_wait_for_the_next_legal_state_and_only_the_newest_is_told() {
    for hold in [
        &[(State::UserSpeaking, "input.start")][..],
        &[(State::UserSpeaking, "input.start"), (State::AiThinking, "input.end")],
    ] {
        let mut rig = Rig::idle_then(hold);
        for narration in ["One.", "Two.", "Three."] {
            rig.client.show(narrated(narration), rig.now).unwrap();
            rig.drain();
        }
        assert!(rig.updates().is_empty());
        if rig.state == State::UserSpeaking {
            rig.go(State::AiThinking, "input.end");
            assert!(rig.updates().is_empty());
        }
        rig.go(State::AiSpeaking, "response.audio");
        let updates = rig.updates();
        assert_eq!((updates.len(), &updates[0]["narration"]), (1, &json!("Three.")));
    }
}

#[test]
fn an_update_waits_as_soon_as_the_user_takes_the_floor() {
    let mut rig = Rig::idle();
    rig.client.listen(InputStartTrigger::Ptt, rig.now).unwrap();
    rig.client.show(narrated("New."), rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["input.start"]);
    // And until the server agrees that the floor is free.
    rig.go(State::UserSpeaking, "input.start");
    rig.client.cancel(InputCancelReason::User, rig.now).unwrap();
    rig.drain();
    assert!(rig.updates().is_empty());
    rig.go(State::Idle, "input.cancel");
    assert_eq!(rig.updates().len(), 1);
}

#[test]
fn little_changes_are_told_as_such_and_lead_to_the_same() {
    let mut rig = Rig::idle();
    let before = Context::apply(None, &full_of(&shop())).unwrap().context;
    let mut screen = shop();
    screen["narration"] = json!("A dialog.");
    screen["actions"]["close"] = json!({"type": "button", "description": "Close", "element_id": "x"});
    screen["actions"].as_object_mut().unwrap().remove("press");
    screen["visibility"] = json!(["close"]);
    rig.client.show(screen.clone(), rig.now).unwrap();
    rig.drain();
    let update = &rig.updates()[0];
    assert_eq!((&update["mode"], &update["actions_remove"]), (&json!("delta"), &json!(["press"])));
    let mut base = before;
    base.version = update["base_version"].as_u64().unwrap();
    let after = Context::apply(Some(&base), update).unwrap().context;
    let expected = Context::apply(None, &full_of(&screen)).unwrap().context;
    assert_eq!((after.narration, after.visibility), (expected.narration, expected.visibility));
    assert!(after.actions == expected.actions);
    // What is the same is not told again.
    rig.forget();
    rig.client.show(screen, rig.now).unwrap();
    rig.drain();
    assert!(rig.sent.is_empty());
}

fn full_of(screen: &Value) -> Value {
    let mut update = screen.clone();
    update["mode"] = json!("full");
    update["context_version"] = json!(1);
    update
}

#[test]
fn a_server_that_lost_track_is_told_everything() {
    let mut rig = Rig::idle();
    rig.client.show(narrated("New."), rig.now).unwrap();
    rig.drain();
    rig.say(ServerEvent::StateResync(StateResync {
        have_version: 40,
        reason: ResyncReason::VersionConflict,
    }));
    let updates = rig.updates();
    let last = updates.last().unwrap();
    assert_eq!((updates.len(), &last["mode"], &last["context_version"]), (2, &json!("full"), &json!(41)));
    // And once more if it could not take it.
    rig.go(State::UserSpeaking, "input.start");
    rig.refuse(Code::CtxForbiddenState);
    assert_eq!((rig.updates().len(), rig.client.state()), (2, State::UserSpeaking));
    rig.go(State::Idle, "input.cancel");
    assert_eq!(rig.updates().last().unwrap()["context_version"], 42);
}

#[test]
fn updates_are_not_more_than_a_server_bears() {
    let mut rig = Rig::idle();
    for number in 0..20 {
        rig.client.show(narrated(&format!("Number {number}.")), rig.now).unwrap();
        rig.drain();
    }
    let at_once = rig.updates().len();
    assert!(at_once <= 5, "{at_once}");
    rig.pass(1_000);
    assert_eq!(rig.updates().last().unwrap()["narration"], "Number 19.");
    assert!(rig.updates().len() <= at_once + 1);
    // They build on each other without a gap.
    let mut base = None;
    for update in rig.updates() {
        if update["mode"] == "delta" && base.is_some() {
            assert_eq!(Some(update["base_version"].clone()), base);
        }
        base = Some(update["context_version"].clone());
    }
}

#[test]
fn vip_046_types_of_ones_own_have_the_prefix() {
    let mut rig = Rig::idle();
    let mut screen = shop();
    screen["actions"]["slide"] = json!({"type": "slider", "description": "Slide"});
    let refused = rig.client.show(screen.clone(), rig.now).unwrap_err();
    assert!(matches!(refused, CommandError::Context(fault) if fault.path == "/actions/slide/type"));
    screen["actions"]["slide"]["type"] = json!("x-acme-slider");
    screen["visibility"] = json!(["slide"]);
    rig.client.show(screen, rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.updates().len(), 1);
    // The app knows its own types.
    rig.go(State::UserSpeaking, "input.start");
    rig.go(State::AiThinking, "input.end");
    rig.invoke("i-1", "slide", "x-acme-slider", json!({"to": 5}));
    assert_eq!(rig.executed().len(), 1);
}

#[test]
fn a_screen_that_breaks_a_rule_is_not_shown() {
    let mut rig = Rig::idle();
    let mut screen = shop();
    screen["visibility"] = json!(["gone"]);
    assert!(matches!(rig.client.show(screen, rig.now), Err(CommandError::Context(_))));
    assert!(matches!(rig.client.show(json!("nothing"), rig.now), Err(CommandError::Context(_))));
    rig.drain();
    assert!(rig.sent.is_empty());
}

#[test]
fn a_data_channel_takes_less() {
    let config = ClientConfig { carrier: Carrier::DataChannel, ..ClientConfig::new("vs_1") };
    let mut rig = Rig::new(config);
    let mut screen = shop();
    screen["tree"] = json!(vec![json!({"id": "n", "kind": "text", "label": "x".repeat(200)}); 300]);
    assert_eq!(rig.client.show(screen.clone(), rig.now), Err(CommandError::TooLong));
    let mut rig = Rig::new(ClientConfig::new("vs_1"));
    assert_eq!(rig.client.show(screen, rig.now), Ok(()));
}

use crate::context::Context;
