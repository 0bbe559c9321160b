//! No space left on the device: what cannot be stored is refused, nothing acknowledged is lost, and service resumes
//! by itself. The disk is a small tmpfs, which only the superuser can mount; others are told so.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use switchboard_client::asp::{self, Invoke};
use tokio::time::{Instant, timeout};

use super::Stage;
use crate::book::Book;
use crate::load::{Load, asp_options};
use crate::report::Outcome;
use crate::server::{Server, Setup};

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    // What is written until nothing more can be stays: there has to be room for it when the ballast is gone.
    let megabytes = stage.pick(48, 256);
    let Some(_disk) = SmallDisk::mount(folder.path(), megabytes) else {
        return Ok(Outcome::skipped("a small disk can be mounted by the superuser only"));
    };
    let (fills, full_for) = stage.pick((1, Duration::from_secs(2)), (3, Duration::from_secs(10)));
    let book = Book::new();
    let setup = Setup { data: Some(folder.path().join("data")), ..stage.setup() };
    let mut server = Server::start(setup).await?;
    let load = Load::start(&book, &server.url(), stage.plan(4, 12)).await?;
    let filler = asp::Client::connect(asp_options(&server.url())).await?;
    let ballast = folder.path().join("ballast");
    let (mut slowest, mut refused) = (None, 0);
    for fill in 1..=fills {
        stage.pass(&book, "running", Duration::from_secs(1)).await;
        stage.progress.show(&format!("filling the disk, {fill} of {fills}"), "");
        occupy(&ballast)?;
        refused += until_refused(&filler).await?;
        stage.pass(&book, "the disk is full", full_for).await;
        std::fs::remove_file(&ballast)?;
        let back = book.now();
        let Some(recovery) = stage.recovered(&book, back).await else { break };
        slowest = slowest.max(Some(recovery));
    }
    filler.close().await;
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.recovery = slowest;
    outcome.note(format!(
        "full {fills} times for {} s; {refused} requests refused meanwhile",
        full_for.as_secs()
    ));
    Ok(outcome)
}

/// Takes all space that there is.
fn occupy(path: &Path) -> anyhow::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let (block, mut least) = (vec![0; 64 << 10], 0);
    // The last bytes are taken in ever smaller pieces.
    for size in [64 << 10, 4 << 10, 1] {
        while file.write_all(block.get(..size).unwrap_or_default()).is_ok() {
            least += size;
        }
    }
    anyhow::ensure!(least > 0, "the disk was full already");
    Ok(())
}

/// Sooner or later nothing more can be stored, since what the log has reserved is used up: whoever asks then is told.
/// Whoever has been let in just before waits for the rest of the answer until there is room again.
async fn until_refused(client: &asp::Client) -> anyhow::Result<u32> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut halfway = Vec::new();
    loop {
        anyhow::ensure!(Instant::now() < deadline, "the disk is never full");
        let echo = Invoke::chat(format!("echo {}", "x".repeat(60_000)));
        let answer = client.invoke(echo).await.context("the filler cannot ask")?;
        let mut text = Box::pin(answer.collect_text());
        match timeout(HALFWAY, &mut text).await {
            Ok(Err(asp::RequestError::Server(_))) => return Ok(1),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error).context("the filler"),
            Err(_) => halfway.push(text),
        }
    }
}

/// A file system of a few megabytes.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path, megabytes: u32) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(path);
        let mounted = mount.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        mounted.success().then_some(Self(path))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Whatever still has a file open there keeps it until it is gone.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// An answer that has not come within this time has not been stored as a whole.
const HALFWAY: Duration = Duration::from_secs(1);
