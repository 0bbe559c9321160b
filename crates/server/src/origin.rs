//! Which web pages may connect, and under which names the server may be addressed.
//!
//! A browser attaches its user's network position to every page that it shows. The Origin check
//! keeps foreign pages out; the Host check keeps out pages whose name was made to point at
//! loopback (DNS rebinding), which would otherwise look like pages of the server itself.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::HeaderMap;

use crate::config::Config;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The rules, as they are configured.
#[derive(Clone, Debug)]
pub struct OriginPolicy {
    origins: Vec<Origin>,
    any_origin: bool,
    hosts: Vec<String>,
    /// Only names of loopback, and those configured.
    loopback: bool,
    /// The server itself speaks TLS, so its own origin is never plain.
    tls: bool,
    /// Clients speak TLS, be it with a proxy in front of the server.
    secure: bool,
    trusted_proxies: Vec<IpAddr>,
}

impl OriginPolicy {
    /// The rules of a configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            origins: config.allowed_origins.iter().filter_map(|origin| Origin::parse(origin)).collect(),
            any_origin: config.allowed_origins.iter().any(|origin| origin == "*"),
            hosts: config.allowed_hosts.iter().filter_map(|host| host_name(host)).collect(),
            loopback: config.listen.ip().is_loopback(),
            tls: config.has_tls(),
            secure: config.has_tls() || config.tls.terminated_elsewhere,
            trusted_proxies: config.trusted_proxies.clone(),
        }
    }

    /// Checks the headers `Host` and `Origin` of a request. A request without an Origin does not
    /// come from a web page.
    ///
    /// # Errors
    /// Which of the two is not allowed.
    pub fn check(&self, host: Option<&str>, origin: Option<&str>) -> Result<(), OriginError> {
        let name = match host {
            Some(host) => Some(host_name(host).ok_or(OriginError::Host)?),
            None => None,
        };
        if !self.allows_host(name.as_deref()) {
            return Err(OriginError::Host);
        }
        let Some(origin) = origin else { return Ok(()) };
        if self.any_origin {
            return Ok(());
        }
        let origin = Origin::parse(origin).ok_or(OriginError::Origin)?;
        if self.origins.contains(&origin) || host.is_some_and(|host| self.is_own(&origin, host)) {
            Ok(())
        } else {
            Err(OriginError::Origin)
        }
    }

    /// The address of the client of a request that came from `peer`. Proxies add entries to the header, or lines; all
    /// lines are one list.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let lines = headers.get_all(FORWARDED_FOR).iter();
        // What cannot be read is no address, and nothing left of it is believed.
        let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
        self.client_address(peer, Some(&lines.join(",")))
    }

    /// The address of the client: that of the peer, unless the peer is a proxy that is trusted to
    /// tell on whose behalf it asks.
    pub fn client_address(&self, peer: IpAddr, forwarded_for: Option<&str>) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusted_proxies.contains(&peer) {
            return peer;
        }
        // The nearest entry was added by the nearest proxy; what is left of the first one that is
        // not trusted may be made up.
        let mut client = peer;
        for entry in forwarded_for.unwrap_or_default().rsplit(',') {
            let Ok(address) = entry.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
            if !self.trusted_proxies.contains(&client) {
                break;
            }
        }
        client
    }

    /// The scheme, host and port under which a client reached the server: those of its request, unless
    /// the peer is a proxy that is trusted to tell how it was asked itself.
    pub fn reached(&self, peer: IpAddr, headers: &HeaderMap) -> String {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let told = |name| text(name).filter(|_| self.trusted_proxies.contains(&peer.to_canonical()));
        let scheme = match told("x-forwarded-proto") {
            Some(scheme @ ("http" | "https")) => scheme,
            Some(_) | None => {
                if self.secure {
                    "https"
                } else {
                    "http"
                }
            }
        };
        let known = |host: &&str| host_name(host).is_some_and(|name| self.allows_host(Some(&name)));
        let host = told("x-forwarded-host").filter(known).or_else(|| text("host")).unwrap_or_default();
        format!("{scheme}://{host}")
    }

    fn allows_host(&self, name: Option<&str>) -> bool {
        let Some(name) = name else { return !self.loopback && self.hosts.is_empty() };
        if self.hosts.iter().any(|host| host == name) {
            return true;
        }
        if self.loopback { LOOPBACK_NAMES.contains(&name) } else { self.hosts.is_empty() }
    }

    /// Whether the page was served under the very name that the request is addressed to.
    fn is_own(&self, origin: &Origin, host: &str) -> bool {
        let scheme_fits =
            if self.tls { origin.scheme == "https" } else { default_port(&origin.scheme).is_some() };
        scheme_fits
            && host_name(host).as_deref() == Some(&origin.host)
            && port_of(host).or_else(|| default_port(&origin.scheme)) == origin.port
    }
}

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It is addressed to a name that the server does not have.
    #[error("the host is not allowed; add it to allowed_hosts")]
    Host,
    /// It comes from a page that may not connect.
    #[error("the origin is not allowed; add it to allowed_origins")]
    Origin,
}

/// The origin of a web page: scheme, host and port, in lower case, the port always stated where
/// the scheme has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Origin {
    /// Reads `scheme://host[:port]`; none for anything else, `null` included.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        if scheme.is_empty() || !scheme.bytes().all(fits) {
            return None;
        }
        let host = host_name(authority)?;
        let port = port_of(authority).or_else(|| default_port(&scheme));
        Some(Self { scheme, host, port })
    }
}

/// The name in `host[:port]`, in lower case; none if it has another shape.
pub(crate) fn host_name(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        return is_port(port).then(|| format!("[{address}]"));
    }
    let (name, port) = match text.find(':') {
        Some(colon) => text.split_at(colon),
        None => (text, ""),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let name = name.strip_suffix('.').unwrap_or(name);
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(fits) && is_port(port))
        .then(|| name.to_ascii_lowercase())
}

/// Whether `text` is nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

fn port_of(text: &str) -> Option<u16> {
    let after = text.rfind(']').map_or(text, |bracket| text.get(bracket..).unwrap_or_default());
    after.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

const LOOPBACK_NAMES: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn policy(listen: &str, origins: &[&str], hosts: &[&str]) -> OriginPolicy {
        let config = Config {
            listen: listen.parse().unwrap(),
            allowed_origins: origins.iter().map(|&origin| origin.into()).collect(),
            allowed_hosts: hosts.iter().map(|&host| host.into()).collect(),
            trusted_proxies: vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()],
            ..Config::default()
        };
        OriginPolicy::new(&config)
    }

    #[test]
    fn hosts_on_loopback() {
        let policy = policy("127.0.0.1:4600", &[], &["box.test"]);
        let table = [
            (Some("localhost"), true),
            (Some("LocalHost:4600"), true),
            (Some("localhost."), true),
            (Some("127.0.0.1:4600"), true),
            (Some("[::1]:4600"), true),
            (Some("[0:0::1]"), true),
            (Some("box.test:4600"), true),
            (Some("evil.test"), false),
            (Some("127.0.0.1.evil.test"), false),
            (Some("localhost.evil.test:4600"), false),
            (Some("localhost@evil.test"), false),
            (Some("localhost:4600:1"), false),
            (Some("localhost:99999"), false),
            (Some("[::1"), false),
            (Some("0.0.0.0"), false),
            (Some(""), false),
            (None, false),
        ];
        for (host, allowed) in table {
            let expected = if allowed { Ok(()) } else { Err(OriginError::Host) };
            assert_eq!(policy.check(host, None), expected, "{host:?}");
        }
    }

    #[test]
    fn hosts_elsewhere() {
        let open = policy("0.0.0.0:4600", &[], &[]);
        assert_eq!(open.check(Some("anything.test"), None), Ok(()));
        assert_eq!(open.check(None, None), Ok(()));
        assert_eq!(open.check(Some("not a host"), None), Err(OriginError::Host));
        let named = policy("0.0.0.0:4600", &[], &["chat.test"]);
        assert_eq!(named.check(Some("chat.test"), None), Ok(()));
        assert_eq!(named.check(Some("localhost"), None), Err(OriginError::Host));
        assert_eq!(named.check(None, None), Err(OriginError::Host));
    }

    #[test]
    fn origins() {
        let policy = policy("127.0.0.1:4600", &["https://app.test", "http://localhost:5173"], &["app.test"]);
        let table = [
            ("localhost:4600", None, true),
            ("localhost:4600", Some("http://localhost:4600"), true),
            ("LOCALHOST:4600", Some("http://localhost:4600"), true),
            ("[::1]:4600", Some("http://[::1]:4600"), true),
            ("localhost:4600", Some("https://app.test"), true),
            ("localhost:4600", Some("https://APP.test:443"), true),
            ("localhost:4600", Some("http://localhost:5173"), true),
            // A proxy that ends TLS in front of us.
            ("app.test", Some("https://app.test"), true),
            // Other pages and programs of this machine.
            ("localhost:4600", Some("http://localhost:4601"), false),
            ("localhost:4600", Some("http://127.0.0.1:4600"), false),
            ("localhost:4600", Some("tauri://localhost:4600"), false),
            ("localhost:4600", Some("http://localhost.evil.test:4600"), false),
            ("localhost:4600", Some("http://app.test"), false),
            ("localhost:4600", Some("https://app.test:8443"), false),
            ("localhost:4600", Some("https://app.test.evil.test"), false),
            ("localhost:4600", Some("https://evil.test"), false),
            ("localhost:4600", Some("null"), false),
            ("localhost:4600", Some(""), false),
            ("localhost:4600", Some("file://"), false),
            ("localhost:4600", Some("https://app.test/path"), false),
            ("localhost:4600", Some("https://user@app.test"), false),
        ];
        for (host, origin, allowed) in table {
            let expected = if allowed { Ok(()) } else { Err(OriginError::Origin) };
            assert_eq!(policy.check(Some(host), origin), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_star_allows_all_origins_but_not_all_hosts() {
        let policy = policy("127.0.0.1:4600", &["*"], &[]);
        assert_eq!(policy.check(Some("localhost"), Some("https://evil.test")), Ok(()));
        assert_eq!(policy.check(Some("localhost"), Some("null")), Ok(()));
        assert_eq!(policy.check(Some("evil.test"), None), Err(OriginError::Host));
    }

    #[test]
    fn with_tls_a_plain_page_is_not_our_own() {
        let mut config = Config { listen: "0.0.0.0:443".parse().unwrap(), ..Config::default() };
        config.tls.cert = Some("cert.pem".into());
        let policy = OriginPolicy::new(&config);
        assert_eq!(policy.check(Some("chat.test"), Some("https://chat.test")), Ok(()));
        assert_eq!(policy.check(Some("chat.test:80"), Some("http://chat.test")), Err(OriginError::Origin));
    }

    #[test]
    fn only_trusted_proxies_tell_how_they_were_asked() {
        let ask = |policy: &OriginPolicy, peer: &str, told: &[(&'static str, &str)]| {
            let host = std::iter::once(&("host", "inner.test:4600"));
            let pair = |(name, value): &(&'static str, &str)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            };
            policy.reached(peer.parse().unwrap(), &host.chain(told).map(pair).collect())
        };
        let told = [("x-forwarded-proto", "https"), ("x-forwarded-host", "chat.test")];
        let open = policy("0.0.0.0:4600", &[], &[]);
        assert_eq!(ask(&open, "10.0.0.1", &told), "https://chat.test");
        assert_eq!(ask(&open, "9.9.9.9", &told), "http://inner.test:4600");
        assert_eq!(ask(&open, "10.0.0.1", &[]), "http://inner.test:4600");
        assert_eq!(ask(&open, "10.0.0.1", &[("x-forwarded-proto", "gopher")]), "http://inner.test:4600");
        assert_eq!(ask(&open, "10.0.0.1", &[("x-forwarded-host", "a b")]), "http://inner.test:4600");
        let named = policy("0.0.0.0:4600", &[], &["inner.test"]);
        assert_eq!(ask(&named, "10.0.0.1", &told), "https://inner.test:4600", "a host that is not ours");
        let mut config = Config { listen: "0.0.0.0:443".parse().unwrap(), ..Config::default() };
        config.tls.terminated_elsewhere = true;
        assert_eq!(ask(&OriginPolicy::new(&config), "9.9.9.9", &[]), "https://inner.test:4600");
    }

    #[test]
    fn the_lines_of_a_header_are_one_list() {
        let policy = OriginPolicy {
            trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
            ..policy("127.0.0.1:4600", &[], &[])
        };
        let client = |lines: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line).unwrap());
            }
            policy.client("127.0.0.1".parse().unwrap(), &headers).to_string()
        };
        // The proxy adds what it sees as a line of its own, below what the client has claimed.
        assert_eq!(client(&[b"198.51.100.77", b"203.0.113.66"]), "203.0.113.66");
        assert_eq!(client(&[b"198.51.100.77, 203.0.113.66", b"127.0.0.1"]), "203.0.113.66");
        assert_eq!(client(&[b"198.51.100.77", b"\xff"]), "127.0.0.1");
        assert_eq!(client(&[]), "127.0.0.1");
    }

    #[test]
    fn only_trusted_proxies_speak_for_others() {
        let policy = policy("0.0.0.0:4600", &[], &[]);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let table = [
            ("9.9.9.9", Some("1.1.1.1"), "9.9.9.9"),
            ("10.0.0.1", None, "10.0.0.1"),
            ("10.0.0.1", Some("1.1.1.1"), "1.1.1.1"),
            ("::ffff:10.0.0.1", Some("1.1.1.1"), "1.1.1.1"),
            ("10.0.0.1", Some("6.6.6.6, 1.1.1.1, 10.0.0.2"), "1.1.1.1"),
            ("10.0.0.1", Some("6.6.6.6, nonsense"), "10.0.0.1"),
        ];
        for (peer, forwarded, client) in table {
            assert_eq!(
                policy.client_address(address(peer), forwarded),
                address(client),
                "{peer} {forwarded:?}"
            );
        }
    }
}
