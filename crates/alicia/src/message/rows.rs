//! A body is declared row by row, as the tables of the reference list its keys; the order of the rows is the
//! order on the wire. A row reads `field: Type = kind "key" | "alias" [least..=limit];`, where the kind says
//! what an absent or unknown value means, the alias is accepted and never written, and the range bounds bytes
//! or items by a field of [`AliciaLimits`].

use bytes::Bytes;
use switchboard_core::Pii;

use super::Reason;
use crate::error::{FieldError, Severity};
use crate::id::Id;
use crate::limits::AliciaLimits;
use crate::value::{Map, Value};

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

            fn write(&self, conversation: Option<&$crate::id::Id>, map: &mut $crate::value::Map) {
                let _ = (&conversation, &map);
                $($crate::message::rows::$before_kind::write(map, $before_key, &self.$before);)*
                $($crate::message::rows::$conversation(map, conversation);
                $($crate::message::rows::$after_kind::write(map, $after_key, &self.$after);)*)?
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
        $(let $field = $crate::message::rows::$kind::read($fields, $key, &[$($alias)?])?;
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
    fn write(&self, conversation: Option<&Id>, map: &mut Map);
}

/// A map being read.
pub(crate) struct Fields<'a> {
    map: Map,
    pub(crate) limits: &'a AliciaLimits,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: Map, limits: &'a AliciaLimits) -> Self {
        Self { map, limits }
    }

    /// The first of these members that is there; nil counts as absent.
    fn take(&mut self, key: &str, aliases: &[&str]) -> Option<Value> {
        let keys = std::iter::once(&key).chain(aliases);
        keys.filter_map(|key| self.map.remove(key)).find(|value| *value != Value::Nil)
    }

    fn typed<T: Wire>(&mut self, key: &str, aliases: &[&str]) -> Result<Option<T>, FieldError> {
        let value = self.take(key, aliases).filter(|value| !T::is_absent(value));
        value.map(|value| T::from_value(value, self.limits)).transpose().map_err(|error| error.below(key))
    }
}

/// How one value is written in MessagePack.
pub(crate) trait Wire: Sized {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError>;
    fn to_value(&self) -> Value;

    /// Whether a value that is there means that there is none.
    fn is_absent(_value: &Value) -> bool {
        false
    }
}

/// Has to be there.
pub(crate) mod required {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<T, FieldError> {
        fields.typed(key, aliases)?.ok_or_else(|| FieldError::new(key, Reason::Missing))
    }

    pub(crate) fn write<T: Wire>(map: &mut Map, key: &'static str, value: &T) {
        map.insert(key, value.to_value());
    }
}

/// May be absent, and is then not written.
pub(crate) mod optional {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        fields.typed(key, aliases)
    }

    pub(crate) fn write<T: Wire>(map: &mut Map, key: &'static str, value: &Option<T>) {
        if let Some(value) = value {
            map.insert(key, value.to_value());
        }
    }
}

/// A boolean that is false when absent, and is not written when false.
pub(crate) mod flag {
    use super::*;

    pub(crate) fn read(fields: &mut Fields<'_>, key: &str, aliases: &[&str]) -> Result<bool, FieldError> {
        fields.typed(key, aliases).map(Option::unwrap_or_default)
    }

    pub(crate) fn write(map: &mut Map, key: &'static str, value: &bool) {
        if *value {
            map.insert(key, true);
        }
    }
}

/// Has a default when absent, and is always written.
pub(crate) mod defaulted {
    use super::*;

    pub(crate) fn read<T: Wire + Default>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<T, FieldError> {
        fields.typed(key, aliases).map(Option::unwrap_or_default)
    }

    pub(crate) use super::required::write;
}

/// Always written, as `""` when there is none.
pub(crate) mod or_empty {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        match fields.take(key, aliases) {
            Some(value) if value.as_str() != Some("") => {
                T::from_value(value, fields.limits).map(Some).map_err(|error| error.below(key))
            }
            Some(_) | None => Ok(None),
        }
    }

    pub(crate) fn write<T: Wire>(map: &mut Map, key: &'static str, value: &Option<T>) {
        map.insert(key, value.as_ref().map_or_else(|| Value::from(""), T::to_value));
    }
}

/// A name that decides what happens: has to be there, and an unknown one makes the message malformed.
pub(crate) mod deciding {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<T, FieldError> {
        required::read(fields, key, aliases).map_err(decides)
    }

    pub(crate) use super::required::write;
}

/// The same for a name that may be absent.
pub(crate) mod deciding_optional {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        fields.typed(key, aliases).map_err(decides)
    }

    pub(crate) use super::optional::write;
}

/// A name that is taken for absent when it is unknown.
pub(crate) mod known {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        match fields.typed(key, aliases) {
            Err(FieldError { reason: Reason::Choice(_), .. }) => Ok(None),
            read => read,
        }
    }

    pub(crate) use super::optional::write;
}

/// A name that is taken for the default when it is unknown.
pub(crate) mod known_or_default {
    use super::*;

    pub(crate) fn read<T: Wire + Default>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        match fields.typed(key, aliases) {
            Err(FieldError { reason: Reason::Choice(_), .. }) => Ok(Some(T::default())),
            read => read,
        }
    }

    pub(crate) use super::optional::write;
}

/// Members that stand beside the others; without them, or with broken ones, there are none.
pub(crate) mod beside {
    use super::*;

    pub(crate) fn read<T: Members>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        Ok(fields.take(key, aliases).and_then(|_| T::read(fields).ok()))
    }

    /// The first of them repeats `content`.
    pub(crate) fn write<T: Members>(map: &mut Map, key: &'static str, value: &Option<T>) {
        if let (Some(value), Some(content)) = (value, map.get("content").cloned()) {
            map.insert(key, content);
            value.write(None, map);
        }
    }
}

/// Accepted and kept, never written: keys that were withdrawn.
pub(crate) mod withdrawn {
    use super::*;

    pub(crate) use super::optional::read;

    pub(crate) fn write<T: Wire>(_map: &mut Map, _key: &'static str, _value: &Option<T>) {}
}

/// Writes `conversationId`, `""` if there is none.
pub(crate) fn conversation(map: &mut Map, conversation: Option<&Id>) {
    map.insert("conversationId", conversation.map_or("", Id::as_str));
}

/// Writes `conversationId` if there is one.
pub(crate) fn known_conversation(map: &mut Map, conversation: Option<&Id>) {
    if let Some(conversation) = conversation {
        map.insert("conversationId", conversation.as_str());
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

impl Wire for Value {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        Ok(value)
    }

    fn to_value(&self) -> Value {
        self.clone()
    }
}

impl Wire for Map {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Map(map) = value { Ok(map) } else { Err(here(Reason::Type("a map"))) }
    }

    fn to_value(&self) -> Value {
        Value::Map(self.clone())
    }
}

impl Wire for String {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Str(text) = value { Ok(text) } else { Err(here(Reason::Type("text"))) }
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }
}

impl<T: Wire> Wire for Pii<T> {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        T::from_value(value, limits).map(Self)
    }

    fn to_value(&self) -> Value {
        self.0.to_value()
    }
}

impl Wire for Bytes {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        if let Value::Bin(bytes) = value { Ok(bytes) } else { Err(here(Reason::Type("bytes"))) }
    }

    fn to_value(&self) -> Value {
        Value::Bin(self.clone())
    }
}

impl Wire for bool {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        value.as_bool().ok_or_else(|| here(Reason::Type("a boolean")))
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl Wire for f64 {
    fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
        let float = value.as_float().ok_or_else(|| here(Reason::Type("a number")))?;
        if float.is_finite() { Ok(float) } else { Err(here(Reason::Range)) }
    }

    fn to_value(&self) -> Value {
        (*self).into()
    }
}

/// Integers of any width; one that does not fit is out of range.
macro_rules! integers {
    ($($type:ident |$int:ident| $value:expr;)*) => {$(
        impl Wire for $type {
            fn from_value(value: Value, _limits: &AliciaLimits) -> Result<Self, FieldError> {
                match (value.as_int(), &value) {
                    (Some(int), _) => Self::try_from(int).map_err(|_| here(Reason::Range)),
                    (None, Value::UInt(uint)) => Self::try_from(*uint).map_err(|_| here(Reason::Range)),
                    (None, _) => Err(here(Reason::Type("an integer"))),
                }
            }

            fn to_value(&self) -> Value {
                let $int = *self;
                Value::from($value)
            }
        }
    )*};
}

integers! {
    i64 |int| int;
    u64 |int| int;
    i32 |int| i64::from(int);
    u32 |int| i64::from(int);
    u16 |int| i64::from(int);
}

/// The severity is a number from 0 to 3.
impl Wire for Severity {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        Self::from_number(i64::from_value(value, limits)?).ok_or_else(|| here(Reason::Range))
    }

    fn to_value(&self) -> Value {
        i64::from(self.number()).into()
    }
}

/// An empty id is no id.
impl Wire for Id {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        Self::new(String::from_value(value, limits)?).map_err(here)
    }

    fn to_value(&self) -> Value {
        self.as_str().into()
    }

    fn is_absent(value: &Value) -> bool {
        value.as_str() == Some("")
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        let Value::Array(items) = value else { return Err(here(Reason::Type("a list"))) };
        let items = items.into_iter().enumerate().map(|(index, item)| {
            T::from_value(item, limits).map_err(|error| error.below(&format!("[{index}]")))
        });
        items.collect()
    }

    fn to_value(&self) -> Value {
        Value::Array(self.iter().map(T::to_value).collect())
    }
}

/// A map inside of a body.
impl<T: Members> Wire for T {
    fn from_value(value: Value, limits: &AliciaLimits) -> Result<Self, FieldError> {
        T::read(&mut Fields::new(Map::from_value(value, limits)?, limits))
    }

    fn to_value(&self) -> Value {
        let mut map = Map::new();
        self.write(None, &mut map);
        Value::Map(map)
    }
}

/// An error at the value itself; whoever knows its key adds it.
pub(crate) fn here(reason: Reason) -> FieldError {
    FieldError::new("", reason)
}

fn decides(mut error: FieldError) -> FieldError {
    if let Reason::Choice(names) = error.reason {
        error.reason = Reason::Deciding(names);
    }
    error
}
