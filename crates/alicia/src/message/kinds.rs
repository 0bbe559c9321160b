//! The kinds of rows: what an absent or unknown value means, and whether it is written.

use super::Reason;
use super::rows::{Fields, Members};
use super::sink::Sink;
use super::wire::Wire;
use crate::error::FieldError;
use crate::value::{Map, Value};

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

    pub(crate) fn write<T: Wire>(sink: &mut impl Sink, key: &'static str, value: &T) {
        sink.put(key, value);
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

    pub(crate) fn write<T: Wire>(sink: &mut impl Sink, key: &'static str, value: &Option<T>) {
        if let Some(value) = value {
            sink.put(key, value);
        }
    }
}

/// A boolean that is false when absent, and is not written when false.
pub(crate) mod flag {
    use super::*;

    pub(crate) fn read(fields: &mut Fields<'_>, key: &str, aliases: &[&str]) -> Result<bool, FieldError> {
        fields.typed(key, aliases).map(Option::unwrap_or_default)
    }

    pub(crate) fn write(sink: &mut impl Sink, key: &'static str, value: &bool) {
        if *value {
            sink.put(key, value);
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

/// The same, and its default also where it is of another type: whoever reads it judges what is missing.
pub(crate) mod lenient {
    use super::*;

    pub(crate) fn read<T: Wire + Default>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<T, FieldError> {
        Ok(defaulted::read(fields, key, aliases).unwrap_or_default())
    }

    pub(crate) use super::required::write;
}

/// The same for a value that may be absent.
pub(crate) mod lenient_optional {
    use super::*;

    pub(crate) fn read<T: Wire>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<T>, FieldError> {
        Ok(fields.typed(key, aliases).unwrap_or_default())
    }

    pub(crate) use super::optional::write;
}

/// What refers to something else: of another type than text, it refers to nothing there is, instead of being
/// absent.
pub(crate) mod reference {
    use super::*;

    pub(crate) fn read(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Option<String>, FieldError> {
        Ok(fields.typed(key, aliases).unwrap_or_else(|_| Some(NOTHING.to_owned())))
    }

    pub(crate) use super::optional::write;

    /// No id: it has a space in it.
    const NOTHING: &str = "no text";
}

/// A list that has to be there, whose items are read each by itself: what is no map is an empty one.
pub(crate) mod elements {
    use super::*;

    pub(crate) fn read<T: Members>(
        fields: &mut Fields<'_>,
        key: &str,
        aliases: &[&str],
    ) -> Result<Vec<T>, FieldError> {
        let items: Vec<Value> = required::read(fields, key, aliases)?;
        let limits = fields.limits;
        let items = items.into_iter().enumerate().map(|(index, item)| {
            let map = if let Value::Map(map) = item { map } else { Map::new() };
            T::read(&mut Fields::new(map, limits)).map_err(|error| error.below(&format!("{key}[{index}]")))
        });
        items.collect()
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

    pub(crate) fn write<T: Wire>(sink: &mut impl Sink, key: &'static str, value: &Option<T>) {
        match value {
            Some(value) => sink.put(key, value),
            None => sink.put_text(key, ""),
        }
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
    pub(crate) fn write<T: Members>(sink: &mut impl Sink, key: &'static str, value: &Option<T>) {
        if let Some(value) = value
            && sink.repeat(key, "content")
        {
            value.write(None, sink);
        }
    }
}

/// Accepted and kept, never written: keys that were withdrawn.
pub(crate) mod withdrawn {
    use super::*;

    pub(crate) use super::optional::read;

    pub(crate) fn write<T: Wire>(_sink: &mut impl Sink, _key: &'static str, _value: &Option<T>) {}
}

fn decides(mut error: FieldError) -> FieldError {
    if let Reason::Choice(names) = error.reason {
        error.reason = Reason::Deciding(names);
    }
    error
}
