//! Names for messages and sessions.

use switchboard_core::Seed;

use crate::codec::uuid;

/// Fresh ids, from one seed: no two are alike.
#[derive(Clone, Debug)]
pub struct Ids {
    seed: Seed,
    minted: u64,
}

impl Ids {
    /// The ids of this seed.
    pub const fn new(seed: Seed) -> Self {
        Self { seed, minted: 0 }
    }

    /// The next one, a UUID.
    pub fn fresh(&mut self) -> String {
        self.minted += 1;
        uuid(&self.seed, self.minted)
    }
}
