//! What is in the log of who was refused, and of what cannot be undone.

use serde_json::{Value, json};

use super::probe::Probe;
use super::{Hosted, hosting};
use crate::auth::hash_key;
use crate::captured::Captured;
use crate::config::TelemetryConfig;

const KEYS: [(&str, &str); 4] = [
    ("door", "['connect']"),
    ("full", "['connect','read','invoke','manage']"),
    ("narrow", "['connect','agent:other','manage']"),
    ("root", "['admin']"),
];

fn key(name: &str) -> String {
    format!("the-key-of-{name}-0123456789abcdef")
}

// All of the server runs in the thread of the test, so that what it logs is captured.
#[tokio::test]
async fn refusals_deletions_and_administration_are_in_the_log() {
    let telemetry = TelemetryConfig { log_level: "info".into(), ..TelemetryConfig::default() };
    let (captured, _guard) = Captured::start(&telemetry);
    let entries = KEYS.map(|(name, scopes)| {
        format!("{{id='{name}',principal='{name}',scopes={scopes},hash='{}'}}", hash_key(&key(name)))
    });
    let keys = format!("auth.api_keys=[{}]", entries.join(","));
    let server = Hosted::start(hosting(Probe::default()), &[&keys, "agents.demo.kind=echo"]).await;
    let ask = async |name: &str, request: &str, body: &str| {
        let credential = format!("Authorization: Bearer {}", key(name));
        server.ask(request, &[&credential, "Content-Type: application/json"], body).await
    };
    let told = |words: &[&str]| {
        let text = captured.text();
        let fits = |line: &&str| words.iter().all(|word| line.contains(word));
        assert!(text.lines().any(|line| fits(&line)), "no line with {words:?} in:\n{text}");
    };
    assert_eq!(ask("door", "GET /admin/v1/sessions", "").await.status, 403);
    told(&["switchboard::audit", "door", "Inspect", "refused"]);
    assert_eq!(ask("door", "GET /api/v1/conversations", "").await.status, 403);
    told(&["switchboard::audit", "door", "Read", "refused"]);
    // Of the agent that would answer, the session knows.
    let made = ask("full", "POST /api/v1/conversations", r#"{"title":"secret plan"}"#).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert!(ask("narrow", "POST /api/v1/conversations", r#"{"title":"secret plan"}"#).await.status >= 400);
    // It may come in chunks.
    let (from, to) = (made.body.find('{').unwrap(), made.body.rfind('}').unwrap());
    let made: Value = serde_json::from_str(&made.body[from..=to]).unwrap();
    let id = made["id"].as_str().unwrap();
    assert_eq!(ask("full", &format!("DELETE /api/v1/conversations/{id}"), "").await.status, 204);
    told(&["switchboard::audit", "full", id, "a session is deleted"]);
    assert_eq!(ask("root", "GET /admin/v1/sessions", "").await.status, 200);
    told(&["switchboard::audit", "root", "/admin/v1/sessions", "administration"]);
    let revoked = json!({ "key": "door" }).to_string();
    assert_eq!(ask("root", "POST /admin/v1/revocations", &revoked).await.status, 200);
    told(&["switchboard::audit", "root", "POST", "/admin/v1/revocations"]);
    // The same again is not said again at once, and nothing that was said is in there.
    let before = captured.text().matches("reading needs the scope read").count();
    let mine = ask("narrow", "GET /admin/v1/sessions", "").await.status;
    assert_eq!((mine, ask("narrow", "GET /admin/v1/sessions", "").await.status), (403, 403));
    assert_eq!(captured.text().matches("reading needs the scope read").count(), before + 1);
    assert!(!captured.text().contains("secret plan"), "{}", captured.text());
}

#[tokio::test]
async fn no_answer_is_taken_for_something_else() {
    let server = Hosted::start(hosting(Probe::default()), &[]).await;
    for request in [
        "GET /healthz",
        "GET /admin/v1/agents",
        "GET /admin/v1/nothing",
        "GET /v1/status",
        "GET /api/v1/config",
        "GET /.well-known/vip",
        "GET /nothing",
        "GET /demo/vip/",
        "GET /v1/rpc",
    ] {
        let answer = server.ask(request, &[], "").await;
        let head = answer.head.to_ascii_lowercase();
        assert_eq!(head.matches("x-content-type-options: nosniff").count(), 1, "{request}: {head}");
    }
}
