//! The structure of a screen: looked at node by node, however deep somebody nests it.

use serde_json::Value;

use super::ContextFault;
use super::members::{Members, invalid, too_large};

const MAX_DEPTH: usize = 12;
const MAX_NODES: usize = 1000;
const KINDS: [&str; 10] =
    ["region", "heading", "text", "list", "item", "form", "field", "button", "link", "dialog"];

/// Checks every node.
pub(super) fn check(tree: &Value) -> Result<(), ContextFault> {
    let Some(roots) = tree.as_array() else { return Err(invalid("/tree", "must be a list")) };
    let mut open: Vec<(&Value, String, usize)> = Vec::new();
    let mut nodes = roots.len();
    open.extend(at(roots, "/tree", 1));
    while let Some((node, path, depth)) = open.pop() {
        if nodes > MAX_NODES {
            return Err(too_large("/tree", "has more than 1000 nodes"));
        }
        if depth > MAX_DEPTH {
            return Err(too_large(path, "is nested more than 12 levels deep"));
        }
        let members = Members::of(node, path)?;
        members.required_text("id", 256)?;
        let kind = members.required_text("kind", 16)?;
        if !KINDS.contains(&kind.as_str()) {
            return Err(members.invalid("kind", "is none of the possible values"));
        }
        members.text("label", 256)?;
        members.text("action_id", 64)?;
        if let Some(children) = members.list("children")? {
            nodes = nodes.saturating_add(children.len());
            // Not even begun with more than is allowed.
            let room = (MAX_NODES + 1).saturating_sub(open.len());
            open.extend(at(children, &members.path("children"), depth + 1).take(room));
        }
    }
    Ok(())
}

/// What its nodes are called, from the top.
pub(super) fn labels(tree: &Value) -> impl Iterator<Item = &str> {
    let mut open: Vec<&Value> = tree.as_array().into_iter().flatten().rev().collect();
    let nodes = std::iter::from_fn(move || {
        let node = open.pop()?;
        open.extend(node["children"].as_array().into_iter().flatten().rev());
        Some(node)
    });
    nodes.take(MAX_NODES).filter_map(|node| node["label"].as_str())
}

fn at<'a>(nodes: &'a [Value], path: &str, depth: usize) -> impl Iterator<Item = (&'a Value, String, usize)> {
    nodes
        .iter()
        .enumerate()
        .take(MAX_NODES + 1)
        .map(move |(place, node)| (node, format!("{path}/{place}"), depth))
}
