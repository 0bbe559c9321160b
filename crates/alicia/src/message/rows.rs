//! A body is declared row by row, as the tables of the reference list its keys; the order of the rows is the
//! order on the wire. A row reads `field: Type = kind "key" | "alias" [least..=limit];`, where the kind says
//! what an absent or unknown value means, the alias is accepted and never written, and the range bounds bytes
//! or items by a field of [`AliciaLimits`].

use switchboard_core::Pii;

use super::Reason;
use super::sink::{Count, Packet, Sink};
use super::wire::Wire;
use crate::error::FieldError;
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Cursor, Map, Value, encode_map_length};

/// Declares a body, or a map inside of one.
///
/// `..conversation` stands where `conversationId` is written; its value is the envelope's, so that the two
/// cannot differ. `then hook` names a method that checks or completes what was read.
macro_rules! body {
    (
        $(#[$doc:meta])*
        $name:ident $(then $hook:ident)? {
            $($(#[$before_doc:meta])* $before:ident: $before_type:ty = $before_kind:ident $before_key:literal
                $(| $before_alias:literal)? $([$before_least:literal..=$before_most:ident])?;)*
            $(..$conversation:ident
            $($(#[$after_doc:meta])* $after:ident: $after_type:ty = $after_kind:ident $after_key:literal
                $(| $after_alias:literal)? $([$after_least:literal..=$after_most:ident])?;)*)?
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $($(#[$before_doc])* pub $before: $before_type,)*
            $($($(#[$after_doc])* pub $after: $after_type,)*)?
        }

        impl $crate::message::rows::Members for $name {
            fn read(fields: &mut $crate::message::rows::Fields<'_>) -> Result<Self, $crate::error::FieldError> {
                $crate::message::rows::read!(fields $($hook)?;
                    $($before $before_kind $before_key $($before_alias)? $([$before_least $before_most])?;)*
                    $($($after $after_kind $after_key $($after_alias)? $([$after_least $after_most])?;)*)?)
            }

            fn write<S: $crate::message::sink::Sink>(
                &self,
                conversation: Option<&$crate::id::Id>,
                sink: &mut S,
            ) {
                // A body without rows needs neither.
                let _ = (&conversation, &sink);
                $($crate::message::kinds::$before_kind::write(sink, $before_key, &self.$before);)*
                $($crate::message::rows::$conversation(sink, conversation);
                $($crate::message::kinds::$after_kind::write(sink, $after_key, &self.$after);)*)?
            }
        }

        impl $name {
            /// Reads a map; members nobody knows are ignored.
            pub fn from_map(
                map: $crate::value::Map,
                limits: &$crate::limits::AliciaLimits,
            ) -> Result<Self, $crate::error::FieldError> {
                $crate::message::rows::Members::read(&mut $crate::message::rows::Fields::new(map, limits))
            }

            /// Writes a map in the order of the reference, for this conversation.
            pub fn to_map(&self, conversation: Option<&$crate::id::Id>) -> $crate::value::Map {
                let mut map = $crate::value::Map::new();
                $crate::message::rows::Members::write(self, conversation, &mut map);
                map
            }
        }
    };
}

/// The reading half of [`body!`].
macro_rules! read {
    ($fields:ident $($hook:ident)?; $($field:ident $kind:ident $key:literal $($alias:literal)? $([$least:literal $most:ident])?;)*) => {{
        let _ = &$fields;
        $(let $field = $crate::message::kinds::$kind::read($fields, $key, &[$($alias)?])?;
        $($crate::message::rows::within(
            &$field, $key, $least, $crate::limits::size($fields.limits.$most),
        )?;)?)*
        let body = Self { $($field,)* };
        $(let body = body.$hook($fields.limits)?;)?
        Ok(body)
    }};
}

pub(crate) use {body, read};

/// What [`body!`] gives a type.
pub(crate) trait Members: Sized {
    fn read(fields: &mut Fields<'_>) -> Result<Self, FieldError>;
    fn write<S: Sink>(&self, conversation: Option<&Id>, sink: &mut S);
}

/// Appends a body to a packet, in the canonical form.
pub(crate) fn encode<T: Members>(body: &T, conversation: Option<&Id>, out: &mut Vec<u8>) {
    let mut count = Count::default();
    body.write(conversation, &mut count);
    encode_map_length(count.0, out);
    body.write(conversation, &mut Packet::new(out));
}

/// A body being read.
pub(crate) struct Fields<'a> {
    source: Source<'a>,
    pub(crate) limits: &'a AliciaLimits,
}

/// Where the members of a body come from.
enum Source<'a> {
    /// A map, which is liberal.
    Map(Map),
    /// A packet that holds them in the order of the reference, if it does.
    Packet(Cursor<'a>),
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: Map, limits: &'a AliciaLimits) -> Self {
        Self { source: Source::Map(map), limits }
    }

    /// Reads from a packet; what comes of it counts only if all of the packet was read then.
    pub(crate) fn in_order(cursor: Cursor<'a>, limits: &'a AliciaLimits) -> Self {
        Self { source: Source::Packet(cursor), limits }
    }

    /// Whether everything was read as it was written.
    pub(crate) fn finish(self) -> bool {
        match self.source {
            Source::Map(_) => true,
            Source::Packet(cursor) => cursor.finish(),
        }
    }

    /// The first of these members that is there; nil counts as absent.
    pub(super) fn take(&mut self, key: &str, aliases: &[&str]) -> Option<Value> {
        match &mut self.source {
            Source::Map(map) => first_of(map, key, aliases),
            Source::Packet(cursor) => {
                if !cursor.is_at(key) {
                    return None;
                }
                let value = cursor.value();
                if value.is_none() {
                    cursor.stray();
                }
                value
            }
        }
    }

    pub(super) fn typed<T: Wire>(&mut self, key: &str, aliases: &[&str]) -> Result<Option<T>, FieldError> {
        match &mut self.source {
            Source::Map(map) => {
                let value = first_of(map, key, aliases).filter(|value| !T::is_absent(value));
                let typed = value.map(|value| T::from_value(value, self.limits)).transpose();
                typed.map_err(|error| error.below(key))
            }
            Source::Packet(cursor) => {
                if !cursor.is_at(key) {
                    return Ok(None);
                }
                let typed = T::from_packet(cursor, self.limits);
                if typed.is_none() {
                    cursor.stray();
                }
                Ok(typed.flatten())
            }
        }
    }
}

fn first_of(map: &mut Map, key: &str, aliases: &[&str]) -> Option<Value> {
    let keys = std::iter::once(&key).chain(aliases);
    keys.filter_map(|key| map.take(key)).find(|value| *value != Value::Nil)
}

/// Writes `conversationId`, `""` if there is none.
pub(crate) fn conversation(sink: &mut impl Sink, conversation: Option<&Id>) {
    sink.put_text("conversationId", conversation.map_or("", Id::as_str));
}

/// Writes `conversationId` if there is one.
pub(crate) fn known_conversation(sink: &mut impl Sink, conversation: Option<&Id>) {
    if let Some(conversation) = conversation {
        sink.put_text("conversationId", conversation.as_str());
    }
}

/// Checks the size of a member.
pub(crate) fn within<T: Measured>(value: &T, key: &str, least: usize, most: usize) -> Result<(), FieldError> {
    match value.measure() {
        Some(size) if size > most => Err(FieldError::new(key, T::too_much(most))),
        Some(size) if size < least => Err(FieldError::new(key, Reason::Empty)),
        Some(_) | None => Ok(()),
    }
}

/// What has a size that is bounded: text in bytes, lists in items.
pub(crate) trait Measured {
    fn measure(&self) -> Option<usize>;
    fn too_much(most: usize) -> Reason;
}

impl Measured for String {
    fn measure(&self) -> Option<usize> {
        Some(self.len())
    }

    fn too_much(most: usize) -> Reason {
        Reason::TooLong(most)
    }
}

impl<T> Measured for Vec<T> {
    fn measure(&self) -> Option<usize> {
        Some(self.len())
    }

    fn too_much(most: usize) -> Reason {
        Reason::TooMany(most)
    }
}

impl<T: Measured> Measured for Pii<T> {
    fn measure(&self) -> Option<usize> {
        self.0.measure()
    }

    fn too_much(most: usize) -> Reason {
        T::too_much(most)
    }
}

impl<T: Measured> Measured for Option<T> {
    fn measure(&self) -> Option<usize> {
        self.as_ref().and_then(T::measure)
    }

    fn too_much(most: usize) -> Reason {
        T::too_much(most)
    }
}
