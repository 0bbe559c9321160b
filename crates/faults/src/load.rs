//! The load under which faults happen: rooms, each a session that clients of two protocols share.
//!
//! * A **conversation** is made by a client of Alicia, who asks in turn with a client of ASP; a second client of
//!   Alicia only follows. Both have to see everything that is asked there, by whomever.
//! * A **session** has a client of ASP and one of Acolyte, who ask at the same time and queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use switchboard_client::alicia::{Conversation, Join, Library, Updates};
use switchboard_client::{acolyte, alicia, asp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::book::{Book, Recorder};
use crate::follow::{Floor, Follower};
use crate::history::What;
use crate::talk::{self, Told};
use crate::words::Shape;

/// How much is going on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rooms with Alicia and ASP.
    pub(crate) conversations: usize,
    /// Rooms with ASP and Acolyte.
    pub(crate) sessions: usize,
    /// What each answer is like.
    pub(crate) shape: Shape,
}

/// Clients at work.
pub(crate) struct Load {
    book: Arc<Book>,
    stop: watch::Sender<bool>,
    speakers: JoinSet<()>,
    followers: JoinSet<()>,
    /// Who has to have seen the end of what, before everything is over.
    awaited: Vec<(Recorder, Arc<Floor>)>,
}

impl Load {
    /// Connects everybody and lets them begin.
    pub(crate) async fn start(book: &Arc<Book>, url: &str, plan: Plan) -> anyhow::Result<Self> {
        let mut load = Self {
            book: book.clone(),
            stop: watch::Sender::new(false),
            speakers: JoinSet::new(),
            followers: JoinSet::new(),
            awaited: Vec::new(),
        };
        for number in 0..plan.conversations {
            load.conversation(number, url, plan.shape).await.context("a conversation cannot be opened")?;
        }
        for number in 0..plan.sessions {
            load.session(number, url, plan.shape).await.context("a session cannot be opened")?;
        }
        Ok(load)
    }

    /// One more connection, of Acolyte: of the chats that are asked for at once, one runs and the others wait.
    pub(crate) async fn queue(&mut self, number: usize, url: &str, shape: Shape) -> anyhow::Result<()> {
        let session = format!("sess_faults{}", self.book.request());
        let client = acolyte::Client::connect(acolyte_options(url)).await?;
        let recorder = self.book.recorder(format!("acolyte {number} (queueing)"), None);
        let (book, stop) = (self.book.clone(), self.stop.subscribe());
        self.speakers.spawn(async move {
            while !*stop.borrow() {
                let chats = (0..QUEUED).map(|_| {
                    let request = book.request();
                    talk::acolyte(&client, &session, request, shape.prompt(request), &recorder)
                });
                let told = futures_util::future::join_all(chats).await;
                let worst = told.into_iter().find(|told| *told != Told::Answered);
                pause_after(worst.unwrap_or(Told::Answered)).await;
            }
            client.close().await;
        });
        Ok(())
    }

    /// Lets nobody ask again, and waits until everybody has the end of what was asked.
    ///
    /// # Errors
    /// Somebody waits in vain.
    pub(crate) async fn finish(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let deadline = Instant::now() + PATIENCE;
        let all = async { while self.speakers.join_next().await.is_some() {} };
        timeout(PATIENCE, all)
            .await
            .context("a request is still unanswered a minute after the last fault")?;
        for (recorder, floor) in &self.awaited {
            let last = floor.current.load(Ordering::Relaxed);
            while last > 0 && !recorder.ended().contains(&last) {
                anyhow::ensure!(
                    Instant::now() < deadline,
                    "a follower has not seen the end of request {last}"
                );
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    async fn conversation(&mut self, number: usize, url: &str, shape: Shape) -> anyhow::Result<()> {
        let maker = Followed::join(url, Join::create()).await?;
        let id = maker.conversation.id().clone();
        let watcher = Followed::join(url, Join::existing(id.clone())).await?;
        let asp = asp::Client::connect(asp_options(url)).await?;
        let floor = Arc::new(Floor::default());
        let library = Library::new(&alicia_options(url))?;
        let follows = Some(id.to_string());
        let device = self.book.recorder(format!("alicia {number}"), follows.clone());
        let second = self.book.recorder(format!("alicia {number} (following)"), follows);
        let speaker = ConversationSpeaker {
            book: self.book.clone(),
            stop: self.stop.subscribe(),
            floor: floor.clone(),
            conversation: maker.conversation.clone(),
            device: device.clone(),
            asp,
            other: self.book.recorder(format!("asp {number} in a conversation"), None),
            session: id.to_string(),
            shape,
        };
        for (recorder, followed) in [(device, maker), (second, watcher)] {
            self.awaited.push((recorder.clone(), floor.clone()));
            let mut follower = Follower::new(recorder, library.clone(), id.clone(), floor.clone());
            self.followers.spawn(async move {
                let Followed { mut updates, .. } = followed;
                follower.read(&mut updates).await;
            });
        }
        self.speakers.spawn(speaker.speak());
        Ok(())
    }

    async fn session(&mut self, number: usize, url: &str, shape: Shape) -> anyhow::Result<()> {
        // A number that nobody else has: another load must not find the sessions of this one.
        let session = format!("sess_faults{}", self.book.request());
        let first = asp::Client::connect(asp_options(url)).await?;
        let second = acolyte::Client::connect(acolyte_options(url)).await?;
        let recorders =
            ["asp", "acolyte"].map(|protocol| self.book.recorder(format!("{protocol} {number}"), None));
        let [asp_recorder, acolyte_recorder] = recorders;
        let (book, stop, named) = (self.book.clone(), self.stop.subscribe(), session.clone());
        self.speakers.spawn(async move {
            while !*stop.borrow() {
                let request = book.request();
                let prompt = shape.prompt(request);
                pause_after(talk::asp(&first, Some(&named), request, prompt, &asp_recorder).await).await;
            }
            first.close().await;
        });
        let (book, stop) = (self.book.clone(), self.stop.subscribe());
        self.speakers.spawn(async move {
            while !*stop.borrow() {
                let request = book.request();
                let prompt = shape.prompt(request);
                pause_after(talk::acolyte(&second, &session, request, prompt, &acolyte_recorder).await).await;
            }
            second.close().await;
        });
        Ok(())
    }
}

/// Who asks in a conversation: Alicia and ASP in turn, since a message of Alicia would stop what is being said.
struct ConversationSpeaker {
    book: Arc<Book>,
    stop: watch::Receiver<bool>,
    floor: Arc<Floor>,
    conversation: Conversation,
    device: Recorder,
    asp: asp::Client,
    other: Recorder,
    session: String,
    shape: Shape,
}

impl ConversationSpeaker {
    async fn speak(self) {
        let mut by_alicia = true;
        while !*self.stop.borrow() {
            let request = self.book.request();
            let prompt = self.shape.prompt(request);
            self.floor.current.store(request, Ordering::Relaxed);
            let told = if by_alicia {
                self.say(request, prompt).await
            } else {
                talk::asp(&self.asp, Some(&self.session), request, prompt, &self.other).await
            };
            if told == Told::Refused {
                // Nobody will see the end of it.
                self.floor.current.store(0, Ordering::Relaxed);
            }
            pause_after(told).await;
            by_alicia = !by_alicia;
        }
        self.asp.close().await;
    }

    async fn say(&self, request: u64, prompt: String) -> Told {
        let Ok(message) = self.conversation.say(prompt).await else {
            self.device.saw(request, What::Refused);
            return Told::Refused;
        };
        self.floor.questions.lock().insert(message, request);
        self.device.saw(request, What::Accepted);
        let mut ended = self.floor.ended.subscribe();
        match ended.wait_for(|last| *last >= request).await {
            Ok(_) => Told::Answered,
            Err(_) => Told::Lost,
        }
    }
}

/// A conversation that is followed, with the client that has to live as long.
struct Followed {
    conversation: Conversation,
    updates: Updates,
}

impl Followed {
    async fn join(url: &str, join: Join) -> anyhow::Result<Self> {
        let client = alicia::Client::connect(alicia_options(url)).await?;
        let (conversation, updates) = client.conversation(join).await?;
        Ok(Self { conversation, updates })
    }
}

/// What was refused or lost is not asked for again at once.
async fn pause_after(told: Told) {
    if told != Told::Answered {
        sleep(Duration::from_millis(200)).await;
    }
}

pub(crate) fn asp_options(url: &str) -> asp::Connect {
    asp::Connect::new(url).first_attempt(asp::FirstAttempt::KeepTrying)
}

pub(crate) fn acolyte_options(url: &str) -> acolyte::Connect {
    acolyte::Connect::new(url).first_attempt(acolyte::FirstAttempt::KeepTrying)
}

pub(crate) fn alicia_options(url: &str) -> alicia::Connect {
    alicia::Connect::new(url).first_attempt(alicia::FirstAttempt::KeepTrying)
}

/// Chats that are asked for at once on one connection.
const QUEUED: usize = 4;
/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(60);
