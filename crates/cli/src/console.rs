//! Where commands write: results to the output, everything else to the error stream.

use std::io::{self, IsTerminal as _, Write};

use crate::failure::Failure;

/// The two streams of a command, and whether they may be coloured.
#[derive(Debug)]
pub(crate) struct Console {
    output: io::Stdout,
    errors: io::Stderr,
    output_palette: Palette,
    error_palette: Palette,
}

impl Console {
    /// The streams of this process. Colours go to terminals only, and only if they are wanted.
    pub(crate) fn new(colours: Colours) -> Self {
        let (output, errors) = (io::stdout(), io::stderr());
        let palette = |is_terminal: bool| match colours {
            Colours::OnTerminals if is_terminal => Palette::COLOURED,
            Colours::OnTerminals | Colours::Never => Palette::PLAIN,
        };
        let (output_palette, error_palette) = (palette(output.is_terminal()), palette(errors.is_terminal()));
        Self { output, errors, output_palette, error_palette }
    }

    /// Whether a person reads the output.
    pub(crate) fn is_terminal(&self) -> bool {
        self.output.is_terminal()
    }

    /// How the output is coloured.
    pub(crate) fn palette(&self) -> Palette {
        self.output_palette
    }

    /// How notes are coloured.
    pub(crate) fn note_palette(&self) -> Palette {
        self.error_palette
    }

    /// Writes to the output, at once.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut output = self.output.lock();
        output.write_all(text.as_bytes())?;
        Ok(output.flush()?)
    }

    /// Writes one line to the output.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut output = self.output.lock();
        output.write_all(text.as_bytes())?;
        output.write_all(b"\n")?;
        Ok(output.flush()?)
    }

    /// Tells the user something that is no result.
    pub(crate) fn note(&self, text: &str) {
        let Palette { dim, reset, .. } = self.error_palette;
        // Nobody is left to be told that this failed.
        let _ = writeln!(self.errors.lock(), "{dim}{text}{reset}");
    }

    /// Tells the user why a command failed.
    pub(crate) fn failure(&self, failure: &Failure) {
        if !failure.message().is_empty() {
            let Palette { red, reset, .. } = self.error_palette;
            let _ = writeln!(self.errors.lock(), "{red}error:{reset} {failure}");
        }
    }
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Where a person looks.
    OnTerminals,
    /// The user has set `NO_COLOR`.
    Never,
}

/// Escape sequences, or nothing in their place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) dim: &'static str,
    pub(crate) bold: &'static str,
    pub(crate) red: &'static str,
    pub(crate) green: &'static str,
    pub(crate) yellow: &'static str,
    pub(crate) cyan: &'static str,
    pub(crate) reset: &'static str,
}

impl Palette {
    pub(crate) const PLAIN: Self =
        Self { dim: "", bold: "", red: "", green: "", yellow: "", cyan: "", reset: "" };
    pub(crate) const COLOURED: Self = Self {
        dim: "\x1b[2m",
        bold: "\x1b[1m",
        red: "\x1b[31m",
        green: "\x1b[32m",
        yellow: "\x1b[33m",
        cyan: "\x1b[36m",
        reset: "\x1b[0m",
    };
}

/// Text of somebody else without what would steer the terminal, or change the order in which the rest is shown.
pub(crate) fn harmless(text: &str) -> String {
    let steers = |character: &char| {
        let reorders =
            matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        reorders || character.is_control() && !matches!(character, '\n' | '\t')
    };
    text.chars().filter(|character| !steers(character)).collect()
}

/// The same on one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = harmless(&words.join(" "));
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => line.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(harmless("a\u{202e}b\u{2066}c"), "abc");
        assert_eq!(harmless("a\x1b[31mb\x07\u{9b}c\td\ne\r"), "a[31mbc\td\ne");
    }

    #[test]
    fn a_line_is_cut_by_characters() {
        assert_eq!(one_line("  a \n b\t c ", 10), "a b c");
        assert_eq!(one_line("a\u{2028}b\u{85}c\r\u{202e}d", 10), "a b c d");
        assert_eq!(one_line("äöüß", 4), "äöüß");
        assert_eq!(one_line("äöüßx", 4), "äöü…");
    }
}
