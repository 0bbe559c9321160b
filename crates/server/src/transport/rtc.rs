//! A WebRTC peer as a transport: text on its data channel, packets on its audio track.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream, StreamExt as _};
use switchboard_core::{Close, CloseReason, Frame};
use switchboard_rtc::{CloseReason as PeerClose, Peer, PeerEvent, SendError};
use tokio::time::Sleep;

use super::{Arrival, Transport};

/// A peer whose data channel is open.
#[derive(Debug)]
pub(crate) struct RtcTransport {
    peer: Peer,
    /// Waits until the peer may have taken what is in front of it.
    pause: Option<Pin<Box<Sleep>>>,
}

impl RtcTransport {
    pub(crate) const fn new(peer: Peer) -> Self {
        Self { peer, pause: None }
    }
}

impl Stream for RtcTransport {
    type Item = Result<Arrival, CloseReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(event) = std::task::ready!(self.peer.poll_next_unpin(cx)) else {
                return Poll::Ready(None);
            };
            return Poll::Ready(match event {
                PeerEvent::Connected | PeerEvent::ChannelOpen => continue,
                PeerEvent::Text(text) => Some(Ok(Arrival::Frame(Frame::Text(text)))),
                // What it was is gone; that it was there is for the protocol to judge.
                PeerEvent::Binary(_) => Some(Ok(Arrival::Frame(Frame::Binary(Bytes::new())))),
                PeerEvent::Audio(packet, _) => Some(Ok(Arrival::Frame(Frame::Media(packet)))),
                PeerEvent::TooLarge(_) => Some(Err(CloseReason::TooBig)),
                PeerEvent::Closed(PeerClose::PeerClosed) => Some(Ok(Arrival::Closed(None))),
                PeerEvent::Closed(PeerClose::Overrun) => Some(Err(CloseReason::TooSlow)),
                PeerEvent::Closed(
                    PeerClose::IceFailed | PeerClose::TimedOut | PeerClose::Local | PeerClose::Error(_),
                ) => None,
            });
        }
    }
}

impl Sink<Frame> for RtcTransport {
    type Error = CloseReason;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        loop {
            if self.peer.is_closed() {
                return Poll::Ready(Err(CloseReason::TransportLost));
            }
            if self.peer.waiting().text_bytes < HIGH_WATER {
                self.pause = None;
                return Poll::Ready(Ok(()));
            }
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
    }

    fn start_send(self: Pin<&mut Self>, frame: Frame) -> Result<(), CloseReason> {
        let sent = match frame {
            Frame::Text(text) => self.peer.send_text(text),
            Frame::Media(packet) => {
                let duration_ms = duration_ms(&packet);
                self.peer.send_audio(packet, duration_ms)
            }
            // A data channel carries text alone, watches over itself, and has no head.
            Frame::Binary(_) | Frame::Ping(_) | Frame::Pong(_) | Frame::Head(_) => return Ok(()),
        };
        match sent {
            Ok(()) => Ok(()),
            Err(SendError::Closed) => Err(CloseReason::TransportLost),
            Err(SendError::Full) => Err(CloseReason::TooSlow),
            Err(SendError::TooLarge) => {
                tracing::warn!("something was too long for a data channel");
                Err(CloseReason::Internal)
            }
        }
    }

    /// What was handed over is sent without being asked for.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for RtcTransport {
    /// A peer knows no codes; what there is to say was said on the data channel.
    async fn finish(&mut self, _: Close) {
        self.peer.close();
        let last = async { while self.peer.next().await.is_some_and(|event| !is_last(&event)) {} };
        let _ = tokio::time::timeout(HANG_UP, last).await;
    }
}

const fn is_last(event: &PeerEvent) -> bool {
    matches!(event, PeerEvent::Closed(_))
}

/// How much audio an Opus packet holds, in milliseconds, rounded up (RFC 6716, 3.1).
fn duration_ms(packet: &[u8]) -> u32 {
    let Some(head) = packet.first() else { return 0 };
    let configuration = head >> 3;
    // In halves of a millisecond.
    let frame = match configuration {
        0..=11 => [20, 40, 80, 120][usize::from(configuration % 4)],
        12..=15 => [20, 40][usize::from(configuration % 2)],
        _ => [5, 10, 20, 40][usize::from(configuration % 4)],
    };
    let frames = match head & 0b11 {
        0 => 1,
        1 | 2 => 2,
        _ => packet.get(1).map_or(0, |count| u32::from(count & 0b11_1111)),
    };
    (frame * frames).div_ceil(2)
}

/// What may wait in front of a peer before nothing more is handed over, in bytes.
const HIGH_WATER: usize = 256 << 10;
/// How often it is looked whether there is room again.
const PAUSE: Duration = Duration::from_millis(10);
const HANG_UP: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_says_how_long_it_is() {
        // Wideband speech of 20 ms, fullband of 20 ms, fullband of 2.5 ms, hybrid of 10 ms twice.
        let table: [(&[u8], u32); 8] = [
            (&[9 << 3], 20),
            (&[31 << 3], 20),
            (&[28 << 3], 3),
            (&[(12 << 3) | 1], 20),
            (&[(11 << 3) | 2], 120),
            (&[(31 << 3) | 3, 3], 60),
            (&[(31 << 3) | 3], 0),
            (&[], 0),
        ];
        for (packet, expected) in table {
            assert_eq!(duration_ms(packet), expected, "{packet:?}");
        }
    }
}
