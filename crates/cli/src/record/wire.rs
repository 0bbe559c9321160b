//! `switchboard record wire`: a proxy that writes down what passes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::process::Command;

use super::proxy::Proxy;
use super::{destination, tape::Tape};
use crate::console::Console;
use crate::failure::{Exit, Failure};
use crate::recording::target::Target;

/// Arguments of `record wire`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where clients connect; port 0 takes any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The server: ws, wss, http or https
    #[arg(long, value_name = "URL")]
    to: String,
    /// A PEM file with the certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Where to write; the output unless given
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run this, with the address of the recorder in SWITCHBOARD_URL, and stop when it ends
    #[arg(last = true, value_name = "COMMAND", requires = "output")]
    command: Vec<String>,
}

/// Runs `record wire`.
pub(super) async fn run(args: Args, console: &Console) -> Result<(), Failure> {
    let target = Target::new(&args.to, args.ca_file.as_ref())?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Failure::usage(format!("{} cannot be listened on: {error}; name another with --listen", args.listen))
    })?;
    let address = listener.local_addr()?;
    let tape = Arc::new(Tape::new(destination(args.output.as_deref())?, args.to.clone()));
    let url = format!("ws://{address}");
    console.note(&format!("listening on {url}, for {}", args.to));
    let proxy = Proxy::new(target, tape.clone());
    let ended = tokio::select! {
        () = proxy.serve(listener) => Ok(()),
        ended = until_over(args.command, &url, console) => ended,
    };
    // What a client said last may still be on its way.
    proxy.settle().await;
    let (connections, entries, problem) = tape.finish();
    if let Some(problem) = problem {
        return Err(Failure::failed(format!("the recording is not complete: {problem}")));
    }
    console.note(&format!("recorded {entries} entries of {connections} connections"));
    ended
}

/// Waits for the end of the command, or for Ctrl-C.
async fn until_over(command: Vec<String>, url: &str, console: &Console) -> Result<(), Failure> {
    let Some((program, arguments)) = command.split_first() else {
        tokio::signal::ctrl_c().await?;
        return Ok(());
    };
    let spawned = Command::new(program).args(arguments).env("SWITCHBOARD_URL", url).spawn();
    let mut child = spawned.map_err(|error| Failure::usage(format!("{program} cannot be run: {error}")))?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(());
    }
    console.note(&format!("{program} ended with {status}"));
    Err(Failure::silent(Exit::Failed))
}
