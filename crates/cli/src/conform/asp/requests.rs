//! Requests: ids, order, ends, deadlines, idempotency (sections 6 to 8).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, Stop, must, pause};
use super::peer::{ERROR, INVOKE, Peer, STREAM, frame, text_of};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[25], needs: &[], run: |run| Box::pin(a_duplicate_id(run)) },
    Check { shows: &[27], needs: &[Need::Says("hang")], run: |run| Box::pin(up_to_max_inflight(run, false)) },
    Check { shows: &[88], needs: &[Need::Says("hang")], run: |run| Box::pin(up_to_max_inflight(run, true)) },
    Check {
        shows: &[28],
        needs: &[Need::Says("count"), Need::Says("echo")],
        run: |run| Box::pin(order_within_an_id(run)),
    },
    Check { shows: &[29, 40], needs: &[], run: |run| Box::pin(one_terminal_frame(run)) },
    Check { shows: &[46], needs: &[Need::Says("hang")], run: |run| Box::pin(a_deadline(run)) },
    Check { shows: &[47], needs: &[Need::Says("count")], run: |run| Box::pin(an_idempotency_key(run)) },
    Check {
        shows: &[56],
        needs: &[Need::Says("hang"), Need::Says("echo")],
        run: |run| Box::pin(a_lost_bare_connection(run)),
    },
    Check {
        shows: &[80],
        needs: &[Need::Says("deltas"), Need::Says("echo")],
        run: |run| Box::pin(ids_are_served_fairly(run)),
    },
];

async fn a_duplicate_id(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    peer.send(INVOKE, 5, &json!({ "input": run.settings.say_long })).await;
    peer.record(5, "text").await?;
    peer.send(INVOKE, 5, &json!({ "input": run.settings.say })).await;
    let error = peer.wait("ERROR 2008 on #0", |frame| frame.opcode == ERROR || frame.is_terminal()).await?;
    must!(
        error.code() == Some(2008) && error.id == 0,
        "ERROR 2008 on #0, got {} on #{}",
        error.value,
        error.id
    );
    must!(error.value["ref"] == 5, "ref 5, got {}", error.value["ref"]);
    peer.record(5, "text").await?;
    peer.interrupt(5).await;
    peer.finish(5).await?;
    peer.close().await;
    Ok(())
}

/// As many requests as there may be; each in a session of its own, or none in any.
async fn up_to_max_inflight(run: &Run<'_>, apart: bool) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let most = peer.limit("max_inflight");
    let burst = peer.limit("invokes_per_s");
    let Ok(most) = u16::try_from(most) else {
        return Err(Stop::needs("a max_inflight that can be reached".to_owned()));
    };
    must!(most > 0, "limits.max_inflight in the accept");
    if most > 256 {
        return Err(Stop::needs(format!("a max_inflight that can be reached; it is {most}")));
    }
    // Slower than what the server allows, or faster where it allows much.
    let gap = if burst >= 1_000 { 0 } else { 1_000 / burst.max(1) + 10 };
    if gap * u64::from(most) > 25_000 {
        return Err(Stop::needs(format!("a server that takes more than {burst} requests in a second")));
    }
    let name = run.fresh()?;
    for number in 0..=most {
        let mut payload = json!({ "input": "hang after 1" });
        if apart {
            payload["session"] = format!("{name}-{number}").into();
        }
        peer.invoke(&payload).await;
        pause(gap).await;
    }
    peer.error(most + 1, 2201).await?;
    peer.interrupt(0).await;
    for id in 1..=most {
        let frames = peer.finish(id).await?;
        must!(frames.iter().any(|frame| frame.is("end")), "request {id} of {most} to run");
    }
    peer.close().await;
    Ok(())
}

async fn order_within_an_id(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let slow = peer.say("count 40 every 50").await;
    peer.record(slow, "text").await?;
    let quick = peer.say("echo quick").await;
    let quick = peer.finish(quick).await?;
    let slow = peer.finish(slow).await?;
    let expected: String = (2..=40).map(|number| format!("{number} ")).collect();
    must!(text_of(&slow) == expected, "{expected:?} in this order, got {:?}", text_of(&slow));
    let ends = (quick.last().map(|frame| frame.at), slow.last().map(|frame| frame.at));
    must!(ends.0 < ends.1, "a quick request to end before a slow one that began earlier");
    peer.close().await;
    Ok(())
}

async fn one_terminal_frame(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let answered = peer.say(&run.settings.say).await;
    peer.finish(answered).await?;
    let stopped = peer.say(&run.settings.say_long).await;
    peer.record(stopped, "text").await?;
    peer.interrupt(stopped).await;
    peer.finish(stopped).await?;
    let after = peer.listen(400).await?;
    let late = after.iter().find(|frame| frame.opcode == STREAM || frame.id != 0);
    must!(late.is_none(), "nothing of a request after its end, got {late:?}");
    peer.close().await;
    let mut bare = Peer::bare(run).await?;
    bare.raw(frame(INVOKE, 0, 1, run.settings.say.as_bytes())).await;
    bare.finish(1).await?;
    let after = bare.listen(300).await?;
    must!(after.iter().all(|frame| frame.id != 1), "nothing after an empty STREAM, got {after:?}");
    bare.close().await;
    Ok(())
}

async fn a_deadline(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.invoke(&json!({ "input": "hang after 2", "deadline_ms": 1_000 })).await;
    peer.error(id, 2405).await?;
    peer.close().await;
    Ok(())
}

async fn an_idempotency_key(run: &Run<'_>) -> Outcome {
    let (mut one, mut two) = (Peer::standard(run).await?, Peer::standard(run).await?);
    let key = run.fresh()?;
    let chat = json!({ "input": "count 5", "idem": key });
    let id = one.invoke(&chat).await;
    let first = one.finish(id).await?;
    for peer in [&mut one, &mut two] {
        let id = peer.invoke(&chat).await;
        let again = peer.finish(id).await?;
        must!(text_of(&again) == text_of(&first), "the same text again, got {:?}", text_of(&again));
        let run_of = |frames: &[super::peer::Frame]| {
            frames.iter().find(|frame| frame.is("start")).map(|frame| frame.value["run"].clone())
        };
        must!(run_of(&again) == run_of(&first), "the same run again, got {:?}", run_of(&again));
    }
    let id = one.invoke(&json!({ "input": "count 6", "idem": key })).await;
    one.error(id, 2305).await?;
    one.close().await;
    two.close().await;
    Ok(())
}

async fn a_lost_bare_connection(run: &Run<'_>) -> Outcome {
    let (mut bare, session) = (Peer::bare(run).await?, run.fresh()?);
    let payload = json!({ "input": "hang after 1", "session": session }).to_string();
    bare.raw(frame(INVOKE, 0, 1, payload.as_bytes())).await;
    bare.wait("output", |frame| frame.id == 1 && frame.opcode == STREAM).await?;
    bare.cut();
    let mut other = Peer::standard(run).await?;
    let id = other.invoke(&json!({ "input": "echo next", "session": session })).await;
    let frames = other.finish(id).await?;
    must!(text_of(&frames) == "next", "the session to be free when its bare client is gone");
    other.close().await;
    Ok(())
}

async fn ids_are_served_fairly(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let long = peer.say("deltas 400 of 16384").await;
    let short = peer.say("echo short").await;
    let short = peer.finish(short).await?;
    let long = peer.finish(long).await?;
    let ends = (short.last().map(|frame| frame.at), long.last().map(|frame| frame.at));
    must!(ends.0 < ends.1, "a short answer not to wait for a long one");
    peer.close().await;
    Ok(())
}
