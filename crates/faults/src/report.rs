//! What people see: one line of progress while a scenario runs, one table at the end.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use crate::history::Findings;

/// What a scenario has found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What clients and log have to say.
    pub(crate) findings: Findings,
    /// How long it took, at worst, until every client saw something again.
    pub(crate) recovery: Option<Duration>,
    /// What else was measured.
    pub(crate) notes: Vec<String>,
    /// What else is wrong.
    pub(crate) problems: Vec<String>,
    /// Why it could not run here.
    pub(crate) skipped: Option<String>,
}

impl Outcome {
    /// It could not run.
    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self { skipped: Some(why.into()), ..Self::default() }
    }

    /// It came to nothing.
    pub(crate) fn broken(error: &anyhow::Error) -> Self {
        Self { problems: vec![format!("{error:#}")], ..Self::default() }
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.problems.is_empty() || !self.findings.is_clean()
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Something is wrong unless this holds.
    pub(crate) fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.problems.push(otherwise());
        }
    }

    fn word(&self) -> &'static str {
        match &self.skipped {
            Some(_) => "skipped",
            None if self.has_failed() => "FAILED",
            None => "ok",
        }
    }
}

/// What is going on, on one line of a terminal that is written over and over; elsewhere, a line for each step.
#[derive(Debug)]
pub(crate) struct Progress {
    heading: String,
    terminal: bool,
    last_step: String,
}

impl Progress {
    pub(crate) fn new(heading: String) -> Self {
        Self { heading, terminal: io::stderr().is_terminal(), last_step: String::new() }
    }

    /// `step` says what is done, `detail` how far it is.
    pub(crate) fn show(&mut self, step: &str, detail: &str) {
        let text = match (self.terminal, detail) {
            (true, "") => format!("\r\x1b[2K{}: {step}", self.heading),
            (true, _) => format!("\r\x1b[2K{}: {step}, {detail}", self.heading),
            (false, _) if self.last_step == step => return,
            (false, _) => format!("{}: {step}\n", self.heading),
        };
        step.clone_into(&mut self.last_step);
        // Whoever does not look at it needs no line.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Makes room for the next.
    pub(crate) fn done(&self) {
        if self.terminal {
            let _ = io::stderr().write_all(b"\r\x1b[2K");
        }
    }
}

/// Everything at a glance, and below it what is wrong.
pub(crate) fn table(outcomes: &[(&str, Outcome, Duration)]) -> String {
    let heading = [
        "scenario",
        "result",
        "time",
        "requests",
        "words",
        "lost",
        "doubled",
        "reordered",
        "recovery",
        "besides",
    ];
    let mut rows = vec![heading.map(str::to_owned)];
    for (name, outcome, took) in outcomes {
        let Findings { requests, words, lost, doubled, reordered, .. } = &outcome.findings;
        let count = |count: &u64| if outcome.skipped.is_some() { "-".to_owned() } else { count.to_string() };
        let besides = outcome.skipped.iter().chain(&outcome.notes).cloned().collect::<Vec<_>>().join("; ");
        rows.push([
            (*name).to_owned(),
            outcome.word().to_owned(),
            format!("{:.0} s", took.as_secs_f64()),
            count(requests),
            count(words),
            count(lost),
            count(doubled),
            count(reordered),
            outcome.recovery.map_or_else(|| "-".to_owned(), |time| format!("{:.2} s", time.as_secs_f64())),
            besides,
        ]);
    }
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for ((column, cell), width) in row.iter().enumerate().zip(&widths) {
            // Words to the left, figures to the right.
            let _ = match column {
                0 | 1 | 9 => write!(line, "{cell:<width$}  "),
                _ => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (name, outcome, _) in outcomes {
        for problem in outcome.problems.iter().chain(&outcome.findings.examples) {
            let _ = writeln!(text, "{name}: {problem}");
        }
    }
    let failed = outcomes.iter().filter(|(_, outcome, _)| outcome.has_failed()).count();
    let skipped = outcomes.iter().filter(|(_, outcome, _)| outcome.skipped.is_some()).count();
    let passed = outcomes.len() - failed - skipped;
    let _ = writeln!(text, "faults: {passed} passed, {failed} failed, {skipped} skipped");
    text
}

/// Bytes, as people read them.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_failed_and_why() {
        let findings =
            Findings { lost: 2, examples: vec!["ann: two words".to_owned()], ..Findings::default() };
        let lost = Outcome { findings, recovery: Some(Duration::from_millis(1_250)), ..Outcome::default() };
        let mut slow = Outcome::default();
        slow.expect(1 > 2, || "it took too long".to_owned());
        let outcomes = [
            ("kill", lost, Duration::from_secs(3)),
            ("stop", slow, Duration::from_secs(1)),
            ("disk", Outcome::skipped("needs root"), Duration::ZERO),
            ("idle", Outcome::default(), Duration::ZERO),
        ];
        let text = table(&outcomes);
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(line("kill").contains("FAILED") && line("kill").contains("1.25 s"), "{text}");
        assert!(line("stop").contains("FAILED") && line("disk").contains("needs root"), "{text}");
        assert!(line("idle").contains("ok"));
        assert!(text.contains("kill: ann: two words") && text.contains("stop: it took too long"));
        assert!(text.ends_with("faults: 1 passed, 2 failed, 1 skipped\n"));
    }
}
