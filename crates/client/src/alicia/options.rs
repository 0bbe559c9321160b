//! How to connect over Alicia.

use switchboard_alicia::client::ClientConfig;

use crate::connect::Socket;
use crate::endpoint::OptionsError;
use crate::socket::Target;

/// How to connect; a URL may have a path before `/api/v1/…`. The configuration says what to offer, and how long to
/// wait for what.
pub type Connect = crate::Connect<ClientConfig>;

impl Connect {
    pub(super) fn socket(&self) -> Result<Target, OptionsError> {
        let max_message = usize::try_from(self.config.limits.hard_cap).unwrap_or(usize::MAX);
        self.target(&Socket { path: PATH, subprotocol: None, bearer: None, max_message })
    }
}

pub(super) const PATH: &str = "/api/v1/ws";
