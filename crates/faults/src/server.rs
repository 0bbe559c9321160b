//! The server under test: the real binary as a child process, which can be killed, halted and started again.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How a server is to be started.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The program `switchboard`.
    pub(crate) binary: PathBuf,
    /// The most files that it may have open.
    pub(crate) descriptors: Option<u64>,
    /// Settings on top of those that every scenario needs.
    pub(crate) settings: Vec<String>,
    /// Where its data is, if not in a folder of its own.
    pub(crate) data: Option<PathBuf>,
}

/// A server; killed when dropped.
pub(crate) struct Server {
    setup: Setup,
    address: SocketAddr,
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts one and waits until it listens.
    ///
    /// # Errors
    /// It does not start; the message has what it said.
    pub(crate) async fn start(setup: Setup) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let child = spawn(&setup, address, folder.path()).await?;
        Ok(Self { setup, address, child, folder })
    }

    /// `kill -9`; done when it is gone.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Starts it again, on the same data and the same port.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.setup, self.address, self.folder.path()).await?;
        Ok(())
    }

    /// SIGSTOP: it does nothing any more, but its sockets stay.
    pub(crate) fn halt(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.child.id().context("the server is not there any more")?;
        Ok(kill(Pid::from_raw(i32::try_from(pid)?), signal)?)
    }

    /// Whether the process is still there.
    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let pid = self.child.id().unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// The sum of a metric over all its labels.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let mut stream = TcpStream::connect(self.address).await?;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await?;
        let mut body = String::new();
        stream.read_to_string(&mut body).await?;
        let values = body.lines().filter_map(|line| {
            let (named, value) = line.rsplit_once(' ')?;
            (named.split('{').next() == Some(name)).then(|| value.parse::<f64>().ok()).flatten()
        });
        Ok(values.sum())
    }

    /// The last lines that it logged.
    pub(crate) fn last_words(&self) -> String {
        last_words(self.folder.path())
    }
}

async fn spawn(setup: &Setup, address: SocketAddr, folder: &Path) -> anyhow::Result<Child> {
    let data = setup.data.clone().unwrap_or_else(|| folder.join("data"));
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(LOG))?;
    let mut command = match setup.descriptors {
        None => Command::new(&setup.binary),
        // The server raises its limit as far as it may: both limits have to be low.
        Some(most) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"ulimit -n "$1" && shift && exec "$@""#, "sh", &most.to_string()]);
            shell.arg(&setup.binary);
            shell
        }
    };
    command.arg("serve");
    let own = [format!("listen={address}"), format!("data_dir={}", data.display())];
    let settings = own.iter().map(String::as_str).chain(SETTINGS.iter().copied());
    for setting in settings.chain(setup.settings.iter().map(String::as_str)) {
        command.args(["--set", setting]);
    }
    // Settings of whoever runs this are none of the server's.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SWITCHBOARD_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} cannot be started", setup.binary.display()))?;
    let output = child.stdout.take().context("it has no output")?;
    let mut lines = BufReader::new(output).lines();
    let listens = async {
        while let Some(line) = lines.next_line().await? {
            if line.contains("listening on ") {
                return Ok(());
            }
        }
        bail!("it ended at once")
    };
    let started = timeout(START, listens).await.unwrap_or_else(|_| bail!("it does not listen"));
    started.with_context(|| format!("the server does not start: {}", last_words(folder)))?;
    // Whatever else it says must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(child)
}

fn last_words(folder: &Path) -> String {
    let log = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// A port below those from which the system serves outgoing connections: while the server is down, no client
/// that dials it may be given its port.
fn free_port() -> anyhow::Result<u16> {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000)?;
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (first..first + 2_000).find(free).context("there is no free port between 20000 and 32000")
}

/// The agent that answers: the story with which everything can be provoked.
pub(crate) const AGENT: &str = "story";

/// Limits that are no part of a scenario are out of the way.
const SETTINGS: &[&str] = &[
    "agent=story",
    "agents.story.kind=script",
    "agents.story.builtin=conformance",
    "telemetry.metrics_public=true",
    "telemetry.log_level=warn",
    "limits.connections=100000",
    "limits.connections_per_principal=100000",
    "limits.connections_per_address=100000",
    "limits.new_connections_per_address_per_s=100000",
    "limits.new_connections_per_address_burst=100000",
    "limits.principal_frames_per_s=1000000",
    "limits.principal_frames_burst=1000000",
    "limits.principal_bytes_per_s=1000000000",
    "limits.principal_bytes_burst=1000000000",
    "limits.principal_turns_per_s=100000",
    "limits.principal_turns_burst=100000",
    "session.running_turns=20000",
    "asp.limits.connections_per_s=100000",
    "asp.limits.connections_burst=100000",
    "asp.limits.frames_per_s=100000",
    "asp.limits.frames_burst=100000",
    "asp.limits.bytes_per_s=100000000",
    "asp.limits.bytes_burst=100000000",
    "asp.limits.invokes_per_s=1000",
    "asp.limits.invokes_burst=1000",
];

const LOG: &str = "server.log";
const START: Duration = Duration::from_secs(30);
