//! What is on the screen, as people speak of it: for whoever has to understand them.

use crate::action;

use super::{Context, tree};

/// The labels and descriptions of what can be done now, of the pages there are, and of what is shown; the nearest to
/// an action first.
pub(crate) fn labels(context: &Context) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    let mut add = |label: &str| {
        let label: String = label.trim().chars().take(LONGEST).collect();
        if !label.is_empty() && labels.len() < MOST && !labels.contains(&label) {
            labels.push(label);
        }
    };
    for (_, action) in action::invocable(context) {
        action.label.iter().for_each(|label| add(label));
        add(&action.description);
        action.options.iter().for_each(|option| add(option));
    }
    for route in &context.routes {
        add(route.title.as_deref().unwrap_or(&route.target));
    }
    context.tree.iter().flat_map(tree::labels).for_each(add);
    labels
}

/// Labels that are told, and letters of each.
const MOST: usize = 512;
const LONGEST: usize = 128;
