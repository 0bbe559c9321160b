//! A bar that grows on the terminal of whoever waits.

use std::io::{self, IsTerminal as _, Write as _};

/// A bar on the error stream; where that is no terminal, nothing is shown.
#[derive(Debug)]
pub(crate) struct Bar {
    /// What was shown last, in percent; none if there is nobody to show it to.
    shown: Option<u64>,
}

impl Bar {
    /// An empty bar.
    pub(crate) fn new() -> Self {
        Self { shown: io::stderr().is_terminal().then_some(u64::MAX) }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_seen(&self) -> bool {
        self.shown.is_some()
    }

    /// Shows how much is done, in words of the caller too. A full bar disappears.
    pub(crate) fn show(&mut self, done: u64, total: u64, words: impl FnOnce() -> String) {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100);
        if self.shown.is_none_or(|shown| shown == percent) {
            return;
        }
        self.shown = Some(percent);
        // Nobody is left to be told that this failed.
        let _ = write!(io::stderr(), "\r{}\x1b[K", bar(percent, &words()));
        if done == total {
            self.clear();
        }
    }

    /// Takes it off the screen.
    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(percent: u64, words: &str) -> String {
    let full = usize::try_from(percent.min(100) * WIDTH / 100).unwrap_or_default();
    let rest = usize::try_from(WIDTH).unwrap_or_default().saturating_sub(full);
    format!("{}{} {percent:3} %  {words}", "█".repeat(full), "░".repeat(rest))
}

/// Characters of a bar.
const WIDTH: u64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_from_empty_to_full() {
        assert_eq!(bar(0, "a"), format!("{}   0 %  a", "░".repeat(30)));
        assert_eq!(bar(50, "b"), format!("{}{}  50 %  b", "█".repeat(15), "░".repeat(15)));
        assert_eq!(bar(100, "c"), format!("{} 100 %  c", "█".repeat(30)));
    }
}
