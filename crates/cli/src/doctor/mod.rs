//! `switchboard doctor`: examines a deployment from where clients are, and says what to change.
//!
//! Most trouble is between client and server: proxies that hold streams back, close what is quiet, do not
//! pass upgrades on, or compress. So everything is tried over the address that clients use.

use std::time::Duration;

use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::probe::{Answer, Request, Target, TargetArgs, Transcript};

mod doors;
mod finding;
mod health;
mod streams;

use finding::{Finding, Grade};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Where clients reach the server: ws, wss, http or https
    url: String,
    /// How long a connection is kept silent, to see whether somebody on the way closes it
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    idle: u64,
    /// What to say to be answered slowly, in pieces; the default is for agents that play the conformance
    /// story
    #[arg(long, value_name = "TEXT", default_value = "count 10 every 150")]
    say: String,
    #[command(flatten)]
    target: TargetArgs,
}

const AFTER_HELP: &str = "\
Each line is ok, a warning, a problem or skipped, with what to change below it. Give a credential with
the scope admin to see the limits of the server itself.

Exit codes:
  0    no problems
  1    problems
  2    the server cannot be reached";

/// What is examined, and by whom.
struct Patient<'args> {
    target: &'args Target,
    log: Transcript,
    say: &'args str,
    idle: Duration,
}

impl Patient<'_> {
    /// Sends a request and waits for the whole answer.
    async fn ask(&self, request: Request) -> Result<Answer, String> {
        self.target.ask(&self.log, &request).await
    }
}

/// Runs `doctor`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let target = args.target.target(&args.url, environment)?;
    let patient = Patient {
        target: &target,
        log: target.transcript(),
        say: &args.say,
        idle: Duration::from_secs(args.idle),
    };
    let mut findings = Vec::new();
    let mut tell = |found: Vec<Finding>| -> Result<(), Failure> {
        for finding in &found {
            console.line(&finding.line(console.palette()))?;
        }
        findings.extend(found);
        Ok(())
    };
    let reached = health::reach(&patient).await;
    let gone = reached.iter().any(|finding| finding.grade == Grade::Problem);
    tell(reached)?;
    if gone {
        return Err(Failure::silent(Exit::Usage));
    }
    tell(health::health(&patient).await)?;
    tell(doors::protocols(&patient).await)?;
    tell(doors::strangers(&patient).await)?;
    tell(doors::compression(&patient).await)?;
    tell(streams::pace(&patient).await)?;
    if console.is_terminal() {
        console.note(&format!("keeping a connection silent for {} s …", args.idle));
    }
    tell(streams::silence(&patient).await)?;
    tell(health::descriptors(&patient).await)?;
    console.line(&format!("\n{}", finding::summary(&findings)))?;
    match findings.iter().any(|finding| finding.grade == Grade::Problem) {
        true => Err(Failure::silent(Exit::Failed)),
        false => Ok(()),
    }
}
