//! Languages, as those who speak and those who listen name them.

/// The language of a BCP-47 tag without what else the tag says, which models do not know.
pub(super) fn primary(tag: &str) -> Option<String> {
    let language = tag.split('-').next().filter(|language| is_language(language))?;
    Some(language.to_ascii_lowercase())
}

/// Whether this is the tag of a language, alone or with a region. Many models say `english` instead.
pub(super) fn is_tag(name: &str) -> bool {
    match name.split_once('-') {
        Some((language, region)) => is_language(language) && is_region(region),
        None => is_language(name),
    }
}

fn is_language(subtag: &str) -> bool {
    matches!(subtag.len(), 2 | 3) && subtag.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_region(subtag: &str) -> bool {
    match subtag.len() {
        2 => subtag.bytes().all(|byte| byte.is_ascii_alphabetic()),
        3 => subtag.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_tag_only_the_language_is_asked_for() {
        for (tag, wanted) in
            [("de", "de"), ("pt-BR", "pt"), ("zh-Hant-TW", "zh"), ("EN", "en"), ("haw", "haw")]
        {
            assert_eq!(primary(tag).as_deref(), Some(wanted));
        }
        for tag in ["", "-", "e", "english", "d1", "e\r\n", "en_US", "ü"] {
            assert_eq!(primary(tag), None, "{tag:?}");
        }
    }

    #[test]
    fn a_name_is_no_tag() {
        for tag in ["en", "haw", "pt-BR", "es-419"] {
            assert!(is_tag(tag), "{tag:?}");
        }
        for name in ["", "english", "en-", "en-B", "en-41", "en-4x9", "en-Latn", "zh-Hant-TW", "1n", "ü"] {
            assert!(!is_tag(name), "{name:?}");
        }
    }
}
