//! Beats on schedule, and peers that do not answer them.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_core::Timestamp;

/// One loop for each client. The first beat comes after a full interval; a peer that says nothing
/// between two beats is dead.
#[derive(Clone, Debug, Default)]
pub struct HeartbeatManager {
    loops: BTreeMap<String, Loop>,
}

#[derive(Clone, Debug)]
struct Loop {
    interval: Duration,
    next: Timestamp,
    /// A beat was sent, and nothing was heard since.
    unanswered: bool,
}

/// What a beat brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// Send a heartbeat for this client.
    Beat(String),
    /// The last heartbeat of this client was not answered: its connection is dead. Its loop has ended.
    Dead(String),
}

impl HeartbeatManager {
    /// Begins the loop of a client, or begins it anew.
    pub fn start(&mut self, client: impl Into<String>, interval: Duration, now: Timestamp) {
        let interval = interval.max(MIN_INTERVAL);
        let next = now.after(interval);
        self.loops.insert(client.into(), Loop { interval, next, unanswered: false });
    }

    /// Ends the loop of a client; answers whether there was one.
    pub fn stop(&mut self, client: &str) -> bool {
        self.loops.remove(client).is_some()
    }

    /// Ends every loop.
    pub fn stop_all(&mut self) {
        self.loops.clear();
    }

    /// Whether a client has a loop.
    pub fn is_running(&self, client: &str) -> bool {
        self.loops.contains_key(client)
    }

    /// The time between two beats of a client.
    pub fn interval(&self, client: &str) -> Option<Duration> {
        self.loops.get(client).map(|beat| beat.interval)
    }

    /// The client's peer said something. Anything will do: the reference server refuses heartbeats of
    /// constellations, and is alive all the same.
    pub fn heard(&mut self, client: &str) {
        if let Some(beat) = self.loops.get_mut(client) {
            beat.unanswered = false;
        }
    }

    /// What is due; call it until there is nothing. A beat that comes late delays the next ones.
    pub fn poll(&mut self, now: Timestamp) -> Option<Pulse> {
        let (client, beat) = self.loops.iter_mut().find(|(_, beat)| beat.next <= now)?;
        let client = client.clone();
        if beat.unanswered {
            self.loops.remove(&client);
            return Some(Pulse::Dead(client));
        }
        beat.unanswered = true;
        beat.next = now.after(beat.interval);
        Some(Pulse::Beat(client))
    }

    /// When the next beat is due.
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.loops.values().map(|beat| beat.next).min()
    }
}

/// What the library uses unless told otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);

/// A shorter interval is no interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
