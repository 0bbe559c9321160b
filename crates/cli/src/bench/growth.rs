//! What an event costs as sessions get many, and what opening costs as they get long.

use std::time::Duration;

use switchboard_asp::message::Invoke;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::figures::{Scale, connect_many, millis};
use super::peer::Peer;
use super::report::{Figure, percentile};
use super::servers::{Load, Process};

/// The same turns over more and more sessions; then sessions that are longer and longer.
pub(super) async fn growth(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut alone = Series::new("one turn at a time");
    let mut crowd = Series::new("50 turns at a time");
    for sessions in [1, 100, scale.sessions] {
        let mut open = Sessions::open(sessions).await?;
        alone.add(sessions, open.cost_per_event(scale.sessions, 1).await?);
        // In a single session the same crowd would share batches, which is another load.
        if sessions >= CROWD {
            crowd.add(sessions, open.cost_per_event(scale.sessions, CROWD).await?);
        }
    }
    figures.extend(alone.figures());
    figures.extend(crowd.figures());
    let mut opens = Vec::new();
    for events in [1_000, scale.long] {
        opens.push(open_long_session(events).await?);
    }
    figures.push(
        Figure::new(format!("opening a session of {} events, median of 5", scale.long), opens[1], "ms")
            .yardstick("a session of 1000 events (ms)", opens[0]),
    );
    Ok(figures)
}

/// One load over different numbers of sessions, fewest first.
struct Series {
    load: &'static str,
    costs: Vec<(usize, f64)>,
}

impl Series {
    fn new(load: &'static str) -> Self {
        Self { load, costs: Vec::new() }
    }

    fn add(&mut self, sessions: usize, cost: f64) {
        self.costs.push((sessions, cost));
    }

    fn figures(&self) -> Vec<Figure> {
        let load = self.load;
        let name = |sessions: usize| {
            format!(
                "CPU per event, {load}, over {sessions} open session{}",
                if sessions == 1 { "" } else { "s" }
            )
        };
        let mut figures: Vec<Figure> =
            self.costs.iter().map(|(sessions, cost)| Figure::new(name(*sessions), *cost, "µs")).collect();
        if let [(few, cheap), .., (many, dear)] = &*self.costs {
            let name = format!("CPU per event, {load}, {many} sessions against {few}");
            figures.push(Figure::new(name, dear / cheap, "×").budget(1.5, 1.2));
        }
        figures
    }
}

/// A server whose sessions are open: each has a connection of its own and has had a turn.
struct Sessions {
    process: Process,
    peers: Vec<Peer>,
}

impl Sessions {
    async fn open(count: usize) -> anyhow::Result<Self> {
        let process = Process::server(&[]).await?;
        let peers = connect_many(&process.address, count, false).await?;
        let mut sessions = Self { process, peers };
        sessions.run_turns(1, DELTAS, CROWD).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let resident = sessions.process.metric("switchboard_sessions_resident").await?;
        anyhow::ensure!(resident == count as f64, "{resident} sessions are open instead of {count}");
        Ok(sessions)
    }

    /// Processor time of the server per record, in microseconds.
    ///
    /// Whatever the number of sessions, there are as many turns, of the same length, and as many of
    /// them at a time.
    async fn cost_per_event(&mut self, turns: usize, at_once: usize) -> anyhow::Result<f64> {
        let each = turns / self.peers.len();
        let expected = each * self.peers.len() * (DELTAS as usize + 2);
        let before = self.process.cpu();
        let records = self.run_turns(each, DELTAS, at_once).await?;
        let cost = self.process.cpu() - before;
        anyhow::ensure!(records == expected, "{records} records came instead of {expected}");
        Ok(cost.as_secs_f64() * 1e6 / records as f64)
    }

    /// Runs so many turns in each session, at most one at a time there and `at_once` altogether;
    /// answers how many records came.
    async fn run_turns(&mut self, each: usize, deltas: u32, at_once: usize) -> anyhow::Result<usize> {
        let mut tasks = JoinSet::new();
        let share = self.peers.len().div_ceil(at_once);
        while !self.peers.is_empty() {
            let mut peers = self.peers.split_off(self.peers.len().saturating_sub(share));
            tasks.spawn(async move {
                let invoke = Invoke::chat(Load::burst(deltas, 32).text());
                let mut records = 0;
                for peer in &mut peers {
                    for _ in 0..each {
                        peer.invoke(1, &invoke).await?;
                        records += peer.drain(1).await?;
                    }
                }
                anyhow::Ok((peers, records))
            });
        }
        let mut records = 0;
        while let Some(result) = tasks.join_next().await {
            let (peers, count) = result??;
            self.peers.extend(peers);
            records += count;
        }
        Ok(records)
    }
}

/// Time from an INVOKE to its first record in a session that is only in the log, in milliseconds.
async fn open_long_session(events: u32) -> anyhow::Result<f64> {
    let process = Process::server(&["limits.session_idle_ms=1", "asp.limits.resume_s=0"]).await?;
    let mut invoke = Invoke::chat(Load::burst(events, 16).text());
    invoke.session = Some("long".into());
    let mut peer = Peer::connect_unlimited(&process.address).await?;
    peer.invoke(1, &invoke).await?;
    peer.drain(1).await?;
    drop(peer);
    invoke.body = Invoke::chat(Load::burst(1, 16).text()).body;
    let mut times = Vec::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut peer = Peer::connect_unlimited(&process.address).await?;
        let began = Instant::now();
        peer.invoke(1, &invoke).await?;
        peer.receive().await?;
        times.push(millis(began.elapsed()));
        peer.drain(1).await?;
    }
    Ok(percentile(&mut times, 50.0))
}

/// Turns at a time, where there are many.
const CROWD: usize = 50;
/// Deltas of a turn: enough of them that its beginning and end hardly count.
const DELTAS: u32 = 100;
