//! A wrapper that keeps content out of logs.

use std::fmt;

/// Content or identity of a person: usable, but redacted wherever it is formatted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pii<T>(pub T);

impl<T> fmt::Debug for Pii<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl<T> fmt::Display for Pii<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_reveals_nothing() {
        let secret = Pii("s3cr3t");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)),
            "[redacted] [redacted] Some([redacted])"
        );
    }
}
