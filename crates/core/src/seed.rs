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
