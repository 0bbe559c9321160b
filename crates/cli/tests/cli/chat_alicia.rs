//! `chat` over Alicia, without a terminal.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::chat::{names, text};
use crate::support::{Server, ended, run, run_with, signal};

const CHAT: [&str; 3] = ["chat", "--protocol", "alicia"];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&CHAT[..], more].concat()
}

/// Says these lines, and reads what programs read.
fn say(server: &Server, session: &str, lines: &[&str]) -> Vec<Value> {
    let command = server.command(&args(&["--session", session, "--json"]));
    let ran = run_with(command, lines.join("\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

/// The lines of every listing.
fn listings(events: &[Value]) -> Vec<Vec<String>> {
    let lines = |event: &Value| {
        let lines = event["lines"].as_array().unwrap().iter();
        lines.map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    events.iter().filter(|event| event["event"] == "listing").map(lines).collect()
}

#[test]
fn once_prints_the_answer_only() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&args(&["--once", "think"]));
    assert!(ran.out.starts_with("I have thought about it"), "{ran:?}");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let piped = run_with(server.command(&args(&["--once", "-"])), b"from a pipe");
    assert_eq!(piped.ok(), "You said: from a pipe\n");
    assert_eq!(server.run(&args(&["--new", "--once", "new"])).ok(), "You said: new\n");
}

#[test]
fn once_says_that_it_failed() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&args(&["--once", "fail"]));
    assert_eq!((ran.code, ran.out.trim_end()), (1, "I will now fail, as you wished."));
    assert!(ran.err.contains("the demo was asked to fail"), "{}", ran.err);
    let ran = server.run(&args(&["--once", "count 1000", "--timeout", "1"]));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no answer came in time"), "{ran:?}");
    let ran = server.run(&args(&["--once", &"x".repeat(65_537)]));
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("longer than 65536 bytes"), "{}", ran.err);
    assert_eq!(server.run(&args(&["--once", " "])).code, 2);
    assert_eq!(server.run(&args(&["--agent", "echo", "--once", "hi"])).code, 2);
    assert_eq!(server.run(&args(&["--session", "ac_nowhere", "--once", "hi"])).code, 1);
}

#[test]
fn once_can_be_interrupted() {
    let (server, _folder) = Server::simple();
    let mut command = server.command(&args(&["--json", "--once", "count 1000"]));
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = chat.stdout.take().unwrap();
    // It has begun.
    output.read_exact(&mut [0; 8]).unwrap();
    signal(&chat, "INT");
    assert_eq!(ended(&mut chat), 130);
}

#[test]
fn programs_read_one_object_per_event() {
    let (server, _folder) = Server::simple();
    let json = |message: &str| server.run(&args(&["--json", "--once", message])).json();
    let events = json("think");
    let mut kinds = names(&events);
    kinds.dedup();
    assert_eq!(kinds, ["start", "reasoning", "text", "end"]);
    assert!(events[0]["run"].as_str().unwrap().starts_with("am_"));
    assert_eq!(events.last().unwrap()["finish"], "complete");
    let events = json("use a tool");
    let phases: Vec<&str> = events.iter().filter_map(|event| event["phase"].as_str()).collect();
    assert_eq!(phases, ["start", "done"]);
}

#[test]
fn a_conversation_goes_on_under_its_title() {
    let (server, _folder) = Server::simple();
    say(&server, "tea", &["first"]);
    say(&server, "tea", &["second"]);
    let events = say(&server, "tea", &["/branches"]);
    assert_eq!(
        listings(&events),
        [["* > first", "* You said: first", "* > second", "* You said: second [1]"]]
    );
    assert!(listings(&say(&server, "other", &["/branches"])).is_empty());
}

#[test]
fn the_agent_calls_tools_of_this_machine() {
    let (server, _folder) = Server::simple();
    let offer = args(&["--tool", "size=wc -c", "--once", "call size {\"a\":1}"]);
    assert_eq!(server.run(&[&offer[..], &["--yes"]].concat()).ok(), "size answered: 7\n");
    let asked = run_with(server.command(&offer), b"y\n");
    assert!(asked.err.contains("wc -c") && asked.err.contains("{\"a\":1}"), "{asked:?}");
    assert_eq!(asked.ok(), "size answered: 7\n");
    let declined = run_with(server.command(&offer), b"no\n");
    assert!(declined.ok().contains("does not want"));
    let broken = server.run(&args(&["--yes", "--tool", "bad=exit 3", "--once", "call bad"]));
    assert!(broken.ok().contains("exit status: 3"));
}

#[test]
fn questions_are_asked_anew_answered_again_and_branches_chosen() {
    let (server, _folder) = Server::simple();
    let events = say(&server, "tree", &["one", "/again", "/branches", "/edit two", "/branches", "/switch 1"]);
    assert_eq!(text(&events), "You said: oneYou said: oneYou said: two");
    assert!(events.iter().any(|event| event["event"] == "notice" && event["text"] == "2/2"), "{events:?}");
    let lists = listings(&events);
    assert_eq!(lists[0], ["* > one", "    You said: one 1/2 [1]", "*   You said: one 2/2 [2]"]);
    assert_eq!(
        lists[1],
        [
            "    > one 1/2",
            "      You said: one 1/2 [1]",
            "      You said: one 2/2 [2]",
            "*   > two 2/2",
            "*   You said: two [3]",
        ]
    );
    assert_eq!(lists[2], ["> one 1/2", "You said: one 1/2"]);
    // And there it goes on.
    let events = say(&server, "tree", &["three", "/branches", "/switch 9"]);
    let list = &listings(&events)[0];
    let three = list.iter().find(|line| line.ends_with("> three")).unwrap();
    assert!(three.starts_with('*'), "{list:?}");
    assert_eq!(listings(&events).len(), 1, "there is no branch 9");
}

#[test]
fn an_answer_goes_on_is_voted_on_and_noted() {
    let (server, _folder) = Server::simple();
    let lines = ["one", "/continue", "/vote up", "/vote sideways", "/note good", "/title Tea", "/nonsense"];
    let command = server.command(&args(&["--session", "beside"]));
    let ran = run_with(command, lines.join("\n").as_bytes());
    assert_eq!(ran.code, 0, "{ran:?}");
    for words in ["1 for it and 0 against", "/vote up, down", "noted", "the title is now Tea"] {
        assert!(ran.err.contains(words), "{words}: {ran:?}");
    }
    assert!(ran.out.ends_with("You said: /nonsense\n"), "{ran:?}");
    // Under its new title.
    let events = say(&server, "Tea", &["/branches"]);
    assert!(!listings(&events).is_empty());
}

#[test]
fn what_is_remembered_is_used_in_other_conversations() {
    let (server, _folder) = Server::simple();
    let events =
        say(&server, "one", &["/memories", "/remember I drink green tea in the morning", "/memories"]);
    assert_eq!(listings(&events), [["fact: I drink green tea in the morning"]]);
    let events = say(&server, "two", &["what do I drink in the morning?"]);
    let told = |event: &Value| event["text"].as_str().is_some_and(|text| text.contains("green tea"));
    assert!(events.iter().any(|event| event["event"] == "notice" && told(event)), "{events:?}");
}

/// A way to a server that breaks once: from the acknowledgement of a client's second stanza on, nothing comes
/// back, and the connection is cut when the server has said this. Whoever comes again is let through.
fn frail(server: &str, until: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (server, broken) = (server.to_owned(), Arc::new(AtomicBool::new(false)));
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&server) else { return };
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let broken = broken.clone();
            std::thread::spawn(move || hand_back(near, far, until, &broken));
        }
    });
    url
}

fn hand_back(mut near: TcpStream, mut far: TcpStream, until: &[u8], broken: &AtomicBool) {
    let holds = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|window| window == what);
    let (mut withheld, mut buffer) = (Vec::new(), [0; 4_096]);
    while let Ok(count @ 1..) = far.read(&mut buffer) {
        let bytes = &buffer[..count];
        let acknowledged = holds(bytes, b"acknowledgedStanzaId\x02");
        if withheld.is_empty() && (broken.load(Ordering::SeqCst) || !acknowledged) {
            if near.write_all(bytes).is_err() {
                break;
            }
            continue;
        }
        broken.store(true, Ordering::SeqCst);
        withheld.extend_from_slice(bytes);
        if holds(&withheld, until) {
            break;
        }
    }
    let _ = near.shutdown(Shutdown::Both);
    let _ = far.shutdown(Shutdown::Both);
}

/// The end of an answer, and its second sentence, as they stand in their envelopes.
const FINAL: &[u8] = b"isFinal\xc3";
const SECOND: &[u8] = b"sequence\x02";

/// A server whose agent does what it is told, and an answer of twenty sentences.
fn conformance() -> (Server, tempfile::TempDir, String) {
    let folder = tempfile::TempDir::new().unwrap();
    let settings =
        ["agent=conformance", "agents.conformance.kind=script", "agents.conformance.builtin=conformance"];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let sentences: Vec<String> = (1..=20).map(|number| format!("Number {number} is here.")).collect();
    (Server::start(folder.path(), &args), folder, sentences.join(" "))
}

/// What is printed of an answer whose acknowledgement was lost.
fn cut_off(server: &Server, until: &'static [u8], session: &[&str], message: &str) -> String {
    let url = frail(&server.address, until);
    let chat = args(&[session, &["--timeout", "60", "--url", &url, "--once", message]].concat());
    run(&chat).ok()
}

#[test]
fn al_040_an_answer_that_ended_while_the_connection_was_lost_is_printed() {
    let (server, _folder, text) = conformance();
    let message = format!("words {text}");
    let printed = format!("{text}\n");
    assert_eq!(cut_off(&server, FINAL, &["--new"], &message), printed, "nothing was seen before");
    server.run(&args(&["--session", "tea", "--once", "echo before"])).ok();
    assert_eq!(cut_off(&server, FINAL, &["--session", "tea"], &message), printed, "something was");
}

#[test]
fn al_037_an_answer_that_went_on_while_the_connection_was_lost_is_printed_from_its_beginning() {
    let (server, _folder, text) = conformance();
    let message = format!("words {text} every 50");
    let printed = format!("{text}\n");
    assert_eq!(cut_off(&server, SECOND, &["--new"], &message), printed, "nothing was seen before");
    server.run(&args(&["--session", "tea", "--once", "echo before"])).ok();
    assert_eq!(cut_off(&server, SECOND, &["--session", "tea"], &message), printed, "something was");
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    let ran = run(&args(&["--url", "ws://127.0.0.1:9", "--once", "hi"]));
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    for words in ["ws://127.0.0.1:9", "switchboard serve", "--url"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    assert_eq!(run(&args(&["--url", "nonsense", "--once", "hi"])).code, 2);
}
