//! The only place that knows wire types *and* the model: what is asked becomes a turn, what was committed
//! becomes a line.

use sha2::{Digest as _, Sha256};
use switchboard_core::model::{
    CallKind, Finish, NewTurn, Origin, Output, RequestKey, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{Committed, Event, Pii, Principal, SessionId, Timestamp, TurnId};

use crate::message::{Ending, News, ServerLine, Tag};

/// The turn that a `say` asks for. It goes on without the connection, and waits for those before it.
pub fn new_turn(
    turn: TurnId,
    text: &str,
    tag: Option<&Tag>,
    session: &SessionId,
    principal: &Principal,
    deadline: Timestamp,
) -> NewTurn {
    let handle = tag.map(|tag| tag.as_str().to_owned());
    let origin = Origin { handle, ..Origin::new(principal.id.clone(), PROTOCOL) };
    // Keys are the principal's own; tags need to be unique only within a session.
    let key = tag.map(|tag| {
        let key = format!("{PROTOCOL}:{session}:{}", tag.as_str());
        let digest = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        RequestKey { key, digest }
    });
    NewTurn { key, ..NewTurn::new(turn, TurnRequest::chat(text), origin, deadline) }
}

/// What a client hears of an event; none if that is nothing.
pub fn line(committed: &Committed) -> Option<ServerLine> {
    let (turn, news) = match &committed.event {
        Event::TurnAccepted { turn, request, origin, .. } => {
            (turn, News::Asked { who: origin.principal.to_string(), text: Pii(request.text()) })
        }
        Event::TurnOutput { turn, output } => (turn, output_news(output)?),
        Event::CallRequested { turn, call } => {
            let doing = match &call.kind {
                CallKind::Tool { name, .. } => format!("uses {name}"),
                CallKind::Question { text, .. } => format!("asks: {text}"),
            };
            (turn, News::Status(Pii(doing)))
        }
        Event::TurnEnded { turn, end } => (turn, end_news(end)),
        // Of a turn that waits or is stopped, its beginning and its end are told.
        Event::TurnQueued { .. }
        | Event::TurnStarted { .. }
        | Event::TurnReleased { .. }
        | Event::TurnInterrupted { .. }
        // What is said is told with the turn.
        | Event::MessageAdded { .. }
        // Lines know neither tools nor branches, participants nor devices.
        | Event::CallProgress { .. }
        | Event::CallEnded { .. }
        | Event::ToolsChanged { .. }
        | Event::MessageEdited { .. }
        | Event::TipMoved { .. }
        | Event::SessionOpened { .. }
        | Event::ParticipantJoined { .. }
        | Event::ParticipantLeft { .. }
        | Event::AttachmentOpened { .. }
        | Event::AttachmentLinked { .. }
        | Event::AttachmentDetached { .. }
        | Event::AttachmentClosed { .. }
        | Event::DeviceJoined { .. }
        | Event::DeviceReported { .. }
        | Event::DeviceLeft { .. }
        | Event::DeviceReleased { .. }
        | Event::SessionRenamed { .. }
        | Event::StandingChanged { .. }
        | Event::ChronicleBegun { .. }
        | Event::Recorded { .. } => return None,
    };
    Some(ServerLine::News { at: committed.position, turn: turn.to_string(), news })
}

fn output_news(output: &Output) -> Option<News> {
    match output {
        Output::Text(text) => Some(News::Text(Pii(text.clone()))),
        Output::Status(text) | Output::Notice { text, .. } => Some(News::Status(Pii(text.clone()))),
        Output::Reasoning(_)
        | Output::Usage(_)
        | Output::Checklist(_)
        | Output::Data { .. }
        | Output::Remembered(_)
        | Output::Began { .. }
        | Output::Standby(_)
        | Output::Suspended(_) => None,
    }
}

fn end_news(end: &TurnEnd) -> News {
    match &end.outcome {
        TurnOutcome::Done(Finish::Complete) => News::Done(Ending::Complete),
        TurnOutcome::Done(Finish::Length) => News::Done(Ending::Cut),
        TurnOutcome::Done(Finish::Filtered) => News::Done(Ending::Withheld),
        TurnOutcome::Done(Finish::Empty) => News::Done(Ending::Empty),
        TurnOutcome::Failed(failure) => News::Failed(Pii(failure.message.clone())),
        TurnOutcome::Interrupted { .. } => News::Stopped,
        TurnOutcome::Expired => News::Failed(Pii("it took too long".to_owned())),
    }
}

/// The name of the protocol in logs, metrics and events.
pub(crate) const PROTOCOL: &str = "linewise";
