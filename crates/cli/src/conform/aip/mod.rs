//! Checks of AIP.

use serde_json::json;

use super::check::{Check, Outcome, Outside, Run};
use super::inbox::Inbox as _;
use crate::probe::Request;

mod access;
mod facts;
mod found;
mod link;
mod messages;
mod registration;
mod tasks;

use link::{Link, command, script};

/// All checks.
pub(super) const CHECKS: &[&[Check]] =
    &[access::CHECKS, messages::CHECKS, registration::CHECKS, tasks::CHECKS, facts::CHECKS, found::CHECKS];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside { reason: "about clients", statements: &[42, 63, 64, 80, 81, 82, 83, 84] },
    Outside { reason: "about what is stored or logged", statements: &[37, 98] },
    Outside { reason: "a link would have to die without a word", statements: &[28, 41, 94] },
    Outside { reason: "credentials of several kinds would be needed", statements: &[32, 93, 96] },
    Outside { reason: "the server would have to be stopped", statements: &[99] },
    Outside { reason: "a device with a person before it would be needed", statements: &[100] },
    Outside { reason: "100 MiB would have to be sent", statements: &[8] },
    Outside {
        reason: "the server would have to be loaded: see `switchboard bench`",
        statements: &[62, 77, 90],
    },
    Outside { reason: "takes five minutes and a planner that waits", statements: &[57] },
];

/// How a client begins.
pub(super) fn upgrade() -> Request {
    Request::upgrade(link::PATH, &[])
}

/// Whether the planner does as it is told.
pub(super) async fn plays_the_story(run: &Run<'_>) -> Outcome<bool> {
    let mut device = Link::device(run).await?;
    let (session, tool) = (run.fresh()?, format!("tool-{}", run.fresh()?));
    device.task(&session, &script(&[vec![command(&tool, &json!({}))]], &json!({}))).await?;
    let own = |message: &serde_json::Value| message["session_id"] == session.as_str();
    let first = device.wait("a command, or the end of the task", own).await?;
    let obeys = first["type"] == "command" && first["actions"][0]["tool_name"] == tool.as_str();
    device.close().await;
    Ok(obeys)
}
