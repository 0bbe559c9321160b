//! `chat` without a terminal: asked once, piped, for programs.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Reader, Server, ended, run, run_with, signal};

pub(crate) fn names(events: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    names.dedup();
    names
}

pub(crate) fn text(events: &[Value]) -> String {
    let texts = events.iter().filter(|event| event["event"] == "text");
    texts.map(|event| event["text"].as_str().unwrap()).collect()
}

#[test]
fn once_prints_the_answer_only() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&["chat", "--once", "think"]);
    assert!(ran.out.starts_with("I have thought about it"), "{ran:?}");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let piped = run_with(server.command(&["chat", "--once", "-"]), b"from a pipe");
    assert_eq!(piped.ok(), "You said: from a pipe\n");
    let echo = server.run(&["chat", "--agent", "echo", "--session", "other", "--once", "to another agent"]);
    assert_eq!(echo.ok(), "to another agent\n");
}

#[test]
fn once_says_that_it_failed() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&["chat", "--once", "fail"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "I will now fail, as you wished. \n"));
    assert!(ran.err.contains("the demo was asked to fail"), "{}", ran.err);
    let ran = server.run(&["chat", "--once", "count 100", "--timeout", "1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("DEADLINE_EXCEEDED"), "{}", ran.err);
    let ran = server.run(&["chat", "--once", "hi", "--agent", "nobody"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert_eq!(server.run(&["chat", "--once", " "]).code, 2);
}

#[test]
fn once_can_be_interrupted() {
    let (server, _folder) = Server::simple();
    let mut command = server.command(&["chat", "--once", "count 1000"]);
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut output = chat.stdout.take().unwrap();
    output.read_exact(&mut [0; 8]).unwrap();
    signal(&chat, "INT");
    assert_eq!(ended(&mut chat), 130);
    let turn = &server.run(&["sessions", "show", "chat", "--json"]).json()[0]["turns"][0];
    assert_eq!(turn["status"], "interrupted");
}

#[test]
fn programs_read_one_object_per_event() {
    let (server, _folder) = Server::simple();
    let events = server.run(&["chat", "--json", "--once", "think"]).json();
    assert_eq!(names(&events), ["start", "reasoning", "text", "end"]);
    assert_eq!(events.last().unwrap()["finish"], "complete");
    let events = server.run(&["chat", "--json", "--once", "use a tool"]).json();
    assert_eq!(names(&events), ["start", "text", "tool", "text", "end"]);
    let events = server.run(&["chat", "--json", "--once", "plan"]).json();
    let list = events.iter().find(|event| event["event"] == "data").unwrap();
    assert_eq!(list["value"]["items"][0]["label"], "Boil water");
    let failed = server.run(&["chat", "--json", "--once", "fail"]);
    let events = failed.json();
    assert_eq!((failed.code, &events.last().unwrap()["name"]), (1, &"EXECUTION_FAILED".into()));
}

#[test]
fn a_pipe_is_a_conversation() {
    let (server, _folder) = Server::simple();
    let ran = run_with(server.command(&["chat", "--json"]), b"count 2\n\nask me\ntea please\n");
    let events = ran.json();
    assert_eq!(events[0]["event"], "connected");
    let ends: Vec<_> = events.iter().filter(|event| event["event"] == "end").collect();
    assert_eq!(ends.len(), 2);
    assert_eq!(events.iter().filter(|event| event["event"] == "ask").count(), 1);
    assert_eq!(text(&events), "1 2 done.Tea it is. Say \"plan\" and I will make some.");
    assert_eq!(ran.code, 0);
    let plain = run_with(server.command(&["chat"]), b"one\ntwo");
    assert_eq!(plain.ok(), "You said: one\nYou said: two\n");
}

#[test]
fn a_question_that_nobody_answers_ends_the_turn() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&["chat", "--once", "ask me"]);
    assert!(ran.err.contains("Tea or coffee?"), "{ran:?}");
    assert_eq!(ran.code, 130);
}

#[test]
fn the_agent_calls_tools_of_this_machine() {
    let (server, _folder) = Server::simple();
    let args = ["chat", "--tool", "size=wc -c", "--once", "call size {\"a\":1}"];
    assert_eq!(server.run(&[&args[..], &["--yes"]].concat()).ok(), "size answered: 7\n");
    let asked = run_with(server.command(&args), b"y\n");
    assert!(asked.err.contains("wc -c") && asked.err.contains("{\"a\":1}"), "{asked:?}");
    assert_eq!(asked.ok(), "size answered: 7\n");
    let declined = run_with(server.command(&args), b"no\n");
    assert!(declined.ok().contains("does not want"));
    let broken = server.run(&["chat", "--yes", "--tool", "bad=exit 3", "--once", "call bad"]);
    assert!(broken.ok().contains("exit status: 3"));
    assert_eq!(server.run(&["chat", "--tool", "nothing"]).code, 2);
}

#[test]
fn the_conversation_goes_on_and_new_begins_another() {
    let (server, _folder) = Server::simple();
    for args in [&["--once", "a"][..], &["--once", "b"], &["--once", "c", "--new"]] {
        server.run(&[&["chat"], args].concat()).ok();
    }
    let list = server.run(&["sessions", "list", "--json"]).json();
    let turns: Vec<u64> = list.iter().map(|session| session["turns"].as_u64().unwrap()).collect();
    assert_eq!(turns, [1, 2]);
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    let ran = run(&["chat", "--url", "ws://127.0.0.1:9", "--once", "hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    for words in ["ws://127.0.0.1:9", "switchboard serve", "--url"] {
        assert!(ran.err.contains(words), "{}", ran.err);
    }
    let ran = run(&["chat", "--url", "nonsense", "--once", "hi"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("ws://127.0.0.1:4600"), "{}", ran.err);
}

#[test]
fn a_killed_server_comes_back_and_the_answer_is_whole() {
    let (mut server, folder) = Server::simple();
    let mut command = server.command(&["chat", "--json", "--once", "count 30"]);
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Reader::new(chat.stdout.take().unwrap());
    let mut events: Vec<Value> = Vec::new();
    let mut killed = false;
    let address = server.address.clone();
    loop {
        let event: Value = serde_json::from_str(&lines.line()).unwrap();
        let name = event["event"].as_str().unwrap().to_owned();
        events.push(event);
        match name.as_str() {
            "text" if !killed && text(&events).contains("10 ") => {
                killed = true;
                server.child.kill().unwrap();
                server.child.wait().unwrap();
                server = Server::start(folder.path(), &["--listen", &address]);
            }
            "end" => break,
            _ => {}
        }
    }
    assert_eq!(ended(&mut chat), 0);
    let expected: String = (1..=30).map(|number| format!("{number} ")).collect();
    assert_eq!(text(&events), expected + "done.");
    let names: Vec<&str> = names(&events).into_iter().filter(|name| *name != "text").collect();
    assert!(names.contains(&"disconnected") && names.contains(&"resumed"), "{names:?}");
    assert!(!names.contains(&"restarted"), "{names:?}");
}
