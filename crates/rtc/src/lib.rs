//! WebRTC for servers: peers with one audio track and one data channel each, all on one UDP port.
//!
//! An [`Endpoint`] answers offers. Every answer makes a [`Peer`]: a stream of what comes from the other
//! side, and a [`PeerHandle`] to send with. The endpoint is an ICE-lite agent: it never sends to an address
//! that has not first proven to know the credentials of the answer, so an offer cannot make it probe a
//! network.
//!
//! Each peer is a task of its own. Whatever goes wrong in one, even a panic in the protocol stack, ends that
//! peer alone.

mod config;
mod crypto;
mod driver;
mod endpoint;
#[doc(hidden)]
pub mod fuzzing;
mod peer;
mod routes;
mod sdp;
mod socket;
mod speaker;

pub use config::RtcConfig;
pub use endpoint::{Endpoint, OfferError};
pub use peer::{CandidatesError, CloseReason, Peer, PeerEvent, PeerHandle, PeerId, SendError, Waiting};
pub use sdp::OfferFlaw;
