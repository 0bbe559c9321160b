//! A coding terminal: chats over Acolyte, resumed where that was agreed, watched by somebody who compares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use switchboard_acolyte::client::{AcolyteClient, ChatEvent, ChatId, ClientConfig, Ending, Event};
use switchboard_acolyte::message::{Attach, Capabilities};
use switchboard_acolyte::{ChatRequest, Reply, StreamEvent, TaskId};
use switchboard_core::{
    Backoff, ClientInput, ClientMachine as _, Frame, Jitter, OpeningRequest, PrincipalId,
};

use super::facts::{Fact, Lens, Seen};
use super::guest::{Around, Heard, Said, Speaker};
use super::guests::seed;
use super::ledger::{Ledger, TurnLog};
use super::random::Random;
use super::wire::marker;
use super::{Fault, Invariant, Tongue, shared_name, stories};

/// A terminal and its user.
#[derive(Debug)]
pub(super) struct Coder {
    principal: PrincipalId,
    client: AcolyteClient,
    chats: BTreeMap<ChatId, Chat>,
    wire: Wire,
    /// A piece of text that may belong to the end that comes next.
    held: Option<(ChatId, String)>,
}

/// A chat as its user sees it.
#[derive(Debug)]
struct Chat {
    /// What the simulation calls it; none if it was only attached.
    tag: Option<String>,
    task: Option<TaskId>,
    seen: Seen,
    aborted: bool,
}

/// What passes over the transport, read a second time: what may follow what.
#[derive(Debug, Default)]
struct Wire {
    open: BTreeSet<String>,
    /// The last position that was told, by chat.
    places: BTreeMap<String, u64>,
}

const LENS: Lens = Lens { thoughts: true, calls: true, lists: true, data: true };

impl Coder {
    pub(super) fn new(principal: PrincipalId, random: &mut Random) -> Self {
        let offers = [
            "abort.terminal, error.structured, event.checklist, stream.lossless, task.resume, workspace.path",
            "error.structured, event.tasklist, task.resume",
            "abort.terminal, error.structured, event.checklist",
        ];
        let offer = random.pick(&offers).copied().unwrap_or_default();
        let config = ClientConfig {
            capabilities: Capabilities::parse(offer),
            max_chats: 6,
            ping_ms: 4_000,
            dead_ms: 12_000,
            silence_ms: 20_000,
            backoff: Backoff::new(Duration::from_millis(40), Duration::from_millis(1_500), Jitter::Full),
            ..ClientConfig::default()
        };
        Self {
            principal,
            client: AcolyteClient::new(config, seed(random)),
            chats: BTreeMap::new(),
            wire: Wire::default(),
            held: None,
        }
    }

    fn start(&mut self, tag: &str, around: &mut Around<'_>) {
        let story = around.random.pick(stories::NAMES).copied().unwrap_or("echo");
        let message = format!("{story} {} {tag}", marker(&self.principal));
        let session_id = around.random.chance(70).then(|| shared_name(around.random.below(2)));
        let model = if around.random.chance(20) { "frail" } else { "steady" }.to_owned();
        around.note(format_args!("starts {story} {tag} in {session_id:?}"));
        let request = ChatRequest { message, model, session_id, ..ChatRequest::default() };
        if let Ok(id) = self.client.start(request) {
            self.chats.insert(id, Chat::new(Some(tag.to_owned())));
        }
    }

    /// Follows whatever runs in a session.
    fn attach(&mut self, around: &mut Around<'_>) {
        let elsewhere = around.random.pick(&around.places).filter(|_| around.random.chance(50));
        let session = elsewhere.map(ToString::to_string);
        let session = Some(session.unwrap_or_else(|| shared_name(around.random.below(2))));
        around.note(format_args!("attaches to {session:?}"));
        if let Ok(id) = self.client.attach(Attach { task: None, session, after: 0 }) {
            self.chats.insert(id, Chat::new(None));
        }
    }

    fn abort(&mut self, around: &mut Around<'_>) {
        let ids: Vec<ChatId> = self.chats.keys().copied().collect();
        let Some(id) = around.random.pick(&ids).copied() else { return };
        around.note(format_args!("aborts {id:?}"));
        if let Some(chat) = self.chats.get_mut(&id) {
            chat.aborted = true;
        }
        self.client.abort(id, around.now);
    }

    fn told(&mut self, event: Event, around: &mut Around<'_>) -> Result<(), Fault> {
        self.release(Some(&event), around)?;
        match event {
            Event::Up { resuming, .. } => *around.resumed += resuming as u64,
            Event::Chat(id, event) => return self.chat_event(id, event, around),
            Event::Ended(id, ending) => {
                around.note(format_args!("sees the end of {id:?}: {}", name(&ending)));
                let Some(chat) = self.chats.remove(&id) else {
                    return Err(Fault::new(Invariant::OneTerminal, format!("{id:?} ended twice")));
                };
                return chat.end(&ending, around.ledger);
            }
            Event::Down(down) => around.note(format_args!("is off: {}", down.cause)),
            Event::NotAborted(id, _) => {
                if let Some(chat) = self.chats.get_mut(&id) {
                    chat.aborted = false;
                }
            }
            Event::Resumed { .. } | Event::Answer(..) => {}
        }
        Ok(())
    }

    fn chat_event(&mut self, id: ChatId, event: ChatEvent, around: &Around<'_>) -> Result<(), Fault> {
        let Some(chat) = self.chats.get_mut(&id) else {
            return Err(Fault::new(Invariant::OneTerminal, format!("{id:?} goes on after its end")));
        };
        match event {
            ChatEvent::Accepted(task) => chat.task = Some(task),
            // A chat that could not begin is told of as if it had.
            ChatEvent::Queued(_) | ChatEvent::Started => {}
            ChatEvent::Stream(StreamEvent::TextDelta { text }) => self.held = Some((id, text.into_owned())),
            ChatEvent::Stream(event) => {
                if let Some(fact) = fact(event) {
                    chat.sees(fact, around.ledger)?;
                }
            }
        }
        Ok(())
    }

    /// Text that was held back is seen, unless it is only how the end tells its output.
    fn release(&mut self, next: Option<&Event>, around: &Around<'_>) -> Result<(), Fault> {
        let Some((id, text)) = self.held.take() else { return Ok(()) };
        let untold = |reply: &Reply| !reply.output_streamed && reply.output == text;
        let of_end = match next {
            Some(Event::Ended(of, Ending::Done(reply) | Ending::Failed { reply: Some(reply), .. })) => {
                *of == id && untold(reply)
            }
            _ => false,
        };
        match self.chats.get_mut(&id) {
            Some(chat) if !of_end => chat.sees(Fact::Text(text), around.ledger),
            _ => Ok(()),
        }
    }
}

impl Speaker for Coder {
    fn tongue(&self) -> Tongue {
        Tongue::Acolyte
    }

    fn request(&self) -> OpeningRequest {
        OpeningRequest {
            path: "/v1/rpc",
            target: "/v1/rpc".into(),
            websocket: true,
            ..OpeningRequest::default()
        }
    }

    fn act(&mut self, tag: &str, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
        match around.random.below(20) {
            0..12 => self.start(tag, around),
            12..15 => self.abort(around),
            15 | 16 => self.attach(around),
            17 => drop(self.client.status(around.now)),
            18 => {
                let tasks: Vec<TaskId> = self.chats.values().filter_map(|chat| chat.task.clone()).collect();
                if let Some(task) = around.random.pick(&tasks).cloned() {
                    drop(self.client.task_status(task, None, around.now));
                }
            }
            _ if around.random.chance(30) => {
                around.note(format_args!("leaves"));
                self.chats.values_mut().for_each(|chat| chat.aborted = true);
                self.client.handle_input(ClientInput::Leave, around.now);
            }
            _ => {}
        }
    }

    fn hear(&mut self, heard: Heard, around: &mut Around<'_>) -> Result<(), Fault> {
        match &heard {
            Heard::Opened => self.wire = Wire::default(),
            Heard::Frame(Frame::Text(text)) => self.wire.received(text)?,
            Heard::Frame(_) | Heard::Closed(_) | Heard::Timeout => {}
        }
        self.client.handle_input(heard.input(), around.now);
        Ok(())
    }

    fn poll(&mut self, around: &mut Around<'_>) -> Result<Said, Fault> {
        loop {
            let said = match Said::of(self.client.poll_output()) {
                Ok(said) => said,
                Err(event) => {
                    self.told(event, around)?;
                    continue;
                }
            };
            match &said {
                Said::Send(Frame::Text(text)) => self.wire.sent(text),
                Said::Idle { .. } => self.release(None, around)?,
                Said::Send(_) | Said::Dial | Said::Close(_) => {}
            }
            return Ok(said);
        }
    }

    fn come_back(&mut self, around: &mut Around<'_>) {
        self.client.handle_input(ClientInput::Connect, around.now);
    }

    fn is_idle(&self, _ledger: &Ledger) -> bool {
        self.chats.is_empty()
    }

    fn check_rest(&self, ledger: &Ledger) -> Result<(), Fault> {
        let Some((id, chat)) = self.chats.first_key_value() else { return Ok(()) };
        let over = chat.turn(ledger).is_ok_and(|turn| turn.end.is_some());
        let invariant = if over { Invariant::OneTerminal } else { Invariant::Rest };
        Err(Fault::new(invariant, format!("{id:?} never ends: {chat:?}")))
    }
}

impl Chat {
    fn new(tag: Option<String>) -> Self {
        Self { tag, task: None, seen: Seen::default(), aborted: false }
    }

    /// The turn that it shows.
    fn turn<'a>(&self, ledger: &'a Ledger) -> Result<&'a TurnLog, Fault> {
        let turn = self.task.as_ref().and_then(|task| ledger.turn(task.turn().as_str()));
        let turn = turn.ok_or_else(|| {
            let detail = format!("{:?} shows {:?}, which is not in the log", self.tag, self.task);
            Fault::new(Invariant::Durable, detail)
        })?;
        match &self.tag {
            Some(tag) if *tag != turn.tag => {
                Err(Fault::new(Invariant::SameView, format!("the chat {tag} shows the turn {}", turn.tag)))
            }
            _ => Ok(turn),
        }
    }

    fn sees(&mut self, fact: Fact, ledger: &Ledger) -> Result<(), Fault> {
        let turn = self.turn(ledger)?;
        self.seen.push(fact);
        self.seen.check(turn, LENS, false).map_err(|detail| Fault::new(Invariant::SameView, detail))
    }

    fn end(&self, ending: &Ending, ledger: &Ledger) -> Result<(), Fault> {
        match ending {
            Ending::Done(_) | Ending::Failed { reply: Some(_), .. } => {}
            Ending::Refused(why) => {
                let taken = self.tag.as_ref().and_then(|tag| ledger.tagged(tag));
                return match taken {
                    Some(turn) => {
                        let detail = format!("{} was refused ({why}), and is in the log", turn.tag);
                        Err(Fault::new(Invariant::Durable, detail))
                    }
                    None => Ok(()),
                };
            }
            // Stopped, lost, or without an answer: what was seen was compared already.
            Ending::Failed { reply: None, .. } | Ending::Aborted | Ending::Lost { .. } => return Ok(()),
        }
        let turn = self.turn(ledger)?;
        if turn.end.is_none() {
            let detail = format!("{} is done, and goes on in the log", turn.tag);
            return Err(Fault::new(Invariant::OneEnd, detail));
        }
        self.seen.check(turn, LENS, true).map_err(|detail| Fault::new(Invariant::SameView, detail))
    }
}

impl Wire {
    fn sent(&mut self, text: &str) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let (Some("chat.start" | "chat.attach"), Some(id)) =
            (message["type"].as_str(), message["id"].as_str())
        {
            self.open.insert(id.to_owned());
        }
    }

    fn received(&mut self, text: &str) -> Result<(), Fault> {
        let message: Value = serde_json::from_str(text).map_err(|error| {
            Fault::new(Invariant::SameView, format!("the client cannot read this: {error}"))
        })?;
        let (kind, id) =
            (message["type"].as_str().unwrap_or_default(), message["id"].as_str().unwrap_or_default());
        let of_chat = matches!(
            kind,
            "chat.accepted" | "chat.queued" | "chat.started" | "chat.event" | "chat.done" | "chat.error"
        );
        if of_chat && !self.open.contains(id) {
            let detail = format!("{kind} of {id}, which is over or was never open");
            return Err(Fault::new(Invariant::OneTerminal, detail));
        }
        if let (Some(place), "chat.event") = (message["position"].as_u64(), kind)
            && let Some(last) = self.places.insert(id.to_owned(), place)
            && last >= place
        {
            return Err(Fault::new(Invariant::SameView, format!("{id} is at {place} after {last}")));
        }
        if matches!(kind, "chat.done" | "chat.error" | "error") {
            self.open.remove(id);
        }
        Ok(())
    }
}

fn fact(event: StreamEvent<'_>) -> Option<Fact> {
    match event {
        StreamEvent::TextDelta { text } => Some(Fact::Text(text.into_owned())),
        StreamEvent::Reasoning { text } => Some(Fact::Thought(text.into_owned())),
        StreamEvent::ToolCall { tool_call_id, .. } => Some(Fact::Call(tool_call_id)),
        StreamEvent::ToolResult { tool_call_id, is_error, .. } => {
            Some(Fact::Called(tool_call_id, is_error != Some(true)))
        }
        StreamEvent::Checklist(list) | StreamEvent::Tasklist(list) => Some(Fact::List(list.group_id)),
        _ => None,
    }
}

const fn name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Done(_) => "done",
        Ending::Failed { .. } => "failed",
        Ending::Aborted => "aborted",
        Ending::Refused(_) => "refused",
        Ending::Lost { .. } => "lost",
    }
}
