//! What the existing web client has run into (appendix B).

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::super::check::{Check, Need, Outcome, Run, Stop, must};
use super::super::inbox::Inbox as _;
use super::peer::{
    ERROR, Envelope, Peer, RESULT, SENTENCE, START, SUBSCRIBE, SUBSCRIBED, SYNC, SYNCED, USER,
};
use super::sentences;
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[111], needs: &[], run: |run| Box::pin(a_trace_names_the_answer(run)) },
    Check { shows: &[112], needs: &[], run: |run| Box::pin(both_spellings(run)) },
    Check { shows: &[113], needs: &[], run: |run| Box::pin(the_reply_before_the_answer(run)) },
    Check { shows: &[114], needs: &[Need::Says("words")], run: |run| Box::pin(synced_during_an_answer(run)) },
    Check { shows: &[115], needs: &[], run: |run| Box::pin(a_hundred_subscriptions(run)) },
    Check { shows: &[116], needs: &[], run: |run| Box::pin(what_cannot_be_synced(run)) },
    Check {
        shows: &[117],
        needs: &[Need::Says("tool-error")],
        run: |run| Box::pin(the_word_for_a_failure(run)),
    },
    Check { shows: &[118], needs: &[], run: |run| Box::pin(a_request_to_speak(run)) },
    Check { shows: &[119], needs: &[], run: |run| Box::pin(paths_of_the_web_client(run)) },
];

const TRACE: u64 = 14;
const JOIN: u64 = 51;
const JOINED: u64 = 52;

/// A conversation that was made over HTTP.
async fn conversation(run: &Run<'_>) -> Outcome<String> {
    let answer = run.ask(Request::post("/api/v1/conversations", &json!({ "title": "conform" }))).await?;
    let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
    must!(answer.status == 201 && !id.is_empty(), "201 and an id, got {} {}", answer.status, answer.body);
    Ok(id)
}

/// A client of the lite profile in a conversation of its own.
async fn lite<'run>(run: &'run Run<'run>) -> Outcome<Peer<'run>> {
    let conversation = conversation(run).await?;
    let mut peer = Peer::open(run).await?;
    peer.conversation = conversation;
    say(&mut peer, SUBSCRIBE, json!({})).await;
    let ack = peer.kind("SubscribeAck", SUBSCRIBED).await?;
    must!(*ack.get("success") == true, "success, got {}", ack.value);
    Ok(peer)
}

async fn say(peer: &mut Peer<'_>, kind: u64, mut body: Value) {
    let conversation = peer.conversation.clone();
    body["conversationId"] = conversation.clone().into();
    peer.envelope(&json!({ "conversationId": conversation, "type": kind, "body": body })).await;
}

fn post(run: &Run<'_>, conversation: &str) -> Request {
    Request::post(
        format!("/api/v1/conversations/{conversation}/messages"),
        &json!({ "content": run.settings.say }),
    )
}

async fn messages(run: &Run<'_>, conversation: &str) -> Outcome<Vec<Value>> {
    let answer = run.ask(Request::get(format!("/api/v1/conversations/{conversation}/messages"))).await?;
    must!(answer.status == 200, "the messages over HTTP, got {}", answer.status);
    let value = answer.json();
    Ok(value.as_array().or_else(|| value["messages"].as_array()).cloned().unwrap_or_default())
}

async fn a_trace_names_the_answer(run: &Run<'_>) -> Outcome {
    let word = format!("conform{}", run.fresh()?);
    let memory = json!({ "content": format!("The password of the {word} is tea."), "category": "fact" });
    let made = run.ask(Request::post("/api/v1/memories", &memory)).await?;
    must!(made.status == 201, "201 for a memory, got {} {}", made.status, made.body);
    let mut peer = lite(run).await?;
    let id = peer.fresh("msg")?;
    say(
        &mut peer,
        USER,
        json!({ "id": id, "content": format!("{} what is the password of the {word}?", run.settings.say) }),
    )
    .await;
    let mut answer = None;
    loop {
        let envelope = peer.wait("an answer", |_| true).await?;
        match envelope.kind() {
            START => answer = Some(envelope.text("messageId")),
            TRACE => {
                let named = envelope.text("messageId");
                must!(
                    answer.as_ref() == Some(&named),
                    "the answer {answer:?} in the trace, got {}",
                    envelope.value
                );
                break;
            }
            3 | ERROR => return Err(Stop::needs("a server that finds what is remembered")),
            _ => {}
        }
    }
    peer.close().await;
    Ok(())
}

async fn both_spellings(run: &Run<'_>) -> Outcome {
    let conversation = conversation(run).await?;
    let path = format!("/api/v1/conversations/{conversation}/messages?sync=true");
    let posted = run.ask(Request::post(path, &json!({ "content": run.settings.say }))).await?;
    must!(posted.status == 200, "200, got {} {}", posted.status, posted.body);
    let list = messages(run, &conversation).await?;
    must!(list.len() >= 2, "a question and its answer, got {list:?}");
    for message in list {
        must!(
            message["content"].is_string() && message["content"] == message["contents"],
            "content and contents, got {message}"
        );
        let known = |value: &Value| {
            value
                .as_str()
                .is_some_and(|state| ["pending", "streaming", "completed", "error"].contains(&state))
        };
        must!(
            known(&message["status"]) && message["completion_status"].is_string(),
            "status and completion_status, got {message}"
        );
        must!(message["branch_index"].is_u64(), "branch_index, got {message}");
    }
    Ok(())
}

/// Of the answers to a few posts, most begin after the post was answered. A network may still turn one round.
async fn the_reply_before_the_answer(run: &Run<'_>) -> Outcome {
    let mut peer = lite(run).await?;
    let mut early = 0;
    for _ in 0..TURNS {
        let request = post(run, &peer.conversation);
        let mut posted = run.target.begin(&run.log, &request).await?;
        let mut first = [0_u8; 12];
        // What is there at the same time was sent in the right order, as far as anybody can tell.
        tokio::select! {
            biased;
            read = posted.read_exact(&mut first) => {
                read.map_err(|error| error.to_string())?;
                peer.kind("StartAnswer", START).await?;
            }
            begun = peer.kind("StartAnswer", START) => {
                begun?;
                early += 1;
                posted.read_exact(&mut first).await.map_err(|error| error.to_string())?;
            }
        }
        must!(first.ends_with(b" 202"), "202, got {}", String::from_utf8_lossy(&first));
        peer.kind("the whole answer", 3).await?;
    }
    must!(early * 2 < TURNS, "the reply of a post before its answer begins, {early} of {TURNS} began before");
    peer.close().await;
    Ok(())
}

async fn synced_during_an_answer(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, stanza) = peer.say(&sentences()).await?;
    peer.ack(stanza).await?;
    peer.kind("a sentence", SENTENCE).await?;
    peer.send(SYNC, json!({ "messages": [message(run, "written elsewhere")?] })).await;
    let told = peer.kind("SyncResponse", SYNCED).await?;
    let id = told.get("syncedMessages")[0]["serverId"].clone();
    peer.wait("the final sentence", |envelope| *envelope.get("isFinal") == true).await?;
    let path = messages(run, &peer.conversation).await?;
    must!(path.iter().any(|message| message["id"] == id), "{id} on the active path, got {path:?}");
    peer.close().await;
    Ok(())
}

fn message(run: &Run<'_>, contents: &str) -> Outcome<Value> {
    Ok(
        json!({ "localId": format!("local_{}", run.fresh()?), "sequenceNumber": 1, "role": "user", "contents": contents,
        "createdAt": "2026-01-01T00:00:00Z" }),
    )
}

async fn a_hundred_subscriptions(run: &Run<'_>) -> Outcome {
    let mut conversations = Vec::new();
    for _ in 0..100 {
        conversations.push(conversation(run).await?);
    }
    let mut peer = Peer::open(run).await?;
    for conversation in &conversations {
        peer.send_to(conversation, SUBSCRIBE, json!({ "conversationId": conversation })).await;
    }
    for count in 0..conversations.len() {
        let of = |envelope: &Envelope| [SUBSCRIBED, ERROR].contains(&envelope.kind());
        let told = peer.wait("a SubscribeAck", of).await?;
        let fits = told.kind() == SUBSCRIBED && *told.get("success") == true;
        must!(fits, "100 SubscribeAcks, got {} after {count}", told.value);
    }
    peer.close().await;
    Ok(())
}

async fn what_cannot_be_synced(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let changed = |name: &str, value: Value| {
        let mut element = message(run, "x")?;
        element[name] = value;
        if element[name].is_null() {
            element.as_object_mut().map(|members| members.remove(name));
        }
        Ok::<Value, Stop>(element)
    };
    let elements = [
        message(run, "before")?,
        changed("createdAt", json!(5))?,
        changed("sequenceNumber", Value::Null)?,
        changed("contents", json!(""))?,
        changed("contents", json!(7))?,
        message(run, "after")?,
    ];
    peer.send(SYNC, json!({ "messages": elements })).await;
    let told = peer.kind("SyncResponse", SYNCED).await?;
    let results = told.get("syncedMessages").as_array().cloned().unwrap_or_default();
    let states: Vec<&str> = results.iter().filter_map(|result| result["status"].as_str()).collect();
    let expected = ["synced", "synced", "synced", "conflict", "conflict", "synced"];
    must!(states == expected, "{expected:?}, got {states:?}");
    peer.close().await;
    Ok(())
}

async fn the_word_for_a_failure(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, envelopes) = peer.turn("tool-error no sky today").await?;
    let code =
        envelopes.iter().find(|envelope| envelope.kind() == RESULT).map(|result| result.text("errorCode"));
    // A tool may have words of its own; those of whatever runs it are nobody's business.
    let inner = ["tool_error", "mcp_error", "failure", "unavailable"];
    must!(
        code.as_deref().is_some_and(|code| !code.is_empty() && !inner.contains(&code)),
        "a word of 4.7, or of the tool, got {code:?}"
    );
    peer.close().await;
    Ok(())
}

async fn a_request_to_speak(run: &Run<'_>) -> Outcome {
    let mut peer = lite(run).await?;
    for body in
        [json!({}), json!({ "userId": "user_conform_device" }), json!({ "user_id": "user_conform_device" })]
    {
        say(&mut peer, JOIN, body.clone()).await;
        let of = |envelope: &Envelope| [JOINED, ERROR].contains(&envelope.kind());
        let told = peer.wait("a VoiceJoinAck", of).await?;
        must!(
            told.kind() == JOINED && told.get("success").is_boolean(),
            "a VoiceJoinAck to {body}, got {}",
            told.value
        );
    }
    peer.close().await;
    Ok(())
}

async fn paths_of_the_web_client(run: &Run<'_>) -> Outcome {
    let conversation = conversation(run).await?;
    let posted = run.ask(Request::post(
        format!("/api/v1/conversations/{conversation}/messages?sync=true"),
        &json!({ "content": run.settings.say }),
    ));
    must!(posted.await?.status == 200, "200 for a message");
    let list = messages(run, &conversation).await?;
    let id = list.last().and_then(|message| message["id"].as_str()).unwrap_or_default().to_owned();
    for path in [
        format!("/messages/{id}"),
        format!("/messages/{id}/tool-uses"),
        format!("/messages/{id}/memory-uses"),
        format!("/messages/{id}/feedback"),
        "/tool-uses".to_owned(),
        "/memories".to_owned(),
        "/mcp/servers".to_owned(),
        "/tools".to_owned(),
        "/preferences".to_owned(),
    ] {
        let answer = run.ask(Request::get(format!("/api/v1{path}"))).await?;
        let json = serde_json::from_str::<Value>(&answer.body).is_ok();
        must!(answer.status == 200 && json, "200 and JSON at {path}, got {} {}", answer.status, answer.body);
    }
    let memory =
        run.ask(Request::post("/api/v1/memories", &json!({ "content": "conform was here" }))).await?;
    let made = memory.json()["id"].as_str().unwrap_or_default().to_owned();
    must!(
        memory.status == 201 && !made.is_empty(),
        "201 for a memory, got {} {}",
        memory.status,
        memory.body
    );
    let change =
        Request::new("PUT", format!("/api/v1/memories/{made}")).header("content-type", "application/json");
    let status = run.status(change.body(r#"{"content":"conform was there"}"#)).await?;
    must!(status == 200, "200 for a memory that is changed, got {status}");
    let status = run.status(Request::new("DELETE", format!("/api/v1/memories/{made}"))).await?;
    must!((200..300).contains(&status), "a memory to be deleted, got {status}");
    let absent = run.ask(Request::get("/api/v1/nothing-of-the-kind")).await?;
    let shaped = absent.json()["error"].is_string() && absent.json()["code"] == 404;
    must!(absent.status == 404 && shaped, "404 and the error body, got {} {}", absent.status, absent.body);
    Ok(())
}

const TURNS: usize = 12;
