//! Credentials for providers.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use switchboard_vip::errand::{Failed, Minted};
use switchboard_vip::token::{EPHEMERAL, EphemeralClaims, SESSION, Seal as _};

use super::NOW;
use super::support::{TestServer, json_answer, secrets};
use crate::vouch::{Keys, Order, ProviderAdapter, ProviderConfig, Providers};

fn keys() -> Arc<Keys> {
    Arc::new(Keys::open(None, || NOW).unwrap())
}

fn native() -> ProviderConfig {
    ProviderConfig {
        id: "house-voice".into(),
        url: Some("wss://voice.example/v1/vip/stream".into()),
        model: "voice-1".into(),
        ..ProviderConfig::default()
    }
}

fn realtime(base_url: &str) -> ProviderConfig {
    ProviderConfig {
        id: "realtime".into(),
        adapter: ProviderAdapter::OpenAiRealtime,
        model: "gpt-realtime".into(),
        voice: Some("marin".into()),
        base_url: base_url.to_owned(),
        api_key_env: Some("PROVIDER_KEY".into()),
        timeout_ms: 2_000,
        ..native()
    }
}

fn order(provider: &str) -> Order<'_> {
    Order {
        provider,
        instructions: Some("Be kind."),
        sub: "user-42",
        own: "https://app.example|user-42",
        session: "vs_1",
        development: false,
        issuer: "https://vip.example",
    }
}

#[tokio::test]
async fn a_credential_of_our_own_is_signed_bound_and_short_lived() {
    let keys = keys();
    let configs = [native(), ProviderConfig { id: "short".into(), ttl_s: 10, ..native() }];
    let providers = Providers::open(&configs, &secrets(), keys.clone()).unwrap();
    let minted = providers.mint(order("house-voice"), NOW).await.unwrap();
    assert_eq!(minted.expires_at, NOW.as_secs() + 60);
    let claims: EphemeralClaims =
        serde_json::from_value(keys.open(EPHEMERAL, &minted.value).unwrap()).unwrap();
    assert_eq!(claims.jti.len(), 22);
    // SHA-256 of {"instructions":"Be kind.","model":"voice-1"}
    assert_eq!(
        claims,
        EphemeralClaims {
            iss: "https://vip.example".into(),
            aud: "house-voice".into(),
            sub: "user-42".into(),
            sid: "vs_1".into(),
            cfg: "kvwxJrAllbJR0uoihc8_7Mz4Kw-ggAr1CvBXi5a6j5A".into(),
            iat: NOW.as_secs(),
            exp: NOW.as_secs() + 60,
            jti: claims.jti.clone(),
            own: "https://app.example|user-42".into(),
        }
    );
    assert!(keys.open(SESSION, &minted.value).is_err(), "it opens no session");
    let again = providers.mint(order("house-voice"), NOW).await.unwrap();
    assert_ne!(minted.value, again.value, "each can be told from the others");
    assert_eq!(providers.mint(order("short"), NOW).await.unwrap().expires_at, NOW.as_secs() + 10);
}

#[test]
fn the_digest_covers_every_locked_setting() {
    let config = native();
    let voiced = ProviderConfig { voice: Some("alto".into()), ..native() };
    let other = ProviderConfig { model: "voice-2".into(), ..native() };
    assert_eq!(config.locked(), ["instructions", "model"]);
    assert_eq!(voiced.locked(), ["instructions", "model", "voice"]);
    let digests = [
        config.digest(Some("a")),
        config.digest(Some("b")),
        config.digest(None),
        voiced.digest(Some("a")),
        other.digest(Some("a")),
    ];
    for (index, digest) in digests.iter().enumerate() {
        assert!(!digests[index + 1..].contains(digest), "{index}");
    }
    assert_eq!(config.digest(Some("a")), native().digest(Some("a")));
}

#[tokio::test]
async fn development_gets_nothing_of_production() {
    let trial = ProviderConfig { id: "trial".into(), production: false, ..native() };
    let providers = Providers::open(&[native(), trial], &secrets(), keys()).unwrap();
    let development = |provider| Order { development: true, ..order(provider) };
    assert_eq!(providers.mint(development("house-voice"), NOW).await.unwrap_err().failed, "PROV_CREDENTIAL");
    assert!(providers.mint(development("trial"), NOW).await.is_ok());
    assert!(providers.mint(order("trial"), NOW).await.is_ok());
    assert_eq!(providers.mint(order("nobody"), NOW).await.unwrap_err().failed, "PROV_CREDENTIAL");
}

/// Mints with a Realtime API that answers so.
async fn mint(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Result<Minted, Failed> {
    let server = TestServer::start(move |_| {
        let answer = answer();
        async move { answer }
    })
    .await;
    let providers = Providers::open(&[realtime(&server.url)], &secrets(), keys()).unwrap();
    let minted = providers.mint(order("realtime"), NOW).await;
    assert_eq!(server.asked(), 1, "asked once");
    minted
}

#[tokio::test]
async fn vip_014_the_realtime_api_makes_a_credential_and_the_key_stays_here() {
    let seen: Arc<Mutex<Value>> = Arc::default();
    let record = Arc::clone(&seen);
    let server = TestServer::start(move |request| {
        let record = Arc::clone(&record);
        async move {
            let head = format!("{} {}", request.method(), request.uri().path());
            let authorization = request.headers()["authorization"].to_str().unwrap().to_owned();
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            *record.lock() = json!([head, authorization, body]);
            let expires_at = NOW.as_secs() + 60;
            json_answer(
                200,
                &json!({"value": "ek_68af", "expires_at": expires_at, "session": {"type": "realtime", "id": "sess_1"}}),
            )
        }
    })
    .await;
    let providers = Providers::open(&[realtime(&format!("{}/", server.url))], &secrets(), keys()).unwrap();
    let minted = providers.mint(order("realtime"), NOW).await.unwrap();
    assert_eq!(minted, Minted { value: "ek_68af".into(), expires_at: NOW.as_secs() + 60 });
    let body = json!({
        "expires_after": {"anchor": "created_at", "seconds": 60},
        "session": {
            "type": "realtime", "model": "gpt-realtime", "instructions": "Be kind.",
            "audio": {"output": {"voice": "marin"}},
        },
    });
    assert_eq!(*seen.lock(), json!(["POST /v1/realtime/client_secrets", "Bearer sk-long-term-key", body]));
    let shown = format!("{providers:?} {minted:?} {:?}", order("realtime"));
    for secret in ["sk-long-term-key", "ek_68af", "Be kind."] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn refusals_of_the_provider_are_told_apart() {
    for (status, code) in [
        (400, "PROV_CREDENTIAL"),
        (401, "PROV_CREDENTIAL"),
        (403, "PROV_CREDENTIAL"),
        (404, "PROV_CREDENTIAL"),
        (307, "PROV_CREDENTIAL"),
        (429, "PROV_QUOTA"),
        (402, "PROV_QUOTA"),
        (500, "PROV_CREDENTIAL"),
        (503, "PROV_CREDENTIAL"),
    ] {
        let failed = mint(move || json_answer(status, &json!({"error": {"message": "sk-long-term-key"}})));
        let failed = failed.await.unwrap_err();
        assert_eq!(failed.failed, code, "{status}");
        assert!(!failed.message.contains("sk-"), "{}", failed.message);
    }
}

#[tokio::test]
async fn answers_without_a_usable_credential_are_refused() {
    let soon = NOW.as_secs() + 60;
    for body in [
        json!({}),
        json!([]),
        json!({"value": "ek_1"}),
        json!({"value": "", "expires_at": soon}),
        json!({"value": "with a space", "expires_at": soon}),
        json!({"value": 7, "expires_at": soon}),
        json!({"value": "ek_1", "expires_at": "soon"}),
        json!({"value": "ek_1", "expires_at": NOW.as_secs()}),
        json!({"value": "sk-long-term-key", "expires_at": soon}),
        json!({"value": "ek_1", "expires_at": soon, "padding": "x".repeat(300 << 10)}),
    ] {
        let shown = body.to_string().chars().take(80).collect::<String>();
        let failed = mint(move || json_answer(200, &body)).await.unwrap_err();
        assert_eq!(failed.failed, "PROV_CREDENTIAL", "{shown}");
    }
    assert_eq!(mint(|| "not JSON".into_response()).await.unwrap_err().failed, "PROV_CREDENTIAL");
    let lasting =
        mint(move || json_answer(200, &json!({"value": "ek_1", "expires_at": NOW.as_secs() + 7_200})));
    assert_eq!(lasting.await.unwrap().expires_at, NOW.as_secs() + 600, "ours are never good for longer");
}

#[tokio::test]
async fn a_provider_that_is_slow_or_away_gives_no_credential() {
    let server = TestServer::start(|_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        ().into_response()
    })
    .await;
    let config = ProviderConfig { timeout_ms: 100, ..realtime(&server.url) };
    let providers = Providers::open(&[config], &secrets(), keys()).unwrap();
    assert_eq!(providers.mint(order("realtime"), NOW).await.unwrap_err().failed, "PROV_CREDENTIAL");
    drop(server);
    assert_eq!(providers.mint(order("realtime"), NOW).await.unwrap_err().failed, "PROV_CREDENTIAL");
}

#[test]
fn providers_that_make_no_sense_are_named() {
    let there = || realtime("https://api.example");
    let cases = [
        (ProviderConfig { id: String::new(), ..native() }, "id"),
        (ProviderConfig { url: Some(String::new()), ..native() }, "url"),
        (ProviderConfig { url: None, ..there() }, "url"),
        (ProviderConfig { model: String::new(), ..native() }, "model"),
        (ProviderConfig { ttl_s: 9, ..native() }, "ttl_s"),
        (ProviderConfig { ttl_s: 61, ..native() }, "ttl_s"),
        (ProviderConfig { ttl_s: 601, ..there() }, "ttl_s"),
        (ProviderConfig { api_key_env: None, ..there() }, "api_key_env"),
        (ProviderConfig { api_key_env: Some("UNSET".into()), ..there() }, "api_key_env"),
        (ProviderConfig { api_key_env: Some("BROKEN".into()), ..there() }, "api_key_env"),
        (ProviderConfig { base_url: "nowhere".into(), ..there() }, "base_url"),
        (ProviderConfig { base_url: "file:///x".into(), ..there() }, "base_url"),
    ];
    for (config, key) in cases {
        let error = Providers::open(&[config], &secrets(), keys()).unwrap_err();
        assert_eq!(error.key, format!("vip.providers[0].{key}"));
    }
    let here = ProviderConfig { url: None, ..native() };
    assert!(Providers::open(&[here], &secrets(), keys()).is_ok(), "this server itself");
    let twice = Providers::open(&[native(), native()], &secrets(), keys());
    assert_eq!(twice.unwrap_err().key, "vip.providers[1].id");
}
