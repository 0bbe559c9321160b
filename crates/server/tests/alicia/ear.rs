//! An endpoint that claims to understand speech, and writes down what it was given.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

type Shared = Arc<Mutex<(Vec<Bytes>, VecDeque<Value>)>>;

/// Answers with what it was told to, one after another; then with a failure.
pub(crate) struct Ear {
    base: String,
    shared: Shared,
}

impl Ear {
    pub(crate) async fn open(answers: impl IntoIterator<Item = Value>) -> Self {
        let shared: Shared = Arc::new(Mutex::new((Vec::new(), answers.into_iter().collect())));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("speech.recognition.base_url=http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/audio/transcriptions", post(hear)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, shared }
    }

    pub(crate) fn settings(&self) -> [&str; 2] {
        [self.base.as_str(), "speech.recognition.model=whisper"]
    }

    /// What it was given, as often as it was asked.
    pub(crate) fn given(&self) -> Vec<Bytes> {
        self.shared.lock().0.clone()
    }
}

async fn hear(State(shared): State<Shared>, body: Bytes) -> (StatusCode, String) {
    let mut shared = shared.lock();
    shared.0.push(body);
    match shared.1.pop_front() {
        Some(answer) => (StatusCode::OK, answer.to_string()),
        None => (StatusCode::BAD_REQUEST, json!({ "error": { "message": "not understood" } }).to_string()),
    }
}
