//! Checks of Acolyte.

use super::check::{Check, Outside, Run, Stop};
use super::words::Heard;
use crate::probe::Request;

mod access;
mod chats;
mod found;
mod queue;
mod refusals;
mod rpc;
mod streams;
mod tasks;

use rpc::Rpc;

/// Where the socket is.
const PATH: &str = "/v1/rpc";

/// All checks.
pub(super) const CHECKS: &[&[Check]] = &[
    access::CHECKS,
    chats::CHECKS,
    queue::CHECKS,
    tasks::CHECKS,
    refusals::CHECKS,
    streams::CHECKS,
    found::CHECKS,
];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[83, 84, 85, 86, 87, 88] },
    Outside { reason: "more than a thousand chats would be needed", statements: &[58] },
    Outside { reason: "the server would have to be stopped", statements: &[78, 92] },
    Outside { reason: "a reader that is slow for minutes would be needed", statements: &[91] },
    Outside { reason: "a matter of milliseconds: see `switchboard bench`", statements: &[81] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(PATH, &[])
}

/// What is answered to each of these; nothing where it cannot be had.
pub(super) async fn hear(run: &Run<'_>, says: &[&str]) -> Vec<Heard> {
    let mut all = Vec::new();
    let mut open = None;
    for say in says {
        let heard = async {
            let mut rpc = match open.take() {
                Some(rpc) => rpc,
                None => Rpc::open(run).await?,
            };
            let heard = rpc.hear(say).await?;
            open = Some(rpc);
            Ok::<Heard, Stop>(heard)
        };
        all.push(heard.await.unwrap_or_default());
    }
    all
}
