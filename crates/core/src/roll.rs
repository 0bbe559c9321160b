//! Who is enrolled: connections that can be reached by name while they live.
//!
//! The roll holds presence only. What a device is and what happened to it is in the log; an entry
//! here lives and dies with its connection, so it is never stored.
//!
//! Names are not for whoever comes first: those that the device scopes of configured credentials cover are reserved for
//! the principals of these credentials, and who has enrolled under a name before is in the log.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::id::{Callsign, PrincipalId, SessionId};
use crate::model::DeviceLoss;
use crate::position::Position;
use crate::principal::{Principal, Role};
use crate::reject::Reject;
use crate::scopes::any_match;
use crate::time::Timestamp;

/// A connection asks to be reachable under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The name.
    pub callsign: Callsign,
    /// As what: [`Role::Device`] or [`Role::Orchestrator`].
    pub role: Role,
    /// The device that it is about; it has to be enrolled, and within reach of the principal.
    pub target: Option<Callsign>,
}

/// A connection that is enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolled {
    /// Under which name.
    pub callsign: Callsign,
    /// As what.
    pub role: Role,
    /// Who is behind it.
    pub principal: PrincipalId,
    /// The device that it is about.
    pub target: Option<Callsign>,
    /// Since when.
    pub since: Timestamp,
}

/// Something for an enrolled connection that is no event of a session it follows. Signals take a
/// side path: none is stored, and losing one with the connection that it was for loses nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A session asks something of the device: follow it from here.
    Invited {
        /// Which session.
        session: SessionId,
        /// The place before the first event that concerns the device.
        after: Position,
    },
    /// Another connection of the same principal asks for the name: show a sign of life, or go.
    Contested,
    /// A word from another connection that speaks the same protocol, in that protocol's own terms.
    Note {
        /// Who is behind that connection, as the server knows it.
        from: PrincipalId,
        /// What is said.
        body: Value,
    },
}

/// Why an enrolment is refused, and whom to ask for a sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedEnrolment<P> {
    /// For whoever asked.
    pub reject: Reject,
    /// The connection that holds the name, if it is one of the same principal.
    pub contested: Option<P>,
}

/// What becomes of an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invitation<P> {
    /// The device follows the session already.
    Known,
    /// Nobody is enrolled under the name as a device.
    Offline,
    /// To be delivered here.
    Deliver(P),
}

/// What an enrolment needs before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// Nothing more.
    Now,
    /// That no other principal has ever had a device of this name, which the log knows. Until [`Roll::confirm`] the
    /// name is held, and nobody is reached under it; [`Roll::leave`] gives it back.
    IfUnclaimed,
}

/// Names that are for the devices of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Which: each exact, or a prefix that ends in `*`.
    pub names: Vec<String>,
    /// For whom.
    pub principal: PrincipalId,
}

/// Everybody who is enrolled; `P` says where a connection is reached.
#[derive(Debug)]
pub struct Roll<P> {
    entries: BTreeMap<Callsign, Entry<P>>,
    reservations: Vec<Reservation>,
    count: u64,
    /// The server closes every connection, because it stops.
    stops: bool,
}

#[derive(Debug)]
struct Entry<P> {
    enrolled: Enrolled,
    /// Whose the device was that the connection is about, when it enrolled. When somebody else comes to own that name,
    /// it is another device.
    target_owner: Option<PrincipalId>,
    place: P,
    order: u64,
    /// Whether the enrolment counts already.
    confirmed: bool,
    /// The sessions that rely on the device, with the place of the last event that asks something of
    /// it; the one that keeps its profile is among them.
    sessions: BTreeMap<SessionId, Position>,
}

impl<P> Entry<P> {
    fn is_device(&self) -> bool {
        self.confirmed && self.enrolled.role == Role::Device
    }
}

impl<P> Default for Roll<P> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), reservations: Vec::new(), count: 0, stops: false }
    }
}

impl<P: Clone + PartialEq> Roll<P> {
    /// Reserves names for principals, instead of those that were reserved before. Whoever is enrolled stays so.
    pub fn reserve(&mut self, reservations: Vec<Reservation>) {
        self.reservations = reservations;
    }

    /// The server stops: connections that end from now on end for that reason.
    pub const fn stop(&mut self) {
        self.stops = true;
    }

    /// Why a device that is not there any more is gone.
    pub const fn loss(&self) -> DeviceLoss {
        if self.stops { DeviceLoss::ServerStops } else { DeviceLoss::Disconnected }
    }

    /// Enrols a connection, for good or until it is known who has had the name before.
    ///
    /// # Errors
    /// The name is not for this principal, or taken, or the device that it is about is not there.
    pub fn enrol(
        &mut self,
        enrolment: Enrolment,
        principal: &Principal,
        place: P,
        now: Timestamp,
    ) -> Result<Granted, RefusedEnrolment<P>> {
        let Enrolment { callsign, role, target } = enrolment;
        let refused = |reject| RefusedEnrolment { reject, contested: None };
        // First, so that nobody finds out who is here under names that are not for them.
        let granted = self.may_have(principal, role, &callsign).map_err(refused)?;
        let target_owner = match &target {
            Some(target) if !self.reaches(principal, None, target) => {
                return Err(refused(Reject::Offline(target.clone())));
            }
            Some(target) => self.entries.get(target).map(|entry| entry.enrolled.principal.clone()),
            None => None,
        };
        if let Some(known) = self.entries.get(&callsign) {
            let same = known.enrolled.principal == principal.id;
            return Err(RefusedEnrolment {
                reject: Reject::Enrolled(callsign),
                contested: same.then(|| known.place.clone()),
            });
        }
        self.count += 1;
        let principal = principal.id.clone();
        let enrolled = Enrolled { callsign: callsign.clone(), role, principal, target, since: now };
        let entry = Entry {
            enrolled,
            target_owner,
            place,
            order: self.count,
            confirmed: granted == Granted::Now,
            sessions: BTreeMap::new(),
        };
        self.entries.insert(callsign, entry);
        Ok(granted)
    }

    /// Nobody else has had the name, so the connection is reached under it from now on.
    pub fn confirm(&mut self, callsign: &Callsign, place: &P) {
        if let Some(entry) = self.entries.get_mut(callsign).filter(|entry| entry.place == *place) {
            entry.confirmed = true;
        }
    }

    /// A credential that names what it may enrol as has just that. Any other one has what is reserved for its
    /// principal, and of the rest whatever nobody else has had: a name that somebody relies on does not become free
    /// when its device is away for a moment.
    fn may_have(&self, principal: &Principal, role: Role, name: &Callsign) -> Result<Granted, Reject> {
        let scopes = &principal.scopes;
        if !scopes.allows_callsign(role, name.as_str()) {
            return Err(Reject::Forbidden);
        }
        if scopes.names_devices() {
            return Ok(Granted::Now);
        }
        let covers = |known: &&Reservation| any_match(&known.names, name.as_str());
        let mut reserved = self.reservations.iter().filter(covers).peekable();
        if reserved.peek().is_none() {
            return Ok(Granted::IfUnclaimed);
        }
        if reserved.any(|known| known.principal == principal.id) {
            return Ok(Granted::Now);
        }
        Err(Reject::Forbidden)
    }

    /// Strikes out a connection that is gone; answers the sessions that have to hear of it.
    pub fn leave(&mut self, callsign: &Callsign, place: &P) -> Vec<SessionId> {
        match self.entries.get(callsign) {
            Some(entry) if entry.place == *place => {
                let entry = self.entries.remove(callsign);
                entry.map(|entry| entry.sessions.into_keys().collect()).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Notes that a session asks something of a device, with the event at `asked`.
    pub fn invite(&mut self, device: &Callsign, session: &SessionId, asked: Position) -> Invitation<P> {
        let entry = self.entries.get_mut(device).filter(|entry| entry.is_device());
        let Some(entry) = entry else { return Invitation::Offline };
        match entry.sessions.insert(session.clone(), asked) {
            None => Invitation::Deliver(entry.place.clone()),
            Some(_) => Invitation::Known,
        }
    }

    /// A device has no more business in a session, as far as it has seen. If something was asked of
    /// it since, it stays noted, and has to be invited again after what it has seen.
    pub fn part(&mut self, device: &Callsign, session: &SessionId, seen: u64) -> Option<Position> {
        let entry = self.entries.get_mut(device)?;
        let asked = entry.sessions.get(session)?;
        if asked.seq > seen {
            return Some(Position { seq: seen, ..*asked });
        }
        entry.sessions.remove(session);
        None
    }

    /// Whether a session relies on the device, which may then look at it.
    pub fn is_noted(&self, device: &Callsign, session: &SessionId) -> bool {
        self.entries.get(device).is_some_and(|entry| entry.sessions.contains_key(session))
    }

    /// Whether `device` is enrolled as a device that the principal may give work to, through a connection that is
    /// enrolled as `own` if it is.
    pub fn reaches(&self, principal: &Principal, own: Option<&Callsign>, device: &Callsign) -> bool {
        self.entries.get(device).is_some_and(|entry| {
            let Enrolled { principal: owner, callsign, .. } = &entry.enrolled;
            entry.is_device()
                && principal.scopes.commands(&principal.id, owner, callsign.as_str())
                && self.is_same_target(own, &entry.enrolled)
        })
    }

    /// Where a word from one connection to another goes: to whoever the principal may see, and to an
    /// orchestrator from the device that it is about.
    pub fn find(&self, principal: &Principal, own: Option<&Callsign>, to: &Callsign) -> Option<P> {
        let entry = self.entries.get(to).filter(|entry| entry.confirmed)?;
        let answers = own.is_some()
            && entry.enrolled.target.as_ref() == own
            && entry.target_owner.as_ref() == Some(&principal.id);
        let visible =
            Self::is_visible(principal, &entry.enrolled) && self.is_same_target(own, &entry.enrolled);
        (answers || visible).then(|| entry.place.clone())
    }

    /// Everybody whom the principal may see, in order of enrolment.
    pub fn list(&self, principal: &Principal) -> Vec<Enrolled> {
        let visible = |entry: &&Entry<P>| entry.confirmed && Self::is_visible(principal, &entry.enrolled);
        let mut visible: Vec<&Entry<P>> = self.entries.values().filter(visible).collect();
        visible.sort_unstable_by_key(|entry| entry.order);
        visible.into_iter().map(|entry| entry.enrolled.clone()).collect()
    }

    /// Whether a device is still the one that a connection was enrolled for, if it was for one of that name.
    fn is_same_target(&self, own: Option<&Callsign>, device: &Enrolled) -> bool {
        let Some(own) = own.and_then(|own| self.entries.get(own)) else { return true };
        own.enrolled.target.as_ref() != Some(&device.callsign)
            || own.target_owner.as_ref() == Some(&device.principal)
    }

    fn is_visible(principal: &Principal, enrolled: &Enrolled) -> bool {
        let Principal { id, scopes, .. } = principal;
        let (owner, name) = (&enrolled.principal, enrolled.callsign.as_str());
        let own = owner == id && (!scopes.names_devices() || scopes.allows_callsign(enrolled.role, name));
        own || scopes.commands(id, owner, name)
    }
}

#[cfg(test)]
#[path = "roll_tests.rs"]
mod tests;
