//! Documentation of the configuration, taken from the very declarations that define it.
//!
//! A section is declared once, with [`sections!`]: type, default and doc text of each key. The
//! macro makes the struct, its `Default`, its serde implementation and its [`Describe`], so that
//! the reference cannot drift from what is read.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use toml::Value;

/// One key of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its dotted name; `[]` stands for an element of a list, `<name>` for a chosen name.
    pub name: String,
    /// What its value is.
    pub kind: Kind,
    /// Its default; none when it is unset, or when it must be given.
    pub default: Option<Value>,
    /// What it is for.
    pub doc: String,
}

impl Key {
    /// The environment variable that sets it; none inside of lists.
    pub fn environment(&self) -> Option<String> {
        if self.name.contains("[]") {
            return None;
        }
        Some(format!("{ENVIRONMENT_PREFIX}{}", self.name.replace('.', "__").to_ascii_uppercase()))
    }

    /// Whether the dotted `name` is this key, or an instance of it.
    pub fn matches(&self, name: &str) -> bool {
        let mut ours = self.name.split('.');
        let mut theirs = name.split('.');
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return true,
                (Some(our), Some(their)) if our == their || (our == "<name>" && !their.is_empty()) => {}
                _ => return false,
            }
        }
    }
}

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Text.
    Text,
    /// A path of a file or folder.
    Path,
    /// An address and a port.
    Address,
    /// An IP address.
    Ip,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any number of these.
    List(&'static Self),
    /// Keys of its own.
    Table,
    /// Tables under names of one's own choice.
    Map,
    /// Something that its doc text describes.
    Other(&'static str),
}

impl Kind {
    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Boolean => "true or false".into(),
            Self::Integer => "a whole number".into(),
            Self::Number => "a number".into(),
            Self::Text => "text".into(),
            Self::Path => "a path".into(),
            Self::Address => "an address with a port, like 127.0.0.1:4600".into(),
            Self::Ip => "an IP address".into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::List(element) => format!("a list of {}", element.plural()),
            Self::Table => "a table".into(),
            Self::Map => "a table of tables".into(),
            Self::Other(words) => (*words).into(),
        }
    }

    /// In a word, for the reference.
    pub fn word(&self) -> String {
        match self {
            Self::Boolean => "boolean".into(),
            Self::Integer => "integer".into(),
            Self::Number => "number".into(),
            Self::Text => "string".into(),
            Self::Path => "path".into(),
            Self::Address => "address".into(),
            Self::Ip => "IP address".into(),
            Self::Choice(words) => words.join(" \\| "),
            Self::List(element) => format!("list of {}", element.plural()),
            Self::Table => "table".into(),
            Self::Map => "tables".into(),
            Self::Other(words) => (*words).into(),
        }
    }

    fn plural(&self) -> String {
        match self {
            Self::Ip => "IP addresses".into(),
            Self::Table => "tables".into(),
            Self::Text => "strings".into(),
            other @ (Self::Boolean
            | Self::Integer
            | Self::Number
            | Self::Path
            | Self::Address
            | Self::Choice(_)
            | Self::List(_)
            | Self::Map
            | Self::Other(_)) => other.word(),
        }
    }
}

/// A type that a key may have.
pub trait Describe {
    /// What its values are.
    const KIND: Kind;

    /// Adds the keys inside of it, if it has any.
    fn fields(_prefix: &str, _default: Option<&Value>, _keys: &mut Vec<Key>) {}
}

/// Adds a key of type `T`, and the keys inside of it.
pub(crate) fn describe<T: Describe>(
    prefix: &str,
    field: &str,
    doc: &str,
    defaults: Option<&Value>,
    keys: &mut Vec<Key>,
) {
    let name = if prefix.is_empty() { field.to_owned() } else { format!("{prefix}.{field}") };
    let default = defaults.and_then(|defaults| defaults.get(field));
    if T::KIND != Kind::Table {
        keys.push(Key {
            name: name.clone(),
            kind: T::KIND,
            default: default.cloned(),
            doc: doc.trim().into(),
        });
    }
    T::fields(&name, default, keys);
}

macro_rules! leaves {
    ($($type:ty => $kind:expr),+ $(,)?) => {$(
        impl Describe for $type {
            const KIND: Kind = $kind;
        }
    )+};
}

leaves! {
    bool => Kind::Boolean,
    u32 => Kind::Integer,
    u64 => Kind::Integer,
    usize => Kind::Integer,
    f64 => Kind::Number,
    String => Kind::Text,
    PathBuf => Kind::Path,
    SocketAddr => Kind::Address,
    IpAddr => Kind::Ip,
}

impl<T: Describe> Describe for Option<T> {
    const KIND: Kind = T::KIND;

    fn fields(prefix: &str, default: Option<&Value>, keys: &mut Vec<Key>) {
        T::fields(prefix, default, keys);
    }
}

impl<T: Describe> Describe for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn fields(prefix: &str, _default: Option<&Value>, keys: &mut Vec<Key>) {
        T::fields(&format!("{prefix}[]"), None, keys);
    }
}

impl<T: Describe> Describe for BTreeMap<String, T> {
    const KIND: Kind = Kind::Map;

    fn fields(prefix: &str, _default: Option<&Value>, keys: &mut Vec<Key>) {
        T::fields(&format!("{prefix}.<name>"), None, keys);
    }
}

/// Declares sections of the configuration: `/// doc` `pub key: Type = default,`. What follows a
/// semicolon is no key, but travels with the section.
macro_rules! sections {
    ($(
        $(#[doc = $about:literal])+
        pub struct $section:ident {
            $( $(#[doc = $doc:literal])+ pub $field:ident: $type:ty = $default:expr, )+
            $( ; $(#[doc = $beside:literal])+ pub $skipped:ident: $skipped_type:ty, )?
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $section {
            $( $(#[doc = $doc])+ pub $field: $type, )+
            $( $(#[doc = $beside])+ #[serde(skip)] pub $skipped: $skipped_type, )?
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $( $field: $default, )+ $( $skipped: Default::default(), )? }
            }
        }

        impl $crate::config::describe::Describe for $section {
            const KIND: $crate::config::describe::Kind = $crate::config::describe::Kind::Table;

            fn fields(
                prefix: &str,
                default: Option<&toml::Value>,
                keys: &mut Vec<$crate::config::describe::Key>,
            ) {
                // Inside of a list or map there is no default tree; a fresh element shows what
                // its keys default to.
                let fresh = if default.is_none() { toml::Value::try_from(Self::default()).ok() } else { None };
                let default = default.or(fresh.as_ref());
                $( $crate::config::describe::describe::<$type>(
                    prefix, stringify!($field), concat!($($doc),+), default, keys,
                ); )+
            }
        }
    )+};
}
pub(crate) use sections;

/// What the environment variables of the configuration begin with.
pub(super) const ENVIRONMENT_PREFIX: &str = "SWITCHBOARD_";
