//! What strangers can send, without sockets and tasks: entry points for fuzzers and for tests on random input. Nothing
//! that is sent may make them panic, run on, or take memory for what was only declared.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use str0m::change::{SdpAnswer, SdpOffer};
use str0m::channel::ChannelConfig;
use str0m::config::{CryptoProvider, DtlsCert, DtlsVersion};
use str0m::ice::StunMessage;
use str0m::media::{Direction, MediaKind};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, Input, Output, Rtc};

use crate::endpoint::{now, stack};
use crate::{crypto, routes, sdp};

/// An offer as the body of a request holds it.
pub fn offer(bytes: &[u8]) {
    let Ok(offer) = std::str::from_utf8(bytes) else { return };
    let flawed = offer.len() > sdp::MAX_SDP_BYTES || sdp::check_offer(offer).is_err();
    if flawed || sdp::username_fragment(offer).is_none() {
        return;
    }
    let Ok(parsed) = SdpOffer::from_sdp_string(offer) else { return };
    let mut rtc = server(now());
    if let Ok(answer) = rtc.sdp_api().accept_offer(parsed) {
        assert!(
            answer.to_sdp_string().len() < 16 * sdp::MAX_SDP_BYTES,
            "an answer is about as long as its offer"
        );
    }
}

/// A fragment with candidates, as the body of a request holds it.
pub fn fragment(bytes: &[u8]) {
    let Ok(fragment) = std::str::from_utf8(bytes) else { return };
    let _ = sdp::trickled(fragment, sdp::username_fragment(fragment).unwrap_or_default());
}

/// A datagram of whoever has not shown anything yet.
pub fn stun(datagram: &[u8]) {
    let named = routes::checked_fragment(datagram).map(str::to_owned);
    if let Ok(message) = StunMessage::parse(datagram) {
        let user = message.split_username().map(|(own, _)| own.to_owned());
        // Whatever both understand they understand alike.
        if let (Some(named), Some(user)) = (named, user) {
            assert_eq!(named, user);
        }
    }
}

/// Datagrams of a handshake, each behind its length, to a server that waits for one.
pub fn dtls(bytes: &[u8]) {
    let (crypto, certificate) = &*CRYPTO;
    let begun = now();
    let Ok(mut dtls) = crypto.dtls_provider.new_dtls(certificate, begun, DtlsVersion::Dtls12, None) else {
        return;
    };
    dtls.set_active(false);
    let mut buffer = vec![0; 4096];
    // Before anything is received, as the stack does it.
    if dtls.handle_timeout(begun).is_err() {
        return;
    }
    for (number, datagram) in datagrams(bytes).enumerate() {
        if dtls.handle_packet(datagram).is_err() {
            return;
        }
        for _ in 0..MAX_OUTPUTS {
            if let str0m::crypto::dtls::DtlsOutput::Timeout(_) = dtls.poll_output(&mut buffer) {
                break;
            }
        }
        let later = begun + Duration::from_millis(number as u64 * 700);
        if dtls.handle_timeout(later).is_err() {
            return;
        }
    }
}

/// A client that connects and speaks, over a network that harms what it sends: each byte of the input is the fate of a
/// datagram, and those behind it say how.
pub fn peer(bytes: &[u8]) {
    let mut fates = bytes.iter().copied();
    let mut time = now();
    let Some((mut client, mut own)) = pair(time) else { return };
    let mut to_server: VecDeque<Vec<u8>> = VecDeque::new();
    let mut to_client: VecDeque<Vec<u8>> = VecDeque::new();
    for _ in 0..MAX_STEPS {
        if !run(&mut client, &mut to_server) || !run(&mut own, &mut to_client) {
            return;
        }
        while let Some(datagram) = to_client.pop_front() {
            if !receive(&mut client, time, (SERVER, CLIENT), &datagram) {
                return;
            }
        }
        while let Some(mut datagram) = to_server.pop_front() {
            if !harm(&mut datagram, &mut fates) {
                continue;
            }
            if !receive(&mut own, time, (CLIENT, SERVER), &datagram) {
                return;
            }
        }
        time += STEP;
        for rtc in [&mut client, &mut own] {
            if rtc.handle_input(Input::Timeout(time)).is_err() {
                return;
            }
        }
    }
}

/// What becomes of a datagram; false if it is lost.
fn harm(datagram: &mut Vec<u8>, fates: &mut impl Iterator<Item = u8>) -> bool {
    let mut next = || fates.next();
    match next() {
        // Most arrive as they were sent, and all once there is nothing left that says otherwise.
        None | Some(0..=199) => {}
        Some(200..=209) => return false,
        Some(210..=229) => {
            if let (Some(at), Some(byte)) = (next(), next())
                && let Some(place) = datagram.get_mut(usize::from(at) * 6 % MAX_DATAGRAM)
            {
                *place ^= byte;
            }
        }
        Some(230..=239) => datagram.truncate(usize::from(next().unwrap_or_default()) * 6),
        Some(240..=247) => {
            datagram.clear();
            datagram.extend((0..usize::from(next().unwrap_or_default())).map_while(|_| next()));
        }
        Some(248..=255) => {
            let more: Vec<u8> = (0..usize::from(next().unwrap_or_default())).map_while(|_| next()).collect();
            datagram.extend(more);
        }
    }
    true
}

fn receive(
    rtc: &mut Rtc,
    time: Instant,
    (source, destination): (SocketAddr, SocketAddr),
    datagram: &[u8],
) -> bool {
    match Receive::new(Protocol::Udp, source, destination, datagram) {
        Ok(received) => rtc.handle_input(Input::Receive(time, received)).is_ok(),
        // It is nothing that belongs to a peer.
        Err(_) => true,
    }
}

/// Takes everything that a stack has to say; false once it has failed, or says good-bye.
fn run(rtc: &mut Rtc, sent: &mut VecDeque<Vec<u8>>) -> bool {
    let mut said = 0;
    loop {
        said += 1;
        assert!(said < MAX_OUTPUTS, "a stack that has no end of things to say");
        match rtc.poll_output() {
            Ok(Output::Timeout(_)) => return rtc.is_alive(),
            Ok(Output::Transmit(transmit)) => sent.push_back(transmit.contents.to_vec()),
            Ok(Output::Event(Event::ChannelOpen(id, _))) => {
                if let Some(mut channel) = rtc.channel(id) {
                    let _ = channel.write(false, b"hello");
                }
            }
            Ok(Output::Event(_)) => {}
            Err(_) => return false,
        }
    }
}

/// A client and a server that have agreed.
fn pair(time: Instant) -> Option<(Rtc, Rtc)> {
    let (crypto, _) = &*CRYPTO;
    let mut client = Rtc::builder().set_crypto_provider(Arc::clone(crypto)).build(time);
    client.add_local_candidate(Candidate::host(CLIENT, "udp").ok()?);
    let mut changes = client.sdp_api();
    changes.add_media(MediaKind::Audio, Direction::SendRecv, None, None, None);
    changes.add_channel_with_config(ChannelConfig { label: "events".into(), ..ChannelConfig::default() });
    let (offer, pending) = changes.apply()?;
    let mut own = server(time);
    own.add_local_candidate(Candidate::host(SERVER, "udp").ok()?);
    let offer = SdpOffer::from_sdp_string(&offer.to_sdp_string()).ok()?;
    let answer = own.sdp_api().accept_offer(offer).ok()?;
    let answer = SdpAnswer::from_sdp_string(&answer.to_sdp_string()).ok()?;
    client.sdp_api().accept_answer(pending, answer).ok()?;
    Some((client, own))
}

fn server(time: Instant) -> Rtc {
    let (crypto, certificate) = &*CRYPTO;
    stack(crypto, certificate, time)
}

/// Each piece behind its length in two bytes.
fn datagrams(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (datagram, rest) = rest.split_at(length);
        bytes = rest;
        Some(datagram)
    })
}

/// Made once: a certificate takes longer than everything else here.
static CRYPTO: LazyLock<(Arc<CryptoProvider>, DtlsCert)> = LazyLock::new(|| {
    let crypto = Arc::new(crypto::provider());
    let certificate = crypto.dtls_provider.generate_certificate();
    (crypto, certificate.unwrap_or_else(|| DtlsCert { certificate: Vec::new(), private_key: Vec::new() }))
});
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 5000);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)), 3478);
/// Time that passes from one look to the next.
const STEP: Duration = Duration::from_millis(20);
/// So often both sides are looked at: enough to connect and to talk.
const MAX_STEPS: usize = 60;
/// So many things a stack may have to say at once.
const MAX_OUTPUTS: usize = 10_000;
const MAX_DATAGRAM: usize = 1500;
