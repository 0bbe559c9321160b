//! What a credential allows.
//!
//! A credential without a list of scopes has every ordinary one: all but [`Scope::Admin`]. A list means
//! exactly what it says. `agent:`, `device:`, `constellation:`, `target:` and `mcp:` name what may be
//! asked, what a connection may register as, which devices may be used and whose tools may be called;
//! a name is exact, or a prefix that ends in `*`.
//!
//! | In a list | Allows |
//! |---|---|
//! | `connect` `read` `invoke` `tools` `approve` `manage` `dispatch` `admin` | that scope, see [`Scope`] |
//! | `agent:<name>` | asking this agent and no other; brings `connect` and `invoke` with it |
//! | `device:<name>` | being this device; brings `connect` with it, and nothing else |
//! | `constellation:<name>` | being this orchestrator, and giving tasks to devices; brings `connect` with it |
//! | `target:<name>`, `target:<owner>/<name>` | using these devices, be they of others |
//! | `mcp:<server>` | calling the tools of this server directly, with `tools` |
//!
//! A protocol's name before a word (`asp:invoke`) makes it count there only.

use std::fmt;
use std::sync::Arc;

use crate::id::{AgentId, PrincipalId};
use crate::principal::Role;
use crate::rights::{Need, Right};

/// One thing that a credential may allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Open connections.
    Connect,
    /// Read what was said: transcripts, events, lists of sessions and devices.
    Read,
    /// Start turns, follow them and stop them.
    Invoke,
    /// Offer tools, answer their calls, and run tools directly.
    Tools,
    /// Answer when a tool asks whether it may run.
    Approve,
    /// Rename, archive and delete sessions, and say who takes part.
    Manage,
    /// Send devices work over HTTP.
    Dispatch,
    /// See everybody's sessions, and run the server.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Read,
        Self::Invoke,
        Self::Tools,
        Self::Approve,
        Self::Manage,
        Self::Dispatch,
        Self::Admin,
    ];

    /// The word in a list.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Invoke => "invoke",
            Self::Tools => "tools",
            Self::Approve => "approve",
            Self::Manage => "manage",
            Self::Dispatch => "dispatch",
            Self::Admin => "admin",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The scopes of a credential. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Scopes {
    /// What holds everywhere.
    granted: Arc<Granted>,
    /// The words that hold in one protocol only, with the protocol.
    elsewhere: Arc<[(&'static str, Word)]>,
}

/// The words of a list, put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Granted {
    scopes: u16,
    /// None: every agent.
    agents: Option<Vec<String>>,
    /// None: no word of the list names devices, orchestrators or targets.
    fleet: Option<Fleet>,
    /// None: the tools of every server.
    mcp: Option<Vec<String>>,
}

/// What a list says about devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fleet {
    devices: Vec<String>,
    orchestrators: Vec<String>,
    targets: Vec<Target>,
}

/// Devices that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// None: whoever's.
    owner: Option<String>,
    device: String,
}

/// One word of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Scope(Scope),
    Agent(String),
    Device(String),
    Constellation(String),
    Target(Target),
    Mcp(String),
}

impl Word {
    fn read(text: &str) -> Option<Self> {
        if let Some(scope) = Scope::ALL.into_iter().find(|scope| scope.word() == text) {
            return Some(Self::Scope(scope));
        }
        let (kind, name) = text.split_once(':').filter(|(_, name)| !name.is_empty())?;
        let name = name.to_owned();
        match kind {
            "agent" => Some(Self::Agent(name)),
            "device" => Some(Self::Device(name)),
            "constellation" => Some(Self::Constellation(name)),
            "target" => match name.rsplit_once('/') {
                Some((owner, device)) if !owner.is_empty() && !device.is_empty() => {
                    Some(Self::Target(Target { owner: Some(owner.to_owned()), device: device.to_owned() }))
                }
                Some(_) => None,
                None => Some(Self::Target(Target { owner: None, device: name })),
            },
            "mcp" => Some(Self::Mcp(name)),
            _ => None,
        }
    }

    /// The word, and the protocol in which alone it counts.
    fn read_prefixed(text: &str) -> Option<(Option<&'static str>, Self)> {
        if let Some(word) = Self::read(text) {
            return Some((None, word));
        }
        let (prefix, rest) = text.split_once(':')?;
        let word = Self::read(rest)?;
        if prefix == EVERYWHERE {
            return Some((None, word));
        }
        PROTOCOLS.into_iter().find(|protocol| *protocol == prefix).map(|protocol| (Some(protocol), word))
    }
}

impl Granted {
    fn nothing() -> Self {
        Self { mcp: Some(Vec::new()), ..Self::default() }
    }

    fn add(&mut self, word: Word) {
        match word {
            Word::Scope(scope) => self.scopes |= scope.bit(),
            Word::Agent(name) => {
                self.scopes |= Scope::Connect.bit() | Scope::Invoke.bit();
                self.agents.get_or_insert_default().push(name);
            }
            Word::Device(name) => {
                self.scopes |= Scope::Connect.bit();
                self.fleet.get_or_insert_default().devices.push(name);
            }
            Word::Constellation(name) => {
                self.scopes |= Scope::Connect.bit();
                self.fleet.get_or_insert_default().orchestrators.push(name);
            }
            Word::Target(target) => self.fleet.get_or_insert_default().targets.push(target),
            Word::Mcp(name) => self.mcp.get_or_insert_default().push(name),
        }
    }
}

impl Scopes {
    /// Reads a list of words with blanks between them. A word that means nothing here is left out, so
    /// that a list of such words allows nothing.
    pub fn parse(text: &str) -> Self {
        let (mut granted, mut elsewhere) = (Granted::nothing(), Vec::new());
        for (protocol, word) in text.split_ascii_whitespace().filter_map(Word::read_prefixed) {
            match protocol {
                None => granted.add(word),
                Some(protocol) => elsewhere.push((protocol, word)),
            }
        }
        Self { granted: Arc::new(granted), elsewhere: elsewhere.into() }
    }

    /// Everything, the scope `admin` included.
    pub fn all() -> Self {
        Self { granted: Arc::new(Granted { scopes: u16::MAX, ..Granted::default() }), ..Self::default() }
    }

    /// Whether a word of a list means anything.
    pub fn knows(word: &str) -> bool {
        Word::read_prefixed(word).is_some()
    }

    /// What counts in connections of this protocol.
    #[must_use]
    pub fn within(&self, protocol: &str) -> Self {
        if self.elsewhere.is_empty() {
            return self.clone();
        }
        let mut granted = Granted::clone(&self.granted);
        for (_, word) in self.elsewhere.iter().filter(|(name, _)| *name == protocol) {
            granted.add(word.clone());
        }
        Self { granted: Arc::new(granted), elsewhere: Arc::default() }
    }

    /// Whether `scope` is among them.
    pub fn allows(&self, scope: Scope) -> bool {
        self.granted.scopes & scope.bit() != 0
    }

    /// Whether the credential allows this, on a connection that is registered in the role, if it is.
    pub fn permit(&self, right: Right, registered: Option<Role>) -> bool {
        right.needs().iter().any(|need| match need {
            Need::Scope(scope) => self.allows(*scope),
            Need::Device => registered == Some(Role::Device),
            Need::Constellation => registered == Some(Role::Orchestrator),
        })
    }

    /// Whether turns may be sent to `agent`.
    pub fn allows_agent(&self, agent: &AgentId) -> bool {
        self.granted.agents.as_ref().is_none_or(|names| any_match(names, agent.as_str()))
    }

    /// The agent that was asked for, unless the credential reaches only others.
    pub fn reachable(&self, asked: &AgentId, all: &[AgentId]) -> AgentId {
        let reached = |agent: &&AgentId| self.allows_agent(agent);
        Some(asked).filter(reached).or_else(|| all.iter().find(reached)).unwrap_or(asked).clone()
    }

    /// Whether the tools of this MCP server may be called directly.
    pub fn allows_mcp(&self, server: &str) -> bool {
        self.allows(Scope::Tools) && self.granted.mcp.as_ref().is_none_or(|names| any_match(names, server))
    }

    /// Whether a connection may register under `name` in this role. Without any word about devices,
    /// whoever may offer tools may be a device, and whoever may start turns an orchestrator.
    pub fn allows_callsign(&self, role: Role, name: &str) -> bool {
        match (&self.granted.fleet, role) {
            (Some(fleet), Role::Device) => any_match(&fleet.devices, name),
            (Some(fleet), Role::Orchestrator) => any_match(&fleet.orchestrators, name),
            (None, Role::Device) => self.allows(Scope::Tools) || self.allows(Scope::Invoke),
            (None, Role::Orchestrator) => self.allows(Scope::Invoke),
            (_, Role::Owner | Role::Contributor | Role::Observer | Role::Agent) => false,
        }
    }

    /// Whether there is any name under which a connection may register.
    pub fn allows_enrolment(&self) -> bool {
        match &self.granted.fleet {
            Some(fleet) => !fleet.devices.is_empty() || !fleet.orchestrators.is_empty(),
            None => self.allows_callsign(Role::Device, ""),
        }
    }

    /// The names of devices that the list holds; none if it names no devices at all.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        let here = self.granted.fleet.iter().flat_map(|fleet| &fleet.devices);
        let elsewhere = self.elsewhere.iter().filter_map(|(_, word)| match word {
            Word::Device(name) => Some(name),
            Word::Scope(_) | Word::Agent(_) | Word::Constellation(_) | Word::Target(_) | Word::Mcp(_) => None,
        });
        here.chain(elsewhere).map(String::as_str)
    }

    /// Whether the list says anything about devices.
    pub fn names_devices(&self) -> bool {
        self.granted.fleet.is_some()
    }

    /// Whether this device of `owner`'s may be given work on behalf of `asker`.
    pub fn commands(&self, asker: &PrincipalId, owner: &PrincipalId, device: &str) -> bool {
        let mut targets = self.granted.fleet.iter().flat_map(|fleet| &fleet.targets);
        targets.any(|target| target.is(owner.as_str(), device)) || owner == asker && self.commands_its_own()
    }

    /// Whether a device whose tools are in a session may be used through it.
    pub fn uses_device(&self, device: &str) -> bool {
        let mut targets = self.granted.fleet.iter().flat_map(|fleet| &fleet.targets);
        targets.any(|target| matches(&target.device, device)) || self.commands_its_own()
    }

    /// Whether the devices of the same principal may be given work.
    fn commands_its_own(&self) -> bool {
        match &self.granted.fleet {
            Some(fleet) => !fleet.orchestrators.is_empty() || self.allows(Scope::Dispatch),
            None => self.allows(Scope::Invoke) || self.allows(Scope::Dispatch),
        }
    }
}

impl Target {
    fn is(&self, owner: &str, device: &str) -> bool {
        self.owner.as_ref().is_none_or(|named| matches(named, owner)) && matches(&self.device, device)
    }
}

impl Default for Scopes {
    fn default() -> Self {
        let granted = Granted { scopes: !Scope::Admin.bit(), ..Granted::default() };
        Self { granted: Arc::new(granted), elsewhere: Arc::default() }
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Scope::ALL.into_iter().filter(|scope| self.allows(*scope)).map(Scope::word);
        f.debug_set().entries(named).finish()
    }
}

/// Whether `name` is one of these, or begins like one that ends in `*`.
pub(crate) fn any_match(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}

/// What may stand before a word, so that it counts in one protocol only.
const PROTOCOLS: [&str; 5] = ["asp", "acolyte", "aip", "vip", "alicia"];
/// May stand before a word and changes nothing, for identity providers that ask for a name space.
const EVERYWHERE: &str = "switchboard";

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> AgentId {
        AgentId::from(name)
    }

    #[test]
    fn a_list_means_exactly_what_it_says() {
        let scopes = Scopes::parse("connect invoke something billing:admin");
        for scope in Scope::ALL {
            assert_eq!(scopes.allows(scope), matches!(scope, Scope::Connect | Scope::Invoke), "{scope:?}");
        }
        for nothing in ["", "openid email", "agent:", "device:", "target:", "target:/x", "target:x/"] {
            let scopes = Scopes::parse(nothing);
            assert!(Scope::ALL.into_iter().all(|scope| !scopes.allows(scope)), "{nothing}");
            assert!(!scopes.allows_enrolment() && !scopes.allows_mcp("m"), "{nothing}");
        }
    }

    #[test]
    fn no_list_means_all_but_admin() {
        let scopes = Scopes::default();
        for scope in Scope::ALL {
            assert_eq!(scopes.allows(scope), scope != Scope::Admin, "{scope:?}");
            assert!(Scopes::all().allows(scope));
        }
        assert!(scopes.allows_agent(&agent("any")) && scopes.allows_mcp("any"));
    }

    #[test]
    fn agents_are_named_exactly_or_by_prefix() {
        let scopes = Scopes::parse("agent:support-* agent:echo");
        assert!(scopes.allows(Scope::Connect) && scopes.allows(Scope::Invoke));
        assert!(!scopes.allows(Scope::Tools) && !scopes.allows(Scope::Read) && !scopes.allows(Scope::Manage));
        for (name, allowed) in [("echo", true), ("support-de", true), ("echo2", false), ("support", false)] {
            assert_eq!(scopes.allows_agent(&agent(name)), allowed, "{name}");
        }
        assert!(Scopes::parse("agent:*").allows_agent(&agent("any")));
        assert!(Scopes::parse("connect invoke").allows_agent(&agent("any")));
    }

    #[test]
    fn a_prefix_restricts_a_word_to_its_protocol() {
        let scopes = Scopes::parse("asp:connect asp:invoke asp:agent:echo vip:admin switchboard:read");
        assert!(!scopes.allows(Scope::Invoke) && !scopes.allows(Scope::Admin) && scopes.allows(Scope::Read));
        let asp = scopes.within("asp");
        assert!(asp.allows(Scope::Connect) && asp.allows(Scope::Invoke) && !asp.allows(Scope::Admin));
        assert!(asp.allows_agent(&agent("echo")) && !asp.allows_agent(&agent("other")));
        assert!(!scopes.within("acolyte").allows(Scope::Connect));
        assert!(scopes.within("vip").allows(Scope::Admin));
        assert_eq!(asp.within("vip"), asp, "what was narrowed once stays so");
    }

    #[test]
    fn naming_devices_allows_being_them_and_nothing_else() {
        let device = Scopes::parse("device:lab-* device:desk");
        assert!(
            device.allows_callsign(Role::Device, "lab-7") && device.allows_callsign(Role::Device, "desk")
        );
        assert!(!device.allows_callsign(Role::Device, "desk-2"));
        assert!(!device.allows_callsign(Role::Orchestrator, "lab-7"));
        assert_eq!(device.device_names().collect::<Vec<_>>(), ["lab-*", "desk"]);
        for right in Right::ALL {
            let expected = matches!(right, Right::Connect | Right::Open | Right::Discover);
            assert_eq!(device.permit(right, None), expected, "{right:?} before it is registered");
        }
        let ann = PrincipalId::from("ann");
        assert!(!device.commands(&ann, &ann, "lab-7") && !device.uses_device("lab-7"));
        let mixed = Scopes::parse("connect invoke device:pi-*");
        assert!(!mixed.commands(&ann, &ann, "pi-1") && !mixed.uses_device("pi-1"));
        assert!(!mixed.allows_callsign(Role::Orchestrator, "pi-1"));
    }

    #[test]
    fn targets_are_the_devices_that_may_be_used() {
        let (ann, bob) = (PrincipalId::from("ann"), PrincipalId::from("bob"));
        let named = Scopes::parse("constellation:ctl target:lab-* target:bob/pi-*");
        assert!(named.commands(&ann, &ann, "lab-9") && named.commands(&ann, &bob, "lab-9"));
        assert!(named.commands(&ann, &bob, "pi-1") && !named.commands(&ann, &bob, "desk"));
        assert!(named.commands(&ann, &ann, "desk"), "an orchestrator uses the devices of its principal");
        let narrow = Scopes::parse("connect invoke target:lab-*");
        assert!(narrow.commands(&ann, &ann, "lab-1") && !narrow.commands(&ann, &ann, "desk"));
        assert!(narrow.uses_device("lab-1") && !narrow.uses_device("desk"));
        let owner = Scopes::parse("target:https://id.example|ann/pi-1");
        assert!(owner.commands(&bob, &PrincipalId::from("https://id.example|ann"), "pi-1"));
    }

    #[test]
    fn without_a_word_about_devices_the_other_scopes_decide() {
        let ann = PrincipalId::from("ann");
        let plain = Scopes::parse("connect invoke");
        assert!(plain.allows_callsign(Role::Device, "x") && plain.allows_callsign(Role::Orchestrator, "x"));
        assert!(plain.commands(&ann, &ann, "x") && !plain.commands(&ann, &"bob".into(), "x"));
        assert!(!Scopes::parse("connect").allows_enrolment());
        assert!(!Scopes::parse("connect read").commands(&ann, &ann, "x"));
        assert!(!Scopes::parse("connect tools").allows_callsign(Role::Orchestrator, "x"));
    }

    #[test]
    fn tools_of_servers_are_called_by_name() {
        let scopes = Scopes::parse("connect tools mcp:git*");
        assert!(scopes.allows_mcp("github") && !scopes.allows_mcp("files"));
        assert!(!Scopes::parse("connect tools").allows_mcp("github"));
        assert!(!Scopes::parse("mcp:github").allows_mcp("github"), "it takes the scope tools too");
    }

    #[test]
    fn words_that_mean_something_are_known() {
        let known = [
            "connect",
            "asp:invoke",
            "admin",
            "agent:echo",
            "agent:*",
            "device:lab-*",
            "aip:target:x",
            "dispatch",
            "asp:agent:echo",
            "target:ann/x",
            "mcp:files",
            "read",
            "approve",
            "manage",
        ];
        for word in known {
            assert!(Scopes::knows(word), "{word}");
        }
        for word in ["", "everything", "agent:", "device:", "x:connect", "asp:x", "asp:vip:connect"] {
            assert!(!Scopes::knows(word), "{word}");
        }
    }
}
