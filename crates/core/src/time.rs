//! The only notion of time in pure code.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch. Arithmetic saturates.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The far future: a wake time that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// From seconds since the Unix epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// Whole seconds since the Unix epoch.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Date and time of day in UTC.
    pub const fn calendar(self) -> Calendar {
        // Years begin in March here, so that the day that comes every four years is the last.
        let (days, second) = (self.as_secs() / 86_400 + 719_468, self.as_secs() % 86_400);
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        Calendar { year: era * 400 + year + next, month, day, hour, minute, second }
    }

    /// This much later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// The year.
    pub year: u64,
    /// From 1 to 12.
    pub month: u64,
    /// From 1 to 31.
    pub day: u64,
    /// From 0 to 23.
    pub hour: u64,
    /// From 0 to 59.
    pub minute: u64,
    /// From 0 to 59.
    pub second: u64,
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
