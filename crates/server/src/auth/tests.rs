use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm as Alg, EncodingKey, Header};
use serde_json::{Value, json};
use switchboard_core::{PrincipalId, Scope};
use tempfile::TempDir;

use super::*;
use crate::captured::Captured;
use crate::config::{Algorithm, ApiKey, JwtIssuer, Secrets, TelemetryConfig};

const NOW: Timestamp = Timestamp::from_secs(2_000_000_000);
const ISSUER: &str = "https://issuer.test";
const AUDIENCE: &str = "https://switchboard.test";
const SECRET: &str = "a shared secret of more than 32 bytes, for tests";
const KEY: &str = "swb_key_of_ann_0123456789abcdef";

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/auth/testdata").join(name)
}

fn config(folder: &TempDir) -> Config {
    Config {
        data_dir: folder.path().to_owned(),
        secrets: Secrets::new([
            ("JWT_SECRET".to_owned(), SECRET.to_owned()),
            ("BOB_KEY".to_owned(), "swb_key_of_bob_0123456789abcdef".to_owned()),
        ]),
        ..Config::default()
    }
}

fn shared_secret() -> JwtIssuer {
    JwtIssuer {
        issuer: ISSUER.into(),
        audience: AUDIENCE.into(),
        algorithm: Some(Algorithm::Hs256),
        secret_env: Some("JWT_SECRET".into()),
        ..JwtIssuer::default()
    }
}

/// What an authenticator was made of.
struct Made {
    config: Config,
    _folder: TempDir,
}

fn with_issuers(issuers: &[JwtIssuer]) -> (Authenticator, Made) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    config.auth.jwt = issuers.to_vec();
    config.check().unwrap();
    (Authenticator::new(&config).unwrap(), Made { config, _folder: folder })
}

fn with_keys() -> (Authenticator, Made) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    config.auth.api_keys = vec![
        ApiKey {
            id: "ann-1".into(),
            hash: Some(hash_key(KEY).to_uppercase()),
            principal: "ann".into(),
            ..ApiKey::default()
        },
        ApiKey {
            id: "bob-1".into(),
            key_env: Some("BOB_KEY".into()),
            principal: "bob".into(),
            scopes: Some(vec!["connect".into(), "admin".into(), "agent:echo".into()]),
            ..ApiKey::default()
        },
    ];
    config.auth.jwt = vec![shared_secret()];
    config.check().unwrap();
    (Authenticator::new(&config).unwrap(), Made { config, _folder: folder })
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW.as_secs() + 3600})
}

fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = claims();
    change(&mut claims);
    claims
}

fn sign(header: &Header, claims: &Value) -> String {
    jsonwebtoken::encode(header, claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

fn hs256(claims: &Value) -> String {
    sign(&Header::new(Alg::HS256), claims)
}

#[test]
fn api_keys_become_principals() {
    let (auth, _folder) = with_keys();
    let ann = auth.authenticate(Some(KEY), NOW).unwrap();
    assert_eq!(ann, Principal::new("ann"));
    let bob = auth.identify(Some("swb_key_of_bob_0123456789abcdef"), NOW).unwrap();
    assert_eq!(bob.principal.id.as_str(), "bob");
    assert!(matches!(bob.credential, Credential::ApiKey { id, .. } if id == "bob-1"));
    assert!(bob.principal.scopes.allows(Scope::Admin) && !bob.principal.scopes.allows(Scope::Tools));
    assert!(!bob.principal.scopes.allows_agent(&"other".into()));
}

#[test]
fn other_keys_are_refused() {
    let (auth, _folder) = with_keys();
    assert_eq!(auth.authenticate(None, NOW), Err(AuthError::Missing));
    let hash = hash_key(KEY);
    let long = "x".repeat(MAX_CREDENTIAL_BYTES + 1);
    for wrong in
        ["", " ", "dev", &KEY[1..], &format!("{KEY} "), &KEY.to_uppercase(), &hash, "a.b.c", "..", &long]
    {
        assert_eq!(auth.authenticate(Some(wrong), NOW), Err(AuthError::Invalid), "{wrong}");
    }
}

#[test]
fn development_needs_loopback_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    let auth = Authenticator::new(&config).unwrap();
    assert!(auth.development().is_some());
    for credential in [None, Some("anything")] {
        let principal = auth.authenticate(credential, NOW).unwrap();
        assert_eq!(principal.id.as_str(), "dev");
        assert!(principal.scopes.allows(Scope::Admin));
    }
    config.auth.development = Some(false);
    assert_eq!(Authenticator::new(&config).unwrap().authenticate(None, NOW), Err(AuthError::Missing));
    config.auth.development = Some(true);
    config.listen = "0.0.0.0:4600".parse().unwrap();
    assert_eq!(Authenticator::new(&config).unwrap().authenticate(None, NOW), Err(AuthError::Missing));
    let (auth, _folder) = with_keys();
    assert!(auth.development().is_none());
}

#[test]
fn a_good_token_becomes_a_principal() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let claims = changed(|claims| {
        claims["scope"] = json!("switchboard:connect agent:echo");
        claims["jti"] = json!("t1");
        claims["nbf"] = json!(NOW.as_secs());
    });
    let identity = auth.identify(Some(&hs256(&claims)), NOW).unwrap();
    assert_eq!(identity.principal.id.as_str(), "https://issuer.test|ann");
    assert_eq!(identity.principal.expires_at, Some(NOW.after(Duration::from_secs(3610))));
    assert!(
        identity.principal.scopes.allows(Scope::Connect) && !identity.principal.scopes.allows(Scope::Tools)
    );
    assert!(!identity.principal.scopes.allows_agent(&"other".into()));
    assert_eq!(identity.credential, Credential::Token { jti: Some("t1".into()) });
}

#[test]
fn claims_that_are_accepted() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    for claims in [
        claims(),
        changed(|claims| claims["aud"] = json!(["https://other.test", AUDIENCE])),
        changed(|claims| claims["exp"] = json!(2_000_000_100.5)),
        // Within the leeway.
        changed(|claims| claims["exp"] = json!(NOW.as_secs() - 9)),
        changed(|claims| claims["nbf"] = json!(NOW.as_secs() + 10)),
    ] {
        assert!(auth.authenticate(Some(&hs256(&claims)), NOW).is_ok(), "{claims}");
    }
}

#[test]
fn claims_that_are_refused() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let remove =
        |name: &'static str| changed(move |claims| drop(claims.as_object_mut().unwrap().remove(name)));
    let set = |name: &'static str, value: Value| changed(move |claims| claims[name] = value);
    let table = [
        (set("exp", json!(NOW.as_secs() - 10)), AuthError::Expired),
        (set("exp", json!(0)), AuthError::Expired),
        (set("exp", json!("2000003600")), AuthError::Invalid),
        (set("exp", json!(-1)), AuthError::Invalid),
        (set("exp", json!(1e300)), AuthError::Invalid),
        (remove("exp"), AuthError::Invalid),
        (set("nbf", json!(NOW.as_secs() + 11)), AuthError::Invalid),
        (set("nbf", json!("soon")), AuthError::Invalid),
        (set("aud", json!("https://other.test")), AuthError::Invalid),
        (set("aud", json!([])), AuthError::Invalid),
        (set("aud", json!({"a": AUDIENCE})), AuthError::Invalid),
        (remove("aud"), AuthError::Invalid),
        (set("iss", json!("https://other.test")), AuthError::Invalid),
        (set("iss", json!("https://issuer.test/")), AuthError::Invalid),
        (set("iss", json!([ISSUER])), AuthError::Invalid),
        (remove("iss"), AuthError::Invalid),
        (set("sub", json!("")), AuthError::Invalid),
        (set("sub", json!("a\nb")), AuthError::Invalid),
        (set("sub", json!("x".repeat(257))), AuthError::Invalid),
        (set("sub", json!(7)), AuthError::Invalid),
        (remove("sub"), AuthError::Invalid),
        (set("jti", json!(7)), AuthError::Invalid),
        (json!({}), AuthError::Invalid),
        (json!([]), AuthError::Invalid),
    ];
    for (claims, error) in table {
        assert_eq!(auth.authenticate(Some(&hs256(&claims)), NOW), Err(error), "{claims}");
    }
}

#[test]
fn expiry_is_only_told_of_genuine_tokens() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let old = changed(|claims| claims["exp"] = json!(1));
    let forged =
        jsonwebtoken::encode(&Header::new(Alg::HS256), &old, &EncodingKey::from_secret(b"another secret"))
            .unwrap();
    assert_eq!(auth.authenticate(Some(&forged), NOW), Err(AuthError::Invalid));
    let elsewhere = changed(|claims| {
        claims["exp"] = json!(1);
        claims["aud"] = json!("https://other.test");
    });
    assert_eq!(auth.authenticate(Some(&hs256(&elsewhere)), NOW), Err(AuthError::Invalid));
}

#[test]
fn headers_that_are_refused() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let signed = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::new(Alg::HS256);
        change(&mut header);
        auth.authenticate(Some(&sign(&header, &claims())), NOW)
    };
    assert!(signed(&|header| header.typ = None).is_ok());
    assert!(signed(&|header| header.typ = Some("at+jwt".into())).is_ok());
    assert!(signed(&|header| header.typ = Some("jwt".into())).is_ok());
    assert!(signed(&|header| header.kid = Some("whatever".into())).is_ok(), "one key, nothing to choose");
    for typ in ["id+jwt", "JWE", "", "logout+jwt"] {
        assert_eq!(signed(&|header| header.typ = Some(typ.into())), Err(AuthError::Invalid), "{typ}");
    }
    assert_eq!(signed(&|header| header.crit = Some(vec!["b64".into()])), Err(AuthError::Invalid));
    assert_eq!(signed(&|header| header.alg = Alg::HS384), Err(AuthError::Invalid), "another HMAC");
}

#[test]
fn alg_none_is_refused() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let genuine = hs256(&claims());
    let signature = genuine.rsplit('.').next().unwrap();
    for alg in ["none", "None", "NONE", ""] {
        let header = URL_SAFE_NO_PAD.encode(json!({"alg": alg, "typ": "JWT"}).to_string());
        let payload = URL_SAFE_NO_PAD.encode(claims().to_string());
        for token in [
            format!("{header}.{payload}."),
            format!("{header}.{payload}"),
            format!("{header}.{payload}.{signature}"),
        ] {
            assert_eq!(auth.authenticate(Some(&token), NOW), Err(AuthError::Invalid), "{alg}");
        }
    }
}

#[test]
fn every_changed_or_cut_token_is_refused() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let token = hs256(&claims());
    assert!(auth.authenticate(Some(&token), NOW).is_ok());
    for length in 0..token.len() {
        assert_eq!(auth.authenticate(Some(&token[..length]), NOW), Err(AuthError::Invalid), "{length}");
    }
    for index in (0..token.len()).step_by(3) {
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let token = String::from_utf8(bytes).unwrap();
        assert_eq!(auth.authenticate(Some(&token), NOW), Err(AuthError::Invalid), "{index}");
    }
}

fn rsa(public_key: Option<&str>, jwks: Option<&str>) -> JwtIssuer {
    JwtIssuer {
        issuer: ISSUER.into(),
        audience: AUDIENCE.into(),
        algorithm: Some(Algorithm::Rs256),
        public_key: public_key.map(testdata),
        jwks: jwks.map(testdata),
        ..JwtIssuer::default()
    }
}

fn rs256_token() -> String {
    std::fs::read_to_string(testdata("rs256.jwt")).unwrap().trim().to_owned()
}

#[test]
fn rs256_with_a_public_key_or_a_key_set() {
    for issuer in [rsa(Some("rs256.pub.pem"), None), rsa(None, Some("jwks.json"))] {
        let (auth, _folder) = with_issuers(&[issuer]);
        let principal = auth.authenticate(Some(&rs256_token()), NOW).unwrap();
        assert_eq!(principal.id.as_str(), "https://issuer.test|ann");
        assert!(principal.scopes.allows(Scope::Invoke) && !principal.scopes.allows(Scope::Tools));
        let late = Timestamp::from_secs(2_000_003_610);
        assert_eq!(auth.authenticate(Some(&rs256_token()), late), Err(AuthError::Expired));
        assert_eq!(auth.authenticate(Some(&hs256(&claims())), NOW), Err(AuthError::Invalid));
    }
}

#[test]
fn a_public_key_is_never_a_shared_secret() {
    let pem = std::fs::read(testdata("rs256.pub.pem")).unwrap();
    let jwks: Value = serde_json::from_slice(&std::fs::read(testdata("jwks.json")).unwrap()).unwrap();
    let modulus = jwks["keys"][1]["n"].as_str().unwrap();
    let shared = b"a shared secret that must never be used here";
    for issuer in [rsa(Some("rs256.pub.pem"), None), rsa(None, Some("jwks.json"))] {
        let (auth, _folder) = with_issuers(&[issuer]);
        for secret in [pem.as_slice(), pem.trim_ascii(), modulus.as_bytes(), shared] {
            for kid in [None, Some("rsa-1"), Some("shared")] {
                let mut header = Header::new(Alg::HS256);
                header.kid = kid.map(str::to_owned);
                let token =
                    jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(secret)).unwrap();
                assert_eq!(auth.authenticate(Some(&token), NOW), Err(AuthError::Invalid));
            }
        }
    }
}

/// Keys of P-256 for a key set, so that tokens can be signed here.
struct Signer {
    key: EncodingKey,
    jwk: Value,
}

fn signer(kid: Option<&str>) -> Signer {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let point = pair.public_key_raw();
    let mut jwk = json!({
        "kty": "EC", "crv": "P-256",
        "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..65]),
    });
    if let Some(kid) = kid {
        jwk["kid"] = json!(kid);
    }
    Signer { key: EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap(), jwk }
}

fn es256(signer: &Signer, kid: Option<&str>) -> String {
    let mut header = Header::new(Alg::ES256);
    header.kid = kid.map(str::to_owned);
    jsonwebtoken::encode(&header, &claims(), &signer.key).unwrap()
}

#[test]
fn a_key_set_is_chosen_from_by_kid_and_reloaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    let (one, two, three) = (signer(Some("one")), signer(Some("two")), signer(Some("three")));
    let write = |keys: &[&Signer]| {
        let keys: Vec<_> = keys.iter().map(|signer| &signer.jwk).collect();
        std::fs::write(&path, json!({"keys": keys}).to_string()).unwrap();
    };
    write(&[&one, &two]);
    let issuer = JwtIssuer {
        algorithm: Some(Algorithm::Es256),
        secret_env: None,
        jwks: Some(path.clone()),
        ..shared_secret()
    };
    let (auth, made) = with_issuers(&[issuer]);
    let try_token = |token: String| auth.authenticate(Some(&token), NOW).map(|_| ());
    assert_eq!(try_token(es256(&one, Some("one"))), Ok(()));
    assert_eq!(try_token(es256(&two, Some("two"))), Ok(()));
    assert_eq!(try_token(es256(&one, Some("two"))), Err(AuthError::Invalid), "the key of another kid");
    assert_eq!(try_token(es256(&one, Some("three"))), Err(AuthError::Invalid), "unknown kid");
    assert_eq!(try_token(es256(&one, None)), Err(AuthError::Invalid), "no kid to choose by");
    assert_eq!(try_token(es256(&three, Some("three"))), Err(AuthError::Invalid));

    write(&[&three]);
    auth.reload(&made.config).unwrap();
    assert_eq!(try_token(es256(&three, None)), Ok(()), "one key, nothing to choose");
    assert_eq!(try_token(es256(&one, Some("one"))), Err(AuthError::Invalid));

    std::fs::write(&path, "not a key set").unwrap();
    assert!(auth.reload(&made.config).unwrap_err().to_string().starts_with("auth.jwt[0].jwks: "));
    assert_eq!(try_token(es256(&three, None)), Ok(()), "a failed reload changes nothing");
}

#[test]
fn issuers_do_not_share_their_subjects() {
    let other =
        JwtIssuer { issuer: "https://other.test".into(), namespace: Some("other".into()), ..shared_secret() };
    let (auth, _folder) = with_issuers(&[shared_secret(), other]);
    let ann = auth.authenticate(Some(&hs256(&claims())), NOW).unwrap();
    let namesake = changed(|claims| claims["iss"] = json!("https://other.test"));
    let namesake = auth.authenticate(Some(&hs256(&namesake)), NOW).unwrap();
    assert_eq!(namesake.id.as_str(), "other|ann");
    assert_ne!(ann.id, namesake.id);
    let (keys, _folder) = with_keys();
    assert_ne!(keys.authenticate(Some(KEY), NOW).unwrap().id, ann.id);
}

#[test]
fn scopes_of_others_are_not_ours() {
    let (auth, _folder) = with_issuers(&[shared_secret()]);
    let scopes = |name: &'static str, value: Value| {
        let claims = changed(|claims| claims[name] = value);
        auth.authenticate(Some(&hs256(&claims)), NOW).unwrap().scopes
    };
    assert!(!scopes("scope", json!("billing:admin openid")).allows(Scope::Admin));
    assert!(
        !scopes("scope", json!("billing:read")).allows(Scope::Connect),
        "it was given for something else"
    );
    assert!(scopes("scope", json!("billing:read connect")).allows(Scope::Connect));
    assert!(scopes("scope", json!("admin")).allows(Scope::Admin));
    assert!(scopes("scope", json!("switchboard:admin")).allows(Scope::Admin));
    assert!(scopes("scp", json!(["connect", "admin"])).allows(Scope::Admin));
    assert!(!scopes("scp", json!(["connect"])).allows(Scope::Invoke));
}

#[test]
fn a_claim_that_is_no_list_of_scopes_allows_what_the_issuer_says_or_nothing() {
    let malformed = [
        json!(""),
        json!("  "),
        json!(42),
        json!(false),
        json!({}),
        json!([]),
        json!([["connect"]]),
        json!(["connect", 5]),
        Value::Null,
    ];
    let with = |default_scopes: &[&str]| {
        let default_scopes = default_scopes.iter().map(|&word| word.into()).collect();
        with_issuers(&[JwtIssuer { default_scopes, ..shared_secret() }])
    };
    let (nothing, _made) = with(&[]);
    let (reading, _made) = with(&["connect", "read"]);
    for claim in malformed {
        let token = hs256(&changed(|claims| claims["scope"] = claim.clone()));
        let scopes = |auth: &Authenticator| auth.authenticate(Some(&token), NOW).unwrap().scopes;
        let allowed = |scopes: Scopes| -> Vec<Scope> {
            Scope::ALL.into_iter().filter(|scope| scopes.allows(*scope)).collect()
        };
        assert_eq!(allowed(scopes(&nothing)), Vec::<Scope>::new(), "{claim}");
        assert_eq!(allowed(scopes(&reading)), [Scope::Connect, Scope::Read], "{claim}");
    }
    let token = hs256(&changed(|claims| {
        claims["scope"] = json!("");
        claims["scp"] = json!("connect");
    }));
    assert!(nothing.authenticate(Some(&token), NOW).unwrap().scopes.allows(Scope::Connect));
    let token = hs256(&changed(|claims| claims["scope"] = json!("openid email")));
    assert!(!reading.authenticate(Some(&token), NOW).unwrap().scopes.allows(Scope::Connect), "it is a list");
}

#[test]
fn keys_come_and_go_with_the_configuration() {
    let (auth, made) = with_keys();
    let ann = auth.identify(Some(KEY), NOW).unwrap();
    let live = auth.subscribe_revocations();
    let mut config = made.config.clone();
    config.auth.api_keys[0].scopes = Some(vec!["connect".into()]);
    auth.reload(&config).unwrap();
    assert!(live.borrow().covers(&ann), "what it was let in with says something else now");
    let narrower = auth.identify(Some(KEY), NOW).unwrap();
    assert!(!live.borrow().covers(&narrower) && !narrower.principal.scopes.allows(Scope::Invoke));
    config.auth.api_keys.remove(0);
    auth.reload(&config).unwrap();
    assert!(live.borrow().covers(&narrower));
    assert_eq!(auth.authenticate(Some(KEY), NOW), Err(AuthError::Invalid));
    auth.reload(&made.config).unwrap();
    assert_eq!(auth.identify(Some(KEY), NOW).unwrap(), ann, "it may come back");
    assert!(!live.borrow().covers(&ann));
    auth.revoke(Revocation::ApiKey("ann-1".into()), NOW).unwrap();
    let states: Vec<(String, bool)> = auth.api_keys().into_iter().map(|key| (key.id, key.revoked)).collect();
    assert_eq!(states, [("ann-1".to_owned(), true), ("bob-1".to_owned(), false)]);
}

#[test]
fn revocation_reaches_live_connections_and_survives_a_restart() {
    let (auth, made) = with_keys();
    let token = hs256(&changed(|claims| claims["jti"] = json!("t1")));
    let ann = auth.identify(Some(KEY), NOW).unwrap();
    let carol = auth.identify(Some(&token), NOW).unwrap();
    let mut live = auth.subscribe_revocations();
    assert!(!live.has_changed().unwrap());

    auth.revoke(Revocation::ApiKey("ann-1".into()), NOW).unwrap();
    assert!(live.has_changed().unwrap());
    assert!(live.borrow_and_update().covers(&ann) && !live.borrow().covers(&carol));
    assert_eq!(auth.authenticate(Some(KEY), NOW), Err(AuthError::Invalid));

    auth.revoke(Revocation::Token { jti: "t1".into(), until: carol.principal.expires_at }, NOW).unwrap();
    assert!(live.borrow().covers(&carol));
    assert_eq!(auth.authenticate(Some(&token), NOW), Err(AuthError::Invalid));

    let again = Authenticator::new(&made.config).unwrap();
    assert_eq!(again.authenticate(Some(KEY), NOW), Err(AuthError::Invalid));
    assert_eq!(again.authenticate(Some(&token), NOW), Err(AuthError::Invalid));

    auth.restore(&Revocation::ApiKey("ann-1".into()), NOW).unwrap();
    assert_eq!(auth.authenticate(Some(KEY), NOW), Ok(Principal::new("ann")));
    again.reload(&made.config).unwrap();
    assert!(again.authenticate(Some(KEY), NOW).is_ok());
}

#[test]
fn a_revoked_principal_loses_every_credential() {
    let (auth, _folder) = with_keys();
    let token = hs256(&claims());
    let id = PrincipalId::from("https://issuer.test|ann");
    auth.revoke(Revocation::Principal(id), NOW).unwrap();
    assert_eq!(auth.authenticate(Some(&token), NOW), Err(AuthError::Invalid));
    assert!(auth.authenticate(Some(KEY), NOW).is_ok(), "a namesake with a key is somebody else");
}

#[test]
fn tokens_that_have_ended_are_forgotten() {
    let mut revocations = Revocations::default();
    let token = |jti: &str, until| Revocation::Token { jti: jti.into(), until };
    revocations.insert(token("a", Some(Timestamp::from_secs(1_000)))).unwrap();
    revocations.insert(token("b", None)).unwrap();
    revocations.forget_expired(Timestamp::from_secs(1_000));
    assert_eq!(serde_json::to_value(&revocations).unwrap()["tokens"], json!({"a": 1001, "b": null}));
    revocations.forget_expired(NOW);
    assert_eq!(serde_json::to_value(&revocations).unwrap()["tokens"], json!({"b": null}));
}

#[test]
fn a_damaged_list_of_revocations_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("revoked.json"), "{\"api_keys\": [").unwrap();
    let error = Authenticator::new(&config(&folder)).unwrap_err();
    assert!(error.to_string().contains("revoked.json is damaged"), "{error}");
}

#[test]
fn a_revocation_that_cannot_be_kept_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(&folder);
    let data = folder.path().join("data");
    config.data_dir.clone_from(&data);
    let auth = Authenticator::new(&config).unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::write(&data, "in the way").unwrap();
    assert!(matches!(
        auth.revoke(Revocation::Principal("dev".into()), NOW),
        Err(RevokeError::Unwritable { .. })
    ));
    assert!(auth.authenticate(None, NOW).is_ok());
}

#[test]
fn key_files_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n").unwrap();
    let cases = [
        (rsa(Some("missing.pem"), None), "auth.jwt[0].public_key: "),
        (rsa(None, Some("missing.json")), "auth.jwt[0].jwks: "),
        (rsa(None, Some("rs256.pub.pem")), "auth.jwt[0].jwks: "),
        (JwtIssuer { public_key: Some(broken), ..rsa(None, None) }, "auth.jwt[0].public_key: "),
        (
            JwtIssuer { algorithm: Some(Algorithm::EdDsa), ..rsa(Some("rs256.pub.pem"), None) },
            "auth.jwt[0].public_key: ",
        ),
        (
            JwtIssuer { algorithm: Some(Algorithm::Es256), ..rsa(None, Some("jwks.json")) },
            "auth.jwt[0].jwks: ",
        ),
        (
            JwtIssuer { algorithm: Some(Algorithm::Hs256), ..rsa(Some("rs256.pub.pem"), None) },
            "auth.jwt[0]: ",
        ),
    ];
    for (issuer, expected) in cases {
        let mut config = config(&folder);
        config.auth.jwt = vec![issuer];
        let error = Authenticator::new(&config).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn nothing_secret_is_formatted() {
    let (auth, made) = with_keys();
    let identity = auth.identify(Some(KEY), NOW).unwrap();
    let token = hs256(&changed(|claims| claims["jti"] = json!("t1")));
    let named = auth.identify(Some(&token), NOW).unwrap();
    let text = format!("{auth:?} {identity:?} {named:?} {:?} {:?}", made.config, made.config.secrets);
    for secret in [SECRET, KEY, &hash_key(KEY), &token, "swb_key_of_bob_0123456789abcdef"] {
        let shown = text.to_lowercase().contains(&secret.to_lowercase());
        // The hash of a key stands in the configuration; it is of no use to anybody.
        assert!(!shown || secret == hash_key(KEY), "{secret}");
    }
}

#[test]
fn bearer_headers() {
    let table = [
        ("Bearer abc", Some("abc")),
        ("bearer  abc ", Some("abc")),
        ("BEARER abc", Some("abc")),
        ("Basic abc", None),
        ("Bearer", None),
        ("abc", None),
        ("", None),
    ];
    for (header, token) in table {
        assert_eq!(bearer(header), token, "{header}");
    }
}

#[test]
fn nothing_secret_is_logged() {
    let config = TelemetryConfig { log_level: "trace".into(), ..TelemetryConfig::default() };
    let expired = hs256(&changed(|claims| claims["exp"] = json!(1)));
    let (captured, guard) = Captured::start(&config);
    let (auth, _folder) = with_keys();
    for credential in [KEY, &hs256(&claims()), &expired, "a-wrong-key", "a.b.c"] {
        let _ = auth.identify(Some(credential), NOW);
    }
    auth.revoke(Revocation::ApiKey("ann-1".into()), NOW).unwrap();
    let _ = auth.identify(Some(KEY), NOW);
    drop(guard);
    let logged = captured.text();
    for reason in ["expired", "neither an API key nor a token", "revoked"] {
        assert!(logged.contains(reason), "{logged}");
    }
    for secret in
        [KEY, SECRET, "a-wrong-key", "a.b.c", expired.as_str(), expired.rsplit('.').next().unwrap(), "ann"]
    {
        assert!(!logged.contains(secret), "{logged}");
    }
}
