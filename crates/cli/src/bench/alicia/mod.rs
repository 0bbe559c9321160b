//! Alicia: its codec by itself, and conversations over its socket.

mod bare;
mod client;
mod codec;
mod served;

pub(super) use bare::bare_loop;
pub(super) use client::PATH;
pub(super) use codec::work;

use super::figures::Scale;
use super::report::Figure;

/// Everything that is measured of Alicia.
pub(super) async fn conversations(scale: Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = codec::figures(scale).await?;
    figures.extend(served::streaming(scale).await?);
    figures.extend(served::resume(scale).await?);
    figures.extend(served::opening(scale).await?);
    Ok(figures)
}
