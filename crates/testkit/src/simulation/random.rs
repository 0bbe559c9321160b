//! Everything that is left to chance comes from one number.

use switchboard_core::SplitMix;

/// A small, fast generator.
#[derive(Clone, Debug)]
pub(super) struct Random(SplitMix);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number below `bound`; 0 if there is none.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// An index into something of this length.
    pub(super) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// A number within both bounds.
    pub(super) const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True this often in a hundred.
    pub(super) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }
}
