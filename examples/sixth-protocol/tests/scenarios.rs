//! Plays `vectors/scenarios/*.txt` against the server's half: real connections, real sessions, virtual time.
//!
//! | Line | Means |
//! |---|---|
//! | `C> LINE` | the client sends a line |
//! | `S< LINE` | the next line that arrives; a word `$name` is remembered, and the same from then on |
//! | `S< nothing`, `S< lost`, `S< close 1001` | nothing has arrived; the transport broke, or was closed |
//! | `connect NAME`, `use NAME` | opens a connection, or goes on with another |
//! | `cut`, `+500ms`, `crash`, `restart`, `drain 1500` | faults, and time |
//! | `agent {…}`, `commit 50ms` | before the first connection: a story of the agent, how long the log takes |

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use switchboard_core::{Frame, Principal};
use switchboard_linewise::Linewise;
use switchboard_testkit::{PeerId, Received, Script, Settings, World, opening};

#[derive(Default)]
struct Player {
    script: Script,
    settings: Settings,
    world: Option<World>,
    peers: BTreeMap<String, PeerId>,
    arrived: BTreeMap<String, VecDeque<String>>,
    current: String,
    known: BTreeMap<String, String>,
}

impl Player {
    fn world(&mut self) -> &mut World {
        self.world.get_or_insert_with(|| {
            let mut world = World::with(self.settings.clone());
            world.set_default_agent("story", std::mem::take(&mut self.script));
            world
        })
    }

    fn play(&mut self, line: &str) -> Result<(), String> {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        match head {
            "" | "#" => return Ok(()),
            "agent" => self.script.stories.push(serde_json::from_str(rest).map_err(|e| e.to_string())?),
            "commit" => self.settings.commit_ms = millis(rest),
            "connect" => {
                let peer = self.world().connect(&Linewise::default(), Principal::new("ann"), opening());
                self.peers.insert(rest.to_owned(), peer);
                self.arrived.insert(rest.to_owned(), VecDeque::new());
                self.current = rest.to_owned();
            }
            "use" => self.current = rest.to_owned(),
            "C>" => {
                let said: Vec<String> = rest.split(' ').map(|word| self.meant(word)).collect();
                let peer = self.peers[&self.current];
                self.world().send(peer, Frame::Text(said.join(" ")));
            }
            "cut" => {
                let peer = self.peers[&self.current];
                self.world().cut(peer);
            }
            "crash" => self.world().crash(),
            "restart" => self.world().restart(),
            "drain" => self.world().drain(rest.parse().unwrap()),
            "S<" => return self.expect(rest),
            wait => self.world().advance(millis(wait.strip_prefix('+').ok_or("what is this?")?)),
        }
        self.collect();
        Ok(())
    }

    fn meant(&self, word: &str) -> String {
        word.strip_prefix('$').and_then(|name| self.known.get(name)).map_or(word, String::as_str).to_owned()
    }

    fn collect(&mut self) {
        for (name, peer) in &self.peers {
            let Some(world) = &mut self.world else { return };
            let arrived = self.arrived.get_mut(name).unwrap();
            arrived.extend(world.take(*peer).into_iter().map(|received| match received {
                Received::Frame(Frame::Text(line)) => line,
                Received::Frame(Frame::Ping(_)) => "ping".to_owned(),
                Received::Frame(other) => panic!("the server sent {other:?}"),
                Received::Close(close) => format!("close {}", close.code),
                Received::Lost => "lost".to_owned(),
            }));
        }
    }

    fn expect(&mut self, pattern: &str) -> Result<(), String> {
        let found = self.arrived.get_mut(&self.current).unwrap().pop_front();
        let found = found.unwrap_or_else(|| "nothing".to_owned());
        let (expected, words): (Vec<_>, Vec<_>) = (pattern.split(' ').collect(), found.split(' ').collect());
        let mut fits = expected.len() == words.len();
        for (expected, word) in expected.iter().zip(&words) {
            fits &= match expected.strip_prefix('$') {
                Some(name) => self.known.entry(name.to_owned()).or_insert_with(|| (*word).to_owned()) == word,
                None => expected == word,
            };
        }
        if fits { Ok(()) } else { Err(format!("found: {found}")) }
    }
}

fn millis(text: &str) -> u64 {
    text.strip_suffix("ms").and_then(|number| number.parse().ok()).expect("milliseconds")
}

fn play(path: &Path) -> Result<(), String> {
    let mut player = Player::default();
    for (line, number) in std::fs::read_to_string(path).unwrap().lines().zip(1..) {
        player.play(line).map_err(|why| format!("{}:{number}: {line}\n    {why}", path.display()))?;
    }
    for (name, left) in &player.arrived {
        if !left.is_empty() {
            return Err(format!("{}: {name} was told more: {left:?}", path.display()));
        }
    }
    player.world().check_replay()
}

#[test]
fn every_scenario_goes_as_it_is_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/scenarios");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 8);
    let failures: Vec<String> = paths.iter().filter_map(|path| play(path).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
