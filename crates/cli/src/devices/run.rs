//! `switchboard devices run`: one task, watched from its beginning to its end.

use std::time::Duration;

use serde_json::Value;
use switchboard_client::aip::{ConstellationConfig, Ending, NewTask, Task, TaskUpdate};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::follow::Follower;
use super::story::{End, Happened, Teller};
use super::{caller, reach};
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::remote::RemoteArgs;

/// Arguments of `devices run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is to be done
    #[arg(value_name = "REQUEST")]
    request: String,
    /// The device that is to do it
    #[arg(long, value_name = "DEVICE")]
    device: String,
    /// How long it may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    timeout: u32,
    /// One JSON object per event and line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `devices run`.
pub(super) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    if args.request.trim().is_empty() {
        return Err(Failure::usage("say what is to be done"));
    }
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let name = caller(environment);
    let mut config = ConstellationConfig::new(&name, &args.device);
    config.ask_info = false;
    config.task = Duration::from_secs(args.timeout.into());
    let constellation = reach(&remote, config).await?;
    let task = NewTask { session_id: Some(name.clone()), ..NewTask::new(args.request) };
    let task = constellation.run(task).await.map_err(|error| Failure::failed(error.to_string()))?;
    let watch = Watch {
        task,
        follower: Some(Follower::new(admin, &name)),
        teller: Teller::new(console, args.json),
        began: Instant::now(),
        cancelled: false,
    };
    let result = watch.run().await;
    constellation.close().await;
    result
}

/// A task under way.
struct Watch<'a> {
    task: Task,
    /// None if the log may not be read.
    follower: Option<Follower>,
    teller: Teller<'a>,
    began: Instant,
    cancelled: bool,
}

impl Watch<'_> {
    async fn run(mut self) -> Result<(), Failure> {
        // One for all rounds: what comes between two of them counts as well.
        let mut interrupted = signal(SignalKind::interrupt())?;
        let ending = loop {
            tokio::select! {
                _ = interrupted.recv() => {
                    if std::mem::replace(&mut self.cancelled, true) {
                        return Err(Failure::silent(Exit::Interrupted));
                    }
                    self.teller.note("cancelling; once more leaves at once")?;
                    self.task.cancel("interrupted by the user");
                }
                update = self.task.next() => match update {
                    Some(TaskUpdate::Accepted) => self.teller.accepted(self.task.session_id())?,
                    Some(TaskUpdate::Ended(ending)) => break ending,
                    None => return Err(Failure::failed("the task has ended without a word")),
                },
                () = tokio::time::sleep(PAUSE) => {
                    self.tell_news().await?;
                }
            }
        };
        // The log has everything by now; reading it may take a moment.
        let until = Instant::now() + PATIENCE;
        while self.tell_news().await? == More::MayCome && Instant::now() < until {
            tokio::time::sleep(PAUSE).await;
        }
        let took = self.began.elapsed();
        let cancelled = self.cancelled;
        match ending {
            Ending::Completed(result) => {
                self.teller.end(&End { outcome: Ok(&result), result: &Value::Null, took, cancelled })
            }
            Ending::Failed { error, result, .. } => {
                self.teller.end(&End { outcome: Err(&error), result: &result, took, cancelled })?;
                Err(Failure::silent(if cancelled { Exit::Interrupted } else { Exit::Failed }))
            }
        }
    }

    async fn tell_news(&mut self) -> Result<More, Failure> {
        let Some(follower) = &mut self.follower else { return Ok(More::Nothing) };
        let news = match follower.news().await {
            Ok(news) => news,
            Err(error) => {
                self.follower = None;
                self.teller.note(&format!("the progress cannot be shown: {error}"))?;
                return Ok(More::Nothing);
            }
        };
        for happened in &news {
            self.teller.happened(happened)?;
        }
        if news.contains(&Happened::Over) {
            self.follower = None;
            return Ok(More::Nothing);
        }
        Ok(More::MayCome)
    }
}

/// Whether there is more to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    MayCome,
    Nothing,
}

/// Between two looks at the log.
const PAUSE: Duration = Duration::from_millis(100);
/// For the last of it.
const PATIENCE: Duration = Duration::from_secs(2);
