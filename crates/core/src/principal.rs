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
    /// What is said about devices and whoever drives them; none if nothing is.
    fleet: Option<Box<FleetScopes>>,
}

/// What a credential says about devices. Each name is exact, or a prefix that ends in `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FleetScopes {
    devices: Vec<String>,
    orchestrators: Vec<String>,
    targets: Vec<String>,
    dispatch: bool,
}

impl Scopes {
    /// Reads a space-separated scope list.
    ///
    /// A protocol prefix (`asp:invoke`) names the same scope as the bare word. `agent:<id>`
    /// restricts the credential to the agents named. `device:<name>` and `constellation:<name>` say
    /// under which names it may enrol, `target:<name>` which devices of others it may use, `dispatch`
    /// that it may send them work over HTTP; a credential that says nothing of this may enrol under
    /// any name, and use its own devices. A list that is empty, or names only agents and devices,
    /// means everything but [`Scope::Admin`]; one that names only what we do not know means nothing.
    pub fn parse(text: &str) -> Self {
        let mut scopes = Self { allowed: Vec::new(), agents: None, fleet: None };
        let mut silent = true;
        for word in text.split_ascii_whitespace() {
            if let Some(agent) = word.strip_prefix("agent:") {
                scopes.agents.get_or_insert_default().push(AgentId::from(agent));
                continue;
            }
            if scopes.read_fleet(word) {
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

    /// Whether a word of a scope list means anything here.
    pub fn knows(word: &str) -> bool {
        let bare = match word.split_once(':') {
            Some((prefix, rest)) if PREFIXES.contains(&prefix) => rest,
            _ => word,
        };
        let fleet = word.strip_prefix("aip:").unwrap_or(word);
        let names = |word: &str, kind: &str| word.strip_prefix(kind).is_some_and(|name| !name.is_empty());
        matches!(bare, "connect" | "invoke" | "tools" | "admin")
            || names(word, "agent:")
            || fleet == "dispatch"
            || ["device:", "constellation:", "target:"].into_iter().any(|kind| names(fleet, kind))
    }

    fn read_fleet(&mut self, word: &str) -> bool {
        let word = word.strip_prefix("aip:").unwrap_or(word);
        let (kind, name) = word.split_once(':').unwrap_or((word, ""));
        if !matches!(kind, "device" | "constellation" | "target" | "dispatch") {
            return false;
        }
        let fleet = self.fleet.get_or_insert_default();
        match kind {
            "device" => fleet.devices.push(name.to_owned()),
            "constellation" => fleet.orchestrators.push(name.to_owned()),
            "target" => fleet.targets.push(name.to_owned()),
            _ => fleet.dispatch = true,
        }
        true
    }

    /// Whether the list says anything about devices.
    pub fn names_devices(&self) -> bool {
        self.fleet.is_some()
    }

    /// The names of devices that the list holds; none if it names no devices at all.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        self.fleet.iter().flat_map(|fleet| &fleet.devices).map(String::as_str)
    }

    /// Whether a connection may enrol under `name` in this role.
    pub fn allows_callsign(&self, role: Role, name: &str) -> bool {
        let Some(fleet) = &self.fleet else { return true };
        match role {
            Role::Device => any_match(&fleet.devices, name),
            Role::Orchestrator => any_match(&fleet.orchestrators, name),
            Role::Owner | Role::Contributor | Role::Observer | Role::Agent => false,
        }
    }

    /// Whether there is any name under which a connection may enrol.
    pub fn allows_enrolment(&self) -> bool {
        self.fleet.as_ref().is_none_or(|fleet| !fleet.devices.is_empty() || !fleet.orchestrators.is_empty())
    }

    /// Whether the credential reaches a device of somebody else's.
    pub fn targets(&self, name: &str) -> bool {
        self.fleet.as_ref().is_some_and(|fleet| any_match(&fleet.targets, name))
    }

    /// Whether devices may be sent work over HTTP.
    pub fn allows_dispatch(&self) -> bool {
        self.fleet.as_ref().is_none_or(|fleet| fleet.dispatch)
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
        Self { allowed: vec![Scope::Connect, Scope::Invoke, Scope::Tools], agents: None, fleet: None }
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

/// Whether `name` is one of these, or begins like one that ends in `*`.
pub(crate) fn any_match(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    })
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
    fn devices_are_bound_to_their_credential_once_it_names_any() {
        let silent = Scopes::parse("connect invoke");
        assert!(silent.allows_callsign(Role::Device, "x") && silent.allows_callsign(Role::Orchestrator, "x"));
        assert!(silent.allows_dispatch() && silent.allows_enrolment() && !silent.targets("x"));
        let lab = Scopes::parse("device:lab-* device:desk target:lab-*");
        assert!(lab.allows(Scope::Connect), "nothing else is restricted by it");
        assert!(lab.allows_callsign(Role::Device, "lab-7") && lab.allows_callsign(Role::Device, "desk"));
        assert!(!lab.allows_callsign(Role::Device, "desk-2") && !lab.allows_callsign(Role::Device, "la"));
        assert!(!lab.allows_callsign(Role::Orchestrator, "lab-7") && !lab.allows_dispatch());
        assert!(lab.targets("lab-9") && !lab.targets("desk"));
        let watcher = Scopes::parse("aip:target:lab-* aip:dispatch");
        assert!(watcher.allows_dispatch() && !watcher.allows_enrolment() && watcher.targets("lab-1"));
    }

    #[test]
    fn words_that_mean_something_are_known() {
        for word in
            ["connect", "asp:invoke", "admin", "agent:echo", "device:lab-*", "aip:target:x", "dispatch"]
        {
            assert!(Scopes::knows(word), "{word}");
        }
        for word in ["", "everything", "agent:", "device:", "x:connect", "asp:agent:echo", "asp:dispatch"] {
            assert!(!Scopes::knows(word), "{word}");
        }
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
