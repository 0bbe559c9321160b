//! An agent as an HTTP function behind an ASP relay.
//!
//! ```text
//! FUNCTION_SECRET=whsec_... cargo run -p switchboard-client --example function -- [port]
//! ```

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;
use switchboard_client::function::{
    Answer, Answered, Code, Enc, Finish, Format, Invocation, Options, RecordError, Records, RelayError,
    Reply, State, StatusCode, serve, tool,
};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let delay =
        Duration::from_millis(variable("FUNCTION_DELAY_MS").unwrap_or_default().parse().unwrap_or(20));
    let secret = variable("FUNCTION_SECRET").ok_or("set FUNCTION_SECRET to what the relay signs with")?;
    let format = match variable("FUNCTION_FORMAT").as_deref() {
        Some("sse") => Format::Sse,
        Some("frames") => Format::Frames(Enc::Msgpack),
        _ => Format::Ndjson,
    };
    let options = Options::new(&secret)?.format(format).on_cancel(|inv, cause| {
        let _ = writeln!(std::io::stderr(), "cancelled inv={inv} by={cause}");
    });

    let port = std::env::args().nth(1).or_else(|| variable("PORT")).unwrap_or_else(|| "8787".to_owned());
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    serve(listener, options, move |invocation, reply| answer(invocation, reply, delay)).await?;
    Ok(())
}

async fn answer(invocation: Invocation, reply: Reply, delay: Duration) -> Result<(), RecordError> {
    // A leg after the first: what `call` and `ask` waited for is there.
    if let Some(waits_for) = invocation.state().and_then(|state| state.as_map()?.get_str("waits_for")) {
        let records = reply.records();
        return match invocation.answer_to(waits_for) {
            Some(answer) => speak(records, &told(answer), delay).await,
            None => records.error(Code::ExecutionFailed, "the answer is missing").await,
        };
    }
    let Some(text) = invocation.text() else {
        reply.refuse(StatusCode::UNPROCESSABLE_ENTITY, "this function answers chats only");
        return Ok(());
    };
    let (command, argument) = text.split_once(' ').unwrap_or((&text, ""));
    let inv = invocation.inv();
    match command {
        "call" => {
            let (name, args) = argument.split_once(' ').unwrap_or((argument, "{}"));
            let mut records = reply.records();
            let args = serde_json::from_str(args).unwrap_or_default();
            if !matches!(args, serde_json::Value::Object(_)) {
                return records.error(Code::InvalidArgs, "arguments must be a JSON object").await;
            }
            records.start(inv).await?;
            records.call("call-1", name, args).await?;
            records.suspend(json!({"waits_for": "call-1"})).await
        }
        "ask" => {
            let mut records = reply.records();
            records.start(inv).await?;
            records.ask("ask-1", argument).await?;
            records.suspend(json!({"waits_for": "ask-1"})).await
        }
        // Asks, and waits for the answer with the response kept open.
        "hold" => {
            let relay = reply.relay().cloned().ok_or(RelayError::NotGranted)?;
            let mut records = reply.records();
            records.start(inv).await?;
            records.ask("ask-1", argument).await?;
            match relay.answer_to("ask-1").await? {
                Some(answer) => speak(records, &told(&answer), delay).await,
                None => records.end(Finish::Interrupted).await,
            }
        }
        "wait" => {
            let seconds = argument.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            let mut records = reply.records();
            records.start(inv).await?;
            let began = Instant::now();
            while began.elapsed() < seconds.unwrap_or_default() {
                records.status(State::Running, None).await?;
                sleep(Duration::from_millis(100)).await;
            }
            speak(records, &format!("waited {argument} s"), delay).await
        }
        "later" => begin(reply.later()?, inv, argument, delay).await,
        "tool" => {
            let relay = reply.relay().cloned();
            let mut records = reply.records();
            records.start(inv).await?;
            let tools = tool("clock", "Tells the time", json!({"type": "object"})).into_iter().collect();
            if argument == "inline" {
                records.tool_def(tools).await?;
            } else {
                let relay = relay.ok_or(RelayError::NotGranted)?;
                relay.push_tools(&format!("{inv}-tool"), tools).await?;
            }
            speak(records, "there is a new tool", delay).await
        }
        "cpu" => {
            let began = Instant::now();
            let total: u64 = (0..200_000_u64).map(|number| number * number).sum();
            begin(reply.cpu_time(began.elapsed()).records(), inv, &format!("the sum is {total}"), delay).await
        }
        "fail" => reply.records().error(Code::ExecutionFailed, "this function was asked to fail").await,
        "die" => {
            let mut records = reply.records();
            records.start(inv).await?;
            records.text("I am ").await?;
            // Records that are dropped before they end break the connection.
            records.text("about to ").await
        }
        "cold" => {
            sleep(Duration::from_millis(argument.parse().unwrap_or_default())).await;
            begin(reply.records(), inv, &format!("warm after {argument} ms"), delay).await
        }
        "echo" => begin(reply.records(), inv, argument, delay).await,
        _ => begin(reply.records(), inv, &text, delay).await,
    }
}

async fn begin(mut records: Records, run: &str, text: &str, delay: Duration) -> Result<(), RecordError> {
    records.start(run).await?;
    speak(records, text, delay).await
}

/// Word by word, each with the space after it.
async fn speak(mut records: Records, text: &str, delay: Duration) -> Result<(), RecordError> {
    let mut words = 0;
    for word in text.split_inclusive(' ') {
        records.text(word).await?;
        sleep(delay).await;
        words += 1;
    }
    records.usage(&[("output_words", words)]).await?;
    records.end(Finish::Complete).await
}

fn told(answer: &Answer) -> String {
    let value = match &answer.content {
        _ if !answer.ok => {
            let name = answer.error.as_ref().map_or("unknown", |error| &error.name);
            return format!("no answer: {name}");
        }
        Answered::Ask { text: Some(text), .. } => return format!("you said: {text}"),
        Answered::Ask { data: value, .. } | Answered::Call { output: value, .. } => value.clone(),
    };
    format!("the result is {}", value.map_or(serde_json::Value::Null, Into::into))
}

#[expect(clippy::disallowed_methods, reason = "an example is configured as functions usually are")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
