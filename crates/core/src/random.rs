//! Numbers that look random and come from one seed.

/// SplitMix64: small and fast, enough to keep clients apart and to steer tests. Not for secrets;
/// those come from a [`Seed`](crate::Seed).
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The numbers of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
