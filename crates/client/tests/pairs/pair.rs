//! Two sides in one session.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cannot::{What, cannot};
use crate::prompter::sentences;
use crate::side::{Guise, How, Party, Place, Protocol};
use crate::world::World;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    First,
    Second,
}

impl Seat {
    pub(crate) const BOTH: [Self; 2] = [Self::First, Self::Second];

    const fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }
}

/// Two sides in one session, of which the second may not be there yet.
pub(crate) struct Pair {
    pub(crate) world: Arc<World>,
    key: String,
    protocols: [Protocol; 2],
    place: Place,
    parties: [Option<Party>; 2],
    /// What turned out to be impossible, as the table says.
    pub(crate) limits: BTreeSet<(Protocol, What)>,
    gates: u32,
}

impl Pair {
    /// The first side in its session. `scenario` tells the sessions of one server apart.
    pub(crate) async fn open(
        world: &Arc<World>,
        scenario: &str,
        first: Protocol,
        second: Protocol,
    ) -> Result<Self, String> {
        let mut pair = Self {
            world: world.clone(),
            key: format!("{scenario}{first}{second}"),
            protocols: [first, second],
            place: Place { id: String::new(), name: None },
            parties: [None, None],
            limits: BTreeSet::new(),
            gates: 0,
        };
        // Whoever cannot enter a session has made it, and comes back when it is time to join.
        if pair.is_limited(second, What::Enter) {
            let (mut away, place) = Party::open(second, world, &pair.guise(Seat::Second)).await?;
            away.cut().await?;
            pair.parties[0] = Some(Party::join(first, world, &pair.guise(Seat::First), &place).await?);
            (pair.parties[1], pair.place) = (Some(away), place);
        } else {
            let (party, place) = Party::open(first, world, &pair.guise(Seat::First)).await?;
            (pair.parties[0], pair.place) = (Some(party), place);
        }
        Ok(pair)
    }

    /// The second side joins.
    pub(crate) async fn join(&mut self) -> Result<(), String> {
        match &mut self.parties[1] {
            Some(away) => away.resume().await,
            None => {
                let guise = self.guise(Seat::Second);
                let party = Party::join(self.protocols[1], &self.world, &guise, &self.place).await?;
                self.parties[1] = Some(party);
                Ok(())
            }
        }
    }

    /// Both sides, from the beginning.
    pub(crate) async fn both(
        world: &Arc<World>,
        scenario: &str,
        first: Protocol,
        second: Protocol,
    ) -> Result<Self, String> {
        let mut pair = Self::open(world, scenario, first, second).await?;
        pair.join().await?;
        Ok(pair)
    }

    fn guise(&self, seat: Seat) -> Guise {
        let (key, number) = (&self.key, seat.number());
        Guise { name: format!("{key}{number}"), token: None, tool: format!("tool_{number}") }
    }

    pub(crate) fn tool(&self, seat: Seat) -> (String, String) {
        let Guise { name, tool, .. } = self.guise(seat);
        (tool, name)
    }

    pub(crate) const fn protocol(&self, seat: Seat) -> Protocol {
        match seat {
            Seat::First => self.protocols[0],
            Seat::Second => self.protocols[1],
        }
    }

    /// Whether the table says so; if it does, that is put on record.
    pub(crate) fn is_limited(&mut self, who: Protocol, what: What) -> bool {
        let limited = cannot(who, what).is_some();
        if limited {
            self.limits.insert((who, what));
        }
        limited
    }

    pub(crate) fn party(&mut self, seat: Seat) -> Result<&mut Party, String> {
        let party = match seat {
            Seat::First => &mut self.parties[0],
            Seat::Second => &mut self.parties[1],
        };
        party.as_mut().ok_or_else(|| "nobody has joined".to_owned())
    }

    /// Whether this side can ask something in this session.
    pub(crate) fn may_ask(&mut self, seat: Seat) -> bool {
        let protocol = self.protocol(seat);
        self.place.name.is_some() || !self.is_limited(protocol, What::AskThere)
    }

    /// Whether this side hears what that one is answered.
    pub(crate) fn hears(&mut self, seat: Seat, asker: Seat) -> bool {
        let protocol = self.protocol(seat);
        seat == asker || !self.is_limited(protocol, What::HearOthers)
    }

    fn hears_at_once(&mut self, seat: Seat, asker: Seat) -> bool {
        let what = if seat == asker { What::StreamOwn } else { What::StreamOthers };
        let protocol = self.protocol(seat);
        self.hears(seat, asker) && !self.is_limited(protocol, what)
    }

    /// One side asks for something that has a gate in it, the other listens. Answers the gate, at which the
    /// agent stands by then.
    pub(crate) async fn ask(&mut self, asker: Seat, request: &str) -> Result<String, String> {
        let key = self.ask_alone(asker, request).await?;
        let other = other(asker);
        if self.hears(other, asker) {
            self.party(other)?.follow().await?;
        } else {
            self.party(other)?.forget();
        }
        Ok(key)
    }

    /// The same, and nobody listens.
    pub(crate) async fn ask_alone(&mut self, asker: Seat, request: &str) -> Result<String, String> {
        self.gates += 1;
        let key = format!("{}{}", self.key, self.gates);
        self.party(asker)?.say(&format!("{request} {key}")).await?;
        self.world.prompter.reached(&key).await?;
        Ok(key)
    }

    /// Both hear the beginning of an answer, as far as they hear it while it is being said.
    pub(crate) async fn hear_beginning(&mut self, asker: Seat) -> Result<(), String> {
        for seat in Seat::BOTH {
            if self.hears_at_once(seat, asker) {
                self.party(seat)?.hear_beginning().await?;
            }
        }
        Ok(())
    }

    /// Both hear the whole answer to its end, and nothing twice.
    pub(crate) async fn hear_all(&mut self, asker: Seat) -> Result<(), String> {
        for seat in Seat::BOTH {
            if self.hears(seat, asker) {
                self.hear_whole(seat).await?;
            } else {
                self.expect_quiet(seat).await?;
            }
        }
        Ok(())
    }

    /// One side hears the whole answer to its end.
    pub(crate) async fn hear_whole(&mut self, seat: Seat) -> Result<(), String> {
        let party = self.party(seat)?;
        let how = party.hear_end().await?;
        let told = sentences().concat();
        let told: Vec<&str> = told.split_whitespace().collect();
        if how != How::Done || party.words() != told {
            return Err(party.blame("hear all", &format!("{how:?}, {:?}", party.words())));
        }
        Ok(())
    }

    /// A third one, in the protocol of the second, comes after the end and sees all of the answer as well.
    pub(crate) async fn look_back(&mut self, gate: &str) -> Result<(), String> {
        let protocol = self.protocol(Seat::Second);
        if self.is_limited(protocol, What::LookBack) {
            return Ok(());
        }
        let turn = self.world.prompter.turn_at(gate).ok_or("the agent was never there")?;
        let guise = Guise { name: format!("{}3", self.key), token: None, tool: "tool_3".to_owned() };
        let mut third = Party::look_back(protocol, &self.world, &guise, &self.place, &turn).await?;
        third.hear_words(&sentences().concat()).await
    }

    /// Nothing more comes, and what came had one end at most.
    pub(crate) async fn expect_quiet(&mut self, seat: Seat) -> Result<(), String> {
        let party = self.party(seat)?;
        if !party.is_quiet().await || party.ends().len() > 1 {
            let why = format!("after the end came {:?}, {:?}", party.words(), party.ends());
            return Err(party.blame("be left in peace", &why));
        }
        Ok(())
    }

    /// A side that has said something is known to the session, with its tools. Whoever hears of everything
    /// hears of this, too.
    pub(crate) async fn introduce(&mut self, seat: Seat) -> Result<(), String> {
        if !self.may_ask(seat) {
            return Ok(());
        }
        let other = other(seat);
        self.party(other)?.forget();
        let party = self.party(seat)?;
        party.say("say ready").await?;
        party.hear_end().await?;
        if matches!(self.protocol(other), Protocol::Alicia | Protocol::Vip) {
            self.party(other)?.hear_end().await?;
        }
        Ok(())
    }

    pub(crate) fn open_gate(&self, key: &str) {
        self.world.prompter.open(key);
    }
}

pub(crate) const fn other(seat: Seat) -> Seat {
    match seat {
        Seat::First => Seat::Second,
        Seat::Second => Seat::First,
    }
}
