//! Log recordings: applied to an empty session, or asked again over ASP.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_client::Trust;
use switchboard_client::asp::{
    Answer, Client, ClientInfo, Connect, Finish, Invoke, RequestEvent, ToolFailure, Value as AspValue, tool,
};
use switchboard_core::model::CallEnd;
use switchboard_core::{Committed, SessionId};

use super::Args;
use super::compare::{self, Difference, Odd, Place};
use super::turns::{RecordedTurn, turns};
use super::variables::Variables;
use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::recording::state::outcome;
use crate::recording::{Header, Outcome};

/// Runs `replay` for a log recording.
pub(super) async fn run(
    args: &Args,
    header: &Header,
    events: &[Committed],
    recorded: &Outcome,
    to: Option<&str>,
    keys: Vec<String>,
    console: &Console,
) -> Result<(), Failure> {
    let Some(url) = to else {
        if !args.check {
            return Err(Failure::usage(
                "this is a log recording: --check applies it, --to sends it to a server",
            ));
        }
        return apply(header, events, recorded, console);
    };
    let turns = turns(events);
    let client = connect(url, args.ca_file.as_ref(), keys.into_iter().next(), &turns).await?;
    let played = ask_again(args, &client, &turns).await;
    client.close().await;
    let differences = played?;
    let count = turns.len();
    if !args.check {
        return console.line(&format!("replayed: {count} turns asked again"));
    }
    finish(&differences, &format!("as recorded: {count} turns were answered as before"), console)
}

/// The state that the events lead to now, against the one in the file.
fn apply(
    header: &Header,
    events: &[Committed],
    recorded: &Outcome,
    console: &Console,
) -> Result<(), Failure> {
    let session = header.session.clone().unwrap_or_else(|| SessionId::from("recorded"));
    let now = outcome(&session, events).map_err(Failure::failed)?;
    let place = Place { on: 0, line: None, label: "state of the session".to_owned() };
    let mut members = Vec::new();
    if now.events != recorded.events {
        members.push(compare::Member {
            path: "events".to_owned(),
            recorded: Some(recorded.events.into()),
            now: Some(now.events.into()),
        });
    }
    if now.sha256 != recorded.sha256 {
        members.extend(compare::exactly(&recorded.state, &now.state));
        // The hash is of this very state, or somebody has changed the file.
        if now.state == recorded.state {
            members.push(compare::Member {
                path: "sha256".to_owned(),
                recorded: Some(recorded.sha256.clone().into()),
                now: Some(now.sha256.clone().into()),
            });
        }
    }
    let differences = match members.is_empty() {
        true => Vec::new(),
        false => vec![Difference { place, kind: Odd::Members(members) }],
    };
    let hash = now.sha256.get(..12).unwrap_or_default();
    finish(&differences, &format!("as recorded: {} events lead to state {hash}…", now.events), console)
}

fn finish(differences: &[Difference], well: &str, console: &Console) -> Result<(), Failure> {
    if differences.is_empty() {
        return console.line(well);
    }
    console.print(&compare::text(differences, console.palette()))?;
    Err(Failure::failed("not as recorded; - was recorded, + came now"))
}

/// A client that has the tools which were called, and knows what they answered.
async fn connect(
    url: &str,
    ca_file: Option<&PathBuf>,
    key: Option<String>,
    turns: &[RecordedTurn],
) -> Result<Client, Failure> {
    let mut results: BTreeMap<String, VecDeque<CallEnd>> = BTreeMap::new();
    for (name, end) in turns.iter().flat_map(|turn| &turn.results) {
        results.entry(name.clone()).or_default().push_back(end.clone());
    }
    let mut options = Connect::new(url).client(ClientInfo {
        name: "switchboard replay".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: None,
    });
    if let Some(path) = ca_file {
        let pem = std::fs::read(path).map_err(|error| {
            Failure::usage(format!("the certificates in {} cannot be read: {error}", path.display()))
        })?;
        options = options.trust(Trust::Only(pem));
    }
    if let Some(key) = key {
        options = options.token(key);
    }
    for name in results.keys() {
        let declared = tool(name, "Answers as recorded.", json!({"type": "object"}));
        options = options.tool(declared.map_err(|error| Failure::failed(format!("tool {name}: {error}")))?);
    }
    let results = Arc::new(Mutex::new(results));
    let options = options.on_call(move |call| {
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        let end = results.get_mut(&call.name).and_then(VecDeque::pop_front);
        async move {
            match end {
                Some(CallEnd::Done { output, .. }) => Ok(Arc::unwrap_or_clone(output)),
                Some(CallEnd::Failed(error)) => Err(ToolFailure::new(error.name, error.message)),
                // Nobody answered then, and nobody does now.
                Some(CallEnd::TimedOut | CallEnd::Cancelled) => std::future::pending().await,
                None => Err(ToolFailure::new("not_recorded", "this call was not recorded")),
            }
        }
    });
    Client::connect(options)
        .await
        .map_err(|error| Failure::unreachable(format!("{url}: {error}; {}", error.advice())))
}

/// Asks everything again, one turn after the other; what is answered otherwise.
async fn ask_again(args: &Args, client: &Client, turns: &[RecordedTurn]) -> Result<Vec<Difference>, Failure> {
    let mut variables = Variables::default();
    let mut differences = Vec::new();
    let mut bar = Bar::new();
    let total = turns.len() as u64;
    let mut before = turns.first().map(|turn| turn.at);
    for (turn, number) in turns.iter().zip(1_u32..) {
        bar.show(u64::from(number - 1), total, || format!("turn {number} of {total}"));
        if let (false, Some(before)) = (args.fast, before.replace(turn.at)) {
            tokio::time::sleep(turn.at.since(before).div_f64(args.speed).min(LONGEST_PAUSE)).await;
        }
        let now = tokio::time::timeout(Duration::from_secs(args.patience), asked(client, turn)).await;
        let now = match now {
            Ok(now) => now.map_err(|why| Failure::failed(format!("turn {number}: {why}")))?,
            Err(_) => json!({ "outcome": "no end in time" }),
        };
        let members = compare::compare(&mut variables, &turn.answer(), &now);
        if !members.is_empty() {
            let place = Place { on: 0, line: None, label: format!("turn {number}") };
            differences.push(Difference { place, kind: Odd::Members(members) });
        }
    }
    bar.show(total, total, String::new);
    Ok(differences)
}

/// One turn, as it is answered now.
async fn asked(client: &Client, turn: &RecordedTurn) -> Result<Value, String> {
    let Ok(AspValue::Map(map)) = AspValue::try_from(turn.invoke.clone()) else {
        return Err("this cannot be asked over ASP".to_owned());
    };
    let mut invoke = Invoke::from_map(map).map_err(|error| error.to_string())?;
    invoke.want = Some(vec!["text".to_owned()]);
    let mut request = client.invoke(invoke).await.map_err(|error| error.to_string())?;
    let mut answers = turn.answers.iter();
    let (mut text, mut asked) = (String::new(), Vec::new());
    if turn.stops_after == Some(0) {
        request.interrupt();
    }
    let (outcome, output) = loop {
        match request.next().await {
            None => break ("lost".to_owned(), None),
            Some(Err(_)) => break ("failed".to_owned(), None),
            Some(Ok(RequestEvent::End(end))) => break (finished(end.finish).to_owned(), end.output),
            Some(Ok(RequestEvent::Text(delta))) => {
                text.push_str(&delta);
                if turn.stops_after.is_some_and(|length| text.len() >= length) {
                    request.interrupt();
                }
            }
            Some(Ok(RequestEvent::Restarted)) => text.clear(),
            Some(Ok(RequestEvent::Call(call))) => {
                asked.push(json!({ "tool": call.name, "args": Value::Object(call.args.into_serde()) }));
            }
            Some(Ok(RequestEvent::Ask(ask))) => {
                asked.push(json!({ "question": ask.text }));
                if let Some(answer) = answers.next() {
                    // That the question is not open any more shows in how the turn goes on.
                    let _ = client.answer(ask.ask_id, reply(answer)).await;
                }
            }
            Some(Ok(
                RequestEvent::Start { .. }
                | RequestEvent::Status(_)
                | RequestEvent::Reason(_)
                | RequestEvent::Tool(_)
                | RequestEvent::Data { .. }
                | RequestEvent::Usage(_)
                | RequestEvent::Notice(_),
            )) => {}
        }
    };
    // How much is said before an interrupt takes effect is a matter of time.
    if let Some(length) = turn.stops_after {
        text = text.get(..length).unwrap_or(&text).to_owned();
    }
    let output = output.map_or(Value::Null, Value::from);
    Ok(json!({ "outcome": outcome, "text": text, "output": output, "asked": asked }))
}

fn reply(answer: &Value) -> Answer {
    match (answer, AspValue::try_from(answer.clone())) {
        (Value::String(text), _) => Answer::Text(text.clone()),
        (_, Ok(value)) => Answer::Data(value),
        (_, Err(_)) => Answer::Text(answer.to_string()),
    }
}

fn finished(finish: Finish) -> &'static str {
    match finish {
        Finish::Complete => "complete",
        Finish::Interrupted => "interrupted",
        Finish::Length => "length",
        Finish::Filtered => "filtered",
        Finish::Empty => "empty",
        Finish::Accepted => "accepted",
    }
}

/// Nobody waits longer between two turns, however long it took then.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
