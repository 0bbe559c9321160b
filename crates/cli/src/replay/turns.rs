//! The turns of a log recording: what was asked, and how it was answered.

use serde_json::{Value, json};
use switchboard_core::model::{
    CallEnd, CallKind, Executor, Finish, Output, Part, TurnEnd, TurnOutcome, TurnRequest,
};
use switchboard_core::{Committed, Event, Timestamp, TurnId};

/// A turn, as far as it can be asked again.
#[derive(Clone, Debug)]
pub(super) struct RecordedTurn {
    turn: TurnId,
    /// When it was accepted.
    pub(super) at: Timestamp,
    /// The INVOKE that asks the same.
    pub(super) invoke: Value,
    /// What tools of the client answered, by name.
    pub(super) results: Vec<(String, CallEnd)>,
    /// What people answered.
    pub(super) answers: Vec<Value>,
    /// It was interrupted after so many bytes of text.
    pub(super) stops_after: Option<usize>,
    text: String,
    asked: Vec<Value>,
    calls: Vec<(String, Option<String>)>,
    end: Option<TurnEnd>,
}

impl RecordedTurn {
    /// How it was answered, in the form in which answers are compared.
    pub(super) fn answer(&self) -> Value {
        let outcome = match self.end.as_ref().map(|end| &end.outcome) {
            None => "lost",
            Some(TurnOutcome::Done(Finish::Complete)) => "complete",
            Some(TurnOutcome::Done(Finish::Length)) => "length",
            Some(TurnOutcome::Done(Finish::Filtered)) => "filtered",
            Some(TurnOutcome::Done(Finish::Empty)) => "empty",
            Some(TurnOutcome::Interrupted { .. }) => "interrupted",
            Some(TurnOutcome::Failed(_) | TurnOutcome::Expired) => "failed",
        };
        let done = matches!(self.end.as_ref().map(|end| &end.outcome), Some(TurnOutcome::Done(_)));
        let output = self.end.as_ref().filter(|_| done).and_then(|end| end.output.clone());
        json!({ "outcome": outcome, "text": self.text, "output": output, "asked": self.asked })
    }
}

/// The turns of a session, in the order in which they were accepted.
pub(super) fn turns(events: &[Committed]) -> Vec<RecordedTurn> {
    let mut turns: Vec<RecordedTurn> = Vec::new();
    for committed in events {
        if let Event::TurnAccepted { turn, request, .. } = &committed.event {
            turns.push(RecordedTurn {
                turn: turn.clone(),
                at: committed.at,
                invoke: invoke(request),
                results: Vec::new(),
                answers: Vec::new(),
                stops_after: None,
                text: String::new(),
                asked: Vec::new(),
                calls: Vec::new(),
                end: None,
            });
        }
        let of = committed.event.turn();
        let Some(turn) = turns.iter_mut().find(|known| Some(&known.turn) == of) else { continue };
        turn.follow(&committed.event);
    }
    turns
}

impl RecordedTurn {
    fn follow(&mut self, event: &Event) {
        #[expect(clippy::wildcard_enum_match_arm, reason = "of a turn, only what a client sees is compared")]
        match event {
            Event::TurnOutput { output: Output::Text(text), .. } => self.text.push_str(text),
            Event::CallRequested { call, .. } if call.executor != Executor::Agent => {
                let (asked, tool) = match &call.kind {
                    CallKind::Tool { name, args } => {
                        (json!({ "tool": name, "args": args }), Some(name.to_string()))
                    }
                    CallKind::Question { text, .. } => (json!({ "question": text }), None),
                };
                self.asked.push(asked);
                self.calls.push((call.id.to_string(), tool));
            }
            Event::CallEnded { call, end, .. } => {
                let known = self.calls.iter().find(|(id, _)| id == call.as_str());
                match (known, end) {
                    (Some((_, Some(tool))), end) => self.results.push((tool.clone(), end.clone())),
                    (Some((_, None)), CallEnd::Done { output, .. }) => {
                        self.answers.push(Value::clone(output))
                    }
                    (Some((_, None)) | None, _) => {}
                }
            }
            Event::TurnInterrupted { .. } => self.stops_after = Some(self.text.len()),
            Event::TurnEnded { end, .. } => self.end = Some(TurnEnd::clone(end)),
            _ => {}
        }
    }
}

/// The same, to be asked over ASP.
fn invoke(request: &TurnRequest) -> Value {
    match request {
        TurnRequest::Chat { parts } => {
            if let [Part::Text(text)] = parts.as_slice() {
                return json!({ "kind": "chat", "input": text });
            }
            let parts: Vec<Value> = parts.iter().map(part).collect();
            json!({ "kind": "chat", "input": parts })
        }
        TurnRequest::Tool { name, args } => json!({ "kind": "tool", "tool": name, "args": args }),
        TurnRequest::Step { goal, state, .. } => {
            let mut step = json!({ "goal": goal });
            if !state.is_null() {
                step["state"] = state.clone();
            }
            json!({ "kind": "step", "step": step })
        }
    }
}

fn part(part: &Part) -> Value {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Data { mime, data } => {
            json!({ "type": "data", "mime": mime, "data": { "$b64": STANDARD.encode(data) } })
        }
        Part::Reference { uri } => json!({ "type": "ref", "uri": uri }),
    }
}
