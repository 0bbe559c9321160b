//! A companion: conversations over Alicia, of its own and of others, watched by somebody who compares.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_alicia::client::{
    AliciaClient, Answer, ClientConfig, ConversationEvent, ConversationKey, Event, Join, RequestError,
    RequestKey, Since, ToolOutcome,
};
use switchboard_alicia::{AliciaLimits, Body, Decoded, Dialect, Envelope, Id, Side, Value, decode};
use switchboard_core::{
    ClientInput, ClientMachine as _, Frame, OpeningRequest, Pii, Principal, PrincipalId, SessionId, Timestamp,
};

use super::facts::{Fact, Lens, Seen};
use super::guest::{Around, Heard, Said, Speaker};
use super::guests::{alicia_limits, seed};
use super::ledger::{Ledger, TurnLog};
use super::random::Random;
use super::wire::marker;
use super::{Fault, Invariant, Tongue, shared_name, stories};

/// A client and its user.
#[derive(Debug)]
pub(super) struct Companion {
    principal: PrincipalId,
    client: AliciaClient,
    conversations: BTreeMap<ConversationKey, Conversation>,
    /// What was said, and the message that it is in.
    said: BTreeMap<RequestKey, Id>,
    /// Tools that are being run, and until when.
    tools: Vec<(Timestamp, ConversationKey, Id, bool)>,
    wire: Wire,
}

/// A conversation as its user sees it.
#[derive(Debug, Default)]
struct Conversation {
    joined: bool,
    session: Option<SessionId>,
    answers: BTreeMap<Id, Shown>,
}

/// An answer as its user sees it.
#[derive(Debug, Default)]
struct Shown {
    seen: Seen,
    /// Its beginning was missed.
    partial: bool,
    complete: bool,
}

/// What passes over the transport, read a second time: what may follow what.
#[derive(Debug)]
struct Wire {
    limits: AliciaLimits,
    /// The last stanza of each conversation since its handshake.
    last: BTreeMap<Id, i32>,
    /// Answers that have had their last sentence.
    over: BTreeSet<Id>,
}

/// Sentences are held back, so that only the words keep their order.
const LENS: Lens = Lens { thoughts: false, calls: false, lists: false, data: false };

impl Companion {
    pub(super) fn new(principal: PrincipalId, random: &mut Random) -> Self {
        let config = ClientConfig {
            limits: alicia_limits(),
            streaming: random.chance(75),
            reasoning: random.chance(50),
            max_requests: 8,
            max_tools: 4,
            ping_ms: 4_000,
            dead_ms: 12_000,
            ..ClientConfig::default()
        };
        let limits = AliciaLimits { frame: config.limits.hard_cap, ..alicia_limits() };
        Self {
            principal,
            client: AliciaClient::new(config, seed(random)),
            conversations: BTreeMap::new(),
            said: BTreeMap::new(),
            tools: Vec::new(),
            wire: Wire { limits, last: BTreeMap::new(), over: BTreeSet::new() },
        }
    }

    fn join(&mut self, around: &mut Around<'_>) {
        let owner = Principal::new(self.principal.as_str());
        let known = match around.random.below(10) {
            0..5 => Some(SessionId::named(&owner, &shared_name(around.random.below(2)))),
            5..8 => around.random.pick(&around.places).cloned(),
            _ => None,
        };
        let conversation = known.and_then(|session| Id::new(session.as_str()).ok());
        let tools = if around.random.chance(60) { vec![stories::CLIENT_TOOL.to_owned()] } else { Vec::new() };
        around.note(format_args!("joins {conversation:?} with {tools:?}"));
        if let Ok(key) = self.client.join(Join { conversation, since: Since::Now, tools }, around.now) {
            self.conversations.insert(key, Conversation::default());
        }
    }

    fn some_conversation(&self, random: &mut Random) -> Option<ConversationKey> {
        let keys: Vec<ConversationKey> = self.conversations.keys().copied().collect();
        random.pick(&keys).copied()
    }

    fn say(&mut self, tag: &str, around: &mut Around<'_>) {
        let Some(key) = self.some_conversation(around.random) else { return self.join(around) };
        let story = around.random.pick(stories::NAMES).copied().unwrap_or("echo");
        let words = format!("{story} {} {tag}", marker(&self.principal));
        if let Ok((request, id)) = self.client.say(key, &words, None, around.now) {
            around.note(format_args!("says {story} {tag} in {key:?} as {id}"));
            self.said.insert(request, id);
        }
    }

    fn told(&mut self, event: Event, around: &mut Around<'_>) -> Result<(), Fault> {
        match event {
            Event::Up => {}
            Event::Down(down) => around.note(format_args!("is off: {}", down.cause)),
            Event::Conversation(key, event) => self.happened(key, event, around)?,
            Event::Settled(key, outcome) => {
                let Some(id) = self.said.remove(&key) else { return Ok(()) };
                let taken = around.ledger.asked_with(id.as_str()).is_some();
                match outcome {
                    Ok(_) if !taken => {
                        let detail = format!("{id} was accepted, and is not in the log");
                        return Err(Fault::new(Invariant::Durable, detail));
                    }
                    Err(RequestError::Refused(why)) if taken => {
                        let detail = format!("{id} was refused with {}, and is in the log", why.code);
                        return Err(Fault::new(Invariant::Durable, detail));
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn happened(
        &mut self,
        key: ConversationKey,
        event: ConversationEvent,
        around: &mut Around<'_>,
    ) -> Result<(), Fault> {
        let Some(conversation) = self.conversations.get_mut(&key) else { return Ok(()) };
        match event {
            ConversationEvent::Joined(joined) => {
                around.note(format_args!("has joined {} as {key:?}, again: {}", joined.id, joined.again));
                *around.resumed += u64::from(joined.again);
                conversation.joined = true;
                conversation.session = Some(SessionId::from(joined.id.as_str()));
            }
            ConversationEvent::Closed(why) => {
                around.note(format_args!("is out of {key:?}: {}", name(&why)));
                self.conversations.remove(&key);
            }
            ConversationEvent::Started { answer, question } => {
                turn_of(&answer, around.ledger)?;
                let shown = conversation.answers.entry(answer).or_default();
                shown.partial |= question.is_none();
            }
            ConversationEvent::Piece { answer, text: Pii(text) } => {
                let shown = conversation.answers.entry(answer.clone()).or_default();
                shown.seen.push(Fact::Text(text));
                if !shown.partial {
                    shown.check(&answer, false, around.ledger)?;
                }
            }
            ConversationEvent::Answered(answer) => conversation.answered(answer, around.ledger)?,
            ConversationEvent::RunTool(run) => {
                let at = match around.random.below(6) {
                    0 => around.soon(800, 3_000),
                    1 => return Ok(()),
                    _ => around.soon(0, 200),
                };
                self.tools.push((at, key, run.id, around.random.chance(80)));
            }
            ConversationEvent::StopTool(id) => self.tools.retain(|(_, _, running, _)| *running != id),
            ConversationEvent::Reload => conversation.answers.clear(),
            _ => {}
        }
        Ok(())
    }
}

impl Speaker for Companion {
    fn tongue(&self) -> Tongue {
        Tongue::Alicia
    }

    fn request(&self) -> OpeningRequest {
        let path = "/api/v1/ws";
        OpeningRequest { path, target: path.into(), websocket: true, ..OpeningRequest::default() }
    }

    fn place(&self) -> Option<SessionId> {
        self.conversations.values().find_map(|conversation| conversation.session.clone())
    }

    fn act(&mut self, tag: &str, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
        match around.random.below(20) {
            0..12 => self.say(tag, around),
            12..15 => self.join(around),
            15 | 16 => {
                if let Some(key) = self.some_conversation(around.random) {
                    around.note(format_args!("stops {key:?}"));
                    drop(self.client.stop(key, None, None, Some("enough".to_owned()), around.now));
                }
            }
            17 => {
                if let Some(key) = self.some_conversation(around.random) {
                    around.note(format_args!("leaves {key:?}"));
                    self.client.leave(key);
                }
            }
            18 => self.client.network_is_back(),
            _ if around.random.chance(30) => {
                around.note(format_args!("leaves"));
                self.client.handle_input(ClientInput::Leave, around.now);
            }
            _ => {}
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault> {
        match &heard {
            Heard::Opened => {
                self.wire.last.clear();
                self.wire.over.clear();
            }
            Heard::Frame(Frame::Binary(bytes)) => self.wire.received(bytes)?,
            Heard::Frame(_) | Heard::Closed(_) | Heard::Timeout => {}
        }
        self.client.handle_input(heard.input(), around.now);
        Ok(())
    }

    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault> {
        while let Some(place) = self.tools.iter().position(|(at, ..)| *at <= around.now) {
            let (_, key, id, well) = self.tools.swap_remove(place);
            let outcome = if well {
                ToolOutcome::Done(Value::from("found it"))
            } else {
                ToolOutcome::Failed { message: Pii("it is broken".to_owned()), partial: None }
            };
            self.client.tool_done(key, &id, outcome, around.now);
        }
        loop {
            return Ok(match Said::of(self.client.poll_output()) {
                Err(event) => {
                    self.told(event, around)?;
                    continue;
                }
                Ok(Said::Idle { wake }) => {
                    let tools = self.tools.iter().map(|(at, ..)| *at);
                    Said::Idle { wake: wake.into_iter().chain(tools).min() }
                }
                Ok(said) => said,
            });
        }
    }

    fn come_back(&mut self, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
        self.client.network_is_back();
    }

    fn is_idle(&self, ledger: &Ledger) -> bool {
        self.said.is_empty() && self.check_rest(ledger).is_ok()
    }

    fn check_rest(&self, ledger: &Ledger) -> Result<(), Fault> {
        if let Some(id) = self.said.values().next() {
            return Err(Fault::new(Invariant::Rest, format!("nobody says what became of {id}")));
        }
        for conversation in self.conversations.values().filter(|conversation| conversation.joined) {
            for (id, shown) in &conversation.answers {
                if !shown.complete {
                    let turn = turn_of(id, ledger)?;
                    let detail = format!("the answer {id} to {} is never complete", turn.tag);
                    return Err(Fault::new(Invariant::OneTerminal, detail));
                }
                shown.check(id, true, ledger)?;
            }
        }
        Ok(())
    }
}

impl Conversation {
    /// An answer is complete. What a subscription has brought may be a part of it, and is replaced later.
    fn answered(&mut self, answer: Answer, ledger: &Ledger) -> Result<(), Fault> {
        let turn = turn_of(&answer.id, ledger)?;
        let shown = self.answers.entry(answer.id.clone()).or_default();
        let streamed = shown.seen.len() > 0 && !shown.partial;
        shown.complete = answer.whole;
        if !answer.whole {
            return Ok(());
        }
        let before = std::mem::take(&mut shown.seen);
        shown.partial = false;
        shown.seen.push(Fact::Text(answer.text.0));
        if streamed && !answer.replaces {
            if before.text() != shown.seen.text() {
                let detail = format!("the pieces of {} are not its text", answer.id);
                return Err(Fault::new(Invariant::SameView, detail));
            }
            if !turn.is_stopped() {
                let detail = format!("{} is complete, and goes on in the log", answer.id);
                return Err(Fault::new(Invariant::OneEnd, detail));
            }
            return shown.check(&answer.id, true, ledger);
        }
        shown.check(&answer.id, false, ledger)
    }
}

impl Shown {
    fn check(&self, id: &Id, whole: bool, ledger: &Ledger) -> Result<(), Fault> {
        let turn = turn_of(id, ledger)?;
        if let Some(edited) = &turn.edited {
            let mut heard = Seen::default();
            heard.push(Fact::Text(edited.clone()));
            if heard.text().starts_with(&self.seen.text()) {
                return Ok(());
            }
        }
        self.seen.check(turn, LENS, whole).map_err(|detail| Fault::new(Invariant::SameView, detail))
    }
}

impl Wire {
    fn received(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        for decoded in decode(bytes, Side::Server, Dialect::Full, &self.limits) {
            match decoded {
                Ok(Decoded::Full { envelope, .. }) => self.envelope(&envelope)?,
                Ok(Decoded::Lite(_)) | Err(_) => {
                    return Err(Fault::new(Invariant::SameView, "the client cannot read an envelope"));
                }
            }
        }
        Ok(())
    }

    fn envelope(&mut self, envelope: &Envelope) -> Result<(), Fault> {
        let Envelope { stanza_id, conversation_id: Some(conversation), body, .. } = envelope else {
            return Ok(());
        };
        if let Body::Configuration(_) = body {
            // What was missed comes from here on.
            self.last.remove(conversation);
            self.over.clear();
        }
        if *stanza_id >= 0 {
            return Ok(());
        }
        if let Some(last) = self.last.insert(conversation.clone(), *stanza_id)
            && last - 1 != *stanza_id
        {
            let detail = format!("stanza {stanza_id} of {conversation} after {last}");
            return Err(Fault::new(Invariant::SameView, detail));
        }
        if let Body::AssistantSentence(sentence) = body {
            let answer = &sentence.previous_id;
            if self.over.contains(answer) {
                let detail = format!("{answer} goes on after its last sentence");
                return Err(Fault::new(Invariant::OneTerminal, detail));
            }
            if sentence.is_final {
                self.over.insert(answer.clone());
            }
        }
        Ok(())
    }
}

/// The turn that an answer belongs to.
fn turn_of<'a>(answer: &Id, ledger: &'a Ledger) -> Result<&'a TurnLog, Fault> {
    ledger.answered_with(answer.as_str()).ok_or_else(|| {
        Fault::new(Invariant::Durable, format!("the answer {answer} is shown, and is not in the log"))
    })
}

const fn name(ended: &switchboard_alicia::client::Ended) -> &'static str {
    use switchboard_alicia::client::Ended;
    match ended {
        Ended::Refused(_) => "refused",
        Ended::NotFollowed(_) => "not followed",
        Ended::Off => "off",
        Ended::Left => "left",
    }
}

/// Whether a packet has a sentence, and whether that is the last of its answer.
pub(super) fn sentence(bytes: &[u8]) -> (bool, bool) {
    let limits = AliciaLimits::default();
    for decoded in decode(bytes, Side::Server, Dialect::Full, &limits).into_iter().flatten() {
        if let Decoded::Full { envelope, .. } = decoded
            && let Body::AssistantSentence(sentence) = &envelope.body
        {
            return (true, sentence.is_final);
        }
    }
    (false, false)
}
