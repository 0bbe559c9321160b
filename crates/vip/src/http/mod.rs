//! The HTTP control plane (§2): every endpoint is one exchange.

use serde_json::Value;
use switchboard_core::{Connection, Seed, Upgrade};

use crate::error::Fault;
use crate::protocol::Vip;
use crate::record::SessionRecord;
use crate::token::SessionClaims;

mod create;
mod discovery;
mod exchange;
mod recent;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use recent::Recent;

/// Makes the exchange for a request; what is known of its session goes with it.
pub(crate) fn exchange(
    protocol: &Vip,
    upgrade: Upgrade,
    known: Option<(SessionClaims, SessionRecord)>,
    seed: Seed,
) -> Box<dyn Connection> {
    Box::new(exchange::Exchange::new(protocol, upgrade, known, seed))
}

/// The headers that go with an error.
pub(crate) fn headers_of(status: u16, fault: &Fault) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    if status == 401 {
        headers.push(("www-authenticate", "Bearer error=\"invalid_token\"".to_owned()));
    }
    if matches!(status, 429 | 503) {
        let retry_ms = fault.retry_after_ms.unwrap_or(1_000);
        headers.push(("retry-after", retry_ms.div_ceil(1_000).max(1).to_string()));
    }
    headers
}

/// The object without the members that are not there.
fn compact(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    value
}

pub(crate) const JSON: &str = "application/json; charset=utf-8";
