//! Tasks, and connections that end (sections 4.4, 7.1 and 7.4).

use serde_json::Value;
use tokio::time::Instant;

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::super::inbox::Inbox as _;
use super::rpc::Rpc;
use crate::probe::PATIENCE;

pub(super) const CHECKS: &[Check] = &[
    Check {
        shows: &[48, 51, 52, 53, 54],
        needs: &[Need::Says("fail")],
        run: |run| Box::pin(every_state(run)),
    },
    Check { shows: &[49], needs: &[], run: |run| Box::pin(unknown_tasks(run)) },
    Check { shows: &[49], needs: &[Need::OtherKey], run: |run| Box::pin(tasks_of_others(run)) },
    Check { shows: &[50], needs: &[], run: |run| Box::pin(on_another_connection(run)) },
    Check { shows: &[55, 57], needs: &[], run: |run| Box::pin(a_closed_connection_cancels(run)) },
    Check { shows: &[56], needs: &[Need::Alone], run: |run| Box::pin(and_leaves_no_queue(run)) },
];

fn time<'task>(task: &'task Value, name: &str) -> Outcome<&'task str> {
    let time = task[name].as_str().unwrap_or_default();
    let shaped = time.ends_with('Z') && time.len() >= 20 && time.as_bytes().get(10) == Some(&b'T');
    must!(shaped, "{name} in UTC with Z, got {}", task[name]);
    Ok(time)
}

async fn every_state(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let (first, running) = rpc.running().await?;
    let second = rpc.start(&run.settings.say).await?;
    let accepted = rpc.wait("chat.accepted", |message| message["id"] == second.as_str()).await?;
    rpc.wait("chat.queued", |message| message["id"] == second.as_str()).await?;
    let waiting = accepted["taskId"].as_str().unwrap_or_default().to_owned();
    let before = [rpc.task(&running).await?, rpc.task(&waiting).await?];
    must!(
        before[0]["state"] == "running" && before[1]["state"] == "queued",
        "running and queued, got {before:?}"
    );
    pause(20).await;
    rpc.abort(&first).await?;
    rpc.finish(&second).await?;
    let after = [rpc.task(&running).await?, rpc.task(&waiting).await?];
    must!(
        after[0]["state"] == "cancelled" && after[1]["state"] == "completed",
        "cancelled and completed, got {after:?}"
    );
    for (one, other) in before.iter().zip(&after) {
        must!(time(one, "createdAt")? == time(other, "createdAt")?, "createdAt to stay");
        must!(time(one, "updatedAt")? <= time(other, "updatedAt")?, "updatedAt to grow");
    }
    let failed = rpc.chat("fail internal").await?;
    let state = rpc.task(failed.task()).await?["state"].clone();
    must!(state == "failed", "failed as soon as that was told, got {state}");
    rpc.abort(&first).await?;
    let state = rpc.task(&running).await?["state"].clone();
    must!(state == "cancelled", "nothing to leave a terminal state, got {state}");
    rpc.close().await;
    Ok(())
}

async fn unknown_tasks(run: &Run<'_>) -> Outcome {
    let mut rpc = Rpc::open(run).await?;
    let task = rpc.task(&format!("task_{}", run.fresh()?)).await?;
    must!(task.is_null(), "null for a task that never was, got {task}");
    rpc.close().await;
    Ok(())
}

async fn tasks_of_others(run: &Run<'_>) -> Outcome {
    let other = run.target.for_other();
    let (mut rpc, mut stranger) = (Rpc::open(run).await?, Rpc::open_as(run, &other).await?);
    let chat = rpc.chat(&run.settings.say).await?;
    let task = stranger.task(chat.task()).await?;
    must!(task.is_null(), "null for a task of somebody else, got {task}");
    rpc.close().await;
    stranger.close().await;
    Ok(())
}

async fn on_another_connection(run: &Run<'_>) -> Outcome {
    let (mut rpc, mut other) = (Rpc::open(run).await?, Rpc::open(run).await?);
    let (id, task) = rpc.running().await?;
    let state = other.task(&task).await?["state"].clone();
    must!(state == "running", "running on another connection, got {state}");
    rpc.abort(&id).await?;
    let state = other.task(&task).await?["state"].clone();
    must!(state == "cancelled", "cancelled on another connection, got {state}");
    rpc.close().await;
    other.close().await;
    Ok(())
}

async fn a_closed_connection_cancels(run: &Run<'_>) -> Outcome {
    let mut watcher = Rpc::open(run).await?;
    for vanish in [false, true] {
        let mut rpc = Rpc::open(run).await?;
        let (_, running) = rpc.running().await?;
        let second = rpc.start(&run.settings.say).await?;
        let accepted = rpc.wait("chat.accepted", |message| message["id"] == second.as_str()).await?;
        let waiting = accepted["taskId"].as_str().unwrap_or_default().to_owned();
        if vanish {
            rpc.cut();
        } else {
            rpc.close().await;
        }
        for task in [running, waiting] {
            watcher.task_becomes(&task, "cancelled").await?;
        }
    }
    let chat = watcher.chat(&run.settings.say).await?;
    must!(chat.terminal()["type"] == "chat.done", "others to be served, got {}", chat.terminal());
    watcher.close().await;
    Ok(())
}

async fn and_leaves_no_queue(run: &Run<'_>) -> Outcome {
    let (mut watcher, mut rpc) = (Rpc::open(run).await?, Rpc::open(run).await?);
    rpc.running().await?;
    for _ in 0..5 {
        let id = rpc.start(&run.settings.say).await?;
        rpc.wait("chat.queued", |message| message["id"] == id.as_str() && message["type"] == "chat.queued")
            .await?;
    }
    let length = watcher.status().await?["rpc_queue_length"].clone();
    must!(length.as_u64().is_some_and(|length| length >= 5), "rpc_queue_length of 5 at least, got {length}");
    rpc.cut();
    let end = Instant::now() + PATIENCE;
    loop {
        let length = watcher.status().await?["rpc_queue_length"].clone();
        if length == 0 {
            break;
        }
        must!(Instant::now() < end, "rpc_queue_length to fall to 0, got {length}");
        pause(100).await;
    }
    watcher.close().await;
    Ok(())
}
