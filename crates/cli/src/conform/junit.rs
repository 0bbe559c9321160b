//! A report as continuous integration reads it.

use super::report::{Report, Verdict};
use crate::xml::escaped;

/// The report as a document of JUnit.
pub(super) fn document(report: &Report) -> String {
    let (total, failures) = (report.rows().count(), report.count("FAIL"));
    let skipped = report.count("needs") + report.count("outside");
    let name = report.protocol.name();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{name}\" tests=\"{total}\" failures=\"{failures}\" skipped=\"{skipped}\">\n"
    );
    for (statement, verdict) in report.rows() {
        let id = report.protocol.id(statement.number);
        let title = escaped(&format!("{id} {}", statement.gist));
        text += &format!("<testcase classname=\"{name}\" name=\"{title}\"");
        let reason = escaped(verdict.reason());
        text += &match verdict {
            Verdict::Pass => "/>\n".to_owned(),
            Verdict::Fail { transcript, .. } => {
                let lines = escaped(&transcript.join("\n"));
                format!("><failure message=\"{reason}\">{lines}</failure></testcase>\n")
            }
            Verdict::Needs(_) | Verdict::Outside(_) => {
                format!("><skipped message=\"{}: {reason}\"/></testcase>\n", verdict.word())
            }
        };
    }
    text + "</testsuite>\n</testsuites>\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::statement::Protocol;
    use super::*;

    #[test]
    fn a_document_is_escaped_and_counts() {
        let mut report = Report::new(Protocol::Asp, "ws://here", &BTreeSet::from([1, 2, 3]));
        report.settle(&[1], &Verdict::Pass);
        let transcript = vec!["< a & \"b\"\u{7}".to_owned()];
        report.settle(&[2], &Verdict::Fail { why: "expected <x>".to_owned(), transcript });
        report.settle(&[3], &Verdict::Outside("because"));
        let text = document(&report);
        assert!(text.contains("tests=\"3\" failures=\"1\" skipped=\"1\""), "{text}");
        assert!(
            text.contains("message=\"expected &lt;x&gt;\">&lt; a &amp; &quot;b&quot;\u{fffd}<"),
            "{text}"
        );
        assert!(text.contains("<skipped message=\"outside: because\"/>"), "{text}");
    }
}
