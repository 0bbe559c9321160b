//! The butler, in a house: nothing of what it knows belongs to one application.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use serde_json::{Value, json};
use switchboard_agents::Butler;
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, CallKind, Executor, Tool, ToolAnnotations};

use support::{Port, chat, run};

fn tool(name: &str, description: &str, properties: Value) -> Tool {
    let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
    Tool {
        name: ToolName::from(name),
        description: description.into(),
        input_schema: json!({ "type": "object", "properties": properties, "required": required }).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Anyone,
        grace_ms: 0,
        options: Value::Null,
    }
}

fn house() -> Vec<Tool> {
    let switch = || json!({ "on": { "type": "boolean" } });
    let degrees = json!({ "degrees": { "type": "number", "minimum": 5, "maximum": 30 } });
    let rooms = json!({ "view": { "oneOf": [
        { "const": "/", "title": "Overview" },
        { "const": "/r/1", "title": "Living room" },
        { "const": "/r/2", "title": "Garden" },
    ] } });
    vec![
        tool("show", "Shows a room", rooms),
        tool("lights.living_room", "Living room lights", switch()),
        tool("lights.kitchen", "Kitchen lights", switch()),
        tool("thermostat", "Sets the temperature", degrees),
        tool("door_open", "Opens the door", json!({})),
        tool("door_close", "Closes the door", json!({})),
        tool("enable_alarm", "Enables the alarm", json!({})),
        tool("disable_alarm", "Disables the alarm", json!({})),
        tool("music.play", "Plays music", json!({ "title": { "type": "string" } })),
        tool("music.pause", "Pauses the music", json!({})),
        tool("timer", "Set a timer", json!({ "minutes": { "type": "integer" } })),
    ]
}

async fn heard(text: &str) -> (Vec<(String, Value)>, String) {
    let port = Port::new(|_| Some(CallEnd::done(Value::Null)));
    *port.tools.lock().unwrap() = house();
    run(&Butler::default(), &port, chat(text)).await.unwrap();
    let calls = port.calls().into_iter().map(|call| match call.kind {
        CallKind::Tool { name, args } => (name.to_string(), Value::clone(&args)),
        CallKind::Question { text, .. } => panic!("{text}"),
    });
    (calls.collect(), port.text())
}

#[tokio::test]
async fn a_house_is_served_as_well_as_a_shop() {
    let mut wrong = Vec::new();
    for (text, name, args) in [
        ("turn on the kitchen lights", "lights.kitchen", json!({ "on": true })),
        ("turn off the lights in the living room", "lights.living_room", json!({ "on": false })),
        ("kitchen light of", "lights.kitchen", json!({ "on": false })),
        ("set the temperature to 22 degrees", "thermostat", json!({ "degrees": 22 })),
        ("make it twenty one point five degrees", "thermostat", json!({ "degrees": 21.5 })),
        ("open the door", "door_open", json!({})),
        ("shut the door please", "door_close", json!({})),
        ("turn on the alarm", "enable_alarm", json!({})),
        ("alarm off", "disable_alarm", json!({})),
        ("play Yellow Submarine", "music.play", json!({ "title": "Yellow Submarine" })),
        ("stop the music", "music.pause", json!({})),
        ("pause", "music.pause", json!({})),
        ("set a timer for ten minutes", "timer", json!({ "minutes": 10 })),
        ("show me the garden", "show", json!({ "view": "/r/2" })),
        ("go to the overview", "show", json!({ "view": "/" })),
    ] {
        let (calls, said) = heard(text).await;
        if calls != [(name.to_owned(), args.clone())] {
            wrong.push(format!("{text:?}: {calls:?} and {said:?} instead of {name} {args}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_is_not_clear_is_asked_about_in_a_house_too() {
    for (text, wanted) in [
        ("lights off", "Do you mean kitchen lights, or living room lights?"),
        ("kitchen lights", "Kitchen lights: on or off?"),
        ("temperature 40", "It has to be between 5 and 30. What should it be?"),
        ("set a timer", "Set a timer: which number?"),
        ("set a timer for 2.5 minutes", "It has to be a whole number. What should it be?"),
        ("disarm the alarm", "Do you mean enable the alarm, or disable the alarm?"),
    ] {
        let (calls, said) = heard(text).await;
        assert!(calls.is_empty(), "{text}: {calls:?}");
        assert_eq!(said, wanted, "{text}");
    }
}
