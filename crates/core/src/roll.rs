//! Who is enrolled: connections that can be reached by name while they live.
//!
//! The roll holds presence only. What a device is and what happened to it is in the log; an entry
//! here lives and dies with its connection, so it is never stored.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::id::{Callsign, PrincipalId, SessionId};
use crate::position::Position;
use crate::principal::{Principal, Role};
use crate::reject::Reject;
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

/// Everybody who is enrolled; `P` says where a connection is reached.
#[derive(Debug)]
pub struct Roll<P> {
    entries: BTreeMap<Callsign, Entry<P>>,
    count: u64,
}

#[derive(Debug)]
struct Entry<P> {
    enrolled: Enrolled,
    place: P,
    order: u64,
    /// The sessions that rely on the device, with the place of the last event that asks something of
    /// it; the one that keeps its profile is among them.
    sessions: BTreeMap<SessionId, Position>,
}

impl<P> Default for Roll<P> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), count: 0 }
    }
}

impl<P: Clone + PartialEq> Roll<P> {
    /// Enrols a connection.
    ///
    /// # Errors
    /// The name is taken, or the device that it is about is not there.
    pub fn enrol(
        &mut self,
        enrolment: Enrolment,
        principal: &Principal,
        place: P,
        now: Timestamp,
    ) -> Result<(), RefusedEnrolment<P>> {
        let Enrolment { callsign, role, target } = enrolment;
        if let Some(target) = &target
            && !self.reaches(principal, target)
        {
            return Err(RefusedEnrolment { reject: Reject::Offline(target.clone()), contested: None });
        }
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
        let entry = Entry { enrolled, place, order: self.count, sessions: BTreeMap::new() };
        self.entries.insert(callsign, entry);
        Ok(())
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
        let entry = self.entries.get_mut(device).filter(|entry| entry.enrolled.role == Role::Device);
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

    /// Whether `device` is enrolled as a device that the principal may give work to.
    pub fn reaches(&self, principal: &Principal, device: &Callsign) -> bool {
        self.entries.get(device).is_some_and(|entry| {
            entry.enrolled.role == Role::Device && Self::is_visible(principal, &entry.enrolled)
        })
    }

    /// Where a word from one connection to another goes: to whoever the principal may see, and to an
    /// orchestrator from the device that it is about.
    pub fn find(&self, principal: &Principal, own: Option<&Callsign>, to: &Callsign) -> Option<P> {
        let entry = self.entries.get(to)?;
        let answers = own.is_some() && entry.enrolled.target.as_ref() == own;
        (answers || Self::is_visible(principal, &entry.enrolled)).then(|| entry.place.clone())
    }

    /// Everybody whom the principal may see, in order of enrolment.
    pub fn list(&self, principal: &Principal) -> Vec<Enrolled> {
        let mut visible: Vec<&Entry<P>> =
            self.entries.values().filter(|entry| Self::is_visible(principal, &entry.enrolled)).collect();
        visible.sort_unstable_by_key(|entry| entry.order);
        visible.into_iter().map(|entry| entry.enrolled.clone()).collect()
    }

    fn is_visible(principal: &Principal, enrolled: &Enrolled) -> bool {
        enrolled.principal == principal.id || principal.scopes.targets(enrolled.callsign.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Scopes;

    fn enrolment(callsign: &str, role: Role, target: Option<&str>) -> Enrolment {
        Enrolment { callsign: callsign.into(), role, target: target.map(Callsign::from) }
    }

    fn roll() -> Roll<u32> {
        let mut roll = Roll::default();
        let ann = Principal::new("ann");
        roll.enrol(enrolment("dev", Role::Device, None), &ann, 1, Timestamp::default()).unwrap();
        roll.enrol(enrolment("boss", Role::Orchestrator, Some("dev")), &ann, 2, Timestamp::default())
            .unwrap();
        roll
    }

    #[test]
    fn a_name_is_taken_until_its_own_connection_leaves() {
        let mut roll = roll();
        let again = |roll: &mut Roll<u32>, who| {
            roll.enrol(enrolment("dev", Role::Device, None), &Principal::new(who), 9, Timestamp::default())
        };
        let refused = again(&mut roll, "ann").unwrap_err();
        assert_eq!((refused.reject, refused.contested), (Reject::Enrolled("dev".into()), Some(1)));
        assert_eq!(again(&mut roll, "bob").unwrap_err().contested, None, "a stranger contests nothing");
        assert!(roll.leave(&"dev".into(), &9).is_empty());
        assert!(again(&mut roll, "ann").is_err(), "it was not the stranger's to leave");
        roll.leave(&"dev".into(), &1);
        again(&mut roll, "bob").unwrap();
    }

    #[test]
    fn targets_are_devices_within_reach() {
        let mut roll = roll();
        let mut enrol = |who: &Principal, name: &str, target: &str| {
            roll.enrol(enrolment(name, Role::Orchestrator, Some(target)), who, 9, Timestamp::default())
        };
        let bob = Principal::new("bob");
        let offline = |refused: RefusedEnrolment<u32>| refused.reject;
        assert_eq!(enrol(&bob, "b", "dev").map_err(offline), Err(Reject::Offline("dev".into())));
        assert_eq!(enrol(&bob, "b", "boss").map_err(offline), Err(Reject::Offline("boss".into())));
        let trusted = Principal { scopes: Scopes::parse("target:de*"), ..bob };
        assert_eq!(enrol(&trusted, "b", "dev"), Ok(()));
        assert_eq!(
            enrol(&Principal::new("ann"), "c", "boss").map_err(offline),
            Err(Reject::Offline("boss".into())),
            "an orchestrator is no device"
        );
    }

    #[test]
    fn sessions_are_told_once_each_and_again_after_parting() {
        let mut roll = roll();
        let (dev, one) = (Callsign::from("dev"), SessionId::from("one"));
        let at = |seq| Position { epoch: 7, seq };
        assert_eq!(roll.invite(&dev, &one, at(3)), Invitation::Deliver(1));
        assert_eq!(roll.invite(&dev, &one, at(5)), Invitation::Known);
        assert!(roll.is_noted(&dev, &one));
        assert_eq!(roll.part(&dev, &one, 4), Some(at(4)), "the event at 5 has not been seen");
        assert_eq!(roll.part(&dev, &one, 5), None);
        assert!(!roll.is_noted(&dev, &one));
        assert_eq!(roll.invite(&dev, &one, at(8)), Invitation::Deliver(1));
        assert_eq!(roll.invite(&"boss".into(), &one, at(8)), Invitation::Offline);
        assert_eq!(roll.invite(&"nobody".into(), &one, at(8)), Invitation::Offline);
        assert_eq!(roll.leave(&dev, &1), [one]);
    }

    #[test]
    fn whoever_is_asked_may_answer_and_strangers_see_nobody() {
        let mut roll = roll();
        let (ann, bob) = (Principal::new("ann"), Principal::new("bob"));
        roll.enrol(enrolment("his", Role::Device, None), &bob, 3, Timestamp::default()).unwrap();
        let names = |list: Vec<Enrolled>| list.iter().map(|e| e.callsign.to_string()).collect::<Vec<_>>();
        assert_eq!(names(roll.list(&ann)), ["dev", "boss"]);
        assert_eq!(names(roll.list(&bob)), ["his"]);
        assert_eq!(roll.find(&bob, Some(&"his".into()), &"boss".into()), None);
        assert_eq!(roll.find(&bob, Some(&"dev".into()), &"boss".into()), Some(2), "its own orchestrator");
        assert_eq!(roll.find(&ann, None, &"dev".into()), Some(1));
        assert_eq!(roll.find(&bob, None, &"dev".into()), None);
    }
}
