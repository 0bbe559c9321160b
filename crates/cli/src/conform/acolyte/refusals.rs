//! What is refused, and what is not (sections 4.5, 4.6, 9 and 11).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::rpc::{Rpc, request, request_with};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[59], needs: &[Need::Says("echo")], run: |run| Box::pin(the_length_of_a_message(run)) },
    Check { shows: &[60], needs: &[], run: |run| Box::pin(other_limits(run)) },
    Check { shows: &[62], needs: &[], run: |run| Box::pin(sixteen_mebibytes(run)) },
    Check { shows: &[63], needs: &[], run: |run| Box::pin(unknown_fields_around(run)) },
    Check { shows: &[64], needs: &[], run: |run| Box::pin(unknown_keys_within(run)) },
    Check { shows: &[65], needs: &[], run: |run| Box::pin(garbage(run)) },
    Check { shows: &[66], needs: &[], run: |run| Box::pin(unknown_methods(run)) },
    Check { shows: &[67], needs: &[], run: |run| Box::pin(binary_is_json(run)) },
    Check { shows: &[68], needs: &[], run: |run| Box::pin(an_id_in_use(run)) },
    Check { shows: &[69], needs: &[], run: |run| Box::pin(malformed_members(run)) },
    Check { shows: &[70], needs: &[], run: |run| Box::pin(unusable_history(run)) },
];

async fn refuses(rpc: &mut Rpc<'_>, request: Value) -> Outcome {
    let id = rpc.send("chat.start", json!({ "request": request })).await?;
    rpc.refused(&id).await?;
    Ok(())
}

async fn the_length_of_a_message(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    // Two units each.
    let fill = "🌍".repeat(49_997);
    let chat = rpc.chat(&format!("echo {fill}x")).await?;
    must!(
        chat.reply()["output"].as_str().is_some_and(|output| output == format!("{fill}x")),
        "100000 units to arrive unharmed"
    );
    refuses(&mut rpc, request(&"x".repeat(100_001))).await?;
    refuses(&mut rpc, request(&format!("{}x", "🌍".repeat(50_000)))).await?;
    rpc.close().await;
    Ok(())
}

async fn other_limits(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let say = &run.settings.say;
    let entry =
        json!({ "id": "msg_1", "role": "user", "content": "hi", "timestamp": "2026-01-01T00:00:00.000Z" });
    for members in [
        json!({ "history": vec![entry.clone(); 500] }),
        json!({ "model": "m".repeat(200) }),
        json!({ "suggestions": vec!["s".repeat(1_000); 10] }),
    ] {
        let chat = rpc.chat_with(say, members).await?;
        must!(
            chat.kinds().first() == Some(&"chat.accepted"),
            "what is within limits to be taken, got {}",
            chat.terminal()
        );
    }
    for members in [
        json!({ "history": vec![entry; 501] }),
        json!({ "model": "m".repeat(201) }),
        json!({ "suggestions": vec!["s"; 11] }),
        json!({ "suggestions": ["s".repeat(1_001)] }),
        json!({ "workspace": "w".repeat(4_097) }),
    ] {
        refuses(&mut rpc, request_with(say, &members)).await?;
    }
    rpc.close().await;
    Ok(())
}

async fn sixteen_mebibytes(run: &Run<'_>) -> Outcome {
    let message = |size: usize| {
        let text = r#"{"id":"rpc_big","type":"status.get","payload":{"fill":""}}"#;
        let fill = "x".repeat(size.saturating_sub(text.len()));
        text.replace(r#""fill":"""#, &format!(r#""fill":"{fill}""#))
    };
    let mut rpc = Rpc::open(run).await?;
    rpc.raw(&message(16 << 20)).await;
    rpc.answer("rpc_big", "status.result").await?;
    rpc.raw(&message((16 << 20) + 1)).await;
    rpc.closed(1009).await
}

async fn unknown_fields_around(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let id = rpc.fresh()?;
    let payload = json!({ "request": request(&run.settings.say), "future": { "x": null } });
    rpc.raw(
        &json!({ "id": id, "type": "chat.start", "payload": payload, "trace": "abc", "meta": [null] })
            .to_string(),
    )
    .await;
    let chat = rpc.finish(&id).await?;
    must!(chat.terminal()["type"] == "chat.done", "unknown fields to be ignored, got {}", chat.terminal());
    rpc.close().await;
    Ok(())
}

async fn unknown_keys_within(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    refuses(&mut rpc, request_with(&run.settings.say, &json!({ "futureOption": 1 }))).await?;
    rpc.close().await;
    Ok(())
}

async fn garbage(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let deep = "[".repeat(10_000);
    for text in [
        "{oops",
        "null",
        "7",
        "[]",
        "{}",
        r#"{"type":"status.get"}"#,
        r#"{"id":"RPC_1","type":"status.get"}"#,
        &deep,
    ] {
        rpc.raw(text).await;
        rpc.refused("rpc_unknown").await?;
    }
    rpc.status().await?;
    rpc.close().await;
    Ok(())
}

async fn unknown_methods(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for kind in ["chat.rewind", "STATUS.GET", "chat.accepted"] {
        let id = rpc.send(kind, json!({})).await?;
        rpc.refused(&id).await?;
    }
    for payload in [json!({}), json!({ "request": null }), json!({ "request": {} }), json!("text")] {
        let id = rpc.send("chat.start", payload).await?;
        rpc.refused(&id).await?;
    }
    for payload in [json!({}), json!({ "taskId": "nonsense" })] {
        let id = rpc.send("task.status", payload).await?;
        rpc.refused(&id).await?;
    }
    rpc.status().await?;
    rpc.close().await;
    Ok(())
}

async fn binary_is_json(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let id = rpc.fresh()?;
    rpc.binary(&json!({ "id": id, "type": "status.get" }).to_string()).await;
    rpc.answer(&id, "status.result").await?;
    rpc.close().await;
    Ok(())
}

async fn an_id_in_use(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (id, task) = rpc.running().await?;
    rpc.send_as(&id, "chat.start", json!({ "request": request(&run.settings.say) })).await;
    rpc.wait("an error", |message| message["id"] == id.as_str() && message["type"] == "error").await?;
    let state = rpc.task(&task).await?["state"].clone();
    must!(state == "running", "the chat to go on, got {state}");
    rpc.abort(&id).await?;
    rpc.close().await;
    Ok(())
}

async fn malformed_members(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for members in [
        json!({ "sessionId": "sess_A" }),
        json!({ "sessionId": 7 }),
        json!({ "sessionId": null }),
        json!({ "resourceId": "sess_1" }),
        json!({ "activeSkills": [{ "name": "x" }] }),
        json!({ "activeSkills": [{ "name": "", "instructions": "y" }] }),
        json!({ "suggestions": [7] }),
    ] {
        refuses(&mut rpc, request_with(&run.settings.say, &members)).await?;
    }
    rpc.close().await;
    Ok(())
}

async fn unusable_history(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for entry in [json!(7), json!({}), json!({ "role": "nobody", "content": "x" })] {
        let chat = rpc.chat_with(&run.settings.say, json!({ "history": [entry] })).await?;
        let over = matches!(chat.terminal()["type"].as_str(), Some("chat.error" | "chat.done"));
        must!(over && chat.kinds()[0] == "chat.accepted", "a terminal, got {:?}", chat.kinds());
    }
    rpc.status().await?;
    rpc.close().await;
    Ok(())
}
