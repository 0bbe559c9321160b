//! HTTP, as every client of this crate speaks it.

use std::time::Duration;

use crate::tls::{TlsError, Trust, unused};

/// A client that goes where it is sent and nowhere else.
pub(crate) fn client(secure: bool, trust: &Trust) -> Result<reqwest::ClientBuilder, TlsError> {
    let tls = if secure { trust.config()? } else { unused()? };
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10)))
}

/// An error with its causes: the first one alone seldom says why.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
