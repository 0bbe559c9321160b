//! Conversations as a whole.

use serde_json::{Value, json};
use switchboard_alicia::deed::{self, Deed};
use switchboard_core::model::Op;
use switchboard_core::{Method, Principal, SessionId};

use crate::town::Town;

fn named(town: &mut Town, title: &str) -> Value {
    let answer = town.post("/api/v1/conversations", &json!({ "title": title, "preferences": {"a": 1} }));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

#[test]
fn a_conversation_is_created_shown_and_listed() {
    let mut town = Town::new();
    let made = named(&mut town, " Tea ");
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("ac_") && id.len() == 24, "{id}");
    assert_eq!(
        (&made["title"], &made["status"], &made["user_id"]),
        (&json!("Tea"), &json!("active"), &json!("ann"))
    );
    assert_eq!(made["preferences"], json!({"a": 1}));
    assert_eq!(made["livekit_room_name"], json!(format!("conv_{id}")));
    let shown = town.get(&format!("/api/v1/conversations/{id}"));
    assert_eq!((shown.status, shown.media.as_deref()), (200, Some("application/json")));
    assert_eq!(shown.json(), made);
    let by_room = town.get(&format!("/api/v1/conversations/conv_{id}"));
    assert_eq!(by_room.json(), made);
    let other = named(&mut town, "Coffee");
    let list = town.get("/api/v1/conversations").json();
    assert_eq!(list["conversations"], json!([other, made]), "the newest first");
    assert_eq!(list["has_more"], json!(false));
    let page = town.get("/api/v1/conversations?limit=1").json();
    assert_eq!((&page["conversations"], &page["has_more"]), (&json!([other]), &json!(true)));
    let before = page["next_before"].as_i64().unwrap();
    let page = town.get(&format!("/api/v1/conversations?before={before}")).json();
    assert_eq!(page["conversations"], json!([made]));
}

#[test]
fn al_030_foreign_and_unknown_conversations_look_the_same() {
    let mut town = Town::new();
    let id = town.conversation();
    let foreign = |town: &mut Town, method, tail: &str, body: &str| {
        town.ask("bob", method, &format!("/api/v1/conversations/{id}{tail}"), &[], body.to_owned())
    };
    let unknown = town.get("/api/v1/conversations/ac_unknown");
    assert_eq!(unknown.status, 404);
    assert_eq!(
        unknown.json(),
        json!({"error": "not_found", "message": "This conversation does not exist.", "code": 404})
    );
    for (method, tail, body) in [
        (Method::Get, "", ""),
        (Method::Patch, "", "{\"title\":\"mine\"}"),
        (Method::Delete, "", ""),
        (Method::Get, "/messages", ""),
        (Method::Post, "/messages", "{\"contents\":\"hi\"}"),
        (Method::Post, "/sync", "{\"messages\":[]}"),
        (Method::Get, "/sync/status", ""),
        (Method::Post, "/switch-branch", "{\"tip_message_id\":\"am_1\"}"),
        (Method::Post, "/token", "{\"participant_id\":\"p\"}"),
    ] {
        let answer = foreign(&mut town, method, tail, body);
        assert_eq!((answer.status, answer.json()), (404, unknown.json()), "{tail}");
    }
    let list = town.ask("bob", Method::Get, "/api/v1/conversations", &[], "").json();
    assert_eq!(list["conversations"], json!([]));
}

#[test]
fn a_conversation_is_renamed_put_away_and_taken_up() {
    let mut town = Town::new();
    let path = format!("/api/v1/conversations/{}", town.conversation());
    let patch = |town: &mut Town, body: Value| town.ask("ann", Method::Patch, &path, &[], body.to_string());
    let changed = patch(
        &mut town,
        json!({"title": "New", "preferences": {"enable_reasoning": false}, "status": "archived"}),
    );
    assert_eq!(changed.status, 200);
    let changed = changed.json();
    assert_eq!((&changed["title"], &changed["status"]), (&json!("New"), &json!("archived")));
    assert_eq!(changed["preferences"], json!({"enable_reasoning": false}));
    assert_eq!(patch(&mut town, json!({"title": "Newer"})).status, 409, "it takes no changes");
    assert_eq!(
        town.post(&format!("{path}/messages"), &json!({"contents": "hi"})).json()["error"],
        json!("inactive")
    );
    assert_eq!(town.get("/api/v1/conversations?status=active").json()["conversations"], json!([]));
    let taken_up = patch(&mut town, json!({"title": "Newer", "status": "active"})).json();
    assert_eq!((&taken_up["title"], &taken_up["status"]), (&json!("Newer"), &json!("active")));
    assert_eq!(patch(&mut town, json!({})).status, 200, "nothing to change is no fault");
}

#[test]
fn a_deleted_conversation_is_gone() {
    let mut town = Town::new();
    let path = format!("/api/v1/conversations/{}", town.conversation());
    let deleted = town.ask("ann", Method::Delete, &path, &[], "");
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(town.get(&path).status, 404);
    assert_eq!(town.ask("ann", Method::Delete, &path, &[], "").status, 404);
    assert_eq!(town.get("/api/v1/conversations").json()["conversations"], json!([]));
}

#[test]
fn half_a_surrogate_pair_is_read_as_a_replacement() {
    let mut town = Town::new();
    let path = "/api/v1/conversations";
    let answer = town.ask("ann", Method::Post, path, &[], r#"{"title":"hi \ud83d"}"#);
    assert_eq!(answer.json()["title"], "hi \u{fffd}");
}

#[test]
fn what_is_malformed_is_refused() {
    let mut town = Town::new();
    let path = format!("/api/v1/conversations/{}", town.conversation());
    for body in [
        "[]",
        "nonsense",
        "{\"title\":7}",
        "{\"status\":\"gone\"}",
        "{\"preferences\":[]}",
        "{\"title\":\"a\\u0000b\"}",
    ] {
        let answer = town.ask("ann", Method::Patch, &path, &[], body);
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!(400)), "{body}");
    }
    let notebook = town.post("/api/v1/conversations", &json!({ "title": deed::NOTEBOOK }));
    assert_eq!(notebook.status, 400, "nobody makes a notebook by its name");
    for query in ["limit=0", "before=x", "status=deleted"] {
        assert_eq!(town.get(&format!("/api/v1/conversations?{query}")).status, 400, "{query}");
    }
    let large = town.post("/api/v1/conversations", &json!({ "preferences": {"a": "x".repeat(20_000)} }));
    assert_eq!(large.status, 413);
    let larger = town.ask("ann", Method::Post, "/api/v1/conversations", &[], vec![b' '; (1 << 20) + 1]);
    assert_eq!((larger.status, &larger.json()["error"]), (413, &json!("too_large")));
}

#[test]
fn there_are_no_rooms() {
    let mut town = Town::new();
    let id = town.conversation();
    let token = town.post(&format!("/api/v1/conversations/{id}/token"), &json!({"participant_id": "p"}));
    assert_eq!((token.status, &token.json()["error"]), (501, &json!("not_implemented")));
    assert!(token.json()["message"].as_str().unwrap().contains("LiveKit"));
    let config = town.get("/api/v1/config").json();
    assert_eq!(config, json!({"livekit_url": null, "tts_enabled": false, "asr_enabled": false, "tts": null}));
}

#[test]
fn a_session_of_another_protocol_is_taken_over() {
    let mut town = Town::new();
    let session = SessionId::new("ses_other");
    town.submit("ann", &session, &Op::Open { epoch: 1, agent: "agent".into(), name: Some("Old".into()) })
        .unwrap();
    assert_eq!(
        town.get("/api/v1/conversations").json()["conversations"],
        json!([]),
        "nobody has asked for an account"
    );
    let answer = town.get("/api/v1/conversations/ses_other");
    assert_eq!((answer.status, &answer.json()["title"]), (200, &json!("Old")));
    assert_eq!(town.get("/api/v1/conversations").json()["conversations"], json!([answer.json()]));
    assert_eq!(town.ask("bob", Method::Get, "/api/v1/conversations/ses_other", &[], "").status, 404);
}

#[test]
fn memories_are_listed_for_their_owner() {
    let mut town = Town::new();
    let notebook = SessionId::named(&Principal::new("ann"), deed::NOTEBOOK);
    let name = Some(deed::NOTEBOOK.to_owned());
    town.submit("ann", &notebook, &Op::Open { epoch: 1, agent: "agent".into(), name }).unwrap();
    town.submit("ann", &notebook, &Op::Chronicle { chronicle: deed::CHRONICLE.into() }).unwrap();
    for (id, pinned, deleted) in [("amem_1", false, false), ("amem_2", true, false), ("amem_3", false, true)]
    {
        let deed = Deed::Memorised {
            id: id.into(),
            content: Some(format!("fact {id}")),
            category: Some("fact".into()),
            pinned: Some(pinned),
            archived: None,
            deleted: false,
            created: true,
        };
        let record = |deed: &Deed| Op::Record { chronicle: deed::CHRONICLE.into(), record: deed.to_record() };
        town.submit("ann", &notebook, &record(&deed)).unwrap();
        if deleted {
            let deed = Deed::Memorised {
                id: id.into(),
                content: None,
                category: None,
                pinned: None,
                archived: None,
                deleted,
                created: false,
            };
            town.submit("ann", &notebook, &record(&deed)).unwrap();
        }
    }
    let list = town.get("/api/v1/memories").json();
    let memories = list["memories"].as_array().unwrap();
    assert_eq!(
        memories.iter().map(|memory| memory["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["amem_2", "amem_1"]
    );
    assert_eq!((&memories[0]["category"], &memories[0]["pinned"]), (&json!("fact"), &json!(true)));
    let foreign = town.ask("bob", Method::Get, "/api/v1/memories", &[], "").json();
    assert_eq!(foreign, json!({"memories": [], "total": 0}));
    let page = format!("/api/v1/conversations/{notebook}");
    assert_eq!(town.get(&page).status, 404, "a notebook is no conversation");
}
