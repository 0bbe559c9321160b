//! `chat` over Acolyte at a terminal.

use tempfile::TempDir;

use crate::scripted::{self, Scripted};
use crate::support::{Server, ended};
use crate::terminal::Terminal;

#[test]
fn a_conversation_at_a_terminal() {
    let (server, _folder) = Server::simple();
    for protocol in ["acolyte", "acolyte-sse"] {
        let home = TempDir::new().unwrap();
        let session = protocol.replace('-', "");
        let args = format!("--protocol {protocol} --session {session}");
        let mut terminal = Terminal::chat(&server.url, &home, &args);
        terminal.see(&format!("session sess_{session}"));
        terminal.see("> ");
        terminal.press("think\r");
        terminal.see("\x1b[2mThe ");
        terminal.see("I have thought");
        terminal.see("input tokens");
        terminal.see("output tokens");
        terminal.see("> ");
        terminal.press("plan\r");
        terminal.see("Make tea");
        terminal.see("[>]");
        terminal.see("[ ]");
        terminal.see("[x]");
        terminal.see("ready.");
        terminal.see("> ");
        terminal.press("use a tool\r");
        terminal.see("· list_files .");
        terminal.see("    README.md");
        terminal.see("I found three files");
        terminal.see("> ");

        terminal.press("count 1000\r");
        terminal.see("7 8 ");
        terminal.press("\x03");
        terminal.see("interrupted");
        terminal.see("> ");
        terminal.press("fail\r");
        terminal.see("the demo was asked to fail");
        terminal.see("> ");
        terminal.press("/quit\r");
        assert_eq!(ended(&mut terminal.child), 0);

        // Whoever comes back sees what was said.
        let mut terminal = Terminal::chat(&server.url, &home, &args);
        terminal.see("> think");
        terminal.see("I have thought");
        terminal.see("> count 1000");
        terminal.see("> fail");
        terminal.see("> ");
        terminal.press("and on\r");
        terminal.see("You said: and on");
        terminal.see("> ");
        terminal.press("\x04");
        assert_eq!(ended(&mut terminal.child), 0);
    }
}

#[test]
fn a_lost_connection_is_shown_and_heals() {
    let (mut server, folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "--protocol acolyte");
    terminal.see("> ");
    terminal.press("count 60\r");
    terminal.see("5 6 ");
    let address = server.address.clone();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    terminal.see("connection lost");
    terminal.see("reconnecting");
    let server = Server::start(folder.path(), &["--listen", &address]);
    terminal.see("connected again, nothing was lost");
    terminal.see("60 done.");
    let shown = terminal.shown();
    let (_, answer) = shown.rsplit_once("count 60").unwrap();
    let (answer, _) = answer.split_once("done.").unwrap();
    let numbers: Vec<u32> = answer.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers, (1..=60).collect::<Vec<u32>>(), "each word once: {answer:?}");
    terminal.see("> ");
    terminal.press("and on\r");
    terminal.see("You said: and on");
    terminal.see("> ");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
    drop(server);
}

#[test]
fn what_waits_and_what_fails_is_shown() {
    let server = Scripted::start(scripted::queue_then_tools());
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "--protocol acolyte");
    terminal.see("the agent is not told of it");
    terminal.see("> ");
    terminal.press("hi\r");
    terminal.see("number 2 in line");
    terminal.see("number 1 in line");
    terminal.see("· mind the gap");
    terminal.see("· shell-run echo");
    terminal.see("    echo hi");
    terminal.see("    hi there");
    terminal.see("· file-read gone.txt");
    terminal.see("✗ file-read failed (E_FILE_NOT_FOUND)");
    terminal.see("That file is missing.");
    terminal.see("the model gave up");
    terminal.see("> ");
    assert_eq!(terminal.shown().matches("in line").count(), 2);
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
}
