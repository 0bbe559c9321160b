//! Ways in (§2.1, §2.2, §10): AC-004 to AC-011.

use serde_json::{Value, json};
use switchboard_acolyte::{Acolyte, AcolyteLimits, Service};
use switchboard_core::{
    Connection, Credential, Frame, Input, Method, Opening, OpeningRequest, Output, Pii, Principal,
    Protocol as _, Refusal, Scopes, Seed, Timestamp, Transport, Upgrade,
};
use switchboard_testkit::{Received, World};

use crate::support::rpc;

fn acolyte() -> Acolyte {
    Acolyte::new(AcolyteLimits::default(), Service { model: Some("demo".into()), ..Service::default() })
}

fn world() -> World {
    let mut world = World::new();
    world.issue("k3y", Principal::new("ann"));
    world.issue("stale", Principal { expires_at: Some(Timestamp::from_secs(1)), ..Principal::new("ann") });
    world.issue("boss", Principal { scopes: Scopes::all(), ..Principal::new("boss") });
    world
}

fn offering(subprotocols: &[&str]) -> OpeningRequest {
    OpeningRequest {
        authorization: None,
        subprotocols: subprotocols.iter().map(|entry| Pii((*entry).to_owned())).collect(),
        ..rpc("")
    }
}

fn status(request: &OpeningRequest) -> u16 {
    match world().knock(&acolyte(), request) {
        Ok(_) => 101,
        Err(refusal) => acolyte().refuse(&refusal, "req-1").status,
    }
}

#[test]
fn ac_004_a_wrong_key_and_another_spelling_of_the_scheme_are_401() {
    for header in ["Bearer wrong", "bearer k3y", "BEARER k3y", "Basic k3y", "Bearer", "Bearer  k3y", "k3y"] {
        let request = OpeningRequest { authorization: Some(Pii(header.to_owned())), ..rpc("") };
        let refusal = world().knock(&acolyte(), &request).unwrap_err();
        let reply = acolyte().refuse(&refusal, "req-1");
        assert_eq!((reply.status, reply.body.as_str()), (401, "Unauthorized"), "{header}");
        assert_eq!(reply.content_type, "text/plain");
    }
    assert_eq!(status(&rpc("stale")), 401);
    assert_eq!(status(&offering(&["bearer.wrong"])), 401);
    assert_eq!(status(&offering(&["Bearer.k3y"])), 401);
}

#[test]
fn ac_005_the_header_is_taken_on_the_upgrade() {
    let (_, selected) = world().knock(&acolyte(), &rpc("k3y")).unwrap();
    assert_eq!(selected, None);
}

#[test]
fn ac_006_and_007_any_offered_subprotocol_may_carry_the_key_and_is_answered() {
    for (offered, selected) in [
        (&["bearer.k3y"][..], "bearer.k3y"),
        (&["chat", "bearer.k3y"], "bearer.k3y"),
        (&["bearer.wrong", "bearer.k3y", "chat"], "bearer.k3y"),
    ] {
        let (_, answered) = world().knock(&acolyte(), &offering(offered)).unwrap();
        assert_eq!(answered.as_deref(), Some(selected), "{offered:?}");
    }
}

#[test]
fn ac_007_one_of_the_offered_subprotocols_is_answered_whatever_carries_the_key() {
    let request = OpeningRequest { authorization: rpc("k3y").authorization, ..offering(&["chat", "more"]) };
    let (_, selected) = world().knock(&acolyte(), &request).unwrap();
    assert_eq!(selected.as_deref(), Some("chat"));
}

#[test]
fn ac_008_a_key_in_the_query_counts_for_nothing() {
    let request = OpeningRequest { query: "apiKey=k3y".into(), ..offering(&[]) };
    assert_eq!(status(&request), 401);
    let request = OpeningRequest { query: "apiKey=k3y".into(), ..rpc("wrong") };
    assert_eq!(status(&request), 401);
}

#[test]
fn ac_009_what_is_not_an_upgrade_is_400_when_authorised_and_401_otherwise() {
    let plain = |token| OpeningRequest { websocket: false, ..rpc(token) };
    let refusal = world().knock(&acolyte(), &plain("k3y")).unwrap_err();
    let reply = acolyte().refuse(&refusal, "req-1");
    assert_eq!((reply.status, reply.body.as_str()), (400, "WebSocket upgrade failed"));
    assert_eq!(status(&plain("wrong")), 401);
}

#[test]
fn ac_010_the_routes_are_those_of_the_table() {
    let acolyte = acolyte();
    let routes: Vec<_> = acolyte.routes().iter().map(|route| (route.path, route.transport)).collect();
    assert_eq!(
        routes,
        [
            ("/v1/rpc", Transport::WebSocket),
            ("/v1/status", Transport::Http(Method::Get)),
            ("/v1/chat/stream", Transport::Http(Method::Post)),
            ("/v1/admin/shutdown", Transport::Http(Method::Post)),
        ]
    );
    let reply = acolyte.refuse(&Refusal::WrongMethod, "req-1");
    assert_eq!((reply.status, reply.body.as_str()), (404, "Not Found"));
}

#[test]
fn ac_011_no_credential_is_asked_for_by_the_protocol_itself() {
    let opening = acolyte().inspect(&offering(&[])).unwrap();
    assert_eq!(opening.credentials, []);
    let mut connection = accept(offering(&[]), opening).unwrap();
    let frame = Frame::Text(json!({"id": "rpc_1", "type": "status.get"}).to_string());
    connection.handle_input(Input::Frame(frame), Timestamp::from_secs(10)).unwrap();
    let Output::Send(Frame::Text(text)) = connection.poll_output() else { panic!() };
    assert!(text.contains("status.result"), "{text}");
    // What is no key is nothing that the protocol would refuse by itself, either.
    for header in ["bearer x", "Basic abc", "Bearer", "Token y", ""] {
        let request = OpeningRequest { authorization: Some(Pii(header.into())), ..offering(&[]) };
        let credentials = acolyte().inspect(&request).unwrap().credentials;
        assert_eq!(credentials, [Credential { token: Pii(String::new()), subprotocol: None }], "{header}");
    }
}

fn accept(request: OpeningRequest, opening: Opening) -> Result<Box<dyn Connection>, Refusal> {
    let upgrade = Upgrade {
        known: Vec::new(),
        remote: false,
        principal: Principal::new("local"),
        now: Timestamp::default(),
        request,
        opening,
        agent: "echo".into(),
        agents: vec!["echo".into()],
        tools: Vec::new(),
    };
    acolyte().accept(upgrade, Seed::new([7; 32]))
}

#[test]
fn ac_079_an_unsupported_version_in_the_opening_is_400_with_its_code() {
    let acolyte = acolyte();
    assert_eq!(acolyte.headers(), ["acolyte-protocol"]);
    assert_eq!(acolyte.answer_headers(), [("acolyte-protocol", "1")]);
    let header = |version: &str| OpeningRequest {
        headers: vec![("acolyte-protocol", version.to_owned())],
        ..rpc("k3y")
    };
    let query = |query: &str| OpeningRequest { query: query.into(), ..rpc("k3y") };
    for good in [header("1"), query("protocol=1"), query("x=2&protocol=1"), query("protocols=9"), query("")] {
        assert_eq!(status(&good), 101, "{good:?}");
    }
    let plain = |query: &str| OpeningRequest {
        path: "/v1/status",
        websocket: false,
        query: query.into(),
        ..rpc("k3y")
    };
    assert_eq!(status(&plain("protocol=9")), 101, "only an upgrade is asked for its version in the query");
    for bad in [header("9"), header(""), query("protocol=9"), query("a=b&protocol=9")] {
        let refusal = world().knock(&acolyte, &bad).unwrap_err();
        let reply = acolyte.refuse(&refusal, "req-1");
        assert_eq!((reply.status, reply.content_type), (400, "application/json"), "{bad:?}");
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        assert_eq!(body["errorCode"], "E_PROTOCOL_VERSION");
        assert_eq!(body["error"]["kind"], "protocol_version");
        let message = body["errorMessage"].as_str().unwrap();
        assert!(message.ends_with("; supported: 1"), "{message}");
    }
    // The header counts for plain HTTP as well, before anything else.
    for path in ["/v1/status", "/v1/chat/stream"] {
        assert_eq!(status(&OpeningRequest { path, websocket: false, ..header("9") }), 400);
    }
    // What the credential does not allow is said before that.
    assert_eq!(status(&OpeningRequest { path: "/v1/admin/shutdown", websocket: false, ..header("9") }), 403);
    // Authentication comes first.
    let stranger = OpeningRequest { authorization: None, ..header("9") };
    assert_eq!(status(&stranger), 401);
}

#[test]
fn a_version_of_any_length_is_shown_in_part() {
    let long = "9".repeat(10_000);
    let reply = acolyte().refuse(&Refusal::Version(Pii(long)), "req-1");
    assert!(reply.body.len() < 500, "{}", reply.body.len());
}

#[test]
fn ac_002_status_over_http_is_the_status_of_rpc() {
    let (mut world, acolyte) = (world(), acolyte());
    let request = OpeningRequest { path: "/v1/status", websocket: false, ..rpc("k3y") };
    let (peer, _) = world.knock(&acolyte, &request).unwrap();
    world.send_bytes(peer, b"");
    let received = world.take(peer);
    let [Received::Frame(Frame::Head(head)), Received::Frame(Frame::Text(body)), Received::Close(_)] =
        received.as_slice()
    else {
        panic!("{received:?}")
    };
    assert_eq!(head.status, 200);
    assert_eq!(head.headers, [("content-type", "application/json".to_owned())]);
    let status: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&status["ok"], &status["protocol_version"]), (&true.into(), &"1".into()));
    assert_eq!(status["service"], "http://localhost:6767");
    // An HTTP exchange makes no offer.
    assert!(status.get("protocol_versions").is_none());
}

#[test]
fn ac_078_shutdown_is_answered_and_asked_for_only_by_an_administrator() {
    let shutdown = |token| OpeningRequest { path: "/v1/admin/shutdown", websocket: false, ..rpc(token) };
    for (token, status, said) in
        [("boss", 200, json!({"ok": true, "shutdown": true}).to_string()), ("k3y", 403, "Forbidden".into())]
    {
        let acolyte = acolyte();
        let request = shutdown(token);
        let principal = if token == "boss" {
            Principal { scopes: Scopes::all(), ..Principal::new("boss") }
        } else {
            Principal::new("ann")
        };
        let opening = acolyte.inspect(&request).unwrap();
        let upgrade = Upgrade {
            known: Vec::new(),
            remote: false,
            principal,
            now: Timestamp::default(),
            request,
            opening,
            agent: "echo".into(),
            agents: Vec::new(),
            tools: Vec::new(),
        };
        let mut connection = acolyte.accept(upgrade, Seed::new([7; 32])).unwrap();
        let body = Input::Frame(Frame::Binary(Vec::new().into()));
        connection.handle_input(body, Timestamp::from_secs(10)).unwrap();
        let Output::Send(Frame::Head(head)) = connection.poll_output() else { panic!() };
        assert_eq!(head.status, status);
        assert_eq!(connection.poll_output(), Output::Send(Frame::Text(said)));
        // The answer comes first, and stops only for those who may.
        if token == "boss" {
            assert_eq!(connection.poll_output(), Output::Stop);
        }
        assert!(matches!(connection.poll_output(), Output::Close(_)));
        assert_eq!(connection.poll_output(), Output::Idle { wake: None });
    }
}

#[test]
fn the_table_of_refusals_is_as_written() {
    for (refusal, status, words, retry) in [
        (Refusal::UpgradeRequired, 400, "WebSocket upgrade failed", None),
        (Refusal::Malformed("x"), 400, "WebSocket upgrade failed", None),
        (Refusal::WrongMethod, 404, "Not Found", None),
        (Refusal::UnknownAgent, 404, "Not Found", None),
        (Refusal::TooBig, 413, "Payload Too Large", None),
        (Refusal::CredentialMissing, 401, "Unauthorized", None),
        (Refusal::CredentialInvalid, 401, "Unauthorized", None),
        (Refusal::CredentialExpired, 401, "Unauthorized", None),
        (Refusal::Forbidden("x"), 403, "Forbidden", None),
        (Refusal::TooMany { retry_ms: 1500 }, 429, "Too Many Requests", Some("2")),
        (Refusal::Draining { retry_ms: 10 }, 503, "Service Unavailable", Some("1")),
    ] {
        let reply = acolyte().refuse(&refusal, "req-1");
        assert_eq!((reply.status, reply.body.as_str()), (status, words), "{refusal:?}");
        let header = reply.headers.iter().find(|(name, _)| *name == "retry-after");
        assert_eq!(header.map(|(_, value)| value.as_str()), retry, "{refusal:?}");
        let asks = reply.headers.contains(&("www-authenticate", "Bearer".into()));
        assert_eq!(asks, status == 401);
    }
}
