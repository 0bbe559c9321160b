//! What other people's clients have run into (section 24).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, Stop, must};
use super::peer::{ENC_JSON, FEATURES, Frame, HELLO, INTERRUPT, INVOKE, MORE, PATH, Peer, frame, text_of};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check {
        shows: &[86],
        needs: &[Need::Says("deltas")],
        run: |run| Box::pin(held_output_is_cancelled(run)),
    },
    Check { shows: &[87], needs: &[Need::Says("size")], run: |run| Box::pin(a_large_answer_at_once(run)) },
    Check { shows: &[89], needs: &[], run: |run| Box::pin(after_fragments_that_never_came(run)) },
    Check { shows: &[91], needs: &[], run: |run| Box::pin(nothing_to_watch(run)) },
    Check { shows: &[93], needs: &[], run: |run| Box::pin(beyond_what_was_sent(run)) },
    Check { shows: &[94], needs: &[Need::Says("call")], run: |run| Box::pin(a_reply_to_a_call(run)) },
    Check { shows: &[94], needs: &[Need::Says("ask")], run: |run| Box::pin(a_result_for_a_question(run)) },
    Check { shows: &[94], needs: &[], run: |run| Box::pin(the_key_of_an_upgrade(run)) },
];

fn finish_of(frames: &[Frame]) -> Value {
    frames.last().map(|end| end.value["finish"].clone()).unwrap_or_default()
}

/// Waits until nothing more comes of a request.
async fn until_held(peer: &mut Peer, id: u16) -> Outcome {
    loop {
        let frames = peer.listen(1_000).await?;
        let own: Vec<&Frame> = frames.iter().filter(|frame| frame.id == id).collect();
        must!(own.iter().all(|frame| !frame.is_terminal()), "no end of what is held, got {:?}", own.last());
        if own.is_empty() {
            return Ok(());
        }
    }
}

/// More than the window and than what a server keeps at hand, from a turn that is over and from one that runs.
async fn held_output_is_cancelled(run: &Run<'_>) -> Outcome {
    let features: Vec<&str> = FEATURES.iter().copied().chain(["credit"]).collect();
    for (say, pause, on) in [
        ("deltas 196 of 4000", false, 1),
        ("deltas 196 of 4000", true, 1),
        ("deltas 196 of 4000", false, 0),
        ("deltas 40 of 4000 every 200", false, 1),
    ] {
        let mut peer = Peer::with(run, &features, json!({ "limits": { "window": 16_384 } })).await?;
        let id = peer.say(say).await;
        if pause {
            peer.send(INTERRUPT, id, &json!({ "mode": "pause" })).await;
        }
        until_held(&mut peer, id).await?;
        peer.interrupt(on).await;
        let frames = peer.finish(id).await?;
        let finish = finish_of(&frames);
        must!(finish == "interrupted", "{say:?}, held, to end as interrupted on #{on}, got {finish}");
        peer.send(INTERRUPT, id, &json!({ "mode": "credit", "bytes": 1 << 20 })).await;
        let after = peer.listen(400).await?;
        let more = after.iter().find(|frame| frame.id == id);
        must!(more.is_none(), "nothing after the end, got {more:?}");
        peer.close().await;
    }
    Ok(())
}

async fn a_large_answer_at_once(run: &Run<'_>) -> Outcome {
    const SIZE: usize = 3_000_000;
    let mut peer = Peer::standard(run).await?;
    let most = usize::try_from(peer.limit("max_message")).unwrap_or(usize::MAX);
    must!(most > 0, "limits.max_message in the accept");
    let id = peer.invoke(&json!({ "input": format!("size {SIZE}"), "stream": false })).await;
    let frames = peer.finish(id).await?;
    if finish_of(&frames) == "length" {
        return Err(Stop::needs(format!("answers of {SIZE} bytes")));
    }
    let end = frames.last().map(|end| end.value.clone()).unwrap_or_default();
    let length = text_of(&frames).len() + end["output"].as_str().map_or(0, str::len);
    must!(length == SIZE, "{SIZE} bytes, got {length} and {end}");
    must!(peer.largest <= most, "messages of {most} bytes at most, got one of {}", peer.largest);
    peer.close().await;
    Ok(())
}

async fn after_fragments_that_never_came(run: &Run<'_>) -> Outcome {
    let features: Vec<&str> = FEATURES.iter().copied().chain(["frag"]).collect();
    let mut peer = Peer::with(run, &features, json!({})).await?;
    peer.skip_to(2);
    peer.raw(frame(INVOKE, ENC_JSON | MORE, 1, br#"{"input":"#)).await;
    peer.error(1, 2011).await?;
    let payload = json!({ "input": run.settings.say }).to_string();
    peer.raw(frame(INVOKE, ENC_JSON, 1, payload.as_bytes())).await;
    let frames = peer.finish(1).await?;
    must!(frames.last().is_some_and(|end| end.is("end")), "a whole INVOKE to begin anew, got {frames:?}");
    peer.close().await;
    Ok(())
}

async fn nothing_to_watch(run: &Run<'_>) -> Outcome {
    let features: Vec<&str> = FEATURES.iter().copied().chain(["watch"]).collect();
    let mut peer = Peer::with(run, &features, json!({})).await?;
    let id = peer.invoke(&json!({ "kind": "watch", "session": run.fresh()? })).await;
    let error = peer.error(id, 2300).await?;
    must!(error["retry"] == false, "retry false for a session that is not there, got {error}");
    peer.close().await;
    Ok(())
}

async fn beyond_what_was_sent(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say_long).await;
    peer.record(id, "text").await?;
    let accept = peer.accept.clone();
    peer.cut();
    let mut peer = Peer::bare(run).await?;
    let next = json!({ id.to_string(): 1_000_000 });
    let resume = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": next });
    peer.send(HELLO, 0, &json!({ "features": FEATURES, "enc": ["json"], "resume": resume })).await;
    peer.error(id, 2601).await?;
    peer.close().await;
    Ok(())
}

async fn a_reply_to_a_call(run: &Run<'_>) -> Outcome {
    let tool = json!({ "name": "add", "description": "Adds.", "input_schema": { "type": "object" } });
    let mut peer = Peer::with(run, FEATURES, json!({ "tools": [tool] })).await?;
    let id = peer.say("call add").await;
    let call = peer.record(id, "call").await?;
    let reply = json!({ "kind": "reply", "parent": id, "ask_id": call["call_id"], "text": "forged" });
    let refused = peer.invoke(&reply).await;
    peer.error(refused, 2303).await?;
    let result =
        json!({ "kind": "result", "parent": id, "call_id": call["call_id"], "ok": true, "output": 5 });
    peer.invoke(&result).await;
    let frames = peer.finish(id).await?;
    must!(text_of(&frames) == "result: 5", "the result to count, got {:?}", text_of(&frames));
    peer.close().await;
    Ok(())
}

async fn a_result_for_a_question(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say("ask why").await;
    let ask = peer.record(id, "ask").await?;
    let result = json!({ "kind": "result", "parent": id, "call_id": ask["ask_id"], "ok": true, "output": 5 });
    let refused = peer.invoke(&result).await;
    peer.error(refused, 2303).await?;
    peer.invoke(&json!({ "kind": "reply", "parent": id, "ask_id": ask["ask_id"], "text": "because" })).await;
    let frames = peer.finish(id).await?;
    must!(text_of(&frames) == "answer: because", "the reply to count, got {:?}", text_of(&frames));
    peer.close().await;
    Ok(())
}

async fn the_key_of_an_upgrade(run: &Run<'_>) -> Outcome {
    let mut wrong = BTreeSet::new();
    for key in ["x", "", "AAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAA"] {
        let upgrade = Request::upgrade(PATH, &["asp-v1"]).header("sec-websocket-key", key);
        let status = run.status(upgrade).await?;
        if status != 400 {
            wrong.insert(format!("{key:?}: {status}"));
        }
    }
    must!(wrong.is_empty(), "400 for a Sec-WebSocket-Key that is not 16 bytes of base64, got {wrong:?}");
    Ok(())
}
