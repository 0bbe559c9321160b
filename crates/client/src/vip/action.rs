//! What the app does when it is asked to.

use std::collections::BTreeMap;

use serde_json::Value;
use switchboard_vip::client::{Execution, Outcome};

use crate::tool;

/// What has become of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub(super) outcome: Outcome,
    pub(super) screen: Option<Value>,
}

impl Answer {
    /// It was done.
    pub fn done() -> Self {
        Self { outcome: Outcome::Done(None), screen: None }
    }

    /// It was done, and this is what came out.
    pub fn with(value: Value) -> Self {
        Self { outcome: Outcome::Done(Some(value)), screen: None }
    }

    /// It was not done, or not wholly; `executed` says whether anything may have changed.
    pub fn failed(message: impl Into<String>, executed: bool) -> Self {
        Self { outcome: Outcome::Failed { message: message.into(), executed }, screen: None }
    }

    /// What is on the screen now; a navigation has to say that.
    #[must_use]
    pub fn showing(mut self, screen: Value) -> Self {
        self.screen = Some(screen);
        self
    }
}

/// Does one kind of action.
pub(super) type Handler = tool::Handler<Execution, Answer>;

/// Handlers by the id of their action.
pub(super) type Handlers = BTreeMap<String, Handler>;
