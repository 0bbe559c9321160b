//! What a client has seen of one request, held against the log.

use std::collections::BTreeSet;

use switchboard_asp::client::Ending;
use switchboard_asp::message::{End, ErrorBody, Finish, Invoke, InvokeBody, Record, RecordBody};
use switchboard_asp::{Code, Value};
use switchboard_core::PrincipalId;
use switchboard_core::model::TurnOutcome;

use super::expected::{self, Perspective};
use super::ledger::{Ledger, TurnLog};
use super::{Fault, Invariant};

/// One request of one client.
#[derive(Debug)]
pub(super) struct View {
    pub(super) invoke: Invoke,
    /// What the simulation calls it; none if it starts no turn.
    pub(super) tag: Option<String>,
    /// The client has asked to stop it.
    pub(super) interrupted: bool,
    /// It was lost, and may have been invoked again.
    pub(super) lost: bool,
    run: Option<String>,
    /// Index of the next record.
    next: usize,
    /// Calls and questions that were shown before a restart; once answered they are not shown again.
    asked: BTreeSet<String>,
    /// Pieces of a record whose last piece is still to come, or text without index.
    loose: String,
}

impl View {
    pub(super) fn new(invoke: Invoke, tag: Option<String>) -> Self {
        Self {
            invoke,
            tag,
            interrupted: false,
            lost: false,
            run: None,
            next: 0,
            asked: BTreeSet::new(),
            loose: String::new(),
        }
    }

    /// It runs anew: what was seen so far is void.
    pub(super) fn restart(&mut self) {
        (self.run, self.next) = (None, 0);
        self.loose.clear();
    }

    /// The next record, as the client hands it to its user.
    pub(super) fn record(
        &mut self,
        record: &Record,
        perspective: &Perspective,
        ledger: &Ledger,
    ) -> Result<(), Fault> {
        if let RecordBody::Start { run, .. } = &record.body {
            let turn = ledger.turn(run).ok_or_else(|| {
                Fault::new(Invariant::Durable, format!("told of turn {run}, which is not in the log"))
            })?;
            self.check_owner(turn, &perspective.principal)?;
            self.run = Some(run.clone());
        }
        let Some(n) = record.n else {
            // The server's own remarks have no index; text without one is a piece, or nothing is numbered.
            match &record.body {
                RecordBody::Text(text) | RecordBody::Reason(text) => self.loose.push_str(text),
                // Without indices, but not bare: a collected answer comes just before its end.
                RecordBody::Data { value: Value::Str(text), .. } => self.loose.push_str(text),
                _ => {}
            }
            return Ok(());
        };
        if self.is_ambiguous(ledger) {
            return Ok(());
        }
        let turn = self.turn(ledger).ok_or_else(|| {
            Fault::new(Invariant::Durable, format!("record {n} of a turn that is not in the log"))
        })?;
        if self.invoke.stream && self.run.is_none() {
            return Err(broken(format!("record {n} came before the start: {:?}", record.body)));
        }
        let run = &turn.tag;
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        let perspective = self.looking(perspective);
        let mut expected = expected::records(turn, &perspective);
        if perspective.complete06 {
            expected.extend(expected::output(turn, self.invoke.stream));
        }
        let Some(passed) = expected.get(self.next..=n) else {
            let (next, most) = (self.next, expected.len());
            return Err(broken(format!("record {n} of {run}: {next} is next, {most} are in the log")));
        };
        let known = |body: &RecordBody| call_id(body).is_some_and(|id| self.asked.contains(id));
        let hidden = passed.iter().take(passed.len() - 1).take_while(|body| known(body)).count();
        let passed = passed.get(hidden..).unwrap_or_default();
        let loose = std::mem::take(&mut self.loose);
        let fits = match &record.body {
            RecordBody::Text(text) => {
                loose + text
                    == joined(passed, |body| match body {
                        RecordBody::Text(text) => Some(text),
                        _ => None,
                    })
            }
            RecordBody::Reason(text) => {
                loose + text
                    == joined(passed, |body| match body {
                        RecordBody::Reason(text) => Some(text),
                        _ => None,
                    })
            }
            body => matches!(passed, [one] if expected::same(body, one)),
        };
        if !fits {
            return Err(broken(format!("record {n} of {run} is {:?}, the log has {passed:?}", record.body)));
        }
        self.asked.extend(call_id(&record.body).map(str::to_owned));
        self.next = n + 1;
        Ok(())
    }

    /// The request is over.
    pub(super) fn end(
        &self,
        ending: &Ending,
        perspective: &Perspective,
        ledger: &Ledger,
    ) -> Result<(), Fault> {
        match ending {
            Ending::End(end) => self.ended(end, perspective, ledger),
            Ending::Error(error) => self.failed(error, ledger),
            Ending::Lost(_) => Ok(()),
        }
    }

    fn ended(&self, end: &End, perspective: &Perspective, ledger: &Ledger) -> Result<(), Fault> {
        if end.finish == Finish::Accepted {
            return self.answered(ledger);
        }
        let Some(tag) = &self.tag else { return Ok(()) };
        if self.interrupted || self.is_ambiguous(ledger) {
            return Ok(());
        }
        let Some(turn) = self.turn(ledger) else {
            return Err(Fault::new(Invariant::Durable, format!("{tag} ended, and is not in the log")));
        };
        let outcome = turn.end.as_ref().map(|end| &end.outcome);
        match (end.finish, outcome) {
            (Finish::Interrupted, Some(TurnOutcome::Interrupted { .. })) => return Ok(()),
            // A bare end does not say which one it is.
            (_, Some(TurnOutcome::Interrupted { .. })) if !perspective.events => return Ok(()),
            // The cancel could not be passed on: the client asked for none, but the turn was another's.
            (Finish::Interrupted, None) if end.abandoned => return Ok(()),
            (_, None) => {
                let detail = format!("{tag} ended as {:?}, and goes on in the log", end.finish);
                return Err(Fault::new(Invariant::OneEnd, detail));
            }
            (Finish::Interrupted, _) => {}
            (_, Some(TurnOutcome::Done(_))) => return self.complete(end, turn, perspective),
            (_, Some(_)) => {}
        }
        Err(broken(format!("{tag} ended as {:?}, the log says {outcome:?}", end.finish)))
    }

    /// A whole answer: nothing of it may be missing.
    fn complete(&self, end: &End, turn: &TurnLog, perspective: &Perspective) -> Result<(), Fault> {
        let tag = &turn.tag;
        if !self.invoke.stream {
            let structured = turn.end.as_ref().is_some_and(|end| end.output.is_some());
            let output = end.output.as_ref().and_then(Value::as_str).unwrap_or(&self.loose);
            let shown = perspective.complete06 && self.next > 0;
            if !structured && !shown && output != turn.text {
                return Err(broken(format!(
                    "{tag} was answered with {output:?}, the log has {:?}",
                    turn.text
                )));
            }
            return Ok(());
        }
        if self.run.is_some() && self.next > 0 {
            let expected = expected::records(turn, &self.looking(perspective));
            let missed = expected.get(self.next..).unwrap_or_default();
            if missed.iter().any(|body| call_id(body).is_none_or(|id| !self.asked.contains(id))) {
                return Err(broken(format!("{tag} ended after {} of {} records", self.next, expected.len())));
            }
        }
        Ok(())
    }

    /// Without indices there is only the text to compare.
    pub(super) fn check_text(&self, ending: &Ending, ledger: &Ledger) -> Result<(), Fault> {
        let Some(turn) = self.tag.as_ref().and_then(|tag| ledger.tagged(tag)) else { return Ok(()) };
        let wanted = self.invoke.want.as_ref().is_none_or(|want| want.iter().any(|name| name == "text"));
        let plain = self.invoke.want.as_ref().is_none_or(|want| want.iter().all(|name| name != "reason"));
        if !(wanted && plain && self.invoke.stream) || self.next > 0 {
            return Ok(());
        }
        let done = matches!(&turn.end, Some(end) if matches!(end.outcome, TurnOutcome::Done(_)));
        let whole = matches!(ending, Ending::End(end) if end.finish != Finish::Interrupted) && done;
        let output = turn.end.as_ref().and_then(|end| end.output.as_ref()).is_some();
        let fits = if whole && !self.interrupted && !output {
            self.loose == turn.text
        } else {
            turn.text.starts_with(&self.loose) || output
        };
        if fits {
            return Ok(());
        }
        Err(broken(format!("{} was read as {:?}, the log has {:?}", turn.tag, self.loose, turn.text)))
    }

    /// An answer that was accepted is in the log.
    fn answered(&self, ledger: &Ledger) -> Result<(), Fault> {
        let call = match &self.invoke.body {
            InvokeBody::Result(result) => &result.call_id,
            InvokeBody::Reply(reply) => &reply.ask_id,
            _ => return Err(broken("something that is no answer was accepted".into())),
        };
        if ledger.call_end(call).is_none() {
            let detail = format!("the answer to {call} was accepted, and is not in the log");
            return Err(Fault::new(Invariant::Durable, detail));
        }
        Ok(())
    }

    /// Whether the log says that what was asked for has ended, so that a terminal frame is due.
    pub(super) fn is_over(&self, ledger: &Ledger) -> bool {
        match &self.invoke.body {
            InvokeBody::Result(result) => ledger.call_end(&result.call_id).is_some(),
            InvokeBody::Reply(reply) => ledger.call_end(&reply.ask_id).is_some(),
            _ => self.turn(ledger).is_some_and(|turn| turn.end.is_some()),
        }
    }

    fn failed(&self, error: &ErrorBody, ledger: &Ledger) -> Result<(), Fault> {
        let Some(run) = self.run.as_ref().filter(|_| !self.interrupted && !self.lost) else { return Ok(()) };
        let outcome = ledger.turn(run).and_then(|turn| turn.end.as_ref()).map(|end| &end.outcome);
        match (outcome, error.known()) {
            (Some(TurnOutcome::Failed(_) | TurnOutcome::Expired), _)
            | (_, Some(Code::SlowConsumer | Code::ReplayGone)) => Ok(()),
            (None, code) => {
                let detail = format!("{run} failed with {code:?}, and goes on in the log");
                Err(Fault::new(Invariant::OneEnd, detail))
            }
            (outcome, code) => Err(broken(format!("{run} failed with {code:?}, the log says {outcome:?}"))),
        }
    }

    /// The turn that it stands for.
    fn turn<'a>(&self, ledger: &'a Ledger) -> Option<&'a TurnLog> {
        match &self.run {
            Some(run) => ledger.turn(run),
            None => ledger.tagged(self.tag.as_ref()?),
        }
    }

    /// Whether nobody can say which turn it stands for.
    fn is_ambiguous(&self, ledger: &Ledger) -> bool {
        self.run.is_none() && self.tag.as_ref().is_some_and(|tag| ledger.is_ambiguous(tag))
    }

    /// How its client looks at this request.
    fn looking(&self, perspective: &Perspective) -> Perspective {
        let (stream, want) = (self.invoke.stream, self.invoke.want.clone());
        Perspective { stream, want, ..perspective.clone() }
    }

    fn check_owner(&self, turn: &TurnLog, principal: &PrincipalId) -> Result<(), Fault> {
        if turn.principal != *principal {
            let detail = format!("{principal} is shown a turn of {}", turn.principal);
            return Err(Fault::new(Invariant::Privacy, detail));
        }
        match &self.tag {
            Some(tag) if *tag != turn.tag => {
                Err(broken(format!("the request {tag} is shown the turn {}", turn.tag)))
            }
            _ => Ok(()),
        }
    }
}

fn call_id(body: &RecordBody) -> Option<&str> {
    match body {
        RecordBody::Call(call) => Some(&call.call_id),
        RecordBody::Ask(ask) => Some(&ask.ask_id),
        _ => None,
    }
}

/// The text of records that are all of one kind; nothing otherwise fits.
fn joined<'a>(records: &'a [RecordBody], text: impl Fn(&'a RecordBody) -> Option<&'a String>) -> String {
    let pieces: Option<Vec<&str>> = records.iter().map(|body| text(body).map(String::as_str)).collect();
    pieces.map_or_else(|| "\0".to_owned(), |pieces| pieces.concat())
}

fn broken(detail: String) -> Fault {
    Fault::new(Invariant::SameView, detail)
}
