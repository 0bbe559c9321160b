//! Words as they are spoken, of words as they are written.

/// Takes away what is written for the eye alone: emphasis, links, lists, tables, code, pictures. Knows from
/// sentence to sentence whether it is inside of code.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    in_code: bool,
}

impl Plain {
    /// What can be said of a sentence; none if that is nothing.
    pub(crate) fn speakable(&mut self, written: &str) -> Option<String> {
        let mut lines = String::with_capacity(written.len());
        for line in written.lines() {
            let line = line.trim();
            if line.starts_with("```") || line.starts_with("~~~") {
                self.in_code = !self.in_code;
            } else if !self.in_code {
                lines.push_str(without_head(line));
                lines.push(' ');
            }
        }
        let spoken = without_symbols(&without_links(&lines));
        let spoken = spoken.split_whitespace().collect::<Vec<_>>().join(" ");
        spoken.chars().any(char::is_alphanumeric).then_some(spoken)
    }
}

/// A line without what makes it a heading, a quotation or an item of a list.
fn without_head(line: &str) -> &str {
    let line = line.trim_start_matches(['#', '>']).trim_start();
    ["- ", "* ", "+ ", "• "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line)
}

/// Text with the names of links and pictures in place of their addresses.
fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['[', 'h', '<']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        rest = if let Some((name, after)) = link(from) {
            if plain.ends_with('!') {
                plain.pop();
            }
            plain.push_str(name);
            after
        } else if let Some((host, after)) = address(from).filter(|_| !plain.ends_with(char::is_alphanumeric))
        {
            plain.push_str(host);
            after
        } else {
            let first = from.chars().next().map_or(0, char::len_utf8);
            plain.push_str(&from[..first]);
            &from[first..]
        };
    }
    plain.push_str(rest);
    plain
}

/// `[name](address)` at the beginning: the name, and what follows.
fn link(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!name.contains(['[', '\n'])).then_some((name, after))
}

/// An address at the beginning: its host, which is all that one wants to hear, and what follows.
fn address(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('<').unwrap_or(text);
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '>' | ')' | '"')).unwrap_or(rest.len());
    let whole = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let host = whole.split(['/', '?', '#']).next()?;
    let after = &rest[whole.len()..];
    Some((host.strip_prefix("www.").unwrap_or(host), after.strip_prefix('>').unwrap_or(after)))
}

/// Text with symbols as words, or without them. Digits, and what belongs to them, stay as they are.
fn without_symbols(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let characters: Vec<char> = text.chars().collect();
    for (index, &character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| characters.get(index)).copied();
        let after = characters.get(index + 1).copied();
        let next_to = |is: fn(char) -> bool| before.is_some_and(is) || after.is_some_and(is);
        match character {
            '&' => plain.push_str(" and "),
            '%' if before.is_some_and(|c| c.is_numeric()) => plain.push_str(" percent"),
            '°' if after == Some('C') => plain.push_str(" degrees "),
            '°' => plain.push_str(" degrees"),
            '=' if next_to(char::is_whitespace) => plain.push_str(" equals "),
            '+' if before.is_some_and(|c| c.is_numeric() || c.is_whitespace()) => plain.push_str(" plus "),
            '→' => plain.push_str(" to "),
            '|' => plain.push_str(", "),
            '–' | '—' => plain.push_str(if next_to(char::is_numeric) { " to " } else { ", " }),
            // Inside of a word it belongs to a name.
            '_' if before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric) => {
                plain.push(' ');
            }
            '’' | '‘' => plain.push('\''),
            '*' | '_' | '`' | '~' | '#' | '\\' | '<' | '>' | '[' | ']' | '{' | '}' | '^' | '=' | '“'
            | '”' => {}
            '$' | '€' | '£' | '@' | '/' | '+' => plain.push(character),
            _ if character.is_alphanumeric() || character.is_whitespace() => plain.push(character),
            _ if character.is_ascii_punctuation() => plain.push(character),
            '…' => plain.push_str("..."),
            '。' | '！' | '？' | '、' | '，' | '¿' | '¡' => plain.push(character),
            // Accents that stand for themselves belong to the letter before; pictures do not.
            '\u{300}'..='\u{36f}' => plain.push(character),
            _ => plain.push(' '),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(written: &str) -> Option<String> {
        Plain::default().speakable(written)
    }

    #[test]
    fn what_is_for_the_eye_is_not_said() {
        for (written, expected) in [
            ("**Two** _apples_ are in `cart`.", "Two apples are in cart."),
            ("## Your order", "Your order"),
            ("- first thing", "first thing"),
            ("> quoted", "quoted"),
            ("See [the help](https://example.com/a_b?c=d) now.", "See the help now."),
            ("![A cat](cat.png) sleeps.", "A cat sleeps."),
            ("Go to https://www.example.com/path/x?y=1, please.", "Go to example.com, please."),
            ("Mail <https://example.com>.", "Mail example.com."),
            ("Done 🎉 at last ✅", "Done at last"),
            ("| a | b |", ", a , b ,"),
            ("snake_case and __init__", "snake case and init"),
            ("He said “hello” — it’s fine…", "He said hello , it's fine..."),
        ] {
            assert_eq!(spoken(written).as_deref(), Some(expected), "{written}");
        }
    }

    #[test]
    fn numbers_stay_readable() {
        for (written, expected) in [
            ("It costs $4.50, or 3,000 € at most.", "It costs $4.50, or 3,000 € at most."),
            ("50% of 7 & 8", "50 percent of 7 and 8"),
            ("from 9:30 to 10:15", "from 9:30 to 10:15"),
            ("pages 3–5", "pages 3 to 5"),
            ("20°C outside", "20 degrees C outside"),
            ("2 + 2 = 4", "2 plus 2 equals 4"),
            ("-5 degrees", "-5 degrees"),
        ] {
            assert_eq!(spoken(written).as_deref(), Some(expected), "{written}");
        }
    }

    #[test]
    fn code_is_passed_over_from_sentence_to_sentence() {
        let mut plain = Plain::default();
        assert_eq!(plain.speakable("Run this:\n```sh"), Some("Run this:".into()));
        assert_eq!(plain.speakable("rm -rf target"), None);
        assert_eq!(plain.speakable("```\nThat is all."), Some("That is all.".into()));
    }

    #[test]
    fn what_nobody_can_say_is_nothing() {
        for written in ["", "   ", "***", "---", "🎉", "...", "[](x)", "```"] {
            assert_eq!(spoken(written), None, "{written:?}");
        }
        for odd in ["[", "[a](", "[a](b", "h", "https://", "<", "é[", "[[a](b)](c)"] {
            let _ = spoken(odd);
        }
    }
}
