//! The queue of a connection, and aborts (sections 7.2 and 7.3).

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Check, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::rpc::{Chat, Rpc, full_error};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[33, 34, 35, 36, 38, 45, 47], needs: &[], run: |run| Box::pin(chats_wait_in_order(run)) },
    Check { shows: &[37, 43], needs: &[], run: |run| Box::pin(a_place_is_given_up(run)) },
    Check { shows: &[39], needs: &[], run: |run| Box::pin(so_many_wait(run)) },
    Check { shows: &[40], needs: &[], run: |run| Box::pin(connections_run_beside_each_other(run)) },
    Check { shows: &[41, 42, 46], needs: &[], run: |run| Box::pin(nothing_follows_an_abort(run)) },
    Check { shows: &[44], needs: &[], run: |run| Box::pin(aborts_of_what_is_not_there(run)) },
];

fn position(chat: &Chat) -> Vec<u64> {
    chat.messages
        .iter()
        .filter(|message| message["type"] == "chat.queued")
        .filter_map(|message| message["position"].as_u64())
        .collect()
}

/// Type and id of the messages, without events.
fn outline(messages: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = messages.iter().filter(|message| message["type"] != "chat.event");
    shown.map(|message| (text(&message["type"]), text(&message["id"]))).collect()
}

async fn chats_wait_in_order(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (first, _) = rpc.running().await?;
    let mut ids = Vec::new();
    for place in 1..=3_u64 {
        let id = rpc.start(&run.settings.say).await?;
        for kind in ["chat.accepted", "chat.queued"] {
            let message = rpc.wait(kind, |message| message["id"] == id.as_str()).await?;
            must!(message["type"] == kind, "{kind}, got {message}");
            if kind == "chat.queued" {
                must!(message["position"] == place, "position {place}, got {message}");
            }
        }
        ids.push(id);
    }
    rpc.listen(0).await?;
    let sent = Instant::now();
    let abort = rpc.send("chat.abort", json!({ "requestId": first })).await?;
    let mut seen = Vec::new();
    loop {
        let message = rpc.wait("the last of the waiting chats", |_| true).await?;
        let over = message["type"] == "chat.done" && message["id"] == ids[2].as_str();
        if message["type"] == "chat.started" && message["id"] == ids[0].as_str() {
            let took = sent.elapsed().as_millis();
            must!(took < 6_000, "the next chat within 2 s, it took {took} ms");
        }
        seen.push(message);
        if over {
            break;
        }
    }
    let pair = |kind: &str, id: &String| (kind.to_owned(), id.clone());
    let expected = [
        pair("chat.error", &first),
        pair("chat.abort.result", &abort),
        pair("chat.queued", &ids[1]),
        pair("chat.queued", &ids[2]),
        pair("chat.started", &ids[0]),
        pair("chat.done", &ids[0]),
        pair("chat.queued", &ids[2]),
        pair("chat.started", &ids[1]),
        pair("chat.done", &ids[1]),
        pair("chat.started", &ids[2]),
        pair("chat.done", &ids[2]),
    ];
    let outline: Vec<_> = outline(&seen)
        .into_iter()
        .filter(|(_, id)| *id == first || *id == abort || ids.contains(id))
        .collect();
    must!(outline == expected, "{expected:?}, got {outline:?}");
    rpc.close().await;
    Ok(())
}

async fn a_place_is_given_up(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (first, _) = rpc.running().await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = rpc.start(&run.settings.say).await?;
        rpc.wait("chat.queued", |message| message["id"] == id.as_str() && message["type"] == "chat.queued")
            .await?;
        ids.push(id);
    }
    rpc.listen(0).await?;
    let abort = rpc.send("chat.abort", json!({ "requestId": ids[1] })).await?;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|message: &Value| message["id"] != abort.as_str()) {
        seen.push(rpc.wait("chat.abort.result", |_| true).await?);
    }
    let pair = |kind: &str, id: &String| (kind.to_owned(), id.clone());
    let expected = [
        pair("chat.error", &ids[1]),
        pair("chat.queued", &ids[0]),
        pair("chat.queued", &ids[2]),
        pair("chat.abort.result", &abort),
    ];
    let outline: Vec<_> = outline(&seen).into_iter().filter(|(_, id)| *id != first).collect();
    must!(outline == expected, "{expected:?}, got {outline:?}");
    rpc.abort(&first).await?;
    for id in [&ids[0], &ids[2]] {
        let chat = rpc.finish(id).await?;
        must!(chat.terminal()["type"] == "chat.done", "the others to be served, got {}", chat.terminal());
    }
    let late = rpc.listen(200).await?;
    let started = late.iter().any(|message| message["id"] == ids[1].as_str());
    must!(!started, "nothing of the chat that was aborted while it waited");
    rpc.close().await;
    Ok(())
}

async fn so_many_wait(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (first, _) = rpc.running().await?;
    let mut last = String::new();
    for place in 1..=25_u64 {
        last = rpc.start(&run.settings.say).await?;
        let queued = rpc
            .wait("chat.queued", |message| {
                message["id"] == last.as_str() && message["type"] != "chat.accepted"
            })
            .await?;
        must!(queued["position"] == place, "position {place}, got {queued}");
    }
    let refused = rpc.start(&run.settings.say).await?;
    rpc.refused(&refused).await?;
    rpc.abort(&first).await?;
    let chat = rpc.finish(&last).await?;
    must!(
        position(&chat).is_sorted_by(|one, other| one > other),
        "falling positions, got {:?}",
        position(&chat)
    );
    rpc.close().await;
    Ok(())
}

async fn connections_run_beside_each_other(run: &Run<'_>) -> Outcome {
    let (mut one, mut other) = (Rpc::open(run).await?, Rpc::open(run).await?);
    let (id, task) = one.running().await?;
    let chat = other.chat(&run.settings.say).await?;
    must!(
        !chat.kinds().contains(&"chat.queued"),
        "no waiting for another connection, got {:?}",
        chat.kinds()
    );
    let state = other.task(&task).await?["state"].clone();
    must!(state == "running", "the first to run meanwhile, got {state}");
    one.abort(&id).await?;
    one.close().await;
    other.close().await;
    Ok(())
}

async fn nothing_follows_an_abort(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (id, task) = rpc.running().await?;
    let waiting = rpc.start(&run.settings.say).await?;
    let accepted = rpc.wait("chat.accepted", |message| message["id"] == waiting.as_str()).await?;
    must!(rpc.abort(&waiting).await?, "aborted true for a chat that waits");
    let state = rpc.task(accepted["taskId"].as_str().unwrap_or_default()).await?["state"].clone();
    must!(state == "cancelled", "the task that waited to be cancelled, got {state}");
    must!(rpc.abort(&id).await?, "aborted true for a chat that runs");
    // What came before the result was kept.
    let before = rpc.listen(0).await?;
    let terminal = before.iter().rfind(|message| message["id"] == id.as_str());
    let told = terminal
        .is_some_and(|message| message["type"] == "chat.error" && message["errorCode"] == "E_ABORTED");
    must!(told, "chat.error E_ABORTED before the result, got {terminal:?}");
    full_error(terminal.unwrap_or(&Value::Null))?;
    let after = rpc.listen(400).await?;
    must!(
        after.iter().all(|message| message["id"] != id.as_str()),
        "nothing after the result, got {after:?}"
    );
    let state = rpc.task(&task).await?["state"].clone();
    must!(state == "cancelled", "the task that ran to be cancelled, got {state}");
    rpc.close().await;
    Ok(())
}

async fn aborts_of_what_is_not_there(run: &Run<'_>) -> Outcome {
    let (mut one, mut other) = (Rpc::open(run).await?, Rpc::open(run).await?);
    let (id, task) = one.running().await?;
    let unknown = one.fresh()?;
    must!(!one.abort(&unknown).await?, "aborted false for an unknown chat");
    must!(!other.abort(&id).await?, "aborted false for a chat of another connection");
    let finished = other.start(&run.settings.say).await?;
    other.finish(&finished).await?;
    must!(!other.abort(&finished).await?, "aborted false for a finished chat");
    let state = other.task(&task).await?["state"].clone();
    must!(state == "running", "the chat of the other connection to be left alone, got {state}");
    one.abort(&id).await?;
    one.close().await;
    other.close().await;
    Ok(())
}
