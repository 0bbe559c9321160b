//! Frames and messages (sections 2.3, 3 and 4).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, Stop, must, pause};
use super::peer::{
    COMPRESSED, ENC_JSON, ERROR, FEATURES, Frame, INTERRUPT, INVOKE, MORE, Peer, STREAM, TOOL_DEF, frame,
    text_of,
};
use crate::probe::{Over, PATIENCE, Received};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[1, 2], needs: &[], run: |run| Box::pin(headers_are_well_formed(run)) },
    Check { shows: &[3], needs: &[], run: |run| Box::pin(another_version_is_refused(run)) },
    Check { shows: &[9], needs: &[], run: |run| Box::pin(text_is_refused(run)) },
    Check { shows: &[10], needs: &[], run: |run| Box::pin(several_frames_in_a_message(run)) },
    Check { shows: &[11], needs: &[], run: |run| Box::pin(a_partial_frame(run)) },
    Check { shows: &[13], needs: &[], run: |run| Box::pin(beyond_the_hard_cap(run)) },
    Check { shows: &[14], needs: &[], run: |run| Box::pin(above_max_payload(run)) },
    Check { shows: &[15], needs: &[], run: |run| Box::pin(unknown_opcodes(run)) },
    Check { shows: &[16], needs: &[], run: |run| Box::pin(wrong_direction(run)) },
    Check { shows: &[18], needs: &[], run: |run| Box::pin(reserved_is_ignored(run)) },
    Check { shows: &[26], needs: &[], run: |run| Box::pin(invoke_on_zero(run)) },
    Check { shows: &[57], needs: &[Need::Says("echo")], run: |run| Box::pin(fragments(run)) },
    Check { shows: &[58], needs: &[Need::Says("echo")], run: |run| Box::pin(bombs(run)) },
    Check { shows: &[52], needs: &[Need::Patience], run: |run| Box::pin(a_silent_peer_is_pinged(run)) },
];

/// The peer looks at every header that it reads; here is one turn of it.
async fn headers_are_well_formed(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.say(&run.settings.say).await;
    peer.finish(id).await?;
    peer.close().await;
    let mut bare = Peer::bare(run).await?;
    bare.raw(frame(INVOKE, 0, 0xfffe, run.settings.say.as_bytes())).await;
    bare.finish(0xfffe).await?;
    bare.close().await;
    Ok(())
}

fn one_error(frames: &[Frame], code: u64) -> Outcome {
    let codes: Vec<Option<u64>> =
        frames.iter().filter(|frame| frame.opcode == ERROR).map(Frame::code).collect();
    must!(codes == [Some(code)], "ERROR {code} before the close, got {codes:?}");
    Ok(())
}

async fn another_version_is_refused(run: &Run<'_>) -> Outcome {
    for version in [0_u8, 2] {
        let mut peer = Peer::standard(run).await?;
        let mut bytes = frame(INVOKE, 0, 1, b"x");
        bytes[0] = version << 4 | INVOKE;
        peer.raw(bytes).await;
        one_error(&peer.closed(4406).await?, 2001)?;
    }
    Ok(())
}

async fn text_is_refused(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    peer.text_message("hello").await;
    one_error(&peer.closed(1003).await?, 2010)
}

async fn several_frames_in_a_message(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let payload = json!({ "input": run.settings.say }).to_string();
    peer.raw((1..=3).flat_map(|id| frame(INVOKE, 0, id, payload.as_bytes())).collect()).await;
    for id in 1..=3 {
        let frames = peer.finish(id).await?;
        must!(
            frames.last().is_some_and(|end| end.is("end")),
            "an answer to each of three frames in one message"
        );
    }
    peer.close().await;
    Ok(())
}

async fn a_partial_frame(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let mut bytes = frame(INVOKE, 0, 1, br#"{"kind":"list"}"#);
    bytes.extend_from_slice(&[0x13, 0, 0, 1, 0, 0, 0, 4, b'A', b'B']);
    peer.raw(bytes).await;
    let frames = peer.closed(4400).await?;
    one_error(&frames, 2004)?;
    // Its answer may be on the way when the connection ends: what it has begun with counts, too.
    let whole = frames.iter().any(|frame| frame.opcode == TOOL_DEF || frame.id == 1 && frame.is("end"));
    must!(whole, "the whole frame before the partial one to be handled");
    Ok(())
}

async fn beyond_the_hard_cap(run: &Run<'_>) -> Outcome {
    for length in [0xffff_ffff_u32, 0x8000_0000] {
        let mut peer = Peer::standard(run).await?;
        let mut bytes = vec![0x12, 0, 0, 1];
        bytes.extend_from_slice(&length.to_be_bytes());
        peer.raw(bytes).await;
        one_error(&peer.closed(1009).await?, 2202)?;
    }
    Ok(())
}

async fn above_max_payload(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let (most, message) = (peer.limit("max_payload"), peer.limit("max_message"));
    must!(most > 0, "limits.max_payload in the accept");
    if most + 9 > message || most > LARGEST_SENT {
        return Err(Stop::needs(format!("a max_payload below max_message and {LARGEST_SENT}; it is {most}")));
    }
    let size = usize::try_from(most).unwrap_or_default() + 1;
    peer.skip_to(2);
    peer.raw(frame(INVOKE, 0x08, 1, &vec![b'x'; size])).await;
    peer.error(1, 2202).await?;
    let id = peer.say(&run.settings.say).await;
    peer.finish(id).await?;
    peer.close().await;
    Ok(())
}

async fn unknown_opcodes(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let mut bytes = frame(0xf, 0, 3, &[0, 1]);
    bytes.extend(frame(0x7, 0, 5, &[]));
    peer.raw(bytes).await;
    for id in [3, 5] {
        let error = peer.error(0, 2002).await?;
        must!(error["ref"] == id, "ref {id}, got {}", error["ref"]);
    }
    peer.still_serves(run).await?;
    peer.close().await;
    Ok(())
}

async fn wrong_direction(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let mut bytes = frame(STREAM, 0, 3, b"{}");
    bytes.extend(frame(TOOL_DEF, 0, 0, b"{}"));
    peer.raw(bytes).await;
    for _ in 0..2 {
        peer.error(0, 2003).await?;
    }
    peer.still_serves(run).await?;
    peer.close().await;
    Ok(())
}

async fn reserved_is_ignored(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::bare(run).await?;
    peer.raw(frame(INVOKE, 0xff, 1, run.settings.say.as_bytes())).await;
    let frames = peer.finish(1).await?;
    for frame in &frames {
        must!(frame.opcode == STREAM && frame.flags == 0, "an answer with reserved 0, got {frame:?}");
    }
    peer.close().await;
    Ok(())
}

async fn invoke_on_zero(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    peer.send(INVOKE, 0, &json!({ "input": run.settings.say })).await;
    peer.error(0, 2007).await?;
    peer.still_serves(run).await?;
    peer.close().await;
    Ok(())
}

async fn fragments(run: &Run<'_>) -> Outcome {
    let features: Vec<&str> = FEATURES.iter().copied().chain(["frag"]).collect();
    let mut peer = Peer::with(run, &features, json!({})).await?;
    let word = "é".repeat(20_000);
    let payload = json!({ "input": format!("echo {word}") }).to_string();
    peer.skip_to(5);
    let pieces: Vec<&[u8]> = payload.as_bytes().chunks(7_000).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let more = if index + 1 < pieces.len() { MORE } else { 0 };
        peer.raw(frame(INVOKE, ENC_JSON | more, 1, piece)).await;
        if index == 1 {
            // Another id may come in between.
            let id = peer.say("echo between").await;
            let frames = peer.finish(id).await?;
            must!(text_of(&frames) == "between", "an answer between fragments, got {:?}", text_of(&frames));
        }
    }
    let frames = peer.finish(1).await?;
    must!(text_of(&frames) == word, "what the fragments are together");
    // Another encoding in the second fragment.
    let mut broken = frame(INVOKE, ENC_JSON | MORE, 2, br#"{"input":"#);
    broken.extend(frame(INVOKE, 0x0c, 2, br#""x"}"#));
    peer.raw(broken).await;
    peer.error(2, 2011).await?;
    let mut stopped = frame(INVOKE, ENC_JSON | MORE, 3, br#"{"input":"#);
    stopped.extend(frame(INTERRUPT, 0, 3, b""));
    peer.raw(stopped).await;
    let frames = peer.finish(3).await?;
    let finish = frames.last().map(|end| end.value["finish"].clone()).unwrap_or_default();
    must!(finish == "interrupted", "the assembly to end with INTERRUPT, got {finish}");
    peer.close().await;
    Ok(())
}

async fn bombs(run: &Run<'_>) -> Outcome {
    let features: Vec<&str> = FEATURES.iter().copied().chain(["deflate"]).collect();
    let mut peer = Peer::with(run, &features, json!({})).await?;
    let pack = |text: &str| {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder
            .write_all(text.as_bytes())
            .and_then(|()| encoder.finish())
            .map_err(|error| Stop::needs(error.to_string()))
    };
    peer.raw(frame(INVOKE, ENC_JSON | COMPRESSED, 1, &pack(r#"{"input":"echo packed"}"#)?)).await;
    let frames = peer.finish(1).await?;
    must!(text_of(&frames) == "packed", "what was compressed, got {:?}", text_of(&frames));
    for (id, size) in [(2, 900_000), (3, 20_000_000)] {
        let bomb = pack(&format!(r#"{{"input":"{}"}}"#, "a".repeat(size)))?;
        peer.raw(frame(INVOKE, ENC_JSON | COMPRESSED, id, &bomb)).await;
        peer.error(id, 2202).await?;
    }
    peer.close().await;
    Ok(())
}

async fn a_silent_peer_is_pinged(run: &Run<'_>) -> Outcome {
    let peer = Peer::standard(run).await?;
    let heartbeat = peer.accept["heartbeat_s"].as_u64().unwrap_or(30);
    let mut socket = peer.into_socket();
    let patience = std::time::Duration::from_secs(heartbeat) + PATIENCE;
    loop {
        match socket.next(patience).await {
            Ok(Received::Ping) => break,
            Ok(Received::Text(_) | Received::Binary(_) | Received::Pong) => {}
            Err(Over::Late) => {
                return Err(Stop::fault(format!("expected a ping after {heartbeat} s of silence")));
            }
            Err(over) => return Err(Stop::fault(format!("expected a ping: {over}"))),
        }
    }
    // Whoever does not read does not answer pings either.
    pause(85_000).await;
    loop {
        match socket.next(PATIENCE).await {
            Ok(_) => {}
            Err(Over::Late) => return Err(Stop::fault("expected the end after 75 s without a sign of life")),
            Err(Over::Closed(_) | Over::Lost) => return Ok(()),
        }
    }
}

const LARGEST_SENT: u64 = 8 << 20;
