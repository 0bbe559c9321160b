//! `switchboard record`: a session becomes a file, which `switchboard replay` plays again.

use std::io::Write;
use std::path::Path;

use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;

mod log;
mod proxy;
mod pump;
mod tape;
mod wire;

/// What to record.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Write the events of a session to a file
    #[command(after_help = "\
Examples:
  switchboard record log chat --output chat.jsonl
  switchboard record log ses_… --data data --output session.jsonl
  switchboard replay chat.jsonl --check

The file holds what was said. It holds no credential: of those, the log has hashes only.")]
    Log(log::Args),
    /// Stand between a client and a server, and write down what they say to each other
    #[command(after_help = "\
Examples:
  switchboard record wire --to ws://127.0.0.1:4600 --listen 127.0.0.1:4610 --output bug.jsonl
  switchboard record wire --to ws://127.0.0.1:4600 --output chat.jsonl -- switchboard chat --once hello
  switchboard replay bug.jsonl --to ws://127.0.0.1:4600 --check

Every protocol over WebSocket or HTTP passes. The client has to be told the address of the recorder
instead of the server's; a COMMAND finds it in SWITCHBOARD_URL. Ctrl-C ends the recording.

Credentials are not written down: `${key}` stands for what the client brought, `${token}` for what the
server gave. All else is there as it was said: look at the file before you give it away.")]
    Wire(wire::Args),
}

/// Runs `record`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::Log(args) => log::run(&args, environment, console).await,
        Command::Wire(args) => wire::run(args, console).await,
    }
}

/// Where a recording goes: to a file, or to the output.
fn destination(output: Option<&Path>) -> Result<Box<dyn Write + Send>, Failure> {
    match output {
        None => Ok(Box::new(std::io::stdout())),
        Some(path) => {
            // It holds what people have said.
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let file = options
                .open(path)
                .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", path.display())))?;
            Ok(Box::new(std::io::BufWriter::new(file)))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_recording_is_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording.jsonl");
        drop(super::destination(Some(&path)).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
