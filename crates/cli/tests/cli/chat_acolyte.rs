//! `chat` over Acolyte, without a terminal: over WebSocket and over HTTP.

use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;

use crate::chat::{names, text};
use crate::scripted::{self, Model, Scripted};
use crate::support::{Reader, Server, ended, run, run_with, signal};

const BOTH: [&str; 2] = ["acolyte", "acolyte-sse"];

fn once(server: &Server, protocol: &str, message: &str) -> String {
    server.run(&["chat", "--protocol", protocol, "--once", message]).ok()
}

/// The turns of a session, as they were accepted.
fn accepted(server: &Server, session: &str) -> Vec<Value> {
    let events = server.run(&["sessions", "tail", session, "--after", "0", "--no-follow", "--json"]).json();
    let event = |committed: Value| Some(committed["event"]["turn_accepted"].clone()).filter(|e| !e.is_null());
    events.into_iter().filter_map(event).collect()
}

#[test]
fn once_prints_the_answer_only() {
    let (server, _folder) = Server::simple();
    for protocol in BOTH {
        let ran = server.run(&["chat", "--protocol", protocol, "--once", "think"]);
        assert!(ran.out.starts_with("I have thought about it"), "{ran:?}");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""));
        let piped =
            run_with(server.command(&["chat", "--protocol", protocol, "--once", "-"]), b"from a pipe");
        assert_eq!(piped.ok(), "You said: from a pipe\n");
        let echo = ["chat", "--protocol", protocol, "--agent", "echo", "--session", "other", "--once", "hi"];
        assert_eq!(server.run(&echo).ok(), "hi\n");
    }
}

#[test]
fn once_says_that_it_failed() {
    let (server, _folder) = Server::simple();
    for protocol in BOTH {
        let chat = ["chat", "--protocol", protocol];
        let ran = server.run(&[&chat[..], &["--once", "fail"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (1, "I will now fail, as you wished. \n"));
        assert!(ran.err.contains("the demo was asked to fail"), "{}", ran.err);
        let ran = server.run(&[&chat[..], &["--once", "count 1000", "--timeout", "1"]].concat());
        assert_eq!(ran.code, 1);
        assert!(ran.out.ends_with('\n') && ran.err.contains("no answer came in time"), "{ran:?}");
        let ran = server.run(&[&chat[..], &["--once", &"x".repeat(100_001)]].concat());
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("too long"), "{}", ran.err);
        assert_eq!(server.run(&[&chat[..], &["--once", " "]].concat()).code, 2);
        let ran = server.run(&[&chat[..], &["--tool", "clock=date", "--once", "hi"]].concat());
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains("--protocol asp"), "{}", ran.err);
    }
}

#[test]
fn names_of_sessions_are_checked() {
    let (server, _folder) = Server::simple();
    let chat =
        |session: &str| server.run(&["chat", "--protocol", "acolyte", "--once", "hi", "--session", session]);
    for (name, advice) in
        [("My-Notes", "--session mynotes"), ("a b", "--session ab"), ("sess_", ""), ("ü", "")]
    {
        let ran = chat(name);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains("lower-case letters and digits") && ran.err.contains(advice), "{}", ran.err);
    }
    assert_eq!(chat(&"x".repeat(65)).code, 2);
    chat("notes2").ok();
    chat("sess_notes2").ok();
    let show = server.run(&["sessions", "show", "sess_notes2", "--json"]).json();
    assert_eq!(show[0]["turns"].as_array().unwrap().len(), 2);
    assert_eq!(show[0]["turns"][0]["protocol"], "acolyte");
}

#[test]
fn once_can_be_interrupted() {
    let (server, _folder) = Server::simple();
    for (number, protocol) in BOTH.into_iter().enumerate() {
        let mut command = server.command(&["chat", "--protocol", protocol, "--once", "count 1000"]);
        let mut chat =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = chat.stdout.take().unwrap();
        output.read_exact(&mut [0; 8]).unwrap();
        signal(&chat, "INT");
        assert_eq!(ended(&mut chat), 130);
        // Over HTTP the server finds out by itself that nobody listens any more.
        server.until(|| {
            let turn = &server.run(&["sessions", "show", "sess_chat", "--json"]).json()[0]["turns"][number];
            turn["status"] == "interrupted"
        });
    }
}

#[test]
fn programs_read_one_object_per_event() {
    let (server, _folder) = Server::simple();
    for protocol in BOTH {
        let json = |message: &str| {
            let ran = server.run(&["chat", "--protocol", protocol, "--json", "--once", message]);
            let all = ran.json();
            let counted = all.iter().filter(|event| event["event"] == "usage").count();
            assert!(counted >= 1, "{all:?}");
            let told = |event: &Value| !matches!(event["event"].as_str(), Some("usage" | "status"));
            (ran.code, all.into_iter().filter(told).collect::<Vec<Value>>())
        };
        let (code, events) = json("think");
        assert_eq!((code, names(&events)), (0, vec!["start", "reasoning", "text", "end"]));
        assert!(events[0]["run"].as_str().unwrap().starts_with("task_"));
        let end = events.last().unwrap();
        assert_eq!(end["finish"], "complete");
        assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0);

        let (_, events) = json("use a tool");
        assert_eq!(names(&events), ["start", "text", "tool", "text", "end"]);
        let phases: Vec<&str> = events.iter().filter_map(|event| event["phase"].as_str()).collect();
        assert_eq!(phases, ["start", "delta", "delta", "delta", "done"]);

        let (_, events) = json("plan");
        let lists: Vec<&Value> = events.iter().filter(|event| event["event"] == "data").collect();
        assert_eq!(lists.len(), 3, "each list once");
        assert_eq!(lists[2]["value"]["items"][2]["state"], "done");

        let (code, events) = json("fail");
        assert_eq!((code, &events.last().unwrap()["text"]), (1, &"the demo was asked to fail".into()));
    }
}

#[test]
fn a_pipe_is_a_conversation_whose_history_the_client_tells() {
    let (server, _folder) = Server::simple();
    for (protocol, session) in BOTH.into_iter().zip(["one", "two"]) {
        let args = ["chat", "--protocol", protocol, "--session", session];
        let ran = run_with(server.command(&args), b"first\n\nsecond\n");
        assert_eq!(ran.ok(), "You said: first\nYou said: second\n");
        // Somebody who comes back tells what was said when they were away, too.
        let third = [&args[..], &["--json", "--once", "third"]].concat();
        let events = server.run(&third).json();
        let session = format!("sess_{session}");
        let turns = accepted(&server, &session);
        let recalled: Vec<u64> = turns.iter().map(|turn| turn["recall"].as_u64().unwrap()).collect();
        assert_eq!(recalled, [0, 2, 4], "{turns:?}");
        // The server found all of it again, and stored nothing twice.
        let show = server.run(&["sessions", "show", &session, "--json"]).json();
        let texts: Vec<&str> = show[0]["messages"]
            .as_array()
            .unwrap()
            .iter()
            .rev()
            .map(|message| message["parts"][0]["text"].as_str().unwrap())
            .collect();
        assert_eq!(
            texts,
            ["first", "You said: first", "second", "You said: second", "third", "You said: third"]
        );
        assert_eq!(text(&events), "You said: third");
        // A new conversation knows nothing of it.
        let fresh =
            server.run(&["chat", "--protocol", protocol, "--new", "--json", "--once", "think"]).json();
        let usage = fresh.iter().find(|event| event["event"] == "usage").unwrap();
        assert_eq!(usage["input_tokens"], 2, "an estimate of one word");
    }
}

#[test]
fn the_agent_answers_by_what_was_said_before() {
    let model = Model::start();
    let folder = tempfile::TempDir::new().unwrap();
    let base_url = format!("agents.parrot.base_url={}", model.base_url);
    let settings = ["agents.parrot.kind=openai", &base_url, "agents.parrot.model=m", "agent=parrot"];
    let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let server = Server::start(folder.path(), &args);
    for (protocol, session) in BOTH.into_iter().zip(["one", "two"]) {
        let args = ["chat", "--protocol", protocol, "--session", session];
        let ran = run_with(server.command(&args), b"I am Ann\nwho am I?\n");
        let first = "user: I am Ann";
        let second = format!("{first}; assistant: {first}; user: who am I?");
        assert_eq!(ran.ok(), format!("{first}\n{second}\n"));
        // And by what was said before this client came.
        let ran = server.run(&[&args[..], &["--once", "and now?"]].concat());
        assert_eq!(ran.ok(), format!("{second}; assistant: {second}; user: and now?\n"));
    }
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    for protocol in BOTH {
        let ran = run(&["chat", "--protocol", protocol, "--url", "ws://127.0.0.1:9", "--once", "hi"]);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""));
        for words in ["ws://127.0.0.1:9", "switchboard serve", "--url"] {
            assert!(ran.err.contains(words), "{}", ran.err);
        }
        assert_eq!(run(&["chat", "--protocol", protocol, "--url", "nonsense", "--once", "hi"]).code, 2);
    }
}

#[test]
fn a_killed_server_comes_back_and_the_answer_is_whole() {
    let (mut server, folder) = Server::simple();
    let mut command = server.command(&["chat", "--protocol", "acolyte", "--json", "--once", "count 80"]);
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Reader::new(chat.stdout.take().unwrap());
    let mut events: Vec<Value> = Vec::new();
    let mut killed = 0;
    let address = server.address.clone();
    loop {
        let event: Value = serde_json::from_str(&lines.line()).unwrap();
        let name = event["event"].as_str().unwrap().to_owned();
        events.push(event);
        match name.as_str() {
            "text" if killed < 2 && text(&events).ends_with(["10 ", "20 "][killed]) => {
                killed += 1;
                server.child.kill().unwrap();
                server.child.wait().unwrap();
                server = Server::start(folder.path(), &["--listen", &address]);
            }
            "end" | "error" => break,
            _ => {}
        }
    }
    let expected: String = (1..=80).map(|number| format!("{number} ")).collect();
    assert_eq!(text(&events), expected + "done.");
    assert_eq!(ended(&mut chat), 0);
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("start"), count("resumed"), killed), (1, 2, 2), "{events:?}");
    assert!(count("disconnected") >= 2);
}

#[test]
fn a_stream_that_is_cut_is_lost_with_the_name_of_its_task() {
    let (mut server, _folder) = Server::simple();
    let mut command =
        server.command(&["chat", "--protocol", "acolyte-sse", "--json", "--once", "count 1000"]);
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = Reader::new(chat.stdout.take().unwrap());
    let mut task = Value::Null;
    loop {
        let event: Value = serde_json::from_str(&lines.line()).unwrap();
        match event["event"].as_str().unwrap() {
            "start" => task = event["run"].clone(),
            "text" => break,
            _ => {}
        }
    }
    server.child.kill().unwrap();
    let rest = lines.rest();
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["task"]), (&"error".into(), &task));
    assert_eq!(ended(&mut chat), 1);
}

#[test]
fn waiting_and_failing_tools_are_told() {
    let server = Scripted::start(scripted::queue_then_tools());
    let ran = run(&["chat", "--protocol", "acolyte", "--url", &server.url, "--json", "--once", "hi"]);
    let events = ran.json();
    let queued: Vec<u64> = events.iter().filter_map(|event| event["position"].as_u64()).collect();
    assert_eq!(queued, [2, 1]);
    let failed = events.iter().find(|event| event["phase"] == "error").unwrap();
    assert_eq!((&failed["name"], &failed["code"]), (&"file-read".into(), &"E_FILE_NOT_FOUND".into()));
    assert_eq!(
        (ran.code, text(&events).as_str()),
        (1, "That file is missing."),
        "output is shown, and failed"
    );
    assert_eq!(events.last().unwrap()["text"], "the model gave up");
    once_more(&server);
}

/// The next client of the same server.
fn once_more(server: &Scripted) {
    let ran = run(&["chat", "--protocol", "acolyte", "--url", &server.url, "--once", "hi"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "That file is missing.\n"));
    assert!(ran.err.contains("mind the gap") && ran.err.contains("the model gave up"), "{}", ran.err);
}

#[test]
fn the_same_words_whatever_carries_them() {
    let (server, _folder) = Server::simple();
    let asp = server.run(&["chat", "--once", "hello", "--session", "x"]).ok();
    for protocol in BOTH {
        assert_eq!(once(&server, protocol, "hello"), asp);
    }
}
