//! Applications that sign tokens, and servers that they run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use switchboard_core::{Principal, Timestamp};
use switchboard_vip::errand::Vouched;
use tempfile::TempDir;

use super::NOW;
use crate::config::Secrets;
use crate::vouch::{AppAlgorithm, DevelopmentConfig, IssuerConfig, Vouching};

pub(super) const ISSUER: &str = "https://app.example";
pub(super) const AUDIENCE: &str = "https://vip.example";
pub(super) const SECRET: &str = "a shared secret of more than 32 bytes, for tests";
pub(super) const DEVELOPMENT_SECRET: &str = "vip-development-shared-secret-32";

pub(super) fn secrets() -> Secrets {
    let all = [
        ("APP_SECRET", SECRET),
        ("DEV_SECRET", DEVELOPMENT_SECRET),
        ("SHORT", "a secret of 31 bytes, and no mo"),
        ("PROVIDER_KEY", "sk-long-term-key"),
        ("FUNCTION_TOKEN", "function-token"),
        ("BROKEN", "with a space"),
    ];
    Secrets::new(all.map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// An application's own key.
pub(super) struct Signer {
    pub(super) algorithm: Algorithm,
    pub(super) key: EncodingKey,
    pub(super) kid: Option<&'static str>,
}

impl Signer {
    pub(super) fn hs256() -> Self {
        Self { algorithm: Algorithm::HS256, key: EncodingKey::from_secret(SECRET.as_bytes()), kid: None }
    }

    pub(super) fn development() -> Self {
        Self { key: EncodingKey::from_secret(DEVELOPMENT_SECRET.as_bytes()), ..Self::hs256() }
    }

    pub(super) fn es256(kid: &'static str) -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let key = EncodingKey::from_ec_der(&pair.serialize_der());
        Self { algorithm: Algorithm::ES256, key, kid: Some(kid) }
    }

    pub(super) fn eddsa(kid: &'static str) -> Self {
        // PKCS #8 without the public key, which is what the library makes a JWK of.
        let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
        der.extend(crate::entropy::bytes());
        let key = EncodingKey::from_ed_der(&der);
        Self { algorithm: Algorithm::EdDSA, key, kid: Some(kid) }
    }

    pub(super) fn rs256(kid: &'static str) -> Self {
        let key = EncodingKey::from_rsa_der(&std::fs::read(testdata("rs256-test-key.der")).unwrap());
        Self { algorithm: Algorithm::RS256, key, kid: Some(kid) }
    }

    /// The public key, as the application publishes it.
    pub(super) fn jwk(&self) -> Value {
        install();
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = self.kid.map(str::to_owned);
        serde_json::to_value(jwk).unwrap()
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_as("vip-app+jwt", claims)
    }

    pub(super) fn sign_as(&self, typ: &str, claims: &Value) -> String {
        install();
        let mut header = Header::new(self.algorithm);
        header.typ = Some(typ.to_owned());
        header.kid = self.kid.map(str::to_owned);
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

fn install() {
    let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
}

/// A token with just this header and signature.
pub(super) fn forged(header: &Value, claims: &Value, signature: &str) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", encode(header), encode(claims))
}

pub(super) fn key_set(signers: &[&Signer]) -> Value {
    json!({"keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>()})
}

pub(super) fn claims(jti: &str) -> Value {
    json!({
        "iss": ISSUER, "sub": "user-42", "aud": AUDIENCE, "jti": jti,
        "iat": NOW.as_secs(), "exp": NOW.as_secs() + 240,
        "vip": {"app_id": "shop-web", "env": "production", "scopes": ["session:create"]},
    })
}

pub(super) fn changed(jti: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = claims(jti);
    change(&mut claims);
    claims
}

pub(super) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vouch/testdata").join(name)
}

pub(super) fn shared() -> IssuerConfig {
    IssuerConfig {
        issuer: ISSUER.into(),
        algorithms: vec![AppAlgorithm::Hs256],
        secret_env: Some("APP_SECRET".into()),
        ..IssuerConfig::default()
    }
}

/// An issuer of ES256, EdDSA and RS256 whose keys are in this file.
pub(super) fn with_file(folder: &TempDir, signers: &[&Signer]) -> IssuerConfig {
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, key_set(signers).to_string()).unwrap();
    let allowed = [
        (Algorithm::ES256, AppAlgorithm::Es256),
        (Algorithm::EdDSA, AppAlgorithm::EdDsa),
        (Algorithm::RS256, AppAlgorithm::Rs256),
    ];
    let algorithms =
        allowed.into_iter().filter(|(own, _)| signers.iter().any(|signer| signer.algorithm == *own));
    let algorithms = algorithms.map(|(_, allowed)| allowed);
    IssuerConfig {
        issuer: ISSUER.into(),
        algorithms: algorithms.collect(),
        jwks_file: Some(path),
        ..IssuerConfig::default()
    }
}

pub(super) fn open(issuers: &[IssuerConfig]) -> Vouching {
    open_with(issuers, &DevelopmentConfig::default(), None)
}

pub(super) fn open_with(
    issuers: &[IssuerConfig],
    development: &DevelopmentConfig,
    folder: Option<&Path>,
) -> Vouching {
    Vouching::open(issuers, development, false, &secrets(), folder, NOW).unwrap()
}

/// For production, used up.
pub(super) async fn redeem(vouching: &Vouching, token: &str) -> Result<(Vouched, Principal), String> {
    at(vouching, token, NOW).await
}

pub(super) async fn at(
    vouching: &Vouching,
    token: &str,
    now: Timestamp,
) -> Result<(Vouched, Principal), String> {
    vouching.vouch(Some(token), false, true, AUDIENCE, now).await.map_err(|failed| failed.failed)
}

/// The code of a refusal.
pub(super) async fn code(vouching: &Vouching, token: &str) -> String {
    redeem(vouching, token).await.expect_err("somebody is vouched for")
}

/// An HTTP server that answers as it is told, and counts.
pub(super) struct TestServer {
    pub(super) url: String,
    asked: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    pub(super) async fn start<A, F>(answer: A) -> Self
    where
        A: Fn(Request) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let handler = move |request: Request| {
            count.fetch_add(1, Ordering::SeqCst);
            answer(request)
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(handler);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked, task }
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) fn json_answer(status: u16, body: &Value) -> Response {
    let status = axum::http::StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}
