//! A client whose other end is a test.

use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard_aip::client::{Constellation, ConstellationConfig, Device, DeviceConfig, Input, Output};
use switchboard_core::{ClientMachine, Seed, Timestamp};

/// 2025-11-06T10:30:00.123456+00:00, as in the examples.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_762_425_000_123_456);
pub(crate) const STAMP: &str = "2025-11-06T10:30:00.123456+00:00";

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other}"),
    }
}

pub(crate) struct World<C: ClientMachine> {
    pub(crate) client: C,
    pub(crate) now: Timestamp,
    /// Everything but idling, in order.
    pub(crate) outputs: Vec<Output<C::Event>>,
    pub(crate) wake: Option<Timestamp>,
}

impl World<Device> {
    pub(crate) fn device(config: DeviceConfig) -> Self {
        Self::new(Device::new(config, Seed::new([7; 32])))
    }
}

impl World<Constellation> {
    pub(crate) fn constellation(config: ConstellationConfig) -> Self {
        Self::new(Constellation::new(config, Seed::new([7; 32])))
    }
}

impl<C: ClientMachine<Event: Clone + PartialEq>> World<C> {
    fn new(client: C) -> Self {
        Self { client, now: START, outputs: Vec::new(), wake: None }
    }

    /// Connected and registered; what was said up to there is forgotten.
    pub(crate) fn up(mut self) -> Self {
        self.give(Input::Connect);
        self.open();
        self.outputs.clear();
        self
    }

    /// The transport that was asked for, and a server that takes the registration.
    pub(crate) fn open(&mut self) {
        self.give(Input::Opened);
        assert_eq!(self.sent().last().unwrap()["type"], "register");
        self.hear(json!({"type": "heartbeat", "status": "ok", "response_id": "hello"}));
    }

    pub(crate) fn give(&mut self, input: Input) {
        self.client.handle_input(input, self.now);
        self.drain();
    }

    pub(crate) fn hear(&mut self, message: Value) {
        self.give(Input::Text(message.to_string()));
    }

    /// After a call.
    pub(crate) fn drain(&mut self) {
        loop {
            match self.client.poll_output() {
                Output::Idle { wake } => {
                    self.wake = wake;
                    return;
                }
                output => self.outputs.push(output),
            }
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.give(Input::Timeout);
    }

    /// Goes to the wake time.
    pub(crate) fn sleep(&mut self) {
        self.now = self.wake.expect("there is something to wait for");
        self.give(Input::Timeout);
    }

    pub(crate) fn sent(&self) -> Vec<Value> {
        let text = |output: &Output<C::Event>| match output {
            Output::Text(text) => Some(serde_json::from_str(text).unwrap()),
            _ => None,
        };
        self.outputs.iter().filter_map(text).collect()
    }

    /// What was sent since the last time.
    pub(crate) fn take_sent(&mut self) -> Vec<Value> {
        let sent = self.sent();
        self.outputs.retain(|output| !matches!(output, Output::Text(_)));
        sent
    }

    /// What was told since the last time.
    pub(crate) fn take_events(&mut self) -> Vec<C::Event> {
        let event = |output: &Output<C::Event>| match output {
            Output::Event(event) => Some(event.clone()),
            _ => None,
        };
        let events = self.outputs.iter().filter_map(event).collect();
        self.outputs.retain(|output| !matches!(output, Output::Event(_)));
        events
    }

    pub(crate) fn is_asked_to_connect(&self) -> bool {
        self.outputs.contains(&Output::Dial)
    }

    pub(crate) fn closed(&self) -> Option<u16> {
        self.outputs.iter().find_map(|output| match output {
            Output::Close(code) => Some(*code),
            _ => None,
        })
    }
}
