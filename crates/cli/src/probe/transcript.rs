//! What was sent and what came back, for whoever has to find out what is wrong.

use std::cell::RefCell;
use std::rc::Rc;

use crate::console::one_line;

/// The lines of one conversation. Clones write to the same.
#[derive(Clone)]
pub(crate) struct Transcript {
    lines: Rc<RefCell<Vec<String>>>,
    /// What must not be read in it.
    secrets: Rc<[String]>,
}

impl Transcript {
    /// An empty one, in which none of the secrets will be readable.
    pub(crate) fn new(secrets: Rc<[String]>) -> Self {
        Self { lines: Rc::default(), secrets }
    }

    /// Something that went to the server.
    pub(crate) fn sent(&self, what: &str) {
        self.add('>', what);
    }

    /// Something that came from the server.
    pub(crate) fn received(&self, what: &str) {
        self.add('<', what);
    }

    /// Something else that happened.
    pub(crate) fn note(&self, what: &str) {
        self.add('-', what);
    }

    fn add(&self, mark: char, what: &str) {
        let mut lines = self.lines.borrow_mut();
        if lines.len() < MOST_LINES {
            // What lies beyond is not shown, so that nothing of a secret is left at the edge.
            let what: String = what.chars().take(4 * LONGEST_LINE).collect();
            let what = self.secrets.iter().fold(what, |text, secret| text.replace(secret, "…"));
            lines.push(format!("{mark} {}", one_line(&what, LONGEST_LINE)));
        } else if lines.len() == MOST_LINES {
            lines.push("- … and more".to_owned());
        }
    }

    /// What there is so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }
}

const MOST_LINES: usize = 200;
const LONGEST_LINE: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_readable_and_the_length_is_bounded() {
        let transcript = Transcript::new(Rc::from(["s3cret".to_owned()]));
        transcript.sent("Authorization: Bearer s3cret");
        assert_eq!(transcript.lines(), ["> Authorization: Bearer …"]);
        for _ in 0..1_000 {
            transcript.received(&"x".repeat(10_000));
        }
        let lines = transcript.lines();
        assert_eq!(lines.len(), MOST_LINES + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= LONGEST_LINE + 2));
    }
}
