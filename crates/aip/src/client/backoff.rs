//! How long to wait before the next try to connect.

use std::time::Duration;

use switchboard_core::{Jitter, Seed};

/// How waits grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each is a multiple of the one before.
    Exponential,
    /// Each is longer by the first.
    Linear,
    /// There are none.
    Immediate,
    /// There are no further tries.
    None,
}

impl Policy {
    /// What configurations call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exponential => "exponential_backoff",
            Self::Linear => "linear_backoff",
            Self::Immediate => "immediate",
            Self::None => "none",
        }
    }
}

/// When to try again, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// How waits grow.
    pub policy: Policy,
    /// How many tries in a row may fail.
    pub max_tries: u32,
    /// The first wait.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
    /// What exponential waits grow by.
    pub multiplier: f64,
    /// By which part a wait is made longer or shorter at random, so that clients that were cut off
    /// together do not come back together.
    pub jitter: f64,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            policy: Policy::Exponential,
            max_tries: 5,
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            multiplier: 2.0,
            jitter: 0.2,
        }
    }
}

impl Strategy {
    /// What devices use.
    pub fn device() -> Self {
        Self { max_tries: 3, initial: Duration::from_secs(2), ..Self::default() }
    }

    /// The wait before the given try, from 0, without what chance adds.
    pub fn delay(&self, n: u32) -> Duration {
        let grown = match self.policy {
            Policy::Exponential => {
                let n = i32::try_from(n).unwrap_or(i32::MAX);
                self.initial.as_secs_f64() * self.multiplier.powi(n)
            }
            Policy::Linear => self.initial.as_secs_f64() * (f64::from(n) + 1.0),
            Policy::Immediate | Policy::None => 0.0,
        };
        self.capped(grown)
    }

    fn capped(&self, secs: f64) -> Duration {
        // What cannot be a duration, such as infinity, is too long in any case.
        Duration::try_from_secs_f64(secs).map_or(self.max, |wait| wait.min(self.max))
    }
}

/// Tries in a row.
#[derive(Clone, Debug)]
pub struct Backoff {
    strategy: Strategy,
    tries: u32,
    spread: switchboard_core::Backoff,
}

impl Backoff {
    /// Before the first try. The seed decides how far waits stray.
    pub fn new(strategy: Strategy, seed: &Seed) -> Self {
        // The cast saturates; of nothing but a number there is no part.
        let jitter = Jitter::Around((strategy.jitter * 100.0).round() as u8);
        let spread = switchboard_core::Backoff::new(strategy.initial, strategy.max, jitter).seeded(seed);
        Self { strategy, tries: 0, spread }
    }

    /// How long to wait before the next try; none once it is to be left alone.
    pub fn next_delay(&mut self) -> Option<Duration> {
        if self.strategy.policy == Policy::None || self.tries >= self.strategy.max_tries {
            return None;
        }
        let delay = self.strategy.delay(self.tries);
        self.tries += 1;
        Some(self.spread.spread(delay).min(self.strategy.max))
    }

    /// It worked: the next time begins with the first wait.
    pub const fn reset(&mut self) {
        self.tries = 0;
    }

    /// Tries since the last success.
    pub const fn tries(&self) -> u32 {
        self.tries
    }
}
