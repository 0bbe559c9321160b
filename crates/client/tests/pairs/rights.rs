//! Somebody who may only watch: bob, in sessions of ann and of whoever tries VIP out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard_core::{PrincipalId, Role, SessionId};
use tokio::task::JoinSet;

use crate::cannot::{What, cannot};
use crate::matrix::{Limits, pairs, report};
use crate::prompter::sentences;
use crate::side::{Guise, How, Party, Place, Protocol};
use crate::world::{ANN, BOB, World};

/// An observer in every pair: it sees what is said, and can neither ask nor stop anything.
pub(crate) async fn run() {
    let world = Arc::new(World::keyed().await);
    let mut running = JoinSet::new();
    for (first, second) in pairs() {
        let world = world.clone();
        running.spawn(async move { ((first, second), observe(&world, first, second).await) });
    }
    let mut results = BTreeMap::new();
    while let Some(done) = running.join_next().await {
        let (pair, result) = done.expect("no panic");
        results.insert(pair, result);
    }
    report("rights", &results);
}

async fn observe(world: &World, first: Protocol, second: Protocol) -> Result<Limits, String> {
    if cannot(second, What::Observe).is_some() {
        return Ok(Limits::from([(second, What::Observe)]));
    }
    let key = format!("rights{first}{second}");
    let guise = |number: u8, token| Guise {
        name: format!("{key}{number}"),
        token: Some(token),
        tool: format!("tool_{number}"),
    };
    let (mut owner, place) = Party::open(first, world, &guise(1, ANN)).await?;
    stranger(world, second, &guise(3, BOB), &place, &key).await?;
    let (session, bob) = (SessionId::from(place.id.as_str()), PrincipalId::from("bob"));
    let admitted = world.handle.admit(&session, bob, Some(Role::Observer)).await;
    admitted.map_err(|reject| format!("bob is not let in: {reject}"))?;
    let mut observer = Party::join(second, world, &guise(2, BOB), &place).await?;
    let mut limits = Limits::new();
    let hears = cannot(second, What::HearOthers).is_none();
    if !hears {
        limits.insert((second, What::HearOthers));
    }
    // What the observer stops goes on, and what it then hears is whole.
    for stops in [true, false] {
        let gate = format!("{key}{stops}");
        owner.say(&format!("tell {gate}")).await?;
        world.prompter.reached(&gate).await?;
        if hears {
            observer.follow().await?;
            if stops {
                // Whether it is told that it may not is the protocol's business.
                let _ = observer.stop().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        world.prompter.open(&gate);
        whole(&mut owner).await?;
        if hears && !stops {
            whole(&mut observer).await?;
        } else if hears {
            // It may have turned away, but it has heard an end.
            observer.hear_end().await?;
        }
    }
    // A name that a chat can have is one of the observer's own.
    if cannot(second, What::AskThere).is_some() {
        limits.insert((second, What::AskThere));
        return Ok(limits);
    }
    ask_in_vain(world, &mut observer, &format!("{key}forbidden")).await?;
    Ok(limits)
}

async fn whole(party: &mut Party) -> Result<(), String> {
    let how = party.hear_end().await?;
    let told = sentences().concat();
    if how != How::Done || party.words() != told.split_whitespace().collect::<Vec<_>>() {
        return Err(party.blame("hear all", &format!("{how:?}, {:?}", party.words())));
    }
    party.forget();
    Ok(())
}

/// Nothing comes of what the party asks: the agent never hears of it.
async fn ask_in_vain(world: &World, party: &mut Party, gate: &str) -> Result<(), String> {
    let refused = party.say(&format!("tell {gate}")).await.is_err();
    let heard = tokio::time::timeout(Duration::from_millis(300), world.prompter.reached(gate)).await;
    if heard.is_ok() {
        return Err(party.blame("be refused", "the agent was asked"));
    }
    if !refused && !matches!(party.hear_end().await?, How::Failed(_)) {
        return Err(party.blame("be refused", "it was not told so"));
    }
    Ok(())
}

/// Before bob is let in there is nothing to see.
async fn stranger(
    world: &World,
    protocol: Protocol,
    guise: &Guise,
    place: &Place,
    key: &str,
) -> Result<(), String> {
    // To somebody else, an identifier is a name like any other, of a session of their own.
    if protocol != Protocol::Alicia {
        return Ok(());
    }
    match Party::join(protocol, world, guise, place).await {
        Err(_) => Ok(()),
        Ok(_) => Err(format!("{key}: a stranger gets in")),
    }
}
