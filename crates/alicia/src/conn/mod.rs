//! One connection, seen from the server.

use switchboard_core::{Connection, Input, Output, Seed, Timestamp, Upgrade, Violation};

use crate::protocol::Alicia;

/// The server's half of one connection.
#[derive(Debug)]
pub struct AliciaConnection {}

impl AliciaConnection {
    pub(crate) fn new(_protocol: &Alicia, _upgrade: Upgrade, _seed: Seed) -> Self {
        Self {}
    }
}

impl Connection for AliciaConnection {
    fn handle_input(&mut self, _input: Input<'_>, _now: Timestamp) -> Result<(), Violation> {
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        Output::Idle { wake: None }
    }
}
