//! Stops and variations (sections 5.5 and 5.6).

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::peer::{ASSISTANT, ERROR, Envelope, Peer, SENTENCE, START, STOP, USER, VARIATION};
use super::sentences;
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[71, 72], needs: &[Need::Says("words")], run: |run| Box::pin(a_stop(run)) },
    Check { shows: &[73], needs: &[Need::Says("words")], run: |run| Box::pin(kinds_of_stops(run)) },
    Check { shows: &[74], needs: &[], run: |run| Box::pin(a_stop_of_nothing(run)) },
    Check { shows: &[75, 79], needs: &[], run: |run| Box::pin(again(run)) },
    Check { shows: &[76], needs: &[], run: |run| Box::pin(an_edited_question(run)) },
    Check { shows: &[77], needs: &[], run: |run| Box::pin(an_edit_that_never_comes(run)) },
    Check { shows: &[78], needs: &[], run: |run| Box::pin(an_edited_answer(run)) },
    Check { shows: &[79], needs: &[], run: |run| Box::pin(continued(run)) },
];

async fn streaming(peer: &mut Peer<'_>) -> Outcome<String> {
    let (_, stanza) = peer.say(&sentences()).await?;
    peer.ack(stanza).await?;
    let answer = peer.kind("StartAnswer", START).await?.text("id");
    peer.kind("a sentence", SENTENCE).await?;
    Ok(answer)
}

async fn a_stop(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let answer = streaming(&mut peer).await?;
    let sent = Instant::now();
    let stanza = peer.send(STOP, json!({ "conversationId": peer.conversation, "targetId": answer })).await;
    must!(peer.ack(stanza).await?, "the stop to be acknowledged");
    let took = sent.elapsed();
    must!(took < SOON, "the acknowledgement soon, it took {} ms", took.as_millis());
    let mut late = 0;
    loop {
        let sentence = peer.kind("the final sentence", SENTENCE).await?;
        if *sentence.get("isFinal") == true {
            break;
        }
        late += usize::from(sentence.at > sent + SOON);
    }
    must!(late == 0, "only the final sentence after the stop, got {late} more");
    let after = peer.listen(400).await?;
    let more = after.iter().any(|envelope| envelope.kind() == SENTENCE);
    must!(!more, "nothing after the final sentence, got {after:?}");
    peer.close().await;
    Ok(())
}

async fn kinds_of_stops(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    streaming(&mut peer).await?;
    let stanza =
        peer.send(STOP, json!({ "conversationId": peer.conversation, "stopType": "nonsense" })).await;
    peer.error(101).await?;
    must!(!peer.ack(stanza).await?, "an unknown stopType to be refused");
    let stanza = peer.send(STOP, json!({ "conversationId": peer.conversation })).await;
    must!(peer.ack(stanza).await?, "a stop of the generation where nothing is said");
    peer.wait("the final sentence", |envelope| *envelope.get("isFinal") == true).await?;
    peer.close().await;
    Ok(())
}

async fn a_stop_of_nothing(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let absent = peer.fresh("am")?;
    let stanza = peer.send(STOP, json!({ "conversationId": peer.conversation, "targetId": absent })).await;
    must!(!peer.ack(stanza).await?, "success false for an unknown target");
    let said = peer.listen(200).await?;
    must!(said.iter().all(|envelope| envelope.kind() != ERROR), "no error, got {said:?}");
    peer.close().await;
    Ok(())
}

/// A question and its answer.
async fn answered(run: &Run<'_>, peer: &mut Peer<'_>) -> Outcome<(String, String)> {
    let (question, envelopes) = peer.turn(&run.settings.say).await?;
    let answer =
        envelopes.iter().find(|envelope| envelope.kind() == START).map(|envelope| envelope.text("id"));
    Ok((question, answer.unwrap_or_default()))
}

async fn vary(peer: &mut Peer<'_>, target: &str, mode: &str, content: Option<&str>) -> Outcome {
    let mut body = json!({ "conversationId": peer.conversation, "targetId": target, "mode": mode });
    if let Some(content) = content {
        body["newContent"] = content.into();
    }
    let stanza = peer.send(VARIATION, body).await;
    must!(peer.ack(stanza).await?, "{mode} to be acknowledged");
    Ok(())
}

/// The StartAnswer of the next answer.
async fn start_of(peer: &mut Peer<'_>) -> Outcome<Envelope> {
    let start = peer.kind("StartAnswer", START).await?;
    peer.wait("the final sentence", |envelope| *envelope.get("isFinal") == true).await?;
    Ok(start)
}

async fn again(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (question, answer) = answered(run, &mut peer).await?;
    let mut answers = vec![answer.clone()];
    for (target, mode) in [(&question, "regenerate"), (&answer, "regenerate"), (&answer, "retry")] {
        vary(&mut peer, target, mode, None).await?;
        let start = start_of(&mut peer).await?;
        must!(
            *start.get("previousId") == question.as_str(),
            "{mode} to answer the question, got {}",
            start.value
        );
        let id = start.text("id");
        must!(!answers.contains(&id), "another answer, got {id}");
        answers.push(id);
    }
    let siblings = run.ask(Request::get(format!("/api/v1/messages/{answer}/siblings"))).await?;
    must!(
        answers.iter().all(|id| siblings.body.contains(id.as_str())),
        "all answers to be kept, got {}",
        siblings.body
    );
    peer.close().await;
    Ok(())
}

async fn an_edited_question(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (question, _) = answered(run, &mut peer).await?;
    vary(&mut peer, &question, "edit", Some(&run.settings.say)).await?;
    let announced = peer.kind("UserMessage", USER).await?;
    let id = announced.text("id");
    must!(announced.stanza() == 0 && id != question, "a new message with stanza 0, got {}", announced.value);
    let start = start_of(&mut peer).await?;
    must!(*start.get("previousId") == id.as_str(), "an answer to the edited question, got {}", start.value);
    peer.close().await;
    Ok(())
}

async fn an_edit_that_never_comes(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (question, _) = answered(run, &mut peer).await?;
    let sent = Instant::now();
    vary(&mut peer, &question, "edit", None).await?;
    peer.error(202).await?;
    let took = sent.elapsed();
    must!(took > Duration::from_secs(4), "202 after 5 s, it took {} ms", took.as_millis());
    peer.close().await;
    Ok(())
}

async fn an_edited_answer(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, answer) = answered(run, &mut peer).await?;
    vary(&mut peer, &answer, "edit", Some("Better so.")).await?;
    let told = peer.kind("AssistantMessage", ASSISTANT).await?;
    let fits = *told.get("id") == answer.as_str() && *told.get("content") == "Better so.";
    must!(fits && told.stanza() < 0, "the answer under the same id, got {}", told.value);
    peer.close().await;
    Ok(())
}

async fn continued(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, answer) = answered(run, &mut peer).await?;
    vary(&mut peer, &answer, "continue", None).await?;
    let start = start_of(&mut peer).await?;
    must!(*start.get("previousId") == answer.as_str(), "a child of the answer, got {}", start.value);
    peer.close().await;
    Ok(())
}

/// 250 ms, and what a network and a busy machine add.
const SOON: Duration = Duration::from_secs(3);
