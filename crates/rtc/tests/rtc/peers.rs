//! Peers over loopback: connecting, both ways of everything, and every way to end.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use str0m::channel::{ChannelConfig, Reliability};
use switchboard_rtc::{CandidatesError, CloseReason, Endpoint, OfferError, PeerEvent, RtcConfig, SendError};

use crate::client::{Client, Do, Offer, PATIENCE, Seen, channel, config, next, until};
use crate::sound::{FRAME, RATE, pitch, tone};

#[tokio::test]
async fn messages_go_both_ways() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, mut peer) = Client::connected(&endpoint).await;
    client.order(Do::Text("hello".into())).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Text("hello".into()));
    let long = "ä".repeat(32_768);
    peer.send_text("first").unwrap();
    peer.send_text(long.clone()).unwrap();
    assert_eq!(client.next().await, Seen::Text("first".into()));
    assert_eq!(client.next().await, Seen::Text(long.clone()));
    client.order(Do::Text(long.clone())).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Text(long));
}

#[tokio::test]
async fn messages_sent_before_the_channel_is_open_wait_for_it() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, peer) = Client::begin(&endpoint).await;
    peer.send_text("early").unwrap();
    assert_eq!(peer.waiting().text_bytes, 5);
    let seen = client.until(|seen| matches!(seen, Seen::Text(_))).await;
    assert_eq!(seen, Seen::Text("early".into()));
    assert_eq!(peer.waiting().text_bytes, 0);
}

#[tokio::test]
async fn what_the_channel_does_not_carry_is_reported() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    client.order(Do::Binary(vec![1, 2, 3])).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Binary(3));
    client.order(Do::Text("x".repeat(65_537))).await;
    assert_eq!(next(&mut peer).await, PeerEvent::TooLarge(65_537));
    client.order(Do::Text("x".repeat(65_536))).await;
    assert!(matches!(next(&mut peer).await, PeerEvent::Text(text) if text.len() == 65_536));
    assert_eq!(peer.send_text("x".repeat(65_537)), Err(SendError::TooLarge));
}

#[tokio::test]
async fn audio_that_comes_in_is_what_was_spoken() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    let sent = tone(440.0, 50);
    let speaking = async {
        for (number, packet) in sent.iter().enumerate() {
            // A second of silence in the middle: nothing is sent, but time goes on.
            let silence = if number < 25 { 0 } else { u64::from(RATE) };
            let rtp_time = 7_000 + (number * FRAME) as u64 + silence;
            client.order(Do::Audio { packet: packet.clone(), rtp_time }).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let listening = async {
        let mut heard = Vec::new();
        while heard.len() < 40 {
            if let PeerEvent::Audio(packet, offset) = until(&mut peer, is_audio).await {
                heard.push((packet, offset));
            }
        }
        heard
    };
    let ((), heard) = tokio::join!(speaking, listening);
    let packets: Vec<Bytes> = heard.iter().map(|(packet, _)| packet.clone()).collect();
    assert!((pitch(&packets) - 440.0).abs() < 30.0, "{}", pitch(&packets));
    assert_eq!(heard[0].1, Duration::ZERO);
    assert!(heard.is_sorted_by_key(|(_, offset)| *offset));
    assert!(heard[39].1 > Duration::from_millis(1700), "silence counts: {:?}", heard[39].1);
}

fn is_audio(event: &PeerEvent) -> bool {
    matches!(event, PeerEvent::Audio(..))
}

#[tokio::test]
async fn audio_that_goes_out_is_paced() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, peer) = Client::connected(&endpoint).await;
    let started = tokio::time::Instant::now();
    for packet in tone(880.0, 50) {
        peer.send_audio(packet, 20).unwrap();
    }
    assert!(peer.waiting().audio >= Duration::from_millis(900));
    let mut heard = Vec::new();
    while heard.len() < 50 {
        if let Seen::Audio { packet, rtp_time } =
            client.until(|seen| matches!(seen, Seen::Audio { .. })).await
        {
            heard.push((Bytes::from(packet), rtp_time));
        }
    }
    assert!(started.elapsed() >= Duration::from_millis(950), "50 packets are a second");
    assert_eq!(peer.waiting().audio, Duration::ZERO);
    let packets: Vec<Bytes> = heard.iter().map(|(packet, _)| packet.clone()).collect();
    assert!((pitch(&packets) - 880.0).abs() < 50.0, "{}", pitch(&packets));
    assert!(heard.windows(2).all(|pair| pair[1].1 > pair[0].1), "time goes on");
}

#[tokio::test]
async fn cleared_audio_is_not_sent() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, peer) = Client::connected(&endpoint).await;
    for packet in tone(440.0, 400) {
        peer.send_audio(packet, 20).unwrap();
    }
    client.until(|seen| matches!(seen, Seen::Audio { .. })).await;
    peer.clear_audio();
    let last = tone(880.0, 1).remove(0);
    peer.send_audio(last.clone(), 20).unwrap();
    let cleared = tokio::time::Instant::now();
    client.until(|seen| matches!(seen, Seen::Audio { packet, .. } if *packet == last)).await;
    assert!(cleared.elapsed() < Duration::from_secs(4), "8 seconds were waiting before it");
    assert_eq!(peer.waiting().audio, Duration::ZERO);
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (_client, peer) = Client::begin(&endpoint).await;
    let text = "x".repeat(60_000);
    let taken = (0..100).take_while(|_| peer.send_text(text.clone()).is_ok()).count();
    assert_eq!(taken, 1024 * 1024 / 60_000);
    assert_eq!(peer.send_text(text), Err(SendError::Full));
    let packet = Bytes::from_static(&[0xf8, 0xff, 0xfe]);
    let taken = (0..1000).take_while(|_| peer.send_audio(packet.clone(), 100).is_ok()).count();
    assert!((100..=110).contains(&taken), "ten seconds and what was sent meanwhile, not {taken}");
    assert_eq!(peer.send_audio(Bytes::from(vec![0; 1276]), 20), Err(SendError::TooLarge));
}

#[tokio::test]
async fn a_peer_that_closes_is_gone_at_once() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    client.order(Do::Close).await;
    let handle = peer.handle().clone();
    assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::PeerClosed));
    assert_eq!(peer.next().await, None);
    assert_eq!(handle.send_text("late"), Err(SendError::Closed));
    assert_eq!(handle.add_candidates(""), Err(CandidatesError::Closed));
    assert_eq!(endpoint.peers(), 0);
}

#[tokio::test]
async fn closing_lets_the_last_message_arrive() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, mut peer) = Client::connected(&endpoint).await;
    for number in 0..10 {
        peer.send_text(format!("{number} {}", "x".repeat(10_000))).unwrap();
    }
    peer.send_text("the last").unwrap();
    peer.close();
    client.until(|seen| *seen == Seen::Text("the last".into())).await;
    client.until(|seen| *seen == Seen::Closed).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::Local));
}

#[tokio::test]
async fn a_dropped_peer_is_closed() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, peer) = Client::connected(&endpoint).await;
    drop(peer);
    client.until(|seen| *seen == Seen::Closed).await;
}

#[tokio::test]
async fn a_closed_endpoint_closes_its_peers_and_answers_nobody() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, mut peer) = Client::connected(&endpoint).await;
    endpoint.close().await;
    assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::Local));
    client.until(|seen| *seen == Seen::Closed).await;
    let offer = Offer::new(channel()).await;
    assert_eq!(endpoint.answer(&offer.sdp).err(), Some(OfferError::Closed));
}

#[tokio::test]
async fn a_peer_that_vanishes_is_noticed() {
    let silence_timeout = Duration::from_secs(8);
    let endpoint = Endpoint::bind(RtcConfig { silence_timeout, ..config() }).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    // It stays for longer than that without a word of its own: the stack speaks for it.
    let quiet = tokio::time::timeout(Duration::from_secs(10), peer.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    client.vanish();
    assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::TimedOut));
    assert_eq!(endpoint.peers(), 0);
}

#[tokio::test]
async fn a_peer_that_never_comes_is_given_up() {
    let connect_timeout = Duration::from_millis(300);
    let endpoint = Endpoint::bind(RtcConfig { connect_timeout, ..config() }).await.unwrap();
    let offer = Offer::new(channel()).await;
    let (mut peer, _) = endpoint.answer(&offer.sdp).unwrap();
    assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::IceFailed));
}

#[tokio::test]
async fn a_peer_that_opens_no_channel_is_given_up() {
    let connect_timeout = Duration::from_secs(8);
    let endpoint = Endpoint::bind(RtcConfig { connect_timeout, ..config() }).await.unwrap();
    let offer = Offer::new(ChannelConfig { label: "other".into(), ..channel() }).await;
    let (mut peer, answer) = endpoint.answer(&offer.sdp).unwrap();
    let _client = offer.connect(&answer);
    assert_eq!(next(&mut peer).await, PeerEvent::Connected);
    let last = next(&mut peer).await;
    assert!(matches!(last, PeerEvent::Closed(CloseReason::Error(_))), "{last:?}");
}

#[tokio::test]
async fn other_channels_are_closed_and_the_peer_is_not() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (mut client, mut peer) = Client::connected(&endpoint).await;
    for other in [
        ChannelConfig { label: "other".into(), ..channel() },
        ChannelConfig { protocol: "other".into(), ..channel() },
        ChannelConfig { ordered: false, ..channel() },
        ChannelConfig { reliability: Reliability::MaxRetransmits { retransmits: 0 }, ..channel() },
        // Even a second one of the right kind.
        channel(),
    ] {
        client.order(Do::Open(other)).await;
        client.until(|seen| *seen == Seen::ChannelClosed).await;
    }
    client.order(Do::Text("still here".into())).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Text("still here".into()));
}

#[tokio::test]
async fn an_owner_who_does_not_read_loses_the_peer() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    for _ in 0..100 {
        client.order(Do::Text("x".repeat(60_000))).await;
    }
    tokio::time::timeout(PATIENCE, async {
        while endpoint.peers() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the peer is closed");
    let last = until(&mut peer, |event| matches!(event, PeerEvent::Closed(_))).await;
    assert_eq!(last, PeerEvent::Closed(CloseReason::Overrun));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_peers_share_a_port() {
    let endpoint = Endpoint::bind(RtcConfig { max_peers: 20, ..config() }).await.unwrap();
    let peers = join_all((0..20).map(|_| Client::connected(&endpoint))).await;
    assert_eq!(endpoint.peers(), 20);
    let offer = Offer::new(channel()).await;
    assert_eq!(endpoint.answer(&offer.sdp).err(), Some(OfferError::Full));
    join_all(peers.into_iter().enumerate().map(|(number, (mut client, mut peer))| async move {
        client.order(Do::Text(format!("from {number}"))).await;
        assert_eq!(next(&mut peer).await, PeerEvent::Text(format!("from {number}")));
        peer.send_text(format!("to {number}")).unwrap();
        assert_eq!(client.next().await, Seen::Text(format!("to {number}")));
        client.order(Do::Close).await;
        assert_eq!(next(&mut peer).await, PeerEvent::Closed(CloseReason::PeerClosed));
    }))
    .await;
    assert_eq!(endpoint.peers(), 0);
}

#[tokio::test]
async fn noise_on_the_port_disturbs_nobody() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let offer = Offer::new(channel()).await;
    let (mut peer, answer) = endpoint.answer(&offer.sdp).unwrap();
    let fragment = answer.lines().find_map(|line| line.strip_prefix("a=ice-ufrag:")).unwrap();
    let stranger = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    // A check that names the peer, without knowing its password.
    let username = format!("{fragment}:guess");
    let mut check = vec![0x00, 0x01, 0x00, 0x00, 0x21, 0x12, 0xa4, 0x42];
    check.extend([9; 12]);
    check.extend([0x00, 0x06, 0x00, username.len() as u8]);
    check.extend(username.as_bytes());
    check.resize(check.len().next_multiple_of(4), 0);
    check[3] = (check.len() - 20) as u8;
    let noise: [&[u8]; 6] =
        [&check, &[], &[0x80; 1200], &[22, 254, 253, 0, 0], &[0; 2000], b"GET / HTTP/1.1"];
    for datagram in noise.iter().cycle().take(300) {
        stranger.send_to(datagram, endpoint.local_addr()).await.unwrap();
    }
    let client = offer.connect(&answer);
    until(&mut peer, |event| *event == PeerEvent::ChannelOpen).await;
    for datagram in noise.iter().cycle().take(300) {
        stranger.send_to(datagram, endpoint.local_addr()).await.unwrap();
    }
    client.order(Do::Text("hello".into())).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Text("hello".into()));
    let mut answered = [0; 64];
    assert!(stranger.try_recv(&mut answered).is_err(), "nobody answers a stranger");
}

#[tokio::test]
async fn an_endpoint_on_every_interface_is_reached_at_what_it_advertises() {
    let endpoint =
        Endpoint::bind(RtcConfig { listen: "0.0.0.0:0".parse().unwrap(), ..config() }).await.unwrap();
    let (client, mut peer) = Client::connected(&endpoint).await;
    client.order(Do::Text("hello".into())).await;
    assert_eq!(next(&mut peer).await, PeerEvent::Text("hello".into()));
}

#[tokio::test]
async fn an_endpoint_is_reached_through_its_public_address() {
    // Behind a translation of addresses, the socket knows nothing of the address that peers send to; one for
    // both families even sees theirs written differently.
    // Answers come from the address that was asked, although the routing table would choose another.
    let unusual = std::net::UdpSocket::bind("127.0.0.5:0").is_ok();
    let public = vec![if unusual { "127.0.0.5" } else { "127.0.0.1" }.parse().unwrap()];
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let public = public.clone();
        if std::net::UdpSocket::bind(listen).is_err() {
            continue; // There are machines without IPv6.
        }
        let listen = listen.parse().unwrap();
        let endpoint = Endpoint::bind(RtcConfig { listen, public, ..config() }).await.unwrap();
        let (mut client, mut peer) = Client::connected(&endpoint).await;
        client.order(Do::Text("hello".into())).await;
        assert_eq!(next(&mut peer).await, PeerEvent::Text("hello".into()));
        peer.send_text("hello yourself").unwrap();
        assert_eq!(client.next().await, Seen::Text("hello yourself".into()));
    }
}
