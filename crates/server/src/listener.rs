//! The socket that clients come to.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Listens on an address, with room for a crowd that comes at once: whoever finds no room waits a
/// second or more before trying again.
///
/// # Errors
/// The address cannot be used.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // As a server that is started again expects.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

const BACKLOG: u32 = 4096;
