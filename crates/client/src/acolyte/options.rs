//! How to connect over Acolyte.

use switchboard_acolyte::client::ClientConfig;

use crate::connect::Socket;

/// How to connect; a URL may have a path before `/v1/…`. The configuration says what to offer, and how long to wait
/// for what.
pub type Connect = crate::Connect<ClientConfig>;

/// Longer messages than any server has a reason to send are not read.
pub(super) const SOCKET: Socket =
    Socket { path: "/v1/rpc", subprotocol: None, bearer: None, max_message: 64 << 20 };
