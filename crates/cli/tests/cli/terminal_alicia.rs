//! `chat` over Alicia at a terminal.

use tempfile::TempDir;

use crate::support::{Server, ended};
use crate::terminal::Terminal;

#[test]
fn a_conversation_at_a_terminal() {
    let (server, _folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let args = "--protocol alicia --session tea";
    let mut terminal = Terminal::chat(&server.url, &home, args);
    terminal.see("session tea");
    terminal.see("> ");
    terminal.press("think\r");
    terminal.see("\x1b[2mThe ");
    terminal.see("I have thought");
    terminal.see("> ");
    terminal.press("use a tool\r");
    terminal.see("· list_files");
    terminal.see("I found three files");
    terminal.see("> ");
    terminal.press("fail\r");
    terminal.see("the demo was asked to fail");
    terminal.see("> ");
    terminal.press("count 1000\r");
    // It says nothing before its first sentence is complete.
    std::thread::sleep(std::time::Duration::from_millis(500));
    terminal.press("\x03");
    terminal.see("interrupted");
    terminal.see("> ");
    terminal.press("/help\r");
    terminal.see("/branches shows everything");
    terminal.press("/edit think again\r");
    terminal.see("I have thought");
    terminal.see("> ");
    terminal.press("/again\r");
    terminal.see("I have thought");
    terminal.see("· 2/2");
    terminal.see("> ");
    terminal.press("/branches\r");
    terminal.see("> count 1000 1/2");
    terminal.see("> think again 2/2");
    terminal.press("/quit\r");
    assert_eq!(ended(&mut terminal.child), 0);

    // Whoever comes back sees what was said.
    let mut terminal = Terminal::chat(&server.url, &home, args);
    terminal.see("> think");
    terminal.see("> think again (2/2)");
    terminal.see("I have thought");
    terminal.see("(2/2)");
    terminal.see("> ");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
}

#[test]
fn a_lost_connection_is_shown_and_heals() {
    let (mut server, folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "--protocol alicia");
    terminal.see("> ");
    terminal.press("hello\r");
    terminal.see("> ");
    let address = server.address.clone();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    terminal.see("connection lost");
    terminal.see("reconnecting");
    let server = Server::start(folder.path(), &["--listen", &address]);
    terminal.see("connected again");
    terminal.press("and on\r");
    terminal.see("You said: and on");
    terminal.see("> ");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
    drop(server);
}

#[test]
fn what_another_device_says_is_shown() {
    let (server, _folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "--protocol alicia --session tea");
    terminal.see("> ");
    server.run(&["chat", "--protocol", "alicia", "--session", "tea", "--once", "from afar"]).ok();
    terminal.see("elsewhere: from afar");
    terminal.see("You said: from afar");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
}
