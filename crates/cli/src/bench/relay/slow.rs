//! Many slow functions at a time: what they hold in memory, and what direct turns notice of them.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use switchboard_asp::message::{Invoke, Opcode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::callers::Relayed;
use super::{AGENT, settings};
use crate::bench::figures::{connect_many, millis, phase};
use crate::bench::peer::Peer;
use crate::bench::report::{Figure, percentile};
use crate::bench::servers::{Load, Process};

/// How much of everything.
#[derive(Clone, Copy)]
pub(super) struct Amount {
    functions: usize,
    /// Records of each function, one per second.
    records: u32,
    /// How long the server is watched with nothing but them.
    quiet: Duration,
    /// How long direct turns are watched.
    turns: Duration,
    /// Deltas of a direct stream.
    deltas: u32,
    /// How long memory may take to be given back.
    settle: Duration,
}

pub(super) const WHOLE: Amount = Amount {
    functions: 500,
    records: 24,
    quiet: Duration::from_secs(4),
    turns: Duration::from_secs(8),
    deltas: 40_000,
    settle: Duration::from_secs(4),
};
pub(super) const QUICK: Amount = Amount {
    functions: 100,
    records: 8,
    quiet: Duration::from_secs(1),
    turns: Duration::from_secs(1),
    deltas: 5_000,
    settle: Duration::from_secs(1),
};

/// Slow functions on a server of their own, direct turns beside them, and the same turns on a server without.
pub(super) async fn functions(amount: Amount) -> anyhow::Result<Vec<Figure>> {
    let function = Process::function().await?;
    let mut settings = settings(&function.address);
    settings.push(format!("agents.stream.deltas={}", amount.deltas));
    let without = Process::relay(&settings).await?;
    let alone = Directly::measure(&without.address, amount).await?;
    let without = mebibytes(without.peak_memory());

    let relay = Process::relay(&settings).await?;
    let peers = connect_many(&relay.address, amount.functions, false).await?;
    let idle = mebibytes(relay.memory());
    let mut running = Running::begin(peers, amount.records).await?;
    let (cpu, began) = (relay.cpu(), Instant::now());
    sleep(amount.quiet).await;
    let busy = (relay.cpu() - cpu).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    let held = mebibytes(relay.peak_memory());
    let beside = Directly::measure(&relay.address, amount).await?;
    running.check()?;
    let mut outcome = running.end().await;
    let peak = mebibytes(relay.peak_memory());
    sleep(amount.settle).await;
    let after = mebibytes(relay.memory());

    let name = |what: &str| format!("Relay, {} slow functions at a time: {what}", amount.functions);
    let mut figures = vec![
        Figure::new(name("memory of the server, peak"), held, "MiB")
            .yardstick("their clients alone (MiB)", idle)
            .budget(100.0 / MIB, 50.0 / MIB),
        Figure::new(name("memory of the server, peak with direct turns beside them"), peak, "MiB")
            .yardstick("direct turns alone (MiB)", without),
        Figure::new(name("memory of the server, some seconds after all of it"), after, "MiB"),
        Figure::new(name("CPU of the server for them, of one core"), busy, "%"),
        Figure::new(name("answers that failed or lost something"), outcome.broken as f64, "")
            .yardstick("answers whole", outcome.whole as f64)
            .budget(0.0, 0.0),
        Figure::new(
            name("a record's way from function to client, p99"),
            percentile(&mut outcome.ages, 99.0),
            "ms",
        ),
    ];
    figures.extend(beside.figures(name, alone));
    Ok(figures)
}

/// Slow functions that are being asked.
struct Running {
    answers: JoinSet<anyhow::Result<Vec<f64>>>,
    records: u32,
}

/// What became of them.
#[derive(Default)]
struct Outcome {
    whole: usize,
    broken: usize,
    /// How long their records took from the function to the client, in milliseconds.
    ages: Vec<f64>,
}

impl Running {
    /// Asks a function on each connection; all of them have said something when this returns.
    async fn begin(peers: Vec<Peer>, records: u32) -> anyhow::Result<Self> {
        let count = peers.len();
        let (began, mut beginnings) = mpsc::channel(count.max(1));
        let mut answers = JoinSet::new();
        let load = Load::paced(records, 32, Duration::from_secs(1));
        for (number, peer) in (0..).zip(peers) {
            let (began, phase) = (began.clone(), phase(load, number, u32::try_from(count)?));
            answers.spawn(async move {
                sleep(phase).await;
                listen(peer, load, began).await
            });
        }
        drop(began);
        for _ in 0..count {
            let next = timeout(PATIENCE, beginnings.recv()).await;
            next.ok().flatten().context("some of the slow functions have said nothing")?;
        }
        Ok(Self { answers, records })
    }

    /// None may have ended so far, or what was measured was measured beside fewer.
    fn check(&mut self) -> anyhow::Result<()> {
        match self.answers.try_join_next() {
            None => Ok(()),
            Some(ended) => {
                ended??;
                bail!("slow functions have ended before everything was measured")
            }
        }
    }

    async fn end(mut self) -> Outcome {
        let mut outcome = Outcome::default();
        while let Some(answer) = self.answers.join_next().await {
            match answer {
                Ok(Ok(ages)) if ages.len() == self.records as usize => {
                    outcome.whole += 1;
                    outcome.ages.extend(ages);
                }
                Ok(Ok(_) | Err(_)) | Err(_) => outcome.broken += 1,
            }
        }
        outcome
    }
}

/// Asks a slow function, and tells when its first record has come; answers how old each was.
async fn listen(mut peer: Peer, load: Load, began: mpsc::Sender<()>) -> anyhow::Result<Vec<f64>> {
    let mut invoke = Invoke::chat(load.text());
    invoke.agent = Some(AGENT.to_owned());
    peer.invoke(1, &invoke).await?;
    let mut began = Some(began);
    let mut ages = Vec::new();
    loop {
        for received in peer.receive().await? {
            ensure!(received.frame.opcode != Opcode::Error, "a slow function failed");
            if let Some(age) = received.age() {
                ages.push(age as f64 / 1000.0);
                if let Some(began) = began.take() {
                    began.send(()).await?;
                }
            }
            if received.is_end() {
                return Ok(ages);
            }
        }
    }
}

/// What was seen of turns that no function takes part in.
struct Directly {
    /// From asking to the end of a short turn, in milliseconds.
    times: Vec<f64>,
    /// Deltas per second of a stream.
    rate: f64,
}

impl Directly {
    async fn measure(address: &str, amount: Amount) -> anyhow::Result<Self> {
        let mut tasks = JoinSet::new();
        let peers = connect_many(address, SPEAKERS as usize, false).await?;
        for (number, peer) in (0..).zip(peers) {
            let phase = EVERY * number / SPEAKERS;
            tasks.spawn(speak(Relayed::new(peer, "echo"), phase, amount.turns));
        }
        let mut times = Vec::new();
        while let Some(result) = tasks.join_next().await {
            times.extend(result??);
        }
        let mut peer = Relayed::new(Peer::connect_unlimited(address).await?, "stream");
        peer.turn("go").await?;
        let mut rates = Vec::new();
        for _ in 0..STREAMS {
            let began = Instant::now();
            peer.turn("go").await?;
            rates.push(f64::from(amount.deltas) / began.elapsed().as_secs_f64());
        }
        Ok(Self { times, rate: percentile(&mut rates, 50.0) })
    }

    fn figures(mut self, name: impl Fn(&str) -> String, mut alone: Self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for share in [50.0, 99.0] {
            let without = percentile(&mut alone.times, share);
            let figure = Figure::new(
                name(&format!("direct turns beside them, p{share}")),
                percentile(&mut self.times, share),
                "ms",
            );
            let figure = figure.yardstick("without them (ms)", without);
            figures.push(figure.budget(without * 2.0 + 2.0, without * 1.25 + 0.5));
        }
        figures.push(
            Figure::new(name("deltas per second of a direct stream beside them"), self.rate / 1000.0, "k/s")
                .yardstick("without them (k/s)", alone.rate / 1000.0)
                .at_least(alone.rate / 2000.0, alone.rate * 0.8 / 1000.0),
        );
        figures
    }
}

/// Short turns at a steady pace; answers how long each took.
async fn speak(mut peer: Relayed, phase: Duration, during: Duration) -> anyhow::Result<Vec<f64>> {
    for _ in 0..WARM {
        peer.turn("hello").await?;
    }
    let first = Instant::now() + phase;
    let mut ticks = interval_at(first, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Vec::new();
    while first.elapsed() < during {
        ticks.tick().await;
        let began = Instant::now();
        peer.turn("hello").await?;
        times.push(millis(began.elapsed()));
    }
    Ok(times)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Connections with direct turns, and how often each has one.
const SPEAKERS: u32 = 8;
const EVERY: Duration = Duration::from_millis(20);
/// Streams of which the median counts.
const STREAMS: usize = 5;
/// Turns of each before those that count.
const WARM: usize = 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// Megabytes in a mebibyte.
const MIB: f64 = 1.048_576;
