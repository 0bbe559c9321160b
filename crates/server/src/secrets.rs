//! What agents ask for with calls whose arguments are never stored: it is in memory until it is fetched, once.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use switchboard_core::model::CallKind;
use switchboard_core::{CallId, Op, Session, SessionId};

/// The arguments of calls that must not be stored.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<VecDeque<(SessionId, CallId, Arc<Value>)>>);

impl Secrets {
    /// Takes out of an op what must not be stored.
    pub(crate) fn keep(&self, session: &Session, op: &mut Op) {
        let Op::Request { calls, .. } = op else { return };
        for call in calls {
            let CallKind::Tool { name, args } = &mut call.kind else { continue };
            let mut tools = session.tools();
            let secret = tools.any(|tool| tool.name == *name && tool.options["secret"] == Value::Bool(true));
            // An op may come once more, when the log could not take it.
            if !secret || **args == REDACTED {
                continue;
            }
            let args = std::mem::replace(args, Value::String(REDACTED.to_owned()).into());
            let mut kept = self.0.lock();
            if kept.len() >= MOST_KEPT {
                kept.pop_front();
            }
            kept.push_back((session.id().clone(), call.id.clone(), args));
        }
    }

    /// The arguments of a call; they are forgotten by this.
    pub(crate) fn fetch(&self, session: &str, call: &str) -> Option<Arc<Value>> {
        let mut kept = self.0.lock();
        let place =
            kept.iter().position(|(known, id, _)| known.as_str() == session && id.as_str() == call)?;
        kept.remove(place).map(|(_, _, args)| args)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

const REDACTED: &str = "[REDACTED]";
const MOST_KEPT: usize = 1_024;
