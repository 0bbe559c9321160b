//! Chats over HTTP (section 2.4).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::check::{Check, Need, Outcome, Run, Stop, must};
use super::rpc::{Rpc, full_error, request, request_with};
use crate::probe::{PATIENCE, Request, Streaming};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[71], needs: &[], run: |run| Box::pin(a_stream(run)) },
    Check { shows: &[72], needs: &[], run: |run| Box::pin(refused_before_there_is_a_stream(run)) },
    Check { shows: &[73], needs: &[], run: |run| Box::pin(later_failures(run)) },
    Check {
        shows: &[74],
        needs: &[Need::Says("everything"), Need::Says("tool"), Need::Says("checklist"), Need::Says("reason")],
        run: |run| Box::pin(the_same_events(run)),
    },
    Check {
        shows: &[75],
        needs: &[Need::Says("hang"), Need::Patience],
        run: |run| Box::pin(a_silent_stream(run)),
    },
    Check { shows: &[76], needs: &[], run: |run| Box::pin(streams_beside_each_other(run)) },
    Check { shows: &[77], needs: &[], run: |run| Box::pin(whoever_leaves(run)) },
];

const STREAM: &str = "/v1/chat/stream";

/// A stream that is being read.
struct Reader {
    answer: Streaming,
    rest: Vec<u8>,
    comments: usize,
}

impl Reader {
    async fn open(run: &Run<'_>, request: &Value) -> Outcome<Self> {
        let answer = run.open(Request::post(STREAM, request)).await?;
        must!(answer.status == 200, "200, got {}", answer.status);
        let kind = answer.header("content-type").unwrap_or_default();
        must!(kind.starts_with("text/event-stream"), "text/event-stream, got {kind:?}");
        Ok(Self { answer, rest: Vec::new(), comments: 0 })
    }

    /// The next frame; none at the end.
    async fn frame(&mut self, run: &Run<'_>, patience: Duration) -> Outcome<Option<Value>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(at) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.rest.drain(..at + 2).collect();
                let text = String::from_utf8_lossy(&block).trim_end().to_owned();
                run.log.received(&text);
                if text.starts_with(':') {
                    self.comments += 1;
                    continue;
                }
                let data = text.strip_prefix("data: ");
                let value =
                    data.filter(|data| !data.contains('\n')).and_then(|data| serde_json::from_str(data).ok());
                return value
                    .map(Some)
                    .ok_or_else(|| Stop::fault(format!("expected one line `data: JSON`, got {text:?}")));
            }
            match self.answer.chunk(end.saturating_duration_since(Instant::now())).await? {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => {
                    must!(self.rest.is_empty(), "whole frames, got a rest of {} bytes", self.rest.len());
                    return Ok(None);
                }
            }
        }
    }

    /// All frames up to the end.
    async fn frames(&mut self, run: &Run<'_>) -> Outcome<Vec<Value>> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame(run, PATIENCE).await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Reads until there is some text.
    async fn until_text(&mut self, run: &Run<'_>) -> Outcome {
        while let Some(frame) = self.frame(run, PATIENCE).await? {
            if frame["type"] == "text-delta" {
                return Ok(());
            }
        }
        Err(Stop::fault("expected text before the end of the stream"))
    }
}

async fn a_stream(run: &Run<'_>) -> Outcome {
    let mut reader = Reader::open(run, &request(&run.settings.say)).await?;
    let frames = reader.frames(run).await?;
    let ends = frames.iter().filter(|frame| frame["type"] == "done" || frame["type"] == "error").count();
    let last = frames.last().cloned().unwrap_or_default();
    must!(ends == 1 && last["type"] == "done", "one done at the end, got {last} and {ends} ends");
    must!(last["reply"]["output"].is_string(), "a reply with output, got {last}");
    Ok(())
}

async fn refused_before_there_is_a_stream(run: &Run<'_>) -> Outcome {
    let text =
        |body: &str| Request::new("POST", STREAM).header("content-type", "application/json").body(body);
    for body in ["", "{oops", "[]", "{}", r#"{"message":7,"history":[],"model":"m"}"#] {
        let status = run.status(text(body)).await?;
        must!(status == 400, "400 for {body:?}, got {status}");
    }
    let status = run.status(Request::post(STREAM, &request(&"x".repeat(100_001)))).await?;
    must!(status == 400, "400 for a message that is too long, got {status}");
    Ok(())
}

async fn later_failures(run: &Run<'_>) -> Outcome {
    let path = format!("/nowhere-{}", run.fresh()?);
    for members in [json!({ "workspace": path }), json!({ "history": [7] })] {
        let mut reader = Reader::open(run, &request_with(&run.settings.say, &members)).await?;
        let frames = reader.frames(run).await?;
        let last = frames.last().cloned().unwrap_or_default();
        must!(last["type"] == "error", "an error frame at the end, got {last}");
        full_error(&last)?;
    }
    Ok(())
}

/// Events without what differs from run to run.
fn comparable<'event>(events: impl Iterator<Item = &'event Value>) -> Vec<Value> {
    let kept = events.filter(|event| event["type"] != "usage" && event["type"] != "done");
    kept.map(|event| {
        let mut event = event.clone();
        if let Some(members) = event.as_object_mut() {
            members.remove("toolCallId");
        }
        event
    })
    .collect()
}

async fn the_same_events(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for message in ["everything", "tool x 3", "checklist", "reason 2"] {
        let chat = rpc.chat(message).await?;
        let frames = Reader::open(run, &request(message)).await?.frames(run).await?;
        let (one, other) = (comparable(chat.events()), comparable(frames.iter()));
        must!(one == other, "the same events for {message:?}: {one:?}, got {other:?}");
    }
    rpc.close().await;
    Ok(())
}

async fn a_silent_stream(run: &Run<'_>) -> Outcome {
    let mut reader = Reader::open(run, &request("hang after 1")).await?;
    reader.until_text(run).await?;
    let end = Instant::now() + Duration::from_secs(20);
    while reader.comments == 0 && Instant::now() < end {
        if reader.frame(run, Duration::from_secs(20)).await.is_err() {
            break;
        }
    }
    must!(reader.comments > 0, "a comment within 15 s of silence");
    Ok(())
}

async fn streams_beside_each_other(run: &Run<'_>) -> Outcome {
    let mut long = Reader::open(run, &request(&run.settings.say_long)).await?;
    long.until_text(run).await?;
    let mut short = Reader::open(run, &request(&run.settings.say)).await?;
    let frames = short.frames(run).await?;
    must!(frames.last().is_some_and(|frame| frame["type"] == "done"), "an answer while another stream runs");
    long.until_text(run).await
}

async fn whoever_leaves(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let mut reader = Reader::open(run, &request(&run.settings.say_long)).await?;
    let task = reader.answer.header("acolyte-task-id").unwrap_or_default().to_owned();
    must!(!task.is_empty(), "the header acolyte-task-id");
    reader.until_text(run).await?;
    drop(reader);
    rpc.task_becomes(&task, "cancelled").await?;
    rpc.close().await;
    Ok(())
}
