//! The agents that the configuration names.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_agents::{
    Agent, DeviceScript, DeviceTools, Echo, Function, OpenAi, Relay, Script, Secret, WithDevice,
};
use switchboard_core::AgentId;

use crate::config::{AgentConfig, Config};

/// Builds every configured agent; if one cannot be built, says which and why.
pub(crate) fn build(
    config: &Config,
    relay: &Arc<Relay>,
) -> Result<BTreeMap<AgentId, Arc<dyn Agent>>, String> {
    let mut agents: BTreeMap<AgentId, Arc<dyn Agent>> = BTreeMap::new();
    let device_tools = Arc::new(DeviceTools::new(config.aip.command.clone()));
    if config.aip.test_planner {
        agents.insert(AgentId::from(TEST_PLANNER), Arc::new(DeviceScript));
    }
    for (name, agent) in &config.agents {
        let because = |reason: &dyn std::fmt::Display| format!("agents.{name}: {reason}");
        let agent: Arc<dyn Agent> = match agent {
            AgentConfig::Echo(echo) => Arc::new(Echo::new(echo.clone())),
            AgentConfig::Script(script) => {
                let script = Script::load(script).map_err(|error| because(&error))?;
                Arc::new(WithDevice::new(script, device_tools.clone()))
            }
            AgentConfig::Demo(_) => {
                let script = Script::demo().map_err(|error| because(&error))?;
                Arc::new(WithDevice::new(script, device_tools.clone()))
            }
            AgentConfig::OpenAi(openai) => {
                let mut openai = openai.clone();
                let key = openai.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
                openai.api_key = key.map(Secret::new);
                let openai = OpenAi::new(openai).map_err(|error| because(&error))?;
                Arc::new(WithDevice::new(openai, device_tools.clone()))
            }
            AgentConfig::Function(function) => {
                let mut function = function.clone();
                let secret = function.secret_env.as_deref().and_then(|name| config.secrets.find(name));
                function.secret = secret.map(Secret::new);
                Arc::new(Function::new(function, relay.clone()).map_err(|error| because(&error))?)
            }
            AgentConfig::Off(_) => continue,
        };
        agents.insert(AgentId::from(name.as_str()), agent);
    }
    Ok(agents)
}

/// The name of the deterministic planner of AIP's reference, where it is switched on.
pub(crate) const TEST_PLANNER: &str = "aip-script";
