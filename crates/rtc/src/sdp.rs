//! What is read of session descriptions besides what the stack reads: whether an offer is one that is taken,
//! and the candidates in a trickle fragment.

use std::net::IpAddr;

use str0m::Candidate;

use crate::peer::CandidatesError;

/// No description that belongs here is longer.
pub(crate) const MAX_SDP_BYTES: usize = 64 * 1024;

/// So many candidates are taken of one fragment.
const MAX_CANDIDATES: usize = 32;

/// What is wrong with an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferFlaw {
    /// It has no audio section, or several.
    #[error("the offer has to have exactly one audio section")]
    Audio,
    /// Its audio does not go both ways.
    #[error("the audio section has to be sendrecv")]
    Direction,
    /// Its audio is not Opus.
    #[error("the audio section has to offer opus/48000")]
    Codec,
    /// It has no data channel section, or several.
    #[error("the offer has to have exactly one application section, with webrtc-datachannel")]
    Application,
    /// It has a section that is neither.
    #[error("the offer may have no sections besides audio and application")]
    Section,
}

/// A section of an offer: from one m-line to the next.
#[derive(Default)]
struct Section<'a> {
    media: &'a str,
    rejected: bool,
    direction: Option<&'a str>,
    opus: bool,
    data_channel: bool,
}

/// Checks that an offer is for one audio track both ways with Opus, and one data channel transport.
pub(crate) fn check_offer(offer: &str) -> Result<(), OfferFlaw> {
    let mut session_direction = None;
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in offer.lines().map(str::trim_end) {
        if let Some(media) = line.strip_prefix("m=") {
            let mut words = media.split_ascii_whitespace();
            sections.push(Section {
                media: words.next().unwrap_or_default(),
                rejected: words.next() == Some("0"),
                data_channel: words.any(|word| word == "webrtc-datachannel"),
                ..Section::default()
            });
        } else if let Some(attribute) = line.strip_prefix("a=") {
            let is_direction = matches!(attribute, "sendrecv" | "sendonly" | "recvonly" | "inactive");
            match sections.last_mut() {
                None if is_direction => session_direction = Some(attribute),
                Some(section) if is_direction => section.direction = Some(attribute),
                Some(section) => section.opus |= is_opus(attribute),
                None => {}
            }
        }
    }
    let live = |media: &str| sections.iter().filter(|s| s.media == media && !s.rejected).count();
    let audio = sections.iter().find(|section| section.media == "audio").ok_or(OfferFlaw::Audio)?;
    if live("audio") != 1 {
        return Err(OfferFlaw::Audio);
    }
    let application =
        sections.iter().find(|section| section.media == "application").ok_or(OfferFlaw::Application)?;
    if live("application") != 1 || !application.data_channel {
        return Err(OfferFlaw::Application);
    }
    if sections.len() != 2 {
        return Err(OfferFlaw::Section);
    }
    // Both ways is also what silence means.
    if audio.direction.or(session_direction).is_some_and(|direction| direction != "sendrecv") {
        return Err(OfferFlaw::Direction);
    }
    if !audio.opus {
        return Err(OfferFlaw::Codec);
    }
    Ok(())
}

/// Whether an attribute maps a payload type to Opus: `rtpmap:111 opus/48000/2`.
fn is_opus(attribute: &str) -> bool {
    attribute
        .strip_prefix("rtpmap:")
        .and_then(|map| map.split_ascii_whitespace().nth(1))
        .is_some_and(|codec| codec.to_ascii_lowercase().starts_with("opus/48000"))
}

/// The username fragment of a description, wherever it stands.
pub(crate) fn username_fragment(description: &str) -> Option<&str> {
    description.lines().find_map(|line| line.trim_end().strip_prefix("a=ice-ufrag:"))
}

/// The candidates of a trickle fragment (RFC 8840) of the peer that offered with `ufrag`.
///
/// Candidates that this endpoint could never pair with are left out without being an error: other transports
/// than UDP, and names instead of addresses, which is how browsers hide the addresses of a local network.
pub(crate) fn trickled(fragment: &str, ufrag: &str) -> Result<Vec<Candidate>, CandidatesError> {
    if fragment.len() > MAX_SDP_BYTES {
        return Err(CandidatesError::TooMany);
    }
    if username_fragment(fragment).is_some_and(|other| other != ufrag) {
        return Err(CandidatesError::OtherGeneration);
    }
    let mut candidates = Vec::new();
    for line in fragment.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !is_description_line(line) {
            return Err(CandidatesError::Malformed);
        }
        let Some(candidate) = line.strip_prefix("a=").filter(|rest| rest.starts_with("candidate:")) else {
            continue;
        };
        let words: Vec<&str> = candidate.split_ascii_whitespace().collect();
        let [_, _, transport, _, address, _, ..] = words.as_slice() else {
            return Err(CandidatesError::Malformed);
        };
        if !transport.eq_ignore_ascii_case("udp") || address.parse::<IpAddr>().is_err() {
            continue;
        }
        if candidates.len() == MAX_CANDIDATES {
            return Err(CandidatesError::TooMany);
        }
        candidates.push(Candidate::from_sdp_string(candidate).map_err(|_| CandidatesError::Malformed)?);
    }
    Ok(candidates)
}

/// Whether a line has the form that every line of a description has: `x=…`.
fn is_description_line(line: &str) -> bool {
    matches!(line.as_bytes(), [kind, b'=', ..] if kind.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUDIO: &str =
        "m=audio 9 UDP/TLS/RTP/SAVPF 111 9\r\na=rtpmap:111 opus/48000/2\r\na=rtpmap:9 G722/8000\r\n";
    const DATA: &str = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=sctp-port:5000\r\n";

    fn offer(sections: &[&str]) -> String {
        format!("v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n{}", sections.concat())
    }

    #[test]
    fn one_audio_and_one_application_section_are_taken() {
        assert_eq!(check_offer(&offer(&[AUDIO, "a=sendrecv\r\n", DATA])), Ok(()));
        assert_eq!(check_offer(&offer(&[DATA, AUDIO])), Ok(()), "in any order, and sendrecv by default");
    }

    #[test]
    fn every_other_offer_is_refused_for_what_is_wrong_with_it() {
        let video = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=rtpmap:96 VP8/90000\r\n";
        let g722 = "m=audio 9 UDP/TLS/RTP/SAVPF 9\r\na=rtpmap:9 G722/8000\r\n";
        let rejected = AUDIO.replacen(" 9 ", " 0 ", 1);
        let old_data = "m=application 9 DTLS/SCTP 5000\r\n";
        for (sections, flaw) in [
            (vec![DATA], OfferFlaw::Audio),
            (vec![AUDIO, AUDIO, DATA], OfferFlaw::Audio),
            (vec![rejected.as_str(), DATA], OfferFlaw::Audio),
            (vec![AUDIO], OfferFlaw::Application),
            (vec![AUDIO, DATA, DATA], OfferFlaw::Application),
            (vec![AUDIO, old_data], OfferFlaw::Application),
            (vec![AUDIO, DATA, video], OfferFlaw::Section),
            (vec![AUDIO, "a=sendonly\r\n", DATA], OfferFlaw::Direction),
            (vec!["a=recvonly\r\n", AUDIO, DATA], OfferFlaw::Direction),
            (vec![g722, DATA], OfferFlaw::Codec),
            (vec![], OfferFlaw::Audio),
        ] {
            assert_eq!(check_offer(&offer(&sections)), Err(flaw), "{sections:?}");
        }
    }

    #[test]
    fn a_fragment_brings_the_candidates_that_can_be_used() {
        let fragment = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n\
            m=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\n\
            a=candidate:1 1 udp 2130706431 192.0.2.1 61764 typ host generation 0\r\n\
            a=candidate:2 1 udp 2130706431 0f3b.local 61765 typ host\r\n\
            a=candidate:3 1 tcp 1518280447 192.0.2.1 9 typ host tcptype active\r\n\
            a=end-of-candidates\r\n";
        let candidates = trickled(fragment, "EsAw").unwrap();
        assert_eq!(candidates.len(), 1);
        assert_eq!(candidates[0].addr(), "192.0.2.1:61764".parse().unwrap());
        assert!(matches!(trickled(fragment, "other"), Err(CandidatesError::OtherGeneration)));
    }

    #[test]
    fn a_fragment_that_is_none_is_refused() {
        for nonsense in
            ["{\"candidate\":\"x\"}", "a=candidate:1 1 udp", "a=candidate:1 x udp x 192.0.2.1 1 typ host"]
        {
            assert!(matches!(trickled(nonsense, "u"), Err(CandidatesError::Malformed)), "{nonsense}");
        }
        let many = "a=candidate:1 1 udp 2130706431 192.0.2.1 61764 typ host\r\n".repeat(MAX_CANDIDATES + 1);
        assert!(matches!(trickled(&many, "u"), Err(CandidatesError::TooMany)));
    }
}
