//! The binary `switchboard`: serves, talks to a server, and looks into what happened.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod agents;
mod bench;
mod chat;
mod clock;
mod config;
mod conform;
mod console;
mod device;
mod devices;
mod doctor;
mod environment;
mod failure;
mod inspect;
mod keys;
mod models;
mod probe;
mod progress;
mod rebuild;
mod record;
mod recording;
mod remote;
mod replay;
mod serve;
mod sessions;
mod vip;
mod xml;

use console::{Colours, Console};
use environment::Environment;
use failure::Failure;

/// What is made in one thread is let go in another all day long, at which the allocator of the system is slow (ADR 21).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One server, one durable conversation, any client.
#[derive(Debug, Parser)]
#[command(name = "switchboard", version, about, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::Args),
    /// Talk to an agent
    Chat(chat::Args),
    /// Look into the sessions of a server
    #[command(subcommand)]
    Sessions(sessions::Command),
    /// Look at the agents of a server, and try them
    #[command(subcommand)]
    Agents(agents::Command),
    /// Share this machine with agents, within limits
    Device(device::Args),
    /// Look at the devices of a server, and have them do things
    #[command(subcommand)]
    Devices(devices::Command),
    /// Decode captured frames of ASP or envelopes of Alicia, and say what is wrong with them
    Inspect(inspect::Args),
    /// Make a file of a session, to look at it, to replay it, or to make a test of it
    #[command(subcommand)]
    Record(record::Command),
    /// Play a recording again, for a server or for a client, and say what is not as it was
    Replay(replay::Args),
    /// Print, check or explain the configuration of the server
    #[command(subcommand)]
    Config(config::Command),
    /// Run the numbered statements of a protocol against any server
    Conform(conform::Args),
    /// Check a deployment from outside, and say what to change
    Doctor(doctor::Args),
    /// Measure this build on this machine, against its performance budget
    Bench(bench::Args),
    /// Look at the models that hear speech on this machine, and fetch them
    #[command(subcommand)]
    Models(models::Command),
    /// Help for those who build an app with VIP
    #[command(subcommand)]
    Vip(vip::Command),
    /// Derive again what is derived from the log, while no server runs
    Rebuild(rebuild::Args),
    /// Make, list and revoke credentials
    #[command(subcommand)]
    Keys(keys::Command),
}

const AFTER_HELP: &str = "\
Begin with:
  switchboard serve            in one terminal
  switchboard chat             in another

Exit codes:
  0    done
  1    it was tried, and it failed: the answer ended in an error, a frame is not valid
  2    the arguments or the configuration cannot be used
  3    the server cannot be reached, or does not let this client in
  130  interrupted";

fn main() -> ExitCode {
    let environment = environment();
    let colours = if environment.find("NO_COLOR").is_some() { Colours::Never } else { Colours::OnTerminals };
    let console = Console::new(colours);
    match run(Cli::parse().command, &environment, &console) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            console.failure(&failure);
            failure.exit_code()
        }
    }
}

fn run(command: Command, environment: &Environment, console: &Console) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => {
            let read = || serve::configure(&args, environment);
            wait(Threads::Many, serve::run(read()?, console, read))
        }
        Command::Chat(args) => wait(Threads::One, chat::run(args, environment, console)),
        Command::Sessions(command) => wait(Threads::One, sessions::run(command, environment, console)),
        Command::Agents(command) => wait(Threads::One, agents::run(command, environment, console)),
        Command::Device(args) => wait(Threads::One, device::run(args, environment, console)),
        Command::Devices(command) => wait(Threads::One, devices::run(command, environment, console)),
        Command::Inspect(args) => inspect::run(&args, console),
        Command::Record(command) => wait(Threads::One, record::run(command, environment, console)),
        Command::Replay(args) => wait(Threads::One, replay::run(args, environment, console)),
        Command::Config(command) => config::run(command, environment, console),
        Command::Conform(args) => wait(Threads::One, conform::run(args, environment, console)),
        Command::Doctor(args) => wait(Threads::One, doctor::run(args, environment, console)),
        Command::Bench(args) => wait(Threads::Many, async {
            match bench::run(args, &mut std::io::stdout()).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::silent(failure::Exit::Failed)),
                Err(error) => Err(Failure::failed(format!("{error:#}"))),
            }
        }),
        Command::Models(command) => wait(Threads::One, models::run(command, environment, console)),
        Command::Vip(command) => vip::run(command, environment, console),
        Command::Rebuild(args) => wait(Threads::One, rebuild::run(args, environment, console)),
        Command::Keys(command) => wait(Threads::One, keys::run(command, environment, console)),
    }
}

/// How many threads a command works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Many,
}

fn wait(threads: Threads, command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let mut builder = match threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(command);
    // A thread may wait for a key that nobody presses.
    runtime.shutdown_background();
    result
}

fn environment() -> Environment {
    let variables = std::env::vars_os();
    Environment::new(
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_declared_consistently() {
        Cli::command().debug_assert();
    }
}
