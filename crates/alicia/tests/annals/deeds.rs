//! What clients do beside the turns.

use serde_json::{Map, json};
use switchboard_alicia::annals::Notice;
use switchboard_alicia::deed::{self, Deed};
use switchboard_core::model::Op;

use crate::support::{CONVERSATION, World, is_null, number, text};

fn vote(id: &str, vote: Option<&str>) -> Deed {
    Deed::Voted {
        id: id.into(),
        message: "am_1".into(),
        target_type: "message".into(),
        target: "am_1".into(),
        vote: vote.map(str::to_owned),
        quick: Some("incorrect".into()),
        note: None,
    }
}

#[test]
fn al_082_a_second_vote_takes_the_place_of_the_first() {
    let mut world = World::new();
    world.record(&vote("av_1", Some("up")));
    world.record(&vote("av_2", Some("critical")));
    let row = world.rows.one("alicia_votes", "target_id", "am_1");
    assert_eq!((text(row, "id"), text(row, "vote"), text(row, "created_by")), ("av_2", "critical", "ann"));
    assert!(is_null(row, "deleted_at"));
    world.record(&vote("av_3", None));
    assert!(!is_null(world.rows.one("alicia_votes", "target_id", "am_1"), "deleted_at"));
    world.record(&vote("av_4", Some("down")));
    assert!(is_null(world.rows.one("alicia_votes", "target_id", "am_1"), "deleted_at"));
    assert!(world.bodies().is_empty(), "nobody else is told");
}

#[test]
fn notes_are_written_changed_and_withdrawn() {
    let mut world = World::new();
    let note = |content: Option<&str>, category: Option<&str>| Deed::Noted {
        id: "an_1".into(),
        message: "am_1".into(),
        content: content.map(str::to_owned),
        category: category.map(str::to_owned),
    };
    world.record(&note(Some("one"), Some("general")));
    world.pass(10);
    world.record(&note(Some("two"), None));
    let row = world.rows.one("alicia_notes", "id", "an_1");
    assert_eq!((text(row, "content"), text(row, "category")), ("two", "general"));
    assert_eq!(number(row, "updated_at") - number(row, "created_at"), 10);
    world.record(&note(None, None));
    assert!(!is_null(world.rows.one("alicia_notes", "id", "an_1"), "deleted_at"));
}

#[test]
fn commentaries_keep_their_type_in_meta() {
    let mut world = World::new();
    world.record(&Deed::Commented {
        id: "aucc_1".into(),
        message: None,
        content: "well".into(),
        kind: Some("note".into()),
        meta: Map::from_iter([("rating".to_owned(), json!(3))]),
    });
    let row = world.rows.one("alicia_user_conversation_commentaries", "id", "aucc_1");
    assert!(is_null(row, "message_id"));
    assert_eq!(text(row, "meta"), r#"{"rating":3,"commentary_type":"note"}"#);
}

#[test]
fn weights_and_elites_are_preferences_of_the_conversation() {
    let mut world = World::new();
    let weights = [0.4, 0.25, 0.1, 0.1, 0.1, 0.03, 0.02];
    world.record(&Deed::Weighed { weights });
    world.record(&Deed::Chose { elite: "pa_1".into() });
    assert_eq!(world.notices, [Notice::Elites, Notice::Elites]);
    assert_eq!((world.annals.weights(), world.annals.elite()), (Some(weights), Some("pa_1")));
    let stored: serde_json::Value =
        serde_json::from_str(text(world.rows.conversation(), "preferences")).unwrap();
    assert_eq!(stored["dimension_weights"]["successRate"], json!(0.4));
    assert_eq!(stored["elite_id"], json!("pa_1"));
}

#[test]
fn preferences_change_member_by_member_and_are_bounded() {
    let mut world = World::new();
    let prefer =
        |value: serde_json::Value| Deed::Preferred { preferences: value.as_object().cloned().unwrap() };
    world.record(&prefer(json!({"a": 1, "b": 2, "enable_reasoning": false, "elite_id": "forged"})));
    world.record(&prefer(json!({"a": null, "big": "x".repeat(20_000)})));
    assert_eq!(json!(world.annals.preferences()), json!({"b": 2, "enable_reasoning": false}));
    assert!(!world.annals.shows_reasoning());
    assert_eq!(world.annals.elite(), None);
}

#[test]
fn a_client_that_introduces_itself_leaves_its_device_and_language() {
    let mut world = World::new();
    world.record(&Deed::Introduced {
        device: Some("web".into()),
        version: Some("0.1.0".into()),
        language: Some("pt".into()),
    });
    let rows = world.rows.of("alicia_meta", "ref", CONVERSATION);
    let entries: Vec<_> = rows.iter().map(|row| (text(row, "key"), text(row, "value"))).collect();
    assert_eq!(entries, [("clientVersion", "0.1.0"), ("device", "web")]);
    assert_eq!(text(world.rows.conversation(), "preferences"), r#"{"language":"pt"}"#);
}

#[test]
fn what_was_heard_is_kept() {
    let mut world = World::new();
    world.record(&Deed::Heard {
        id: "aa_1".into(),
        message: Some("am_1".into()),
        format: "audio/opus".into(),
        duration_ms: 900,
        transcription: Some("hi".into()),
        meta: Map::from_iter([("language".to_owned(), json!("en"))]),
    });
    let row = world.rows.one("alicia_audio", "id", "aa_1");
    assert_eq!(
        (text(row, "audio_type"), text(row, "transcription"), number(row, "duration_ms")),
        ("input", "hi", 900)
    );
    assert_eq!(text(row, "transcription_meta"), r#"{"language":"en","duration":900}"#);
}

#[test]
fn a_notebook_is_no_conversation_and_holds_memories() {
    let mut world = World::named(Some(deed::NOTEBOOK));
    assert!(world.annals.is_notebook());
    assert!(world.rows.is_empty(), "{:?}", world.rows);
    world.run("t1");
    world.complete("t1");
    world.record(&vote("av_1", Some("up")));
    assert!(world.rows.is_empty() && world.entries.is_empty() && world.notices.is_empty());
    let memory = |content: Option<&str>, pinned, deleted, created: bool| Deed::Memorised {
        id: "amem_1".into(),
        content: content.map(str::to_owned),
        category: created.then(|| "fact".to_owned()),
        pinned,
        archived: None,
        deleted,
        created,
    };
    world.record(&memory(Some("likes tea"), None, false, true));
    world.record(&Deed::Embedded { id: "amem_1".into(), digest: "d".into(), vector: vec![0.5, -1.0] });
    let row = world.rows.one("alicia_memory", "id", "amem_1");
    assert_eq!(
        (text(row, "user_id"), text(row, "tags"), text(row, "source_type")),
        ("ann", r#"["fact"]"#, "manual")
    );
    assert_eq!((row["importance"].as_real(), row["confidence"].as_real()), (Some(0.5), Some(1.0)));
    assert_eq!((number(row, "pinned"), number(row, "archived")), (0, 0));
    let numbers: Vec<f32> = row["embeddings"]
        .as_blob()
        .unwrap()
        .chunks(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect();
    assert_eq!(numbers, [0.5, -1.0]);
    world.record(&memory(None, Some(true), false, false));
    let row = world.rows.one("alicia_memory", "id", "amem_1");
    assert_eq!((number(row, "pinned"), text(row, "content")), (1, "likes tea"));
    assert_eq!(row["importance"].as_real(), Some(0.5));
    world.record(&memory(Some("likes coffee"), None, false, false));
    let row = world.rows.one("alicia_memory", "id", "amem_1");
    assert!(is_null(row, "embeddings") && is_null(row, "embedding_digest"), "it says something else");
    world.record(&memory(None, None, true, false));
    assert!(!is_null(world.rows.one("alicia_memory", "id", "amem_1"), "deleted_at"));
}

#[test]
fn records_of_others_and_of_later_versions_are_passed_over() {
    let mut world = World::new();
    world.ask(Op::Record { chronicle: deed::CHRONICLE.into(), record: json!({"deed": "teleported"}) });
    assert!(world.notices.is_empty() && world.entries.is_empty());
}
