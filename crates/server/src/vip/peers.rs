//! WebRTC peers: each becomes a connection once its data channel is open.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use switchboard_core::{Method, OpeningRequest, Pii, Protocol, Refusal};
use switchboard_rtc::{CandidatesError, Endpoint, OfferError, Peer, PeerEvent, PeerHandle};
use switchboard_vip::errand::{Answered, Failed};
use switchboard_vip::{STREAM, SUBPROTOCOL};

use super::failed;
use crate::errands::ErrandCaller;
use crate::transport::RtcTransport;
use crate::upgrade::Door;

/// Every peer, from the answer to its offer until it is gone.
#[derive(Debug)]
pub(crate) struct Peers {
    endpoint: Arc<Endpoint>,
    /// Where they come in, once there is a door.
    entrance: OnceLock<Entrance>,
    /// By session and name.
    known: Mutex<BTreeMap<(String, String), PeerHandle>>,
}

#[derive(Debug)]
struct Entrance {
    door: Weak<Door>,
    protocol: Arc<dyn Protocol>,
}

impl Peers {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Arc<Self> {
        Arc::new(Self { endpoint, entrance: OnceLock::new(), known: Mutex::default() })
    }

    /// Says where peers come in, and what they speak; only the first time counts.
    pub(crate) fn lead_to(&self, door: &Arc<Door>, protocol: Arc<dyn Protocol>) {
        let _ = self.entrance.set(Entrance { door: Arc::downgrade(door), protocol });
    }

    /// Answers an offer; the peer comes in by itself when it is connected.
    pub(super) fn answer(
        self: &Arc<Self>,
        caller: &ErrandCaller,
        session: &str,
        sdp: &str,
        token: String,
    ) -> Result<Answered, Failed> {
        if self.known.lock().keys().filter(|(own, _)| own == session).count() >= PER_SESSION {
            return Err(failed("SES_QUOTA", "the session has too many peers; end one first"));
        }
        let (peer, sdp) = self.endpoint.answer(sdp).map_err(|error| refused(&error))?;
        let name = format!("pc_{}", peer.id());
        let key = (session.to_owned(), name.clone());
        self.known.lock().insert(key.clone(), peer.handle().clone());
        let request = OpeningRequest {
            id: format!("peer-{name}"),
            path: STREAM,
            target: STREAM.replace("{sid}", session),
            origin: caller.origin.clone(),
            authorization: Some(Pii(format!("Bearer {token}"))),
            subprotocols: vec![Pii(SUBPROTOCOL.to_owned())],
            websocket: true,
            method: Method::Get,
            ..OpeningRequest::default()
        };
        let (peers, address) = (self.clone(), caller.address);
        tokio::spawn(async move {
            peers.serve(peer, request, address).await;
            peers.known.lock().remove(&key);
        });
        Ok(Answered { peer: name, sdp })
    }

    pub(super) fn trickle(&self, session: &str, peer: &str, fragment: &str) -> Result<(), Failed> {
        self.find(session, peer)?.add_candidates(fragment).map_err(|error| match error {
            CandidatesError::Malformed | CandidatesError::OtherGeneration => {
                failed("PROTO_MALFORMED", error.to_string())
            }
            CandidatesError::TooMany => failed("RATE_EVENTS", error.to_string()),
            CandidatesError::Closed => unknown(),
        })
    }

    pub(super) fn hang_up(&self, session: &str, peer: &str) -> Result<(), Failed> {
        self.find(session, peer)?.close();
        Ok(())
    }

    fn find(&self, session: &str, peer: &str) -> Result<PeerHandle, Failed> {
        let key = (session.to_owned(), peer.to_owned());
        self.known.lock().get(&key).cloned().ok_or_else(unknown)
    }

    /// Lets a peer in once it can speak, and serves it until it is gone.
    async fn serve(&self, mut peer: Peer, request: OpeningRequest, address: IpAddr) {
        loop {
            match peer.next().await {
                Some(PeerEvent::ChannelOpen) => break,
                Some(PeerEvent::Closed(reason)) => {
                    tracing::debug!(?reason, "a peer has never spoken");
                    return;
                }
                // Nothing can be said before the channel is open, and nobody listens to the track yet.
                Some(
                    PeerEvent::Connected
                    | PeerEvent::Text(_)
                    | PeerEvent::Binary(_)
                    | PeerEvent::TooLarge(_)
                    | PeerEvent::Audio(..),
                ) => {}
                None => return,
            }
        }
        match self.invite(request, address).await {
            Ok(guest) => guest.drive(RtcTransport::new(peer)).await,
            Err(refusal) => tracing::debug!(?refusal, "a peer was refused"),
        }
    }

    async fn invite(
        &self,
        request: OpeningRequest,
        address: IpAddr,
    ) -> Result<crate::upgrade::Guest, Refusal> {
        let entrance = self.entrance.get().and_then(|entrance| Some((entrance.door.upgrade()?, entrance)));
        let Some((door, entrance)) = entrance else { return Err(Refusal::Draining { retry_ms: 0 }) };
        let parameters = vec![("webrtc".to_owned(), "true".to_owned())];
        door.invite(&entrance.protocol, request, parameters, address).await
    }

    /// Ends every peer.
    pub(crate) async fn close(&self) {
        self.endpoint.close().await;
    }
}

fn unknown() -> Failed {
    failed("SES_NOT_FOUND", "there is no such peer")
}

fn refused(error: &OfferError) -> Failed {
    let code = match error {
        OfferError::TooLarge => "PROTO_TOO_LARGE",
        OfferError::Flawed(_) | OfferError::Unusable(_) => "PROTO_MALFORMED",
        OfferError::Full => "SES_QUOTA",
        OfferError::Closed => "NET_SERVER_DRAINING",
    };
    failed(code, error.to_string())
}

/// Peers of one session that may exist at the same time: one that is used, and others on their way.
const PER_SESSION: usize = 4;
