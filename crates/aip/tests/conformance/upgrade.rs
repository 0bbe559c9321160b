//! Ways in (§2, §9.1): AIP-001 to AIP-003, AIP-032, AIP-037, AIP-085.

use serde_json::{Value, json};
use switchboard_aip::{Aip, AipLimits, Service};
use switchboard_core::{
    Method, OpeningRequest, Pii, Principal, Protocol as _, Refusal, Scopes, Timestamp, Transport,
};

use crate::support::{Talk, beat, endpoint, register, socket};

/// The status of a request for the socket.
fn status(talk: &mut Talk, request: &OpeningRequest) -> u16 {
    match talk.world.knock(&talk.aip, request) {
        Ok(_) => 101,
        Err(refusal) => talk.aip.refuse(&refusal, "req-1").status,
    }
}

fn bearing(value: &str) -> OpeningRequest {
    OpeningRequest { query: String::new(), authorization: Some(Pii(value.to_owned())), ..socket("") }
}

#[test]
fn aip_001_the_socket_and_the_four_endpoints_are_served_and_nothing_else() {
    let aip = Aip::new(AipLimits::default(), Service::default());
    let routes: Vec<_> = aip.routes().iter().map(|route| (route.path, route.transport)).collect();
    assert_eq!(
        routes,
        [
            ("/ws", Transport::WebSocket),
            ("/api/health", Transport::Http(Method::Get)),
            ("/api/clients", Transport::Http(Method::Get)),
            ("/api/dispatch", Transport::Http(Method::Post)),
            ("/api/task_result/{task_name}", Transport::Http(Method::Get)),
        ]
    );
    assert_eq!((aip.name(), aip.max_message()), ("aip", 8 << 20));
    assert_eq!(aip.headers(), ["x-api-key"]);
}

#[test]
fn aip_002_the_credential_comes_in_the_query_or_in_a_header() {
    let mut talk = Talk::new();
    let keyed =
        OpeningRequest { query: String::new(), headers: vec![("x-api-key", "ann".to_owned())], ..socket("") };
    let later = OpeningRequest { query: "a=b&token=ann".to_owned(), ..socket("") };
    let escaped = OpeningRequest { query: "token=%61%6En".to_owned(), ..socket("") };
    for request in [socket("ann"), bearing("Bearer ann"), bearing("bearer ann"), keyed, later, escaped] {
        let (peer, selected) = talk.world.knock(&talk.aip, &request).unwrap();
        assert_eq!(selected, None, "no subprotocol");
        talk.say(peer, &register("dev", json!({})));
        assert_eq!(talk.short(peer), ["ack"], "{request:?}");
        talk.world.cut(peer);
    }
}

#[test]
fn aip_002_a_token_with_signs_in_it_is_read_as_it_was_meant() {
    let mut talk = Talk::new();
    for (token, query) in [
        ("a b", "token=a+b"),
        ("a+b/c=", "token=a%2Bb%2fc%3D"),
        ("100%", "token=100%"),
        ("%zz", "token=%zz"),
        ("%4", "token=%4"),
        ("ü", "token=%C3%BC"),
    ] {
        talk.world.issue(token, Principal::new("ann"));
        let request = OpeningRequest { query: query.to_owned(), ..socket("") };
        assert_eq!(status(&mut talk, &request), 101, "{query}");
    }
    let broken = OpeningRequest { query: "token=%ff".to_owned(), ..socket("") };
    assert_eq!(status(&mut talk, &broken), 401);
}

#[test]
fn aip_003_without_a_good_credential_nothing_is_upgraded() {
    let mut talk = Talk::new();
    let stale = Principal { expires_at: Some(Timestamp::from_secs(1)), ..Principal::new("ann") };
    talk.world.issue("stale", stale);
    let none = OpeningRequest { query: String::new(), ..socket("") };
    let other = OpeningRequest { query: "Token=ann&xtoken=ann".to_owned(), ..socket("") };
    for request in [none, other, socket("wrong"), socket(""), socket("ANN"), socket("stale")] {
        let refusal = talk.world.knock(&talk.aip, &request).unwrap_err();
        let reply = talk.aip.refuse(&refusal, "req-1");
        assert_eq!(reply.status, 401, "{request:?}");
        assert_eq!(reply.content_type, "application/json");
        assert!(serde_json::from_str::<Value>(&reply.body).unwrap()["detail"].is_string());
        assert!(reply.headers.contains(&("www-authenticate", "Bearer".to_owned())));
    }
    for header in ["Basic ann", "ann", "Bearer", "Bearer wrong", ""] {
        let request = OpeningRequest { query: "token=ann".to_owned(), ..bearing(header) };
        let expected = if header == "Bearer wrong" { 101 } else { 401 };
        assert_eq!(status(&mut talk, &request), expected, "{header}: one good credential is enough");
    }
}

#[test]
fn aip_003_whoever_has_no_role_here_is_told_so_before_the_upgrade() {
    let mut talk = Talk::new();
    let refusal = talk.world.knock(&talk.aip, &socket("watcher")).unwrap_err();
    assert!(matches!(refusal, Refusal::Forbidden(_)));
    assert_eq!(talk.aip.refuse(&refusal, "req-1").status, 403);
    let deaf = Principal { scopes: Scopes::parse("invoke"), ..Principal::new("deaf") };
    talk.world.issue("deaf", deaf);
    assert_eq!(status(&mut talk, &socket("deaf")), 403);
}

#[test]
fn refusals_are_told_in_the_words_of_the_reference() {
    let aip = Aip::new(AipLimits::default(), Service::default());
    let told = |refusal: &Refusal| {
        let reply = aip.refuse(refusal, "req-1");
        (reply.status, reply.body)
    };
    assert_eq!(told(&Refusal::CredentialInvalid), (401, r#"{"detail":"Invalid API key"}"#.to_owned()));
    assert_eq!(told(&Refusal::CredentialMissing).0, 401);
    assert_eq!(told(&Refusal::CredentialExpired).0, 401);
    assert_eq!(told(&Refusal::UpgradeRequired).0, 426);
    assert_eq!(told(&Refusal::WrongMethod).0, 405);
    assert_eq!(told(&Refusal::TooBig).0, 413);
    assert_eq!(told(&Refusal::UnknownAgent).0, 404);
    assert_eq!(told(&Refusal::Malformed("x")), (400, r#"{"detail":"x"}"#.to_owned()));
    for (refusal, status) in
        [(Refusal::TooMany { retry_ms: 1_500 }, 429), (Refusal::Draining { retry_ms: 1_500 }, 503)]
    {
        let reply = aip.refuse(&refusal, "req-1");
        assert_eq!(reply.status, status);
        assert!(reply.headers.contains(&("retry-after", "2".to_owned())), "{:?}", reply.headers);
    }
}

#[test]
fn aip_037_tokens_are_not_part_of_what_is_kept_or_printed() {
    let mut talk = Talk::new();
    let secret = "s3cret-of-ann";
    talk.world.issue(secret, Principal::new("ann"));
    for request in [socket(secret), bearing(&format!("Bearer {secret}")), {
        OpeningRequest { headers: vec![("x-api-key", secret.to_owned())], ..bearing("Bearer wrong") }
    }] {
        let opening = talk.aip.inspect(&request).unwrap();
        assert!(!format!("{opening:?} {request:?}").contains(secret));
        let (peer, _) = talk.world.knock(&talk.aip, &request).unwrap();
        talk.say(peer, &beat());
        let told = talk.short(peer).join(" ");
        assert!(!told.contains(secret), "{told}");
    }
    assert!(!format!("{:?}", talk.aip).contains(secret));
    for (_, committed) in talk.world.history() {
        assert!(!format!("{committed:?}").contains(secret));
    }
}

#[test]
fn aip_085_every_endpoint_needs_the_key() {
    let mut talk = Talk::new();
    let calls = [
        ("/api/health", "/api/health"),
        ("/api/clients", "/api/clients"),
        ("/api/dispatch", "/api/dispatch"),
        ("/api/task_result/{task_name}", "/api/task_result/T1"),
    ];
    for (path, target) in calls {
        assert_eq!(talk.http("", path, target, &json!({})).0, 401, "{path}");
        let wrong = talk.http("wrong", path, target, &json!({}));
        assert_eq!(wrong, (401, json!({ "detail": "Invalid API key" })), "{path}");
        assert_ne!(talk.http("ann", path, target, &json!({})).0, 401, "{path}");
        // A credential in the address counts on the socket only.
        let request = OpeningRequest { query: "token=ann".to_owned(), ..endpoint("", path, target) };
        let refusal = talk.world.exchange(&talk.aip, &request, b"{}").unwrap_err();
        assert_eq!(talk.aip.refuse(&refusal, "req-1").status, 401, "{path}");
        let request = OpeningRequest {
            authorization: Some(Pii("Bearer ann".to_owned())),
            ..endpoint("", path, target)
        };
        assert!(talk.world.exchange(&talk.aip, &request, b"{}").is_ok(), "{path}");
    }
}
