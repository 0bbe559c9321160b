//! `device`: a machine that agents use, what it refuses, and how it comes and goes.

use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use tempfile::TempDir;

use crate::support::{Ran, Reader, Server, ended, run, run_with, signal, switchboard};
use crate::terminal::Terminal;

/// A device without a terminal, and the folder it shares.
pub(crate) struct Device {
    pub(crate) child: Child,
    pub(crate) output: Reader,
    pub(crate) folder: TempDir,
}

impl Device {
    /// Starts `lab-1` and waits until it is connected.
    pub(crate) fn connected(url: &str, more: &[&str]) -> Self {
        let device = Self::start(url, more);
        assert!(device.output.line().starts_with("sharing "));
        device.says("connected as lab-1");
        device
    }

    pub(crate) fn start(url: &str, more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("README.md"), "read me\n").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let mut command = switchboard(&["device", "--id", "lab-1", "--server", url, "--root"]);
        command.arg(folder.path()).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = Reader::new(child.stdout.take().unwrap());
        Self { child, output, folder }
    }

    /// Waits for a line with this text.
    pub(crate) fn says(&self, text: &str) -> String {
        loop {
            let line = self.output.line();
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn task(server: &Server, request: &str) -> Ran {
    server.run(&["devices", "run", request, "--device", "lab-1"])
}

/// The same while the test goes on.
fn begin(server: &Server, request: &str) -> JoinHandle<Ran> {
    let command = server.command(&["devices", "run", request, "--device", "lab-1"]);
    std::thread::spawn(move || run_with(command, b""))
}

#[test]
fn a_task_uses_the_tools_of_the_device() {
    let (server, _folder) = Server::simple();
    let device = Device::connected(&server.url, &["--allow", "uname", "echo"]);
    let ran = task(&server, "run: echo 'a  b'");
    assert_eq!((ran.code, ran.out.as_str()), (0, "a  b\n"), "{ran:?}");
    for line in
        ["→ list_tools", "✓ list_tools (", "→ run_command echo 'a b'", "✓ run_command (", "✓ done in "]
    {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    device.says("running run_command echo 'a b'");
    device.says("✓ run_command echo 'a b' (");
    device.says("the task is done");
    assert_eq!(task(&server, "list: .").ok(), "README.md  8\nsub/\n");
    assert_eq!(task(&server, "read: README.md").ok(), "read me\n");
    assert_eq!(task(&server, "run: uname").ok(), "Linux\n");
    let failed = task(&server, "run: uname --nonsense");
    assert_eq!(failed.code, 1);
    assert!(failed.err.contains("✗ run_command: exit code 1"), "{}", failed.err);
    device.says("✗ run_command uname --nonsense (exit code 1, ");
}

#[test]
fn what_is_not_allowed_is_refused_and_says_why() {
    let (server, _folder) = Server::simple();
    let device = Device::connected(&server.url, &["--allow", "uname"]);
    let secret = TempDir::new().unwrap();
    std::fs::write(secret.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(secret.path(), device.folder.path().join("link")).unwrap();
    let secret = secret.path().join("secret");
    for (request, why) in [
        ("run: id".to_owned(), "needs the consent of the device's user"),
        ("run: uname; id".to_owned(), "needs the consent of the device's user"),
        ("run: uname > x".to_owned(), "needs the consent of the device's user"),
        ("read: ../../../etc/passwd".to_owned(), "outside of the folder"),
        ("read: /etc/passwd".to_owned(), "outside of the folder"),
        ("read: link/secret".to_owned(), "outside of the folder"),
        (format!("read: {}", secret.display()), "outside of the folder"),
        ("list: ..".to_owned(), "outside of the folder"),
        ("list: link".to_owned(), "outside of the folder"),
        ("read: none".to_owned(), "none: no such file"),
        ("call write_file {\"path\":\"x\",\"content\":\"y\"}".to_owned(), "needs the consent"),
        ("call screenshot {}".to_owned(), "no such tool: screenshot"),
        ("call nothing {}".to_owned(), "no such tool: nothing"),
    ] {
        let ran = task(&server, &request);
        let said = format!("{}{}", ran.out, ran.err);
        assert!(said.contains(why), "{request}: {said}");
        assert!(!request.starts_with("r") || ran.code == 1, "{request}: {ran:?}");
    }
    assert!(!device.folder.path().join("x").exists());
}

#[test]
fn with_yes_everything_is_done() {
    let (server, _folder) = Server::simple();
    let device = Device::connected(&server.url, &["--yes"]);
    assert_eq!(task(&server, "run: cd sub && pwd | tail -c 4; umask >/dev/null").ok(), "sub\n");
    assert_eq!(task(&server, "run: type cd").code, 0);
    let ran = task(&server, "call write_file {\"path\":\"sub/new\",\"content\":\"hello\"}");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(std::fs::read_to_string(device.folder.path().join("sub/new")).unwrap(), "hello");
    let ran = task(&server, "call write_file {\"path\":\"../new\",\"content\":\"hello\"}");
    assert!(ran.out.contains("outside of the folder"), "{ran:?}");
}

#[test]
fn aip_100_at_a_terminal_the_user_is_asked_and_told_for_whom() {
    let (server, folder) = Server::simple();
    let line = format!("device --id lab-1 --server {} --root {}", server.url, folder.path().display());
    let mut terminal = Terminal::start(&line, &folder);
    terminal.see("connected as lab-1");
    // What is typed before the question is no answer to it.
    terminal.press("y\r");
    let run = begin(&server, "run: echo one; echo two");
    terminal.see("asked by dev, over aip");
    terminal.see(": run: echo one; echo two");
    terminal.see("run echo one; echo two");
    terminal.see("Allow? [y/N]");
    terminal.press("y\r");
    assert_eq!(run.join().unwrap().ok(), "one\ntwo\n");
    let run = begin(&server, "run: echo \x1b[2J three");
    terminal.see("run \"echo \\u{1b}[2J three\"");
    terminal.see("Allow? [y/N]");
    terminal.press("\r");
    let ran = run.join().unwrap();
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("the device's user said no"), "{}", ran.err);
    // A question that nobody waits for is taken back, and the next one is asked.
    let mut unwanted = server.command(&["devices", "run", "run: echo four", "--device", "lab-1"]);
    let mut unwanted = unwanted.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    terminal.see("run echo four");
    signal(&unwanted, "INT");
    assert_eq!(ended(&mut unwanted), 130);
    terminal.see("not wanted any more");
    let run = begin(&server, "run: echo five");
    terminal.see("run echo five");
    terminal.see("Allow? [y/N]");
    terminal.press("yes\r");
    assert_eq!(run.join().unwrap().ok(), "five\n");
    terminal.press("\x03");
    terminal.see("leaving");
    assert_eq!(ended(&mut terminal.child), 0);
}

#[test]
fn a_home_folder_that_nobody_named_is_not_read_without_asking() {
    let (server, _folder) = Server::simple();
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("diary"), "dear diary\n").unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let start = |home: &std::path::Path, more: &[&str]| {
        let mut command = switchboard(&["device", "--id", "lab-1", "--server", &server.url]);
        command.args(more).current_dir(folder.path()).env("HOME", home);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = Reader::new(child.stdout.take().unwrap());
        let device = Device { child, output, folder: TempDir::new().unwrap() };
        device.says("connected as lab-1");
        device
    };
    let gone = || server.until(|| server.run(&["devices", "list", "--online"]).out.is_empty());
    // Also where the home folder is somewhere below.
    for home in [folder.path().to_owned(), folder.path().join("work")] {
        let device = start(&home, &[]);
        for request in ["read: diary", "list: ."] {
            let ran = task(&server, request);
            assert!(format!("{}{}", ran.out, ran.err).contains("needs the consent"), "{request}: {ran:?}");
        }
        drop(device);
        gone();
    }
    let elsewhere = TempDir::new().unwrap();
    for (home, more) in
        [(folder.path(), &["--root", "."][..]), (folder.path(), &["--yes"]), (elsewhere.path(), &[])]
    {
        let device = start(home, more);
        assert_eq!(task(&server, "read: diary").ok(), "dear diary\n", "{more:?}");
        drop(device);
        gone();
    }
}

#[test]
fn commands_are_given_few_variables() {
    let (server, _folder) = Server::simple();
    let folder = TempDir::new().unwrap();
    let mut command =
        switchboard(&["device", "--id", "lab-1", "--server", &server.url, "--allow", "printenv"]);
    command.args(["--env", "WANTED", "--root"]).arg(folder.path());
    command.envs([("SECRETX", "hidden"), ("WANTED", "shown")]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let output = Reader::new(child.stdout.take().unwrap());
    let device = Device { child, output, folder };
    device.says("connected as lab-1");
    let said = task(&server, "run: printenv").ok();
    assert!(said.contains("WANTED=shown") && said.contains("PATH=") && !said.contains("SECRETX"), "{said}");
}

#[test]
fn a_device_waits_for_its_server_and_comes_back_to_it() {
    let folder = TempDir::new().unwrap();
    let address = {
        let server = Server::start(folder.path(), &[]);
        server.address.clone()
    };
    let device = Device::start(&format!("ws://{address}"), &["--allow", "echo"]);
    device.says("the server cannot be reached");
    let mut server = Server::start(folder.path(), &["--listen", &address]);
    device.says("connected as lab-1");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let line = device.says("lost the connection, trying again in");
    assert!(line.ends_with(" s"), "{line}");
    let server = Server::start(folder.path(), &["--listen", &address]);
    device.says("connected as lab-1");
    assert_eq!(task(&server, "run: echo again").ok(), "again\n");
}

#[test]
fn ctrl_c_cancels_the_task_and_what_it_runs() {
    let (server, _folder) = Server::simple();
    let device = Device::connected(&server.url, &["--allow", "sleep"]);
    let mut command = server.command(&["devices", "run", "run: sleep 6161.5", "--device", "lab-1"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = Reader::new(child.stderr.take().unwrap());
    device.says("running run_command sleep");
    let sleeps = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines
            .any(|line| line.starts_with(b"sleep\x006161.5") || line.starts_with(b"/usr/bin/sleep\x006161.5"))
    };
    server.until(sleeps);
    signal(&child, "INT");
    assert_eq!(ended(&mut child), 130);
    let said = errors.rest();
    assert!(said.contains("cancelling") && said.contains("✗ the task was cancelled after"), "{said}");
    device.says("the task failed: cancelled: interrupted by the user");
    server.until(|| !sleeps());
    // It is free again.
    assert_eq!(task(&server, "run: sleep 0").ok(), "");
}

#[test]
fn a_device_that_leaves_is_offline_and_its_task_fails() {
    let (server, _folder) = Server::simple();
    let mut device = Device::connected(&server.url, &["--allow", "sleep"]);
    let mut command = server.command(&["devices", "run", "run: sleep 6262.5", "--device", "lab-1"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = Reader::new(child.stderr.take().unwrap());
    device.says("running run_command sleep");
    signal(&device.child, "INT");
    device.says("leaving");
    assert_eq!(ended(&mut device.child), 0);
    assert_eq!(ended(&mut child), 1);
    let said = errors.rest();
    assert!(said.contains("target device disconnected"), "{said}");
    let listed = &server.run(&["devices", "list", "--json"]).json()[0];
    assert_eq!(listed["online"], false);
    let ran = task(&server, "run: sleep 1");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("the device lab-1 is not connected"), "{}", ran.err);
}

#[test]
fn one_name_is_for_one_device() {
    let (server, _folder) = Server::simple();
    let _device = Device::connected(&server.url, &[]);
    let second = Device::start(&server.url, &[]);
    let line = second.says("already registered");
    assert!(line.contains("trying again in"), "{line}");
}

#[test]
fn devices_show_their_token() {
    let folder = TempDir::new().unwrap();
    let scopes = "connect,invoke,device:lab-*,constellation:*";
    let made = run(&["keys", "new", "--id", "lab", "--principal", "lab", "--scopes", scopes]);
    let (config, file) = (folder.path().join("switchboard.toml"), folder.path().join("key"));
    let key = made.err.trim().rsplit(' ').next().unwrap();
    std::fs::write(&file, key).unwrap();
    std::fs::write(&config, &made.out).unwrap();
    let server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let mut refused = Device::start(&server.url, &[]);
    assert_eq!(ended(&mut refused.child), 3);
    let token = ["--token-file", file.to_str().unwrap()];
    let device = Device::connected(&server.url, &[&token[..], &["--allow", "printenv"]].concat());
    let ran = server.run(&[&["devices", "run", "run: printenv", "--device", "lab-1"][..], &token].concat());
    assert!(!ran.out.contains(key), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(server.run(&["devices", "list"]).code, 3);
    drop(device);
    let mut other = switchboard(&["device", "--id", "desk", "--server", &server.url]);
    let mut other =
        other.args(token).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let errors = Reader::new(other.stderr.take().unwrap());
    assert_eq!(ended(&mut other), 3);
    assert!(errors.rest().contains("not permitted for this credential"));
}

#[test]
fn arguments_that_cannot_be_used_are_refused() {
    assert_eq!(run(&["device"]).code, 2);
    assert_eq!(run(&["device", "--id", " "]).code, 2);
    let ran = run(&["device", "--id", "a", "--root", "/no/such/folder"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/no/such/folder cannot be shared: no such file or directory"), "{}", ran.err);
    assert_eq!(run(&["device", "--id", "a", "--server", "ftp://x"]).code, 2);
    let ran = run(&["device", "--id", "a", "--env", "SWITCHBOARD_TOKEN"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("SWITCHBOARD_TOKEN belongs to switchboard itself"), "{}", ran.err);
    let help = run(&["device", "--help"]).ok();
    assert!(help.contains("switchboard devices run") && help.contains("--allow"), "{help}");
}
