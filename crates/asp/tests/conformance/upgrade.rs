//! The upgrade (§2): ASP-004 to ASP-008.

use switchboard_asp::{Asp, AspLimits};
use switchboard_core::{OpeningRequest, Pii, Principal, Protocol, Refusal, Scopes, Timestamp, Transport};
use switchboard_testkit::World;

fn asp() -> Asp {
    Asp::new(AspLimits::default())
}

fn request(subprotocols: &[&str]) -> OpeningRequest {
    OpeningRequest {
        subprotocols: subprotocols.iter().map(|entry| Pii((*entry).to_owned())).collect(),
        websocket: true,
        ..OpeningRequest::default()
    }
}

fn bearer(header: &str) -> OpeningRequest {
    OpeningRequest { authorization: Some(Pii(header.to_owned())), ..request(&["asp-v1"]) }
}

/// `s3cr3t/token+==` is the token of T25.
fn world() -> World {
    let mut world = World::new();
    world.issue("s3cr3t/token+==", Principal::new("ann"));
    world.issue("stale", Principal { expires_at: Some(Timestamp::from_secs(1)), ..Principal::new("ann") });
    world.issue("other", Principal::new("bob"));
    world.issue("narrow", Principal { scopes: Scopes::parse("connect agent:none"), ..Principal::new("eve") });
    world.issue("mute", Principal { scopes: Scopes::parse("admin"), ..Principal::new("eve") });
    world
}

fn status(refusal: &Refusal) -> u16 {
    asp().refuse(refusal, "req-1").status
}

#[test]
fn asp_004_the_subprotocol_is_selected_and_demanded() {
    let (_, selected) = world().knock(&asp(), &bearer("Bearer s3cr3t/token+==")).unwrap();
    assert_eq!(selected.as_deref(), Some("asp-v1"));
    for offered in [&[][..], &["asp-v2"], &["asp-bearer.czNjcjN0L3Rva2VuKz09"], &["chat", "ASP-V1"]] {
        let refusal = asp().inspect(&request(offered)).unwrap_err();
        assert_eq!(status(&refusal), 400, "{offered:?}");
    }
    let many = OpeningRequest {
        subprotocols: ["chat", "asp-v1"].map(|e| Pii(e.to_owned())).into(),
        ..bearer("Bearer s3cr3t/token+==")
    };
    assert_eq!(asp().inspect(&many).unwrap().subprotocol, Some(Pii("asp-v1".into())));
    let refusal = asp().inspect(&OpeningRequest { websocket: false, ..request(&["asp-v1"]) }).unwrap_err();
    assert_eq!(status(&refusal), 426);
}

#[test]
fn asp_005_the_path_of_the_draft_is_served() {
    let route = |asp: &Asp| asp.routes().iter().map(|route| route.path).collect::<Vec<_>>();
    assert_eq!(route(&asp()), ["/v1/agent-socket"]);
    assert_eq!(route(&asp().with_alias()), ["/v1/agent-socket", "/ws"]);
    assert!(asp().routes().iter().all(|route| route.transport == Transport::WebSocket));
}

#[test]
fn asp_006_no_valid_credential_is_401_before_anything_else() {
    let cases = [
        (request(&["asp-v1"]), 2100),
        (bearer("Bearer wrong"), 2101),
        (bearer("Basic s3cr3t"), 2101),
        (bearer("Bearer stale"), 2102),
        (request(&["asp-v1", "asp-bearer.d3Jvbmc"]), 2101),
        (request(&["asp-v1", "asp-bearer.not base64!"]), 2101),
    ];
    for (request, code) in cases {
        let refusal = world().knock(&asp(), &request).unwrap_err();
        let reply = asp().refuse(&refusal, "req-1");
        assert_eq!(reply.status, 401, "{request:?}");
        assert!(reply.headers.contains(&("www-authenticate", "Bearer".into())), "{reply:?}");
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["error"]["code"], code, "{request:?}");
        assert!(body["error"]["name"].is_string() && body["error"]["retry"].is_boolean());
    }
}

#[test]
fn asp_007_both_forms_of_the_credential_are_read_and_neither_is_echoed() {
    let both = OpeningRequest {
        authorization: Some(Pii("bearer s3cr3t/token+==".into())),
        ..request(&["asp-v1", "asp-bearer.czNjcjN0L3Rva2VuKz09"])
    };
    let entry = request(&["asp-v1", "asp-bearer.czNjcjN0L3Rva2VuKz09"]);
    for request in [bearer("Bearer s3cr3t/token+=="), entry, both] {
        let opening = asp().inspect(&request).unwrap();
        let shown: Vec<_> =
            opening.credentials.iter().map(|credential| credential.token.0.as_str()).collect();
        assert_eq!(shown, ["s3cr3t/token+=="]);
        assert_eq!(opening.subprotocol, Some(Pii("asp-v1".into())), "the credential is never selected");
        assert!(!format!("{opening:?}{request:?}").contains("s3cr3t"), "nor logged");
        assert!(!format!("{opening:?}{request:?}").contains("czNjcj"));
        assert!(world().knock(&asp(), &request).is_ok());
    }
    // Two that differ, and two entries, are as good as a wrong one.
    let differ = OpeningRequest {
        authorization: Some(Pii("Bearer other".into())),
        ..request(&["asp-v1", "asp-bearer.czNjcjN0L3Rva2VuKz09"])
    };
    let twice = request(&["asp-v1", "asp-bearer.czNjcjN0L3Rva2VuKz09", "asp-bearer.czNjcjN0L3Rva2VuKz09"]);
    for request in [differ, twice] {
        assert_eq!(status(&world().knock(&asp(), &request).unwrap_err()), 401);
    }
}

#[test]
fn asp_008_a_token_in_the_query_is_refused_even_beside_a_good_one() {
    let queries = [
        "token=x",
        "Token=x",
        "access_token=x",
        "agent=demo&api_key=x",
        "api-key=x",
        "%74oken=x",
        "auth=x&end=complete06",
        "asp-bearer=x",
    ];
    for query in queries {
        let request = OpeningRequest { query: query.into(), ..bearer("Bearer s3cr3t/token+==") };
        let refusal = world().knock(&asp(), &request).unwrap_err();
        let reply = asp().refuse(&refusal, "req-1");
        assert_eq!(reply.status, 401, "{query}");
        assert!(!reply.body.contains('x') || !reply.body.contains("token=x"));
    }
    let request = OpeningRequest { query: "end=complete06".into(), ..bearer("Bearer s3cr3t/token+==") };
    assert!(world().knock(&asp(), &request).is_ok());
}

#[test]
fn the_table_of_upgrade_outcomes_is_as_written() {
    let knock = |token: &str, query: &str| {
        let request = OpeningRequest { query: query.into(), ..bearer(&format!("Bearer {token}")) };
        world().knock(&asp(), &request).map(|_| 101).unwrap_or_else(|refusal| status(&refusal))
    };
    assert_eq!(knock("s3cr3t/token+==", ""), 101);
    assert_eq!(knock("s3cr3t/token+==", "agent=echo"), 101);
    assert_eq!(knock("s3cr3t/token+==", "agent=nobody"), 404);
    assert_eq!(knock("s3cr3t/token+==", "agent=not%20a%20name"), 400);
    assert_eq!(knock("narrow", "agent=echo"), 403);
    assert_eq!(knock("mute", ""), 403);
    for (refusal, expected, code, retry_after) in [
        (Refusal::UpgradeRequired, 426, 2000, None),
        (Refusal::Malformed("x"), 400, 2000, None),
        (Refusal::CredentialMissing, 401, 2100, None),
        (Refusal::CredentialInvalid, 401, 2101, None),
        (Refusal::CredentialExpired, 401, 2102, None),
        (Refusal::Forbidden("x"), 403, 2103, None),
        (Refusal::UnknownAgent, 404, 2304, None),
        (Refusal::TooMany { retry_ms: 1500 }, 429, 2200, Some("2")),
        (Refusal::Draining { retry_ms: 10 }, 503, 2501, Some("1")),
    ] {
        let reply = asp().refuse(&refusal, "req-1");
        let body: serde_json::Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((reply.status, body["error"]["code"].as_i64()), (expected, Some(code)), "{refusal:?}");
        let header = reply.headers.iter().find(|(name, _)| *name == "retry-after");
        assert_eq!(header.map(|(_, value)| value.as_str()), retry_after, "{refusal:?}");
    }
}
