//! What attacks have shown (section 18).

use serde_json::json;

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::link::{Link, command, script};
use crate::probe::Target;

pub(super) const CHECKS: &[Check] = &[
    Check {
        shows: &[91],
        needs: &[Need::OtherKey, Need::Story],
        run: |run| Box::pin(a_session_of_the_same_name(run)),
    },
    Check {
        shows: &[92],
        needs: &[Need::OtherKey],
        run: |run| Box::pin(the_name_of_a_device_that_left(run)),
    },
    Check { shows: &[95], needs: &[], run: |run| Box::pin(who_comes_back_too_early(run)) },
    Check { shows: &[97], needs: &[Need::Story], run: |run| Box::pin(names_of_any_shape(run)) },
];

/// A registered device of this principal's.
async fn device_of(run: &Run<'_>, target: &Target) -> Outcome<Link> {
    let mut link = Link::open_as(run, target).await?;
    link.send("register", "ok", json!({ "metadata": { "platform": "linux" } })).await;
    let answer = link.wait("a registration", |_| true).await?;
    must!(answer["type"] == "heartbeat", "a registration, got {answer}");
    Ok(link)
}

fn one_command() -> String {
    script(&[vec![command("wait", &json!({}))]], &json!({}))
}

async fn a_session_of_the_same_name(run: &Run<'_>) -> Outcome {
    let stranger = run.target.for_other();
    let (mut own, mut other) = (Link::device(run).await?, device_of(run, &stranger).await?);
    let session = format!("nightly-{}", run.fresh()?);
    other.task(&session, &one_command()).await?;
    let theirs = other.kind("command", &session).await?;
    own.task(&session, &one_command()).await?;
    let ours = own.kind("command", &session).await?;
    for (link, told) in [(&mut own, ours), (&mut other, theirs)] {
        link.succeed(&told).await;
        let end = link.end(&session).await?;
        must!(end["status"] == "completed", "both tasks to be done, got {end}");
    }
    own.close().await;
    other.close().await;
    Ok(())
}

async fn the_name_of_a_device_that_left(run: &Run<'_>) -> Outcome {
    let device = Link::device(run).await?;
    let name = device.name.clone();
    device.close().await;
    let mut other = Link::open_as(run, &run.target.for_other()).await?;
    other.name = name;
    other.send("register", "ok", json!({ "metadata": {} })).await;
    let answer = other.wait("an answer", |_| true).await?;
    must!(answer["type"] == "error", "the name of somebody else's device to be refused, got {answer}");
    other.close().await;
    Ok(())
}

/// Clients whose network was away for a moment register again and again while their old links still stand.
async fn who_comes_back_too_early(run: &Run<'_>) -> Outcome {
    let (device, constellation) = Link::pair(run).await?;
    for attempt in 0..ATTEMPTS {
        let mut again = Link::open(run).await?;
        again.name.clone_from(&device.name);
        again.send("register", "ok", json!({ "metadata": {} })).await;
        let answer = again.wait("an answer", |_| true).await?;
        again.cut();
        // Once the old link counts as dead, the newer one gets the name.
        if answer["type"] == "heartbeat" {
            break;
        }
        must!(answer["type"] == "error", "an error for attempt {attempt}, got {answer}");
    }
    let another = Link::device(run).await?;
    another.close().await;
    constellation.close().await;
    Ok(())
}

async fn names_of_any_shape(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let word: String =
        run.fresh()?.chars().map(|letter| if letter.is_ascii_digit() { 'a' } else { letter }).collect();
    for session in [format!("ses_{word:a>26}"), format!("ac_{word:a>21}"), format!("vs_{}", "A".repeat(26))] {
        device.task(&session, &one_command()).await?;
        let told = device.kind("command", &session).await?;
        device.succeed(&told).await;
        let end = device.end(&session).await?;
        must!(end["status"] == "completed", "{session:?} to be a name like any other, got {end}");
    }
    device.close().await;
    Ok(())
}

/// More than what counts as abuse where duplicates count.
const ATTEMPTS: usize = 130;
