//! Heartbeats, command round trips, a fleet that arrives at once, and what tasks leave in memory.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::extract::ws::{Message as BareMessage, WebSocket};
use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_aip::codec::{encode_client, encode_server};
use switchboard_aip::{
    ClientMessage, ClientMessageType, Command, Outcome, ResultStatus, ServerMessage, ServerMessageType,
    TaskStatus, ToolType,
};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::figures::Scale;
use super::peer::{Socket, open_socket};
use super::report::{Figure, percentile};
use super::servers::Process;

/// Heartbeats of devices.
pub(super) async fn heartbeats(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    to_and_fro(Kind::Heartbeat, if is_whole(scale) { 256_000 } else { 16_000 }).await
}

/// Commands and their results.
pub(super) async fn commands(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    to_and_fro(Kind::Command, if is_whole(scale) { 96_000 } else { 9_600 }).await
}

/// Many devices at once, and many tasks one after another.
pub(super) async fn fleet(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = arrival(if is_whole(scale) { 1000 } else { 200 }).await?;
    figures.extend(growth(if is_whole(scale) { 20_000 } else { 2_000 }).await?);
    Ok(figures)
}

const fn is_whole(scale: Scale) -> bool {
    scale.rounds > 10
}

async fn to_and_fro(kind: Kind, total: u32) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for connections in [1, 16, 64] {
        let bare = measure(Process::bare().await?, kind, connections, total / connections).await?;
        let ours = measure(Process::server(SETTINGS).await?, kind, connections, total / connections).await?;
        figures.extend(ours.figures(kind, connections, &bare));
    }
    Ok(figures)
}

/// What goes to and fro.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Heartbeat,
    /// COMMAND to COMMAND_RESULTS to the next COMMAND, within one task.
    Command,
}

impl Kind {
    /// What it is called, how many of it a server of this protocol in Python does per CPU second, and
    /// the budget that follows from being ten times better.
    const fn told(self) -> (&'static str, f64) {
        match self {
            Self::Heartbeat => ("heartbeats", 120_000.0),
            Self::Command => ("command round trips", 40_000.0),
        }
    }
}

struct Sample {
    rate: f64,
    efficiency: f64,
    times: Vec<f64>,
    memory: f64,
}

impl Sample {
    fn figures(mut self, kind: Kind, connections: u32, bare: &Self) -> Vec<Figure> {
        let (what, floor) = kind.told();
        let plural = if connections == 1 { "" } else { "s" };
        let name = |figure: &str| format!("AIP, {what}, {connections} connection{plural}: {figure}");
        let mut figures = vec![
            Figure::new(name("per second"), self.rate, "/s").yardstick("bare loop", bare.rate),
            Figure::new(name("per CPU second"), self.efficiency, "/s")
                .yardstick("bare loop", bare.efficiency)
                .at_least(floor, floor * 1.5),
        ];
        for share in [50.0, 99.0] {
            let bare = percentile(&mut bare.times.clone(), share);
            let figure = Figure::new(name(&format!("p{share}")), percentile(&mut self.times, share), "ms");
            figures.push(figure.yardstick("bare loop (ms)", bare));
        }
        let memory = Figure::new(name("memory of the server"), self.memory, "MiB");
        figures.push(memory.yardstick("bare loop (MiB)", bare.memory).budget(50.0 / MIB, 40.0 / MIB));
        figures
    }
}

async fn measure(process: Process, kind: Kind, connections: u32, rounds: u32) -> anyhow::Result<Sample> {
    let mut devices = Vec::new();
    for number in 0..connections {
        let mut device = Device::connect(&process.address, number).await?;
        device.work(kind, 10).await?;
        devices.push(device);
    }
    let (cpu, began) = (process.cpu(), Instant::now());
    let mut tasks = JoinSet::new();
    for mut device in devices {
        tasks.spawn(async move {
            let times = device.work(kind, rounds).await?;
            anyhow::Ok((device, times))
        });
    }
    let (mut devices, mut times) = (Vec::new(), Vec::new());
    while let Some(result) = tasks.join_next().await {
        let (device, its) = result??;
        devices.push(device);
        times.extend(its);
    }
    let (elapsed, cpu) = (began.elapsed(), process.cpu() - cpu);
    let count = f64::from(rounds * connections);
    Ok(Sample {
        rate: count / elapsed.as_secs_f64(),
        efficiency: count / cpu.as_secs_f64(),
        times,
        memory: mebibytes(&process),
    })
}

/// A whole fleet registers at once.
async fn arrival(devices: u32) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(SETTINGS).await?;
    let mut sockets = Vec::new();
    for _ in 0..devices {
        sockets.push(open_socket(&process.address, PATH, None).await?);
    }
    let (cpu, began) = (process.cpu(), Instant::now());
    let mut tasks = JoinSet::new();
    for (number, socket) in (0..).zip(sockets) {
        tasks.spawn(async move { Device::register(socket, number).await });
    }
    let mut registered = Vec::new();
    while let Some(device) = tasks.join_next().await {
        registered.push(device??);
    }
    let (elapsed, cpu) = (began.elapsed(), process.cpu() - cpu);
    ensure!(registered.len() == devices as usize, "some did not register");
    let name = |what: &str| format!("AIP, {devices} devices register at once: {what}");
    Ok(vec![
        Figure::new(name("all confirmed after"), elapsed.as_secs_f64() * 1000.0, "ms").budget(5000.0, 1000.0),
        Figure::new(name("registrations per CPU second"), f64::from(devices) / cpu.as_secs_f64(), "/s"),
        Figure::new(name("memory of the server"), mebibytes(&process), "MiB").budget(50.0 / MIB, 40.0 / MIB),
    ])
}

/// What many short tasks, each in a session of its own, leave in memory.
async fn growth(tasks: u32) -> anyhow::Result<Vec<Figure>> {
    let process = Process::server(&[SETTINGS, &["limits.session_idle_ms=1000"]].concat()).await?;
    let mut device = Device::connect(&process.address, 0).await?;
    device.run_tasks(100).await?;
    let before = mebibytes(&process);
    let (cpu, began) = (process.cpu(), Instant::now());
    device.run_tasks(tasks).await?;
    let (elapsed, cpu) = (began.elapsed(), process.cpu() - cpu);
    let after = mebibytes(&process);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let name = |what: &str| format!("AIP, {tasks} tasks one after another: {what}");
    Ok(vec![
        Figure::new(name("per second"), f64::from(tasks) / elapsed.as_secs_f64(), "/s"),
        Figure::new(name("per CPU second"), f64::from(tasks) / cpu.as_secs_f64(), "/s"),
        Figure::new(name("memory of the server, at the end"), after, "MiB").yardstick("before (MiB)", before),
        Figure::new(name("memory of the server, some seconds later"), mebibytes(&process), "MiB")
            .yardstick("before (MiB)", before)
            .budget(50.0 / MIB, 40.0 / MIB),
    ])
}

fn mebibytes(process: &Process) -> f64 {
    process.memory() as f64 / f64::from(1 << 20)
}

/// One device, which costs as little as possible, so that the server is what is measured.
struct Device {
    socket: Socket,
    id: String,
    tasks: u32,
}

impl Device {
    async fn connect(address: &str, number: u32) -> anyhow::Result<Self> {
        let socket = open_socket(address, PATH, None).await.context("no AIP at /ws")?;
        Self::register(socket, number).await
    }

    async fn register(socket: Socket, number: u32) -> anyhow::Result<Self> {
        let mut device = Self { socket, id: format!("dev-{number}"), tasks: 0 };
        let register = ClientMessage {
            client_id: Some(device.id.clone()),
            ..ClientMessage::new(ClientMessageType::Register, TaskStatus::Ok)
        };
        device.socket.send(Message::text(encode_client(&register))).await?;
        ensure!(kind_of(&device.next().await?) == "heartbeat", "not registered");
        Ok(device)
    }

    /// Goes to and fro this often; the time of each in milliseconds.
    async fn work(&mut self, kind: Kind, rounds: u32) -> anyhow::Result<Vec<f64>> {
        match kind {
            Kind::Heartbeat => self.beat(rounds).await,
            Kind::Command => self.obey(rounds).await,
        }
    }

    async fn beat(&mut self, rounds: u32) -> anyhow::Result<Vec<f64>> {
        let beat = ClientMessage {
            client_id: Some(self.id.clone()),
            ..ClientMessage::new(ClientMessageType::Heartbeat, TaskStatus::Ok)
        };
        let beat = encode_client(&beat);
        let mut times = Vec::with_capacity(rounds as usize);
        for _ in 0..rounds {
            let began = Instant::now();
            self.socket.send(Message::text(beat.clone())).await?;
            ensure!(kind_of(&self.next().await?) == "heartbeat", "no acknowledgement");
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(times)
    }

    /// Tasks of many commands each, from the answer to one command to the next one.
    async fn obey(&mut self, rounds: u32) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::with_capacity(rounds as usize);
        let mut left = rounds;
        while left > 0 {
            let commands = left.min(COMMANDS);
            self.task(commands, &mut times).await?;
            left -= commands;
        }
        Ok(times)
    }

    async fn run_tasks(&mut self, tasks: u32) -> anyhow::Result<()> {
        for _ in 0..tasks {
            self.task(1, &mut Vec::new()).await?;
        }
        Ok(())
    }

    async fn task(&mut self, commands: u32, times: &mut Vec<f64>) -> anyhow::Result<()> {
        self.tasks += 1;
        let session_id = format!("{}-{}", self.id, self.tasks);
        let task = ClientMessage {
            client_id: Some(self.id.clone()),
            session_id: Some(session_id.clone()),
            task_name: Some("bench".into()),
            request: Some(script(commands)),
            ..ClientMessage::new(ClientMessageType::Task, TaskStatus::Continue)
        };
        self.socket.send(Message::text(encode_client(&task))).await?;
        let mut began = Instant::now();
        loop {
            let text = self.next().await?;
            match kind_of(&text) {
                "command" => {
                    times.push(began.elapsed().as_secs_f64() * 1000.0);
                    let results = ClientMessage {
                        client_id: Some(self.id.clone()),
                        session_id: Some(session_id.clone()),
                        action_results: Some(vec![Outcome {
                            result: "ok".into(),
                            call_id: Some(field(&text, "call_id")?.to_owned()),
                            ..Outcome::new(ResultStatus::Success)
                        }]),
                        prev_response_id: Some(field(&text, "response_id")?.to_owned()),
                        ..ClientMessage::new(ClientMessageType::CommandResults, TaskStatus::Continue)
                    };
                    began = Instant::now();
                    self.socket.send(Message::text(encode_client(&results))).await?;
                }
                "task_end" => {
                    ensure!(text.contains("\"completed\""), "the task failed: {text}");
                    return Ok(());
                }
                "error" => bail!("refused: {text}"),
                _ => {}
            }
        }
    }

    async fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.context("silence")?;
            match message.context("the connection ended")?? {
                Message::Text(text) => return Ok(text.to_string()),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

/// A plan of so many commands, one at a time.
fn script(commands: u32) -> String {
    let turn = r#"[{"tool_name":"echo","tool_type":"action","parameters":{"text":"hello"}}]"#;
    let turns = vec![turn; commands as usize].join(",");
    format!(r#"aip-script:{{"turns":[{turns}],"end":"completed","result":"ok"}}"#)
}

fn kind_of(text: &str) -> &str {
    text.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split_once('"')).map_or("", |(kind, _)| kind)
}

/// The last text field of this name.
fn field<'a>(text: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let start = format!("\"{name}\":\"");
    let (_, rest) = text.rsplit_once(&start).with_context(|| format!("no {name}: {text}"))?;
    Ok(rest.split_once('"').map_or(rest, |(value, _)| value))
}

/// The yardstick: answers with the messages that our server would send, straight from memory.
pub(super) async fn bare_loop(mut socket: WebSocket) {
    let tell = |kind, status| {
        encode_server(&ServerMessage {
            timestamp: Some("2025-11-06T10:30:00.123456+00:00".into()),
            response_id: Some("5d9c1f9e-8f0e-4c57-9d0b-0f1a4d2b7c11".into()),
            actions: (kind == ServerMessageType::Command).then(|| {
                vec![Command {
                    tool_name: "echo".into(),
                    parameters: None,
                    tool_type: ToolType::Action,
                    call_id: Some("c1".into()),
                }]
            }),
            ..ServerMessage::new(kind, status)
        })
    };
    let beat = tell(ServerMessageType::Heartbeat, TaskStatus::Ok);
    let command = tell(ServerMessageType::Command, TaskStatus::Continue);
    let end = tell(ServerMessageType::TaskEnd, TaskStatus::Completed);
    let mut left = 0;
    while let Some(Ok(message)) = socket.recv().await {
        let BareMessage::Text(text) = message else { continue };
        let answer = match kind_of(&text) {
            "task" => {
                left = text.matches("tool_name").count();
                left -= 1;
                &command
            }
            "command_results" if left > 0 => {
                left -= 1;
                &command
            }
            "command_results" => &end,
            _ => &beat,
        };
        if socket.send(BareMessage::Text(answer.as_str().into())).await.is_err() {
            return;
        }
    }
}

pub(super) const PATH: &str = "/ws";
/// The planner of the reference, and no limit that is no part of what is measured.
const SETTINGS: &[&str] =
    &["aip.test_planner=true", "aip.limits.frames_per_s=100000000", "aip.limits.frames_burst=100000000"];
/// Commands of one task.
const COMMANDS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(60);
/// Megabytes in a mebibyte.
const MIB: f64 = 1.048_576;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::servers::bare_loops;

    #[tokio::test]
    async fn the_client_understands_the_yardstick() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move { axum::serve(listener, bare_loops()).await });
        let mut device = Device::connect(&address, 1).await.unwrap();
        assert_eq!(device.work(Kind::Heartbeat, 20).await.unwrap().len(), 20);
        assert_eq!(device.work(Kind::Command, 120).await.unwrap().len(), 120);
        server.abort();
    }
}
