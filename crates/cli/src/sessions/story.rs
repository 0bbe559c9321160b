//! Messages and events, as a person reads them.

use switchboard_core::model::{
    Author, CallEnd, CallKind, ChecklistState, Output, Part, Standby, TurnOutcome, TurnRequest,
};
use switchboard_core::{Committed, Event, MessageRow, MessageStatus, Timestamp};

use crate::clock;
use crate::console::{Palette, harmless, one_line};

/// One message, with who said it and when.
pub(super) fn message(message: &MessageRow, now: Timestamp, palette: Palette) -> String {
    let Palette { dim, bold, yellow, reset, .. } = palette;
    let author = match &message.author {
        Author::User(principal) => harmless(principal.as_str()),
        Author::Agent(agent) => harmless(agent.as_str()),
        Author::System => "system".to_owned(),
    };
    let partial = match message.status {
        MessageStatus::Complete => String::new(),
        MessageStatus::Partial => format!(" {yellow}(cut off){reset}"),
    };
    let ago = clock::ago(message.at, now);
    format!("{bold}{author}{reset}{partial} {dim}{ago}{reset}\n{}\n\n", parts(&message.parts))
}

/// What a message holds.
pub(crate) fn parts(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text(text) => harmless(text),
        Part::Data { mime, data } => format!("[{} bytes of {}]", data.len(), harmless(mime)),
        Part::Reference { uri } => format!("[{}]", harmless(uri)),
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// What an event adds to the picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Text of the answer, which flows on.
    Text(String),
    /// Reasoning, which flows on.
    Reasoning(String),
    /// A line by itself.
    Line(String),
}

/// An event, told to a person.
pub(super) fn event(committed: &Committed) -> Passage {
    let line = match &committed.event {
        Event::SessionOpened { owner, agent, .. } => format!("opened by {owner} with agent {agent}"),
        Event::ParticipantJoined { principal, role } => {
            format!("{principal} joined as {role:?}").to_lowercase()
        }
        Event::ParticipantLeft { principal } => format!("{principal} left"),
        Event::AttachmentOpened { generation: 0 | 1, .. } => "a client attached".to_owned(),
        Event::AttachmentOpened { .. } => "a client came back".to_owned(),
        Event::AttachmentLinked { session, .. } => format!("a client also attached to {session}"),
        Event::AttachmentDetached { .. } => "a client lost its connection".to_owned(),
        Event::AttachmentClosed { .. } => "a client left".to_owned(),
        Event::DeviceJoined { device, .. } => format!("device {} connected", device.callsign),
        Event::DeviceReported { device, .. } => format!("device {device} had news of itself"),
        Event::DeviceLeft { device } => format!("device {device} left"),
        Event::DeviceReleased { device, by } => format!("the name {device} was released by {by}"),
        Event::ToolsChanged { added, removed, .. } => {
            let added = added.iter().map(|tool| format!("+{}", tool.name));
            let names: Vec<String> = added.chain(removed.iter().map(|name| format!("-{name}"))).collect();
            format!("tools {}", names.join(" "))
        }
        Event::MessageAdded { message } => match &message.author {
            Author::User(principal) => format!("{principal}: {}", parts(&message.parts)),
            Author::Agent(agent) => format!("{agent}: {}", parts(&message.parts)),
            Author::System => format!("system: {}", parts(&message.parts)),
        },
        Event::MessageEdited { message, parts: now } => format!("{message} says now: {}", parts(now)),
        Event::TipMoved { tip } => format!("goes on from {tip}"),
        Event::SessionRenamed { name } => format!("is called {name} now"),
        Event::StandingChanged { standing } => format!("is {standing:?} now").to_lowercase(),
        Event::ChronicleBegun { chronicle } => format!("{chronicle} keeps an account of it"),
        Event::Recorded { chronicle, by, .. } => format!("{by} noted something for {chronicle}"),
        Event::TurnAccepted { turn, request, agent, .. } => match &**request {
            TurnRequest::Chat { .. } => format!("{turn} accepted for {agent}"),
            TurnRequest::Tool { name, .. } => format!("{turn} accepted for {agent}: tool {name}"),
            TurnRequest::Step { .. } => format!("{turn} accepted for {agent}: a step"),
        },
        Event::TurnQueued { turn, position } => format!("{turn} waits, number {position}"),
        Event::TurnStarted { turn, .. } => format!("{turn} runs"),
        Event::TurnReleased { turn, deadline: None } => {
            format!("{turn} lost its agent before any output; offered again")
        }
        Event::TurnReleased { turn, deadline: Some(_) } => format!("{turn} waits for its client no longer"),
        Event::TurnOutput { output, .. } => match output {
            Output::Text(text) => return Passage::Text(harmless(text)),
            Output::Reasoning(text) => return Passage::Reasoning(harmless(text)),
            Output::Status(text) => format!("status: {text}"),
            Output::Usage(usage) => {
                let counts: Vec<String> =
                    usage.0.iter().map(|(name, count)| format!("{count} {name}")).collect();
                format!("usage: {}", counts.join(", "))
            }
            Output::Checklist(list) => {
                let items = list.items.iter().map(|item| format!("{} {}", mark(item.state), item.label));
                format!("{}: {}", list.title, items.collect::<Vec<_>>().join("  "))
            }
            Output::Data { mime, value } => {
                format!("data {}: {value}", mime.as_deref().unwrap_or_default())
            }
            Output::Notice { text, .. } => format!("notice: {text}"),
            Output::Remembered(memory) => format!("remembers: {}", memory.content),
            Output::Began { run, model } => {
                format!(
                    "begins as {run}{}",
                    model.as_ref().map(|model| format!(" with {model}")).unwrap_or_default()
                )
            }
            Output::Standby(Standby::Queued) => "its agent is busy".to_owned(),
            Output::Standby(Standby::Starting) => "waits for its agent to start".to_owned(),
            Output::Standby(Standby::Retrying) => "its agent is tried again".to_owned(),
            Output::Suspended(_) => "suspended until what it asked for is answered".to_owned(),
        },
        Event::CallRequested { call, .. } => match &call.kind {
            CallKind::Tool { name, args } => format!("calls {name} {args}"),
            CallKind::Question { text, .. } => format!("asks: {text}"),
        },
        Event::CallProgress { delta, .. } => format!("… {delta}"),
        Event::CallEnded { end, .. } => match end {
            CallEnd::Done { output, .. } => format!("answered: {output}"),
            CallEnd::Failed(error) => format!("failed: {} {}", error.name, error.message),
            CallEnd::TimedOut => "no answer in time".to_owned(),
            CallEnd::Cancelled => "cancelled".to_owned(),
        },
        Event::TurnInterrupted { turn, reason, .. } => match reason {
            Some(reason) => format!("{turn} interrupted: {reason}"),
            None => format!("{turn} interrupted"),
        },
        Event::TurnEnded { turn, end } => {
            let how = match &end.outcome {
                TurnOutcome::Done(finish) => format!("done, {finish:?}").to_lowercase(),
                TurnOutcome::Failed(failure) => format!("failed: {}", failure.message),
                TurnOutcome::Interrupted { .. } => "interrupted".to_owned(),
                TurnOutcome::Expired => "expired".to_owned(),
            };
            format!("{turn} ended: {how}")
        }
    };
    Passage::Line(one_line(&line, LINE))
}

/// How the state of an item is drawn.
pub(crate) fn mark(state: ChecklistState) -> &'static str {
    match state {
        ChecklistState::Pending => "[ ]",
        ChecklistState::Active => "[>]",
        ChecklistState::Done => "[x]",
        ChecklistState::Failed => "[!]",
    }
}

/// Longer lines are cut; `--json` has all of it.
const LINE: usize = 200;
