//! Thousands of light clients of ASP. Each is the state machine of the protocol on a socket that can be cut off at
//! once, together with all others; what the machine does then is what every client of the SDK does.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use switchboard_asp::client::{AspClient, ClientConfig, Ending as Ended, Event, Input, Output};
use switchboard_asp::message::{Enc, Finish, RecordBody};
use switchboard_core::{Backoff, ClientMachine as _, Jitter, Seed, Timestamp};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::book::{Book, Recorder};
use crate::history::{Ending, What};
use crate::talk::invocation;
use crate::words::{Shape, Words};

/// What everybody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Be connected.
    Connect,
    /// Ask, once.
    Ask,
    /// Be cut off, and stay away.
    Away,
}

/// How many are how far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connected at this moment.
    pub(crate) up: AtomicUsize,
    /// Have seen something of their answer.
    pub(crate) begun: AtomicUsize,
    /// Have seen the end of it.
    pub(crate) ended: AtomicUsize,
    /// Attempts to connect that failed.
    pub(crate) failed: AtomicUsize,
}

/// A crowd; dropped, it leaves at once, without a word.
pub(crate) struct Crowd {
    address: SocketAddr,
    book: Arc<Book>,
    phase: watch::Sender<Phase>,
    counts: Arc<Counts>,
    members: JoinSet<()>,
}

impl Crowd {
    pub(crate) fn new(address: SocketAddr, book: &Arc<Book>) -> Self {
        let (counts, members) = Default::default();
        Self { address, book: book.clone(), phase: watch::Sender::new(Phase::Connect), counts, members }
    }

    /// One more, who connects at once; with a shape, somebody who will ask and is recorded.
    pub(crate) fn add(&mut self, asks: Option<Shape>) {
        let number = self.members.len();
        let asks = asks.map(|shape| {
            let recorder = self.book.recorder(format!("member {number} of the crowd"), None);
            Asks { request: self.book.request(), shape, recorder, words: Words::default(), begun: false }
        });
        let member = Member {
            address: self.address,
            book: self.book.clone(),
            phase: self.phase.subscribe(),
            counts: self.counts.clone(),
            machine: AspClient::new(config(), &seed(number)),
            socket: None,
            up: false,
            asks,
            asked: false,
        };
        self.members.spawn(member.run());
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }
}

/// Attempts follow each other quickly, so that everybody is back as soon as possible; and a busy machine may take its
/// time, since what is asked here is whether anything is lost, and how long it takes is told.
fn config() -> ClientConfig {
    ClientConfig {
        enc: vec![Enc::Msgpack],
        accept_timeout_ms: 60_000,
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_millis(500), Jitter::Around(50)),
        ..ClientConfig::default()
    }
}

fn seed(number: usize) -> Seed {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
    Seed::new(seed)
}

/// What a member asks.
struct Asks {
    request: u64,
    shape: Shape,
    recorder: Recorder,
    words: Words,
    begun: bool,
}

struct Member {
    address: SocketAddr,
    book: Arc<Book>,
    phase: watch::Receiver<Phase>,
    counts: Arc<Counts>,
    machine: AspClient,
    socket: Option<Socket>,
    up: bool,
    asks: Option<Asks>,
    asked: bool,
}

impl Member {
    async fn run(mut self) {
        self.machine.handle_input(Input::Connect, self.now());
        loop {
            let phase = *self.phase.borrow_and_update();
            if let Some(input) = self.entered(phase) {
                self.machine.handle_input(input, self.now());
            }
            let wake = self.carry_out().await;
            // To connect takes a while, in which the next phase may have begun.
            if *self.phase.borrow() != phase {
                continue;
            }
            let wake = wake.map(|wake| self.book.instant(wake.since(Timestamp::default())));
            let input = tokio::select! {
                () = until(wake) => Input::Timeout,
                Ok(()) = self.phase.changed() => continue,
                input = next(&mut self.socket) => input,
            };
            if matches!(input, Input::Closed(_)) {
                self.socket = None;
            }
            self.machine.handle_input(input, self.now());
        }
    }

    fn entered(&mut self, phase: Phase) -> Option<Input> {
        match phase {
            Phase::Connect => None,
            Phase::Ask => {
                if let Some(asks) = self.asks.as_ref().filter(|_| !self.asked) {
                    self.asked = true;
                    let prompt = asks.shape.prompt(asks.request);
                    let now = self.now();
                    if self.machine.invoke(invocation(None, asks.request, prompt), now).is_err() {
                        asks.recorder.saw(asks.request, What::Refused);
                    }
                }
                None
            }
            Phase::Away => self.socket.take().map(|_| Input::Closed(None)),
        }
    }

    /// Does what the machine says; answers when it wants to be woken.
    async fn carry_out(&mut self) -> Option<Timestamp> {
        loop {
            match self.machine.poll_output() {
                Output::Dial => {
                    let input = self.dial().await;
                    self.machine.handle_input(input, self.now());
                }
                Output::Text(message) => self.send(Message::Text(message.into())).await,
                Output::Binary(message) => self.send(Message::Binary(message)).await,
                Output::Ping => self.send(Message::Ping(Vec::new().into())).await,
                Output::Close(_) => self.socket = None,
                Output::Event(event) => self.event(event),
                Output::Idle { wake } => return wake,
            }
        }
    }

    async fn dial(&mut self) -> Input {
        // Whoever is to stay away waits here, and comes back with all others.
        if self.phase.wait_for(|phase| *phase != Phase::Away).await.is_err() {
            return Input::Unreachable("over".into());
        }
        match timeout(DIAL, open(self.address)).await {
            Ok(Ok(socket)) => {
                self.socket = Some(socket);
                Input::Opened
            }
            Ok(Err(_)) | Err(_) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                Input::Unreachable("refused".into())
            }
        }
    }

    async fn send(&mut self, message: Message) {
        let Some(socket) = &mut self.socket else { return };
        if socket.send(message).await.is_err() {
            self.socket = None;
            self.machine.handle_input(Input::Closed(None), self.now());
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Accepted { .. } | Event::Bare => self.is_up(true),
            Event::Down(_) => self.is_up(false),
            Event::Record { record, .. } => self.record(&record.body),
            Event::Restarted { .. } => {
                if let Some(asks) = &mut self.asks {
                    asks.words = Words::default();
                    asks.recorder.saw(asks.request, What::Restarted);
                }
            }
            Event::Ended { ending, .. } => self.ended(&ending),
            Event::Push(_)
            | Event::ToolsChanged
            | Event::AuthExpiring(_)
            | Event::Authenticated { .. }
            | Event::Pong { .. }
            | Event::GoAway { .. }
            | Event::Error(_) => {}
        }
    }

    fn is_up(&mut self, up: bool) {
        match (std::mem::replace(&mut self.up, up), up) {
            (false, true) => self.counts.up.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.counts.up.fetch_sub(1, Ordering::Relaxed),
            (true, true) | (false, false) => 0,
        };
    }

    fn record(&mut self, body: &RecordBody) {
        let Some(asks) = &mut self.asks else { return };
        if let RecordBody::Start { .. } = body {
            asks.recorder.saw(asks.request, What::Accepted);
        } else if let RecordBody::Text(text) = body {
            asks.recorder.saw_words(asks.request, &asks.words.push(text));
        }
        if !std::mem::replace(&mut asks.begun, true) {
            self.counts.begun.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ended(&self, ending: &Ended) {
        let Some(asks) = &self.asks else { return };
        let what = match ending {
            Ended::End(end) if end.finish == Finish::Complete => What::Ended(Ending::Complete),
            Ended::Error(_) if !asks.begun => What::Refused,
            Ended::End(_) | Ended::Error(_) => What::Ended(Ending::Failed),
            Ended::Lost(_) => What::Ended(Ending::Lost),
        };
        asks.recorder.saw(asks.request, what);
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        Timestamp::default().after(self.book.now())
    }
}

/// Until then, or for ever.
async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

async fn next(socket: &mut Option<Socket>) -> Input {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        return match socket.next().await {
            Some(Ok(Message::Binary(message))) => Input::Binary(message),
            Some(Ok(Message::Text(message))) => Input::Text(message.as_str().to_owned()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Input::Alive,
            Some(Ok(Message::Close(frame))) => Input::Closed(frame.map(|frame| frame.code.into())),
            Some(Ok(Message::Frame(_))) => continue,
            Some(Err(_)) | None => Input::Closed(None),
        };
    }
}

/// Connects, with buffers as small as a crowd needs them.
async fn open(address: SocketAddr) -> anyhow::Result<Socket> {
    let stream = dial(address).await?;
    stream.set_nodelay(true)?;
    let mut request = format!("ws://{address}/v1/agent-socket").into_client_request()?;
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("asp-v1"));
    let config = WebSocketConfig::default().read_buffer_size(4 << 10).write_buffer_size(0);
    Ok(client_async_with_config(request, stream, Some(config)).await?.0)
}

/// From 127.0.0.1, and when that has no port left, from the next address of the loopback network.
async fn dial(address: SocketAddr) -> std::io::Result<TcpStream> {
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
    result
}

type Socket = WebSocketStream<TcpStream>;

const DIAL: Duration = Duration::from_secs(10);
