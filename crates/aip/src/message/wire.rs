//! How objects and words are written and read (§3): one macro for each, because the rules are not
//! those of serde's derive. A key that comes twice counts the last time, an array is not an object,
//! and a word is a string and nothing else.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::{Map, Value};
use switchboard_core::wide;

use super::{
    ClientMessageType, ClientType, Command, Outcome, ResultStatus, ServerMessageType, TaskStatus, ToolType,
};

/// A struct that travels as an object: every field is written, in this order, and read in any order.
/// A field with a default may be missing; unknown ones are passed over.
macro_rules! wire_object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* $key:literal => $field:ident: $type:ty $(= $default:expr)?, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )+
        }

        impl $crate::message::wire::Written for $name {
            fn write(&self, json: &mut Vec<u8>) {
                let mut before = b'{';
                $(
                    json.push(std::mem::replace(&mut before, b','));
                    json.extend_from_slice(concat!("\"", $key, "\":").as_bytes());
                    $crate::message::wire::Written::write(&self.$field, json);
                )+
                json.push(b'}');
            }
        }

        impl $crate::message::usual::Usual for $name {
            fn read(rest: &mut $crate::message::usual::Rest<'_>) -> Option<Self> {
                let mut before = b"{";
                $( let $field: Option<$type> = match rest.name(&mut before, concat!("\"", $key, "\"")) {
                    true => Some($crate::message::usual::Usual::read(rest)?),
                    false => None,
                }; )+
                rest.step(b"}").then_some(())?;
                Some($name {
                    $( $field: match $field {
                        Some(value) => value,
                        None => wire_object!(@unusual $($default)?),
                    }, )+
                })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;

                impl<'de> serde::de::Visitor<'de> for Object {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        $( let mut $field: Option<$type> = None; )+
                        while let Some(key) = map.next_key::<$crate::message::wire::Key<'de>>()? {
                            match key.as_str() {
                                $( $key => $field = Some($crate::message::wire::Field::read(&mut map)?), )+
                                _ => {
                                    map.next_value::<$crate::message::wire::Skipped>()?;
                                }
                            }
                        }
                        Ok($name {
                            $( $field: match $field {
                                Some(value) => value,
                                None => wire_object!(@absent A $key $($default)?),
                            }, )+
                        })
                    }
                }

                deserializer.deserialize_map(Object)
            }
        }
    };
    (@absent $access:ident $key:literal) => {
        return Err(<$access::Error as serde::de::Error>::missing_field($key))
    };
    (@absent $access:ident $key:literal $default:expr) => { $default };
    (@unusual) => { return None };
    (@unusual $default:expr) => { $default };
}

/// An enum that travels as a word.
macro_rules! wire_words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// Every one, in the order of the reference.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            /// What the word means; case matters.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $( $word => Some(Self::$variant), )+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::message::wire::Written for $name {
            fn write(&self, json: &mut Vec<u8>) {
                json.extend_from_slice(match self {
                    $( Self::$variant => concat!("\"", $word, "\"").as_bytes(), )+
                });
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Word;

                impl serde::de::Visitor<'_> for Word {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a word")
                    }

                    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<$name, E> {
                        $name::parse(word).ok_or_else(|| E::unknown_variant(word, &[$( $word, )+]))
                    }
                }

                deserializer.deserialize_str(Word)
            }
        }
    };
}

/// What can be written as JSON. Serde can do all of it, but takes each name and each text letter by letter.
pub(crate) trait Written {
    fn write(&self, json: &mut Vec<u8>);
}

impl Written for str {
    fn write(&self, json: &mut Vec<u8>) {
        // In one go over all of it, which takes many bytes at a time.
        let special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        if self.bytes().fold(false, |any, byte| any | special(byte)) {
            return by_serde(self, json);
        }
        json.push(b'"');
        json.extend_from_slice(self.as_bytes());
        json.push(b'"');
    }
}

impl<T: Written + ?Sized> Written for &T {
    fn write(&self, json: &mut Vec<u8>) {
        (**self).write(json);
    }
}

impl Written for String {
    fn write(&self, json: &mut Vec<u8>) {
        self.as_str().write(json);
    }
}

impl<T: Written> Written for Option<T> {
    fn write(&self, json: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(json),
            None => json.extend_from_slice(b"null"),
        }
    }
}

impl<T: Written> Written for Vec<T> {
    fn write(&self, json: &mut Vec<u8>) {
        json.push(b'[');
        for (place, item) in self.iter().enumerate() {
            if place > 0 {
                json.push(b',');
            }
            item.write(json);
        }
        json.push(b']');
    }
}

impl Written for Value {
    fn write(&self, json: &mut Vec<u8>) {
        match self {
            Self::String(text) => text.write(json),
            Self::Array(items) => items.write(json),
            Self::Object(members) => members.write(json),
            Self::Null | Self::Bool(_) | Self::Number(_) => by_serde(self, json),
        }
    }
}

impl Written for Arc<Value> {
    fn write(&self, json: &mut Vec<u8>) {
        (**self).write(json);
    }
}

impl Written for Map<String, Value> {
    fn write(&self, json: &mut Vec<u8>) {
        json.push(b'{');
        for (place, (name, value)) in self.iter().enumerate() {
            if place > 0 {
                json.push(b',');
            }
            name.write(json);
            json.push(b':');
            value.write(json);
        }
        json.push(b'}');
    }
}

fn by_serde<T: Serialize + ?Sized>(value: &T, json: &mut Vec<u8>) {
    // Every key is a string, and every number is finite.
    let _ = serde_json::to_writer(json, value);
}

/// The value of a field.
pub(crate) trait Field: Sized {
    fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error>;
}

/// Fields that are read as serde reads them.
macro_rules! plain_fields {
    ($($type:ty),+ $(,)?) => {
        $(impl Field for $type {
            fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
                map.next_value()
            }
        })+
    };
}

plain_fields! {
    ClientMessageType, ServerMessageType, ClientType, TaskStatus, ResultStatus, ToolType,
    Option<Vec<Command>>, Option<Vec<Outcome>>, Option<Map<String, Value>>, Value, Option<Arc<Value>>,
}

impl Field for String {
    fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value::<Text>().map(|text| text.0)
    }
}

impl Field for Option<String> {
    fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        map.next_value::<Option<Text>>().map(|text| text.map(|text| text.0))
    }
}

impl Field for Option<Vec<String>> {
    fn read<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        let texts = map.next_value::<Option<Vec<Text>>>()?;
        Ok(texts.map(|texts| texts.into_iter().map(|text| text.0).collect()))
    }
}

/// A string that was one on the wire, and not a wide integer in its shelter.
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_sheltered(&text) {
            return Err(D::Error::invalid_type(Unexpected::Other("number"), &"a string"));
        }
        Ok(Self(text))
    }
}

/// Whether this is no string but what [`wide::shelter`] makes of an integer.
pub(crate) fn is_sheltered(text: &str) -> bool {
    text.starts_with('\u{fdd0}') && !wide::restore(format!("\"{text}\"")).starts_with('"')
}

/// The name of a field, without a copy where the text has it as it is.
pub(crate) struct Key<'de>(Cow<'de, str>);

impl Key<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl<'de> Visitor<'de> for Name {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(Name)
    }
}

/// A value nobody asked for. Its strings are read all the same: what is not JSON is an error
/// wherever it stands, and `IgnoredAny` lets lone surrogates pass.
pub(crate) struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Key<'de>, Self>()?.is_some() {}
        Ok(self)
    }
}
