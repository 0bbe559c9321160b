//! The agents of a simulation: everything an agent can do, at every pace.

use std::collections::BTreeMap;

use serde_json::json;
use switchboard_asp::message::ToolDef;
use switchboard_asp::{Map, Value};
use switchboard_core::ToolName;
use switchboard_core::model::{
    Checklist, ChecklistItem, ChecklistState, Executor, FailureKind, Finish, NoticeLevel, Tool,
    ToolAnnotations,
};

use crate::script::{BatchCommand, Recovery, Script, Step, ToolSpec};

/// An agent that tells every story below, and recovers as asked.
pub(super) fn agent(recovery: Recovery) -> Script {
    let mut script = Script::new().recovering(recovery).with_tool(own_tool("sum"));
    // Whoever goes on after a loss is lost again and again, until its deadline.
    let pause = if recovery == Recovery::Replay { 3_000 } else { 10 };
    script = script.on("lose *", vec![Step::Wait(pause), Step::Lose]);
    for (name, steps) in stories() {
        script = script.on(&format!("{name} *"), steps);
    }
    script.on(
        "sum",
        vec![
            Step::Text("adding".into()),
            Step::EndWith {
                finish: Finish::Complete,
                output: Some(json!({"sum": 3})),
                usage: None,
                cpu_ms: None,
            },
        ],
    )
}

/// The names of the stories; the more often one is here, the more often it is told.
pub(super) const NAMES: &[&str] = &[
    "burst", "burst", "paced", "paced", "paced", "long", "call", "call", "twice", "ask", "tool", "mix",
    "mix", "fail", "empty", "panic", "hang", "deaf", "lose", "grow", "unknown", "echo", "late", "babble",
];

/// The names of stories for whoever has a device.
pub(super) const PLANS: &[&str] =
    &["plan", "plan", "plan", "strict", "burst", "paced", "fail", "empty", "panic", "hang", "lose", "late"];

/// The tool that clients execute.
pub(super) const CLIENT_TOOL: &str = "lookup";

/// The tool that clients execute, as they offer it.
pub(super) fn client_tool() -> ToolDef {
    ToolDef {
        name: CLIENT_TOOL.into(),
        description: None,
        input_schema: Map::new().with("type", Value::from("object")),
        output_schema: None,
        annotations: None,
        version: None,
        ttl_s: None,
    }
}

fn stories() -> Vec<(&'static str, Vec<Step>)> {
    let text = |text: &str| Step::Text(text.into());
    let call = |timeout_ms, give_up| Step::Call {
        tool: CLIENT_TOOL.into(),
        args: json!({"q": "where"}),
        timeout_ms,
        give_up,
    };
    vec![
        ("burst", vec![Step::Echo, Step::Repeat { times: 12, every: 0, steps: vec![text("tick ")] }]),
        ("paced", vec![Step::Echo, Step::Repeat { times: 8, every: 40, steps: vec![text("tock ")] }]),
        ("long", vec![Step::Echo, Step::Fill { bytes: 60_000, piece: 3_000 }, text("end")]),
        ("call", vec![text("asking "), call(900, false), Step::Result, Step::Echo]),
        ("twice", vec![call(700, true), Step::Result, text(" and "), call(2_000, true), Step::Result]),
        (
            "ask",
            vec![
                Step::Status("thinking".into()),
                Step::Ask { text: "which?".into(), schema: None, timeout_ms: 1_500, give_up: false },
                Step::Result,
            ],
        ),
        (
            "tool",
            vec![
                Step::Tool {
                    name: "search".into(),
                    args: json!({"q": 1}),
                    progress: vec!["a".into(), "b".into()],
                    output: json!({"hits": 2}),
                    error: None,
                },
                Step::Tool {
                    name: "search".into(),
                    args: json!(null),
                    progress: Vec::new(),
                    output: json!(null),
                    error: Some("no hits".into()),
                },
                Step::Echo,
            ],
        ),
        ("mix", mixed()),
        ("plan", vec![Step::Echo, batch(2), Step::Results, batch(1), done()]),
        ("strict", vec![batch(1), Step::FailIfFailed("it failed".into()), Step::Echo, batch(3), done()]),
        ("fail", vec![Step::Echo, Step::Wait(20), Step::Fill { bytes: 900, piece: 300 }, failure()]),
        ("empty", vec![Step::End(Finish::Empty)]),
        ("panic", vec![Step::Reason("hm".into()), Step::Panic]),
        ("hang", vec![Step::Echo, Step::Hang]),
        ("deaf", vec![Step::Echo, Step::Deaf, Step::Hang]),
        ("grow", vec![Step::AddTools(vec![found()]), text("x"), Step::RemoveTools(vec!["found".into()])]),
        (
            "unknown",
            vec![Step::Call { tool: "nothing".into(), args: json!({}), timeout_ms: 500, give_up: true }],
        ),
        ("babble", vec![Step::Echo, Step::Repeat { times: 150, every: 1, steps: vec![text("bla ")] }]),
        ("late", vec![Step::Wait(1_200), Step::Echo, Step::Wait(300), text("done")]),
    ]
}

fn mixed() -> Vec<Step> {
    vec![
        Step::Reason("first ".into()),
        Step::Reason("then".into()),
        Step::Status("working".into()),
        Step::Notice { level: NoticeLevel::Info, text: "by the way".into() },
        Step::Checklist(Checklist {
            group: "plan".into(),
            title: "Plan".into(),
            items: vec![ChecklistItem { id: "1".into(), label: "one".into(), state: ChecklistState::Active }],
        }),
        Step::Wait(15),
        Step::Echo,
        Step::Data { mime: Some("application/json".into()), value: json!({"a": [1, 2]}) },
        Step::Usage(BTreeMap::from([("input".to_owned(), 7), ("output".to_owned(), 9)])),
        Step::End(Finish::Length),
    ]
}

/// Commands for a device.
fn batch(size: usize) -> Step {
    let commands = vec![BatchCommand::new("press", json!({"key": "enter"})); size];
    Step::Batch { commands, timeout_ms: 2_000 }
}

fn done() -> Step {
    Step::EndWithResults { result: Some(json!("done")), error: None }
}

fn failure() -> Step {
    Step::Fail { kind: FailureKind::ModelUnavailable, message: "gone".into() }
}

fn found() -> ToolSpec {
    ToolSpec { name: "found".into(), description: "found on the way".into(), input_schema: None }
}

fn own_tool(name: &str) -> Tool {
    Tool {
        name: ToolName::from(name),
        description: String::new(),
        input_schema: json!({"type": "object"}).into(),
        output_schema: None,
        annotations: ToolAnnotations::default(),
        version: None,
        executor: Executor::Agent,
        grace_ms: 0,
        options: serde_json::Value::Null,
    }
}
