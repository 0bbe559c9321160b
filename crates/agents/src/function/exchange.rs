//! One request to a function and what comes back (§14.3, §14.6).

use std::time::Duration;

use http_body_util::BodyExt as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Body, RequestBuilder};
use switchboard_asp::Code;
use switchboard_asp::relay::response::{Alarm, MessageSource, message_from_body};
use switchboard_asp::relay::{Decoder, Ended, Limits, Verdict, X_CPU_TIME, cpu_time, map};
use switchboard_core::model::{Failure, Standby};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::work::{Attempt, Work, empty};
use crate::agent::AgentError;

/// A response of which the head has come.
pub(super) struct Response {
    status: u16,
    headers: HeaderMap,
    body: Body,
}

impl Work<'_> {
    /// Sends a request, and waits for the head of the response.
    pub(super) async fn dispatch(
        &mut self,
        request: RequestBuilder,
    ) -> Result<Result<Response, Attempt>, AgentError> {
        let config = &self.function.config;
        let patience = Duration::from_millis(config.first_byte_timeout_ms);
        let mut late = std::pin::pin!(sleep(patience));
        let mut cold = std::pin::pin!(sleep(Duration::from_millis(config.cold_start_ms)));
        let mut sending = std::pin::pin!(request.send());
        loop {
            tokio::select! {
                sent = &mut sending => return Ok(match sent {
                    Ok(response) => {
                        let response: http::Response<Body> = response.into();
                        let (head, body) = response.into_parts();
                        Ok(Response { status: head.status.as_u16(), headers: head.headers, body })
                    }
                    Err(error) => {
                        let what = if error.is_connect() { "cannot be reached" } else { "broke the connection off" };
                        Err(again(Code::FunctionUnreachable, format!("the function {what}")))
                    }
                }),
                () = &mut late => {
                    let message = format!("the function did not answer within {} ms", patience.as_millis());
                    return Ok(Err(again(Code::FunctionTimeout, message)));
                }
                () = &mut cold, if !self.told_of_start => {
                    self.told_of_start = true;
                    self.turn.stand_by(Standby::Starting).await?;
                }
                heard = self.hear() => {
                    if let Some(leg) = self.take_heard(heard).await? {
                        return Ok(Err(Attempt::Leg(leg)));
                    }
                }
            }
        }
    }

    /// Makes of a response what its status says.
    pub(super) async fn receive(&mut self, response: Response, rid: u16) -> Result<Attempt, AgentError> {
        let text = |name| response.headers.get(name).and_then(|value| value.to_str().ok());
        self.note_cpu_time(&response.headers);
        let verdict = Verdict::of(response.status, text(CONTENT_TYPE), text(RETRY_AFTER));
        if !matches!(verdict, Verdict::Retry { .. } | Verdict::RetryIfNoBody { .. }) {
            self.function.breaker.succeeded();
        }
        let status = response.status;
        match verdict {
            Verdict::Stream(kind) => {
                let decoder = Decoder::new(kind, rid, Limits::default());
                self.stream(decoder, response.body).await
            }
            Verdict::Async => self.wait_for_end(None).await,
            Verdict::Empty => Ok(Attempt::Leg(empty())),
            Verdict::Attach { otherwise } => {
                let failure =
                    map::failure(otherwise, "the function has run this invocation already (HTTP 409)");
                // Only an attempt before this one can be what still runs.
                self.wait_for_end(Some(failure)).await
            }
            Verdict::Fail { code, message, alarm } => {
                if alarm == Alarm::Signature {
                    tracing::error!(
                        agent = %self.turn.brief().agent,
                        "a function refuses our signature (HTTP 401): compare the secret of the agent with the function's"
                    );
                }
                let said = match message {
                    MessageSource::BodyIfJson => message_from_body(&beginning(response.body).await),
                    MessageSource::Relay => None,
                };
                let message = said.unwrap_or_else(|| self.refused(status));
                if code == Code::AgentNotFound {
                    tracing::warn!(
                        agent = %self.turn.brief().agent,
                        url = self.function.endpoint.shown_url(),
                        status,
                        "there is no function at this address: look at `url` and `single_url` of the agent"
                    );
                }
                Ok(Attempt::Failed(map::failure(code, message)))
            }
            Verdict::Retry { after_ms, then } => {
                let failure = map::failure(then, format!("the function is not available (HTTP {status})"));
                Ok(Attempt::Again { failure, after: after_ms.map(Duration::from_millis) })
            }
            Verdict::RetryIfNoBody { then } => {
                let failure = map::failure(then, format!("the function failed (HTTP {status})"));
                if beginning(response.body).await.is_empty() {
                    Ok(Attempt::Again { failure, after: None })
                } else {
                    self.function.breaker.failed(self.turn.now());
                    Ok(Attempt::Failed(failure))
                }
            }
        }
    }

    /// Passes on what the body of a response holds.
    async fn stream(&mut self, mut decoder: Decoder, mut body: Body) -> Result<Attempt, AgentError> {
        let gap = Duration::from_millis(self.function.config.gap_timeout_ms);
        let mut silent_until = Instant::now() + gap;
        let mut pieces = Vec::new();
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = sleep_until(silent_until) => return Ok(self.fell_silent(gap)),
                heard = self.hear() => {
                    if let Some(leg) = self.take_heard(heard).await? {
                        return Ok(Attempt::Leg(leg));
                    }
                    continue;
                }
            };
            silent_until = Instant::now() + gap;
            let read = match frame {
                Some(Ok(frame)) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        self.note_cpu_time(trailers);
                    }
                    frame.data_ref().map_or(Ok(()), |bytes| decoder.feed(bytes, &mut pieces))
                }
                Some(Err(_)) => return Ok(self.broke_off()),
                None => {
                    let finished = decoder.finish(&mut pieces);
                    for piece in pieces.drain(..) {
                        if let Some(leg) = self.forward(piece).await? {
                            return Ok(Attempt::Leg(leg));
                        }
                    }
                    return Ok(match finished {
                        Ok(_) => self.broke_off(),
                        Err(error) => senseless(&error),
                    });
                }
            };
            for piece in pieces.drain(..) {
                if let Some(leg) = self.forward(piece).await? {
                    self.read_rest(&decoder, body).await;
                    return Ok(Attempt::Leg(leg));
                }
            }
            if let Err(error) = read {
                return Ok(senseless(&error));
            }
        }
    }

    /// What follows the last record: trailers, and the end that lets the connection be used again.
    async fn read_rest(&mut self, decoder: &Decoder, mut body: Body) {
        debug_assert!(!matches!(decoder.ended(), Some(Ended::WithoutTerminal)));
        let rest = async {
            while let Some(Ok(frame)) = body.frame().await {
                if let Some(trailers) = frame.trailers_ref() {
                    self.note_cpu_time(trailers);
                }
            }
        };
        let _ = timeout(REST_TIME, rest).await;
    }

    /// Everything comes by push from here on. With `otherwise`, only if something of it has come already.
    async fn wait_for_end(&mut self, otherwise: Option<Failure>) -> Result<Attempt, AgentError> {
        let mut patience = otherwise.is_some().then(|| Box::pin(sleep(ATTACH_TIME)));
        loop {
            let gone = async {
                match patience.as_mut() {
                    Some(patience) => patience.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                heard = self.hear() => {
                    if let Some(leg) = self.take_heard(heard).await? {
                        return Ok(Attempt::Leg(leg));
                    }
                    // The attempt that runs has shown itself; it has until the deadline.
                    if self.forwarded {
                        patience = None;
                    }
                }
                () = gone => {
                    if let Some(failure) = otherwise {
                        return Ok(Attempt::Failed(failure));
                    }
                    patience = None;
                }
            }
        }
    }

    /// What a refusal is told as. Where nothing answers at the address, its path helps; the host is nobody's
    /// business but the operator's, whose log names it.
    fn refused(&self, status: u16) -> String {
        let refused = format!("the function refused the request (HTTP {status})");
        if status != 404 {
            return refused;
        }
        let path = self.function.endpoint.shown_path();
        let hint = if self.function.config.single_url {
            "serve it there, or correct `url`"
        } else {
            "serve it there, or set `single_url` to have everything sent to `url` itself"
        };
        format!("{refused}: there is nothing at the path {path}; {hint}")
    }

    fn fell_silent(&self, gap: Duration) -> Attempt {
        again(Code::FunctionTimeout, format!("the function fell silent for {} ms", gap.as_millis()))
    }

    fn broke_off(&self) -> Attempt {
        Attempt::Failed(map::failure(Code::FunctionAborted, "the function's answer broke off"))
    }

    fn note_cpu_time(&mut self, headers: &HeaderMap) {
        let said = headers.get(X_CPU_TIME).and_then(|value| value.to_str().ok()).and_then(cpu_time);
        self.cpu_ms = said.or(self.cpu_ms);
    }
}

fn again(code: Code, message: String) -> Attempt {
    Attempt::Again { failure: map::failure(code, message), after: None }
}

fn senseless(error: &switchboard_asp::relay::BadBody) -> Attempt {
    let message = format!("the function's answer makes no sense: {error}");
    Attempt::Failed(map::failure(Code::FunctionBadResponse, message))
}

/// The beginning of a body, for a message.
async fn beginning(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(data) = frame.data_ref() {
                bytes.extend_from_slice(data);
            }
            if bytes.len() > MAX_BEGINNING {
                break;
            }
        }
    };
    let _ = timeout(BEGINNING_TIME, reading).await;
    bytes
}

/// Bytes of an error that are read.
const MAX_BEGINNING: usize = 64 << 10;
/// How long an error may take.
const BEGINNING_TIME: Duration = Duration::from_secs(5);
/// How long the end of a response may take.
const REST_TIME: Duration = Duration::from_millis(500);
/// How long a duplicate may take to show that it runs.
const ATTACH_TIME: Duration = Duration::from_secs(2);
