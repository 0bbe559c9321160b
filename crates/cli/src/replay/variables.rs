//! Values that differ from run to run: ids, times, tokens and positions. An id of the recording is
//! bound to the one that stands in its place now, and from then on has to be that one.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::recording::placeholder::{self, Piece};

/// What is bound.
#[derive(Clone, Default)]
pub(super) struct Variables {
    /// From the recording to now.
    now: BTreeMap<String, String>,
    /// From now to the recording: two ids must not become one.
    recorded: BTreeMap<String, String>,
    /// Placeholders and what they stand for.
    held: BTreeMap<String, String>,
    /// What was bound, in order, so that it can be taken back.
    journal: Vec<Bound>,
}

/// Something that was bound.
#[derive(Clone)]
enum Bound {
    /// An id of the recording.
    Name(String),
    /// A placeholder.
    Held(String),
}

impl Variables {
    /// With what placeholders stand for, as far as it is known from the beginning.
    pub(super) fn new(held: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { held: held.into_iter().collect(), ..Self::default() }
    }

    /// How many ids are bound.
    pub(super) fn count(&self) -> usize {
        self.now.iter().filter(|(recorded, now)| recorded != now).count()
    }

    /// Where to go back to.
    pub(super) fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Takes back what was bound since.
    pub(super) fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some(Bound::Name(recorded)) => {
                    if let Some(now) = self.now.remove(&recorded) {
                        self.recorded.remove(&now);
                    }
                }
                Some(Bound::Held(name)) => {
                    self.held.remove(&name);
                }
                None => return,
            }
        }
    }

    /// Whether a text of now stands for one of the recording; binds what is new. `key` is the member
    /// that holds it.
    pub(super) fn text(&mut self, key: &str, recorded: &str, now: &str) -> bool {
        if recorded.contains("${") {
            return self.held(key, recorded, now);
        }
        if is_moment(recorded) {
            return is_moment(now);
        }
        if is_version(key) {
            return true;
        }
        if let Some(bound) = self.now.get(recorded) {
            return bound == now;
        }
        if is_name(key)
            && !recorded.is_empty()
            && !now.is_empty()
            && is_one_word(recorded)
            && is_one_word(now)
        {
            return self.bind(recorded, now);
        }
        self.words(key, recorded, now)
    }

    /// Word by word: what lies between must be the same, and what is no id, too.
    fn words(&mut self, key: &str, recorded: &str, now: &str) -> bool {
        let (theirs, ours) = (words(recorded), words(now));
        theirs.len() == ours.len()
            && theirs.iter().zip(&ours).all(|(recorded, now)| self.word(key, recorded, now))
    }

    fn word(&mut self, key: &str, recorded: &str, now: &str) -> bool {
        if let Some(bound) = self.bound(recorded) {
            return bound == now;
        }
        if recorded == now {
            return true;
        }
        let alike = alike(recorded, now);
        // What was said may look like an id and be none: there only what says of itself that it is one counts.
        let counts = !is_content(key) || prefix(recorded).is_some();
        alike && counts && self.bind(recorded, now)
    }

    /// What stands for a word inside a text. A short id, such as `1`, may be any other word there.
    fn bound(&self, word: &str) -> Option<&String> {
        self.now.get(word).filter(|_| word.len() >= MIN_WORD)
    }

    fn bind(&mut self, recorded: &str, now: &str) -> bool {
        match (self.now.get(recorded), self.recorded.get(now)) {
            (Some(bound), _) => bound == now,
            (None, Some(known)) => known == recorded,
            (None, None) if self.now.len() < MAX_BOUND => {
                self.now.insert(recorded.to_owned(), now.to_owned());
                self.recorded.insert(now.to_owned(), recorded.to_owned());
                self.journal.push(Bound::Name(recorded.to_owned()));
                true
            }
            (None, None) => recorded == now,
        }
    }

    /// A recorded text with placeholders: they take whatever stands there, the first time.
    fn held(&mut self, key: &str, recorded: &str, now: &str) -> bool {
        let pieces = placeholder::pieces(recorded);
        let mut rest = now;
        for (index, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Plain(plain) => {
                    let (head, tail) = if index + 1 == pieces.len() {
                        (rest, "")
                    } else {
                        match rest.split_at_checked(plain.len()) {
                            Some(split) => split,
                            None => return false,
                        }
                    };
                    if !self.words(key, plain, head) {
                        return false;
                    }
                    rest = tail;
                }
                Piece::Held { name, encoded } => {
                    let end = match pieces.get(index + 1) {
                        Some(Piece::Plain(plain)) => match rest.find(first_word(plain)) {
                            Some(end) => end,
                            None => return false,
                        },
                        Some(Piece::Held { .. }) | None => rest.len(),
                    };
                    let (value, tail) = rest.split_at(end);
                    if !self.hold(name, value, *encoded) {
                        return false;
                    }
                    rest = tail;
                }
            }
        }
        rest.is_empty()
    }

    fn hold(&mut self, name: &str, value: &str, encoded: bool) -> bool {
        match self.held.get(name) {
            Some(known) if encoded => URL_SAFE_NO_PAD.encode(known) == value,
            Some(known) => known == value,
            None if value.is_empty() => false,
            None => {
                self.held.insert(name.to_owned(), value.to_owned());
                self.journal.push(Bound::Held(name.to_owned()));
                true
            }
        }
    }

    /// Whether a number of now stands for one of the recording.
    pub(super) fn number(key: &str, recorded: &Value, now: &Value) -> bool {
        if recorded == now {
            return true;
        }
        let (Some(recorded), Some(now)) = (recorded.as_f64(), now.as_f64()) else { return false };
        if is_measured(key) {
            return now >= 0.0;
        }
        if is_remainder(key) {
            return (recorded - now).abs() <= SLACK_MS;
        }
        // Seconds and milliseconds since 1970, of this century.
        let moment = |number: f64| match number {
            1.0e9..4.2e9 => Some("s"),
            1.0e12..4.2e12 => Some("ms"),
            1.0e15..4.2e15 => Some("us"),
            _ => None,
        };
        recorded == now || (moment(recorded).is_some() && moment(recorded) == moment(now))
    }

    /// A text of the recording, as it is to be said now; none if it needs something that is not known.
    pub(super) fn say(&self, text: &str) -> Option<String> {
        let text = if text.contains("${") { placeholder::filled(text, &self.held)? } else { text.to_owned() };
        if let Some(now) = self.now.get(&text) {
            return Some(now.clone());
        }
        Some(words(&text).iter().map(|word| self.bound(word).map_or(*word, String::as_str)).collect())
    }
}

/// Shows how much is bound: what is, may be a credential.
impl std::fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Variables").field("bound", &self.now.len()).finish_non_exhaustive()
    }
}

/// A text as words and what lies between them.
fn words(text: &str) -> Vec<&str> {
    let inside = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = inside(first);
        let end = rest.find(|character| inside(character) != kind).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        words.push(word);
        rest = tail;
    }
    words
}

fn is_one_word(text: &str) -> bool {
    !text.contains(char::is_whitespace) && text.len() <= MAX_NAME
}

fn first_word(text: &str) -> &str {
    words(text).first().copied().unwrap_or_default()
}

/// `ses` of `ses_01J…`: short, and made of lower-case letters.
fn prefix(word: &str) -> Option<&str> {
    let (prefix, rest) = word.split_once('_')?;
    let short = (1..=8).contains(&prefix.len()) && prefix.bytes().all(|byte| byte.is_ascii_lowercase());
    (short && rest.len() >= MIN_RANDOM && is_random(rest)).then_some(prefix)
}

/// Whether both were made in the same way, at random.
fn alike(recorded: &str, now: &str) -> bool {
    if is_position(recorded) && is_position(now) {
        return true;
    }
    let random = |word: &str| prefix(word).is_some() || (word.len() >= MIN_RANDOM && is_random(word));
    recorded.len() == now.len() && prefix(recorded) == prefix(now) && random(recorded) && random(now)
}

fn is_random(word: &str) -> bool {
    let has = |kind: fn(&char) -> bool| word.chars().any(|character| kind(&character));
    let letters = has(char::is_ascii_alphabetic);
    letters && (has(char::is_ascii_digit) || (has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase)))
}

/// `<epoch>-<seq>`.
fn is_position(word: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once('-').is_some_and(|(epoch, seq)| number(epoch) && number(seq))
}

/// Date and time, as RFC 3339 writes them.
fn is_moment(text: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    text.len() >= shape.len() && text.len() <= 40 && text.as_bytes().iter().zip(shape).all(fits)
}

/// Members that hold nothing but an id or a token, whatever it looks like.
fn is_name(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let known = ["cid", "run", "nonce", "cursor", "etag", "x-request-id", "turn", "session", "position"];
    key.ends_with("_id")
        || key.ends_with("Id")
        || lower == "id"
        || lower.ends_with("token")
        || lower.ends_with("-id")
        || known.contains(&lower.as_str())
}

/// Members that hold what somebody said.
fn is_content(key: &str) -> bool {
    [
        "",
        "text",
        "content",
        "contents",
        "d",
        "delta",
        "input",
        "output",
        "message",
        "spoken_text",
        "request",
        "result",
    ]
    .contains(&key)
}

/// Members that say how long something took, or where on a machine it was.
fn is_measured(key: &str) -> bool {
    let measured = [
        "duration", "latency", "elapsed", "uptime", "took", "ttft", "ttfb", "e2e", "wall_ms", "first_ms",
        "cpu_ms",
    ];
    measured.iter().any(|word| key.to_ascii_lowercase().contains(word)) || matches!(key, "pid" | "ts")
}

/// Members that say how much of a deadline is left.
fn is_remainder(key: &str) -> bool {
    matches!(key, "timeout_ms" | "timeoutMs")
}

/// Members that say what software somebody is.
fn is_version(key: &str) -> bool {
    matches!(key, "version" | "serverVersion" | "server_version")
}

/// So much of a deadline may pass before it is told.
const SLACK_MS: f64 = 5_000.0;
/// The shortest id that is looked for inside of texts.
const MIN_WORD: usize = 6;
/// The shortest thing that looks as if it was made at random.
const MIN_RANDOM: usize = 8;
const MAX_NAME: usize = 4_096;
const MAX_BOUND: usize = 100_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_bound_at_first_sight_and_has_to_stay_the_same() {
        let mut variables = Variables::default();
        assert!(variables.text("session_id", "ses_aaaa1111", "ses_bbbb2222"));
        assert!(variables.text("text", "in ses_aaaa1111.", "in ses_bbbb2222."));
        assert!(!variables.text("session_id", "ses_aaaa1111", "ses_cccc3333"));
        assert!(!variables.text("session_id", "ses_dddd4444", "ses_bbbb2222"), "two became one");
        assert_eq!(variables.say("/s/ses_aaaa1111/x").unwrap(), "/s/ses_bbbb2222/x");
        assert_eq!(variables.count(), 1);
    }

    #[test]
    fn what_was_bound_for_a_trial_is_taken_back() {
        let mut variables = Variables::default();
        assert!(variables.text("id", "a1", "b1"));
        let mark = variables.mark();
        assert!(variables.text("id", "a2", "b2") && variables.text("t", "${token}", "x"));
        variables.back_to(mark);
        assert!(variables.text("id", "a2", "b3") && variables.text("t", "${token}", "y"));
        assert!(!variables.text("id", "a1", "b4"));
    }

    #[test]
    fn what_was_said_is_no_variable() {
        let mut variables = Variables::default();
        assert!(!variables.text("text", "Hello", "Hallo"));
        assert!(!variables.text("d", "abcd1234efgh", "abcd1234efgi"));
        assert!(!variables.text("status", "running", "waiting"));
        assert!(variables.text("d", "task_abcd1234", "task_efgh5678"));
        assert!(!variables.text("type", "chat.done", "chat.error"));
    }

    #[test]
    fn times_differ_and_counts_do_not() {
        let mut variables = Variables::default();
        assert!(variables.text("timestamp", "2026-11-16T05:00:00.1Z", "2027-01-01T00:00:00+00:00"));
        assert!(!variables.text("timestamp", "2026-11-16T05:00:00.1Z", "never"));
        assert!(Variables::number("exp", &json!(1_794_738_008), &json!(1_794_739_999)));
        assert!(Variables::number("at", &json!(1_794_738_008_123_u64), &json!(1_794_739_999_000_u64)));
        assert!(!Variables::number("at", &json!(1_794_738_008_123_u64), &json!(1_794_739_999)));
        assert!(!Variables::number("seq", &json!(4), &json!(5)));
        assert!(Variables::number("duration_ms", &json!(4), &json!(5)));
        assert!(Variables::number("timeout_ms", &json!(29_999), &json!(29_995)));
        assert!(!Variables::number("timeout_ms", &json!(30_000), &json!(60_000)));
    }

    #[test]
    fn placeholders_take_what_stands_there_and_give_it_back() {
        let known = [("server".to_owned(), "127.0.0.1:9".to_owned()), ("key".to_owned(), "k".to_owned())];
        let mut variables = Variables::new(known);
        assert!(variables.text("url", "ws://${server}/v1/vs_AAAA1111", "ws://127.0.0.1:9/v1/vs_BBBB2222"));
        assert!(!variables.text("url", "ws://${server}/v1", "ws://127.0.0.1:8/v1"));
        assert!(variables.text("session_token", "${token}", "eyJ.x.y"));
        assert!(!variables.text("session_token", "${token}", "eyJ.z.y"));
        assert_eq!(variables.say("vip.bearer.${token}").unwrap(), "vip.bearer.eyJ.x.y");
        assert_eq!(variables.say("asp-v1, asp-bearer.${key:base64url}").unwrap(), "asp-v1, asp-bearer.aw");
        assert_eq!(variables.say("${key-2}"), None);
    }

    #[test]
    fn positions_and_other_forms_of_ids() {
        let mut variables = Variables::default();
        assert!(variables.text("after", "1794738008-42", "1794739999-42"));
        assert!(variables.text(
            "x",
            "3f2b8c1e-0000-4000-8000-aaaaaaaaaaaa",
            "4f2b8c1e-0000-4000-8000-aaaaaaaaaaab"
        ));
        assert!(variables.text("m", "am_V1StGXR8_Z5jdHi6B-myT", "am_W1StGXR8_Z5jdHi6B-myT"));
        assert!(!variables.text("m", "am_V1StGXR8_Z5jdHi6B-myX", "ac_W1StGXR8_Z5jdHi6B-myX"));
    }
}
