//! What each protocol's page says is carried over, held against the code and against a real connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use switchboard_core::Event;
use switchboard_core::model::Output;

use crate::cannot::TABLE;
use crate::prompter::outputs;
use crate::side::{Guise, Party, Protocol};
use crate::world::World;

/// How an event reaches clients of a protocol, in the word of its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carriage {
    /// By a message of its own.
    Carried,
    /// By a message that says less.
    Reduced,
    /// With a message that comes later.
    Later,
    NotShown,
}

/// The rows of a page: an event, or an event and what it holds, in the spelling of the page.
type Page = BTreeMap<String, Carriage>;

/// Reads the table of "What is carried over". Several events may share a row: "`TurnOutput` status, usage" are
/// two of one event, "`TipMoved`, `SessionRenamed`" two events.
fn read(protocol: Protocol) -> Result<(String, Page), String> {
    let name = protocol.name();
    let path = format!("{}/../../docs/protocols/{name}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let (_, section) = text
        .split_once("\n## What is carried over\n")
        .ok_or_else(|| format!("{name}.md has no such section"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut page = Page::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('|').trim());
        let (events, how) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let carriage = match how {
            "carried" => Carriage::Carried,
            "reduced" => Carriage::Reduced,
            "later" => Carriage::Later,
            "not shown" => Carriage::NotShown,
            other => return Err(format!("{name}.md: {events} is {other:?}, which is no word for it")),
        };
        let mut event = "";
        for item in events.split(", ") {
            let (named, rest) = match item.strip_prefix('`').and_then(|item| item.split_once('`')) {
                Some((named, rest)) => (named, rest.trim()),
                None => (event, item),
            };
            event = named;
            let key = if rest.is_empty() { event.to_owned() } else { format!("{event} {rest}") };
            if page.insert(key.clone(), carriage).is_some() {
                return Err(format!("{name}.md says twice what becomes of {key}"));
            }
        }
    }
    Ok((section.to_owned(), page))
}

/// Every event, as a page spells it.
fn expected() -> BTreeSet<String> {
    let outputs = variants::<Output>().iter().map(|output| format!("TurnOutput {output}"));
    let events = variants::<Event>().iter().map(|event| camel(event)).filter(|event| event != "TurnOutput");
    events.chain(outputs).collect()
}

fn camel(snake: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    snake.split('_').map(capital).collect()
}

#[test]
fn every_page_says_of_every_event_what_becomes_of_it() {
    let expected = expected();
    assert!(expected.contains("SessionOpened") && expected.contains("TurnOutput text"), "{expected:?}");
    let mut findings = String::new();
    for protocol in Protocol::ALL {
        match read(protocol) {
            Err(why) => writeln!(findings, "{why}").expect("text"),
            Ok((_, page)) => {
                for missing in expected.iter().filter(|event| !page.contains_key(*event)) {
                    writeln!(findings, "{protocol}.md does not say what becomes of {missing}").expect("text");
                }
                for unknown in page.keys().filter(|event| !expected.contains(*event)) {
                    writeln!(findings, "{protocol}.md tells of {unknown}, which is no event").expect("text");
                }
            }
        }
    }
    assert!(findings.is_empty(), "{findings}");
}

#[test]
fn every_page_says_what_cannot_be_done() {
    let mut findings = String::new();
    for protocol in Protocol::ALL {
        let Ok((section, _)) = read(protocol) else { continue };
        let stated: BTreeSet<&str> =
            section.lines().filter(|line| line.starts_with("- It cannot ")).collect();
        let table = TABLE.iter().filter(|cannot| cannot.who == protocol);
        let table: BTreeSet<String> =
            table.map(|cannot| format!("- It cannot {}: {}.", cannot.what.words(), cannot.because)).collect();
        for missing in table.iter().filter(|line| !stated.contains(line.as_str())) {
            writeln!(findings, "{protocol}.md lacks:\n{missing}").expect("text");
        }
        for line in stated.iter().filter(|line| !table.contains(**line)) {
            writeln!(findings, "{protocol}.md has what no test knows:\n{line}").expect("text");
        }
    }
    assert!(findings.is_empty(), "{findings}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_page_says_is_carried_reaches_the_client() {
    let world = Arc::new(World::open().await);
    let mut watching = tokio::task::JoinSet::new();
    for protocol in Protocol::ALL {
        let (_, page) = read(protocol).expect("a page");
        for (what, event) in shown() {
            let (world, carriage) = (world.clone(), page.get(&event).copied());
            watching.spawn(async move {
                let seen = watch(&world, protocol, &what).await;
                let told = matches!(carriage, Some(Carriage::Carried | Carriage::Reduced));
                match seen {
                    Ok(seen) if seen == told => String::new(),
                    Ok(seen) => format!("{protocol}: {event} is {carriage:?}, but told: {seen}\n"),
                    Err(why) => format!("{protocol}: {event}: {why}\n"),
                }
            });
        }
    }
    let findings = watching.join_all().await.concat();
    assert!(findings.is_empty(), "{findings}");
}

/// What the agent can be asked to show, and the event that it leads to.
fn shown() -> Vec<(String, String)> {
    let outputs = outputs().into_keys().map(|output| (output.to_owned(), format!("TurnOutput {output}")));
    let others = [
        ("call", "CallRequested"),
        ("progress", "CallProgress"),
        ("result", "CallEnded"),
        ("tools", "ToolsChanged"),
    ];
    outputs.chain(others.map(|(what, event)| (what.to_owned(), event.to_owned()))).collect()
}

/// Whether the server sends something to whoever has asked when this happens.
async fn watch(world: &World, protocol: Protocol, what: &str) -> Result<bool, String> {
    let name = format!("carried{protocol}{what}");
    let guise = Guise { name: name.clone(), token: None, tool: "mine".to_owned() };
    let (mut party, _) = Party::open(protocol, world, &guise).await?;
    party.say(&format!("show {what} {name}")).await?;
    world.prompter.reached(&name).await?;
    let before = settled(&mut party).await;
    world.prompter.open(&name);
    world.prompter.reached(&format!("{name}x")).await?;
    let seen = settled(&mut party).await > before;
    world.prompter.open(&format!("{name}x"));
    Ok(seen)
}

/// How many bytes were sent once no more are.
async fn settled(party: &mut Party) -> u64 {
    let mut last = (party.told(), 0);
    while last.1 < 2 {
        party.is_quiet().await;
        let told = party.told();
        last = (told, if told == last.0 { last.1 + 1 } else { 0 });
    }
    last.0
}

/// The variants of an enum, as they are stored: asked of the code that reads them.
fn variants<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(Curious) {
        Err(Variants(variants)) => variants,
        Ok(_) => panic!("there was nothing to read"),
    }
}

/// Has nothing to read, and only looks at what is asked of it.
struct Curious;

/// The variants that were asked for.
#[derive(Debug)]
struct Variants(&'static [&'static str]);

impl std::fmt::Display for Variants {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.0)
    }
}

impl std::error::Error for Variants {}

impl de::Error for Variants {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Curious {
    type Error = Variants;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Variants> {
        Err(Variants(&[]))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Variants> {
        Err(Variants(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
