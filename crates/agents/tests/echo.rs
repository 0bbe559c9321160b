//! The echo agent.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::time::Duration;

use serde_json::json;
use switchboard_agents::{Agent, AgentError, Chunk, Echo, EchoConfig, MAX_DELTA_BYTES, Recovery, Turn};
use switchboard_core::model::{FailureKind, Finish, Output, TurnOutcome, TurnRequest};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use support::{Port, brief, chat, run, tool};

fn fast() -> EchoConfig {
    EchoConfig { delay_ms: 0, ..EchoConfig::default() }
}

fn texts(port: &Port) -> Vec<String> {
    let texts = port.outputs().into_iter().filter_map(|output| match output {
        Output::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

#[tokio::test(start_paused = true)]
async fn it_says_what_it_hears_word_by_word_and_counts() {
    let port = Port::silent();
    let begin = Instant::now();
    let end = run(&Echo::default(), &port, chat("one two three")).await.unwrap();
    assert_eq!(texts(&port), ["one ", "two ", "three"]);
    assert_eq!(begin.elapsed().as_millis(), 2 * 30, "the pause lies between deltas");
    let usage = end.usage.unwrap();
    assert_eq!((usage.0["input_tokens"], usage.0["output_tokens"]), (3, 3));
    assert_eq!(port.outputs().last(), Some(&Output::Usage(usage)));
    assert_eq!(end.outcome, TurnOutcome::Done(Finish::Complete));
    assert_eq!(Echo::default().recovery(), Recovery::Replay);
}

#[tokio::test]
async fn prefix_repetition_and_chunks_are_configurable() {
    let port = Port::silent();
    let config = EchoConfig { prefix: "> ".into(), repeat: 2, chunk: Chunk::Chars(2), ..fast() };
    run(&Echo::new(config), &port, chat("añb")).await.unwrap();
    assert_eq!(texts(&port), ["> ", "añ", "b", "> ", "añ", "b"]);
}

#[tokio::test]
async fn benchmarks_choose_number_and_size_of_deltas() {
    let port = Port::silent();
    let config = EchoConfig { deltas: Some(1000), delta_bytes: 64, ..fast() };
    run(&Echo::new(config), &port, chat("whatever")).await.unwrap();
    assert_eq!(texts(&port).len(), 1000);
    assert!(texts(&port).iter().all(|text| text.len() == 64));

    let port = Port::silent();
    let config = EchoConfig { deltas: Some(1), delta_bytes: usize::MAX, ..fast() };
    run(&Echo::new(config), &port, chat("")).await.unwrap();
    assert_eq!(texts(&port)[0].len(), MAX_DELTA_BYTES);
}

#[tokio::test]
async fn nothing_is_answered_with_nothing() {
    let port = Port::silent();
    let end = run(&Echo::new(fast()), &port, chat("")).await.unwrap();
    assert_eq!((end.outcome, port.text().as_str()), (TurnOutcome::Done(Finish::Empty), ""));
}

#[tokio::test]
async fn its_tool_is_there_if_it_is_wanted() {
    let without = Echo::new(fast());
    assert!(without.tools().is_empty());
    let refused = run(&without, &Port::silent(), tool("echo", json!({ "text": "x" }))).await.unwrap_err();
    assert!(matches!(refused, AgentError::Failed(failure) if failure.kind == FailureKind::ToolNotFound));

    let with = Echo::new(EchoConfig { tool: true, ..fast() });
    assert_eq!(with.tools()[0].name.as_str(), "echo");
    let end = run(&with, &Port::silent(), tool("echo", json!({ "text": "x" }))).await.unwrap();
    assert_eq!(end.output, Some(json!({ "text": "x" }).into()));
    assert!(run(&with, &Port::silent(), tool("other", json!({}))).await.is_err());
}

#[tokio::test]
async fn a_step_counts_up() {
    let echo = Echo::new(fast());
    let mut state = json!(null);
    for steps in 1..4 {
        let step = TurnRequest::Step { goal: "g".into(), state: state.clone(), budget: Default::default() };
        state = run(&echo, &Port::silent(), step).await.unwrap().output.as_deref().unwrap().clone();
        assert_eq!(state, json!({ "goal": "g", "steps": steps }));
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_it_between_deltas() {
    let port = Port::silent();
    let (interrupt, interrupted) = watch::channel(false);
    let mut turn = Turn::new(brief(chat("one two three four"), 1), port.clone(), interrupted, Vec::new());
    let running = tokio::spawn(async move { Echo::default().run(&mut turn).await });
    tokio::time::sleep(Duration::from_millis(45)).await;
    interrupt.send(true).unwrap();
    let end = timeout(Duration::from_millis(1), running).await.unwrap().unwrap();
    assert!(matches!(end, Err(AgentError::Over)));
    assert_eq!(port.text(), "one two ");
}

#[test]
fn its_configuration_has_defaults_and_no_unknown_fields() {
    let config: EchoConfig = toml::from_str("delay_ms = 5\nchunk = 8").unwrap();
    assert_eq!(config, EchoConfig { delay_ms: 5, chunk: Chunk::Chars(8), ..EchoConfig::default() });
    assert!(toml::from_str::<EchoConfig>("speed = 5").is_err());
    let again: EchoConfig = toml::from_str(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);
}
