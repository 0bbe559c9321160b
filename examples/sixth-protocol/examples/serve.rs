//! The whole server, with one protocol more.
//!
//! ```text
//! cargo run -p switchboard-linewise --example serve -- [SETTING=VALUE …]
//! ```
//!
//! Everything else is as with `switchboard serve`: the settings are those of `switchboard config default`.

use switchboard_linewise::{Linewise, PATH};
use switchboard_server::{Config, Guests, Server, listen};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "whoever starts it wants to know where it is")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let none: [(String, String); 0] = [];
    let config = Config::load(None, none, std::env::args().skip(1))?;
    let listener = listen(config.listen)?;
    let guests = Guests::default().with_protocol(Linewise::default());
    let server = Server::start_hosting(config, guests).await?;
    println!("lines are spoken at ws://{}{PATH}; Ctrl-C ends it", listener.local_addr()?);
    server.run(listener, async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
    Ok(())
}
