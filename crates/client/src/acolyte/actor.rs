//! The task behind a client: it owns the state machine and the socket, dials, and dials again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use switchboard_acolyte::client::{
    AcolyteClient, Answer, Cause as LinkCause, ChatId, CommandError, Event, Input, Loss, Output,
};
use switchboard_acolyte::message::{Attach, ChatRequest, RpcId, TaskId};
use switchboard_core::Seed;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::http::Uri;

use super::chat::{BUFFER, Chat, How, Stopper, Update};
use super::error::{Cause, ClientError, ConnectError};
use super::event::{ConnectionEvent, Snapshot};
use super::options::{FirstAttempt, Options, OptionsError};
use crate::backoff::Backoff;
use crate::events::Subscribers;
use crate::socket::{DialError, Dialer, Incoming, Socket, Upgrade, sleep_until};

/// What a handle asks for, with a place for the answer.
pub(super) enum Command {
    Connect { first: FirstAttempt, reply: oneshot::Sender<Result<(), ConnectError>> },
    Chat { request: Box<ChatRequest>, reply: oneshot::Sender<Result<Chat, ClientError>> },
    Attach { attach: Attach, reply: oneshot::Sender<Result<Chat, ClientError>> },
    Status { reply: oneshot::Sender<Result<Answer, ClientError>> },
    Task { task: TaskId, session: Option<String>, reply: oneshot::Sender<Result<Answer, ClientError>> },
}

/// What a handle says without waiting; few and small, so that their queue needs no bound.
#[derive(Debug)]
pub(super) enum Control {
    Abort(ChatId),
    Subscribe(mpsc::Sender<ConnectionEvent>),
    /// Does not wait behind commands: a peer that reads nothing must not keep anybody here.
    Close(oneshot::Sender<()>),
}

/// The task.
pub(super) struct Actor {
    machine: AcolyteClient,
    dialer: Dialer,
    upgrade: Upgrade,
    backoff: Backoff,
    started: Instant,
    wake: Option<u64>,
    retry_at: Option<Instant>,
    /// Whether there is a connection, or one is to come.
    on: bool,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<Control>,
    handles: mpsc::WeakUnboundedSender<Control>,
    socket: Option<Socket>,
    /// At most one attempt; dropped, it is given up.
    dialing: JoinSet<Result<Socket, DialError>>,
    farewells: JoinSet<()>,
    connecting: Option<(FirstAttempt, oneshot::Sender<Result<(), ConnectError>>)>,
    chats: BTreeMap<ChatId, mpsc::Sender<Update>>,
    /// Updates that found their reader's buffer full. Until it has room, nothing more is read from the
    /// socket.
    undelivered: VecDeque<(mpsc::Sender<Update>, Update)>,
    calls: BTreeMap<RpcId, oneshot::Sender<Result<Answer, ClientError>>>,
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
        let (endpoint, uri) = options.socket()?;
        let dialer = Dialer::new(endpoint, &options.trust, options.dial_timeout, MAX_MESSAGE)?;
        let (snapshot, watched) = watch::channel(Snapshot::default());
        let mut entropy = [0; 40];
        // A system without random numbers has no TLS either; ids only have to differ from each other.
        let _ = getrandom::fill(&mut entropy);
        let (seed, jitter) = entropy.split_at(32);
        let jitter = jitter.iter().fold(0, |number: u64, byte| (number << 8) | u64::from(*byte));
        let seed = Seed::new(seed.try_into().unwrap_or_default());
        let actor = Self {
            machine: AcolyteClient::new(options.config, seed),
            dialer,
            upgrade: upgrade(uri, options.token.as_deref()),
            backoff: Backoff::new(jitter),
            started: Instant::now(),
            wake: None,
            retry_at: None,
            on: false,
            commands,
            control,
            handles,
            socket: None,
            dialing: JoinSet::new(),
            farewells: JoinSet::new(),
            connecting: None,
            chats: BTreeMap::new(),
            undelivered: VecDeque::new(),
            calls: BTreeMap::new(),
            subscribers: Subscribers::new(),
            snapshot,
        };
        Ok((actor, watched))
    }

    /// Until the client is closed or nobody holds it any more.
    pub(super) async fn run(mut self) {
        let closed = self.serve().await;
        self.machine.leave(self.now());
        self.carry_out();
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
            let blocked = !self.undelivered.is_empty();
            // While nothing is read, silence means nothing.
            let wake = self.wake.filter(|_| !blocked);
            let wake = wake.map(|wake| self.started + Duration::from_millis(wake));
            let room = self.socket.as_ref().is_none_or(|socket| socket.backlog() < MAX_BACKLOG);
            tokio::select! {
                // Handles first: a subscriber is in place before what it is for.
                biased;
                control = self.control.recv() => match control {
                    Some(Control::Close(reply)) => return Some(reply),
                    Some(Control::Abort(chat)) => self.machine.abort(chat, self.now()),
                    Some(Control::Subscribe(subscriber)) => self.subscribers.add(subscriber),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(command) => self.command(command),
                    None => commands_open = false,
                },
                () = sleep_until(wake) => self.input(Input::Timeout),
                () = sleep_until(self.retry_at) => {
                    self.retry_at = None;
                    self.dial();
                }
                () = deliver(&mut self.undelivered), if blocked => self.input(Input::Alive),
                Some(Ok(dialed)) = self.dialing.join_next() => self.dialed(dialed),
                incoming = next(&mut self.socket, blocked) => self.incoming(incoming),
                Some(_) = self.farewells.join_next() => {}
            }
        }
    }

    fn input(&mut self, input: Input) {
        self.machine.handle_input(input, self.now());
    }

    fn incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Binary(message) | Incoming::Text(message) => self.input(Input::Message(message)),
            Incoming::Alive => self.input(Input::Alive),
            Incoming::Closed(code) => {
                if let Some(socket) = self.socket.take() {
                    self.farewells.spawn(socket.finish());
                }
                self.input(Input::Closed(code));
            }
        }
    }

    fn dial(&mut self) {
        self.dialing.spawn(self.dialer.clone().dial(self.upgrade.clone()));
    }

    fn dialed(&mut self, dialed: Result<Socket, DialError>) {
        match dialed {
            Ok(socket) => {
                self.socket = Some(socket);
                self.input(Input::Opened);
            }
            Err(error) => {
                tracing::debug!(%error, "dialing failed");
                self.down(error.into());
            }
        }
    }

    /// There is no connection: either it is tried again, or that was it.
    fn down(&mut self, cause: Cause) {
        self.snapshot.send_modify(|snapshot| snapshot.connected = false);
        let first = matches!(self.connecting, Some((FirstAttempt::FailFast, _)));
        if first || !cause.is_temporary() {
            self.on = false;
            self.machine.give_up(Loss::Closed);
            self.connected(Err(ConnectError::Failed(cause.clone())));
            self.subscribers.publish(&ConnectionEvent::Closed { cause });
            return;
        }
        let retry_in = cause.retry_after().unwrap_or_else(|| self.backoff.pause());
        self.retry_at = Some(Instant::now() + retry_in);
        self.subscribers.publish(&ConnectionEvent::Disconnected { cause, retry_in });
    }

    /// Does what the machine says until it has nothing more to say.
    fn carry_out(&mut self) {
        loop {
            match self.machine.poll_output() {
                Output::Send(message) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_text(message);
                    }
                }
                Output::Ping => {
                    if let Some(socket) = &mut self.socket {
                        socket.ping();
                    }
                }
                Output::Close(code) => {
                    if let Some(socket) = self.socket.take() {
                        self.farewells.spawn(socket.close(code));
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
                if self.machine.is_up() {
                    let _ = reply.send(Ok(()));
                    return;
                }
                self.connecting = Some((first, reply));
                if !std::mem::replace(&mut self.on, true) {
                    self.dial();
                }
            }
            Command::Chat { request, reply } => {
                let started = if self.on { self.machine.start(*request).map_err(Into::into) } else { OFF };
                // If nobody waits for it any more, dropping it here stops it.
                let _ = reply.send(started.and_then(|id| self.open(id)));
            }
            Command::Attach { attach, reply } => {
                let started = if self.on { self.machine.attach(attach).map_err(Into::into) } else { OFF };
                let _ = reply.send(started.and_then(|id| self.open(id)));
            }
            Command::Status { reply } => {
                let asked = self.machine.status(now);
                self.asked(asked, reply);
            }
            Command::Task { task, session, reply } => {
                let asked = self.machine.task_status(task, session, now);
                self.asked(asked, reply);
            }
        }
    }

    fn asked(
        &mut self,
        asked: Result<RpcId, CommandError>,
        reply: oneshot::Sender<Result<Answer, ClientError>>,
    ) {
        match asked {
            Ok(id) => {
                self.calls.insert(id, reply);
            }
            Err(error) => {
                let _ = reply.send(Err(error.into()));
            }
        }
    }

    fn open(&mut self, id: ChatId) -> Result<Chat, ClientError> {
        let handles = self.handles.upgrade().ok_or(ClientError::Closed)?;
        let (updates, receiver) = mpsc::channel(BUFFER);
        self.chats.insert(id, updates);
        Ok(Chat::new(receiver, Stopper(How::Socket(id, handles))))
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Up { status, agreed, resuming } => {
                self.backoff.reset();
                self.snapshot
                    .send_modify(|snapshot| *snapshot = Snapshot { connected: true, agreed, status });
                self.connected(Ok(()));
                if resuming == 0 {
                    self.subscribers.publish(&ConnectionEvent::Connected);
                }
            }
            Event::Resumed { lost } => self.subscribers.publish(&ConnectionEvent::Resumed { lost }),
            Event::Chat(id, event) => self.deliver(id, Update::Event(event)),
            Event::NotAborted(id, why) => self.deliver(id, Update::NotAborted(why)),
            Event::Ended(id, ending) => {
                self.deliver(id, Update::Ended(ending));
                self.chats.remove(&id);
            }
            Event::Answer(id, answer) => {
                if let Some(reply) = self.calls.remove(&id) {
                    let _ = reply.send(answer.map_err(Into::into));
                }
            }
            Event::Down(LinkCause::Left) => {
                self.on = false;
                self.connected(Err(ConnectError::ClientClosed));
            }
            Event::Down(cause) => self.down(Cause::Lost(cause)),
        }
    }

    fn deliver(&mut self, id: ChatId, update: Update) {
        let Some(reader) = self.chats.get(&id) else { return };
        if !self.undelivered.is_empty() {
            self.undelivered.push_back((reader.clone(), update));
            return;
        }
        match reader.try_send(update) {
            // Nobody listens: the chat is being dropped.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(update)) => {
                self.undelivered.push_back((reader.clone(), update));
            }
        }
    }

    fn connected(&mut self, result: Result<(), ConnectError>) {
        if let Some((_, reply)) = self.connecting.take() {
            let _ = reply.send(result);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn upgrade(uri: Uri, token: Option<&str>) -> Upgrade {
    let headers = token.map(|token| ("Authorization", format!("Bearer {token}"))).into_iter().collect();
    Upgrade { uri, headers, subprotocols: Vec::new(), expected: None }
}

/// Delivers what waits; done when all of it is. May be dropped at any time without loss.
async fn deliver(undelivered: &mut VecDeque<(mpsc::Sender<Update>, Update)>) {
    while let Some((reader, _)) = undelivered.front() {
        let permit = reader.clone().reserve_owned().await;
        let update = undelivered.pop_front();
        if let (Ok(permit), Some((_, update))) = (permit, update) {
            permit.send(update);
        }
    }
}

/// What comes next; while nothing may be read, only what waits is written.
async fn next(socket: &mut Option<Socket>, blocked: bool) -> Incoming {
    match socket {
        Some(socket) if blocked => socket.write().await,
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

const OFF: Result<ChatId, ClientError> = Err(ClientError::Off);
/// Bytes that may wait to be written before commands wait, too.
const MAX_BACKLOG: usize = 4 << 20;
/// Longer messages than any server has a reason to send.
const MAX_MESSAGE: usize = 64 << 20;
