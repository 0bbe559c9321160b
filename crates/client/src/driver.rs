//! The driver: the one task behind every client. It owns the client half of the protocol and its transport, dials
//! when the half says so, keeps its time, and does what handles ask for.
//!
//! What a protocol adds is a [`Shell`]: who waits for what, and what its events mean to them.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use switchboard_core::client::{Cause, Down, LinkChange};
use switchboard_core::{ClientInput, ClientMachine, ClientOutput, Seed, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::endpoint::FirstAttempt;
use crate::error::ConnectError;
use crate::events::{Events, Subscribers};
use crate::socket::{DialError, Incoming, Socket, Target, sleep_until};
use crate::tool::Tasks;

/// What a protocol adds to the driver.
pub(crate) trait Shell: Sized + Send + 'static {
    /// The client half.
    type Machine: ClientMachine + 'static;
    /// The connection at a glance.
    type Snapshot: Send + Sync + 'static;
    /// What subscribers are told of the connection.
    type Notice: Clone + Send + 'static;
    /// What readers are told; one that does not read holds up the connection.
    type Update: Send + 'static;
    /// Names what runs beside the connection.
    type Task: Clone + Ord + Send + 'static;
    /// What comes of it.
    type Done: Send + 'static;

    /// The half tells something.
    fn event(&mut self, event: EventOf<Self>, work: &mut Work<Self>);

    /// Something that ran beside the connection is done.
    fn done(&mut self, task: Self::Task, done: Self::Done, work: &mut Work<Self>);

    /// There is no connection: in how long it is tried again, if at all.
    fn lost(cause: CauseOf<Self>, retry_in: Option<Duration>) -> Option<Self::Notice>;
}

pub(crate) type EventOf<S> = <<S as Shell>::Machine as ClientMachine>::Event;
pub(crate) type FaultOf<S> = <<S as Shell>::Machine as ClientMachine>::Fault;
pub(crate) type CauseOf<S> = Cause<FaultOf<S>>;
type Connected<S> = Result<(), ConnectError<FaultOf<S>>>;

/// Something that a handle wants done.
type Job<S> = Box<dyn FnOnce(&mut S, &mut Work<S>) + Send>;

/// What a handle says without waiting; few and small, so that their queue needs no bound.
enum Control<S: Shell> {
    Do(Job<S>),
    /// Does not wait behind commands: a peer that reads nothing must not keep anybody here.
    Close(oneshot::Sender<()>),
}

/// A handle of a client. When the last one and the last [`Teller`] are dropped, the client leaves.
pub(crate) struct Handle<S: Shell> {
    commands: mpsc::Sender<Job<S>>,
    teller: Teller<S>,
    snapshot: watch::Receiver<S::Snapshot>,
}

/// The part of a handle that says things without waiting.
pub(crate) struct Teller<S: Shell>(mpsc::UnboundedSender<Control<S>>);

/// The driver is gone.
pub(crate) struct Gone;

impl<S: Shell> Handle<S> {
    /// Starts a driver. Must be called within a tokio runtime.
    pub(crate) fn start(
        shell: S,
        machine: S::Machine,
        target: Target,
        first: FirstAttempt,
        snapshot: S::Snapshot,
    ) -> Self {
        let (commands, queue) = mpsc::channel(COMMANDS);
        let (control, controls) = mpsc::unbounded_channel();
        let (snapshot, watched) = watch::channel(snapshot);
        let work = Work {
            machine,
            target,
            snapshot,
            tasks: Tasks::new(),
            clock: Clock::new(),
            first,
            link: Link::Off,
            fails_fast: false,
            finished: false,
            connecting: Vec::new(),
            wake: None,
            socket: None,
            dialing: JoinSet::new(),
            farewells: JoinSet::new(),
            undelivered: VecDeque::new(),
            subscribers: Subscribers::new(),
            tellers: control.downgrade(),
        };
        tokio::spawn(Driver { shell, work, commands: queue, controls }.run());
        Self { commands, teller: Teller(control), snapshot: watched }
    }

    /// Looks for a connection, if there is none, and waits for it.
    pub(crate) async fn online(&self) -> Connected<S> {
        let (reply, connected) = oneshot::channel();
        let asked = self.commands.send(Box::new(|_: &mut S, work: &mut Work<S>| work.connect(reply))).await;
        match asked {
            Ok(()) => connected.await.unwrap_or(Err(ConnectError::ClientClosed)),
            Err(_) => Err(ConnectError::ClientClosed),
        }
    }

    /// Has something done; waits while the driver is busy. The answer comes through what `job` is given.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S, &mut Work<S>, oneshot::Sender<T>) + Send + 'static,
    ) -> Result<T, Gone> {
        let (reply, answer) = oneshot::channel();
        let job: Job<S> = Box::new(move |shell, work| job(shell, work, reply));
        self.commands.send(job).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }

    /// Has something done and answered at once.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut S, &mut Work<S>) -> T + Send + 'static,
    ) -> Result<T, Gone> {
        self.answer(move |shell, work, reply| {
            // If nobody waits for it any more, dropping it here takes it back.
            let _ = reply.send(job(shell, work));
        })
        .await
    }

    pub(crate) const fn teller(&self) -> &Teller<S> {
        &self.teller
    }

    pub(crate) fn snapshot(&self) -> S::Snapshot
    where
        S::Snapshot: Clone,
    {
        self.snapshot.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<S::Snapshot> {
        self.snapshot.clone()
    }

    /// What happens to the connection from now on.
    pub(crate) fn events(&self) -> Events<S::Notice> {
        let (sender, receiver) = mpsc::channel(EVENTS);
        self.teller.tell(|_, work| work.subscribers.add(sender));
        Events::new(receiver)
    }

    /// Leaves. Done when the connection is closed.
    pub(crate) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        // If it is closed already, that is fine.
        let _ = self.teller.0.send(Control::Close(reply));
        let _ = closed.await;
    }

    /// Waits until the driver is gone.
    pub(crate) async fn closed(&self) {
        self.commands.closed().await;
    }
}

impl<S: Shell> Teller<S> {
    /// Without the driver there is nothing to be done.
    pub(crate) fn tell(&self, job: impl FnOnce(&mut S, &mut Work<S>) + Send + 'static) {
        let _ = self.0.send(Control::Do(Box::new(job)));
    }
}

impl<S: Shell> Clone for Handle<S> {
    fn clone(&self) -> Self {
        let (commands, teller) = (self.commands.clone(), self.teller.clone());
        Self { commands, teller, snapshot: self.snapshot.clone() }
    }
}

impl<S: Shell> Clone for Teller<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Shell> fmt::Debug for Handle<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handle(…)")
    }
}

impl<S: Shell> fmt::Debug for Teller<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Teller(…)")
    }
}

/// What shells and jobs work with.
pub(crate) struct Work<S: Shell> {
    pub(crate) machine: S::Machine,
    pub(crate) target: Target,
    pub(crate) snapshot: watch::Sender<S::Snapshot>,
    pub(crate) tasks: Tasks<S::Task, S::Done>,
    clock: Clock,
    first: FirstAttempt,
    link: Link,
    /// Whether the first failure is the last.
    fails_fast: bool,
    finished: bool,
    connecting: Vec<oneshot::Sender<Connected<S>>>,
    wake: Option<Timestamp>,
    socket: Option<Socket>,
    /// At most one attempt; dropped, it is given up.
    dialing: JoinSet<Result<Socket, DialError>>,
    farewells: JoinSet<()>,
    /// Updates that found their reader's buffer full. Until it has room, nothing more is read from the socket.
    undelivered: VecDeque<(mpsc::Sender<S::Update>, S::Update)>,
    subscribers: Subscribers<S::Notice>,
    tellers: mpsc::WeakUnboundedSender<Control<S>>,
}

/// Whether there is a connection, or one is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Off,
    Sought,
    Up,
}

impl<S: Shell> Work<S> {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn instant(&self, time: Timestamp) -> tokio::time::Instant {
        self.clock.instant(time)
    }

    /// For something that keeps the client alive; none while it closes.
    pub(crate) fn teller(&self) -> Option<Teller<S>> {
        self.tellers.upgrade().map(Teller)
    }

    /// Whether there is a connection, or one is looked for.
    pub(crate) fn is_on(&self) -> bool {
        self.link != Link::Off
    }

    pub(crate) fn publish(&mut self, notice: &S::Notice) {
        self.subscribers.publish(notice);
    }

    /// Tells a reader; if it has no room, the connection waits for it.
    pub(crate) fn deliver(&mut self, reader: &mpsc::Sender<S::Update>, update: S::Update) {
        if !self.undelivered.is_empty() {
            return self.undelivered.push_back((reader.clone(), update));
        }
        match reader.try_send(update) {
            // Nobody listens, and nobody has to.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(update)) => {
                self.undelivered.push_back((reader.clone(), update));
            }
        }
    }

    /// The client is of no use any more: the driver ends.
    pub(crate) const fn finish(&mut self) {
        self.finished = true;
    }

    fn connect(&mut self, reply: oneshot::Sender<Connected<S>>) {
        if self.link == Link::Up {
            let _ = reply.send(Ok(()));
            return;
        }
        self.connecting.push(reply);
        if self.link == Link::Off {
            self.link = Link::Sought;
            self.fails_fast = self.first == FirstAttempt::FailFast;
        }
        self.input(ClientInput::Connect);
    }

    fn connected(&mut self, result: &Connected<S>) {
        for reply in self.connecting.drain(..) {
            let _ = reply.send(result.clone());
        }
    }

    fn up(&mut self) {
        self.link = Link::Up;
        self.fails_fast = false;
        self.connected(&Ok(()));
    }

    /// There is no connection: either it is tried again, or that was it.
    fn down(&mut self, down: Down<FaultOf<S>>) {
        let Down { cause, retry_at } = down;
        if cause == Cause::Left {
            self.link = Link::Off;
            return self.connected(&Err(ConnectError::ClientClosed));
        }
        let again = retry_at.filter(|_| !self.fails_fast);
        self.link = if again.is_some() { Link::Sought } else { Link::Off };
        if again.is_none() {
            self.connected(&Err(ConnectError::Failed(cause.clone())));
        }
        if again != retry_at {
            self.input(ClientInput::Leave);
        }
        if let Some(notice) = S::lost(cause, again.map(|at| at.since(self.now()))) {
            self.publish(&notice);
        }
    }

    fn input(&mut self, input: ClientInput) {
        self.machine.handle_input(input, self.clock.now());
    }

    fn incoming(&mut self, incoming: Incoming) {
        let input = match incoming {
            Incoming::Binary(message) => ClientInput::Binary(message),
            Incoming::Text(message) => ClientInput::Text(message),
            Incoming::Alive => ClientInput::Alive,
            Incoming::Closed(code) => {
                if let Some(socket) = self.socket.take() {
                    self.farewells.spawn(socket.finish());
                }
                ClientInput::Closed(code)
            }
        };
        self.input(input);
    }

    fn dialed(&mut self, dialed: Result<Socket, DialError>) {
        let input = match dialed {
            Ok(socket) => {
                self.socket = Some(socket);
                ClientInput::Opened
            }
            Err(error) => {
                tracing::debug!(%error, "dialing failed");
                error.input::<FaultOf<S>>()
            }
        };
        self.input(input);
    }

    /// Does what the half says, up to the next thing that it tells.
    fn carry_out(&mut self) -> Option<EventOf<S>> {
        loop {
            match (self.machine.poll_output(), &mut self.socket) {
                (ClientOutput::Dial, _) => {
                    self.dialing = JoinSet::new();
                    self.dialing.spawn(self.target.dial());
                }
                (ClientOutput::Text(message), Some(socket)) => socket.send_text(message),
                (ClientOutput::Binary(message), Some(socket)) => socket.send_binary(message),
                (ClientOutput::Ping, Some(socket)) => socket.ping(),
                (ClientOutput::Text(_) | ClientOutput::Binary(_) | ClientOutput::Ping, None) => {}
                (ClientOutput::Close(code), _) => {
                    self.dialing = JoinSet::new();
                    if let Some(socket) = self.socket.take() {
                        self.farewells.spawn(socket.close(code));
                    }
                }
                (ClientOutput::Event(event), _) => return Some(event),
                (ClientOutput::Idle { wake }, _) => {
                    self.wake = wake;
                    return None;
                }
            }
        }
    }
}

/// The task.
struct Driver<S: Shell> {
    shell: S,
    work: Work<S>,
    commands: mpsc::Receiver<Job<S>>,
    controls: mpsc::UnboundedReceiver<Control<S>>,
}

impl<S: Shell> Driver<S> {
    /// Until the client is closed or nobody holds it any more.
    async fn run(mut self) {
        let closed = self.serve().await;
        self.work.input(ClientInput::Leave);
        self.carry_out();
        self.work.connected(&Err(ConnectError::ClientClosed));
        self.work.tasks.shutdown().await;
        while self.work.farewells.join_next().await.is_some() {}
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Answers who wants to know when everything is closed.
    async fn serve(&mut self) -> Option<oneshot::Sender<()>> {
        let mut commands_open = true;
        loop {
            self.carry_out();
            if self.work.finished {
                return None;
            }
            let work = &mut self.work;
            let blocked = !work.undelivered.is_empty();
            // While nothing is read, silence means nothing.
            let wake = work.wake.filter(|_| !blocked || work.socket.is_none());
            let wake = wake.map(|wake| work.clock.instant(wake));
            let room = work.socket.as_ref().is_none_or(|socket| socket.backlog() < MAX_BACKLOG);
            tokio::select! {
                // Handles first: a handler or a subscriber is in place before what they are for.
                biased;
                control = self.controls.recv() => match control {
                    Some(Control::Close(reply)) => return Some(reply),
                    Some(Control::Do(job)) => job(&mut self.shell, work),
                    None => return None,
                },
                command = self.commands.recv(), if commands_open && room => match command {
                    Some(job) => job(&mut self.shell, work),
                    None => commands_open = false,
                },
                Some((task, done)) = work.tasks.next() => self.shell.done(task, done, work),
                () = sleep_until(wake) => work.input(ClientInput::Timeout),
                () = deliver(&mut work.undelivered), if blocked => work.input(ClientInput::Alive),
                Some(Ok(dialed)) = work.dialing.join_next() => work.dialed(dialed),
                incoming = next(&mut work.socket, blocked) => work.incoming(incoming),
                Some(_) = work.farewells.join_next() => {}
            }
        }
    }

    /// Does what the half says until it has nothing more to say.
    fn carry_out(&mut self) {
        while let Some(event) = self.work.carry_out() {
            let change = match S::Machine::link(&event) {
                None => None,
                Some(LinkChange::Up) => Some(None),
                Some(LinkChange::Down(down)) => Some(Some(down.clone())),
            };
            self.shell.event(event, &mut self.work);
            match change {
                None => {}
                Some(None) => self.work.up(),
                Some(Some(down)) => self.work.down(down),
            }
        }
    }
}

/// Delivers what waits; done when all of it is. May be dropped at any time without loss.
async fn deliver<T>(undelivered: &mut VecDeque<(mpsc::Sender<T>, T)>) {
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

/// Where ids and chance come from.
pub(crate) fn seed() -> Seed {
    let mut entropy = [0; 32];
    // A system without random numbers has no TLS either; ids only have to differ from each other.
    let _ = getrandom::fill(&mut entropy);
    Seed::new(entropy)
}

/// What every client can do about its connection; its field `handle` is a [`Handle`]. With `$connect`, also the one step
/// from there to a connection.
macro_rules! connection {
    ($client:ty, $snapshot:ty, $connect:ty) => {
        connection!($client, $snapshot);

        impl $client {
            /// Connects. Must be called within a tokio runtime.
            ///
            /// # Errors
            /// There is no connection; [`ConnectError::advice`] says what to do.
            pub async fn connect(connect: $connect) -> Result<Self, ConnectError> {
                let client = Self::new(connect)?;
                client.online().await?;
                Ok(client)
            }
        }
    };
    ($client:ty, $snapshot:ty) => {
        impl $client {
            /// Looks for a connection, if there is none, and waits for it.
            ///
            /// # Errors
            /// There is none; [`ConnectError::advice`] says what to do.
            pub async fn online(&self) -> Result<(), ConnectError> {
                self.handle.online().await
            }

            /// The connection as it is now.
            pub fn snapshot(&self) -> $snapshot {
                self.handle.snapshot()
            }

            /// What happens to the connection from now on.
            pub fn events(&self) -> Events {
                self.handle.events()
            }

            /// Leaves. Done when the connection is closed.
            pub async fn close(&self) {
                self.handle.close().await;
            }
        }
    };
}
pub(crate) use connection;

/// How a client of a protocol fails: the causes of its [`Fault`](switchboard_core::client::Fault), and what stands for a
/// driver that is gone.
macro_rules! errors {
    ($fault:ty, $gone:expr) => {
        /// Why there is no connection.
        pub type Cause = switchboard_core::client::Cause<$fault>;
        /// Why a client could not connect.
        pub type ConnectError = crate::ConnectError<$fault>;

        impl From<crate::driver::Gone> for ClientError {
            fn from(_: crate::driver::Gone) -> Self {
                $gone
            }
        }
    };
}
pub(crate) use errors;

/// Commands that may wait.
const COMMANDS: usize = 64;
/// Events that may wait, per subscriber.
const EVENTS: usize = 256;
/// Bytes that may wait to be written before commands wait, too.
const MAX_BACKLOG: usize = 4 << 20;
