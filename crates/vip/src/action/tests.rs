use serde_json::json;

use super::*;

fn screen() -> Context {
    let input = |kind: &str| json!({"type": "input", "description": "d", "element_id": kind, "input_type": kind, "options": ["red", "blue"]});
    let update = json!({
        "mode": "full", "context_version": 1, "route": {"id": "home"}, "narration": "Home.",
        "routes": [{"target": "home"}, {"target": "orders", "title": "Orders"}],
        "actions": {
            "go": {"type": "navigation", "description": "Go"},
            "press": {
                "type": "button", "description": "Press", "element_id": "b", "sensitive": true, "timeout_ms": 500,
                "parameters": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
            },
            "hidden": {"type": "button", "description": "Hidden", "element_id": "h"},
            "everywhere": {"type": "button", "description": "Everywhere", "element_id": "g", "global": true},
            "off": {"type": "button", "description": "Off", "element_id": "o", "enabled": false},
            "ask": {"type": "confirmation", "description": "Ask"},
            "text": input("text"), "number": input("number"), "boolean": input("boolean"),
            "checkbox": input("checkbox"), "radiobutton": input("radiobutton"), "password": input("password"),
        },
        "visibility": ["press", "off", "ask", "text", "number", "boolean", "checkbox", "radiobutton", "password"],
        "data": {"cart": 2},
    });
    Context::apply(None, &update).unwrap().context
}

fn refused(action_id: &str, parameters: Value) -> Code {
    check(&screen(), action_id, &parameters).expect_err(action_id).code
}

#[test]
fn what_can_be_done_is_enabled_and_in_reach() {
    let screen = screen();
    let ids: Vec<&str> = invocable(&screen).map(|(id, _)| id).collect();
    assert_eq!(
        ids,
        ["boolean", "checkbox", "everywhere", "go", "number", "password", "press", "radiobutton", "text"]
    );
}

#[test]
fn vip_047_nothing_outside_the_registry_is_called() {
    assert_eq!(refused("gone", json!({})), Code::ActNotFound);
    // The model cannot ask the user in the name of the application.
    assert_eq!(refused("ask", json!({})), Code::ActNotFound);
    assert_eq!(refused("off", json!({})), Code::ActDisabled);
}

#[test]
fn vip_048_what_is_not_seen_is_not_called_unless_it_is_global() {
    assert_eq!(refused("hidden", json!({})), Code::ActNotVisible);
    assert!(check(&screen(), "everywhere", &json!({})).is_ok());
}

#[test]
fn vip_049_navigation_only_leads_to_what_is_offered() {
    assert_eq!(refused("go", json!({"target": "admin"})), Code::ActTargetUnknown);
    assert_eq!(refused("go", json!({})), Code::ActInvalidParameters);
    let prepared = check(&screen(), "go", &json!({"target": "orders"})).unwrap();
    assert_eq!((prepared.kind.as_str(), prepared.parameters), ("navigation", json!({"target": "orders"})));
}

#[test]
fn parameters_are_checked_without_what_the_protocol_adds_and_get_it_afterwards() {
    assert_eq!(refused("press", json!({})), Code::ActInvalidParameters);
    assert_eq!(refused("press", json!({"n": "1"})), Code::ActInvalidParameters);
    assert_eq!(refused("press", json!([])), Code::ActInvalidParameters);
    let prepared = check(&screen(), "press", &json!({"n": 1, "element_id": "other"})).unwrap();
    assert_eq!(prepared.parameters.to_string(), r#"{"element_id":"b","n":1}"#);
    assert_eq!((prepared.sensitive, prepared.timeout_ms, prepared.executor), (true, 500, Executor::Client));
    let prepared = check(&screen(), "number", &json!({"value": 4.5})).unwrap();
    assert_eq!(
        prepared.parameters.to_string(),
        r#"{"element_id":"number","input_type":"number","value":4.5}"#
    );
}

#[test]
fn values_have_the_type_of_their_input() {
    let long = "x".repeat(4097);
    for (action, good, bad) in [
        ("text", json!("a"), json!(1)),
        ("text", json!(""), json!(long)),
        ("password", json!("a"), json!(null)),
        ("number", json!(-1.5), json!("1")),
        ("boolean", json!(false), json!("true")),
        ("checkbox", json!(true), json!(1)),
        ("radiobutton", json!("red"), json!("green")),
    ] {
        assert!(check(&screen(), action, &json!({"value": good})).is_ok(), "{action} {good}");
        assert_eq!(refused(action, json!({"value": bad})), Code::ActTypeMismatch, "{action} {bad}");
    }
    assert_eq!(refused("text", json!({})), Code::ActInvalidParameters);
    // Nobody would know that what comes along is a secret, too (VIP-079).
    assert_eq!(refused("password", json!({"value": "a", "hint": "hunter2"})), Code::ActInvalidParameters);
}

#[test]
fn the_app_checks_in_the_order_of_the_reference() {
    let screen = screen();
    let invoke =
        |action_id: &str, kind: &str, parameters: Value, context_version: u64| crate::message::ActionInvoke {
            invocation_id: "i".into(),
            action_id: action_id.into(),
            kind: kind.into(),
            parameters,
            context_version,
            response_id: "r".into(),
            timeout_ms: 1000,
            follow_up: true,
            parallel: false,
            attempt: 1,
            confirmation_id: None,
        };
    let mut newer = screen.clone();
    newer.version = 2;
    for (context, invoke, code) in [
        (&screen, invoke("gone", "button", json!({}), 1), Code::ActNotFound),
        (&newer, invoke("gone", "button", json!({}), 1), Code::ActStaleContext),
        (&newer, invoke("gone", "button", json!({}), 2), Code::ActNotFound),
        (&screen, invoke("off", "input", json!({}), 1), Code::ActDisabled),
        (&screen, invoke("hidden", "input", json!({}), 1), Code::ActNotVisible),
        (
            &screen,
            invoke("press", "input", json!({"element_id": "b", "n": 1}), 1),
            Code::ActInvalidParameters,
        ),
        (&screen, invoke("press", "button", json!({"n": 1}), 1), Code::ActInvalidParameters),
        (
            &screen,
            invoke("press", "button", json!({"element_id": "x", "n": 1}), 1),
            Code::ActInvalidParameters,
        ),
        (&screen, invoke("press", "button", json!({"element_id": "b"}), 1), Code::ActInvalidParameters),
        (
            &screen,
            invoke("text", "input", json!({"element_id": "text", "input_type": "number", "value": "a"}), 1),
            Code::ActInvalidParameters,
        ),
        (
            &screen,
            invoke("text", "input", json!({"element_id": "text", "input_type": "text", "value": 1}), 1),
            Code::ActTypeMismatch,
        ),
        (&screen, invoke("go", "navigation", json!({"target": "admin"}), 1), Code::ActTargetUnknown),
    ] {
        assert_eq!(admit(context, &invoke).unwrap_err().code, code, "{}", invoke.action_id);
    }
    assert!(admit(&screen, &invoke("press", "button", json!({"element_id": "b", "n": 1}), 1)).is_ok());
    assert!(admit(&newer, &invoke("go", "navigation", json!({"target": "home"}), 1)).is_ok());
}

#[test]
fn the_model_is_shown_what_it_may_say() {
    let screen = screen();
    let schema = |id: &str| tool_schema(&screen.actions[id], &screen);
    assert_eq!(schema("go")["properties"]["target"]["enum"], json!(["home", "orders"]));
    assert_eq!(schema("go")["required"], json!(["target"]));
    assert_eq!(
        schema("radiobutton")["properties"]["value"],
        json!({"type": "string", "enum": ["red", "blue"]})
    );
    assert_eq!(schema("text")["properties"]["value"]["maxLength"], 4096);
    assert_eq!(schema("number")["properties"]["value"], json!({"type": "number"}));
    assert_eq!(schema("press"), screen.actions["press"].parameters);
    assert_eq!(schema("everywhere"), json!({"type": "object", "properties": {}}));
    // What is shown is what is checked.
    for (id, action) in invocable(&screen) {
        assert_eq!(schema::flaw(&tool_schema(action, &screen)), None, "{id}");
    }
}

#[test]
fn what_the_application_says_of_its_parameters_stays() {
    let mut action = screen().actions["go"].clone();
    action.parameters = json!({
        "type": "object", "required": ["target"],
        "properties": {"target": {"type": "string", "description": "Where to"}, "tab": {"type": "string"}},
    });
    let schema = tool_schema(&action, &screen());
    assert_eq!(schema["properties"]["target"]["description"], "Where to");
    assert_eq!(schema["properties"]["target"]["enum"], json!(["home", "orders"]));
    assert_eq!((schema["properties"].get("tab").is_some(), &schema["required"]), (true, &json!(["target"])));
}

#[test]
fn the_runtime_answers_for_the_screen() {
    let screen = screen();
    let routes = answer_builtin(&screen, "get_available_routes").unwrap();
    assert_eq!(routes["routes"][1], json!({"target": "orders", "title": "Orders"}));
    let states = answer_builtin(&screen, "get_system_states").unwrap();
    assert_eq!((&states["narration"], &states["data"]), (&json!("Home."), &json!({"cart": 2})));
    let functions = answer_builtin(&screen, "get_system_functions").unwrap();
    let functions = functions["functions"].as_array().unwrap();
    let function = |id: &str| functions.iter().find(|function| function["id"] == id);
    assert_eq!(function("hidden").unwrap()["invocable"], false);
    assert_eq!(function("press").unwrap()["invocable"], true);
    assert!(function("ask").is_none());
    assert_eq!(answer_builtin(&screen, "press"), None);
}

#[test]
fn the_application_asks_itself_if_it_has_one_way_to() {
    let mut screen = screen();
    assert_eq!(confirmation_entry(&screen), "ask");
    let other = screen.actions["ask"].clone();
    screen.actions.insert("ask2".into(), other);
    assert_eq!(confirmation_entry(&screen), "system.confirm");
    screen.actions.clear();
    assert_eq!(confirmation_entry(&screen), "system.confirm");
}

#[test]
fn vip_079_passwords_are_not_kept() {
    let screen = screen();
    let given = json!({"element_id": "password", "input_type": "password", "value": "hunter2"});
    let kept = redact(&screen, "password", &given);
    assert_eq!(kept["value"], "[REDACTED]");
    assert_eq!(redact(&screen, "text", &given), given);
    let asked = json!({"reference_action_id": "password", "reference_parameters": given, "prompt": "Sure?"});
    assert!(!redact(&screen, "system.confirm", &asked).to_string().contains("hunter2"));
    assert_eq!(redact(&screen, "password", &json!(null)), json!(null));
}

#[test]
fn vip_079_a_password_is_found_wherever_it_is_said_again() {
    let mut said =
        json!({"value": "hunter2", "list": ["was hunter2, twice: hunter2", 7, null], "hunter2": true});
    censor(&mut said, "hunter2");
    let expected = json!({"value": REDACTED, "list": ["was [REDACTED], twice: [REDACTED]", 7, null],
        "[REDACTED]": true});
    assert_eq!(said, expected);
    let mut pin = json!({"pin": 4711, "other": 47110});
    censor(&mut pin, "4711");
    assert_eq!(pin, json!({"pin": REDACTED, "other": 47110}));
}
