//! How an endpoint is set up, and the addresses it can be reached at.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// How an [`Endpoint`](crate::Endpoint) is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtcConfig {
    /// The UDP address that all peers share. Port 0 takes any free port; an unspecified address means all
    /// interfaces.
    pub listen: SocketAddr,
    /// The addresses that answers advertise. Empty means those that are listened on; otherwise these take
    /// their place, as behind a network address translation that keeps the port.
    pub public: Vec<IpAddr>,
    /// So many peers at once; further offers are refused.
    pub max_peers: usize,
    /// A peer that is not connected, or has not opened its data channel, after this time is given up.
    pub connect_timeout: Duration,
    /// A connected peer that nothing is heard of for this time is gone. Peers say something every few
    /// seconds.
    pub silence_timeout: Duration,
    /// The label of the only data channel that is accepted.
    pub channel_label: String,
    /// The subprotocol of that channel.
    pub channel_protocol: String,
}

impl Default for RtcConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            public: Vec::new(),
            max_peers: 256,
            connect_timeout: Duration::from_secs(20),
            silence_timeout: Duration::from_secs(15),
            channel_label: String::from("events"),
            channel_protocol: String::new(),
        }
    }
}

impl RtcConfig {
    /// The addresses that answers advertise, for a socket that is bound to `bound`; never empty.
    pub(crate) fn advertised(&self, bound: SocketAddr) -> io::Result<Vec<SocketAddr>> {
        let ips = if !self.public.is_empty() {
            self.public.clone()
        } else if !bound.ip().is_unspecified() {
            vec![bound.ip()]
        } else {
            interface_addresses(bound.is_ipv6())?
        };
        let addresses: Vec<SocketAddr> =
            ips.into_iter().filter(can_be_advertised).map(|ip| SocketAddr::new(ip, bound.port())).collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "no address to advertise"));
        }
        Ok(addresses)
    }
}

/// Every address of this host that others may reach; loopback only if there is nothing else.
fn interface_addresses(with_v6: bool) -> io::Result<Vec<IpAddr>> {
    let mut outward = Vec::new();
    let mut loopback = Vec::new();
    for interface in getifaddrs()? {
        if !interface.flags.contains(InterfaceFlags::IFF_UP) {
            continue;
        }
        let Some(address) = interface.address else { continue };
        let ip = if let Some(v4) = address.as_sockaddr_in() {
            IpAddr::V4(v4.ip())
        } else if let Some(v6) = address.as_sockaddr_in6().filter(|_| with_v6) {
            IpAddr::V6(v6.ip())
        } else {
            continue;
        };
        if ip.is_loopback() { loopback.push(ip) } else { outward.push(ip) }
    }
    outward.retain(can_be_advertised);
    Ok(if outward.is_empty() { loopback } else { outward })
}

/// Addresses that only mean something together with an interface are of no use to anybody else.
fn can_be_advertised(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_link_local() || ip.is_broadcast() || ip.is_multicast() || ip.is_unspecified())
        }
        IpAddr::V6(ip) => !(ip.is_unicast_link_local() || ip.is_multicast() || ip.is_unspecified()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn public_addresses_take_the_place_of_local_ones() {
        let public: IpAddr = "203.0.113.7".parse().unwrap();
        let config = RtcConfig { public: vec![public], ..RtcConfig::default() };
        assert_eq!(config.advertised(bound("127.0.0.1:4000")).unwrap(), vec![SocketAddr::new(public, 4000)]);
    }

    #[test]
    fn a_listener_on_every_interface_advertises_real_addresses() {
        let addresses = RtcConfig::default().advertised(bound("0.0.0.0:4000")).unwrap();
        assert!(addresses.iter().all(|address| !address.ip().is_unspecified() && address.port() == 4000));
        assert!(addresses.iter().all(SocketAddr::is_ipv4), "an IPv4 socket has no IPv6 address");
    }

    #[test]
    fn nothing_to_advertise_is_an_error() {
        let config = RtcConfig { public: vec!["0.0.0.0".parse().unwrap()], ..RtcConfig::default() };
        assert!(config.advertised(bound("127.0.0.1:4000")).is_err());
    }
}
