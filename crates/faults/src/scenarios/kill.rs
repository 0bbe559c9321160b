//! `kill -9` under load, several times; every second time once more while clients are still coming back.

use std::time::Duration;

use tokio::time::sleep;

use super::Stage;
use crate::book::Book;
use crate::load::Load;
use crate::report::Outcome;
use crate::server::Server;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let (kills, pause) = stage.pick((2, Duration::from_secs(1)), (10, Duration::from_secs(4)));
    let book = Book::new();
    let mut server = Server::start(stage.setup()).await?;
    let load = Load::start(&book, &server.url(), stage.plan(6, 40)).await?;
    let (mut slowest, mut start) = (None, Duration::ZERO);
    for kill in 1..=kills {
        stage.pass(&book, &format!("kill {kill} of {kills} is to come"), pause).await;
        server.kill().await?;
        let began = book.now();
        server.start_again().await?;
        start = start.max(book.now() - began);
        if kill % 2 == 0 {
            sleep(Duration::from_millis(300)).await;
            server.kill().await?;
            server.start_again().await?;
        }
        let back = book.now();
        let Some(recovery) = stage.recovered(&book, back).await else { break };
        slowest = slowest.max(Some(recovery));
    }
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.recovery = slowest;
    outcome.note(format!("{} kills", kills + kills / 2));
    outcome.note(format!("listening again after {} ms at most", start.as_millis()));
    Ok(outcome)
}
