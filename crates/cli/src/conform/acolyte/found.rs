//! What the existing client and its terminal have run into (section 16).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, Stop, must};
use super::super::inbox::Inbox as _;
use super::rpc::{Rpc, request};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[89], needs: &[], run: |run| Box::pin(half_a_pair(run)) },
    Check {
        shows: &[90],
        needs: &[Need::Says("quotes")],
        run: |run| Box::pin(what_costs_more_when_written(run)),
    },
    Check { shows: &[93], needs: &[], run: |run| Box::pin(usage_while_text_streams(run)) },
    Check { shows: &[94], needs: &[], run: |run| Box::pin(what_nobody_looks_at(run)) },
    Check { shows: &[95], needs: &[], run: |run| Box::pin(agents_are_named(run)) },
];

/// A request as JavaScript writes it that has cut an emoji in half.
fn halved(run: &Run<'_>, place: &str) -> Outcome<String> {
    let mut request = request(&run.settings.say);
    request["history"] = json!([{ "id": "msg_1", "role": "user", "content": "hi HALF", "timestamp": "2026-01-01T00:00:00.000Z" }]);
    let message = format!("{} HALF", run.settings.say);
    if place == "message" {
        request["message"] = message.into();
        request["history"] = json!([]);
    }
    Ok(request.to_string().replace("HALF", r"\ud83dx"))
}

async fn half_a_pair(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for place in ["message", "history"] {
        let request = halved(run, place)?;
        let id = rpc.fresh()?;
        rpc.raw(&format!(r#"{{"id":"{id}","type":"chat.start","payload":{{"request":{request}}}}}"#)).await;
        let chat = rpc.finish(&id).await?;
        must!(
            chat.kinds().first() == Some(&"chat.accepted"),
            "half a surrogate pair in the {place} to be taken, got {}",
            chat.terminal()
        );
        let posted = Request::new("POST", "/v1/chat/stream").header("content-type", "application/json");
        let status = run.status(posted.body(request)).await?;
        must!(status == 200, "200 over HTTP for half a surrogate pair in the {place}, got {status}");
    }
    rpc.close().await;
    Ok(())
}

/// Nine megabytes of characters that JSON writes with two.
async fn what_costs_more_when_written(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat("quotes 144 of 65536").await?;
    let output = chat.reply()["output"].as_str().map_or(0, str::len);
    if chat.terminal()["type"] == "chat.error" {
        return Err(Stop::needs("answers of nine megabytes"));
    }
    must!(output == 144 * 65_536, "the whole answer in chat.done, got {output} bytes");
    rpc.close().await;
    Ok(())
}

async fn usage_while_text_streams(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let begun = tokio::time::Instant::now();
    let chat = rpc.chat(&run.settings.say_long).await?;
    if begun.elapsed() < std::time::Duration::from_secs(3) {
        return Err(Stop::needs("an answer that takes some seconds: --say-long"));
    }
    let kinds: Vec<&str> = chat.events().filter_map(|event| event["type"].as_str()).collect();
    let place = |kind: &str| kinds.iter().position(|known| *known == kind);
    let last = kinds.iter().rposition(|kind| *kind == "text-delta").unwrap_or_default();
    let first = place("text-delta").unwrap_or_default();
    let between = kinds.get(first..last).unwrap_or_default().iter().filter(|kind| **kind == "usage").count();
    must!(between >= 2, "usage about twice a second while text streams, got {between} in all");
    rpc.close().await;
    Ok(())
}

async fn what_nobody_looks_at(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    for unknown in [deep.as_str(), "1e999", r#"{"a":[-1e999]}"#] {
        let id = rpc.fresh()?;
        rpc.raw(&format!(r#"{{"id":"{id}","type":"status.get","payload":{{"later":{unknown}}}}}"#)).await;
        let answer = rpc.wait("an answer", |message| message["id"] == id.as_str()).await?;
        let shown: String = unknown.chars().take(20).collect();
        must!(answer["type"] == "status.result", "{shown}… in an unknown field to be ignored, got {answer}");
    }
    rpc.close().await;
    Ok(())
}

async fn agents_are_named(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let status = rpc.status().await?;
    let named = status["provider_auth"].as_array().is_some_and(|names| {
        !names.is_empty() && names.iter().all(|name| name.as_str().is_some_and(|name| !name.is_empty()))
    });
    must!(named, "provider_auth to name the agents that can be asked, got {}", status["provider_auth"]);
    rpc.close().await;
    Ok(())
}
