//! What is known of all servers, and the tools that come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_core::ToolName;
use switchboard_core::model::Tool;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::call::Link;
use super::config::McpConfig;
use super::listing::Listed;
use super::naming::Names;

/// A server as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpStatus {
    /// Its name in the configuration.
    pub name: String,
    /// Whether it can be used.
    pub state: McpState,
    /// How many of its tools are offered.
    pub tools: usize,
    /// How often it has been started again.
    pub restarts: u32,
}

/// Whether a server can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpState {
    /// It is being started or connected to.
    Starting,
    /// Its tools are offered.
    Ready,
    /// It is gone, and will be tried again unless its configuration makes no sense.
    Down {
        /// Why, for a person.
        why: String,
        /// For how long.
        lasting: Duration,
    },
}

/// The servers by name. Everything changes under one lock, and the revision with it.
#[derive(Debug)]
pub(super) struct Table {
    servers: Mutex<Servers>,
    revision: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Servers {
    entries: BTreeMap<String, Entry>,
    offers: BTreeMap<ToolName, Offer>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) config: McpConfig,
    /// Ends the task, and tells it from earlier ones of the same name.
    pub(super) stop: CancellationToken,
    pub(super) task: Option<JoinHandle<()>>,
    state: State,
    restarts: u32,
}

#[derive(Debug)]
enum State {
    Starting,
    Ready { link: Link, listed: Vec<Listed> },
    Down { why: String, since: Instant },
}

#[derive(Debug)]
struct Offer {
    tool: Tool,
    server: String,
    route: Route,
}

/// How a tool is called.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) link: Link,
    /// The name that the server gives it.
    pub(super) remote: String,
    /// How long a call may take.
    pub(super) patience: Duration,
    /// How long a person may think about it.
    pub(super) approval: Duration,
}

impl Entry {
    pub(super) fn new(config: McpConfig, stop: CancellationToken) -> Self {
        Self { config, stop, task: None, state: State::Starting, restarts: 0 }
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self { servers: Mutex::default(), revision: watch::Sender::new(0) }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub(super) fn tools(&self) -> Vec<Tool> {
        self.servers.lock().offers.values().map(|offer| offer.tool.clone()).collect()
    }

    pub(super) fn knows(&self, name: &ToolName) -> bool {
        self.servers.lock().offers.contains_key(name)
    }

    pub(super) fn server_of(&self, name: &ToolName) -> Option<String> {
        self.servers.lock().offers.get(name).map(|offer| offer.server.clone())
    }

    /// For how long a person is asked before a tool is used; none if its uses need no approval.
    pub(super) fn approval(&self, name: &ToolName) -> Option<Duration> {
        let servers = self.servers.lock();
        let offer = servers.offers.get(name)?;
        let marks = &offer.tool.annotations;
        let marked = marks.confirm == Some(true) || marks.destructive == Some(true);
        marked.then_some(offer.route.approval)
    }

    pub(super) fn find(&self, name: &ToolName) -> Option<Route> {
        self.servers.lock().offers.get(name).map(|offer| offer.route.clone())
    }

    pub(super) fn status(&self) -> Vec<McpStatus> {
        let servers = self.servers.lock();
        let status = |(name, entry): (&String, &Entry)| McpStatus {
            name: name.clone(),
            state: match &entry.state {
                State::Starting => McpState::Starting,
                State::Ready { .. } => McpState::Ready,
                State::Down { why, since } => McpState::Down { why: why.clone(), lasting: since.elapsed() },
            },
            tools: servers.offers.values().filter(|offer| offer.server == *name).count(),
            restarts: entry.restarts,
        };
        servers.entries.iter().map(status).collect()
    }

    /// Changes which servers there are.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> T) -> T {
        let mut servers = self.servers.lock();
        let result = change(&mut servers.entries);
        self.settle(&mut servers);
        result
    }

    /// The server is started once more.
    pub(super) fn restarting(&self, server: &str, stop: &CancellationToken) {
        self.set(server, stop, |entry| {
            entry.restarts = entry.restarts.saturating_add(1);
            entry.state = State::Starting;
        });
    }

    /// The server can be used, and these are its tools.
    pub(super) fn ready(&self, server: &str, stop: &CancellationToken, link: Link, listed: Vec<Listed>) {
        self.set(server, stop, |entry| entry.state = State::Ready { link, listed });
    }

    /// The server cannot be used.
    pub(super) fn down(&self, server: &str, stop: &CancellationToken, why: String) {
        self.set(server, stop, |entry| entry.state = State::Down { why, since: Instant::now() });
    }

    /// Nothing that a task says counts once it is to stop: the name may belong to another one.
    fn set(&self, server: &str, stop: &CancellationToken, change: impl FnOnce(&mut Entry)) {
        let mut servers = self.servers.lock();
        if stop.is_cancelled() {
            return;
        }
        if let Some(entry) = servers.entries.get_mut(server) {
            change(entry);
            self.settle(&mut servers);
        }
    }

    /// Finds out what is offered now. The revision grows if that is something else than before.
    fn settle(&self, servers: &mut Servers) {
        let offers = offers(&servers.entries);
        let before = std::mem::replace(&mut servers.offers, offers);
        let changed =
            !before.values().map(|offer| &offer.tool).eq(servers.offers.values().map(|offer| &offer.tool));
        if changed {
            self.revision.send_modify(|revision| *revision += 1);
        }
    }
}

fn offers(entries: &BTreeMap<String, Entry>) -> BTreeMap<ToolName, Offer> {
    let mut offers = BTreeMap::new();
    let mut prefixes: Vec<String> = Vec::new();
    for (server, entry) in entries {
        let prefix = entry.config.prefix(server);
        if let State::Ready { link, listed } = &entry.state {
            for tool in listed {
                let names = Names::new(server, &prefix, &tool.name);
                // A name that begins like those of an earlier server is that one's, up or down.
                let plain =
                    names.plain.filter(|name| !prefixes.iter().any(|prefix| name.starts_with(prefix)));
                let mut choices = plain.into_iter().chain([names.marked]).map(ToolName::new);
                let Some(name) = choices.find(|name| !offers.contains_key(name)) else {
                    warn!(server, "a tool is not offered: its name is taken");
                    continue;
                };
                let patience = Duration::from_millis(entry.config.call_timeout_ms);
                let approval = Duration::from_millis(entry.config.approval_timeout_ms);
                let route = Route { link: link.clone(), remote: tool.name.clone(), patience, approval };
                let offer = Offer { tool: tool.offer(name.clone(), server), server: server.clone(), route };
                offers.insert(name, offer);
            }
        }
        prefixes.push(prefix);
    }
    offers
}
