//! Checks of Alicia.

use super::check::{Check, Outcome, Outside, Run};
use crate::probe::Request;

mod control;
mod envelopes;
mod feedback;
mod handshakes;
mod peer;
mod sockets;
mod tools;
mod turns;

use peer::{Peer, joined};

/// All checks.
pub(super) const CHECKS: &[&[Check]] = &[
    envelopes::CHECKS,
    handshakes::CHECKS,
    turns::CHECKS,
    tools::CHECKS,
    control::CHECKS,
    feedback::CHECKS,
    sockets::CHECKS,
];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[37, 38, 39, 40, 61, 62, 63, 64] },
    Outside { reason: "about LiveKit", statements: &[32, 33, 102, 103, 104, 105] },
    Outside { reason: "about voice", statements: &[55, 56, 57, 58, 59, 60] },
    Outside { reason: "the server would have to be stopped", statements: &[17, 34, 36] },
    Outside { reason: "a conversation of more than a thousand entries would be needed", statements: &[29] },
    Outside { reason: "about what is stored", statements: &[53, 85, 107] },
    Outside { reason: "the server would have to be overloaded", statements: &[25, 106] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(peer::PATH, &[])
}

/// Whether the agent does as it is told.
pub(super) async fn plays_the_story(run: &Run<'_>) -> Outcome<bool> {
    let mut peer = Peer::met(run).await?;
    let word = run.fresh()?;
    let (_, envelopes) = peer.turn(&format!("words {word} {word}")).await?;
    peer.close().await;
    Ok(joined(&envelopes) == format!("{word} {word}"))
}

/// Something that is answered in many sentences, over a few seconds.
fn sentences() -> String {
    let words: String = (1..=60).map(|number| format!("Sentence {number} ends. ")).collect();
    format!("words {} every 20", words.trim())
}
