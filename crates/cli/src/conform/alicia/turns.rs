//! Turns (sections 5.1, 5.2 and 5.8).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::peer::{ACK, ASSISTANT, ERROR, Envelope, Peer, REASONING, SENTENCE, START, STATS, USER, joined};
use super::sentences;
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[41], needs: &[], run: |run| Box::pin(acknowledged_then_answered(run)) },
    Check { shows: &[42, 50], needs: &[], run: |run| Box::pin(what_is_stored(run)) },
    Check { shows: &[43, 44], needs: &[], run: |run| Box::pin(a_repeated_message(run)) },
    Check { shows: &[45], needs: &[], run: |run| Box::pin(no_content_and_no_parent(run)) },
    Check { shows: &[46, 47, 48], needs: &[], run: |run| Box::pin(one_final_sentence(run)) },
    Check { shows: &[48, 49], needs: &[], run: |run| Box::pin(whole_answers(run)) },
    Check {
        shows: &[51],
        needs: &[Need::Says("words"), Need::Says("echo")],
        run: |run| Box::pin(a_new_message_ends_an_answer(run)),
    },
    Check { shows: &[52], needs: &[Need::Says("fail")], run: |run| Box::pin(an_answer_that_fails(run)) },
    Check {
        shows: &[54],
        needs: &[Need::Says("reason")],
        run: |run| Box::pin(reasoning_names_the_answer(run)),
    },
    Check { shows: &[80], needs: &[], run: |run| Box::pin(the_tip_follows(run)) },
    Check { shows: &[88], needs: &[], run: |run| Box::pin(durations_are_milliseconds(run)) },
];

async fn acknowledged_then_answered(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, stanza) = peer.say(&run.settings.say).await?;
    let mut kinds = Vec::new();
    while kinds.last() != Some(&START) {
        kinds.push(peer.wait("StartAnswer", |_| true).await?.kind());
    }
    let place = |wanted| kinds.iter().position(|kind| *kind == wanted);
    must!(
        place(ACK) < place(START) && place(ACK).is_some(),
        "an acknowledgement of {stanza} before StartAnswer, got {kinds:?}"
    );
    peer.close().await;
    Ok(())
}

async fn messages(run: &Run<'_>, conversation: &str) -> Outcome<Vec<serde_json::Value>> {
    let answer = run.ask(Request::get(format!("/api/v1/conversations/{conversation}/messages"))).await?;
    must!(answer.status == 200, "the messages over HTTP, got {}", answer.status);
    let value = answer.json();
    let list = value.as_array().or_else(|| value["messages"].as_array()).cloned().unwrap_or_default();
    Ok(list)
}

async fn what_is_stored(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (id, envelopes) = peer.turn(&run.settings.say).await?;
    let list = messages(run, &peer.conversation).await?;
    must!(list.iter().any(|message| message["id"] == id.as_str()), "the message under the id of its client");
    let answer = envelopes
        .iter()
        .find(|envelope| envelope.kind() == START)
        .map(|envelope| envelope.text("id"))
        .unwrap_or_default();
    let stored = list.iter().find(|message| message["id"] == answer.as_str());
    let contents = stored.and_then(|message| message["contents"].as_str()).unwrap_or_default();
    must!(contents == joined(&envelopes), "the joined sentences {:?}, got {contents:?}", joined(&envelopes));
    peer.close().await;
    Ok(())
}

async fn a_repeated_message(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (id, _) = peer.turn(&run.settings.say).await?;
    peer.listen(50).await?;
    let stanza = peer.say_as(&id, &run.settings.say).await;
    must!(peer.ack(stanza).await?, "a repeated message to be acknowledged");
    let stanza = peer.say_as(&id, "echo something else").await;
    peer.error(202).await?;
    must!(!peer.ack(stanza).await?, "another text under the same id to be refused");
    let said = peer.listen(300).await?;
    must!(said.iter().all(|envelope| envelope.kind() != START), "no answer to either, got {said:?}");
    peer.close().await;
    Ok(())
}

async fn no_content_and_no_parent(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, stanza) = peer.say("   ").await?;
    peer.error(105).await?;
    must!(!peer.ack(stanza).await?, "an empty message to be refused");
    let (id, absent) = (peer.fresh("am")?, peer.fresh("am")?);
    let body = json!({ "id": id, "previousId": absent, "conversationId": peer.conversation, "content": run.settings.say });
    let stanza = peer.send(USER, body).await;
    peer.error(203).await?;
    must!(!peer.ack(stanza).await?, "an unknown previousId to be refused");
    peer.close().await;
    Ok(())
}

async fn one_final_sentence(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let say = if run.settings.words.contains("words") {
        "words One ends. Two ends. Three.".to_owned()
    } else {
        run.settings.say.clone()
    };
    let (id, envelopes) = peer.turn(&say).await?;
    let starts: Vec<&Envelope> = envelopes.iter().filter(|envelope| envelope.kind() == START).collect();
    must!(
        starts.len() == 1 && *starts[0].get("previousId") == id.as_str(),
        "one StartAnswer to the message, got {starts:?}"
    );
    let answer = starts[0].text("id");
    let sentences: Vec<&Envelope> = envelopes.iter().filter(|envelope| envelope.kind() == SENTENCE).collect();
    for (index, sentence) in sentences.iter().enumerate() {
        must!(*sentence.get("previousId") == answer.as_str(), "previousId {answer}, got {}", sentence.value);
        must!(*sentence.get("sequence") == index + 1, "sequence {}, got {}", index + 1, sentence.value);
        let last = index + 1 == sentences.len();
        must!(
            (*sentence.get("isFinal") == true) == last,
            "isFinal on the last sentence only, got {}",
            sentence.value
        );
    }
    let after = peer.listen(300).await?;
    let more = after.iter().any(|envelope| [SENTENCE, ASSISTANT].contains(&envelope.kind()));
    must!(!more, "nothing of the answer after its final sentence, got {after:?}");
    peer.close().await;
    Ok(())
}

async fn whole_answers(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met_with(run, &[]).await?;
    let (id, envelopes) = peer.turn(&run.settings.say).await?;
    let kinds: Vec<u64> = envelopes.iter().map(Envelope::kind).collect();
    must!(kinds == [ASSISTANT], "one AssistantMessage for a client that does not stream, got {kinds:?}");
    must!(*envelopes[0].get("previousId") == id.as_str(), "previousId {id}, got {}", envelopes[0].value);
    peer.close().await;
    Ok(())
}

async fn a_new_message_ends_an_answer(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, stanza) = peer.say(&sentences()).await?;
    peer.ack(stanza).await?;
    let first = peer.kind("StartAnswer", START).await?.text("id");
    peer.kind("a sentence", SENTENCE).await?;
    let (id, _) = peer.say("echo second").await?;
    let mut ended = false;
    loop {
        let envelope =
            peer.wait("the answer to the second message", |envelope| envelope.stanza() != 0).await?;
        if envelope.kind() == SENTENCE && *envelope.get("previousId") == first.as_str() {
            must!(!ended, "nothing of the first answer after its final sentence");
            ended = *envelope.get("isFinal") == true;
        }
        if envelope.kind() == START {
            must!(ended, "the final sentence of the first answer before the second begins");
            must!(
                *envelope.get("previousId") == id.as_str(),
                "an answer to the second message, got {}",
                envelope.value
            );
            break;
        }
    }
    peer.close().await;
    Ok(())
}

async fn an_answer_that_fails(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, envelopes) = peer.turn("fail execution after 2").await?;
    let answer =
        envelopes.iter().find(|envelope| envelope.kind() == START).map(|envelope| envelope.text("id"));
    let error = peer.kind("an ErrorMessage after the final sentence", ERROR).await?;
    must!(error.stanza() < 0, "a sequenced error, got {}", error.value);
    must!(
        answer.is_some_and(|answer| *error.get("originatingId") == answer.as_str()),
        "the answer as originatingId, got {}",
        error.value
    );
    peer.close().await;
    Ok(())
}

async fn reasoning_names_the_answer(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, envelopes) = peer.turn("reason 3").await?;
    let answer = envelopes
        .iter()
        .find(|envelope| envelope.kind() == START)
        .map(|envelope| envelope.text("id"))
        .unwrap_or_default();
    let steps: Vec<&Envelope> = envelopes.iter().filter(|envelope| envelope.kind() == REASONING).collect();
    must!(!steps.is_empty(), "a ReasoningStep");
    for (index, step) in steps.iter().enumerate() {
        must!(*step.get("messageId") == answer.as_str(), "the answer as messageId, got {}", step.value);
        must!(*step.get("sequence") == index + 1, "sequence {}, got {}", index + 1, step.value);
    }
    must!(joined(&envelopes) == "done", "no reasoning in the answer, got {:?}", joined(&envelopes));
    peer.close().await;
    Ok(())
}

async fn the_tip_follows(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let mut expected = Vec::new();
    for _ in 0..2 {
        let (id, envelopes) = peer.turn(&run.settings.say).await?;
        expected.push(id);
        expected.extend(
            envelopes.iter().filter(|envelope| envelope.kind() == START).map(|envelope| envelope.text("id")),
        );
    }
    let list = messages(run, &peer.conversation).await?;
    let path: Vec<&str> = list.iter().filter_map(|message| message["id"].as_str()).collect();
    must!(path == expected, "the active path {expected:?}, got {path:?}");
    peer.close().await;
    Ok(())
}

async fn durations_are_milliseconds(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    peer.turn(&run.settings.say).await?;
    let stats = peer.kind("SessionStats", STATS).await?;
    let duration = stats.get("sessionDuration").as_u64().unwrap_or_default();
    must!(duration >= 250, "milliseconds since the beginning, got {duration}");
    must!(
        stats.get("messageCount").as_u64().is_some_and(|count| count >= 2),
        "the messages, got {}",
        stats.value
    );
    peer.close().await;
    Ok(())
}
