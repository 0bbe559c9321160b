//! Logs and transports that are broken on purpose, to see whether anybody notices.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use switchboard_core::model::{Output, TurnEnd};
use switchboard_core::{Committed, Event, Frame, SessionId, TurnId};

use super::{Mutation, Tongue};
use crate::world::Received;

/// Changes copies on their way to the checker; the world itself stays as it is.
#[derive(Debug)]
pub(super) struct Tamper {
    mutation: Option<Mutation>,
    /// Opportunities to let pass.
    countdown: u32,
    pub(super) struck: bool,
    /// By how many events the copies of a session are ahead.
    shift: BTreeMap<SessionId, i64>,
    forgotten: Option<TurnId>,
    /// The client that hears of no end any more.
    unended: Option<usize>,
    /// Something that the first principal was told, and whoever else speaks the same.
    stray: Option<(Tongue, Frame)>,
}

impl Tamper {
    pub(super) const fn new(mutation: Option<Mutation>) -> Self {
        Self {
            mutation,
            countdown: 5,
            struck: false,
            shift: BTreeMap::new(),
            forgotten: None,
            unended: None,
            stray: None,
        }
    }

    pub(super) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Whether this is the opportunity to use.
    fn strikes(&mut self, mutation: Mutation, opportunity: bool) -> bool {
        if self.struck || !opportunity || !self.is(mutation) {
            return false;
        }
        self.countdown = self.countdown.saturating_sub(1);
        self.struck = self.countdown == 0;
        self.struck
    }

    /// Whether the state is to miss this event.
    pub(super) fn skips_apply(&mut self, event: &Event) -> bool {
        self.strikes(Mutation::SkipApply, matches!(event, Event::TurnAccepted { .. }))
    }

    /// What the checker is to read instead of an event.
    pub(super) fn event(&mut self, session: &SessionId, committed: Arc<Committed>) -> Vec<Arc<Committed>> {
        if self.mutation.is_none() {
            return vec![committed];
        }
        let event = &committed.event;
        let mut events = Vec::new();
        if self.strikes(Mutation::LoseEvent, true) {
            return events;
        }
        if self.strikes(Mutation::ForgetTurn, matches!(event, Event::TurnAccepted { .. })) {
            self.forgotten = event.turn().cloned();
        }
        if self.forgotten.is_some() && event.turn() == self.forgotten.as_ref() {
            *self.shift.entry(session.clone()).or_default() -= 1;
            return events;
        }
        if self.strikes(Mutation::NeverEnd, matches!(event, Event::TurnEnded { .. })) {
            *self.shift.entry(session.clone()).or_default() -= 1;
            return events;
        }
        if self.strikes(Mutation::LoseCallEnd, matches!(event, Event::CallEnded { .. })) {
            *self.shift.entry(session.clone()).or_default() -= 1;
            return events;
        }
        let extra = self.extra(event);
        let mut copy = event.clone();
        if let Event::TurnAccepted { turn, request, .. } = &mut copy
            && self.strikes(Mutation::Gossip, request.text().contains('~'))
        {
            *turn = TurnId::new(request.text());
        }
        events.push(self.numbered(session, &committed, copy));
        if let Some(extra) = extra {
            *self.shift.entry(session.clone()).or_default() += 1;
            events.push(self.numbered(session, &committed, extra));
        }
        events
    }

    fn extra(&mut self, event: &Event) -> Option<Event> {
        match event {
            Event::TurnEnded { turn, .. } if self.strikes(Mutation::EndTwice, true) => {
                Some(Event::TurnEnded { turn: turn.clone(), end: Box::new(TurnEnd::complete()) })
            }
            Event::TurnInterrupted { turn, .. } if self.strikes(Mutation::SpeakAfterInterrupt, true) => {
                Some(Event::TurnOutput { turn: turn.clone(), output: Output::Text("but".into()) })
            }
            Event::CallEnded { .. } if self.strikes(Mutation::EndCallTwice, true) => Some(event.clone()),
            Event::TurnAccepted { .. } if self.strikes(Mutation::RunTwice, true) => {
                let mut again = event.clone();
                if let Event::TurnAccepted { turn, .. } = &mut again {
                    *turn = TurnId::from("inv_again");
                }
                Some(again)
            }
            _ => None,
        }
    }

    fn numbered(&self, session: &SessionId, committed: &Committed, event: Event) -> Arc<Committed> {
        let shift = self.shift.get(session).copied().unwrap_or_default();
        let mut copy = Committed { event, ..committed.clone() };
        copy.position.seq = copy.position.seq.saturating_add_signed(shift);
        Arc::new(copy)
    }

    /// What arrives at this client instead of what was sent; `owned` if it is one of the first principal.
    pub(super) fn received(
        &mut self,
        received: Vec<Received>,
        client: usize,
        tongue: Tongue,
        owned: bool,
    ) -> Vec<Received> {
        if self.mutation.is_none() {
            return received;
        }
        let mut arriving = Vec::new();
        for item in received {
            let frame = match &item {
                Received::Frame(frame) => frame,
                Received::Close(_) | Received::Lost => {
                    arriving.push(item);
                    continue;
                }
            };
            let (stream, terminal) = kind(tongue, frame);
            if self.strikes(Mutation::LoseFrame, stream && !terminal) || self.loses_end(terminal, client) {
                continue;
            }
            let twice = self.strikes(Mutation::RepeatFrame, stream && !terminal)
                || self.strikes(Mutation::RepeatTerminal, terminal);
            if self.is(Mutation::Leak) && stream {
                if owned {
                    let stray = || is_marked(frame).then(|| (tongue, frame.clone()));
                    self.stray = self.stray.take().or_else(stray);
                } else if let Some((_, stray)) = self.stray.clone().filter(|(spoken, _)| *spoken == tongue)
                    && self.strikes(Mutation::Leak, true)
                {
                    let stray = if tongue == Tongue::Asp { readdress(&stray, frame) } else { stray };
                    arriving.push(Received::Frame(stray));
                }
            }
            if twice {
                arriving.push(item.clone());
            }
            arriving.push(item);
        }
        arriving
    }

    /// Whether this is an end that is not to arrive. One alone would hardly be missed: a resume sends
    /// it again, and a client that has asked to stop takes a cut for the answer.
    fn loses_end(&mut self, terminal: bool, client: usize) -> bool {
        if self.strikes(Mutation::LoseTerminal, terminal) {
            self.unended = Some(client);
        }
        terminal && self.unended == Some(client)
    }
}

/// Whether a frame has a piece of an answer, by which a loss would be noticed, and whether it ends one.
fn kind(tongue: Tongue, frame: &Frame) -> (bool, bool) {
    match (tongue, frame) {
        (Tongue::Asp, Frame::Binary(bytes)) => stream_of_asp(bytes),
        (Tongue::Acolyte, Frame::Text(text)) => (
            text.contains("\"text-delta\""),
            text.contains("\"chat.done\"") || text.contains("\"chat.error\""),
        ),
        (Tongue::Vip, Frame::Text(text)) => {
            (text.contains("\"response.text.delta\""), text.contains("\"response.done\""))
        }
        (Tongue::Aip, Frame::Text(text)) => (text.contains("\"command\""), text.contains("\"task_end\"")),
        (Tongue::Alicia, Frame::Binary(bytes)) => super::alicia::sentence(bytes),
        _ => (false, false),
    }
}

fn is_marked(frame: &Frame) -> bool {
    match frame {
        Frame::Text(text) => text.contains('~'),
        Frame::Binary(bytes) => bytes.contains(&b'~'),
        _ => false,
    }
}

/// Whether a message is a STREAM with an index, and whether it ends its request.
fn stream_of_asp(bytes: &Bytes) -> (bool, bool) {
    let stream = bytes.first().is_some_and(|byte| byte & 0x0F == 3) && bytes.get(2..4) != Some(&[0, 0]);
    let terminal = stream && bytes.get(1).is_some_and(|flags| flags & 1 == 1);
    let numbered = bytes.windows(3).any(|window| window == b"\"n\"")
        || bytes.windows(2).any(|window| window == b"\xA1n");
    (stream && numbered, terminal)
}

/// The same frame, under the id of another where that is easy.
fn readdress(frame: &Frame, other: &Frame) -> Frame {
    let (Frame::Binary(bytes), Frame::Binary(other)) = (frame, other) else { return frame.clone() };
    let mut copy = bytes.to_vec();
    if let (Some(to), Some(from)) = (copy.get_mut(2..4), other.get(2..4)) {
        to.copy_from_slice(from);
    }
    Frame::Binary(copy.into())
}
