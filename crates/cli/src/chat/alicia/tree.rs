//! The messages of a conversation as the tree they are.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_client::alicia::MessageRow;

use crate::chat::past::{Past, Who};
use crate::console::one_line;

/// All messages of a conversation, and which of them are on the active path.
#[derive(Debug)]
pub(super) struct Tree {
    rows: Vec<MessageRow>,
    /// The places of the messages that follow each one, and of those that follow none, in their order.
    children: BTreeMap<Option<String>, Vec<usize>>,
    /// From the first message to the tip.
    path: Vec<usize>,
}

impl Tree {
    pub(super) fn new(rows: Vec<MessageRow>, tip: Option<&str>) -> Self {
        let places: BTreeMap<&str, usize> =
            rows.iter().enumerate().map(|(place, row)| (row.id.as_str(), place)).collect();
        let mut children: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
        for (place, row) in rows.iter().enumerate() {
            // A parent that is not here is none.
            let parent = row.previous_id.clone().filter(|parent| places.contains_key(parent.as_str()));
            children.entry(parent).or_default().push(place);
        }
        let mut path = Vec::new();
        let mut next = tip.and_then(|tip| places.get(tip).copied());
        // A path is no longer than there are messages, even if they point in a circle.
        while let Some(place) = next.filter(|_| path.len() < rows.len()) {
            path.push(place);
            let previous = rows.get(place).and_then(|row| row.previous_id.as_deref());
            next = previous.and_then(|previous| places.get(previous).copied());
        }
        path.reverse();
        Self { rows, children, path }
    }

    /// The newest message of this role on the active path.
    pub(super) fn newest(&self, role: &str) -> Option<&MessageRow> {
        self.active().rev().find(|row| row.role == role)
    }

    /// The active path as it is shown, the newest first.
    pub(super) fn past(&self, most: usize) -> Vec<Past> {
        let shown = self.active().rev().filter(|row| row.role != "system").take(most);
        shown.map(|row| self.shown(row)).collect()
    }

    /// The last message of every branch.
    pub(super) fn leaves(&self) -> Vec<&str> {
        self.walk()
            .into_iter()
            .filter(|(_, _, leaf)| leaf.is_some())
            .map(|(row, _, _)| row.id.as_str())
            .collect()
    }

    /// The whole tree, with the numbers of its branches.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        let active: BTreeSet<&str> = self.active().map(|row| row.id.as_str()).collect();
        let line = |(row, depth, leaf): (&MessageRow, usize, Option<usize>)| {
            let mark = if active.contains(row.id.as_str()) { '*' } else { ' ' };
            let who = if row.role == "user" { "> " } else { "" };
            let place = self.shown(row).place.map(|place| format!(" {place}")).unwrap_or_default();
            let leaf = leaf.map(|leaf| format!(" [{leaf}]")).unwrap_or_default();
            let indent = "  ".repeat(depth.min(MAX_INDENT));
            format!("{mark} {indent}{who}{}{place}{leaf}", one_line(&row.contents, width))
        };
        self.walk().into_iter().map(line).collect()
    }

    /// Every message, each before those that follow it: how deep it stands, and the number of its branch
    /// if it ends one. A branch is indented where it leaves another.
    fn walk(&self) -> Vec<(&MessageRow, usize, Option<usize>)> {
        let (mut walked, mut leaves) = (Vec::new(), 0);
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        let enter = |parent: Option<&str>, depth: usize, waiting: &mut Vec<(usize, usize)>| {
            let following = self.children.get(&parent.map(str::to_owned)).map_or(&[][..], Vec::as_slice);
            let depth = if following.len() > 1 { depth + 1 } else { depth };
            waiting.extend(following.iter().rev().map(|place| (*place, depth)));
            following.is_empty()
        };
        enter(None, 0, &mut waiting);
        while let Some((place, depth)) = waiting.pop() {
            let Some(row) = self.rows.get(place) else { continue };
            let is_leaf = enter(Some(&row.id), depth, &mut waiting);
            leaves += usize::from(is_leaf);
            walked.push((row, depth, is_leaf.then_some(leaves)));
        }
        walked
    }

    fn active(&self) -> impl DoubleEndedIterator<Item = &MessageRow> {
        self.path.iter().filter_map(|place| self.rows.get(*place))
    }

    fn shown(&self, row: &MessageRow) -> Past {
        let siblings: Vec<&MessageRow> = self
            .rows
            .iter()
            .filter(|other| other.previous_id == row.previous_id && other.role == row.role)
            .collect();
        let place = siblings.iter().position(|other| other.id == row.id).filter(|_| siblings.len() > 1);
        Past {
            who: if row.role == "user" { Who::User } else { Who::Agent },
            text: row.contents.clone(),
            partial: matches!(row.completion_status.as_deref(), Some("failed" | "streaming" | "pending")),
            place: place.map(|place| format!("{}/{}", place + 1, siblings.len())),
        }
    }
}

const MAX_INDENT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, previous: Option<&str>, role: &str, text: &str) -> MessageRow {
        serde_json::from_value(serde_json::json!({
            "id": id, "conversation_id": "ac_1", "sequence_number": 1, "previous_id": previous,
            "role": role, "contents": text,
        }))
        .unwrap()
    }

    fn tree(tip: &str) -> Tree {
        let rows = vec![
            row("q1", None, "user", "hi"),
            row("a1", Some("q1"), "assistant", "hello"),
            row("a2", Some("q1"), "assistant", "good day"),
            row("q2", Some("a1"), "user", "bye"),
            row("q3", Some("a1"), "user", "wait"),
            row("a3", Some("q3"), "assistant", "I wait"),
        ];
        Tree::new(rows, Some(tip))
    }

    #[test]
    fn branches_are_indented_and_numbered_and_the_active_one_is_marked() {
        let expected = [
            "* > hi",
            "*   hello 1/2",
            "      > bye 1/2 [1]",
            "*     > wait 2/2",
            "*     I wait [2]",
            "    good day 2/2 [3]",
        ];
        assert_eq!(tree("a3").lines(80), expected);
        assert_eq!(tree("a3").leaves(), ["q2", "a3", "a2"]);
    }

    #[test]
    fn the_active_path_is_what_leads_to_the_tip() {
        let past: Vec<String> = tree("a3").past(3).into_iter().map(|past| past.text).collect();
        assert_eq!(past, ["I wait", "wait", "hello"]);
        let tree = tree("a2");
        assert_eq!(tree.newest("user").unwrap().id, "q1");
        assert_eq!(tree.newest("assistant").unwrap().id, "a2");
        assert_eq!(tree.past(1)[0].place.as_deref(), Some("2/2"));
    }

    #[test]
    fn messages_that_point_in_a_circle_end() {
        let rows = vec![row("a", Some("b"), "user", "a"), row("b", Some("a"), "user", "b")];
        let tree = Tree::new(rows, Some("a"));
        assert_eq!(tree.past(10).len(), 2);
        assert!(tree.lines(10).is_empty());
    }
}
