//! A raw ASP peer that costs as little as possible, so that the server is what is measured.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_asp::codec::{
    Frame, FrameReader, Incoming, Payload, ReaderOptions, decode_payload, encode_map_frame,
};
use switchboard_asp::message::{
    Enc, EncFlag, Hello, HelloOp, Interrupt, Invoke, Opcode, ResumeRequest, Secret, ServerHello,
};
use switchboard_asp::{Features, Flags, Map};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::servers::micros;

/// One connection.
pub(super) struct Peer {
    socket: Socket,
    pub(super) accept: Option<ServerHello>,
}

/// A STREAM frame, as far as a measurement needs to know.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) at: u64,
    pub(super) frame: Frame,
}

impl Received {
    pub(super) fn is_end(&self) -> bool {
        self.frame.opcode == Opcode::Error || self.frame.flags.has(Flags::END)
    }

    /// How long ago the delta was made, in microseconds, if it says so.
    pub(super) fn age(&self) -> Option<u64> {
        let payload = &self.frame.payload;
        let start = payload
            .windows(17)
            .position(|window| window.ends_with(b" ") && window.iter().take(16).all(u8::is_ascii_digit))?;
        let stamp = std::str::from_utf8(payload.get(start..start + 16)?).ok()?;
        Some(self.at.saturating_sub(stamp.parse().ok()?))
    }
}

impl Peer {
    /// Connects without saying anything.
    pub(super) async fn open(address: &str, path: &str) -> anyhow::Result<Self> {
        let protocol = (path == ASP).then_some("asp-v1");
        Ok(Self { socket: open_socket(address, path, protocol).await?, accept: None })
    }

    /// Connects with the standard profile, in MessagePack.
    pub(super) async fn connect(address: &str) -> anyhow::Result<Self> {
        Self::hello(address, None, true).await
    }

    /// Connects with the standard profile without credit, so that nothing waits for the client.
    pub(super) async fn connect_unlimited(address: &str) -> anyhow::Result<Self> {
        Self::hello(address, None, false).await
    }

    /// Comes back for what an earlier connection had asked for.
    pub(super) async fn resume(
        address: &str,
        accept: &ServerHello,
        next: &[(u16, u64)],
    ) -> anyhow::Result<Self> {
        let token = accept.resume.as_ref().context("no token")?.token.clone();
        let cid = accept.cid.clone().context("no cid")?;
        let resume = ResumeRequest { cid, token: Secret::new(token.expose()), next: next.to_vec() };
        Self::hello(address, Some(resume), false).await
    }

    async fn hello(address: &str, resume: Option<ResumeRequest>, credit: bool) -> anyhow::Result<Self> {
        let mut peer = Self::open(address, ASP).await?;
        let mut hello = Hello::new(HelloOp::Hello);
        let features = if credit {
            Features::STANDARD
        } else {
            Features::STANDARD.without(switchboard_asp::Feature::Credit)
        };
        hello.features = features.iter().map(|feature| feature.name().to_owned()).collect();
        hello.enc = vec![Enc::Msgpack];
        hello.resume = resume;
        peer.send_map(Opcode::Hello, 0, &hello.to_map(), Flags::NONE).await?;
        let message = tokio::time::timeout(PATIENCE, peer.next_message()).await??;
        let mut reader = FrameReader::new(message, ReaderOptions::default());
        let Some(Ok(Incoming::Frame(frame))) = reader.next() else { bail!("no accept") };
        let payload = decode_payload(Opcode::Hello, Flags::NONE, Features::BARE, &frame.payload)?;
        let Payload::Value(switchboard_asp::Value::Map(map)) = payload else { bail!("no accept") };
        peer.accept = Some(ServerHello::from_map(map)?);
        Ok(peer)
    }

    pub(super) async fn invoke(&mut self, id: u16, invoke: &Invoke) -> anyhow::Result<()> {
        let flags = Flags::NONE.with_enc(EncFlag::Msgpack);
        self.send_map(Opcode::Invoke, id, &invoke.to_map(), flags).await
    }

    pub(super) async fn interrupt(&mut self, id: u16) -> anyhow::Result<()> {
        let flags = Flags::NONE.with_enc(EncFlag::Msgpack);
        self.send_map(Opcode::Interrupt, id, &Interrupt::cancel().to_map(), flags).await
    }

    pub(super) async fn send_text(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.socket.send(Message::text(text.to_owned())).await?)
    }

    async fn send_map(&mut self, opcode: Opcode, id: u16, map: &Map, flags: Flags) -> anyhow::Result<()> {
        let mut out = BytesMut::new();
        encode_map_frame(&mut out, opcode, flags, id, Enc::Msgpack, map)?;
        Ok(self.socket.send(Message::Binary(out.freeze())).await?)
    }

    async fn next_message(&mut self) -> anyhow::Result<Bytes> {
        loop {
            match self.socket.next().await.context("the connection ended")?? {
                Message::Binary(bytes) => return Ok(bytes),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// The next frames of requests.
    pub(super) async fn receive(&mut self) -> anyhow::Result<Vec<Received>> {
        let message = tokio::time::timeout(PATIENCE, self.next_message()).await.context("silence")??;
        let at = micros();
        let mut received = Vec::new();
        for incoming in FrameReader::new(message, ReaderOptions::default()) {
            if let Incoming::Frame(frame) = incoming?
                && frame.id != 0
            {
                received.push(Received { at, frame });
            }
        }
        Ok(received)
    }

    /// Reads until `ends` requests have ended; answers how many frames that were.
    pub(super) async fn drain(&mut self, ends: usize) -> anyhow::Result<usize> {
        let (mut frames, mut ended) = (0, 0);
        while ended < ends {
            for received in self.receive().await? {
                frames += 1;
                ended += usize::from(received.is_end());
            }
        }
        Ok(frames)
    }
}

/// A WebSocket, whatever is spoken over it.
pub(super) async fn open_socket(
    address: &str,
    path: &str,
    protocol: Option<&'static str>,
) -> anyhow::Result<Socket> {
    let stream = dial(address).await?;
    stream.set_nodelay(true)?;
    let mut request = format!("ws://{address}{path}").into_client_request()?;
    if let Some(protocol) = protocol {
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static(protocol));
    }
    let config = WebSocketConfig::default().read_buffer_size(8 << 10).write_buffer_size(0);
    let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
    Ok(socket)
}

/// Connects from 127.0.0.1, and when that has no port left, from the next address of the loopback
/// network: each has as many ports again.
pub(super) async fn dial(address: &str) -> anyhow::Result<TcpStream> {
    let address: SocketAddr = address.parse()?;
    let mut result = TcpStream::connect(address).await;
    for last in 2..=254 {
        // The first is what connecting says when no port is left, the second what binding says.
        let full = [ErrorKind::AddrNotAvailable, ErrorKind::AddrInUse];
        if !matches!(&result, Err(error) if full.contains(&error.kind())) {
            break;
        }
        let socket = TcpSocket::new_v4()?;
        result = match socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()) {
            Ok(()) => socket.connect(address).await,
            Err(error) => Err(error),
        };
    }
    result.with_context(|| format!("cannot connect to {address}"))
}

pub(super) type Socket = WebSocketStream<TcpStream>;

pub(super) const ASP: &str = "/v1/agent-socket";
const PATIENCE: Duration = Duration::from_secs(60);
