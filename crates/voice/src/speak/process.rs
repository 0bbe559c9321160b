//! One run of a program that writes sound to its standard output.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::SpeakError;

/// What a program writes when it is given some words on its standard input. Ends with the future.
pub(super) async fn run(
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    input: Option<&str>,
) -> Result<Vec<u8>, SpeakError> {
    let failed = |what: &str| {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        SpeakError::Failed(format!("{name} {what}"))
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|_| failed("cannot be started"))?;
    let stdin = child.stdin.take();
    let Some(stdout) = child.stdout.take() else {
        return Err(failed("has no output"));
    };
    // Both at once: a program may write before it has read everything.
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // One that does not read to the end may still say what it has read.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let read = async {
        let mut output = Vec::new();
        stdout.take(MOST_OUTPUT + 1).read_to_end(&mut output).await.map(|_| output)
    };
    let ((), output) = tokio::join!(write, read);
    let output = output.map_err(|_| failed("cannot be read from"))?;
    if output.len() as u64 > MOST_OUTPUT {
        return Err(failed("does not stop to speak"));
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(output),
        Ok(_) | Err(_) => Err(failed("failed")),
    }
}

/// Bytes of two minutes at a high rate: one sentence is never so long.
const MOST_OUTPUT: u64 = 2 * 60 * 48_000 * 2;
