//! More clients than the server may have files open: those who are connected go on, the others wait in front of the
//! door, and when some leave there is room again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::ensure;
use switchboard_client::asp::{Client, FirstAttempt, Invoke};
use tokio::time::{Instant, sleep, timeout};

use super::{NOT_HELD_UP, Stage, allow_connections};
use crate::book::Book;
use crate::crowd::Crowd;
use crate::history::longest_pause;
use crate::load::{Load, asp_options};
use crate::report::Outcome;
use crate::server::{Server, Setup};

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let (limit, clients) = stage.pick((160, 300), (600, 1_500));
    if let Err(why) = allow_connections(clients) {
        return Ok(Outcome::skipped(why));
    }
    let book = Book::new();
    let setup = Setup { descriptors: Some(limit), ..stage.setup() };
    let mut server = Server::start(setup).await?;
    let load = Load::start(&book, &server.url(), stage.plan(4, 20)).await?;
    stage.pass(&book, "running", Duration::from_secs(1)).await;
    let from = book.now();
    let mut crowd = Crowd::new(server.address(), &book);
    (0..clients).for_each(|_| crowd.add(None));
    let full_for = stage.pick(Duration::from_secs(4), Duration::from_secs(20));
    stage.pass(&book, "the server has no descriptor left", full_for).await;
    let let_in = crowd.counts().up.load(Ordering::Relaxed);
    let pause = longest_pause(&book.histories(), from, book.now());
    drop(crowd);
    let left = book.now();
    stage.progress.show("the crowd has left, somebody new comes", "");
    newcomer(&server.url()).await?;
    let newcomer = book.now() - left;
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.recovery = Some(newcomer);
    outcome.expect(let_in > 0 && let_in < clients, || {
        format!("{let_in} of {clients} were let in with {limit} descriptors: that is no shortage")
    });
    outcome.expect(pause < NOT_HELD_UP, || format!("somebody who was connected waited for {pause:.1?}"));
    outcome.note(format!("{limit} descriptors, {let_in} of {clients} more clients let in"));
    outcome.note(format!("longest pause of those connected {} ms", pause.as_millis()));
    Ok(outcome)
}

/// Somebody connects and is answered.
async fn newcomer(url: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let options = asp_options(url).first_attempt(FirstAttempt::FailFast);
        let talk = async {
            let client = Client::connect(options).await.ok()?;
            let answer = client.invoke(Invoke::chat("echo here")).await.ok()?.collect_text().await.ok()?;
            client.close().await;
            Some(answer.text)
        };
        if let Ok(Some(text)) = timeout(Duration::from_secs(5), talk).await {
            ensure!(text == "here", "a newcomer is answered wrongly");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "nobody is let in after the crowd has left");
        sleep(Duration::from_millis(100)).await;
    }
}
