//! What the process was started with besides its arguments; read in `main`, handed to commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variables of the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// An environment with these variables.
    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { variables: variables.into_iter().collect() }
    }

    /// The value of a variable that is set to something.
    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Every variable.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// The folder in which to remember things about the user's sessions.
    pub(crate) fn state_folder(&self) -> Option<PathBuf> {
        let folder = self.find("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = folder.or_else(|| Some(PathBuf::from(self.find("HOME")?).join(".local/state")))?;
        Some(folder.join("switchboard"))
    }
}
