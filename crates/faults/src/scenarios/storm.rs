//! A storm: thousands of clients are cut off in the middle of their answers, miss most of them, and come back in the
//! same moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use super::{Stage, TICK, allow_connections};
use crate::book::Book;
use crate::crowd::{Crowd, Phase};
use crate::history::{Ending, What};
use crate::report::Outcome;
use crate::server::Server;
use crate::words::Shape;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let clients = stage.pick(200, 5_000);
    // Paced so that everybody is cut off before more than a few words have come.
    let shape = Shape { words: 110, padding: 0, every_ms: stage.pick(50, 400) };
    if let Err(why) = allow_connections(clients) {
        return Ok(Outcome::skipped(why));
    }
    let book = Book::new();
    let mut server = Server::start(stage.setup_with(&["asp.limits.resume_s=600"])).await?;
    let mut crowd = Crowd::new(server.address(), &book);
    while crowd.len() < clients {
        (0..STEP.min(clients - crowd.len())).for_each(|_| crowd.add(Some(shape)));
        reach(stage, &crowd.counts().up, crowd.len(), "connecting", Duration::from_secs(60)).await?;
    }
    crowd.enter(Phase::Ask);
    reach(stage, &crowd.counts().begun, clients, "asking", Duration::from_secs(120)).await?;
    crowd.enter(Phase::Away);
    let missed = fewest_missed(&book, shape);
    until_all_is_said(stage, &server).await?;
    let back = book.now();
    crowd.enter(Phase::Connect);
    reach(stage, &crowd.counts().ended, clients, "coming back", Duration::from_secs(120)).await?;
    let took = book.now() - back;
    let mut outcome = Outcome::default();
    stage.verify(&book, &mut server, &mut outcome).await?;
    let complete = book.endings(Ending::Complete);
    outcome.expect(complete == clients, || format!("{complete} of {clients} answers are complete"));
    outcome.recovery = Some(took);
    let failed = crowd.counts().failed.load(Ordering::Relaxed);
    outcome.note(format!("{clients} clients, each missed {missed} words or more"));
    outcome.note(format!("{failed} attempts to connect failed"));
    Ok(outcome)
}

async fn reach(
    stage: &mut Stage,
    count: &AtomicUsize,
    goal: usize,
    step: &str,
    patience: Duration,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let reached = count.load(Ordering::Relaxed);
        if reached >= goal {
            return Ok(());
        }
        stage.progress.show(step, &format!("{reached} of {goal}"));
        ensure!(Instant::now() < deadline, "{step}: {reached} of {goal} after {} s", patience.as_secs());
        sleep(TICK / 10).await;
    }
}

/// The least that any client has not seen yet.
fn fewest_missed(book: &Book, shape: Shape) -> usize {
    let seen = |sights: &[crate::history::Sight]| {
        sights.iter().filter(|sight| matches!(sight.what, What::Word(_))).count()
    };
    let most = book.histories().iter().map(|history| seen(&history.sights)).max();
    (shape.words as usize).saturating_sub(most.unwrap_or_default())
}

/// Nobody listens, and the answers are given all the same.
async fn until_all_is_said(stage: &mut Stage, server: &Server) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let running = server.metric("switchboard_turns_running").await?;
        if running == 0.0 {
            return Ok(());
        }
        stage
            .progress
            .show("answers are given while everybody is away", &format!("{running} are not complete"));
        ensure!(Instant::now() < deadline, "{running} answers are not complete after five minutes");
        sleep(TICK).await;
    }
}

/// Clients that connect at the same time, before the storm.
const STEP: usize = 250;
