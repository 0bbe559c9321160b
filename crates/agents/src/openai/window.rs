//! How much of the past the model is shown.
//!
//! Tokens are estimated from bytes, because every model counts them differently: one for four bytes
//! of ASCII, one for two bytes of anything else (other scripts need more), some for each message,
//! and the same number for every image. Mostly that is a little too much, seldom too little.

use std::slice;

use switchboard_core::MessageRow;
use switchboard_core::model::{Author, Part, TurnRequest};

use super::prompt;

/// The newest of the earlier messages that fit into `tokens` together with the request and what is told
/// `beside` it. `more` says whether there are messages before those.
///
/// Where something is left out, an answer whose question is missing goes, too, unless there is no
/// other question to begin with: then it is better than nothing.
pub(super) fn newest<'a>(
    history: &'a [MessageRow],
    more: bool,
    request: &TurnRequest,
    beside: &[&str],
    tokens: Option<u64>,
) -> &'a [MessageRow] {
    let mut start = 0;
    if let Some(tokens) = tokens {
        let taken =
            beside.iter().fold(of_request(request), |taken, told| taken.saturating_add(of_text(told)));
        let mut left = tokens.saturating_sub(taken);
        start = history.len();
        for row in history.iter().rev() {
            let Some(rest) = left.checked_sub(of_message(&row.parts)) else { break };
            left = rest;
            start -= 1;
        }
    }
    let shown = &history[start..];
    if start == 0 && !more {
        return shown;
    }
    let question = shown.iter().position(|row| matches!(row.author, Author::User(_)));
    &shown[question.unwrap_or_default()..]
}

fn of_request(request: &TurnRequest) -> u64 {
    match request {
        TurnRequest::Chat { parts } => of_message(parts),
        TurnRequest::Tool { args, .. } => PER_MESSAGE + of_text(&args.to_string()),
        TurnRequest::Step { goal, state, .. } => PER_MESSAGE + of_text(goal) + of_text(&state.to_string()),
    }
}

fn of_message(parts: &[Part]) -> u64 {
    PER_MESSAGE.saturating_add(parts.iter().map(of_part).sum())
}

fn of_part(part: &Part) -> u64 {
    match part {
        Part::Text(text) => of_text(text),
        Part::Data { mime, .. } if mime.starts_with("image/") => PER_IMAGE,
        Part::Data { .. } | Part::Reference { .. } => of_text(&prompt::flat(slice::from_ref(part))),
    }
}

fn of_text(text: &str) -> u64 {
    let plain = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.len() as u64 - plain;
    (plain + 2 * other).div_ceil(4)
}

/// Tokens that every message has besides what it says.
const PER_MESSAGE: u64 = 4;
/// Tokens of an image, whatever its size.
const PER_IMAGE: u64 = 1000;

#[cfg(test)]
mod tests {
    use switchboard_core::{AgentId, MessageStatus, SessionId, Timestamp, TurnId};

    use super::*;

    /// Messages of ten tokens each; letters say by whom.
    fn history(authors: &str) -> Vec<MessageRow> {
        let author = |letter| match letter {
            'u' => Author::User("ann".into()),
            'a' => Author::Agent(AgentId::from("agent")),
            _ => Author::System,
        };
        let rows = authors.chars().enumerate().map(|(index, letter)| MessageRow {
            session: SessionId::from("ses_1"),
            message: format!("msg_{index}").as_str().into(),
            parent: None,
            turn: TurnId::from("inv_1"),
            author: author(letter),
            parts: vec![Part::Text("x".repeat(24))],
            seq: 1,
            at: Timestamp::default(),
            status: MessageStatus::Complete,
        });
        rows.collect()
    }

    /// How many of the messages are shown beside a request of ten tokens.
    fn shown(authors: &str, more: bool, tokens: u64) -> usize {
        let request = TurnRequest::Chat { parts: vec![Part::Text("y".repeat(24))] };
        let history = history(authors);
        let newest = newest(&history, more, &request, &[], Some(tokens));
        assert!(history.ends_with(newest));
        newest.len()
    }

    #[test]
    fn the_newest_messages_that_fit_are_shown() {
        assert_eq!(shown("uaua", false, 50), 4);
        assert_eq!(shown("uuuu", false, 49), 3);
        assert_eq!(shown("uuuu", false, 40), 3);
        assert_eq!(shown("uuuu", false, 20), 1);
        for tokens in [0, 1, 10, 19] {
            assert_eq!(shown("uuuu", false, tokens), 0);
        }
        assert_eq!(shown("", false, 0), 0);
    }

    #[test]
    fn an_answer_is_not_shown_without_its_question() {
        assert_eq!(shown("uaua", false, 40), 2);
        assert_eq!(shown("uasaua", false, 60), 2);
        // Nothing fits that could stand before it.
        assert_eq!(shown("uaua", false, 20), 1);
        assert_eq!(shown("uaa", false, 30), 2);
        // Nothing was left out.
        assert_eq!(shown("aua", false, 40), 3);
        assert_eq!(shown("aua", true, 40), 2);
    }

    #[test]
    fn without_a_limit_only_what_came_before_matters() {
        let (request, history) = (TurnRequest::Chat { parts: Vec::new() }, history("aua"));
        assert_eq!(newest(&history, false, &request, &[], None).len(), 3);
        assert_eq!(newest(&history, true, &request, &[], None).len(), 2);
    }

    #[test]
    fn what_is_told_beside_takes_its_part() {
        let (request, history) = (TurnRequest::Chat { parts: Vec::new() }, history("uuuu"));
        let shown = |beside: &str| newest(&history, false, &request, &[beside], Some(44)).len();
        assert_eq!(
            (shown(""), shown("abcd"), shown(&"x".repeat(80)), shown(&"x".repeat(4000))),
            (4, 3, 2, 0)
        );
        let both = newest(&history, false, &request, &["abcd", &"x".repeat(36)], Some(44));
        assert_eq!(both.len(), 3);
        let both = newest(&history, false, &request, &["abcd", &"x".repeat(40)], Some(44));
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn tokens_are_estimated_from_bytes() {
        assert_eq!((of_text(""), of_text("abcd"), of_text("abcde")), (0, 1, 2));
        assert_eq!((of_text("üü"), of_text("日本"), of_text("😀")), (2, 3, 2));
        let image = Part::Data { mime: "image/png".into(), data: vec![0; 9].into() };
        let text = Part::Data { mime: "text/plain".into(), data: b"abcd".to_vec().into() };
        assert_eq!(of_message(&[image, text]), 1005);
        let step = TurnRequest::Step { goal: "abcd".into(), state: "ab".into(), budget: Default::default() };
        assert_eq!(of_request(&step), 6);
    }
}
