//! Envelopes of Alicia, of both profiles.

mod decode;
mod render;

use switchboard_alicia::Side;
use switchboard_asp::message::Direction;

use super::capture::Item;
use super::{Findings, Profile, View, layout};

/// Reads the messages of one connection, and writes down what it finds.
#[derive(Debug)]
pub(super) struct Reader {
    inspector: decode::Inspector,
}

impl Reader {
    /// For a connection of this profile, if that is known.
    pub(super) fn new(profile: Option<Profile>) -> Self {
        Self { inspector: decode::Inspector::new(profile) }
    }

    /// The envelopes of one message.
    pub(super) fn message(
        &mut self,
        index: usize,
        item: &Item,
        direction: Option<Direction>,
        view: View,
    ) -> Findings {
        let from = direction.map(|direction| match direction {
            Direction::ToServer => Side::Client,
            Direction::ToClient => Side::Server,
        });
        let (from, reports) = self.inspector.message(item, from);
        let direction = from.map(|from| match from {
            Side::Client => Direction::ToServer,
            Side::Server => Direction::ToClient,
        });
        let text = if view.json {
            let label = item.label.as_deref();
            reports.iter().map(|report| render::json(index, label, direction, report) + "\n").collect()
        } else {
            render::human(&layout::heading(index, item, direction), item, &reports, view)
        };
        let invalid = reports.iter().filter(|report| report.problem.is_some()).count();
        Findings { text, found: reports.len(), invalid }
    }
}
