//! What was put into password fields, so that it is recognised wherever the app says it again (§13).
//!
//! It is known to the transport that has sent it and to nobody else; nothing of it is put on record.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

use crate::action;
use crate::message::ActionResult;

/// Values that must not be kept.
#[derive(Default)]
pub(super) struct Secrets(VecDeque<String>);

impl Secrets {
    /// Remembers what is about to be put into a password field.
    pub(super) fn keep(&mut self, value: &Value) {
        let Some(secret) = value.as_str().filter(|secret| !secret.is_empty()) else { return };
        if self.0.iter().any(|known| known == secret) {
            return;
        }
        if self.0.len() >= MOST_SECRETS {
            self.0.pop_front();
        }
        self.0.push_back(secret.to_owned());
    }

    /// Takes them out of a value.
    pub(super) fn hide_in(&self, value: &mut Value) {
        for secret in &self.0 {
            action::censor(value, secret);
        }
    }

    /// What the app answers, without them.
    pub(super) fn hidden_in(&self, result: &ActionResult) -> ActionResult {
        let mut result = result.clone();
        if let Some(data) = &mut result.data {
            self.hide_in(data);
        }
        if let Some(error) = &mut result.error {
            for secret in &self.0 {
                error.code = error.code.replace(secret, action::REDACTED);
                error.message = error.message.replace(secret, action::REDACTED);
            }
        }
        result
    }

    /// Takes them out of what the app says is on the screen, where it speaks of content.
    pub(super) fn hide_in_update(&self, update: &mut Value) {
        // What is shorter than a password would be found in everything.
        for secret in self.0.iter().filter(|secret| secret.chars().count() >= SHORTEST_ON_SCREEN) {
            for member in ["narration", "tree", "data"] {
                if let Some(content) = update.get_mut(member) {
                    action::censor(content, secret);
                }
            }
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

const MOST_SECRETS: usize = 32;
const SHORTEST_ON_SCREEN: usize = 4;
