//! The only asynchronous code per connection, one for all protocols.
//!
//! Wait for a frame, something in the inbox, a wake time or room on the transport; hand it to the
//! [`ConnectionWorker`]; carry out what it wants done; and when nothing more is ready, write everything that waits
//! with one flush.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use switchboard_core::{Close, CloseReason, Connection, Reject, Timestamp};
use switchboard_engine::{
    Caller, Command, ConnectionOutput as Output, ConnectionWorker, FAREWELL, NO_CODE, Outbox, Outgoing,
    ReplyTo,
};
use tokio::time::{Instant, Sleep};

use crate::clock::Clock;
use crate::gateway::Client;
use crate::meters::TransportMeters;
use crate::sessions::{Environment, read_failed};
use crate::transport::{Arrival, Transport, poll_write};
use crate::voices::Speaker;

/// Drives one connection from its first frame to its last.
pub(crate) struct Driver {
    worker: ConnectionWorker<Client>,
    client: Client,
    clock: Clock,
    /// Listens and speaks, from the first time that it is asked.
    voice: Option<Box<dyn Speaker>>,
    timer: Pin<Box<Sleep>>,
    meters: TransportMeters,
}

/// What the driver waited for.
enum Step {
    Received(Option<Result<Arrival, CloseReason>>),
    Woken,
    Timer,
    Pressed,
    Lost,
}

impl Driver {
    pub(crate) fn new(
        connection: Box<dyn Connection>,
        caller: Caller,
        mut client: Client,
        outgoing: Outgoing,
        meters: TransportMeters,
    ) -> Self {
        let clock = client.gateway.sessions.environment.clock;
        let worker = ConnectionWorker::new(connection, caller, outgoing, &mut client, clock.now());
        let timer = Box::pin(tokio::time::sleep(FAR));
        Self { worker, client, clock, voice: None, timer, meters }
    }

    /// Serves the connection until it is over; answers the code it was closed with.
    pub(crate) async fn drive(&mut self, socket: &mut impl Transport) -> u16 {
        socket.take_at_most(self.worker.connection().max_message());
        let mut unflushed = 0;
        loop {
            self.work().await;
            if self.worker.closing().is_some() {
                break;
            }
            socket.take_at_most(self.worker.connection().max_message());
            // A peer that never pauses must not keep what is for it from being sent.
            let write_first = unflushed >= FLUSH_EVERY || self.worker.outbox.bytes() >= FLUSH_BYTES;
            let step = self.step(socket, write_first).await;
            unflushed += 1;
            if self.worker.outbox.is_empty() {
                unflushed = 0;
                self.count_written();
            }
            let now = self.clock.now();
            let (worker, client) = (&mut self.worker, &mut self.client);
            match step {
                Step::Received(Some(Ok(arrival))) => self.receive(arrival, now),
                Step::Received(Some(Err(reason))) => worker.lost(reason, client, now),
                Step::Received(None) | Step::Lost => worker.lost(CloseReason::TransportLost, client, now),
                Step::Woken => worker.woken(client, now),
                Step::Timer => {
                    worker.timeout(client, now);
                    if self.timer.is_elapsed() {
                        self.timer.as_mut().reset(Instant::now() + FAR);
                    }
                }
                Step::Pressed => {
                    unflushed = 0;
                    worker.pressed(client, now);
                }
            }
        }
        self.voice = None;
        self.client.end_visit(self.worker.caller());
        self.worker.leave(&self.client);
        self.work().await;
        let code = self.worker.closing().map_or(NO_CODE, |close| close.code);
        if let Some(close) = self.worker.closing() {
            if close.code == TRY_AGAIN {
                let (protocol, waiting) = (self.client.protocol, self.worker.outbox.bytes());
                tracing::warn!(protocol, waiting, "a peer was too slow; its connection is closed");
            }
            // Boxed, so that a connection does not carry the room for its end all its life.
            Box::pin(self.close(socket, close)).await;
        }
        self.count_written();
        self.worker.said_goodbye(&mut self.client);
        self.work().await;
        code
    }

    async fn step(&mut self, socket: &mut impl Transport, write_first: bool) -> Step {
        let reading = self.worker.reads();
        if let Some(at) = self.worker.next_timeout() {
            let at = self.clock.instant(at);
            // The timer may fire early, which is harmless, but never late.
            if at < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(at);
            }
        }
        let (worker, timer) = (&mut self.worker, &mut self.timer);
        std::future::poll_fn(|cx| {
            if write_first && let Some(step) = write(worker, socket, cx) {
                return Poll::Ready(step);
            }
            if worker.caller().inbox.poll_woken(cx).is_ready() {
                return Poll::Ready(Step::Woken);
            }
            if reading && let Poll::Ready(received) = socket.poll_next_unpin(cx) {
                return Poll::Ready(Step::Received(received));
            }
            if timer.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Step::Timer);
            }
            match write(worker, socket, cx) {
                Some(step) => Poll::Ready(step),
                None => Poll::Pending,
            }
        })
        .await
    }

    fn receive(&mut self, arrival: Arrival, now: Timestamp) {
        let (worker, client) = (&mut self.worker, &mut self.client);
        let frame = match arrival {
            Arrival::Frame(frame) => frame,
            Arrival::Closed(code) => return worker.peer_closed(code, client, now),
        };
        let bytes = frame.size();
        tracing::debug!(bytes, "received");
        self.meters.frames_received.increment(1);
        self.meters.bytes_received.increment(bytes as u64);
        if let Err(delay) = client.bucket.take_inbound(1, bytes as u64, now) {
            self.meters.delayed.increment(1);
            worker.read_after(now.after(delay));
        }
        worker.receive(frame, client, now);
    }

    /// Carries out what the worker wants done, until it has nothing more for now.
    async fn work(&mut self) {
        loop {
            let output = self.worker.poll_output(&mut self.client);
            if matches!(output, Output::Idle) {
                break;
            }
            let Output::Read { session, after, limit } = output else {
                self.carry_out(output);
                continue;
            };
            let log = self.client.gateway.sessions.environment.log.clone();
            let read = log.read(&session, after, limit).await;
            let read = read.map_err(|error| read_failed(&error));
            self.worker.caught_up(read, &mut self.client, self.clock.now());
        }
        if self.worker.has_violated() {
            self.meters.violations.increment(1);
        }
    }

    fn carry_out(&mut self, output: Output<Client>) {
        let (client, caller) = (&self.client, self.worker.caller());
        let gateway = &client.gateway;
        match output {
            Output::Command(session, command) => {
                if let Err(command) = gateway.sessions.send(&session, command) {
                    refuse(command);
                }
            }
            Output::Insist(session, op) => gateway.sessions.insist(&session, Command::own(op)),
            Output::Find(request, session, turn) => gateway.find(caller, request, session, turn),
            Output::Look(request, lookup) => gateway.look(caller, request, lookup),
            Output::LookUpName(request, name) => gateway.look_up_name(caller, request, name),
            Output::Hear(request, utterance) => gateway.hear(&caller.inbox, request, utterance),
            Output::Voice(op) => self.voice.get_or_insert_with(|| gateway.voice(&caller.inbox)).ask(op),
            Output::Call(request, call) => client.call(caller, request, call),
            Output::Authenticate(request, credential) => {
                let answer = client.authenticate(caller, &credential.0, self.clock.now());
                caller.inbox.answer(request, answer);
            }
            Output::Followed => caller.inbox.show_sessions(self.worker.sessions()),
            Output::Stop => gateway.stop(&caller.principal.id),
            // Answered where it is asked for.
            Output::Read { .. } | Output::Idle => {}
        }
    }

    fn count_written(&mut self) {
        let written = self.worker.outbox.written();
        if written.flushes > 0 {
            self.meters.frames_sent.increment(written.frames);
            self.meters.bytes_sent.increment(written.bytes);
            self.meters.flushes.increment(written.flushes);
        }
    }

    /// Sends what is left, and says goodbye.
    async fn close(&mut self, socket: &mut impl Transport, close: Close) {
        if close.code == NO_CODE {
            return;
        }
        let outbox: &mut Outbox = &mut self.worker.outbox;
        let farewell = async {
            if std::future::poll_fn(|cx| poll_write(outbox, socket, cx)).await.is_ok() {
                socket.finish(close).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Writes as much as the transport takes; a step when the connection should know about it.
fn write(
    worker: &mut ConnectionWorker<Client>,
    socket: &mut impl Transport,
    cx: &mut Context<'_>,
) -> Option<Step> {
    if let Poll::Ready(Err(_)) = poll_write(&mut worker.outbox, socket, cx) {
        return Some(Step::Lost);
    }
    worker.is_pressed().then_some(Step::Pressed)
}

/// A session takes no more commands for now.
fn refuse(command: Command<Environment>) {
    match command {
        Command::Submit(submission) => {
            if let ReplyTo::Connection(inbox, request) = submission.reply {
                inbox.answer(request, Err(Reject::Busy));
            }
        }
        Command::Attach(attach) => attach.inbox.answer(attach.request, Err(Reject::Busy)),
        Command::Inspect(_) | Command::RefreshTools => {}
    }
}

const FAR: Duration = Duration::from_secs(30 * 24 * 3600);
/// Of a peer that did not keep up (RFC 6455, 7.4.1).
const TRY_AGAIN: u16 = 1013;
const FLUSH_EVERY: usize = 64;
const FLUSH_BYTES: usize = 64 << 10;
