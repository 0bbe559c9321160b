//! The client's half against the server's, over transports that break and a server that dies: whatever is
//! committed is told exactly once, whatever is said is asked exactly once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use switchboard_core::{Frame, Principal, SessionId};
use switchboard_linewise::client::{Client, TooMuch};
use switchboard_linewise::{Linewise, News, ServerLine, Tag, map};
use switchboard_testkit::{PeerId, Received, Script, Step, World, opening};

/// What may happen to a client.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Say,
    Stop,
    Read,
    Wait(u64),
    Cut,
    Crash,
}

struct Life {
    world: World,
    client: Client,
    peer: PeerId,
    heard: Vec<ServerLine>,
    said: usize,
}

impl Life {
    fn begin() -> Self {
        let mut world = World::new();
        let wait = || Step::Wait(40);
        let answer = vec![Step::Echo, wait(), Step::Text("b".into()), wait(), Step::Text("c".into())];
        world.set_default_agent("slow", Script::new().on("say*", answer));
        let peer = world.connect(&Linewise::default(), ann(), opening());
        let mut client = Client::new("notes");
        client.connected();
        Self { world, client, peer, heard: Vec::new(), said: 0 }
    }

    fn meet(&mut self, fate: Fate) {
        match fate {
            Fate::Say => {
                self.said += 1;
                let tag = Tag::new(&format!("k{}", self.said)).unwrap();
                self.client.say(tag, format!("say {}", self.said)).unwrap();
            }
            Fate::Stop => self.client.stop(),
            Fate::Read => self.read(),
            Fate::Wait(millis) => self.world.advance(millis),
            Fate::Cut => {
                self.world.cut(self.peer);
                self.come_back();
            }
            Fate::Crash => {
                self.world.crash();
                self.world.restart();
                self.come_back();
            }
        }
        self.send();
    }

    /// On a new transport; what had arrived on the old one and was not read is lost.
    fn come_back(&mut self) {
        self.world.forget(self.peer);
        self.peer = self.world.connect(&Linewise::default(), ann(), opening());
        self.client.connected();
    }

    fn send(&mut self) {
        while let Some(line) = self.client.poll_line() {
            self.world.send(self.peer, Frame::Text(line));
        }
    }

    fn read(&mut self) {
        for received in self.world.take(self.peer) {
            match received {
                Received::Frame(Frame::Text(line)) => {
                    let told = self.client.receive(&line).unwrap();
                    self.heard.extend(told.filter(|line| matches!(line, ServerLine::News { .. })));
                }
                Received::Frame(Frame::Ping(sent)) => self.world.send(self.peer, Frame::Pong(sent)),
                other @ (Received::Frame(_) | Received::Close(_) | Received::Lost) => panic!("{other:?}"),
            }
        }
    }

    /// Lets everything come to rest.
    fn end(&mut self) {
        for _ in 0..40 {
            self.read();
            self.send();
            self.world.advance(1000);
        }
    }
}

fn ann() -> Principal {
    Principal::new("ann")
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Say),
        1 => Just(Fate::Stop),
        3 => Just(Fate::Read),
        3 => (1u64..100).prop_map(Fate::Wait),
        2 => Just(Fate::Cut),
        1 => Just(Fate::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_is_heard_and_said_exactly_once(fates in prop::collection::vec(fate(), 1..40)) {
        let mut life = Life::begin();
        for fate in fates {
            life.meet(fate);
        }
        life.end();
        let log = life.world.log(&SessionId::named(&ann(), "notes"));
        let told: Vec<ServerLine> = log.iter().filter_map(|committed| map::line(committed)).collect();
        prop_assert_eq!(&life.heard, &told);
        let asked = |line: &&ServerLine| matches!(line, ServerLine::News { news: News::Asked { .. }, .. });
        prop_assert_eq!(told.iter().filter(asked).count(), life.said);
        life.world.check_replay().unwrap();
    }
}

#[test]
fn what_waits_to_be_confirmed_is_bounded() {
    let mut client = Client::new("notes");
    for number in 0..64 {
        client.say(Tag::new(&number.to_string()).unwrap(), "x").unwrap();
    }
    assert_eq!(client.say(Tag::new("more").unwrap(), "x"), Err(TooMuch));
}
