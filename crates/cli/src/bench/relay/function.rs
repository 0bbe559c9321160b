//! The function: answers with exactly the load that it is asked for.

use switchboard_client::function::{self, Finish, Invocation, Options, RecordError, Reply};
use tokio::net::TcpListener;

use super::SECRET;
use crate::bench::servers::{Load, announce};

/// Serves the function until killed.
pub(in crate::bench) async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(&listener.local_addr()?.to_string())?;
    serve_on(listener).await
}

pub(super) async fn serve_on(listener: TcpListener) -> anyhow::Result<()> {
    function::serve(listener, Options::new(SECRET)?.max_running(MAX_RUNNING), answer).await?;
    Ok(())
}

async fn answer(invocation: Invocation, reply: Reply) -> Result<(), RecordError> {
    let load = invocation.text().as_deref().and_then(Load::parse).unwrap_or_else(|| Load::burst(1, 16));
    let mut answer = reply.records();
    let mut pace = load.pace();
    for _ in 0..load.count {
        pace.next().await;
        answer.text(load.delta()).await?;
    }
    answer.end(Finish::Complete).await
}

/// More than are ever asked for, so that nobody is sent away.
const MAX_RUNNING: usize = 2_000;
