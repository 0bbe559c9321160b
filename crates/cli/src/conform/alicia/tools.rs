//! Tools on either side (section 5.4).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::peer::{ERROR, Envelope, Peer, REQUEST, RESULT, STOP, STREAMING, joined};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[65], needs: &[Need::Says("try")], run: |run| Box::pin(too_late(run)) },
    Check { shows: &[66, 67], needs: &[Need::Says("call")], run: |run| Box::pin(results_are_matched(run)) },
    Check { shows: &[68], needs: &[Need::Says("tool")], run: |run| Box::pin(only_declared_tools(run)) },
    Check { shows: &[69], needs: &[Need::Says("tool-error")], run: |run| Box::pin(a_tool_that_fails(run)) },
    Check { shows: &[70], needs: &[Need::Says("call")], run: |run| Box::pin(a_stopped_tool(run)) },
];

async fn with_a_clock<'run>(run: &'run Run<'run>) -> Outcome<Peer<'run>> {
    let features: Vec<&str> = STREAMING.iter().copied().chain(["tool:clock"]).collect();
    Peer::met_with(run, &features).await
}

/// A turn that waits for a tool of the client: the id of the message, and the request.
async fn asked(peer: &mut Peer<'_>, content: &str) -> Outcome<(String, Envelope)> {
    let (id, stanza) = peer.say(content).await?;
    peer.ack(stanza).await?;
    let request = peer.kind("ToolUseRequest", REQUEST).await?;
    must!(*request.get("execution") == "client", "execution client, got {}", request.value);
    Ok((id, request))
}

fn result(request: &Envelope, output: Value) -> Value {
    let id = request.text("id");
    json!({ "id": format!("{id}_result"), "requestId": id, "conversationId": request.value["conversationId"], "success": true, "result": output })
}

async fn too_late(run: &Run<'_>) -> Outcome {
    let mut peer = with_a_clock(run).await?;
    let (_, request) = asked(&mut peer, "try clock within 400").await?;
    let outcome = peer.kind("ToolUseResult", RESULT).await?;
    must!(*outcome.get("requestId") == request.text("id").as_str(), "the request, got {}", outcome.value);
    let fits = *outcome.get("success") == false && *outcome.get("errorCode") == "timeout";
    must!(fits, "timeout, got {}", outcome.value);
    peer.close().await;
    Ok(())
}

async fn results_are_matched(run: &Run<'_>) -> Outcome {
    for by_id in [false, true] {
        let mut peer = with_a_clock(run).await?;
        let (id, request) = asked(&mut peer, r#"call clock {"tz": "UTC"}"#).await?;
        must!(*request.get("parameters") == json!({ "tz": "UTC" }), "the parameters, got {}", request.value);
        let mut body = result(&request, json!("noon"));
        if by_id {
            body = json!({ "id": request.text("id"), "conversationId": peer.conversation, "success": true, "result": "noon" });
        }
        let first = peer.send(RESULT, body).await;
        let second = peer.send(RESULT, result(&request, json!("midnight"))).await;
        for stanza in [first, second] {
            must!(peer.ack(stanza).await?, "every result to be acknowledged");
        }
        let envelopes = peer.answer(&id).await?;
        must!(
            joined(&envelopes) == "result: noon",
            "the first result to count, got {:?}",
            joined(&envelopes)
        );
        peer.close().await;
    }
    Ok(())
}

async fn only_declared_tools(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (id, stanza) = peer.say("tool builder 2").await?;
    peer.ack(stanza).await?;
    let envelopes = peer.answer(&id).await?;
    let requests: Vec<&Envelope> = envelopes.iter().filter(|envelope| envelope.kind() == REQUEST).collect();
    must!(!requests.is_empty(), "a ToolUseRequest");
    must!(
        requests.iter().all(|request| *request.get("execution") == "server"),
        "execution server where nothing was declared, got {requests:?}"
    );
    peer.close().await;
    Ok(())
}

async fn a_tool_that_fails(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::met(run).await?;
    let (_, envelopes) = peer.turn("tool-error no sky today").await?;
    let outcome = envelopes.iter().find(|envelope| envelope.kind() == RESULT);
    must!(
        outcome.is_some_and(|outcome| *outcome.get("success") == false),
        "a result without success, got {outcome:?}"
    );
    must!(envelopes.iter().all(|envelope| envelope.kind() != ERROR), "no ErrorMessage");
    must!(joined(&envelopes) == "done", "the turn to go on, got {:?}", joined(&envelopes));
    peer.close().await;
    Ok(())
}

async fn a_stopped_tool(run: &Run<'_>) -> Outcome {
    let mut peer = with_a_clock(run).await?;
    let (_, request) = asked(&mut peer, "call clock").await?;
    let stanza = peer.send(STOP, json!({ "conversationId": peer.conversation })).await;
    must!(peer.ack(stanza).await?, "the stop to be acknowledged");
    let outcome = peer.kind("ToolUseResult", RESULT).await?;
    let fits =
        *outcome.get("errorCode") == "cancelled" && *outcome.get("requestId") == request.text("id").as_str();
    must!(fits, "a result cancelled, got {}", outcome.value);
    peer.close().await;
    Ok(())
}
