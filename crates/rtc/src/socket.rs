//! The UDP socket, which knows to which address of this host a datagram came.
//!
//! Whoever sends a connectivity check to one address does not take an answer from another. A socket for all
//! addresses would leave the choice to the routing table.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Several datagrams of one sender may come together; this holds as many as may.
pub(crate) const BUFFER: usize = 65_536;

/// A UDP socket.
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    bound: SocketAddr,
}

/// Where datagrams came from, and to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) source: SocketAddr,
    /// The address of this host, where the system tells.
    pub(crate) local: Option<IpAddr>,
}

impl Socket {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let io = UdpSocket::bind(address).await?;
        let state = UdpSocketState::new((&io).into())?;
        let bound = io.local_addr()?;
        Ok(Self { io, state, bound })
    }

    pub(crate) const fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// Waits for datagrams, and hands over each.
    pub(crate) async fn receive(
        &self,
        buffer: &mut [u8],
        mut each: impl FnMut(Origin, &[u8]),
    ) -> io::Result<()> {
        let mut meta = [RecvMeta::default()];
        self.io
            .async_io(Interest::READABLE, || {
                self.state.recv((&self.io).into(), &mut [IoSliceMut::new(buffer)], &mut meta)
            })
            .await?;
        let [meta] = meta;
        // A socket for both families shows IPv4 addresses within IPv6 ones.
        let source = SocketAddr::new(meta.addr.ip().to_canonical(), meta.addr.port());
        let origin = Origin { source, local: meta.dst_ip.map(|ip| ip.to_canonical()) };
        let received = buffer.get(..meta.len).unwrap_or_default();
        received.chunks(meta.stride.max(1)).for_each(|datagram| each(origin, datagram));
        Ok(())
    }

    /// Sends a datagram, from one address of this host if it matters.
    pub(crate) async fn send(
        &self,
        contents: &[u8],
        destination: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: SocketAddr::new(self.written(destination.ip()), destination.port()),
            ecn: None,
            contents,
            segment_size: None,
            // A socket with an address sends from it.
            src_ip: from.filter(|_| self.bound.ip().is_unspecified()).map(|ip| self.written(ip)),
        };
        self.io.async_io(Interest::WRITABLE, || self.state.try_send((&self.io).into(), &transmit)).await
    }

    /// An address in the form that the socket takes.
    fn written(&self, ip: IpAddr) -> IpAddr {
        match ip {
            IpAddr::V4(v4) if self.bound.is_ipv6() => v4.to_ipv6_mapped().into(),
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
        }
    }
}
