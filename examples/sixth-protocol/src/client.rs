//! The client's half, without I/O: it comes back after a cut, and hears everything exactly once.

use std::collections::VecDeque;

use switchboard_core::{Pii, Position};

use crate::codec;
use crate::error::{Code, Malformed};
use crate::message::{ClientLine, ClientMessage, ServerLine, Tag};

/// One client in one session. Feed it what arrives, send what [`Client::poll_line`] gives, and call
/// [`Client::connected`] whenever there is a new transport.
#[derive(Debug)]
pub struct Client {
    session: String,
    /// Where the client is; none before it has joined for the first time.
    seen: Option<Position>,
    joined: bool,
    /// What was said and not confirmed yet; said again after a cut, under the same tag.
    said: VecDeque<(Tag, Pii<String>)>,
    out: VecDeque<Pii<String>>,
}

impl Client {
    /// A client for the session of this name.
    pub fn new(session: impl Into<String>) -> Self {
        Self {
            session: session.into(),
            seen: None,
            joined: false,
            said: VecDeque::new(),
            out: VecDeque::new(),
        }
    }

    /// There is a new transport; what was still to be sent on an old one is forgotten.
    pub fn connected(&mut self) {
        self.joined = false;
        self.out.clear();
        self.send(None, ClientMessage::Join { session: self.session.clone(), since: self.seen });
    }

    /// Asks something, under a tag that was never used in this session.
    ///
    /// # Errors
    /// Too much waits to be confirmed.
    pub fn say(&mut self, tag: Tag, text: impl Into<String>) -> Result<(), TooMuch> {
        if self.said.len() >= MOST_SAID {
            return Err(TooMuch);
        }
        let text = Pii(text.into());
        self.said.push_back((tag.clone(), text.clone()));
        // What is said before it has joined, it says when it has.
        if self.joined {
            self.send(Some(tag), ClientMessage::Say(text));
        }
        Ok(())
    }

    /// Stops the oldest answer that is under way; nothing can be, before it has joined.
    pub fn stop(&mut self) {
        if self.joined {
            self.send(None, ClientMessage::Stop);
        }
    }

    /// The next line to send.
    pub fn poll_line(&mut self) -> Option<String> {
        self.out.pop_front().map(|Pii(line)| line)
    }

    /// Takes in a line of the server; none if it is nothing new.
    ///
    /// # Errors
    /// The server does not speak this protocol.
    pub fn receive(&mut self, line: &str) -> Result<Option<ServerLine>, Malformed> {
        let line = codec::decode_server(line)?;
        match &line {
            ServerLine::News { at, .. } if self.seen.is_some_and(|seen| *at <= seen) => return Ok(None),
            ServerLine::News { at, .. } => self.seen = Some(*at),
            ServerLine::Ok { tag: None, at } if !self.joined => {
                self.joined = true;
                self.seen.get_or_insert(*at);
                for (tag, text) in self.said.clone() {
                    self.send(Some(tag), ClientMessage::Say(text));
                }
            }
            ServerLine::Ok { tag: Some(tag), .. } => self.said.retain(|(known, _)| known != tag),
            // What lies between is lost to this client; it goes on with what is still to come.
            ServerLine::Error { code: Code::Stale, .. } => {
                self.seen = None;
                self.connected();
            }
            // Said again after the next cut, unless it can never be done.
            ServerLine::Error { tag: Some(tag), code, .. } if *code != Code::Later => {
                self.said.retain(|(known, _)| known != tag);
            }
            ServerLine::Hello
            | ServerLine::Ok { tag: None, .. }
            | ServerLine::Error { .. }
            | ServerLine::Bye { .. } => {}
        }
        Ok(Some(line))
    }

    fn send(&mut self, tag: Option<Tag>, message: ClientMessage) {
        self.out.push_back(Pii(codec::encode_client(&ClientLine { tag, message })));
    }
}

/// Too much was said that the server has not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much waits to be confirmed")]
pub struct TooMuch;

const MOST_SAID: usize = 64;
