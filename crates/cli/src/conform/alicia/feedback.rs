//! Votes, notes, memories and weights (section 5.7).

use serde_json::json;

use super::super::check::{Check, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::peer::{
    ACK, COMMENTARY, DIMENSIONS, ELITE, ELITES, Envelope, FEEDBACK, FEEDBACK_CONFIRMATION, MEMORY,
    MEMORY_CONFIRMATION, NOTE, NOTE_CONFIRMATION, Peer, START,
};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[81, 82, 83], needs: &[], run: |run| Box::pin(votes(run)) },
    Check { shows: &[81, 84], needs: &[], run: |run| Box::pin(notes_and_memories(run)) },
    Check { shows: &[86, 87], needs: &[], run: |run| Box::pin(weights(run)) },
];

async fn votes(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, envelopes) = peer.turn(&run.settings.say).await?;
    let answer = envelopes
        .iter()
        .find(|envelope| envelope.kind() == START)
        .map(|envelope| envelope.text("id"))
        .unwrap_or_default();
    peer.listen(50).await?;
    for (vote, upvotes, downvotes, special, now) in [
        ("up", 1, 0, 0, "up"),
        ("down", 0, 1, 0, "down"),
        ("critical", 0, 0, 1, "critical"),
        ("remove", 0, 0, 0, ""),
    ] {
        let id = peer.fresh("av")?;
        let body = json!({ "id": id, "conversationId": peer.conversation, "messageId": answer, "targetType": "message",
            "targetId": answer, "vote": vote, "timestamp": 1_767_225_600_000_i64 });
        peer.send(FEEDBACK, body).await;
        let told = peer.kind("FeedbackConfirmation", FEEDBACK_CONFIRMATION).await?;
        must!(*told.get("feedbackId") == id.as_str(), "the id of the vote, got {}", told.value);
        let counts = told.get("aggregates");
        let critical = counts["specialVotes"]["critical"].as_u64().unwrap_or_default();
        let fits = counts["upvotes"] == upvotes && counts["downvotes"] == downvotes && critical == special;
        must!(fits, "one vote, {vote}, got {counts}");
        must!(*told.get("userVote") == now, "userVote {now:?}, got {}", told.value);
    }
    let said = peer.listen(100).await?;
    must!(said.iter().all(|envelope| envelope.kind() != ACK), "no acknowledgements, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn notes_and_memories(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (question, _) = peer.turn(&run.settings.say).await?;
    peer.listen(50).await?;
    let note = peer.fresh("an")?;
    for action in ["create", "update", "delete"] {
        let body = json!({ "id": note, "messageId": question, "content": "x", "category": "general", "action": action, "timestamp": 1 });
        peer.send(NOTE, body).await;
        let told = peer.kind("NoteConfirmation", NOTE_CONFIRMATION).await?;
        must!(
            *told.get("noteId") == note.as_str() && *told.get("success") == true,
            "{action} of a note, got {}",
            told.value
        );
    }
    let memory = peer.fresh("amem")?;
    for action in ["create", "pin", "archive", "delete"] {
        let body = json!({ "id": memory, "action": action, "memory": { "content": "likes tea", "category": "fact" }, "timestamp": 1 });
        peer.send(MEMORY, body).await;
        let told = peer.kind("MemoryConfirmation", MEMORY_CONFIRMATION).await?;
        must!(
            *told.get("memoryId") == memory.as_str() && *told.get("success") == true,
            "{action} of a memory, got {}",
            told.value
        );
    }
    let remark = peer.fresh("aucc")?;
    let body =
        json!({ "id": remark, "messageId": question, "conversationId": peer.conversation, "content": "x" });
    let stanza = peer.send(COMMENTARY, body).await;
    must!(peer.ack(stanza).await?, "a remark to be acknowledged");
    let said = peer.listen(100).await?;
    let more =
        said.iter().any(|envelope| [ACK, NOTE_CONFIRMATION, MEMORY_CONFIRMATION].contains(&envelope.kind()));
    must!(!more, "one confirmation each, and no acknowledgement, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn weights(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let names =
        ["successRate", "quality", "efficiency", "robustness", "generalization", "diversity", "innovation"];
    for weight in [1.0, 0.0] {
        let weights: serde_json::Map<String, serde_json::Value> =
            names.iter().map(|name| ((*name).to_owned(), json!(weight))).collect();
        let body = json!({ "conversationId": peer.conversation, "weights": weights, "timestamp": 1 });
        let stanza = peer.send(DIMENSIONS, body).await;
        let of = |envelope: &Envelope| envelope.kind() == ACK || envelope.kind() == ELITES;
        let first = peer.wait("an acknowledgement", of).await?;
        let fits = first.kind() == ACK
            && *first.get("acknowledgedStanzaId") == stanza
            && *first.get("success") == true;
        must!(fits, "an acknowledgement before EliteOptions, got {}", first.value);
        peer.kind("EliteOptions", ELITES).await?;
    }
    let body = json!({ "conversationId": peer.conversation, "weights": { "quality": -1.0 }, "timestamp": 1 });
    let stanza = peer.send(DIMENSIONS, body).await;
    peer.error(105).await?;
    must!(!peer.ack(stanza).await?, "a negative weight to be refused");
    let absent = peer.fresh("pa")?;
    let stanza = peer
        .send(ELITE, json!({ "conversationId": peer.conversation, "eliteId": absent, "timestamp": 1 }))
        .await;
    peer.error(203).await?;
    must!(!peer.ack(stanza).await?, "an elite that is not offered to be refused");
    peer.close().await;
    Ok(())
}
