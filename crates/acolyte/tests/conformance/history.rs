//! Histories that clients tell (§5.1, R14, R15): AC-070.

use serde_json::{Value, json};
use switchboard_core::Event;
use switchboard_core::model::Author;
use switchboard_testkit::Script;

use crate::support::{Talk, gist, short, start_with};

fn entry(role: &str, content: &str) -> Value {
    json!({"id": "msg_1", "role": role, "content": content, "timestamp": "2026-01-01T00:00:00.000Z"})
}

fn ask(talk: &mut Talk, message: &str, history: &[Value]) -> Vec<String> {
    let request = json!({"message": message, "history": history, "model": "m", "sessionId": "sess_s"});
    talk.say(talk.peer, &start_with("rpc_q", request));
    gist(&talk.here())
}

/// The messages of the session, as voice and text, in order of their arrival.
fn messages(talk: &Talk) -> Vec<String> {
    let log = talk.world.log(&Talk::session("sess_s"));
    log.iter()
        .filter_map(|committed| match &committed.event {
            Event::MessageAdded { message } => {
                let voice = match message.author {
                    Author::User(_) => "user",
                    Author::Agent(_) => "agent",
                    Author::System => "system",
                };
                Some(format!("{voice} {}", message.text()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn the_history_that_is_told_is_what_the_turn_follows() {
    let mut talk = Talk::new(Script::new());
    let told = [entry("system", "Be brief."), entry("user", "one"), entry("assistant", "1")];
    ask(&mut talk, "two", &told);
    assert_eq!(messages(&talk), ["user Be brief.", "user one", "agent 1", "user two"]);
    // A client speaks for its user: what it tells as the system's is not the operator's.
    let recalled = talk.world.log(&Talk::session("sess_s")).iter().find_map(|committed| {
        if let Event::TurnAccepted { recall, .. } = &committed.event { *recall } else { None }
    });
    assert_eq!(recalled, Some(3));
    // What is known word for word is not stored again.
    let mut told = told.to_vec();
    told.extend([entry("user", "two"), entry("assistant", "two")]);
    ask(&mut talk, "three", &told);
    assert_eq!(messages(&talk)[4..], ["user three"]);
}

#[test]
fn a_history_that_ends_with_the_message_itself_does_not_say_it_twice() {
    for told in [
        vec![entry("user", "one"), entry("assistant", "1"), entry("user", "two")],
        vec![entry("user", "one"), entry("assistant", "1")],
    ] {
        let mut talk = Talk::new(Script::new());
        ask(&mut talk, "two", &told);
        assert_eq!(messages(&talk), ["user one", "agent 1", "user two"]);
    }
    // Only the last one, only the user's, and only if it is the same.
    let mut talk = Talk::new(Script::new());
    ask(&mut talk, "two", &[entry("user", "two"), entry("assistant", "two")]);
    assert_eq!(messages(&talk), ["user two", "agent two", "user two"]);
    let mut talk = Talk::new(Script::new());
    ask(&mut talk, "two", &[entry("user", "two ")]);
    assert_eq!(messages(&talk), ["user two ", "user two"]);
}

#[test]
fn remarks_of_the_client_are_nobodys_words() {
    let status = json!({"id": "msg_2", "role": "assistant", "content": "connected", "kind": "status",
        "timestamp": "2026-01-01T00:00:00.000Z"});
    let payload = json!({"id": "msg_3", "role": "assistant", "content": "{}", "kind": "tool_payload",
        "timestamp": "2026-01-01T00:00:00.000Z"});
    let mut talk = Talk::new(Script::new());
    ask(&mut talk, "two", &[payload, entry("user", "two"), status]);
    assert_eq!(messages(&talk), ["agent {}", "user two"], "the message is the last that was said");
}

#[test]
fn a_message_may_be_empty_if_there_is_something_to_ask() {
    let mut talk = Talk::new(Script::new());
    let heard = ask(&mut talk, "", &[]);
    assert_eq!(heard, ["q accepted", "q started", "q error E_UNKNOWN"]);
    let heard = ask(&mut talk, "", &[entry("user", "one")]);
    assert!(heard.last().unwrap().starts_with("q done"), "{heard:?}");
}

#[test]
fn ac_070_entries_that_cannot_be_used_end_the_chat_and_nothing_else() {
    for bad in [
        json!(5),
        json!(null),
        json!("x"),
        json!({}),
        json!({"role": "user"}),
        json!({"role": "robot", "content": "x"}),
        json!({"role": "user", "content": 5}),
        json!({"role": "user", "content": "x", "kind": "video"}),
        json!({"role": "user", "content": "x", "kind": null}),
    ] {
        let mut talk = Talk::new(Script::new());
        let request = json!({"message": "hi", "history": [entry("user", "a"), bad], "model": "m"});
        talk.say(talk.peer, &start_with("rpc_1", request));
        let heard = talk.here();
        assert_eq!(short(&heard), ["1 accepted", "1 started", "1 error E_UNKNOWN"], "{bad}");
        assert_eq!(talk.state(talk.peer, heard[0]["taskId"].as_str().unwrap()), "failed");
        talk.start("rpc_2", "hello");
        assert_eq!(gist(&talk.here()).last().unwrap(), r#"2 done "hello""#);
    }
}

#[test]
fn chats_without_a_session_share_nothing() {
    let mut talk = Talk::new(Script::new());
    talk.start("rpc_1", "one");
    talk.start("rpc_2", "two");
    talk.here();
    assert_eq!(talk.world.session_ids().len(), 2);
}
