//! What the app says about itself, and when.

use super::*;

fn change(base: u64, more: Value) -> Value {
    let mut change = json!({ "mode": "delta", "base_version": base, "context_version": base + 1 });
    change.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    change
}

/// The tools that were offered and withdrawn last.
fn tools(stage: &Stage) -> Option<(Vec<String>, Vec<String>)> {
    stage.ops.iter().rev().find_map(|op| match op {
        Op::ChangeTools(change) => Some((
            change.add.iter().map(|tool| tool.name.to_string()).collect(),
            change.remove.iter().map(ToString::to_string).collect(),
        )),
        _ => None,
    })
}

#[test]
fn vip_040_an_update_is_refused_unless_it_merely_crossed_a_transition() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    stage.send("state.update", None, change(1, json!({ "narration": "New." })));
    let refused = stage.one("error.recoverable");
    assert_eq!(refused["data"]["code"], "CTX_FORBIDDEN_STATE");
    assert_eq!(refused["data"]["details"], json!({ "state": "user_speaking", "state_seq": 2 }));
    assert_eq!(stage.connection.context.as_ref().unwrap().narration, "Home.");

    stage.send_since(1, "state.update", None, change(1, json!({ "narration": "New." })));
    assert_eq!(stage.one("state.ack")["data"]["applied"], "deferred");
    assert_eq!(stage.connection.context.as_ref().unwrap().narration, "Home.", "not yet (VIP-039)");
    stage.send("input.cancel", Some("t-1"), json!({ "reason": "user" }));
    assert_eq!(stage.connection.context.as_ref().unwrap().narration, "New.");
}

#[test]
fn updates_that_wait_have_an_end() {
    let mut stage = Stage::new(|_, _| {});
    stage.take_floor("t-1");
    stage.said();
    for number in 0..9 {
        stage.pass(250);
        stage.send_since(1, "state.update", None, change(1 + number, json!({})));
    }
    let said = stage.said();
    assert_eq!(kinds(&said).iter().filter(|kind| **kind == "state.ack").count(), 8);
    assert_eq!(said.last().unwrap()["data"]["code"], "CTX_FORBIDDEN_STATE");
}

#[test]
fn vip_042_a_wrong_base_is_refused_and_everything_asked_for_again() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send("state.update", None, change(7, json!({})));
    let said = stage.said();
    assert_eq!(kinds(&said), ["error.recoverable", "state.resync"]);
    assert_eq!(said[0]["data"]["code"], "CTX_VERSION_CONFLICT");
    assert_eq!(said[1]["data"], json!({ "have_version": 1, "reason": "version_conflict" }));
    stage.send("state.update", None, change(1, json!({ "visibility": ["gone"] })));
    assert_eq!(kinds(&stage.said()), ["error.recoverable"]);
}

#[test]
fn vip_019_the_session_is_ready_after_a_whole_tree_only() {
    let mut stage = Stage::opened(|setup| {
        let context = Context::apply(None, &screen()).unwrap().context;
        setup.minutes.context = Some(context);
    });
    stage.hello(json!({}));
    assert_eq!(kinds(&stage.said()), ["session.connected"]);
    // Even where one is known that it could build on.
    stage.send("state.update", None, change(1, json!({})));
    assert_eq!(kinds(&stage.said()), ["error.recoverable", "state.resync"]);
    assert_eq!(stage.state(), State::Connecting);
    let mut whole = screen();
    whole["context_version"] = json!(2);
    stage.send("state.update", None, whole);
    assert_eq!(kinds(&stage.said()), ["state.ack", "server.ready", "state.changed"]);
    // And then it has all the time in the world.
    stage.pass(10_000);
    assert_eq!(stage.closed, None);
}

#[test]
fn the_agent_is_offered_what_can_be_done_and_nothing_else() {
    let mut stage = Stage::new(|_, _| {});
    let (offered, withdrawn) = tools(&stage).unwrap();
    assert!(offered.contains(&"lamp.on".to_owned()) && offered.contains(&"get_system_states".to_owned()));
    assert!(withdrawn.is_empty());
    stage.send("state.update", None, change(1, json!({ "visibility_remove": ["lamp.on"] })));
    // What has not changed is not said again.
    assert_eq!(tools(&stage).unwrap(), (Vec::new(), vec!["lamp.on".to_owned()]));
    let secret = stage.ops.iter().find_map(|op| match op {
        Op::ChangeTools(change) => change.add.iter().find(|tool| tool.name.as_str() == "password"),
        _ => None,
    });
    assert_eq!(secret.unwrap().options, json!({ "secret": true }));
    // A client that does nothing is asked for nothing.
    assert_eq!(tools(&Stage::new(|settings, _| settings.actions = false)), None);
}

#[test]
fn settings_change_while_the_session_is_idle_and_within_bounds() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send("session.update", None, json!({ "turn_detection": { "no_speech_ms": 60_001 } }));
    assert_eq!(stage.codes(), ["PROTO_MALFORMED"]);
    stage.send(
        "session.update",
        None,
        json!({ "locale": "de-DE", "turn_detection": { "no_speech_ms": 2_000 } }),
    );
    let updated = stage.one("session.updated");
    assert_eq!(
        (&updated["data"]["locale"], &updated["data"]["turn_detection"]["no_speech_ms"]),
        (&json!("de-DE"), &json!(2_000))
    );
    stage.take_floor("t-1");
    stage.said();
    stage.send("session.update", None, json!({ "locale": "en-US" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"]);
    assert_eq!(stage.connection.settings.locale, "de-DE");
}

/// A control socket, with the tree told.
fn control(scopes: &[&str]) -> Stage {
    let mut stage = Stage::opened(|setup| {
        setup.kind = Kind::Control;
        setup.settings.scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    });
    stage.hello(json!({}));
    stage.said();
    stage
}

#[test]
fn vip_087_what_a_client_reports_has_to_be_possible() {
    let mut stage = control(&[]);
    let report = |stage: &mut Stage, previous: &str, state: &str, trigger: &str| {
        stage.send("state.report", None, json!({ "previous": previous, "state": state, "trigger": trigger }));
        kinds(&stage.said()).join(" ")
    };
    assert_eq!(
        report(&mut stage, "connecting", "idle", "server.ready"),
        "error.recoverable",
        "that is ours to say"
    );
    stage.send("state.update", None, screen());
    assert_eq!(kinds(&stage.said()), ["state.ack"]);
    stage.send("provider.attached", None, json!({ "transport": "websocket" }));
    assert_eq!(kinds(&stage.said()), ["server.ready", "state.changed"]);
    assert_eq!(report(&mut stage, "idle", "user_speaking", "input.start"), "state.changed");
    assert_eq!(report(&mut stage, "idle", "ai_thinking", "input.end"), "error.recoverable");
    assert_eq!(report(&mut stage, "user_speaking", "ai_thinking", "input.end"), "state.changed");
    assert_eq!(tools(&stage), None, "what is done there is between the client and its provider");
}

#[test]
fn vip_019_a_provider_may_be_there_before_the_tree_and_is_not_forgotten() {
    let mut stage = control(&[]);
    stage.send("provider.attached", None, json!({ "transport": "websocket" }));
    assert!(stage.said().is_empty());
    stage.send("state.update", None, screen());
    assert_eq!(kinds(&stage.said()), ["state.ack", "server.ready", "state.changed"]);
    stage.send("provider.attached", None, json!({ "transport": "websocket" }));
    assert_eq!(stage.codes(), ["PROTO_INVALID_TRANSITION"], "once");
    // A tree of before does not tell what is on the screen now.
    let mut stage = Stage::opened(|setup| {
        setup.kind = Kind::Control;
        setup.minutes.context = Some(Context::apply(None, &screen()).unwrap().context);
        setup.minutes.opened = true;
    });
    stage.hello(json!({}));
    stage.said();
    stage.send("provider.attached", None, json!({ "transport": "websocket" }));
    assert!(stage.said().is_empty());
}

#[test]
fn functions_are_called_by_those_who_may_and_never_sensitive_ones() {
    let call = |stage: &mut Stage, name: &str| {
        stage.send("state.update", None, screen());
        stage.said();
        stage.send("function.call", None, json!({ "invocation_id": "i-1", "name": name, "parameters": {} }));
    };
    let mut stage = control(&["history:read"]);
    call(&mut stage, "look.up");
    assert_eq!(stage.one("function.result")["data"]["error"]["code"], "AUTH_SCOPE");
    let mut stage = control(&["function:call"]);
    call(&mut stage, "wire");
    assert_eq!(stage.one("function.result")["data"]["error"]["code"], "ACT_CONFIRMATION_REQUIRED");
    assert!(stage.errands.is_empty());
    let mut stage = control(&["function:call"]);
    call(&mut stage, "lamp.on");
    assert_eq!(stage.one("function.result")["data"]["error"]["code"], "ACT_NOT_FOUND");
    let mut stage = control(&["function:call"]);
    call(&mut stage, "look.up");
    stage.run_errand(json!({ "data": 4 }));
    assert_eq!(stage.one("function.result")["data"]["data"], 4);
}
