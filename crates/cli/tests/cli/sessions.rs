//! `sessions`: list, show, tail.

use std::process::Stdio;

use crate::support::{Reader, Server, run};

#[test]
fn a_conversation_is_listed_shown_and_told_again() {
    let (server, _folder) = Server::simple();
    let nothing = server.run(&["sessions", "list"]);
    assert!(nothing.err.contains("switchboard chat"), "{nothing:?}");
    server.run(&["chat", "--once", "first words"]).ok();
    server.run(&["chat", "--once", "count 3", "--session", "numbers"]).ok();

    let list = server.run(&["sessions", "list"]).ok();
    let rows: Vec<&str> = list.lines().collect();
    assert!(rows[0].starts_with("NAME"), "{list}");
    assert!(rows[1].starts_with("numbers") && rows[2].starts_with("chat"), "{list}");
    assert_eq!(rows.len(), 3, "sessions in which nothing was said are not listed: {list}");
    let json = server.run(&["sessions", "list", "--json"]).json();
    assert_eq!((&json[0]["name"], &json[1]["name"]), (&"numbers".into(), &"chat".into()));
    assert_eq!(server.run(&["sessions", "list", "--limit", "1", "--json"]).json().len(), 1);
    assert!(server.run(&["sessions", "list", "--all", "--json"]).json().len() >= 2);

    let id = json[0]["session"].as_str().unwrap();
    for name in [id, "numbers"] {
        let shown = server.run(&["sessions", "show", name]).ok();
        for text in [id, "count 3", "1 2 3 done.", "done", "demo"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
    }
    let shown = server.run(&["sessions", "show", "chat", "--json"]).json();
    assert_eq!(shown[0]["messages"].as_array().unwrap().len(), 2);
    assert_eq!(shown[0]["turns"][0]["status"], "done");

    let told = server.run(&["sessions", "tail", "numbers", "--after", "0", "--no-follow"]).ok();
    for text in ["opened by dev", "count 3", "1 2 3 done.\n", "ended: done, complete"] {
        assert!(told.contains(text), "{text}: {told}");
    }
    let events = server.run(&["sessions", "tail", "numbers", "--after", "0", "--no-follow", "--json"]).json();
    let seqs: Vec<u64> = events.iter().map(|event| event["position"]["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
    let after = server.run(&["sessions", "tail", "numbers", "--after", "3", "--no-follow", "--json"]).json();
    assert_eq!(after.len(), events.len() - 3);
}

#[test]
fn tail_follows_what_happens() {
    let (server, _folder) = Server::simple();
    server.run(&["chat", "--once", "before"]).ok();
    let mut command = server.command(&["sessions", "tail", "chat"]);
    let mut tail = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Reader::new(tail.stdout.take().unwrap());
    while lines.line() != "You said: before" {}
    server.run(&["chat", "--once", "count 3"]).ok();
    while lines.line() != "1 2 3 done." {}
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn what_is_not_there_is_said() {
    let (server, _folder) = Server::simple();
    for command in ["show", "tail"] {
        let ran = server.run(&["sessions", command, "nothing"]);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("nothing") && ran.err.contains("sessions list"), "{}", ran.err);
    }
    let ran = run(&["sessions", "list", "--url", "ws://127.0.0.1:9"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("switchboard serve") && ran.err.contains("--url"), "{}", ran.err);
}
