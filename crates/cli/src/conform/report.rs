//! How every statement fared, in words and for programs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::statement::{Protocol, Statement};
use crate::console::{Palette, one_line};

/// How one statement fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server does what it says.
    Pass,
    /// It does something else.
    Fail {
        /// What was expected, and what came.
        why: String,
        /// What was sent and what came back.
        transcript: Vec<String>,
    },
    /// The check needs something that is not there.
    Needs(String),
    /// Nobody can see it from outside.
    Outside(&'static str),
}

impl Verdict {
    /// One word for it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail { .. } => "FAIL",
            Self::Needs(_) => "needs",
            Self::Outside(_) => "outside",
        }
    }

    /// Why it is no pass.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Fail { why, .. } => why,
            Self::Needs(what) => what,
            Self::Outside(reason) => reason,
        }
    }

    /// Of several checks of one statement the worst counts: what could not be tried wholly is no pass.
    fn weight(&self) -> u8 {
        match self {
            Self::Fail { .. } => 3,
            Self::Needs(_) => 2,
            Self::Pass => 1,
            Self::Outside(_) => 0,
        }
    }
}

/// All statements that were asked for, and their verdicts.
#[derive(Debug)]
pub(crate) struct Report {
    /// The protocol.
    pub(crate) protocol: Protocol,
    url: String,
    statements: Vec<Statement>,
    verdicts: BTreeMap<u16, Verdict>,
}

impl Report {
    /// A report about which nothing is known yet.
    pub(crate) fn new(protocol: Protocol, url: &str, wanted: &BTreeSet<u16>) -> Self {
        let statements = protocol.statements().into_iter();
        let statements = statements.filter(|statement| wanted.contains(&statement.number)).collect();
        Self { protocol, url: url.to_owned(), statements, verdicts: BTreeMap::new() }
    }

    /// Enters what a check has shown.
    pub(crate) fn settle(&mut self, numbers: &[u16], verdict: &Verdict) {
        for number in numbers {
            let known = self.verdicts.get(number);
            if known.is_none_or(|known| known.weight() < verdict.weight()) {
                self.verdicts.insert(*number, verdict.clone());
            }
        }
    }

    /// Each statement once, with its verdict.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Statement, &Verdict)> {
        let verdict = |statement: &Statement| self.verdicts.get(&statement.number).unwrap_or(&UNKNOWN);
        self.statements.iter().map(move |statement| (statement, verdict(statement)))
    }

    /// Whether anything failed.
    pub(crate) fn failed(&self) -> bool {
        self.count("FAIL") > 0
    }

    /// How many have this word.
    pub(crate) fn count(&self, word: &str) -> usize {
        self.rows().filter(|(_, verdict)| verdict.word() == word).count()
    }

    /// One line for all of it.
    pub(crate) fn summary(&self) -> String {
        let [pass, fail, needs, outside] = ["pass", "FAIL", "needs", "outside"].map(|word| self.count(word));
        format!(
            "{} at {}: {pass} pass, {fail} fail, {needs} need something, {outside} cannot be seen from outside",
            self.protocol, self.url
        )
    }

    /// A line for each statement, then what failed and how.
    pub(crate) fn table(&self, palette: Palette) -> String {
        let Palette { dim, bold, red, green, yellow, reset, .. } = palette;
        let mut text = String::new();
        for (statement, verdict) in self.rows() {
            let colour = match verdict {
                Verdict::Pass => green,
                Verdict::Fail { .. } => red,
                Verdict::Needs(_) => yellow,
                Verdict::Outside(_) => dim,
            };
            let id = self.protocol.id(statement.number);
            text += &format!("{id:<8} {colour}{:<7}{reset}  {}", verdict.word(), statement.gist);
            if let Verdict::Needs(reason) = verdict {
                text += &format!("  {dim}(needs {}){reset}", one_line(reason, LONGEST_REASON));
            } else if let Verdict::Outside(reason) = verdict {
                text += &format!("  {dim}({reason}){reset}");
            }
            text.push('\n');
        }
        for (statements, why, transcript) in self.failures() {
            text.push('\n');
            for statement in statements {
                let id = self.protocol.id(statement.number);
                text += &format!("{bold}{id}{reset}  {}\n", statement.gist);
            }
            text += &format!("  {red}{}{reset}\n", one_line(why, LONGEST_WHY));
            for line in transcript {
                text += &format!("    {line}\n");
            }
        }
        text + &format!("\n{bold}{}{reset}\n", self.summary())
    }

    /// What failed, each check once: the statements, what was expected, what was sent and came back.
    fn failures(&self) -> Vec<(Vec<&Statement>, &str, &[String])> {
        let mut failures: Vec<(Vec<&Statement>, &str, &[String])> = Vec::new();
        for (statement, verdict) in self.rows() {
            let Verdict::Fail { why, transcript } = verdict else { continue };
            match failures
                .iter_mut()
                .find(|(_, known, lines)| *known == why && *lines == transcript.as_slice())
            {
                Some((statements, _, _)) => statements.push(statement),
                None => failures.push((vec![statement], why, transcript)),
            }
        }
        failures
    }

    /// How each statement is looked at.
    pub(crate) fn list(&self) -> String {
        let mut text = String::new();
        for (statement, verdict) in self.rows() {
            let id = self.protocol.id(statement.number);
            let how = match verdict {
                Verdict::Outside(reason) => format!("outside: {reason}"),
                Verdict::Pass | Verdict::Fail { .. } | Verdict::Needs(_) => "checked".to_owned(),
            };
            text += &format!("{id:<8} {:<3} {}  ({how})\n", statement.who, statement.gist);
        }
        text
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<Value> = self.rows().map(|(statement, verdict)| self.row(statement, verdict)).collect();
        let document = json!({
            "protocol": self.protocol.name(),
            "url": self.url,
            "summary": {
                "pass": self.count("pass"),
                "fail": self.count("FAIL"),
                "needs": self.count("needs"),
                "outside": self.count("outside"),
            },
            "statements": rows,
        });
        format!("{document:#}\n")
    }

    fn row(&self, statement: &Statement, verdict: &Verdict) -> Value {
        let mut row = json!({
            "id": self.protocol.id(statement.number),
            "who": statement.who,
            "mode": statement.mode,
            "statement": statement.gist,
            "result": verdict.word().to_lowercase(),
        });
        if !verdict.reason().is_empty() {
            row["reason"] = verdict.reason().into();
        }
        if let Verdict::Fail { transcript, .. } = verdict {
            row["transcript"] = transcript.clone().into();
        }
        row
    }
}

/// Of a statement that nothing was said about.
static UNKNOWN: Verdict = Verdict::Needs(String::new());
const LONGEST_REASON: usize = 100;
const LONGEST_WHY: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new(Protocol::Asp, "ws://here", &BTreeSet::from([1, 2, 3, 4]));
        report.settle(&[1, 2], &Verdict::Pass);
        report.settle(&[2], &Verdict::Needs("x".to_owned()));
        let transcript = vec!["> a".to_owned()];
        report.settle(&[3], &Verdict::Fail { why: "expected b".to_owned(), transcript });
        report.settle(&[3], &Verdict::Pass);
        report.settle(&[4], &Verdict::Outside("because"));
        report
    }

    #[test]
    fn the_worst_counts_and_every_statement_stands_there_once() {
        let report = report();
        let words: Vec<&str> = report.rows().map(|(_, verdict)| verdict.word()).collect();
        assert_eq!(words, ["pass", "needs", "FAIL", "outside"]);
        assert!(report.failed());
        let table = report.table(Palette::PLAIN);
        assert_eq!(table.matches("ASP-001").count(), 1);
        assert!(table.contains("expected b\n    > a\n"), "{table}");
        assert!(table.contains("1 pass, 1 fail, 1 need something, 1 cannot"), "{table}");
    }

    #[test]
    fn programs_read_the_same() {
        let document: Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(document["summary"]["fail"], 1);
        assert_eq!(document["statements"][2]["result"], "fail");
        assert_eq!(document["statements"][2]["transcript"][0], "> a");
        assert_eq!(document["statements"][3]["reason"], "because");
    }
}
