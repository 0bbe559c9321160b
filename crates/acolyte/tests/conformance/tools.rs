//! Tools and questions (§6, §13): AC-024 to AC-027.

use serde_json::{Value, json};
use switchboard_acolyte::{AcolyteLimits, Service};
use switchboard_testkit::{Script, Settings, Step};

use crate::support::{Talk, events, hang, of_type, reply_of, text};

fn tool(name: &str, args: Value, progress: &[&str], output: Value, error: Option<&str>) -> Step {
    Step::Tool {
        name: name.into(),
        args,
        progress: progress.iter().map(|delta| (*delta).to_owned()).collect(),
        output,
        error: error.map(str::to_owned),
    }
}

fn told(steps: Vec<Step>) -> Vec<Value> {
    let mut talk = Talk::new(Script::new().on("go", steps));
    talk.start("rpc_1", "go");
    talk.here()
}

fn about_tools(heard: &[Value]) -> Vec<Value> {
    events(heard, "rpc_1").into_iter().filter(|event| event.get("toolCallId").is_some()).collect()
}

#[test]
fn ac_024_and_025_a_call_is_announced_then_told_of_then_ended_once() {
    let heard = told(vec![
        tool("shell-run", json!({"cmd": "echo hi"}), &["hi"], json!("ignored"), None),
        tool("look", json!({}), &[], json!({"a": 1}), None),
        text("done"),
    ]);
    let told = about_tools(&heard);
    let kinds: Vec<&str> = told.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let once = ["tool-call", "tool-output", "tool-output", "tool-result"];
    assert_eq!(kinds, [once, once].concat());
    let (first, second) = (told[0]["toolCallId"].clone(), told[4]["toolCallId"].clone());
    assert_ne!(first, second);
    for (event, id) in told.iter().zip([[&first; 4], [&second; 4]].concat()) {
        assert_eq!(&event["toolCallId"], id);
    }
    assert_eq!(
        told[0],
        json!({"type": "tool-call", "toolCallId": first, "toolName": "shell-run", "args": {"cmd": "echo hi"}})
    );
    let header = json!({"kind": "tool-header", "labelKey": "tool.label.shell_run", "detail": "echo hi"});
    assert_eq!(told[1]["content"], header);
    assert_eq!(told[2]["content"], json!({"kind": "text", "text": "hi"}));
    assert_eq!(told[3], json!({"type": "tool-result", "toolCallId": first, "toolName": "shell-run"}));
    assert_eq!(told[5]["content"], json!({"kind": "tool-header", "labelKey": "tool.label.look"}));
    assert_eq!(told[6]["content"], json!({"kind": "text", "text": r#"{"a":1}"#}));
    assert_eq!(reply_of(&heard, "rpc_1")["toolCalls"], json!(["shell-run", "look"]));
}

#[test]
fn ac_025_calls_that_are_open_at_the_end_are_ended_before_it() {
    let script = hang()
        .on("ask", vec![Step::Ask { text: "?".into(), schema: None, timeout_ms: 60_000, give_up: true }]);
    let service = Service { model: Some("demo".into()), ..Service::default() };
    let limits = AcolyteLimits { chat_s: 5, ..AcolyteLimits::default() };
    let mut talk = Talk::serving(script, limits, service, Settings::default());
    talk.start("rpc_1", "ask");
    talk.world.advance(6000);
    let heard = talk.here();
    let kinds: Vec<&str> = heard
        .iter()
        .map(|message| message["event"]["type"].as_str().or_else(|| message["type"].as_str()).unwrap())
        .filter(|kind| kind.starts_with("tool-") || *kind == "chat.done")
        .collect();
    assert_eq!(kinds, ["tool-call", "tool-output", "tool-result", "chat.done"]);
    let result = &of_type(&events(&heard, "rpc_1"), "tool-result")[0];
    assert_eq!((&result["isError"], &result["errorCode"]), (&true.into(), &"E_ABORTED".into()));
}

#[test]
fn ac_026_and_027_a_failed_call_says_why_and_the_turn_goes_on() {
    let heard = told(vec![
        tool("file-read", json!({"path": "gone.txt"}), &[], Value::Null, Some("[E_FILE_NOT_FOUND] gone.txt")),
        text("That file is missing."),
    ]);
    let told = about_tools(&heard);
    assert_eq!(told[2]["content"]["text"], "[E_FILE_NOT_FOUND] gone.txt");
    assert_eq!(
        told[3],
        json!({
            "type": "tool-result", "toolCallId": told[0]["toolCallId"], "toolName": "file-read",
            "isError": true, "errorCode": "E_FILE_NOT_FOUND",
            "error": {"code": "E_FILE_NOT_FOUND", "category": "file-not-found", "kind": "file_not_found",
                "source": "tool-error", "tool": "file-read"},
        })
    );
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!(reply["output"], "That file is missing.");
    assert!(reply.get("error").is_none());
}

#[test]
fn pieces_of_output_are_parts_where_they_are_written_as_such() {
    let part = r#"{"kind":"shell-output","stream":"stderr","text":"oh"}"#;
    let heard = told(vec![tool(
        "t",
        json!("bare"),
        &[part, "  ", "{broken", r#"{"kind":"text","text":" "}"#],
        json!("x"),
        None,
    )]);
    let told = about_tools(&heard);
    let contents: Vec<&Value> = told[2..told.len() - 1].iter().map(|event| &event["content"]).collect();
    assert_eq!(
        contents,
        [
            &json!({"kind": "shell-output", "stream": "stderr", "text": "oh"}),
            &json!({"kind": "text", "text": "{broken"}),
        ],
        "blanks are dropped by readers, and so are not sent"
    );
    assert_eq!(told[0]["args"], json!({"value": "bare"}));
}

#[test]
fn results_without_words_and_with_too_many_are_told_as_such() {
    let heard = told(vec![
        tool("a", json!(null), &[], Value::Null, None),
        tool("b", json!({}), &[], json!(" "), None),
        tool("c", json!({"n": 1, "s": "  first line\nsecond"}), &[], json!("é".repeat(10_000)), None),
    ]);
    let told = about_tools(&heard);
    assert_eq!(told[2]["content"], json!({"kind": "no-output"}));
    assert_eq!(told[6]["content"], json!({"kind": "no-output"}));
    assert_eq!(told[9]["content"]["detail"], "first line");
    let shown = told[10]["content"]["text"].as_str().unwrap();
    assert_eq!(shown.len(), 16 << 10);
    assert_eq!(
        told[11]["content"],
        json!({"kind": "truncated", "count": 20_000 - (16 << 10), "unit": "bytes"})
    );
}

#[test]
fn a_question_that_no_client_can_answer_is_turned_down_at_once() {
    let ask = || Step::Ask { text: "May I?".into(), schema: None, timeout_ms: 60_000, give_up: true };
    let script = Script::new().on("ask", vec![ask(), Step::Result]);
    let mut talk = Talk::new(script.clone());
    talk.start("rpc_1", "ask");
    let heard = talk.here();
    let told = about_tools(&heard);
    assert_eq!(
        (&told[0]["toolName"], &told[0]["args"]),
        (&"question".into(), &json!({"question": "May I?"}))
    );
    let result = told.last().unwrap();
    assert_eq!((&result["isError"], &result["errorCode"]), (&true.into(), &"E_SANDBOX_VIOLATION".into()));
    assert_eq!(result["error"]["kind"], "sandbox_violation");
    assert!(reply_of(&heard, "rpc_1")["output"].as_str().unwrap().starts_with("E_SANDBOX_VIOLATION"));
    // Unless others may answer it.
    let service = Service { model: Some("demo".into()), ..Service::default() };
    let mut talk = Talk::serving(script, AcolyteLimits::default(), service, Settings::default());
    talk.start("rpc_1", "ask");
    assert_eq!(about_tools(&talk.here()).len(), 2);
    talk.world.advance(60_000);
    let seen = talk.seen(talk.peer);
    let heard: Vec<Value> = seen
        .into_iter()
        .filter_map(
            |seen| if let crate::support::Seen::Message(message) = seen { Some(message) } else { None },
        )
        .collect();
    assert_eq!(about_tools(&heard)[0]["errorCode"], "E_TIMEOUT");
}

#[test]
fn signs_of_life_say_how_many_tools_were_used() {
    let heard = told(vec![
        tool("a", json!({}), &[], json!("x"), None),
        tool("b", json!({}), &[], json!("x"), None),
        Step::Status("busy".into()),
    ]);
    let status = of_type(&events(&heard, "rpc_1"), "status");
    assert_eq!(status[0]["state"], json!({"kind": "running"}));
    assert_eq!(status[1]["state"], json!({"kind": "running", "toolCalls": 2}));
}
