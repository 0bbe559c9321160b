//! The processes under measurement: our server with an agent made for measuring, or with a function
//! behind it, and a bare WebSocket loop with the same library as yardstick.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use async_trait::async_trait;
use axum::Router;
use axum::extract::ws::{Message, WebSocket};
use axum::extract::{Path, WebSocketUpgrade};
use axum::routing::any;
use axum::serve::ListenerExt as _;
use bytes::BytesMut;
use futures_util::SinkExt as _;
use switchboard_agents::{Agent, AgentError, DeviceScript, Recovery, Turn};
use switchboard_asp::Flags;
use switchboard_asp::codec::encode_text_frame;
use switchboard_asp::message::{Enc, EncFlag};
use switchboard_core::AgentId;
use switchboard_core::model::TurnEnd;
use switchboard_server::{Config, Server};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::peer::dial;
use super::{acolyte, aip, alicia, relay, vip};

/// What the agent is asked to produce: `count size delay_us stamp`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) count: u32,
    pub(super) size: usize,
    pub(super) delay: Duration,
    /// Whether each delta begins with the time at which it was made.
    pub(super) stamp: bool,
}

impl Load {
    pub(super) fn burst(count: u32, size: usize) -> Self {
        Self { count, size, delay: Duration::ZERO, stamp: false }
    }

    pub(super) fn paced(count: u32, size: usize, delay: Duration) -> Self {
        Self { count, size, delay, stamp: true }
    }

    pub(super) fn text(&self) -> String {
        format!("{} {} {} {}", self.count, self.size, self.delay.as_micros(), u8::from(self.stamp))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        Some(Self {
            count: u32::try_from(next()?).ok()?,
            size: usize::try_from(next()?).ok()?,
            delay: Duration::from_micros(next()?),
            stamp: next()? == 1,
        })
    }

    pub(super) fn delta(&self) -> String {
        let mut text = if self.stamp { format!("{:016} ", micros()) } else { String::new() };
        while text.len() < self.size {
            text.push('x');
        }
        text
    }

    /// When a stamped delta was made, in microseconds since the Unix epoch.
    pub(super) fn made_at(delta: &str) -> Option<u64> {
        delta.split_once(' ')?.0.parse().ok()
    }

    /// When its deltas are due.
    pub(super) fn pace(&self) -> Pace {
        Pace { delay: self.delay, due: None }
    }
}

/// Lets the delay of a load pass between one delta and the next; the first is due at once.
pub(super) struct Pace {
    delay: Duration,
    due: Option<Instant>,
}

impl Pace {
    pub(super) async fn next(&mut self) {
        if self.delay.is_zero() {
            return;
        }
        if let Some(due) = self.due {
            tokio::time::sleep_until(due).await;
        }
        self.due = Some(self.due.unwrap_or_else(Instant::now) + self.delay);
    }
}

/// Microseconds since the Unix epoch; both ends of a measurement are on this machine.
pub(super) fn micros() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    let elapsed = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

/// Produces exactly the load that it is asked for.
#[derive(Debug)]
struct LoadAgent;

#[async_trait]
impl Agent for LoadAgent {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let text = turn.request().text();
        let load = Load::parse(&text).unwrap_or_else(|| Load::burst(1, 16));
        let mut pace = load.pace();
        for _ in 0..load.count {
            pace.next().await;
            turn.text(load.delta()).await?;
        }
        Ok(TurnEnd::complete())
    }

    fn recovery(&self) -> Recovery {
        Recovery::Fail
    }
}

/// The same in sentences, of which each is whole as soon as it is said: what begins the next one comes
/// along with it.
#[derive(Debug)]
struct SentenceAgent;

#[async_trait]
impl Agent for SentenceAgent {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let text = turn.request().text();
        let load = Load::parse(&text).unwrap_or_else(|| Load::burst(1, 16));
        let mut pace = load.pace();
        for _ in 0..load.count {
            pace.next().await;
            turn.text(format!("{} A", sentence(&load))).await?;
        }
        Ok(TurnEnd::complete())
    }

    fn recovery(&self) -> Recovery {
        Recovery::Fail
    }
}

/// One sentence of a load.
pub(super) fn sentence(load: &Load) -> String {
    format!("{}.", load.delta())
}

/// Serves with the measuring agent until killed.
pub(super) async fn serve(overrides: Vec<String>) -> anyhow::Result<()> {
    let config = Config::load(None, [], overrides)?;
    let agents: BTreeMap<AgentId, Arc<dyn Agent>> = BTreeMap::from([
        (AgentId::from("demo"), Arc::new(LoadAgent) as Arc<dyn Agent>),
        (AgentId::from("sentences"), Arc::new(SentenceAgent)),
        (AgentId::from("aip-script"), Arc::new(DeviceScript)),
        (AgentId::from("narrator"), Arc::new(vip::Narrator)),
        (AgentId::from("brief"), Arc::new(vip::Brief::default())),
    ]);
    let listener = switchboard_server::listen(config.listen)?;
    run(Server::start_with(config, agents).await?, listener).await
}

/// Serves with the configured agents, which know the secret of the function, until killed.
pub(super) async fn serve_relay(overrides: Vec<String>) -> anyhow::Result<()> {
    let secret = (relay::SECRET_ENV.to_owned(), relay::SECRET.to_owned());
    let config = Config::load(None, [secret], overrides)?;
    let listener = switchboard_server::listen(config.listen)?;
    run(Server::start(config).await?, listener).await
}

async fn run(server: Server, listener: TcpListener) -> anyhow::Result<()> {
    announce(&listener.local_addr()?.to_string())?;
    server.run(listener, std::future::pending()).await?;
    Ok(())
}

/// Serves the yardsticks until killed.
pub(super) async fn serve_bare() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(&listener.local_addr()?.to_string())?;
    // As our server does: a small message does not wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, bare_loops()).await?;
    Ok(())
}

/// The yardsticks: ASP with one flush per message at `/each` and one for all at `/batch`; Acolyte; AIP;
/// Alicia; VIP.
pub(super) fn bare_loops() -> Router {
    let buffered = |upgrade: WebSocketUpgrade| upgrade.read_buffer_size(4 << 10).write_buffer_size(16 << 10);
    let asp = move |Path(flush): Path<String>, upgrade: WebSocketUpgrade| async move {
        buffered(upgrade).on_upgrade(move |socket| bare_loop(socket, flush == "each"))
    };
    let acolyte =
        move |upgrade: WebSocketUpgrade| async move { buffered(upgrade).on_upgrade(acolyte::bare_loop) };
    let aip = move |upgrade: WebSocketUpgrade| async move { buffered(upgrade).on_upgrade(aip::bare_loop) };
    let alicia =
        move |upgrade: WebSocketUpgrade| async move { buffered(upgrade).on_upgrade(alicia::bare_loop) };
    let vip = move |upgrade: WebSocketUpgrade| async move { buffered(upgrade).on_upgrade(vip::bare_loop) };
    Router::new()
        .route("/{flush}", any(asp))
        .route(acolyte::PATH, any(acolyte))
        .route(aip::PATH, any(aip))
        .route(alicia::PATH, any(alicia))
        .route(vip::PATH, any(vip))
}

/// Answers each message with the frames that our server would send for it, straight from memory.
async fn bare_loop(mut socket: WebSocket, flush_each: bool) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        let Some(load) = Load::parse(text.as_str()) else { continue };
        let mut pace = load.pace();
        for n in 0..load.count {
            pace.next().await;
            let last = n + 1 == load.count;
            let flags = if last { Flags::END } else { Flags::NONE }.with_enc(EncFlag::Msgpack);
            let mut frame = BytesMut::new();
            let delta = load.delta();
            if encode_text_frame(&mut frame, flags, 1, Enc::Msgpack, Some(u64::from(n)), &delta).is_err() {
                return;
            }
            let frame = Message::Binary(frame.freeze());
            let flush = flush_each || last || !load.delay.is_zero();
            let sent = if flush { socket.send(frame).await } else { socket.feed(frame).await };
            if sent.is_err() {
                return;
            }
        }
    }
}

pub(super) fn announce(address: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "listening on {address}")?;
    Ok(())
}

/// A process under measurement; killed when dropped.
pub(super) struct Process {
    child: Child,
    pub(super) address: String,
    _data: Option<tempfile::TempDir>,
}

impl Process {
    /// Our server, on an empty log.
    pub(super) async fn server(settings: &[&str]) -> anyhow::Result<Self> {
        Self::with_log("--child-server", settings).await
    }

    /// Our server with the agents that the settings name, on an empty log.
    pub(super) async fn relay(settings: &[String]) -> anyhow::Result<Self> {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        Self::with_log("--child-relay", &settings).await
    }

    /// The function behind the relay.
    pub(super) async fn function() -> anyhow::Result<Self> {
        Self::spawn(&["bench".to_owned(), "--child-function".to_owned()], None).await
    }

    async fn with_log(role: &str, settings: &[&str]) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let mut arguments = vec!["bench".to_owned(), role.to_owned()];
        let wide = [
            format!("data_dir={}", data.path().display()),
            "listen=127.0.0.1:0".into(),
            "telemetry.metrics_public=true".into(),
        ];
        let wide =
            wide.iter().map(String::as_str).chain(WIDE.iter().copied()).chain(settings.iter().copied());
        arguments.extend(wide.flat_map(|pair| ["--set".to_owned(), pair.to_owned()]));
        Self::spawn(&arguments, Some(data)).await
    }

    /// The yardstick.
    pub(super) async fn bare() -> anyhow::Result<Self> {
        Self::spawn(&["bench".to_owned(), "--child-bare".to_owned()], None).await
    }

    async fn spawn(arguments: &[String], data: Option<tempfile::TempDir>) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the process under measurement does not start")?;
        let stdout = child.stdout.take().context("no output")?;
        let line = BufReader::new(stdout).lines().next_line().await?.context("it ended at once")?;
        let address = line.trim_start_matches("listening on ").to_owned();
        Ok(Self { child, address, _data: data })
    }

    /// Processor time used so far.
    pub(super) fn cpu(&self) -> Duration {
        let ticks: u64 = self
            .proc("stat")
            .rsplit(')')
            .next()
            .map(|rest| {
                rest.split_ascii_whitespace()
                    .skip(11)
                    .take(2)
                    .filter_map(|word| word.parse::<u64>().ok())
                    .sum()
            })
            .unwrap_or(0);
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    pub(super) fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// A field of its status, in bytes.
    fn status(&self, field: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
        line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// A metric of our server, with its labels.
    pub(super) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let address = &self.address;
        let mut stream = dial(address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut body = String::new();
        stream.read_to_string(&mut body).await?;
        let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        value.with_context(|| format!("no metric {name}"))
    }

    fn proc(&self, file: &str) -> String {
        let pid = self.child.id().unwrap_or(0);
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
    }
}

/// Limits that are no part of what is measured are out of the way.
const WIDE: &[&str] = &[
    "limits.connections=100000",
    "limits.connections_per_principal=100000",
    "limits.connections_per_address=100000",
    "limits.new_connections_per_address_per_s=100000",
    "limits.new_connections_per_address_burst=100000",
    "asp.limits.connections_per_s=100000",
    "asp.limits.connections_burst=100000",
    "limits.principal_frames_per_s=10000000",
    "limits.principal_frames_burst=10000000",
    "limits.principal_bytes_per_s=1000000000",
    "limits.principal_bytes_burst=1000000000",
    "limits.principal_turns_per_s=1000000",
    "limits.principal_turns_burst=1000000",
    "session.running_turns=20000",
    "asp.limits.frames_per_s=1000000",
    "asp.limits.frames_burst=1000000",
    "asp.limits.invokes_per_s=1000000",
    "asp.limits.invokes_burst=1000000",
    "asp.limits.heartbeat_s=150",
    "asp.limits.dead_s=300",
];
