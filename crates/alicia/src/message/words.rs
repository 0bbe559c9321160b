//! Closed sets of names, and open ones.

use std::fmt;

use super::Reason;
use super::wire::{Wire, here};
use crate::error::FieldError;
use crate::limits::AliciaLimits;
use crate::value::{Value, encode_str};

/// A closed set of names, in the order of the reference.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal $(| $alias:literal)*,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($(#[$variant_doc])* $variant,)* }

        impl $type {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Every name.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The value with this name, or with one that is read like it.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name $(| $alias)* => Some(Self::$variant),)* _ => None }
            }
        }

        impl $crate::message::wire::Wire for $type {
            fn from_value(
                value: $crate::value::Value,
                limits: &$crate::limits::AliciaLimits,
            ) -> Result<Self, $crate::error::FieldError> {
                let name = <String as $crate::message::wire::Wire>::from_value(value, limits)?;
                let unknown = $crate::message::Reason::Choice(Self::NAMES);
                Self::from_name(&name).ok_or_else(|| $crate::message::wire::here(unknown))
            }

            fn from_packet(
                cursor: &mut $crate::value::Cursor<'_>,
                _limits: &$crate::limits::AliciaLimits,
            ) -> Option<Option<Self>> {
                Self::from_name(cursor.text()?).map(Some)
            }

            fn to_value(&self) -> $crate::value::Value {
                self.name().into()
            }

            fn put(&self, out: &mut Vec<u8>) {
                $crate::value::encode_str(self.name(), out);
            }
        }
    };
}

pub(crate) use names;

/// A name of an open set: known, or kept as it came and then never formatted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word<T> {
    /// One of the names of the reference.
    Known(T),
    /// Another one.
    Other(String),
}

impl<T: Copy> Word<T> {
    /// The known name.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(name) => Some(*name),
            Self::Other(_) => None,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Word<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => name.fmt(formatter),
            Self::Other(name) => write!(formatter, "Other({})", name.len()),
        }
    }
}

/// The empty name, which no set knows.
impl<T> Default for Word<T> {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl<T> From<T> for Word<T> {
    fn from(name: T) -> Self {
        Self::Known(name)
    }
}

impl<T: Wire> Wire for Word<T> {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        let Value::Str(name) = &value else { return Err(here(Reason::Type("text"))) };
        match T::from_value(value.clone(), limits) {
            Ok(known) => Ok(Self::Known(known)),
            Err(_) => Ok(Self::Other(name.clone())),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Known(name) => name.to_value(),
            Self::Other(name) => name.as_str().into(),
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Known(name) => name.put(out),
            Self::Other(name) => encode_str(name, out),
        }
    }
}
