//! `switchboard vip`: help for those who build an app that speaks VIP.

mod findings;
mod show;
mod token;

use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;

/// What to do about VIP.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make an App Token for development, or say what is inside one
    Token(token::Args),
}

/// Runs `vip`.
pub(crate) fn run(command: Command, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let Command::Token(args) = command;
    token::run(args, environment, console)
}

/// The app that an App Token is for, and whether it is one of development; nothing of it is verified.
pub(crate) fn app_of(token: &str) -> Result<(String, bool), Failure> {
    let claims = show::Parts::of(token)?.claims;
    let vip = claims.get("vip").ok_or_else(|| {
        Failure::usage("the credential is no App Token: make one with `switchboard vip token`")
    })?;
    let app = vip["app_id"].as_str().unwrap_or_default().to_owned();
    Ok((app, vip["env"] == "development"))
}
