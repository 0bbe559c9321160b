//! Names of tools that models take.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_core::ToolName;

/// The names under which a model knows tools, for as long as it remembers them: a name that it was told once
/// never means another tool, whatever comes and goes.
#[derive(Debug, Default)]
pub(crate) struct ModelNames {
    given: BTreeMap<ToolName, String>,
    taken: BTreeSet<String>,
}

impl ModelNames {
    /// What the model calls this tool.
    pub(crate) fn of(&mut self, tool: &ToolName) -> String {
        if let Some(name) = self.given.get(tool) {
            return name.clone();
        }
        let name = free_name(tool.as_str(), |name| self.taken.contains(name));
        self.taken.insert(name.clone());
        self.given.insert(tool.clone(), name.clone());
        name
    }
}

/// A name of letters, digits, `_` and `-`, at most 64, that is not taken yet.
pub(crate) fn free_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let plain: String = name.chars().map(allowed).take(MAX_NAME).collect();
    let plain = if plain.is_empty() { "tool".to_owned() } else { plain };
    let mut free = plain.clone();
    let mut number = 1;
    while taken(&free) {
        number += 1;
        let suffix = format!("_{number}");
        let kept: String = plain.chars().take(MAX_NAME - suffix.len()).collect();
        free = kept + &suffix;
    }
    free
}

const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_legal_and_stays_with_its_tool() {
        let mut names = ModelNames::default();
        let mut of = |name: &str| names.of(&ToolName::from(name));
        assert_eq!(of("cart.add:item"), "cart_add_item");
        assert_eq!(of("cart:add.item"), "cart_add_item_2");
        assert_eq!(of("cart_add_item"), "cart_add_item_3");
        assert_eq!(of("cart.add:item"), "cart_add_item");
        assert_eq!((of("ö"), of("..."), of("")), ("_".into(), "___".into(), "tool".into()));
        let long = of(&"a.".repeat(60));
        assert_eq!((long.len(), of(&"a:".repeat(60)).len()), (64, 64));
    }
}
