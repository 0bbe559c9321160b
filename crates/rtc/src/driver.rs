//! The task of one peer: it owns the protocol stack and moves everything in and out of it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use str0m::channel::{ChannelData, ChannelId, Reliability};
use str0m::format::Codec;
use str0m::media::{Frequency, MediaData, MediaKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Event, IceConnectionState, Input, Output, Rtc, RtcError};
use tokio::sync::mpsc;

use crate::endpoint::{EVENT_QUEUE, Hub, now};
use crate::peer::{CloseReason, Command, MAX_TEXT_BYTES, PeerEvent, Shared};
use crate::routes::Datagram;
use crate::socket::Origin;
use crate::speaker::Speaker;

/// Messages that the owner may leave unread.
const MAX_UNREAD_BYTES: usize = 4 * 1024 * 1024;
/// Audio is dropped before it takes the last places in the queue of events from everything else.
const PLACES_FOR_OTHERS: usize = EVENT_QUEUE / 4;
/// Ways that are remembered of a peer.
const MAX_PATHS: usize = 16;
/// Candidates that a peer may trickle in all.
const MAX_TRICKLED: usize = 64;
/// How long messages that were sent before the end may take to arrive.
const FLUSH: Duration = Duration::from_millis(1500);
/// How long the end itself may take.
const GOODBYE: Duration = Duration::from_millis(300);
/// However eager the stack is, it does not get to spin.
const TICK: Duration = Duration::from_millis(1);

/// The task of one peer.
pub(crate) struct Driver {
    hub: Arc<Hub>,
    shared: Arc<Shared>,
    rtc: Rtc,
    datagrams: mpsc::Receiver<Datagram>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<PeerEvent>,
    started: Instant,
    /// The ways that its datagrams took, the newest first.
    paths: VecDeque<Origin>,
    /// When the last datagram of the peer came.
    heard: Instant,
    connected: bool,
    audio: Option<Mid>,
    channel: Option<ChannelId>,
    texts: VecDeque<String>,
    speaker: Speaker,
    /// The media time of the first packet of audio that came.
    first_heard: Option<MediaTime>,
    trickled: usize,
}

/// The peer has come to its end.
struct End(CloseReason);

impl From<RtcError> for End {
    fn from(error: RtcError) -> Self {
        Self(CloseReason::Error(error.to_string()))
    }
}

impl Driver {
    pub(crate) fn new(
        hub: Arc<Hub>,
        shared: Arc<Shared>,
        rtc: Rtc,
        datagrams: mpsc::Receiver<Datagram>,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<PeerEvent>,
    ) -> Self {
        let started = now();
        Self {
            hub,
            shared,
            rtc,
            datagrams,
            commands,
            events,
            started,
            paths: VecDeque::new(),
            heard: started,
            connected: false,
            audio: None,
            channel: None,
            texts: VecDeque::new(),
            speaker: Speaker::default(),
            first_heard: None,
            trickled: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        let End(reason) = self.live().await;
        tracing::debug!(peer = %self.shared.id, ?reason, "a peer is at its end");
        if reason == CloseReason::Local {
            self.flush().await;
        }
        if self.rtc.close().is_ok() {
            self.settle(GOODBYE, |rtc, _| !rtc.is_alive()).await;
        }
        let _ = self.shared.ended.set(reason);
    }

    async fn live(&mut self) -> End {
        loop {
            let wake = match self.advance().await {
                Ok(wake) => wake,
                Err(end) => return end,
            };
            let moved = tokio::select! {
                () = self.shared.closing.cancelled() => Err(End(CloseReason::Local)),
                datagram = self.datagrams.recv() => self.receive(datagram),
                Some(command) = self.commands.recv() => {
                    self.obey(command);
                    Ok(())
                }
                () = tokio::time::sleep_until(wake.into()) => Ok(()),
            };
            if let Err(end) = moved {
                return end;
            }
        }
    }

    /// Sees to it that what was sent before the end arrives.
    async fn flush(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command);
        }
        let channel = self.channel;
        self.settle(FLUSH, |rtc, texts| {
            let in_flight =
                channel.and_then(|id| rtc.channel(id)).map_or(0, |mut channel| channel.buffered_amount());
            channel.is_none() || (texts.is_empty() && in_flight == 0)
        })
        .await;
    }

    /// Goes on until `done`, but not for longer than `limit`.
    async fn settle(&mut self, limit: Duration, done: impl Fn(&mut Rtc, &VecDeque<String>) -> bool) {
        let deadline = now() + limit;
        while let Ok(wake) = self.advance().await {
            if done(&mut self.rtc, &self.texts) || now() >= deadline {
                return;
            }
            tokio::select! {
                datagram = self.datagrams.recv() => {
                    if self.receive(datagram).is_err() {
                        return;
                    }
                }
                () = tokio::time::sleep_until(wake.min(deadline).into()) => {}
            }
        }
    }

    /// Moves the stack to the present, and everything out of it that wants out; returns when to come back.
    async fn advance(&mut self) -> Result<Instant, End> {
        let now = now();
        self.rtc.handle_input(Input::Timeout(now))?;
        let wake = loop {
            let wake = self.poll().await?;
            let wrote = self.write_text()? | self.speak(now)?;
            if !wrote {
                break wake;
            }
        };
        let (deadline, reason) = self.deadline();
        if now >= deadline {
            return Err(End(reason));
        }
        let due = self.speaker.due(now).filter(|_| self.connected).unwrap_or(deadline);
        Ok(wake.min(deadline).min(due).max(now + TICK))
    }

    /// When the peer is given up if nothing happens, and why.
    fn deadline(&self) -> (Instant, CloseReason) {
        let config = &self.hub.config;
        let opening = self.started + config.connect_timeout;
        match (self.connected, self.channel) {
            (false, _) => (opening, CloseReason::IceFailed),
            // Somebody who does not mean to say anything holds a place as well.
            (true, None) => (opening, CloseReason::Error(String::from("no data channel was opened"))),
            (true, Some(_)) => (self.heard + config.silence_timeout, CloseReason::TimedOut),
        }
    }

    /// Takes all output of the stack; returns when it wants to be asked again.
    async fn poll(&mut self) -> Result<Instant, End> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(wake) => return Ok(wake),
                Output::Transmit(datagram) => {
                    let from = self.local_address(datagram.destination);
                    self.hub.transmit(&datagram.contents, datagram.destination, from).await;
                }
                Output::Event(event) => self.notice(event)?,
            }
        }
    }

    fn receive(&mut self, datagram: Option<Datagram>) -> Result<(), End> {
        let Some(Datagram { origin, contents }) = datagram else { return Err(End(CloseReason::Local)) };
        let (Ok(contents), Some(destination)) = (contents.as_ref().try_into(), self.hub.destination(origin))
        else {
            return Ok(());
        };
        let now = now();
        let Origin { source, local } = origin;
        let input = Input::Receive(now, Receive { proto: Protocol::Udp, source, destination, contents });
        // Who knows the name of a peer but not its password is nobody.
        if !self.rtc.accepts(&input) {
            return Ok(());
        }
        self.heard = now;
        self.hub.routes.lock().learn(self.shared.id, source);
        if self.local_address(source) != local {
            self.paths.retain(|path| path.source != source);
            self.paths.truncate(MAX_PATHS - 1);
            self.paths.push_front(origin);
        }
        Ok(self.rtc.handle_input(input)?)
    }

    /// The address of this host that a peer sends to from one of its own.
    fn local_address(&self, remote: SocketAddr) -> Option<IpAddr> {
        self.paths.iter().find(|path| path.source == remote).and_then(|path| path.local)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Text(text) => self.texts.push_back(text),
            Command::Audio(packet) => self.speaker.push(packet),
            Command::Candidates(candidates) => {
                let room = MAX_TRICKLED - self.trickled;
                for candidate in candidates.into_iter().take(room) {
                    self.trickled += 1;
                    self.rtc.add_remote_candidate(candidate);
                }
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most of what the stack reports is about video")]
    fn notice(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Connected => {
                self.connected = true;
                self.emit(PeerEvent::Connected)
            }
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) if self.connected => {
                Err(End(CloseReason::TimedOut))
            }
            Event::MediaAdded(media) if media.kind == MediaKind::Audio => {
                self.audio = Some(media.mid);
                Ok(())
            }
            Event::MediaData(data) => self.hear(&data),
            Event::ChannelOpen(id, _) => self.open(id),
            Event::ChannelData(data) if Some(data.id) == self.channel => self.read(data),
            Event::ChannelClose(id) if Some(id) == self.channel => Err(End(CloseReason::PeerClosed)),
            Event::Closed => Err(End(CloseReason::PeerClosed)),
            _ => Ok(()),
        }
    }

    fn open(&mut self, id: ChannelId) -> Result<(), End> {
        let config = &self.hub.config;
        let channel = self.rtc.channel(id);
        let wanted = channel.as_ref().and_then(|channel| channel.config()).is_some_and(|channel| {
            channel.label == config.channel_label
                && channel.protocol == config.channel_protocol
                && channel.ordered
                && channel.reliability == Reliability::Reliable
        });
        if wanted && self.channel.is_none() {
            self.channel = Some(id);
            return self.emit(PeerEvent::ChannelOpen);
        }
        self.rtc.direct_api().close_data_channel(id);
        Ok(())
    }

    fn read(&self, data: ChannelData) -> Result<(), End> {
        let bytes = data.data.len();
        if bytes > MAX_TEXT_BYTES {
            return self.emit(PeerEvent::TooLarge(bytes));
        }
        match String::from_utf8(data.data) {
            Ok(text) if !data.binary => self.emit(PeerEvent::Text(text)),
            _ => self.emit(PeerEvent::Binary(bytes)),
        }
    }

    fn hear(&mut self, data: &MediaData) -> Result<(), End> {
        if data.data.is_empty() {
            return Ok(());
        }
        let first = *self.first_heard.get_or_insert(data.time);
        let offset = Duration::from_micros(data.time.saturating_sub(first).as_micros());
        self.emit(PeerEvent::Audio(bytes::Bytes::copy_from_slice(&data.data), offset))
    }

    /// Tells the owner. Audio that is not listened to can be lost; what else is not read ends the peer.
    fn emit(&self, event: PeerEvent) -> Result<(), End> {
        if matches!(event, PeerEvent::Audio(..)) && self.events.capacity() < PLACES_FOR_OTHERS {
            return Ok(());
        }
        if let PeerEvent::Text(text) = &event {
            let unread = self.shared.unread_bytes.fetch_add(text.len(), Ordering::AcqRel);
            if unread > MAX_UNREAD_BYTES {
                return Err(End(CloseReason::Overrun));
            }
        }
        match self.events.try_send(event) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(End(CloseReason::Overrun)),
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    /// Writes the next message if the channel takes it; returns whether it did.
    fn write_text(&mut self) -> Result<bool, End> {
        let (Some(id), Some(text)) = (self.channel, self.texts.front()) else { return Ok(false) };
        let Some(mut channel) = self.rtc.channel(id) else { return Ok(false) };
        if !channel.write(false, text.as_bytes())? {
            return Ok(false);
        }
        self.shared.waiting_text_bytes.fetch_sub(text.len(), Ordering::AcqRel);
        self.texts.pop_front();
        Ok(true)
    }

    /// Writes the next packet of audio if it is due; returns whether it was.
    fn speak(&mut self, now: Instant) -> Result<bool, End> {
        let generation = self.shared.audio_generation.load(Ordering::Acquire);
        let cleared = self.speaker.drop_cleared(generation);
        self.shared.waiting_audio_ms.fetch_sub(cleared, Ordering::AcqRel);
        let Some(mid) = self.audio.filter(|_| self.connected) else { return Ok(false) };
        let Some((spoken, duration_ms)) = self.speaker.next(now) else { return Ok(false) };
        self.shared.waiting_audio_ms.fetch_sub(duration_ms, Ordering::AcqRel);
        let Some(writer) = self.rtc.writer(mid) else { return Ok(false) };
        let opus = writer.payload_params().find(|params| params.spec().codec == Codec::Opus);
        let Some(payload_type) = opus.map(|params| params.pt()) else { return Ok(false) };
        let time = MediaTime::new(spoken.rtp_time, Frequency::FORTY_EIGHT_KHZ);
        writer.start_of_talkspurt(spoken.begins).write(payload_type, now, time, spoken.packet.as_ref())?;
        Ok(true)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.hub.routes.lock().remove(self.shared.id);
    }
}
