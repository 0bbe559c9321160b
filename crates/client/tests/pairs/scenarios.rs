//! What happens in a session that two share, written once for every pair.

use std::time::Duration;

use crate::cannot::What;
use crate::pair::{Pair, Seat, other};
use crate::prompter::sentences;
use crate::side::{How, Protocol};

/// Both see the whole answer, in order, whoever has asked.
pub(crate) async fn stream(pair: &mut Pair) -> Result<(), String> {
    for asker in Seat::BOTH {
        if pair.may_ask(asker) {
            let gate = pair.ask(asker, "tell").await?;
            pair.hear_beginning(asker).await?;
            pair.open_gate(&gate);
            pair.hear_all(asker).await?;
        }
    }
    Ok(())
}

/// Either side stops an answer: one end, and nothing of the turn after it.
pub(crate) async fn interrupt(pair: &mut Pair) -> Result<(), String> {
    for (asker, stopper) in seats() {
        let stops = asker == stopper || !pair.is_limited(pair.protocol(stopper), What::StopOthers);
        if !pair.may_ask(asker) || !stops {
            continue;
        }
        let gate = pair.ask(asker, "tell").await?;
        pair.hear_beginning(asker).await?;
        pair.party(stopper)?.stop().await?;
        for seat in Seat::BOTH {
            if hears_stops(pair, seat, asker) {
                hear_stop(pair, seat).await?;
            }
        }
        pair.open_gate(&gate);
        for seat in Seat::BOTH {
            pair.expect_quiet(seat).await?;
        }
    }
    Ok(())
}

/// Whether a side hears that an answer is stopped. One that is announced as a whole is not announced at all.
fn hears_stops(pair: &mut Pair, seat: Seat, asker: Seat) -> bool {
    let protocol = pair.protocol(seat);
    pair.hears(seat, asker) && (seat == asker || !pair.is_limited(protocol, What::StreamOthers))
}

/// One side hears that the answer was stopped, and of the answer no more than was said.
async fn hear_stop(pair: &mut Pair, seat: Seat) -> Result<(), String> {
    let protocol = pair.protocol(seat);
    let told = if pair.is_limited(protocol, What::TellStopped) { How::Done } else { How::Stopped };
    let party = pair.party(seat)?;
    let how = party.hear_end().await?;
    let said = sentences()[..sentences().len() / 2].concat();
    let said: Vec<&str> = said.split_whitespace().collect();
    if how != told || !said.starts_with(&party.words()) {
        return Err(party.blame("hear the stop", &format!("{how:?}, {:?}", party.words())));
    }
    Ok(())
}

/// A tool of either side is run for either side.
pub(crate) async fn tools(pair: &mut Pair) -> Result<(), String> {
    for seat in Seat::BOTH {
        pair.introduce(seat).await?;
    }
    for (asker, runner) in seats() {
        let protocol = pair.protocol(runner);
        if pair.is_limited(protocol, What::OfferTools) || !pair.may_ask(asker) {
            continue;
        }
        let (tool, name) = pair.tool(runner);
        let gate = pair.ask(asker, &format!("use {tool}")).await?;
        pair.open_gate(&gate);
        let runs = asker == runner || !pair.is_limited(protocol, What::RunForOthers);
        for seat in Seat::BOTH {
            if !pair.hears(seat, asker) {
                continue;
            }
            let party = pair.party(seat)?;
            let how = party.hear_end().await?;
            let said = party.words().join(" ");
            let right = if runs { said.contains(&name) } else { said.starts_with("Refused:") };
            if how != How::Done || !right {
                let why = format!("{tool} of {protocol}: {how:?}, {said}");
                return Err(party.blame("hear what the tool has given", &why));
            }
        }
    }
    Ok(())
}

/// The second side joins while the first is being answered, and sees all of it.
pub(crate) async fn late(pair: &mut Pair) -> Result<(), String> {
    if !pair.may_ask(Seat::First) {
        return pair.join().await;
    }
    let gate = pair.ask_alone(Seat::First, "tell").await?;
    pair.join().await?;
    if pair.hears(Seat::Second, Seat::First) {
        pair.party(Seat::Second)?.follow().await?;
    }
    pair.open_gate(&gate);
    pair.hear_all(Seat::First).await?;
    pair.look_back(&gate).await?;
    // What comes afterwards is heard by both, too.
    stream(pair).await
}

/// Either side is cut off in the middle of an answer to either, or before it begins: nothing is lost, nothing
/// is doubled.
pub(crate) async fn cut(pair: &mut Pair) -> Result<(), String> {
    for (asker, victim) in seats() {
        for request in ["tell", "wait"] {
            if pair.may_ask(asker) {
                let done = cut_during(pair, asker, victim, request).await;
                done.map_err(|why| format!("{asker:?} asks to {request}, {victim:?} is cut: {why}"))?;
            }
        }
    }
    Ok(())
}

async fn cut_during(pair: &mut Pair, asker: Seat, victim: Seat, request: &str) -> Result<(), String> {
    let (protocol, other) = (pair.protocol(victim), other(victim));
    let half_said = request == "tell";
    let gate = pair.ask(asker, request).await?;
    if half_said {
        pair.hear_beginning(asker).await?;
    }
    pair.party(victim)?.cut().await?;
    if victim == asker {
        let gives_up = pair.is_limited(protocol, What::GoOn);
        if gives_up {
            // Before the server has noticed, what is said next would be half said.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        if half_said && gives_up || pair.is_limited(protocol, What::ComeBack) {
            return end_with_the_cut(pair, asker).await;
        }
    }
    let catches_up = victim == asker || !pair.is_limited(protocol, What::CatchUp);
    if pair.hears(victim, asker) && catches_up {
        // All of the rest is said meanwhile.
        pair.open_gate(&gate);
        if pair.hears(other, asker) {
            pair.hear_whole(other).await?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        pair.party(victim)?.resume().await?;
        pair.hear_whole(victim).await?;
    } else {
        pair.party(victim)?.resume().await?;
        if pair.hears(victim, asker) {
            pair.party(victim)?.follow().await?;
        }
        pair.open_gate(&gate);
        pair.hear_all(asker).await?;
    }
    pair.expect_quiet(victim).await
}

/// A cut ends what was asked for; everybody is told, and the side that was cut can ask again.
async fn end_with_the_cut(pair: &mut Pair, asker: Seat) -> Result<(), String> {
    let other = other(asker);
    if hears_stops(pair, other, asker) {
        pair.party(other)?.hear_end().await?;
    }
    pair.party(asker)?.resume().await?;
    let party = pair.party(asker)?;
    if party.hear_end().await? == How::Done {
        return Err(party.blame("hear that the answer is over", &format!("{:?}", party.words())));
    }
    for seat in Seat::BOTH {
        pair.expect_quiet(seat).await?;
        let party = pair.party(seat)?;
        // Alicia ends a stopped answer as it ends any other.
        if party.ends().first() == Some(&How::Done) && party.protocol != Protocol::Alicia {
            return Err(party.blame("hear that the answer is over", &format!("{:?}", party.words())));
        }
    }
    pair.introduce(asker).await
}

/// Every order of two roles.
fn seats() -> impl Iterator<Item = (Seat, Seat)> {
    Seat::BOTH.into_iter().flat_map(|first| Seat::BOTH.map(|second| (first, second)))
}
