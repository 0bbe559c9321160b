//! One real client: the client half of ASP, its transport, and a user who watches.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_asp::client::{AspClient, ClientConfig, CreditMode, Event, Input, Output};
use switchboard_asp::message::{CallFailure, CallResult, Enc, Invoke, InvokeBody, Record, RecordBody};
use switchboard_asp::{Feature, Features, Value};
use switchboard_core::client::Refusal as Refused;
use switchboard_core::{
    AttachmentId, Backoff, ClientMachine as _, Frame, Jitter, Principal, Refusal, Timestamp,
};

use super::expected::Perspective;
use super::guests::seed;
use super::line::Line;
use super::random::Random;
use super::stories;
use super::view::View;
use super::wire::Wire;
use super::{Fault, Invariant, Simulation};
use crate::world::{PeerId, Received, opening};

/// A client and its user.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) principal: Principal,
    pub(super) asp: AspClient,
    pub(super) transport: Option<Transport>,
    pub(super) views: BTreeMap<u16, View>,
    /// INVOKEs with a key, to be repeated.
    pub(super) keyed: Vec<(Invoke, String)>,
    /// What the user still has to do.
    todo: Vec<(Timestamp, Todo)>,
    dial_at: Option<Timestamp>,
    wake: Option<Timestamp>,
    cid: AttachmentId,
    features: Features,
    manual: bool,
}

/// Something that the user does later.
#[derive(Debug)]
enum Todo {
    Answer { id: u16, call: String, ok: bool },
    AnswerAgain(CallResult),
    Reply { ask: String },
    Consume { id: u16, bytes: u64 },
}

/// A transport, seen from the client.
#[derive(Debug)]
pub(super) struct Transport<W = Wire> {
    pub(super) peer: PeerId,
    pub(super) up: Line<Up>,
    pub(super) down: Line<Down>,
    /// What passes over it, read a second time.
    pub(super) wire: W,
    /// It is cut, and the client has not noticed: what it says is lost.
    pub(super) severed: bool,
}

/// A transport that the client has left: what it sent before is still on its way.
#[derive(Debug)]
pub(super) struct Ghost {
    pub(super) peer: PeerId,
    pub(super) up: Line<Up>,
}

/// From client to server.
#[derive(Debug)]
pub(super) enum Up {
    Frame(Frame),
    Close(u16),
    Cut,
}

/// From server to client.
#[derive(Debug)]
pub(super) enum Down {
    Frame(Frame),
    Closed(Option<u16>),
}

impl Transport {
    pub(super) fn new(peer: PeerId, principal: &Principal) -> Self {
        Self {
            peer,
            up: Line::new(),
            down: Line::new(),
            wire: Wire::new(principal.id.clone()),
            severed: false,
        }
    }
}

impl Transport<()> {
    /// For a speaker that reads what passes by itself.
    pub(super) const fn bare(peer: PeerId) -> Self {
        Self { peer, up: Line::new(), down: Line::new(), wire: (), severed: false }
    }
}

impl<W> Transport<W> {
    /// What the server has sent goes on its way.
    pub(super) fn take_in(&mut self, received: Vec<Received>, now: Timestamp, random: &mut Random) {
        for received in received {
            let down = match received {
                Received::Frame(frame @ (Frame::Ping(_) | Frame::Pong(_))) if random.chance(50) => {
                    self.down.push_ahead(Down::Frame(frame), now);
                    continue;
                }
                Received::Frame(frame) => Down::Frame(frame),
                Received::Close(close) => Down::Closed(Some(close.code)),
                Received::Lost => Down::Closed(None),
            };
            self.down.push(down, now, latency(random));
        }
    }

    /// When something arrives next, at either end.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let up = self.up.next_due().filter(|_| !self.severed);
        self.down.next_due().into_iter().chain(up).min()
    }
}

impl Client {
    pub(super) fn new(principal: Principal, random: &mut Random) -> Self {
        let features = match random.below(8) {
            0 => Features::BARE,
            1 => Features::STANDARD.without(Feature::Credit),
            2 => Features::STANDARD.without(Feature::Frag).with(Feature::Deflate),
            3 => Features::STANDARD.without(Feature::Resume),
            4 => Features::STANDARD.without(Feature::ClientTools).with(Feature::Complete06),
            _ => Features::STANDARD,
        };
        let manual = random.chance(40);
        let config = ClientConfig {
            features,
            enc: if random.chance(50) { vec![Enc::Json] } else { vec![Enc::Msgpack, Enc::Json] },
            tools: vec![stories::client_tool()],
            window: 16 << 10,
            credit: if manual { CreditMode::Manual } else { CreditMode::Automatic },
            max_queued: 16,
            accept_timeout_ms: 3_000,
            backoff: Backoff::new(
                Duration::from_millis(40),
                Duration::from_millis(1_500),
                Jitter::Around(50),
            ),
            ..ClientConfig::default()
        };
        Self {
            principal,
            asp: AspClient::new(config, &seed(random)),
            transport: None,
            views: BTreeMap::new(),
            keyed: Vec::new(),
            todo: Vec::new(),
            dial_at: None,
            wake: None,
            cid: AttachmentId::from("none"),
            features,
            manual,
        }
    }

    /// When something has to be done without anything arriving.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let todo = self.todo.iter().map(|(at, _)| *at);
        let transport = self.transport.as_ref().and_then(Transport::next_due);
        todo.chain(self.wake).chain(self.dial_at).chain(transport).min()
    }

    /// Whether every request is over.
    pub(super) fn is_idle(&self) -> bool {
        self.views.is_empty()
    }

    fn perspective(&self) -> Perspective {
        // What was agreed when what is shown now was sent; the connection may be gone already.
        let agreed = self.features;
        Perspective {
            attachment: self.cid.clone(),
            principal: self.principal.id.clone(),
            client_tools: agreed.has(Feature::ClientTools),
            events: agreed.has(Feature::Events),
            complete06: agreed.has(Feature::Complete06),
            stream: true,
            want: None,
        }
    }
}

impl Simulation {
    /// Carries out everything that a client wants done.
    pub(super) fn drain_client(&mut self, index: usize) -> Result<(), Fault> {
        let now = self.world.now();
        loop {
            let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
            match client.asp.poll_output() {
                Output::Dial => client.dial_at = Some(later(now, latency(&mut self.random))),
                Output::Binary(bytes) => {
                    if let Some(transport) = &mut client.transport {
                        transport.wire.sent(&bytes);
                        transport.up.push(Up::Frame(Frame::Binary(bytes)), now, latency(&mut self.random));
                    }
                }
                Output::Ping => {
                    if let Some(transport) = &mut client.transport {
                        let ping = Frame::Ping(bytes::Bytes::new());
                        transport.up.push(Up::Frame(ping), now, latency(&mut self.random));
                    }
                }
                Output::Close(code) => {
                    client.dial_at = None;
                    if let Some(Transport { peer, mut up, severed: false, .. }) = client.transport.take() {
                        up.push(Up::Close(code), now, latency(&mut self.random));
                        self.ghosts.push(Ghost { peer, up });
                    }
                }
                // A client of this protocol sends no text.
                Output::Text(_) => {}
                Output::Event(event) => self.client_event(index, event)?,
                Output::Idle { wake } => {
                    client.wake = wake;
                    return Ok(());
                }
            }
        }
    }

    /// Does the next thing that is due for a client; false if nothing is.
    pub(super) fn serve_client(&mut self, index: usize) -> Result<bool, Fault> {
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return Ok(false) };
        if client.dial_at.is_some_and(|at| at <= now) {
            client.dial_at = None;
            self.dial(index);
            return Ok(true);
        }
        if let Some(transport) = &mut client.transport {
            match transport.down.pop(now) {
                Some(Down::Frame(Frame::Binary(bytes))) => {
                    let said = transport.wire.received(&bytes, &self.ledger);
                    said.map_err(|fault| fault.within(format!("client {index}")))?;
                    self.frames += 1;
                    client.asp.handle_input(Input::Binary(bytes), now);
                    return Ok(true);
                }
                Some(Down::Frame(_)) => {
                    // A WebSocket library answers pings by itself.
                    let pong = Frame::Pong(bytes::Bytes::new());
                    transport.up.push(Up::Frame(pong), now, latency(&mut self.random));
                    client.asp.handle_input(Input::Alive, now);
                    return Ok(true);
                }
                Some(Down::Closed(code)) => {
                    client.transport = None;
                    client.asp.handle_input(Input::Closed(code), now);
                    return Ok(true);
                }
                None => {}
            }
        }
        let Some(client) = self.clients.get_mut(index) else { return Ok(false) };
        if let Some(place) = client.todo.iter().position(|(at, _)| *at <= now) {
            let (_, todo) = client.todo.swap_remove(place);
            client.act(todo, now);
            return Ok(true);
        }
        if client.wake.is_some_and(|wake| wake <= now) {
            client.wake = None;
            client.asp.handle_input(Input::Timeout, now);
            return Ok(true);
        }
        Ok(false)
    }

    fn dial(&mut self, index: usize) {
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        let input = match self.world.try_connect(&self.protocol, client.principal.clone(), opening()) {
            Ok(peer) => {
                client.transport = Some(Transport::new(peer, &client.principal));
                self.trace.note(now, format_args!("client {index} connects as {peer:?}"));
                Input::Opened
            }
            Err(Refusal::Draining { retry_ms }) if self.random.chance(50) => {
                let retry_after = self.random.chance(50).then_some(Duration::from_millis(retry_ms));
                Input::Refused(Refused { status: 503, retry_after, ..Refused::default() })
            }
            Err(_) => Input::Unreachable("refused".into()),
        };
        client.asp.handle_input(input, now);
    }

    fn client_event(&mut self, index: usize, event: Event) -> Result<(), Fault> {
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
        match event {
            Event::Accepted { cid, resumed, features, lost } => {
                self.trace.note(now, format_args!("client {index} is accepted, resumed: {resumed}"));
                self.resumed += u64::from(resumed);
                client.cid = AttachmentId::from(cid.as_deref().unwrap_or("none"));
                client.features = features;
                for (id, view) in &mut client.views {
                    view.lost |= !resumed || lost.contains(id);
                }
            }
            Event::Bare => client.features = Features::BARE,
            Event::Record { id, record, credit } => {
                let perspective = client.perspective();
                if let Some(view) = client.views.get_mut(&id) {
                    view.record(&record, &perspective, &self.ledger)
                        .map_err(|fault| fault.within(format!("client {index} request {id}")))?;
                }
                client.react(id, &record, u64::from(credit), now, &mut self.random);
            }
            Event::Restarted { id } => {
                if let Some(view) = client.views.get_mut(&id) {
                    view.restart();
                }
            }
            Event::Ended { id, ending } => {
                let perspective = client.perspective();
                let Some(view) = client.views.remove(&id) else {
                    let detail = format!("client {index}: request {id} ended twice: {ending:?}");
                    return Err(Fault::new(Invariant::OneTerminal, detail));
                };
                self.trace.note(now, format_args!("client {index} request {id} ends: {ending:?}"));
                view.end(&ending, &perspective, &self.ledger)
                    .and_then(|()| {
                        let numbered = client.features.has(Feature::Resume);
                        if numbered { Ok(()) } else { view.check_text(&ending, &self.ledger) }
                    })
                    .map_err(|fault| fault.within(format!("client {index} request {id}")))?;
            }
            Event::Down(down) => {
                self.trace.note(now, format_args!("client {index} is off: {:?}", down.cause));
            }
            Event::Error(error) => {
                self.trace.note(now, format_args!("client {index} is told {:?}", error.known()));
            }
            Event::Push(_)
            | Event::ToolsChanged
            | Event::AuthExpiring(_)
            | Event::Authenticated { .. }
            | Event::Pong { .. }
            | Event::GoAway { .. } => {}
        }
        Ok(())
    }
}

impl Client {
    /// The user invokes; without a connection nothing comes of it.
    pub(super) fn invoke(&mut self, invoke: Invoke, tag: Option<String>, now: Timestamp) -> Option<u16> {
        let id = self.asp.invoke(invoke.clone(), now).ok()?;
        self.views.insert(id, View::new(invoke, tag));
        Some(id)
    }

    /// What the user does about a record: at once, late, never, or twice.
    fn react(&mut self, id: u16, record: &Record, credit: u64, now: Timestamp, random: &mut Random) {
        if self.manual {
            let at = later(now, random.between(0, 60));
            self.todo.push((at, Todo::Consume { id, bytes: credit }));
        }
        let at = match random.below(6) {
            0 => later(now, random.between(800, 3_000)),
            1 => return,
            _ => later(now, random.between(0, 200)),
        };
        match &record.body {
            RecordBody::Call(call) => {
                let ok = random.chance(80);
                self.todo.push((at, Todo::Answer { id, call: call.call_id.clone(), ok }));
                if random.chance(15) {
                    let again = CallResult {
                        parent: id,
                        call_id: call.call_id.clone(),
                        ok: true,
                        output: Some(Value::from("again")),
                        error: None,
                    };
                    self.todo.push((later(at, random.below(30)), Todo::AnswerAgain(again)));
                }
            }
            RecordBody::Ask(ask) => self.todo.push((at, Todo::Reply { ask: ask.ask_id.clone() })),
            _ => {}
        }
    }

    fn act(&mut self, todo: Todo, now: Timestamp) {
        match todo {
            Todo::Answer { id, call, ok } => {
                let failure = CallFailure { name: "broken".into(), msg: "it is".into() };
                let result = if ok { Ok(Some(Value::from("found it"))) } else { Err(failure.clone()) };
                let body = CallResult {
                    parent: id,
                    call_id: call.clone(),
                    ok,
                    output: ok.then(|| Value::from("found it")),
                    error: (!ok).then_some(failure),
                };
                if let Ok(own) = self.asp.answer_call(id, &call, result, now) {
                    self.views.insert(own, View::new(Invoke::new(InvokeBody::Result(body)), None));
                }
            }
            Todo::AnswerAgain(result) => {
                self.invoke(Invoke::new(InvokeBody::Result(result)), None, now);
            }
            Todo::Reply { ask } => {
                let answer = switchboard_asp::client::Answer::Text("this one".into());
                if let Ok(own) = self.asp.answer_ask(&ask, answer, now) {
                    let reply =
                        switchboard_asp::message::AskReply { parent: 0, ask_id: ask, text: None, data: None };
                    self.views.insert(own, View::new(Invoke::new(InvokeBody::Reply(reply)), None));
                }
            }
            Todo::Consume { id, bytes } => self.asp.consumed(id, bytes),
        }
    }
}

/// How long something is on its way, in milliseconds.
pub(super) const fn latency(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.below(120),
        1 | 2 => random.below(12),
        _ => random.below(3),
    }
}

pub(super) fn later(now: Timestamp, millis: u64) -> Timestamp {
    now.after(Duration::from_millis(millis))
}
