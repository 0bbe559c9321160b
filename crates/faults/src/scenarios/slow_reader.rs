//! Some clients stop reading while others stream. The others are not held up, memory stays in bounds, and the slow
//! ones see everything in the end: from where they stopped, or after they were closed and have come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::ensure;
use parking_lot::Mutex;
use switchboard_client::alicia::{self, ConnectionEvent, Id, Join, Library, Updates};
use switchboard_client::{acolyte, asp};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::{NOT_HELD_UP, Stage, TICK};
use crate::book::{Book, Recorder};
use crate::follow::{Floor, Follower};
use crate::history::longest_pause;
use crate::load::{Load, acolyte_options, alicia_options, asp_options};
use crate::report::{Outcome, mebibytes};
use crate::server::Server;
use crate::talk;
use crate::words::Shape;

pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<Outcome> {
    let stop_for = stage.pick(Duration::from_secs(10), Duration::from_secs(60));
    let book = Book::new();
    let mut server = Server::start(stage.setup()).await?;
    let url = server.url();
    let load = Load::start(&book, &url, stage.plan(4, 20)).await?;
    let flood = Flood::start(&book, &url).await?;
    let mut slow = SlowFollower::join(&book, &url, &flood).await?;
    let readers = slow_readers(&book, &url, stop_for).await?;
    flood.begin();
    // Everybody reads, for a moment.
    let _ = timeout(Duration::from_secs(1), slow.follower.read(&mut slow.updates)).await;

    let (from, before) = (book.now(), server.memory());
    let mut most = before;
    let until = Instant::now() + stop_for;
    while Instant::now() < until {
        most = most.max(server.memory());
        let detail = format!("{}, {} words seen", mebibytes(most), book.words());
        stage.progress.show("some do not read", &detail);
        sleep(TICK).await;
    }
    let awake = book.now();
    let others: Vec<_> =
        book.histories().into_iter().filter(|history| !history.client.contains(SLOW)).collect();
    let pause = longest_pause(&others, from, awake);

    let closed = slow.wake();
    stage.pass(&book, "they read again", Duration::from_secs(1)).await;
    let last = flood.end().await?;
    stage.progress.show("the slow ones catch up", "");
    slow_ones_have_it_all(&closed.recorder, last, readers).await?;
    let caught_up = book.now() - awake;
    let mut outcome = stage.settle(&book, load, &mut server).await?;
    outcome.recovery = Some(caught_up);
    outcome.expect(pause < NOT_HELD_UP, || format!("somebody else was held up for {pause:.1?}"));
    let grown = most.saturating_sub(before);
    outcome.expect(grown <= MOST_MEMORY, || {
        format!("memory grew by {}, more than {}", mebibytes(grown), mebibytes(MOST_MEMORY))
    });
    outcome.note(format!("stopped for {} s", stop_for.as_secs()));
    outcome.note(format!("longest pause of the others {} ms", pause.as_millis()));
    outcome.note(format!("memory grew by {}", mebibytes(grown)));
    let causes = closed.causes.lock();
    outcome.note(match causes.first() {
        Some(cause) => format!("the one that follows was {cause}, and came back"),
        None => "the one that follows was not closed".to_owned(),
    });
    Ok(outcome)
}

/// Requests of ASP and Acolyte that nobody reads for a while.
async fn slow_readers(book: &Arc<Book>, url: &str, stop_for: Duration) -> anyhow::Result<JoinSet<()>> {
    // More than a reader of ASP has credit for.
    let large = Shape { words: 400, padding: 2_000, every_ms: 1 };
    // As long as a question of Acolyte may be, and more pieces than its client takes in unread.
    let long = Shape { words: 4_000, padding: 0, every_ms: 1 };
    let mut readers = JoinSet::new();
    let client = asp::Client::connect(asp_options(url)).await?;
    let (request, recorder) = (book.request(), book.recorder(format!("asp, {SLOW}"), None));
    let mut answer = client.invoke(talk::invocation(None, request, large.prompt(request))).await?;
    readers.spawn(async move {
        sleep(stop_for).await;
        talk::read_asp(&mut answer, request, &recorder).await;
        client.close().await;
    });
    let client = acolyte::Client::connect(acolyte_options(url)).await?;
    let (request, recorder) = (book.request(), book.recorder(format!("acolyte, {SLOW}"), None));
    let mut chat = client.chat(talk::chat("sess_slow", long.prompt(request))).await?;
    readers.spawn(async move {
        sleep(stop_for).await;
        talk::read_acolyte(&mut chat, request, &recorder).await;
        client.close().await;
    });
    Ok(readers)
}

async fn slow_ones_have_it_all(
    follower: &Recorder,
    last: u64,
    mut readers: JoinSet<()>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + CATCH_UP;
    while !follower.ended().contains(&last) {
        ensure!(Instant::now() < deadline, "the slow follower has not seen the end of request {last}");
        sleep(TICK).await;
    }
    let all = async { while readers.join_next().await.is_some() {} };
    ensure!(timeout(CATCH_UP, all).await.is_ok(), "a slow reader does not come to the end of its answer");
    Ok(())
}

/// A conversation in which a client of ASP asks for much, again and again, and somebody reads all of it.
struct Flood {
    conversation: Id,
    floor: Arc<Floor>,
    phase: watch::Sender<Flow>,
    asking: JoinHandle<()>,
    reading: JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Dammed,
    Flows,
    Over,
}

impl Flood {
    async fn start(book: &Arc<Book>, url: &str) -> anyhow::Result<Self> {
        let client = alicia::Client::connect(alicia_options(url)).await?;
        let (kept, mut updates) = client.conversation(Join::create()).await?;
        let (conversation, floor) = (kept.id().clone(), Arc::new(Floor::default()));
        let recorder = book.recorder("alicia, in the flood".to_owned(), Some(conversation.to_string()));
        let library = Library::new(&alicia_options(url))?;
        let mut follower = Follower::new(recorder, library, conversation.clone(), floor.clone());
        let reading = tokio::spawn(async move {
            follower.read(&mut updates).await;
            drop(kept);
        });
        let phase = watch::Sender::new(Flow::Dammed);
        let asp = asp::Client::connect(asp_options(url)).await?;
        let recorder = book.recorder("asp, in the flood".to_owned(), None);
        let (book, session, current) = (book.clone(), conversation.to_string(), floor.clone());
        let mut flow = phase.subscribe();
        let asking = tokio::spawn(async move {
            // Whoever holds the other end holds this one, too.
            let _ = flow.wait_for(|flow| *flow != Flow::Dammed).await;
            while *flow.borrow() == Flow::Flows {
                let request = book.request();
                current.current.store(request, Ordering::Relaxed);
                let prompt = FLOOD.prompt(request);
                talk::asp(&asp, Some(&session), request, prompt, &recorder).await;
            }
            asp.close().await;
        });
        Ok(Self { conversation, floor, phase, asking, reading })
    }

    fn begin(&self) {
        self.phase.send_replace(Flow::Flows);
    }

    /// Answers the last request.
    async fn end(self) -> anyhow::Result<u64> {
        self.phase.send_replace(Flow::Over);
        ensure!(timeout(CATCH_UP, self.asking).await.is_ok(), "the flood does not end");
        let last = self.floor.current.load(Ordering::Relaxed);
        let mut ended = self.floor.ended.subscribe();
        let seen = timeout(CATCH_UP, ended.wait_for(|ended| *ended >= last)).await;
        ensure!(seen.is_ok(), "the quick reader of the flood has not seen the end of request {last}");
        self.reading.abort();
        Ok(last)
    }
}

/// A client of Alicia that follows the flood and stops to read: its socket fills up.
struct SlowFollower {
    client: alicia::Client,
    follower: Follower,
    updates: Updates,
    recorder: Recorder,
    causes: Arc<Mutex<Vec<String>>>,
}

/// One that reads again.
struct Awake {
    recorder: Recorder,
    causes: Arc<Mutex<Vec<String>>>,
}

impl SlowFollower {
    async fn join(book: &Arc<Book>, url: &str, flood: &Flood) -> anyhow::Result<Self> {
        let client = alicia::Client::connect(alicia_options(url)).await?;
        let (_, updates) = client.conversation(Join::existing(flood.conversation.clone())).await?;
        let follows = Some(flood.conversation.to_string());
        let recorder = book.recorder(format!("alicia, {SLOW}"), follows);
        let library = Library::new(&alicia_options(url))?;
        // What the quick one has seen does not matter to this one.
        let floor = Arc::new(Floor::default());
        let follower = Follower::new(recorder.clone(), library, flood.conversation.clone(), floor);
        let causes = Arc::new(Mutex::new(Vec::new()));
        let (mut events, told) = (client.events(), causes.clone());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                match event {
                    ConnectionEvent::Disconnected { cause, .. } | ConnectionEvent::Closed { cause } => {
                        told.lock().push(cause.to_string());
                    }
                    ConnectionEvent::Connected | ConnectionEvent::Resumed { .. } => {}
                }
            }
        });
        Ok(Self { client, follower, updates, recorder, causes })
    }

    fn wake(self) -> Awake {
        let Self { client, mut follower, mut updates, recorder, causes } = self;
        tokio::spawn(async move {
            follower.read(&mut updates).await;
            drop(client);
        });
        Awake { recorder, causes }
    }
}

/// Part of the names of those who do not read.
const SLOW: &str = "slow";
/// Some forty kilobytes in a tenth of a second, and the question as much again.
const FLOOD: Shape = Shape { words: 40, padding: 1_000, every_ms: 2 };
/// What may wait for the slow ones, and the rest of what is going on.
const MOST_MEMORY: u64 = 64 << 20;
const CATCH_UP: Duration = Duration::from_secs(60);
