//! `switchboard config`: the configuration of the server, printed, checked and explained.

use std::path::PathBuf;

use switchboard_server::Config;

use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;

/// What to do with the configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print a configuration file that holds every default, with an explanation of each key
    #[command(after_help = "Example:\n  switchboard config default > switchboard.toml")]
    Default,
    /// Read the configuration as `serve` would, and say what is wrong with it
    #[command(after_help = "\
Examples:
  switchboard config check --config switchboard.toml
  SWITCHBOARD_LISTEN=0.0.0.0:4600 switchboard config check

Exits with 2 if the configuration cannot be used.")]
    Check(ConfigArgs),
    /// Explain every key, as a Markdown table
    Doc,
}

/// Where the configuration comes from; each source overrides the ones before it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file; without one, the defaults apply
    #[arg(long, value_name = "FILE", env = "SWITCHBOARD_CONFIG")]
    config: Option<PathBuf>,
    /// Set a key, overriding file and environment; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Runs `config`.
pub(crate) fn run(command: Command, environment: &Environment, console: &Console) -> Result<(), Failure> {
    match command {
        Command::Default => console.print(&Config::default_toml()),
        Command::Doc => console.print(&Config::reference()),
        Command::Check(args) => {
            let config = load(&args, environment, [])?;
            let address = config.listen;
            console.line(&format!("ok: the server would listen on {address}"))?;
            for warning in config.warnings() {
                console.note(&format!("warning: {warning}"));
            }
            if config.is_development() {
                console.note("development mode: everybody on this machine may connect, without credentials");
            }
            Ok(())
        }
    }
}

/// Reads the configuration: file, then environment, then flags, of which `last` override the rest.
pub(crate) fn load(
    args: &ConfigArgs,
    environment: &Environment,
    last: impl IntoIterator<Item = String>,
) -> Result<Config, Failure> {
    let overrides = args.overrides.iter().cloned().chain(last);
    let variables = environment.variables().filter(|(name, _)| !OTHERS.contains(&name.as_str()));
    Config::load(args.config.as_deref(), variables, overrides).map_err(|error| {
        let many = if error.problems.len() == 1 { "" } else { "\n" };
        Failure::usage(format!(
            "the configuration cannot be used: {many}{error}\n`switchboard config doc` explains every key"
        ))
    })
}

/// Variables that look like settings of the server, and are arguments of `models fetch`.
const OTHERS: [&str; 2] = ["SWITCHBOARD_PYPI_URL", "SWITCHBOARD_NPM_URL"];
