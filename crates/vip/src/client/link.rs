//! The transport: the handshake, the order of what comes over it, and coming back after it was lost.

use switchboard_core::client::Down;
use switchboard_core::{Pii, Timestamp};

use super::event::{CommandError, Event};
use super::{About, Agreed, Carrier, Cause, Output, VipClient, millis};
use crate::error::{Code, Fault};
use crate::matrix::Trigger;
use crate::message::{
    ClientConnect, ClientEvent, CloseReason, ErrorBody, Resume, SessionClose, SessionConnected, SessionPing,
    SessionUpdate,
};

const VERSION: &str = "0.1";

/// Where the connection is, and what of the server's events was seen.
#[derive(Debug, Default)]
pub(super) struct Link {
    phase: Phase,
    /// Whether there ever was a handshake.
    known: bool,
    resume_token: Option<Pii<String>>,
    /// The last event of the server that was seen, with everything before it.
    last: u64,
    /// The number of `session.connected`, while older events are told again.
    replay_until: Option<u64>,
    ping_at: Option<Timestamp>,
    pinged: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// There is none, and none is looked for.
    #[default]
    Off,
    /// There will be another attempt at this time.
    Waiting(Timestamp),
    Dialing,
    /// `client.connect` is sent.
    Greeting,
    Up,
}

/// What to do with an event by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the next.
    Next,
    /// It was missed, and is told again.
    Missed,
    /// It was seen.
    Seen,
    /// Something is missing before it.
    Gap,
}

impl Link {
    pub(super) fn continue_from(&mut self, resume_token: String, last: u64) {
        self.resume_token = Some(Pii(resume_token));
        self.last = last;
        self.known = true;
    }

    pub(super) fn resume_token(&self) -> Option<&str> {
        self.resume_token.as_ref().map(|token| token.0.as_str())
    }

    pub(super) const fn last_seq(&self) -> u64 {
        self.last
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Up)
    }

    pub(super) fn is_dialing(&self) -> bool {
        self.phase == Phase::Dialing
    }

    pub(super) const fn wake(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::Waiting(at) => Some(at),
            Phase::Off | Phase::Dialing | Phase::Greeting | Phase::Up => self.ping_at,
        }
    }

    /// Where an event behind the handshake belongs; it counts as seen from now on.
    pub(super) fn place(&mut self, seq: u64) -> Place {
        if let Some(until) = self.replay_until {
            if seq <= until {
                let missed = seq > self.last && seq < until;
                if missed {
                    self.last = seq;
                }
                return if missed { Place::Missed } else { Place::Seen };
            }
            self.replay_until = None;
            self.last = until;
        }
        if seq <= self.last {
            return Place::Seen;
        }
        if seq > self.last + 1 {
            return Place::Gap;
        }
        self.last = seq;
        Place::Next
    }
}

impl VipClient {
    /// Looks for a connection.
    pub(super) fn connect(&mut self) {
        if self.link.phase == Phase::Off {
            self.dial();
        }
    }

    fn dial(&mut self) {
        self.link.phase = Phase::Dialing;
        self.outputs.push_back(Output::Dial);
    }

    /// Leaves; the session ends.
    pub(super) fn leave(&mut self) {
        if self.link.is_open() {
            // There is a connection.
            let _ = self.hang_up(CloseReason::App, self.now);
        }
        if self.link.is_open() || self.link.is_dialing() {
            self.outputs.push_back(Output::Close(1000));
        }
        self.down(Cause::Left);
    }

    /// Says hello, with what is on the screen if that is known.
    pub(super) fn opened(&mut self) {
        if self.link.is_open() {
            return;
        }
        self.link.phase = Phase::Greeting;
        self.follow.fire(Trigger::ClientConnect);
        let resume = self.link.resume_token().map(str::to_owned).map(|resume_token| Resume {
            resume_token,
            last_server_seq: self.link.last,
            pending_results: self.calls.take_unsent(),
        });
        let hello = ClientConnect {
            session_id: self.config.session_id.clone(),
            protocol_version: VERSION.to_owned(),
            context: self.screen.whole(),
            resume,
        };
        self.send(&ClientEvent::ClientConnect(Box::new(hello)), About::default());
    }

    /// The first event of a transport that is an answer to the hello.
    pub(super) fn connected(&mut self, seq: u64, connected: Box<SessionConnected>) {
        if self.link.phase != Phase::Greeting {
            return;
        }
        self.link.phase = Phase::Up;
        self.link.known = true;
        self.backoff.reset();
        if connected.resumed && connected.replay_from.is_some() {
            self.link.replay_until = Some(seq);
        } else {
            self.link.last = seq;
            self.link.replay_until = None;
        }
        self.link.resume_token = connected.resume_token.clone().map(Pii);
        self.agreed = Some(Agreed { audio: connected.audio, turn_detection: connected.turn_detection });
        if self.config.carrier == Carrier::DataChannel {
            self.link.ping_at = Some(self.now.after(millis(self.config.ping_ms)));
        }
        self.event(Event::Connected(connected));
    }

    pub(super) fn link_timeout(&mut self) {
        if matches!(self.link.phase, Phase::Waiting(at) if at <= self.now) {
            return self.dial();
        }
        if self.link.ping_at.is_none_or(|at| at > self.now) {
            return;
        }
        self.link.ping_at = Some(self.now.after(millis(self.config.ping_ms)));
        self.link.pinged += 1;
        let ping = SessionPing { nonce: self.link.pinged.to_string() };
        self.send(&ClientEvent::SessionPing(ping), About::default());
    }

    /// Ends the session.
    ///
    /// # Errors
    /// There is no connection.
    pub fn hang_up(&mut self, reason: CloseReason, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        if !self.link.is_open() {
            return Err(CommandError::NotConnected);
        }
        self.send(&ClientEvent::SessionClose(SessionClose { reason }), About::default());
        self.link.resume_token = None;
        self.follow.fire(Trigger::SessionClose);
        self.settle();
        Ok(())
    }

    /// Asks for other settings; answered with [`Event::Settings`].
    ///
    /// # Errors
    /// Not now.
    pub fn change_settings(&mut self, change: SessionUpdate, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        if self.state() != crate::matrix::State::Idle {
            return Err(CommandError::State(self.state()));
        }
        self.send(&ClientEvent::SessionUpdate(change), About::default());
        Ok(())
    }

    /// Gives up on the transport, and says why as long as it works (VIP-077).
    pub(super) fn fail(&mut self, fault: &Fault) {
        if !self.link.is_open() {
            return;
        }
        let fault = fault.clone().fatally();
        self.send(&ClientEvent::Error(ErrorBody::from(&fault)), About::default());
        let code = fault.code.close().unwrap_or(1000);
        self.outputs.push_back(Output::Close(code));
        self.down(Cause::Closed(code));
    }

    /// Tells the server that something is wrong, and goes on.
    pub(super) fn complain(&mut self, fault: &Fault) {
        let about = About { reply_to: fault.ref_id.clone(), ..About::default() };
        self.send(&ClientEvent::Error(ErrorBody::from(fault)), about);
    }

    /// The transport is gone, or was never there. What is being done goes on; whatever was heard or said is over.
    pub(super) fn down(&mut self, cause: Cause) {
        if self.link.phase == Phase::Off {
            return;
        }
        if self.link.is_open() {
            self.link.ping_at = None;
            self.link.replay_until = None;
            self.follow.fire(Trigger::SessionClose);
            self.calls.keep_unconfirmed();
            self.silence();
            self.playback = None;
        }
        if !cause.is_temporary() {
            self.link.resume_token = None;
        }
        let can = cause.is_temporary() && (!self.link.known || self.link.resume_token.is_some());
        let pause = || self.backoff.pause().max(cause.retry_after().unwrap_or_default());
        let retry_at = can.then(pause).map(|pause| self.now.after(pause));
        self.link.phase = retry_at.map_or(Phase::Off, Phase::Waiting);
        self.event(Event::Down(Down { cause, retry_at }));
    }

    /// The server has ended the session, or will not have it any more.
    pub(super) fn over(&mut self) {
        self.link.resume_token = None;
    }

    /// An event is missing: the session has to be resumed.
    pub(super) fn gap(&mut self) {
        self.fail(&Fault::new(Code::ProtoSeqGap));
    }
}
