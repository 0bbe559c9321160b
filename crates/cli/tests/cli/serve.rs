//! `serve`: from the first line to the exit code.

use std::process::Stdio;

use tempfile::TempDir;

use crate::support::{Reader, Server, ended, run, run_with, signal};

#[test]
fn one_line_is_printed_and_a_signal_ends_it() {
    let (server, folder) = Server::simple();
    assert!(server.address.starts_with("127.0.0.1:"));
    let (code, rest, log) = server.stop();
    assert_eq!((code, rest.as_str()), (0, ""), "{log}");
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");
    assert!(folder.path().join("data/switchboard.db").exists());
}

#[test]
fn a_second_signal_does_not_wait_for_running_turns() {
    let (mut server, _folder) = Server::simple();
    let mut command = server.command(&["chat", "--once", "count 1000", "--json"]);
    let mut chat = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let events = Reader::new(chat.stdout.take().unwrap());
    while !events.line().contains("\"text\"") {}
    signal(&server.child, "TERM");
    server.logged("draining");
    assert!(server.child.try_wait().unwrap().is_none(), "a turn is running");
    signal(&server.child, "TERM");
    assert_eq!(ended(&mut server.child), 130);
    chat.kill().unwrap();
    chat.wait().unwrap();
}

#[test]
fn a_hangup_reads_revocations_again() {
    let made = run(&["keys", "new", "--id", "laptop", "--principal", "alice"]);
    let key = made.err.split_whitespace().last().unwrap().to_owned();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("switchboard.toml");
    std::fs::write(&file, made.ok()).unwrap();
    let server = Server::start(folder.path(), &["--config", file.to_str().unwrap()]);
    let chat = || {
        let mut command = server.command(&["chat", "--once", "still there?"]);
        command.env("SWITCHBOARD_TOKEN", &key);
        run_with(command, b"")
    };
    assert_eq!(chat().ok(), "You said: still there?\n");

    let revoked = folder.path().join("data/revoked.json");
    std::fs::write(&revoked, "nonsense").unwrap();
    signal(&server.child, "HUP");
    server.logged("nothing was reloaded");
    assert_eq!(chat().ok(), "You said: still there?\n");

    std::fs::write(&revoked, r#"{"api_keys": ["laptop"]}"#).unwrap();
    signal(&server.child, "HUP");
    server.logged("were read again");
    assert_eq!(chat().code, 3);
    assert_eq!(server.stop().0, 0);
}

#[test]
fn an_address_in_use_is_said() {
    let (server, folder) = Server::simple();
    let data = folder.path().join("other");
    let ran = run(&["serve", "--listen", &server.address, "--data-dir", data.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("--listen") && ran.err.contains(&server.address), "{}", ran.err);
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().to_str().unwrap();
    let ran = run(&["serve", "--listen", "0.0.0.0:0", "--data-dir", data]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("auth"), "{}", ran.err);
    let ran = run(&["serve", "--set", "agent=nobody", "--listen", "127.0.0.1:0", "--data-dir", data]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("nobody") && ran.err.contains("config doc"), "{}", ran.err);
}
