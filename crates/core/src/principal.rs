//! Who is asking, and what they may do.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, PrincipalId};
use crate::time::Timestamp;

/// An authenticated identity, fixed when a connection is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose identity this is.
    pub id: PrincipalId,
    /// What the credential allows.
    pub scopes: Scopes,
    /// When the credential ends, if it does.
    pub expires_at: Option<Timestamp>,
}

impl Principal {
    /// A principal with every ordinary scope and no expiry.
    pub fn new(id: &str) -> Self {
        Self { id: PrincipalId::from(id), scopes: Scopes::default(), expires_at: None }
    }
}

/// One thing that a credential may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Open connections.
    Connect,
    /// Start turns.
    Invoke,
    /// Offer and use tools.
    Tools,
    /// Read every session through the admin API.
    Admin,
}

/// The scopes of a credential. A credential that names none has all but [`Scope::Admin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes {
    allowed: Vec<Scope>,
    agents: Option<Vec<AgentId>>,
}

impl Scopes {
    /// Reads a space-separated scope list.
    ///
    /// A protocol prefix (`asp:invoke`) names the same scope as the bare word. `agent:<id>`
    /// restricts the credential to the agents named. A list that is empty, or names only agents,
    /// means everything but [`Scope::Admin`]; one that names only what we do not know means nothing.
    pub fn parse(text: &str) -> Self {
        let mut scopes = Self { allowed: Vec::new(), agents: None };
        let mut silent = true;
        for word in text.split_ascii_whitespace() {
            if let Some(agent) = word.strip_prefix("agent:") {
                scopes.agents.get_or_insert_default().push(AgentId::from(agent));
                continue;
            }
            silent = false;
            let scope = match word.split_once(':') {
                Some((prefix, scope)) if PREFIXES.contains(&prefix) => scope,
                Some(_) => continue,
                None => word,
            };
            match scope {
                "connect" => scopes.allowed.push(Scope::Connect),
                "invoke" => scopes.allowed.push(Scope::Invoke),
                "tools" => scopes.allowed.push(Scope::Tools),
                "admin" => scopes.allowed.push(Scope::Admin),
                _ => {}
            }
        }
        if silent {
            scopes.allowed = Self::default().allowed;
        }
        scopes
    }

    /// Everything, the admin API included.
    pub fn all() -> Self {
        let mut scopes = Self::default();
        scopes.allowed.push(Scope::Admin);
        scopes
    }

    /// Whether `scope` is among them.
    pub fn allows(&self, scope: Scope) -> bool {
        self.allowed.contains(&scope)
    }

    /// The agent that was asked for, unless the credential reaches only others.
    pub fn reachable(&self, asked: &AgentId, all: &[AgentId]) -> AgentId {
        let reached = |agent: &&AgentId| self.allows_agent(agent);
        Some(asked).filter(reached).or_else(|| all.iter().find(reached)).unwrap_or(asked).clone()
    }

    /// Whether turns may be sent to `agent`.
    pub fn allows_agent(&self, agent: &AgentId) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }
}

impl Default for Scopes {
    fn default() -> Self {
        Self { allowed: vec![Scope::Connect, Scope::Invoke, Scope::Tools], agents: None }
    }
}

/// What a participant may do in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Opened the session; may do everything, also change participants.
    Owner,
    /// May start and interrupt turns and answer calls.
    Contributor,
    /// May only watch.
    Observer,
    /// Executes turns.
    Agent,
    /// Executes calls; may also watch.
    Device,
    /// Starts turns on devices and follows them.
    Orchestrator,
}

impl Role {
    /// Whether this role may start and interrupt turns.
    pub const fn may_submit(self) -> bool {
        matches!(self, Self::Owner | Self::Contributor | Self::Orchestrator)
    }

    /// Whether this role may answer calls.
    pub const fn may_answer(self) -> bool {
        matches!(self, Self::Owner | Self::Contributor | Self::Device)
    }
}

/// What may stand before a scope.
const PREFIXES: &[&str] = &["switchboard", "asp", "acolyte", "aip", "vip", "alicia"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_with_and_without_protocol_prefix() {
        let scopes = Scopes::parse("asp:connect invoke agent:echo something");
        assert!(scopes.allows(Scope::Connect) && scopes.allows(Scope::Invoke));
        assert!(!scopes.allows(Scope::Tools) && !scopes.allows(Scope::Admin));
        assert!(scopes.allows_agent(&"echo".into()) && !scopes.allows_agent(&"other".into()));
    }

    #[test]
    fn no_scope_means_all_but_admin() {
        let scopes = Scopes::parse("");
        assert!(scopes.allows(Scope::Tools) && !scopes.allows(Scope::Admin));
        assert!(scopes.allows_agent(&"any".into()));
    }

    #[test]
    fn naming_agents_alone_restricts_agents_alone() {
        let scopes = Scopes::parse("agent:echo agent:script");
        assert!(scopes.allows(Scope::Invoke) && !scopes.allows(Scope::Admin));
        assert!(scopes.allows_agent(&"script".into()) && !scopes.allows_agent(&"other".into()));
    }

    #[test]
    fn admin_is_given_only_by_name() {
        assert!(Scopes::all().allows(Scope::Admin));
        assert!(!Principal::new("ann").scopes.allows(Scope::Admin));
        let scopes = Scopes::parse("admin");
        assert!(scopes.allows(Scope::Admin) && !scopes.allows(Scope::Invoke));
    }

    #[test]
    fn each_role_may_do_what_it_is_for() {
        let roles =
            [Role::Owner, Role::Contributor, Role::Observer, Role::Agent, Role::Device, Role::Orchestrator];
        assert_eq!(roles.map(Role::may_submit), [true, true, false, false, false, true]);
        assert_eq!(roles.map(Role::may_answer), [true, true, false, false, true, false]);
    }
}
