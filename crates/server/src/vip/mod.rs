//! VIP beyond its sessions: applications vouch, providers and functions are reached, peers are answered.

mod peers;
mod setup;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use switchboard_agents::McpServers;
use switchboard_core::model::CallEnd;
use switchboard_core::{self as core, Pii, Principal, Reject, ToolName};
use switchboard_vip::errand::{self, Errand, Failed, Performed};
use switchboard_vip::token::{Seal, Unsealed};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::clock::Clock;
use crate::errands::{ErrandCaller, Errands, Running};
use crate::host::Host;
use crate::limits::AddressRate;
use crate::vouch::{Call, Functions, Keys, Order, Providers, Vouching};

pub(crate) use peers::Peers;
pub(crate) use setup::VipHouse;

/// Runs the errands of VIP.
#[derive(Debug)]
pub(crate) struct VipErrands {
    pub(crate) vouching: Vouching,
    pub(crate) providers: Providers,
    pub(crate) functions: Functions,
    pub(crate) mcp: Arc<McpServers>,
    pub(crate) host: Arc<Host>,
    /// None where WebRTC is not offered.
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) clock: Clock,
    /// What the server calls itself, unless that depends on where a request came to.
    pub(crate) issuer: Option<String>,
    /// Sessions for which nobody vouches.
    pub(crate) unvouched: AddressRate,
    /// Room for what waits for others. However slow they are, there is room left to let people in.
    pub(crate) abroad: Semaphore,
}

impl Errands for VipErrands {
    fn run(self: Arc<Self>, caller: ErrandCaller, errand: Value) -> Running {
        Box::pin(async move {
            let errand: Errand = serde_json::from_value(errand)
                .map_err(|_| Reject::Invalid("the errand cannot be read".to_owned()))?;
            let (answer, principal) = match self.attend(&caller, errand).await {
                Ok(done) => done,
                Err(failed) => (to_value(&failed), None),
            };
            Ok(core::Errand { answer: Pii(answer), principal })
        })
    }
}

impl VipErrands {
    async fn attend(
        &self,
        caller: &ErrandCaller,
        errand: Errand,
    ) -> Result<(Value, Option<Principal>), Failed> {
        let issuer = self.issuer.as_deref().unwrap_or(&caller.origin);
        let now = self.clock.now();
        Ok(match errand {
            Errand::Vouch { token, development, redeem } => {
                let token = token.as_deref();
                if token.is_none() && development && self.unvouched.take(caller.address, now).is_err() {
                    return Err(failed(
                        "SES_QUOTA",
                        "too many sessions of development from this address; try again later",
                    ));
                }
                let vouched = self.vouching.vouch(token, development, redeem, issuer, now).await?;
                (to_value(&vouched.0), Some(vouched.1))
            }
            Errand::Mint { provider, instructions, sub, session, development } => {
                let _place = self.go_abroad()?;
                let order = Order {
                    provider: &provider,
                    instructions: instructions.as_deref(),
                    sub: &sub,
                    own: caller.principal.id.as_str(),
                    session: &session,
                    development,
                    issuer,
                };
                (to_value(&self.providers.mint(order, now).await?), None)
            }
            Errand::Unseal { session, call } => match self.host.secrets.fetch(&session, &call) {
                Some(args) => (to_value(&errand::Unsealed { args: Arc::unwrap_or_clone(args) }), None),
                None => {
                    let message = "what was to be done is not known any more".to_owned();
                    return Err(Failed { failed: "ACT_CANCELLED".to_owned(), message });
                }
            },
            Errand::Perform { name, parameters, agent, session, sub } => {
                let _place = self.go_abroad()?;
                (to_value(&self.perform(&name, parameters, &agent, &session, &sub).await?), None)
            }
            Errand::Offer { session, sdp, token } => {
                let peers = self.peers()?;
                (to_value(&peers.answer(caller, &session, &sdp, token)?), None)
            }
            Errand::Trickle { session, peer, fragment } => {
                self.peers()?.trickle(&session, &peer, &fragment)?;
                (json!({}), None)
            }
            Errand::HangUp { session, peer } => {
                self.peers()?.hang_up(&session, &peer)?;
                (json!({}), None)
            }
        })
    }

    /// Runs a function that is configured, or else a tool of the agent that the server runs for it.
    async fn perform(
        &self,
        name: &str,
        parameters: Value,
        agent: &str,
        session: &str,
        sub: &str,
    ) -> Result<Performed, Failed> {
        if self.functions.contains(name) {
            return self
                .functions
                .perform(Call { name, parameters: &parameters, session, sub: Some(sub) })
                .await;
        }
        let tool = ToolName::from(name);
        let tools = self.host.tools(&agent.into());
        let Some(known) = tools.into_iter().find(|known| known.name == tool && self.mcp.knows(&tool)) else {
            return Err(failed("ACT_NOT_FOUND", "the server has no such function"));
        };
        // Nobody was shown what the tool is about to do.
        if known.annotations.confirm == Some(true) {
            return Err(failed("ACT_CONFIRMATION_REQUIRED", "a person has to confirm each use of this tool"));
        }
        match self.mcp.call(&tool, parameters, PATIENCE, |_| {}).await {
            CallEnd::Done { output, .. } => Ok(Performed { data: Arc::unwrap_or_clone(output) }),
            CallEnd::Failed(error) => Err(failed("ACT_EXECUTION_FAILED", error.message)),
            CallEnd::TimedOut => Err(failed("ACT_TIMEOUT", "the tool took too long")),
            CallEnd::Cancelled => Err(failed("ACT_CANCELLED", "the call was cancelled")),
        }
    }

    fn go_abroad(&self) -> Result<SemaphorePermit<'_>, Failed> {
        self.abroad.try_acquire().map_err(|_| failed("PROV_UNAVAILABLE", "too much is going on; try again"))
    }

    fn peers(&self) -> Result<&Arc<Peers>, Failed> {
        self.peers.as_ref().ok_or_else(|| failed("SES_NOT_FOUND", "WebRTC is not offered here"))
    }
}

fn to_value(answer: &impl Serialize) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

fn failed(code: &str, message: impl Into<String>) -> Failed {
    Failed { failed: code.to_owned(), message: message.into() }
}

/// Signs as VIP does, and shows every public key of the server: they share one address.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    pub(crate) own: Arc<Keys>,
    /// The keys of requests to functions.
    pub(crate) others: Vec<Value>,
}

impl Seal for SharedKeys {
    fn sign(&self, typ: &str, claims: &Value) -> String {
        self.own.sign(typ, claims)
    }

    fn open(&self, typ: &str, token: &str) -> Result<Value, Unsealed> {
        self.own.open(typ, token)
    }

    fn key_set(&self) -> Value {
        let mut set = self.own.key_set();
        if let Some(Value::Array(keys)) = set.get_mut("keys") {
            keys.extend(self.others.iter().cloned());
        }
        set
    }
}

/// Errands that may wait for others at the same time; fewer than there may be errands.
pub(crate) const ABROAD: usize = 128;
/// How long a tool may take; an errand as a whole takes not much longer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(28);
