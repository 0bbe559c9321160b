//! A peer as its owner sees it: events that come in, and a handle to send with.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use str0m::Candidate;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::sdp;

/// The longest message of the data channel, either way.
pub(crate) const MAX_TEXT_BYTES: usize = 65_536;
/// What may wait to be sent on the data channel.
const MAX_WAITING_TEXT_BYTES: usize = 1024 * 1024;
/// What may wait to be spoken.
const MAX_WAITING_AUDIO_MS: usize = 10_000;
/// The longest packet that Opus knows.
const MAX_PACKET_BYTES: usize = 1275;
/// The longest time that a packet of Opus can hold.
const MAX_PACKET_MS: u32 = 120;

/// Numbers the peers of an endpoint; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(u64);

impl PeerId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What happened at a peer.
#[derive(Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// There is a secured connection.
    Connected,
    /// The data channel is open.
    ChannelOpen,
    /// A message on the data channel.
    Text(String),
    /// A message on the data channel that is not text, and so long; it was dropped.
    Binary(usize),
    /// A message on the data channel that is too long, and how long; it was dropped.
    TooLarge(usize),
    /// One Opus packet, and how long after the first its media begins. What was lost on the way shows as a
    /// step in that time.
    Audio(Bytes, Duration),
    /// The peer is gone; always the last.
    Closed(CloseReason),
}

// What people say is not for logs.
impl fmt::Debug for PeerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("Connected"),
            Self::ChannelOpen => f.write_str("ChannelOpen"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Binary(bytes) => write!(f, "Binary({bytes} bytes)"),
            Self::TooLarge(bytes) => write!(f, "TooLarge({bytes} bytes)"),
            Self::Audio(packet, offset) => write!(f, "Audio({} bytes, {offset:?})", packet.len()),
            Self::Closed(reason) => f.debug_tuple("Closed").field(reason).finish(),
        }
    }
}

/// Why a peer is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// It never connected.
    IceFailed,
    /// It said good-bye.
    PeerClosed,
    /// Nothing was heard of it any more.
    TimedOut,
    /// This side closed it.
    Local,
    /// Its events were not read as fast as they came.
    Overrun,
    /// The protocol stack gave up; the reason is for a person.
    Error(String),
}

/// Why something was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Too much is waiting already.
    #[error("too much is waiting to be sent")]
    Full,
    /// It is longer than may be sent.
    #[error("too long to be sent")]
    TooLarge,
    /// The peer is gone.
    #[error("the peer is gone")]
    Closed,
}

/// Why candidates were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CandidatesError {
    /// The fragment is not one.
    #[error("not a fragment of a session description")]
    Malformed,
    /// The fragment is too long, has too many candidates, or there were too many before.
    #[error("too many candidates")]
    TooMany,
    /// The fragment belongs to other credentials than the offer's; there are no restarts.
    #[error("the candidates are not of the offer that was answered")]
    OtherGeneration,
    /// The peer is gone.
    #[error("the peer is gone")]
    Closed,
}

/// What waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes of messages that the transport has not taken yet.
    pub text_bytes: usize,
    /// Audio that is not due yet.
    pub audio: Duration,
}

/// What a handle asks of the task of its peer.
pub(crate) enum Command {
    Text(String),
    Audio(AudioPacket),
    Candidates(Vec<Candidate>),
}

/// A packet to be spoken.
pub(crate) struct AudioPacket {
    pub(crate) packet: Bytes,
    pub(crate) duration_ms: u32,
    /// It is dropped if audio was cleared after it was sent.
    pub(crate) generation: u64,
}

/// What the task of a peer shares with its owner.
pub(crate) struct Shared {
    pub(crate) id: PeerId,
    pub(crate) closing: CancellationToken,
    pub(crate) ended: OnceLock<CloseReason>,
    pub(crate) waiting_text_bytes: AtomicUsize,
    pub(crate) waiting_audio_ms: AtomicUsize,
    pub(crate) audio_generation: AtomicU64,
    /// Bytes of messages that the owner has not read yet.
    pub(crate) unread_bytes: AtomicUsize,
    /// The username fragment of the offer.
    fragment: String,
}

impl Shared {
    pub(crate) fn new(id: PeerId, fragment: String, closing: CancellationToken) -> Self {
        Self {
            id,
            closing,
            ended: OnceLock::new(),
            waiting_text_bytes: AtomicUsize::new(0),
            waiting_audio_ms: AtomicUsize::new(0),
            audio_generation: AtomicU64::new(0),
            unread_bytes: AtomicUsize::new(0),
            fragment,
        }
    }
}

/// Sends to a peer, from anywhere.
#[derive(Clone)]
pub struct PeerHandle {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl fmt::Debug for PeerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerHandle({})", self.shared.id)
    }
}

impl PeerHandle {
    pub(crate) fn new(shared: Arc<Shared>, commands: mpsc::Sender<Command>) -> Self {
        Self { shared, commands }
    }

    /// Which peer.
    pub fn id(&self) -> PeerId {
        self.shared.id
    }

    /// Sends a message on the data channel, as soon as it is open and has room.
    pub fn send_text(&self, text: impl Into<String>) -> Result<(), SendError> {
        let text = text.into();
        let bytes = text.len();
        if bytes > MAX_TEXT_BYTES {
            return Err(SendError::TooLarge);
        }
        self.send(&self.shared.waiting_text_bytes, bytes, MAX_WAITING_TEXT_BYTES, Command::Text(text))
    }

    /// Sends one packet of Opus that holds `duration_ms` of audio. Packets are sent in real time, one when
    /// the one before it has been played, however fast they are handed over.
    pub fn send_audio(&self, packet: Bytes, duration_ms: u32) -> Result<(), SendError> {
        if packet.len() > MAX_PACKET_BYTES || duration_ms > MAX_PACKET_MS {
            return Err(SendError::TooLarge);
        }
        let generation = self.shared.audio_generation.load(Ordering::Acquire);
        let command = Command::Audio(AudioPacket { packet, duration_ms, generation });
        self.send(&self.shared.waiting_audio_ms, duration_ms as usize, MAX_WAITING_AUDIO_MS, command)
    }

    /// Throws away what audio was handed over and has not been sent yet.
    pub fn clear_audio(&self) {
        self.shared.audio_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// What waits to be sent.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            text_bytes: self.shared.waiting_text_bytes.load(Ordering::Acquire),
            audio: Duration::from_millis(self.shared.waiting_audio_ms.load(Ordering::Acquire) as u64),
        }
    }

    /// Takes more candidates of the peer: an `application/trickle-ice-sdpfrag` (RFC 8840).
    pub fn add_candidates(&self, fragment: &str) -> Result<(), CandidatesError> {
        if self.is_closed() {
            return Err(CandidatesError::Closed);
        }
        let candidates = sdp::trickled(fragment, &self.shared.fragment)?;
        self.commands.try_send(Command::Candidates(candidates)).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => CandidatesError::TooMany,
            mpsc::error::TrySendError::Closed(_) => CandidatesError::Closed,
        })
    }

    /// Says good-bye, after the messages that were sent before. The peer's last event tells when it is done.
    pub fn close(&self) {
        self.shared.closing.cancel();
    }

    /// Whether the peer is gone or about to be.
    pub fn is_closed(&self) -> bool {
        self.shared.closing.is_cancelled() || self.commands.is_closed()
    }

    fn send(
        &self,
        waiting: &AtomicUsize,
        amount: usize,
        most: usize,
        command: Command,
    ) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed);
        }
        waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| {
                Some(before + amount).filter(|after| *after <= most)
            })
            .map_err(|_| SendError::Full)?;
        self.commands.try_send(command).map_err(|refused| {
            waiting.fetch_sub(amount, Ordering::AcqRel);
            match refused {
                mpsc::error::TrySendError::Full(_) => SendError::Full,
                mpsc::error::TrySendError::Closed(_) => SendError::Closed,
            }
        })
    }
}

/// A peer: a stream of what happens at it, and, as a [`PeerHandle`], the way to send. Dropping it closes it.
#[derive(Debug)]
pub struct Peer {
    handle: PeerHandle,
    events: mpsc::Receiver<PeerEvent>,
    done: bool,
}

impl Peer {
    pub(crate) fn new(handle: PeerHandle, events: mpsc::Receiver<PeerEvent>) -> Self {
        Self { handle, events, done: false }
    }

    /// The way to send, apart from the events.
    pub fn handle(&self) -> &PeerHandle {
        &self.handle
    }
}

impl std::ops::Deref for Peer {
    type Target = PeerHandle;

    fn deref(&self) -> &PeerHandle {
        &self.handle
    }
}

impl Stream for Peer {
    type Item = PeerEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<PeerEvent>> {
        if self.done {
            return Poll::Ready(None);
        }
        let event = ready!(self.events.poll_recv(context)).unwrap_or_else(|| {
            self.done = true;
            // Without a reason, its task did not come to its end.
            let reason = self.handle.shared.ended.get().cloned();
            PeerEvent::Closed(
                reason.unwrap_or_else(|| CloseReason::Error("the protocol stack failed".into())),
            )
        });
        if let PeerEvent::Text(text) = &event {
            self.handle.shared.unread_bytes.fetch_sub(text.len(), Ordering::AcqRel);
        }
        Poll::Ready(Some(event))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.handle.close();
    }
}
