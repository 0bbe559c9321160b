//! What the configuration says and probably does not mean: printed by `config check`, and at start.

use switchboard_core::{Scope, Scopes};

use super::sections::Config;
use crate::auth::key_scopes;

impl Config {
    /// What probably does not mean what it looks like, a sentence each, with its key.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, key) in self.auth.api_keys.iter().enumerate() {
            let scopes = key_scopes(key);
            let words = key.scopes.iter().flatten();
            for word in words {
                if let Some(why) = self.pointless(word, &scopes) {
                    warnings.push(format!("auth.api_keys[{index}].scopes: {word} {why}"));
                }
            }
        }
        if self.vip.allow_development == Some(true) && self.auth.has_credentials() {
            let who =
                if self.listen.ip().is_loopback() { "on this machine" } else { "who reaches this address" };
            warnings.push(format!(
                "vip.allow_development: anybody {who} makes VIP sessions without a credential"
            ));
        }
        warnings
    }

    /// Why a word of a list of scopes changes nothing.
    fn pointless(&self, word: &str, scopes: &Scopes) -> Option<&'static str> {
        let word = PROTOCOLS.iter().find_map(|protocol| word.strip_prefix(protocol)).unwrap_or(word);
        let (kind, pattern) = word.split_once(':')?;
        let fits = |name: &String| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        match kind {
            "agent" if !self.agents.keys().any(fits) => {
                Some("matches none of the agents that are configured")
            }
            "mcp" if !self.mcp.keys().any(fits) => Some("matches none of the servers under mcp"),
            "mcp" if !scopes.within("asp").allows(Scope::Tools) => Some("needs the scope tools beside it"),
            _ => None,
        }
    }
}

/// What may stand before a word of a list of scopes.
const PROTOCOLS: [&str; 6] = ["asp:", "acolyte:", "aip:", "vip:", "alicia:", "switchboard:"];
