//! Which peer a datagram is for.
//!
//! A peer is known by the username fragment of its answer, which every connectivity check names, and later
//! by the addresses that such checks came from and were found to be authentic.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::peer::PeerId;
use crate::socket::Origin;

/// So many addresses are remembered of one peer; the oldest is forgotten for a new one.
const MAX_ADDRESSES: usize = 16;

/// A datagram and where it came from.
pub(crate) struct Datagram {
    pub(crate) origin: Origin,
    pub(crate) contents: Bytes,
}

/// The way to each peer.
#[derive(Default)]
pub(crate) struct Routes {
    by_id: HashMap<PeerId, Route>,
    by_fragment: HashMap<String, PeerId>,
    by_address: HashMap<SocketAddr, PeerId>,
}

struct Route {
    fragment: String,
    addresses: VecDeque<SocketAddr>,
    datagrams: mpsc::Sender<Datagram>,
}

impl Routes {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn add(&mut self, id: PeerId, fragment: String, datagrams: mpsc::Sender<Datagram>) {
        self.by_fragment.insert(fragment.clone(), id);
        self.by_id.insert(id, Route { fragment, addresses: VecDeque::new(), datagrams });
    }

    /// From now on what comes from `address` is for this peer; called for authentic checks alone.
    pub(crate) fn learn(&mut self, id: PeerId, address: SocketAddr) {
        if self.by_address.get(&address) == Some(&id) {
            return;
        }
        let Some(route) = self.by_id.get_mut(&id) else { return };
        if route.addresses.len() == MAX_ADDRESSES
            && let Some(oldest) = route.addresses.pop_front()
            && self.by_address.get(&oldest) == Some(&id)
        {
            self.by_address.remove(&oldest);
        }
        route.addresses.push_back(address);
        self.by_address.insert(address, id);
    }

    pub(crate) fn remove(&mut self, id: PeerId) {
        let Some(route) = self.by_id.remove(&id) else { return };
        self.by_fragment.remove(&route.fragment);
        for address in route.addresses {
            // The address may be another peer's by now.
            if self.by_address.get(&address) == Some(&id) {
                self.by_address.remove(&address);
            }
        }
    }

    /// Where a datagram has to go, if anywhere.
    pub(crate) fn find(&self, source: SocketAddr, contents: &[u8]) -> Option<&mpsc::Sender<Datagram>> {
        // A check names its peer, and is right even if the address was another peer's before.
        let id = match checked_fragment(contents) {
            Some(fragment) => self.by_fragment.get(fragment),
            None => self.by_address.get(&source),
        }?;
        self.by_id.get(id).map(|route| &route.datagrams)
    }
}

/// The username fragment of ours that a connectivity check names: the part of its USERNAME attribute before
/// the colon (RFC 8445, 7.2.2). None for whatever else a datagram is.
pub(crate) fn checked_fragment(datagram: &[u8]) -> Option<&str> {
    const HEADER: usize = 20;
    const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
    const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
    const USERNAME: [u8; 2] = [0x00, 0x06];

    if !datagram.starts_with(&BINDING_REQUEST) || datagram.get(4..8)? != MAGIC_COOKIE {
        return None;
    }
    let mut attributes = datagram.get(HEADER..)?;
    loop {
        let kind = attributes.get(0..2)?;
        let length = usize::from(u16::from_be_bytes([*attributes.get(2)?, *attributes.get(3)?]));
        let value = attributes.get(4..4 + length)?;
        if kind == USERNAME {
            return std::str::from_utf8(value).ok()?.split(':').next();
        }
        // Values are padded to a multiple of four bytes.
        attributes = attributes.get(4 + length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(username: &str) -> Vec<u8> {
        let mut bytes = vec![0x00, 0x01, 0x00, 0x00, 0x21, 0x12, 0xa4, 0x42];
        bytes.extend([7; 12]);
        // PRIORITY comes first, so that there is something to skip.
        bytes.extend([0x00, 0x24, 0x00, 0x04, 1, 2, 3, 4]);
        bytes.extend([0x00, 0x06, 0x00, username.len() as u8]);
        bytes.extend(username.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn a_check_names_its_peer() {
        assert_eq!(checked_fragment(&check("ours:theirs")), Some("ours"));
        assert_eq!(checked_fragment(&check("ours:theirs")[..30]), None, "cut short");
        assert_eq!(checked_fragment(b"\x16\xfe\xfd a handshake record"), None);
    }

    #[test]
    fn the_name_in_a_check_outranks_the_address() {
        let mut routes = Routes::default();
        let (first, mut to_first) = mpsc::channel(1);
        let (second, mut to_second) = mpsc::channel(1);
        routes.add(PeerId::new(1), "one".into(), first);
        routes.add(PeerId::new(2), "two".into(), second);
        routes.learn(PeerId::new(1), address(5));
        let send = |routes: &Routes, contents: Vec<u8>| {
            let origin = Origin { source: address(5), local: None };
            let datagram = Datagram { origin, contents: contents.clone().into() };
            routes.find(address(5), &contents).unwrap().try_send(datagram).ok();
        };
        send(&routes, check("two:x"));
        assert!(to_second.try_recv().is_ok());
        send(&routes, vec![128, 0]);
        assert!(to_first.try_recv().is_ok());
        // The same port, used again by another peer.
        routes.learn(PeerId::new(2), address(5));
        routes.remove(PeerId::new(1));
        send(&routes, vec![128, 0]);
        assert!(to_second.try_recv().is_ok());
    }

    #[test]
    fn a_peer_holds_only_so_many_addresses_and_leaves_none_behind() {
        let mut routes = Routes::default();
        let (datagrams, _received) = mpsc::channel(1);
        routes.add(PeerId::new(1), "one".into(), datagrams);
        for port in 1..100 {
            routes.learn(PeerId::new(1), address(port));
        }
        assert_eq!(routes.by_address.len(), MAX_ADDRESSES);
        assert!(routes.find(address(99), &[128]).is_some());
        assert!(routes.find(address(1), &[128]).is_none());
        routes.remove(PeerId::new(1));
        assert!(routes.by_address.is_empty() && routes.by_fragment.is_empty());
    }

    proptest! {
        #[test]
        fn any_datagram_can_be_looked_at(mut datagram in prop::collection::vec(any::<u8>(), 0..200)) {
            checked_fragment(&datagram);
            if let Some(head) = datagram.get_mut(0..8) {
                head.copy_from_slice(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
            }
            checked_fragment(&datagram);
        }
    }
}
