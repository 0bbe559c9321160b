//! Checks of Acolyte.

use super::check::{Check, Outcome, Outside, Run, must};
use crate::probe::Request;

mod access;
mod chats;
mod queue;
mod refusals;
mod rpc;
mod streams;
mod tasks;

use rpc::Rpc;

/// Where the socket is.
const PATH: &str = "/v1/rpc";

/// All checks.
pub(super) const CHECKS: &[&[Check]] =
    &[access::CHECKS, chats::CHECKS, queue::CHECKS, tasks::CHECKS, refusals::CHECKS, streams::CHECKS];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[83, 84, 85, 86, 87, 88] },
    Outside { reason: "more than a thousand chats would be needed", statements: &[58] },
    Outside { reason: "the server would have to be stopped", statements: &[78] },
    Outside { reason: "a matter of milliseconds: see `switchboard bench`", statements: &[81] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(PATH, &[])
}

/// Whether the agent does as it is told.
pub(super) async fn plays_the_story(run: &Run<'_>) -> Outcome<bool> {
    let mut rpc = Rpc::open(run).await?;
    let status = rpc.status().await?;
    must!(status["protocol_version"] == "1", "protocol_version 1, got {}", status["protocol_version"]);
    let word = run.fresh()?;
    let chat = rpc.chat(&format!("words {word} {word}")).await?;
    rpc.close().await;
    Ok(chat.text() == format!("{word} {word}"))
}
