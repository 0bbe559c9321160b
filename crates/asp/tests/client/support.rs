//! A client with a scripted server at the other end and a clock in the hand.

use bytes::{Bytes, BytesMut};
use switchboard_asp::client::{AspClient, ClientConfig, Ending, Event, Input, Output};
use switchboard_asp::codec::{
    Assembled, Assembler, AssemblerLimits, Assembly, Incoming, ReaderOptions, open_payload,
};
use switchboard_asp::message::{ClientMessage, Enc, Finish, Hello, Interrupt, Invoke, RecordBody};
use switchboard_asp::{Features, Flags, Frame, FrameReader, Opcode};
use switchboard_core::{ClientMachine as _, Seed, Timestamp};

pub(crate) const CID: &str = "7f8a0000000000000000000000000001";

/// A client, its clock, and what it wanted last.
pub(crate) struct Peer {
    pub(crate) client: AspClient,
    pub(crate) now: u64,
    pub(crate) wake: Option<u64>,
}

impl Peer {
    pub(crate) fn new(config: ClientConfig) -> Self {
        Self { client: AspClient::new(config, &Seed::new([7; 32])), now: 1_000_000, wake: None }
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    /// A client that waits for the answer to its upgrade.
    pub(crate) fn dialing(config: ClientConfig) -> Self {
        let mut peer = Self::new(config);
        assert_eq!(peer.input(Input::Connect), [Output::Dial]);
        peer
    }

    /// A client on a connection without features.
    pub(crate) fn bare() -> Self {
        let mut peer = Self::dialing(ClientConfig { features: Features::BARE, ..config() });
        assert_eq!(peer.input(Input::Opened), [Output::Event(Event::Bare)]);
        peer
    }

    /// A client on a connection with what it wants, resumable for 60 s.
    pub(crate) fn up(config: ClientConfig) -> Self {
        let features = config.features;
        let mut peer = Self::dialing(config);
        peer.input(Input::Opened);
        peer.accept(features, r#""resume":{"token":"tok-1","window_s":60}"#);
        peer
    }

    pub(crate) fn standard() -> Self {
        Self::up(config())
    }

    /// HELLO accept with further members.
    pub(crate) fn accept(&mut self, features: Features, more: &str) -> Vec<Output> {
        let names: Vec<String> = features.iter().map(|feature| format!("{:?}", feature.name())).collect();
        let comma = if more.is_empty() { "" } else { "," };
        let names = names.join(",");
        self.hello(&format!(
            r#"{{"op":"accept","ver":1,"cid":"{CID}","features":[{names}],"enc":"json"{comma}{more}}}"#
        ))
    }

    pub(crate) fn hello(&mut self, json: &str) -> Vec<Output> {
        self.frame(Opcode::Hello, 0, json)
    }

    /// A STREAM record.
    pub(crate) fn record(&mut self, id: u16, json: &str) -> Vec<Output> {
        self.frame(Opcode::Stream, id, json)
    }

    pub(crate) fn end(&mut self, id: u16) -> Vec<Output> {
        self.record(id, r#"{"t":"end","finish":"complete"}"#)
    }

    pub(crate) fn error(&mut self, id: u16, json: &str) -> Vec<Output> {
        self.frame(Opcode::Error, id, json)
    }

    /// A frame without flags.
    pub(crate) fn frame(&mut self, opcode: Opcode, id: u16, payload: impl AsRef<[u8]>) -> Vec<Output> {
        self.flagged(opcode, Flags::NONE, id, payload)
    }

    pub(crate) fn flagged(
        &mut self,
        opcode: Opcode,
        flags: Flags,
        id: u16,
        payload: impl AsRef<[u8]>,
    ) -> Vec<Output> {
        let frame = Frame::new(opcode, id, Bytes::copy_from_slice(payload.as_ref())).with_flags(flags);
        self.message(&[frame])
    }

    /// Several frames in one message.
    pub(crate) fn message(&mut self, frames: &[Frame]) -> Vec<Output> {
        self.input(Input::Binary(encode(frames)))
    }

    pub(crate) fn input(&mut self, input: Input) -> Vec<Output> {
        self.client.handle_input(input, self.at());
        self.drain()
    }

    /// Lets time pass until the next wake, as often as needed.
    pub(crate) fn pass(&mut self, ms: u64) -> Vec<Output> {
        let until = self.now + ms;
        let mut outputs = Vec::new();
        while let Some(wake) = self.wake.filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            let step = self.input(Input::Timeout);
            assert!(!step.is_empty() || self.wake != Some(wake), "wakes for nothing at {wake}");
            outputs.extend(step);
        }
        self.now = until;
        outputs
    }

    pub(crate) fn invoke(&mut self, invoke: Invoke) -> u16 {
        let id = self.client.invoke(invoke, self.at()).expect("invoke");
        self.drain();
        id
    }

    pub(crate) fn chat(&mut self, text: &str) -> u16 {
        self.invoke(Invoke::chat(text))
    }

    pub(crate) fn drain(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        loop {
            match self.client.poll_output() {
                Output::Idle { wake } => {
                    self.wake = wake.map(Timestamp::as_millis);
                    return outputs;
                }
                output => outputs.push(output),
            }
        }
    }
}

/// The standard profile in JSON, for readable tests.
pub(crate) fn config() -> ClientConfig {
    ClientConfig { enc: vec![Enc::Json], ..ClientConfig::default() }
}

pub(crate) fn encode(frames: &[Frame]) -> Bytes {
    let mut message = BytesMut::new();
    for frame in frames {
        frame.encode(&mut message).expect("frame");
    }
    message.freeze()
}

pub(crate) fn events(outputs: &[Output]) -> Vec<Event> {
    let event = |output: &Output| match output {
        Output::Event(event) => Some(event.clone()),
        _ => None,
    };
    outputs.iter().filter_map(event).collect()
}

/// Frames sent, in order.
pub(crate) fn frames(outputs: &[Output]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for output in outputs {
        let Output::Binary(message) = output else { continue };
        for incoming in FrameReader::new(message.clone(), ReaderOptions::default()) {
            match incoming.expect("client frames are well formed") {
                Incoming::Frame(frame) => frames.push(frame),
                other => panic!("{other:?}"),
            }
        }
    }
    frames
}

/// What a server that agreed `features` reads.
pub(crate) fn messages(outputs: &[Output], features: Features) -> Vec<(u16, ClientMessage)> {
    let mut assembler =
        Assembler::new(AssemblerLimits { max_payload: 16 << 20, max_held: 16 << 20, ..Default::default() });
    let mut messages = Vec::new();
    for frame in frames(outputs) {
        let flags = frame.flags.agreed(features).expect("agreed flags");
        if let Assembly::Whole(whole) = assembler.push(frame, flags, 0).expect("fragments") {
            messages.push((whole.id, read(&whole, features)));
        }
    }
    messages
}

fn read(whole: &Assembled, features: Features) -> ClientMessage {
    let payload = open_payload(whole, features, 16 << 20).expect("payload");
    ClientMessage::from_payload(whole.opcode, payload).expect("message")
}

pub(crate) fn hello_of(outputs: &[Output]) -> Hello {
    match messages(outputs, Features::BARE).as_slice() {
        [(0, ClientMessage::Hello(hello))] => (**hello).clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn invokes(outputs: &[Output], features: Features) -> Vec<(u16, Invoke)> {
    let invoke = |(id, message)| match message {
        ClientMessage::Invoke(invoke) => Some((id, *invoke)),
        ClientMessage::Hello(_) | ClientMessage::Interrupt(_) | ClientMessage::Error(_) => None,
    };
    messages(outputs, features).into_iter().filter_map(invoke).collect()
}

pub(crate) fn interrupts(outputs: &[Output], features: Features) -> Vec<(u16, Interrupt)> {
    let interrupt = |(id, message)| match message {
        ClientMessage::Interrupt(interrupt) => Some((id, interrupt)),
        ClientMessage::Hello(_) | ClientMessage::Invoke(_) | ClientMessage::Error(_) => None,
    };
    messages(outputs, features).into_iter().filter_map(interrupt).collect()
}

/// Text deltas delivered, in order, with their requests.
pub(crate) fn texts(outputs: &[Output]) -> Vec<(u16, String)> {
    let text = |event: Event| match event {
        Event::Record { id, record, .. } => match record.body {
            RecordBody::Text(text) => Some((id, text)),
            _ => None,
        },
        _ => None,
    };
    events(outputs).into_iter().filter_map(text).collect()
}

/// Requests that ended, in order.
pub(crate) fn endings(outputs: &[Output]) -> Vec<(u16, Ending)> {
    let ending = |event: Event| match event {
        Event::Ended { id, ending } => Some((id, ending)),
        _ => None,
    };
    events(outputs).into_iter().filter_map(ending).collect()
}

pub(crate) fn finished(id: u16, finish: Finish) -> Vec<(u16, Ending)> {
    vec![(id, Ending::finish(finish))]
}

/// A record with index `n`.
pub(crate) fn numbered(n: u64, text: &str) -> String {
    format!(r#"{{"t":"text","n":{n},"d":"{text}"}}"#)
}
