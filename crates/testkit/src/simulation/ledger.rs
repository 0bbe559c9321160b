//! What the log says, event by event, and the rules that it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switchboard_core::model::{CallEnd, Executor, Part, TurnEnd, TurnRequest};
use switchboard_core::{
    AttachmentId, CallId, Committed, Event, MessageId, Position, PrincipalId, Session, SessionId,
    SessionLimits, Timestamp, TurnId,
};

use super::{Fault, Invariant};

/// The log as the checker has seen it.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: SessionLimits,
    sessions: BTreeMap<SessionId, SessionLog>,
    turns: BTreeMap<TurnId, TurnLog>,
    /// Turns by what the simulation calls them; none if a key was used again after it was forgotten.
    tags: BTreeMap<String, Option<TurnId>>,
    keys: BTreeMap<(PrincipalId, String), Timestamp>,
    /// Who may see an identifier, by its random part.
    secrets: BTreeMap<String, BTreeSet<PrincipalId>>,
    /// Who may read what of whom, since it was said in a session of both.
    shared: BTreeSet<(PrincipalId, PrincipalId)>,
    /// Turns by the names of their messages: what they answer, and the answer.
    questions: BTreeMap<String, TurnId>,
    answers: BTreeMap<String, TurnId>,
    /// Turns by what their clients call them.
    handles: BTreeMap<(SessionId, String), TurnId>,
    /// Events taken in.
    pub(super) events: u64,
}

/// One session.
#[derive(Debug)]
struct SessionLog {
    head: Position,
    readers: BTreeSet<PrincipalId>,
    writers: BTreeSet<PrincipalId>,
    /// What applying every event leads to.
    mirror: Session,
}

/// One turn.
#[derive(Debug)]
pub(super) struct TurnLog {
    pub(super) session: SessionId,
    protocol: String,
    pub(super) principal: PrincipalId,
    pub(super) tag: String,
    pub(super) events: Vec<Arc<Committed>>,
    pub(super) end: Option<TurnEnd>,
    pub(super) text: String,
    /// What its answer says since it was put right: no more than was heard.
    pub(super) edited: Option<String>,
    accepted: bool,
    started: bool,
    interrupted: bool,
    open_calls: BTreeSet<CallId>,
    ended_calls: BTreeMap<CallId, CallEnd>,
}

impl Ledger {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            turns: BTreeMap::new(),
            tags: BTreeMap::new(),
            keys: BTreeMap::new(),
            secrets: BTreeMap::new(),
            shared: BTreeSet::new(),
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            handles: BTreeMap::new(),
            events: 0,
        }
    }

    pub(super) fn turn(&self, turn: &str) -> Option<&TurnLog> {
        self.turns.get(&TurnId::from(turn)).filter(|turn| turn.accepted)
    }

    /// The turn that its client calls so, in this session.
    pub(super) fn handled(&self, session: &SessionId, handle: &str) -> Option<&TurnLog> {
        self.turns.get(self.handles.get(&(session.clone(), handle.to_owned()))?)
    }

    /// The turn that asks with this message.
    pub(super) fn asked_with(&self, message: &str) -> Option<&TurnLog> {
        self.turns.get(self.questions.get(message)?)
    }

    /// The turn that is answered with this message.
    pub(super) fn answered_with(&self, message: &str) -> Option<&TurnLog> {
        self.turns.get(self.answers.get(message)?)
    }

    pub(super) fn tagged(&self, tag: &str) -> Option<&TurnLog> {
        self.turns.get(self.tags.get(tag)?.as_ref()?)
    }

    /// Whether a name stands for several turns.
    pub(super) fn is_ambiguous(&self, tag: &str) -> bool {
        self.tags.get(tag).is_some_and(Option::is_none)
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = (&TurnId, &TurnLog)> {
        self.turns.iter()
    }

    /// How many turns were asked for in each protocol.
    pub(super) fn spoken(&self) -> BTreeMap<String, u64> {
        let mut spoken = BTreeMap::new();
        for turn in self.turns.values() {
            *spoken.entry(turn.protocol.clone()).or_default() += 1;
        }
        spoken
    }

    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How a call ended, if it has.
    pub(super) fn call_end(&self, call: &str) -> Option<&CallEnd> {
        let call = CallId::from(call);
        self.turns.values().find_map(|turn| turn.ended_calls.get(&call))
    }

    /// The state that a session's events lead to.
    pub(crate) fn mirror(&self, session: &SessionId) -> Option<&Session> {
        self.sessions.get(session).map(|log| &log.mirror)
    }

    /// Nobody is shown words or identifiers of somebody with whom no session is shared.
    pub(super) fn check_words(&self, reader: &PrincipalId, bytes: &[u8]) -> Result<(), Fault> {
        let shares = |writer: &PrincipalId| self.shared.contains(&(reader.clone(), writer.clone()));
        self.check_for(reader, bytes, |writer| writer == reader || shares(writer))
    }

    /// Where only turns of one's own are shown: no words or identifiers of anybody else.
    pub(super) fn check_own_words(&self, reader: &PrincipalId, bytes: &[u8]) -> Result<(), Fault> {
        self.check_for(reader, bytes, |writer| writer == reader)
    }

    fn check_for(
        &self,
        reader: &PrincipalId,
        bytes: &[u8],
        may: impl Fn(&PrincipalId) -> bool,
    ) -> Result<(), Fault> {
        for word in bytes.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'~') {
            let Ok(word) = std::str::from_utf8(word) else { continue };
            if let Some((owner, _)) = word.split_once('~').and_then(|(_, rest)| rest.split_once('~')) {
                if !may(&PrincipalId::from(owner)) {
                    return Err(Fault::new(Invariant::Privacy, format!("{reader} reads words of {owner}")));
                }
            } else if word.len() == 26
                && let Some(known) = self.secrets.get(word)
                && !known.iter().any(&may)
            {
                return Err(Fault::new(Invariant::Privacy, format!("{reader} reads the identifier {word}")));
            }
        }
        Ok(())
    }

    /// Takes in the next event of the log.
    pub(crate) fn take(&mut self, session: &SessionId, committed: &Arc<Committed>) -> Result<(), Fault> {
        self.events += 1;
        self.place(session, committed)?;
        check_names(session, &committed.event)?;
        self.remember_secrets(session, &committed.event);
        self.remember_readers(session, &committed.event);
        if let Event::MessageEdited { message, parts, .. } = &committed.event {
            self.put_right(message, parts);
        }
        let Some(turn) = committed.event.turn() else { return Ok(()) };
        self.follow(session, turn, committed)
            .map_err(|fault| fault.within(format!("turn {turn} of {session}")))
    }

    fn put_right(&mut self, message: &MessageId, parts: &[Part]) {
        let named = self.answers.get(message.as_str()).cloned();
        let turn =
            named.or_else(|| self.turns.keys().find(|id| MessageId::answer_of(id) == *message).cloned());
        let texts = parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None });
        if let Some(turn) = turn.and_then(|id| self.turns.get_mut(&id)) {
            turn.edited = Some(texts.collect());
        }
    }

    /// As [`Ledger::take`], for the state only.
    pub(crate) fn mirror_event(&mut self, session: &SessionId, committed: &Committed) {
        if let Some(log) = self.sessions.get_mut(session) {
            log.mirror.apply(committed);
        }
    }

    fn place(&mut self, session: &SessionId, committed: &Committed) -> Result<(), Fault> {
        let limits = &self.limits;
        let log = self.sessions.entry(session.clone()).or_insert_with(|| SessionLog {
            head: Position::default(),
            readers: BTreeSet::new(),
            writers: BTreeSet::new(),
            mirror: Session::new(session.clone(), limits.clone()),
        });
        let position = committed.position;
        let opens = matches!(committed.event, Event::SessionOpened { .. });
        let dense = position.seq == log.head.seq + 1 && opens == (position.seq == 1);
        if !dense || (!opens && position.epoch != log.head.epoch) {
            let detail = format!("{session} has {position:?} after {:?}", log.head);
            return Err(Fault::new(Invariant::Positions, detail));
        }
        log.head = position;
        Ok(())
    }

    fn remember_secrets(&mut self, session: &SessionId, event: &Event) {
        let mut allow = |id: &str, principal: &PrincipalId| {
            let secret = id.rsplit('_').next().unwrap_or(id);
            self.secrets.entry(secret.to_owned()).or_default().insert(principal.clone());
        };
        match event {
            Event::SessionOpened { owner, .. } => allow(session.as_str(), owner),
            Event::ParticipantJoined { principal, .. } => allow(session.as_str(), principal),
            Event::AttachmentOpened { attachment, principal, .. } => allow(attachment.as_str(), principal),
            Event::TurnAccepted { turn, origin, .. } => allow(turn.as_str(), &origin.principal),
            _ => {}
        }
    }

    fn remember_readers(&mut self, session: &SessionId, event: &Event) {
        let Some(log) = self.sessions.get_mut(session) else { return };
        match event {
            Event::SessionOpened { owner, .. } => log.readers.insert(owner.clone()),
            Event::ParticipantJoined { principal, .. } => log.readers.insert(principal.clone()),
            Event::TurnAccepted { origin, .. } => log.writers.insert(origin.principal.clone()),
            _ => return,
        };
        let pairs =
            log.readers.iter().flat_map(|reader| log.writers.iter().map(move |writer| (reader, writer)));
        self.shared.extend(pairs.map(|(reader, writer)| (reader.clone(), writer.clone())));
    }

    fn follow(&mut self, session: &SessionId, id: &TurnId, committed: &Arc<Committed>) -> Result<(), Fault> {
        let event = &committed.event;
        let turn = self.turns.entry(id.clone()).or_insert_with(|| TurnLog::unknown(session.clone()));
        if turn.end.is_some() {
            let invariant = match event {
                Event::CallEnded { .. } => Invariant::OneCallEnd,
                _ => Invariant::OneEnd,
            };
            return Err(Fault::new(invariant, format!("{} after its end", event.name())));
        }
        if turn.interrupted && !matches!(event, Event::TurnEnded { .. }) {
            return Err(Fault::new(Invariant::Silence, format!("{} after its interrupt", event.name())));
        }
        let known = matches!(event, Event::TurnAccepted { .. } | Event::MessageAdded { .. }) || turn.accepted;
        if !known {
            let detail = format!("{} of a turn that was never accepted", event.name());
            return Err(Fault::new(Invariant::Durable, detail));
        }
        turn.events.push(committed.clone());
        match event {
            Event::TurnAccepted { request, origin, key, names, .. } => {
                if let Some(handle) = &origin.handle {
                    self.handles.insert((session.clone(), handle.clone()), id.clone());
                }
                let names = names.as_deref().cloned().unwrap_or_default();
                self.questions.insert(names.input_of(id).to_string(), id.clone());
                self.answers.insert(names.answer_of(id).to_string(), id.clone());
                if std::mem::replace(&mut turn.accepted, true) {
                    return Err(Fault::new(Invariant::OneExecution, "accepted twice"));
                }
                turn.principal = origin.principal.clone();
                turn.protocol.clone_from(&origin.protocol);
                turn.tag = tag(request);
                let tag = turn.tag.clone();
                if let Some(key) = key {
                    self.use_key(&origin.principal, &key.key, committed.at)?;
                } else if self.tags.contains_key(&tag) && tag.starts_with(ONCE) {
                    return Err(Fault::new(Invariant::OneExecution, format!("{tag} is executed twice")));
                }
                let known = self.tags.contains_key(&tag);
                self.tags.insert(tag, (!known).then(|| id.clone()));
            }
            Event::TurnStarted { .. } => turn.started = true,
            Event::TurnOutput { output, .. } => {
                if !turn.started {
                    return Err(Fault::new(Invariant::Durable, "output of a turn that nobody executes"));
                }
                if let switchboard_core::model::Output::Text(text) = output {
                    turn.text.push_str(text);
                }
            }
            Event::CallRequested { call, .. } => {
                let asked = turn.ended_calls.contains_key(&call.id);
                let fresh = turn.open_calls.insert(call.id.clone());
                if asked || !fresh {
                    return Err(Fault::new(Invariant::OneCallEnd, format!("call {} asked twice", call.id)));
                }
            }
            Event::CallProgress { call, .. } if !turn.open_calls.contains(call) => {
                return Err(Fault::new(Invariant::OneCallEnd, format!("progress of {call}, which is over")));
            }
            Event::CallEnded { call, end, .. } => {
                if !turn.open_calls.remove(call) {
                    return Err(Fault::new(Invariant::OneCallEnd, format!("call {call} ends twice")));
                }
                turn.ended_calls.insert(call.clone(), end.clone());
            }
            Event::TurnInterrupted { .. } => turn.interrupted = true,
            Event::TurnEnded { end, .. } => {
                if let Some(call) = turn.open_calls.first() {
                    return Err(Fault::new(Invariant::OneCallEnd, format!("call {call} has no end")));
                }
                turn.end = Some((**end).clone());
            }
            _ => {}
        }
        Ok(())
    }

    /// A key leads to one turn for as long as it is remembered.
    fn use_key(&mut self, principal: &PrincipalId, key: &str, at: Timestamp) -> Result<(), Fault> {
        let last = self.keys.insert((principal.clone(), key.to_owned()), at);
        match last {
            Some(last) if at.since(last) < self.limits.request_memory => {
                let detail = format!("the key {key} of {principal} led to two turns");
                Err(Fault::new(Invariant::OneExecution, detail))
            }
            _ => Ok(()),
        }
    }

    /// At the end nothing is left open.
    pub(super) fn check_rest(&self) -> Result<(), Fault> {
        for (id, turn) in &self.turns {
            if turn.accepted && turn.end.is_none() {
                return Err(Fault::new(Invariant::OneEnd, format!("turn {id} ({}) never ends", turn.tag)));
            }
        }
        Ok(())
    }
}

impl TurnLog {
    /// Whether nothing of it follows any more, but its end.
    pub(super) const fn is_stopped(&self) -> bool {
        self.end.is_some() || self.interrupted
    }

    fn unknown(session: SessionId) -> Self {
        Self {
            session,
            protocol: String::new(),
            principal: PrincipalId::from("nobody"),
            tag: String::new(),
            events: Vec::new(),
            end: None,
            text: String::new(),
            edited: None,
            accepted: false,
            started: false,
            interrupted: false,
            open_calls: BTreeSet::new(),
            ended_calls: BTreeMap::new(),
        }
    }
}

/// Sessions, turns and agents are named in logs: their names have no content.
fn check_names(session: &SessionId, event: &Event) -> Result<(), Fault> {
    let turn = event.turn().map(TurnId::as_str);
    let agent = match event {
        Event::TurnAccepted { agent, .. } | Event::SessionOpened { agent, .. } => Some(agent.as_str()),
        _ => None,
    };
    let names = [Some(session.as_str()), turn, agent];
    match names.into_iter().flatten().find(|name| has_content(name)) {
        Some(name) => Err(Fault::new(Invariant::Quiet, format!("{name:?} would be logged"))),
        None => Ok(()),
    }
}

/// Whether a text has words of somebody in it.
pub(super) fn has_content(text: &str) -> bool {
    text.contains('~')
}

/// What the simulation calls a request: the last word of its input.
fn tag(request: &TurnRequest) -> String {
    match request {
        TurnRequest::Tool { args, .. } => {
            args.get("tag").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
        }
        TurnRequest::Chat { .. } | TurnRequest::Step { .. } => {
            request.text().rsplit(' ').next().unwrap_or_default().to_owned()
        }
    }
}

/// How tags of requests begin that are never sent twice without a key.
pub(super) const ONCE: char = 't';

/// Whether whoever is attached as `attachment` has to answer.
pub(super) fn executes(executor: &Executor, attachment: &AttachmentId, principal: &PrincipalId) -> bool {
    match executor {
        Executor::Agent | Executor::Device(_) => false,
        Executor::Attachment(known) => known == attachment,
        Executor::Principal(known) => known == principal,
        Executor::Anyone => true,
    }
}
