//! Actions of the app (section 9).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::call::Call;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[47, 48, 49], needs: &[Need::Story], run: |run| Box::pin(what_is_not_invoked(run)) },
    Check { shows: &[55, 57], needs: &[Need::Story], run: |run| Box::pin(consent_is_needed(run)) },
    Check { shows: &[58], needs: &[Need::Story], run: |run| Box::pin(what_was_rejected(run)) },
    Check { shows: &[60], needs: &[Need::Story], run: |run| Box::pin(too_late(run)) },
    Check { shows: &[61], needs: &[Need::Story], run: |run| Box::pin(an_error(run)) },
    Check { shows: &[79], needs: &[Need::Story], run: |run| Box::pin(passwords(run)) },
];

async fn what_is_not_invoked(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    for text in ["call nothing.here", "call hidden.press", r#"call nav {"target": "/nowhere"}"#] {
        call.say(text).await?;
        let outcomes = ["action.invoke", "response.done", "error.recoverable"];
        let of = |event: &Value| event["type"].as_str().is_some_and(|kind| outcomes.contains(&kind));
        let first = call.wait("an answer or an error", of).await?;
        must!(first["type"] != "action.invoke", "nothing to be invoked for {text:?}, got {first}");
        if first["type"] == "response.done" {
            let played = json!({ "response_id": first["data"]["response_id"], "played_ms": 1 });
            call.send("audio.complete", played).await?;
        }
        call.until("idle").await?;
    }
    let invocation = call.invoked(r#"call nav {"target": "/orders"}"#).await?;
    must!(invocation["parameters"]["target"] == "/orders", "a route that is offered, got {invocation}");
    Ok(())
}

/// Has the agent ask for something sensitive: the confirmation that comes first.
async fn asked(call: &mut Call<'_>) -> Outcome<Value> {
    let asked = call.invoked("call order.place").await?;
    let fits = asked["action_id"] == "system.confirm" && asked["type"] == "confirmation";
    must!(fits, "a confirmation first, got {asked}");
    let about = &asked["parameters"];
    must!(about["reference_action_id"] == "order.place", "what it is about, got {asked}");
    must!(about["reference_parameters"].is_object(), "with which parameters, got {asked}");
    Ok(asked)
}

async fn consent_is_needed(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    for _ in 0..2 {
        // Consent that was given once does not count for the second time.
        let asked = asked(&mut call).await?;
        let id = format!("cf-{}", run.fresh()?);
        let consent = json!({ "status": "confirmed", "confirmation_id": id, "channel": "ui" });
        call.result(&asked, &json!({ "data": consent })).await?;
        let real = call.event("action.invoke").await?;
        must!(
            real["action_id"] == "order.place" && real["confirmation_id"] == id.as_str(),
            "the action with the consent, got {real}"
        );
        must!(
            real["parameters"] == asked["parameters"]["reference_parameters"],
            "the same parameters, got {real}"
        );
        must!(
            real["invocation_id"] == asked["parameters"]["reference_invocation_id"],
            "the reserved id, got {real}"
        );
        call.until("invoke_action").await?;
        call.result(&real, &json!({})).await?;
        call.answer().await?;
    }
    call.hang_up().await
}

async fn what_was_rejected(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let asked = asked(&mut call).await?;
    call.result(&asked, &json!({ "data": { "status": "rejected", "channel": "ui" } })).await?;
    call.until("ai_thinking").await?;
    let next = call
        .wait("an answer", |event| event["type"] == "action.invoke" || event["type"] == "response.done")
        .await?;
    must!(next["type"] == "response.done", "the action to be dropped, got {next}");
    Ok(())
}

async fn too_late(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let invocation = call.invoked("call quick.press").await?;
    call.until("ai_thinking").await?;
    call.result(&invocation, &json!({})).await?;
    call.error("ACT_LATE_RESULT").await?;
    Ok(())
}

async fn an_error(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let invocation = call.invoked("call cart.add").await?;
    let error = json!({ "status": "error", "event": "action.failure", "executed": false,
        "error": { "code": "ACT_EXECUTION_FAILED", "message": "it did not work" } });
    call.result(&invocation, &error).await?;
    call.until("ai_thinking").await?;
    call.answer().await?;
    call.hang_up().await
}

async fn passwords(run: &Run<'_>) -> Outcome {
    let mut call = Call::idle(run).await?;
    let secret = format!("pw{}", run.fresh()?);
    let invocation = call.invoked(&format!(r#"call secret.fill {{"value": "{secret}"}}"#)).await?;
    must!(invocation["parameters"]["value"] == secret.as_str(), "the value for the app, got {invocation}");
    call.result(&invocation, &json!({})).await?;
    call.answer().await?;
    let history = run.ask(call.about("GET", "/history")).await?.json();
    for item in history["items"].as_array().into_iter().flatten().filter(|item| item["kind"] != "message") {
        must!(!item.to_string().contains(&secret), "no password in the record, got {item}");
    }
    call.hang_up().await
}
