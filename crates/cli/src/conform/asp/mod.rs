//! Checks of the Agent Socket Protocol.

use serde_json::json;

use super::check::{Check, Outside, Run, Stop};
use super::words::Heard;
use crate::probe::Request;

mod calls;
mod found;
mod frames;
mod hello;
mod interrupts;
mod peer;
mod rates;
mod requests;
mod resume;
mod upgrades;

use peer::Peer;

/// All checks.
pub(super) const CHECKS: &[&[Check]] = &[
    upgrades::CHECKS,
    hello::CHECKS,
    frames::CHECKS,
    requests::CHECKS,
    interrupts::CHECKS,
    calls::CHECKS,
    found::CHECKS,
    resume::CHECKS,
    rates::CHECKS,
];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[17, 24, 32, 33, 41, 85] },
    Outside { reason: "about the memory of the server", statements: &[12, 49] },
    Outside { reason: "an answer longer than the server allows would be needed", statements: &[92] },
    Outside {
        reason: "between a relay and its functions",
        statements: &[22, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 90, 95, 96],
    },
    Outside { reason: "between a relay and its workers", statements: &[71, 72, 73, 75, 76, 82, 83, 84] },
    Outside { reason: "needs several nodes", statements: &[77] },
    Outside { reason: "a worker would have to die", statements: &[74] },
    Outside { reason: "the server would have to be stopped", statements: &[78] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(peer::PATH, &["asp-v1"])
}

/// What is answered to each of these; nothing where it cannot be had.
pub(super) async fn hear(run: &Run<'_>, says: &[&str]) -> Vec<Heard> {
    let mut all = Vec::new();
    let mut open = None;
    for say in says {
        let heard = async {
            let mut peer = match open.take() {
                Some(peer) => peer,
                None => Peer::with(run, &["flags", "events"], json!({})).await?,
            };
            let heard = peer.hear(say).await?;
            open = Some(peer);
            Ok::<Heard, Stop>(heard)
        };
        all.push(heard.await.unwrap_or_default());
    }
    all
}
