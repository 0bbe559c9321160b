//! The binary `switchboard`.

use anyhow::Context as _;
use switchboard_server::{Config, Server};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let overrides: Vec<String> = std::env::args().skip(1).collect();
    let config = Config::load(None, std::env::vars(), overrides)?;
    let listener = tokio::net::TcpListener::bind(config.listen).await.context("listen")?;
    println!("listening on {}", listener.local_addr()?);
    Server::start(config)
        .await?
        .run(listener, async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await?;
    Ok(())
}
