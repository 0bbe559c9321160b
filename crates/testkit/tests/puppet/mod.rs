//! A protocol whose connections do what the test says, and remember what they hear.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use switchboard_core::{
    Close, Connection, Credential, Event, Frame, Input, Opening, OpeningRequest, Output, Principal, Protocol,
    Refusal, RefusalReply, Reject, Reply, RequestId, Route, Seed, SessionId, Signal, Timestamp, Upgrade,
    Violation,
};
use switchboard_testkit::{PeerId, World, opening};

/// One connection, and the strings that it hangs on.
#[derive(Debug)]
pub(crate) struct Puppet {
    pub(crate) peer: PeerId,
    strings: Arc<Mutex<Strings>>,
}

/// What a connection hears.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Done(Reply),
    Rejected(Reject),
    Signal(Signal),
    Event(SessionId, Event),
}

/// What a connection is to do with its next frame, and what it has heard.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    pub(crate) todo: VecDeque<Output>,
    heard: Vec<Heard>,
}

/// The protocol of puppets.
#[derive(Debug, Default)]
pub(crate) struct Stage(pub(crate) Arc<Mutex<Strings>>);

impl Puppet {
    pub(crate) fn new(world: &mut World, principal: Principal) -> Self {
        let stage = Stage::default();
        let peer = world.connect(&stage, principal, opening());
        Self { peer, strings: stage.0 }
    }

    /// Lets the connection do something; what it has heard afterwards.
    pub(crate) fn does(&self, world: &mut World, outputs: impl IntoIterator<Item = Output>) -> Vec<Heard> {
        self.prepare(outputs);
        world.send(self.peer, Frame::Text(String::new()));
        self.heard()
    }

    /// As [`Puppet::does`], and nothing happens yet.
    pub(crate) fn will_do(&self, world: &mut World, outputs: impl IntoIterator<Item = Output>) {
        self.prepare(outputs);
        world.enqueue(self.peer, Frame::Text(String::new()));
    }

    /// Lets the connection ask for something; the answer.
    pub(crate) fn asks(&self, world: &mut World, output: Output) -> Result<Reply, Reject> {
        let heard = self.does(world, [output]);
        heard
            .into_iter()
            .find_map(|heard| match heard {
                Heard::Done(reply) => Some(Ok(reply)),
                Heard::Rejected(reject) => Some(Err(reject)),
                Heard::Signal(_) | Heard::Event(..) => None,
            })
            .expect("an answer")
    }

    /// What the connection has heard since it was last asked.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.strings.lock().unwrap().heard)
    }

    /// The signals among what it has heard.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let signals = self.heard().into_iter().filter_map(|heard| match heard {
            Heard::Signal(signal) => Some(signal),
            Heard::Done(_) | Heard::Rejected(_) | Heard::Event(..) => None,
        });
        signals.collect()
    }

    /// The names of the events among what it has heard.
    pub(crate) fn events(&self) -> Vec<&'static str> {
        let events = self.heard().into_iter().filter_map(|heard| match heard {
            Heard::Event(_, event) => Some(event.name()),
            Heard::Done(_) | Heard::Rejected(_) | Heard::Signal(_) => None,
        });
        events.collect()
    }

    fn prepare(&self, outputs: impl IntoIterator<Item = Output>) {
        self.strings.lock().unwrap().todo.extend(outputs);
    }
}

/// A number that no test looks at.
pub(crate) const ID: RequestId = RequestId(1);

#[derive(Debug)]
struct Actor {
    strings: Arc<Mutex<Strings>>,
    outputs: VecDeque<Output>,
}

impl Connection for Actor {
    fn handle_input(&mut self, input: Input<'_>, _: Timestamp) -> Result<(), Violation> {
        let mut strings = self.strings.lock().unwrap();
        let heard = match input {
            Input::Frame(_) => {
                self.outputs.append(&mut strings.todo);
                return Ok(());
            }
            Input::Committed(session, committed) => Heard::Event(session.clone(), committed.event.clone()),
            Input::Done(_, reply) => Heard::Done(reply),
            Input::Rejected(_, reject) => Heard::Rejected(reject),
            Input::Signal(signal) => Heard::Signal(signal),
            Input::Closed(_) => {
                self.outputs.push_back(Output::Close(Close { code: 1000, reason: "" }));
                return Ok(());
            }
            Input::Timeout | Input::Voice(_) | Input::Backlog(_) | Input::Drain { .. } => return Ok(()),
        };
        strings.heard.push(heard);
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or(Output::Idle { wake: None })
    }
}

impl Protocol for Stage {
    fn name(&self) -> &'static str {
        "puppet"
    }

    fn routes(&self) -> &'static [Route] {
        &[]
    }

    fn max_message(&self) -> usize {
        1024
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        let credentials = request.authorization.iter().cloned();
        let credentials = credentials.map(|token| Credential { token, subprotocol: None }).collect();
        let parameters = vec![("target".to_owned(), request.target.clone())];
        Ok(Opening { credentials, parameters, ..opening() })
    }

    fn accept(&self, upgrade: Upgrade, _: Seed) -> Result<Box<dyn Connection>, Refusal> {
        if upgrade.request.path == "/closed" {
            return Err(Refusal::WrongMethod);
        }
        Ok(Box::new(Actor { strings: self.0.clone(), outputs: VecDeque::new() }))
    }

    fn refuse(&self, _: &Refusal, _: &str) -> RefusalReply {
        RefusalReply { status: 400, headers: Vec::new(), content_type: "text/plain", body: String::new() }
    }
}
