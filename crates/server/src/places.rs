//! Sockets that carry no connection: how many there may be, and which of them has to go for a newcomer.
//!
//! A socket is counted from its acceptance until it carries a connection of a protocol. While no request is in progress
//! on it, it can be closed to make room: the one that has been idle longest goes first, so that whoever holds many idle
//! sockets loses their own, and a newcomer is let in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::LimitsConfig;
use crate::limits::network;

/// All places for sockets that carry no connection.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    shared: Arc<Shared>,
}

impl Places {
    /// The bounds of a configuration. Many clients come through each proxy, so proxies have no share.
    pub(crate) fn new(limits: &LimitsConfig, proxies: &[IpAddr]) -> Self {
        Self {
            shared: Arc::new(Shared {
                most: limits.handshakes,
                most_per_address: limits.handshakes_per_address,
                proxies: proxies.iter().map(|proxy| network(*proxy)).collect(),
                counts: Mutex::default(),
            }),
        }
    }

    /// A place for a socket that was just accepted. Where there is none left, the socket that has been idle longest is
    /// closed for it; none if there is no idle one.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place> {
        let shared = &self.shared;
        let network = Some(network(address)).filter(|network| !shared.proxies.contains(network));
        let closed = CancellationToken::new();
        let number = shared.counts.lock().accept(shared, network, closed.clone())?;
        Some(Place(Arc::new(Owner { shared: shared.clone(), number, closed })))
    }

    /// How many had to go since this was last asked.
    pub(crate) fn crowd(&self) -> Crowd {
        std::mem::take(&mut self.shared.counts.lock().crowd)
    }
}

/// How many sockets had to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// Idle ones that were closed for others.
    pub(crate) closed: u64,
    /// New ones, where nobody was idle.
    pub(crate) refused: u64,
}

/// The place of one socket, given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place(Arc<Owner>);

impl Place {
    /// A request is in progress until the visit is dropped: the socket is not idle.
    pub(crate) fn begin(&self) -> Visit {
        self.0.shared.counts.lock().begin(self.0.number);
        Visit(Some(self.clone()))
    }

    /// Is not counted any more until the request is over: what is going on has bounds of its own.
    pub(crate) fn give_up(&self) {
        self.0.shared.counts.lock().uncount(self.0.number);
    }

    /// Resolves when the socket has to be closed for somebody else.
    pub(crate) async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// Whether the socket has to be closed for somebody else.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }
}

/// A request in progress. Once it is over, the socket is idle and counted again.
#[derive(Debug)]
pub(crate) struct Visit(Option<Place>);

impl Visit {
    /// The socket carries a connection from now on, and is never idle again.
    pub(crate) fn leave(mut self) {
        if let Some(place) = self.0.take() {
            place.give_up();
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(Place(owner)) = self.0.take() {
            owner.shared.counts.lock().end(&owner.shared, owner.number);
        }
    }
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    number: u64,
    closed: CancellationToken,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut counts = self.shared.counts.lock();
        counts.uncount(self.number);
        counts.sockets.remove(&self.number);
    }
}

#[derive(Debug)]
struct Shared {
    most: usize,
    most_per_address: usize,
    proxies: Vec<IpAddr>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Every socket that has an owner, by its number.
    sockets: HashMap<u64, Socket>,
    /// How many of them are counted.
    counted: usize,
    shares: HashMap<IpAddr, Share>,
    /// The idle ones, in the order in which they fell idle.
    idle: BTreeMap<u64, u64>,
    next: u64,
    crowd: Crowd,
}

#[derive(Debug)]
struct Socket {
    /// None for one of a proxy.
    network: Option<IpAddr>,
    closed: CancellationToken,
    counted: bool,
    /// Its key among the idle ones.
    idle: Option<u64>,
    requests: usize,
}

/// What one address has.
#[derive(Debug, Default)]
struct Share {
    counted: usize,
    idle: BTreeSet<u64>,
}

impl Counts {
    fn accept(&mut self, shared: &Shared, network: Option<IpAddr>, closed: CancellationToken) -> Option<u64> {
        if !self.make_room(shared, network) {
            self.crowd.refused += 1;
            return None;
        }
        let number = self.next();
        self.sockets.insert(number, Socket { network, closed, counted: false, idle: None, requests: 0 });
        self.count(number);
        self.fall_idle(number);
        Some(number)
    }

    fn begin(&mut self, number: u64) {
        self.forget_idle(number);
        if let Some(socket) = self.sockets.get_mut(&number) {
            socket.requests += 1;
        }
    }

    fn end(&mut self, shared: &Shared, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.requests = socket.requests.saturating_sub(1);
        if socket.requests > 0 || socket.closed.is_cancelled() {
            return;
        }
        let (counted, network) = (socket.counted, socket.network);
        if !counted {
            if !self.make_room(shared, network) {
                return self.close(number);
            }
            self.count(number);
        }
        self.fall_idle(number);
    }

    /// Sees to it that there is a place for one more, be it by closing another; answers whether there is.
    fn make_room(&mut self, shared: &Shared, network: Option<IpAddr>) -> bool {
        if let Some(share) = network.and_then(|network| self.shares.get(&network))
            && share.counted >= shared.most_per_address
        {
            let Some(oldest) = share.idle.first().copied() else { return false };
            self.close_idle(oldest);
        }
        if self.counted >= shared.most {
            let Some(oldest) = self.idle.keys().next().copied() else { return false };
            self.close_idle(oldest);
        }
        true
    }

    fn close_idle(&mut self, idle: u64) {
        if let Some(number) = self.idle.get(&idle).copied() {
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        self.uncount(number);
        if let Some(socket) = self.sockets.get(&number) {
            socket.closed.cancel();
            self.crowd.closed += 1;
        }
    }

    fn count(&mut self, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.counted = true;
        self.counted += 1;
        if let Some(network) = socket.network {
            self.shares.entry(network).or_default().counted += 1;
        }
    }

    fn uncount(&mut self, number: u64) {
        self.forget_idle(number);
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        if !std::mem::take(&mut socket.counted) {
            return;
        }
        self.counted = self.counted.saturating_sub(1);
        if let Some(network) = socket.network
            && let Some(share) = self.shares.get_mut(&network)
        {
            share.counted = share.counted.saturating_sub(1);
            if share.counted == 0 {
                self.shares.remove(&network);
            }
        }
    }

    fn fall_idle(&mut self, number: u64) {
        let idle = self.next();
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        socket.idle = Some(idle);
        self.idle.insert(idle, number);
        if let Some(share) = socket.network.and_then(|network| self.shares.get_mut(&network)) {
            share.idle.insert(idle);
        }
    }

    fn forget_idle(&mut self, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else { return };
        let Some(idle) = socket.idle.take() else { return };
        self.idle.remove(&idle);
        if let Some(share) = socket.network.and_then(|network| self.shares.get_mut(&network)) {
            share.idle.remove(&idle);
        }
    }

    const fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    fn places(most: usize, per_address: usize) -> Places {
        let limits =
            LimitsConfig { handshakes: most, handshakes_per_address: per_address, ..LimitsConfig::default() };
        Places::new(&limits, &[C])
    }

    fn closed(places: &[Place]) -> Vec<bool> {
        places.iter().map(Place::is_closed).collect()
    }

    fn is_empty(places: &Places) -> bool {
        let counts = places.shared.counts.lock();
        let Counts { sockets, counted, shares, idle, .. } = &*counts;
        sockets.is_empty() && *counted == 0 && shares.is_empty() && idle.is_empty()
    }

    #[test]
    fn an_address_loses_its_own_oldest_socket() {
        let places = places(100, 2);
        let other = places.take(B).unwrap();
        let taken: Vec<Place> = (0..4).map(|_| places.take(A).unwrap()).collect();
        assert_eq!(closed(&taken), [true, true, false, false]);
        assert!(!other.is_closed(), "nobody else pays for it");
        assert_eq!(places.crowd(), Crowd { closed: 2, refused: 0 });
        assert_eq!(places.crowd(), Crowd::default());
        drop((taken, other));
        assert!(is_empty(&places));
    }

    #[test]
    fn the_oldest_of_all_goes_when_all_are_taken() {
        let places = places(3, 3);
        let taken: Vec<Place> = [A, A, B].into_iter().map(|address| places.take(address).unwrap()).collect();
        let newcomer = places.take(B).unwrap();
        assert_eq!(closed(&taken), [true, false, false]);
        assert!(!newcomer.is_closed());
    }

    #[test]
    fn a_request_in_progress_is_not_closed() {
        let places = places(2, 2);
        let (one, two) = (places.take(A).unwrap(), places.take(B).unwrap());
        let (first, second) = (one.begin(), two.begin());
        assert!(places.take(A).is_none(), "nobody is idle");
        assert_eq!(places.crowd(), Crowd { closed: 0, refused: 1 });
        drop(second);
        let three = places.take(A).unwrap();
        assert_eq!((one.is_closed(), two.is_closed()), (false, true));
        drop(first);
        // It is idle since a moment ago; the other has been for longer.
        let four = places.take(B).unwrap();
        assert_eq!(closed(&[one, three, four]), [false, true, false]);
    }

    #[test]
    fn whoever_carries_a_connection_leaves_room_and_comes_back_after_a_stream() {
        let places = places(1, 1);
        let socket = places.take(A).unwrap();
        socket.begin().leave();
        let stream = places.take(A).unwrap();
        let visit = stream.begin();
        stream.give_up();
        let idle = places.take(A).unwrap();
        drop(visit);
        assert_eq!(closed(&[socket, stream, idle]), [false, false, true], "the stream is over, and counts");
        drop(places.take(A).unwrap());
    }

    #[test]
    fn after_a_stream_there_may_be_no_place_left() {
        let places = places(1, 1);
        let stream = places.take(A).unwrap();
        let visit = stream.begin();
        stream.give_up();
        let busy = places.take(A).unwrap();
        let request = busy.begin();
        drop(visit);
        assert_eq!((stream.is_closed(), busy.is_closed()), (true, false));
        drop((stream, request, busy));
        assert!(is_empty(&places));
    }

    #[test]
    fn a_proxy_has_no_share() {
        let places = places(4, 1);
        let taken: Vec<Place> = (0..4).map(|_| places.take(C).unwrap()).collect();
        assert_eq!(closed(&taken), [false; 4]);
        let fifth = places.take(C).unwrap();
        assert_eq!((taken[0].is_closed(), fifth.is_closed()), (true, false));
    }
}
