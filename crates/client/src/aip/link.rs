//! What a device and a constellation have in common: a state machine, a socket, a clock, and those
//! who want to know.

use switchboard_aip::client::{
    Cause as LinkCause, Constellation, ConstellationEvent, Device, DeviceEvent, Input, Output, Pipeline,
};
use switchboard_core::{Seed, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::error::{Cause, ConnectError};
use super::event::Event;
use super::options::{FirstAttempt, Options, OptionsError};
use super::wire::{Report, Wire};
use crate::clock::Clock;
use crate::events::Subscribers;
use crate::socket::sleep_until;

/// A state machine of the protocol.
pub(super) trait Machine {
    type Event;
    fn connect(&mut self, now: Timestamp);
    fn handle(&mut self, input: Input, now: Timestamp);
    fn poll(&mut self) -> Output<Self::Event>;
    fn disconnect(&mut self);
    fn middleware(&mut self) -> &mut Pipeline;
}

/// What a handle says without waiting; few and small, so that their queue needs no bound.
#[derive(Debug)]
pub(super) enum Control {
    Subscribe(mpsc::Sender<Event>),
    /// A task is not wanted any more.
    Cancel {
        session_id: String,
        reason: String,
    },
    /// Does not wait behind commands: a peer that reads nothing must not keep anybody here.
    Close(oneshot::Sender<()>),
}

/// The machine with everything around it.
pub(super) struct Link<M> {
    pub(super) machine: M,
    clock: Clock,
    wire: Wire,
    wake: Option<Timestamp>,
    /// Why the last attempt failed; the machine does not ask.
    failed: Option<Cause>,
    first: FirstAttempt,
    is_up: bool,
    connecting: Vec<oneshot::Sender<Result<(), ConnectError>>>,
    subscribers: Subscribers<Event>,
}

impl<M: Machine> Link<M> {
    pub(super) fn new(mut machine: M, mut options: Options) -> Result<Self, OptionsError> {
        let wire = Wire::new(&options)?;
        options.add_middleware(machine.middleware());
        Ok(Self {
            machine,
            clock: Clock::new(),
            wire,
            wake: None,
            failed: None,
            first: options.first,
            is_up: false,
            connecting: Vec::new(),
            subscribers: Subscribers::new(),
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether callers have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.wire.is_full()
    }

    /// Looks for a connection; tells when there is one.
    pub(super) fn connect(&mut self, reply: oneshot::Sender<Result<(), ConnectError>>) {
        self.connecting.push(reply);
        if self.is_up {
            self.connected(&Ok(()));
        } else {
            self.machine.connect(self.clock.now());
        }
    }

    pub(super) fn subscribe(&mut self, subscriber: mpsc::Sender<Event>) {
        self.subscribers.add(subscriber);
    }

    pub(super) fn publish(&mut self, event: &Event) {
        self.subscribers.publish(event);
    }

    /// Does what the machine says, up to the next thing that somebody else has to do.
    pub(super) fn carry_out(&mut self) -> Option<M::Event> {
        loop {
            match self.machine.poll() {
                Output::Connect => self.wire.dial(),
                Output::Send(message) => self.wire.send(message),
                Output::Close(code) => self.wire.close(code),
                Output::Event(event) => return Some(event),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return None;
                }
            }
        }
    }

    /// Waits for what comes next, and tells the machine. May be dropped at any time without loss.
    pub(super) async fn step(&mut self) {
        let wake = self.wake.map(|wake| self.clock.instant(wake));
        let input = tokio::select! {
            report = self.wire.next() => match report {
                Report::Opened => Input::Opened,
                Report::Message(message) => Input::Message(message),
                Report::Closed(code) => Input::Closed(code),
                Report::Failed(cause) => {
                    tracing::debug!(%cause, "dialing failed");
                    self.failed = Some(cause);
                    Input::Closed(None)
                }
            },
            () = sleep_until(wake) => Input::Timeout,
        };
        self.machine.handle(input, self.clock.now());
    }

    /// There is a connection.
    pub(super) fn up(&mut self) {
        self.is_up = true;
        self.first = FirstAttempt::KeepTrying;
        self.connected(&Ok(()));
        self.publish(&Event::Connected);
    }

    /// There is no connection: either it is tried again, or that was it.
    pub(super) fn down(&mut self, cause: LinkCause, again: Option<Timestamp>) {
        self.is_up = false;
        let failed = self.failed.take();
        if cause == LinkCause::Left {
            return self.connected(&Err(ConnectError::ClientClosed));
        }
        let cause = failed.unwrap_or(Cause::Lost(cause));
        let waits = cause.is_temporary() && self.first == FirstAttempt::KeepTrying;
        if let Some(again) = again.filter(|_| waits) {
            let pause = again.since(self.clock.now());
            let retry_in = cause.retry_after().map_or(pause, |wait| wait.max(pause));
            return self.publish(&Event::Disconnected { cause, retry_in });
        }
        self.connected(&Err(ConnectError::Failed(cause.clone())));
        self.publish(&Event::Closed { cause });
        self.machine.disconnect();
    }

    /// Leaves. Done when the connection is closed.
    pub(super) async fn close(&mut self) {
        self.machine.disconnect();
        // Nobody is left to hear of it.
        while self.carry_out().is_some() {}
        self.connected(&Err(ConnectError::ClientClosed));
        self.wire.finish().await;
    }

    fn connected(&mut self, result: &Result<(), ConnectError>) {
        for reply in self.connecting.drain(..) {
            let _ = reply.send(result.clone());
        }
    }
}

impl Machine for Device {
    type Event = DeviceEvent;

    fn connect(&mut self, _now: Timestamp) {
        self.connect();
    }

    fn handle(&mut self, input: Input, now: Timestamp) {
        self.handle(input, now);
    }

    fn poll(&mut self) -> Output<DeviceEvent> {
        self.poll()
    }

    fn disconnect(&mut self) {
        self.disconnect();
    }

    fn middleware(&mut self) -> &mut Pipeline {
        self.middleware()
    }
}

impl Machine for Constellation {
    type Event = ConstellationEvent;

    fn connect(&mut self, now: Timestamp) {
        self.connect(now);
    }

    fn handle(&mut self, input: Input, now: Timestamp) {
        self.handle(input, now);
    }

    fn poll(&mut self) -> Output<ConstellationEvent> {
        self.poll()
    }

    fn disconnect(&mut self) {
        self.disconnect();
    }

    fn middleware(&mut self) -> &mut Pipeline {
        self.middleware()
    }
}

/// Where ids and chance come from.
pub(super) fn seed() -> Seed {
    let mut entropy = [0; 32];
    // A system without random numbers has no TLS either; ids only have to differ from each other.
    let _ = getrandom::fill(&mut entropy);
    Seed::new(entropy)
}
