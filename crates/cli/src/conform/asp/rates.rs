//! Rates (section 12.2). These run alone and last: they use up what a principal is allowed.

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, Stop, must, pause};
use super::peer::{ERROR, Frame, INTERRUPT, Peer, frame};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[51], needs: &[Need::Alone], run: |run| Box::pin(an_interrupt_gets_through(run)) },
    Check { shows: &[50], needs: &[Need::Alone], run: |run| Box::pin(a_flood(run)) },
];

/// A server that allows more than anybody sends has no floods.
fn rate(peer: &Peer) -> Outcome<u64> {
    match peer.limit("invokes_per_s") {
        0 => Err(Stop::fault("expected limits.invokes_per_s in the accept")),
        rate @ 1..=MOST_RATE => Ok(rate),
        rate => Err(Stop::needs(format!("a lower rate of requests than {rate} in a second"))),
    }
}

async fn an_interrupt_gets_through(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let rate = rate(&peer)?;
    let id = peer.say(&run.settings.say_long).await;
    peer.record(id, "text").await?;
    for _ in 0..rate * 3 {
        peer.invoke(&json!({ "kind": "list" })).await;
    }
    for _ in 0..50 {
        peer.raw(frame(INTERRUPT, 0, id + 1, b"")).await;
    }
    peer.raw(frame(INTERRUPT, 0, id, b"")).await;
    let frames = peer.finish(id).await?;
    let finish = frames.last().map(|end| end.value["finish"].clone()).unwrap_or_default();
    must!(finish == "interrupted", "finish interrupted, got {finish}");
    peer.cut();
    Ok(())
}

async fn a_flood(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let burst = rate(&peer)? * 4;
    let mut seen = Vec::new();
    for _ in 0..10 {
        for _ in 0..burst {
            peer.invoke(&json!({ "kind": "list" })).await;
        }
        match peer.listen(600).await {
            Ok(frames) => seen.extend(frames),
            Err(_) => break,
        }
        if seen.iter().any(|frame| frame.code() == Some(2205)) {
            break;
        }
        pause(100).await;
    }
    let limited = seen.iter().find(|frame| frame.code() == Some(2200));
    must!(
        limited.is_some_and(|frame| frame.id != 0 && frame.value["retry"] == true),
        "ERROR 2200 on the id, got {limited:?}"
    );
    let codes: Vec<Option<u64>> =
        seen.iter().filter(|frame| frame.opcode == ERROR).map(Frame::code).collect();
    must!(codes.contains(&Some(2205)), "ERROR 2205 when it does not end, got {} errors", codes.len());
    peer.closed(4429).await?;
    Ok(())
}

const MOST_RATE: u64 = 200;
