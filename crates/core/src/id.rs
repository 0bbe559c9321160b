//! Identifiers: newtypes over opaque strings. An identifier is never proof of anything.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::principal::Principal;
use crate::seed::Seed;

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps an opaque string.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The identifier as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

identifiers! {
    /// A session: one durable, ordered history.
    SessionId,
    /// One request from acceptance to its single end.
    TurnId,
    /// A node of a session's message tree.
    MessageId,
    /// A remote call or question that a turn waits for.
    CallId,
    /// A transport-independent attachment of a client to sessions; survives a dropped socket.
    AttachmentId,
    /// An authenticated identity.
    PrincipalId,
    /// A configured agent.
    AgentId,
    /// One running executor of turns; a claim names it.
    WorkerId,
    /// The name of a tool, unique within a session.
    ToolName,
    /// The name under which a connection is enrolled, unique in the server while it is.
    Callsign,
}

impl SessionId {
    /// The session that `owner` calls `name`.
    ///
    /// Names chosen by clients live in a space of their own per principal, so that somebody
    /// else's name can neither be guessed nor collide.
    pub fn named(owner: &Principal, name: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(owner.id.as_str().as_bytes());
        hash.update([0]);
        hash.update(name.as_bytes());
        Self::from_digest(&hash.finalize())
    }

    /// A fresh session that nobody has a name for.
    pub fn fresh(seed: &Seed, counter: u64) -> Self {
        Self::from_digest(&seed.derive("session", counter))
    }

    /// Whether `text` has the shape of an identifier made here, and so may name a session that
    /// somebody shared. Conversations of Alicia and sessions of VIP have shapes of their own, which their wires prescribe.
    pub fn is_canonical(text: &str) -> bool {
        let shaped = |prefix: &str, length: usize, is_digit: fn(u8) -> bool| {
            text.strip_prefix(prefix).is_some_and(|rest| rest.len() == length && rest.bytes().all(is_digit))
        };
        shaped("ses_", TOKEN_CHARS, |byte| BASE32.contains(&byte))
            || shaped("vs_", TOKEN_CHARS, |byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            || shaped("ac_", 21, |byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    }

    fn from_digest(digest: &[u8]) -> Self {
        Self::new(format!("ses_{}", base32(digest)))
    }
}

impl TurnId {
    /// A fresh turn identifier.
    pub fn fresh(seed: &Seed, counter: u64) -> Self {
        Self::new(format!("inv_{}", base32(&seed.derive("turn", counter))))
    }
}

impl MessageId {
    /// The message that carries a turn's input.
    pub fn input_of(turn: &TurnId) -> Self {
        Self::new(format!("{turn}.in"))
    }

    /// A message that was told with a turn, by its number.
    pub fn told_with(turn: &TurnId, number: usize) -> Self {
        Self::new(format!("{turn}.told{number}"))
    }

    /// The message that carries a turn's answer.
    pub fn answer_of(turn: &TurnId) -> Self {
        Self::new(format!("{turn}.out"))
    }
}

impl AttachmentId {
    /// A fresh attachment identifier of 128 bits.
    pub fn fresh(seed: &Seed, counter: u64) -> Self {
        Self::new(base32(&seed.derive("attachment", counter)))
    }
}

/// Renders 130 bits of `digest` as lower-case Crockford base32.
fn base32(digest: &[u8]) -> String {
    let mut bits = 0u32;
    let mut held = 0u32;
    let mut text = String::with_capacity(TOKEN_CHARS);
    for byte in digest {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(BASE32[((held >> bits) & 31) as usize]));
            if text.len() == TOKEN_CHARS {
                return text;
            }
        }
        held &= (1 << bits) - 1;
    }
    text
}

const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const TOKEN_CHARS: usize = 26;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_two_principals_never_meet() {
        let (ann, bob) = (Principal::new("ann"), Principal::new("bob"));
        assert_ne!(SessionId::named(&ann, "notes"), SessionId::named(&bob, "notes"));
        assert_eq!(SessionId::named(&ann, "notes"), SessionId::named(&ann, "notes"));
        assert_ne!(SessionId::named(&Principal::new("a"), "b"), SessionId::named(&Principal::new("ab"), ""));
    }

    #[test]
    fn made_identifiers_are_canonical() {
        let id = SessionId::fresh(&Seed::new([7; 32]), 1);
        assert!(SessionId::is_canonical(id.as_str()), "{id}");
        assert!(SessionId::is_canonical(SessionId::named(&Principal::new("ann"), "notes").as_str()));
        assert!(SessionId::is_canonical("ac_0123456789_bcdefgh-JK"));
        for other in [
            "",
            "ac_0123456789abcdefghij",
            "ac_0123456789abcdefghij+",
            "notes",
            "ses_",
            "ses_short",
            "ses_0123456789abcdefghjkmnpqrsx",
            "inv_0123456789abcdefghjkmnpqrs",
        ] {
            assert!(!SessionId::is_canonical(other), "{other}");
        }
        for strange in
            ["0123456789abcdefghjkmnpqri", "0123456789ABCDEFGHJKMNPQRS", "0123456789abcdefghjkmnpqré"]
        {
            assert!(!SessionId::is_canonical(&format!("ses_{strange}")), "{strange}");
        }
    }

    #[test]
    fn base32_is_crockfords_and_cut_at_130_bits() {
        assert_eq!(base32(&[0; 32]), "0".repeat(26));
        assert_eq!(base32(&[0xff; 32]), "z".repeat(26));
        assert_eq!(base32(&[0x08, 0x42, 0x10, 0x84, 0x21]), "11111111");
        let mut digest = [0u8; 32];
        digest[16] = 0x40;
        assert_eq!(base32(&digest), format!("{}1", "0".repeat(25)), "the last two bits are those of byte 16");
        digest[16] = 0x3f;
        assert_eq!(base32(&digest), "0".repeat(26), "and no more");
    }

    #[test]
    fn fresh_identifiers_differ_by_seed_counter_and_kind() {
        let seed = Seed::new([7; 32]);
        assert_eq!(TurnId::fresh(&seed, 1), TurnId::fresh(&seed, 1));
        assert_ne!(TurnId::fresh(&seed, 1), TurnId::fresh(&seed, 2));
        assert_ne!(TurnId::fresh(&seed, 1), TurnId::fresh(&Seed::new([8; 32]), 1));
        assert_ne!(
            TurnId::fresh(&seed, 1).as_str().trim_start_matches("inv_"),
            SessionId::fresh(&seed, 1).as_str().trim_start_matches("ses_")
        );
        assert_eq!(AttachmentId::fresh(&seed, 1).as_str().len(), TOKEN_CHARS);
    }

    #[test]
    fn the_messages_of_a_turn_are_named_after_it() {
        let turn = TurnId::from("inv_1");
        assert_eq!(MessageId::input_of(&turn).as_str(), "inv_1.in");
        assert_eq!(MessageId::answer_of(&turn).as_str(), "inv_1.out");
    }

    #[test]
    fn identifiers_are_written_and_stored_as_the_bare_text() {
        let id = ToolName::from("a \"b\"");
        assert_eq!((id.to_string(), format!("{id:?}")), ("a \"b\"".to_owned(), "a \"b\"".to_owned()));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, r#""a \"b\"""#);
        assert_eq!(serde_json::from_str::<ToolName>(&json).unwrap(), id);
    }
}
