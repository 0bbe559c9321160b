//! Errors (§14): one table of codes, and what is said of one that happened.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

macro_rules! codes {
    ($($name:ident $text:literal $category:literal $http:literal $close:literal $fatal:literal $retry:literal $message:literal;)*) => {
        /// What went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $message] $name,)*
        }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            const fn row(self) -> Row {
                match self {
                    $(Self::$name => Row {
                        name: $text,
                        category: $category,
                        http: $http,
                        close: $close,
                        fatal: $fatal,
                        retryable: $retry,
                        message: $message,
                    },)*
                }
            }

            /// The code with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

/// A row of the table; 0 stands for "not there".
struct Row {
    name: &'static str,
    category: &'static str,
    http: u16,
    close: u16,
    fatal: bool,
    retryable: bool,
    message: &'static str,
}

codes! {
    NetTransportLost "NET_TRANSPORT_LOST" "network" 0 0 true true "The connection was lost.";
    NetHeartbeatTimeout "NET_HEARTBEAT_TIMEOUT" "network" 0 4408 true true "Nothing was heard for too long.";
    NetIceFailed "NET_ICE_FAILED" "network" 0 0 true true "The media connection could not be made.";
    NetServerDraining "NET_SERVER_DRAINING" "network" 503 1012 true true "The server is leaving; connect again.";
    AuthTokenMissing "AUTH_TOKEN_MISSING" "authentication" 401 4401 true false "A token is needed.";
    AuthTokenInvalid "AUTH_TOKEN_INVALID" "authentication" 401 4401 true false "The token cannot be used.";
    AuthTokenExpired "AUTH_TOKEN_EXPIRED" "authentication" 401 4401 true true "The token is out of date; get a fresh one.";
    AuthTokenReplayed "AUTH_TOKEN_REPLAYED" "authentication" 401 4401 true false "The token was used before.";
    AuthTokenLocation "AUTH_TOKEN_LOCATION" "authentication" 401 4401 true false "A token in the address is not accepted in production.";
    AuthAlgForbidden "AUTH_ALG_FORBIDDEN" "authentication" 401 4401 true false "The token is signed with an algorithm that is not allowed.";
    AuthIssuerUnknown "AUTH_ISSUER_UNKNOWN" "authentication" 401 0 true false "The issuer of the token is not registered.";
    AuthJwksUnavailable "AUTH_JWKS_UNAVAILABLE" "authentication" 503 0 true true "The keys of the issuer cannot be fetched now.";
    AuthScope "AUTH_SCOPE" "authentication" 403 4403 true false "The token does not allow this.";
    AuthOrigin "AUTH_ORIGIN" "authentication" 403 4403 true false "Requests from this origin are not allowed.";
    AuthEnvironmentForbidden "AUTH_ENVIRONMENT_FORBIDDEN" "authentication" 403 0 true false "Development sessions are not allowed here.";
    AuthEnvironmentMismatch "AUTH_ENVIRONMENT_MISMATCH" "authentication" 403 0 true false "The token is for another environment.";
    RecNoSpeech "REC_NO_SPEECH" "recognition" 0 0 false true "Nothing was heard.";
    RecNoMatch "REC_NO_MATCH" "recognition" 0 0 false true "The speech was not understood.";
    RecLowConfidence "REC_LOW_CONFIDENCE" "recognition" 0 0 false true "The speech was not understood well enough.";
    RecAudioQuality "REC_AUDIO_QUALITY" "recognition" 0 0 false true "The audio cannot be used.";
    RecLanguage "REC_LANGUAGE" "recognition" 0 0 false false "The language is not supported.";
    RecMicUnavailable "REC_MIC_UNAVAILABLE" "recognition" 0 0 false false "There is no microphone.";
    ProtoVersion "PROTO_VERSION" "protocol" 400 4400 true false "No version of the protocol is shared.";
    ProtoMalformed "PROTO_MALFORMED" "protocol" 400 4400 false false "The message cannot be read.";
    ProtoUnknownEvent "PROTO_UNKNOWN_EVENT" "protocol" 0 0 false false "The type of the event is not known.";
    ProtoInvalidTransition "PROTO_INVALID_TRANSITION" "protocol" 0 0 false false "This is not possible in the current state.";
    ProtoTooManyViolations "PROTO_TOO_MANY_VIOLATIONS" "protocol" 0 4400 true false "Too many events did not fit the state.";
    ProtoNotInterruptible "PROTO_NOT_INTERRUPTIBLE" "protocol" 0 0 false true "This output cannot be interrupted.";
    ProtoSeqGap "PROTO_SEQ_GAP" "protocol" 0 4408 true true "An event is missing; resume the session.";
    ProtoHandshakeTimeout "PROTO_HANDSHAKE_TIMEOUT" "protocol" 0 4408 true true "client.connect did not come in time.";
    ProtoBadAudioFrame "PROTO_BAD_AUDIO_FRAME" "protocol" 0 0 false false "The audio frame cannot be read.";
    ProtoAudioForbiddenState "PROTO_AUDIO_FORBIDDEN_STATE" "protocol" 0 0 false false "Audio is not accepted now.";
    ProtoAudioFormat "PROTO_AUDIO_FORMAT" "protocol" 422 0 true false "No audio format is shared.";
    ProtoTooLarge "PROTO_TOO_LARGE" "protocol" 413 1009 true false "The message is too large.";
    CtxInvalid "CTX_INVALID" "protocol" 0 0 false false "The context is not valid.";
    CtxForbiddenState "CTX_FORBIDDEN_STATE" "protocol" 0 0 false true "context updates are not accepted now";
    CtxVersionConflict "CTX_VERSION_CONFLICT" "protocol" 0 0 false true "The update does not build on the current version.";
    CtxTooLarge "CTX_TOO_LARGE" "protocol" 0 0 false false "The context is too large.";
    ActNotFound "ACT_NOT_FOUND" "action" 404 0 false false "There is no such action.";
    ActDisabled "ACT_DISABLED" "action" 0 0 false false "The action is disabled.";
    ActNotVisible "ACT_NOT_VISIBLE" "action" 0 0 false true "The action is not visible now.";
    ActStaleContext "ACT_STALE_CONTEXT" "action" 0 0 false true "The screen has changed since.";
    ActInvalidParameters "ACT_INVALID_PARAMETERS" "action" 422 0 false false "The parameters do not fit the action.";
    ActTypeMismatch "ACT_TYPE_MISMATCH" "action" 0 0 false false "The value does not fit the type of the input.";
    ActTargetUnknown "ACT_TARGET_UNKNOWN" "action" 0 0 false false "There is no such page.";
    ActConfirmationRequired "ACT_CONFIRMATION_REQUIRED" "action" 409 0 false true "The user has to confirm this first.";
    ActConfirmationExpired "ACT_CONFIRMATION_EXPIRED" "action" 0 0 false true "The confirmation came too late.";
    ActExecutionFailed "ACT_EXECUTION_FAILED" "action" 500 0 false false "The action failed.";
    ActTimeout "ACT_TIMEOUT" "action" 504 0 false true "The action took too long.";
    ActCancelled "ACT_CANCELLED" "action" 0 0 false false "The action was cancelled.";
    ActUserInterrupted "ACT_USER_INTERRUPTED" "action" 0 0 false false "The user interrupted before the action began.";
    ActLateResult "ACT_LATE_RESULT" "action" 0 0 false false "The result came too late and is not used.";
    ProvUnavailable "PROV_UNAVAILABLE" "provider" 503 4502 false true "The service behind the conversation is not available.";
    ProvTimeout "PROV_TIMEOUT" "provider" 504 0 false true "The answer took too long.";
    ProvRejected "PROV_REJECTED" "provider" 502 0 false false "The service behind the conversation refused.";
    ProvQuota "PROV_QUOTA" "provider" 503 0 false true "The service behind the conversation is used up for now.";
    ProvCredential "PROV_CREDENTIAL" "provider" 502 0 true true "No credential for the provider could be made.";
    ProvTtsFailed "PROV_TTS_FAILED" "provider" 0 0 false true "The answer could not be spoken; its text is there.";
    SesNotFound "SES_NOT_FOUND" "network" 404 4404 true false "There is no such session.";
    SesTerminated "SES_TERMINATED" "network" 410 4410 true false "The session has ended.";
    SesReplaced "SES_REPLACED" "network" 0 4409 true false "Another connection has taken over the session.";
    SesResumeRejected "SES_RESUME_REJECTED" "network" 0 4410 true false "The session cannot be resumed; create a new one.";
    SesIdleTimeout "SES_IDLE_TIMEOUT" "network" 0 4440 true false "Nothing happened for too long.";
    SesMaxDuration "SES_MAX_DURATION" "network" 0 4441 true false "The session has reached its longest duration.";
    SesContextTimeout "SES_CONTEXT_TIMEOUT" "protocol" 0 4408 true true "The first full context did not come in time.";
    SesIdempotencyConflict "SES_IDEMPOTENCY_CONFLICT" "protocol" 409 0 false false "The idempotency key was used for another request.";
    SesQuota "SES_QUOTA" "authentication" 429 0 true true "There are too many sessions.";
    RateEvents "RATE_EVENTS" "protocol" 429 4429 false true "Too many events; slow down.";
    RateAudio "RATE_AUDIO" "protocol" 429 4429 false true "The audio is too far ahead of time.";
    Internal "INTERNAL" "protocol" 500 4500 true true "Something unexpected happened.";
}

impl Code {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// What it is about.
    pub const fn category(self) -> &'static str {
        self.row().category
    }

    /// The status when it is the answer to an HTTP request.
    pub const fn http(self) -> Option<u16> {
        some(self.row().http)
    }

    /// The close code when it ends a socket.
    pub const fn close(self) -> Option<u16> {
        some(self.row().close)
    }

    /// Whether it ends the connection by itself.
    pub const fn fatal(self) -> bool {
        self.row().fatal
    }

    /// Whether trying again may help.
    pub const fn retryable(self) -> bool {
        self.row().retryable
    }

    /// What to tell a person, if there is nothing better to say.
    pub const fn message(self) -> &'static str {
        self.row().message
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const fn some(number: u16) -> Option<u16> {
    if number == 0 { None } else { Some(number) }
}

/// An error that happened.
#[derive(Clone, PartialEq)]
pub struct Fault {
    /// Which one.
    pub code: Code,
    /// For a person.
    pub message: Cow<'static, str>,
    /// Whether the connection ends with it.
    pub fatal: bool,
    /// When to try again.
    pub retry_after_ms: Option<u64>,
    /// The event that led to it.
    pub ref_id: Option<String>,
    /// More, for a program.
    pub details: Option<Box<Value>>,
}

/// Messages are cut to this, in characters.
const MAX_MESSAGE: usize = 512;

impl Fault {
    /// The error with what the table says about it.
    pub const fn new(code: Code) -> Self {
        Self {
            code,
            message: Cow::Borrowed(code.message()),
            fatal: code.fatal(),
            retry_after_ms: None,
            ref_id: None,
            details: None,
        }
    }

    /// With this said instead of the default.
    #[must_use]
    pub fn because(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.message = message.into();
        self
    }

    /// Caused by this event.
    #[must_use]
    pub fn about(mut self, ref_id: impl Into<String>) -> Self {
        self.ref_id = Some(ref_id.into());
        self
    }

    /// With details.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// To be tried again only after this time.
    #[must_use]
    pub fn after(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    /// The end of the connection, whatever the table says.
    #[must_use]
    pub fn fatally(mut self) -> Self {
        self.fatal = true;
        self
    }

    /// The error object, its members in the order of the reference.
    pub fn to_value(&self) -> Value {
        Value::Object(self.members(self.ref_id.as_deref().map(|id| ("ref_id", id)), None))
    }

    /// The body of an HTTP response.
    pub fn http_body(&self, request_id: &str) -> String {
        let mut body = Map::new();
        body.insert("error".into(), Value::Object(self.members(None, Some(("request_id", request_id)))));
        Value::Object(body).to_string()
    }

    /// The members, with one more before and one behind the details.
    fn members(&self, before: Option<(&str, &str)>, behind: Option<(&str, &str)>) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |key: &str, value: Value| members.insert(key.into(), value);
        put("code", self.code.name().into());
        put("category", self.code.category().into());
        put("message", cut(&self.message).into());
        put("fatal", self.fatal.into());
        put("retryable", self.code.retryable().into());
        if let Some(after) = self.retry_after_ms {
            put("retry_after_ms", after.into());
        }
        if let Some((key, value)) = before {
            put(key, value.into());
        }
        if let Some(details) = &self.details {
            put("details", Value::clone(details));
        }
        if let Some((key, value)) = behind {
            put(key, value.into());
        }
        members
    }
}

/// At most so many characters as a message may have.
pub(crate) fn cut(message: &str) -> &str {
    match message.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => &message[..end],
        None => message,
    }
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Fault {}

// Messages and details may quote content.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({}, fatal: {})", self.code, self.fatal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_lead_back_to_their_codes_and_follow_the_pattern() {
        for code in Code::ALL.iter().copied() {
            assert_eq!(Code::from_name(code.name()), Some(code));
            assert!(code.name().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'));
            assert!(!code.message().is_empty() && code.message().len() <= 512);
        }
        assert_eq!(Code::ALL.len(), 70);
        assert_eq!(Code::from_name("NO_SUCH"), None);
    }

    #[test]
    fn error_objects_have_the_members_of_the_reference_in_its_order() {
        let fault = Fault::new(Code::CtxForbiddenState)
            .about("c-33")
            .with(json!({"state": "ai_thinking", "state_seq": 13}));
        assert_eq!(
            fault.to_value().to_string(),
            r#"{"code":"CTX_FORBIDDEN_STATE","category":"protocol","message":"context updates are not accepted now","fatal":false,"retryable":true,"ref_id":"c-33","details":{"state":"ai_thinking","state_seq":13}}"#
        );
        let fault = Fault::new(Code::SesQuota).because("full").after(500).with(json!({"have": 4}));
        assert_eq!(
            fault.http_body("req-1"),
            r#"{"error":{"code":"SES_QUOTA","category":"authentication","message":"full","fatal":true,"retryable":true,"retry_after_ms":500,"details":{"have":4},"request_id":"req-1"}}"#
        );
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let fault = Fault::new(Code::Internal).because("ä".repeat(600));
        assert_eq!(fault.to_value()["message"].as_str().map(|text| text.chars().count()), Some(512));
        assert!(Fault::new(Code::ProtoMalformed).fatally().fatal);
    }
}
