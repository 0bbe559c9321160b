//! The screen (section 8).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::call::{Call, screen};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[39, 40], needs: &[], run: |run| Box::pin(not_while_somebody_speaks(run)) },
    Check { shows: &[39], needs: &[Need::Story], run: |run| Box::pin(nor_while_the_agent_thinks(run)) },
    Check { shows: &[42], needs: &[], run: |run| Box::pin(a_delta_on_another_version(run)) },
    Check { shows: &[43, 44], needs: &[], run: |run| Box::pin(whole_or_not_at_all(run)) },
    Check { shows: &[45, 46], needs: &[], run: |run| Box::pin(unknown_kinds(run)) },
];

async fn version_of(run: &Run<'_>, call: &Call<'_>) -> Outcome<u64> {
    let status = run.ask(call.about("GET", "")).await?.json();
    status["context_version"]
        .as_u64()
        .ok_or_else(|| super::super::check::Stop::fault(format!("expected context_version, got {status}")))
}

async fn not_while_somebody_speaks(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let before = call.state_seq;
    let turn = call.take_the_floor().await?;
    call.send("state.update", screen(2)).await?;
    call.error("CTX_FORBIDDEN_STATE").await?;
    // One that was sent before the client knew.
    call.send_with("state.update", screen(3), &json!({ "state_seq": before })).await?;
    let ack = call.event("state.ack").await?;
    must!(ack["applied"] == "deferred", "deferred, got {ack}");
    must!(version_of(run, &call).await? == 1, "the screen unchanged meanwhile");
    call.send_with("input.cancel", json!({ "reason": "user" }), &json!({ "turn_id": turn })).await?;
    call.until("idle").await?;
    call.hang_up().await
}

async fn nor_while_the_agent_thinks(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    call.say("wait 1500").await?;
    call.send("state.update", screen(2)).await?;
    call.error("CTX_FORBIDDEN_STATE").await?;
    call.answer().await?;
    call.hang_up().await
}

async fn a_delta_on_another_version(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    call.send(
        "state.update",
        json!({ "mode": "delta", "base_version": 7, "context_version": 8, "narration": "x" }),
    )
    .await?;
    call.error("CTX_VERSION_CONFLICT").await?;
    let resync = call.event("state.resync").await?;
    must!(resync["have_version"] == 1, "have_version 1, got {resync}");
    call.hang_up().await
}

async fn whole_or_not_at_all(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let mut broken = screen(2);
    broken["visibility"] = json!(["cart.add", "not.an.action"]);
    call.send("state.update", broken).await?;
    call.error("CTX_INVALID").await?;
    must!(version_of(run, &call).await? == 1, "nothing of it to be applied");
    call.send("state.update", screen(3)).await?;
    let ack = call.event("state.ack").await?;
    must!(ack["context_version"] == 3 && ack["applied"] == "now", "the next screen to be applied, got {ack}");
    call.hang_up().await
}

async fn unknown_kinds(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let mut tree = screen(2);
    tree["actions"]["vendor"] = json!({ "type": "x-conform-thing", "description": "Something else" });
    tree["actions"]["gadget"] = json!({ "type": "gadget", "description": "Something unknown" });
    call.send("state.update", tree).await?;
    let ack = call.event("state.ack").await?;
    let ignored = ack["ignored_actions"].as_array().cloned().unwrap_or_default();
    for name in ["vendor", "gadget"] {
        must!(ignored.iter().any(|known| known == name), "{name} to be listed, got {ack}");
    }
    let warned = ack["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
    must!(warned, "a warning of a kind without x-, got {ack}");
    call.hang_up().await
}
