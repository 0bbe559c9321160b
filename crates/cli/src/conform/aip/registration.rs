//! Registration and identity (sections 6.1 and 9).

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::check::{Check, Need, Outcome, Run, must, pause};
use super::super::inbox::Inbox as _;
use super::link::Link;
use crate::probe::PATIENCE;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[9], needs: &[], run: |run| Box::pin(who_says_nothing(run)) },
    Check { shows: &[18, 25], needs: &[], run: |run| Box::pin(the_first_message(run)) },
    Check { shows: &[19, 25], needs: &[], run: |run| Box::pin(a_name_is_needed(run)) },
    Check { shows: &[20], needs: &[], run: |run| Box::pin(a_registration_is_confirmed(run)) },
    Check { shows: &[21], needs: &[], run: |run| Box::pin(a_name_is_taken_once(run)) },
    Check { shows: &[22], needs: &[], run: |run| Box::pin(a_name_is_free_again(run)) },
    Check { shows: &[23, 24, 25], needs: &[], run: |run| Box::pin(a_target_is_needed(run)) },
    Check { shows: &[26], needs: &[], run: |run| Box::pin(a_second_registration(run)) },
    Check { shows: &[29], needs: &[], run: |run| Box::pin(another_name(run)) },
    Check { shows: &[30], needs: &[], run: |run| Box::pin(another_role(run)) },
    Check { shows: &[31], needs: &[], run: |run| Box::pin(a_task_for_another_device(run)) },
    Check { shows: &[33], needs: &[], run: |run| Box::pin(a_task_outside_of_the_target(run)) },
    Check {
        shows: &[35],
        needs: &[Need::OtherKey, Need::Story],
        run: |run| Box::pin(a_session_of_somebody_else(run)),
    },
];

async fn turned_away(link: &mut Link) -> Outcome {
    link.error().await?;
    link.closed(1008, PATIENCE).await
}

async fn who_says_nothing(run: &Run<'_>) -> Outcome {
    let mut link = Link::open(run).await?;
    link.closed(1008, Duration::from_secs(14)).await
}

async fn the_first_message(run: &Run<'_>) -> Outcome {
    for text in [
        "",
        "hello",
        "{}",
        r#"{"type":"heartbeat","status":"ok"}"#,
        r#"{"type":"task","status":"continue","request":"x"}"#,
    ] {
        let mut link = Link::open(run).await?;
        link.raw(text).await;
        turned_away(&mut link).await?;
    }
    Ok(())
}

async fn a_name_is_needed(run: &Run<'_>) -> Outcome {
    for text in
        [r#"{"type":"register","status":"ok"}"#, r#"{"type":"register","status":"ok","client_id":""}"#]
    {
        let mut link = Link::open(run).await?;
        link.raw(text).await;
        turned_away(&mut link).await?;
    }
    Ok(())
}

async fn a_registration_is_confirmed(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let more = device.listen(300).await?;
    must!(more.is_empty(), "one confirmation and nothing else, got {more:?}");
    device.close().await;
    Ok(())
}

async fn a_name_is_taken_once(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let mut other = Link::open(run).await?;
    other.name.clone_from(&device.name);
    other.send("register", "ok", json!({ "metadata": {} })).await;
    turned_away(&mut other).await?;
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn a_name_is_free_again(run: &Run<'_>) -> Outcome {
    let device = Link::device(run).await?;
    let name = device.name.clone();
    device.close().await;
    let end = Instant::now() + PATIENCE;
    loop {
        let mut link = Link::open(run).await?;
        link.name.clone_from(&name);
        link.send("register", "ok", json!({ "metadata": {} })).await;
        let answer = link.wait("an answer", |_| true).await?;
        link.close().await;
        if answer["type"] == "heartbeat" {
            return Ok(());
        }
        must!(Instant::now() < end, "the name to be free, got {answer}");
        pause(200).await;
    }
}

async fn a_target_is_needed(run: &Run<'_>) -> Outcome {
    let (device, constellation) = Link::pair(run).await?;
    let absent = format!("nobody-{}", run.fresh()?);
    for target in [json!(absent), json!(constellation.name), json!(null)] {
        let mut link = Link::open(run).await?;
        link.send("register", "ok", json!({ "client_type": "constellation", "target_id": target })).await;
        let error = link.error().await?;
        let named = target
            .as_str()
            .is_none_or(|target| error["error"].as_str().is_some_and(|text| text.contains(target)));
        must!(named, "the target in the error, got {error}");
        link.closed(1008, PATIENCE).await?;
    }
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn a_second_registration(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.send("register", "ok", json!({ "metadata": {} })).await;
    device.error().await?;
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn another_name(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    device
        .send(
            "task",
            "continue",
            json!({ "client_id": "somebody-else", "request": run.settings.say, "session_id": session }),
        )
        .await;
    device.error().await?;
    let after = device.listen(400).await?;
    must!(after.iter().all(|message| message["type"] != "command"), "no task of it, got {after:?}");
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn another_role(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let fields = json!({ "client_type": "constellation", "target_id": device.name, "request_id": "q" });
    device.send("device_info_request", "ok", fields).await;
    device.error().await?;
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn a_task_for_another_device(run: &Run<'_>) -> Outcome {
    let (mut one, mut other) = (Link::device(run).await?, Link::device(run).await?);
    let session = run.fresh()?;
    one.send(
        "task",
        "continue",
        json!({ "request": run.settings.say, "session_id": session, "target_id": other.name }),
    )
    .await;
    one.error().await?;
    let told = other.listen(300).await?;
    must!(told.is_empty(), "the other device to be told nothing, got {told:?}");
    one.close().await;
    other.close().await;
    Ok(())
}

async fn a_task_outside_of_the_target(run: &Run<'_>) -> Outcome {
    let (device, mut constellation) = Link::pair(run).await?;
    let mut other = Link::device(run).await?;
    let session = run.fresh()?;
    constellation
        .send(
            "task",
            "continue",
            json!({ "request": run.settings.say, "session_id": session, "target_id": other.name }),
        )
        .await;
    constellation.error().await?;
    let told = other.listen(300).await?;
    must!(told.is_empty(), "the other device to be told nothing, got {told:?}");
    constellation.close().await;
    device.close().await;
    other.close().await;
    Ok(())
}

async fn a_session_of_somebody_else(run: &Run<'_>) -> Outcome {
    let mut own = Link::device(run).await?;
    let session = run.fresh()?;
    own.task(&session, &super::script(&[vec![super::command("wait", &json!({}))]], &json!({}))).await?;
    let told = own.kind("command", &session).await?;
    let stranger = run.target.for_other();
    let mut other = Link::open_as(run, &stranger).await?;
    other.send("register", "ok", json!({ "metadata": {} })).await;
    other.wait("a registration", |message| message["type"] == "heartbeat").await?;
    let fields =
        json!({ "session_id": session, "action_results": [], "prev_response_id": told["response_id"] });
    other.send("command_results", "completed", fields).await;
    other.send("task_end", "failed", json!({ "session_id": session })).await;
    other.beat().await?;
    let ended = own.listen(300).await?;
    must!(ended.iter().all(|message| message["type"] != "task_end"), "the task to go on, got {ended:?}");
    own.succeed(&told).await;
    own.end(&session).await?;
    own.close().await;
    other.close().await;
    Ok(())
}
