//! Messages, the tree and the conversation itself.

use serde_json::json;
use switchboard_alicia::annals::{Annals, Notice};
use switchboard_alicia::deed::{Deed, Luggage, Spoken, Wishes};
use switchboard_alicia::message::Role;
use switchboard_alicia::{Body, Word};
use switchboard_core::model::{Import, Op, Parent, Part, Standing, Told, Voice};

use crate::support::{BEGIN, World, chat, is_null, kinds, names, number, text};

fn import(id: &str, voice: Voice, text: &str, luggage: &Luggage) -> Op {
    Op::Import(Box::new(Import {
        id: id.into(),
        parent: Parent::Tip,
        voice,
        text: text.to_owned(),
        meta: luggage.to_meta(),
    }))
}

fn local(local_id: &str, number: i64) -> Luggage {
    Luggage {
        local_id: Some(local_id.to_owned()),
        number: Some(number),
        written_ms: Some(i64::try_from(BEGIN).unwrap() - 60_000),
        ..Luggage::default()
    }
}

#[test]
fn a_conversation_has_a_row_from_the_beginning() {
    let world = World::new();
    let row = world.rows.conversation();
    assert_eq!((text(row, "user_id"), text(row, "title"), text(row, "status")), ("ann", "Title", "active"));
    assert_eq!(text(row, "livekit_room_name"), "conv_ac_0123456789abcdefghijk");
    assert_eq!(
        (number(row, "last_server_stanza_id"), number(row, "created_at")),
        (0, i64::try_from(BEGIN).unwrap())
    );
    assert!(is_null(row, "tip_message_id") && is_null(row, "deleted_at"));
    assert_eq!(world.annals.title(), Some("Title"));
}

#[test]
fn al_042_a_message_is_stored_under_its_id_and_announced_with_all_keys() {
    let mut world = World::new();
    let luggage = Luggage { written_ms: Some(5), ..Luggage::default() };
    world.start("t1", "hello", &Wishes::default(), names("t1"), luggage);
    let row = world.rows.message("am_t1_in");
    assert_eq!((text(row, "contents"), text(row, "message_role")), ("hello", "user"));
    assert_eq!((number(row, "sequence_number"), text(row, "completion_status")), (1, "completed"));
    assert!(is_null(row, "previous_id") && is_null(row, "local_id"));
    let bodies = world.bodies();
    let Body::UserMessage(announced) = &bodies[0] else { panic!("{bodies:?}") };
    assert_eq!((announced.id.as_str(), announced.timestamp), ("am_t1_in", Some(5)));
    let superset = announced.superset.as_ref().expect("all keys");
    assert_eq!((superset.role.clone(), superset.sequence_number), (Word::Known(Role::User), 1));
    assert_eq!(superset.created_at, "2026-01-01T00:00:00.000Z");
}

#[test]
fn al_107_every_entry_of_meta_becomes_a_row() {
    let mut world = World::new();
    let meta = json!({"source": "widget", "weight": 1.5, "tags": ["a"]});
    let luggage = Luggage { meta: meta.as_object().cloned().unwrap(), ..Luggage::default() };
    world.start("t1", "hello", &Wishes::default(), names("t1"), luggage);
    let rows = world.rows.of("alicia_meta", "ref", "am_t1_in");
    let mut entries: Vec<_> = rows.iter().map(|row| (text(row, "key"), text(row, "value"))).collect();
    entries.sort_unstable();
    assert_eq!(entries, [("source", "widget"), ("tags", r#"["a"]"#), ("weight", "1.5")]);
}

#[test]
fn al_056_what_was_spoken_is_a_final_transcription_of_the_log() {
    let mut world = World::new();
    let spoken = Spoken { confidence: Some(0.9), language: Some("en".into()) };
    let luggage = Luggage { spoken: Some(spoken), ..Luggage::default() };
    world.start("t1", "what time", &Wishes::default(), names("t1"), luggage);
    assert_eq!((world.entries[0].stanza, world.entries[0].ordinal), (-1, 0));
    let bodies = world.bodies();
    let [Body::Transcription(transcription)] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!((transcription.id.as_str(), transcription.is_final), ("am_t1_in", true));
    assert_eq!(text(world.rows.message("am_t1_in"), "contents"), "what time");
    assert_eq!(text(world.rows.one("alicia_meta", "ref", "am_t1_in"), "value"), "asr");
}

#[test]
fn messages_written_offline_keep_what_they_bring_along() {
    let mut world = World::new();
    world.ask(import("am_1", Voice::User, "offline", &local("local_1", 7)));
    world.ask(import("am_2", Voice::Agent, "reply", &local("local_2", 3)));
    let row = world.rows.message("am_1");
    assert_eq!(
        (number(row, "sequence_number"), text(row, "local_id"), text(row, "server_id")),
        (7, "local_1", "am_1")
    );
    assert_eq!(
        (number(row, "created_at"), number(row, "synced_at")),
        (i64::try_from(BEGIN).unwrap() - 60_000, i64::try_from(BEGIN).unwrap())
    );
    let row = world.rows.message("am_2");
    assert_eq!(number(row, "sequence_number"), 8, "3 is below the highest");
    assert_eq!((text(row, "message_role"), text(row, "previous_id")), ("assistant", "am_1"));
    assert!(world.entries.iter().all(|entry| entry.is_aside()));
    let bodies = world.bodies();
    assert_eq!(kinds(&bodies), [2, 3]);
    let Body::AssistantMessage(announced) = &bodies[1] else { panic!("{bodies:?}") };
    let superset = announced.superset.as_ref().unwrap();
    assert_eq!(
        (superset.local_id.as_deref(), superset.server_id.as_deref()),
        (Some("local_2"), Some("am_2"))
    );
    world.ask(import("am_3", Voice::User, "far away", &local("local_3", i64::MAX)));
    assert_eq!(number(world.rows.message("am_3"), "sequence_number"), 9);
    world.record(&Deed::Conflicted { message: "am_1".into() });
    assert_eq!(text(world.rows.message("am_1"), "sync_status"), "conflict");
}

#[test]
fn a_sibling_has_the_number_of_the_message_beside_it() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Answer.");
    world.complete("t1");
    let luggage = Luggage { number: Some(1), sibling: true, ..Luggage::default() };
    world.start("t2", "edited", &Wishes::default(), names("t2"), luggage);
    assert_eq!(number(world.rows.message("am_t2_in"), "sequence_number"), 1);
    assert_eq!(world.annals.next_number(), 3);
}

#[test]
fn al_078_an_edit_changes_the_row_and_is_told_under_the_same_id() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Wrong.");
    world.complete("t1");
    world.bodies();
    world.pass(1_000);
    world.ask(Op::Edit { message: "am_t1_out".into(), parts: vec![Part::Text("Right.".into())] });
    let sentences = world.rows.of("alicia_sentences", "message_id", "am_t1_out");
    assert!(!sentences.is_empty() && sentences.iter().all(|row| !is_null(row, "deleted_at")));
    let bodies = world.bodies();
    let [Body::AssistantMessage(edited)] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!((edited.id.as_str(), edited.content.0.as_str()), ("am_t1_out", "Right."));
    let superset = edited.superset.as_ref().unwrap();
    assert_eq!((superset.sequence_number, superset.created_at.as_str()), (2, "2026-01-01T00:00:00.000Z"));
    assert_eq!(superset.updated_at, "2026-01-01T00:00:01.000Z");
    let row = world.rows.message("am_t1_out");
    assert_eq!(
        (text(row, "contents"), number(row, "updated_at")),
        ("Right.", i64::try_from(BEGIN).unwrap() + 1_000)
    );
}

#[test]
fn the_tip_can_be_moved() {
    let mut world = World::new();
    world.run("t1");
    world.tell("t1", "Answer.");
    world.complete("t1");
    world.ask(Op::MoveTip { tip: "am_t1_in".into() });
    assert_eq!(text(world.rows.conversation(), "tip_message_id"), "am_t1_in");
    assert_eq!(world.annals.tip().map(|tip| tip.as_str()), Some("am_t1_in"));
}

#[test]
fn title_and_status_are_noticed() {
    let mut world = World::new();
    world.pass(7);
    world.ask(Op::Rename { name: "New".into() });
    world.ask(Op::Stand(Standing::Archived));
    assert_eq!(world.notices, [Notice::Updated, Notice::Updated]);
    let update = world.annals.update();
    assert_eq!(update.title.unwrap().0, "New");
    assert_eq!(update.updated_at, "2026-01-01T00:00:00.007Z");
    let row = world.rows.conversation();
    assert_eq!((text(row, "title"), text(row, "status")), ("New", "archived"));
    assert!(is_null(row, "deleted_at"));
    world.ask(Op::Stand(Standing::Deleted));
    assert_eq!(number(world.rows.conversation(), "deleted_at"), i64::try_from(BEGIN).unwrap() + 7);
}

#[test]
fn what_other_protocols_tell_is_stored_and_announced_by_its_voice() {
    let mut world = World::new();
    let mut new = chat("inv_1", "now", Default::default());
    new.origin.protocol = "asp".into();
    let told = |voice, text: &str| Told { voice, text: text.to_owned() };
    new.history =
        Some(vec![told(Voice::System, "be nice"), told(Voice::User, "hi"), told(Voice::Agent, "hello")]);
    world.ask(Op::StartTurn(Box::new(new)));
    assert_eq!(kinds(&world.bodies()), [2, 3, 2], "instructions are nobody's business");
    assert_eq!(text(world.rows.message("inv_1.told0"), "message_role"), "system");
    assert_eq!(number(world.rows.message("inv_1.in"), "sequence_number"), 4);
}

#[test]
fn a_conversation_whose_numbers_are_used_up_says_nothing_more() {
    let mut world = World::new();
    let state = String::from_utf8(world.annals.state().to_vec()).unwrap();
    let late = state.replacen("\"head\":0", "\"head\":-2147483646", 1);
    world.annals = Annals::restore(late.as_bytes()).expect("a state");
    assert!(!world.annals.is_exhausted());
    world.run("t1");
    assert!(world.annals.is_exhausted());
    assert_eq!(world.entries.last().map(|entry| entry.stanza), Some(-2_147_483_647));
    world.complete("t1");
    assert_eq!(kinds(&world.bodies()), [2, 13]);
    assert_eq!(text(world.rows.message("am_t1_out"), "completion_status"), "completed");
    assert!(Annals::restore(b"").is_none() && Annals::restore(&[0, b'{', b'}']).is_none());
}

#[test]
fn what_has_no_form_on_the_wire_is_stored_alone() {
    let mut world = World::new();
    world.ask(import("am_1", Voice::User, "  ", &Luggage::default()));
    assert!(world.bodies().is_empty());
    assert_eq!(text(world.rows.message("am_1"), "contents"), "  ");
    world.ask(import("am_2", Voice::User, &"é".repeat(60_000), &Luggage::default()));
    let bodies = world.bodies();
    let [Body::UserMessage(announced)] = bodies.as_slice() else { panic!("{bodies:?}") };
    assert_eq!(announced.content.0.len(), 65_536);
    assert_eq!(text(world.rows.message("am_2"), "contents").len(), 120_000);
}
