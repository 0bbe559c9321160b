//! A client that speaks in frames to a connection of the world.

use bytes::{Bytes, BytesMut};
use switchboard_asp::codec::{Assembled, Incoming, Payload, ReaderOptions, open_payload};
use switchboard_asp::message::{Enc, Feature, Features};
use switchboard_asp::{Asp, AspLimits, Flags, Frame, FrameReader, Opcode};
use switchboard_core::{Frame as TransportFrame, Opening, Principal};
use switchboard_testkit::{PeerId, Received, Script, Settings, World, opening};

/// A world with one ASP client in it.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) peer: PeerId,
    pub(crate) features: Features,
    limits: AspLimits,
}

/// What a client sees of a transport, frame by frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Frame(Frame),
    Ping,
    Close(u16),
}

impl Talk {
    pub(crate) fn new(script: Script) -> Self {
        Self::with(script, AspLimits::default(), Settings::default())
    }

    pub(crate) fn with(script: Script, limits: AspLimits, settings: Settings) -> Self {
        let mut world = World::with(settings);
        world.set_default_agent("demo", script);
        let peer = world.connect(&Asp::new(limits.clone()), Principal::new("ann"), opening());
        Self { world, peer, features: Features::BARE, limits }
    }

    /// Another connection in the same world; the talk goes on with it.
    pub(crate) fn reconnect(&mut self, opening: Opening) {
        let asp = Asp::new(self.limits.clone());
        self.peer = self.world.connect(&asp, Principal::new("ann"), opening);
        self.features = Features::BARE;
    }

    /// Says HELLO and takes the accept.
    pub(crate) fn hello(&mut self, features: &str) -> serde_json::Value {
        let names: Vec<&str> = match features {
            "standard" => Features::STANDARD.iter().map(Feature::name).collect(),
            other => other.split(' ').collect(),
        };
        let hello = serde_json::json!({"ver": [1], "features": names, "enc": ["json"]});
        self.say(Opcode::Hello, 0, hello.to_string());
        let seen = self.seen();
        let Some(Seen::Frame(accept)) = seen.first() else { panic!("no accept: {seen:?}") };
        assert_eq!(accept.opcode, Opcode::Hello);
        self.features = Features::agree(names.iter().copied(), Features::ALL);
        serde_json::from_slice(&accept.payload).unwrap()
    }

    /// Sends one frame without flags.
    pub(crate) fn say(&mut self, opcode: Opcode, id: u16, payload: impl Into<Bytes>) {
        self.send(&[Frame::new(opcode, id, payload)]);
    }

    /// Sends frames as one message.
    pub(crate) fn send(&mut self, frames: &[Frame]) {
        let mut out = BytesMut::new();
        for frame in frames {
            frame.encode(&mut out).unwrap();
        }
        self.world.send(self.peer, TransportFrame::Binary(out.freeze()));
    }

    pub(crate) fn invoke(&mut self, id: u16, input: &str) {
        let invoke = serde_json::json!({"kind": "chat", "input": input});
        self.say(Opcode::Invoke, id, invoke.to_string());
    }

    /// Everything that has arrived since it was last asked.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for received in self.world.take(self.peer) {
            match received {
                Received::Frame(TransportFrame::Binary(message)) => seen.extend(split(message)),
                Received::Frame(TransportFrame::Ping(_)) => seen.push(Seen::Ping),
                Received::Frame(other) => panic!("the server sent {other:?}"),
                Received::Close(close) => seen.push(Seen::Close(close.code)),
                Received::Lost => {}
            }
        }
        seen
    }

    /// The frames that have arrived; nothing else may have.
    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        let frames = self.seen().into_iter().map(|seen| match seen {
            Seen::Frame(frame) => frame,
            Seen::Ping | Seen::Close(_) => panic!("not a frame: {seen:?}"),
        });
        frames.collect()
    }

    pub(crate) fn json(&self, frame: &Frame) -> serde_json::Value {
        json(frame, self.features)
    }

    /// Codes of the errors among frames.
    pub(crate) fn codes(&self, frames: &[Frame]) -> Vec<i64> {
        let errors = frames.iter().filter(|frame| frame.opcode == Opcode::Error);
        errors.map(|frame| self.json(frame)["code"].as_i64().unwrap()).collect()
    }

    /// Codes of the errors that have arrived.
    pub(crate) fn new_codes(&mut self) -> Vec<i64> {
        let frames = self.frames();
        self.codes(&frames)
    }

    /// Whether a frame ends its request, in any of the five forms of §8.3.
    pub(crate) fn is_terminal(&self, frame: &Frame) -> bool {
        match frame.opcode {
            Opcode::Error => frame.id != 0,
            Opcode::Stream if frame.id != 0 => {
                frame.payload.is_empty()
                    || (self.features.has(Feature::Events) && self.json(frame)["t"] == "end")
            }
            _ => false,
        }
    }
}

/// The frames of one message; every one of them must be well-formed.
pub(crate) fn split(message: Bytes) -> Vec<Seen> {
    let frames = FrameReader::new(message, ReaderOptions::default());
    frames
        .map(|frame| match frame {
            Ok(Incoming::Frame(frame)) => Seen::Frame(frame),
            other => panic!("the server sent nonsense: {other:?}"),
        })
        .collect()
}

/// The payload of a frame as JSON; null if it is not a map.
pub(crate) fn json(frame: &Frame, features: Features) -> serde_json::Value {
    let message = Assembled {
        opcode: frame.opcode,
        flags: frame.flags.agreed(features).unwrap().without(Flags::MORE),
        id: frame.id,
        payload: frame.payload.clone(),
        aborted: None,
    };
    match open_payload(&message, features, 16 << 20).unwrap() {
        Payload::Value(value) => value.into(),
        Payload::None | Payload::Text(_) | Payload::Raw(_) => serde_json::Value::Null,
    }
}

/// A map as a payload.
pub(crate) fn encoded(value: &serde_json::Value, enc: Enc) -> Bytes {
    let mut out = BytesMut::new();
    switchboard_asp::Value::try_from(value.clone()).unwrap().encode(enc, &mut out);
    out.freeze()
}
