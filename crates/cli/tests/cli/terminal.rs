//! `chat` at a terminal: typed, watched, interrupted. `script` of util-linux plays the terminal.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tempfile::TempDir;

use crate::support::{PATIENCE, Server, clean, ended};

pub(crate) struct Terminal {
    pub(crate) child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<String>>,
    seen: usize,
}

impl Terminal {
    pub(crate) fn chat(url: &str, home: &TempDir, more: &str) -> Self {
        Self::start(&format!("chat --url {url} {more}"), home)
    }

    /// The binary with these arguments.
    pub(crate) fn start(arguments: &str, home: &TempDir) -> Self {
        let binary = env!("CARGO_BIN_EXE_switchboard");
        // A shell that stays in between takes Ctrl-C for itself, and ends with a code of its own.
        let line = format!("exec '{binary}' {arguments}");
        let mut command = Command::new("script");
        command.args(["-qfec", &line, "/dev/null"]);
        clean(&mut command);
        command.env("HOME", home.path()).env_remove("XDG_STATE_HOME").env("TERM", "xterm-256color");
        // Which `script` would use otherwise.
        command.env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let into = shown.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                into.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
        });
        Self { child, keys, shown, seen: 0 }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until a text is shown after what was waited for before.
    pub(crate) fn see(&mut self, text: &str) {
        let begin = Instant::now();
        loop {
            let shown = self.shown.lock().unwrap().clone();
            if let Some(at) = shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{text:?} is not shown after {:?}", &shown[self.seen..]);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_conversation_at_a_terminal() {
    let (server, _folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "");
    terminal.see("session chat");
    terminal.see("> ");
    terminal.press("think\r");
    terminal.see("\x1b[2mThe ");
    terminal.see("I have thought");
    terminal.see("> ");
    terminal.press("plan\r");
    terminal.see("Make tea");
    terminal.see("[x]");
    terminal.see("ready.");
    terminal.see("> ");

    terminal.press("count 1000\r");
    terminal.see("7 8 ");
    terminal.press("\x03");
    terminal.see("interrupted");
    terminal.see("> ");

    terminal.press("ask me\r");
    terminal.see("Tea or coffee?");
    terminal.see("? ");
    terminal.press("tea\r");
    terminal.see("Tea it is.");
    terminal.see("> ");

    terminal.press("\x03");
    terminal.see("once more leaves");
    terminal.see("> ");
    terminal.press("\x03");
    assert_eq!(ended(&mut terminal.child), 0);

    // Whoever comes back sees what was said, and finds it under the arrow key.
    let mut terminal = Terminal::chat(&server.url, &home, "");
    terminal.see("> think");
    terminal.see("Tea it is.");
    terminal.see("> ");
    terminal.press("\x1b[A\x1b[A\x1b[A\x1b[A\x1b[A\r");
    terminal.see("\x1b[2mThe ");
    terminal.press("\x04");
    terminal.see("> ");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
}

#[test]
fn a_lost_connection_is_shown_and_heals() {
    let (mut server, folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "");
    terminal.see("> ");
    terminal.press("count 20\r");
    terminal.see("5 6 ");
    let address = server.address.clone();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    terminal.see("connection lost");
    terminal.see("reconnecting");
    let server = Server::start(folder.path(), &["--listen", &address]);
    terminal.see("connected again, nothing was lost");
    terminal.see("20 done.");
    terminal.see("> ");
    terminal.press("and on\r");
    terminal.see("You said: and on");
    terminal.see("> ");
    terminal.press("\x04");
    assert_eq!(ended(&mut terminal.child), 0);
    drop(server);
}

#[test]
fn nothing_of_the_agents_steers_the_terminal_and_colours_can_be_off() {
    let (server, _folder) = Server::simple();
    let home = TempDir::new().unwrap();
    let mut terminal = Terminal::chat(&server.url, &home, "--once 'a \x1b[31mb'");
    assert_eq!(ended(&mut terminal.child), 0);
    assert!(terminal.shown().contains("You said: a [31mb"), "{:?}", terminal.shown());
    let mut terminal = Terminal::chat(&server.url, &home, "--once think");
    assert_eq!(ended(&mut terminal.child), 0);
    assert!(!terminal.shown().contains('\x1b'), "{:?}", terminal.shown());
}
