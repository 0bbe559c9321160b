//! Secrets that the configuration names but does not hold.

use std::collections::BTreeMap;
use std::fmt;

/// Values of the environment variables that the configuration names. Never formatted, never
/// serialised.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets {
    values: BTreeMap<String, String>,
}

impl Secrets {
    /// From pairs of name and value.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { values: values.into_iter().collect() }
    }

    /// The value of a variable; none when it is unset or empty.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}
