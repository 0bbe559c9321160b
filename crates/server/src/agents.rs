//! The agents that the configuration names.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_agents::{Agent, Echo, OpenAi, Script, Secret};
use switchboard_core::AgentId;

use crate::config::{AgentConfig, Config};

/// Builds every configured agent; if one cannot be built, says which and why.
pub(crate) fn build(config: &Config) -> Result<BTreeMap<AgentId, Arc<dyn Agent>>, String> {
    let mut agents: BTreeMap<AgentId, Arc<dyn Agent>> = BTreeMap::new();
    for (name, agent) in &config.agents {
        let because = |reason: &dyn std::fmt::Display| format!("agents.{name}: {reason}");
        let agent: Arc<dyn Agent> = match agent {
            AgentConfig::Echo(echo) => Arc::new(Echo::new(echo.clone())),
            AgentConfig::Script(script) => Arc::new(Script::load(script).map_err(|error| because(&error))?),
            AgentConfig::Demo(_) => Arc::new(Script::demo().map_err(|error| because(&error))?),
            AgentConfig::OpenAi(openai) => {
                let mut openai = openai.clone();
                let key = openai.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
                openai.api_key = key.map(Secret::new);
                Arc::new(OpenAi::new(openai).map_err(|error| because(&error))?)
            }
            AgentConfig::Off(_) => continue,
        };
        agents.insert(AgentId::from(name.as_str()), agent);
    }
    Ok(agents)
}
