//! `switchboard vip token`: makes App Tokens, as the backend of an app would.

use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use switchboard_core::{Timestamp, hex};

use super::findings::MAX_LIFE_S;
use super::show;
use crate::clock;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::Failure;

/// Arguments of `vip token`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  export APP_SECRET=$(openssl rand -hex 32)
  switchboard vip token --secret-env APP_SECRET --sub alice --app shop
  switchboard vip token --key backend.pem --kid 2026-11 --env production --iss https://shop.example
  switchboard vip token --show eyJ0eXAi…
  switchboard vip token --secret-env APP_SECRET | switchboard vip token --show -

A server lets in whoever shows a token under its development secret:
  switchboard serve --set vip.development_secret_env=APP_SECRET

A token counts once, and for at most 300 seconds. --show exits with 1 if a server would refuse it.")]
pub(crate) struct Args {
    /// Say what is inside this token, and what is wrong with it; - reads it from the input
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["secret_env", "secret", "key"])]
    show: Option<String>,
    /// Sign with the secret in this environment variable (HS256)
    #[arg(long, value_name = "NAME", group = "signer")]
    secret_env: Option<String>,
    /// Sign with this secret (HS256), which others may see in the list of processes
    #[arg(long, value_name = "TEXT", group = "signer")]
    secret: Option<String>,
    /// Sign with the private key in this PEM file (EdDSA, ES256 or RS256)
    #[arg(long, value_name = "FILE", group = "signer", requires = "kid")]
    key: Option<PathBuf>,
    /// The name under which the public key is found
    #[arg(long, value_name = "NAME")]
    kid: Option<String>,
    /// Whom the token is about
    #[arg(long, default_value = "developer")]
    sub: String,
    /// The app that it is for
    #[arg(long, value_name = "ID", default_value = "demo")]
    app: String,
    /// The environment: development or production
    #[arg(long, default_value = "development", value_parser = ["development", "production"])]
    env: String,
    /// What it allows: session:create, prompt:inline, function:call, history:read
    #[arg(long, value_delimiter = ',', value_name = "SCOPE", default_value = "session:create")]
    scopes: Vec<String>,
    /// The modes it allows: internal, external; both unless given
    #[arg(long, value_delimiter = ',', value_name = "MODE", value_parser = ["internal", "external"])]
    modes: Vec<String>,
    /// The server it is for: `issuer` of its /.well-known/vip
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4600")]
    aud: String,
    /// Who vouches
    #[arg(long, value_name = "NAME", default_value = "developer")]
    iss: String,
    /// How long it counts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = MAX_LIFE_S, value_parser = clap::value_parser!(u64).range(1..=MAX_LIFE_S))]
    ttl: u64,
}

/// Runs `vip token`.
pub(crate) fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    if let Some(token) = &args.show {
        return show::run(token, console);
    }
    let signer = Signer::of(&args, environment)?;
    let token = signer.sign(&claims(&args, &fresh()?, clock::now()), args.kid)?;
    console.line(&token)
}

/// What the token says.
fn claims(args: &Args, jti: &str, now: Timestamp) -> Value {
    let Args { sub, app, env, scopes, modes, aud, iss, ttl, .. } = args;
    let issued = now.as_secs();
    let mut vip = json!({ "app_id": app, "env": env, "scopes": scopes });
    if !modes.is_empty() {
        vip["modes"] = json!(modes);
    }
    json!({ "iss": iss, "sub": sub, "aud": aud, "iat": issued, "exp": issued + ttl, "jti": jti, "vip": vip })
}

/// A key, and the algorithm that it is for.
struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
}

impl Signer {
    fn of(args: &Args, environment: &Environment) -> Result<Self, Failure> {
        // Somebody else may have installed the same provider already.
        let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
        if let Some(path) = &args.key {
            return Self::read(path);
        }
        let secret = match (&args.secret_env, &args.secret) {
            (Some(name), _) => environment
                .find(name)
                .ok_or_else(|| Failure::usage(format!("{name} is not set: export it, or name another")))?,
            (None, Some(secret)) => secret,
            (None, None) => {
                return Err(Failure::usage(
                    "nothing to sign with: name a secret with --secret-env, or a private key with --key",
                ));
            }
        };
        if secret.len() < MIN_SECRET_BYTES {
            return Err(Failure::usage(format!(
                "the secret has {} bytes, and servers want {MIN_SECRET_BYTES} or more; \
                 make one with: openssl rand -hex 32",
                secret.len()
            )));
        }
        Ok(Self { key: EncodingKey::from_secret(secret.as_bytes()), algorithm: Algorithm::HS256 })
    }

    /// A private key from a file; what kind of key it is says which algorithm it is for.
    fn read(path: &Path) -> Result<Self, Failure> {
        let pem = std::fs::read(path)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
        let kinds = [
            (EncodingKey::from_ed_pem(&pem), Algorithm::EdDSA),
            (EncodingKey::from_ec_pem(&pem), Algorithm::ES256),
            (EncodingKey::from_rsa_pem(&pem), Algorithm::RS256),
        ];
        kinds.into_iter().find_map(|(key, algorithm)| Some(Self { key: key.ok()?, algorithm })).ok_or_else(
            || {
                Failure::usage(format!(
                    "{} holds no private key in PEM for EdDSA, ES256 or RS256; make one with: \
                     openssl genpkey -algorithm ed25519 -out {0}",
                    path.display()
                ))
            },
        )
    }

    fn sign(&self, claims: &Value, kid: Option<String>) -> Result<String, Failure> {
        let header = Header { typ: Some(TYPE.to_owned()), kid, ..Header::new(self.algorithm) };
        encode(&header, claims, &self.key)
            .map_err(|error| Failure::usage(format!("the key cannot sign ({error}): is it of 256 bits?")))
    }
}

/// 128 random bits.
fn fresh() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(hex(&bytes))
}

/// The type of App Tokens.
pub(super) const TYPE: &str = switchboard_vip::token::APP;
const MIN_SECRET_BYTES: usize = 32;
