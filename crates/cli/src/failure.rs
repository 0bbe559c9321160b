//! Why a command did not do what it was asked to, and the exit code that says so.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// A command that failed: its exit code, and one message that says what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// It was tried, and it failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into() }
    }

    /// The arguments or the configuration cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// The server cannot be reached, or does not let this client in.
    pub(crate) fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, message: message.into() }
    }

    /// It failed, and everything that is to be said about it was said.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self { exit, message: String::new() }
    }

    /// What to tell the user; empty when there is nothing more to tell.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

/// Whoever reads the output may have seen enough: that is no failure.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::silent(Exit::Done)
        } else {
            Self::failed(error.to_string())
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Exit codes; `switchboard --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It was tried, and it failed.
    Failed = 1,
    /// The arguments or the configuration cannot be used.
    Usage = 2,
    /// The server cannot be reached, or does not let this client in.
    Unreachable = 3,
    /// The user interrupted it.
    Interrupted = 130,
}
