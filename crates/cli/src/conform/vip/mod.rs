//! Checks of VIP. Sessions are made in development, and everything is typed.

use super::check::{Check, Outcome, Outside, Run, Stop};
use crate::probe::Request;

mod actions;
mod call;
mod screens;
mod sessions;
mod states;
mod tokens;

use call::Call;

/// All checks.
pub(super) const CHECKS: &[&[Check]] =
    &[sessions::CHECKS, tokens::CHECKS, states::CHECKS, screens::CHECKS, actions::CHECKS];

/// What cannot be seen from outside.
pub(super) const OUTSIDE: &[Outside] = &[
    Outside {
        reason: "about clients",
        statements: &[20, 24, 26, 27, 31, 32, 41, 50, 51, 52, 53, 54, 56, 59, 82, 84, 87, 88, 94],
    },
    Outside { reason: "issuers that publish keys would be needed", statements: &[8, 9] },
    Outside { reason: "a provider would be needed", statements: &[14] },
    Outside {
        reason: "somebody would have to speak",
        statements: &[28, 29, 30, 33, 34, 35, 64, 67, 69, 71, 96],
    },
    Outside { reason: "an agent that is not the story would be needed", statements: &[38, 62, 63, 90] },
    Outside { reason: "the server would have to be killed", statements: &[95] },
    Outside { reason: "not looked at from outside yet", statements: &[89, 91, 92, 93] },
    Outside { reason: "WebRTC would be needed", statements: &[85, 86] },
    Outside { reason: "a transport would have to die without a word", statements: &[76] },
    Outside { reason: "a session of many minutes would be needed", statements: &[80] },
];

/// How a client begins.
pub(super) fn discovery() -> Request {
    Request::get("/.well-known/vip")
}

/// Whether the agent does as it is told.
pub(super) async fn plays_the_story(run: &Run<'_>) -> Outcome<bool> {
    let word = run.fresh()?;
    let trying = async {
        let mut call = Call::idle(run).await?;
        call.say(&format!("echo {word}")).await?;
        let done = call.answer().await?;
        call.hang_up().await?;
        Ok(done["text"].as_str().is_some_and(|text| text.trim() == word))
    };
    match trying.await {
        // Checks that need a session say so themselves.
        Err(Stop::Needs(_)) => Ok(false),
        other => other,
    }
}
