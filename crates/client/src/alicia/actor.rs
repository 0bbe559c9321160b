//! The task behind a client: it owns the state machine, the socket and the tools that run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use switchboard_alicia::Id;
use switchboard_core::{Pii, Seed, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::http::Uri;

use super::conversation::{Guard, Join};
use super::error::{Cause, ClientError, ConnectError};
use super::event::{ConnectionEvent, Snapshot};
use super::options::{FirstAttempt, Options, OptionsError};
use super::tool::{Done, Handler, Workshop};
use super::updates::Updates;
use crate::clock::Clock;
use crate::events::Subscribers;
use crate::socket::{DialError, Dialer, Incoming, Socket, Upgrade, sleep_until};
use switchboard_alicia::client::{
    self as half, AliciaClient, Cause as LinkCause, CommandError, ConversationEvent, ConversationKey, Event,
    Input, Outcome, Output, RequestKey, Retry,
};

/// What a handle asks for, with a place for the answer.
pub(super) enum Command {
    Connect {
        first: FirstAttempt,
        reply: oneshot::Sender<Result<(), ConnectError>>,
    },
    Join {
        join: Join,
        control: mpsc::UnboundedSender<Control>,
        reply: oneshot::Sender<JoinReply>,
    },
    Tool {
        key: ConversationKey,
        name: String,
        handler: Handler,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Mark {
        key: ConversationKey,
        reply: oneshot::Sender<Option<i32>>,
    },
    Request {
        ask: Box<Ask>,
        reply: oneshot::Sender<Result<Outcome, ClientError>>,
    },
}

/// Something that the machine is asked for.
pub(super) type Ask = dyn FnOnce(&mut AliciaClient, Timestamp) -> Result<RequestKey, CommandError> + Send;

type JoinReply = Result<(Id, Arc<Guard>, Updates), ClientError>;

/// What a handle says without waiting; few and small, so that their queue needs no bound.
#[derive(Debug)]
pub(super) enum Control {
    Leave(ConversationKey),
    NetworkIsBack,
    Subscribe(mpsc::Sender<ConnectionEvent>),
    /// Does not wait behind commands: a peer that reads nothing must not keep anybody here.
    Close(oneshot::Sender<()>),
}

/// The task.
pub(super) struct Actor {
    machine: AliciaClient,
    dialer: Dialer,
    upgrade: Upgrade,
    clock: Clock,
    wake: Option<Timestamp>,
    commands: mpsc::Receiver<Command>,
    control: mpsc::UnboundedReceiver<Control>,
    socket: Option<Socket>,
    /// At most one attempt; dropped, it is given up.
    dialing: JoinSet<Result<Socket, DialError>>,
    /// Why the last attempt failed.
    failure: Option<Cause>,
    farewells: JoinSet<()>,
    connecting: Option<(FirstAttempt, oneshot::Sender<Result<(), ConnectError>>)>,
    joining: BTreeMap<ConversationKey, (Arc<Guard>, Updates, oneshot::Sender<JoinReply>)>,
    readers: BTreeMap<ConversationKey, mpsc::Sender<ConversationEvent>>,
    /// Events that found their reader's buffer full. Until it has room, nothing more is read from the socket.
    undelivered: VecDeque<(mpsc::Sender<ConversationEvent>, ConversationEvent)>,
    requests: BTreeMap<RequestKey, oneshot::Sender<Result<Outcome, ClientError>>>,
    tools: Workshop,
    subscribers: Subscribers<ConnectionEvent>,
    snapshot: watch::Sender<Snapshot>,
}

impl Actor {
    pub(super) fn new(
        options: Options,
        commands: mpsc::Receiver<Command>,
        control: mpsc::UnboundedReceiver<Control>,
    ) -> Result<(Self, watch::Receiver<Snapshot>), OptionsError> {
        let (endpoint, uri) = options.socket()?;
        let most = usize::try_from(options.config.limits.hard_cap).unwrap_or(usize::MAX);
        let dialer = Dialer::new(endpoint, &options.trust, options.dial_timeout, most)?;
        let (snapshot, watched) = watch::channel(Snapshot::default());
        let mut entropy = [0; 32];
        // A system without random numbers has no TLS either; ids only have to differ from each other.
        let _ = getrandom::fill(&mut entropy);
        let actor = Self {
            machine: AliciaClient::new(options.config, Seed::new(entropy)),
            dialer,
            upgrade: upgrade(uri, options.token.as_deref()),
            clock: Clock::new(),
            wake: None,
            commands,
            control,
            socket: None,
            dialing: JoinSet::new(),
            failure: None,
            farewells: JoinSet::new(),
            connecting: None,
            joining: BTreeMap::new(),
            readers: BTreeMap::new(),
            undelivered: VecDeque::new(),
            requests: BTreeMap::new(),
            tools: Workshop::default(),
            subscribers: Subscribers::new(),
            snapshot,
        };
        Ok((actor, watched))
    }

    /// Until the client is closed or nobody holds it any more.
    pub(super) async fn run(mut self) {
        let closed = self.serve().await;
        self.machine.leave_all(self.clock.now());
        self.carry_out();
        self.tools.shutdown().await;
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
            let wake = self.wake.filter(|_| !blocked).map(|wake| self.clock.instant(wake));
            let room = self.socket.as_ref().is_none_or(|socket| socket.backlog() < MAX_BACKLOG);
            tokio::select! {
                // Handles first: a subscriber is in place before what it is for.
                biased;
                control = self.control.recv() => match control {
                    Some(Control::Close(reply)) => return Some(reply),
                    Some(Control::Leave(key)) => self.machine.leave(key),
                    Some(Control::NetworkIsBack) => self.machine.network_is_back(),
                    Some(Control::Subscribe(subscriber)) => self.subscribers.add(subscriber),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(command) => self.command(command),
                    None => commands_open = false,
                },
                Some(done) = self.tools.next() => self.tool_done(done),
                () = sleep_until(wake) => self.input(Input::Timeout),
                () = deliver(&mut self.undelivered), if blocked => self.input(Input::Alive),
                Some(Ok(dialed)) = self.dialing.join_next() => self.dialed(dialed),
                incoming = next(&mut self.socket, blocked) => self.incoming(incoming),
                Some(_) = self.farewells.join_next() => {}
            }
        }
    }

    fn input(&mut self, input: Input) {
        self.machine.handle_input(input, self.clock.now());
    }

    fn incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Binary(message) => self.input(Input::Message(Pii(message))),
            // There are no envelopes in text.
            Incoming::Text(_) | Incoming::Alive => self.input(Input::Alive),
            Incoming::Closed(code) => {
                if let Some(socket) = self.socket.take() {
                    self.farewells.spawn(socket.finish());
                }
                self.input(Input::Closed(code));
            }
        }
    }

    fn dialed(&mut self, dialed: Result<Socket, DialError>) {
        match dialed {
            Ok(socket) => {
                self.socket = Some(socket);
                self.input(Input::Opened);
            }
            Err(error) => {
                tracing::debug!(%error, "dialing failed");
                let cause = Cause::from(error);
                let first = matches!(self.connecting, Some((FirstAttempt::FailFast, _)));
                let retry = match cause.retry_after() {
                    _ if first || !cause.is_temporary() => Retry::Never,
                    Some(after) => Retry::After(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
                    None => Retry::Paced,
                };
                self.failure = Some(cause);
                self.input(Input::Failed(retry));
            }
        }
    }

    /// Does what the machine says until it has nothing more to say.
    fn carry_out(&mut self) {
        loop {
            match self.machine.poll_output() {
                Output::Dial => {
                    self.dialing.spawn(self.dialer.clone().dial(self.upgrade.clone()));
                }
                Output::Send(message) => {
                    if let Some(socket) = &mut self.socket {
                        socket.send_binary(message.0);
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
        let now = self.clock.now();
        match command {
            Command::Connect { first, reply } => {
                self.connecting = Some((first, reply));
                self.machine.connect();
            }
            Command::Join { join, control, reply } => self.join(join, control, reply),
            Command::Tool { key, name, handler, reply } => {
                let declared = self.machine.declare_tool(key, &name, now);
                if declared.is_ok() {
                    self.tools.add(key, name, handler);
                }
                let _ = reply.send(declared.map_err(Into::into));
            }
            Command::Mark { key, reply } => {
                let _ = reply.send(self.machine.mark(key));
            }
            Command::Request { ask, reply } => match ask(&mut self.machine, now) {
                Ok(key) => {
                    self.requests.insert(key, reply);
                }
                Err(error) => {
                    let _ = reply.send(Err(error.into()));
                }
            },
        }
    }

    fn join(
        &mut self,
        join: Join,
        control: mpsc::UnboundedSender<Control>,
        reply: oneshot::Sender<JoinReply>,
    ) {
        let Join { conversation, since, tools } = join;
        let names = tools.iter().map(|(name, _)| name.clone()).collect();
        let joined = self.machine.join(half::Join { conversation, since, tools: names }, self.clock.now());
        let key = match joined {
            Ok(key) => key,
            Err(error) => {
                let _ = reply.send(Err(error.into()));
                return;
            }
        };
        for (name, handler) in tools {
            self.tools.add(key, name, handler);
        }
        let (sender, receiver) = mpsc::channel(BUFFER);
        self.readers.insert(key, sender);
        let guard = Arc::new(Guard::new(key, control));
        let updates = Updates::new(receiver, guard.clone());
        self.joining.insert(key, (guard, updates, reply));
    }

    fn tool_done(&mut self, done: Done) {
        self.machine.tool_done(done.conversation, &done.request, done.outcome, self.clock.now());
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Up => {
                self.snapshot.send_modify(|snapshot| snapshot.connected = true);
                self.connected(Ok(()));
                self.subscribers.publish(&ConnectionEvent::Connected);
            }
            Event::Down { cause, retry_in_ms } => self.down(cause, retry_in_ms),
            Event::Conversation(key, event) => self.happened(key, event),
            Event::Settled(key, outcome) => {
                if let Some(reply) = self.requests.remove(&key) {
                    let _ = reply.send(outcome.map_err(Into::into));
                }
            }
        }
    }

    fn down(&mut self, cause: LinkCause, retry_in_ms: Option<u64>) {
        self.snapshot.send_modify(|snapshot| snapshot.connected = false);
        if cause == LinkCause::Left {
            return self.connected(Err(ConnectError::ClientClosed));
        }
        let cause = self.failure.take().unwrap_or(Cause::Lost(cause));
        match retry_in_ms {
            Some(retry_in_ms) => {
                let retry_in = Duration::from_millis(retry_in_ms);
                self.subscribers.publish(&ConnectionEvent::Disconnected { cause, retry_in });
            }
            None => {
                self.connected(Err(ConnectError::Failed(cause.clone())));
                self.subscribers.publish(&ConnectionEvent::Closed { cause });
            }
        }
    }

    fn happened(&mut self, key: ConversationKey, event: ConversationEvent) {
        match &event {
            ConversationEvent::Joined(joined) => {
                if let Some((guard, updates, reply)) = self.joining.remove(&key) {
                    // If nobody waits for it any more, dropping it here leaves it.
                    let _ = reply.send(Ok((joined.id.clone(), guard, updates)));
                }
            }
            ConversationEvent::RunTool(run) => self.tools.start(key, run.clone()),
            ConversationEvent::StopTool(request) => self.tools.stop(key, request.clone()),
            ConversationEvent::Closed(why) => {
                self.tools.forget(key);
                if let Some((_, _, reply)) = self.joining.remove(&key) {
                    let _ = reply.send(Err(ClientError::Ended(why.clone())));
                }
                self.deliver(key, event);
                self.readers.remove(&key);
                return;
            }
            ConversationEvent::Reload
            | ConversationEvent::Question(_)
            | ConversationEvent::Heard(_)
            | ConversationEvent::Started { .. }
            | ConversationEvent::Piece { .. }
            | ConversationEvent::Interrupted { .. }
            | ConversationEvent::Answered(_)
            | ConversationEvent::Failed(_)
            | ConversationEvent::Reasoning(_)
            | ConversationEvent::Remembered(_)
            | ConversationEvent::ToolUsed(_)
            | ConversationEvent::ToolResult(_)
            | ConversationEvent::Remarked(_)
            | ConversationEvent::Audio(_)
            | ConversationEvent::ServerInfo(_)
            | ConversationEvent::Stats(_)
            | ConversationEvent::Updated(_)
            | ConversationEvent::Elites(_)
            | ConversationEvent::Error(_) => {}
        }
        self.deliver(key, event);
    }

    fn deliver(&mut self, key: ConversationKey, event: ConversationEvent) {
        let Some(reader) = self.readers.get(&key) else { return };
        if !self.undelivered.is_empty() {
            self.undelivered.push_back((reader.clone(), event));
            return;
        }
        match reader.try_send(event) {
            // Nobody listens, and nobody has to.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(event)) => {
                self.undelivered.push_back((reader.clone(), event));
            }
        }
    }

    fn connected(&mut self, result: Result<(), ConnectError>) {
        if let Some((_, reply)) = self.connecting.take() {
            let _ = reply.send(result);
        }
    }
}

fn upgrade(uri: Uri, token: Option<&str>) -> Upgrade {
    let headers = token.map(|token| ("Authorization", format!("Bearer {token}"))).into_iter().collect();
    Upgrade { uri, headers, subprotocols: Vec::new(), expected: None }
}

/// Delivers what waits; done when all of it is. May be dropped at any time without loss.
async fn deliver(undelivered: &mut VecDeque<(mpsc::Sender<ConversationEvent>, ConversationEvent)>) {
    while let Some((reader, _)) = undelivered.front() {
        let permit = reader.clone().reserve_owned().await;
        let event = undelivered.pop_front();
        if let (Ok(permit), Some((_, event))) = (permit, event) {
            permit.send(event);
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

/// Events that may wait to be read, per conversation.
const BUFFER: usize = 256;
/// Bytes that may wait to be written before commands wait, too.
const MAX_BACKLOG: usize = 4 << 20;
