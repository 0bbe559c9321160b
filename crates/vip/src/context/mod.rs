//! What is on the screen and what may be done there (§8): the Voice Interaction Tree.
//!
//! An update is looked at as a whole before anything of it takes effect (VIP-043).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

mod action;
mod apply;
mod labels;
mod members;
mod tree;

pub(crate) use labels::labels;

pub use action::{Action, Channel, Confirmation, Executor, InputType};

use crate::error::{Code, Fault};
use crate::message::Warning;

/// The names that the runtime answers itself.
pub const BUILTIN: [&str; 3] = ["get_available_routes", "get_system_states", "get_system_functions"];
/// The action that asks the user, where the application has none of its own.
pub const SYSTEM_CONFIRM: &str = "system.confirm";

/// What is on the screen and what may be done there.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Grows with every update.
    pub version: u64,
    /// The page.
    pub route: Route,
    /// The pages that can be gone to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Target>,
    /// The screen in words.
    pub narration: String,
    /// Everything that may be done, by its id.
    pub actions: BTreeMap<String, Action>,
    /// What of it can be seen.
    pub visibility: BTreeSet<String>,
    /// What the application has besides, of types that are not known here.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ignored: BTreeSet<String>,
    /// The structure of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Value>,
    /// What else the application wants to be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A page or screen.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Its id.
    pub id: String,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// A page that can be gone to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What to name in order to go there.
    pub target: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// An update that was accepted.
#[derive(Clone, PartialEq)]
pub struct Applied {
    /// What it leads to.
    pub context: Context,
    /// The actions in it that are of types that are not known.
    pub ignored: Vec<String>,
    /// What could be better.
    pub warnings: Vec<Warning>,
}

/// Why an update was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} at {path}: {message}")]
pub struct ContextFault {
    /// `CTX_INVALID`, `CTX_VERSION_CONFLICT` or `CTX_TOO_LARGE`.
    pub code: Code,
    /// Where, as a JSON pointer into the update.
    pub path: String,
    /// For a person; without content.
    pub message: String,
}

impl From<ContextFault> for Fault {
    fn from(fault: ContextFault) -> Self {
        let ContextFault { code, path, message } = fault;
        let place = if path.is_empty() { message } else { format!("{path}: {message}") };
        Self::new(code).because(place).with(json!({"path": path}))
    }
}

impl Context {
    /// The context that an update leads to, where no types but those of the reference are known.
    ///
    /// # Errors
    /// The update breaks a rule; nothing of it takes effect.
    pub fn apply(current: Option<&Self>, update: &Value) -> Result<Applied, ContextFault> {
        Self::apply_knowing(current, update, &[])
    }

    /// The context that an update leads to, where these vendor types (`x-…`) are known besides.
    ///
    /// # Errors
    /// The update breaks a rule; nothing of it takes effect.
    pub fn apply_knowing(
        current: Option<&Self>,
        update: &Value,
        vendor_types: &[String],
    ) -> Result<Applied, ContextFault> {
        apply::apply(current, update, vendor_types)
    }

    /// Whether an action can be seen, or need not be.
    pub fn is_in_reach(&self, id: &str, action: &Action) -> bool {
        action.global || action.is_navigation() || self.visibility.contains(id)
    }

    /// Whether this page can be gone to.
    pub fn has_target(&self, target: &str) -> bool {
        self.routes.iter().any(|route| route.target == target)
    }
}

// What is on somebody's screen is not for logs.
impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context(version {}, {} actions)", self.version, self.actions.len())
    }
}

impl std::fmt::Debug for Applied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Applied({:?}, {} ignored)", self.context, self.ignored.len())
    }
}

crate::message::quiet!(Route, Target);

#[cfg(test)]
mod tests;
