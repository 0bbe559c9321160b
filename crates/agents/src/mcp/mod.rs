//! Tools from MCP servers.
//!
//! Each configured server has a task of its own, which starts it or connects to it, lists its tools
//! and keeps that list current. A server that goes takes its tools along at once, and brings them
//! back when it is up again.

mod call;
mod config;
mod http;
mod listing;
mod naming;
mod outcome;
mod process;
mod stdio;
mod supervise;
mod table;
mod tap;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_core::ToolName;
use switchboard_core::model::{CallEnd, Tool};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use supervise::Supervisor;
use table::{Entry, Table};

pub use config::{McpConfig, McpConfigError};
pub use table::{McpState, McpStatus};

/// The MCP servers that are configured. Dropping it stops them all.
pub struct McpServers {
    table: Arc<Table>,
    lookup: Arc<Lookup>,
}

/// The value of an environment variable.
type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

impl McpServers {
    /// Starts the servers, by name; returns before any of them is ready. `secrets` finds the value
    /// of an environment variable: of those that [`McpConfig::env_names`] names.
    ///
    /// Has to be called within a tokio runtime.
    pub fn start(
        configs: BTreeMap<String, McpConfig>,
        secrets: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let servers = Self { table: Arc::new(Table::new()), lookup: Arc::new(secrets) };
        servers.reconfigure(configs);
        servers
    }

    /// Starts servers that are new, stops those that are not configured any more, starts those anew
    /// whose configuration has changed, and leaves the others alone.
    ///
    /// Has to be called within a tokio runtime.
    pub fn reconfigure(&self, mut configs: BTreeMap<String, McpConfig>) {
        self.table.change(|entries| {
            let mut replaced = BTreeMap::new();
            entries.retain(|name, entry| {
                if configs.get(name) == Some(&entry.config) {
                    configs.remove(name);
                    return true;
                }
                entry.stop.cancel();
                replaced.insert(name.clone(), entry.task.take());
                false
            });
            for (name, config) in configs {
                let previous = replaced.remove(&name).flatten();
                entries.insert(name.clone(), self.spawn(name, config, previous));
            }
        });
    }

    fn spawn(&self, server: String, config: McpConfig, previous: Option<JoinHandle<()>>) -> Entry {
        let stop = CancellationToken::new();
        let mut entry = Entry::new(config.clone(), stop.clone());
        let (lookup, table) = (self.lookup.clone(), self.table.clone());
        let supervisor = Supervisor { server, config, lookup, table, stop };
        entry.task = Some(tokio::spawn(async move {
            // Two processes of one server might quarrel about a file or a port.
            if let Some(previous) = previous {
                let _ = previous.await;
            }
            supervisor.run().await;
        }));
        entry
    }

    /// Every tool that can be called now.
    pub fn tools(&self) -> Vec<Tool> {
        self.table.tools()
    }

    /// A number that grows with each change of [`tools`](Self::tools).
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.table.changes()
    }

    /// Whether a tool of this name can be called now.
    pub fn knows(&self, name: &ToolName) -> bool {
        self.table.knows(name)
    }

    /// The server whose tool this is, if it can be called now.
    pub fn server_of(&self, name: &ToolName) -> Option<String> {
        self.table.server_of(name)
    }

    /// For how long a person is asked before a tool is used; none if its uses need no approval.
    pub fn approval(&self, name: &ToolName) -> Option<Duration> {
        self.table.approval(name)
    }

    /// How every server is.
    pub fn status(&self) -> Vec<McpStatus> {
        self.table.status()
    }

    /// Calls a tool, and tells what is reported on the way. A call that takes longer than `timeout`,
    /// or than its server is allowed, is cancelled; so is one whose future is dropped. Nobody is asked here: a
    /// [`Turn`](crate::Turn) sees to that.
    pub async fn call(
        &self,
        name: &ToolName,
        args: Value,
        timeout: Duration,
        progress: impl FnMut(String) + Send,
    ) -> CallEnd {
        match self.table.find(name) {
            Some(route) => route.link.call(route.remote, args, timeout.min(route.patience), progress).await,
            None => outcome::unavailable(),
        }
    }

    /// Stops every server, and returns when all of them are gone.
    pub async fn stop(&self) {
        let tasks = self.table.change(|entries| {
            let tasks: Vec<_> = entries.values_mut().filter_map(|entry| entry.task.take()).collect();
            entries.values().for_each(|entry| entry.stop.cancel());
            entries.clear();
            tasks
        });
        for task in tasks {
            let _ = task.await;
        }
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.table.change(|entries| {
            entries.values().for_each(|entry| entry.stop.cancel());
            entries.clear();
        });
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServers").field("status", &self.status()).finish_non_exhaustive()
    }
}
