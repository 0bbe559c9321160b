//! Peers without a client: they say whatever comes to their mind, sensible or not.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use switchboard_asp::codec::{Incoming, ReaderOptions, encode_frame};
use switchboard_asp::{Flags, FrameReader, Opcode};
use switchboard_core::model::TurnOutcome;
use switchboard_core::{Frame, Principal};

use super::client::{Down, Transport, Up, latency};
use super::ledger::{Ledger, TurnLog};
use super::wire::{Said, marker};
use super::{Fault, Invariant, Simulation, shared_name, stories};
use crate::world::opening;

/// A peer of the draft, by hand.
#[derive(Debug)]
pub(super) struct Raw {
    principal: Principal,
    pub(super) transport: Option<Transport>,
    next_id: u16,
    /// Open requests: what the simulation calls them, if that is known, and what was read.
    requests: BTreeMap<u16, (Option<String>, String)>,
    last: Option<Bytes>,
    /// The next message is a copy.
    disowned: bool,
}

impl Raw {
    pub(super) const fn new(principal: Principal) -> Self {
        Self {
            principal,
            transport: None,
            next_id: 1,
            requests: BTreeMap::new(),
            last: None,
            disowned: false,
        }
    }
}

impl Simulation {
    /// Lets a peer do something.
    pub(super) fn poke_raw(&mut self, index: usize) {
        let Some(raw) = self.raws.get(index) else { return };
        if raw.transport.is_none() {
            return self.dial_raw(index);
        }
        let bytes = match self.random.below(20) {
            0..9 => self.raw_invoke(index),
            9 => self.raw_tool(index),
            10..12 => self.raw_interrupt(index),
            12 => {
                let last = raw.last.clone().unwrap_or_default();
                self.disown(index);
                last
            }
            13 => frame(Opcode::Hello, 0, br#"{"op":"hello","ver":[1],"features":["nonsense"]}"#),
            14 => self.raw_answer(index),
            15 => self.damaged(index),
            16 => self.noise(),
            17 => frame(Opcode::Stream, 3, b"wrong way"),
            18 => Bytes::from_static(&[0x1F, 0, 0, 9, 0, 0, 0, 0]),
            _ => frame(Opcode::Invoke, 0, b"no id"),
        };
        self.send_raw(index, bytes);
    }

    /// Does the next thing that is due for a peer; false if nothing is.
    pub(super) fn serve_raw(&mut self, index: usize) -> Result<bool, Fault> {
        let now = self.world.now();
        let Some(raw) = self.raws.get_mut(index) else { return Ok(false) };
        let Some(transport) = &mut raw.transport else { return Ok(false) };
        match transport.down.pop(now) {
            None => return Ok(false),
            Some(Down::Closed(_)) => {
                raw.transport = None;
                raw.requests.clear();
            }
            Some(Down::Frame(Frame::Binary(bytes))) => {
                self.frames += 1;
                let said = transport.wire.received(&bytes, &self.ledger);
                for said in said.map_err(|fault| fault.within(format!("raw peer {index}")))? {
                    raw.hear(said, &self.ledger)
                        .map_err(|fault| fault.within(format!("raw peer {index}")))?;
                }
            }
            Some(Down::Frame(_)) => {
                transport.up.push(Up::Frame(Frame::Pong(Bytes::new())), now, latency(&mut self.random));
            }
        }
        Ok(true)
    }

    fn dial_raw(&mut self, index: usize) {
        let Some(raw) = self.raws.get_mut(index) else { return };
        if let Ok(peer) = self.world.try_connect(&self.protocol, raw.principal.clone(), opening()) {
            raw.transport = Some(Transport::new(peer, &raw.principal));
            raw.requests.clear();
            raw.next_id = 1;
        }
    }

    fn send_raw(&mut self, index: usize, bytes: Bytes) {
        let (now, delay) = (self.world.now(), latency(&mut self.random));
        let Some(raw) = self.raws.get_mut(index) else { return };
        let Some(transport) = &mut raw.transport else { return };
        transport.wire.sent(&bytes);
        // Damaged copies open requests too, of which nothing but an end is expected.
        for incoming in FrameReader::new(bytes.clone(), ReaderOptions::default()).flatten() {
            if let Incoming::Frame(frame) = incoming
                && frame.opcode == Opcode::Invoke
            {
                let text = String::from_utf8_lossy(&frame.payload).into_owned();
                // In a map the tag is the last word, too.
                let tag = text.rsplit(' ').next().filter(|_| !raw.disowned);
                let tag = tag.map(|tag| tag.trim_end_matches("\"}").to_owned());
                raw.requests.entry(frame.id).or_insert_with(|| (tag, String::new()));
            }
        }
        raw.disowned = false;
        raw.last = Some(bytes.clone());
        self.trace.note(now, format_args!("raw peer {index} sends {bytes:?}"));
        transport.up.push(Up::Frame(Frame::Binary(bytes)), now, delay);
    }

    fn raw_invoke(&mut self, index: usize) -> Bytes {
        let tag = self.fresh_tag('r');
        let story = self.random.pick(stories::NAMES).copied().unwrap_or("echo");
        let map = self.random.chance(40);
        let Some(raw) = self.raws.get_mut(index) else { return Bytes::new() };
        let id = raw.fresh_id();
        let input = format!("{story} {} {tag}", marker(&raw.principal.id));
        if !map {
            return frame(Opcode::Invoke, id, input.as_bytes());
        }
        let name = shared_name(self.random.below(2));
        // The tag is the last word, also of the whole payload.
        let payload = format!(r#"{{"kind":"chat","session":"{name}","input":"{input}"}}"#);
        frame(Opcode::Invoke, id, payload.as_bytes())
    }

    fn raw_tool(&mut self, index: usize) -> Bytes {
        let tag = self.fresh_tag('r');
        let Some(raw) = self.raws.get_mut(index) else { return Bytes::new() };
        let id = raw.fresh_id();
        let payload = json!({"kind": "tool", "tool": "sum", "args": {"tag": tag}});
        frame(Opcode::Invoke, id, payload.to_string().as_bytes())
    }

    fn raw_interrupt(&mut self, index: usize) -> Bytes {
        let Some(raw) = self.raws.get(index) else { return Bytes::new() };
        let ids: Vec<u16> = raw.requests.keys().copied().collect();
        let id = self.random.pick(&ids).copied().unwrap_or(0);
        let payload: &[u8] = match self.random.below(6) {
            0 => br#"{"mode":"pause"}"#,
            1 | 2 => br#"{"mode":"resume"}"#,
            3 => br#"{"mode":"credit","bytes":1000}"#,
            _ => b"",
        };
        frame(Opcode::Interrupt, id, payload)
    }

    fn raw_answer(&mut self, index: usize) -> Bytes {
        let Some(raw) = self.raws.get_mut(index) else { return Bytes::new() };
        let parent = raw.requests.keys().next().copied().unwrap_or(1);
        let id = raw.fresh_id();
        let payload =
            json!({"kind": "result", "parent": parent, "call_id": "call_1", "ok": true, "output": 1});
        frame(Opcode::Invoke, id, payload.to_string().as_bytes())
    }

    /// What was said last, with one byte changed or the end missing.
    fn damaged(&mut self, index: usize) -> Bytes {
        self.disown(index);
        let last = self.raws.get(index).and_then(|raw| raw.last.clone()).unwrap_or_default();
        let mut bytes = last.to_vec();
        let place = self.random.index(bytes.len());
        if self.random.chance(50) {
            bytes.truncate(place);
        } else if let Some(byte) = bytes.get_mut(place).filter(|_| place < 8) {
            *byte ^= 1 << self.random.below(8);
        }
        bytes.into()
    }

    /// What was said last is said again, perhaps under another id: which of both is which is not known.
    fn disown(&mut self, index: usize) {
        let Some(raw) = self.raws.get_mut(index) else { return };
        let Some(last) = &raw.last else { return };
        let text = String::from_utf8_lossy(last).into_owned();
        for (tag, _) in raw.requests.values_mut() {
            tag.take_if(|tag| text.contains(tag.as_str()));
        }
        raw.disowned = true;
    }

    fn noise(&mut self) -> Bytes {
        let length = self.random.below(40);
        (0..length).map(|_| self.random.next().to_be_bytes()[0] & 0x7F).filter(|byte| *byte != b'~').collect()
    }
}

impl Raw {
    const fn fresh_id(&mut self) -> u16 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    fn hear(&mut self, said: Said, ledger: &Ledger) -> Result<(), Fault> {
        match said {
            Said::Text(id, text) => {
                if let Some((tag, read)) = self.requests.get_mut(&id) {
                    read.push_str(&text);
                    let known = tag.as_deref().and_then(|tag| ledger.tagged(tag));
                    if let Some(turn) = known.filter(|turn| !turn.text.starts_with(read.as_str())) {
                        return Err(misread(turn, read));
                    }
                }
            }
            Said::End(id) => {
                let Some((Some(tag), read)) = self.requests.remove(&id) else { return Ok(()) };
                let Some(turn) = ledger.tagged(&tag) else { return Ok(()) };
                let done = matches!(&turn.end, Some(end) if matches!(end.outcome, TurnOutcome::Done(_)));
                // An interrupt that crossed the end of its turn leaves the rest unsent.
                if done && !turn.text.starts_with(&read) {
                    return Err(misread(turn, &read));
                }
            }
            Said::Error(id) => {
                self.requests.remove(&id);
            }
        }
        Ok(())
    }
}

fn misread(turn: &TurnLog, read: &str) -> Fault {
    let detail = format!("{} was read as {read:?}, the log has {:?}", turn.tag, turn.text);
    Fault::new(Invariant::SameView, detail)
}

fn frame(opcode: Opcode, id: u16, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    let _ = encode_frame(&mut out, opcode, Flags::NONE, id, payload);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use switchboard_asp::{Asp, AspLimits};
    use switchboard_core::SessionLimits;

    use super::*;
    use crate::script::Script;
    use crate::world::World;

    /// A turn whose words were cut off before its tag was taken for what every request stands for of
    /// which that is not known.
    #[test]
    fn a_turn_without_a_tag_is_no_other() {
        let ann = Principal::new("ann");
        let mut world = World::new();
        world.set_default_agent("demo", Script::new());
        let peer = world.connect(&Asp::new(AspLimits::default()), ann.clone(), opening());
        world.send(peer, Frame::Binary(frame(Opcode::Invoke, 1, b"burst ")));
        world.advance(100);
        let mut ledger = Ledger::new(SessionLimits::default());
        for (session, committed) in world.history() {
            ledger.take(session, committed).unwrap();
        }
        assert!(ledger.tagged("").is_some());
        let mut raw = Raw::new(ann);
        for (tag, fits) in [(None, true), (Some(String::new()), false)] {
            raw.requests.insert(6, (tag, String::new()));
            assert_eq!(raw.hear(Said::Text(6, "somebody's".into()), &ledger).is_ok(), fits);
        }
    }
}
