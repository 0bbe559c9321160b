//! A WebSocket between a client and a server, passed on message by message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::tape::Tape;
use crate::recording::{MAX_MESSAGE, Side, What};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Passes messages on in both directions, until one side is done.
pub(super) async fn pump(tape: Arc<Tape>, on: u32, client: OnUpgrade, server: OnUpgrade) {
    let (Ok(client), Ok(server)) = tokio::join!(client, server) else {
        tape.note(on, Side::Client, What::Lost(true));
        return;
    };
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let client = WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, Some(config)).await;
    let server = WebSocketStream::from_raw_socket(TokioIo::new(server), Role::Client, Some(config)).await;
    let (to_client, from_client) = client.split();
    let (to_server, from_server) = server.split();
    let closing = AtomicBool::new(false);
    let up = Direction { tape: &tape, on, from: Side::Client, closing: &closing };
    let down = Direction { tape: &tape, on, from: Side::Server, closing: &closing };
    let up = std::pin::pin!(up.pass(from_client, to_server));
    let down = std::pin::pin!(down.pass(from_server, to_client));
    let rest = match select(up, down).await {
        Either::Left(((), down)) => Either::Left(down),
        Either::Right(((), up)) => Either::Right(up),
    };
    // The answer to a goodbye still has to get through; after a loss there is nothing to wait for.
    if closing.load(Ordering::Relaxed) {
        let _ = tokio::time::timeout(FAREWELL, rest).await;
    }
}

struct Direction<'a> {
    tape: &'a Tape,
    on: u32,
    from: Side,
    /// Whether one side has said goodbye.
    closing: &'a AtomicBool,
}

impl Direction<'_> {
    async fn pass(&self, mut source: SplitStream<Socket>, mut sink: SplitSink<Socket, Message>) {
        while let Some(Ok(message)) = source.next().await {
            let goodbye = message.is_close();
            if !self.closing.load(Ordering::Relaxed) {
                self.tape.message(self.on, self.from, &message);
            }
            if goodbye {
                self.closing.store(true, Ordering::Relaxed);
            }
            // A pong is answered to whoever pinged; each side has its own here.
            if message.is_pong() {
                continue;
            }
            if sink.send(message).await.is_err() && !goodbye {
                break;
            }
        }
        if !self.closing.load(Ordering::Relaxed) {
            self.tape.note(self.on, self.from, What::Lost(true));
        }
    }
}

const FAREWELL: Duration = Duration::from_secs(2);
