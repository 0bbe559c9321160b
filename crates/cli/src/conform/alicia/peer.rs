//! A peer of Alicia on its WebSocket, written from the reference alone.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::hex;
use tokio::time::Instant;

use super::super::check::{Outcome, Run, Stop, must};
use super::super::inbox::Inbox;
use super::super::words::{Heard, TIME};
use crate::probe::{Over, PATIENCE, Received, Request, Socket, Target, Transcript};

pub(super) const ERROR: u64 = 1;
pub(super) const USER: u64 = 2;
pub(super) const ASSISTANT: u64 = 3;
pub(super) const REASONING: u64 = 5;
pub(super) const REQUEST: u64 = 6;
pub(super) const RESULT: u64 = 7;
pub(super) const ACK: u64 = 8;
pub(super) const STOP: u64 = 10;
pub(super) const VARIATION: u64 = 11;
pub(super) const CONFIGURATION: u64 = 12;
pub(super) const START: u64 = 13;
pub(super) const COMMENTARY: u64 = 15;
pub(super) const SENTENCE: u64 = 16;
pub(super) const SYNC: u64 = 17;
pub(super) const SYNCED: u64 = 18;
pub(super) const FEEDBACK: u64 = 20;
pub(super) const FEEDBACK_CONFIRMATION: u64 = 21;
pub(super) const NOTE: u64 = 22;
pub(super) const NOTE_CONFIRMATION: u64 = 23;
pub(super) const MEMORY: u64 = 24;
pub(super) const MEMORY_CONFIRMATION: u64 = 25;
pub(super) const SERVER_INFO: u64 = 26;
pub(super) const STATS: u64 = 27;
pub(super) const DIMENSIONS: u64 = 29;
pub(super) const ELITE: u64 = 30;
pub(super) const ELITES: u64 = 31;
pub(super) const SUBSCRIBE: u64 = 40;
pub(super) const UNSUBSCRIBE: u64 = 41;
pub(super) const SUBSCRIBED: u64 = 42;
pub(super) const UNSUBSCRIBED: u64 = 43;

/// How long an error may take that follows an answer.
const AFTERWARDS: Duration = Duration::from_millis(150);

pub(super) const PATH: &str = "/api/v1/ws";
pub(super) const STREAMING: &[&str] = &["streaming", "tool_use", "reasoning_steps"];

/// One envelope from the server.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) value: Value,
    pub(super) raw: Vec<u8>,
    pub(super) at: Instant,
}

impl Envelope {
    /// Its type.
    pub(super) fn kind(&self) -> u64 {
        self.value["type"].as_u64().unwrap_or_default()
    }

    /// Its place; 0 if it has none.
    pub(super) fn stanza(&self) -> i64 {
        self.value["stanzaId"].as_i64().unwrap_or_default()
    }

    /// A member of its body.
    pub(super) fn get(&self, name: &str) -> &Value {
        &self.value["body"][name]
    }

    /// A member of its body that is text.
    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).as_str().unwrap_or_default().to_owned()
    }
}

/// The text of sentences under the joining rule.
pub(super) fn joined(envelopes: &[Envelope]) -> String {
    let mut text = String::new();
    for piece in
        envelopes.iter().filter(|envelope| envelope.kind() == SENTENCE).map(|envelope| envelope.text("text"))
    {
        let apart = text.chars().next_back().is_some_and(|last| !last.is_whitespace())
            && piece.chars().next().is_some_and(|first| !first.is_whitespace());
        if apart {
            text.push(' ');
        }
        text += &piece;
    }
    text
}

/// A connection.
pub(super) struct Peer<'run> {
    socket: Socket,
    inbox: VecDeque<Envelope>,
    stanza: i64,
    /// The conversation that most requests are about.
    pub(super) conversation: String,
    /// What the handshake was answered with.
    pub(super) greeting: Vec<Envelope>,
    run: &'run Run<'run>,
    log: Transcript,
}

impl<'run> Peer<'run> {
    /// A connection without a conversation.
    pub(super) async fn open(run: &'run Run<'run>) -> Outcome<Self> {
        Self::open_as(run, run.target).await
    }

    /// The same as somebody else.
    pub(super) async fn open_as(run: &'run Run<'run>, target: &Target) -> Outcome<Self> {
        let socket = target.socket(&run.log, &Request::upgrade(PATH, &[])).await?;
        let (inbox, greeting) = (VecDeque::new(), Vec::new());
        Ok(Self {
            socket,
            inbox,
            stanza: 0,
            conversation: String::new(),
            greeting,
            run,
            log: run.log.clone(),
        })
    }

    /// A connection with a conversation of its own, whose answers are streamed.
    pub(super) async fn met(run: &'run Run<'run>) -> Outcome<Self> {
        Self::met_with(run, STREAMING).await
    }

    /// The same with other features.
    pub(super) async fn met_with(run: &'run Run<'run>, features: &[&str]) -> Outcome<Self> {
        let mut peer = Self::open(run).await?;
        peer.handshake("", 0, features).await?;
        Ok(peer)
    }

    /// A second device in the same conversation.
    pub(super) async fn joined(run: &'run Run<'run>, conversation: &str) -> Outcome<Self> {
        let mut peer = Self::open(run).await?;
        peer.handshake(conversation, 0, STREAMING).await?;
        Ok(peer)
    }

    /// Sends a Configuration, and takes in what it is answered with up to EliteOptions.
    pub(super) async fn handshake(&mut self, conversation: &str, seen: i64, features: &[&str]) -> Outcome {
        conversation.clone_into(&mut self.conversation);
        let body = json!({ "conversationId": conversation, "lastSequenceSeen": seen, "features": features });
        self.send(CONFIGURATION, body).await;
        self.greeting.clear();
        loop {
            let envelope = self.wait("the answer to a Configuration", |_| true).await?;
            must!(envelope.kind() != ERROR, "a Configuration, got {}", envelope.value);
            let last = envelope.kind() == ELITES;
            self.greeting.push(envelope);
            if last {
                break;
            }
        }
        self.conversation = self.greeting[0].text("conversationId");
        Ok(())
    }

    /// An identifier that was not used.
    pub(super) fn fresh(&self, prefix: &str) -> Outcome<String> {
        Ok(format!("{prefix}_{:0>21}", self.run.fresh()?))
    }

    /// Sends an envelope about the conversation; its stanza.
    pub(super) async fn send(&mut self, kind: u64, body: Value) -> i64 {
        let conversation = self.conversation.clone();
        self.send_to(&conversation, kind, body).await
    }

    /// Sends an envelope about another conversation.
    pub(super) async fn send_to(&mut self, conversation: &str, kind: u64, body: Value) -> i64 {
        self.stanza += 1;
        let stanza = self.stanza;
        self.envelope(
            &json!({ "stanzaId": stanza, "conversationId": conversation, "type": kind, "body": body }),
        )
        .await;
        stanza
    }

    /// Sends what may be an envelope.
    pub(super) async fn envelope(&mut self, value: &Value) {
        let bytes = rmp_serde::to_vec_named(value).unwrap_or_default();
        self.socket.binary(bytes, &value.to_string()).await;
    }

    /// Sends bytes.
    pub(super) async fn raw(&mut self, bytes: Vec<u8>) {
        let hex = hex(bytes.iter().take(150));
        self.socket.binary(bytes, &format!("bytes {hex}")).await;
    }

    /// Sends a text message.
    pub(super) async fn text_message(&mut self, text: &str) {
        self.socket.text(text).await;
    }

    /// Says something: the id of the message, and its stanza.
    pub(super) async fn say(&mut self, content: &str) -> Outcome<(String, i64)> {
        let id = self.fresh("am")?;
        let stanza = self.say_as(&id, content).await;
        Ok((id, stanza))
    }

    /// Says something under this id.
    pub(super) async fn say_as(&mut self, id: &str, content: &str) -> i64 {
        let body = json!({ "id": id, "conversationId": self.conversation, "content": content });
        self.send(USER, body).await
    }

    /// The next of a type.
    pub(super) async fn kind(&mut self, what: &str, kind: u64) -> Outcome<Envelope> {
        self.wait(what, |envelope| envelope.kind() == kind).await
    }

    /// Whether a stanza was accepted.
    pub(super) async fn ack(&mut self, stanza: i64) -> Outcome<bool> {
        let of =
            |envelope: &Envelope| envelope.kind() == ACK && *envelope.get("acknowledgedStanzaId") == stanza;
        let ack = self.wait(&format!("an acknowledgement of {stanza}"), of).await?;
        ack.get("success").as_bool().ok_or_else(|| Stop::fault("expected success in an acknowledgement"))
    }

    /// An error with this code.
    pub(super) async fn error(&mut self, code: u64) -> Outcome<Envelope> {
        let error = self.kind(&format!("error {code}"), ERROR).await?;
        must!(*error.get("code") == code, "error {code}, got {}", error.value);
        Ok(error)
    }

    /// The answer to a message: everything up to its final sentence, or the whole message.
    pub(super) async fn answer(&mut self, user: &str) -> Outcome<Vec<Envelope>> {
        let mut envelopes: Vec<Envelope> = Vec::new();
        loop {
            let envelope = self.wait("the end of an answer", |_| true).await?;
            let failed = envelope.kind() == ERROR && envelopes.is_empty();
            must!(!failed, "an answer, got {}", envelope.value);
            let own = envelope.kind() == ASSISTANT && *envelope.get("previousId") == user;
            let over = own || envelope.kind() == SENTENCE && *envelope.get("isFinal") == true;
            if envelope.stanza() != 0 {
                envelopes.push(envelope);
            }
            if over {
                return Ok(envelopes);
            }
        }
    }

    /// Says something and waits for the whole answer.
    pub(super) async fn turn(&mut self, content: &str) -> Outcome<(String, Vec<Envelope>)> {
        let (id, stanza) = self.say(content).await?;
        must!(self.ack(stanza).await?, "the message to be accepted");
        let envelopes = self.answer(&id).await?;
        Ok((id, envelopes))
    }

    /// What is answered within a while.
    pub(super) async fn hear(&mut self, content: &str) -> Outcome<Heard> {
        let (id, _) = self.say(content).await?;
        let end = Instant::now() + TIME;
        let (mut sentences, mut end_of) = (Vec::new(), None);
        let mut failed = false;
        while let Ok(envelope) = self.read(end).await? {
            failed |= envelope.kind() == ERROR;
            let own = envelope.kind() == ASSISTANT && *envelope.get("previousId") == id.as_str();
            if own || envelope.kind() == SENTENCE {
                if own || *envelope.get("isFinal") == true {
                    end_of = Some(Instant::now());
                }
                sentences.push(envelope);
            }
            // An error follows the end of what it is about.
            if end_of.is_some() && !failed {
                failed = self.read(Instant::now() + AFTERWARDS).await?.is_ok_and(|next| next.kind() == ERROR);
            }
            if end_of.is_some() {
                break;
            }
        }
        Ok(Heard { text: joined(&sentences), end: end_of.map(|_| !failed) })
    }

    /// That the connection still serves: an envelope of no effect is answered.
    pub(super) async fn still_serves(&mut self) -> Outcome {
        let absent = self.fresh("ac")?;
        self.send_to(&absent, UNSUBSCRIBE, json!({ "conversationId": absent })).await;
        let own = |envelope: &Envelope| {
            envelope.kind() == UNSUBSCRIBED && *envelope.get("conversationId") == absent.as_str()
        };
        self.wait("UnsubscribeAck on the same connection", own).await?;
        Ok(())
    }

    /// That the server ends the connection.
    pub(super) async fn ended(&mut self) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.read(end).await? {
                Ok(_) => {}
                Err(Over::Late) => return Err(Stop::fault("expected the server to end the connection")),
                Err(Over::Closed(_) | Over::Lost) => return Ok(()),
            }
        }
    }

    /// Whether the server pings within this time.
    pub(super) async fn pinged(&mut self, patience: Duration) -> bool {
        self.socket.pinged(patience).await.is_ok()
    }

    /// Says goodbye.
    pub(super) async fn close(self) {
        self.socket.close().await;
    }

    /// Goes away without a word.
    pub(super) fn cut(self) {
        self.socket.cut();
    }
}

impl Inbox for Peer<'_> {
    type Message = Envelope;

    fn inbox(&mut self) -> &mut VecDeque<Envelope> {
        &mut self.inbox
    }

    async fn read(&mut self, end: Instant) -> Outcome<Result<Envelope, Over>> {
        loop {
            match self.socket.next_until(end).await {
                Ok(Received::Binary(bytes)) => {
                    let value: Value = rmp_serde::from_slice(&bytes)
                        .map_err(|error| Stop::fault(format!("an envelope that cannot be read: {error}")))?;
                    self.log.received(&value.to_string());
                    return Ok(Ok(Envelope { value, raw: bytes.to_vec(), at: Instant::now() }));
                }
                Ok(Received::Text(_)) => return Err(Stop::fault("a text message from the server")),
                Ok(Received::Ping | Received::Pong) => {}
                Err(over) => return Ok(Err(over)),
            }
        }
    }
}
