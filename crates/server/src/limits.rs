//! How many connections there may be, and how fast things may come.
//!
//! Time enters as `now`. Everything that is remembered about an address or a principal is
//! forgotten once it no longer matters, so memory stays within what is connected plus what came
//! in the last seconds.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::{Bucket, PrincipalId, Rate, Timestamp};

use crate::config::LimitsConfig;

/// Counts connections: all of them, per address and per principal.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    shared: Arc<Shared>,
}

impl ConnectionLimits {
    /// The bounds of a configuration.
    pub fn new(limits: &LimitsConfig) -> Self {
        Self { shared: Arc::new(Shared { limits: limits.clone(), counts: Mutex::default() }) }
    }

    /// Counts a new connection from `address`; it is counted until the guard is dropped. To be
    /// asked before anything is read from the peer but its request. A protocol may be stricter than
    /// the server about how fast they come.
    ///
    /// # Errors
    /// There are too many, or they come too fast.
    pub fn open(
        &self,
        address: IpAddr,
        protocol: &'static str,
        arrivals: Option<Rate>,
        now: Timestamp,
    ) -> Result<ConnectionGuard, TooMany> {
        let limits = &self.shared.limits;
        let network = network(address);
        let mut counts = self.shared.counts.lock();
        let all = counts.all;
        let rate = Rate::per_second(
            limits.new_connections_per_address_per_s,
            limits.new_connections_per_address_burst,
        );
        let entry = counts.addresses.entry(network, now, || AddressCount {
            connections: 0,
            bucket: Bucket::new(rate),
            protocols: Vec::new(),
            guesses: Guesses::default(),
        });
        if let Some(retry_after) = entry.guesses.shut_out(now) {
            return Err(TooMany { what: Limit::Credentials, retry_after });
        }
        let too_fast = |retry_after| TooMany { what: Limit::Rate, retry_after };
        if let Some(rate) = arrivals {
            entry.bucket_of(protocol, rate).take(1, now).map_err(too_fast)?;
        }
        entry.bucket.take(1, now).map_err(too_fast)?;
        if entry.connections >= limits.connections_per_address {
            return Err(TooMany { what: Limit::Address, retry_after: RETRY });
        }
        if all >= limits.connections {
            return Err(TooMany { what: Limit::All, retry_after: RETRY });
        }
        entry.connections += 1;
        counts.all += 1;
        drop(counts);
        Ok(ConnectionGuard { shared: Arc::clone(&self.shared), network, principal: None })
    }

    /// Connections at this moment.
    pub fn count(&self) -> usize {
        self.shared.counts.lock().all
    }
}

/// One counted connection.
#[derive(Debug)]
pub struct ConnectionGuard {
    shared: Arc<Shared>,
    network: IpAddr,
    principal: Option<PrincipalId>,
}

impl ConnectionGuard {
    /// Counts the connection for its principal, too, once that is known.
    ///
    /// # Errors
    /// The principal has too many.
    pub fn identify(&mut self, principal: &PrincipalId) -> Result<(), TooMany> {
        if self.principal.is_some() {
            return Ok(());
        }
        let mut counts = self.shared.counts.lock();
        let count = counts.principals.entry(principal.clone()).or_default();
        if *count >= self.shared.limits.connections_per_principal {
            return Err(TooMany { what: Limit::Principal, retry_after: RETRY });
        }
        *count += 1;
        drop(counts);
        self.principal = Some(principal.clone());
        Ok(())
    }

    /// Counts the connection for another principal than before.
    ///
    /// # Errors
    /// The principal has too many; the connection is still counted for the one before.
    pub fn transfer(&mut self, principal: &PrincipalId) -> Result<(), TooMany> {
        let before = self.principal.take();
        let counted = self.identify(principal);
        match (counted, before) {
            (Ok(()), Some(before)) => self.shared.counts.lock().forget_one(&before),
            (Ok(()), None) => {}
            (Err(_), before) => self.principal = before,
        }
        counted
    }

    /// Whether nobody from the address is heard, for too many credentials that were not valid.
    pub fn is_shut_out(&self, now: Timestamp) -> bool {
        let counts = self.shared.counts.lock();
        let entry = counts.addresses.entries.get(&self.network);
        entry.is_some_and(|entry| entry.guesses.shut_out(now).is_some())
    }

    /// Counts a credential that is not valid against the address. Too many, and nobody from there is
    /// heard for a while; on loopback whoever guesses has easier ways.
    pub fn count_bad_credential(&self, now: Timestamp) {
        if self.network.is_loopback() {
            return;
        }
        let most = self.shared.limits.bad_credentials_per_minute;
        let mut counts = self.shared.counts.lock();
        if let Some(entry) = counts.addresses.entries.get_mut(&self.network) {
            entry.guesses.count(most, now);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut counts = self.shared.counts.lock();
        counts.all = counts.all.saturating_sub(1);
        if let Some(entry) = counts.addresses.entries.get_mut(&self.network) {
            entry.connections = entry.connections.saturating_sub(1);
        }
        if let Some(principal) = &self.principal {
            counts.forget_one(principal);
        }
    }
}

/// A connection that may not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many connections ({what:?}), retry in {retry_after:?}")]
pub struct TooMany {
    /// Which bound was reached.
    pub what: Limit,
    /// When to try again.
    pub retry_after: Duration,
}

impl TooMany {
    /// When to try again, in whole milliseconds, at least one.
    pub fn retry_ms(&self) -> u64 {
        u64::try_from(self.retry_after.as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

/// A bound on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Of the whole server.
    All,
    /// Of one address.
    Address,
    /// Of one address, per second.
    Rate,
    /// Of one principal.
    Principal,
    /// Of credentials from one address that were not valid.
    Credentials,
}

impl Limit {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "connections",
            Self::Address => "connections_per_address",
            Self::Rate => "new_connections_per_address",
            Self::Principal => "connections_per_principal",
            Self::Credentials => "bad_credentials_per_minute",
        }
    }
}

/// How fast something may come from one address; loopback is exempt.
#[derive(Debug)]
pub(crate) struct AddressRate {
    rate: Rate,
    entries: Mutex<Swept<IpAddr, Bucket>>,
}

impl AddressRate {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, entries: Mutex::default() }
    }

    /// Takes one from an address.
    ///
    /// # Errors
    /// They come too fast; after this long there is room.
    pub(crate) fn take(&self, address: IpAddr, now: Timestamp) -> Result<(), Duration> {
        let network = network(address);
        if network.is_loopback() {
            return Ok(());
        }
        self.entries.lock().entry(network, now, || Bucket::new(self.rate)).take(1, now)
    }
}

/// What a principal may use over all its connections.
#[derive(Debug)]
pub struct PrincipalBuckets {
    rates: Rates,
    entries: Mutex<Swept<(PrincipalId, &'static str), Arc<PrincipalBucket>>>,
}

impl PrincipalBuckets {
    /// The rates of a configuration.
    pub fn new(limits: &LimitsConfig) -> Self {
        let rates = Rates {
            frames: Rate::per_second(limits.principal_frames_per_s, limits.principal_frames_burst),
            bytes: Rate::per_second(limits.principal_bytes_per_s, limits.principal_bytes_burst),
            turns: Rate::per_second(limits.principal_turns_per_s, limits.principal_turns_burst),
        };
        Self { rates, entries: Mutex::default() }
    }

    /// The bucket that all connections of `principal` share; those of a protocol whose frames have a
    /// rate of their own share another. A connection keeps it while it lives.
    pub fn of(
        &self,
        principal: &PrincipalId,
        own: Option<(&'static str, Rate)>,
        now: Timestamp,
    ) -> Arc<PrincipalBucket> {
        let mut entries = self.entries.lock();
        let (protocol, frames) = own.unwrap_or(("", self.rates.frames));
        let bucket = entries.entry((principal.clone(), protocol), now, || {
            Arc::new(PrincipalBucket {
                inbound: Mutex::new(Inbound {
                    frames: Bucket::new(frames),
                    bytes: Bucket::new(self.rates.bytes),
                }),
                turns: Mutex::new(Bucket::new(self.rates.turns)),
            })
        });
        Arc::clone(bucket)
    }

    /// Principals that are remembered.
    pub fn len(&self) -> usize {
        self.entries.lock().entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What one principal may use.
#[derive(Debug)]
pub struct PrincipalBucket {
    inbound: Mutex<Inbound>,
    turns: Mutex<Bucket>,
}

#[derive(Debug)]
struct Inbound {
    frames: Bucket,
    bytes: Bucket,
}

impl Inbound {
    fn is_full(&mut self, now: Timestamp) -> bool {
        self.frames.is_full(now) && self.bytes.is_full(now)
    }
}

impl PrincipalBucket {
    /// Takes inbound frames, and the bytes that they have.
    ///
    /// # Errors
    /// They come too fast; after this long there is room.
    pub fn take_inbound(&self, frames: u64, bytes: u64, now: Timestamp) -> Result<(), Duration> {
        let mut inbound = self.inbound.lock();
        let taken = [inbound.frames.take(frames, now), inbound.bytes.take(bytes, now)];
        taken.into_iter().filter_map(Result::err).max().map_or(Ok(()), Err)
    }

    /// Takes one turn.
    ///
    /// # Errors
    /// They come too fast; after this long there is room.
    pub fn take_turn(&self, now: Timestamp) -> Result<(), Duration> {
        self.turns.lock().take(1, now)
    }
}

#[derive(Debug)]
struct Shared {
    limits: LimitsConfig,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    addresses: Swept<IpAddr, AddressCount>,
    principals: HashMap<PrincipalId, usize>,
}

impl Counts {
    /// One connection less of this principal.
    fn forget_one(&mut self, principal: &PrincipalId) {
        if let Some(count) = self.principals.get_mut(principal) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.principals.remove(principal);
            }
        }
    }
}

#[derive(Debug)]
struct AddressCount {
    connections: usize,
    bucket: Bucket,
    /// Of protocols that have a rate of their own.
    protocols: Vec<(&'static str, Bucket)>,
    guesses: Guesses,
}

/// Credentials from one address that were not valid.
#[derive(Debug, Default)]
struct Guesses {
    count: u64,
    /// When the first of them came.
    since: Timestamp,
    shut_out_until: Option<Timestamp>,
}

impl Guesses {
    fn count(&mut self, most: u64, now: Timestamp) {
        if now.since(self.since) >= MINUTE {
            *self = Self { since: now, shut_out_until: self.shut_out_until, count: 0 };
        }
        self.count += 1;
        if self.count >= most {
            self.shut_out_until = Some(now.after(MINUTE));
        }
    }

    /// For how long the address is not heard.
    fn shut_out(&self, now: Timestamp) -> Option<Duration> {
        self.shut_out_until.filter(|until| *until > now).map(|until| until.since(now))
    }

    fn is_forgotten(&self, now: Timestamp) -> bool {
        self.shut_out(now).is_none() && now.since(self.since) >= MINUTE
    }
}

impl AddressCount {
    fn bucket_of(&mut self, protocol: &'static str, rate: Rate) -> &mut Bucket {
        let known = self.protocols.iter().position(|(name, _)| *name == protocol);
        let index = known.unwrap_or_else(|| {
            self.protocols.push((protocol, Bucket::new(rate)));
            self.protocols.len() - 1
        });
        &mut self.protocols[index].1
    }
}

#[derive(Debug)]
struct Rates {
    frames: Rate,
    bytes: Rate,
    turns: Rate,
}

/// A map that throws out what is idle whenever it has doubled since it last did.
#[derive(Debug)]
struct Swept<K, V> {
    entries: HashMap<K, V>,
    sweep_at: usize,
}

impl<K, V> Default for Swept<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<K: Eq + Hash, V: Idle> Swept<K, V> {
    fn entry(&mut self, key: K, now: Timestamp, make: impl FnOnce() -> V) -> &mut V {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, value| !value.is_idle(now));
            self.entries.shrink_to(SWEEP_MIN);
            self.sweep_at = self.entries.len().saturating_mul(2).max(SWEEP_MIN);
        }
        self.entries.entry(key).or_insert_with(make)
    }
}

/// Something that may be forgotten.
trait Idle {
    /// Whether it is no different from one that was just made.
    fn is_idle(&mut self, now: Timestamp) -> bool;
}

impl Idle for AddressCount {
    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.connections == 0
            && self.guesses.is_forgotten(now)
            && self.bucket.is_full(now)
            && self.protocols.iter_mut().all(|(_, bucket)| bucket.is_full(now))
    }
}

impl Idle for Bucket {
    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.is_full(now)
    }
}

impl Idle for Arc<PrincipalBucket> {
    fn is_idle(&mut self, now: Timestamp) -> bool {
        Self::strong_count(self) == 1 && self.inbound.lock().is_full(now) && self.turns.lock().is_full(now)
    }
}

/// What counts as one address: an IPv6 user has a whole /64 to choose from.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Below this many entries nothing is thrown out.
const SWEEP_MIN: usize = 256;
/// When to come back after a count was exceeded; nobody knows when another one leaves.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_guesses_credentials_is_not_heard_for_a_minute() {
        let limits = LimitsConfig { bad_credentials_per_minute: 3, ..LimitsConfig::default() };
        let limits = ConnectionLimits::new(&limits);
        let at = Timestamp::from_secs;
        let open = |address: &str, now| limits.open(address.parse().unwrap(), "p", None, at(now));
        let guess = |address, now| open(address, now).unwrap().count_bad_credential(at(now));
        for now in [100, 101, 102] {
            guess("192.0.2.1", now);
        }
        let refused = open("192.0.2.1", 103).unwrap_err();
        assert_eq!((refused.what, refused.retry_after), (Limit::Credentials, Duration::from_secs(59)));
        open("192.0.2.2", 103).unwrap();
        open("192.0.2.1", 162).unwrap();
        for now in [200, 231, 262, 293] {
            guess("192.0.2.3", now);
        }
        open("192.0.2.3", 294).unwrap();
        for now in 100..200 {
            guess("127.0.0.1", now);
        }
        open("127.0.0.1", 200).unwrap();
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    fn limits() -> LimitsConfig {
        LimitsConfig {
            connections: 5,
            connections_per_address: 3,
            connections_per_principal: 2,
            new_connections_per_address_per_s: 10,
            new_connections_per_address_burst: 10,
            ..LimitsConfig::default()
        }
    }

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn guards_count_down() {
        let limits = ConnectionLimits::new(&limits());
        let first: Vec<_> = (0..3).map(|_| limits.open(A, "asp", None, at(0)).unwrap()).collect();
        assert_eq!(limits.open(A, "asp", None, at(0)).unwrap_err().what, Limit::Address);
        let second: Vec<_> = (0..2).map(|_| limits.open(B, "asp", None, at(0)).unwrap()).collect();
        assert_eq!(limits.open(B, "asp", None, at(0)).unwrap_err().what, Limit::All);
        assert_eq!(limits.count(), 5);
        drop(first);
        assert_eq!(limits.count(), 2);
        let again = limits.open(A, "asp", None, at(0)).unwrap();
        drop((second, again));
        assert_eq!(limits.count(), 0);
    }

    #[test]
    fn guards_count_principals() {
        let limits = ConnectionLimits::new(&limits());
        let ann = PrincipalId::from("ann");
        let mut guards: Vec<_> = (0..2).map(|_| limits.open(A, "asp", None, at(0)).unwrap()).collect();
        for guard in &mut guards {
            guard.identify(&ann).unwrap();
            guard.identify(&ann).unwrap();
        }
        let mut third = limits.open(B, "asp", None, at(0)).unwrap();
        assert_eq!(third.identify(&ann).unwrap_err().what, Limit::Principal);
        third.identify(&"bob".into()).unwrap();
        guards.pop();
        let mut fourth = limits.open(B, "asp", None, at(0)).unwrap();
        fourth.identify(&ann).unwrap();
        drop((guards, third, fourth));
        assert!(limits.shared.counts.lock().principals.is_empty());
    }

    #[test]
    fn new_connections_are_paced_per_address() {
        let limits = ConnectionLimits::new(&limits());
        for _ in 0..10 {
            drop(limits.open(A, "asp", None, at(0)).unwrap());
        }
        let refused = limits.open(A, "asp", None, at(0)).unwrap_err();
        assert_eq!((refused.what, refused.retry_ms()), (Limit::Rate, 100));
        assert!(limits.open(B, "asp", None, at(0)).is_ok());
        assert!(limits.open(A, "asp", None, at(100)).is_ok());
    }

    #[test]
    fn a_protocol_may_be_stricter_than_the_server() {
        let limits = ConnectionLimits::new(&limits());
        let strict = Some(Rate::per_second(1, 2));
        for _ in 0..2 {
            drop(limits.open(A, "strict", strict, at(0)).unwrap());
        }
        assert_eq!(limits.open(A, "strict", strict, at(0)).unwrap_err().what, Limit::Rate);
        assert!(limits.open(A, "other", None, at(0)).is_ok(), "nobody else pays for it");
        assert!(limits.open(B, "strict", strict, at(0)).is_ok());
        assert!(limits.open(A, "strict", strict, at(1_000)).is_ok());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), A);
    }

    #[test]
    fn idle_addresses_are_forgotten() {
        let limits = ConnectionLimits::new(&LimitsConfig::default());
        let held = limits.open(A, "asp", None, at(0)).unwrap();
        for number in 0..100_000u32 {
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
            drop(limits.open(address, "asp", None, at(u64::from(number))).unwrap());
        }
        let known = limits.shared.counts.lock().addresses.entries.len();
        assert!(known <= 2 * SWEEP_MIN, "{known}");
        assert!(limits.shared.counts.lock().addresses.entries.contains_key(&A));
        drop(held);
    }

    fn rates() -> LimitsConfig {
        LimitsConfig {
            principal_frames_per_s: 400,
            principal_frames_burst: 800,
            principal_bytes_per_s: 4 << 20,
            principal_bytes_burst: 16 << 20,
            principal_turns_per_s: 40,
            principal_turns_burst: 80,
            ..LimitsConfig::default()
        }
    }

    #[test]
    fn connections_of_a_principal_share_its_rate() {
        let buckets = PrincipalBuckets::new(&rates());
        let (one, two) = (buckets.of(&"ann".into(), None, at(0)), buckets.of(&"ann".into(), None, at(0)));
        for bucket in [&one, &two] {
            for _ in 0..40 {
                bucket.take_turn(at(0)).unwrap();
            }
        }
        assert_eq!(one.take_turn(at(0)), Err(Duration::from_millis(25)));
        assert_eq!(one.take_turn(at(25)), Ok(()));
        assert_eq!(buckets.of(&"bob".into(), None, at(0)).take_turn(at(0)), Ok(()));
        one.take_inbound(800, 0, at(0)).unwrap();
        assert!(two.take_inbound(1, 0, at(0)).is_err());
        let own = Some(("fleet", Rate::per_second(5, 5)));
        let three = buckets.of(&"ann".into(), own, at(0));
        three.take_inbound(5, 0, at(0)).unwrap();
        assert!(three.take_inbound(1, 0, at(0)).is_err());
        assert!(Arc::ptr_eq(&three, &buckets.of(&"ann".into(), own, at(0))));
        two.take_inbound(0, 16 << 20, at(0)).unwrap();
        assert!(one.take_inbound(0, 1, at(0)).is_err());
    }

    #[test]
    fn idle_principals_are_forgotten_and_busy_ones_are_not() {
        let buckets = PrincipalBuckets::new(&rates());
        let held = buckets.of(&"held".into(), None, at(0));
        buckets.of(&"spent".into(), None, at(0)).take_inbound(800, 0, at(0)).unwrap();
        for number in 0..10_000 {
            buckets.of(&PrincipalId::new(format!("p{number}")), None, at(1));
        }
        assert!(buckets.len() <= 2 * SWEEP_MIN, "{}", buckets.len());
        assert!(buckets.of(&"spent".into(), None, at(1)).take_inbound(800, 0, at(1)).is_err());
        assert!(Arc::ptr_eq(&held, &buckets.of(&"held".into(), None, at(1))));
    }
}
