//! `vip token`: tokens that others can verify, and tokens in words.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Ran, Server, run, run_with, switchboard};

/// A kind of key: how one is made, what it is for, how its public half is read.
type Kind = (&'static [&'static str], Algorithm, fn(&[u8]) -> DecodingKey);

const SECRET: &str = "a secret of an app, and long enough";

/// The claims of a token whose signature is right.
fn verified(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Value {
    let _ = jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER.install_default();
    let mut validation = Validation::new(algorithm);
    validation.set_audience(&["http://127.0.0.1:4600"]);
    decode::<Value>(token.trim(), key, &validation).unwrap().claims
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.c2lnbmVk", part(header), part(claims))
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

fn shown(header: &Value, claims: &Value) -> Ran {
    run(&["vip", "token", "--show", &unsigned(header, claims)])
}

#[test]
fn a_secret_signs_what_was_asked_for() {
    let mut command = switchboard(&[
        "vip",
        "token",
        "--secret-env",
        "APP_SECRET",
        "--sub",
        "alice",
        "--app",
        "shop",
        "--scopes",
        "session:create,prompt:inline",
        "--modes",
        "external",
        "--ttl",
        "60",
    ]);
    command.env("APP_SECRET", SECRET);
    let token = run_with(command, b"").ok();
    let header = decode_header(token.trim()).unwrap();
    assert_eq!((header.typ.as_deref(), header.alg), (Some("vip-app+jwt"), Algorithm::HS256));
    let claims = verified(&token, &DecodingKey::from_secret(SECRET.as_bytes()), Algorithm::HS256);
    assert_eq!(claims["sub"], "alice");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 60);
    let expected = json!({
        "app_id": "shop", "env": "development", "scopes": ["session:create", "prompt:inline"],
        "modes": ["external"],
    });
    assert_eq!(claims["vip"], expected);
    let other = run(&["vip", "token", "--secret", SECRET]).ok();
    let other = verified(&other, &DecodingKey::from_secret(SECRET.as_bytes()), Algorithm::HS256);
    assert_ne!(claims["jti"], other["jti"], "each is good for one use");
}

#[test]
fn a_private_key_signs_as_its_kind_does() {
    let folder = TempDir::new().unwrap();
    let openssl = |args: &[&str]| {
        let made = Command::new("openssl").args(args).current_dir(folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        made.stdout
    };
    let kinds: [Kind; 3] = [
        (&["-algorithm", "ed25519"], Algorithm::EdDSA, |pem| DecodingKey::from_ed_pem(pem).unwrap()),
        (&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], Algorithm::ES256, |pem| {
            DecodingKey::from_ec_pem(pem).unwrap()
        }),
        (&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], Algorithm::RS256, |pem| {
            DecodingKey::from_rsa_pem(pem).unwrap()
        }),
    ];
    for (kind, algorithm, read) in kinds {
        openssl(&[&["genpkey", "-out", "key.pem"], kind].concat());
        let public = openssl(&["pkey", "-in", "key.pem", "-pubout"]);
        let key = folder.path().join("key.pem");
        let token = run(&["vip", "token", "--key", key.to_str().unwrap(), "--kid", "k1"]).ok();
        let header = decode_header(token.trim()).unwrap();
        assert_eq!((header.alg, header.kid.as_deref()), (algorithm, Some("k1")));
        assert_eq!(verified(&token, &read(&public), algorithm)["iss"], "developer");
    }
}

#[test]
fn what_cannot_be_signed_is_refused_with_advice() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("no.pem");
    std::fs::write(&file, "nothing").unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&[], "--secret-env"),
        (&["--secret", "short"], "openssl rand -hex 32"),
        (&["--secret-env", "NOBODY_SET_THIS"], "NOBODY_SET_THIS is not set"),
        (&["--key", file.to_str().unwrap(), "--kid", "k"], "openssl genpkey"),
        (&["--key", file.to_str().unwrap()], "--kid"),
        (&["--secret", SECRET, "--ttl", "301"], "300"),
    ];
    for (args, advice) in cases {
        let ran = run(&[&["vip", "token"], args].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(advice), "{}", ran.err);
    }
}

#[test]
fn a_good_token_is_told_in_words() {
    let token = run(&["vip", "token", "--secret", SECRET, "--sub", "alice"]).ok();
    let ran = run_with(switchboard(&["vip", "token", "--show", "-"]), token.as_bytes());
    let text = ran.ok();
    for part in ["vip-app+jwt", "HS256", "alice", "counts until", "UTC, in ", "vip.scopes", "fine"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("wrong"), "{text}");
}

#[test]
fn everything_wrong_is_named() {
    let now = now();
    let header = json!({"typ": "vip-app+jwt", "alg": "HS256"});
    let vip = json!({"app_id": "a", "env": "production", "scopes": ["session:create"]});
    let claims = json!({
        "iss": "i", "sub": "s", "aud": "x", "jti": "j", "iat": now, "exp": now + 300, "vip": vip,
    });
    shown(&header, &claims).ok();
    let with = |name: &str, value: Value| {
        let mut claims = claims.clone();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let cases = [
        (json!({"typ": "vip-app+jwt", "alg": "none"}), claims.clone(), "AUTH_ALG_FORBIDDEN"),
        (json!({"typ": "JWT", "alg": "HS256"}), claims.clone(), "typ has to be vip-app+jwt"),
        (json!({"typ": "vip-app+jwt", "alg": "ES256"}), claims.clone(), "kid is missing"),
        (header.clone(), with("exp", json!(now + 301)), "it counts for 301 s"),
        (header.clone(), with("exp", json!(now - 100)), "it expired 1 min ago"),
        (header.clone(), with("nbf", json!(now + 200)), "does not count yet"),
        (header.clone(), without("jti"), "jti is missing"),
        (header.clone(), without("iss"), "iss is missing"),
        (header.clone(), without("aud"), "aud is missing"),
        (header.clone(), without("vip"), "vip is missing"),
        (header, with("vip", json!({"app_id": "a", "env": "test", "scopes": []})), "AUTH_SCOPE"),
    ];
    for (header, claims, problem) in cases {
        let ran = shown(&header, &claims);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.contains(problem), "{problem} in {}", ran.out);
    }
    for nonsense in ["a", "a.b", "a.b.c.d", "e30.x.y"] {
        let ran = run(&["vip", "token", "--show", nonsense]);
        assert_eq!((ran.code, ran.err.starts_with("error: ")), (1, true), "{ran:?}");
    }
}

#[test]
fn a_server_lets_in_whoever_shows_it_once() {
    let folder = TempDir::new().unwrap();
    let server = Server::start_with(
        folder.path(),
        &["--set", "vip.development_secret_env=APP_SECRET"],
        &[("APP_SECRET", SECRET)],
    );
    let audience = format!("http://{}", server.address);
    let token = run(&["vip", "token", "--secret", SECRET, "--sub", "alice", "--aud", &audience]).ok();
    let body = json!({
        "protocol_versions": ["0.1"], "environment": "development", "app_id": "demo",
        "client": {"name": "test", "version": "1", "platform": "other"},
        "audio": {"input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"]},
    });
    let create = || {
        let answer = Command::new("curl")
            .args(["-s", "-X", "POST", "-H", "content-type: application/json", "-H"])
            .arg(format!("authorization: Bearer {}", token.trim()))
            .args(["-d", &body.to_string(), &format!("{audience}/v1/vip/sessions")])
            .output()
            .unwrap();
        serde_json::from_slice::<Value>(&answer.stdout).unwrap()
    };
    let first = create();
    assert!(first["session_id"].as_str().unwrap_or_default().starts_with("vs_"), "{first}");
    assert_eq!(create()["error"]["code"], "AUTH_TOKEN_REPLAYED");
}
