//! Functions of the server.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use switchboard_vip::errand::{Failed, Performed};

use super::support::{TestServer, json_answer, secrets};
use crate::vouch::{Call, FunctionConfig, Functions};

fn function(url: &str) -> FunctionConfig {
    FunctionConfig {
        name: "stock.check".into(),
        url: format!("{url}/functions/stock?code=in-the-address"),
        token_env: Some("FUNCTION_TOKEN".into()),
        ..FunctionConfig::default()
    }
}

async fn perform(functions: &Functions, name: &str, sub: Option<&str>) -> Result<Performed, Failed> {
    let parameters = json!({"sku": "A-17"});
    functions.perform(Call { name, parameters: &parameters, session: "vs_1", sub }).await
}

async fn answered(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Result<Value, String> {
    let server = TestServer::start(move |_| {
        let answer = answer();
        async move { answer }
    })
    .await;
    let functions = Functions::open(&[function(&server.url)], &secrets()).unwrap();
    let performed = perform(&functions, "stock.check", None).await;
    assert_eq!(server.asked(), 1, "a function is never run twice");
    performed.map(|performed| performed.data).map_err(|failed| failed.failed)
}

#[tokio::test]
async fn a_function_is_told_what_it_needs_and_its_answer_is_the_result() {
    let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let record = Arc::clone(&seen);
    let server = TestServer::start(move |request| {
        let record = Arc::clone(&record);
        async move {
            let authorization = request.headers()["authorization"].to_str().unwrap().to_owned();
            assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/functions/stock"));
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            record.lock().push((authorization, serde_json::from_slice(&body).unwrap()));
            json_answer(200, &json!({"in_stock": 3}))
        }
    })
    .await;
    let functions = Functions::open(&[function(&server.url)], &secrets()).unwrap();
    assert!(functions.contains("stock.check") && !functions.contains("stock"));
    let performed = perform(&functions, "stock.check", Some("user-42")).await.unwrap();
    assert_eq!(performed.data, json!({"in_stock": 3}));
    perform(&functions, "stock.check", None).await.unwrap();
    let call = json!({"name": "stock.check", "parameters": {"sku": "A-17"}, "session": "vs_1"});
    let mut named = call.clone();
    named["sub"] = json!("user-42");
    let bearer = "Bearer function-token".to_owned();
    assert_eq!(*seen.lock(), [(bearer.clone(), named), (bearer, call)]);
    let shown = format!("{functions:?} {performed:?}");
    for secret in ["function-token", "in-the-address", "in_stock"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn an_unknown_function_is_not_found() {
    let functions = Functions::open(&[function("http://127.0.0.1:9")], &secrets()).unwrap();
    assert_eq!(perform(&functions, "other", None).await.unwrap_err().failed, "ACT_NOT_FOUND");
}

#[tokio::test]
async fn whatever_goes_wrong_is_a_failure() {
    assert_eq!(answered(|| json_answer(204, &json!(null))).await, Ok(Value::Null));
    assert_eq!(answered(|| "".into_response()).await, Ok(Value::Null));
    assert_eq!(answered(|| "[1, 2]".into_response()).await, Ok(json!([1, 2])));
    let failed = Err("ACT_EXECUTION_FAILED".to_owned());
    for status in [302, 400, 401, 404, 500, 503] {
        assert_eq!(answered(move || json_answer(status, &json!({"in_stock": 3}))).await, failed, "{status}");
    }
    assert_eq!(answered(|| "not JSON".into_response()).await, failed);
    assert_eq!(
        answered(|| json!("x".repeat(65 << 10)).to_string().into_response()).await,
        failed,
        "too long"
    );
}

#[tokio::test]
async fn a_function_that_is_slow_times_out_and_one_that_is_away_fails() {
    let server = TestServer::start(|_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        ().into_response()
    })
    .await;
    let config = FunctionConfig { timeout_ms: 100, ..function(&server.url) };
    let functions = Functions::open(&[config], &secrets()).unwrap();
    assert_eq!(perform(&functions, "stock.check", None).await.unwrap_err().failed, "ACT_TIMEOUT");
    drop(server);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let functions = Functions::open(&[function(&url)], &secrets()).unwrap();
    assert_eq!(perform(&functions, "stock.check", None).await.unwrap_err().failed, "ACT_EXECUTION_FAILED");
}

#[test]
fn functions_that_make_no_sense_are_named() {
    let there = || function("http://127.0.0.1:9");
    let cases = [
        (FunctionConfig { name: String::new(), ..there() }, "name"),
        (FunctionConfig { url: "nowhere".into(), ..there() }, "url"),
        (FunctionConfig { token_env: Some("UNSET".into()), ..there() }, "token_env"),
        (FunctionConfig { token_env: Some("BROKEN".into()), ..there() }, "token_env"),
    ];
    for (config, key) in cases {
        let error = Functions::open(&[config], &secrets()).unwrap_err();
        assert_eq!(error.key, format!("vip.functions[0].{key}"));
    }
    let twice = Functions::open(&[there(), there()], &secrets());
    assert_eq!(twice.unwrap_err().key, "vip.functions[1].name");
}
