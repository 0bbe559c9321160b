//! Alicia: what an agent says, cut into sentences by the annals of a conversation.

use std::time::Duration;

use serde_json::Value;
use switchboard_alicia::Body;
use switchboard_alicia::annals::{Annals, Entry, join, tables};
use switchboard_core::model::{NewTurn, Origin, Output, Part, Place, TurnEnd, TurnRequest};
use switchboard_core::{
    Actor, Committed, Event, Op, Seed, Session, SessionId, SessionLimits, Timestamp, TurnId,
};

use super::Choices;

/// Lets an agent say a text in pieces. What is told of it, joined, is what is stored, and is the text
/// wherever it can be; the sentences are numbered and the last is final; how the text was cut makes no difference; and annals that were put down and taken
/// up again at any point tell the same.
///
/// # Panics
/// Something is broken.
pub fn alicia_annals(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let lengths: Vec<usize> = (0..8).map(|_| usize::from(choices.byte()) + 1).collect();
    let times = usize::from(choices.byte());
    let text = String::from_utf8_lossy(choices.rest);
    // Long enough for the size of a sentence to matter, every now and then.
    let times = if times < 16 { LONG / text.len().max(1) } else { 1 };
    let text = text.repeat(times.max(1));
    let mut pieces = Vec::new();
    let mut rest = text.as_str();
    for length in lengths.iter().cycle().take(PIECES) {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(*length));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces.retain(|piece| !piece.is_empty());
    let told = tell(&pieces);
    check(&told, &text);
    let whole: Vec<&str> = if text.is_empty() { Vec::new() } else { vec![&text] };
    let at_once = tell(&whole);
    let bytes = |told: &Told| told.entries.iter().map(|entry| entry.bytes.clone()).collect::<Vec<_>>();
    assert_eq!(bytes(&told), bytes(&at_once), "how a text was cut makes no difference");
}

/// What came of a turn.
#[derive(Default)]
struct Told {
    entries: Vec<Entry>,
    /// The text of the answer in the table of messages.
    stored: String,
}

fn check(told: &Told, text: &str) {
    let (mut said, mut sequence, mut is_over) = (String::new(), 0, false);
    for entry in &told.entries {
        if let Body::AssistantSentence(sentence) = &entry.envelope.body {
            assert!(!is_over, "nothing follows the final sentence");
            sequence += 1;
            assert_eq!(sentence.sequence, sequence, "sentences count from 1");
            assert!(sentence.text.0.len() <= MOST, "a sentence is bounded");
            join(&mut said, &sentence.text.0);
            is_over = sentence.is_final;
        }
    }
    assert!(is_over, "there is a final sentence");
    assert!(said == told.stored, "joined sentences are what is stored");
    // Only at white space in everybody's eyes can a text be cut without a trace.
    let plain = |character: char| matches!(character, ' ' | '\n' | '\r' | '\t');
    let odd = text.contains(|character: char| character.is_whitespace() && !plain(character));
    let can_be_cut = text.len() <= MOST || (!odd && text.split(plain).all(|run| run.len() < MOST));
    assert!(said == text || !can_be_cut, "and are the text");
}

/// What comes of a turn in which these pieces are said.
fn tell(pieces: &[&str]) -> Told {
    let id = SessionId::new("ac_1");
    let mut session = Session::new(id.clone(), SessionLimits::default());
    let (mut annals, mut told) = (Annals::new(&id), Told::default());
    let (client, worker) = (Actor::client("ann".into()), Actor::worker("w".into()));
    let turn = TurnId::new("t1");
    let request = TurnRequest::Chat { parts: vec![Part::Text("?".into())] };
    let start = NewTurn {
        turn: turn.clone(),
        request,
        agent: None,
        device: None,
        origin: Origin {
            principal: "ann".into(),
            protocol: "alicia".into(),
            attachment: None,
            handle: None,
            bound: false,
            options: Value::Null,
        },
        place: Place::default(),
        history: None,
        workspace: None,
        serial: false,
        held: false,
        once: false,
        setting: None,
        deadline: NOW.after(Duration::from_secs(60)),
        key: None,
        meta: Value::Null,
    };
    let says = |text: &&str| Op::Emit { turn: turn.clone(), fence: 1, output: Output::Text((*text).into()) };
    let opening = [
        (&client, Op::Open { epoch: Seed::new([7; 32]).epoch(1), agent: "echo".into(), name: None }),
        (&client, Op::StartTurn(Box::new(start))),
        (&worker, Op::Claim { turn: turn.clone(), relayed: false }),
    ];
    let end = (&worker, Op::Finish { turn: turn.clone(), fence: 1, end: TurnEnd::complete() });
    let ops = opening.into_iter().chain(pieces.iter().map(|piece| (&worker, says(piece)))).chain([end]);
    for (place, (actor, op)) in ops.enumerate() {
        let decision = match session.decide(actor, &op, NOW) {
            Ok(decision) => decision,
            Err(reject) => panic!("refused: {reject:?}"),
        };
        for event in decision.events {
            let mut position = session.head().next();
            if let Event::SessionOpened { epoch, .. } = &event {
                position.epoch = *epoch;
            }
            let committed = Committed { position, at: NOW, event };
            session.apply(&committed);
            let page = annals.take(&committed);
            told.entries.extend(page.entries);
            for record in page.records.iter().filter(|record| record.table == tables::MESSAGES.name) {
                let contents = record.cells.iter().find(|(column, _)| *column == "contents");
                if let Some(text) = contents.and_then(|(_, cell)| cell.as_text()) {
                    text.clone_into(&mut told.stored);
                }
            }
        }
        if place % 8 > 0 {
            continue;
        }
        let restored = Annals::restore(&annals.state());
        assert!(restored.as_ref() == Some(&annals), "annals can be put down and taken up again");
        annals = restored.unwrap_or(annals);
    }
    told
}

/// Length of long texts, in bytes.
const LONG: usize = 20_000;
/// Pieces in which a text is said, besides the last.
const PIECES: usize = 16;
/// Longest sentence, in bytes.
const MOST: usize = 8_192;
const NOW: Timestamp = Timestamp::from_secs(1_000_000);
