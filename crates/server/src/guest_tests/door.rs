use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::probe::Probe;
use super::{Answer, Hosted, PATIENCE, hosting};
use crate::auth::Revocation;

const SETTINGS: &[&str] = &["allowed_origins=https://app.test"];

async fn judging() -> Hosted {
    Hosted::start(hosting(Probe { judges: true, ..Probe::default() }), SETTINGS).await
}

fn body(answer: &Answer) -> Value {
    // The answer to an exchange comes in one chunk.
    let text = answer.body.lines().find(|line| line.starts_with('{')).expect("JSON");
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let server = judging().await;
    let upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
    let foreign = ["Origin: https://evil.test"];
    let table: [(&str, &[&str], u16); 14] = [
        ("GET /probe/x", &[], 200),
        ("POST /probe/x", &[], 200),
        ("DELETE /probe/x", &[], 405),
        ("OPTIONS /probe/x", &[], 405),
        ("GET /probe/x", &["Host: evil.test"], 403),
        ("GET /probe/socket", &upgrade, 400),
        ("GET /v1/status", &[], 200),
        ("GET /v1/status", &foreign, 403),
        ("PATCH /v1/status", &[], 404),
        ("GET /v1/agent-socket", &[], 426),
        ("GET /api/v1/conversations", &[], 200),
        ("GET /v1/vip/nothing", &[], 404),
        ("GET /v1/vip/sessions/vs_1/nothing", &[], 404),
        ("PUT /v1/vip/sessions/vs_1", &[], 405),
    ];
    let mut names = BTreeSet::new();
    for (request, headers, status) in table {
        let answer = server.ask(request, headers, "").await;
        assert_eq!(answer.status, status, "{request} {headers:?}: {answer:?}");
        let name =
            answer.header("x-request-id").unwrap_or_else(|| panic!("{request}: {answer:?}")).to_owned();
        assert!(name.starts_with("req_") && name.len() > 20, "{name}");
        if request.contains("/probe/") {
            assert_eq!(body(&answer)["id"], name, "the protocol knows it by the same name");
        }
        if request.contains("/v1/vip/") {
            assert_eq!(body(&answer)["error"]["request_id"], name, "{request}: in the words of the protocol");
        }
        let allowed = answer.header("allow");
        assert_eq!(allowed.is_some(), status == 405, "{request}: {allowed:?}");
        assert!(names.insert(name), "{request} has a name of its own");
    }
}

#[tokio::test]
async fn answers_can_be_read_by_pages_of_allowed_origins_alone() {
    let server = judging().await;
    let own = format!("Origin: http://{}", server.address);
    for (origin, foreign) in [
        ("Origin: https://app.test", false),
        (own.as_str(), false),
        ("Origin: https://evil.test", true),
        ("Origin: null", true),
    ] {
        for (request, status) in [("POST /probe/x", 200), ("PUT /probe/x", 405)] {
            let answer = server.ask(request, &[origin], "").await;
            assert_eq!(answer.status, status, "{origin}: {answer:?}");
            let reader = answer.header("access-control-allow-origin");
            assert_eq!(reader, (!foreign).then(|| origin.strip_prefix("Origin: ").unwrap()), "{answer:?}");
            let exposed = answer.header("access-control-expose-headers");
            assert_eq!(exposed, (!foreign).then_some(EXPOSED));
            assert_eq!(answer.header("vary"), Some("origin"));
            assert_eq!(answer.header("access-control-allow-credentials"), None);
            if status == 200 {
                assert_eq!(body(&answer)["foreign"], foreign);
            }
        }
    }
    let answer = server.ask("POST /probe/x", &[], "").await;
    assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), (None, Some("origin")));
    assert_eq!(body(&answer)["foreign"], false);
    // Under a name that is not ours nobody is served, whatever the page.
    let answer = server.ask("POST /probe/x", &["Host: evil.test", "Origin: https://app.test"], "").await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn browsers_are_told_whether_a_page_may_ask() {
    let server = judging().await;
    let asks = "Access-Control-Request-Method: POST";
    let allowed = server.ask("OPTIONS /probe/x", &["Origin: https://app.test", asks], "").await;
    assert_eq!(allowed.status, 204, "{allowed:?}");
    for (name, value) in [
        ("access-control-allow-origin", "https://app.test"),
        ("access-control-allow-methods", "GET, POST"),
        ("access-control-allow-headers", ASKED),
        ("access-control-max-age", "600"),
        ("vary", "origin"),
    ] {
        assert_eq!(allowed.header(name), Some(value), "{allowed:?}");
    }
    for origin in [&["Origin: https://evil.test", asks][..], &[asks]] {
        let refused = server.ask("OPTIONS /probe/x", origin, "").await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(!refused.head.to_lowercase().contains("access-control"), "{refused:?}");
    }
    // A question that no browser asks is a method that is not there.
    assert_eq!(server.ask("OPTIONS /probe/x", &["Origin: https://app.test"], "").await.status, 405);
}

#[tokio::test]
async fn other_protocols_still_turn_foreign_pages_away() {
    let server = Hosted::start(hosting(Probe::default()), SETTINGS).await;
    let foreign = server.ask("POST /probe/x", &["Origin: https://evil.test"], "").await;
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let asks = ["Origin: https://app.test", "Access-Control-Request-Method: POST"];
    assert_eq!(server.ask("OPTIONS /probe/x", &["Origin: https://evil.test", asks[1]], "").await.status, 403);
    let allowed = server.ask("OPTIONS /probe/x", &asks, "").await;
    assert_eq!(
        (allowed.status, allowed.header("access-control-allow-headers"), allowed.header("vary")),
        (204, Some(ASKED), Some("origin"))
    );
    let answer = server.ask("POST /probe/x", &["Origin: https://app.test"], "").await;
    assert_eq!(answer.status, 200);
    let read = (answer.header("access-control-allow-origin"), answer.header("access-control-expose-headers"));
    assert_eq!(read, (Some("https://app.test"), Some(EXPOSED)));
    // Who sends no origin is no page, and is told nothing of this.
    let answer = server.ask("POST /probe/x", &[], "").await;
    assert_eq!((answer.header("access-control-allow-origin"), answer.header("vary")), (None, None));
}

#[tokio::test]
async fn pages_of_allowed_origins_read_every_http_side() {
    let origin = "Origin: https://app.test";
    let server = Hosted::start(hosting(Probe::default()), SETTINGS).await;
    for (method, path) in [
        ("GET", "/v1/status"),
        ("POST", "/v1/chat/stream"),
        ("GET", "/api/v1/conversations"),
        ("GET", "/admin/v1/sessions"),
        ("GET", "/admin/v1/agents"),
    ] {
        let asks = format!("Access-Control-Request-Method: {method}");
        let allowed = server.ask(&format!("OPTIONS {path}"), &[origin, &asks], "").await;
        assert_eq!((path, allowed.status), (path, 204), "{allowed:?}");
        assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.test"), "{path}");
        let answer = server.ask(&format!("{method} {path}"), &[origin], "").await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.test"), "{path}");
        let foreign = server.ask(&format!("OPTIONS {path}"), &["Origin: https://evil.test", &asks], "").await;
        assert_eq!((path, foreign.status), (path, 403), "{foreign:?}");
        assert!(!foreign.head.to_lowercase().contains("access-control-allow"), "{foreign:?}");
    }
}

const EXPOSED: &str = "x-request-id, location, retry-after, link, acolyte-protocol, acolyte-task-id";
const ASKED: &str = "authorization, content-type, idempotency-key, acolyte-protocol, x-user-id";

#[tokio::test]
async fn a_protocol_may_know_people_by_credentials_of_its_own() {
    let server = Hosted::start(hosting(Probe { knows: true, ..Probe::default() }), &[]).await;
    let ask = async |header: &str| server.ask("GET /probe/x", &[header], "").await;
    let ann = ask("Authorization: Probe ann").await;
    assert_eq!((ann.status, &body(&ann)["principal"]), (200, &json!("ann")), "not the development principal");
    let wrong = ask("Authorization: Bearer ann").await;
    assert_eq!((wrong.status, &body(&wrong)["refused"]), (401, &json!("CredentialInvalid")));
    let nobody = ask("X-Nothing: 1").await;
    assert_eq!((nobody.status, &body(&nobody)["refused"]), (401, &json!("Named(\"nobody\")")));
    // Revoked is revoked, by whatever credential somebody is known.
    let live = server.socket(&[("authorization", "Probe ann")]).await.unwrap();
    server.handle.revoke(Revocation::Principal("ann".into())).unwrap();
    super::until(|| server.principals().is_empty()).await;
    assert_eq!(ask("Authorization: Probe ann").await.status, 401);
    assert_eq!(server.socket(&[("authorization", "Probe ann")]).await.err(), Some(401));
    assert_eq!(ask("Authorization: Probe bob").await.status, 200);
    drop(live);
}

#[tokio::test]
async fn a_protocol_may_look_before_it_answers_at_what_the_visitor_may_see() {
    let probe = Probe { knows: true, looks: true, ..Probe::default() };
    let server = Hosted::start(hosting(probe), &[]).await;
    let made = server.ask("POST /api/v1/conversations", &[], "{}").await;
    assert!(made.status < 300, "{made:?}");
    let known = async |name: &str| {
        let header = format!("Authorization: Probe {name}");
        body(&server.ask("GET /probe/x", &[&header], "").await)["known"].clone()
    };
    assert_eq!(known("dev").await, 1, "whoever made the conversation");
    assert_eq!(known("ann").await, 0);
}

#[tokio::test]
async fn operators_see_who_is_connected() {
    let server = judging().await;
    let _socket = server.socket(&[]).await.unwrap();
    let answer = server.ask("GET /admin/v1/connections", &[], "").await;
    assert_eq!((answer.status, &body(&answer)["connections"][0]["principal"]), (200, &json!("dev")));
}

#[tokio::test]
async fn a_refusal_ends_a_connection_whose_request_was_not_read() {
    let server = judging().await;
    let refused = async |request: &str, body: &str| {
        let head =
            format!("{request} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}", server.address, body.len());
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let count = timeout(PATIENCE, socket.read(&mut answer)).await.expect("an answer").unwrap();
        String::from_utf8_lossy(&answer[..count]).to_lowercase()
    };
    let answer = refused("PUT /probe/x", "{}").await;
    assert!(answer.starts_with("http/1.1 405") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    // Without a body there is nothing left over.
    let answer = refused("PUT /probe/x", "").await;
    assert!(answer.starts_with("http/1.1 405") && !answer.contains("\r\nconnection: close\r\n"), "{answer}");
}
