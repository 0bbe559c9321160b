//! App Tokens (section 3.1), for whoever has the secret of an issuer.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use super::super::check::{Check, Issuer, Need, Outcome, Run, Stop, must};
use super::call::{SESSIONS, request};
use super::sessions::failed_with;
use crate::clock;
use crate::probe::{Answer, Request};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[1], needs: &[Need::Issuer], run: |run| Box::pin(a_valid_request(run)) },
    Check { shows: &[4], needs: &[Need::Issuer], run: |run| Box::pin(another_type(run)) },
    Check { shows: &[5], needs: &[Need::Issuer], run: |run| Box::pin(another_algorithm(run)) },
    Check { shows: &[6], needs: &[Need::Issuer], run: |run| Box::pin(a_second_use(run)) },
    Check { shows: &[7], needs: &[Need::Issuer], run: |run| Box::pin(too_long_a_life(run)) },
    Check { shows: &[12], needs: &[Need::Issuer], run: |run| Box::pin(another_environment(run)) },
    Check { shows: &[17], needs: &[Need::Issuer], run: |run| Box::pin(a_token_in_the_address(run)) },
];

/// A token as it is to be written.
struct Token {
    header: Header,
    claims: Value,
}

impl Token {
    /// One that is good.
    async fn good(run: &Run<'_>) -> Outcome<Self> {
        let server = run.ask(super::discovery()).await?.json();
        let issued = clock::now().as_secs();
        let vip = json!({ "app_id": "conform", "env": "production", "scopes": ["session:create"] });
        let claims = json!({ "iss": issuer(run)?.name, "sub": "conform", "aud": server["issuer"], "iat": issued,
            "exp": issued + 120, "jti": run.fresh()?, "vip": vip });
        Ok(Self {
            header: Header { typ: Some("vip-app+jwt".to_owned()), ..Header::new(Algorithm::HS256) },
            claims,
        })
    }

    fn sign(&self, run: &Run<'_>) -> Outcome<String> {
        // Somebody else may have installed the same provider already.
        let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
        let key = EncodingKey::from_secret(issuer(run)?.secret.as_bytes());
        encode(&self.header, &self.claims, &key)
            .map_err(|error| Stop::needs(format!("a usable secret: {error}")))
    }
}

fn issuer<'run>(run: &Run<'run>) -> Outcome<&'run Issuer> {
    run.settings.issuer.as_ref().ok_or_else(|| Stop::needs("an issuer"))
}

/// Asks for a session in production.
async fn post(run: &Run<'_>, token: &str) -> Outcome<Answer> {
    let mut body = request();
    body["environment"] = "production".into();
    run.ask(Request::post(SESSIONS, &body).header("authorization", &format!("Bearer {token}"))).await
}

async fn a_valid_request(run: &Run<'_>) -> Outcome {
    let answer = post(run, &Token::good(run).await?.sign(run)?).await?;
    must!(answer.status == 201, "201, got {} {}", answer.status, answer.body);
    let created = answer.json();
    let told = created["session_id"].is_string() && created["session_token"].is_string();
    must!(told && created["state"] == "connecting", "id, token and connecting, got {created}");
    must!(created["issued_in_development"] != true, "no session of development, got {created}");
    Ok(())
}

async fn another_type(run: &Run<'_>) -> Outcome {
    let mut token = Token::good(run).await?;
    token.header.typ = Some("JWT".to_owned());
    failed_with(&post(run, &token.sign(run)?).await?, 401, Some("AUTH_TOKEN_INVALID"))
}

async fn another_algorithm(run: &Run<'_>) -> Outcome {
    let mut token = Token::good(run).await?;
    token.header.alg = Algorithm::HS512;
    failed_with(&post(run, &token.sign(run)?).await?, 401, Some("AUTH_ALG_FORBIDDEN"))
}

async fn a_second_use(run: &Run<'_>) -> Outcome {
    let token = Token::good(run).await?.sign(run)?;
    let first = post(run, &token).await?;
    must!(first.status == 201, "201 the first time, got {} {}", first.status, first.body);
    failed_with(&post(run, &token).await?, 401, Some("AUTH_TOKEN_REPLAYED"))
}

async fn too_long_a_life(run: &Run<'_>) -> Outcome {
    let mut token = Token::good(run).await?;
    token.claims["exp"] = json!(clock::now().as_secs() + 900);
    failed_with(&post(run, &token.sign(run)?).await?, 401, None)
}

async fn another_environment(run: &Run<'_>) -> Outcome {
    let mut token = Token::good(run).await?;
    token.claims["vip"]["env"] = "development".into();
    failed_with(&post(run, &token.sign(run)?).await?, 403, Some("AUTH_ENVIRONMENT_MISMATCH"))
}

async fn a_token_in_the_address(run: &Run<'_>) -> Outcome {
    let created = post(run, &Token::good(run).await?.sign(run)?).await?.json();
    let text = |name: &str| created[name].as_str().unwrap_or_default().to_owned();
    let path = format!("{SESSIONS}/{}/stream?token={}", text("session_id"), text("session_token"));
    let answer = run.ask(Request::upgrade(path, &["vip.v1"]).without_key()).await?;
    failed_with(&answer, 401, Some("AUTH_TOKEN_LOCATION"))
}
