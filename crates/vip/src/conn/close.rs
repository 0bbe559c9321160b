//! How a transport ends, and with or without it the session (§4.3, §11).

use switchboard_core::model::Op;
use switchboard_core::{Close, CloseReason};

use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    self, ErrorBody, ServerEvent, SessionTerminated, SessionTerminating, TerminatedReason, TerminatingReason,
};
use crate::minutes::Minute;

use super::outgoing::About;
use super::{Phase, VipConnection};

impl VipConnection {
    /// Something broke beyond repair: the transport ends. The session waits for another where that helps.
    pub(super) fn fail(&mut self, fault: &Fault) {
        if self.phase == Phase::Over {
            return;
        }
        let fault = fault.clone().fatally();
        let about = About { reply_to: fault.ref_id.clone(), ..About::default() };
        self.say(&ServerEvent::error(&fault), about);
        self.break_off(fault.code);
    }

    /// The client found something wrong. If it is beyond repair, the client closes, and so do we; what else it
    /// is, is its own business.
    pub(super) fn client_error(&mut self, error: &ErrorBody) {
        if error.fatal && self.phase != Phase::Over {
            // What has no name here need not be wrong the next time.
            self.break_off(error.known().unwrap_or(Code::Internal));
        }
    }

    fn break_off(&mut self, code: Code) {
        let close = code.close().unwrap_or(4400);
        let again = matches!(close, 4408 | 1011 | 1012 | 4500 | 4429 | 4409);
        if again || self.generation == 0 {
            self.let_go();
        } else {
            self.end(TerminatedReason::Error, Some(code));
        }
        self.phase = Phase::Over;
        self.outgoing.close(Close { code: close, reason: code.name() });
    }

    /// The user ends the session.
    pub(super) fn hang_up(&mut self, reason: message::CloseReason) {
        let reason = match reason {
            message::CloseReason::Error => TerminatedReason::Error,
            message::CloseReason::UserHangup | message::CloseReason::App | message::CloseReason::Unload => {
                TerminatedReason::UserHangup
            }
        };
        self.finish(reason, None, 1000);
    }

    /// The session has lasted too long, or nothing happens in it.
    pub(super) fn terminate_for(&mut self, code: Code) {
        let reason =
            if code == Code::SesMaxDuration { TerminatedReason::MaxDuration } else { TerminatedReason::Idle };
        let fault = Fault::new(code).fatally();
        self.say(&ServerEvent::error(&fault), About::default());
        self.finish(reason, Some(code), code.close().unwrap_or(1000));
    }

    /// Ends the session, and the transport with it.
    pub(super) fn finish(&mut self, reason: TerminatedReason, code: Option<Code>, close: u16) {
        if self.phase == Phase::Over {
            return;
        }
        self.end(reason, code);
        self.phase = Phase::Over;
        self.outgoing.close(Close { code: close, reason: "" });
    }

    fn end(&mut self, reason: TerminatedReason, code: Option<Code>) {
        self.drop_everything("the session has ended");
        let name = reason.name().to_owned();
        self.outgoing.note(Minute::Ended { reason: name, code: code.map(|code| code.name().to_owned()) });
        if self.state() != State::NotConnected {
            self.go(Trigger::SessionClose, None, Some(reason.name()));
        }
        let duration_ms = self.now.as_millis().saturating_sub(self.settings.created_at);
        let code = code.map(|code| code.name().to_owned());
        self.tell(&ServerEvent::SessionTerminated(SessionTerminated {
            reason,
            code,
            duration_ms,
            usage: None,
        }));
        let (attachment, generation) = (self.attachment.clone(), self.held());
        if generation > 0 {
            // What is on record has to come first.
            self.record();
            self.ask(Op::CloseAttachment { attachment, generation });
        }
    }

    /// Another has put on record that the session is over.
    pub(super) fn ended_elsewhere(&mut self) {
        self.finish(TerminatedReason::UserHangup, None, 1000);
    }

    /// A newer transport has the session.
    pub(super) fn replaced(&mut self) {
        if self.phase == Phase::Over {
            return;
        }
        let fault = Fault::new(Code::SesReplaced).fatally();
        // Not on record: it is about this transport only.
        self.outgoing.repeat(self.unrecorded(&fault));
        self.quiet();
        self.phase = Phase::Over;
        self.outgoing.close(Close { code: 4409, reason: "SES_REPLACED" });
    }

    /// The newer transport has numbers of its own, so that this one is given to nothing else.
    fn unrecorded(&self, fault: &Fault) -> String {
        let seq = self.outgoing.seq + 1;
        let head = message::Head {
            id: format!("s-{seq}"),
            seq,
            ts: self.now.as_millis(),
            state_seq: self.machine.seq(),
            ..message::Head::default()
        };
        crate::codec::encode_server(&head, &ServerEvent::error(fault))
    }

    /// Lets go of the session, which waits.
    fn let_go(&mut self) {
        self.suspend();
        if self.transport > 0 {
            self.note_number(true);
        }
        let (attachment, generation) = (self.attachment.clone(), self.held());
        if generation > 0 {
            self.record();
            self.ask(Op::Detach { attachment, generation });
        }
    }

    /// Puts on record which number was the last.
    pub(super) fn note_number(&mut self, last: bool) {
        let (seq, transport) = (self.outgoing.seq, self.transport);
        self.outgoing.note(Minute::Numbered { seq, transport, last });
    }

    /// What there is to let go of, by its generation. A transport that was never let in has replaced another all
    /// the same, and nobody but it can say that the session is alone now. What is being asked for comes before.
    fn held(&self) -> u32 {
        match &self.incoming.before {
            Some(before) if self.generation == 0 => {
                before.generation.saturating_add((self.phase == Phase::Admitting).into())
            }
            _ => self.generation,
        }
    }

    /// The transport is gone, or has to go.
    pub(super) fn closed(&mut self, reason: CloseReason) {
        if self.phase != Phase::Over {
            match reason {
                CloseReason::Restart => return self.fail(&Fault::new(Code::NetServerDraining)),
                CloseReason::TooBig => return self.fail(&Fault::new(Code::ProtoTooLarge)),
                CloseReason::NotText => return self.fail(&Fault::new(Code::ProtoMalformed).fatally()),
                CloseReason::Unauthorized => return self.fail(&Fault::new(Code::AuthTokenInvalid)),
                CloseReason::TooSlow => {
                    return self
                        .fail(&Fault::new(Code::RateAudio).because("the client does not keep up").fatally());
                }
                CloseReason::Internal => return self.fail(&Fault::new(Code::Internal)),
                CloseReason::PeerClosed(_) | CloseReason::TransportLost | CloseReason::Dismissed => {}
            }
            self.let_go();
            self.phase = Phase::Over;
        }
        self.outgoing.give_up(Close { code: 1000, reason: "" });
    }

    /// The server is leaving: the session waits for it to come back, or for another.
    pub(super) fn drain(&mut self, retry_ms: u64) {
        if self.phase == Phase::Live {
            // As soon as nothing is going on; nobody knows when that will be.
            let warning = SessionTerminating { reason: TerminatingReason::Drain, in_ms: 0 };
            self.tell(&ServerEvent::SessionTerminating(warning));
        }
        self.draining = Some(retry_ms);
        self.leave_if_draining();
    }

    /// Once nothing is going on, the client can as well come back elsewhere.
    pub(super) fn leave_if_draining(&mut self) {
        let busy = matches!(
            self.state(),
            State::UserSpeaking | State::AiThinking | State::AiSpeaking | State::InvokeAction
        );
        if let Some(retry_ms) = self.draining.filter(|_| !busy) {
            self.fail(&Fault::new(Code::NetServerDraining).after(retry_ms));
        }
    }
}

/// Nothing can be put on record.
pub(super) const INTERNAL: Close = Close { code: 4500, reason: "INTERNAL" };
