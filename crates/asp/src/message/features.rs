//! Features of §5 and what they need from each other.

use std::fmt;

use crate::codec::Compression;

names! {
    /// One negotiable feature, in the order of §5.
    Feature {
        /// The Reserved byte is flags.
        Flags = "flags",
        /// STREAM carries typed records.
        Events = "events",
        /// MORE; needs `flags`.
        Frag = "frag",
        /// COMPRESSED with raw DEFLATE; needs `flags`.
        Deflate = "deflate",
        /// COMPRESSED with Zstandard; needs `flags`.
        Zstd = "zstd",
        /// A window per request.
        Credit = "credit",
        /// STREAM on id 0.
        Push = "push",
        /// Client-executed tools; needs `events`.
        ClientTools = "client_tools",
        /// Detach and replay; needs `events`.
        Resume = "resume",
        /// HELLO ping.
        Ping = "ping",
        /// HELLO auth.
        Reauth = "reauth",
        /// Requests end with 0x06 code 0.
        Complete06 = "complete06",
        /// Ours: turns of others can be followed; needs `events`.
        Watch = "watch",
    }
}

impl Feature {
    fn needs(self) -> Option<Self> {
        match self {
            Self::Frag | Self::Deflate | Self::Zstd => Some(Self::Flags),
            Self::ClientTools | Self::Resume | Self::Watch => Some(Self::Events),
            Self::Flags
            | Self::Events
            | Self::Credit
            | Self::Push
            | Self::Ping
            | Self::Reauth
            | Self::Complete06 => None,
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A set of features.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(u16);

impl Features {
    /// The bare profile: a strict draft peer.
    pub const BARE: Self = Self(0);
    /// The standard profile, which servers must support.
    pub const STANDARD: Self = Self(
        Feature::Flags.bit()
            | Feature::Events.bit()
            | Feature::Frag.bit()
            | Feature::Credit.bit()
            | Feature::Push.bit()
            | Feature::ClientTools.bit()
            | Feature::Resume.bit()
            | Feature::Ping.bit(),
    );
    /// Everything this crate can speak.
    pub const ALL: Self = Self(
        Self::STANDARD.0
            | Feature::Deflate.bit()
            | Feature::Zstd.bit()
            | Feature::Reauth.bit()
            | Feature::Complete06.bit()
            | Feature::Watch.bit(),
    );

    /// What both sides support, given the client's list in its own order (ASP-021): unknown names and
    /// features whose prerequisite is missing are left out, and of `deflate` and `zstd` the first wins.
    pub fn agree<'a>(offered: impl IntoIterator<Item = &'a str>, supported: Self) -> Self {
        let mut compression = None;
        let mut agreed = Self::BARE;
        for feature in offered.into_iter().filter_map(Feature::from_name) {
            let loses = matches!(feature, Feature::Deflate | Feature::Zstd)
                && *compression.get_or_insert(feature) != feature;
            // A compression the server lacks must not shut out the one it has.
            if !supported.has(feature) {
                compression = compression.filter(|chosen| *chosen != feature);
            } else if !loses {
                agreed = agreed.with(feature);
            }
        }
        Feature::ALL
            .iter()
            .copied()
            .filter(|feature| feature.needs().is_some_and(|needed| !agreed.has(needed)))
            .fold(agreed, Self::without)
    }

    /// Whether a feature is in the set.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// The set with one more feature.
    #[must_use]
    pub const fn with(self, feature: Feature) -> Self {
        Self(self.0 | feature.bit())
    }

    /// The set without a feature.
    #[must_use]
    pub const fn without(self, feature: Feature) -> Self {
        Self(self.0 & !feature.bit())
    }

    /// The members in the order of §5.
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.iter().copied().filter(move |feature| self.has(*feature))
    }

    /// The algorithm behind COMPRESSED.
    pub fn compression(self) -> Option<Compression> {
        if self.has(Feature::Deflate) {
            Some(Compression::Deflate)
        } else if self.has(Feature::Zstd) {
            Some(Compression::Zstd)
        } else {
            None
        }
    }
}

impl FromIterator<Feature> for Features {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        features.into_iter().fold(Self::BARE, Self::with)
    }
}

/// Prints the names.
impl fmt::Debug for Features {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter().map(Feature::name)).finish()
    }
}
