//! The handshake and coming back (section 6).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::super::inbox::Inbox as _;
use super::peer::{
    ACK, CONFIGURATION, ELITES, ERROR, Envelope, Peer, SENTENCE, SERVER_INFO, START, STATS, STREAMING,
};
use super::sentences;
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[22, 23, 26], needs: &[], run: |run| Box::pin(the_order_of_a_handshake(run)) },
    Check { shows: &[24, 27], needs: &[], run: |run| Box::pin(what_was_missed(run)) },
    Check { shows: &[28], needs: &[], run: |run| Box::pin(a_mark_of_zero(run)) },
    Check { shows: &[30, 31], needs: &[], run: |run| Box::pin(an_unknown_conversation(run)) },
    Check {
        shows: &[30],
        needs: &[Need::OtherKey],
        run: |run| Box::pin(a_conversation_of_somebody_else(run)),
    },
    Check { shows: &[35], needs: &[Need::Says("words")], run: |run| Box::pin(an_answer_goes_on(run)) },
];

async fn the_order_of_a_handshake(run: &Run<'_>) -> Outcome {
    let peer = Peer::met(run).await?;
    let kinds: Vec<u64> = peer.greeting.iter().map(Envelope::kind).collect();
    must!(kinds == [CONFIGURATION, ACK, SERVER_INFO, STATS, ELITES], "12, 8, 26, 27, 31, got {kinds:?}");
    must!(peer.conversation.starts_with("ac_"), "a conversation, got {:?}", peer.conversation);
    let ack = &peer.greeting[1];
    let fits = *ack.get("acknowledgedStanzaId") == 0 && *ack.get("success") == true;
    must!(fits, "an acknowledgement of 0, got {}", ack.value);
    peer.close().await;
    Ok(())
}

/// The stored envelopes that a handshake with this mark brings.
async fn replayed(run: &Run<'_>, conversation: &str, mark: i64) -> Outcome<Vec<Envelope>> {
    let mut peer = Peer::open(run).await?;
    peer.handshake(conversation, mark, STREAMING).await?;
    let kinds: Vec<u64> = peer.greeting.iter().map(Envelope::kind).collect();
    must!(kinds.starts_with(&[CONFIGURATION, ACK]), "12 and 8 first, got {kinds:?}");
    must!(kinds.ends_with(&[SERVER_INFO, STATS, ELITES]), "26, 27 and 31 last, got {kinds:?}");
    let acknowledged = peer.greeting[1].get("acknowledgedStanzaId").clone();
    must!(acknowledged == -mark.abs(), "an acknowledgement of the mark, got {acknowledged}");
    let entries = peer.greeting.iter().filter(|envelope| envelope.stanza() != 0).cloned().collect();
    peer.close().await;
    Ok(entries)
}

async fn what_was_missed(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, mut sent) = peer.turn(&run.settings.say).await?;
    sent.extend(peer.turn(&run.settings.say).await?.1);
    let conversation = peer.conversation.clone();
    peer.cut();
    for mark in [-1, 1] {
        let again = replayed(run, &conversation, mark).await?;
        let bytes = |envelopes: &[Envelope]| {
            envelopes.iter().map(|envelope| envelope.raw.clone()).collect::<Vec<_>>()
        };
        must!(
            bytes(&again) == bytes(&sent[1..]),
            "what lies beyond {mark}, byte for byte, got {} of {}",
            again.len(),
            sent.len() - 1
        );
    }
    Ok(())
}

async fn a_mark_of_zero(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, sent) = peer.turn(&run.settings.say).await?;
    let (conversation, head) = (peer.conversation.clone(), sent.last().map_or(0, Envelope::stanza));
    peer.close().await;
    let peer = Peer::joined(run, &conversation).await?;
    must!(peer.greeting.iter().all(|envelope| envelope.stanza() == 0), "no replay for a mark of 0");
    let told = peer.greeting[0].get("lastSequenceSeen").clone();
    must!(told == head, "the head {head}, got {told}");
    peer.close().await;
    Ok(())
}

async fn refused(run: &Run<'_>, peer: &mut Peer<'_>, conversation: &str) -> Outcome<Envelope> {
    peer.send_to(
        conversation,
        CONFIGURATION,
        json!({ "conversationId": conversation, "features": STREAMING }),
    )
    .await;
    let error = peer.kind("error 201", ERROR).await?;
    must!(
        *error.get("code") == 201 && *error.get("recoverable") == false,
        "a final error 201, got {}",
        error.value
    );
    let path = format!("/api/v1/conversations/{conversation}");
    let status = run.status(Request::get(path)).await?;
    must!(status == 404 || status == 200, "404 or one's own conversation, got {status}");
    Ok(error)
}

async fn an_unknown_conversation(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::open(run).await?;
    let conversation = peer.fresh("ac")?;
    refused(run, &mut peer, &conversation).await?;
    let status = run.status(Request::get(format!("/api/v1/conversations/{conversation}"))).await?;
    must!(status == 404, "no conversation to be made, got {status}");
    peer.close().await;
    Ok(())
}

async fn a_conversation_of_somebody_else(run: &Run<'_>) -> Outcome {
    let own = Peer::met(run).await?;
    let other = run.target.for_other();
    let mut stranger = Peer::open_as(run, &other).await?;
    let foreign = refused(run, &mut stranger, &own.conversation).await?;
    let absent = stranger.fresh("ac")?;
    let unknown = refused(run, &mut stranger, &absent).await?;
    must!(
        foreign.get("message") == unknown.get("message"),
        "the same words for both, got {} and {}",
        foreign.value,
        unknown.value
    );
    own.close().await;
    stranger.close().await;
    Ok(())
}

async fn an_answer_goes_on(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, stanza) = peer.say(&sentences()).await?;
    peer.ack(stanza).await?;
    peer.kind("StartAnswer", START).await?;
    let first = peer.kind("a sentence", SENTENCE).await?;
    let conversation = peer.conversation.clone();
    peer.cut();
    pause(500).await;
    let mut again = Peer::open(run).await?;
    again.handshake(&conversation, first.stanza(), STREAMING).await?;
    let mut rest: Vec<Envelope> =
        again.greeting.iter().filter(|envelope| envelope.stanza() != 0).cloned().collect();
    while rest.last().is_none_or(|envelope| *envelope.get("isFinal") != true) {
        rest.push(again.wait("the rest of the answer", |envelope| envelope.stanza() != 0).await?);
    }
    let last = rest.last().map(|envelope| envelope.text("text")).unwrap_or_default();
    must!(last.contains("60"), "the answer to go on to its end, got {last:?}");
    again.close().await;
    Ok(())
}
