//! Who is enrolled, and what passes between connections beside the log, with the rules of
//! `server/src/gateway.rs`.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_core::{
    Callsign, Committed, Enrolled, Enrolment, Event, Granted, Invitation, Op, Position, Principal,
    PrincipalId, RefusedEnrolment, Reject, Reply, RequestId, Reservation, SessionId, Signal,
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

    /// Reserves names, as the credentials of a configuration do.
    pub fn reserve(&mut self, reservations: Vec<Reservation>) {
        self.roll.reserve(reservations);
    }

    /// Makes a connection reachable by name.
    pub(super) fn enrol_for(&mut self, id: PeerId, request: RequestId, enrolment: Enrolment) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.outstanding += 1;
        let (callsign, role) = (enrolment.callsign.clone(), enrolment.role);
        let enrolled = match &peer.callsign {
            // One connection, one name.
            Some(known) => Err(RefusedEnrolment { reject: Reject::Enrolled(known.clone()), contested: None }),
            None if !peer.principal.scopes.allows_callsign(role, callsign.as_str()) => {
                Err(RefusedEnrolment { reject: Reject::Forbidden, contested: None })
            }
            None => self.roll.enrol(enrolment, &peer.principal, id, self.now),
        };
        let principal = peer.principal.id.clone();
        let enrolled = match enrolled {
            Ok(Granted::IfUnclaimed) if self.is_claimed(&callsign, &principal) => {
                self.roll.leave(&callsign, &id);
                Err(RefusedEnrolment { reject: Reject::Forbidden, contested: None })
            }
            Ok(Granted::Now | Granted::IfUnclaimed) => Ok(()),
            Err(refused) => Err(refused),
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match enrolled {
            Ok(()) => {
                self.roll.confirm(&callsign, &id);
                (peer.callsign, peer.role) = (Some(callsign), Some(role));
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

    /// Whether another principal has had a device of this name, and nobody has released it since.
    fn is_claimed(&self, name: &Callsign, principal: &PrincipalId) -> bool {
        let mut owners = BTreeSet::new();
        for (_, committed) in self.log.all() {
            match &committed.event {
                Event::DeviceJoined { principal, device } if device.callsign == *name => {
                    owners.insert(principal);
                }
                Event::DeviceReleased { device, .. } if device == name => owners.clear(),
                _ => {}
            }
        }
        owners.iter().any(|owner| *owner != principal)
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
            Invitation::Offline => {
                let why = self.roll.loss();
                self.mail(session, own(Op::LoseDevice { device: device.clone(), why }));
            }
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
        let why = self.roll.loss();
        for session in self.roll.leave(&device, &id) {
            self.mail(&session, own(Op::LoseDevice { device: device.clone(), why }));
        }
    }
}
