//! JSON Schemas of the messages, made of the Rust types: each is written with all of its members, and with none that
//! may be left out. The SDKs' types are made of them, so that they are of one source; a member that is added here
//! does not compile until it is in a sample below.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use serde_json::{Map as Object, Value as Json, json};
use switchboard_asp::error::{Close, Code};
use switchboard_asp::message::{
    Annotations, Ask, AskReply, Budget, Call, CallFailure, CallResult, ClientInfo, ClientLimits, Completion,
    Enc, End, ErrorBody, ErrorFrame, Feature, Features, Finish, Hello, HelloOp, Input, Interrupt, Invoke,
    InvokeBody, Kind, Level, Metrics, Mode, Notice, Part, Phase, Record, RecordBody, ResumeGrant,
    ResumeRequest, Secret, ServerHello, ServerHelloOp, ServerInfo, ServerLimits, ServerMode, State, Status,
    Step, ToolActivity, ToolDef, ToolDefFrame, ToolDefOp, Usage,
};
use switchboard_asp::{Map, Value};

/// What stands for any value.
const ANY: &str = "any value";

#[test]
fn the_schemas_of_the_sdks_are_those_of_the_types() {
    let schemas = serde_json::to_string_pretty(&schemas()).unwrap() + "\n";
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdks/typescript/schemas/asp.json");
    if fs::read_to_string(&place).unwrap_or_default() != schemas {
        let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("asp.json");
        fs::write(&made, schemas).unwrap();
        panic!("the messages have changed: copy {} to sdks/typescript/schemas", made.display());
    }
}

fn schemas() -> Json {
    let mut types = Object::new();
    for (name, full, least) in samples() {
        types.insert(name.to_owned(), object(name, full, &least));
    }
    let codes: Vec<Json> = Code::ALL
        .iter()
        .map(|code| json!({"code": code.number(), "name": code.name(), "retry": code.retry(), "http": code.http_status()}))
        .collect();
    let closes: Vec<Json> = Close::ALL
        .iter()
        .map(|close| json!({"code": close.number(), "resumable": close.resumable()}))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Agent Socket Protocol",
        "$defs": types,
        "x-features": Feature::NAMES,
        "x-codes": codes,
        "x-closes": closes,
    })
}

fn object(owner: &str, full: Map, least: &Map) -> Json {
    let required: Vec<&str> = least.iter().map(|(key, _)| key).collect();
    let mut properties = Object::new();
    for (key, value) in full {
        properties.insert(key.to_string(), property(owner, &key, &value));
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn property(owner: &str, key: &str, value: &Value) -> Json {
    if let Some((.., of)) = NESTED.iter().find(|(of, named, _)| *of == owner && *named == key) {
        let reference = json!({"$ref": format!("#/$defs/{of}")});
        return if matches!(value, Value::Array(_)) {
            json!({"type": "array", "items": reference})
        } else {
            reference
        };
    }
    if let Some((.., names)) = CHOICES.iter().find(|(of, named, _)| *of == owner && *named == key) {
        let choice = json!({"enum": names});
        return if matches!(value, Value::Array(_)) {
            json!({"type": "array", "items": choice})
        } else {
            choice
        };
    }
    match value {
        Value::Str(text) if text == ANY => json!({}),
        Value::Str(text) if key == "t" || key == "type" || (owner.ends_with("Invoke") && key == "kind") => {
            json!({"const": text})
        }
        Value::Str(_) => json!({"type": "string"}),
        Value::Bool(_) => json!({"type": "boolean"}),
        Value::Int(_) => json!({"type": "integer"}),
        Value::Float(_) => json!({"type": "number"}),
        Value::Bin(_) => json!({"type": "string", "contentEncoding": "base64"}),
        Value::Array(items) => json!({"type": "array", "items": property(owner, "", items.first().unwrap())}),
        Value::Map(map) => match map.iter().next() {
            // A map from names of the sender's own.
            Some(("*", of)) => json!({"type": "object", "additionalProperties": property(owner, "", of)}),
            _ => json!({"type": "object"}),
        },
        Value::Null => json!({"type": "null"}),
    }
}

/// Members that are of a type of their own.
const NESTED: &[(&str, &str, &str)] = &[
    ("Hello", "client", "ClientInfo"),
    ("Hello", "limits", "ClientLimits"),
    ("Hello", "tools", "Tool"),
    ("Hello", "resume", "ResumeRequest"),
    ("ServerHello", "limits", "ServerLimits"),
    ("ServerHello", "resume", "ResumeGrant"),
    ("ServerHello", "server", "ServerInfo"),
    ("Tool", "annotations", "Annotations"),
    ("ToolDefFrame", "tools", "Tool"),
    ("EndRecord", "metrics", "Metrics"),
    ("Completion", "metrics", "Metrics"),
    ("StepInvoke", "step", "Step"),
    ("Step", "budget", "Budget"),
    ("ResultInvoke", "error", "CallFailure"),
];

/// Members with a closed set of names.
const CHOICES: &[(&str, &str, &[&str])] = &[
    ("Hello", "op", HelloOp::NAMES),
    ("Hello", "enc", Enc::NAMES),
    ("ServerHello", "op", ServerHelloOp::NAMES),
    ("ServerHello", "enc", Enc::NAMES),
    ("ServerHello", "features", Feature::NAMES),
    ("ServerInfo", "mode", ServerMode::NAMES),
    ("Interrupt", "mode", Mode::NAMES),
    ("ToolDefFrame", "op", ToolDefOp::NAMES),
    ("StatusRecord", "state", State::NAMES),
    ("ToolRecord", "phase", Phase::NAMES),
    ("NoticeRecord", "level", Level::NAMES),
    ("EndRecord", "finish", Finish::NAMES),
    ("Completion", "finish", Finish::NAMES),
];

/// Every type: its name, with all members, and with those alone that it always has.
fn samples() -> Vec<(&'static str, Map, Map)> {
    let mut samples = hellos();
    samples.extend(tools());
    samples.extend(invokes());
    samples.extend(records());
    let interrupt = Interrupt { mode: Mode::Cancel, reason: some(), bytes: Some(1) };
    samples.push(("Interrupt", interrupt.to_map(), Map::new()));
    let error = ErrorBody {
        code: 1,
        name: text(),
        msg: text(),
        retry: true,
        retry_ms: Some(1),
        fatal: true,
        reference: Some(1),
        detail: Some(Map::new()),
    };
    let least = ErrorBody { retry_ms: None, fatal: false, reference: None, detail: None, ..error.clone() };
    samples.push(("Error", ErrorFrame::Error(error).to_map(), ErrorFrame::Error(least).to_map()));
    let completion = Completion { finish: Some(Finish::Complete), metrics: Some(metrics()) };
    samples.push(("Completion", completion.to_map(), Completion::default().to_map()));
    samples
}

fn hellos() -> Vec<(&'static str, Map, Map)> {
    let client = ClientInfo { name: text(), version: text(), platform: some() };
    let limits = ClientLimits { max_payload: Some(1), window: Some(1) };
    let resume = ResumeRequest { cid: text(), token: Secret::new("x"), next: Vec::new() };
    let hello = Hello {
        op: HelloOp::Hello,
        ver: vec![1],
        features: vec![text()],
        enc: vec![Enc::Json],
        client: Some(client.clone()),
        limits: Some(limits),
        tools: Some(vec![tool()]),
        resume: Some(resume),
        nonce: some(),
        token: Some(Secret::new("x")),
    };
    let of_hello = |key: &str| match hello.to_map().get(key) {
        Some(Value::Map(map)) => map.clone(),
        _ => Map::new(),
    };
    // Where it is not the first one, it says what for.
    let whole = hello.to_map().with("op", "hello");
    let bare = Hello { client: Some(ClientInfo { platform: None, ..client }), ..hello.clone() };
    let Some(Value::Map(least_client)) = bare.to_map().get("client").cloned() else { unreachable!() };
    let next = Map::new().with("*", Value::Int(1));
    let server_limits = ServerLimits {
        max_payload: Some(1),
        max_message: Some(1),
        max_inflight: Some(1),
        window: Some(1),
        frames_per_s: Some(1),
        invokes_per_s: Some(1),
    };
    let server = ServerHello {
        op: ServerHelloOp::Accept,
        ver: Some(1),
        cid: some(),
        features: Some(Features::ALL),
        enc: Some(Enc::Json),
        limits: Some(server_limits),
        heartbeat_s: Some(1),
        resume: Some(ResumeGrant { token: Secret::new("x"), window_s: 1 }),
        resumed: Some(true),
        lost: Some(vec![1]),
        server: Some(ServerInfo { name: text(), version: text(), mode: ServerMode::Direct }),
        nonce: some(),
        exp: Some(1),
        retry_ms: Some(1),
        reason: some(),
    };
    let of_server = |key: &str| match server.to_map().get(key) {
        Some(Value::Map(map)) => map.clone(),
        _ => Map::new(),
    };
    vec![
        ("Hello", whole, Map::new()),
        ("ClientInfo", of_hello("client"), least_client),
        ("ClientLimits", of_hello("limits"), Map::new()),
        ("ResumeRequest", of_hello("resume").with("next", next), of_hello("resume")),
        ("ServerHello", server.to_map(), ServerHello::new(ServerHelloOp::Pong).to_map()),
        ("ServerLimits", of_server("limits"), Map::new()),
        ("ResumeGrant", of_server("resume"), of_server("resume")),
        ("ServerInfo", of_server("server"), of_server("server")),
    ]
}

fn tools() -> Vec<(&'static str, Map, Map)> {
    let full = tool();
    let annotations = full.to_map();
    let Some(Value::Map(annotations)) = annotations.get("annotations").cloned() else { unreachable!() };
    let least = ToolDef {
        description: None,
        output_schema: None,
        annotations: None,
        version: None,
        ttl_s: None,
        ..full.clone()
    };
    let frame = |op, tools: &[ToolDef], names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ToolDefFrame { op, rev: Some(1), tools: tools.to_vec(), names }.to_map()
    };
    let mut whole = frame(ToolDefOp::Add, std::slice::from_ref(&full), &[]);
    whole.insert("names", Value::Array(vec!["x".into()]));
    vec![
        ("Tool", full.to_map(), least.to_map()),
        ("Annotations", annotations, Map::new()),
        ("ToolDefFrame", whole, Map::new()),
    ]
}

fn invokes() -> Vec<(&'static str, Map, Map)> {
    let budget = Budget { tokens: Some(1), ms: Some(1) };
    let step = Step { goal: text(), state: any(), budget: Some(budget) };
    let bodies: [(&str, InvokeBody, InvokeBody); 8] = [
        ("ChatInvoke", chat(), chat()),
        ("ToolInvoke", tool_invoke(), tool_invoke()),
        ("StepInvoke", InvokeBody::Step(step.clone()), InvokeBody::Step(step.clone())),
        ("ResultInvoke", result(any(), Some(failure())), result(None, None)),
        ("ReplyInvoke", reply(some(), any()), reply(None, None)),
        ("ListInvoke", InvokeBody::List, InvokeBody::List),
        ("WatchInvoke", InvokeBody::Watch { turn: some() }, InvokeBody::Watch { turn: None }),
        ("PartsInvoke", parts(), parts()),
    ];
    let mut samples = Vec::new();
    for (name, full, least) in bodies {
        // A kind that is not here does not compile.
        match full.kind() {
            Kind::Chat | Kind::Tool | Kind::Step | Kind::Result | Kind::Reply | Kind::List | Kind::Watch => {}
        }
        let whole = Invoke {
            body: full,
            session: some(),
            agent: some(),
            serial: false,
            deadline_ms: 1_000,
            idem: some(),
            stream: false,
            want: Some(vec![text()]),
            meta: Some(Map::new()),
        };
        samples.push((name, whole.to_map(), Invoke::new(least).to_map()));
    }
    let step_map = |step: Step| {
        let map = Invoke::new(InvokeBody::Step(step)).to_map();
        let Some(Value::Map(map)) = map.get("step").cloned() else { unreachable!() };
        map
    };
    let whole = step_map(step);
    let Some(Value::Map(budget)) = whole.get("budget").cloned() else { unreachable!() };
    samples.push(("Step", whole, step_map(Step { goal: text(), state: None, budget: None })));
    samples.push(("Budget", budget, Map::new()));
    let failed = Invoke::new(result(None, Some(failure()))).to_map();
    let Some(Value::Map(failed)) = failed.get("error").cloned() else { unreachable!() };
    samples.push(("CallFailure", failed.clone(), failed));
    for (name, part) in [
        ("TextPart", Part::Text(text())),
        ("DataPart", Part::Data { mime: text(), data: vec![1].into() }),
        ("RefPart", Part::Ref { uri: text() }),
    ] {
        let map = Invoke::new(InvokeBody::Chat(Input::Parts(vec![part]))).to_map();
        let Some(Value::Map(part)) = map.get("input").and_then(Value::as_array).unwrap().first().cloned()
        else {
            unreachable!()
        };
        samples.push((name, part.clone(), part));
    }
    samples
}

fn records() -> Vec<(&'static str, Map, Map)> {
    let activity = ToolActivity {
        call_id: text(),
        name: text(),
        phase: Phase::Start,
        args: any(),
        d: some(),
        output: any(),
    };
    let least_activity = ToolActivity { args: None, d: None, output: None, ..activity.clone() };
    let end = End {
        finish: Finish::Complete,
        output: any(),
        usage: Some(Usage(vec![("*".into(), 1)])),
        metrics: Some(metrics()),
        abandoned: true,
    };
    let bodies = [
        (
            "StartRecord",
            RecordBody::Start { run: text(), model: some() },
            RecordBody::Start { run: text(), model: None },
        ),
        (
            "StatusRecord",
            RecordBody::Status(Status { state: State::Running, pos: Some(1), msg: some() }),
            RecordBody::Status(Status { state: State::Running, pos: None, msg: None }),
        ),
        ("TextRecord", RecordBody::Text(text()), RecordBody::Text(text())),
        ("ReasonRecord", RecordBody::Reason(text()), RecordBody::Reason(text())),
        ("ToolRecord", RecordBody::Tool(activity), RecordBody::Tool(least_activity)),
        ("CallRecord", call(), call()),
        (
            "AskRecord",
            RecordBody::Ask(Ask { ask_id: text(), text: text(), schema: Some(Map::new()) }),
            RecordBody::Ask(Ask { ask_id: text(), text: text(), schema: None }),
        ),
        (
            "DataRecord",
            RecordBody::Data { mime: some(), value: ANY.into() },
            RecordBody::Data { mime: None, value: ANY.into() },
        ),
        ("UsageRecord", RecordBody::Usage(Usage::default()), RecordBody::Usage(Usage::default())),
        (
            "NoticeRecord",
            RecordBody::Notice(Notice { level: Level::Info, text: text(), data: any() }),
            RecordBody::Notice(Notice { level: Level::Info, text: text(), data: None }),
        ),
        ("EndRecord", RecordBody::End(end), RecordBody::End(End::new(Finish::Complete))),
    ];
    let mut samples: Vec<_> = bodies
        .into_iter()
        .map(|(name, full, least)| {
            (name, Record::new(full).numbered(1).to_map(), Record::new(least).to_map())
        })
        .collect();
    let metrics = Completion { finish: None, metrics: Some(metrics()) }.to_map();
    let Some(Value::Map(metrics)) = metrics.get("metrics").cloned() else { unreachable!() };
    samples.push(("Metrics", metrics, Map::new()));
    samples
}

fn text() -> String {
    "x".into()
}

fn some() -> Option<String> {
    Some(text())
}

fn any() -> Option<Value> {
    Some(ANY.into())
}

fn tool() -> ToolDef {
    let annotations = Annotations {
        read_only: Some(true),
        destructive: Some(true),
        idempotent: Some(true),
        confirm: Some(true),
    };
    ToolDef {
        name: text(),
        description: some(),
        input_schema: Map::new(),
        output_schema: Some(Map::new()),
        annotations: Some(annotations),
        version: some(),
        ttl_s: Some(1),
    }
}

fn metrics() -> Metrics {
    Metrics { cpu_ms: Some(1), wall_ms: Some(1), queue_ms: Some(1), first_ms: Some(1) }
}

fn failure() -> CallFailure {
    CallFailure { name: text(), msg: text() }
}

fn chat() -> InvokeBody {
    InvokeBody::Chat(Input::Text(text()))
}

fn parts() -> InvokeBody {
    InvokeBody::Chat(Input::Parts(vec![Part::Text(text())]))
}

fn tool_invoke() -> InvokeBody {
    InvokeBody::Tool { tool: text(), args: Map::new() }
}

fn result(output: Option<Value>, error: Option<CallFailure>) -> InvokeBody {
    InvokeBody::Result(CallResult { parent: 1, call_id: text(), ok: true, output, error })
}

fn reply(text_: Option<String>, data: Option<Value>) -> InvokeBody {
    InvokeBody::Reply(AskReply { parent: 1, ask_id: text(), text: text_, data })
}

fn call() -> RecordBody {
    RecordBody::Call(Call { call_id: text(), name: text(), args: Map::new(), timeout_ms: 1 })
}
