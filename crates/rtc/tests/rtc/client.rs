//! The other side: a client on the same protocol stack, with a socket of its own.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use str0m::change::SdpAnswer;
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::media::{Direction, Frequency, MediaKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};
use switchboard_rtc::{Endpoint, Peer, PeerEvent, RtcConfig};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use crate::crypto;

/// Long enough for anything that is to happen at all, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const LABEL: &str = "test-events";
pub(crate) const PROTOCOL: &str = "test.v1";

/// The configuration of most tests.
pub(crate) fn config() -> RtcConfig {
    RtcConfig { channel_label: LABEL.into(), channel_protocol: PROTOCOL.into(), ..RtcConfig::default() }
}

/// The channel that the endpoint wants.
pub(crate) fn channel() -> ChannelConfig {
    ChannelConfig { label: LABEL.into(), protocol: PROTOCOL.into(), ..ChannelConfig::default() }
}

/// What the client can be told to do.
pub(crate) enum Do {
    Text(String),
    Binary(Vec<u8>),
    Audio { packet: Bytes, rtp_time: u64 },
    Open(ChannelConfig),
    Close,
}

/// What the client sees.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Connected,
    ChannelOpen(String),
    ChannelClosed,
    Text(String),
    Audio { packet: Vec<u8>, rtp_time: u64 },
    Closed,
}

/// A client that runs on its own.
pub(crate) struct Client {
    pub(crate) orders: mpsc::Sender<Do>,
    pub(crate) seen: mpsc::Receiver<Seen>,
    task: tokio::task::JoinHandle<()>,
}

/// A client that has not sent anything yet.
pub(crate) struct Offer {
    rtc: Rtc,
    socket: UdpSocket,
    address: SocketAddr,
    audio: Mid,
    pending: str0m::change::SdpPendingOffer,
    pub(crate) sdp: String,
}

impl Offer {
    pub(crate) async fn new(channel: ChannelConfig) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let mut rtc = Rtc::builder().set_crypto_provider(Arc::new(crypto::provider())).build(now());
        rtc.add_local_candidate(Candidate::host(address, "udp").unwrap());
        let mut changes = rtc.sdp_api();
        let audio = changes.add_media(MediaKind::Audio, Direction::SendRecv, None, None, None);
        changes.add_channel_with_config(channel);
        let (offer, pending) = changes.apply().unwrap();
        let sdp = offer.to_sdp_string();
        Self { rtc, socket, address, audio, pending, sdp }
    }

    pub(crate) fn connect(mut self, answer: &str) -> Client {
        let advertised = answer.lines().filter(|line| line.starts_with("a=candidate:")).map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            SocketAddr::new(words[4].parse().unwrap(), words[5].parse().unwrap())
        });
        let advertised = advertised.collect();
        let answer = SdpAnswer::from_sdp_string(answer).unwrap();
        self.rtc.sdp_api().accept_answer(self.pending, answer).unwrap();
        let (orders, to_do) = mpsc::channel(64);
        let (seeing, seen) = mpsc::channel(4096);
        let running = Running {
            rtc: self.rtc,
            socket: self.socket,
            address: self.address,
            audio: self.audio,
            advertised,
            channel: None,
            messages: VecDeque::new(),
            seeing,
        };
        Client { orders, seen, task: tokio::spawn(running.run(to_do)) }
    }
}

impl Client {
    /// A client and its peer, before they are connected.
    pub(crate) async fn begin(endpoint: &Endpoint) -> (Self, Peer) {
        let offer = Offer::new(channel()).await;
        let (peer, answer) = endpoint.answer(&offer.sdp).unwrap();
        (offer.connect(&answer), peer)
    }

    /// A client and its peer, with an open channel.
    pub(crate) async fn connected(endpoint: &Endpoint) -> (Self, Peer) {
        let (mut client, mut peer) = Self::begin(endpoint).await;
        assert_eq!(next(&mut peer).await, PeerEvent::Connected);
        assert_eq!(next(&mut peer).await, PeerEvent::ChannelOpen);
        client.until(|seen| matches!(seen, Seen::ChannelOpen(_))).await;
        (client, peer)
    }

    pub(crate) async fn order(&self, order: Do) {
        self.orders.send(order).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv()).await.expect("in time").expect("more to see")
    }

    /// Everything that is seen until something is.
    pub(crate) async fn until(&mut self, mut wanted: impl FnMut(&Seen) -> bool) -> Seen {
        loop {
            let seen = self.next().await;
            if wanted(&seen) {
                return seen;
            }
        }
    }

    /// Is gone, without a word.
    pub(crate) fn vanish(self) {
        self.task.abort();
    }
}

/// The next event of a peer.
pub(crate) async fn next(peer: &mut Peer) -> PeerEvent {
    tokio::time::timeout(PATIENCE, peer.next()).await.expect("in time").expect("another event")
}

/// The next event of a peer that is wanted.
pub(crate) async fn until(peer: &mut Peer, mut wanted: impl FnMut(&PeerEvent) -> bool) -> PeerEvent {
    loop {
        let event = next(peer).await;
        if wanted(&event) {
            return event;
        }
        assert!(!matches!(event, PeerEvent::Closed(_)), "{event:?} came instead");
    }
}

struct Running {
    rtc: Rtc,
    socket: UdpSocket,
    address: SocketAddr,
    /// Where the other side may send from; this stack would take it from anywhere, and others do not.
    advertised: Vec<SocketAddr>,
    audio: Mid,
    channel: Option<ChannelId>,
    /// Messages that the channel has no room for yet.
    messages: VecDeque<(bool, Vec<u8>)>,
    seeing: mpsc::Sender<Seen>,
}

impl Running {
    async fn run(mut self, mut to_do: mpsc::Receiver<Do>) {
        let mut buffer = vec![0; 2000];
        loop {
            self.rtc.handle_input(Input::Timeout(now())).unwrap();
            self.write();
            let wake = loop {
                match self.rtc.poll_output().unwrap() {
                    Output::Timeout(wake) => break wake,
                    Output::Transmit(datagram) => {
                        self.socket.send_to(&datagram.contents, datagram.destination).await.unwrap();
                    }
                    Output::Event(event) => self.see(event).await,
                }
            };
            if !self.rtc.is_alive() {
                return;
            }
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    let (length, source) = received.unwrap();
                    if !self.advertised.contains(&source) {
                        continue;
                    }
                    let Ok(contents) = buffer[..length].try_into() else { continue };
                    let destination = self.address;
                    let datagram = Receive { proto: Protocol::Udp, source, destination, contents };
                    self.rtc.handle_input(Input::Receive(now(), datagram)).unwrap();
                }
                Some(order) = to_do.recv() => self.obey(order),
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    fn obey(&mut self, order: Do) {
        match order {
            Do::Text(text) => self.messages.push_back((false, text.into_bytes())),
            Do::Binary(bytes) => self.messages.push_back((true, bytes)),
            Do::Audio { packet, rtp_time } => {
                let writer = self.rtc.writer(self.audio).unwrap();
                let payload_type = writer.payload_params().next().unwrap().pt();
                let time = MediaTime::new(rtp_time, Frequency::FORTY_EIGHT_KHZ);
                writer.write(payload_type, now(), time, packet.as_ref()).unwrap();
            }
            Do::Open(config) => {
                self.rtc.direct_api().create_data_channel(config);
            }
            Do::Close => self.rtc.close().unwrap(),
        }
    }

    fn write(&mut self) {
        let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) else { return };
        while let Some((binary, bytes)) = self.messages.front() {
            if !channel.write(*binary, bytes).unwrap() {
                return;
            }
            self.messages.pop_front();
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most of what the stack reports is about video")]
    async fn see(&mut self, event: Event) {
        let seen = match event {
            Event::Connected => Seen::Connected,
            Event::ChannelOpen(id, label) => {
                self.channel.get_or_insert(id);
                Seen::ChannelOpen(label)
            }
            Event::ChannelClose(_) => Seen::ChannelClosed,
            Event::ChannelData(data) => Seen::Text(String::from_utf8(data.data).unwrap()),
            Event::MediaData(data) => Seen::Audio { packet: data.data.to_vec(), rtp_time: data.time.numer() },
            Event::Closed => Seen::Closed,
            _ => return,
        };
        let _ = self.seeing.send(seen).await;
    }
}

fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
