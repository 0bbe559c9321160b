//! Names that tools of MCP servers are offered under.
//!
//! A name depends on the server, the tool and the configuration alone, never on who is up or who
//! came first: a call must not reach another tool because a server has gone.

use sha2::{Digest, Sha256};
use switchboard_core::hex;

/// The names that a tool may be offered under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// What it is called, if that is fit to be a name at all.
    pub(super) plain: Option<String>,
    /// The same, made to fit, with a mark that no other tool has.
    pub(super) marked: String,
}

impl Names {
    pub(super) fn new(server: &str, prefix: &str, tool: &str) -> Self {
        let wanted = format!("{prefix}{tool}");
        let digest = Sha256::digest(format!("{server}\0{tool}"));
        let mark = hex(digest.iter().take(4));
        let fit = wanted.chars().map(|c| if allowed(c) { c } else { '_' });
        let kept: String = fit.take(MAX_NAME - 1 - mark.len()).collect();
        let fits = (1..=MAX_NAME).contains(&wanted.len()) && wanted.chars().all(allowed);
        Self { plain: fits.then_some(wanted), marked: format!("{kept}_{mark}") }
    }
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(prefix: &str, tool: &str) -> Option<String> {
        Names::new("server", prefix, tool).plain
    }

    fn marked(prefix: &str, tool: &str) -> String {
        Names::new("server", prefix, tool).marked
    }

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(plain("files.", "read_file").unwrap(), "files.read_file");
        assert_eq!(plain("", "read-file").unwrap(), "read-file");
        assert_eq!(plain("", &"x".repeat(64)).unwrap(), "x".repeat(64));
        for tool in ["", "read file", "größe", &"x".repeat(65)] {
            assert_eq!(plain("", tool), None);
        }
    }

    #[test]
    fn a_marked_name_fits_and_belongs_to_one_tool() {
        let changed = marked("files.", "read file");
        assert!(changed.starts_with("files.read_file_"), "{changed}");
        assert_ne!(changed, marked("files.", "read/file"));
        assert_ne!(changed, Names::new("other", "files.", "read file").marked);
        assert_ne!(marked("", &"x".repeat(65)), marked("", &"x".repeat(66)));
        for tool in ["", "größe", &"x".repeat(65), &"ü".repeat(300)] {
            let name = marked("", tool);
            assert!((1..=64).contains(&name.len()) && name.chars().all(allowed), "{name}");
        }
    }
}
