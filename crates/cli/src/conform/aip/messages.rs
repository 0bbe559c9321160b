//! Messages: their form, what is malformed, heartbeats (sections 3, 6.4 and 12).

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, must};
use super::super::inbox::Inbox as _;
use super::link::{Link, command, script};

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[5, 10, 15], needs: &[], run: |run| Box::pin(the_form_of_messages(run)) },
    Check { shows: &[6], needs: &[], run: |run| Box::pin(fragments(run)) },
    Check { shows: &[7], needs: &[], run: |run| Box::pin(pings_are_answered(run)) },
    Check { shows: &[7], needs: &[Need::Patience], run: |run| Box::pin(quiet_peers_are_pinged(run)) },
    Check { shows: &[11, 12, 14], needs: &[], run: |run| Box::pin(what_may_be_missing(run)) },
    Check { shows: &[13, 75], needs: &[], run: |run| Box::pin(what_is_malformed(run)) },
    Check { shows: &[16, 50], needs: &[Need::Story], run: |run| Box::pin(texts_and_numbers(run)) },
    Check { shows: &[17], needs: &[], run: |run| Box::pin(deep_nesting(run)) },
    Check { shows: &[38], needs: &[], run: |run| Box::pin(one_answer_per_heartbeat(run)) },
    Check { shows: &[39], needs: &[Need::Story], run: |run| Box::pin(also_while_a_task_runs(run)) },
    Check { shows: &[40], needs: &[], run: |run| Box::pin(a_constellation_that_says_device(run)) },
    Check { shows: &[76], needs: &[], run: |run| Box::pin(binary_is_an_error(run)) },
    Check { shows: &[78], needs: &[], run: |run| Box::pin(errors_are_short(run)) },
    Check { shows: &[79], needs: &[], run: |run| Box::pin(in_order(run)) },
];

/// The link looks at every message that it reads; here are a few of them.
async fn the_form_of_messages(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let answer = device.beat().await?;
    let time = answer["timestamp"].as_str().unwrap_or_default();
    let shaped = time.len() >= 25
        && time.as_bytes().get(10) == Some(&b'T')
        && (time.ends_with("+00:00") || time.ends_with('Z'));
    must!(shaped, "a timestamp with an offset, got {time:?}");
    device.send("heartbeat", "ok", json!({ "timestamp": "whenever" })).await;
    device.wait("an answer to any timestamp", |message| message["type"] == "heartbeat").await?;
    device.close().await;
    Ok(())
}

async fn fragments(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.fragments(&["{\"type\":\"hear", "tbeat\",\"sta", "tus\":\"ok\"}"]).await;
    device.wait("an answer to a heartbeat in fragments", |message| message["type"] == "heartbeat").await?;
    device.close().await;
    Ok(())
}

async fn pings_are_answered(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.pong().await?;
    device.close().await;
    Ok(())
}

async fn quiet_peers_are_pinged(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    must!(device.pinged(Duration::from_secs(35)).await, "a ping within 30 s of silence");
    device.close().await;
    Ok(())
}

async fn what_may_be_missing(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    for text in [
        r#"{"type":"heartbeat","status":"ok"}"#,
        r#" {"type":"heartbeat","status":"ok","future":{"x":[1]},"metadata":null} "#,
    ] {
        device.raw(text).await;
        let answer = device.wait("an answer", |_| true).await?;
        must!(answer["type"] == "heartbeat", "heartbeat for {text}, got {answer}");
    }
    device.close().await;
    Ok(())
}

async fn what_is_malformed(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    for text in [
        "",
        "hello",
        "[]",
        "null",
        "{}",
        r#"{"type":"heartbeat"}"#,
        r#"{"type":"HEARTBEAT","status":"ok"}"#,
        r#"{"type":"nonsense","status":"ok"}"#,
        r#"{"type":"heartbeat","status":"ok","client_type":null}"#,
        r#"{"type":"heartbeat","status":"ok","session_id":7}"#,
        r#"{"type":"heartbeat","status":"ok"} x"#,
    ] {
        device.raw(text).await;
        device.error().await?;
    }
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn texts_and_numbers(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let session = run.fresh()?;
    let parameters = json!({ "text": "Grüße 🌍 \u{2028} \\ \"", "big": 9_007_199_254_740_993_i64, "list": [1, null, true, 2.5] });
    let actions =
        vec![command("first", &parameters), command("second", &json!({})), command("third", &json!({}))];
    device.task(&session, &script(&[actions], &json!({}))).await?;
    let told = device.kind("command", &session).await?;
    must!(
        told["actions"][0]["parameters"] == parameters,
        "the parameters unchanged, got {}",
        told["actions"][0]
    );
    let names: Vec<&str> = told["actions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|action| action["tool_name"].as_str())
        .collect();
    must!(names == ["first", "second", "third"], "the order kept, got {names:?}");
    device.succeed(&told).await;
    let end = device.end(&session).await?;
    must!(
        end["result"]["turns"][0][0]["result"] == parameters,
        "the result unchanged, got {}",
        end["result"]
    );
    device.close().await;
    Ok(())
}

async fn deep_nesting(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
    device.raw(&format!(r#"{{"type":"heartbeat","status":"ok","metadata":{{"x":{deep}}}}}"#)).await;
    device.error().await?;
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn one_answer_per_heartbeat(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    for _ in 0..20 {
        device.send("heartbeat", "ok", json!({})).await;
    }
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let answer =
            device.wait("an answer to each heartbeat", |message| message["type"] == "heartbeat").await?;
        ids.insert(answer["response_id"].to_string());
    }
    must!(ids.len() == 20, "a response_id of its own for each, got {}", ids.len());
    let more = device.listen(300).await?;
    must!(more.is_empty(), "exactly one answer per heartbeat, got {more:?}");
    device.close().await;
    Ok(())
}

async fn also_while_a_task_runs(run: &Run<'_>) -> Outcome {
    let (mut device, mut constellation) = Link::pair(run).await?;
    let session = run.fresh()?;
    constellation.task(&session, &script(&[vec![command("slow", &json!({}))]], &json!({}))).await?;
    let told = device.kind("command", &session).await?;
    device.beat().await?;
    constellation.beat().await?;
    device.succeed(&told).await;
    constellation.end(&session).await?;
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn a_constellation_that_says_device(run: &Run<'_>) -> Outcome {
    let (device, mut constellation) = Link::pair(run).await?;
    constellation.send("heartbeat", "ok", json!({ "client_type": "device" })).await;
    let answer = constellation.wait("an answer", |_| true).await?;
    must!(answer["type"] == "heartbeat", "heartbeat, got {answer}");
    constellation.close().await;
    device.close().await;
    Ok(())
}

async fn binary_is_an_error(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.binary(r#"{"type":"heartbeat","status":"ok"}"#).await;
    device.error().await?;
    device.beat().await?;
    device.close().await;
    Ok(())
}

async fn errors_are_short(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    let key = run.target.key.clone().unwrap_or_else(|| "no such thing".to_owned());
    for text in [format!(r#"{{"type":"{}","status":"ok"}}"#, "x".repeat(20_000)), "y".repeat(20_000)] {
        device.raw(&text).await;
        let error = device.error().await?;
        must!(!error.to_string().contains(&key), "no credential in an error");
    }
    device.close().await;
    Ok(())
}

async fn in_order(run: &Run<'_>) -> Outcome {
    let mut device = Link::device(run).await?;
    device.listen(0).await?;
    for number in 0..10 {
        if number % 2 == 0 {
            device.send("heartbeat", "ok", json!({})).await;
        } else {
            device.raw("{}").await;
        }
    }
    let mut kinds = Vec::new();
    for _ in 0..10 {
        kinds.push(device.wait("an answer to each", |_| true).await?["type"].clone());
    }
    let expected: Vec<Value> =
        (0..10).map(|number| json!(if number % 2 == 0 { "heartbeat" } else { "error" })).collect();
    must!(kinds == expected, "answers in the order of the messages, got {kinds:?}");
    let mut constellation = Link::constellation(run, &device).await?;
    constellation.listen(0).await?;
    let mut expected = Vec::new();
    for _ in 0..8 {
        let session = run.fresh()?;
        constellation.submit(&session, "conform: in order").await;
        constellation.send("heartbeat", "ok", json!({})).await;
        expected.extend([json!(session), Value::Null]);
    }
    let mut answered = Vec::new();
    for _ in 0..expected.len() {
        let answer =
            constellation.wait("an answer to each", |message| message["type"] == "heartbeat").await?;
        answered.push(answer["session_id"].clone());
    }
    must!(
        answered == expected,
        "tasks and heartbeats answered in the order in which they came, got {answered:?}"
    );
    constellation.close().await;
    device.close().await;
    Ok(())
}
