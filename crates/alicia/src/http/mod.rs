//! The HTTP endpoints of the reference, each exchange a connection of its own.

use switchboard_core::{Connection, Seed, Upgrade};

use crate::protocol::Alicia;

/// The connection that answers one request.
pub(crate) fn exchange(_protocol: &Alicia, _upgrade: Upgrade, _seed: Seed) -> Box<dyn Connection> {
    unimplemented!()
}
