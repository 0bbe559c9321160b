//! One side of a pair: a client of one protocol in the session, seen through the few things that all of
//! them can do.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use switchboard_core::TurnId;

use crate::world::{Cable, PATIENCE, World, soon};
use crate::{acolyte, aip, alicia, asp, vip};

/// The protocols, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Asp,
    Acolyte,
    Aip,
    Vip,
    Alicia,
}

impl Protocol {
    pub(crate) const ALL: [Self; 5] = [Self::Asp, Self::Acolyte, Self::Aip, Self::Vip, Self::Alicia];

    /// What it is called; also the name of its page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Asp => "asp",
            Self::Acolyte => "acolyte",
            Self::Aip => "aip",
            Self::Vip => "vip",
            Self::Alicia => "alicia",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A session, as it is known to whoever wants to enter it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its identifier.
    pub(crate) id: String,
    /// What its owner calls it, if it was named.
    pub(crate) name: Option<String>,
}

/// Who a client is, and what it brings along.
#[derive(Clone, Debug)]
pub(crate) struct Guise {
    /// Tells it from everybody else in the test.
    pub(crate) name: String,
    /// The key that it shows, if keys are asked for.
    pub(crate) token: Option<&'static str>,
    /// The tool that it offers, where its protocol has such.
    pub(crate) tool: String,
}

/// Something that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More of an answer.
    Words(String),
    /// All of an answer, in place of what was told of it before.
    Instead(String),
    /// An answer is over.
    Over(How),
    /// An answer is over, and not as well as it seemed.
    Rather(How),
    /// The connection was lost, and with it what was being followed.
    Lost,
    /// Anything else.
    Else,
}

/// How an answer ended, as far as the protocol says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Done,
    Stopped,
    Failed(String),
}

/// A client of one protocol. What it cannot do at all is in the table of [`crate::cannot`], and never asked
/// of it.
#[async_trait]
pub(crate) trait Side: Send {
    fn cable(&self) -> &Cable;

    /// Asks for an answer.
    async fn say(&mut self, text: &str) -> Result<(), String>;

    /// Listens to what somebody else has asked for and is being answered now; where a client hears of
    /// everything anyway, there is nothing to do.
    async fn follow(&mut self) -> Result<(), String>;

    /// Stops the answer.
    async fn stop(&mut self) -> Result<(), String>;

    /// The next thing that is heard. May be dropped at any time.
    async fn next(&mut self) -> Step;

    /// Waits until the client has noticed that its connection is gone.
    async fn is_down(&mut self);

    /// Waits until the client is connected again.
    async fn is_up(&mut self);
}

/// A side, and what it has heard since it was last asked.
pub(crate) struct Party {
    pub(crate) protocol: Protocol,
    side: Box<dyn Side>,
    words: String,
    ends: Vec<How>,
}

impl Party {
    /// The first in a new session.
    pub(crate) async fn open(
        protocol: Protocol,
        world: &World,
        guise: &Guise,
    ) -> Result<(Self, Place), String> {
        let cable = Cable::to(world.address).await;
        let (side, place): (Box<dyn Side>, Place) = match protocol {
            Protocol::Asp => asp::open(cable, guise, world.keyed).await?,
            Protocol::Acolyte => acolyte::open(cable, guise, world.keyed).await?,
            Protocol::Aip => aip::open(cable, guise, world.keyed).await?,
            Protocol::Vip => vip::open(cable, guise).await?,
            Protocol::Alicia => alicia::open(cable, guise).await?,
        };
        Ok((Self::new(protocol, side), place))
    }

    /// Somebody else in a session that is there. Whoever speaks VIP can only come back to one of its own.
    pub(crate) async fn join(
        protocol: Protocol,
        world: &World,
        guise: &Guise,
        place: &Place,
    ) -> Result<Self, String> {
        let cable = Cable::to(world.address).await;
        let side: Box<dyn Side> = match protocol {
            Protocol::Asp => asp::join(cable, guise, place).await?,
            Protocol::Acolyte => acolyte::join(cable, guise, place).await?,
            Protocol::Aip => aip::join(cable, guise, place).await?,
            Protocol::Alicia => alicia::join(cable, guise, place).await?,
            Protocol::Vip => return Err("nobody joins a session of somebody else with VIP".to_owned()),
        };
        Ok(Self::new(protocol, side))
    }

    /// Somebody else who comes when a turn is over, and wants to see it.
    pub(crate) async fn look_back(
        protocol: Protocol,
        world: &World,
        guise: &Guise,
        place: &Place,
        turn: &TurnId,
    ) -> Result<Self, String> {
        let cable = Cable::to(world.address).await;
        let side: Box<dyn Side> = match protocol {
            Protocol::Acolyte => acolyte::look_back(cable, guise, place, turn).await?,
            Protocol::Alicia => alicia::look_back(cable, guise, place).await?,
            Protocol::Asp | Protocol::Aip | Protocol::Vip => {
                return Err(format!("{protocol} does not look back"));
            }
        };
        Ok(Self::new(protocol, side))
    }

    fn new(protocol: Protocol, side: Box<dyn Side>) -> Self {
        Self { protocol, side, words: String::new(), ends: Vec::new() }
    }

    pub(crate) async fn say(&mut self, text: &str) -> Result<(), String> {
        self.forget();
        soon("to say something", self.side.say(text)).await?.map_err(|why| self.blame("say", &why))
    }

    pub(crate) async fn follow(&mut self) -> Result<(), String> {
        self.forget();
        soon("to follow", self.side.follow()).await?.map_err(|why| self.blame("follow", &why))
    }

    pub(crate) async fn stop(&mut self) -> Result<(), String> {
        soon("to stop", self.side.stop()).await?.map_err(|why| self.blame("stop", &why))
    }

    /// Nothing that was heard so far counts any more.
    pub(crate) fn forget(&mut self) {
        self.words.clear();
        self.ends.clear();
    }

    /// The words heard, without what is between them: protocols differ in how they set them.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.words.split_whitespace().collect()
    }

    pub(crate) fn ends(&self) -> &[How] {
        &self.ends
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Words(more) => self.words.push_str(&more),
            Step::Instead(all) => self.words = all,
            Step::Over(how) => self.ends.push(how),
            Step::Rather(how) => match self.ends.last_mut() {
                Some(end) => *end = how,
                None => self.ends.push(how),
            },
            Step::Lost | Step::Else => {}
        }
    }

    /// Listens until this is so.
    async fn hear(&mut self, what: &str, is: impl Fn(&Self) -> bool + Send) -> Result<(), String> {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !is(self) {
            match tokio::time::timeout_at(until, self.side.next()).await {
                Ok(step) => self.take(step),
                Err(_) => {
                    let why = format!("{what}: not in time; heard {:?}, ends {:?}", self.words, self.ends);
                    return Err(self.blame("hear", &why));
                }
            }
        }
        Ok(())
    }

    /// Listens until the answer has begun.
    pub(crate) async fn hear_beginning(&mut self) -> Result<(), String> {
        self.hear("the beginning", |party| !party.words.trim().is_empty()).await
    }

    /// Listens until an answer is over that says this.
    pub(crate) async fn hear_words(&mut self, words: &str) -> Result<(), String> {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.hear("these words", |party| !party.ends.is_empty() && party.words() == words).await
    }

    /// Listens until the answer is over.
    pub(crate) async fn hear_end(&mut self) -> Result<How, String> {
        self.hear("the end", |party| !party.ends.is_empty()).await?;
        Ok(self.ends[0].clone())
    }

    /// Listens for a while; answers whether anything of an answer came.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let (words, ends) = (self.words.len(), self.ends.len());
        let until = tokio::time::Instant::now() + A_WHILE;
        while let Ok(step) = tokio::time::timeout_at(until, self.side.next()).await {
            self.take(step);
        }
        (self.words.len(), self.ends.len()) == (words, ends)
    }

    /// Pulls the plug, and waits until that is noticed.
    pub(crate) async fn cut(&mut self) -> Result<(), String> {
        self.side.cable().cut();
        soon("to be cut", self.side.is_down()).await.map_err(|why| self.blame("cut", &why))
    }

    /// Puts it back, and waits until there is a connection.
    pub(crate) async fn resume(&mut self) -> Result<(), String> {
        self.side.cable().mend();
        soon("to come back", self.side.is_up()).await.map_err(|why| self.blame("resume", &why))
    }

    /// How many bytes the server has sent.
    pub(crate) fn told(&self) -> u64 {
        self.side.cable().told()
    }

    pub(crate) fn blame(&self, what: &str, why: &str) -> String {
        format!("{} cannot {what}: {why}", self.protocol)
    }
}

/// How long nothing has to come before nothing will.
const A_WHILE: Duration = Duration::from_millis(150);
