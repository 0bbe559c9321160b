//! Plays a scenario line by line.

use std::collections::BTreeMap;

use bytes::BytesMut;
use serde_json::{Value as Json, json};
use switchboard_asp::message::{Enc, Features};
use switchboard_asp::{Asp, AspLimits, Opcode};
use switchboard_core::{Frame as TransportFrame, Principal};

use super::client::{Client, Item, describe};
use super::pattern::fits;
use super::shorthand::{Shorthand, json, unhex, word};
use crate::script::Script;
use crate::world::{Settings, World, opening};

/// The state of a scenario under way.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) limits: AspLimits,
    pub(super) settings: Settings,
    pub(super) script: Script,
    pub(super) principal: Principal,
    pub(super) agents: Vec<String>,
    world: Option<World>,
    pub(super) clients: BTreeMap<String, Client>,
    pub(super) current: String,
    pub(super) captures: BTreeMap<String, Json>,
    pub(super) enc: Enc,
    /// Features and further members of the last `hello`, for `resume`.
    pub(super) hello: Json,
    /// How many committed events the `E` lines have looked at.
    seen_events: usize,
}

impl Runner {
    pub(super) fn new() -> Self {
        Self {
            limits: AspLimits::default(),
            settings: Settings::default(),
            script: Script::new(),
            principal: Principal::new("ann"),
            agents: Vec::new(),
            world: None,
            clients: BTreeMap::new(),
            current: "a".into(),
            captures: BTreeMap::new(),
            enc: Enc::Json,
            hello: json!({}),
            seen_events: 0,
        }
    }

    /// Plays one line.
    pub(super) fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("repeat ") {
            let (count, rest) = word(rest);
            let count: u32 = count.parse().map_err(|_| format!("how often: {count}"))?;
            for number in 1..=count {
                self.line(&rest.replace("{i}", &number.to_string()))
                    .map_err(|error| format!("{error} (repetition {number})"))?;
            }
            return Ok(());
        }
        if let Some(time) = line.strip_prefix('+') {
            let millis = duration(time)?;
            self.world().advance(millis);
            return self.collect();
        }
        let (head, rest) = word(line);
        match head {
            "C>" => self.client_sends(rest),
            "S<" => self.server_sends(rest, Take::Next),
            "S<+" => self.server_sends(rest, Take::Whole),
            "S<?" => self.server_sends(rest, Take::OfItsId),
            "S<~" => self.skip_until(rest),
            "E" => self.event(rest),
            "E!" => self.no_event(rest),
            _ => self.command(head, rest),
        }
    }

    /// What is left over at the end was not expected.
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.collect()?;
        for (name, client) in &self.clients {
            if let Some(item) = client.queue.front() {
                return Err(format!("{name} was also sent {}", describe(item, client.features)));
            }
        }
        self.world().check_replay()
    }

    /// The world, made when it is first needed.
    pub(super) fn world(&mut self) -> &mut World {
        let (settings, script, agents) = (&self.settings, &self.script, &self.agents);
        self.world.get_or_insert_with(|| {
            let mut world = World::with(settings.clone());
            world.set_default_agent("demo", script.clone());
            for agent in agents {
                world.add_agent(agent, Script::new());
            }
            world
        })
    }

    pub(super) fn has_world(&self) -> bool {
        self.world.is_some()
    }

    /// Opens a connection under a name and goes on with it.
    pub(super) fn connect(&mut self, name: &str, query: &str) -> Result<(), String> {
        let asp = Asp::new(self.limits.clone());
        let principal = self.principal.clone();
        let mut opening = opening();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("a query is name=value")?;
            if key == "agent" {
                opening.agent = Some(value.into());
            }
            opening.parameters.push((key.to_owned(), value.to_owned()));
        }
        let peer = self
            .world()
            .try_connect(&asp, principal, opening)
            .map_err(|refusal| format!("the connection was refused: {refusal:?}"))?;
        self.clients.insert(name.to_owned(), Client::new(peer));
        self.current = name.to_owned();
        Ok(())
    }

    /// The connection that the lines are about; opened if there is none.
    pub(super) fn client(&mut self) -> Result<&mut Client, String> {
        if !self.clients.contains_key(&self.current) {
            let name = self.current.clone();
            self.connect(&name, "")?;
        }
        let current = &self.current;
        self.clients.get_mut(current).ok_or_else(|| format!("no connection {current}"))
    }

    /// Takes over what has arrived at every connection.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        for name in names {
            let Some(peer) = self.clients.get(&name).map(|client| client.peer) else { continue };
            let received = self.world().take(peer);
            if let Some(client) = self.clients.get_mut(&name) {
                client.take_in(received)?;
            }
        }
        Ok(())
    }

    fn client_sends(&mut self, rest: &str) -> Result<(), String> {
        let rest = self.substitute(rest);
        let (head, after) = word(&rest);
        let frame = match head {
            "hex" => TransportFrame::Binary(unhex(after)?),
            "text" => match json(after)?.0 {
                Json::String(text) => TransportFrame::Text(text),
                other => return Err(format!("text is a JSON string: {other}")),
            },
            "ping" => TransportFrame::Ping(bytes::Bytes::new()),
            "pong" => TransportFrame::Pong(bytes::Bytes::new()),
            "empty" => TransportFrame::Binary(bytes::Bytes::new()),
            _ => {
                let mut out = BytesMut::new();
                for shorthand in Shorthand::parse_all(&rest, self.enc)? {
                    let frame = shorthand.frame()?;
                    self.client()?.sent(&frame);
                    frame.encode(&mut out).map_err(|error| error.to_string())?;
                }
                TransportFrame::Binary(out.freeze())
            }
        };
        self.send(frame)
    }

    pub(super) fn send(&mut self, frame: TransportFrame) -> Result<(), String> {
        let peer = self.client()?.peer;
        self.world().send(peer, frame);
        self.collect()
    }

    fn server_sends(&mut self, rest: &str, take: Take) -> Result<(), String> {
        self.client()?;
        self.collect()?;
        let features = self.client()?.features;
        let client = self.client()?;
        let (head, after) = word(rest);
        match head {
            "nothing" => {
                return match client.queue.front() {
                    None => Ok(()),
                    Some(item) => Err(format!("found {}", describe(item, features))),
                };
            }
            "rest" => {
                while let Some(item) = client.queue.pop_front() {
                    if let Item::Frame(frame) = item {
                        client.remember(&frame);
                    }
                }
                return Ok(());
            }
            "close" | "lost" | "ping" => {
                let item = client.queue.pop_front();
                let fits = match (&item, head) {
                    (Some(Item::Close(code)), "close") => code.to_string() == after,
                    (Some(Item::Lost), "lost") | (Some(Item::Ping), "ping") => true,
                    _ => false,
                };
                let found = item.map_or_else(|| "nothing".into(), |item| describe(&item, features));
                return if fits { Ok(()) } else { Err(format!("found {found}")) };
            }
            _ => {}
        }
        let rest = self.substitute(rest);
        let expected = Shorthand::parse_all(&rest, self.enc)?;
        for expected in expected {
            let mut captures = std::mem::take(&mut self.captures);
            let client = self.client()?;
            let frame = match take {
                Take::Next => client.next_frame(false),
                Take::Whole => client.next_frame(true),
                Take::OfItsId => client.next_of(expected.id),
            };
            let result = frame.and_then(|frame| {
                client.check(&expected, &frame, &mut captures).map_err(|error| {
                    format!("{error}\n    found {}", describe(&Item::Frame(frame), features))
                })
            });
            self.captures = captures;
            result?;
        }
        Ok(())
    }

    /// Takes frames until one is what is written.
    fn skip_until(&mut self, rest: &str) -> Result<(), String> {
        self.collect()?;
        let rest = self.substitute(rest);
        let expected = Shorthand::parse_all(&rest, self.enc)?;
        let [expected] = expected.as_slice() else { return Err("one frame, please".into()) };
        let mut captures = std::mem::take(&mut self.captures);
        let client = self.client()?;
        let result = loop {
            let frame = match client.next_frame(false) {
                Ok(frame) => frame,
                Err(error) => break Err(error),
            };
            let mut attempt = captures.clone();
            if client.check(expected, &frame, &mut attempt).is_ok() {
                captures = attempt;
                break Ok(());
            }
            client.remember(&frame);
        };
        self.captures = captures;
        result
    }

    fn event(&mut self, rest: &str) -> Result<(), String> {
        let (name, after) = word(rest);
        let pattern = if after.is_empty() { json!({}) } else { json(after)?.0 };
        let mut captures = std::mem::take(&mut self.captures);
        let from = self.seen_events;
        let mut reason = format!("no {name} was committed since");
        let history = self.world().history();
        let mut found = None;
        for (index, (_, committed)) in history.iter().enumerate().skip(from) {
            if committed.event.name() != name {
                continue;
            }
            let event = serde_json::to_value(&committed.event).unwrap_or_default();
            match fits(&pattern, event.get(name), &mut captures) {
                Ok(()) => {
                    found = Some(index);
                    break;
                }
                Err(error) => reason = error,
            }
        }
        self.captures = captures;
        self.seen_events = found.ok_or(reason)? + 1;
        Ok(())
    }

    fn no_event(&mut self, rest: &str) -> Result<(), String> {
        let (name, _) = word(rest);
        let from = self.seen_events;
        let found = self.world().history().iter().skip(from).any(|(_, event)| event.event.name() == name);
        if found { Err(format!("{name} was committed")) } else { Ok(()) }
    }

    /// Puts what was remembered in the place of `$name`.
    pub(super) fn substitute(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Longer names first, so that $token2 is not taken for $token.
        let mut names: Vec<&String> = self.captures.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in names {
            if let Some(value) = self.captures.get(name) {
                text = text.replace(&format!("\"${name}\""), &value.to_string());
            }
        }
        text
    }

    /// Says HELLO with these features, and expects exactly them to be agreed.
    pub(super) fn say_hello(&mut self, features: &[&str], further: &Json) -> Result<(), String> {
        let mut hello = json!({"ver": [1], "features": features, "enc": [self.enc.name()]});
        merge(&mut hello, further);
        self.hello = hello.clone();
        self.client_sends(&format!("HELLO {hello}"))?;
        let client = self.client()?;
        let accept = client.next_frame(false)?;
        client.remember(&accept);
        let value = super::client::decode(&accept, Features::BARE).unwrap_or_default();
        if accept.opcode != Opcode::Hello || value.get("op") != Some(&"accept".into()) {
            return Err(format!("no accept: {value}"));
        }
        let wanted = Features::agree(features.iter().copied(), Features::ALL);
        if self.client()?.features != wanted {
            return Err(format!("other features were agreed: {value}"));
        }
        self.captures.insert("cid".into(), value.get("cid").cloned().unwrap_or_default());
        if let Some(token) = value.pointer("/resume/token") {
            self.captures.insert("token".into(), token.clone());
        }
        Ok(())
    }
}

/// Which frame a line is about.
#[derive(Clone, Copy, Debug)]
enum Take {
    /// The next one.
    Next,
    /// The next message, put together from its fragments.
    Whole,
    /// The next one of the same id; there is no order across ids.
    OfItsId,
}

/// Adds the members of one map to another.
pub(super) fn merge(map: &mut Json, further: &Json) {
    if let (Some(map), Some(further)) = (map.as_object_mut(), further.as_object()) {
        map.extend(further.clone());
    }
}

/// Milliseconds from `500ms` or `30s`.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => return Err(format!("how long: {text}")),
    };
    digits.parse::<u64>().map(|count| count * factor).map_err(|_| format!("how long: {text}"))
}
