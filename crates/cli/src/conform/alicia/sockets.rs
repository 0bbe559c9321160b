//! One socket for many conversations, and sync (sections 7 and 8).

use std::time::Duration;

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::super::inbox::Inbox as _;
use super::peer::{
    ACK, ASSISTANT, ERROR, Peer, SENTENCE, START, SUBSCRIBE, SUBSCRIBED, SYNC, SYNCED, UNSUBSCRIBE,
    UNSUBSCRIBED, USER,
};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[89], needs: &[Need::Key], run: |run| Box::pin(who_may_upgrade(run)) },
    Check { shows: &[90, 92, 97], needs: &[], run: |run| Box::pin(a_subscription_with_the_past(run)) },
    Check { shows: &[91], needs: &[], run: |run| Box::pin(nothing_to_see(run)) },
    Check { shows: &[93, 94], needs: &[], run: |run| Box::pin(again_and_no_more(run)) },
    Check { shows: &[95], needs: &[], run: |run| Box::pin(without_a_subscription(run)) },
    Check { shows: &[96, 97, 109, 110], needs: &[], run: |run| Box::pin(the_other_device(run)) },
    Check { shows: &[98], needs: &[], run: |run| Box::pin(text_is_ignored(run)) },
    Check { shows: &[98], needs: &[Need::Patience], run: |run| Box::pin(a_ping(run)) },
    Check { shows: &[99, 100, 101], needs: &[], run: |run| Box::pin(synced(run)) },
    Check { shows: &[108], needs: &[], run: |run| Box::pin(the_lite_profile(run)) },
];

async fn who_may_upgrade(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::upgrade(super::peer::PATH, &[]).without_key()).await?;
    must!(status == 401, "401 without a credential, got {status}");
    let status =
        run.status(Request::upgrade(super::peer::PATH, &[]).header("origin", "https://evil.test")).await?;
    must!(status == 403, "403 for a foreign origin, got {status}");
    Ok(())
}

fn superset(message: &Value, role: &str) -> Outcome {
    let body = &message["body"];
    must!(body["contents"] == body["content"] && body["role"] == role, "contents and role, got {body}");
    must!(body["sequenceNumber"].is_u64(), "a sequenceNumber, got {body}");
    must!(
        body["createdAt"].is_string() && body["updatedAt"].is_string(),
        "createdAt and updatedAt, got {body}"
    );
    Ok(())
}

async fn a_subscription_with_the_past(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    peer.turn(&run.settings.say).await?;
    let conversation = peer.conversation.clone();
    let mut other = Peer::open(run).await?;
    other
        .send_to(&conversation, SUBSCRIBE, json!({ "conversationId": conversation, "fromSequence": 0 }))
        .await;
    let first = other.wait("SubscribeAck", |_| true).await?;
    must!(first.kind() == SUBSCRIBED, "SubscribeAck before anything else, got {}", first.value);
    must!(*first.get("missedMessages") == 2, "two missed messages, got {}", first.value);
    let question = other.wait("the question", |envelope| envelope.kind() == USER).await?;
    let answer = other.wait("the answer", |envelope| envelope.kind() == ASSISTANT).await?;
    must!(question.stanza() == 0 && answer.stanza() == 0, "stanza 0 for both");
    superset(&question.value, "user")?;
    superset(&answer.value, "assistant")?;
    peer.close().await;
    other.close().await;
    Ok(())
}

async fn nothing_to_see(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::open(run).await?;
    let absent = peer.fresh("ac")?;
    peer.send_to(&absent, SUBSCRIBE, json!({ "conversationId": absent })).await;
    let ack = peer.kind("SubscribeAck", SUBSCRIBED).await?;
    let fits = *ack.get("success") == false && *ack.get("error") == "not_found";
    must!(fits, "not_found, got {}", ack.value);
    peer.close().await;
    Ok(())
}

async fn again_and_no_more(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let conversation = peer.conversation.clone();
    let mut other = Peer::joined(run, &conversation).await?;
    for _ in 0..2 {
        other.send(SUBSCRIBE, json!({ "conversationId": conversation })).await;
        let ack = other.kind("SubscribeAck", SUBSCRIBED).await?;
        must!(*ack.get("success") == true, "to subscribe again, got {}", ack.value);
    }
    for _ in 0..2 {
        other.send(UNSUBSCRIBE, json!({ "conversationId": conversation })).await;
        let ack = other.kind("UnsubscribeAck", UNSUBSCRIBED).await?;
        must!(*ack.get("success") == true, "to unsubscribe again, got {}", ack.value);
    }
    other.listen(0).await?;
    peer.turn(&run.settings.say).await?;
    let said = other.listen(200).await?;
    must!(said.is_empty(), "nothing after UnsubscribeAck, got {said:?}");
    peer.close().await;
    other.close().await;
    Ok(())
}

async fn without_a_subscription(run: &Run<'_>) -> Outcome {
    let peer = Peer::met(run).await?;
    let conversation = peer.conversation.clone();
    peer.close().await;
    let mut other = Peer::open(run).await?;
    let id = other.fresh("am")?;
    let body = json!({ "id": id, "conversationId": conversation, "content": run.settings.say });
    let stanza = other.send_to(&conversation, USER, body).await;
    other.error(202).await?;
    must!(!other.ack(stanza).await?, "a message without a subscription to be refused");
    let said = other.listen(200).await?;
    must!(said.iter().all(|envelope| envelope.kind() != START), "no answer, got {said:?}");
    other.close().await;
    Ok(())
}

async fn the_other_device(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let mut other = Peer::joined(run, &peer.conversation).await?;
    let (id, envelopes) = peer.turn(&run.settings.say).await?;
    let told = other.kind("UserMessage", USER).await?;
    must!(
        *told.get("id") == id.as_str() && told.stanza() == 0,
        "the message with stanza 0, got {}",
        told.value
    );
    superset(&told.value, "user")?;
    let seen = other.answer(&id).await?;
    let bytes =
        |list: &[super::peer::Envelope]| list.iter().map(|envelope| envelope.raw.clone()).collect::<Vec<_>>();
    must!(bytes(&seen) == bytes(&envelopes), "the same answer on both devices");
    let said = peer.listen(100).await?;
    must!(
        said.iter().all(|envelope| envelope.kind() != USER),
        "the sender not to be told its own message, got {said:?}"
    );
    let said = other.listen(100).await?;
    must!(
        said.iter().all(|envelope| envelope.kind() != ACK),
        "acknowledgements to go to the sender only, got {said:?}"
    );
    peer.close().await;
    other.close().await;
    Ok(())
}

async fn text_is_ignored(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    peer.text_message("hello").await;
    peer.still_serves().await?;
    let said = peer.listen(100).await?;
    must!(said.iter().all(|envelope| envelope.kind() != ERROR), "no word about a text message, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn a_ping(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    must!(peer.pinged(Duration::from_secs(40)).await, "a ping every 30 s");
    // Whoever does not read does not answer pings either.
    pause(75_000).await;
    peer.ended().await
}

async fn synced(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (one, two) = (format!("local_{}", run.fresh()?), format!("local_{}", run.fresh()?));
    let message = |id: &str, contents: &str| json!({ "localId": id, "sequenceNumber": 1, "role": "user", "contents": contents, "createdAt": "2026-01-01T00:00:00Z" });
    let broken = json!({ "localId": "", "sequenceNumber": 2, "role": "user", "contents": "x", "createdAt": "2026-01-01T00:00:00Z" });
    peer.send(SYNC, json!({ "messages": [message(&one, "a"), broken, message(&two, "b")] })).await;
    let told = peer.kind("SyncResponse", SYNCED).await?;
    let results = told.get("syncedMessages").as_array().cloned().unwrap_or_default();
    let states: Vec<&str> = results.iter().filter_map(|result| result["status"].as_str()).collect();
    must!(states == ["synced", "conflict", "synced"], "a result for each in order, got {states:?}");
    must!(
        results[0]["localId"] == one.as_str() && results[2]["localId"] == two.as_str(),
        "the localIds in order, got {results:?}"
    );
    peer.send(SYNC, json!({ "messages": [message(&one, "a"), message(&two, "other")] })).await;
    let again = peer.kind("SyncResponse", SYNCED).await?;
    let second = again.get("syncedMessages").as_array().cloned().unwrap_or_default();
    let same = second
        .first()
        .is_some_and(|result| result["serverId"] == results[0]["serverId"] && result["status"] == "synced");
    must!(same, "the same serverId again, got {second:?}");
    must!(
        second.get(1).is_some_and(|result| result["status"] == "conflict"),
        "a conflict for another text, got {second:?}"
    );
    let said = peer.listen(300).await?;
    let answered = said.iter().any(|envelope| [START, SENTENCE, ASSISTANT].contains(&envelope.kind()));
    must!(!answered, "no answer to what was synced, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn the_lite_profile(run: &Run<'_>) -> Outcome {
    let own = Peer::met(run).await?;
    let conversation = own.conversation.clone();
    own.close().await;
    let mut peer = Peer::open(run).await?;
    peer.envelope(&json!({ "conversationId": conversation, "type": SUBSCRIBE, "body": { "conversationId": conversation } })).await;
    let ack = peer.kind("SubscribeAck", SUBSCRIBED).await?;
    must!(ack.value.get("stanzaId").is_none(), "no stanzaId in the lite profile, got {}", ack.value);
    must!(*ack.get("success") == true, "success, got {}", ack.value);
    peer.close().await;
    Ok(())
}
