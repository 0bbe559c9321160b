//! What a client does beside the turns, as it is noted in the log ([`switchboard_core::Event::Recorded`]).
//!
//! A deed is validated before it is noted, and means something to the annals only. Fields that are added
//! later have a default; nothing is renamed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of the account that is kept of conversations.
pub const CHRONICLE: &str = "alicia";

/// The name of the session in which the memories of a person are noted; no conversation.
pub const NOTEBOOK: &str = "\0alicia\0memory";

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
pub enum Deed {
    /// A remark was made (15).
    Commented {
        /// Its id.
        id: String,
        /// The message it is about; none for the conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// What was remarked.
        content: String,
        /// What kind of remark.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// What goes with it: `author_role`, `rating` and the `meta` of the envelope.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
    /// A vote was cast, or taken back (20).
    Voted {
        /// Its id.
        id: String,
        /// The message that owns the target.
        message: String,
        /// What is voted on, in the words of the wire.
        target_type: String,
        /// Which one.
        target: String,
        /// `up`, `down` or `critical`; none takes back what was there.
        vote: Option<String>,
        /// Why, in one word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quick: Option<String>,
        /// Why, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A note was written, changed or withdrawn (22).
    Noted {
        /// Its id.
        id: String,
        /// The message it is about.
        message: String,
        /// What it says; none withdraws it.
        content: Option<String>,
        /// Its category; none leaves it as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<String>,
    },
    /// A memory was made or changed (24); noted in the notebook of its owner.
    Memorised {
        /// Its id.
        id: String,
        /// What is remembered; none leaves it as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// Its category; none leaves it as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<String>,
        /// Whether it is preferred; none leaves it as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pinned: Option<bool>,
        /// Whether it is left out; none leaves it as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
        /// Whether it is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        deleted: bool,
        /// Whether it is new.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        created: bool,
    },
    /// What a memory says was turned into numbers.
    Embedded {
        /// The memory.
        id: String,
        /// What it said, as a digest: what says something else by now has other numbers.
        digest: String,
        /// The numbers.
        vector: Vec<f32>,
    },
    /// How answers are to be weighed (29), as shares that sum up to 1, in the order of the wire.
    Weighed {
        /// The seven shares.
        weights: [f64; 7],
    },
    /// An elite was chosen (30).
    Chose {
        /// Which one.
        elite: String,
    },
    /// A client introduced itself (12).
    Introduced {
        /// What it runs on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// Its build.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its language.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// Preferences of the conversation changed, member by member; null removes one.
    Preferred {
        /// Which, and what they are now.
        preferences: Map<String, Value>,
    },
    /// A message that was written offline says something else than what is stored under its name (17).
    Conflicted {
        /// The message that is stored.
        message: String,
    },
    /// The reply to the HTTP request that posted a message was written, or cannot be.
    Replied {
        /// The turn that answers the message.
        turn: String,
    },
    /// Audio of an utterance was kept (4, 9).
    Heard {
        /// Its id.
        id: String,
        /// The message that it became; none if nothing was understood.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Its format.
        format: String,
        /// How long it is, in milliseconds.
        duration_ms: u64,
        /// What was understood.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcription: Option<String>,
        /// How sure the recogniser is, which language it heard.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        meta: Map<String, Value>,
    },
}

impl Deed {
    /// As it is noted in the log.
    pub fn to_record(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads what was noted; none if a later version wrote it.
    pub fn from_record(record: &Value) -> Option<Self> {
        Self::deserialize(record).ok()
    }
}

/// What a message of a person or of a client's history brings along, as
/// [`switchboard_core::model::Message::meta`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Luggage {
    /// When its author says that it was written, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_ms: Option<i64>,
    /// When its author says that it was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_ms: Option<i64>,
    /// The number that it is to have; none for the next one. One that is taken, or lies below the
    /// highest, counts only for a sibling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// Whether `number` is that of the message beside which it stands.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sibling: bool,
    /// The id a client gave it offline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_id: Option<String>,
    /// Whether it was spoken: other peers are told by a Transcription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spoken: Option<Spoken>,
    /// The `meta` of its envelope.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

/// What is known of an utterance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spoken {
    /// How sure the recogniser is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// BCP-47 tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

impl Luggage {
    /// As it goes with a message.
    pub fn to_meta(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads what came with a message; nothing if it is of another protocol.
    pub fn of(meta: &Value) -> Self {
        Self::deserialize(meta).unwrap_or_default()
    }
}

/// What a client wants of the answer to its turn, as
/// [`switchboard_core::model::Origin::options`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wishes {
    /// Sentence by sentence.
    pub streaming: bool,
    /// Spoken as well.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub audio: bool,
    /// Tools that the client can run, also where the agent could.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The trace of the envelope that asked, both parts or neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<(String, String)>,
    /// Asked for over HTTP, where a reply is still to be written: see [`Deed::Replied`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub posted: bool,
}

impl Default for Wishes {
    /// Of a turn that another protocol has brought.
    fn default() -> Self {
        Self { streaming: true, audio: false, tools: Vec::new(), trace: None, posted: false }
    }
}

impl Wishes {
    /// As they go with a turn.
    pub fn to_options(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads what came with a turn of this protocol.
    pub fn of(options: &Value) -> Self {
        Self::deserialize(options).unwrap_or_default()
    }
}
