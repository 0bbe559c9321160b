//! Whether a request comes from the relay, and what it says.

use std::time::{SystemTime, UNIX_EPOCH};

use hyper::{HeaderMap, StatusCode};
use switchboard_asp::error::DecodeError;
use switchboard_asp::relay::sign::{KeyError, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use switchboard_asp::relay::{self, BodyError, SignatureError, SignedHeaders, SigningKey};

use super::invocation::Invocation;

/// Checks requests against the secrets that function and relay share.
#[derive(Debug, Clone)]
pub struct Verifier {
    keys: Vec<SigningKey>,
}

impl Verifier {
    /// Takes a secret, `whsec_` and a key in base64; or several, apart by spaces, while one takes the place of
    /// another.
    ///
    /// # Errors
    /// A secret that is none.
    pub fn new(secrets: &str) -> Result<Self, KeyError> {
        let first = SigningKey::from_text(secrets.split_ascii_whitespace().next().unwrap_or_default())?;
        let others = secrets.split_ascii_whitespace().skip(1).map(SigningKey::from_text);
        Ok(Self { keys: std::iter::once(Ok(first)).chain(others).collect::<Result<_, _>>()? })
    }

    /// Checks and reads a request: `body` byte for byte as it came.
    ///
    /// That it was not asked before is for [`super::Seen`] to say.
    ///
    /// # Errors
    /// Answer with [`Refused::status`], and do nothing else.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Result<Invocation, Refused> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let signed = SignedHeaders {
            id: header(WEBHOOK_ID),
            timestamp: header(WEBHOOK_TIMESTAMP),
            signature: header(WEBHOOK_SIGNATURE),
        };
        let now_s = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        relay::verify(&self.keys, signed, body, now_s)?;
        Ok(Invocation::new(relay::Invocation::from_json(body)?)?)
    }
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not from the relay, or too long ago.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The body around the payload.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The payload.
    #[error(transparent)]
    Payload(#[from] DecodeError),
}

impl Refused {
    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Signature(_) => StatusCode::UNAUTHORIZED,
            Self::Body(_) => StatusCode::BAD_REQUEST,
            Self::Payload(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::HeaderValue;
    use switchboard_asp::relay::Event;

    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const OTHER: &str = "whsec_HwABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4=";
    const BODY: &str = r#"{"asp":1,"event":"invoke","cid":"7f8a0000000000000000000000000001","rid":1,"inv":"inv_01","attempt":1,"enc":"json","payload":{"kind":"chat","input":"hi"}}"#;
    const SIGNATURE: &str = "v1,8dkoeaK0xVLcLWWCFtUPKJUMvr+BdUZcn7S7/7Nn8Mg=";

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn headers(signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(WEBHOOK_ID, HeaderValue::from_static("inv_01"));
        headers.insert(WEBHOOK_TIMESTAMP, HeaderValue::from_static("1767225600"));
        headers.insert(WEBHOOK_SIGNATURE, HeaderValue::from_str(signature).expect("a header"));
        headers
    }

    /// T24 of the reference.
    #[test]
    fn a_signed_request_is_read() {
        let verifier = Verifier::new(SECRET).expect("a secret");
        let read = verifier.verify(&headers(SIGNATURE), BODY.as_bytes(), at(1_767_225_600)).expect("genuine");
        assert_eq!((read.event(), read.inv(), read.rid()), (Event::Invoke, "inv_01", 1));
        assert_eq!(read.text().as_deref(), Some("hi"));
    }

    #[test]
    fn each_of_several_secrets_will_do() {
        let verifier = Verifier::new(&format!("{OTHER} {SECRET}")).expect("secrets");
        assert!(verifier.verify(&headers(SIGNATURE), BODY.as_bytes(), at(1_767_225_600)).is_ok());
    }

    #[test]
    fn asp_060_another_secret_body_or_time_is_refused_with_401() {
        let verifier = Verifier::new(SECRET).expect("a secret");
        let stranger = Verifier::new(OTHER).expect("a secret");
        let changed = BODY.replace("hi", "ho");
        let none = HeaderMap::new();
        let signed = headers(SIGNATURE);
        let (now, late, early) = (at(1_767_225_600), at(1_767_225_901), at(1_767_225_299));
        for (verifier, headers, body, now, what) in [
            (&stranger, &signed, BODY, now, "another secret"),
            (&verifier, &signed, changed.as_str(), now, "another body"),
            (&verifier, &signed, BODY, late, "too old"),
            (&verifier, &signed, BODY, early, "too new"),
            (&verifier, &none, BODY, now, "no signature"),
        ] {
            let refused = verifier.verify(headers, body.as_bytes(), now).expect_err(what);
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{what}");
        }
        assert!(
            verifier.verify(&signed, BODY.as_bytes(), at(1_767_225_900)).is_ok(),
            "300 s are not too old"
        );
    }

    #[test]
    fn a_secret_needs_its_form() {
        assert!(Verifier::new("").is_err());
        assert!(Verifier::new("hunter2").is_err());
        assert!(Verifier::new(&format!("{SECRET} hunter2")).is_err());
        let shown = format!("{:?}", Verifier::new(SECRET));
        assert!(!shown.contains("AAEC"), "{shown}");
    }
}
