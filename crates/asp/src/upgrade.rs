//! What the WebSocket upgrade says about ASP (§2): paths and the browser's credential.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "asp-v1";
/// The path of the draft.
pub const PATH: &str = "/v1/agent-socket";
/// The path of the diagrams, an optional alias.
pub const PATH_ALIAS: &str = "/ws";
const BEARER_PREFIX: &str = "asp-bearer.";
const PLAIN_PREFIX: &str = "bearer.";

/// The subprotocol entry that carries a browser's token; never echoed, never logged (ASP-007).
pub fn bearer_entry(token: &str) -> String {
    format!("{BEARER_PREFIX}{}", URL_SAFE_NO_PAD.encode(token))
}

/// Whether a subprotocol entry claims to be a credential, readable or not.
pub fn is_bearer_entry(entry: &str) -> bool {
    entry.starts_with(BEARER_PREFIX) || entry.starts_with(PLAIN_PREFIX)
}

/// The token in a subprotocol entry; `None` if it is no credential or not readable. Ours: `bearer.<token>`, the token as it
/// is, which the sockets of the other protocols know, too.
pub fn bearer_token(entry: &str) -> Option<String> {
    if let Some(token) = entry.strip_prefix(PLAIN_PREFIX) {
        return Some(token.to_owned()).filter(|token| !token.is_empty());
    }
    let encoded = entry.strip_prefix(BEARER_PREFIX)?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}
