//! `kill -9` in the moment of acceptance, in every protocol that answers a request with one: answers are as short as
//! they can be, so that clients ask all the time, and some have chats that wait for others of theirs. Each round has a
//! process of its own and its own moment, from a seed. Whatever was acknowledged has to be in the log.

use std::time::Duration;

use switchboard_core::SplitMix;
use tokio::time::sleep;

use super::Stage;
use crate::book::Book;
use crate::load::{Load, Plan};
use crate::report::Outcome;
use crate::server::Server;
use crate::words::Shape;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let rounds = stage.pick(12, 60);
    let book = Book::new();
    let mut server = Server::start(stage.setup()).await?;
    let shape = Shape { words: 2, padding: 0, every_ms: 1 };
    let mut load = Load::start(&book, &server.url(), Plan { conversations: 2, sessions: 2, shape }).await?;
    for number in 0..QUEUES {
        load.queue(number, &server.url(), shape).await?;
    }
    let mut moments = SplitMix::new(SEED);
    for round in 1..=rounds {
        stage.progress.show(&format!("kill {round} of {rounds} is to come"), "");
        sleep(Duration::from_micros(moments.next() % LONGEST_US)).await;
        server.kill().await?;
        let back = book.now();
        server.start_again().await?;
        if stage.recovered(&book, back).await.is_none() {
            break;
        }
    }
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.note(format!("{rounds} kills"));
    Ok(outcome)
}

/// Connections on which chats wait for each other.
const QUEUES: usize = 3;
const SEED: u64 = 92;
/// How long after everybody is back a round ends, at most.
const LONGEST_US: u64 = 150_000;
