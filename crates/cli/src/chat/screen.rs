//! The output of a conversation: flowing text, lines between it, and a prompt that may be shown.

use std::io::{self, Write as _};

use super::input::Printer;
use crate::console::Palette;
use crate::failure::Failure;

/// Where a view writes.
#[derive(Debug)]
pub(super) struct Screen {
    /// How to colour the output.
    pub(super) palette: Palette,
    printer: Option<Printer>,
    output: io::Stdout,
    errors: io::Stderr,
    /// Whether the cursor is at the beginning of a line.
    fresh: bool,
}

impl Screen {
    /// A screen with the cursor at the beginning of a line.
    pub(super) fn new(palette: Palette, printer: Option<Printer>) -> Self {
        Self { palette, printer, output: io::stdout(), errors: io::stderr(), fresh: true }
    }

    /// Text that goes on where the last left off.
    pub(super) fn flow(&mut self, before: &str, text: &str, after: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.fresh = text.ends_with('\n');
        self.write(&format!("{before}{text}{after}"))
    }

    /// A line by itself.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.end_line()?;
        self.write(&format!("{text}\n"))
    }

    /// Begins a new line, unless the cursor is at the beginning of one.
    pub(super) fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.fresh, true) { Ok(()) } else { self.write("\n") }
    }

    /// Whether the cursor is at the beginning of a line.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// A line for whoever watches, not for whoever reads the output.
    pub(super) fn remark(&mut self, text: &str) {
        // Nobody is left to be told that this failed.
        let _ = writeln!(self.errors, "{text}");
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        match &self.printer {
            Some(printer) if printer.is_shown() => {
                printer.print(text);
                self.fresh = true;
            }
            Some(_) | None => {
                self.output.write_all(text.as_bytes())?;
                self.output.flush()?;
            }
        }
        Ok(())
    }
}
