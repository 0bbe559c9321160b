//! Which user of this machine is behind a connection over loopback.
//!
//! Development mode lets in whoever runs the server, without a credential, and nobody else. The kernel knows
//! the owner of every socket and says so over netlink (`sock_diag(7)`), one question per connection. Where it
//! cannot be asked, nobody is taken for the server's own user.

use std::net::{IpAddr, SocketAddr};

/// Whether the socket at `peer`, connected to `local`, belongs to the user that runs this process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_own(_peer: SocketAddr, _local: SocketAddr) -> bool {
    false
}

/// Whether the socket at `peer`, connected to `local`, belongs to the user that runs this process.
#[cfg(target_os = "linux")]
pub(crate) fn is_own(peer: SocketAddr, local: SocketAddr) -> bool {
    let (peer, local) = (canonical(peer), canonical(local));
    if !peer.ip().is_loopback() || peer.is_ipv4() != local.is_ipv4() {
        return false;
    }
    match linux::owner(peer, local) {
        Ok(owner) => owner == nix::unistd::Uid::effective().as_raw(),
        Err(error) => {
            tracing::debug!(%error, "the owner of a connection cannot be found out");
            false
        }
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::{AsRawFd as _, OwnedFd};

    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

    /// The user id of the owner of the TCP socket at `peer` that is connected to `local`.
    pub(super) fn owner(peer: SocketAddr, local: SocketAddr) -> io::Result<u32> {
        let protocol = Some(SockProtocol::NetlinkSockDiag);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let netlink: OwnedFd = socket(AddressFamily::Netlink, SockType::Datagram, flags, protocol)?;
        send(netlink.as_raw_fd(), &request(peer, local), MsgFlags::empty())?;
        // The kernel answers within the call that asks.
        let mut answer = [0; 512];
        let size = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        parse(answer.get(..size).unwrap_or_default()).ok_or_else(|| io::Error::other("no such socket"))
    }

    /// `struct nlmsghdr` and `struct inet_diag_req_v2`, for exactly one socket.
    fn request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
        let mut message = Vec::with_capacity(REQUEST);
        message.extend((REQUEST as u32).to_ne_bytes());
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([if peer.is_ipv4() { AF_INET } else { AF_INET6 }, IPPROTO_TCP, 0, 0]);
        message.extend(u32::MAX.to_ne_bytes());
        message.extend(peer.port().to_be_bytes());
        message.extend(local.port().to_be_bytes());
        for address in [peer.ip(), local.ip()] {
            let mut bytes = [0; 16];
            match address {
                IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes = v6.octets(),
            }
            message.extend(bytes);
        }
        // Any interface, any cookie.
        message.extend(0_u32.to_ne_bytes());
        message.extend([0xFF; 8]);
        message
    }

    /// The field `idiag_uid` of `struct inet_diag_msg`.
    fn parse(answer: &[u8]) -> Option<u32> {
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        let uid = answer.get(UID..UID + 4)?;
        (kind == SOCK_DIAG_BY_FAMILY).then(|| uid.try_into().ok().map(u32::from_ne_bytes))?
    }

    const HEADER: usize = 16;
    const REQUEST: usize = HEADER + 56;
    const UID: usize = HEADER + 4 + 48 + 12;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const IPPROTO_TCP: u8 = 6;
}

/// Whether the owner of a connection can be found out here at all: this process connects to itself and looks.
pub(crate) fn is_known(ip: IpAddr) -> bool {
    let connected = || {
        let listener = std::net::TcpListener::bind((ip, 0))?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        std::io::Result::Ok(is_own(client.local_addr()?, listener.local_addr()?))
    };
    connected().unwrap_or(false)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_a_socket_is_found_over_both_versions_of_ip() {
        for ip in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((ip, 0)) else { continue };
            let local = listener.local_addr().unwrap();
            let client = TcpStream::connect(local).unwrap();
            assert!(is_own(client.local_addr().unwrap(), local), "{ip}");
            let nobody = SocketAddr::new(client.local_addr().unwrap().ip(), 1);
            assert!(!is_own(nobody, local), "there is no such socket");
            assert!(is_known(ip.parse().unwrap()));
        }
        assert!(!is_own("192.0.2.1:5".parse().unwrap(), "127.0.0.1:4600".parse().unwrap()));
    }
}
