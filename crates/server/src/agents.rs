//! The agents that the configuration names.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use switchboard_agents::{
    Agent, Butler, DeviceScript, DeviceTools, Echo, Function, McpServers, OpenAi, Relay, Script, WithDevice,
    WithTools,
};
use switchboard_core::AgentId;

use crate::config::{AgentConfig, Config, Secrets};
use crate::host::{Directory, Model};
use crate::routes::Routes;

/// What agents are built on, and share over every change of the configuration.
#[derive(Debug)]
pub(crate) struct Workshop {
    pub(crate) relay: Arc<Relay>,
    pub(crate) mcp: Arc<McpServers>,
    devices: Arc<DeviceTools>,
    /// What servers of tools may be given.
    secrets: Arc<RwLock<Secrets>>,
}

impl Workshop {
    /// Has to be called within a runtime: the servers of tools are started.
    pub(crate) fn new(config: &Config, relay: Arc<Relay>) -> Self {
        let secrets = Arc::new(RwLock::new(config.secrets.clone()));
        let known = secrets.clone();
        let find = move |name: &str| known.read().find(name).map(str::to_owned);
        let mcp = Arc::new(McpServers::start(config.mcp.clone(), find));
        let devices = Arc::new(DeviceTools::new(config.aip.command.clone()));
        Self { relay, mcp, devices, secrets }
    }

    /// Starts, stops and changes servers of tools as the configuration says now.
    pub(crate) fn reconfigure(&self, config: &Config) {
        *self.secrets.write() = config.secrets.clone();
        self.mcp.reconfigure(config.mcp.clone());
    }

    /// Builds every configured agent; if one cannot be built, says which and why.
    pub(crate) fn directory(&self, config: &Config) -> Result<Directory, String> {
        let mut agents: BTreeMap<AgentId, Arc<dyn Agent>> = BTreeMap::new();
        if config.aip.test_planner {
            agents.insert(AgentId::from(TEST_PLANNER), Arc::new(DeviceScript));
        }
        let mut config = config.clone();
        config.reveal_keys();
        for (name, agent) in &config.agents {
            let reached = agent.mcp();
            let because = |reason: &dyn std::fmt::Display| format!("agents.{name}: {reason}");
            let agent: Arc<dyn Agent> = match agent {
                AgentConfig::Echo(echo) => self.with_tools(Echo::new(echo.clone()), reached),
                AgentConfig::Script(script) => {
                    self.with_device(Script::load(script).map_err(|error| because(&error))?, reached)
                }
                AgentConfig::Butler(butler) => self.with_device(Butler::new(butler.clone()), reached),
                AgentConfig::Demo(_) => {
                    self.with_device(Script::demo().map_err(|error| because(&error))?, reached)
                }
                AgentConfig::OpenAi(openai) => {
                    self.with_device(OpenAi::new(openai.clone()).map_err(|error| because(&error))?, reached)
                }
                AgentConfig::Function(function) => {
                    let relay = self.relay.clone();
                    let function = Function::new(function.clone(), relay).map_err(|error| because(&error))?;
                    self.with_tools(function, reached)
                }
                AgentConfig::Off(_) => continue,
            };
            agents.insert(AgentId::from(name.as_str()), agent);
        }
        Self::complete(&config, agents)
    }

    /// The directory of these agents.
    pub(crate) fn complete(
        config: &Config,
        agents: BTreeMap<AgentId, Arc<dyn Agent>>,
    ) -> Result<Directory, String> {
        let default = AgentId::from(config.agent.as_str());
        if !agents.contains_key(&default) {
            return Err(format!("the default agent {default} is not configured"));
        }
        let models =
            config.agents.iter().filter_map(|(name, agent)| Some((name.as_str().into(), model(agent)?)));
        let reached = config.agents.iter().filter_map(|(name, agent)| {
            Some((AgentId::from(name.as_str()), agent.mcp()?.iter().cloned().collect()))
        });
        Ok(Directory {
            models: models.collect(),
            servers: reached.collect(),
            agents,
            default,
            routes: Routes::new(&config.routes),
        })
    }

    fn with_device(&self, agent: impl Agent + 'static, reached: Option<&[String]>) -> Arc<dyn Agent> {
        self.with_tools(WithDevice::new(agent, self.devices.clone()), reached)
    }

    /// The agent with the tools of the servers that it reaches; none for all of them.
    fn with_tools(&self, agent: impl Agent + 'static, reached: Option<&[String]>) -> Arc<dyn Agent> {
        Arc::new(match reached {
            Some(names) => WithTools::of(agent, self.mcp.clone(), names),
            None => WithTools::new(agent, self.mcp.clone()),
        })
    }
}

/// The model behind an agent, if it is known.
fn model(agent: &AgentConfig) -> Option<Model> {
    let AgentConfig::OpenAi(openai) = agent else { return None };
    let uri: axum::http::Uri = openai.base_url.parse().ok()?;
    Some(Model { name: openai.model.clone(), provider: uri.host()?.to_owned() })
}

/// The name of the deterministic planner of AIP's reference, where it is switched on.
pub(crate) const TEST_PLANNER: &str = "aip-script";

#[cfg(test)]
mod tests {
    use switchboard_agents::{EchoConfig, OpenAiConfig};

    use super::*;

    #[test]
    fn behind_an_agent_is_its_model_or_itself() {
        let openai = OpenAiConfig {
            base_url: "https://models.test:8443/v1".into(),
            model: "large".into(),
            ..OpenAiConfig::default()
        };
        let mut config = Config { agent: "echo".into(), ..Config::default() };
        config.agents.insert("gpt".into(), AgentConfig::OpenAi(openai));
        let echo: Arc<dyn Agent> = Arc::new(Echo::new(EchoConfig::default()));
        let agents = BTreeMap::from([(AgentId::from("echo"), echo)]);
        let directory = Workshop::complete(&config, agents).unwrap();
        let model = |agent: &str| {
            let Model { name, provider } = directory.model(&agent.into());
            (name, provider)
        };
        assert_eq!(model("gpt"), ("large".into(), "models.test".into()));
        assert_eq!(model("echo"), ("echo".into(), "echo".into()));
        assert_eq!(model("gone"), ("gone".into(), "none".into()));
    }
}
