//! Stories: how they are played, and what is said about broken ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::time::Duration;

use serde_json::json;
use switchboard_agents::{Agent, AgentError, Brief, BuiltinStory, Script, ScriptConfig, Story, StoryError};
use switchboard_core::Event;
use switchboard_core::model::{
    CallEnd, CallError, CallKind, CallRequest, ChecklistState, FailureKind, Finish, NoticeLevel, Output,
    Remembered, Setting, TurnEnd, TurnOutcome, TurnRequest,
};
use tokio::time::{Instant, timeout};

use support::{Port, chat, run, tool};

fn conformance() -> Script {
    Script::load(&ScriptConfig { builtin: BuiltinStory::Conformance, ..ScriptConfig::default() }).unwrap()
}

fn script(text: &str) -> Script {
    Script::new(Story::parse(text, "test.toml").unwrap())
}

async fn said(script: &Script, input: &str) -> String {
    let port = Port::silent();
    run(script, &port, chat(input)).await.unwrap();
    port.text()
}

fn kind(result: Result<TurnEnd, AgentError>) -> (FailureKind, String) {
    match result {
        Err(AgentError::Failed(failure)) => (failure.kind, failure.message),
        other => panic!("not failed: {other:?}"),
    }
}

fn deltas(port: &Port) -> Vec<Output> {
    port.outputs()
}

#[tokio::test(start_paused = true)]
async fn captured_values_drive_counts_sizes_delays_and_texts() {
    let story = conformance();
    assert_eq!(said(&story, "count 3").await, "1 2 3 ");
    assert_eq!(said(&story, "count 0").await, "");
    assert_eq!(said(&story, "  count 2\n").await, "1 2 ");
    assert_eq!(said(&story, "size 100000").await.len(), 100_000);
    assert_eq!(
        said(&story, "echo {input} {{x}}").await,
        "{input} {{x}}",
        "captured text is not filled in again"
    );

    let measured = said(&story, "measure é").await;
    assert!(measured.starts_with("9 10 ") && measured.len() == 5 + 64, "{measured}");

    let port = Port::silent();
    let begin = Instant::now();
    run(&story, &port, chat("deltas 4 of 10 every 250")).await.unwrap();
    assert_eq!(begin.elapsed().as_millis(), 3 * 250);
    assert_eq!(deltas(&port), vec![Output::Text("abcdefghij".into()); 4]);

    let port = Port::silent();
    run(&story, &port, chat("chunks 2 aébc!")).await.unwrap();
    assert_eq!(deltas(&port), ["aé", "bc", "!"].map(|text| Output::Text(text.into())));
}

#[tokio::test]
async fn every_kind_of_output_can_be_told() {
    let story = conformance();
    for (input, wanted) in [
        ("status busy", Output::Status("busy".into())),
        ("notice hm", Output::Notice { level: NoticeLevel::Info, text: "hm".into() }),
        ("warn hm", Output::Notice { level: NoticeLevel::Warn, text: "hm".into() }),
        ("data {\"a\":[1,null]}", Output::Data { mime: None, value: json!({ "a": [1, null] }) }),
        ("reason 1", Output::Reasoning("thought 1 ".into())),
    ] {
        let port = Port::silent();
        run(&story, &port, chat(input)).await.unwrap();
        assert_eq!(deltas(&port)[0], wanted);
        assert_eq!(port.text(), "done");
    }
    let port = Port::silent();
    let end = run(&story, &port, chat("usage 7 9")).await.unwrap();
    let usage = end.usage.unwrap();
    assert_eq!((usage.0["input_tokens"], usage.0["output_tokens"]), (7, 9));
    assert_eq!(deltas(&port)[0], Output::Usage(usage));

    let port = Port::silent();
    run(&story, &port, chat("checklist")).await.unwrap();
    let Output::Checklist(second) = &deltas(&port)[1] else { panic!() };
    assert_eq!(second.items[1].state, ChecklistState::Failed);
}

#[tokio::test]
async fn tools_of_the_agent_show_their_output() {
    let port = Port::silent();
    run(&conformance(), &port, chat("tool x 2")).await.unwrap();
    let events = port.events();
    let Event::CallRequested { call, .. } = &events[0] else { panic!("{events:?}") };
    assert!(
        matches!(&call.kind, CallKind::Tool { args, .. } if *args == json!({ "name": "x", "n": 2 }).into())
    );
    assert!(matches!(&events[1], Event::CallProgress { delta, .. } if delta == "piece 1\n"));
    assert!(matches!(&events[2], Event::CallProgress { delta, .. } if delta == "piece 2\n"));
    let done = CallEnd::done(json!({ "pieces": 2 }));
    assert!(matches!(&events[3], Event::CallEnded { end, .. } if *end == done));

    let port = Port::silent();
    run(&conformance(), &port, chat("tool-error no luck")).await.unwrap();
    let failed = CallEnd::Failed(CallError::new("Broken", "no luck"));
    assert!(matches!(&port.events()[1], Event::CallEnded { end, .. } if *end == failed));
    assert_eq!(port.text(), "done");
}

#[tokio::test]
async fn results_and_answers_are_variables() {
    let port = Port::new(|call: &CallRequest| {
        Some(match &call.kind {
            CallKind::Tool { name, args } => CallEnd::done(json!({ name.as_str(): args })),
            CallKind::Question { schema: None, .. } => CallEnd::done(json!("blue")),
            CallKind::Question { .. } => CallEnd::done(json!({ "choice": "b" })),
        })
    });
    let story = conformance();
    for input in ["call w {\"a\":1}", "calls 2 t", "ask colour? within 1000", "choose now"] {
        run(&story, &port, chat(input)).await.unwrap();
    }
    let wanted = "result: {\"w\":{\"a\":1}}1: {\"t\":{\"i\":1}}\n2: {\"t\":{\"i\":2}}\nanswer: bluechoice: b";
    assert_eq!(port.text(), wanted);
}

#[tokio::test]
async fn calls_without_a_result_fail_or_go_on_as_the_story_says() {
    let port = Port::new(|_| Some(CallEnd::TimedOut));
    let (found, message) = kind(run(&conformance(), &port, chat("call w within 5")).await);
    assert_eq!((found, message.as_str()), (FailureKind::CallTimeout, "the tool w was not answered in time"));
    run(&conformance(), &port, chat("try w within 5")).await.unwrap();
    assert_eq!(port.text(), "trying timed_out ");

    let port = Port::new(|_| Some(CallEnd::Failed(CallError::new("E", "m"))));
    run(&conformance(), &port, chat("call w")).await.unwrap();
    assert_eq!(port.text(), "failed: E m");
    let strict = script("[fallback]\nsteps = [{ call = { name = 'w', on_error = 'fail' } }]");
    assert_eq!(kind(run(&strict, &port, chat("x")).await).0, FailureKind::Tool);
}

#[tokio::test(start_paused = true)]
async fn turns_end_in_every_way() {
    let story = conformance();
    let port = Port::silent();
    let (found, message) = kind(run(&story, &port, chat("fail forbidden after 2")).await);
    assert_eq!((found, message.as_str()), (FailureKind::Forbidden, "asked to fail: forbidden"));
    assert_eq!(port.text(), "1 2 ");
    let (found, message) = kind(run(&story, &Port::silent(), chat("fail nonsense")).await);
    assert_eq!(found, FailureKind::Execution);
    assert!(message.contains("nonsense"), "{message}");

    for (name, finish) in [
        ("complete", Finish::Complete),
        ("length", Finish::Length),
        ("filtered", Finish::Filtered),
        ("empty", Finish::Empty),
    ] {
        let end = run(&story, &Port::silent(), chat(&format!("finish {name} [1]"))).await.unwrap();
        assert_eq!((end.outcome, end.output), (TurnOutcome::Done(finish), Some(json!([1]).into())));
    }

    let port = Port::silent();
    assert!(timeout(Duration::from_secs(60), run(&story, &port, chat("hang after 1"))).await.is_err());
    assert_eq!(port.text(), "1 ");
    let begin = Instant::now();
    run(&story, &Port::silent(), chat("wait 1500")).await.unwrap();
    assert_eq!(begin.elapsed().as_millis(), 1500);
}

#[tokio::test]
async fn a_panic_is_a_panic() {
    let story = conformance();
    let port = Port::silent();
    let copy = port.clone();
    let result = tokio::spawn(async move { run(&story, &copy, chat("panic after 1")).await.is_ok() }).await;
    assert!(result.unwrap_err().is_panic());
    assert_eq!(port.text(), "1 ");
}

#[tokio::test]
async fn tools_and_steps_have_rules_of_their_own() {
    let story = conformance();
    let names: Vec<String> = story.tools().iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["greet", "stream", "broken"]);
    let end = run(&story, &Port::silent(), tool("greet", json!({ "name": "Ann" }))).await.unwrap();
    assert_eq!(end.output, Some(json!({ "greeting": "Hello, Ann!" }).into()));
    let port = Port::silent();
    let end = run(&story, &port, tool("stream", json!({ "n": 3 }))).await.unwrap();
    assert_eq!((port.text().as_str(), end.output), ("1 2 3 ", Some(json!({ "n": 3 }).into())));
    assert_eq!(kind(run(&story, &port, tool("broken", json!({}))).await).0, FailureKind::Tool);
    assert_eq!(kind(run(&story, &port, tool("unknown", json!({}))).await).0, FailureKind::ToolNotFound);

    let step = TurnRequest::Step { goal: "go".into(), state: json!({ "n": 1 }), budget: Default::default() };
    let end = run(&story, &Port::silent(), step).await.unwrap();
    assert_eq!(end.output, Some(json!({ "goal": "go", "previous": { "n": 1 }, "done": true }).into()));

    let port = Port::silent();
    run(&story, &port, chat("add tool")).await.unwrap();
    assert!(
        matches!(&port.events()[0], Event::ToolsChanged { added, .. } if added[0].name.as_str() == "extra")
    );
    let end = run(&story, &port, tool("extra", json!({}))).await.unwrap();
    assert_eq!(end.output, Some(json!({ "extra": true }).into()));
}

#[tokio::test]
async fn bounds_hold_whatever_the_input_says() {
    let story = conformance();
    let (_, message) = kind(run(&story, &Port::silent(), chat("count 1000001")).await);
    assert!(message.contains("at most 1000000"), "{message}");
    let (_, message) = kind(run(&story, &Port::silent(), chat("size 16777217")).await);
    assert!(message.contains("`size`"), "{message}");
    let (_, message) = kind(run(&story, &Port::silent(), chat("wait 99999999999999999999999")).await);
    assert!(message.contains("whole number"), "{message}");
    let busy = script(
        "[fallback]\nsteps = [{ repeat = 2000, steps = [{ repeat = 1000, steps = [{ wait = 0 }] }] }]",
    );
    let (_, message) = kind(run(&busy, &Port::silent(), chat("x")).await);
    assert!(message.contains("1000000 things"), "{message}");
}

#[tokio::test]
async fn repetitions_lie_in_repetitions() {
    let nested = script(
        "[fallback]\nsteps = [{ repeat = 2, steps = [{ text = '{index}:' }, { repeat = 2, steps = [{ text = '{index}' }] }, { text = '/{index} ' }] }]",
    );
    assert_eq!(said(&nested, "x").await, "1:12/1 2:12/2 ");
}

#[tokio::test]
async fn json_stories_and_files_work_too() {
    let story =
        json!({ "name": "mine", "rules": [{ "match": "^a (?P<x>.*)$", "steps": [{ "text": "<{x}>" }] }] });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("story.json");
    std::fs::write(&path, story.to_string()).unwrap();
    let config = ScriptConfig { path: Some(path), ..ScriptConfig::default() };
    let script = Script::load(&config).unwrap();
    assert_eq!(said(&script, "a b").await, "<b>");
    let (found, message) = kind(run(&script, &Port::silent(), chat("other")).await);
    assert_eq!((found, message.as_str()), (FailureKind::Execution, "no rule of the story mine matches"));

    let config = ScriptConfig { path: Some(folder.path().join("none.toml")), ..ScriptConfig::default() };
    let error = Script::load(&config).unwrap_err();
    assert!(matches!(&error, StoryError::Unreadable { .. }) && error.to_string().contains("none.toml"));
}

#[tokio::test(start_paused = true)]
async fn the_demo_answers_whatever_it_suggests() {
    let demo = Script::demo().unwrap();
    assert!(said(&demo, "Hello there").await.contains("help"));
    let help = said(&demo, "help").await;
    assert!(help.contains("count 10") && help.contains("tell me a story"));
    assert_eq!(said(&demo, "count to 3").await, "1 2 3 done.");
    assert!(said(&demo, "Tell me a story").await.contains("switchboard operator"));
    assert!(said(&demo, "plan").await.ends_with("Tea is ready."));
    assert_eq!(said(&demo, "schön").await, "You said: schön");
    assert!(said(&demo, " ").await.starts_with("You said nothing"));
    let port = Port::new(|_| Some(CallEnd::done(json!("Tea, please"))));
    run(&demo, &port, chat("ask me")).await.unwrap();
    assert!(port.text().starts_with("Tea it is."));
    let port = Port::new(|_| Some(CallEnd::done(json!(42))));
    run(&demo, &port, chat("call shell {\"a\":1}")).await.unwrap();
    assert_eq!(port.text(), "shell answered: 42");
    assert!(!demo.tools().is_empty());
}

#[test]
fn broken_stories_are_refused_with_place_and_reason() {
    for (text, wanted) in [
        ("", "test.toml: it has no rules"),
        ("rules = 5", "story: invalid type"),
        ("[[rules]\n", "not TOML"),
        ("{", "not JSON"),
        ("colour = 1\n[fallback]", "unknown field `colour`"),
        ("[[rules]]\nsteps = []", "rule 1: it needs a `match`, a `tool` or a `step`"),
        ("[[rules]]\nmatch = 'a'\nstep = 'b'", "rule 1: `step` cannot be combined"),
        ("[[rules]]\nmatch = '('", "rule 1: bad pattern"),
        ("[[rules]]\nmatch = '(?P<index>x)'", "rule 1: a group cannot be called `index`"),
        (
            "[[rules]]\nmatch = 'a'\n[[rules]]\nmatch = 'b'\nsteps = [{ text = 'x' }, { txet = 'x' }]",
            "rule 2, step 2: unknown field `txet`",
        ),
        (
            "[fallback]\nsteps = [{ text = 'x', wait = 1 }]",
            "fallback, step 1: `text` and `wait` are two steps",
        ),
        ("[fallback]\nsteps = [{}]", "fallback, step 1: it does nothing"),
        ("[fallback]\nsteps = [{ wait = 1, chunk = 2 }]", "`chunk` is no option of `wait`"),
        (
            "[fallback]\nsteps = [{ text = '{n}' }]",
            "fallback, step 1: there is no variable `{n}` here (write `{{n}}` for the letters)",
        ),
        ("[fallback]\nsteps = [{ status = '{index}' }]", "no variable `{index}`"),
        ("[fallback]\nsteps = [{ text = '{answer}' }, { ask = '?' }]", "no variable `{answer}`"),
        (
            "[fallback]\nsteps = [{ repeat = 2, steps = [{ wait = -1 }] }]",
            "fallback, step 1, step 1: `wait` has to be a whole number or a variable, not -1",
        ),
        ("[fallback]\nsteps = [{ wait = 99999999999 }]", "may be at most"),
        ("[fallback]\nsteps = [{ text = 'x', chunk = 0 }]", "`chunk` is \"0\", and must be"),
        ("[fallback]\nsteps = [{ fail = { kind = 'bad', message = 'x' } }]", "unknown variant `bad`"),
        ("[fallback]\nsteps = [{ finish = 'later' }]", "`finish`: unknown variant `later`"),
        ("[fallback]\nsteps = [{ if = 'x' }]", "`if` needs a `match`"),
        ("[fallback]\nsteps = [{ hang = false }]", "`hang` can only be true"),
        (
            "[fallback]\nsteps = [{ tool = { name = 'a', result = 1, error = 'x' } }]",
            "a `result` or an `error`, not both",
        ),
        ("[fallback]\nsteps = [{ call = { name = 'a', on_timeout = 'wait' } }]", "unknown variant `wait`"),
        ("[fallback]\nsteps = [{ ask = { text = 'x', as = 'input' } }]", "`as` cannot be \"input\""),
        ("[fallback]\nmatch = 'x'", "fallback: it answers whatever no rule matches"),
        ("[[tools]]\nname = 'a'\n[fallback]", "the tool a is declared, but no rule says what it does"),
        ("[[rules]]\ntool = 'a'", "a rule is for the tool a, which is neither declared nor added"),
        ("[[tools]]\nname = 'a'\n[[tools]]\nname = 'a'\n[[rules]]\ntool = 'a'", "declared twice"),
    ] {
        let error = Story::parse(text, "test.toml").unwrap_err().to_string();
        assert!(error.starts_with("test.toml: ") && error.contains(wanted), "{text}\n{error}\n{wanted}");
    }
}

#[tokio::test]
async fn a_story_knows_what_is_remembered() {
    let remembered = |content: &str| Remembered {
        memory: "m".into(),
        content: content.into(),
        relevance: 0.9,
        source: None,
    };
    let agent = conformance();
    let said = async |memories: Vec<Remembered>| {
        let port = Port::silent();
        let brief = Brief { remembered: memories, ..support::brief(chat("remembered tea"), 1) };
        support::replay_brief(&agent, &port, brief, Vec::new()).await.unwrap();
        port.text()
    };
    assert_eq!(
        said(vec![remembered("likes tea"), remembered("has {input}")]).await,
        r#"2: ["likes tea","has {input}"]"#
    );
    assert_eq!(said(Vec::new()).await, "0: []");
}

#[tokio::test]
async fn a_story_knows_the_setting() {
    let agent = conformance();
    let said = async |setting: Option<Setting>| {
        let port = Port::silent();
        let brief = Brief { setting: setting.map(Box::new), ..support::brief(chat("setting"), 1) };
        support::replay_brief(&agent, &port, brief, Vec::new()).await.unwrap();
        port.text()
    };
    let setting = Setting { instructions: Some("Be {input}.".into()), scene: Some("Cart".into()) };
    assert_eq!(said(Some(setting)).await, "Be {input}. / Cart");
    assert_eq!(said(Some(Setting::default())).await, " / ");
    assert_eq!(said(None).await, " / ");
}
