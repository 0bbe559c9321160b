//! Figures as pictures: how far each is from its floor, and how far from its yardstick.

use std::fmt::Write as _;

use super::report::Figure;
use crate::xml::escaped;

/// One line of a picture.
struct Bar {
    name: String,
    /// Told behind the bar.
    words: String,
    /// How far it reaches; 1 is the line that it is held against.
    length: f64,
    /// A second mark, if there is one.
    mark: Option<f64>,
    colour: &'static str,
}

/// Every figure that has a budget, as a multiple of its floor; longer is better, and the dot is its aim.
pub(super) fn budget(figures: &[Figure]) -> String {
    let bars = figures.iter().filter_map(|figure| {
        let (reached, aim) = figure.against_floor()?;
        let colour = match figure.verdict() {
            "aim" => "#2e7d32",
            "floor" => "#f9a825",
            _ => "#c62828",
        };
        let (name, words) = (figure.name().to_owned(), figure.measured());
        Some(Bar { name, words, length: reached, mark: Some(aim), colour })
    });
    picture("Reached, as a multiple of the floor (longer is better; the dot is the aim)", bars.collect())
}

/// Every time that has a yardstick of the same kind, as a multiple of it; shorter is better.
pub(super) fn yardsticks(figures: &[Figure]) -> String {
    let bars = figures.iter().filter_map(|figure| {
        let length = figure.against_yardstick()?;
        let (name, words) = (figure.name().to_owned(), format!("{} ({length:.1} ×)", figure.measured()));
        Some(Bar { name, words, length, mark: None, colour: "#1565c0" })
    });
    picture("Time taken, as a multiple of the yardstick of the same run (shorter is better)", bars.collect())
}

/// Bars on a logarithmic scale, one below the other.
fn picture(title: &str, bars: Vec<Bar>) -> String {
    let shown = |length: f64| length.clamp(SHORTEST, LONGEST).log10();
    let (left, right) = (SHORTEST.log10(), LONGEST.log10());
    let place = |length: f64| NAMES + (shown(length) - left) / (right - left) * BARS;
    let (width, height) = (NAMES + BARS + WORDS, TOP + ROW * bars.len() as f64 + ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" font-weight=\"600\">{}</text>\n",
        escaped(title)
    );
    for power in (left.round() as i32)..=(right.round() as i32) {
        let (x, label) = (place(10_f64.powi(power)), tick(power));
        let stroke = if power == 0 { "#37474f" } else { "#e0e0e0" };
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP:.0}\" y2=\"{:.0}\" stroke=\"{stroke}\"/>\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#607d8b\">{label}</text>",
            height - ROW,
            TOP - 4.0,
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * row as f64;
        let (line, end, one) = (top + ROW * 0.7, place(bar.length), place(1.0));
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{line:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{line:.1}\" fill=\"#37474f\">{}</text>",
            NAMES - 8.0,
            escaped(&bar.name),
            end.min(one),
            top + 3.0,
            (end - one).abs().max(1.0),
            ROW - 6.0,
            bar.colour,
            NAMES + BARS + 8.0,
            escaped(&bar.words),
        );
        if let Some(mark) = bar.mark {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#000000\"/>",
                place(mark),
                top + ROW / 2.0
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn tick(power: i32) -> String {
    if power < 0 { format!("1/{:.0}", 10_f64.powi(-power)) } else { format!("{:.0} ×", 10_f64.powi(power)) }
}

/// What is beyond is drawn as if it were this long.
const SHORTEST: f64 = 0.01;
const LONGEST: f64 = 1000.0;
const NAMES: f64 = 750.0;
const BARS: f64 = 420.0;
const WORDS: f64 = 150.0;
const TOP: f64 = 48.0;
const ROW: f64 = 18.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_floor_is_red_and_reaches_to_the_left() {
        let missed = budget(&[Figure::new("a < b", 4.0, "ms").budget(2.0, 1.0)]);
        assert!(missed.contains("#c62828") && missed.contains("a &lt; b") && missed.contains("4 ms"));
        let kept = budget(&[Figure::new("a", 1.0, "ms").budget(2.0, 1.0)]);
        assert!(kept.contains("#2e7d32") && !kept.contains("#c62828"));
        // Without a budget there is nothing to draw.
        assert!(!budget(&[Figure::new("a", 1.0, "ms")]).contains("fill=\"#2e7d32\""));
    }

    #[test]
    fn only_times_are_held_against_yardsticks() {
        let figures = [
            Figure::new("slow", 4.0, "ms").yardstick("bare loop p50 (ms)", 2.0),
            Figure::new("many", 4.0, "/s").yardstick("bare loop", 2.0),
        ];
        let drawn = yardsticks(&figures);
        assert!(drawn.contains("(2.0 ×)") && !drawn.contains("many"));
    }
}
