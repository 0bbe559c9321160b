//! Who gets in, and what the server says of itself (sections 2, 4.1 and 10).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::PATH;
use super::rpc::{Rpc, request};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[1], needs: &[], run: |run| Box::pin(health_needs_nothing(run)) },
    Check { shows: &[2, 13, 14], needs: &[], run: |run| Box::pin(the_status_is_whole(run)) },
    Check { shows: &[3], needs: &[Need::Key], run: |run| Box::pin(everything_else_needs_a_key(run)) },
    Check { shows: &[4], needs: &[Need::Key], run: |run| Box::pin(wrong_keys(run)) },
    Check { shows: &[5], needs: &[Need::Key], run: |run| Box::pin(a_key_in_the_header(run)) },
    Check { shows: &[6, 7], needs: &[Need::Key], run: |run| Box::pin(a_key_as_a_subprotocol(run)) },
    Check { shows: &[7], needs: &[], run: |run| Box::pin(an_offer_is_answered(run)) },
    Check { shows: &[8], needs: &[Need::Key], run: |run| Box::pin(a_key_in_the_query(run)) },
    Check { shows: &[9], needs: &[], run: |run| Box::pin(not_an_upgrade(run)) },
    Check { shows: &[10], needs: &[], run: |run| Box::pin(other_paths_and_methods(run)) },
    Check { shows: &[11], needs: &[Need::Open], run: |run| Box::pin(open_to_everybody(run)) },
    Check { shows: &[12, 15], needs: &[], run: |run| Box::pin(status_over_rpc(run)) },
    Check { shows: &[16], needs: &[], run: |run| Box::pin(questions_while_a_chat_runs(run)) },
    Check { shows: &[79], needs: &[], run: |run| Box::pin(another_version(run)) },
];

async fn health_needs_nothing(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::get("/healthz").without_key()).await?;
    must!(answer.status == 200, "200, got {}", answer.status);
    must!(answer.json()["ok"] == true, "{{\"ok\":true}}, got {}", answer.body);
    Ok(())
}

fn whole(status: &Value) -> Outcome {
    must!(status["ok"] == true, "ok, got {}", status["ok"]);
    for name in ["providers", "provider_auth"] {
        must!(status[name].is_array(), "a list {name}, got {}", status[name]);
    }
    for name in ["model", "protocol_version", "capabilities", "service"] {
        must!(status[name].is_string(), "a text {name}, got {}", status[name]);
    }
    for name in ["tasks_total", "tasks_running", "rpc_queue_length"] {
        must!(status[name].is_u64(), "a number {name}, got {}", status[name]);
    }
    must!(status["protocol_version"] == "1", "version 1, got {}", status["protocol_version"]);
    let tokens: Vec<&str> = status["capabilities"].as_str().unwrap_or_default().split(", ").collect();
    must!(tokens.is_sorted(), "capabilities in order, got {tokens:?}");
    for token in ["error.structured", "stream.sse", "workspace.path"] {
        must!(tokens.contains(&token), "the capability {token}, got {tokens:?}");
    }
    for provider in status["providers"].as_array().into_iter().flatten() {
        let known =
            provider.as_str().is_some_and(|name| ["anthropic", "google", "openai", "vercel"].contains(&name));
        must!(known, "a provider that readers know, got {provider}");
    }
    for (name, value) in status.as_object().into_iter().flatten() {
        let plain = match value {
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            Value::Array(list) => list.iter().all(Value::is_string),
            Value::Null | Value::Object(_) => false,
        };
        must!(plain, "no objects, nulls or mixed lists, got {name}: {value}");
    }
    Ok(())
}

async fn the_status_is_whole(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::get("/v1/status")).await?;
    must!(answer.status == 200, "200, got {}", answer.status);
    whole(&answer.json())
}

async fn everything_else_needs_a_key(run: &Run<'_>) -> Outcome {
    let requests = [
        Request::get("/v1/status"),
        Request::post("/v1/chat/stream", &request("x")),
        Request::new("POST", "/v1/admin/shutdown"),
        Request::get(PATH),
        Request::upgrade(PATH, &[]),
    ];
    for request in requests {
        let status = run.status(request.without_key()).await?;
        must!(status == 401, "401 without a key, got {status}");
    }
    Ok(())
}

async fn wrong_keys(run: &Run<'_>) -> Outcome {
    let key = run.target.key.as_deref().unwrap_or_default();
    for value in
        [format!("bearer {key}"), format!("Bearer {key}x"), "Bearer nonsense".to_owned(), key.to_owned()]
    {
        for request in [Request::get("/v1/status"), Request::upgrade(PATH, &[])] {
            let status = run.status(request.header("authorization", &value)).await?;
            must!(status == 401, "401 for another key or spelling, got {status}");
        }
    }
    Ok(())
}

async fn a_key_in_the_header(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::upgrade(PATH, &[])).await?;
    must!(status == 101, "101 with Authorization: Bearer, got {status}");
    Ok(())
}

async fn a_key_as_a_subprotocol(run: &Run<'_>) -> Outcome {
    let own = format!("bearer.{}", run.target.key.as_deref().unwrap_or_default());
    for offered in [&[own.as_str()][..], &["chat", own.as_str(), "superchat"]] {
        let answer = run.ask(Request::upgrade(PATH, offered).without_key()).await?;
        must!(answer.status == 101, "101 with the key as a sub-protocol, got {}", answer.status);
        let chosen = answer.header("sec-websocket-protocol");
        must!(chosen.is_some_and(|chosen| offered.contains(&chosen)), "an offered sub-protocol to be chosen");
    }
    Ok(())
}

async fn an_offer_is_answered(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::upgrade(PATH, &["chat", "superchat"])).await?;
    must!(answer.status == 101, "101, got {}", answer.status);
    let chosen = answer.header("sec-websocket-protocol");
    must!(matches!(chosen, Some("chat" | "superchat")), "one of the offered sub-protocols, got {chosen:?}");
    Ok(())
}

async fn a_key_in_the_query(run: &Run<'_>) -> Outcome {
    let key = run.target.key.as_deref().unwrap_or_default();
    for request in [
        Request::upgrade(format!("{PATH}?apiKey={key}"), &[]),
        Request::get(format!("/v1/status?apiKey={key}")),
    ] {
        let status = run.status(request.without_key()).await?;
        must!(status == 401, "401 for a key in the query, got {status}");
    }
    Ok(())
}

async fn not_an_upgrade(run: &Run<'_>) -> Outcome {
    let status = run.status(Request::get(PATH)).await?;
    must!(status == 400, "400 for a request that is no upgrade, got {status}");
    Ok(())
}

async fn other_paths_and_methods(run: &Run<'_>) -> Outcome {
    for (method, path) in [
        ("GET", "/v1/nothing"),
        ("GET", "/v1/rpc/"),
        ("POST", "/v1/status"),
        ("GET", "/v1/chat/stream"),
        ("GET", "/v1/admin/shutdown"),
    ] {
        let status = run.status(Request::new(method, path)).await?;
        must!(status == 404, "404 for {method} {path}, got {status}");
    }
    Ok(())
}

async fn open_to_everybody(run: &Run<'_>) -> Outcome {
    for (request, expected) in [
        (Request::get("/v1/status"), 200),
        (Request::upgrade(PATH, &[]), 101),
        (Request::post("/v1/chat/stream", &request(&run.settings.say)), 200),
    ] {
        let status = run.status(request.without_key()).await?;
        must!(status == expected, "{expected} without a key, got {status}");
    }
    Ok(())
}

async fn status_over_rpc(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    whole(&rpc.status().await?)?;
    for payload in
        [json!({ "what": { "ever": 1 } }), json!({ "protocol_version": 1 }), json!("text"), json!([1])]
    {
        let id = rpc.send("status.get", payload).await?;
        rpc.answer(&id, "status.result").await?;
    }
    let id = rpc.fresh()?;
    rpc.raw(&json!({ "id": id, "type": "status.get" }).to_string()).await;
    rpc.answer(&id, "status.result").await?;
    rpc.close().await;
    Ok(())
}

async fn questions_while_a_chat_runs(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (id, task) = rpc.running().await?;
    rpc.status().await?;
    let state = rpc.task(&task).await?["state"].clone();
    must!(state == "running", "the chat to run meanwhile, got {state}");
    rpc.abort(&id).await?;
    rpc.close().await;
    Ok(())
}

async fn another_version(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let id = rpc.send("status.get", json!({ "protocol_version": "9" })).await?;
    let error = rpc.refused(&id).await?;
    let words = error["error"].as_str().unwrap_or_default().to_owned();
    must!(words.contains('1'), "the versions that are spoken, got {words:?}");
    let id = rpc.send("status.get", json!({ "protocol_version": "1" })).await?;
    rpc.answer(&id, "status.result").await?;
    rpc.close().await;
    let status = run.status(Request::get("/v1/status").header("acolyte-protocol", "9")).await?;
    must!(status == 400, "400 for another version over HTTP, got {status}");
    Ok(())
}
