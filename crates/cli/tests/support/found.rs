//! What a peer in another language says: one line per check, `ok NAME` or `FAIL NAME why`.

use std::collections::BTreeMap;
use std::process::Output;

/// The checks of a peer by name, and what was wrong.
pub(crate) struct Found {
    pub(crate) checks: BTreeMap<String, Option<String>>,
    /// How the peer ended, and what else it said.
    pub(crate) said: String,
}

impl Found {
    pub(crate) fn read(output: &Output) -> Self {
        let said = String::from_utf8_lossy(&output.stdout);
        let mut checks = BTreeMap::new();
        for line in said.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["ok", name] => checks.insert((*name).to_owned(), None),
                ["FAIL", name, why @ ..] => checks.insert((*name).to_owned(), Some(why.join(" "))),
                _ => None,
            };
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        Self { checks, said: format!("{}\n{errors}", output.status) }
    }

    /// Every check whose name begins like this passed, and there is one.
    pub(crate) fn holds(&self, name: &str) {
        let mut known = self.checks.iter().filter(|(check, _)| check.starts_with(name)).peekable();
        assert!(known.peek().is_some(), "no check shows {name}: {}", self.said);
        let failed: Vec<_> = known.filter(|(_, wrong)| wrong.is_some()).collect();
        assert!(failed.is_empty(), "{failed:#?}\n{}", self.said);
    }
}
