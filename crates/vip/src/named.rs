//! Enums that are names on the wire.

/// An enum with a name for each of its variants, and aliases that are understood but never said.
macro_rules! named {
    ($(#[$doc:meta])* $enum:ident { $($(#[$item:meta])* $name:ident = $text:literal $(| $alias:literal)*,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $enum {
            $($(#[$item])* $name,)*
        }

        impl $enum {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What has this name, or this alias, on the wire.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text $(| $alias)* => Some(Self::$name),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| serde::de::Error::custom("unknown name"))
            }
        }
    };
}
pub(crate) use named;
