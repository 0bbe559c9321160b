//! The client half of VIP, without sockets, microphone, clock or randomness: [`VipClient`] is the [`ClientMachine`] that
//! an app needs in order to be talked to.
//!
//! The client says what is on the screen as soon as the state allows it, keeps the microphone to itself unless
//! the user has the floor, stops playback before anybody is told of an interruption, and has the app do only
//! what is on the screen, with the user's consent where that is asked for, and once.

use std::collections::VecDeque;

use bytes::Bytes;
use switchboard_core::client::LinkChange;
use switchboard_core::{Backoff, ClientInput, ClientMachine, ClientOutput, Jitter, Seed, Timestamp, hex};

mod calls;
mod consent;
mod event;
mod follow;
mod internal;
mod link;
mod microphone;
mod playback;
mod receive;
mod results;
mod screen;
#[cfg(test)]
mod tests;
mod turn;

pub use event::{Changed, CommandError, Event, Execution, LinkFault, Outcome, Question, Saved, Sound};

use crate::codec::encode_client;
use crate::matrix::{State, Trigger};
use crate::message::{AudioChoice, ClientEvent, Framing, Head, Mode, Role, TurnDetection};
use calls::Calls;
use consent::Consents;
use follow::Follow;
use link::Link;
use microphone::Stream;
use playback::Playback;
use screen::Screen;
use turn::Turn;

/// What can happen to a client.
pub type Input = ClientInput;
/// What a client wants done.
pub type Output = ClientOutput<Event>;
/// Why there is no connection.
pub type Cause = switchboard_core::client::Cause<LinkFault>;

/// How events and audio travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Both over a WebSocket.
    Socket,
    /// Events over a data channel, audio beside it.
    DataChannel,
}

/// What a client is.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The session, as it was created.
    pub session_id: String,
    /// Who drives the conversation.
    pub mode: Mode,
    /// How events and audio travel.
    pub carrier: Carrier,
    /// Whether there is a microphone.
    pub microphone: bool,
    /// Whether the user may agree to something by voice.
    pub voice_consent: bool,
    /// Calls that may be under way at a time.
    pub max_calls: usize,
    /// Results that are kept in case they are asked for again.
    pub max_results: usize,
    /// How often a data channel is tried, in milliseconds.
    pub ping_ms: u64,
    /// Pauses between attempts to connect.
    pub backoff: Backoff,
}

impl ClientConfig {
    /// A client in external mode over a WebSocket, with a microphone.
    pub fn new(session_id: impl Into<String>) -> Self {
        Self {
            session_id: session_id.into(),
            mode: Mode::External,
            carrier: Carrier::Socket,
            microphone: true,
            voice_consent: true,
            max_calls: 16,
            max_results: 64,
            ping_ms: 15_000,
            backoff: Backoff::new(millis(250), millis(5_000), Jitter::Around(50)),
        }
    }
}

/// One session of one app: at most one transport at a time, any number of them one after another.
#[derive(Debug)]
pub struct VipClient {
    config: ClientConfig,
    seed: Seed,
    minted: u64,
    now: Timestamp,
    link: Link,
    backoff: Backoff,
    /// The number of the last event that was sent.
    seq: u64,
    follow: Follow,
    /// The state that the app was told.
    told: State,
    agreed: Option<Agreed>,
    screen: Screen,
    turn: Option<Turn>,
    /// The stream that the microphone goes to.
    mic: Option<Stream>,
    /// The last stream of this client.
    stream: u16,
    muted: bool,
    playback: Option<Playback>,
    calls: Calls,
    consents: Consents,
    outputs: VecDeque<Output>,
}

/// What was agreed with the server.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    audio: AudioChoice,
    turn_detection: TurnDetection,
}

/// What an event refers to.
#[derive(Clone, Debug, Default)]
struct About {
    role: Role,
    turn_id: Option<String>,
    reply_to: Option<String>,
}

impl ClientMachine for VipClient {
    type Event = Event;
    type Fault = LinkFault;

    fn handle_input(&mut self, input: Input, now: Timestamp) {
        self.now = now;
        match input {
            Input::Connect => self.connect(),
            Input::Opened => self.opened(),
            Input::Text(text) => self.receive(&text),
            Input::Binary(bytes) => self.receive_audio(bytes),
            Input::Alive => {}
            Input::Unreachable(why) if self.link.is_dialing() => self.down(Cause::Unreachable(why)),
            Input::Refused(refusal) if self.link.is_dialing() => self.down(Cause::Refused(refusal)),
            Input::Closed(code) if self.link.is_dialing() || self.link.is_open() => {
                self.down(Cause::closed(code));
            }
            // About a transport that is not there.
            Input::Unreachable(_) | Input::Refused(_) | Input::Closed(_) => {}
            Input::Timeout => self.timeout(),
            Input::Leave => self.leave(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Idle { wake: self.wake() })
    }

    /// A session is there once it can be talked to, not before.
    fn link(event: &Event) -> Option<LinkChange<'_, LinkFault>> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is about the session")]
        match event {
            Event::State(Changed { state: State::Idle, .. }) => Some(LinkChange::Up),
            Event::Down(down) => Some(LinkChange::Down(down)),
            _ => None,
        }
    }
}

impl VipClient {
    /// A client without a connection. Its ids and secrets come from the seed.
    pub fn new(config: ClientConfig, seed: Seed) -> Self {
        Self {
            calls: Calls::new(config.max_results),
            backoff: config.backoff.clone().seeded(&seed),
            config,
            seed,
            minted: 0,
            now: Timestamp::default(),
            link: Link::default(),
            seq: 0,
            follow: Follow::default(),
            told: State::NotConnected,
            agreed: None,
            screen: Screen::default(),
            turn: None,
            mic: None,
            stream: 0,
            muted: false,
            playback: None,
            consents: Consents::default(),
            outputs: VecDeque::new(),
        }
    }

    /// A client that goes on where another has left off, such as the page before it was loaded again.
    pub fn resuming(config: ClientConfig, seed: Seed, saved: Saved) -> Self {
        let mut client = Self::new(config, seed);
        client.seq = saved.last_client_seq;
        client.screen.continue_from(saved.context_version);
        client.link.continue_from(saved.resume_token, saved.last_server_seq);
        client
    }

    /// The state.
    pub fn state(&self) -> State {
        self.follow.state()
    }

    /// What another client needs in order to go on with the session; none if it cannot be resumed.
    pub fn saved(&self) -> Option<Saved> {
        Some(Saved {
            resume_token: self.link.resume_token()?.to_owned(),
            last_server_seq: self.link.last_seq(),
            last_client_seq: self.seq,
            context_version: self.screen.version(),
        })
    }

    /// A fresh id; no two of a client are alike.
    fn mint(&mut self, prefix: &str) -> String {
        self.minted += 1;
        let digest = self.seed.derive(prefix, self.minted);
        let hex = hex(digest.iter().take(12));
        format!("{prefix}-{hex}")
    }

    /// Sends an event; answers its id.
    fn send(&mut self, event: &ClientEvent, about: About) -> String {
        self.seq += 1;
        let id = format!("c-{}", self.seq);
        let head = Head {
            id: id.clone(),
            seq: self.seq,
            ts: self.now.as_millis(),
            state_seq: self.follow.seq(),
            role: about.role,
            turn_id: about.turn_id,
            response_id: None,
            reply_to: about.reply_to,
        };
        self.outputs.push_back(Output::Text(encode_client(&head, event)));
        id
    }

    /// Sends an event that leads on if the server accepts it.
    fn send_trigger(&mut self, event: &ClientEvent, about: About, trigger: Trigger) {
        let id = self.send(event, about);
        self.follow.sent(id, trigger);
    }

    fn send_binary(&mut self, bytes: Bytes) {
        self.outputs.push_back(Output::Binary(bytes));
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn is_internal(&self) -> bool {
        self.config.mode == Mode::Internal
    }

    fn framing(&self) -> Framing {
        self.agreed.map_or(Framing::Binary, |agreed| agreed.audio.framing)
    }

    /// What follows from whatever just happened.
    fn settle(&mut self) {
        self.settle_playback();
        self.settle_turn();
        self.settle_screen();
        self.settle_results();
        let (state, previous) = (self.follow.state(), self.told);
        if state != previous {
            self.told = state;
            self.event(Event::State(Changed { state, previous }));
        }
    }

    fn timeout(&mut self) {
        self.link_timeout();
        self.turn_timeout();
        self.playback_timeout();
        self.calls_timeout();
    }

    fn wake(&self) -> Option<Timestamp> {
        let turn = self.turn.as_ref().and_then(|turn| turn.listen_by);
        let playback = self.playback.as_ref().and_then(|playback| playback.over_at);
        [self.link.wake(), turn, playback, self.calls.first_due(), self.screen_wake()]
            .into_iter()
            .flatten()
            .min()
    }
}

const fn millis(count: u64) -> std::time::Duration {
    std::time::Duration::from_millis(count)
}
