//! Chats over Acolyte, each beside a bare loop that sends the same messages straight from memory.

use std::borrow::Cow;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::extract::ws::{Message as BareMessage, WebSocket};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::figures::{Scale, phase};
use super::peer::{Socket, open_socket};
use super::report::{Figure, percentile};
use super::servers::{Load, Process, micros};

/// Chats of 500 deltas of 32 characters, as fast as they go and at the pace of a model.
pub(super) async fn chats(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let (count, chats) = if scale.rounds > 10 { (500, 384) } else { (100, 64) };
    let mut figures = Vec::new();
    for (mode, delay) in [("burst", Duration::ZERO), ("one per 10 ms", Duration::from_millis(10))] {
        let load = Load { count, size: 32, delay, stamp: true };
        for connections in [1, 16, 64] {
            // Processor time is counted in steps of 10 ms, so that bursts are repeated.
            let rounds = if delay.is_zero() { chats / connections } else { 1 };
            let bare = measure(Process::bare().await?, connections, rounds, load).await?;
            let ours = measure(Process::server(&[]).await?, connections, rounds, load).await?;
            let plural = if connections == 1 { "" } else { "s" };
            let case = format!("Acolyte, {count} deltas, {mode}, {connections} connection{plural}");
            figures.extend(ours.figures(&case, &bare));
        }
    }
    Ok(figures)
}

/// What was seen of one server under one load.
struct Sample {
    /// Deltas per second.
    rate: f64,
    /// Deltas per second of processor time.
    efficiency: f64,
    times: Times,
    /// Resident memory of the server with every connection still open, in MiB.
    memory: f64,
}

/// Times of deltas in milliseconds.
#[derive(Default)]
struct Times {
    /// From sending `chat.start` to the first delta.
    first: Vec<f64>,
    /// From the agent's making of a delta, which carries that moment, to its arrival.
    delivery: Vec<f64>,
}

impl Sample {
    fn figures(mut self, case: &str, bare: &Self) -> Vec<Figure> {
        let name = |what: &str| format!("{case}: {what}");
        let mut figures = vec![
            Figure::new(name("events per second"), self.rate, "/s").yardstick("bare loop", bare.rate),
            Figure::new(name("events per CPU second"), self.efficiency, "/s")
                .yardstick("bare loop", bare.efficiency),
        ];
        let times = [
            ("first delta", &mut self.times.first, &bare.times.first),
            ("delivery", &mut self.times.delivery, &bare.times.delivery),
        ];
        for (what, ours, bare) in times {
            for share in [50.0, 99.0] {
                let bare = percentile(&mut bare.clone(), share);
                figures.push(
                    Figure::new(name(&format!("{what}, p{share}")), percentile(ours, share), "ms")
                        .yardstick("bare loop (ms)", bare),
                );
            }
        }
        figures.push(
            Figure::new(name("memory of the server"), self.memory, "MiB")
                .yardstick("bare loop (MiB)", bare.memory),
        );
        figures
    }
}

/// Lets each connection have `rounds` chats, one after the other.
async fn measure(process: Process, connections: u32, rounds: u32, load: Load) -> anyhow::Result<Sample> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        let mut client = Client::connect(&process.address).await?;
        client.chat(Load { count: 1, ..load }, &mut Times::default()).await?;
        clients.push(client);
    }
    let (cpu, began) = (process.cpu(), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, mut client) in (0..).zip(clients) {
        tasks.spawn(async move {
            tokio::time::sleep(phase(load, number, connections)).await;
            let mut times = Times::default();
            for _ in 0..rounds {
                client.chat(load, &mut times).await?;
            }
            anyhow::Ok((client, times))
        });
    }
    let (mut clients, mut times) = (Vec::new(), Times::default());
    while let Some(result) = tasks.join_next().await {
        let (client, its) = result??;
        clients.push(client);
        times.first.extend(its.first);
        times.delivery.extend(its.delivery);
    }
    let (elapsed, cpu) = (began.elapsed(), process.cpu() - cpu);
    let events = times.delivery.len() as f64;
    Ok(Sample {
        rate: events / elapsed.as_secs_f64(),
        efficiency: events / cpu.as_secs_f64(),
        times,
        memory: process.memory() as f64 / f64::from(1 << 20),
    })
}

/// One connection.
struct Client {
    socket: Socket,
    chats: u32,
}

impl Client {
    async fn connect(address: &str) -> anyhow::Result<Self> {
        let socket = open_socket(address, PATH, None).await.context("no Acolyte at /v1/rpc")?;
        Ok(Self { socket, chats: 0 })
    }

    /// One chat from `chat.start` to `chat.done`, in which every delta must come.
    async fn chat(&mut self, load: Load, times: &mut Times) -> anyhow::Result<()> {
        self.chats += 1;
        let request = json!({ "message": load.text(), "history": [], "model": MODEL });
        let id = format!("rpc_{}", self.chats);
        let start = json!({ "id": id, "type": "chat.start", "payload": { "request": request } });
        let start = Message::text(start.to_string());
        let began = micros();
        self.socket.send(start).await?;
        let mut deltas = 0;
        loop {
            let text = tokio::time::timeout(PATIENCE, self.next_text()).await.context("silence")??;
            let at = micros();
            let message: Told<'_> = serde_json::from_str(&text)?;
            match &*message.kind {
                "chat.event" => {
                    let Some(delta) = message.delta() else { continue };
                    ensure!(delta.chars().count() == load.size, "a delta of another size: {delta:?}");
                    let made = Load::made_at(delta).context("a delta without its time")?;
                    if deltas == 0 {
                        times.first.push(at.saturating_sub(began) as f64 / 1000.0);
                    }
                    times.delivery.push(at.saturating_sub(made) as f64 / 1000.0);
                    deltas += 1;
                }
                "chat.done" => {
                    ensure!(deltas == load.count, "{deltas} deltas came instead of {}", load.count);
                    return Ok(());
                }
                "chat.error" | "error" => bail!("the chat failed: {text}"),
                // Accepted, queued, started: none of them is an event.
                _ => {}
            }
        }
    }

    async fn next_text(&mut self) -> anyhow::Result<String> {
        loop {
            match self.socket.next().await.context("the connection ended")?? {
                Message::Text(text) => return Ok(text.to_string()),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// A message of the server, as far as a measurement needs to know.
#[derive(Serialize, Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    event: Option<Event<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
}

impl Told<'_> {
    fn delta(&self) -> Option<&str> {
        let event = self.event.as_ref().filter(|event| event.kind == "text-delta")?;
        event.text.as_deref()
    }
}

/// The yardstick: answers a chat with the messages that our server would send for it.
pub(super) async fn bare_loop(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let BareMessage::Text(text) = message else { continue };
        if answer_bare(&mut socket, &text).await.is_err() {
            return;
        }
    }
}

async fn answer_bare(socket: &mut WebSocket, text: &str) -> anyhow::Result<()> {
    let start: Value = serde_json::from_str(text)?;
    let id = start["id"].as_str().context("no id")?;
    let load = start["payload"]["request"]["message"].as_str().and_then(Load::parse).context("no load")?;
    let tell = |kind: &'static str, event| {
        let told = Told { id: id.into(), kind: kind.into(), event };
        serde_json::to_string(&told).map(|text| BareMessage::Text(text.into()))
    };
    socket.feed(tell("chat.accepted", None)?).await?;
    socket.send(tell("chat.started", None)?).await?;
    let mut pace = load.pace();
    for _ in 0..load.count {
        pace.next().await;
        let event = Event { kind: "text-delta".into(), text: Some(load.delta().into()) };
        let message = tell("chat.event", Some(event))?;
        if load.delay.is_zero() { socket.feed(message).await? } else { socket.send(message).await? }
    }
    Ok(socket.send(tell("chat.done", None)?).await?)
}

pub(super) const PATH: &str = "/v1/rpc";
/// The agent that reads the load from the message.
const MODEL: &str = "demo";
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::servers::bare_loops;

    #[tokio::test]
    async fn the_client_understands_the_yardstick() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move { axum::serve(listener, bare_loops()).await });
        let mut client = Client::connect(&address).await.unwrap();
        let mut times = Times::default();
        for delay in [Duration::ZERO, Duration::from_millis(1)] {
            let load = Load { count: 500, size: 32, delay, stamp: true };
            client.chat(load, &mut times).await.unwrap();
        }
        assert_eq!((times.first.len(), times.delivery.len()), (2, 1000));
        server.abort();
    }
}
