//! Checks of Alicia.

use super::check::{Check, Outside, Run, Stop};
use super::words::Heard;
use crate::probe::Request;

mod control;
mod envelopes;
mod feedback;
mod found;
mod handshakes;
mod peer;
mod sockets;
mod tools;
mod turns;

use peer::Peer;

/// All checks.
pub(super) const CHECKS: &[&[Check]] = &[
    envelopes::CHECKS,
    handshakes::CHECKS,
    turns::CHECKS,
    tools::CHECKS,
    control::CHECKS,
    feedback::CHECKS,
    sockets::CHECKS,
    found::CHECKS,
];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[37, 38, 39, 40, 61, 62, 63, 64] },
    Outside { reason: "about LiveKit", statements: &[32, 33, 102, 103, 104, 105] },
    Outside { reason: "about voice", statements: &[55, 56, 57, 58, 59, 60] },
    Outside { reason: "the server would have to be stopped", statements: &[17, 34, 36] },
    Outside { reason: "a conversation of more than a thousand entries would be needed", statements: &[29] },
    Outside { reason: "about what is stored", statements: &[53, 85, 107] },
    Outside { reason: "about the choice of words", statements: &[120] },
    Outside { reason: "the server would have to be overloaded", statements: &[25, 106] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(peer::PATH, &[])
}

/// What is answered to each of these; nothing where it cannot be had.
pub(super) async fn hear(run: &Run<'_>, says: &[&str]) -> Vec<Heard> {
    let mut all = Vec::new();
    let mut open = None;
    for say in says {
        let heard = async {
            let mut peer = match open.take() {
                Some(peer) => peer,
                None => Peer::met(run).await?,
            };
            let heard = peer.hear(say).await?;
            // A stop says nothing of what it stops, so whoever goes on is not listened to any more.
            open = heard.end.is_some().then_some(peer);
            Ok::<Heard, Stop>(heard)
        };
        all.push(heard.await.unwrap_or_default());
    }
    all
}

/// Something that is answered in many sentences, over a few seconds.
fn sentences() -> String {
    let words: String = (1..=60).map(|number| format!("Sentence {number} ends. ")).collect();
    format!("words {} every 20", words.trim())
}
