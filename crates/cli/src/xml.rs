//! Text within documents of XML: reports for machines, and pictures.

/// Text as it may stand in an attribute or an element.
pub(crate) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\n' | '\t' => written.push(character),
            // No document may hold these.
            _ if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                written.push('\u{fffd}')
            }
            _ => written.push(character),
        }
    }
    written
}
