//! The configuration, written out for people.

use std::fmt::Write as _;

use toml::Value;

use super::describe::{Describe, Key, Kind};
use super::sections::Config;

impl Config {
    /// Every key, in the order in which they are declared.
    pub fn keys() -> Vec<Key> {
        let defaults = Value::try_from(Self::default()).ok();
        let mut keys = Vec::new();
        Self::fields("", defaults.as_ref(), &mut keys);
        keys
    }

    /// A configuration file that holds every default, with an explanation of each key.
    pub fn default_toml() -> String {
        let mut text = String::from(
            "# Switchboard. Every key is optional; what stands here is the default.\n\
             # Order: this file, then SWITCHBOARD_… variables, then flags.\n",
        );
        let mut section = "";
        let keys = Self::keys();
        for key in &keys {
            if key.name.contains("[]") || key.name.contains("<name>") {
                continue;
            }
            let (parent, field) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
            if key.kind == Kind::Map {
                write_map(&mut text, key, &keys);
                continue;
            }
            if parent != section {
                let _ = write!(text, "\n[{parent}]\n");
                section = parent;
            }
            comment(&mut text, &key.doc);
            match &key.default {
                // An empty list would forbid the [[…]] tables that may follow.
                Some(Value::Array(list)) if list.is_empty() && key.kind == Kind::List(&Kind::Table) => {
                    let _ = writeln!(text, "# {field} = []");
                }
                Some(value) => {
                    let _ = writeln!(text, "{field} = {value}");
                }
                None => {
                    let _ = writeln!(text, "# {field} = {}", example(key.kind));
                }
            }
            if key.kind == Kind::List(&Kind::Table) {
                write_element(&mut text, key, &keys);
            }
        }
        text
    }

    /// Every key as a Markdown table.
    pub fn reference() -> String {
        let mut text =
            String::from("| Key | Type | Default | Environment | Meaning |\n|---|---|---|---|---|\n");
        for key in Self::keys() {
            let default = match &key.default {
                Some(Value::String(word)) if word.is_empty() => "required".to_owned(),
                Some(Value::Table(_)) => "built-in agents".to_owned(),
                Some(value) => format!("`{value}`"),
                None => "–".to_owned(),
            };
            let environment = key.environment().map_or_else(|| "–".to_owned(), |name| format!("`{name}`"));
            let _ = writeln!(
                text,
                "| `{}` | {} | {default} | {environment} | {} |",
                key.name,
                key.kind.word(),
                key.doc.replace('|', "\\|"),
            );
        }
        text
    }
}

fn comment(text: &mut String, doc: &str) {
    let mut line = String::from("#");
    text.push('\n');
    for word in doc.split_whitespace() {
        if line.len() + word.len() > 99 {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// Shows, commented out, what an element of a list of tables looks like.
fn write_element(text: &mut String, list: &Key, keys: &[Key]) {
    let prefix = format!("{}[].", list.name);
    let _ = writeln!(text, "# Each element is a table:");
    for key in keys {
        if let Some(field) = key.name.strip_prefix(&prefix) {
            let _ = writeln!(text, "#   {field}: {}. {}", key.kind.words(), key.doc);
        }
    }
}

/// Writes the tables of a map, below a description of what such a table may hold.
fn write_map(text: &mut String, map: &Key, keys: &[Key]) {
    comment(text, &map.doc);
    let prefix = format!("{}.<name>.", map.name);
    for key in keys {
        if let Some(field) = key.name.strip_prefix(&prefix) {
            let _ = writeln!(text, "#   {field}: {}. {}", key.kind.words(), key.doc);
        }
    }
    let Some(Value::Table(tables)) = &map.default else { return };
    for (name, table) in tables {
        let _ = write!(text, "\n[{}.{name}]\n", map.name);
        if let Value::Table(table) = table {
            for (field, value) in table {
                let _ = writeln!(text, "{field} = {value}");
            }
        }
    }
}

const fn example(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "true",
        Kind::Integer => "1",
        Kind::Number => "1.0",
        Kind::Text | Kind::Choice(_) | Kind::Other(_) => "\"…\"",
        Kind::Path => "\"path/to/file\"",
        Kind::Address => "\"127.0.0.1:4600\"",
        Kind::Ip => "\"127.0.0.1\"",
        Kind::List(_) => "[]",
        Kind::Table | Kind::Map => "{}",
    }
}
