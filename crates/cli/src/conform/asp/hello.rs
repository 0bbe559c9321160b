//! HELLO, profiles and features (section 5), and what bare connections get (section 8).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::peer::{
    ENC_JSON, END, ERROR, FEATURES, HELLO, INVOKE, Peer, STREAM, bare_text, frame, numbers_of, text_of,
};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[19, 30], needs: &[], run: |run| Box::pin(bare_clients_are_served(run)) },
    Check { shows: &[20], needs: &[], run: |run| Box::pin(one_accept_with_a_cid(run)) },
    Check { shows: &[21], needs: &[], run: |run| Box::pin(only_what_was_offered(run)) },
    Check { shows: &[23], needs: &[], run: |run| Box::pin(an_empty_hello_means_nothing(run)) },
    Check { shows: &[31, 81], needs: &[], run: |run| Box::pin(records_are_numbered_and_end(run)) },
    Check {
        shows: &[34],
        needs: &[
            Need::Says("echo"),
            Need::Says("nothing"),
            Need::Says("finish"),
            Need::Says("everything"),
            Need::Says("words"),
        ],
        run: |run| Box::pin(success_is_no_error(run)),
    },
    Check { shows: &[30, 35], needs: &[Need::Says("echo")], run: |run| Box::pin(code_points_are_whole(run)) },
];

async fn bare_clients_are_served(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::bare(run).await?;
    peer.raw(frame(INVOKE, 0, 1, run.settings.say.as_bytes())).await;
    let frames = peer.finish(1).await?;
    let Some((end, deltas)) = frames.split_last() else { return Ok(()) };
    must!(end.opcode == STREAM && end.payload.is_empty(), "an empty STREAM as the end, got {end:?}");
    must!(!deltas.is_empty(), "some text before the end");
    for delta in deltas {
        must!(delta.opcode == STREAM && delta.flags == 0, "plain STREAM frames, got {delta:?}");
    }
    peer.close().await;
    Ok(())
}

async fn one_accept_with_a_cid(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let cid = peer.accept["cid"].as_str().unwrap_or_default().to_owned();
    let fits = cid.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter));
    must!(fits && (16..=64).contains(&cid.len()), "a cid of 16 to 64 characters, got {cid:?}");
    let more = peer.listen(300).await?;
    let hellos = more.iter().filter(|frame| frame.opcode == HELLO).count();
    must!(hellos == 0, "exactly one accept, {hellos} more came");
    peer.send(HELLO, 0, &json!({ "features": FEATURES })).await;
    peer.error(0, 2012).await?;
    peer.still_serves(run).await?;
    peer.close().await;
    Ok(())
}

async fn only_what_was_offered(run: &Run<'_>) -> Outcome {
    for offered in [&[][..], &["events"], &["flags", "events", "nonsense"], &["frag", "deflate", "resume"]] {
        let mut peer = Peer::bare(run).await?;
        peer.send(HELLO, 0, &json!({ "features": offered, "enc": ["json"] })).await;
        let accept =
            peer.wait("an accept", |frame| frame.opcode == HELLO && frame.value["op"] == "accept").await?;
        let agreed = accept.value["features"].as_array().cloned().unwrap_or_default();
        for feature in &agreed {
            let known = feature.as_str().is_some_and(|name| offered.contains(&name) && name != "nonsense");
            must!(known, "only features of {offered:?}, got {feature}");
        }
        must!(
            agreed.is_empty() || offered.len() != 3 || offered[0] != "frag",
            "nothing without what it needs, got {agreed:?}"
        );
        peer.close().await;
    }
    Ok(())
}

async fn an_empty_hello_means_nothing(run: &Run<'_>) -> Outcome {
    for payload in [&b""[..], b"{}", b"\xc1\xff"] {
        let mut peer = Peer::bare(run).await?;
        peer.raw(frame(HELLO, 0, 0, payload)).await;
        // Nobody has said which encoding is wanted: either may come.
        peer.wait("an accept", |frame| frame.opcode == HELLO).await?;
        peer.raw(frame(INVOKE, 0, 1, run.settings.say.as_bytes())).await;
        let frames = peer.finish(1).await?;
        let end = frames.last().is_some_and(|end| end.opcode == STREAM && end.payload.is_empty());
        must!(end, "an answer as bare clients get it");
        peer.close().await;
    }
    Ok(())
}

async fn records_are_numbered_and_end(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say).await;
    let frames = peer.finish(id).await?;
    let Some((end, before)) = frames.split_last() else { return Ok(()) };
    must!(end.is("end"), "a record end, got {}", end.value);
    must!(end.flags & END != 0, "END on the last frame, got flags {:#04x}", end.flags);
    for frame in before {
        must!(frame.flags & END == 0, "END on the last frame only");
        must!(frame.flags & 0x0c == ENC_JSON, "the encoding in the flags, got {:#04x}", frame.flags);
    }
    let own = frames.iter().filter(|frame| !frame.is("status")).count() as u64;
    let numbers = numbers_of(&frames);
    must!(
        numbers == (0..numbers.len() as u64).collect::<Vec<_>>(),
        "n from 0 without holes, got {numbers:?}"
    );
    must!(numbers.len() as u64 >= own, "n on every record of the agent, got {numbers:?} of {own}");
    peer.close().await;
    Ok(())
}

async fn success_is_no_error(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    for text in ["echo a", "nothing", "finish length", "everything"] {
        let frames = peer.turn(text).await?;
        must!(frames.iter().all(|frame| frame.opcode != ERROR), "no 0x06 in {text:?}");
    }
    let frames = peer.turn("words one two three").await?;
    must!(text_of(&frames) == "one two three", "the words in order, got {:?}", text_of(&frames));
    peer.close().await;
    Ok(())
}

async fn code_points_are_whole(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::bare(run).await?;
    let text = "€🌍é".repeat(8_000);
    peer.raw(frame(INVOKE, 0, 1, format!("echo {text}").as_bytes())).await;
    let frames = peer.finish(1).await?;
    for frame in &frames {
        must!(std::str::from_utf8(&frame.payload).is_ok(), "whole code points in every frame");
    }
    must!(bare_text(&frames) == text, "the text that was sent, got {} bytes", bare_text(&frames).len());
    peer.close().await;
    Ok(())
}
