//! A connection while it is replayed: what to send goes in, what was heard comes out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use crate::recording::{Goodbye, MAX_MESSAGE, What};

/// Something that happened on a connection.
#[derive(Debug)]
pub(super) enum Live {
    /// The other side said something.
    Heard(What),
    /// A client has come, who is answered through this.
    Come(mpsc::Sender<What>),
    /// There is no connection.
    Failed(String),
}

/// What the player learns: the connection, and what happened on it.
pub(super) type Events = mpsc::Sender<(u32, Live)>;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Speaks on a WebSocket until one side is done.
pub(super) async fn talk(
    on: u32,
    role: Role,
    upgrade: OnUpgrade,
    commands: mpsc::Receiver<What>,
    events: Events,
) {
    let Ok(upgraded) = upgrade.await else {
        let _ = events.send((on, Live::Heard(What::Lost(true)))).await;
        return;
    };
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE)).max_frame_size(Some(MAX_MESSAGE));
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), role, Some(config)).await;
    let (sink, stream) = socket.split();
    tokio::select! {
        // The player has left, or wants the connection to be lost.
        () = speak(sink, commands) => {}
        () = listen(on, stream, &events) => {}
    }
}

async fn speak(mut sink: SplitSink<Socket, Message>, mut commands: mpsc::Receiver<What>) {
    while let Some(what) = commands.recv().await {
        let message = match what {
            What::Text(text) => Message::text(text),
            What::Binary(base64) => Message::Binary(Bytes::from(STANDARD.decode(base64).unwrap_or_default())),
            What::Close(goodbye) => Message::Close(frame(goodbye)),
            What::Lost(_) => return,
            What::Request(_) | What::Answer(_) | What::Chunk(_) | What::End(_) => continue,
        };
        // That the other side is gone shows where it is listened to.
        if sink.send(message).await.is_err() {
            break;
        }
    }
    // Whoever is still there may have something to say.
    if !commands.is_closed() {
        std::future::pending::<()>().await;
    }
}

fn frame(goodbye: Goodbye) -> Option<CloseFrame> {
    (goodbye.code != NO_STATUS)
        .then(|| CloseFrame { code: goodbye.code.into(), reason: goodbye.reason.into() })
}

async fn listen(on: u32, mut stream: SplitStream<Socket>, events: &Events) {
    let mut over = false;
    while let Some(Ok(message)) = stream.next().await {
        let what = match message {
            Message::Text(text) => What::Text(text.to_string()),
            Message::Binary(bytes) => What::Binary(STANDARD.encode(&bytes)),
            Message::Close(frame) => {
                over = true;
                What::Close(Goodbye {
                    code: frame.as_ref().map_or(NO_STATUS, |frame| frame.code.into()),
                    reason: frame.map(|frame| frame.reason.to_string()).unwrap_or_default(),
                })
            }
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        if events.send((on, Live::Heard(what))).await.is_err() {
            return;
        }
    }
    if !over {
        let _ = events.send((on, Live::Heard(What::Lost(true)))).await;
    }
}

/// A close frame without a code.
const NO_STATUS: u16 = 1005;
