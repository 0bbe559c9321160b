//! Who is asking, and what they may do.

use serde::{Deserialize, Serialize};

use crate::id::PrincipalId;
use crate::scopes::Scopes;
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

    /// The same, with the scopes that count in connections of this protocol.
    #[must_use]
    pub fn within(mut self, protocol: &str) -> Self {
        self.scopes = self.scopes.within(protocol);
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_it_is_for() {
        let roles =
            [Role::Owner, Role::Contributor, Role::Observer, Role::Agent, Role::Device, Role::Orchestrator];
        assert_eq!(roles.map(Role::may_submit), [true, true, false, false, false, true]);
        assert_eq!(roles.map(Role::may_answer), [true, true, false, false, true, false]);
    }
}
