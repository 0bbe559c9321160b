//! Alicia: its codec by itself, and conversations over its socket.

mod codec;

pub(super) use codec::work;

use super::figures::Scale;
use super::report::Figure;

/// Everything that is measured of Alicia.
pub(super) async fn conversations(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    codec::figures(scale).await
}
