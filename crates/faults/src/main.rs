//! Real faults on a real server: kills, halts, full disks, storms; clients of several protocols record what they
//! see, and a checker holds it against the log. `script/faults` runs it.

mod book;
mod crowd;
mod follow;
mod history;
mod ledger;
mod load;
mod report;
mod scenarios;
mod server;
mod talk;
mod words;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use tokio::time::Instant;

use crate::report::{Outcome, Progress, table};
use crate::scenarios::{SCENARIOS, Scenario, Stage};

/// Harms a real server while clients use it, and shows what they lost by it: nothing.
#[derive(Debug, Parser)]
#[command(name = "script/faults", version, about)]
struct Arguments {
    /// What to do to the server; everything if not given.
    scenarios: Vec<String>,
    /// Small sizes: seconds instead of minutes, hundreds of clients instead of thousands.
    #[arg(long)]
    quick: bool,
    /// Say which scenarios there are, and do nothing.
    #[arg(long)]
    list: bool,
    /// How long the soak lasts; ten minutes, or half a minute with --quick, if not given.
    #[arg(long, value_name = "N")]
    minutes: Option<u32>,
    /// The server to harm; the program `switchboard` beside this one if not given.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// A setting of the server, as in `switchboard serve --set`; may be repeated. With store.kind=memory, for
    /// instance, a killed server forgets everything, and `kill` fails.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "faults: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut stdout = std::io::stdout();
    if arguments.list {
        for scenario in SCENARIOS {
            writeln!(stdout, "{:<12}  {}", scenario.name, scenario.about)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(&arguments.scenarios)?;
    let binary = find(arguments.binary)?;
    let usual = Duration::from_secs(if arguments.quick { 30 } else { 600 });
    let soak = arguments.minutes.map_or(usual, |minutes| Duration::from_secs(60 * u64::from(minutes)));
    let mut outcomes = Vec::new();
    for (number, scenario) in (1..).zip(&chosen) {
        let progress = Progress::new(format!("[{number}/{}] {}", chosen.len(), scenario.name));
        let mut stage = Stage {
            binary: binary.clone(),
            quick: arguments.quick,
            soak,
            settings: arguments.settings.clone(),
            progress,
            problems: Vec::new(),
        };
        let began = Instant::now();
        let outcome = scenario.run(&mut stage).await.unwrap_or_else(|error| Outcome::broken(&error));
        stage.progress.done();
        outcomes.push((scenario.name, outcome, began.elapsed()));
    }
    stdout.write_all(table(&outcomes).as_bytes())?;
    let failed = outcomes.iter().any(|(_, outcome, _)| outcome.has_failed());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn choose(names: &[String]) -> anyhow::Result<Vec<&'static Scenario>> {
    if names.is_empty() {
        return Ok(SCENARIOS.iter().collect());
    }
    let find = |name: &String| SCENARIOS.iter().find(|scenario| scenario.name == name);
    let known = || SCENARIOS.iter().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    names
        .iter()
        .map(|name| find(name).with_context(|| format!("there is no scenario {name}; there are {}", known())))
        .collect()
}

fn find(binary: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let binary = match binary {
        Some(binary) => binary,
        None => std::env::current_exe()?.with_file_name("switchboard"),
    };
    anyhow::ensure!(
        binary.is_file(),
        "there is no server at {}: build it (cargo build -p switchboard-cli), or name one with --binary",
        binary.display()
    );
    Ok(binary)
}
