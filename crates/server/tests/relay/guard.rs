//! Where a function may live.

use std::net::SocketAddr;

use crate::setup::{serve, unsigned, with_function};
use crate::support::function::Function;
use crate::support::wire::Peer;
use crate::support::{ANN, load};

/// Why a server does not start with these settings.
pub(crate) fn refused(settings: &[String]) -> String {
    let data = tempfile::tempdir().unwrap();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    load(data.path(), &[], &settings).expect_err("settings that cannot be served").to_string()
}

#[test]
fn private_addresses_are_refused_at_start() {
    for url in [
        "http://127.0.0.1:8080/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "http://localhost:8080/",
        "http://2130706433/",
    ] {
        let problem = refused(&with_function(url, &["agents.fn.allow_private=false"]));
        assert!(problem.contains("agents.fn.url") && problem.contains("allow_private"), "{url}: {problem}");
    }
}

#[test]
fn what_is_no_address_of_a_function_is_refused_at_start() {
    for url in ["", "ftp://example.com/", "not a url", "http://user:password@example.com/"] {
        let problem = refused(&with_function(url, &[]));
        assert!(problem.contains("agents.fn.url"), "{url}: {problem}");
        assert!(!problem.contains("password@"), "{problem}");
    }
    let problem = refused(&with_function("https://example.com", &["agents.fn.concurrency=0"]));
    assert!(problem.contains("agents.fn.concurrency"), "{problem}");
    let problem = refused(&unsigned("https://example.com", &["agents.fn.secret_env=NOWHERE"]));
    assert!(problem.contains("NOWHERE"), "{problem}");
}

/// Names that lead to this machine without saying so.
async fn disguised_names() -> Vec<String> {
    let mut names = vec!["localhost.".to_owned()];
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = hosts.lines().filter(|line| !line.trim_start().starts_with('#'));
    names.extend(lines.flat_map(|line| line.split_whitespace().skip(1)).map(str::to_owned));
    names.retain(|name| name != "localhost" && !name.ends_with(".localhost"));
    let mut leading = Vec::new();
    for name in names {
        let found: Vec<SocketAddr> = match tokio::net::lookup_host((name.as_str(), 0)).await {
            Ok(found) => found.collect(),
            Err(_) => continue,
        };
        if !found.is_empty() && found.iter().all(|address| address.ip().is_loopback()) {
            leading.push(name);
        }
    }
    leading
}

#[tokio::test]
async fn names_that_lead_to_private_addresses_are_not_connected_to() {
    let function = Function::start().await;
    let port = function.address.port();
    let names = disguised_names().await;
    for name in &names {
        let url = format!("http://{name}:{port}");
        let server = serve(&url, &["agents.fn.allow_private=false", "agents.fn.retries=1"]).await;
        let mut peer = Peer::standard(server.address, ANN).await;
        let (_, outcome) = peer.turn(1, "hi").await;
        assert_eq!(outcome, "2500", "{name}");
    }
    assert_eq!(function.connections(), 0, "{names:?}");
    if names.is_empty() {
        println!("skipped: no other name of this machine is known here");
    }
}
