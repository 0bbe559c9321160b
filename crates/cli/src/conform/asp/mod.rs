//! Checks of the Agent Socket Protocol.

use serde_json::json;

use super::check::{Check, Outcome, Outside, Run};
use crate::probe::Request;

mod calls;
mod frames;
mod hello;
mod interrupts;
mod peer;
mod rates;
mod requests;
mod resume;
mod upgrades;

use peer::{Peer, STREAM, text_of};

/// All checks.
pub(super) const CHECKS: &[&[Check]] = &[
    upgrades::CHECKS,
    hello::CHECKS,
    frames::CHECKS,
    requests::CHECKS,
    interrupts::CHECKS,
    calls::CHECKS,
    resume::CHECKS,
    rates::CHECKS,
];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[17, 24, 32, 33, 41, 85] },
    Outside { reason: "about the memory of the server", statements: &[12, 49] },
    Outside {
        reason: "between a relay and its functions",
        statements: &[22, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 90, 95],
    },
    Outside { reason: "between a relay and its workers", statements: &[71, 72, 73, 75, 76, 82, 83, 84] },
    Outside { reason: "not looked at from outside yet", statements: &[86, 87, 88, 89, 91, 93, 94] },
    Outside { reason: "needs several nodes", statements: &[77] },
    Outside { reason: "a worker would have to die", statements: &[74] },
    Outside { reason: "the server would have to be stopped", statements: &[78] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(peer::PATH, &["asp-v1"])
}

/// Whether the agent does as it is told.
pub(super) async fn plays_the_story(run: &Run<'_>) -> Outcome<bool> {
    let mut peer = Peer::bare(run).await?;
    peer.send(peer::HELLO, 0, &json!({ "features": ["events"], "enc": ["json"] })).await;
    peer.wait("an answer to HELLO", |frame| frame.opcode == peer::HELLO).await?;
    let word = run.fresh()?;
    let frames = peer.turn(&format!("words {word} {word}")).await?;
    let story =
        frames.last().is_some_and(|end| end.opcode == STREAM) && text_of(&frames) == format!("{word} {word}");
    peer.close().await;
    Ok(story)
}
