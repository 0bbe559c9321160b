//! The task behind a client: it owns the state machine and the socket, and does what the machine says.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use switchboard_asp::client::{Answer, AspClient, CommandError, Ending, Event, Input, Link, Output};
use switchboard_asp::error::Code;
use switchboard_asp::message::{ErrorBody, Features, Invoke, Record, RecordBody, Secret};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::calls::{Calls, Done};
use super::error::{ClientError, ConnectError, RequestError};
use super::event::{ConnectionEvent, Renewed, RequestEvent, Snapshot};
use super::options::{FirstAttempt, Options, OptionsError};
use super::request::{Delivery, Interrupter, Request};
use super::tool::Handler;
use super::transport::{self, Target, next_input};
use crate::events::Subscribers;
use crate::socket::{DialError, Socket, sleep_until};

/// What a handle asks for, with a place for the answer.
pub(super) enum Command {
    Connect { first: FirstAttempt, reply: oneshot::Sender<Result<(), ConnectError>> },
    Invoke { invoke: Box<Invoke>, reply: oneshot::Sender<Result<Request, ClientError>> },
    Answer { ask_id: String, answer: Answer, reply: oneshot::Sender<Result<(), ClientError>> },
    Ping { reply: oneshot::Sender<Result<Duration, ClientError>> },
    Renew { token: Secret, reply: oneshot::Sender<Result<Renewed, ClientError>> },
}

/// What a handle says without waiting; few and small, so that their queue needs no bound.
#[derive(Debug)]
pub(super) enum Control {
    Consumed {
        id: u16,
        key: u64,
        bytes: u64,
    },
    Interrupt {
        id: u16,
        key: u64,
    },
    Dropped {
        id: u16,
        key: u64,
    },
    InterruptAll,
    OnCall(Handler),
    Subscribe(mpsc::Sender<ConnectionEvent>),
    /// Does not wait behind commands: a peer that reads nothing must not keep anybody here.
    Close(oneshot::Sender<()>),
}

/// The task.
pub(super) struct Actor {
    machine: AspClient,
    target: Target,
    token: Option<Secret>,
    max_buffered: u64,
    started: Instant,
    wake: Option<u64>,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<Control>,
    handles: mpsc::WeakUnboundedSender<Control>,
    socket: Option<Socket>,
    /// At most one attempt; dropped, it is given up.
    dialing: JoinSet<Result<Socket, DialError>>,
    dial_error: Option<DialError>,
    farewells: JoinSet<()>,
    connecting: Option<(FirstAttempt, oneshot::Sender<Result<(), ConnectError>>)>,
    requests: BTreeMap<u16, Slot>,
    last_key: u64,
    answers: BTreeMap<u16, oneshot::Sender<Result<(), ClientError>>>,
    calls: Calls,
    pings: BTreeMap<String, Probe>,
    last_ping: u64,
    renewing: Option<(Secret, oneshot::Sender<Result<Renewed, ClientError>>)>,
    subscribers: Subscribers<ConnectionEvent>,
    snapshot: watch::Sender<Snapshot>,
}

impl Actor {
    pub(super) fn new(
        options: Options,
        commands: mpsc::Receiver<Command>,
        handles: mpsc::WeakUnboundedSender<Control>,
        control: mpsc::UnboundedReceiver<Control>,
    ) -> Result<(Self, watch::Receiver<Snapshot>), OptionsError> {
        let target = Target::new(&options)?;
        let (snapshot, watched) = watch::channel(Snapshot {
            connected: false,
            cid: None,
            features: Features::BARE,
            tools: Arc::new([]),
        });
        let seed = RandomState::new().hash_one(&options.url);
        let actor = Self {
            max_buffered: options.max_buffered.max(u64::from(options.config.window) * 2),
            machine: AspClient::new(options.config, seed),
            target,
            token: options.token,
            started: Instant::now(),
            wake: None,
            commands,
            control,
            handles,
            socket: None,
            dialing: JoinSet::new(),
            dial_error: None,
            farewells: JoinSet::new(),
            connecting: None,
            requests: BTreeMap::new(),
            last_key: 0,
            answers: BTreeMap::new(),
            calls: Calls::new(options.handler),
            pings: BTreeMap::new(),
            last_ping: 0,
            renewing: None,
            subscribers: Subscribers::new(),
            snapshot,
        };
        Ok((actor, watched))
    }

    /// Until the client is closed or nobody holds it any more.
    pub(super) async fn run(mut self) {
        let closed = self.serve().await;
        self.machine.bye(self.now());
        self.carry_out();
        self.calls.shutdown().await;
        while self.farewells.join_next().await.is_some() {}
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Answers who wants to know when everything is closed.
    async fn serve(&mut self) -> Option<oneshot::Sender<()>> {
        let mut commands_open = true;
        loop {
            self.carry_out();
            let wake = self.wake.map(|wake| self.started + Duration::from_millis(wake));
            let room = self.socket.as_ref().is_none_or(|socket| socket.backlog() < MAX_BACKLOG);
            tokio::select! {
                // Handles first: a handler or a subscriber is in place before what they are for.
                biased;
                control = self.control.recv() => match control {
                    Some(Control::Close(reply)) => return Some(reply),
                    Some(control) => self.control(control),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(command) => self.command(command),
                    None => commands_open = false,
                },
                () = sleep_until(wake) => self.input(Input::Timeout),
                Some(done) = self.calls.next() => self.call_done(done),
                Some(Ok(dialed)) = self.dialing.join_next() => self.dialed(dialed),
                input = next_input(&mut self.socket) => {
                    if let Input::Closed(_) = input && let Some(socket) = self.socket.take() {
                        self.farewells.spawn(socket.finish());
                    }
                    self.input(input);
                }
                Some(_) = self.farewells.join_next() => {}
            }
        }
    }

    fn input(&mut self, input: Input) {
        self.machine.handle_input(input, self.now());
    }

    fn dialed(&mut self, dialed: Result<Socket, DialError>) {
        let input = match dialed {
            Ok(socket) => {
                self.socket = Some(socket);
                self.dial_error = None;
                Input::Opened
            }
            Err(error) => {
                tracing::debug!(%error, "dialing failed");
                let input = transport::failure(&error);
                self.dial_error = Some(error);
                input
            }
        };
        self.input(input);
    }

    /// Does what the machine says until it has nothing more to say.
    fn carry_out(&mut self) {
        loop {
            match self.machine.poll_output() {
                Output::Connect => {
                    self.dialing.spawn(self.target.clone().dial(self.token.clone()));
                }
                Output::Send(message) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_binary(message);
                    }
                }
                Output::Ping => {
                    if let Some(socket) = &mut self.socket {
                        socket.ping();
                    }
                }
                Output::Close(code) => {
                    self.dialing = JoinSet::new();
                    if let Some(socket) = self.socket.take() {
                        self.farewells.spawn(socket.close(code.number()));
                    }
                }
                Output::Event(event) => self.event(event),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::Connect { first, reply } => {
                if self.machine.link() == Link::Up {
                    let _ = reply.send(Ok(()));
                    return;
                }
                self.connecting = Some((first, reply));
                self.machine.connect();
            }
            Command::Invoke { invoke, reply } => {
                let opened = self.machine.invoke(*invoke, now).map_err(ClientError::Command);
                // If nobody waits for it any more, dropping it here interrupts it.
                let _ = reply.send(opened.and_then(|id| self.open(id)));
            }
            Command::Answer { ask_id, answer, reply } => {
                match self.machine.answer_ask(&ask_id, answer, now) {
                    Ok(id) => {
                        self.answers.insert(id, reply);
                    }
                    Err(error) => {
                        let _ = reply.send(Err(error.into()));
                    }
                }
            }
            Command::Ping { reply } => {
                self.last_ping += 1;
                let nonce = self.last_ping.to_string();
                match self.machine.ping(&nonce) {
                    Ok(()) => {
                        self.pings.insert(nonce, Probe { sent: Instant::now(), reply });
                    }
                    Err(error) => {
                        let _ = reply.send(Err(error.into()));
                    }
                }
            }
            Command::Renew { token, reply } => match self.machine.authenticate(token.clone()) {
                Ok(()) => self.renewing = Some((token, reply)),
                Err(_) => {
                    self.token = Some(token);
                    let _ = reply.send(Ok(Renewed::NextConnection));
                }
            },
        }
    }

    fn open(&mut self, id: u16) -> Result<Request, ClientError> {
        let handles = self.handles.upgrade().ok_or(ClientError::Closed)?;
        self.last_key += 1;
        let key = self.last_key;
        let (events, receiver) = mpsc::unbounded_channel();
        self.requests.insert(id, Slot { key, events, buffered: 0 });
        Ok(Request::new(Interrupter::new(id, key, handles), receiver))
    }

    fn control(&mut self, control: Control) {
        match control {
            Control::Consumed { id, key, bytes } => {
                if let Some(slot) = self.requests.get_mut(&id).filter(|slot| slot.key == key) {
                    slot.buffered = slot.buffered.saturating_sub(bytes);
                    self.machine.consumed(id, bytes);
                }
            }
            Control::Interrupt { id, key } => {
                if self.requests.get(&id).is_some_and(|slot| slot.key == key) {
                    self.calls.stop(id);
                    self.machine.interrupt(id, None);
                }
            }
            Control::Dropped { id, key } => {
                if self.requests.get(&id).is_some_and(|slot| slot.key == key) {
                    self.abandon(id);
                }
            }
            Control::InterruptAll => {
                self.calls.stop_all();
                self.machine.interrupt_all(None);
            }
            Control::OnCall(handler) => self.calls.handler = Some(handler),
            Control::Subscribe(subscriber) => self.subscribers.add(subscriber),
            // Taken care of before it comes here.
            Control::Close(_) => {}
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Accepted { cid, features, resumed, lost } => {
                self.up(cid.clone(), features);
                self.subscribers.publish(&match resumed {
                    true => ConnectionEvent::Resumed { lost },
                    false => ConnectionEvent::Connected { cid, features },
                });
            }
            Event::Bare => {
                self.up(None, Features::BARE);
                self.subscribers.publish(&ConnectionEvent::Connected { cid: None, features: Features::BARE });
            }
            Event::Record { id, record, credit } => self.record(id, record, credit),
            Event::Restarted { id } => {
                self.calls.stop(id);
                self.deliver(id, Ok(RequestEvent::Restarted), 0);
            }
            Event::Ended { id, ending } => self.ended(id, ending),
            Event::Push(record) => {
                if let Some(event) = RequestEvent::from_record(record) {
                    self.subscribers.publish(&ConnectionEvent::Push(event));
                }
            }
            Event::ToolsChanged => {
                let tools = self.machine.tools().cloned().collect();
                self.snapshot.send_modify(|snapshot| snapshot.tools = tools);
                self.subscribers.publish(&ConnectionEvent::ToolsChanged);
            }
            Event::AuthExpiring(_) => self.subscribers.publish(&ConnectionEvent::AuthExpiring),
            Event::Authenticated { exp } => {
                if let Some((token, reply)) = self.renewing.take() {
                    self.token = Some(token);
                    let _ = reply.send(Ok(Renewed::Live { expires: exp }));
                }
            }
            Event::Pong { nonce } => {
                if let Some(probe) = nonce.and_then(|nonce| self.pings.remove(&nonce)) {
                    let _ = probe.reply.send(Ok(probe.sent.elapsed()));
                }
            }
            Event::GoAway { reason, retry_ms } => {
                self.subscribers
                    .publish(&ConnectionEvent::GoAway { reason, retry_in: Duration::from_millis(retry_ms) });
            }
            Event::Error(error) => {
                self.refuse_renewal(&error);
                self.subscribers.publish(&ConnectionEvent::Error(error));
            }
            Event::Disconnected { cause, retry_at } => {
                self.down();
                if let Some((FirstAttempt::FailFast, _)) = &self.connecting {
                    self.connected(Err(ConnectError::from_cause(&cause, self.dial_error.as_ref())));
                    self.machine.bye(self.now());
                }
                let retry_in = Duration::from_millis(retry_at.saturating_sub(self.now()));
                self.subscribers.publish(&ConnectionEvent::Disconnected { cause, retry_in });
            }
            Event::Off { cause } => {
                self.down();
                self.connected(Err(ConnectError::from_cause(&cause, self.dial_error.as_ref())));
                self.subscribers.publish(&ConnectionEvent::Closed { cause });
            }
        }
    }

    fn up(&mut self, cid: Option<String>, features: Features) {
        self.snapshot.send_modify(|snapshot| {
            snapshot.connected = true;
            snapshot.cid = cid;
            snapshot.features = features;
        });
        self.connected(Ok(()));
    }

    fn down(&mut self) {
        self.snapshot.send_modify(|snapshot| snapshot.connected = false);
        for (_, probe) in std::mem::take(&mut self.pings) {
            let _ = probe.reply.send(Err(ClientError::Disconnected));
        }
        if let Some((_, reply)) = self.renewing.take() {
            let _ = reply.send(Err(ClientError::Disconnected));
        }
    }

    fn connected(&mut self, result: Result<(), ConnectError>) {
        if let Some((_, reply)) = self.connecting.take() {
            let _ = reply.send(result);
        }
    }

    fn refuse_renewal(&mut self, error: &ErrorBody) {
        let about_auth =
            matches!(error.known(), Some(Code::AuthInvalid | Code::AuthExpired | Code::Forbidden));
        if let Some((_, reply)) = self.renewing.take_if(|_| about_auth) {
            let _ = reply.send(Err(ClientError::Server(error.clone())));
        }
    }

    fn record(&mut self, id: u16, record: Record, credit: u32) {
        if let RecordBody::Call(call) = &record.body
            && let Some(done) = self.calls.start(id, call)
        {
            self.call_done(done);
        }
        match RequestEvent::from_record(record) {
            Some(event) if self.requests.contains_key(&id) => self.deliver(id, Ok(event), credit),
            Some(_) | None => self.machine.consumed(id, u64::from(credit)),
        }
    }

    fn deliver(&mut self, id: u16, event: Result<RequestEvent, RequestError>, credit: u32) {
        let Some(slot) = self.requests.get_mut(&id) else { return };
        slot.buffered = slot.buffered.saturating_add(u64::from(credit));
        let slow = slot.buffered > self.max_buffered;
        let event = if slow { Err(RequestError::SlowConsumer) } else { event };
        // If nobody listens, the request is being dropped.
        let _ = slot.events.send(Delivery { event, credit });
        if slow {
            self.abandon(id);
        }
    }

    /// Nobody wants the rest of a request.
    fn abandon(&mut self, id: u16) {
        self.requests.remove(&id);
        self.calls.stop(id);
        self.machine.interrupt(id, None);
    }

    fn ended(&mut self, id: u16, ending: Ending) {
        self.calls.stop(id);
        if let Some(reply) = self.answers.remove(&id) {
            let _ = reply.send(match ending {
                Ending::End(_) => Ok(()),
                Ending::Error(error) => Err(ClientError::Server(error)),
                Ending::Lost(_) => Err(ClientError::Disconnected),
            });
            return;
        }
        let event = match ending {
            Ending::End(end) => Ok(RequestEvent::End(end)),
            Ending::Error(error) => Err(RequestError::Server(error)),
            Ending::Lost(loss) => Err(RequestError::Lost(loss)),
        };
        if let Some(slot) = self.requests.remove(&id) {
            let _ = slot.events.send(Delivery { event, credit: 0 });
        }
    }

    fn call_done(&mut self, done: Done) {
        let Done { id, call_id, result } = done;
        match self.machine.answer_call(id, &call_id, result, self.now()) {
            Ok(_) => {}
            // Too late: the request is over or interrupted.
            Err(CommandError::NotOpen | CommandError::Off) => {}
            Err(error) => tracing::warn!(%error, "the result of a tool could not be sent"),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A request and its reader.
struct Slot {
    key: u64,
    events: mpsc::UnboundedSender<Delivery>,
    /// Credit of what was delivered and not read.
    buffered: u64,
}

struct Probe {
    sent: Instant,
    reply: oneshot::Sender<Result<Duration, ClientError>>,
}

/// Bytes that may wait to be written before commands wait, too.
const MAX_BACKLOG: usize = 4 << 20;
