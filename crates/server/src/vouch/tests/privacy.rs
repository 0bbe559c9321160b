//! What is logged says nothing about anybody.

use std::sync::Arc;

use serde_json::json;

use super::NOW;
use super::support::{
    AUDIENCE, DEVELOPMENT_SECRET, SECRET, Signer, TestServer, changed, claims, json_answer, open_with,
    secrets, shared,
};
use crate::captured::Captured;
use crate::config::TelemetryConfig;
use crate::vouch::{
    Call, DevelopmentConfig, FunctionConfig, Functions, Keys, Order, ProviderAdapter, ProviderConfig,
    Providers,
};

#[tokio::test]
async fn nothing_secret_is_logged() {
    let config = TelemetryConfig { log_level: "trace".into(), ..TelemetryConfig::default() };
    let (captured, guard) = Captured::start(&config);

    let development = DevelopmentConfig { allowed: true, secret_env: Some("DEV_SECRET".into()) };
    let vouching = open_with(&[shared()], &development, None);
    let token = Signer::hs256().sign(&claims("jti-of-a-token"));
    let expired = Signer::hs256().sign(&changed("jti-of-another", |claims| claims["exp"] = json!(1)));
    for token in [&token, &token, &expired, "a-wrong-token", "a.b.c"] {
        let _ = vouching.vouch(Some(token), false, true, AUDIENCE, NOW).await;
    }

    let server =
        TestServer::start(|_| async { json_answer(500, &json!({"echo": "said-by-the-provider"})) }).await;
    let provider = ProviderConfig {
        id: "realtime".into(),
        adapter: ProviderAdapter::OpenAiRealtime,
        url: Some("wss://api.example".into()),
        model: "gpt-realtime".into(),
        base_url: server.url.clone(),
        api_key_env: Some("PROVIDER_KEY".into()),
        ..ProviderConfig::default()
    };
    let keys = Arc::new(Keys::open(None, || NOW).unwrap());
    let providers = Providers::open(&[provider], &secrets(), keys).unwrap();
    let order = Order {
        provider: "realtime",
        instructions: Some("whisper-gently"),
        sub: "user-42",
        own: "https://app.example|user-42",
        session: "vs_1",
        development: false,
        issuer: AUDIENCE,
    };
    assert!(providers.mint(order, NOW).await.is_err());
    let function = FunctionConfig {
        name: "stock.check".into(),
        url: format!("{}/stock?code=in-the-address", server.url),
        token_env: Some("FUNCTION_TOKEN".into()),
        ..FunctionConfig::default()
    };
    let functions = Functions::open(&[function], &secrets()).unwrap();
    let parameters = json!({"sku": "a-parameter"});
    let call = Call { name: "stock.check", parameters: &parameters, session: "vs_1", sub: Some("user-42") };
    assert!(functions.perform(call).await.is_err());
    drop(guard);

    let logged = captured.text();
    for reason in ["expired", "used before", "three parts", "PROV_CREDENTIAL", "ACT_EXECUTION_FAILED"] {
        assert!(logged.contains(reason), "{reason}: {logged}");
    }
    let parts = token.split('.').chain(expired.split('.').skip(1));
    let words = [
        SECRET,
        DEVELOPMENT_SECRET,
        "user-42",
        "jti-of",
        "a-wrong-token",
        "sk-long-term-key",
        "function-token",
        "whisper-gently",
        "said-by-the-provider",
        "a-parameter",
        "in-the-address",
    ];
    for secret in words.into_iter().chain(parts) {
        assert!(!logged.contains(secret), "{secret}: {logged}");
    }
}
