//! Thousands of connections that say nothing, while sessions stream.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use super::{NOT_HELD_UP, Stage, TICK, allow_connections};
use crate::book::Book;
use crate::crowd::Crowd;
use crate::history::longest_pause;
use crate::load::Load;
use crate::report::{Outcome, mebibytes};
use crate::server::Server;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let (idle, streaming) = (stage.pick(400, 10_000), stage.pick(8, 100));
    if let Err(why) = allow_connections(idle + WARM_UP + 3 * streaming) {
        return Ok(Outcome::skipped(why));
    }
    let book = Book::new();
    let mut server = Server::start(stage.setup()).await?;
    let mut crowd = Crowd::new(server.address(), &book);
    // What the first connections cost is not theirs alone.
    gather(stage, &mut crowd, WARM_UP).await?;
    sleep(Duration::from_secs(1)).await;
    let before = server.memory();
    gather(stage, &mut crowd, WARM_UP + idle).await?;
    sleep(Duration::from_secs(1)).await;
    let each = server.memory().saturating_sub(before) / idle as u64;
    let load = Load::start(&book, &server.url(), stage.plan(streaming, streaming)).await?;
    let from = book.now();
    let time = stage.pick(Duration::from_secs(3), Duration::from_secs(30));
    stage.pass(&book, "streaming beside the idle ones", time).await;
    let pause = longest_pause(&book.histories(), from, book.now());
    let stayed = crowd.counts().up.load(Ordering::Relaxed);
    let memory = server.memory();
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.expect(stayed == crowd.len(), || format!("of {} idle clients {stayed} are left", crowd.len()));
    outcome.expect(pause < NOT_HELD_UP, || format!("a stream stood still for {pause:.1?}"));
    // Where there are few, what the allocator keeps counts for more than what they need.
    outcome.expect(stage.quick || each <= MOST_EACH, || {
        format!("an idle connection takes {each} bytes, more than {MOST_EACH}")
    });
    outcome.note(format!("{idle} idle connections at {:.1} KiB each", each as f64 / 1024.0));
    outcome.note(format!("{} in all", mebibytes(memory)));
    outcome.note(format!("longest pause of {streaming} sessions {} ms", pause.as_millis()));
    Ok(outcome)
}

/// Lets a crowd grow, not faster than it is let in.
async fn gather(stage: &mut Stage, crowd: &mut Crowd, size: usize) -> anyhow::Result<()> {
    let mut deadline = Instant::now() + STUCK;
    let mut before = 0;
    loop {
        let up = crowd.counts().up.load(Ordering::Relaxed);
        stage.progress.show("connecting", &format!("{up} of {size}"));
        if up >= size {
            return Ok(());
        }
        if up > before {
            (before, deadline) = (up, Instant::now() + STUCK);
        }
        ensure!(Instant::now() < deadline, "only {up} of {size} clients can connect");
        let missing = size.saturating_sub(crowd.len());
        let room = AT_ONCE.saturating_sub(crowd.len() - up);
        (0..missing.min(room)).for_each(|_| crowd.add(None));
        sleep(TICK / 10).await;
    }
}

const WARM_UP: usize = 100;
/// Clients that connect at the same time.
const AT_ONCE: usize = 200;
const STUCK: Duration = Duration::from_secs(20);
/// What an idle connection may take of the server's memory: more than the floor of the performance budget, since the
/// agent of this scenario has tools, of which every session and every connection knows.
const MOST_EACH: u64 = 24 << 10;
