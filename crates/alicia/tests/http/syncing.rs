//! Messages written offline.

use serde_json::{Value, json};
use switchboard_alicia::value::{Map, Value as Packed, decode_msgpack, encode_msgpack};
use switchboard_core::{Method, SessionId};

use crate::town::Town;

fn offline(local_id: &str, contents: &str) -> Value {
    json!({
        "local_id": local_id, "sequence_number": 7, "role": "user", "contents": contents,
        "created_at": "2025-12-24T18:00:00Z",
    })
}

fn sync(town: &mut Town, id: &str, messages: Value) -> Value {
    let answer = town.post(&format!("/api/v1/conversations/{id}/sync"), &json!({ "messages": messages }));
    assert_eq!((answer.status, answer.media.as_deref()), (200, Some("application/json")), "{answer:?}");
    let answer = answer.json();
    assert!(answer["synced_at"].as_str().unwrap().starts_with("2026-01-01T"));
    answer["synced_messages"].clone()
}

fn reasons(synced: &Value) -> Vec<&str> {
    synced
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["conflict"]["reason"].as_str().unwrap_or("synced"))
        .collect()
}

#[test]
fn al_099_every_message_gets_its_result_in_order() {
    let mut town = Town::new();
    let id = town.conversation();
    let mut reply = offline("local_2", "reply");
    reply["previous_id"] = json!("local_1");
    reply["role"] = json!("assistant");
    let synced = sync(&mut town, &id, json!([offline("local_1", "first"), reply, offline("", "nameless")]));
    assert_eq!(reasons(&synced), ["synced", "synced", "Local ID is required"]);
    let (first, second) = (&synced[0], &synced[1]);
    assert_eq!((&first["local_id"], &first["status"]), (&json!("local_1"), &json!("synced")));
    assert_eq!(first["server_id"], first["message"]["id"]);
    assert_eq!(
        (&first["message"]["sequence_number"], &first["message"]["created_at"]),
        (&json!(7), &json!("2025-12-24T18:00:00.000Z"))
    );
    assert_eq!(
        (&second["message"]["role"], &second["message"]["previous_id"]),
        (&json!("assistant"), &first["server_id"])
    );
    assert_eq!(second["message"]["sequence_number"], json!(8), "7 is taken");
    assert_eq!(
        (&synced[2]["server_id"], &synced[2]["conflict"]["resolution"]),
        (&json!(""), &json!("manual"))
    );
    let shown = town.get(&format!("/api/v1/conversations/{id}")).json();
    assert_eq!(shown["tip_message_id"], second["server_id"]);
}

#[test]
fn al_100_a_message_synced_again_is_the_same_unless_it_says_something_else() {
    let mut town = Town::new();
    let id = town.conversation();
    let first = sync(&mut town, &id, json!([offline("local_1", "words")]));
    assert_eq!(sync(&mut town, &id, json!([offline("local_1", "words")])), first);
    let other = sync(&mut town, &id, json!([offline("local_1", "other words")]));
    assert_eq!(reasons(&other), ["Content mismatch with existing message"]);
    assert_eq!(
        (&other[0]["server_id"], &other[0]["conflict"]["server_message"]["contents"]),
        (&first[0]["server_id"], &json!("words"))
    );
    let status = town.get(&format!("/api/v1/conversations/{id}/sync/status")).json();
    assert_eq!(
        (&status["conflict_count"], &status["synced_count"], &status["pending_count"]),
        (&json!(1), &json!(0), &json!(0))
    );
}

#[test]
fn al_101_sync_answers_nothing_and_one_failure_undoes_no_other() {
    let mut town = Town::new();
    let id = town.conversation();
    let mut dangling = offline("local_2", "dangling");
    dangling["previous_id"] = json!("am_unknown");
    let mut odd = offline("local_3", "odd");
    odd["previous_id"] = json!("two words");
    let mut system = offline("local_4", "obey");
    system["role"] = json!("system");
    let mut voiceless = offline("local_5", "who");
    voiceless.as_object_mut().unwrap().remove("role");
    let long = offline("local_6", &"x".repeat(65_537));
    let messages =
        json!([offline("local_1", "a"), dangling, odd, system, voiceless, long, offline("local_7", "b")]);
    let synced = sync(&mut town, &id, messages);
    assert_eq!(
        reasons(&synced),
        [
            "synced",
            "Previous message not found",
            "Previous message not found",
            "Role not allowed",
            "Message role is required",
            "Message contents are too long",
            "synced"
        ]
    );
    assert_eq!(town.annals(&SessionId::new(id.as_str())).live_answers().count(), 0);
    let status = town.get(&format!("/api/v1/conversations/{id}/sync/status")).json();
    assert_eq!((&status["synced_count"], &status["conflict_count"]), (&json!(2), &json!(0)));
    assert!(status["last_synced_at"].as_str().unwrap().starts_with("2026-01-01T"));
}

#[test]
fn a_parent_may_be_named_by_either_side() {
    let mut town = Town::new();
    let id = town.conversation();
    let first = sync(&mut town, &id, json!([offline("local_1", "first"), offline("local_2", "second")]));
    let server_id = first[0]["server_id"].clone();
    let mut by_server = offline("local_3", "third");
    by_server["previous_id"] = server_id.clone();
    let mut by_client = offline("local_4", "fourth");
    by_client["previous_id"] = json!("local_1");
    let later = sync(&mut town, &id, json!([by_server, by_client]));
    assert_eq!(reasons(&later), ["synced", "synced"]);
    assert_eq!(
        (&later[0]["message"]["previous_id"], &later[1]["message"]["previous_id"]),
        (&server_id, &server_id)
    );
}

#[test]
fn of_two_who_sync_the_same_message_at_once_one_finds_it_stored() {
    let mut town = Town::new();
    let id = town.conversation();
    let session = SessionId::new(id.as_str());
    let mut twin = Town::new();
    assert_eq!(twin.conversation(), id, "the same seeds give the same names");
    let stored = sync(&mut twin, &id, json!([offline("local_1", "words")]))[0]["server_id"].clone();
    let luggage =
        switchboard_alicia::deed::Luggage { local_id: Some("local_1".into()), ..Default::default() };
    let import = switchboard_core::model::Import {
        id: stored.as_str().unwrap().into(),
        parent: switchboard_core::model::Parent::Tip,
        voice: switchboard_core::model::Voice::User,
        text: "words".into(),
        meta: luggage.to_meta(),
    };
    town.meanwhile = Some((session, switchboard_core::model::Op::Import(Box::new(import))));
    let synced = sync(&mut town, &id, json!([offline("local_1", "words")]));
    assert_eq!((reasons(&synced), &synced[0]["server_id"]), (vec!["synced"], &stored));
    let all = town.get(&format!("/api/v1/conversations/{id}/messages?all=true")).json();
    assert_eq!(all["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn message_pack_is_spoken_in_the_names_of_the_wire() {
    let mut town = Town::new();
    let id = town.conversation();
    let message = Map::new()
        .with("localId", "local_1")
        .with("sequenceNumber", 1_i64)
        .with("role", "user")
        .with("contents", "packed")
        .with("createdAt", "yesterday");
    let request = Packed::Map(Map::new().with("messages", Packed::Array(vec![Packed::Map(message)])));
    let mut body = bytes::BytesMut::new();
    encode_msgpack(&request, &mut body);
    let body = body.freeze();
    let path = format!("/api/v1/conversations/{id}/sync");
    let msgpack = ("content-type", "application/msgpack");
    for (headers, packed) in [
        (vec![msgpack], true),
        (vec![msgpack, ("accept", "*/*")], true),
        (vec![msgpack, ("accept", "application/json")], false),
    ] {
        let answer = town.ask("ann", Method::Post, &path, &headers, body.clone());
        assert_eq!(answer.status, 200);
        if packed {
            assert_eq!(answer.media.as_deref(), Some("application/msgpack"));
            let value = decode_msgpack(&answer.body).unwrap();
            let synced = value.as_map().unwrap().get("syncedMessages").and_then(Packed::as_array).unwrap();
            assert_eq!(synced[0].as_map().unwrap().get_str("status"), Some("synced"));
        } else {
            assert_eq!(answer.json()["synced_messages"][0]["message"]["contents"], json!("packed"));
        }
    }
    let json = ("accept", "application/msgpack");
    let answer = town.ask("ann", Method::Post, &path, &[json], json!({"messages": []}).to_string());
    assert_eq!(answer.media.as_deref(), Some("application/msgpack"));
}

#[test]
fn malformed_batches_are_refused_as_a_whole() {
    let mut town = Town::new();
    let path = format!("/api/v1/conversations/{}/sync", town.conversation());
    let many: Vec<Value> = (0..501).map(|number| offline(&format!("local_{number}"), "x")).collect();
    for body in [json!({}), json!({"messages": 7}), json!({ "messages": many })] {
        let answer = town.post(&path, &body);
        assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("bad_request")));
    }
    let answer = town.ask("ann", Method::Post, &path, &[("content-type", "application/msgpack")], "\u{1}");
    assert_eq!(answer.status, 400);
    let all = town.get(&path.replace("/sync", "/messages?all=true")).json();
    assert_eq!(all["messages"], json!([]));
}
