//! What the connections of this process know together: which tasks run, and what came of them.
//!
//! Who is connected is the server's to know, and what happened is in the log. Here is only what a
//! session id means while a task runs under it (§9.2), how many tasks a device has (§11), and the
//! results that can be read over HTTP for a while (A17).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use switchboard_core::{Bucket, Callsign, PrincipalId, Rate, Timestamp};

use crate::limits::AipLimits;

/// Shared by every connection of the protocol.
#[derive(Debug)]
pub struct Fleet {
    records: Mutex<Records>,
    tasks_per_device: usize,
    results: usize,
    result_bytes: usize,
    result_age: Duration,
    refusals: Rate,
}

#[derive(Debug, Default)]
struct Records {
    /// Tasks that run, by the session id of their client.
    running: HashMap<String, Running>,
    per_device: HashMap<Callsign, usize>,
    results: HashMap<(PrincipalId, String), Kept>,
    /// Results in the order in which they came; some have been replaced since.
    order: VecDeque<(PrincipalId, String, u64)>,
    counter: u64,
    /// The size of all results.
    bytes: usize,
    refused: BTreeMap<PrincipalId, Bucket>,
}

#[derive(Debug)]
struct Running {
    owner: Owner,
    device: Callsign,
}

/// The result of a task.
#[derive(Debug)]
struct Kept {
    number: u64,
    at: Timestamp,
    /// As JSON, a small part of what the value takes.
    json: Box<str>,
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
    /// Somebody else does.
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
            result_bytes: MAX_BYTES,
            result_age: Duration::from_secs(u64::from(limits.result_s)),
            refusals: Rate::per_minute(most, most),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session id for a task of this owner.
    pub(crate) fn claim(&self, session_id: &str, owner: Owner, device: &Callsign) -> Result<(), Taken> {
        let mut records = self.records();
        if let Some(known) = records.running.get(session_id) {
            return Err(if known.owner == owner { Taken::ByItself } else { Taken::ByAnother });
        }
        let count = records.per_device.entry(device.clone()).or_default();
        if *count >= self.tasks_per_device {
            return Err(Taken::Busy);
        }
        *count += 1;
        records.running.insert(session_id.to_owned(), Running { owner, device: device.clone() });
        Ok(())
    }

    /// Whether a task runs under this session id, whoever owns it.
    pub(crate) fn is_running(&self, session_id: &str) -> bool {
        self.records().running.contains_key(session_id)
    }

    /// Gives a session id back.
    pub(crate) fn release(&self, session_id: &str, owner: &Owner) {
        let mut records = self.records();
        if records.running.get(session_id).is_none_or(|known| known.owner != *owner) {
            return;
        }
        let Some(Running { device, .. }) = records.running.remove(session_id) else { return };
        if let Some(count) = records.per_device.get_mut(&device) {
            *count -= 1;
            if *count == 0 {
                records.per_device.remove(&device);
            }
        }
        // A burst leaves no memory behind.
        if records.running.len() * 8 < records.running.capacity() {
            records.running.shrink_to_fit();
        }
    }

    /// Keeps the result of a task, to be read by whoever started it.
    pub(crate) fn keep(&self, principal: &PrincipalId, task_name: &str, result: &Value, now: Timestamp) {
        let json = result.to_string().into_boxed_str();
        let mut guard = self.records();
        let records = &mut *guard;
        records.counter += 1;
        let number = records.counter;
        let key = (principal.clone(), task_name.to_owned());
        records.order.push_back((key.0.clone(), key.1.clone(), number));
        records.bytes += json.len();
        if let Some(replaced) = records.results.insert(key, Kept { number, at: now, json }) {
            records.bytes -= replaced.json.len();
        }
        while let Some((principal, task_name, number)) = records.order.front() {
            let key = (principal.clone(), task_name.clone());
            let known = records.results.get(&key).filter(|known| known.number == *number);
            let fresh = known.is_some_and(|known| now.since(known.at) < self.result_age);
            let fits = records.results.len() <= self.results && records.bytes <= self.result_bytes;
            // The one that has just come stays, however large it is.
            if fresh && (fits || records.results.len() == 1) {
                break;
            }
            if known.is_some()
                && let Some(forgotten) = records.results.remove(&key)
            {
                records.bytes -= forgotten.json.len();
            }
            records.order.pop_front();
        }
    }

    /// The result of a task of this principal's as JSON, if it is over and not forgotten.
    pub(crate) fn result(
        &self,
        principal: &PrincipalId,
        task_name: &str,
        now: Timestamp,
    ) -> Option<Box<str>> {
        let records = self.records();
        let known = records.results.get(&(principal.clone(), task_name.to_owned()))?;
        (now.since(known.at) < self.result_age).then(|| known.json.clone())
    }

    /// Counts a refused registration.
    pub(crate) fn count_refusal(&self, principal: &PrincipalId, now: Timestamp) {
        let mut records = self.records();
        records.refused.retain(|_, bucket| !bucket.is_full(now));
        let bucket = records.refused.entry(principal.clone()).or_insert_with(|| Bucket::new(self.refusals));
        // What is refused is refused however full the bucket is.
        let _ = bucket.take(1, now);
    }

    /// How long a principal that was refused too often has to wait.
    pub(crate) fn wait_of(&self, principal: &PrincipalId, now: Timestamp) -> Option<Duration> {
        let mut records = self.records();
        let mut bucket = *records.refused.get_mut(principal)?;
        bucket.take(1, now).err()
    }
}

/// Bytes of results that are kept, all together.
const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fleet() -> Fleet {
        Fleet::new(&AipLimits { tasks_per_device: 2, results: 2, ..AipLimits::default() })
    }

    fn owner(client: &str) -> Owner {
        Owner { principal: "ann".into(), client: client.into() }
    }

    #[test]
    fn a_session_id_belongs_to_one_client_while_its_task_runs() {
        let (fleet, device) = (fleet(), Callsign::from("dev"));
        fleet.claim("s", owner("a"), &device).unwrap();
        assert_eq!(fleet.claim("s", owner("a"), &device), Err(Taken::ByItself));
        assert_eq!(fleet.claim("s", owner("b"), &device), Err(Taken::ByAnother));
        fleet.release("s", &owner("b"));
        assert!(fleet.is_running("s"), "it is not theirs to give back");
        fleet.claim("t", owner("b"), &device).unwrap();
        assert_eq!(fleet.claim("u", owner("b"), &device), Err(Taken::Busy));
        fleet.claim("u", owner("b"), &"other".into()).unwrap();
        fleet.release("s", &owner("a"));
        fleet.claim("s", owner("b"), &device).unwrap();
    }

    #[test]
    fn results_are_kept_for_a_time_and_up_to_a_number() {
        let (fleet, ann) = (fleet(), PrincipalId::from("ann"));
        let at = Timestamp::from_secs;
        fleet.keep(&ann, "one", &json!(1), at(0));
        assert_eq!(fleet.result(&ann, "one", at(1)), Some("1".into()));
        assert_eq!(fleet.result(&"bob".into(), "one", at(1)), None);
        fleet.keep(&ann, "one", &json!(2), at(1));
        assert_eq!(fleet.result(&ann, "one", at(1)), Some("2".into()), "the latest wins");
        fleet.keep(&ann, "two", &json!(3), at(2));
        fleet.keep(&ann, "three", &json!(4), at(3));
        assert_eq!(fleet.result(&ann, "one", at(3)), None, "the oldest goes");
        assert_eq!(fleet.result(&ann, "two", at(3)), Some("3".into()));
        assert_eq!(fleet.result(&ann, "two", at(3602)), None);
    }

    #[test]
    fn results_are_kept_up_to_their_size() {
        let fleet = Fleet { result_bytes: 2500, ..Fleet::new(&AipLimits::default()) };
        let (ann, at) = (PrincipalId::from("ann"), Timestamp::from_secs(0));
        let big = Value::String("x".repeat(1000));
        for name in ["one", "two", "two", "three"] {
            fleet.keep(&ann, name, &big, at);
        }
        assert_eq!(fleet.result(&ann, "one", at), None, "the oldest goes");
        assert!(fleet.result(&ann, "two", at).is_some() && fleet.result(&ann, "three", at).is_some());
        let all = json!([big, { "a": big, "b": [big, null, true, 1] }]);
        fleet.keep(&ann, "all", &all, at);
        assert_eq!(fleet.result(&ann, "all", at), Some(all.to_string().into()), "the latest is kept");
        assert_eq!(fleet.result(&ann, "three", at), None);
        fleet.keep(&ann, "small", &json!(1), at);
        assert_eq!(fleet.result(&ann, "all", at), None);
        assert_eq!(fleet.records().bytes, 1);
    }

    #[test]
    fn whoever_is_refused_too_often_waits() {
        let fleet = Fleet::new(&AipLimits { refusals_per_minute: 2, ..AipLimits::default() });
        let (ann, at) = (PrincipalId::from("ann"), Timestamp::from_secs);
        fleet.count_refusal(&ann, at(100));
        assert_eq!(fleet.wait_of(&ann, at(100)), None);
        fleet.count_refusal(&ann, at(100));
        assert!(fleet.wait_of(&ann, at(100)).is_some());
        assert_eq!(fleet.wait_of(&"bob".into(), at(100)), None);
        assert_eq!(fleet.wait_of(&ann, at(160)), None);
    }
}
