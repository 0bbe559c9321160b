//! Columns of text that line up.

use unicode_width::UnicodeWidthStr as _;

use crate::console::Palette;

/// Rows of cells under a heading.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(crate) fn new(heading: [&'static str; N]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// All of it; the last column is not padded.
    pub(crate) fn text(&self, palette: Palette) -> String {
        let Palette { dim, reset, .. } = palette;
        let mut widths = self.heading.map(|cell| cell.width());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let line = |cells: Vec<&str>| {
            let mut line = String::new();
            for (cell, width) in cells.into_iter().zip(widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width.saturating_sub(cell.width()) + 2));
            }
            line.trim_end().to_owned()
        };
        let mut text = format!("{dim}{}{reset}\n", line(self.heading.to_vec()));
        for row in &self.rows {
            text += &line(row.iter().map(String::as_str).collect());
            text += "\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["A", "LONG", ""]);
        table.row(["日本".into(), "x".into(), "live".into()]);
        table.row(["b".into(), "longer".into(), String::new()]);
        assert_eq!(table.text(Palette::PLAIN), "A     LONG\n日本  x       live\nb     longer\n");
    }
}
