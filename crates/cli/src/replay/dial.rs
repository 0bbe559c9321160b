//! Connections to a server, as the recorded client made them.

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::link::{Events, Live, talk};
use crate::recording::target::Target;
use crate::recording::{Answer, Payload, Request, What};

/// Makes a request, and reports what becomes of it.
pub(super) async fn dial(
    target: Target,
    on: u32,
    request: Request,
    commands: mpsc::Receiver<What>,
    events: Events,
) {
    if let Err(why) = converse(&target, on, &request, commands, &events).await {
        let _ = events.send((on, Live::Failed(why))).await;
    }
}

async fn converse(
    target: &Target,
    on: u32,
    request: &Request,
    commands: mpsc::Receiver<What>,
    events: &Events,
) -> Result<(), String> {
    let mut response = target.send(http_request(target, request)?).await?;
    let headers = response.headers().iter();
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let head = Answer { status: response.status().as_u16(), headers: headers.collect() };
    heard(on, events, What::Answer(head)).await;
    if request.websocket && response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgrade = hyper::upgrade::on(&mut response);
        talk(on, Role::Client, upgrade, commands, events.clone()).await;
        return Ok(());
    }
    let read = read(on, response.into_body(), events);
    tokio::select! {
        () = read => {}
        () = until_left(commands) => {}
    }
    Ok(())
}

async fn read(on: u32, mut body: hyper::body::Incoming, events: &Events) {
    loop {
        match body.frame().await {
            None => return heard(on, events, What::End(true)).await,
            Some(Err(_)) => return heard(on, events, What::Lost(true)).await,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    heard(on, events, What::Chunk(Payload::of(&data))).await;
                }
            }
        }
    }
}

/// Until the recorded client left before the answer was complete.
async fn until_left(mut commands: mpsc::Receiver<What>) {
    while let Some(what) = commands.recv().await {
        if matches!(what, What::Lost(_)) {
            return;
        }
    }
    std::future::pending().await
}

async fn heard(on: u32, events: &Events, what: What) {
    // Without a player there is nobody left to tell.
    let _ = events.send((on, Live::Heard(what))).await;
}

fn http_request(target: &Target, request: &Request) -> Result<hyper::Request<Full<Bytes>>, String> {
    let unusable = |what: &str| format!("the recording holds a {what} that cannot be sent");
    let mut made = hyper::Request::new(Full::new(request.body.bytes()));
    *made.method_mut() = Method::from_bytes(request.method.as_bytes()).map_err(|_| unusable("method"))?;
    *made.uri_mut() = request.target.parse().map_err(|_| unusable("target"))?;
    let mut headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let key = generate_key();
    if request.websocket {
        headers.extend([
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", key.as_str()),
        ]);
    }
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable("header"))?;
        let value = HeaderValue::from_str(value).map_err(|_| unusable("header"))?;
        made.headers_mut().append(name, value);
    }
    let host = HeaderValue::from_str(&target.authority).map_err(|_| unusable("host"))?;
    made.headers_mut().insert(HOST, host);
    Ok(made)
}
