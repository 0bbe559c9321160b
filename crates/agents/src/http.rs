//! HTTP clients for what agents talk to.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, ClientBuilder, redirect};
use rustls::{ClientConfig, RootCertStore};

/// A client for URLs of this scheme, which goes where it is told: no redirects, no proxies of the
/// environment.
///
/// # Errors
/// The system has no usable TLS.
pub(crate) fn client(scheme: &str, connect_timeout: Duration) -> Result<ClientBuilder, rustls::Error> {
    let builder = Client::builder()
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect_timeout)
        .redirect(redirect::Policy::none())
        .no_proxy();
    let provider = rustls::crypto::ring::default_provider();
    if scheme == "https" {
        // Somebody else may have chosen a provider already, which is as good.
        let _ = provider.install_default();
        return Ok(builder);
    }
    // Without TLS there is no need for certificates, which some small systems do not have.
    let tls = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(tls))
}

/// The pause before attempt number `next`, counted from 2: it doubles from `first_ms` to `longest_ms`, and
/// `spread` of 0 to 255 takes up to a quarter off, so that many who wait do not come back at once.
pub(crate) fn backoff(first_ms: u64, longest_ms: u64, next: u32, spread: u8) -> Duration {
    let doubled = first_ms.saturating_mul(1 << next.saturating_sub(2).min(20));
    let longest = doubled.min(longest_ms);
    Duration::from_millis(longest - longest / 4 * u64::from(spread) / 255)
}

/// What an endpoint asks for before another attempt. Dates are not understood, and left to the
/// usual pauses.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number(RETRY_AFTER.as_str()))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pauses: Vec<u128> = (2..8).map(|next| backoff(100, 1000, next, 0).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff(100, 1000, 9, 255).as_millis(), 750);
        assert_eq!(backoff(100, 1000, u32::MAX, 0).as_millis(), 1000);
    }
}
