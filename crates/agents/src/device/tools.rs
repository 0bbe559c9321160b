//! The tools of a device, offered to an agent that knows nothing of devices.
//!
//! Before the agent begins, the device is asked what it can do. A repetition of a lost run takes up
//! what that run was given: what is remembered between turns must not make the two differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use switchboard_core::model::{CallEnd, Executor, Tool, TurnEnd, TurnOutcome};
use switchboard_core::{Callsign, Timestamp, ToolName};

use super::context::{CommandContext, ToolType};
use super::listing::{self, LIST_TOOLS};
use crate::agent::{Agent, AgentError, Condition, Recovery};
use crate::command::Command;
use crate::turn::Turn;

/// An agent with the tools of the device that its turn is for. A turn for no device, or for one
/// that does not list its tools, is the inner agent's as it is.
#[derive(Debug)]
pub struct WithDevice<A> {
    inner: A,
    tools: Arc<DeviceTools>,
}

impl<A: Agent> WithDevice<A> {
    /// This agent with the tools of devices.
    pub const fn new(inner: A, tools: Arc<DeviceTools>) -> Self {
        Self { inner, tools }
    }

    /// Sees to it that the session offers the tools of the device.
    async fn equip(&self, turn: &mut Turn, device: &Callsign) -> Result<(), AgentError> {
        let remembered = self.tools.recall(device, turn.now()).filter(|_| !turn.is_replaying());
        let listed = match remembered {
            Some(listed) => Some(listed),
            None => self.tools.list(turn, device).await?,
        };
        let executor = Executor::Device(device.clone());
        if turn.pass_tools(|tools| tools.iter().all(|tool| tool.executor == executor)) {
            return Ok(());
        }
        let Some(listed) = listed.filter(|listed| !listed.is_empty()) else { return Ok(()) };
        let (own, others): (Vec<Tool>, Vec<Tool>) =
            turn.tools().await.into_iter().partition(|tool| tool.executor == executor);
        let offered = listing::offered(&listed, others.into_iter().map(|tool| tool.name));
        if own.len() == offered.len() && own.iter().all(|tool| offered.contains(tool)) {
            return Ok(());
        }
        let outdated = own.into_iter().map(|tool| tool.name);
        let outdated: Vec<ToolName> =
            outdated.filter(|name| offered.iter().all(|tool| tool.name != *name)).collect();
        turn.change_tools(offered, outdated).await
    }
}

#[async_trait]
impl<A: Agent> Agent for WithDevice<A> {
    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        let Some(device) = turn.brief().device.clone() else { return self.inner.run(turn).await };
        self.equip(turn, &device).await?;
        let result = self.inner.run(turn).await;
        let failed = match &result {
            Ok(end) => matches!(end.outcome, TurnOutcome::Failed(_)),
            Err(AgentError::Failed(_)) => true,
            Err(AgentError::Over) => false,
        };
        if failed {
            self.tools.forget(&device);
        }
        result
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn condition(&self, now: Timestamp) -> Condition {
        self.inner.condition(now)
    }

    fn tools(&self) -> Vec<Tool> {
        self.inner.tools()
    }

    fn recovery(&self) -> Recovery {
        self.inner.recovery()
    }
}

/// What devices have listed as their tools, remembered for a minute. Agents share it.
#[derive(Debug)]
pub struct DeviceTools {
    context: CommandContext,
    listings: Mutex<BTreeMap<Callsign, Listing>>,
}

impl DeviceTools {
    /// Nothing known yet. Devices are asked for the tools that they have in this context.
    pub const fn new(context: CommandContext) -> Self {
        Self { context, listings: Mutex::new(BTreeMap::new()) }
    }

    /// Forgets what a device has listed, because it is another one now, or may be.
    pub fn forget(&self, device: &Callsign) {
        self.listings().remove(device);
    }

    fn recall(&self, device: &Callsign, now: Timestamp) -> Option<Arc<[Tool]>> {
        let listings = self.listings();
        let listing = listings.get(device).filter(|listing| listing.is_fresh(now));
        listing.map(|listing| listing.tools.clone())
    }

    fn remember(&self, device: &Callsign, tools: Arc<[Tool]>, now: Timestamp) {
        let mut listings = self.listings();
        if listings.len() >= MAX_LISTINGS {
            listings.retain(|_, listing| listing.is_fresh(now));
        }
        if listings.len() < MAX_LISTINGS {
            listings.insert(device.clone(), Listing { tools, at: now });
        }
    }

    /// Asks the device; none if it does not say, or if an earlier run of the turn did not ask.
    async fn list(&self, turn: &mut Turn, device: &Callsign) -> Result<Option<Arc<[Tool]>>, AgentError> {
        let command = Command {
            name: ToolName::from(LIST_TOOLS),
            args: Value::Object(Map::new()),
            options: Value::Object(self.context.options(ToolType::DataCollection)).into(),
        };
        let listing = match turn.ask_first(command, LIST_TIMEOUT).await {
            Ok(Some(CallEnd::Done { output, .. })) => {
                listing::read(Arc::unwrap_or_clone(output), device, &self.context)
            }
            Ok(Some(CallEnd::Failed(_) | CallEnd::TimedOut | CallEnd::Cancelled) | None)
            | Err(AgentError::Failed(_)) => None,
            Err(AgentError::Over) => return Err(AgentError::Over),
        };
        let Some(tools) = listing else {
            self.forget(device);
            return Ok(None);
        };
        let tools: Arc<[Tool]> = tools.into();
        self.remember(device, tools.clone(), turn.now());
        Ok(Some(tools))
    }

    /// Every change of the map is whole, so that it is good also after a panic.
    fn listings(&self) -> MutexGuard<'_, BTreeMap<Callsign, Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tools of one device, under its own names for them.
#[derive(Debug)]
struct Listing {
    tools: Arc<[Tool]>,
    at: Timestamp,
}

impl Listing {
    fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.at) < MEMORY
    }
}

/// How long a listing is good. A device that was updated in place says so to nobody.
const MEMORY: Duration = Duration::from_secs(60);
/// How long a device may take to list its tools. Some never answer what they do not know.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many listings are kept; further devices are asked in each turn.
const MAX_LISTINGS: usize = 1024;
