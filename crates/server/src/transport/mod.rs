//! What a connection is driven over. The driver knows no more of it than this.

use futures_util::{Sink, Stream};
use switchboard_core::{Close, CloseReason, Frame};

mod exchange;
mod flushes;
mod handshake;
mod inflow;
mod linger;
mod rtc;
mod websocket;
mod write;

pub(crate) use exchange::Exchange;
pub(crate) use flushes::Flushes;
pub(crate) use handshake::Handshake;
pub(crate) use linger::Lingering;
pub(crate) use rtc::RtcTransport;
pub(crate) use websocket::{Bounds, Socket};
pub(crate) use write::poll_write;

/// What arrives from a peer.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// One whole message.
    Frame(Frame),
    /// The peer ends the transport in an orderly way, with this code if it gave one.
    Closed(Option<u16>),
}

/// Frames in both directions. An error says how the transport ended.
pub(crate) trait Transport:
    Stream<Item = Result<Arrival, CloseReason>> + Sink<Frame, Error = CloseReason> + Unpin + Send
{
    /// From now on, larger messages are not taken.
    fn take_at_most(&mut self, _max: usize) {}

    /// Bytes that were handed over and that the network has not taken, as far as that is known.
    fn waiting(&self) -> usize {
        usize::MAX
    }

    /// Ends the transport, once everything before is out.
    fn finish(&mut self, close: Close) -> impl Future<Output = ()> + Send;
}
