//! Who gets in, over WebSocket and over HTTP (section 2).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::link::{Link, PATH};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[1], needs: &[], run: |run| Box::pin(the_only_socket(run)) },
    Check { shows: &[2], needs: &[Need::Key], run: |run| Box::pin(where_the_credential_stands(run)) },
    Check { shows: &[3], needs: &[Need::Key], run: |run| Box::pin(without_a_credential(run)) },
    Check { shows: &[4], needs: &[], run: |run| Box::pin(with_and_without_compression(run)) },
    Check { shows: &[85], needs: &[Need::Key], run: |run| Box::pin(endpoints_need_the_key(run)) },
    Check { shows: &[86], needs: &[], run: |run| Box::pin(a_dispatch_is_checked(run)) },
    Check { shows: &[87], needs: &[], run: |run| Box::pin(the_device_is_told(run)) },
    Check { shows: &[88], needs: &[Need::Story], run: |run| Box::pin(and_reported(run)) },
    Check { shows: &[89], needs: &[], run: |run| Box::pin(unknown_names(run)) },
];

async fn the_only_socket(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::upgrade(PATH, &[])).await?;
    must!(status == 101, "101 at {PATH}, got {status}");
    for path in ["/ws/", "/ws/more", "/"] {
        let status = run.status(Request::upgrade(path, &[])).await?;
        must!(status != 101, "no upgrade at {path}");
    }
    Ok(())
}

async fn where_the_credential_stands(run: &Run<'_>) -> Outcome {
    let key = run.target.key.as_deref().unwrap_or_default();
    let status = run.status(Request::upgrade(format!("{PATH}?token={key}"), &[]).without_key()).await?;
    must!(status == 101, "101 with the credential as token, got {status}");
    let status = run.status(Request::upgrade(PATH, &[])).await?;
    must!(status == 101, "101 with Authorization: Bearer, got {status}");
    Ok(())
}

async fn without_a_credential(run: &Run<'_>) -> Outcome {
    for path in [PATH.to_owned(), format!("{PATH}?token=nonsense"), format!("{PATH}?token=")] {
        let status = run.status(Request::upgrade(path, &[]).without_key()).await?;
        must!(matches!(status, 401 | 403), "401 or 403, got {status}");
    }
    Ok(())
}

async fn with_and_without_compression(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.beat().await?;
    device.close().await;
    let status = run
        .status(Request::upgrade(PATH, &[]).header("sec-websocket-extensions", "permessage-deflate"))
        .await?;
    must!(status == 101, "101 for a client that offers compression, got {status}");
    Ok(())
}

async fn endpoints_need_the_key(run: &Run<'_>) -> Outcome {
    let body = json!({ "client_id": "x", "request": "y" });
    let requests = [
        Request::get("/api/health"),
        Request::get("/api/clients"),
        Request::get("/api/task_result/x"),
        Request::post("/api/dispatch", &body),
    ];
    for request in requests {
        let status = run.status(request.clone().without_key()).await?;
        must!(status == 401, "401 without a key, got {status}");
        let status = run.status(request.without_key().header("x-api-key", "nonsense")).await?;
        must!(status == 401, "401 for a wrong key, got {status}");
    }
    let status = run
        .status(
            Request::get("/api/health")
                .without_key()
                .header("x-api-key", run.target.key.as_deref().unwrap_or_default()),
        )
        .await?;
    must!(status == 200, "200 with X-API-Key, got {status}");
    Ok(())
}

async fn a_dispatch_is_checked(run: &Run<'_>) -> Outcome {
    for (body, expected) in [
        (json!([]), 422),
        (json!({ "client_id": "x" }), 400),
        (json!({ "client_id": "x", "request": "" }), 400),
        (json!({ "request": "x" }), 400),
        (json!({ "client_id": "x", "request": "y", "task_name": ".hidden" }), 400),
        (json!({ "client_id": format!("nobody-{}", run.fresh()?), "request": "y" }), 404),
    ] {
        let answer = run.ask(Request::post("/api/dispatch", &body)).await?;
        must!(answer.status == expected, "{expected} for {body}, got {}", answer.status);
        must!(!answer.json()["detail"].is_null(), "detail, got {}", answer.body);
    }
    Ok(())
}

/// Dispatches a task to a device: the session of the reply, the task as the device was told it.
async fn dispatched(run: &Run<'_>, device: &mut Link, name: &str) -> Outcome<(String, serde_json::Value)> {
    let body = json!({ "client_id": device.name, "request": run.settings.say, "task_name": name });
    let answer = run.ask(Request::post("/api/dispatch", &body)).await?;
    must!(answer.status == 200, "200, got {} {}", answer.status, answer.body);
    let reply = answer.json();
    must!(
        reply["status"] == "dispatched" && reply["client_id"] == device.name.as_str(),
        "dispatched, got {reply}"
    );
    let session = reply["session_id"].as_str().unwrap_or_default().to_owned();
    let task = device.kind("task", &session).await?;
    must!(
        task["user_request"] == run.settings.say.as_str() && task["task_name"] == name,
        "the task, got {task}"
    );
    Ok((session, task))
}

async fn the_device_is_told(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let name = run.fresh()?;
    dispatched(run, &mut device, &name).await?;
    device.close().await;
    Ok(())
}

async fn and_reported(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let name = run.fresh()?;
    let (session, _) = dispatched(run, &mut device, &name).await?;
    device.send("task", "continue", json!({ "request": run.settings.say, "task_name": name })).await;
    device.kind("heartbeat", &session).await?;
    let command = device.kind("command", &session).await?;
    device.succeed(&command).await;
    device.end(&session).await?;
    for _ in 0..50 {
        let answer = run.ask(Request::get(format!("/api/task_result/{name}"))).await?;
        if answer.json()["status"] == "done" {
            device.close().await;
            return Ok(());
        }
        pause(100).await;
    }
    Err(super::super::check::Stop::fault("expected the task to be reported as done"))
}

async fn unknown_names(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::get(format!("/api/task_result/{}", run.fresh()?))).await?;
    must!(
        answer.status == 200 && answer.json()["status"] == "pending",
        "pending, got {} {}",
        answer.status,
        answer.body
    );
    Ok(())
}
