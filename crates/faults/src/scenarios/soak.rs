//! Minutes of everything at once, in sessions that come and go: nothing is lost, and memory does not grow.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Stage, TICK};
use crate::book::Book;
use crate::crowd::{Crowd, Phase};
use crate::load::Load;
use crate::report::{Outcome, mebibytes};
use crate::server::Server;
use crate::words::Shape;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let book = Book::new();
    // Sessions that nobody uses leave memory soon, and so do keys of requests, so that what stays is what grows.
    let brief = ["limits.session_idle_ms=5000", "asp.limits.resume_s=5", "session.request_memory=30000"];
    let mut server = Server::start(stage.setup_with(&brief)).await?;
    let until = Instant::now() + stage.soak;
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    while Instant::now() < until && problems.is_empty() {
        let load = Load::start(&book, &server.url(), stage.plan(6, 20)).await?;
        let round = until.min(Instant::now() + ROUND);
        let mut crowd = passers_by(&server, &book);
        while Instant::now() < round {
            let left = until.saturating_duration_since(Instant::now()).as_secs();
            let memory = server.memory();
            let detail = format!("{left} s left, {}, {} words seen", mebibytes(memory), book.words());
            stage.progress.show("everything at once", &detail);
            samples.push(memory);
            if crowd.counts().ended.load(Ordering::Relaxed) == crowd.len() {
                crowd = passers_by(&server, &book);
            }
            sleep(TICK).await;
        }
        if let Err(error) = load.finish().await {
            problems.push(format!("{error:#}"));
        }
        let patience = Instant::now() + ROUND;
        while crowd.counts().ended.load(Ordering::Relaxed) < crowd.len() {
            if Instant::now() > patience {
                problems.push("somebody who asked once is not answered".to_owned());
                break;
            }
            sleep(TICK).await;
        }
    }
    let mut outcome = Outcome { problems, ..Outcome::default() };
    stage.verify(&book, &mut server, &mut outcome).await?;
    match growth(&samples) {
        Some((early, late)) => {
            let most = early + early / 10 + GRACE;
            let (early, late, most, grew) = (mebibytes(early), mebibytes(late), mebibytes(most), late > most);
            outcome.expect(!grew, || format!("memory grew from {early} to {late}; at most {most} is flat"));
            outcome.note(format!("memory {early} in the third quarter, {late} in the last"));
        }
        None => outcome.problems.push("too short to see whether memory grows".to_owned()),
    }
    Ok(outcome)
}

/// Some who come, ask once and leave.
fn passers_by(server: &Server, book: &std::sync::Arc<Book>) -> Crowd {
    let mut crowd = Crowd::new(server.address(), book);
    let shape = Shape { words: 20, padding: 0, every_ms: 10 };
    (0..PASSERS_BY).for_each(|_| crowd.add(Some(shape)));
    crowd.enter(Phase::Ask);
    crowd
}

/// What was usual in the third quarter and in the last: what the first half takes to settle does not count.
fn growth(samples: &[u64]) -> Option<(u64, u64)> {
    let quarter = samples.len() / 4;
    let median = |samples: &[u64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    };
    let early = median(samples.get(2 * quarter..3 * quarter)?)?;
    let late = median(samples.get(3 * quarter..)?)?;
    Some((early, late))
}

const ROUND: Duration = Duration::from_secs(20);
const PASSERS_BY: usize = 20;
/// What memory may grow by within the second half, on top of a tenth.
const GRACE: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_seen_in_the_second_half_only() {
        let settling: Vec<u64> = (0..100).map(|second| second.min(40)).collect();
        assert_eq!(growth(&settling), Some((40, 40)));
        let leaking: Vec<u64> = (0..100).collect();
        assert_eq!(growth(&leaking), Some((62, 87)));
        assert_eq!(growth(&[1, 2, 3]), None);
    }
}
