//! Which commands run without asking.
//!
//! A line is taken apart only if it means the same with and without a shell. Whatever a shell would
//! do more with it, such as a second command behind a semicolon, is never covered by a permission for
//! its first word.

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A program and its arguments.
    Words(Vec<String>),
    /// Something that only a shell understands.
    Shell(String),
}

impl Line {
    /// Takes a line apart, if that is safe.
    pub(super) fn parse(line: &str) -> Self {
        let shell = || Self::Shell(line.to_owned());
        let mut words: Vec<String> = Vec::new();
        let mut word: Option<String> = None;
        let mut letters = line.trim().chars();
        while let Some(letter) = letters.next() {
            match letter {
                ' ' | '\t' => words.extend(word.take()),
                '\'' | '"' => {
                    let rest = letters.as_str();
                    let Some((inside, behind)) = rest.split_once(letter) else { return shell() };
                    if letter == '"' && inside.contains(['$', '`', '\\', '!']) {
                        return shell();
                    }
                    word.get_or_insert_default().push_str(inside);
                    letters = behind.chars();
                }
                '=' if words.is_empty() => return shell(),
                _ if letter.is_alphanumeric() || PLAIN.contains(letter) => {
                    word.get_or_insert_default().push(letter);
                }
                _ => return shell(),
            }
        }
        words.extend(word);
        if words.first().is_none_or(String::is_empty) { shell() } else { Self::Words(words) }
    }
}

/// Commands that run without asking: what they begin with.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed(Vec<Vec<String>>);

impl Allowed {
    /// Programs, or programs with their first arguments.
    pub(super) fn new(commands: &[String]) -> Self {
        let words = |command: &String| command.split_whitespace().map(str::to_owned).collect();
        Self(commands.iter().map(words).filter(|words: &Vec<String>| !words.is_empty()).collect())
    }

    /// Whether a command runs without asking.
    pub(super) fn permits(&self, line: &Line) -> bool {
        match line {
            Line::Words(words) => self.0.iter().any(|begin| words.starts_with(begin)),
            Line::Shell(_) => false,
        }
    }
}

/// Letters that no shell does anything with, besides those of alphabets.
const PLAIN: &str = "_-./:@%+,=";

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Line {
        Line::Words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn plain_lines_are_taken_apart() {
        for (line, expected) in [
            ("uname -a", words(&["uname", "-a"])),
            ("  ls\t--color=no  ./a_b,c ", words(&["ls", "--color=no", "./a_b,c"])),
            ("grep 'a; b' \"c d\" e'f'g ''", words(&["grep", "a; b", "c d", "efg", ""])),
            ("echo größe", words(&["echo", "größe"])),
        ] {
            assert_eq!(Line::parse(line), expected, "{line}");
        }
    }

    #[test]
    fn whatever_a_shell_would_do_more_with_is_left_to_it() {
        for line in [
            "uname; id",
            "uname && id",
            "uname | tee x",
            "uname > x",
            "uname $(id)",
            "uname `id`",
            "uname $HOME",
            "uname *",
            "uname ~",
            "uname \\\n",
            "uname\nid",
            "uname & id",
            "A=1 uname",
            "uname \"$(id)\"",
            "uname 'a",
            "uname \"a",
            "uname #",
            "uname {a,b}",
            "uname !1",
            "(uname)",
            "",
            "   ",
            "''",
            "uname \"a'b",
            "uname\rid",
            "uname\u{2028}id",
            "uname \"a\\\"b\"",
            "[ a ]",
            "uname <x",
            "uname ^a",
            "x\"y 'z\" w'",
        ] {
            assert_eq!(Line::parse(line), Line::Shell(line.to_owned()), "{line:?}");
        }
    }

    #[test]
    fn permissions_are_for_what_a_command_begins_with() {
        let allowed = Allowed::new(&["uname".to_owned(), "git status".to_owned(), " ".to_owned()]);
        for line in ["uname", "uname -a", "git status --short", "'uname'"] {
            assert!(allowed.permits(&Line::parse(line)), "{line}");
        }
        for line in ["unames", "git", "git push", "./uname", "/bin/uname", "uname; id", "id", "Uname", ""] {
            assert!(!allowed.permits(&Line::parse(line)), "{line}");
        }
    }
}
