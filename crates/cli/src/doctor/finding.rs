//! What was found, and what to do about it.

use crate::console::{Palette, one_line};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grade {
    /// As it should be.
    Fine,
    /// Works, but not as well or as safely as it could.
    Warning,
    /// Clients will have trouble.
    Problem,
    /// It could not be looked at.
    Skipped,
}

impl Grade {
    fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
            Self::Skipped => "skipped",
        }
    }
}

/// One line of the examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) grade: Grade,
    pub(super) subject: &'static str,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub(super) fn fine(subject: &'static str, found: impl Into<String>) -> Self {
        Self { grade: Grade::Fine, subject, found: found.into(), advice: None }
    }

    /// Works, but …
    pub(super) fn warning(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Warning, subject, found: found.into(), advice: Some(advice.into()) }
    }

    /// Clients will have trouble.
    pub(super) fn problem(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Problem, subject, found: found.into(), advice: Some(advice.into()) }
    }

    /// It could not be looked at.
    pub(super) fn skipped(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Skipped, subject, found: found.into(), advice: Some(advice.into()) }
    }

    /// For people: one line, and what to change below it.
    pub(super) fn line(&self, palette: Palette) -> String {
        let Palette { dim, red, green, yellow, reset, .. } = palette;
        let colour = match self.grade {
            Grade::Fine => green,
            Grade::Warning => yellow,
            Grade::Problem => red,
            Grade::Skipped => dim,
        };
        let found = one_line(&self.found, LONGEST);
        let mut line = format!("{colour}{:<8}{reset} {:<14} {found}", self.grade.word(), self.subject);
        if let Some(advice) = &self.advice {
            line += &format!("\n{:<24}{dim}→ {advice}{reset}", "");
        }
        line
    }
}

/// How many there are of each.
pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    format!(
        "{} ok, {} warnings, {} problems, {} skipped",
        count(Grade::Fine),
        count(Grade::Warning),
        count(Grade::Problem),
        count(Grade::Skipped)
    )
}

const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_what_to_change() {
        let finding = Finding::problem("idle", "closed after 5 s", "raise it");
        assert_eq!(
            finding.line(Palette::PLAIN),
            format!("problem  idle           closed after 5 s\n{:<24}→ raise it", "")
        );
        assert_eq!(Finding::fine("health", "200").line(Palette::PLAIN), "ok       health         200");
        assert_eq!(summary(&[finding]), "0 ok, 0 warnings, 1 problems, 0 skipped");
    }
}
