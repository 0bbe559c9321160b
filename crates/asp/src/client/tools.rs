//! The tools that a server offers.

use std::collections::BTreeMap;

use crate::message::{ToolDef, ToolDefFrame, ToolDefOp};

/// The server's tools by name, as the TOOL_DEF frames so far describe them.
#[derive(Debug, Default)]
pub(super) struct Tools {
    tools: BTreeMap<String, ToolDef>,
    rev: Option<u64>,
}

impl Tools {
    /// Applies one frame.
    pub(super) fn apply(&mut self, frame: ToolDefFrame) -> Applied {
        let mut applied = Applied::Changed;
        if let Some(rev) = frame.rev {
            match self.rev {
                Some(last) if rev <= last => return Applied::Stale,
                // A whole list leaves no gap behind.
                Some(last) if rev > last.saturating_add(1) && frame.op != ToolDefOp::Set => {
                    applied = Applied::Gap;
                }
                Some(_) | None => {}
            }
            self.rev = Some(rev);
        }
        match frame.op {
            ToolDefOp::Add => self.add(frame.tools),
            ToolDefOp::Set => {
                self.tools.clear();
                self.add(frame.tools);
            }
            ToolDefOp::Remove => frame.names.iter().for_each(|name| {
                self.tools.remove(name);
            }),
        }
        applied
    }

    /// All tools, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ToolDef> {
        self.tools.values()
    }

    /// Forgets everything; whether there was anything.
    pub(super) fn clear(&mut self) -> bool {
        let had = !self.tools.is_empty();
        *self = Self::default();
        had
    }

    fn add(&mut self, tools: Vec<ToolDef>) {
        for tool in tools {
            if self.tools.len() < MAX_TOOLS || self.tools.contains_key(&tool.name) {
                self.tools.insert(tool.name.clone(), tool);
            }
        }
    }
}

/// What a TOOL_DEF frame did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// The list is current.
    Changed,
    /// The list has changed, but a frame before this one is missing: ask for all of it.
    Gap,
    /// Already known.
    Stale,
}

const MAX_TOOLS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Map;

    fn frame(op: ToolDefOp, rev: impl Into<Option<u64>>, names: &[&str]) -> ToolDefFrame {
        let tool = |name: &&str| ToolDef {
            name: (*name).to_owned(),
            description: None,
            input_schema: Map::new(),
            output_schema: None,
            annotations: None,
            version: None,
            ttl_s: None,
        };
        let removed = names.iter().map(|name| (*name).to_owned());
        let (tools, names) = match op {
            ToolDefOp::Add | ToolDefOp::Set => (names.iter().map(tool).collect(), Vec::new()),
            ToolDefOp::Remove => (Vec::new(), removed.collect()),
        };
        ToolDefFrame { op, rev: rev.into(), tools, names }
    }

    #[test]
    fn adds_removes_and_sets() {
        let mut tools = Tools::default();
        assert_eq!(tools.apply(frame(ToolDefOp::Add, 3, &["a", "b"])), Applied::Changed);
        assert_eq!(tools.apply(frame(ToolDefOp::Remove, 4, &["a"])), Applied::Changed);
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["b"]);
        assert_eq!(tools.apply(frame(ToolDefOp::Add, 4, &["late"])), Applied::Stale);
        assert_eq!(tools.apply(frame(ToolDefOp::Add, 6, &["c"])), Applied::Gap);
        assert_eq!(tools.apply(frame(ToolDefOp::Set, 9, &["d"])), Applied::Changed);
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["d"]);
        assert_eq!(tools.apply(frame(ToolDefOp::Add, None, &["bare"])), Applied::Changed);
        assert!(tools.clear() && !tools.clear());
    }

    #[test]
    fn the_list_is_bounded() {
        let mut tools = Tools::default();
        let names: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        tools.apply(frame(ToolDefOp::Add, 1, &names));
        assert_eq!(tools.iter().count(), MAX_TOOLS);
    }
}
