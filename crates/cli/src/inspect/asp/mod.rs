//! Frames of ASP.

mod decode;
mod render;

use switchboard_asp::Features;
use switchboard_asp::message::Direction;

use super::capture::Item;
use super::{Findings, View};

/// Reads the messages of one connection, and writes down what it finds.
#[derive(Debug)]
pub(super) struct Reader {
    inspector: decode::Inspector,
}

impl Reader {
    /// For a connection on which these features were agreed, if that is known.
    pub(super) fn new(given: Option<Features>) -> Self {
        Self { inspector: decode::Inspector::new(given) }
    }

    /// The frames of one message.
    pub(super) fn message(
        &mut self,
        index: usize,
        item: &Item,
        direction: Option<Direction>,
        view: View,
    ) -> Findings {
        let reports = self.inspector.message(item, direction);
        let text = if view.json {
            reports.iter().map(|report| render::json(index, item.label.as_deref(), report) + "\n").collect()
        } else {
            let heading = super::layout::heading(index, item, direction);
            render::human(&heading, item, &reports, view.bytes, view.palette)
        };
        let invalid = reports.iter().filter(|report| report.problem.is_some()).count();
        Findings { text, found: reports.len(), invalid }
    }

    /// Messages whose last fragment never came.
    pub(super) fn finish(self, view: View) -> Findings {
        let problems = self.inspector.finish();
        let write = |problem: &decode::Problem| {
            if view.json { render::json_problem(problem) } else { render::problem(problem, view.palette) }
        };
        let text = problems.iter().map(|problem| write(problem) + "\n").collect();
        Findings { text, found: 0, invalid: problems.len() }
    }
}
