//! Tasks, commands and ends (sections 6.2, 6.3 and 6.6).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::link::{Link, command, script};

pub(super) const CHECKS: &[Check] = &[
    Check {
        shows: &[34, 51, 52],
        needs: &[Need::Story],
        run: |run| Box::pin(results_that_do_not_match(run)),
    },
    Check {
        shows: &[36, 43, 48, 53],
        needs: &[Need::Story],
        run: |run| Box::pin(a_task_from_a_constellation(run)),
    },
    Check { shows: &[44], needs: &[Need::Story], run: |run| Box::pin(a_session_is_made_up(run)) },
    Check { shows: &[45], needs: &[Need::Story], run: |run| Box::pin(names_are_made_fit(run)) },
    Check { shows: &[46, 47], needs: &[], run: |run| Box::pin(a_refused_task(run)) },
    Check { shows: &[49], needs: &[Need::Story], run: |run| Box::pin(one_command_at_a_time(run)) },
    Check { shows: &[54, 55], needs: &[], run: |run| Box::pin(a_task_of_its_own(run)) },
    Check { shows: &[56], needs: &[Need::Story], run: |run| Box::pin(a_planner_that_fails(run)) },
    Check { shows: &[58], needs: &[Need::Story], run: |run| Box::pin(planners_go_on(run)) },
    Check { shows: &[59], needs: &[Need::Story], run: |run| Box::pin(a_status_that_ends(run)) },
    Check { shows: &[60], needs: &[Need::Story], run: |run| Box::pin(a_session_that_runs(run)) },
    Check { shows: &[61], needs: &[Need::Story], run: |run| Box::pin(no_task_unasked(run)) },
    Check { shows: &[70, 74], needs: &[Need::Story], run: |run| Box::pin(a_lost_device(run)) },
    Check { shows: &[71], needs: &[Need::Story], run: |run| Box::pin(a_lost_constellation(run)) },
    Check { shows: &[72], needs: &[Need::Story], run: |run| Box::pin(late_results(run)) },
    Check { shows: &[73], needs: &[Need::Story], run: |run| Box::pin(a_cancelled_task(run)) },
];

fn one(tool: &str) -> String {
    script(&[vec![command(tool, &json!({}))]], &json!({}))
}

/// A task of a constellation that waits for its device: session and command.
async fn waiting(run: &Run<'_>, device: &mut Link, constellation: &mut Link) -> Outcome<(String, Value)> {
    let session = run.fresh()?;
    constellation.task(&session, &one("wait")).await?;
    let told = device.kind("command", &session).await?;
    Ok((session, told))
}

async fn results_that_do_not_match(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let session = run.fresh()?;
    let turns = [vec![command("first", &json!({}))], vec![command("second", &json!({}))]];
    constellation.task(&session, &script(&turns, &json!({}))).await?;
    let first = device.kind("command", &session).await?;
    let mut stray = first.clone();
    stray["response_id"] = run.fresh()?.into();
    device.succeed(&stray).await;
    let mut foreign = first.clone();
    foreign["session_id"] = run.fresh()?.into();
    device.succeed(&foreign).await;
    constellation.succeed(&first).await;
    let quiet = device.listen(300).await?;
    must!(
        quiet.iter().all(|message| message["type"] != "command"),
        "what does not match to be dropped, got {quiet:?}"
    );
    device.succeed(&first).await;
    device.succeed(&first).await;
    let second = device.kind("command", &session).await?;
    must!(second["actions"][0]["tool_name"] == "second", "the second command, got {second}");
    let quiet = device.listen(200).await?;
    must!(
        quiet.iter().all(|message| message["type"] == "error" || message["type"] == "heartbeat"),
        "a second copy to be ignored, got {quiet:?}"
    );
    device.succeed(&second).await;
    constellation.end(&session).await?;
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn a_task_from_a_constellation(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let (session, told) = waiting(run, &mut device, &mut constellation).await?;
    let early = constellation.listen(0).await?;
    must!(
        early.iter().all(|message| message["type"] != "command"),
        "commands to the device only, got {early:?}"
    );
    must!(
        told["response_id"].is_string() && told["actions"][0]["call_id"].is_string(),
        "fresh ids, got {told}"
    );
    device.succeed(&told).await;
    let (owner, executor) = (constellation.end(&session).await?, device.end(&session).await?);
    must!(owner["status"] == "completed" && owner["error"].is_null(), "completed, got {owner}");
    must!(
        owner["response_id"] == executor["response_id"] && owner["status"] == executor["status"],
        "the same end for both, got {owner} and {executor}"
    );
    for link in [&mut constellation, &mut device] {
        let more = link.listen(200).await?;
        must!(more.iter().all(|message| message["type"] != "task_end"), "one end each, got {more:?}");
    }
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn a_session_is_made_up(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.send("task", "continue", json!({ "request": one("x"), "task_name": "conform" })).await;
    let ack = device.wait("the acknowledgement", |message| message["type"] == "heartbeat").await?;
    let session = ack["session_id"].as_str().unwrap_or_default().to_owned();
    must!(!session.is_empty(), "a session_id, got {ack}");
    let told = device.kind("command", &session).await?;
    device.succeed(&told).await;
    device.end(&session).await?;
    device.close().await;
    Ok(())
}

async fn names_are_made_fit(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    device
        .send(
            "task",
            "continue",
            json!({ "request": one("x"), "task_name": "..galaxy/run 42/t1", "session_id": session }),
        )
        .await;
    let told = device.kind("command", &session).await?;
    must!(told["task_name"] == "galaxy_run_42_t1", "galaxy_run_42_t1, got {}", told["task_name"]);
    device.close().await;
    Ok(())
}

async fn a_refused_task(run: &Run<'_>) -> Outcome {
    let (device, mut constellation) = Link::pair(run).await?;
    for target in [json!(null), json!(format!("nobody-{}", run.fresh()?)), json!(constellation.name)] {
        let session = run.fresh()?;
        let fields = json!({ "request": run.settings.say, "session_id": session, "task_name": "x", "target_id": target });
        constellation.send("task", "continue", fields).await;
        constellation.error().await?;
        let end = constellation.end(&session).await?;
        must!(end["status"] == "failed", "a refused task to end as failed, got {end}");
    }
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn one_command_at_a_time(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    let turns: Vec<Vec<Value>> =
        (0..3).map(|number| vec![command(&format!("step{number}"), &json!({}))]).collect();
    device.task(&session, &script(&turns, &json!({}))).await?;
    let mut ids = BTreeSet::new();
    for number in 0..3 {
        let told = device.kind("command", &session).await?;
        must!(told["actions"][0]["tool_name"] == format!("step{number}"), "step {number}, got {told}");
        must!(ids.insert(told["response_id"].to_string()), "a fresh response_id, got {told}");
        let quiet = device.listen(150).await?;
        must!(quiet.is_empty(), "no second command before the first is answered, got {quiet:?}");
        device.succeed(&told).await;
    }
    device.end(&session).await?;
    device.close().await;
    Ok(())
}

async fn a_task_of_its_own(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    device.task(&session, &run.settings.say).await?;
    let mut ends = 0;
    while ends == 0 {
        let message =
            device.wait("the end of the task", |message| message["session_id"] == session.as_str()).await?;
        match message["type"].as_str() {
            Some("command") => device.succeed(&message).await,
            Some("task_end") => {
                must!(
                    message["status"] == "completed" || message["status"] == "failed",
                    "completed or failed, got {message}"
                );
                ends += 1;
            }
            Some(_) | None => {}
        }
    }
    let more = device.listen(300).await?;
    must!(more.iter().all(|message| message["type"] != "task_end"), "one end, got {more:?}");
    device.close().await;
    Ok(())
}

async fn a_planner_that_fails(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    device.task(&session, &script(&[], &json!({ "end": "raise", "error": "out of ideas" }))).await?;
    let end = device.end(&session).await?;
    let told = end["error"].as_str().unwrap_or_default();
    must!(
        end["status"] == "failed" && told.contains("out of ideas"),
        "failed in the words of the planner, got {end}"
    );
    device.close().await;
    Ok(())
}

async fn planners_go_on(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    let turns = [vec![command("first", &json!({}))], vec![command("second", &json!({}))]];
    device.task(&session, &script(&turns, &json!({}))).await?;
    let first = device.kind("command", &session).await?;
    device.results(&first, "failure", "continue").await;
    let second = device.kind("command", &session).await?;
    device.succeed(&second).await;
    let end = device.end(&session).await?;
    must!(end["status"] == "completed", "the planner to go on after a failure, got {end}");
    device.close().await;
    Ok(())
}

async fn a_status_that_ends(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    for (status, expected) in [("completed", "completed"), ("failed", "failed")] {
        let session = run.fresh()?;
        let turns = [vec![command("first", &json!({}))], vec![command("second", &json!({}))]];
        device.task(&session, &script(&turns, &json!({}))).await?;
        let first = device.kind("command", &session).await?;
        device.results(&first, "success", status).await;
        let end = device.end(&session).await?;
        must!(end["status"] == expected, "{expected}, got {end}");
    }
    device.close().await;
    Ok(())
}

async fn a_session_that_runs(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let (session, told) = waiting(run, &mut device, &mut constellation).await?;
    constellation.submit(&session, &one("again")).await;
    constellation.error().await?;
    device.succeed(&told).await;
    let end = constellation.end(&session).await?;
    must!(end["status"] == "completed", "the first task to go on, got {end}");
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn no_task_unasked(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let session = run.fresh()?;
    constellation.task(&session, &one("x")).await?;
    let first = device.wait("the command", |message| message["session_id"] == session.as_str()).await?;
    must!(first["type"] == "command", "no TASK to a device that did not ask for it, got {first}");
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn a_lost_device(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let (one, _) = waiting(run, &mut device, &mut constellation).await?;
    let (two, _) = waiting(run, &mut device, &mut constellation).await?;
    device.cut();
    for session in [one, two] {
        let end = constellation.end(&session).await?;
        let told = end["error"].as_str().unwrap_or_default();
        must!(
            end["status"] == "failed" && told.contains("disconnect"),
            "failed for the loss of the device, got {end}"
        );
    }
    let more = constellation.listen(200).await?;
    must!(more.iter().all(|message| message["type"] != "task_end"), "one end each, got {more:?}");
    constellation.close().await;
    Ok(())
}

async fn a_lost_constellation(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let (session, _) = waiting(run, &mut device, &mut constellation).await?;
    constellation.cut();
    let end = device.end(&session).await?;
    must!(end["status"] == "failed", "the device to be told, got {end}");
    device.close().await;
    Ok(())
}

async fn late_results(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    device.task(&session, &one("x")).await?;
    let told = device.kind("command", &session).await?;
    device.results(&told, "success", "completed").await;
    device.end(&session).await?;
    device.succeed(&told).await;
    device.beat().await?;
    let more = device.listen(200).await?;
    must!(more.is_empty(), "late results to be dropped, got {more:?}");
    device.close().await;
    Ok(())
}

async fn a_cancelled_task(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    for by_owner in [true, false] {
        let (session, _) = waiting(run, &mut device, &mut constellation).await?;
        let ending = if by_owner { &mut constellation } else { &mut device };
        ending.send("task_end", "failed", json!({ "session_id": session, "error": "changed my mind" })).await;
        for link in [&mut constellation, &mut device] {
            let end = link.end(&session).await?;
            must!(end["status"] == "failed", "a cancelled task to fail, got {end}");
        }
    }
    constellation.close().await;
    device.close().await;
    Ok(())
}
