//! Sessions over HTTP, transports and coming back (sections 2, 4 and 11).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, Stop, must, pause};
use super::super::inbox::Inbox as _;
use super::call::{Call, SESSIONS, create, request};
use crate::probe::Request;

pub(super) const CHECKS: &[Check] = &[
    Check { shows: &[2], needs: &[], run: |run| Box::pin(production_needs_a_token(run)) },
    Check { shows: &[3], needs: &[], run: |run| Box::pin(unsigned_tokens(run)) },
    Check { shows: &[10], needs: &[], run: |run| Box::pin(development_switched_off(run)) },
    Check { shows: &[11, 15], needs: &[], run: |run| Box::pin(development_without_a_token(run)) },
    Check { shows: &[13], needs: &[], run: |run| Box::pin(the_same_key(run)) },
    Check { shows: &[16], needs: &[], run: |run| Box::pin(the_subprotocol(run)) },
    Check { shows: &[18], needs: &[], run: |run| Box::pin(silence_after_the_upgrade(run)) },
    Check { shows: &[65], needs: &[], run: |run| Box::pin(formats_on_offer(run)) },
    Check { shows: &[66], needs: &[], run: |run| Box::pin(no_common_format(run)) },
    Check { shows: &[73, 74], needs: &[], run: |run| Box::pin(coming_back(run)) },
    Check { shows: &[72], needs: &[Need::Patience], run: |run| Box::pin(not_longer_than_the_window(run)) },
    Check { shows: &[75], needs: &[], run: |run| Box::pin(one_transport(run)) },
    Check { shows: &[78], needs: &[], run: |run| Box::pin(what_has_ended(run)) },
    Check { shows: &[81], needs: &[], run: |run| Box::pin(a_first_visit(run)) },
];

/// That a request is refused with this status, an error object, and this code.
pub(super) fn failed_with(answer: &crate::probe::Answer, status: u16, code: Option<&str>) -> Outcome {
    must!(answer.status == status, "{status}, got {} {}", answer.status, answer.body);
    let error = &answer.json()["error"];
    must!(
        error["code"].is_string() && error["message"].is_string(),
        "an error with code and message, got {}",
        answer.body
    );
    must!(code.is_none_or(|code| error["code"] == code), "{code:?}, got {}", error["code"]);
    Ok(())
}

async fn production_needs_a_token(run: &Run<'_>) -> Outcome {
    let mut body = request();
    body["environment"] = "production".into();
    let answer = run.ask(Request::post(SESSIONS, &body).without_key()).await?;
    failed_with(&answer, 401, Some("AUTH_TOKEN_MISSING"))
}

async fn unsigned_tokens(run: &Run<'_>) -> Outcome {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for environment in ["production", "development"] {
        for algorithm in ["none", "NONE"] {
            let header = part(&json!({ "typ": "vip-app+jwt", "alg": algorithm }));
            let claims =
                part(&json!({ "iss": "https://conform.test", "sub": "x", "vip": { "env": environment } }));
            let mut body = request();
            body["environment"] = environment.into();
            let token = format!("Bearer {header}.{claims}.");
            let answer = run.ask(Request::post(SESSIONS, &body).header("authorization", &token)).await?;
            must!(
                matches!(answer.status, 401 | 403),
                "a refusal of alg {algorithm} in {environment}, got {} {}",
                answer.status,
                answer.body
            );
        }
    }
    Ok(())
}

async fn development_switched_off(run: &Run<'_>) -> Outcome {
    let answer = run.ask(Request::post(SESSIONS, &request()).without_key()).await?;
    if answer.status == 201 {
        return Err(Stop::needs("a server without development (vip.allow_development=false)"));
    }
    failed_with(&answer, 403, Some("AUTH_ENVIRONMENT_FORBIDDEN"))
}

async fn development_without_a_token(run: &Run<'_>) -> Outcome {
    let created = create(run, &json!({})).await?;
    must!(created["issued_in_development"] == true, "issued_in_development, got {created}");
    must!(
        created["state"] == "connecting" && created["session_token"].is_string(),
        "connecting and a token, got {created}"
    );
    must!(created.get("provider").is_none_or(Value::is_null), "no provider in external mode, got {created}");
    let id = created["session_id"].as_str().unwrap_or_default();
    must!(id.len() == 29 && id.starts_with("vs_"), "an id vs_…, got {id:?}");
    Ok(())
}

async fn the_same_key(run: &Run<'_>) -> Outcome {
    create(run, &json!({})).await?;
    let key = run.fresh()?;
    let post = |body: &Value| Request::post(SESSIONS, body).without_key().header("idempotency-key", &key);
    let (first, again) = (run.ask(post(&request())).await?, run.ask(post(&request())).await?);
    must!(first.status == 201 && again.status == 201, "201 twice, got {} and {}", first.status, again.status);
    must!(first.body == again.body, "the same answer, got {}", again.body);
    let mut other = request();
    other["locale"] = "de-DE".into();
    let answer = run.ask(post(&other)).await?;
    failed_with(&answer, 409, Some("SES_IDEMPOTENCY_CONFLICT"))
}

async fn the_subprotocol(run: &Run<'_>) -> Outcome {
    let created = create(run, &json!({})).await?;
    let bearer = format!("vip.bearer.{}", created["session_token"].as_str().unwrap_or_default());
    let path = format!("{SESSIONS}/{}/stream", created["session_id"].as_str().unwrap_or_default());
    let socket = run.socket(Request::upgrade(path, &["vip.v1", &bearer]).without_key()).await?;
    let chosen = socket.headers.get("sec-websocket-protocol").and_then(|value| value.to_str().ok());
    must!(chosen == Some("vip.v1"), "vip.v1 to be chosen, got {chosen:?}");
    must!(!format!("{:?}", socket.headers).contains("vip.bearer"), "the bearer not to be echoed");
    socket.close().await;
    Ok(())
}

async fn silence_after_the_upgrade(run: &Run<'_>) -> Outcome {
    let created = create(run, &json!({})).await?;
    let mut call = Call::open(run, &created).await?;
    call.closed(4408).await?;
    Ok(())
}

async fn formats_on_offer(run: &Run<'_>) -> Outcome {
    let offer = run.ask(super::discovery()).await?.json();
    for (way, format) in [("input", "pcm16/16000"), ("output", "pcm16/24000")] {
        let offered =
            offer["audio"][way].as_array().is_some_and(|list| list.iter().any(|known| known == format));
        must!(offered, "{format} as {way}, got {}", offer["audio"]);
    }
    Ok(())
}

async fn no_common_format(run: &Run<'_>) -> Outcome {
    create(run, &json!({})).await?;
    let mut body = request();
    body["audio"] = json!({ "input_formats": ["mp3/44100"], "output_formats": ["mp3/44100"] });
    let answer = run.ask(Request::post(SESSIONS, &body).without_key()).await?;
    failed_with(&answer, 422, Some("PROTO_AUDIO_FORMAT"))
}

async fn coming_back(run: &Run<'_>) -> Outcome {
    let (mut call, connected) = Call::connected(run).await?;
    let token = connected["data"]["resume_token"].clone();
    must!(token.is_string(), "a resume_token, got {connected}");
    call.show(1).await?;
    let (created, seen) = (call.created.clone(), call.last_seq);
    call.take_the_floor().await?;
    call.cut();
    pause(200).await;
    let mut again = Call::open(run, &created).await?;
    let resume = json!({ "resume": { "resume_token": token, "last_server_seq": seen } });
    let resumed = again.connect(resume.clone()).await?;
    must!(resumed["data"]["resumed"] == true, "to be resumed, got {resumed}");
    let fresh = &resumed["data"]["resume_token"];
    must!(fresh.is_string() && *fresh != token, "another resume_token, got {resumed}");
    let mut numbers: Vec<u64> = Vec::new();
    loop {
        let event = again.wait("what was missed to come again", |_| true).await?;
        numbers.extend(event["seq"].as_u64());
        if event["data"]["state"] == "user_speaking" && event["seq"].as_u64() > Some(seen) {
            break;
        }
    }
    must!(numbers.is_sorted_by(|one, next| one < next), "events in order and once, got {numbers:?}");
    again.cut();
    pause(200).await;
    let mut thief = Call::open(run, &created).await?;
    let refused = thief.connect(resume).await;
    must!(refused.is_err(), "a used resume_token to be refused");
    Ok(())
}

async fn not_longer_than_the_window(run: &Run<'_>) -> Outcome {
    let (call, connected) = Call::connected(run).await?;
    let window = connected["data"]["resume_window_s"].as_u64().unwrap_or_default();
    if !(1..=LONGEST_WINDOW_S).contains(&window) {
        return Err(Stop::needs(format!("a resume window of 1 to {LONGEST_WINDOW_S} s; it is {window} s")));
    }
    let created = call.created.clone();
    let token = connected["data"]["resume_token"].clone();
    let resume = json!({ "resume": { "resume_token": token, "last_server_seq": call.last_seq } });
    call.cut();
    pause((window + 5) * 1_000).await;
    let late = async { Call::open(run, &created).await?.connect(resume).await };
    must!(late.await.is_err(), "no resume after {window} s");
    Ok(())
}

async fn one_transport(run: &Run<'_>) -> Outcome {
    let (mut call, connected) = Call::connected(run).await?;
    let resume = json!({ "resume": { "resume_token": connected["data"]["resume_token"], "last_server_seq": call.last_seq } });
    let mut newer = Call::open(run, &call.created).await?;
    newer.connect(resume).await?;
    call.closed(4409).await?;
    Ok(())
}

async fn what_has_ended(run: &Run<'_>) -> Outcome {
    let call = Call::idle(run).await?;
    let (hang_up, status, history) =
        (call.about("DELETE", ""), call.about("GET", ""), call.about("GET", "/history"));
    let answer = run.ask(hang_up).await?;
    must!(answer.status == 204, "204, got {}", answer.status);
    for request in [status, history] {
        let answer = run.ask(request).await?;
        failed_with(&answer, 410, Some("SES_TERMINATED"))?;
    }
    Ok(())
}

async fn a_first_visit(run: &Run<'_>) -> Outcome {
    let created = create(run, &json!({ "activate_on": "first_visit", "visit": { "first": true } })).await?;
    let mut call = Call::open(run, &created).await?;
    call.connect(json!({})).await?;
    call.show(1).await?;
    let announced = call.event("server.announce").await?;
    must!(announced["reason"] == "intro", "an introduction, got {announced}");
    Ok(())
}

const LONGEST_WINDOW_S: u64 = 90;
