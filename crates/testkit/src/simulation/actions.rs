//! What people do: everything that a client can ask for, in any order.

use bytes::BytesMut;
use switchboard_asp::client::Link;
use switchboard_asp::codec::encode_map_frame;
use switchboard_asp::message::{Enc, Interrupt, Invoke, InvokeBody, Mode, Step};
use switchboard_asp::{Flags, Map, Opcode, Value};
use switchboard_core::{ClientInput, ClientMachine as _, Frame, SessionId};

use super::client::{Up, latency};
use super::ledger::ONCE;
use super::wire::marker;
use super::{Simulation, shared_name, stories};

impl Simulation {
    /// Lets somebody do something.
    pub(super) fn act(&mut self) {
        let index = self.random.index(self.clients.len() + self.guests.len());
        if let Some(guest) = index.checked_sub(self.clients.len()) {
            return self.act_guest(guest);
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.asp.link() == Link::Off {
            client.asp.handle_input(ClientInput::Connect, self.world.now());
            return self.note(format_args!("client {index} wants to connect"));
        }
        match self.random.below(24) {
            0..13 => self.invoke(index),
            13..15 => self.repeat(index),
            15..18 => self.interrupt(index),
            18 => {
                if let Some(client) = self.clients.get_mut(index) {
                    client.asp.interrupt_all(None);
                    client.views.values_mut().for_each(|view| view.interrupted = true);
                }
                self.note(format_args!("client {index} interrupts everything"));
            }
            19 => self.list(index),
            20 => {
                if let Some(client) = self.clients.get_mut(index) {
                    let _ = client.asp.ping("x");
                }
            }
            21 | 22 => self.pause(index),
            _ if self.random.chance(30) => {
                let now = self.world.now();
                if let Some(client) = self.clients.get_mut(index) {
                    client.asp.handle_input(ClientInput::Leave, now);
                }
                self.note(format_args!("client {index} says bye"));
            }
            _ => {}
        }
    }

    /// A name under which a request is found in the log.
    pub(super) fn fresh_tag(&mut self, kind: char) -> String {
        self.tags += 1;
        format!("{kind}{:05}", self.tags)
    }

    fn invoke(&mut self, index: usize) {
        let Some(principal) = self.clients.get(index).map(|client| client.principal.clone()) else { return };
        let tag = self.fresh_tag(ONCE);
        let story = self.random.pick(stories::NAMES).copied().unwrap_or("echo");
        let words = format!("{story} {} {tag}", marker(&principal.id));
        let mut invoke = match self.random.below(12) {
            0 => Invoke::new(InvokeBody::Tool {
                tool: "sum".into(),
                args: Map::new().with("tag", Value::from(tag.as_str())),
            }),
            1 => Invoke::new(InvokeBody::Step(Step { goal: words, state: None, budget: None })),
            _ => Invoke::chat(words),
        };
        invoke.session = match self.random.below(10) {
            0..4 => Some(shared_name(self.random.below(2))),
            // The first principal shares its first session.
            4 => self.principals.first().map(|owner| SessionId::named(owner, &shared_name(0)).to_string()),
            // Where somebody else is, whatever that speaks.
            5 | 6 => {
                let places = self.places_of(&principal);
                self.random.pick(&places).map(ToString::to_string)
            }
            _ => None,
        };
        invoke.serial = self.random.chance(80);
        invoke.stream = self.random.chance(90);
        invoke.agent = self.random.chance(30).then(|| "frail".to_owned());
        if self.random.chance(25) {
            let wanted = ["text", "reason", "tool", "usage", "data"];
            let wanted = wanted.iter().filter(|_| self.random.chance(60)).map(|name| (*name).to_owned());
            invoke.want = Some(wanted.collect());
        }
        invoke.deadline_ms = u32::try_from(self.random.between(1_000, 20_000)).unwrap_or(1_000);
        if self.random.chance(50) {
            // Now and then a key that was used for something else.
            let key = if self.random.chance(4) { self.tags.saturating_sub(3) } else { self.tags };
            invoke.idem = Some(format!("k{key}"));
        }
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        if invoke.idem.is_some() {
            client.keyed.push((invoke.clone(), tag.clone()));
        }
        let text = format!("{story} {tag} session {:?} key {:?}", invoke.session, invoke.idem);
        let id = client.invoke(invoke, Some(tag), now);
        self.note(format_args!("client {index} invokes {id:?}: {text}"));
    }

    /// Invokes something again under its key.
    fn repeat(&mut self, index: usize) {
        let now = self.world.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        let recent = client.keyed.len().saturating_sub(4);
        let choices = client.keyed.get(recent..).unwrap_or_default();
        let Some((invoke, tag)) = self.random.pick(choices).cloned() else { return };
        let key = invoke.idem.clone();
        let id = client.invoke(invoke, Some(tag.clone()), now);
        self.note(format_args!("client {index} repeats {tag} as {id:?} with key {key:?}"));
    }

    fn interrupt(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let ids: Vec<u16> = client.views.keys().copied().collect();
        let Some(id) = self.random.pick(&ids).copied() else { return };
        let reason = self.random.chance(50).then(|| "enough".to_owned());
        if let Some(view) = client.views.get_mut(&id) {
            view.interrupted = true;
        }
        client.asp.interrupt(id, reason);
        self.note(format_args!("client {index} interrupts {id}"));
    }

    fn list(&mut self, index: usize) {
        let now = self.world.now();
        if let Some(client) = self.clients.get_mut(index) {
            client.invoke(Invoke::new(InvokeBody::List), None, now);
        }
    }

    /// Holds output back by hand, or lets it go again; the client half has no command for it.
    fn pause(&mut self, index: usize) {
        let mode = if self.random.chance(40) { Mode::Pause } else { Mode::Resume };
        self.send_mode(index, mode);
        self.note(format_args!("client {index} sends {mode:?}"));
    }

    /// Sends an INTERRUPT for everything beside what the client half sends.
    pub(super) fn send_mode(&mut self, index: usize, mode: Mode) {
        let (now, delay) = (self.world.now(), latency(&mut self.random));
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.asp.link() != Link::Up {
            return;
        }
        let Some(transport) = &mut client.transport else { return };
        let map = Interrupt { mode, reason: None, bytes: None }.to_map();
        let mut out = BytesMut::new();
        if encode_map_frame(&mut out, Opcode::Interrupt, Flags::NONE, 0, Enc::Json, &map).is_ok() {
            transport.up.push(Up::Frame(Frame::Binary(out.freeze())), now, delay);
        }
    }
}
