//! What the connections of this process know together: which tasks run, and which were refused.
//!
//! Who is connected is the server's to know, and what happened is in the log. Here is only what a
//! session id means while a task runs under it (§9.2), how many tasks a device has (§11), of which tasks
//! something is still to come, and why others were refused, which can be read over HTTP for a while (A17).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use switchboard_core::{Bucket, Callsign, PrincipalId, Rate, Timestamp};

use crate::awaited::{Awaited, Dispatch, Key};
use crate::error::words;
use crate::ledger::TaskResult;
use crate::limits::AipLimits;

/// Shared by every connection of the protocol.
#[derive(Debug)]
pub struct Fleet {
    records: Mutex<Records>,
    tasks_per_device: usize,
    results: usize,
    result_age: Duration,
    dispatch_age: Duration,
    refusals: Rate,
}

#[derive(Debug, Default)]
struct Records {
    /// Tasks that run, by whose they are and the session id of their client: session ids are names within a
    /// principal, so those of two never meet.
    running: HashMap<PrincipalId, HashMap<String, Running>>,
    per_device: HashMap<Callsign, usize>,
    awaited: Awaited,
    turned_away: HashMap<Key, TaskResult>,
    /// Refusals in the order in which they came; some have been replaced since.
    order: VecDeque<(Key, Timestamp)>,
    refused: BTreeMap<PrincipalId, Refused>,
}

/// How often a principal was refused lately.
#[derive(Debug)]
struct Refused {
    bucket: Bucket,
    /// It was too often: nothing more is taken before this (§9.5).
    until: Option<Timestamp>,
}

#[derive(Debug)]
struct Running {
    client: Callsign,
    device: Callsign,
}

/// Who a session id belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) principal: PrincipalId,
    pub(crate) client: Callsign,
}

/// Why a session id cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The same client runs a task under it.
    ByItself,
    /// Another client of the same principal does.
    ByAnother,
    /// The device has as many tasks as it may.
    Busy,
}

impl Fleet {
    /// Nothing runs, and nothing has.
    pub fn new(limits: &AipLimits) -> Self {
        let most = u64::from(limits.refusals_per_minute);
        Self {
            records: Mutex::default(),
            tasks_per_device: limits.tasks_per_device as usize,
            results: limits.results as usize,
            result_age: Duration::from_secs(u64::from(limits.result_s)),
            dispatch_age: Duration::from_secs(u64::from(limits.dispatch_s)),
            refusals: Rate::per_minute(most, most),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session id for a task of this owner.
    pub(crate) fn claim(&self, session_id: &str, owner: Owner, device: &Callsign) -> Result<(), Taken> {
        let mut records = self.records();
        let Owner { principal, client } = owner;
        if let Some(known) = records.running.get(&principal).and_then(|tasks| tasks.get(session_id)) {
            return Err(if known.client == client { Taken::ByItself } else { Taken::ByAnother });
        }
        let count = records.per_device.entry(device.clone()).or_default();
        if *count >= self.tasks_per_device {
            return Err(Taken::Busy);
        }
        *count += 1;
        let running = Running { client, device: device.clone() };
        records.running.entry(principal).or_default().insert(session_id.to_owned(), running);
        Ok(())
    }

    /// Gives a session id back.
    pub(crate) fn release(&self, session_id: &str, owner: &Owner) {
        let mut records = self.records();
        let Some(tasks) = records.running.get_mut(&owner.principal) else { return };
        if tasks.get(session_id).is_none_or(|known| known.client != owner.client) {
            return;
        }
        let Some(Running { device, .. }) = tasks.remove(session_id) else { return };
        // A burst leaves no memory behind.
        if tasks.len() * 8 < tasks.capacity() {
            tasks.shrink_to_fit();
        }
        if tasks.is_empty() {
            records.running.remove(&owner.principal);
        }
        if let Some(count) = records.per_device.get_mut(&device) {
            *count -= 1;
            if *count == 0 {
                records.per_device.remove(&device);
            }
        }
    }

    /// A task begins, and what came of an earlier one of its name says nothing any more.
    pub(crate) fn begin(&self, key: Key, now: Timestamp) {
        self.records().awaited.begin(key, now);
    }

    /// The task that began then is over.
    pub(crate) fn end(&self, key: &Key, begun: Timestamp) {
        self.records().awaited.end(key, begun);
    }

    /// A task is sent to a device, which is expected to ask for it itself.
    pub(crate) fn dispatch(&self, dispatch: Dispatch) {
        let (mut records, now) = (self.records(), dispatch.at);
        self.give_up_late(&mut records, now);
        if let Some(given_up) = records.awaited.dispatch(dispatch) {
            self.give_up(&mut records, given_up, words::TOO_MANY_DISPATCHES, now);
        }
    }

    /// What a device takes up under this name, and under this session id if it says one.
    pub(crate) fn take_up(
        &self,
        (principal, device): (&PrincipalId, &Callsign),
        task_name: &str,
        session_id: Option<&str>,
        now: Timestamp,
    ) -> Option<Dispatch> {
        let mut records = self.records();
        self.give_up_late(&mut records, now);
        records.awaited.take(|known| {
            known.is_for(principal, device)
                && known.task_name == task_name
                && session_id.is_none_or(|id| id == known.session_id)
        })
    }

    /// What was sent under this session id will not be taken up.
    pub(crate) fn decline(
        &self,
        (principal, device): (&PrincipalId, &Callsign),
        session_id: &str,
        why: &str,
        now: Timestamp,
    ) {
        let mut records = self.records();
        let is_it = |known: &Dispatch| known.is_for(principal, device) && known.session_id == session_id;
        if let Some(declined) = records.awaited.take(is_it) {
            self.give_up(&mut records, declined, why, now);
        }
    }

    /// Nothing was sent after all. The session id is one that was made up here, so it is that of no other.
    pub(crate) fn withdraw(&self, session_id: &str) {
        let mut records = self.records();
        let withdrawn = records.awaited.take(|known| known.session_id == session_id);
        if let Some(Dispatch { reader, task_name, at, .. }) = withdrawn {
            records.awaited.end(&(reader, task_name), at);
        }
    }

    fn give_up_late(&self, records: &mut Records, now: Timestamp) {
        for late in records.awaited.expired(self.dispatch_age, now) {
            self.give_up(records, late, words::NOT_TAKEN_UP, now);
        }
    }

    fn give_up(&self, records: &mut Records, dispatch: Dispatch, why: &str, now: Timestamp) {
        let Dispatch { reader, task_name, at, .. } = dispatch;
        let key = (reader, task_name);
        // Something of that name may have begun since.
        if records.awaited.since(&key) == Some(at) {
            self.keep(records, key, why, now);
        }
    }

    /// Keeps why a task was refused, to be read by whoever asked for it: there is nothing of it in the log.
    pub(crate) fn turn_away(&self, key: Key, why: &str, now: Timestamp) {
        self.keep(&mut self.records(), key, why, now);
    }

    fn keep(&self, records: &mut Records, key: Key, why: &str, now: Timestamp) {
        records.awaited.end(&key, now);
        let result = TaskResult { json: json!({ "error": why }).to_string(), at: now };
        records.order.push_back((key.clone(), now));
        records.turned_away.insert(key, result);
        while let Some((key, at)) = records.order.front() {
            if now.since(*at) < self.result_age && records.order.len() <= self.results {
                break;
            }
            if records.turned_away.get(key).is_some_and(|known| known.at == *at) {
                records.turned_away.remove(key);
            }
            records.order.pop_front();
        }
    }

    /// Why a task of this name was refused last, if that is not forgotten; and since when something is to come of it.
    pub(crate) fn standing(&self, key: &Key, now: Timestamp) -> (Option<TaskResult>, Option<Timestamp>) {
        let mut records = self.records();
        self.give_up_late(&mut records, now);
        let refusal = records.turned_away.get(key).filter(|known| known.at > self.forgotten(now)).cloned();
        (refusal, records.awaited.since(key))
    }

    /// What ended at this moment or before is forgotten.
    pub(crate) fn forgotten(&self, now: Timestamp) -> Timestamp {
        let age = u64::try_from(self.result_age.as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(now.as_micros().saturating_sub(age))
    }

    /// Counts a registration that was refused because it was malformed, or asked for what the credential does not
    /// allow. One that only comes too early, for a name that a dead link still holds or a device that is not there
    /// yet, is not counted: a healthy client repeats it.
    pub(crate) fn count_refusal(&self, principal: &PrincipalId, now: Timestamp) {
        let mut records = self.records();
        let waits = |known: &Refused| known.until.is_some_and(|until| until > now);
        records.refused.retain(|_, known| waits(known) || !known.bucket.is_full(now));
        let new = || Refused { bucket: Bucket::new(self.refusals), until: None };
        let known = records.refused.entry(principal.clone()).or_insert_with(new);
        // What is refused is refused however full the bucket is.
        let _ = known.bucket.take(1, now);
        let mut next = known.bucket;
        if !waits(known) && next.take(1, now).is_err() {
            known.until = Some(now.after(TOO_OFTEN));
        }
    }

    /// How long a principal that was refused too often has to wait.
    pub(crate) fn wait_of(&self, principal: &PrincipalId, now: Timestamp) -> Option<Duration> {
        let until = self.records().refused.get(principal)?.until?;
        (until > now).then(|| until.since(now))
    }
}

/// How long a principal that was refused too often has to wait.
const TOO_OFTEN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        Fleet::new(&AipLimits { tasks_per_device: 2, results: 2, ..AipLimits::default() })
    }

    fn owner(client: &str) -> Owner {
        Owner { principal: "ann".into(), client: client.into() }
    }

    #[test]
    fn aip_091_a_session_id_belongs_to_one_client_of_a_principal_while_its_task_runs() {
        let (fleet, device) = (fleet(), Callsign::from("dev"));
        fleet.claim("s", owner("a"), &device).unwrap();
        assert_eq!(fleet.claim("s", owner("a"), &device), Err(Taken::ByItself));
        assert_eq!(fleet.claim("s", owner("b"), &device), Err(Taken::ByAnother));
        fleet.release("s", &owner("b"));
        assert_eq!(
            fleet.claim("s", owner("b"), &device),
            Err(Taken::ByAnother),
            "it is not theirs to give back"
        );
        let bob = Owner { principal: "bob".into(), client: "a".into() };
        fleet.claim("s", bob.clone(), &"his".into()).unwrap();
        fleet.release("s", &bob);
        assert_eq!(fleet.claim("s", owner("a"), &device), Err(Taken::ByItself), "bob's was another");
        fleet.claim("t", owner("b"), &device).unwrap();
        assert_eq!(fleet.claim("u", owner("b"), &device), Err(Taken::Busy));
        fleet.claim("u", owner("b"), &"other".into()).unwrap();
        fleet.release("s", &owner("a"));
        fleet.claim("s", owner("b"), &device).unwrap();
    }

    #[test]
    fn refusals_are_kept_for_a_time_and_up_to_a_number() {
        let (fleet, ann) = (fleet(), PrincipalId::from("ann"));
        let at = |after: u64| Timestamp::from_secs(10_000 + after);
        let why = |reader: &str, name: &str, now| {
            fleet.standing(&(reader.into(), name.into()), at(now)).0.map(|result| result.json)
        };
        fleet.turn_away((ann.clone(), "one".into()), "busy", at(0));
        assert_eq!(why("ann", "one", 1).unwrap(), r#"{"error":"busy"}"#);
        assert_eq!(why("bob", "one", 1), None);
        fleet.turn_away((ann.clone(), "one".into()), "gone", at(1));
        assert_eq!(why("ann", "one", 1).unwrap(), r#"{"error":"gone"}"#, "the latest wins");
        fleet.turn_away((ann.clone(), "two".into()), "busy", at(2));
        assert!(why("ann", "one", 2).is_some(), "only what was replaced goes");
        fleet.turn_away((ann.clone(), "three".into()), "busy", at(3));
        assert_eq!(why("ann", "one", 3), None, "the oldest goes");
        assert!(why("ann", "two", 3601).is_some());
        assert_eq!(why("ann", "two", 3602), None);
        fleet.turn_away((ann, "four".into()), "busy", at(9000));
        assert_eq!(fleet.records().turned_away.len(), 1);
    }

    #[test]
    fn whoever_is_refused_too_often_waits() {
        let fleet = Fleet::new(&AipLimits { refusals_per_minute: 2, ..AipLimits::default() });
        let (ann, at) = (PrincipalId::from("ann"), Timestamp::from_secs);
        fleet.count_refusal(&ann, at(100));
        assert_eq!(fleet.wait_of(&ann, at(100)), None);
        fleet.count_refusal(&ann, at(100));
        assert_eq!(fleet.wait_of(&ann, at(100)), Some(Duration::from_secs(60)));
        assert_eq!(fleet.wait_of(&"bob".into(), at(100)), None);
        assert_eq!(fleet.wait_of(&ann, at(159)), Some(Duration::from_secs(1)), "for a whole minute");
        assert_eq!(fleet.wait_of(&ann, at(160)), None);
        fleet.count_refusal(&ann, at(160));
        assert_eq!(fleet.wait_of(&ann, at(160)), None, "and then begins anew");
    }
}
