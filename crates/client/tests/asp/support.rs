//! A scripted ASP server.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_asp::codec::{Assembler, AssemblerLimits, Assembly, Incoming, ReaderOptions, open_payload};
use switchboard_asp::message::{Hello, Interrupt, Invoke, Mode};
use switchboard_asp::{ClientMessage, Features, Frame, FrameReader, Opcode};
use switchboard_client::asp::{
    Client, Connect, ConnectionEvent, Events, Request, RequestError, RequestEvent,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request as Upgrade, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

pub(crate) const CID: &str = "7f8a0000000000000000000000000001";

pub(crate) struct Server {
    listener: TcpListener,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("bind") }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.listener.local_addr().expect("address"))
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("address").port()
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        soon(self.listener.accept()).await.expect("accept").0
    }

    /// The next connection, upgraded.
    pub(crate) async fn upgrade(&self) -> Peer<TcpStream> {
        Peer::upgrade(self.tcp().await).await
    }

    /// The next connection, upgraded and agreed on the standard profile.
    pub(crate) async fn accept(&self) -> Peer<TcpStream> {
        let mut peer = self.upgrade().await;
        peer.hello().await;
        peer.agree(r#""resume":{"token":"tok-1","window_s":60}"#).await;
        peer
    }

    /// Answers the next upgrade with something else.
    pub(crate) async fn refuse(&self, answer: &str) {
        let mut stream = self.tcp().await;
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await.expect("request");
        stream.write_all(answer.as_bytes()).await.expect("answer");
        stream.shutdown().await.expect("shutdown");
    }

    /// A client and the server's end of its connection.
    pub(crate) async fn pair(&self, options: Connect) -> (Client, Peer<TcpStream>) {
        let (client, peer) = tokio::join!(Client::connect(options), self.accept());
        (client.expect("connects"), peer)
    }
}

/// The server's end of one connection.
pub(crate) struct Peer<S> {
    stream: WebSocketStream<S>,
    pub(crate) uri: String,
    pub(crate) headers: Vec<(String, String)>,
    features: Features,
    assembler: Assembler,
    inbox: std::collections::VecDeque<(u16, ClientMessage)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(crate) async fn upgrade(stream: S) -> Self {
        let mut seen = (String::new(), Vec::new());
        #[expect(clippy::result_large_err, reason = "the callback's type is given")]
        let callback = |request: &Upgrade, mut response: Response| {
            let header = |(name, value): (&_, &HeaderValue)| {
                (format!("{name}"), value.to_str().expect("text").to_owned())
            };
            let headers = request.headers();
            seen = (
                request.uri().to_string(),
                headers.iter().map(|(name, value)| header((name, value))).collect(),
            );
            response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("asp-v1"));
            Ok(response)
        };
        let stream = accept_hdr_async(stream, callback).await.expect("upgrade");
        Self {
            stream,
            uri: seen.0,
            headers: seen.1,
            features: Features::BARE,
            assembler: Assembler::new(AssemblerLimits::default()),
            inbox: std::collections::VecDeque::new(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The accept, with further members.
    pub(crate) async fn agree(&mut self, more: &str) {
        let features = Features::STANDARD.with(switchboard_asp::Feature::Reauth);
        let names: Vec<String> = features.iter().map(|feature| format!("{:?}", feature.name())).collect();
        let names = names.join(",");
        let comma = if more.is_empty() { "" } else { "," };
        self.send(
            Opcode::Hello,
            0,
            &format!(
                r#"{{"op":"accept","ver":1,"cid":"{CID}","features":[{names}],"enc":"json"{comma}{more}}}"#
            ),
        )
        .await;
        self.features = features;
    }

    pub(crate) async fn record(&mut self, id: u16, json: &str) {
        self.send(Opcode::Stream, id, json).await;
    }

    pub(crate) async fn text(&mut self, id: u16, n: u64, text: &str) {
        self.record(id, &format!(r#"{{"t":"text","n":{n},"d":"{text}"}}"#)).await;
    }

    pub(crate) async fn end(&mut self, id: u16, finish: &str) {
        self.record(id, &format!(r#"{{"t":"end","finish":"{finish}"}}"#)).await;
    }

    pub(crate) async fn send(&mut self, opcode: Opcode, id: u16, payload: &str) {
        let mut message = BytesMut::new();
        Frame::new(opcode, id, Bytes::copy_from_slice(payload.as_bytes()))
            .encode(&mut message)
            .expect("frame");
        self.stream.send(Message::Binary(message.freeze())).await.expect("send");
    }

    /// The next message of the client; a close frame is a message, too.
    pub(crate) async fn receive(&mut self) -> Received {
        loop {
            if let Some((id, message)) = self.inbox.pop_front() {
                return Received::Message(id, Box::new(message));
            }
            match soon(self.stream.next()).await {
                Some(Ok(Message::Binary(bytes))) => self.read(bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(frame))) => {
                    return Received::Close(frame.map(|frame| frame.code.into()));
                }
                None | Some(Err(_)) => return Received::Gone,
                other => panic!("{other:?}"),
            }
        }
    }

    fn read(&mut self, bytes: Bytes) {
        for incoming in FrameReader::new(bytes, ReaderOptions::default()) {
            let Ok(Incoming::Frame(frame)) = incoming else { panic!("{incoming:?}") };
            let flags = frame.flags.agreed(self.features).expect("flags");
            if let Assembly::Whole(whole) = self.assembler.push(frame, flags, 0).expect("fragments") {
                let payload = open_payload(&whole, self.features, 1 << 20).expect("payload");
                let message = ClientMessage::from_payload(whole.opcode, payload).expect("message");
                self.inbox.push_back((whole.id, message));
            }
        }
    }

    pub(crate) async fn hello(&mut self) -> Hello {
        match self.receive().await {
            Received::Message(0, message) => match *message {
                ClientMessage::Hello(hello) => *hello,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn invoke(&mut self) -> (u16, Invoke) {
        match self.receive().await {
            Received::Message(id, message) => match *message {
                ClientMessage::Invoke(invoke) => (id, *invoke),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn interrupt(&mut self) -> (u16, Interrupt) {
        match self.receive().await {
            Received::Message(id, message) => match *message {
                ClientMessage::Interrupt(interrupt) => (id, interrupt),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn cancelled(&mut self) -> u16 {
        let (id, interrupt) = self.interrupt().await;
        assert_eq!(interrupt.mode, Mode::Cancel);
        id
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        assert!(self.inbox.is_empty());
        tokio::time::timeout(Duration::from_millis(100), self.stream.next()).await.is_err()
    }

    pub(crate) async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: code.into(), reason: "".into() };
        self.stream.close(Some(frame)).await.expect("close");
    }
}

#[derive(Debug)]
pub(crate) enum Received {
    Message(u16, Box<ClientMessage>),
    Close(Option<u16>),
    Gone,
}

/// Nothing in these tests takes long.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("in time")
}

pub(crate) async fn next(request: &mut Request) -> Result<RequestEvent, RequestError> {
    soon(request.next()).await.expect("an event")
}

pub(crate) async fn text(request: &mut Request) -> String {
    match next(request).await {
        Ok(RequestEvent::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn event(events: &mut Events) -> ConnectionEvent {
    soon(events.next()).await.expect("an event")
}
