//! States and turns (sections 6, 10 and 11).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::call::Call;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[19], needs: &[], run: |run| Box::pin(connected_then_ready(run)) },
    Check { shows: &[21, 22, 70], needs: &[], run: |run| Box::pin(a_typed_turn(run)) },
    Check { shows: &[23], needs: &[], run: |run| Box::pin(any_other_transition(run)) },
    Check { shows: &[25, 77], needs: &[], run: |run| Box::pin(five_of_them(run)) },
    Check { shows: &[36], needs: &[Need::Story], run: |run| Box::pin(interrupted_while_thinking(run)) },
    Check { shows: &[37], needs: &[Need::Story], run: |run| Box::pin(not_while_acting(run)) },
    Check { shows: &[68], needs: &[], run: |run| Box::pin(an_unknown_stream(run)) },
    Check { shows: &[83], needs: &[], run: |run| Box::pin(what_is_unknown(run)) },
];

async fn connected_then_ready(run: &Run<'_>) -> Outcome {
    let (mut call, connected) = Call::connected(run).await?;
    must!(connected["data"]["resumed"] == false, "a fresh session, got {connected}");
    let early = call.listen(300).await?;
    must!(
        early.iter().all(|event| event["type"] != "server.ready"),
        "no server.ready before the screen, got {early:?}"
    );
    call.show(1).await?;
    call.hang_up().await
}

async fn a_typed_turn(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    call.say(&run.settings.say).await?;
    let done = call.answer().await?;
    must!(done["status"] == "complete", "a complete response, got {done}");
    let after = call.listen(300).await?;
    must!(after.iter().all(|event| event["type"] != "response.done"), "one response.done, got {after:?}");
    must!(
        call.state == "idle" && call.state_seq == 5,
        "five transitions to idle, got {} {}",
        call.state,
        call.state_seq
    );
    call.hang_up().await
}

async fn any_other_transition(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let data = json!({ "session_id": call.created["session_id"], "protocol_version": "0.1" });
    call.send("client.connect", data).await?;
    let error = call.error("PROTO_INVALID_TRANSITION").await?;
    must!(error["details"]["state"] == "idle", "the state in the error, got {error}");
    call.still_serves().await?;
    must!(call.state == "idle", "the state unchanged, got {}", call.state);
    call.hang_up().await
}

async fn five_of_them(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    for _ in 0..5 {
        let data = json!({ "session_id": call.created["session_id"], "protocol_version": "0.1" });
        call.send("client.connect", data).await?;
    }
    let events = call.closed(4400).await?;
    let fatal = events.iter().find(|event| event["type"] == "error.fatal");
    must!(
        fatal.is_some_and(|event| event["data"]["code"] == "PROTO_TOO_MANY_VIOLATIONS"),
        "error.fatal before the close, got {fatal:?}"
    );
    Ok(())
}

async fn barge_in(run: &Run<'_>, call: &mut Call<'_>) -> Outcome<Value> {
    let turn = json!({ "turn_id": format!("t-{}", run.fresh()?) });
    call.send_with("input.barge_in", json!({ "trigger": "manual", "played_ms": 0 }), &turn).await?;
    Ok(turn)
}

async fn interrupted_while_thinking(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    call.say("wait 8000").await?;
    let turn = barge_in(run, &mut call).await?;
    call.until("user_speaking").await?;
    call.send_with("input.cancel", json!({ "reason": "user" }), &turn).await?;
    call.until("idle").await?;
    call.hang_up().await
}

async fn not_while_acting(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let invocation = call.invoked("call cart.add").await?;
    barge_in(run, &mut call).await?;
    call.error("PROTO_INVALID_TRANSITION").await?;
    must!(call.state == "invoke_action", "the state unchanged, got {}", call.state);
    call.result(&invocation, &json!({})).await?;
    call.until("ai_thinking").await?;
    Ok(())
}

async fn an_unknown_stream(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let mut frame = vec![0x11, 0, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0];
    frame.extend([0; 640]);
    call.frame(frame).await;
    call.still_serves().await?;
    call.hang_up().await
}

async fn what_is_unknown(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    call.send("future.event", json!({})).await?;
    call.error("PROTO_UNKNOWN_EVENT").await?;
    call.send_with(
        "session.ping",
        json!({ "nonce": "x", "future": 1 }),
        &json!({ "future": { "y": [null] } }),
    )
    .await?;
    call.event("session.pong").await?;
    call.hang_up().await
}
