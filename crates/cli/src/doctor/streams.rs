//! Whether pieces of an answer come when they are sent, and whether silence is endured.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Patient;
use super::finding::Finding;
use crate::clock;
use crate::probe::{Received, Request};

/// When the pieces of an answer came, from the moment it was asked for.
#[derive(Debug, Default)]
struct Pieces {
    /// When each of the messages came.
    at: Vec<Duration>,
    /// How many of them hold text.
    texts: usize,
}

impl Pieces {
    /// Whether they came as they were sent. A server sends the first message of an answer at once, whatever
    /// its agent takes: if everything comes together, somebody has held it back.
    fn judge(&self, subject: &'static str, advice: &str) -> Finding {
        let (Some(first), Some(last)) = (self.at.first(), self.at.last()) else {
            return Finding::skipped(subject, "nothing came", "see above");
        };
        let span = last.saturating_sub(*first);
        let (first, last) = (clock::short(*first), clock::short(*last));
        if self.texts < 3 || self.at.last() < Some(&LONG_ENOUGH) {
            let found = format!("the answer came too quickly to tell: {} pieces within {last}", self.texts);
            return Finding::skipped(
                subject,
                found,
                "give something with --say that is answered slowly, in pieces",
            );
        }
        if span.saturating_mul(4) < self.at.last().copied().unwrap_or_default() {
            let found = format!("all {} messages came together, after {first}", self.at.len());
            return Finding::problem(subject, found, advice);
        }
        Finding::fine(
            subject,
            format!("{} messages came one by one, between {first} and {last}", self.at.len()),
        )
    }
}

/// Whether streams over HTTP, and messages of WebSockets, are held back on the way.
pub(super) async fn pace(patient: &Patient<'_>) -> Vec<Finding> {
    let http = match over_http(patient).await {
        Ok(pieces) => pieces.judge(
            "stream pace",
            "switch buffering off: nginx needs proxy_buffering off, others flush_interval -1 or the like",
        ),
        Err(why) => Finding::skipped("stream pace", why, "give a credential with --key, or see above"),
    };
    let socket = match over_socket(patient).await {
        Ok(pieces) => pieces.judge(
            "socket pace",
            "something collects messages of WebSockets: switch off its buffering or inspection",
        ),
        Err(why) => Finding::skipped("socket pace", why, "give a credential with --key, or see above"),
    };
    vec![http, socket]
}

fn request(patient: &Patient<'_>) -> Value {
    json!({ "message": patient.say, "history": [], "model": "doctor" })
}

async fn over_http(patient: &Patient<'_>) -> Result<Pieces, String> {
    let began = Instant::now();
    let mut answer =
        patient.target.open(&patient.log, &Request::post("/v1/chat/stream", &request(patient))).await?;
    if answer.status != 200 {
        return Err(format!("a stream is answered with {}", answer.status));
    }
    let (mut pieces, mut rest) = (Pieces::default(), String::new());
    while let Some(chunk) = answer.chunk(LONGEST).await? {
        rest += &String::from_utf8_lossy(&chunk);
        while let Some(at) = rest.find("\n\n") {
            let block: String = rest.drain(..at + 2).collect();
            pieces.at.push(began.elapsed());
            pieces.texts += usize::from(block.contains("text-delta"));
        }
        if rest.len() > MOST_BYTES {
            return Err("a stream that is none".to_owned());
        }
    }
    Ok(pieces)
}

async fn over_socket(patient: &Patient<'_>) -> Result<Pieces, String> {
    let mut socket = patient.target.socket(&patient.log, &Request::upgrade("/v1/rpc", &[])).await?;
    let began = Instant::now();
    let start =
        json!({ "id": "rpc_doctor", "type": "chat.start", "payload": { "request": request(patient) } });
    socket.text(&start.to_string()).await;
    let mut pieces = Pieces::default();
    loop {
        match socket.next(LONGEST).await {
            Ok(Received::Text(text)) => {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                match message["type"].as_str() {
                    Some("chat.done") => break,
                    Some("chat.error" | "error") => return Err(format!("no answer: {text}")),
                    Some(_) | None => {}
                }
                pieces.at.push(began.elapsed());
                pieces.texts += usize::from(message["event"]["type"] == "text-delta");
            }
            Ok(Received::Binary(_) | Received::Ping | Received::Pong) => {}
            Err(over) => return Err(over.to_string()),
        }
    }
    socket.close().await;
    Ok(pieces)
}

/// Whether a connection that is silent for a while is still there.
pub(super) async fn silence(patient: &Patient<'_>) -> Vec<Finding> {
    let advice = "raise the time that proxies and firewalls allow for silence (nginx: proxy_read_timeout) to two minutes";
    let mut socket = match patient.target.socket(&patient.log, &Request::upgrade("/v1/rpc", &[])).await {
        Ok(socket) => socket,
        Err(why) => {
            return vec![Finding::skipped("silence", why, "give a credential with --key, or see above")];
        }
    };
    let (began, end) = (Instant::now(), Instant::now() + patient.idle);
    while let Ok(received) = socket.next_until(end).await {
        if let Received::Text(_) | Received::Binary(_) = received {
            break;
        }
    }
    let waited = began.elapsed();
    if waited + Duration::from_millis(100) < patient.idle {
        let found = format!("a silent connection was closed after {}", clock::short(waited));
        return vec![Finding::problem("silence", found, advice)];
    }
    if let Err(over) = socket.pong().await {
        let found = format!("no pong after {} of silence: {over}", clock::short(waited));
        return vec![Finding::problem("silence", found, advice)];
    }
    socket.close().await;
    vec![Finding::fine(
        "silence",
        format!("a connection is still there after {}, and a ping answered", clock::short(waited)),
    )]
}

/// An answer that takes less says nothing about its pace.
const LONG_ENOUGH: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);
const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    fn grade(at: &[u64], texts: usize) -> Grade {
        let at = at.iter().map(|ms| Duration::from_millis(*ms)).collect();
        Pieces { at, texts }.judge("pace", "").grade
    }

    #[test]
    fn what_comes_together_was_held_back() {
        assert_eq!(grade(&[5, 200, 400, 600, 800], 4), Grade::Fine);
        assert_eq!(grade(&[1_200, 1_201, 1_201, 1_202], 3), Grade::Problem);
        // An agent that thinks for long and speaks quickly.
        assert_eq!(grade(&[5, 2_000, 2_001, 2_002], 3), Grade::Fine);
        assert_eq!(grade(&[5, 6, 7, 8], 3), Grade::Skipped);
        assert_eq!(grade(&[5, 900], 1), Grade::Skipped);
    }
}
