//! What the minutes hold of turns and responses.

use switchboard_core::model::TurnEnd;
use switchboard_core::{Position, PrincipalId};

use super::*;
use crate::samples;

fn take(minutes: &mut Minutes, event: Event) -> Vec<Value> {
    let at = Timestamp::from_millis(1_000);
    let records = minutes.take(&Committed { position: Position::default(), at, event });
    let item = |record: Record| {
        let (_, item) = record.cells.into_iter().find(|(column, _)| *column == "item")?;
        serde_json::from_str(item.as_text()?).ok()
    };
    records.into_iter().filter_map(item).collect()
}

/// A turn from its beginning to its end, and what the history holds of it.
fn turn(minutes: &mut Minutes, turn: &str, protocol: &str, end: TurnEnd) -> Vec<Value> {
    let turn = TurnId::from(turn);
    take(minutes, samples::accepted(&turn, protocol));
    for text in ["Half a ", "word."] {
        take(minutes, Event::TurnOutput { turn: turn.clone(), output: Output::Text(text.to_owned()) });
    }
    assert_eq!(minutes.said(&turn), "Half a word.");
    take(minutes, Event::TurnEnded { turn, end: Box::new(end) })
}

fn stopped() -> TurnEnd {
    TurnEnd::new(TurnOutcome::Interrupted { abandoned: false })
}

#[test]
fn what_others_are_answered_is_in_the_history() {
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    for (name, end, status) in [("t", TurnEnd::complete(), "complete"), ("u", stopped(), "incomplete")] {
        let items = turn(&mut minutes, name, "asp", end);
        assert_eq!(items.len(), 1);
        assert_eq!((&items[0]["text"], &items[0]["status"]), (&json!("Half a word."), &json!(status)));
        assert_eq!(
            (&items[0]["id"], &items[0]["role"]),
            (&json!(format!("{name}.out")), &json!("assistant"))
        );
        assert_eq!(minutes.unsaid, None);
    }
}

#[test]
fn an_answer_is_unsaid_until_the_client_is_told() {
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    assert_eq!(turn(&mut minutes, "t", CHRONICLE, stopped()), Vec::<Value>::new());
    assert_eq!(minutes.unsaid, None);
    turn(&mut minutes, "u", CHRONICLE, TurnEnd::complete());
    assert_eq!(minutes.unsaid.as_deref(), Some("Half a word."));
    let told = json!({"type": "server.announce", "seq": 1, "data": {"response_id": "r-1"}});
    let record = json!([Minute::Sent(vec![told])]);
    let by = PrincipalId::from("ann");
    let recorded = Event::Recorded { chronicle: CHRONICLE.into(), by, record: Box::new(record) };
    take(&mut minutes, recorded);
    assert_eq!(minutes.unsaid, None);
    // What is being said already has an end of its own.
    turn(&mut minutes, "v", CHRONICLE, TurnEnd::complete());
    assert_eq!(minutes.unsaid, None);
}

#[test]
fn two_transports_that_tell_of_the_same_response_make_one_item() {
    let mut minutes = Minutes::new(&SessionId::new("vs_1"));
    let mut desk = Desk { session: "vs_1".into(), at: Timestamp::default(), records: Vec::new() };
    let spoken = |response: &str, text: &str| {
        Minute::Spoken(Box::new(Spoken {
            turn: None,
            turn_id: None,
            response: response.into(),
            text: text.into(),
            complete: false,
            metadata: json!({}),
        }))
    };
    minutes.note(spoken("r-1", "what was heard"), &mut desk);
    // The next transport finds it open, and has heard nothing of it.
    minutes.note(spoken("r-1", ""), &mut desk);
    minutes.note(spoken("r-2", "another"), &mut desk);
    let items: Vec<&str> = desk
        .records
        .iter()
        .filter(|record| record.table == tables::HISTORY.name)
        .filter_map(|record| record.cells.iter().find(|(name, _)| *name == "item")?.1.as_text())
        .collect();
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(items[0].contains("what was heard") && items[1].contains("another"));
    assert_eq!(minutes.history, 2);
}

fn recorded(minute: Minute) -> Event {
    let by = PrincipalId::from("ann");
    Event::Recorded { chronicle: CHRONICLE.into(), by, record: Box::new(json!([minute])) }
}

#[test]
fn a_response_is_open_until_its_own_end() {
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    let sent = |seq: u64, name: &str, response: &str| {
        recorded(Minute::Sent(vec![json!({"type": name, "seq": seq, "data": {"response_id": response}})]))
    };
    take(&mut minutes, sent(1, "response.audio", "r-2"));
    take(&mut minutes, sent(2, "response.done", "r-1"));
    assert_eq!(minutes.response.as_deref(), Some("r-2"));
    take(&mut minutes, sent(3, "response.done", "r-2"));
    assert_eq!((minutes.response.as_deref(), minutes.sent), (None, 3));
}

#[test]
fn a_session_ends_once_and_for_the_first_reason() {
    let attachment = AttachmentId::new("vs_1.app");
    let closed = Event::AttachmentClosed { attachment };
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    minutes.connected = true;
    take(&mut minutes, closed.clone());
    assert_eq!((minutes.connected, minutes.ended.as_deref()), (false, Some("idle")));
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    take(&mut minutes, recorded(Minute::Ended { reason: "user_hangup".into(), code: None }));
    take(&mut minutes, closed);
    assert_eq!(minutes.ended.as_deref(), Some("user_hangup"));
}

#[test]
fn who_else_takes_part_is_not_the_app() {
    let opened = |attachment: &str, generation: u32| Event::AttachmentOpened {
        attachment: attachment.into(),
        generation,
        principal: PrincipalId::from("ann"),
        secret: None,
        window_ms: 60_000,
    };
    let mut minutes = Minutes::new(&SessionId::from("vs_1"));
    take(&mut minutes, opened("another", 5));
    assert_eq!((minutes.connected, minutes.opened, minutes.generation), (false, false, 0));
    take(&mut minutes, opened("vs_1.app", 2));
    assert_eq!((minutes.connected, minutes.opened, minutes.generation), (true, true, 2));
    take(&mut minutes, Event::AttachmentDetached { attachment: "another".into(), generation: 5 });
    take(&mut minutes, Event::AttachmentClosed { attachment: "another".into() });
    assert_eq!((minutes.connected, minutes.ended.as_deref()), (true, None));
    take(&mut minutes, Event::AttachmentDetached { attachment: "vs_1.app".into(), generation: 2 });
    assert!(!minutes.connected);
}
