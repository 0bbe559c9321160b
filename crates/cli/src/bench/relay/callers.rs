//! Whoever calls the function, directly or through the relay, and reads all of its answer.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use switchboard_asp::Value;
use switchboard_asp::message::{Invoke, Opcode, RecordBody};
use switchboard_asp::relay::sign::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use switchboard_asp::relay::{
    ContentKind, Decoder, Event, Invocation, Limits, Payload, Piece, SigningKey, sign,
};
use tokio::time::timeout;

use super::{AGENT, SECRET};
use crate::bench::peer::{Peer, dial};
use crate::bench::servers::{Load, micros};

/// Calls the function.
pub(super) trait Caller: Send + 'static {
    /// One call, of which all of the answer must come.
    fn call(&mut self, load: Load) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Through the relay, over ASP.
pub(super) struct Relayed {
    peer: Peer,
    /// The function, or an agent in the server itself.
    agent: &'static str,
}

impl Relayed {
    pub(super) const fn new(peer: Peer, agent: &'static str) -> Self {
        Self { peer, agent }
    }

    /// One turn; answers how many bytes of frames came.
    pub(super) async fn turn(&mut self, text: impl Into<String>) -> anyhow::Result<usize> {
        let mut invoke = Invoke::chat(text);
        invoke.agent = Some(self.agent.to_owned());
        self.peer.invoke(1, &invoke).await?;
        let mut bytes = 0;
        loop {
            for received in self.peer.receive().await? {
                bytes += received.frame.payload.len();
                ensure!(received.frame.opcode != Opcode::Error, "a turn failed");
                if received.is_end() {
                    return Ok(bytes);
                }
            }
        }
    }
}

impl Caller for Relayed {
    async fn call(&mut self, load: Load) -> anyhow::Result<()> {
        let said = self.turn(load.text()).await?;
        // Deltas may be merged on their way, but nothing of them gets lost.
        let expected = load.count as usize * load.size;
        ensure!(said >= expected, "{said} bytes came instead of {expected}");
        Ok(())
    }
}

/// Without a relay, over one connection that is kept.
pub(super) struct Direct {
    sender: SendRequest<Full<Bytes>>,
    keys: [SigningKey; 1],
    host: String,
    number: usize,
    calls: usize,
}

impl Direct {
    pub(super) async fn connect(address: &str, number: usize) -> anyhow::Result<Self> {
        let stream = dial(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with its sender, and whoever waits for an answer hears of it if it breaks.
        tokio::spawn(connection);
        let keys = [SigningKey::from_text(SECRET)?];
        Ok(Self { sender, keys, host: address.to_owned(), number, calls: 0 })
    }

    /// What the relay would send for the same request, signed in the same way.
    fn request(&mut self, load: Load) -> anyhow::Result<Request<Full<Bytes>>> {
        self.calls += 1;
        let inv = format!("inv_{}_{}", self.number, self.calls);
        let mut invocation = Invocation::new(Event::Invoke, format!("{:032x}", self.number), 1, &inv);
        invocation.payload = Some(Payload::Json(Value::Map(Invoke::chat(load.text()).to_map())));
        invocation.agent = Some(AGENT.to_owned());
        let body = invocation.to_json();
        let now = micros() / 1_000_000;
        let signature = sign(&self.keys, &inv, now, &body);
        Ok(Request::post("/invoke")
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .header(WEBHOOK_ID, inv)
            .header(WEBHOOK_TIMESTAMP, now)
            .header(WEBHOOK_SIGNATURE, signature)
            .body(Full::new(body))?)
    }

    async fn exchange(&mut self, load: Load) -> anyhow::Result<()> {
        let request = self.request(load)?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        ensure!(response.status() == StatusCode::OK, "the function refused: {}", response.status());
        let mut body = response.into_body();
        let mut decoder = Decoder::new(ContentKind::Ndjson, 1, Limits::default());
        let (mut pieces, mut texts, mut ended) = (Vec::new(), 0, false);
        while let Some(frame) = body.frame().await {
            if let Some(bytes) = frame?.data_ref() {
                decoder.feed(bytes, &mut pieces)?;
            }
            for piece in pieces.drain(..) {
                let Piece::Record(record) = piece else { bail!("not a record: {piece:?}") };
                texts += u32::from(matches!(record.body, RecordBody::Text(_)));
                ended |= record.is_terminal();
            }
        }
        ensure!(ended && texts == load.count, "{texts} records came instead of {}", load.count);
        Ok(())
    }
}

impl Caller for Direct {
    async fn call(&mut self, load: Load) -> anyhow::Result<()> {
        timeout(PATIENCE, self.exchange(load)).await.context("silence")?
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use switchboard_server::{Config, Server};
    use tokio::net::TcpListener;

    use super::super::{SECRET_ENV, function, settings};
    use super::*;

    #[tokio::test]
    async fn both_callers_get_all_that_the_function_says() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let function = tokio::spawn(function::serve_on(listener));
        let data = tempfile::tempdir().unwrap();
        let mut settings = settings(&address);
        settings.push(format!("data_dir={}", data.path().display()));
        let secret = (SECRET_ENV.to_owned(), SECRET.to_owned());
        let config = Config::load(None, [secret], settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = listener.local_addr().unwrap().to_string();
        let server = Server::start(config).await.unwrap();
        let server = tokio::spawn(server.run(listener, std::future::pending()));

        let mut direct = Direct::connect(&address, 0).await.unwrap();
        let mut relayed = Relayed::new(Peer::connect_unlimited(&relay).await.unwrap(), AGENT);
        for load in [Load::burst(1, 32), Load::burst(1_000, 32)] {
            direct.call(load).await.unwrap();
            relayed.call(load).await.unwrap();
        }
        let mut inside = Relayed::new(Peer::connect_unlimited(&relay).await.unwrap(), "echo");
        inside.call(Load::burst(1, 32)).await.unwrap();

        function.abort();
        assert!(function.await.is_err(), "it was stopped");
        assert!(direct.call(Load::burst(1, 32)).await.is_err(), "nobody answers");
        assert!(relayed.call(Load::burst(1, 32)).await.is_err(), "a failure is no answer");
        server.abort();
    }
}
