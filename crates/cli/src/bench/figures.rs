//! The figures of the performance budget, each measured on real processes over real sockets.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use switchboard_asp::message::{Invoke, ServerHello};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::peer::Peer;
use super::relay;
use super::report::{Figure, percentile};
use super::servers::{Load, Process, micros};

/// How much of everything; a quick run finds gross mistakes, a whole one gives figures to quote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) idle: usize,
    pub(super) storm: usize,
    pub(super) sessions: usize,
    /// Events of a long session.
    pub(super) long: u32,
    pub(super) rounds: usize,
}

impl Scale {
    pub(super) const WHOLE: Self =
        Self { idle: 10_000, storm: 5000, sessions: 10_000, long: 100_000, rounds: 40 };
    pub(super) const QUICK: Self = Self { idle: 1000, storm: 500, sessions: 1000, long: 20_000, rounds: 10 };

    /// The most connections that a group of figures has open at the same time.
    pub(super) fn connections(&self, group: &str) -> usize {
        match group {
            "memory" => self.idle + WARM,
            "storm" => self.storm,
            "growth" => self.sessions,
            "relay" => relay::CONNECTIONS,
            _ => 1000,
        }
    }
}

/// Start of the binary to the first connection that it accepts.
pub(super) async fn startup(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut times = Vec::new();
    for _ in 0..scale.rounds.min(10) {
        let began = Instant::now();
        let process = Process::server(&[]).await?;
        tokio::net::TcpStream::connect(&process.address).await?;
        times.push(millis(began.elapsed()));
    }
    let worst = percentile(&mut times, 100.0);
    Ok(vec![Figure::new("start of the binary to first accept, worst of 10", worst, "ms").budget(300.0, 50.0)])
}

/// Memory per idle connection, with the session that makes it resumable.
pub(super) async fn memory(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&[]).await?;
    let warm = connect_many(&process.address, WARM, true).await?;
    drop(warm);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = process.memory();
    let peers = connect_many(&process.address, scale.idle, true).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let open = process.metric("switchboard_connections{protocol=\"asp\"}").await?;
    anyhow::ensure!(open == peers.len() as f64, "{open} of {} connections are open", peers.len());
    let each = (process.memory().saturating_sub(before)) as f64 / peers.len() as f64 / 1024.0;
    let name = format!("memory per idle connection with session state, {} connections", peers.len());
    Ok(vec![Figure::new(name, each, "KiB").budget(16.0, 10.0)])
}

/// A stream of small deltas through agent, log, connection and socket, against a bare loop.
pub(super) async fn throughput(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let load = Load::burst(if scale.rounds > 10 { 40_000 } else { 5_000 }, 32);
    let connections = 16;
    let ours = {
        let process = Process::server(&[]).await?;
        let before = process.cpu();
        let frames = stream_all(&process.address, connections, load).await?;
        frames as f64 / (process.cpu() - before).as_secs_f64()
    };
    let bare = Process::bare().await?;
    let mut yardsticks = Vec::new();
    for path in ["/batch", "/each"] {
        let before = bare.cpu();
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let address = bare.address.clone();
            tasks.spawn(async move {
                let mut peer = Peer::open(&address, path).await?;
                peer.send_text(&load.text()).await?;
                peer.drain(1).await
            });
        }
        let frames = total(tasks).await?;
        yardsticks.push(frames as f64 / (bare.cpu() - before).as_secs_f64());
    }
    let (batch, each) = (yardsticks[0], yardsticks[1]);
    Ok(vec![
        Figure::new("stream: messages per CPU second, whole path", ours / 1000.0, "k/s")
            .yardstick("bare loop, one flush per batch", batch / 1000.0),
        Figure::new("stream: ratio to a bare loop that flushes each message", ours / each, "×")
            .yardstick("bare loop, one flush per message (k/s)", each / 1000.0)
            .at_least(0.5, 0.8),
        Figure::new("stream: ratio to a bare loop that flushes once per batch", ours / batch, "×")
            .yardstick("bare loop, one flush per batch (k/s)", batch / 1000.0)
            .at_least(0.5, 0.8),
    ])
}

/// From the agent's hands to the client's, while the server is busy with about half of what it can.
pub(super) async fn latency(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let load = Load::paced(if scale.rounds > 10 { 400 } else { 100 }, 32, Duration::from_millis(20));
    let connections = 40;
    let bare = Process::bare().await?;
    let mut tasks = JoinSet::new();
    for number in 0..connections {
        let address = bare.address.clone();
        tasks.spawn(async move {
            let mut peer = Peer::open(&address, "/batch").await?;
            tokio::time::sleep(phase(load, number, connections)).await;
            peer.send_text(&load.text()).await?;
            collect_ages(&mut peer).await
        });
    }
    let mut theirs = Vec::new();
    while let Some(result) = tasks.join_next().await {
        theirs.extend(result??);
    }
    let (their_p50, their_p99) = (percentile(&mut theirs, 50.0), percentile(&mut theirs, 99.0));
    let mut figures = Vec::new();
    for (synchronous, promise) in [("normal", "survives kill -9"), ("full", "survives power loss, too")] {
        let process = Process::server(&[&format!("store.synchronous={synchronous}")]).await?;
        let mut ours = ages(&process.address, connections, load).await?;
        let (p50, p99) = (percentile(&mut ours, 50.0), percentile(&mut ours, 99.0));
        let name = |what: &str| format!("{what}, log {synchronous} ({promise}), 2000 events/s");
        figures.push(
            Figure::new(name("latency per hop, p50"), p50 / 1000.0, "ms")
                .yardstick("bare loop p50 (ms)", their_p50 / 1000.0),
        );
        let added = Figure::new(name("added latency per hop, p99"), (p99 - their_p99) / 1000.0, "ms")
            .yardstick("bare loop p99 (ms)", their_p99 / 1000.0);
        figures.push(if synchronous == "normal" { added.budget(2.0, 0.5) } else { added });
    }
    Ok(figures)
}

/// One turn, seen by a thousand.
pub(super) async fn fan_out(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let (readers, seconds) = if scale.rounds > 10 { (1000, 6) } else { (100, 2) };
    let process = Process::server(&[]).await?;
    let peers = connect_many(&process.address, readers, true).await?;
    let load = Load::paced(50 * (seconds + 4), 32, Duration::from_millis(20));
    let mut invoke = Invoke::chat(load.text());
    invoke.session = Some("fan-out".into());
    invoke.idem = Some("fan-out".into());
    let invoke = Arc::new(invoke);
    let settled = micros() + 4_000_000;
    let mut tasks = JoinSet::new();
    for mut peer in peers {
        let invoke = invoke.clone();
        tasks.spawn(async move {
            peer.invoke(1, &invoke).await?;
            let mut ages = Vec::new();
            loop {
                for received in peer.receive().await? {
                    if received.is_end() {
                        return anyhow::Ok(ages);
                    }
                    // What was there before everybody had joined is a catch-up, not a fan-out.
                    if received.at > settled
                        && let Some(age) = received.age()
                    {
                        ages.push(age as f64);
                    }
                }
            }
        });
    }
    let mut ages = Vec::new();
    while let Some(result) = tasks.join_next().await {
        ages.extend(result??);
    }
    let name = format!("fan-out 1 → {readers} at 50 events/s, p99");
    Ok(vec![Figure::new(name, percentile(&mut ages, 99.0) / 1000.0, "ms").budget(30.0, 12.0)])
}

/// How many events share a commit when ten thousand are offered each second.
pub(super) async fn events_per_commit(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let seconds = if scale.rounds > 10 { 6 } else { 2 };
    let process = Process::server(&[]).await?;
    let load = Load::paced(100 * seconds, 32, Duration::from_millis(10));
    let (events, commits) = store_counters(&process).await?;
    let began = Instant::now();
    stream_all(&process.address, 100, load).await?;
    let elapsed = began.elapsed().as_secs_f64();
    let (events_after, commits_after) = store_counters(&process).await?;
    let (events, commits) = (events_after - events, commits_after - commits);
    Ok(vec![
        Figure::new("events per commit at 10 k events/s offered", events / commits, "")
            .yardstick("events/s that got through", events / elapsed)
            .at_least(32.0, 128.0),
    ])
}

/// A client that comes back for 500 events.
pub(super) async fn resume(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&[]).await?;
    let mut times = Vec::new();
    for _ in 0..scale.rounds {
        let accept = cut_after_asking(&process.address, 500).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let mut peer = Peer::resume(&process.address, &accept, &[(1, 0)]).await?;
        let frames = peer.drain(1).await?;
        times.push(millis(began.elapsed()));
        anyhow::ensure!(frames == 502, "resume brought {frames} records instead of 502");
    }
    Ok(vec![
        Figure::new("resume of 500 missed events, p99", percentile(&mut times, 99.0), "ms").budget(20.0, 5.0),
    ])
}

/// Everybody comes back at once.
pub(super) async fn storm(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&["asp.limits.resume_s=300"]).await?;
    let mut accepts = Vec::new();
    for chunk in (0..scale.storm).collect::<Vec<_>>().chunks(250) {
        let mut tasks = JoinSet::new();
        for _ in chunk {
            let address = process.address.clone();
            tasks.spawn(async move { cut_after_asking(&address, 100).await });
        }
        while let Some(result) = tasks.join_next().await {
            accepts.push(result??);
        }
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for accept in accepts {
        let address = process.address.clone();
        tasks.spawn(async move {
            let mut peer = Peer::resume(&address, &accept, &[(1, 0)]).await?;
            peer.drain(1).await
        });
    }
    let (mut whole, mut wrong) = (0, 0);
    while let Some(result) = tasks.join_next().await {
        match result? {
            Ok(102) => whole += 1,
            Ok(_) | Err(_) => wrong += 1,
        }
    }
    let name = format!("storm: {} clients reconnect, 100 missed events each, all back", scale.storm);
    Ok(vec![
        Figure::new(name, began.elapsed().as_secs_f64(), "s").budget(10.0, 4.0),
        Figure::new("storm: clients with lost or doubled events", f64::from(wrong), "")
            .yardstick("clients whole", f64::from(whole))
            .budget(0.0, 0.0),
    ])
}

/// From the interrupt to silence.
pub(super) async fn interrupt(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&[]).await?;
    let (mut last, mut terminal) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let mut peer = Peer::connect_unlimited(&process.address).await?;
        peer.invoke(1, &Invoke::chat(Load::paced(100_000, 32, Duration::from_millis(1)).text())).await?;
        for _ in 0..50 {
            peer.receive().await?;
        }
        let began = micros();
        peer.interrupt(1).await?;
        let mut quiet = began;
        'turn: loop {
            for received in peer.receive().await? {
                if received.is_end() {
                    terminal.push((received.at - began) as f64 / 1000.0);
                    break 'turn;
                }
                quiet = received.at;
            }
        }
        last.push(quiet.saturating_sub(began) as f64 / 1000.0);
    }
    Ok(vec![
        Figure::new("interrupt to last output frame, p99", percentile(&mut last, 99.0), "ms")
            .budget(20.0, 5.0),
        Figure::new("interrupt to terminal frame, p99", percentile(&mut terminal, 99.0), "ms")
            .budget(1000.0, 50.0),
    ])
}

async fn cut_after_asking(address: &str, count: u32) -> anyhow::Result<ServerHello> {
    let mut peer = Peer::connect_unlimited(address).await?;
    peer.invoke(1, &Invoke::chat(Load::burst(count, 32).text())).await?;
    peer.receive().await?;
    // Dropped without a close frame: the transport is lost.
    peer.accept.clone().context("no accept")
}

/// Opens connections, with or without credit; fewer at a time than wait in front of a listener.
pub(super) async fn connect_many(address: &str, count: usize, credit: bool) -> anyhow::Result<Vec<Peer>> {
    let mut peers = Vec::with_capacity(count);
    for chunk in (0..count).collect::<Vec<_>>().chunks(100) {
        let mut tasks = JoinSet::new();
        for _ in chunk {
            let address = address.to_owned();
            tasks.spawn(async move {
                if credit { Peer::connect(&address).await } else { Peer::connect_unlimited(&address).await }
            });
        }
        while let Some(result) = tasks.join_next().await {
            peers.push(result??);
        }
    }
    Ok(peers)
}

async fn stream_all(address: &str, connections: usize, load: Load) -> anyhow::Result<usize> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let address = address.to_owned();
        tasks.spawn(async move {
            let mut peer = Peer::connect_unlimited(&address).await?;
            peer.invoke(1, &Invoke::chat(load.text())).await?;
            peer.drain(1).await
        });
    }
    total(tasks).await
}

/// Clients do not all speak at the same moment: each begins a little later than the one before.
pub(super) fn phase(load: Load, number: u32, of: u32) -> Duration {
    load.delay * number / of
}

async fn ages(address: &str, connections: u32, load: Load) -> anyhow::Result<Vec<f64>> {
    let mut tasks = JoinSet::new();
    for number in 0..connections {
        let address = address.to_owned();
        tasks.spawn(async move {
            let mut peer = Peer::connect_unlimited(&address).await?;
            tokio::time::sleep(phase(load, number, connections)).await;
            peer.invoke(1, &Invoke::chat(load.text())).await?;
            collect_ages(&mut peer).await
        });
    }
    let mut all = Vec::new();
    while let Some(result) = tasks.join_next().await {
        all.extend(result??);
    }
    Ok(all)
}

async fn collect_ages(peer: &mut Peer) -> anyhow::Result<Vec<f64>> {
    let mut ages = Vec::new();
    loop {
        for received in peer.receive().await? {
            ages.extend(received.age().map(|age| age as f64));
            if received.is_end() {
                return Ok(ages);
            }
        }
    }
}

async fn total(mut tasks: JoinSet<anyhow::Result<usize>>) -> anyhow::Result<usize> {
    let mut sum = 0;
    while let Some(result) = tasks.join_next().await {
        sum += result??;
    }
    Ok(sum)
}

/// Events and commits that the log has counted.
async fn store_counters(process: &Process) -> anyhow::Result<(f64, f64)> {
    Ok((
        process.metric("switchboard_store_events").await?,
        process.metric("switchboard_store_commits").await?,
    ))
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Connections that come and go before memory is measured.
const WARM: usize = 200;
