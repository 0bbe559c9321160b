//! VIP: many sessions with audio in both directions, a frame against a bare echo, and where the time goes
//! between the end of speech and the first sound of the answer.

mod bare;
mod client;
mod crowd;
mod stages;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use switchboard_agents::{Agent, AgentError, Turn};
use switchboard_core::model::TurnEnd;

pub(super) use bare::{PATH, bare_loop};

use super::figures::Scale;
use super::report::Figure;

/// Everything about VIP. `models` is the folder of the models that hear.
pub(super) async fn sessions(scale: Scale, models: Option<&Path>) -> anyhow::Result<Vec<Figure>> {
    let mut figures = crowd::figures(scale).await?;
    figures.extend(stages::figures(scale, models).await?);
    Ok(figures)
}

/// Tells the same story whatever it is asked, so that sessions cost the same.
#[derive(Debug)]
pub(super) struct Narrator;

#[async_trait]
impl Agent for Narrator {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        for sentence in STORY {
            turn.text(format!("{sentence} ")).await?;
        }
        Ok(TurnEnd::complete())
    }
}

/// Says one sentence, another one each time, so that none of them was spoken before.
#[derive(Debug, Default)]
pub(super) struct Brief {
    said: AtomicU32,
}

#[async_trait]
impl Agent for Brief {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let number = self.said.fetch_add(1, Ordering::Relaxed);
        turn.text(format!("This is story number {number} of a small town.")).await?;
        Ok(TurnEnd::complete())
    }
}

/// About ten seconds, aloud.
const STORY: [&str; 4] = [
    "Once there was a switchboard at the edge of a small town.",
    "Every evening its lamps went on, one after the other.",
    "Somebody called, somebody answered, and nobody was ever lost.",
    "That is all there is to say about it.",
];

/// Settings of the server under measurement: one user has all sessions. Agents have to be configured before others
/// take their place.
const SETTINGS: [&str; 4] = [
    "agents.narrator.kind=echo",
    "agents.brief.kind=echo",
    "vip.limits.sessions=100000",
    "voice.synthesiser=flite",
];
