//! Names of tools that models take.

/// A name of letters, digits, `_` and `-`, at most 64, that is not taken yet.
pub(crate) fn free_name(name: &str, taken: impl Fn(&str) -> bool) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let plain: String = name.chars().map(allowed).take(MAX_NAME).collect();
    let plain = if plain.is_empty() { "tool".to_owned() } else { plain };
    let mut free = plain.clone();
    let mut number = 1;
    while taken(&free) {
        number += 1;
        let suffix = format!("_{number}");
        let kept: String = plain.chars().take(MAX_NAME - suffix.len()).collect();
        free = kept + &suffix;
    }
    free
}

const MAX_NAME: usize = 64;
