//! The contract of the client side: what a protocol's client half is to whoever drives it.
//!
//! A client half is fed one [`ClientInput`] at a time, or called by its user; afterwards
//! [`ClientMachine::poll_output`] is called until it answers [`ClientOutput::Idle`], which also says when to wake it.
//! Nothing else drives it: no clock, no task, no socket.
//!
//! ```text
//! transport ── ClientInput ──▶ handle_input ─┐                  ┌─▶ Dial, Text, Binary, Ping, Close ──▶ transport
//!                                            ├─▶ ClientMachine ─┤
//! user ── methods of the client half's own ──┘   poll_output    └─▶ Event ──▶ user
//! ```
//!
//! It decides by itself when to dial, and when to dial again; whoever drives it only carries that out. What its user
//! asks for (a chat, a task, a turn) are methods of its own type, each with its own answer: a protocol has nothing
//! to gain from passing them through one enum.

use std::error::Error;
use std::fmt::{self, Debug};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::Timestamp;

/// The client half of a protocol: at most one transport at a time, any number of them one after another.
pub trait ClientMachine: Debug + Send {
    /// What its user is told.
    type Event: Send;
    /// What ends a connection, beyond what every protocol knows.
    type Fault: Fault;

    /// Feeds exactly one input; `now` is the only clock that a client half ever sees.
    fn handle_input(&mut self, input: ClientInput, now: Timestamp);

    /// The next thing to do. Drain until [`ClientOutput::Idle`] after every input and every call, before the next one.
    fn poll_output(&mut self) -> ClientOutput<Self::Event>;

    /// What an event says of the connection, if it is about that.
    fn link(event: &Self::Event) -> Option<LinkChange<'_, Self::Fault>>;
}

/// What can happen to a client half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientInput {
    /// The user wants a connection, and from then on again and again.
    Connect,
    /// The transport that was asked for is open.
    Opened,
    /// It could not be opened: no address, no route, no TLS, no answer.
    Unreachable(String),
    /// It could not be opened: the server answered the upgrade with something else than 101.
    Refused(Refusal),
    /// One text message.
    Text(String),
    /// One binary message.
    Binary(Bytes),
    /// A ping or pong of the transport: a sign of life.
    Alive,
    /// The transport is gone, with the code of its close frame if there was one.
    Closed(Option<u16>),
    /// The wake time has come.
    Timeout,
    /// The user leaves: there is to be no connection any more.
    Leave,
}

/// What a client half wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOutput<E> {
    /// Open a transport; answered with [`ClientInput::Opened`], [`ClientInput::Unreachable`] or
    /// [`ClientInput::Refused`].
    Dial,
    /// Send one text message.
    Text(String),
    /// Send one binary message.
    Binary(Bytes),
    /// Send a ping of the transport.
    Ping,
    /// Close the transport with this code and report no more of it; an attempt to open one is given up.
    Close(u16),
    /// Tell the user.
    Event(E),
    /// Nothing more for now; call back with [`ClientInput::Timeout`] at `wake`.
    Idle {
        /// When to wake the client half if nothing else happens.
        wake: Option<Timestamp>,
    },
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange<'a, F> {
    /// There is one, and both sides have agreed.
    Up,
    /// There is none any more, or still none.
    Down(&'a Down<F>),
}

/// There is no connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Down<F> {
    /// Why.
    pub cause: Cause<F>,
    /// When the client half dials again; never by itself if there is no time.
    pub retry_at: Option<Timestamp>,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause<F> {
    /// No address, no route, no TLS, no answer.
    Unreachable(String),
    /// The server answered the upgrade with something else than 101.
    Refused(Refusal),
    /// It was closed or lost; 1006 without a close frame.
    Closed(u16),
    /// Nothing came for too long.
    Silent,
    /// This client left.
    Left,
    /// What only this protocol knows.
    Protocol(F),
}

/// What ends the connections of one protocol.
pub trait Fault: Clone + Debug + Error + PartialEq + Send + Sync + 'static {
    /// What people call the protocol.
    const PROTOCOL: &'static str;
    /// Where the words of an error stand in the JSON body of a refused upgrade.
    const WORDS_AT: &'static str;
    /// Where its code stands.
    const CODE_AT: &'static str = "/code";

    /// Whether to come back after this close code.
    fn is_temporary_close(code: u16) -> bool {
        // Not understood, not allowed, too big: the same would happen again.
        !matches!(code, 1002 | 1003 | 1007..=1010)
    }

    /// Whether to come back.
    fn is_temporary(&self) -> bool;

    /// What a person can do about it.
    fn advice(&self) -> &'static str;
}

/// An answer to an upgrade other than 101; or 101 in another protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// What the server said; may be empty.
    pub text: String,
    /// The code of the server's error, if it said one.
    pub code: Option<String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Reads the body of an answer, as a protocol writes it. The body itself is what was said if it is not JSON.
    pub fn read<F: Fault>(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let code = json.pointer(F::CODE_AT).and_then(Value::as_str).map(str::to_owned);
        let retry_ms = json.pointer("/error/retry_ms").and_then(Value::as_u64);
        let retry_after = retry_after.or_else(|| retry_ms.map(Duration::from_millis));
        Self { status, text: words(body, F::WORDS_AT), code, retry_after }
    }

    /// Whether the same request may succeed later.
    pub const fn is_temporary(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..=599)
    }
}

/// The words of an error: the text there in a JSON body, or the body as it is.
pub fn words(body: &[u8], at: &str) -> String {
    let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match json.pointer(at).and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body).trim().chars().take(MAX_TEXT).collect(),
    }
}

impl<F: Fault> Cause<F> {
    /// Whether to come back.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Silent => true,
            Self::Refused(refusal) => refusal.is_temporary(),
            Self::Closed(code) => F::is_temporary_close(*code),
            Self::Left => false,
            Self::Protocol(fault) => fault.is_temporary(),
        }
    }

    /// When the server wants to be asked again.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            Self::Unreachable(_) | Self::Closed(_) | Self::Silent | Self::Left | Self::Protocol(_) => None,
        }
    }

    /// What a person can do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "check the address and whether the server runs; with TLS, its certificate"
            }
            Self::Refused(Refusal { status: 401, .. }) => {
                "give a valid token, or a new one if it has expired"
            }
            Self::Refused(Refusal { status: 403, .. }) => {
                "use a token that may do this, or ask for permission"
            }
            Self::Refused(refusal) if refusal.is_temporary() => "wait, then try again",
            Self::Refused(_) => "check the URL: it must lead to a server that speaks the protocol",
            Self::Closed(code) if !F::is_temporary_close(*code) => "look into the server's log",
            Self::Closed(_) | Self::Silent | Self::Left => "connect again",
            Self::Protocol(fault) => fault.advice(),
        }
    }

    /// The cause that a close code stands for.
    pub fn closed(code: Option<u16>) -> Self {
        Self::Closed(code.unwrap_or(ABNORMAL))
    }
}

impl<F> From<F> for Cause<F> {
    fn from(fault: F) -> Self {
        Self::Protocol(fault)
    }
}

impl<F: Fault> fmt::Display for Cause<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(out, "the server cannot be reached: {why}"),
            Self::Refused(refusal) => refused::<F>(refusal, out),
            Self::Closed(code) => write!(out, "closed with code {code}"),
            Self::Silent => out.write_str("no sign of life"),
            Self::Left => out.write_str("this client left"),
            Self::Protocol(fault) => write!(out, "{fault}"),
        }
    }
}

fn refused<F: Fault>(refusal: &Refusal, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match refusal.status {
        401 => out.write_str("the server does not accept the credential")?,
        403 => out.write_str("the server does not permit this")?,
        101 | 404 => write!(out, "the server does not speak {} here", F::PROTOCOL)?,
        status => write!(out, "the server refused with HTTP {status}")?,
    }
    if !refusal.text.is_empty() {
        write!(out, ": {}", refusal.text)?;
    }
    match refusal.retry_after {
        Some(after) => write!(out, ", try again in {} s", after.as_secs_f64().ceil()),
        None => Ok(()),
    }
}

impl<F: Fault> Error for Cause<F> {}

/// When a transport was last alive, and whether it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Liveness {
    heard_at: Timestamp,
    pinged: bool,
}

/// What silence amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// The transport lives.
    Alive,
    /// It is to be tried with a ping.
    Ping,
    /// It is dead.
    Dead,
}

impl Liveness {
    /// Something came, or the transport was opened.
    pub const fn heard(&mut self, now: Timestamp) {
        *self = Self { heard_at: now, pinged: false };
    }

    /// Judges the silence up to now: after `ping` the transport is tried, once; after `dead` it is dead.
    pub fn check(&mut self, ping: Duration, dead: Duration, now: Timestamp) -> Pulse {
        let silent = now.since(self.heard_at);
        if silent >= dead {
            return Pulse::Dead;
        }
        if silent < ping || self.pinged {
            return Pulse::Alive;
        }
        self.pinged = true;
        Pulse::Ping
    }

    /// When to judge it next.
    pub fn wake(&self, ping: Duration, dead: Duration) -> Timestamp {
        self.heard_at.after(if self.pinged { dead } else { ping })
    }
}

/// The code of a transport that broke off without a close frame.
const ABNORMAL: u16 = 1006;
/// Characters of a refusal's body that are kept.
const MAX_TEXT: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, thiserror::Error)]
    #[error("odd")]
    struct Odd;

    impl Fault for Odd {
        const PROTOCOL: &'static str = "Odd";
        const WORDS_AT: &'static str = "/error/msg";

        fn is_temporary(&self) -> bool {
            false
        }

        fn advice(&self) -> &'static str {
            "even it"
        }
    }

    fn refused(status: u16, body: &str) -> Cause<Odd> {
        Cause::Refused(Refusal::read::<Odd>(status, None, body.as_bytes()))
    }

    #[test]
    fn refusals_say_what_happened_and_what_to_do() {
        for (status, temporary, text) in [
            (101, false, "the server does not speak Odd here"),
            (401, false, "the server does not accept the credential"),
            (403, false, "the server does not permit this"),
            (404, false, "the server does not speak Odd here"),
            (408, true, "the server refused with HTTP 408"),
            (429, true, "the server refused with HTTP 429"),
            (503, true, "the server refused with HTTP 503"),
        ] {
            let cause = refused(status, "");
            assert_eq!((cause.to_string().as_str(), cause.is_temporary()), (text, temporary));
            assert!(!cause.advice().is_empty());
        }
    }

    #[test]
    fn words_are_found_where_the_protocol_has_them() {
        let body = r#"{"error":{"msg":"too many","retry_ms":1500},"code":"BUSY"}"#;
        let Cause::Refused(refusal) = refused(429, body) else { panic!() };
        assert_eq!((refusal.text.as_str(), refusal.code.as_deref()), ("too many", Some("BUSY")));
        assert_eq!(refusal.retry_after, Some(Duration::from_millis(1500)));
        let cause = Cause::<Odd>::Refused(refusal);
        assert_eq!(cause.to_string(), "the server refused with HTTP 429: too many, try again in 2 s");
        assert_eq!(refused(500, " gone wrong\n").to_string(), "the server refused with HTTP 500: gone wrong");
        let Cause::Refused(long) = refused(500, &"x".repeat(5_000)) else { panic!() };
        assert_eq!(long.text.len(), MAX_TEXT);
    }

    #[test]
    fn closes_that_would_happen_again_are_final() {
        for (code, temporary) in [(None, true), (Some(1001), true), (Some(1008), false), (Some(1009), false)]
        {
            assert_eq!(Cause::<Odd>::closed(code).is_temporary(), temporary);
        }
        assert_eq!(Cause::<Odd>::closed(None), Cause::Closed(1006));
        assert!(!Cause::from(Odd).is_temporary() && !Cause::<Odd>::Left.is_temporary());
    }

    #[test]
    fn silence_is_tried_once_and_then_final() {
        let (ping, dead) = (Duration::from_secs(10), Duration::from_secs(25));
        let at = Timestamp::from_secs;
        let mut liveness = Liveness::default();
        liveness.heard(at(100));
        assert_eq!((liveness.check(ping, dead, at(109)), liveness.wake(ping, dead)), (Pulse::Alive, at(110)));
        assert_eq!((liveness.check(ping, dead, at(110)), liveness.wake(ping, dead)), (Pulse::Ping, at(125)));
        assert_eq!(liveness.check(ping, dead, at(124)), Pulse::Alive);
        assert_eq!(liveness.check(ping, dead, at(125)), Pulse::Dead);
        liveness.heard(at(125));
        assert_eq!(liveness.check(ping, dead, at(126)), Pulse::Alive);
    }
}
