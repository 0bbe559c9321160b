//! How long things may take.

use std::time::Duration;

/// How long anything may take that should take no time; the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
