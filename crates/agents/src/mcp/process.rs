//! The process of an MCP server, and whatever it starts in turn.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::debug;

use super::Lookup;
use super::config::{INHERITED, McpConfig};

/// A process group of its own. Nothing of it is left when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    stderr: Option<JoinHandle<()>>,
}

impl Process {
    pub(super) fn start(
        server: &str,
        command: &str,
        config: &McpConfig,
        lookup: &Lookup,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let mut process = Command::new(command);
        process.args(&config.args).env_clear().process_group(0).kill_on_drop(true);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in INHERITED.iter().copied().chain(config.env_from.iter().map(String::as_str)) {
            if let Some(value) = lookup(name) {
                process.env(name, value);
            }
        }
        process.envs(&config.env);
        if let Some(folder) = &config.cwd {
            process.current_dir(folder);
        }
        let mut child = process.spawn().map_err(|error| format!("cannot start the process: {error}"))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let pipes = child.stdout.take().zip(child.stdin.take());
        let stderr = child.stderr.take().map(|stderr| tokio::spawn(count_lines(server.to_owned(), stderr)));
        let process = Self { child, group, stderr };
        let (stdout, stdin) = pipes.ok_or("the process has no pipes")?;
        Ok((process, stdout, stdin))
    }

    /// Waits until the process has ended, and says how. What it has started ends with it.
    pub(super) async fn ended(&mut self) -> String {
        let status = self.child.wait().await;
        self.signal(Signal::SIGKILL);
        // The number may now belong to somebody else.
        self.group = None;
        match status {
            Ok(status) => format!("the process has ended: {status}"),
            Err(error) => format!("the process is lost: {error}"),
        }
    }

    /// Asks the process to leave, and makes it leave if it does not.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let _ = timeout(GRACE, self.ended()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(stderr) = &self.stderr {
            stderr.abort();
        }
    }
}

/// Reads what a process complains about, so that it never waits for a reader. What it says may hold
/// anything, so it is not kept.
async fn count_lines(server: String, mut stderr: impl AsyncRead + Unpin) {
    let mut buffer = [0; 4096];
    let mut lines = 0_usize;
    while let Ok(length @ 1..) = stderr.read(&mut buffer).await {
        lines += buffer.iter().take(length).filter(|byte| **byte == b'\n').count();
    }
    debug!(server, lines, "an MCP server has written to its standard error");
}

const GRACE: Duration = Duration::from_secs(2);
