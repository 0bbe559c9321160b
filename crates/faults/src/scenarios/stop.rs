//! SIGSTOP and SIGCONT under load: briefly, and once for longer than an executor may be silent.

use std::time::Duration;

use super::Stage;
use crate::book::Book;
use crate::load::Load;
use crate::report::Outcome;
use crate::server::Server;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let halts: &[u64] = stage.pick(&[2], &[1, 5, 5, 35]);
    let pause = stage.pick(Duration::from_secs(1), Duration::from_secs(3));
    let book = Book::new();
    let mut server = Server::start(stage.setup()).await?;
    let load = Load::start(&book, &server.url(), stage.plan(6, 40)).await?;
    let mut slowest = None;
    for seconds in halts {
        stage.pass(&book, "running", pause).await;
        server.halt()?;
        stage.pass(&book, &format!("halted for {seconds} s"), Duration::from_secs(*seconds)).await;
        server.go_on()?;
        let back = book.now();
        let Some(recovery) = stage.recovered(&book, back).await else { break };
        slowest = slowest.max(Some(recovery));
    }
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.recovery = slowest;
    let halts: Vec<String> = halts.iter().map(ToString::to_string).collect();
    outcome.note(format!("halted for {} s", halts.join(", ")));
    Ok(outcome)
}
