//! One fault each, and what they have in common.

mod accept;
mod descriptors;
mod disk;
mod idle;
mod kill;
mod slow_reader;
mod soak;
mod stop;
mod storm;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};

use crate::book::Book;
use crate::history::{Log, check, recovery};
use crate::ledger;
use crate::load::{Load, Plan};
use crate::report::{Outcome, Progress};
use crate::server::{Server, Setup};
use crate::words::Shape;

/// Something that is done to a server.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    what: Fault,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Accept,
    Stop,
    Disk,
    Descriptors,
    Idle,
    Storm,
    Soak,
    SlowReader,
}

impl Scenario {
    pub(crate) async fn run(&self, stage: &mut Stage) -> anyhow::Result<Outcome> {
        match self.what {
            Fault::Kill => kill::run(stage).await,
            Fault::Accept => accept::run(stage).await,
            Fault::Stop => stop::run(stage).await,
            Fault::Disk => disk::run(stage).await,
            Fault::Descriptors => descriptors::run(stage).await,
            Fault::Idle => idle::run(stage).await,
            Fault::Storm => storm::run(stage).await,
            Fault::Soak => soak::run(stage).await,
            Fault::SlowReader => slow_reader::run(stage).await,
        }
    }
}

/// All of them, in the order in which they run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "kill", about: "kill -9 under load, several times", what: Fault::Kill },
    Scenario {
        name: "accept",
        about: "kill -9 in the moment in which requests are accepted, many times",
        what: Fault::Accept,
    },
    Scenario { name: "stop", about: "SIGSTOP and SIGCONT under load", what: Fault::Stop },
    Scenario { name: "disk", about: "no space left on the device, then some again", what: Fault::Disk },
    Scenario {
        name: "descriptors",
        about: "more clients than the server may have files open",
        what: Fault::Descriptors,
    },
    Scenario { name: "idle", about: "10 000 idle connections while 100 sessions stream", what: Fault::Idle },
    Scenario {
        name: "storm",
        about: "5000 clients come back at once, each having missed 100 events",
        what: Fault::Storm,
    },
    Scenario { name: "slow-reader", about: "some stop reading while others stream", what: Fault::SlowReader },
    Scenario { name: "soak", about: "ten minutes of everything, with flat memory", what: Fault::Soak },
];

/// What a scenario runs on.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) binary: PathBuf,
    pub(crate) quick: bool,
    /// How long the soak lasts.
    pub(crate) soak: Duration,
    /// Settings of the server on top of those that a scenario needs.
    pub(crate) settings: Vec<String>,
    pub(crate) progress: Progress,
    /// What has gone wrong so far.
    pub(crate) problems: Vec<String>,
}

impl Stage {
    /// A server with a folder of its own.
    fn setup(&self) -> Setup {
        self.setup_with(&[])
    }

    /// The same, with these settings.
    fn setup_with(&self, settings: &[&str]) -> Setup {
        let settings = settings.iter().map(ToString::to_string).chain(self.settings.iter().cloned());
        Setup { binary: self.binary.clone(), descriptors: None, settings: settings.collect(), data: None }
    }

    /// The one or the other, as it was asked for.
    fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The usual load in so many rooms, half of them of each kind.
    fn plan(&self, quick: usize, full: usize) -> Plan {
        let rooms = self.pick(quick, full);
        let shape = Shape { words: 40, padding: 0, every_ms: 20 };
        Plan { conversations: rooms.div_ceil(2), sessions: rooms / 2, shape }
    }

    /// Lets time pass, and shows it.
    async fn pass(&mut self, book: &Book, step: &str, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.progress.show(step, &format!("{} words seen", book.words()));
            sleep(TICK.min(until.saturating_duration_since(Instant::now()))).await;
        }
    }

    /// Waits until every client has seen something after a moment; answers how long it took, at worst. If some
    /// never do, the outcome says so, and what they have seen is checked all the same.
    async fn recovered(&mut self, book: &Book, after: Duration) -> Option<Duration> {
        let deadline = Instant::now() + RECOVERY;
        loop {
            let recovery = recovery(&book.histories(), after);
            if recovery.is_some() {
                return recovery;
            }
            if Instant::now() > deadline {
                let seconds = RECOVERY.as_secs();
                self.problems.push(format!("a client has seen nothing for {seconds} s after the fault"));
                return None;
            }
            self.progress.show("waiting until everybody is back", "");
            sleep(TICK).await;
        }
    }

    /// Lets everything come to its end, and holds it against the log.
    async fn settle(&mut self, book: &Arc<Book>, load: Load, server: &mut Server) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        self.progress.show("waiting for the last answers", "");
        if let Err(error) = load.finish().await {
            outcome.problems.push(format!("{error:#}"));
        }
        self.verify(book, server, &mut outcome).await?;
        Ok(outcome)
    }

    /// Reads the log, and checks what everybody saw.
    async fn verify(
        &mut self,
        book: &Book,
        server: &mut Server,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        self.progress.show("reading the log", "");
        if !server.lives() {
            bail!("the server is not there any more; its last words were: {}", server.last_words());
        }
        let log = self.log(server).await?;
        outcome.findings = check(&book.histories(), &log);
        outcome.problems.append(&mut self.problems);
        outcome.expect(outcome.findings.words > 0, || "nobody has seen anything".to_owned());
        Ok(())
    }

    /// The log, once everything in it has an end. Requests of clients that were cut off before they were told of
    /// them run for a while yet.
    async fn log(&self, server: &Server) -> anyhow::Result<Log> {
        let deadline = Instant::now() + UNATTENDED;
        loop {
            let log = ledger::read(&server.url()).await?;
            if log.turns.iter().all(|turn| !turn.ends.is_empty()) || Instant::now() > deadline {
                return Ok(log);
            }
            sleep(TICK).await;
        }
    }
}

/// Lets this process, and the servers that it starts, open so many connections.
fn allow_connections(connections: usize) -> Result<(), String> {
    let needed = connections as u64 + SPARE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    // Only the superuser may raise the hard limit, but asking costs nothing.
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(());
    }
    Err(format!("needs {needed} open files, the hard limit is {hard}: raise `ulimit -Hn`, or use --quick"))
}

/// A pause as long as this is no accident of a busy machine: somebody waits for somebody else.
const NOT_HELD_UP: Duration = Duration::from_secs(8);
const TICK: Duration = Duration::from_millis(200);
const RECOVERY: Duration = Duration::from_secs(45);
const UNATTENDED: Duration = Duration::from_secs(15);
/// Descriptors that are no connections.
const SPARE: u64 = 512;
