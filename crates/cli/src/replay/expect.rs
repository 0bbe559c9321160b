//! What was recorded of the other side of a connection, and what of it has come.

use super::compare::{Difference, Odd, Place, compare};
use super::hear::Unit;
use super::variables::Variables;

/// What is expected on one connection.
#[derive(Debug, Default)]
pub(super) struct Track {
    expected: Vec<Expected>,
    /// Everything before this has come, or will not.
    next: usize,
    /// Nothing more can come.
    over: bool,
}

#[derive(Debug)]
struct Expected {
    /// The step of the recording that holds it, and its line.
    step: usize,
    line: usize,
    unit: Unit,
    done: bool,
}

impl Track {
    /// Something more was recorded.
    pub(super) fn expect(&mut self, step: usize, line: usize, unit: Unit) {
        self.expected.push(Expected { step, line, unit, done: false });
    }

    /// The connection is gone.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// Whether all has come that was recorded before a step, as far as it can.
    pub(super) fn is_met_before(&self, step: usize) -> bool {
        self.over || self.expected.get(self.next).is_none_or(|expected| expected.step >= step)
    }

    /// How much has come.
    pub(super) fn met(&self) -> usize {
        self.next
    }

    /// Something came. It stands for what was recorded next in its lane, or a little later; what
    /// was skipped then will not come any more.
    pub(super) fn meet(&mut self, on: u32, unit: &Unit, variables: &mut Variables) -> Vec<Difference> {
        let open = self.expected.iter().enumerate().skip(self.next);
        let lane = open.filter(|(_, expected)| !expected.done && expected.unit.lane == unit.lane);
        let candidates: Vec<usize> = lane.map(|(index, _)| index).take(LOOK_AHEAD).collect();
        let mut differences = Vec::new();
        let found = candidates.iter().position(|index| {
            let Some(expected) = self.expected.get(*index) else { return false };
            let mark = variables.mark();
            let same = compare(variables, &expected.unit.value, &unit.value).is_empty();
            if !same {
                variables.back_to(mark);
            }
            same
        });
        match found {
            Some(rank) => {
                let (skipped, rest) = candidates.split_at(rank);
                differences.extend(skipped.iter().filter_map(|index| self.give_up(on, *index)));
                self.done(rest.first().copied());
            }
            None => match self.likely(&candidates, unit) {
                Some((index, expected)) => {
                    let members = compare(variables, &expected.unit.value, &unit.value);
                    let place = place(on, Some(expected.line), &expected.unit);
                    differences.push(Difference { place, kind: Odd::Members(members) });
                    self.done(Some(index));
                }
                None => {
                    let kind = Odd::New(unit.value.clone());
                    differences.push(Difference { place: place(on, None, unit), kind });
                }
            },
        }
        differences
    }

    /// What of the recording before a step did not come.
    pub(super) fn give_up_before(&mut self, on: u32, step: usize) -> Vec<Difference> {
        let open = self.expected.iter().enumerate().skip(self.next);
        let late: Vec<usize> = open
            .filter(|(_, expected)| !expected.done && expected.step < step)
            .map(|(index, _)| index)
            .collect();
        late.into_iter().filter_map(|index| self.give_up(on, index)).collect()
    }

    /// What this is most likely meant to be, though it differs.
    fn likely(&self, candidates: &[usize], unit: &Unit) -> Option<(usize, &Expected)> {
        let first = candidates.first().copied()?;
        let expected = self.expected.get(first)?;
        (expected.unit.label == unit.label).then_some((first, expected))
    }

    fn give_up(&mut self, on: u32, index: usize) -> Option<Difference> {
        let expected = self.expected.get(index)?;
        let kind = Odd::Missing(expected.unit.value.clone());
        let difference = Difference { place: place(on, Some(expected.line), &expected.unit), kind };
        self.done(Some(index));
        Some(difference)
    }

    fn done(&mut self, index: Option<usize>) {
        if let Some(expected) = index.and_then(|index| self.expected.get_mut(index)) {
            expected.done = true;
        }
        while self.expected.get(self.next).is_some_and(|expected| expected.done) {
            self.next += 1;
        }
    }
}

fn place(on: u32, line: Option<usize>, unit: &Unit) -> Place {
    Place { on, line, label: unit.label.clone() }
}

/// So much may be missing before what came counts as something else.
const LOOK_AHEAD: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unit(lane: &str, text: &str) -> Unit {
        Unit { label: "text".to_owned(), lane: lane.to_owned(), value: json!({"text": text}) }
    }

    fn track(units: &[(&str, &str)]) -> Track {
        let mut track = Track::default();
        for (index, (lane, text)) in units.iter().enumerate() {
            track.expect(index * 2, index + 2, unit(lane, text));
        }
        track
    }

    fn met(track: &mut Track, lane: &str, text: &str) -> Vec<Odd> {
        let differences = track.meet(1, &unit(lane, text), &mut Variables::default());
        differences.into_iter().map(|difference| difference.kind).collect()
    }

    #[test]
    fn order_counts_within_a_lane_only() {
        let mut track = track(&[("1", "a"), ("2", "b"), ("1", "c")]);
        assert_eq!(met(&mut track, "2", "b"), []);
        assert!(!track.is_met_before(1));
        assert_eq!(met(&mut track, "1", "a"), []);
        assert!(track.is_met_before(4) && !track.is_met_before(5));
        assert_eq!(met(&mut track, "1", "c"), []);
        assert_eq!(track.met(), 3);
    }

    #[test]
    fn one_that_is_missing_does_not_make_all_others_wrong() {
        let mut track = track(&[("", "a"), ("", "b"), ("", "c")]);
        assert_eq!(met(&mut track, "", "b"), [Odd::Missing(json!({"text": "a"}))]);
        assert_eq!(met(&mut track, "", "c"), []);
        assert_eq!(met(&mut track, "", "d"), [Odd::New(json!({"text": "d"}))]);
    }

    #[test]
    fn what_differs_is_compared_with_what_was_due() {
        let mut track = track(&[("", "a"), ("", "b")]);
        assert!(
            matches!(met(&mut track, "", "x").as_slice(), [Odd::Members(members)] if members[0].path == "text")
        );
        assert_eq!(met(&mut track, "", "b"), []);
    }

    #[test]
    fn what_does_not_come_is_named() {
        let mut track = track(&[("", "a"), ("", "b")]);
        assert_eq!(track.give_up_before(1, 1).len(), 1);
        assert!(track.is_met_before(2));
        assert_eq!(track.give_up_before(1, 9).len(), 1);
    }
}
