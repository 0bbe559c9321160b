//! What devices tell of themselves (section 6.5).

use serde_json::json;

use super::super::check::{Check, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::link::Link;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[27, 65, 68], needs: &[], run: |run| Box::pin(facts_of_a_device(run)) },
    Check { shows: &[66], needs: &[], run: |run| Box::pin(not_for_everybody(run)) },
    Check { shows: &[67], needs: &[], run: |run| Box::pin(a_device_without_facts(run)) },
    Check { shows: &[69], needs: &[], run: |run| Box::pin(facts_that_nobody_asked_for(run)) },
];

async fn facts_of_a_device(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let id = run.fresh()?;
    constellation
        .send("device_info_request", "ok", json!({ "target_id": device.name, "request_id": id }))
        .await;
    let asked = device
        .wait("the server to ask the device", |message| message["type"] == "device_info_request")
        .await?;
    let fields = json!({ "request_id": asked["response_id"], "prev_response_id": asked["response_id"], "metadata": { "cpu_count": 5 } });
    device.send("device_info_response", "ok", fields).await;
    let told = constellation
        .wait("device_info_response", |message| message["type"] == "device_info_response")
        .await?;
    must!(told["response_id"] == id.as_str() && told["status"] == "ok", "the id of the request, got {told}");
    must!(told["result"]["cpu_count"] == 5, "fresh facts, got {told}");
    // A device that does not answer is told of as it is known.
    let id = run.fresh()?;
    constellation
        .send("device_info_request", "ok", json!({ "target_id": device.name, "request_id": id }))
        .await;
    let told = constellation
        .wait("device_info_response", |message| message["type"] == "device_info_response")
        .await?;
    must!(told["result"]["cpu_count"] == 5, "what is known, got {told}");
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn not_for_everybody(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let other = Link::device(run).await?;
    for link in [&mut device, &mut constellation] {
        link.send("device_info_request", "ok", json!({ "target_id": other.name, "request_id": "q" })).await;
        link.error().await?;
    }
    constellation.close().await;
    device.close().await;
    other.close().await;
    Ok(())
}

async fn a_device_without_facts(run: &Run<'_>) -> Outcome {
    let mut device = Link::open(run).await?;
    device.send("register", "ok", json!({ "metadata": {} })).await;
    device.wait("a registration", |message| message["type"] == "heartbeat").await?;
    let mut constellation = Link::constellation(run, &device).await?;
    constellation
        .send("device_info_request", "ok", json!({ "target_id": device.name, "request_id": "q" }))
        .await;
    let told = constellation
        .wait("device_info_response", |message| message["type"] == "device_info_response")
        .await?;
    let fits = told["status"] == "error" && told["error"].is_string() && told["result"]["error"].is_string();
    must!(fits, "error in both ways, got {told}");
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn facts_that_nobody_asked_for(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.send("device_info_response", "ok", json!({ "metadata": { "cpu_count": 7 } })).await;
    let said = device.listen(300).await?;
    must!(said.is_empty(), "no answer to facts, got {said:?}");
    device.beat().await?;
    device.close().await;
    Ok(())
}
