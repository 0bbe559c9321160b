//! The machine against hand-written envelopes of a server, in virtual time.

use switchboard_core::Pii;

use crate::message::{
    Acknowledgement, AssistantMessage, AssistantSentence, Configuration, ErrorMessage, Execution,
    StartAnswer, Superset, ToolUseRequest, ToolUseResult, UserMessage, Word,
};
use crate::{AliciaLimits, Body, Code, Decoded, Dialect, Envelope, Id, Map, Side, decode, encode};

use super::*;

mod beside;
mod connection;
mod resume;
mod tool;
mod turns;

/// A client, and everything it has done that was not looked at.
struct Lab {
    client: AliciaClient,
    now: Timestamp,
    sent: VecDeque<Envelope>,
    events: VecDeque<Event>,
    dials: usize,
    pings: usize,
    closed: Option<u16>,
    wake: Option<Timestamp>,
}

impl Lab {
    fn new() -> Self {
        Self::with(ClientConfig::default())
    }

    fn with(config: ClientConfig) -> Self {
        let mut lab = Self {
            client: AliciaClient::new(config, Seed::new([3; 32])),
            now: Timestamp::from_secs(1_767_225_600),
            sent: VecDeque::new(),
            events: VecDeque::new(),
            dials: 0,
            pings: 0,
            closed: None,
            wake: None,
        };
        lab.input(Input::Connect);
        assert_eq!(lab.dials, 1);
        lab.input(Input::Opened);
        assert_eq!(lab.events.pop_front(), Some(Event::Up));
        lab
    }

    /// A client in a new conversation with nothing in it.
    fn joined() -> (Self, ConversationKey) {
        Self::joined_with(&[])
    }

    fn joined_with(tools: &[&str]) -> (Self, ConversationKey) {
        let mut lab = Self::new();
        let key = lab.join(Some(CONV), Since::Now, tools);
        lab.handshake(0, 0);
        assert!(matches!(lab.next(), ConversationEvent::Joined(_)));
        (lab, key)
    }

    fn join(&mut self, id: Option<&str>, since: Since, tools: &[&str]) -> ConversationKey {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let join = Join { conversation: id.map(self::id), since, tools };
        let key = self.client.join(join, self.now).unwrap();
        self.drain();
        key
    }

    /// Takes the client's Configuration, which shows this mark, and answers it with this head.
    fn handshake(&mut self, mark: i64, head: i64) -> Envelope {
        let asked = self.take();
        let Body::Configuration(configuration) = &asked.body else { panic!("{asked:?}") };
        assert_eq!(configuration.last_sequence_seen.unwrap_or_default(), mark);
        self.hear(0, theirs(head));
        self.hear(0, ack(i32::try_from(mark).unwrap()));
        asked
    }

    fn input(&mut self, input: Input) {
        self.client.handle_input(input, self.now);
        self.drain();
    }

    /// The server says this in the conversation.
    fn hear(&mut self, stanza: i32, body: impl Into<Body>) {
        self.hear_in(Some(CONV), stanza, body);
    }

    fn hear_in(&mut self, conversation: Option<&str>, stanza: i32, body: impl Into<Body>) {
        let envelope = Envelope::new(conversation.map(id), body).numbered(stanza);
        self.input(Input::Binary(encode(&envelope)));
    }

    /// A command was given.
    fn drain(&mut self) {
        loop {
            match self.client.poll_output() {
                Output::Dial => self.dials += 1,
                Output::Ping => self.pings += 1,
                Output::Close(code) => self.closed = Some(code),
                Output::Event(event) => self.events.push_back(event),
                Output::Binary(packet) => {
                    let decoded = decode(&packet, Side::Client, Dialect::Full, &AliciaLimits::default());
                    for one in decoded {
                        let Ok(Decoded::Full { envelope, .. }) = one else { panic!("{one:?}") };
                        self.sent.push_back(*envelope);
                    }
                }
                Output::Text(text) => panic!("{text}"),
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
            }
        }
    }

    fn say(&mut self, key: ConversationKey, text: &str) -> (RequestKey, Id) {
        let said = self.client.say(key, text, None, self.now).unwrap();
        self.drain();
        said
    }

    /// Lets time pass, waking the client whenever it wants to be.
    fn pass(&mut self, millis: u64) {
        let until = self.now.after(Duration::from_millis(millis));
        while let Some(wake) = self.wake.filter(|wake| *wake <= until) {
            self.now = wake.max(self.now);
            self.input(Input::Timeout);
        }
        self.now = until;
    }

    /// The same with signs of life.
    fn live(&mut self, millis: u64) {
        for _ in 0..millis.div_ceil(5_000) {
            self.input(Input::Alive);
            self.pass(5_000);
        }
    }

    /// Cuts the connection and makes the next one.
    fn reconnect(&mut self) {
        self.input(Input::Closed(None));
        self.again();
    }

    fn again(&mut self) {
        let dials = self.dials;
        self.pass(1_300);
        assert_eq!(self.dials, dials + 1);
        self.input(Input::Opened);
    }

    /// The next envelope that was sent.
    fn take(&mut self) -> Envelope {
        self.sent.pop_front().expect("something is sent")
    }

    /// The next thing that happened in a conversation; what happened to the connection is passed over.
    fn next(&mut self) -> ConversationEvent {
        loop {
            match self.events.pop_front().expect("an event") {
                Event::Conversation(_, event) => return event,
                Event::Up | Event::Down(_) => {}
                other @ Event::Settled(..) => panic!("{other:?}"),
            }
        }
    }

    fn nothing(&self) {
        assert!(self.sent.is_empty(), "{:?}", self.sent);
        assert!(self.events.is_empty(), "{:?}", self.events);
    }
}

const CONV: &str = "ac_0123456789abcdefghijk";

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn theirs(head: i64) -> Configuration {
    Configuration {
        last_sequence_seen: Some(head),
        client_version: None,
        preferred_language: None,
        device: None,
        features: Some(vec!["streaming".to_owned()]),
    }
}

fn ack(stanza: i32) -> Acknowledgement {
    Acknowledgement { acknowledged_stanza_id: stanza, success: true }
}

fn start(answer: &str, question: &str) -> StartAnswer {
    StartAnswer { id: id(answer), previous_id: id(question), answer_type: None, planned_sentence_count: None }
}

fn sentence(answer: &str, sequence: u32, text: &str) -> AssistantSentence {
    AssistantSentence {
        id: Some(id(&format!("ams_{answer}_{sequence}"))),
        previous_id: id(answer),
        sequence,
        text: Pii(text.to_owned()),
        is_final: false,
        audio: None,
    }
}

fn last(answer: &str, sequence: u32, text: &str) -> AssistantSentence {
    AssistantSentence { is_final: true, ..sentence(answer, sequence, text) }
}

fn whole(answer: &str, question: &str, text: &str) -> AssistantMessage {
    AssistantMessage {
        id: id(answer),
        previous_id: Some(id(question)),
        content: Pii(text.to_owned()),
        timestamp: None,
        superset: None,
    }
}

fn announcement(message: &str, text: &str, number: i64) -> UserMessage {
    UserMessage {
        id: id(message),
        previous_id: None,
        content: Pii(text.to_owned()),
        timestamp: None,
        superset: Some(Superset {
            role: Word::Known(crate::message::Role::User),
            sequence_number: number,
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            updated_at: "2026-01-01T00:00:00Z".to_owned(),
            local_id: None,
            server_id: None,
        }),
    }
}

fn tool(request: &str, name: &str, execution: Execution, timeout_ms: Option<i64>) -> ToolUseRequest {
    ToolUseRequest {
        id: id(request),
        message_id: id("am_a"),
        tool_name: name.to_owned(),
        parameters: Map::new().with("tz", "UTC"),
        execution,
        timeout_ms,
    }
}

fn error(code: Code, origin: &str, recoverable: bool) -> ErrorMessage {
    ErrorMessage { recoverable, ..code.report(id("err_1"), "no").about(&id(origin)) }
}

fn result_of(envelope: Envelope) -> ToolUseResult {
    let Body::ToolUseResult(result) = envelope.body else { panic!("{envelope:?}") };
    result
}
