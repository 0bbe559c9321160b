//! Chats and their events (sections 5 and 6).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::rpc::{Chat, Rpc, full_error, is_id};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[17, 18], needs: &[], run: |run| Box::pin(the_order_of_messages(run)) },
    Check { shows: &[19], needs: &[], run: |run| Box::pin(one_terminal(run)) },
    Check { shows: &[20], needs: &[], run: |run| Box::pin(the_form_of_ids(run)) },
    Check { shows: &[23, 30], needs: &[], run: |run| Box::pin(a_whole_reply(run)) },
    Check { shows: &[21], needs: &[Need::Says("count")], run: |run| Box::pin(order_is_kept(run)) },
    Check { shows: &[22], needs: &[Need::Says("finish")], run: |run| Box::pin(what_was_not_streamed(run)) },
    Check {
        shows: &[24, 25],
        needs: &[Need::Says("tool"), Need::Says("everything"), Need::Says("tool-error")],
        run: |run| Box::pin(calls_are_announced_and_end(run)),
    },
    Check { shows: &[26, 27], needs: &[Need::Says("tool-error")], run: |run| Box::pin(a_failed_call(run)) },
    Check { shows: &[28], needs: &[Need::Says("reason")], run: |run| Box::pin(reasoning_is_no_output(run)) },
    Check { shows: &[29], needs: &[Need::Says("checklist")], run: |run| Box::pin(lists_are_snapshots(run)) },
    Check { shows: &[31], needs: &[], run: |run| Box::pin(an_absent_workspace(run)) },
    Check {
        shows: &[32],
        needs: &[Need::Says("fail"), Need::Says("panic")],
        run: |run| Box::pin(failures_can_be_read(run)),
    },
    Check { shows: &[61], needs: &[Need::Says("size")], run: |run| Box::pin(a_large_reply(run)) },
    Check { shows: &[80], needs: &[Need::Says("deltas")], run: |run| Box::pin(a_slow_reader(run)) },
    Check {
        shows: &[82],
        needs: &[Need::Says("hang"), Need::Patience],
        run: |run| Box::pin(a_silent_chat(run)),
    },
];

async fn the_order_of_messages(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat(&run.settings.say).await?;
    let kinds = chat.kinds();
    must!(kinds.first() == Some(&"chat.accepted"), "chat.accepted first, got {kinds:?}");
    let accepted = kinds.iter().filter(|kind| **kind == "chat.accepted").count();
    must!(accepted == 1, "one chat.accepted, got {kinds:?}");
    must!(!chat.task().is_empty(), "a taskId, got {}", chat.messages[0]);
    let place = |wanted: &str| kinds.iter().position(|kind| *kind == wanted);
    let first_event = place("chat.event").unwrap_or(usize::MAX);
    must!(
        place("chat.started").is_some_and(|started| started < first_event),
        "chat.started before events, got {kinds:?}"
    );
    rpc.close().await;
    Ok(())
}

async fn one_terminal(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat(&run.settings.say).await?;
    must!(chat.terminal()["type"] == "chat.done", "chat.done, got {}", chat.terminal());
    let id = chat.terminal()["id"].clone();
    let mut late = rpc.listen(300).await?;
    late.retain(|message| message["id"] == id);
    must!(late.is_empty(), "nothing after the terminal, got {late:?}");
    rpc.close().await;
    Ok(())
}

async fn the_form_of_ids(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat(&run.settings.say).await?;
    let task = &chat.messages[0]["taskId"];
    must!(is_id(task, "task"), "task_ and lower-case letters and digits, got {task}");
    let absent = format!("/nowhere-{}", run.fresh()?);
    let failed = rpc.chat_with(&run.settings.say, json!({ "workspace": absent })).await?;
    let error = &failed.terminal()["errorId"];
    must!(is_id(error, "err"), "err_ and lower-case letters and digits, got {error}");
    rpc.close().await;
    Ok(())
}

async fn a_whole_reply(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat(&run.settings.say).await?;
    let reply = chat.reply();
    let told = reply["output"].is_string() && reply["outputStreamed"].is_boolean();
    must!(told, "output and outputStreamed, got {reply}");
    must!(reply["model"].as_str().is_some_and(|model| !model.is_empty()), "a model, got {reply}");
    let counted = |event: &&Value| event["inputTokens"].is_u64() && event["outputTokens"].is_u64();
    must!(chat.of("usage").iter().any(counted), "at least one usage");
    rpc.close().await;
    Ok(())
}

async fn order_is_kept(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat("count 500").await?;
    let expected: String = (1..=500).map(|number| format!("{number} ")).collect();
    must!(chat.text() == expected, "500 pieces in order, got {:?}", chat.text());
    let output = chat.reply()["output"].as_str().unwrap_or_default().trim().to_owned();
    must!(!output.is_empty() && chat.text().trim().ends_with(&output), "the text to end with the output");
    must!(chat.reply()["outputStreamed"] == true, "outputStreamed, got {}", chat.reply());
    rpc.close().await;
    Ok(())
}

async fn what_was_not_streamed(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat(r#"finish empty {"a": 1}"#).await?;
    must!(chat.text().is_empty(), "no text, got {:?}", chat.text());
    must!(chat.reply()["outputStreamed"] == false, "outputStreamed false, got {}", chat.reply());
    rpc.close().await;
    Ok(())
}

/// Each call is announced before it is spoken of, and ends once.
fn calls_are_closed(chat: &Chat) -> Outcome {
    let mut open: BTreeMap<String, bool> = BTreeMap::new();
    for event in chat.events() {
        let id = event["toolCallId"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("tool-call") => must!(open.insert(id, true).is_none(), "each call once, got {event}"),
            Some("tool-output") => {
                must!(open.get(&id) == Some(&true), "output of an announced call, got {event}")
            }
            Some("tool-result") => {
                must!(open.insert(id, false) == Some(true), "one end of an announced call, got {event}")
            }
            Some(_) | None => {}
        }
    }
    must!(!open.is_empty(), "a call");
    must!(open.values().all(|open| !open), "every call to end before the chat does");
    Ok(())
}

async fn calls_are_announced_and_end(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for message in ["tool builder 3", "everything", "tool-error it broke"] {
        calls_are_closed(&rpc.chat(message).await?)?;
    }
    rpc.close().await;
    Ok(())
}

async fn a_failed_call(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat("tool-error it broke").await?;
    let results = chat.of("tool-result");
    let Some(result) = results.first() else {
        return Err(super::super::check::Stop::fault("expected a tool-result"));
    };
    must!(
        result["isError"] == true && result["errorCode"].is_string(),
        "isError and errorCode, got {result}"
    );
    for name in ["code", "category", "kind", "source", "tool"] {
        must!(result["error"][name].is_string(), "error.{name}, got {result}");
    }
    must!(chat.reply()["output"] == "done", "the turn to go on, got {}", chat.reply());
    rpc.close().await;
    Ok(())
}

async fn reasoning_is_no_output(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat("reason 3").await?;
    must!(chat.of("reasoning").len() == 3, "three pieces of reasoning, got {}", chat.of("reasoning").len());
    let output = chat.reply()["output"].as_str().unwrap_or_default();
    must!(output == "done" && chat.text().trim() == "done", "no reasoning in the output, got {output:?}");
    rpc.close().await;
    Ok(())
}

async fn lists_are_snapshots(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let chat = rpc.chat("checklist").await?;
    let lists: Vec<&Value> =
        chat.events().filter(|event| event["type"] == "checklist" || event["type"] == "tasklist").collect();
    must!(lists.len() >= 2, "a list for each change, got {}", lists.len());
    for list in lists {
        must!(list["groupId"].as_str().is_some_and(|id| !id.is_empty()), "a groupId, got {list}");
        must!(list["groupTitle"].as_str().is_some_and(|title| !title.is_empty()), "a groupTitle, got {list}");
        let items = list["items"].as_array().map_or(0, Vec::len);
        must!(items == 2, "both items each time, got {list}");
        for item in list["items"].as_array().into_iter().flatten() {
            let known = item["status"]
                .as_str()
                .is_some_and(|status| ["pending", "in_progress", "done", "failed"].contains(&status));
            must!(known && item["order"].is_u64(), "a status and an order, got {item}");
        }
    }
    rpc.close().await;
    Ok(())
}

async fn an_absent_workspace(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let path = format!("/nowhere-{}", run.fresh()?);
    let chat = rpc.chat_with(&run.settings.say, json!({ "workspace": path })).await?;
    must!(chat.terminal()["type"] == "chat.error", "chat.error, got {}", chat.terminal());
    full_error(chat.terminal())?;
    rpc.close().await;
    Ok(())
}

async fn failures_can_be_read(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    for message in ["fail execution", "fail model_unavailable after 2", "fail internal", "panic"] {
        let chat = rpc.chat(message).await?;
        let terminal = chat.terminal();
        let told = terminal["reply"]["error"].as_str().or_else(|| terminal["errorMessage"].as_str());
        must!(told.is_some_and(|text| !text.is_empty()), "a terminal that says what failed, got {terminal}");
    }
    rpc.close().await;
    Ok(())
}

async fn a_large_reply(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let size = (1 << 20) + 7;
    let chat = rpc.chat(&format!("size {size}")).await?;
    let output = chat.reply()["output"].as_str().unwrap_or_default().len();
    must!(
        chat.text().len() == size && output == size,
        "{size} bytes, got {} and {output}",
        chat.text().len()
    );
    rpc.close().await;
    Ok(())
}

async fn a_slow_reader(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let id = rpc.start("deltas 800 of 8000").await?;
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    let chat = rpc.finish(&id).await?;
    must!(chat.text().len() == 6_400_000, "6400000 bytes for a slow reader, got {}", chat.text().len());
    rpc.close().await;
    Ok(())
}

async fn a_silent_chat(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let id = rpc.start("hang after 1").await?;
    rpc.wait("output", |message| message["id"] == id.as_str() && message["event"]["type"] == "text-delta")
        .await?;
    rpc.listen(1_000).await?;
    let signs = rpc.listen(35_000).await?;
    let alive =
        signs.iter().any(|message| message["id"] == id.as_str() && message["event"]["type"] == "status");
    must!(alive, "a status event within 30 s of silence");
    rpc.abort(&id).await?;
    rpc.close().await;
    Ok(())
}
