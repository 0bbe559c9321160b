//! What the machine must allow before thousands of connections can be measured.

use anyhow::bail;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this process, and the processes that it starts from now on, open so many connections.
///
/// Both ends are processes of their own, so each needs one descriptor per connection. Ports need no
/// care: see [`dial`](super::peer::dial).
///
/// # Errors
/// The limit cannot be raised that far; the message says what to do.
pub(super) fn allow_connections(connections: usize) -> anyhow::Result<()> {
    let needed = u64::try_from(connections)? + SPARE;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // Only the superuser may raise the hard limit, but asking costs nothing.
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(());
    }
    bail!(
        "{connections} connections need {needed} open files per process, and the hard limit is {hard}: raise \
         it (`sudo prlimit --pid $$ --nofile={needed}:{needed}` in this shell, `LimitNOFILE=` of systemd, \
         `--ulimit nofile={needed}` of a container) and run again, or measure less with --quick or --only"
    )
}

/// Descriptors that are no connections: the log, the runtime, pipes.
const SPARE: u64 = 256;
