//! Coming back after a cut (section 13.2).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::peer::{ERROR, FEATURES, Frame, HELLO, Peer, REPLAY, numbers_of, text_of};
use crate::probe::Target;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[53, 54], needs: &[Need::Says("count")], run: |run| Box::pin(nothing_is_missed(run)) },
    Check { shows: &[54], needs: &[], run: |run| Box::pin(a_token_is_used_once(run)) },
    Check { shows: &[55], needs: &[Need::OtherKey], run: |run| Box::pin(nobody_else_resumes(run)) },
    Check { shows: &[79], needs: &[], run: |run| Box::pin(the_old_socket_is_closed(run)) },
];

/// Comes back for what `accept` had, as `target`; the ERROR if that was refused.
async fn come_back(
    run: &Run<'_>,
    target: &Target,
    accept: &Value,
    next: &Value,
) -> Outcome<(Peer, Option<Frame>)> {
    let mut peer = Peer::bare_as(run, target).await?;
    let resume = json!({ "cid": accept["cid"], "token": accept["resume"]["token"], "next": next });
    peer.send(HELLO, 0, &json!({ "features": FEATURES, "enc": ["json"], "resume": resume })).await;
    let mut refused = None;
    loop {
        let frame = peer.wait("an accept", |frame| matches!(frame.opcode, HELLO | ERROR)).await?;
        if frame.opcode == ERROR {
            refused = Some(frame);
        } else if frame.value["op"] == "accept" {
            peer.accept = frame.value;
            return Ok((peer, refused));
        }
    }
}

fn refused_with_2600(refused: Option<&Frame>) -> Outcome {
    let code = refused.and_then(Frame::code);
    must!(code == Some(2600), "ERROR 2600, got {code:?}");
    Ok(())
}

async fn nothing_is_missed(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say("count 60 every 15").await;
    let mut frames = Vec::new();
    for _ in 0..10 {
        frames.push(peer.wait("a record", |frame| frame.id == id).await?);
    }
    let accept = peer.accept.clone();
    peer.cut();
    pause(200).await;
    let seen = frames.last().and_then(|frame| frame.value["n"].as_u64()).map_or(0, |n| n + 1);
    let (mut again, refused) = come_back(run, run.target, &accept, &json!({ id.to_string(): seen })).await?;
    must!(refused.is_none() && again.accept["resumed"] == true, "to be resumed, got {}", again.accept);
    must!(again.accept["cid"] == accept["cid"], "the same cid");
    must!(again.accept["resume"]["token"] != accept["resume"]["token"], "another resume token");
    let rest = again.finish(id).await?;
    must!(rest.first().is_some_and(|frame| frame.flags & REPLAY != 0), "REPLAY on what was missed");
    frames.extend(rest);
    let numbers = numbers_of(&frames);
    must!(numbers == (0..numbers.len() as u64).collect::<Vec<_>>(), "every n exactly once, got {numbers:?}");
    let expected: String = (1..=60).map(|number| format!("{number} ")).collect();
    must!(text_of(&frames) == expected, "the whole text, got {:?}", text_of(&frames));
    again.close().await;
    Ok(())
}

async fn a_token_is_used_once(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say_long).await;
    peer.record(id, "text").await?;
    let accept = peer.accept.clone();
    peer.cut();
    let next = json!({ id.to_string(): 0 });
    let (mut again, refused) = come_back(run, run.target, &accept, &next).await?;
    must!(refused.is_none(), "to be resumed, got {:?}", refused);
    let (thief, refused) = come_back(run, run.target, &accept, &next).await?;
    refused_with_2600(refused.as_ref())?;
    must!(thief.accept["cid"] != accept["cid"], "to go on with a new cid");
    again.interrupt(id).await;
    again.finish(id).await?;
    again.close().await;
    thief.close().await;
    Ok(())
}

async fn nobody_else_resumes(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say_long).await;
    peer.record(id, "text").await?;
    let next = json!({ id.to_string(): 0 });
    let (mut thief, refused) = come_back(run, &run.target.for_other(), &peer.accept, &next).await?;
    refused_with_2600(refused.as_ref())?;
    let heard = thief.listen(300).await?;
    must!(heard.iter().all(|frame| frame.id != id), "nothing of somebody else's request, got {heard:?}");
    peer.record(id, "text").await?;
    peer.interrupt(id).await;
    peer.finish(id).await?;
    peer.close().await;
    thief.close().await;
    Ok(())
}

async fn the_old_socket_is_closed(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say_long).await;
    peer.record(id, "text").await?;
    let next = json!({ id.to_string(): 0 });
    let (mut again, refused) = come_back(run, run.target, &peer.accept, &next).await?;
    must!(refused.is_none(), "to be resumed, got {:?}", refused);
    peer.closed(4409).await?;
    again.interrupt(id).await;
    again.finish(id).await?;
    again.close().await;
    Ok(())
}
