//! Starts the binary and watches it.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The binary, untouched by whatever the environment of the tests says.
pub(crate) fn switchboard(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    command.args(args);
    clean(&mut command);
    command
}

/// Takes out of the environment what would change a test.
pub(crate) fn clean(command: &mut Command) {
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("SWITCHBOARD") || matches!(&*name, "NO_COLOR" | "RUST_LOG") {
            command.env_remove(&variable);
        }
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Insists on success; answers the output.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// The lines of the output as JSON.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs a command to its end, with something on its input.
pub(crate) fn run_with(mut command: Command, input: &[u8]) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may not want all of it.
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    output.into()
}

/// Runs the binary to its end, with nothing on its input.
pub(crate) fn run(args: &[&str]) -> Ran {
    run_with(switchboard(args), b"")
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Waits for the end of a process; kills it if it does not end.
pub(crate) fn ended(child: &mut Child) -> i32 {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("the process does not end");
}

/// A server on a port of its own choice.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) address: String,
    output: Reader,
    errors: Reader,
}

impl Server {
    /// Starts one with its data in the folder.
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_with(folder, args, &[])
    }

    /// The same, with variables in its environment.
    pub(crate) fn start_with(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let data = folder.join("data");
        let mut all = vec!["serve", "--data-dir", data.to_str().unwrap()];
        if !args.contains(&"--listen") {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        all.extend(args);
        let mut command = switchboard(&all);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = Reader::new(child.stdout.take().unwrap());
        let errors = Reader::new(child.stderr.take().unwrap());
        let line = output.line();
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, url: format!("ws://{address}"), address, output, errors }
    }

    /// One with the defaults, and its folder.
    pub(crate) fn simple() -> (Self, TempDir) {
        let folder = TempDir::new().unwrap();
        (Self::start(folder.path(), &[]), folder)
    }

    /// Lets it end in an orderly way; answers its exit code, what it printed after its first line,
    /// and its log.
    pub(crate) fn stop(mut self) -> (i32, String, String) {
        signal(&self.child, "TERM");
        let code = ended(&mut self.child);
        (code, self.output.rest(), self.errors.rest())
    }

    /// The binary, with arguments, talking to this server.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = switchboard(args);
        command.args(["--url", &self.url]);
        command
    }

    /// Runs the binary against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run_with(self.command(args), b"")
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, holds: impl Fn() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "this does not come true");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The next line of its log that holds a text.
    pub(crate) fn logged(&self, text: &str) -> String {
        loop {
            let line = self.errors.line();
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lines of a stream as they come.
#[derive(Debug)]
pub(crate) struct Reader {
    lines: mpsc::Receiver<String>,
}

impl Reader {
    pub(crate) fn new(stream: impl Read + Send + 'static) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// The next line.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// Everything until the end.
    pub(crate) fn rest(&self) -> String {
        self.lines.iter().map(|line| line + "\n").collect()
    }
}

/// Longer than anything takes, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
