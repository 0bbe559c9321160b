//! What the data of every event can do: be read, and say what is wrong with them.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The data of an event.
pub(crate) trait Payload: DeserializeOwned {
    /// The member that is too long, too short or does not fit the others.
    fn flaw(&self) -> Option<&'static str>;

    /// Under which type it is sent, where there is more than one.
    fn named(&self, name: &'static str) -> &'static str {
        name
    }

    /// Takes the type under which it came into account.
    fn came_as(&mut self, _name: &str) {}

    /// Reads the data; if they cannot be used, says why, without quoting them.
    fn read(name: &str, data: Value) -> Result<Self, String> {
        let mut read: Self = serde_path_to_error::deserialize(data).map_err(|error| {
            let words = error.inner().to_string();
            let missing = words.starts_with("missing field").then_some(words);
            let path = error.path().to_string();
            missing.unwrap_or_else(|| format!("{path} of {name} does not have the right type or value"))
        })?;
        read.came_as(name);
        match read.flaw() {
            None => Ok(read),
            Some(member) => Err(format!("{member} of {name} is out of bounds")),
        }
    }
}

impl<T: Payload> Payload for Box<T> {
    fn flaw(&self) -> Option<&'static str> {
        T::flaw(self)
    }
}

/// The first member that does not hold.
macro_rules! flaws {
    ($($body:ident { $($member:ident: |$it:ident| $holds:expr,)* })*) => {
        $(impl crate::message::payload::Payload for $body {
            fn flaw(&self) -> Option<&'static str> {
                $({
                    let $it = self;
                    if !$holds {
                        return Some(stringify!($member));
                    }
                })*
                None
            }
        })*
    };
}

/// Data whose members can have any value that their types have.
macro_rules! unbounded {
    ($($body:ident),* $(,)?) => {
        $(impl crate::message::payload::Payload for $body {
            fn flaw(&self) -> Option<&'static str> {
                None
            }
        })*
    };
}

/// Data that have content, or secrets, and show nothing of them in logs.
macro_rules! quiet {
    ($($body:ident),* $(,)?) => {
        $(impl std::fmt::Debug for $body {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($body))
            }
        })*
    };
}

pub(crate) use {flaws, quiet, unbounded};
