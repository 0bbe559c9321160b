//! The endpoint: one UDP socket, and the peers behind it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use str0m::change::SdpOffer;
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::{Candidate, Rtc};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::RtcConfig;
use crate::crypto;
use crate::driver::Driver;
use crate::peer::{Peer, PeerHandle, PeerId, Shared};
use crate::routes::{Datagram, Routes};
use crate::sdp::{self, MAX_SDP_BYTES, OfferFlaw};
use crate::socket::{self, Origin, Socket};

/// Datagrams that wait for a peer; more are lost, as on any network.
const DATAGRAM_QUEUE: usize = 256;
/// What waits between a peer and its owner, each way.
const COMMAND_QUEUE: usize = 1024;
pub(crate) const EVENT_QUEUE: usize = 1024;
/// How long peers get to say good-bye.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why an offer was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// It is longer than any offer has to be.
    #[error("the offer is too long")]
    TooLarge,
    /// It is not for one audio track and one data channel.
    #[error(transparent)]
    Flawed(#[from] OfferFlaw),
    /// It cannot be understood; the reason is for a person.
    #[error("the offer cannot be used: {0}")]
    Unusable(String),
    /// There are as many peers as there may be.
    #[error("there are too many peers")]
    Full,
    /// The endpoint is closed.
    #[error("the endpoint is closed")]
    Closed,
}

/// What the peers of an endpoint share.
pub(crate) struct Hub {
    pub(crate) config: RtcConfig,
    pub(crate) routes: Mutex<Routes>,
    socket: Socket,
    advertised: Vec<SocketAddr>,
    crypto: Arc<CryptoProvider>,
    certificate: DtlsCert,
    next_id: AtomicU64,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// One UDP port that answers WebRTC offers. Dropping it closes its peers.
pub struct Endpoint {
    hub: Arc<Hub>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("address", &self.hub.socket.bound()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Binds the socket and begins to read it; called within a runtime.
    pub async fn bind(config: RtcConfig) -> io::Result<Arc<Self>> {
        let socket = Socket::bind(config.listen).await?;
        let crypto = Arc::new(crypto::provider());
        let certificate = crypto
            .dtls_provider
            .generate_certificate()
            .ok_or_else(|| io::Error::other("no certificate could be made"))?;
        let hub = Arc::new(Hub {
            advertised: config.advertised(socket.bound())?,
            config,
            routes: Mutex::default(),
            socket,
            crypto,
            certificate,
            next_id: AtomicU64::new(1),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        tokio::spawn(read(Arc::clone(&hub)));
        Ok(Arc::new(Self { hub }))
    }

    /// The address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.hub.socket.bound()
    }

    /// How many peers there are.
    pub fn peers(&self) -> usize {
        self.hub.routes.lock().len()
    }

    /// Answers an offer. The answer holds all addresses of this endpoint; it has none to trickle. Called
    /// within a runtime.
    pub fn answer(&self, offer: &str) -> Result<(Peer, String), OfferError> {
        if offer.len() > MAX_SDP_BYTES {
            return Err(OfferError::TooLarge);
        }
        sdp::check_offer(offer)?;
        let fragment = sdp::username_fragment(offer)
            .ok_or_else(|| OfferError::Unusable(String::from("it has no ice-ufrag")))?;
        let unusable = |error: &dyn std::fmt::Display| OfferError::Unusable(error.to_string());
        let parsed = SdpOffer::from_sdp_string(offer).map_err(|error| unusable(&error))?;

        let hub = &self.hub;
        let mut rtc = stack(&hub.crypto, &hub.certificate, now());
        for address in &hub.advertised {
            let candidate = Candidate::host(*address, "udp").map_err(|error| unusable(&error))?;
            rtc.add_local_candidate(candidate);
        }
        let answer = rtc.sdp_api().accept_offer(parsed).map_err(|error| unusable(&error))?;
        let our_fragment = rtc.direct_api().local_ice_credentials().ufrag;

        let id = PeerId::new(hub.next_id.fetch_add(1, Ordering::Relaxed));
        let shared = Arc::new(Shared::new(id, fragment.to_owned(), hub.closing.child_token()));
        let (datagram_sender, datagrams) = mpsc::channel(DATAGRAM_QUEUE);
        let (command_sender, commands) = mpsc::channel(COMMAND_QUEUE);
        let (event_sender, events) = mpsc::channel(EVENT_QUEUE);
        {
            let mut routes = hub.routes.lock();
            if hub.closing.is_cancelled() {
                return Err(OfferError::Closed);
            }
            if routes.len() >= hub.config.max_peers {
                return Err(OfferError::Full);
            }
            routes.add(id, our_fragment, datagram_sender);
        }
        let driver =
            Driver::new(Arc::clone(hub), Arc::clone(&shared), rtc, datagrams, commands, event_sender);
        hub.tasks.spawn(driver.run());
        Ok((Peer::new(PeerHandle::new(shared, command_sender), events), answer.to_sdp_string()))
    }

    /// Closes every peer, lets them say good-bye, and answers no more offers.
    pub async fn close(&self) {
        self.hub.closing.cancel();
        self.hub.tasks.close();
        // Peers bound their own good-byes; this is for one that does not.
        let _ = tokio::time::timeout(FAREWELL, self.hub.tasks.wait()).await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.hub.closing.cancel();
    }
}

impl Hub {
    /// The advertised address that datagrams of this origin came to. What the system tells may be another
    /// one, behind a translation of addresses.
    pub(crate) fn destination(&self, origin: Origin) -> Option<SocketAddr> {
        let same_family = |address: &&SocketAddr| address.is_ipv4() == origin.source.is_ipv4();
        let told = self.advertised.iter().find(|address| Some(address.ip()) == origin.local);
        told.or_else(|| self.advertised.iter().find(same_family)).copied()
    }

    /// Sends a datagram. One that cannot be sent is lost, as on any network.
    pub(crate) async fn transmit(&self, contents: &[u8], destination: SocketAddr, from: Option<IpAddr>) {
        if let Err(error) = self.socket.send(contents, destination, from).await {
            tracing::debug!(%error, "a datagram could not be sent");
        }
    }
}

/// Hands every datagram to the peer that it is for, until the endpoint is closed and every peer had the time
/// to say good-bye.
async fn read(hub: Arc<Hub>) {
    let forever = async {
        let mut buffer = vec![0; socket::BUFFER];
        loop {
            let received = hub.socket.receive(&mut buffer, |origin, datagram| {
                if let Some(datagrams) = hub.routes.lock().find(origin.source, datagram) {
                    // A peer that does not keep up loses datagrams, and nobody else does.
                    let contents = Bytes::copy_from_slice(datagram);
                    let _ = datagrams.try_send(Datagram { origin, contents });
                }
            });
            if let Err(error) = received.await {
                tracing::debug!(%error, "a datagram could not be received");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    let closed = async {
        hub.closing.cancelled().await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        () = forever => {}
        () = closed => {}
    }
}

/// The protocol stack of one peer.
pub(crate) fn stack(crypto: &Arc<CryptoProvider>, certificate: &DtlsCert, now: Instant) -> Rtc {
    // A lost packet should not hold up those behind it for as long as a listener would notice.
    const REORDERING: (usize, Duration) = (5, Duration::from_millis(100));
    Rtc::builder()
        .set_crypto_provider(Arc::clone(crypto))
        .set_dtls_cert(certificate.clone())
        .set_ice_lite(true)
        .clear_codecs()
        .enable_opus(true, false)
        .set_reordering_size_audio(REORDERING.0)
        .set_reordering_timeout_audio(Some(REORDERING.1))
        .build(now)
}

/// The time, as the stack counts it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
