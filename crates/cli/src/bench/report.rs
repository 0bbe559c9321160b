//! How figures are shown: beside their yardstick and their budget.

use std::fmt::Write as _;

/// One measured figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    yardstick: Option<(String, f64)>,
    budget: Option<Budget>,
    /// Why it was not measured.
    missing: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
enum Budget {
    AtMost { floor: f64, aim: f64 },
    AtLeast { floor: f64, aim: f64 },
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, yardstick: None, budget: None, missing: None }
    }

    /// One that this machine cannot give.
    pub(super) fn missing(name: impl Into<String>, why: &'static str) -> Self {
        Self { missing: Some(why), ..Self::new(name, 0.0, "") }
    }

    /// Whether its name ends like this.
    pub(super) fn is_about(&self, what: &str) -> bool {
        self.name.ends_with(what)
    }

    /// What it is held against, measured in the same run.
    pub(super) fn yardstick(mut self, name: &str, value: f64) -> Self {
        self.yardstick = Some((name.to_owned(), value));
        self
    }

    /// It must not be above `floor`, and should not be above `aim`.
    pub(super) fn budget(mut self, floor: f64, aim: f64) -> Self {
        self.budget = Some(Budget::AtMost { floor, aim });
        self
    }

    /// It must not be below `floor`, and should not be below `aim`.
    pub(super) fn at_least(mut self, floor: f64, aim: f64) -> Self {
        self.budget = Some(Budget::AtLeast { floor, aim });
        self
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What was measured, in words.
    pub(super) fn measured(&self) -> String {
        match self.missing {
            None => format!("{} {}", number(self.value), self.unit).trim().to_owned(),
            Some(why) => format!("not measured: {why}"),
        }
    }

    /// How many times better than its floor it is, and how many times its aim would be.
    pub(super) fn against_floor(&self) -> Option<(f64, f64)> {
        let ratio = |above: f64, below: f64| if below == 0.0 { 1.0 } else { above / below };
        match self.budget.filter(|_| self.missing.is_none())? {
            Budget::AtMost { floor, aim } => Some((ratio(floor, self.value), ratio(floor, aim))),
            Budget::AtLeast { floor, aim } => Some((ratio(self.value, floor), ratio(aim, floor))),
        }
    }

    /// How many times its yardstick it is, where both are times.
    pub(super) fn against_yardstick(&self) -> Option<f64> {
        let (name, value) = self.yardstick.as_ref()?;
        let timed = ["ms", "µs", "ns"].into_iter().find(|unit| *unit == self.unit)?;
        (name.ends_with(&format!("({timed})")) && *value > 0.0).then(|| self.value / value)
    }

    /// What was reached of its budget.
    pub(super) fn verdict(&self) -> &'static str {
        match self.budget {
            None => "",
            Some(Budget::AtMost { aim, .. }) if self.value <= aim => "aim",
            Some(Budget::AtMost { floor, .. }) if self.value <= floor => "floor",
            Some(Budget::AtLeast { aim, .. }) if self.value >= aim => "aim",
            Some(Budget::AtLeast { floor, .. }) if self.value >= floor => "floor",
            Some(_) => "MISSED",
        }
    }

    /// Whether its floor is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.verdict() != "MISSED"
    }

    /// One row of the table in `docs/performance.md`.
    pub(super) fn row(&self) -> String {
        let (floor, aim) = match self.budget {
            None => (String::new(), String::new()),
            Some(Budget::AtMost { floor, aim }) => {
                (format!("≤ {}", number(floor)), format!("≤ {}", number(aim)))
            }
            Some(Budget::AtLeast { floor, aim }) => {
                (format!("≥ {}", number(floor)), format!("≥ {}", number(aim)))
            }
        };
        let yardstick = self
            .yardstick
            .as_ref()
            .map(|(name, value)| format!("{name}: {}", number(*value)))
            .unwrap_or_default();
        let (name, value, verdict) = (&self.name, self.measured(), self.verdict());
        format!("| {name} | {value} | {floor} | {aim} | {verdict} | {yardstick} |")
    }
}

/// The head of the table.
pub(super) const HEAD: &str =
    "| Figure | Measured | Floor | Aim | Reached | Yardstick, same run |\n|---|---|---|---|---|---|";

/// The whole page: what has a budget first, then everything, group by group.
pub(super) fn page(groups: &[(&str, Vec<Figure>)], machine: &str) -> String {
    let mut page = String::from(PREFACE);
    let _ = writeln!(page, "\nMeasured on {machine}.\n\n## The budget\n");
    let _ = writeln!(page, "![Each figure against its floor](images/{BUDGET_PICTURE})\n\n{HEAD}");
    let figures = || groups.iter().flat_map(|(_, figures)| figures);
    for figure in figures().filter(|figure| figure.budget.is_some() || figure.missing.is_some()) {
        let _ = writeln!(page, "{}", figure.row());
    }
    let _ = writeln!(page, "\n## Everything\n");
    let _ = writeln!(page, "![Times against their yardsticks](images/{YARDSTICK_PICTURE})");
    for (group, figures) in groups {
        let _ = writeln!(page, "\n### {group}\n\n{HEAD}");
        for figure in figures {
            let _ = writeln!(page, "{}", figure.row());
        }
    }
    page
}

/// The pictures beside the page.
pub(super) const BUDGET_PICTURE: &str = "performance-budget.svg";
pub(super) const YARDSTICK_PICTURE: &str = "performance-yardsticks.svg";

/// The value below which `share` percent of the values lie.
pub(super) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let index = (share / 100.0 * last as f64).round() as usize;
    values.get(index.min(last)).copied().unwrap_or(f64::NAN)
}

fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

const PREFACE: &str = "# Performance

This page and its pictures are written by `script/bench --write docs/performance.md`; no figure here
comes from anywhere else. What stands in the way of those that are missed is told in
[what limits us](operations.md#what-limits-us). Client and server share the machine and its cores, so wall times wander by tens of percent between runs: hold
a figure against the yardstick beside it, which was measured in the same run.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_its_budget() {
        assert_eq!(Figure::new("a", 1.0, "ms").budget(2.0, 1.0).verdict(), "aim");
        assert_eq!(Figure::new("a", 1.5, "ms").budget(2.0, 1.0).verdict(), "floor");
        assert_eq!(Figure::new("a", 2.5, "ms").budget(2.0, 1.0).verdict(), "MISSED");
        assert!(Figure::new("a", 0.4, "×").at_least(0.3, 0.8).is_kept());
        assert!(!Figure::new("a", f64::NAN, "×").at_least(0.3, 0.8).is_kept());
        assert!(Figure::missing("a", "no reason").is_kept());
        assert!(Figure::missing("a", "no reason").row().contains("| not measured: no reason |"));
    }

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let mut values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50.0), 50.0);
        assert_eq!(percentile(&mut values, 99.0), 99.0);
        assert_eq!(percentile(&mut values, 100.0), 100.0);
    }
}
