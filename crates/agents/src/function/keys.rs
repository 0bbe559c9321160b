//! The key with which this relay signs its requests and its leaves to push.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// An Ed25519 key.
#[derive(Clone)]
pub struct RelayKey {
    signing: EncodingKey,
    verifying: DecodingKey,
    public: String,
    id: String,
}

impl RelayKey {
    /// The key that belongs to a secret, which is to be kept over restarts.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let public = SigningKey::from_bytes(&seed).verifying_key().to_bytes();
        // The fixed beginning of such a key in PKCS #8.
        let mut document = PKCS8_ED25519.to_vec();
        document.extend_from_slice(&seed);
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(public));
        Self {
            signing: EncodingKey::from_ed_der(&document),
            verifying: DecodingKey::from_ed_der(&public),
            public: URL_SAFE_NO_PAD.encode(public),
            id: digest.chars().take(16).collect(),
        }
    }

    /// The public half, as it is published.
    pub fn jwks(&self) -> Value {
        let key = json!({
            "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.id, "x": self.public,
        });
        json!({ "keys": [key] })
    }

    /// A token of this type; none if the claims cannot be written.
    pub(super) fn sign(&self, kind: &str, claims: &impl Serialize) -> Option<String> {
        let header = Header {
            typ: Some(kind.to_owned()),
            kid: Some(self.id.clone()),
            ..Header::new(Algorithm::EdDSA)
        };
        jsonwebtoken::encode(&header, claims, &self.signing).ok()
    }

    /// What a token of this type says, if it is ours. When it ends is for the caller to check.
    pub(super) fn verify<T: DeserializeOwned + Clone>(&self, kind: &str, token: &str) -> Option<T> {
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let token = jsonwebtoken::decode::<T>(token, &self.verifying, &validation).ok()?;
        (token.header.typ.as_deref() == Some(kind)).then_some(token.claims)
    }
}

impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayKey").field("id", &self.id).finish_non_exhaustive()
    }
}

const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_again_by_key_and_type() {
        let key = RelayKey::from_seed([7; 32]);
        let token = key.sign("a+jwt", &json!({"x": 1})).unwrap();
        assert_eq!(key.verify::<Value>("a+jwt", &token).unwrap()["x"], 1);
        assert!(key.verify::<Value>("b+jwt", &token).is_none());
        assert!(RelayKey::from_seed([8; 32]).verify::<Value>("a+jwt", &token).is_none());
        let broken = format!("{}x", &token[..token.len() - 2]);
        assert!(key.verify::<Value>("a+jwt", &broken).is_none());
        assert!(!format!("{key:?}").contains("07"));
    }

    #[test]
    fn the_published_key_verifies_what_was_signed() {
        let key = RelayKey::from_seed([7; 32]);
        let published: jsonwebtoken::jwk::JwkSet = serde_json::from_value(key.jwks()).unwrap();
        let verifying = DecodingKey::from_jwk(&published.keys[0]).unwrap();
        let token = key.sign("a+jwt", &json!({"exp": 4_000_000_000_u64})).unwrap();
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.validate_aud = false;
        jsonwebtoken::decode::<Value>(&token, &verifying, &validation).unwrap();
    }
}
