//! A socket that is not closed while its peer still writes.
//!
//! Closing a socket with unread data resets it, and the peer may never see what was said last: that
//! its message was too large, or why its request was refused. So the last words are followed by an
//! end of our own, and what still comes is thrown away for a while.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::Flushes;
use crate::places::Place;

/// A socket with an orderly end.
#[derive(Debug)]
pub(crate) struct Lingering {
    /// There until this is dropped.
    socket: Option<TcpStream>,
    /// The peer has nothing more to say.
    over: bool,
    /// It was told something.
    told: bool,
    place: Place,
    flushes: Flushes,
}

impl Lingering {
    pub(crate) const fn new(socket: TcpStream, place: Place, flushes: Flushes) -> Self {
        Self { socket: Some(socket), over: false, told: false, place, flushes }
    }

    fn socket(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.socket.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        let read = ready!(self.socket()?.poll_read(cx, buffer));
        self.over |= read.is_err() || (room > 0 && buffer.remaining() == room);
        Poll::Ready(read)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.told = true;
        self.socket()?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.socket()?.poll_flush(cx))?;
        self.flushes.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket()?.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.told = true;
        self.socket()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take()
            && !self.over
            // There are no last words.
            && self.told
            && !self.place.is_closed()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(linger(socket, self.place.clone()));
        }
    }
}

/// Ends our side, and waits for the peer to end its own.
async fn linger(mut socket: TcpStream, place: Place) {
    let _ = socket.shutdown().await;
    let discard = async {
        let (mut left, mut buffer) = (MOST, vec![0; BUFFER]);
        while let Ok(Ok(count @ 1..)) = timeout(SILENCE, socket.read(&mut buffer)).await {
            left = left.saturating_sub(count);
            if left == 0 {
                break;
            }
        }
    };
    tokio::select! {
        biased;
        () = place.closed() => {}
        _ = timeout(LONGEST, discard) => {}
    }
}

/// How much is thrown away, and for how long.
const MOST: usize = 64 << 20;
const LONGEST: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(3);
const BUFFER: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::LimitsConfig;
    use crate::places::Places;

    async fn pair() -> (Lingering, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (socket, address) = accepted.unwrap();
        let place = Places::new(&LimitsConfig::default(), &[]).take(address.ip()).unwrap();
        (Lingering::new(socket, place, Flushes::default()), client.unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn last_words_reach_a_peer_that_still_writes() {
        let (mut server, mut client) = pair().await;
        server.write_all(b"no").await.unwrap();
        client.write_all(&[7; 1000]).await.unwrap();
        drop(server);
        // More than all buffers on the way can hold.
        client.write_all(&vec![7; 16 << 20]).await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"no");
    }

    #[tokio::test]
    async fn a_peer_that_falls_silent_is_not_waited_for() {
        let (mut server, mut client) = pair().await;
        server.write_all(b"bye").await.unwrap();
        client.write_all(b"hello").await.unwrap();
        drop(server);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        // Nobody is there any more; the first to be told so is whoever writes twice.
        loop {
            tokio::time::sleep(SILENCE + Duration::from_millis(200)).await;
            if client.write_all(b"still here?").await.is_err() {
                break;
            }
        }
    }

    #[tokio::test]
    async fn a_peer_that_has_left_is_let_go_at_once() {
        let (mut server, client) = pair().await;
        drop(client);
        assert_eq!(server.read(&mut [0; 10]).await.unwrap(), 0);
        assert!(server.over);
    }
}
