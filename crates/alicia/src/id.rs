//! Durable identifiers and their prefixes (§2.4).

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use switchboard_core::Seed;

use crate::message::{Reason, names};

/// An opaque identifier: 1 to 128 bytes of printable ASCII without spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id(String);

impl Id {
    /// Accepts text from elsewhere.
    pub fn new(text: impl Into<String>) -> Result<Self, Reason> {
        let text = text.into();
        if text.is_empty() {
            return Err(Reason::Missing);
        }
        let fits = text.len() <= MAX_ID && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text)) } else { Err(Reason::Id) }
    }

    /// The id of a conversation, where `conv_ac_…`, the name of its room, stands for `ac_…`.
    pub fn conversation(text: impl Into<String>) -> Result<Self, Reason> {
        let text = text.into();
        match room_of(&text) {
            Some(conversation) => Self::new(conversation),
            None => Self::new(text),
        }
    }

    /// The conversation whose room this names, if it names one.
    pub(crate) fn room_of(&self) -> Option<&str> {
        room_of(&self.0)
    }

    /// A new id; one seed never gives the same id for two counters.
    pub fn fresh(prefix: Prefix, seed: &Seed, counter: u64) -> Self {
        Self(format!("{}_{}", prefix.name(), nano_id(seed.derive(prefix.name(), counter))))
    }

    /// A new id in the spelling of the lite profile.
    pub fn fresh_lite(prefix: LitePrefix, seed: &Seed, counter: u64) -> Self {
        Self(format!("{}_{}", prefix.name(), nano_id(seed.derive(prefix.name(), counter))))
    }

    /// An id that follows from these parts, and from nothing else.
    pub fn derived(prefix: Prefix, parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self(format!("{}_{}", prefix.name(), nano_id(hash.finalize().into())))
    }

    /// What something is called here that other protocols may have named as they like.
    pub fn of(prefix: Prefix, name: &str) -> Self {
        Self::new(name).unwrap_or_else(|_| Self::derived(prefix, &[name]))
    }

    /// The id of the result that answers this request for a tool (§4.7).
    pub fn result(&self) -> Result<Self, Reason> {
        Self::new(format!("{self}_result"))
    }

    /// The room of this conversation.
    pub fn room(&self) -> String {
        format!("{ROOM}{self}")
    }

    /// What it seems to name: for logs, never for acceptance.
    pub fn prefix(&self) -> Option<Prefix> {
        self.0.split_once('_').and_then(|(prefix, _)| Prefix::from_name(prefix))
    }

    /// Whether a generator failed when it made this: never unique, hence refused for anything new.
    pub fn is_fallback(&self) -> bool {
        self.0.ends_with("_fallback")
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        Self::new(text)
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

fn room_of(text: &str) -> Option<&str> {
    text.strip_prefix(ROOM).filter(|conversation| conversation.starts_with("ac_"))
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

names! {
    /// What an id names, by the part before its first `_`.
    Prefix {
        /// A conversation.
        Conversation = "ac",
        /// A message.
        Message = "am",
        /// A sentence.
        Sentence = "ams",
        /// Audio.
        Audio = "aa",
        /// A memory.
        Memory = "amem",
        /// A use of a memory.
        MemoryUse = "amu",
        /// A definition of a tool.
        Tool = "at",
        /// A use of a tool.
        ToolUse = "atu",
        /// A step of reasoning.
        Reasoning = "ar",
        /// A commentary.
        Commentary = "aucc",
        /// A row of metadata.
        Meta = "amt",
        /// An MCP server.
        McpServer = "amcp",
        /// A vote.
        Vote = "av",
        /// A note.
        Note = "an",
        /// Statistics of a session.
        SessionStats = "ass",
        /// A run of optimization.
        OptimizationRun = "aor",
        /// A candidate of optimization.
        OptimizationCandidate = "apc",
        /// An evaluation of optimization.
        OptimizationEvaluation = "ape",
        /// An optimized program.
        OptimizedProgram = "op",
        /// An optimized tool.
        OptimizedTool = "ot",
        /// A formatter of tool results.
        Formatter = "trf",
        /// A pattern of tool use.
        UsagePattern = "tup",
        /// An entry of the Pareto archive.
        ParetoEntry = "pa",
        /// A training example.
        TrainingExample = "gte",
        /// A version of a system prompt.
        SystemPrompt = "spv",
        /// Made by a client while it was offline.
        Local = "local",
        /// An error.
        Error = "err",
    }
}

names! {
    /// What an id of the lite profile names (Appendix A).
    LitePrefix {
        /// A conversation.
        Conversation = "conv",
        /// A message.
        Message = "msg",
        /// A memory.
        Memory = "mem",
        /// A use of a memory.
        MemoryUse = "memu",
        /// A definition of a tool.
        Tool = "tool",
        /// A use of a tool.
        ToolUse = "tu",
        /// A note.
        Note = "note",
        /// An MCP server.
        McpServer = "mcp",
        /// Feedback on a message.
        MessageFeedback = "msgfb",
        /// Feedback on a use of a tool.
        ToolUseFeedback = "tufb",
        /// Feedback on a use of a memory.
        MemoryUseFeedback = "memufb",
        /// A summary of thinking.
        Thinking = "th",
        /// A step of reasoning.
        Reasoning = "rs",
        /// A trace of a memory.
        MemoryTrace = "mt",
        /// A generation.
        Generation = "mg",
    }
}

/// 21 characters with six random bits each.
pub fn nano_id(random: [u8; 32]) -> String {
    random
        .iter()
        .take(21)
        .map(|byte| ALPHABET.get(usize::from(byte & 63)).map_or('_', |c| char::from(*c)))
        .collect()
}

/// Whether text can be the user of an HTTP request or a lite envelope: `^[A-Za-z0-9_.@-]{1,255}$`.
pub fn is_user_id(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'-'))
}

/// Longest id, in bytes.
pub const MAX_ID: usize = 128;

const ROOM: &str = "conv_";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_have_their_prefix_and_21_characters() {
        let seed = Seed::new([7; 32]);
        let id = Id::fresh(Prefix::Message, &seed, 1);
        let (prefix, rest) = id.as_str().split_once('_').unwrap();
        assert_eq!((prefix, rest.len()), ("am", 21));
        assert!(rest.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_eq!(id, Id::fresh(Prefix::Message, &seed, 1));
        assert_ne!(id, Id::fresh(Prefix::Message, &seed, 2));
        assert_eq!(id.prefix(), Some(Prefix::Message));
        assert!(Id::fresh_lite(LitePrefix::Message, &seed, 1).as_str().starts_with("msg_"));
    }

    #[test]
    fn derived_ids_follow_from_every_part() {
        let id = Id::derived(Prefix::Sentence, &["inv_1", "1"]);
        assert!(id.as_str().starts_with("ams_") && id.as_str().len() == 25, "{id}");
        assert_eq!(id, Id::derived(Prefix::Sentence, &["inv_1", "1"]));
        for other in [["inv_1", "2"], ["inv_2", "1"], ["inv_11", ""]] {
            assert_ne!(id, Id::derived(Prefix::Sentence, &other));
        }
        assert_eq!(Id::of(Prefix::Message, "inv_1.in").as_str(), "inv_1.in");
        assert!(Id::of(Prefix::Message, "two words").as_str().starts_with("am_"));
    }

    #[test]
    fn every_character_of_the_alphabet_is_reached() {
        let mut seen = std::collections::BTreeSet::new();
        for start in 0..=255_u8 {
            seen.extend(nano_id([start; 32]).bytes());
        }
        assert_eq!(seen.len(), 64);
    }

    #[test]
    fn al_014_the_name_of_a_room_stands_for_its_conversation() {
        let id = |text: &str| Id::conversation(text).unwrap().as_str().to_owned();
        assert_eq!(id("conv_ac_1"), "ac_1");
        assert_eq!(id("ac_1"), "ac_1");
        assert_eq!(id("conv_conv_ac_1"), "conv_conv_ac_1");
        assert_eq!(id("conv_1"), "conv_1");
        assert_eq!(Id::conversation("conv_ac_1").unwrap().room(), "conv_ac_1");
    }

    #[test]
    fn al_015_ids_are_opaque_up_to_128_bytes() {
        for text in ["x", "am_+/=", "fallback", &"~".repeat(128)] {
            assert_eq!(Id::new(text).unwrap().as_str(), text);
        }
        assert_eq!(Id::new(""), Err(Reason::Missing));
        for text in ["a b", "a\n", "\u{7f}", "é", &"a".repeat(129)] {
            assert_eq!(Id::new(text), Err(Reason::Id), "{text}");
        }
    }

    #[test]
    fn the_marker_of_a_failed_generator_is_recognised() {
        assert!(Id::new("am_fallback").unwrap().is_fallback());
        assert!(!Id::new("am_fallback1").unwrap().is_fallback());
    }

    #[test]
    fn users_are_named_by_255_bytes_at_most() {
        assert!(is_user_id("a.b@c-d_9"));
        assert!(is_user_id(&"a".repeat(255)));
        for text in ["", "a b", "é", &"a".repeat(256)] {
            assert!(!is_user_id(text), "{text}");
        }
    }
}
