//! Who is enrolled, and what passes between connections beside the log, with the rules of
//! `server/src/gateway.rs`.

use serde_json::Value;
use switchboard_core::{
    Callsign, Committed, Enrolled, Enrolment, Invitation, Op, Position, Principal, RefusedEnrolment, Reject,
    Reply, RequestId, SessionId, Signal,
};

use super::peer::Delivery;
use super::session::own;
use super::{PeerId, World};

impl World {
    /// The name under which a connection is enrolled.
    pub fn callsign(&self, peer: PeerId) -> Option<&Callsign> {
        self.peers.get(&peer)?.callsign.as_ref()
    }

    /// Everybody who is enrolled and whom the principal may see, in order of enrolment.
    pub fn enrolled(&self, principal: &Principal) -> Vec<Enrolled> {
        self.roll.list(principal)
    }

    /// Makes a connection reachable by name.
    pub(super) fn enrol_for(&mut self, id: PeerId, request: RequestId, enrolment: Enrolment) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.outstanding += 1;
        let callsign = enrolment.callsign.clone();
        let enrolled = match &peer.callsign {
            // One connection, one name.
            Some(known) => Err(RefusedEnrolment { reject: Reject::Enrolled(known.clone()), contested: None }),
            None => self.roll.enrol(enrolment, &peer.principal, id, self.now),
        };
        match enrolled {
            Ok(()) => {
                peer.callsign = Some(callsign);
                self.deliver(id, Delivery::Done(request, Reply::Enrolled));
            }
            Err(RefusedEnrolment { reject, contested }) => {
                self.deliver(id, Delivery::Rejected(request, reject));
                if let Some(holder) = contested {
                    self.deliver(holder, Delivery::Signal(Signal::Contested));
                }
            }
        }
    }

    /// Tells a connection who is enrolled.
    pub(super) fn list_for(&mut self, id: PeerId, request: RequestId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.outstanding += 1;
        let list = self.roll.list(&peer.principal);
        self.deliver(id, Delivery::Done(request, Reply::Roll(list)));
    }

    /// Passes a word from one connection to another.
    pub(super) fn note_for(&mut self, id: PeerId, request: RequestId, to: Callsign, body: Value) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.outstanding += 1;
        let from = peer.principal.id.clone();
        match self.roll.find(&peer.principal, peer.callsign.as_ref(), &to) {
            Some(reader) => {
                self.deliver(reader, Delivery::Signal(Signal::Note { from, body }));
                self.deliver(id, Delivery::Done(request, Reply::Noted));
            }
            None => self.deliver(id, Delivery::Rejected(request, Reject::Offline(to))),
        }
    }

    /// A device of which something is asked hears of it, or the session that it is not there.
    pub(super) fn invite_device(&mut self, session: &SessionId, committed: &Committed) {
        let Some(device) = committed.event.device() else { return };
        match self.roll.invite(device, session, committed.position) {
            Invitation::Known => {}
            Invitation::Offline => self.mail(session, own(Op::LoseDevice { device: device.clone() })),
            Invitation::Deliver(peer) => {
                let Position { epoch, seq } = committed.position;
                let after = Position { epoch, seq: seq.saturating_sub(1) };
                let invited = Signal::Invited { session: session.clone(), after };
                self.deliver(peer, Delivery::Signal(invited));
            }
        }
    }

    /// A connection is over: its name is free, and whoever counted on it hears of it.
    pub(super) fn strike_out(&mut self, id: PeerId) {
        let callsign = self.peers.get_mut(&id).and_then(|peer| peer.callsign.take());
        let Some(device) = callsign else { return };
        for session in self.roll.leave(&device, &id) {
            self.mail(&session, own(Op::LoseDevice { device: device.clone() }));
        }
    }
}
