//! Randomness as an argument.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// 256 bits of entropy handed to a pure component, from which it derives whatever it needs.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Wraps entropy that the caller has gathered.
    pub const fn new(entropy: [u8; 32]) -> Self {
        Self(entropy)
    }

    /// 256 bits that depend on the seed, a purpose and a counter, and reveal none of them.
    pub fn derive(&self, purpose: &str, counter: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(purpose.as_bytes());
        hash.update(counter.to_be_bytes());
        hash.finalize().into()
    }

    /// Which history a session is, if this is what opens it; never 0.
    pub fn epoch(&self, counter: u64) -> u32 {
        let [a, b, c, ..] = self.derive("epoch", counter);
        u32::from_be_bytes([0, a, b, c]) + 1
    }

    /// A secret token of 192 bits, safe in URLs.
    pub fn token(&self, purpose: &str, counter: u64) -> String {
        URL_SAFE_NO_PAD.encode(self.derive(purpose, counter).get(..24).unwrap_or_default())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_derived_depends_on_seed_purpose_and_counter_alone() {
        let seed = Seed::new([1; 32]);
        assert_eq!(seed.derive("turn", 1), Seed::new([1; 32]).derive("turn", 1));
        for other in [seed.derive("turn", 2), seed.derive("session", 1), Seed::new([2; 32]).derive("turn", 1)]
        {
            assert_ne!(seed.derive("turn", 1), other);
        }
    }

    #[test]
    fn a_token_is_192_bits_that_are_safe_in_a_url() {
        let token = Seed::new([1; 32]).token("resume", 7);
        assert_eq!(token.len(), 32);
        assert!(
            token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'),
            "{token}"
        );
        assert_ne!(token, Seed::new([1; 32]).token("resume", 8));
    }

    #[test]
    fn formatting_reveals_nothing() {
        assert_eq!(format!("{:?}", Seed::new([1; 32])), "Seed([redacted])");
    }
}
