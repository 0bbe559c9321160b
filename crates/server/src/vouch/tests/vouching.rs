//! Who is vouched for: issuers, algorithms, environments.

use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use switchboard_core::{Principal, Scope, Scopes};

use super::NOW;
use super::support::{
    AUDIENCE, ISSUER, SECRET, Signer, changed, claims, code, forged, key_set, open, open_with, redeem,
    secrets, shared, testdata, with_file,
};
use crate::vouch::{AppAlgorithm, DevelopmentConfig, IssuerConfig, Vouching};

fn development() -> DevelopmentConfig {
    DevelopmentConfig { allowed: true, secret_env: Some("DEV_SECRET".into()) }
}

async fn in_development(vouching: &Vouching, token: Option<&str>) -> Result<(String, Principal), String> {
    let vouched = vouching.vouch(token, true, true, AUDIENCE, NOW).await;
    vouched.map(|(vouched, principal)| (vouched.sub, principal)).map_err(|failed| failed.failed)
}

fn of_development(jti: &str) -> Value {
    changed(jti, |claims| claims["vip"]["env"] = json!("development"))
}

#[tokio::test]
async fn vip_008_every_algorithm_is_accepted_of_issuers_registered_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let signers = [Signer::es256("ec"), Signer::eddsa("ed"), Signer::rs256("rsa"), Signer::hs256()];
    let issuer = IssuerConfig {
        secret_env: Some("APP_SECRET".into()),
        ..with_file(&folder, &[&signers[0], &signers[1], &signers[2]])
    };
    let issuer = IssuerConfig {
        algorithms: vec![AppAlgorithm::Es256, AppAlgorithm::EdDsa, AppAlgorithm::Rs256, AppAlgorithm::Hs256],
        ..issuer
    };
    let vouching = open(&[issuer]);
    for (index, signer) in signers.iter().enumerate() {
        let token = signer.sign(&claims(&format!("t{index}")));
        let (vouched, principal) = redeem(&vouching, &token).await.unwrap();
        assert_eq!(vouched.own, "https://app.example|user-42");
        assert_eq!(principal.id.as_str(), vouched.own);
        assert_eq!(vouched.iss.as_deref(), Some(ISSUER));
        assert_eq!(vouched.sub, "user-42");
        assert_eq!(vouched.app_id.as_deref(), Some("shop-web"));
        assert_eq!(vouched.env.as_deref(), Some("production"));
        assert_eq!(vouched.scopes, ["session:create"]);
        assert!(principal.scopes.allows(Scope::Invoke) && !principal.scopes.allows(Scope::Admin));
        assert_eq!(principal.expires_at.unwrap().as_secs(), NOW.as_secs() + 300);

        let (start, signature) = token.rsplit_once('.').unwrap();
        let mut signature = signature.as_bytes().to_vec();
        signature[7] = if signature[7] == b'A' { b'B' } else { b'A' };
        let broken = format!("{start}.{}", String::from_utf8(signature).unwrap());
        assert_eq!(code(&vouching, &broken).await, "AUTH_TOKEN_INVALID");
    }
}

#[tokio::test]
async fn keys_may_be_in_a_pem_file() {
    let folder = tempfile::tempdir().unwrap();
    let pem = |name: &str, pair: &rcgen::KeyPair| {
        let path = folder.path().join(name);
        std::fs::write(&path, pair.public_key_pem()).unwrap();
        path
    };
    let ec = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let ed = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let cases = [
        (
            AppAlgorithm::Es256,
            pem("ec.pem", &ec),
            Signer {
                key: EncodingKey::from_ec_pem(ec.serialize_pem().as_bytes()).unwrap(),
                ..Signer::es256("1")
            },
        ),
        (
            AppAlgorithm::EdDsa,
            pem("ed.pem", &ed),
            Signer {
                key: EncodingKey::from_ed_pem(ed.serialize_pem().as_bytes()).unwrap(),
                ..Signer::eddsa("1")
            },
        ),
        (AppAlgorithm::Rs256, testdata("rs256-test-key.pub.pem"), Signer::rs256("1")),
    ];
    for (algorithm, path, signer) in cases {
        let vouching = open(&[IssuerConfig {
            issuer: ISSUER.into(),
            algorithms: vec![algorithm],
            public_key: Some(path),
            namespace: Some("shop".into()),
            ..IssuerConfig::default()
        }]);
        let (vouched, _) = redeem(&vouching, &signer.sign(&claims("1"))).await.unwrap();
        assert_eq!(vouched.own, "shop|user-42");
        let nameless = Signer { kid: None, ..signer };
        assert_eq!(code(&vouching, &nameless.sign(&claims("2"))).await, "AUTH_TOKEN_INVALID", "no kid");
    }
}

#[tokio::test]
async fn vip_002_production_needs_a_token() {
    let vouching = open_with(&[shared()], &development(), None);
    let failed = vouching.vouch(None, false, true, AUDIENCE, NOW).await.unwrap_err();
    assert_eq!(failed.failed, "AUTH_TOKEN_MISSING");
}

#[tokio::test]
async fn vip_003_unsigned_tokens_are_refused_in_every_environment() {
    let genuine = Signer::hs256().sign(&claims("1"));
    let signature = genuine.rsplit('.').next().unwrap();
    for allowed in [true, false] {
        let vouching = open_with(&[shared()], &DevelopmentConfig { allowed, ..development() }, None);
        for alg in ["none", "None", "NONE", ""] {
            for typ in ["vip-app+jwt", "JWT"] {
                for signature in ["", signature] {
                    let token = forged(&json!({"alg": alg, "typ": typ}), &of_development("1"), signature);
                    for development in [true, false] {
                        let vouched = vouching.vouch(Some(&token), development, true, AUDIENCE, NOW).await;
                        assert_eq!(vouched.unwrap_err().failed, "AUTH_ALG_FORBIDDEN", "{alg} {typ}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn vip_004_tokens_of_another_type_are_refused() {
    let vouching = open(&[shared()]);
    for typ in ["JWT", "vip-session+jwt", "vip-ephemeral+jwt", "VIP-APP+JWT", "application/vip-app+jwt", ""] {
        let token = Signer::hs256().sign_as(typ, &claims("1"));
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{typ}");
    }
    assert!(redeem(&vouching, &Signer::hs256().sign(&claims("1"))).await.is_ok());
}

#[tokio::test]
async fn vip_005_an_algorithm_outside_of_the_allow_list_is_refused_though_the_signature_fits() {
    let folder = tempfile::tempdir().unwrap();
    let (ec, ed) = (Signer::es256("ec"), Signer::eddsa("ed"));
    let issuer = IssuerConfig { algorithms: vec![AppAlgorithm::Es256], ..with_file(&folder, &[&ec, &ed]) };
    let vouching = open(&[issuer]);
    assert!(redeem(&vouching, &ec.sign(&claims("1"))).await.is_ok());
    assert_eq!(code(&vouching, &ed.sign(&claims("2"))).await, "AUTH_ALG_FORBIDDEN");
    let long = Signer { algorithm: Algorithm::HS512, ..Signer::hs256() };
    assert_eq!(code(&open(&[shared()]), &long.sign(&claims("3"))).await, "AUTH_ALG_FORBIDDEN");
}

#[tokio::test]
async fn vip_005_a_public_key_is_never_a_shared_secret() {
    let folder = tempfile::tempdir().unwrap();
    let rsa = Signer::rs256("rsa");
    let pem = std::fs::read(testdata("rs256-test-key.pub.pem")).unwrap();
    let jwk = rsa.jwk();
    let set = key_set(&[&rsa]).to_string();
    let modulus = jwk["n"].as_str().unwrap();
    let from_set = with_file(&folder, &[&rsa]);
    let from_pem = IssuerConfig {
        jwks_file: None,
        public_key: Some(testdata("rs256-test-key.pub.pem")),
        ..from_set.clone()
    };
    let both = IssuerConfig {
        algorithms: vec![AppAlgorithm::Rs256, AppAlgorithm::Hs256],
        secret_env: Some("APP_SECRET".into()),
        ..from_set.clone()
    };
    for (issuer, expected) in
        [(from_set, "AUTH_ALG_FORBIDDEN"), (from_pem, "AUTH_ALG_FORBIDDEN"), (both, "AUTH_TOKEN_INVALID")]
    {
        let vouching = open(&[issuer]);
        for secret in [pem.as_slice(), pem.trim_ascii(), modulus.as_bytes(), set.as_bytes()] {
            let confused =
                Signer { key: EncodingKey::from_secret(secret), kid: Some("rsa"), ..Signer::hs256() };
            assert_eq!(code(&vouching, &confused.sign(&claims("1"))).await, expected);
        }
        assert!(redeem(&vouching, &rsa.sign(&claims("1"))).await.is_ok());
    }
}

#[tokio::test]
async fn a_shared_secret_is_never_taken_from_a_key_set() {
    let folder = tempfile::tempdir().unwrap();
    let ec = Signer::es256("ec");
    let planted = "a secret that somebody has put into the key set";
    let issuer = with_file(&folder, &[&ec]);
    let mut set = key_set(&[&ec]);
    let k = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, planted);
    set["keys"].as_array_mut().unwrap().push(json!({"kty": "oct", "kid": "planted", "alg": "HS256", "k": k}));
    std::fs::write(issuer.jwks_file.as_ref().unwrap(), set.to_string()).unwrap();
    let issuer = IssuerConfig {
        algorithms: vec![AppAlgorithm::Es256, AppAlgorithm::Hs256],
        secret_env: Some("APP_SECRET".into()),
        ..issuer
    };
    let vouching = open(&[issuer]);
    let planted =
        Signer { key: EncodingKey::from_secret(planted.as_bytes()), kid: Some("planted"), ..Signer::hs256() };
    assert_eq!(code(&vouching, &planted.sign(&claims("1"))).await, "AUTH_TOKEN_INVALID");
    let genuine = Signer { kid: Some("planted"), ..Signer::hs256() };
    assert!(redeem(&vouching, &genuine.sign(&claims("1"))).await.is_ok(), "the configured secret counts");
}

#[tokio::test]
async fn keys_are_chosen_by_kid_and_only_for_their_own_algorithm() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Signer::es256("one"), Signer::es256("two"));
    let vouching = open(&[with_file(&folder, &[&one, &two])]);
    assert!(redeem(&vouching, &one.sign(&claims("1"))).await.is_ok());
    assert!(redeem(&vouching, &two.sign(&claims("2"))).await.is_ok());
    for kid in [Some("two"), Some("three"), None] {
        let token = Signer { kid, key: one.key.clone(), ..Signer::es256("") }.sign(&claims("3"));
        assert_eq!(code(&vouching, &token).await, "AUTH_TOKEN_INVALID", "{kid:?}");
    }
    // A key that says what it is for is used for nothing else.
    for (member, value) in [
        ("alg", json!("ES384")),
        ("use", json!("enc")),
        ("key_ops", json!(["sign"])),
        ("crv", json!("P-384")),
    ] {
        let mut set = key_set(&[&one]);
        set["keys"][0][member] = value;
        let path = folder.path().join("pinned.json");
        std::fs::write(&path, set.to_string()).unwrap();
        let issuer = IssuerConfig { jwks_file: Some(path), ..with_file(&folder, &[&one]) };
        let opened = Vouching::open(&[issuer], &DevelopmentConfig::default(), false, &secrets(), None, NOW);
        assert!(opened.unwrap_err().problem.contains("holds no key"), "{member}");
    }
}

#[tokio::test]
async fn issuers_vouch_for_their_own_users_only() {
    let other = "https://other.example";
    let folder = tempfile::tempdir().unwrap();
    let ec = Signer::es256("ec");
    let namesake = IssuerConfig { issuer: other.into(), ..with_file(&folder, &[&ec]) };
    let vouching = open(&[shared(), namesake]);
    let theirs = changed("1", |claims| claims["iss"] = json!(other));
    assert_eq!(redeem(&vouching, &ec.sign(&theirs)).await.unwrap().0.own, "https://other.example|user-42");
    assert_eq!(code(&vouching, &ec.sign(&claims("2"))).await, "AUTH_ALG_FORBIDDEN", "in the name of another");
    let unknown = changed("3", |claims| claims["iss"] = json!("https://nobody.example"));
    assert_eq!(code(&vouching, &Signer::hs256().sign(&unknown)).await, "AUTH_ISSUER_UNKNOWN");
    // The issuer comes before the algorithm, which is its own.
    let odd = Signer { algorithm: Algorithm::HS384, ..Signer::hs256() };
    assert_eq!(code(&vouching, &odd.sign(&unknown)).await, "AUTH_ISSUER_UNKNOWN");
}

#[tokio::test]
async fn vip_010_development_is_forbidden_unless_it_is_allowed() {
    let forbidden = DevelopmentConfig { allowed: false, ..development() };
    let vouching = open_with(&[shared()], &forbidden, None);
    let self_issued = Signer::development().sign(&of_development("1"));
    let registered = Signer::hs256().sign(&of_development("2"));
    for token in [None, Some(self_issued.as_str()), Some(registered.as_str()), Some("rubbish")] {
        assert_eq!(in_development(&vouching, token).await, Err("AUTH_ENVIRONMENT_FORBIDDEN".into()));
    }
    assert!(redeem(&vouching, &Signer::hs256().sign(&claims("3"))).await.is_ok(), "production is not");
}

#[tokio::test]
async fn vip_011_development_needs_no_token() {
    let vouching = open_with(&[shared()], &development(), None);
    let (sub, principal) = in_development(&vouching, None).await.unwrap();
    assert_eq!((sub.as_str(), principal), ("dev-anonymous", Principal::new("vip-development|dev-anonymous")));

    // Where everybody is the development principal, so is whoever comes without a token.
    let vouching = Vouching::open(&[], &development(), true, &secrets(), None, NOW).unwrap();
    let (vouched, principal) = vouching.vouch(None, true, true, AUDIENCE, NOW).await.unwrap();
    assert_eq!(principal, Principal { scopes: Scopes::all(), ..Principal::new("dev") });
    assert_eq!((vouched.own.as_str(), vouched.sub.as_str()), ("dev", "dev-anonymous"));
    assert!(vouched.scopes.iter().any(|scope| scope == "session:create"));
    assert_eq!((vouched.iss, vouched.env, vouched.replayed), (None, None, false));
}

#[tokio::test]
async fn developers_sign_tokens_of_their_own_in_development_only() {
    let vouching = open_with(&[shared()], &development(), None);
    let token = |jti: &str| Signer::development().sign(&of_development(jti));
    let (sub, principal) = in_development(&vouching, Some(&token("1"))).await.unwrap();
    assert_eq!(sub, "user-42");
    // Never the user of the registered issuer that it names.
    assert_eq!(principal.id.as_str(), "vip-development|user-42");
    assert_eq!(in_development(&vouching, Some(&token("1"))).await, Err("AUTH_TOKEN_REPLAYED".into()));
    assert_eq!(code(&vouching, &token("2")).await, "AUTH_TOKEN_INVALID", "no signature of the issuer");
    let unregistered = changed("3", |claims| claims["iss"] = json!("me"));
    let unregistered = Signer::development().sign(&unregistered);
    assert!(in_development(&vouching, Some(&unregistered)).await.is_ok());
    assert_eq!(code(&vouching, &unregistered).await, "AUTH_ISSUER_UNKNOWN");
    // Nor do developers use up what the issuer has signed.
    let genuine = Signer::hs256().sign(&of_development("1"));
    let (_, principal) = in_development(&vouching, Some(&genuine)).await.unwrap();
    assert_eq!(principal.id.as_str(), "https://app.example|user-42");

    for wrong in [
        Signer::development().sign_as("JWT", &of_development("4")),
        Signer { algorithm: Algorithm::HS384, ..Signer::development() }.sign(&of_development("4")),
        Signer::development().sign(&changed("4", |claims| claims["aud"] = json!("https://else.example"))),
        "rubbish".to_owned(),
    ] {
        assert!(in_development(&vouching, Some(&wrong)).await.is_err());
    }
}

#[tokio::test]
async fn vip_012_the_environment_of_the_token_is_told() {
    let vouching = open_with(&[shared()], &development(), None);
    let (vouched, _) = redeem(&vouching, &Signer::hs256().sign(&of_development("1"))).await.unwrap();
    assert_eq!(vouched.env.as_deref(), Some("development"), "for whoever compares it with the request");
}

#[test]
fn registrations_that_make_no_sense_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let ec = Signer::es256("ec");
    let good = with_file(&folder, &[&ec]);
    let missing = Some(folder.path().join("missing"));
    let pem = Some(testdata("rs256-test-key.pub.pem"));
    let cases = [
        (vec![IssuerConfig { issuer: String::new(), ..good.clone() }], "vip.issuers[0].issuer"),
        (vec![IssuerConfig { namespace: Some("a|b".into()), ..good.clone() }], "vip.issuers[0].namespace"),
        (
            vec![IssuerConfig { namespace: Some("vip-development".into()), ..good.clone() }],
            "vip.issuers[0].namespace",
        ),
        (vec![IssuerConfig { algorithms: vec![], ..good.clone() }], "vip.issuers[0].algorithms"),
        (vec![IssuerConfig { jwks_file: None, ..good.clone() }], "vip.issuers[0].algorithms"),
        (vec![IssuerConfig { public_key: pem.clone(), ..good.clone() }], "vip.issuers[0].algorithms"),
        (vec![IssuerConfig { jwks_file: missing, ..good.clone() }], "vip.issuers[0].jwks_file"),
        (vec![IssuerConfig { jwks_file: pem.clone(), ..good.clone() }], "vip.issuers[0].jwks_file"),
        (
            vec![IssuerConfig { jwks_file: None, public_key: pem, ..good.clone() }],
            "vip.issuers[0].public_key",
        ),
        (
            vec![IssuerConfig { jwks_file: None, jwks_url: Some("ftp://x".into()), ..good.clone() }],
            "vip.issuers[0].jwks_url",
        ),
        (
            vec![IssuerConfig {
                jwks_file: None,
                jwks_url: Some("http://x/jwks.json".into()),
                ..good.clone()
            }],
            "vip.issuers[0].jwks_url",
        ),
        (
            vec![IssuerConfig { secret_env: Some("APP_SECRET".into()), ..good.clone() }],
            "vip.issuers[0].secret_env",
        ),
        (vec![IssuerConfig { secret_env: None, ..shared() }], "vip.issuers[0].secret_env"),
        (vec![IssuerConfig { secret_env: Some("SHORT".into()), ..shared() }], "vip.issuers[0].secret_env"),
        (vec![IssuerConfig { secret_env: Some("UNSET".into()), ..shared() }], "vip.issuers[0].secret_env"),
        (
            vec![good.clone(), IssuerConfig { namespace: Some("x".into()), ..good.clone() }],
            "vip.issuers[1].issuer",
        ),
        (
            vec![good.clone(), IssuerConfig { namespace: Some(ISSUER.into()), issuer: "b".into(), ..good }],
            "vip.issuers[1].namespace",
        ),
    ];
    for (issuers, key) in cases {
        let opened = Vouching::open(&issuers, &DevelopmentConfig::default(), false, &secrets(), None, NOW);
        assert_eq!(opened.unwrap_err().key, key, "{issuers:?}");
    }
    let short = DevelopmentConfig { secret_env: Some("SHORT".into()), ..development() };
    let opened = Vouching::open(&[], &short, false, &secrets(), None, NOW);
    assert_eq!(opened.unwrap_err().key, "vip.development_secret_env");
}

#[test]
fn nothing_secret_is_formatted() {
    let text = format!("{:?}", open_with(&[shared()], &development(), None));
    assert!(text.contains(ISSUER) && !text.contains(SECRET), "{text}");
}
