//! What an agent is shown of what is remembered.

use switchboard_core::model::Remembered;

/// As much of what is remembered as agents are shown, the closest first. What is too long is cut, and it shows.
pub(crate) fn shown(remembered: &[Remembered]) -> Vec<String> {
    let mut room = MAX_BYTES;
    let mut shown = Vec::new();
    for memory in remembered.iter().map(|memory| memory.content.trim()).filter(|memory| !memory.is_empty()) {
        if memory.len() > room {
            let kept = &memory[..memory.floor_char_boundary(room.saturating_sub(CUT.len()))];
            if !kept.is_empty() {
                shown.push(format!("{kept}{CUT}"));
            }
            break;
        }
        room -= memory.len();
        shown.push(memory.to_owned());
    }
    shown
}

/// Bytes of all of it.
const MAX_BYTES: usize = 8 << 10;
/// Stands for what was cut.
const CUT: &str = "…";

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(contents: &[&str]) -> Vec<String> {
        let memory = |content: &&str| Remembered {
            memory: "m".into(),
            content: (*content).to_owned(),
            relevance: 0.9,
            source: None,
        };
        super::shown(&contents.iter().map(memory).collect::<Vec<_>>())
    }

    #[test]
    fn what_fits_is_shown_in_its_order() {
        assert_eq!(shown(&["likes tea\n", "  ", "has a dog"]), ["likes tea", "has a dog"]);
        assert!(shown(&[]).is_empty());
        let half = "x".repeat(MAX_BYTES / 2);
        assert_eq!(shown(&[&half, &half, "tea"]), [half.as_str(), half.as_str()]);
    }

    #[test]
    fn what_does_not_fit_is_cut_between_letters() {
        let long = "é".repeat(MAX_BYTES);
        let cut = shown(&["tea", &long, "coffee"]);
        assert_eq!((cut.len(), cut[0].as_str()), (2, "tea"));
        assert!(cut[1].ends_with("é…") && cut[0].len() + cut[1].len() <= MAX_BYTES, "{}", cut[1].len());
        assert!(cut[0].len() + cut[1].len() >= MAX_BYTES - 2);
    }
}
