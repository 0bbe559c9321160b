//! Offers, whole and spoilt, and what follows them.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use switchboard_rtc::{CandidatesError, Endpoint, OfferError, OfferFlaw, PeerEvent, RtcConfig};

use crate::client::{Offer, channel, config, next};

#[tokio::test]
async fn a_public_address_is_what_the_answer_holds() {
    let public = vec!["203.0.113.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    let endpoint = Endpoint::bind(RtcConfig { public, ..config() }).await.unwrap();
    let offer = Offer::new(channel()).await;
    let (_peer, answer) = endpoint.answer(&offer.sdp).unwrap();
    let port = endpoint.local_addr().port();
    let candidates: Vec<&str> = answer.lines().filter(|line| line.starts_with("a=candidate")).collect();
    assert!(candidates.iter().any(|line| line.contains(&format!(" 203.0.113.7 {port} typ host"))));
    assert!(candidates.iter().any(|line| line.contains(&format!(" 2001:db8::7 {port} typ host"))));
    assert!(!answer.contains("127.0.0.1 "), "{answer}");
}

#[tokio::test]
async fn offers_that_are_not_taken_leave_nothing_behind() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let offer = Offer::new(channel()).await.sdp;
    let audio_at = offer.find("m=audio").unwrap();
    let data_at = offer.find("m=application").unwrap();
    let without_data = &offer[..data_at.max(audio_at)];
    for (offer, error) in [
        (without_data.to_owned(), OfferError::Flawed(OfferFlaw::Application)),
        (offer.replace("a=sendrecv", "a=sendonly"), OfferError::Flawed(OfferFlaw::Direction)),
        (offer.replace("opus/48000", "speex/48000"), OfferError::Flawed(OfferFlaw::Codec)),
        (String::new(), OfferError::Flawed(OfferFlaw::Audio)),
        ("x".repeat(70_000), OfferError::TooLarge),
    ] {
        assert_eq!(endpoint.answer(&offer).err(), Some(error));
    }
    let unusable = |offer: &str| matches!(endpoint.answer(offer), Err(OfferError::Unusable(_)));
    assert!(unusable(&offer.replace("a=fingerprint", "a=x-fingerprint")), "no fingerprint");
    assert!(unusable(&offer.replace("a=ice-ufrag", "a=x-ice-ufrag")), "no credentials");
    assert_eq!(endpoint.peers(), 0);
}

/// One way to spoil a description.
#[derive(Clone, Debug)]
enum Damage {
    Drop(Index),
    Repeat(Index),
    Swap(Index, Index),
    Byte(Index, u8),
    Number(Index, u64),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<Index>().prop_map(Damage::Drop),
        any::<Index>().prop_map(Damage::Repeat),
        any::<(Index, Index)>().prop_map(|(one, other)| Damage::Swap(one, other)),
        (any::<Index>(), 32_u8..127).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        any::<(Index, u64)>().prop_map(|(at, number)| Damage::Number(at, number)),
    ]
}

fn spoil(sdp: &str, damage: &[Damage]) -> String {
    let mut lines: Vec<String> = sdp.lines().map(str::to_owned).collect();
    for one in damage {
        match one {
            Damage::Drop(at) if lines.len() > 1 => {
                lines.remove(at.index(lines.len()));
            }
            Damage::Drop(_) => {}
            Damage::Repeat(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at].clone());
            }
            Damage::Swap(one, other) => {
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
            }
            Damage::Byte(at, byte) => {
                let mut text = lines.join("\n").into_bytes();
                let at = at.index(text.len());
                text[at] = *byte;
                lines = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
            }
            Damage::Number(at, number) => {
                let at = at.index(lines.len());
                let digits = lines[at].find(|letter: char| letter.is_ascii_digit());
                if let Some(digits) = digits {
                    let end = lines[at][digits..].find(|letter: char| !letter.is_ascii_digit());
                    let end = end.map_or(lines[at].len(), |end| digits + end);
                    lines[at].replace_range(digits..end, &number.to_string());
                }
            }
        }
    }
    lines.iter().map(|line| format!("{line}\r\n")).collect()
}

#[test]
fn any_offer_is_answered_or_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (endpoint, offer) = runtime
        .block_on(async { (Endpoint::bind(config()).await.unwrap(), Offer::new(channel()).await.sdp) });
    let mut answered = 0;
    let mut runner = TestRunner::deterministic();
    let spoilt = prop::collection::vec(damage(), 1..6).prop_map(|damage| spoil(&offer, &damage));
    let checked = (0..64).map(|_| spoilt.new_tree(&mut runner).unwrap().current());
    for offer in checked {
        let _inside = runtime.enter();
        answered += usize::from(endpoint.answer(&offer).is_ok());
        // Peers are dropped at once; their tasks have to be seen off.
        runtime.block_on(tokio::task::yield_now());
    }
    assert!((10..60).contains(&answered), "some of both: {answered}");
}

#[tokio::test]
async fn candidates_can_come_later() {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let offer = Offer::new(channel()).await;
    // As browsers do: the offer goes out before any candidate, or with names in place of addresses.
    let (candidates, rest): (Vec<&str>, Vec<&str>) =
        offer.sdp.lines().partition(|line| line.starts_with("a=candidate"));
    let hidden = "a=candidate:1 1 udp 2130706431 5a4b9c2e-2f58-4d2b-9d2b-1f0e6c6f2f11.local 61765 typ host";
    let bare = format!("{}\r\n{hidden}\r\n", rest.join("\r\n"));
    let (mut peer, answer) = endpoint.answer(&bare).unwrap();
    let ufrag = rest.iter().find(|line| line.starts_with("a=ice-ufrag")).unwrap();
    let fragment = format!("{ufrag}\r\n{}\r\na=end-of-candidates\r\n", candidates[0]);
    peer.add_candidates(&fragment).unwrap();
    assert_eq!(peer.add_candidates("a=ice-ufrag:other\r\n"), Err(CandidatesError::OtherGeneration));
    assert_eq!(peer.add_candidates("{}"), Err(CandidatesError::Malformed));
    let _client = offer.connect(&answer);
    assert_eq!(next(&mut peer).await, PeerEvent::Connected);
    assert_eq!(next(&mut peer).await, PeerEvent::ChannelOpen);
}
