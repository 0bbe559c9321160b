//! INTERRUPT and credit (sections 9 and 12.1).

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::peer::{ERROR, FEATURES, INTERRUPT, Peer, STREAM, frame, text_of};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[36], needs: &[], run: |run| Box::pin(output_stops(run)) },
    Check { shows: &[37], needs: &[], run: |run| Box::pin(without_payload(run)) },
    Check { shows: &[38], needs: &[], run: |run| Box::pin(everything_at_once(run)) },
    Check { shows: &[39], needs: &[], run: |run| Box::pin(too_late(run)) },
    Check { shows: &[48], needs: &[Need::Says("deltas")], run: |run| Box::pin(a_window(run)) },
];

async fn output_stops(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    // A network or a machine that is busy for a moment is no fault of the server.
    for _ in 1..ATTEMPTS {
        if stopped_in_time(run, &mut peer).await.is_ok() {
            return Ok(());
        }
    }
    stopped_in_time(run, &mut peer).await
}

async fn stopped_in_time(run: &Run<'_>, peer: &mut Peer) -> Outcome {
    let id = peer.say(&run.settings.say_long).await;
    for _ in 0..5 {
        peer.record(id, "text").await?;
    }
    peer.interrupt(id).await;
    let sent = Instant::now();
    let frames = peer.finish(id).await?;
    let Some((end, before)) = frames.split_last() else { return Ok(()) };
    must!(end.value["finish"] == "interrupted", "finish interrupted, got {}", end.value);
    let took = end.at.saturating_duration_since(sent);
    must!(took < END_WITHIN, "the end within 1 s, it took {} ms", took.as_millis());
    let late = before.iter().find(|frame| frame.at.saturating_duration_since(sent) > STOP_WITHIN);
    must!(late.is_none(), "no output 100 ms after the interrupt, and what a network adds, got {late:?}");
    Ok(())
}

async fn without_payload(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    for payload in [&b""[..], b"\xc1 nonsense"] {
        let id = peer.say(&run.settings.say_long).await;
        peer.record(id, "text").await?;
        peer.raw(frame(INTERRUPT, 0, id, payload)).await;
        let frames = peer.finish(id).await?;
        let finish = frames.last().map(|end| end.value["finish"].clone()).unwrap_or_default();
        must!(finish == "interrupted", "finish interrupted, got {finish}");
    }
    peer.close().await;
    Ok(())
}

async fn everything_at_once(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = peer.say(&run.settings.say_long).await;
        peer.record(id, "text").await?;
        ids.push(id);
    }
    peer.raw(frame(INTERRUPT, 0, 0, b"")).await;
    for id in ids {
        let frames = peer.finish(id).await?;
        let finish = frames.last().map(|end| end.value["finish"].clone()).unwrap_or_default();
        must!(finish == "interrupted", "finish interrupted for #{id}, got {finish}");
    }
    peer.still_serves(run).await?;
    peer.close().await;
    Ok(())
}

async fn too_late(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say).await;
    peer.finish(id).await?;
    peer.interrupt(id).await;
    let after = peer.listen(300).await?;
    let answer = after.iter().find(|frame| frame.opcode == ERROR || frame.opcode == STREAM);
    must!(answer.is_none(), "no answer to an INTERRUPT that is too late, got {answer:?}");
    peer.interrupt(40_000).await;
    let error = peer.error(0, 2009).await?;
    must!(error["ref"] == 40_000, "ref of the id that was never used, got {}", error["ref"]);
    peer.close().await;
    Ok(())
}

async fn a_window(run: &Run<'_>) -> Outcome {
    // The least that the reference allows a server to agree to.
    let window = 16_384_usize;
    let features: Vec<&str> = FEATURES.iter().copied().chain(["credit"]).collect();
    let mut peer = Peer::with(run, &features, json!({ "limits": { "window": window } })).await?;
    must!(
        peer.limit("window") <= window as u64,
        "a window of {window} at most, got {}",
        peer.limit("window")
    );
    let window = usize::try_from(peer.limit("window")).unwrap_or(window);
    let id = peer.say("deltas 100 of 512").await;
    let (mut held, mut used) = (Vec::new(), 0);
    while used < window {
        let frame = peer.wait("output up to the window", |frame| frame.id == id).await?;
        must!(!frame.is_terminal(), "no end before there is credit, got {}", frame.value);
        used += frame.payload.len();
        held.push(frame);
    }
    let beyond = peer.listen(500).await?.iter().filter(|frame| frame.id == id).count();
    must!(beyond == 0, "nothing beyond a window of {window} bytes, got {beyond} more frames");
    peer.send(INTERRUPT, id, &json!({ "mode": "credit", "bytes": 1 << 20 })).await;
    let rest = peer.finish(id).await?;
    let length = text_of(&held).len() + text_of(&rest).len();
    must!(length == 51_200, "all of the text in the end, got {length} bytes");
    peer.close().await;
    Ok(())
}

const ATTEMPTS: usize = 3;
/// What the statement says.
const END_WITHIN: Duration = Duration::from_secs(1);
/// 100 ms, and what a network and a busy machine add.
const STOP_WITHIN: Duration = Duration::from_millis(400);
