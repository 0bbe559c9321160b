//! The binary as a relay: functions in languages that need nothing of ours, asked by a client that
//! nobody here wrote.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use support::{GENEROUS, Served, root};

/// An example function, in a process of its own.
struct Function {
    child: Child,
    url: String,
    said: mpsc::Receiver<String>,
}

impl Function {
    fn start(program: &str, script: &str) -> Self {
        let mut child = Command::new(program)
            .arg(root().join("examples").join(script))
            .arg("0")
            .env("FUNCTION_SECRET", SECRET)
            .env("PYTHONUNBUFFERED", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be started ({error}): run script/setup"));
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = output.next().expect("the function says where it listens");
        let url = line.split_once("listening on ").expect("an address").1.trim().to_owned();
        let (sender, said) = mpsc::channel();
        let errors = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, url, said }
    }

    /// Waits until the function says that it was cancelled.
    fn was_cancelled(&self) -> String {
        loop {
            let line = self.said.recv_timeout(Duration::from_secs(20)).expect("the function is cancelled");
            if line.contains("cancelled inv=") {
                return line;
            }
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(data: &std::path::Path, function: &Function) -> Served {
    let settings = [
        "listen=127.0.0.1:0".to_owned(),
        "auth.api_keys=[{id='ann',key_env='PEER_KEY_ANN',principal='ann'}]".to_owned(),
        "agent=fn".to_owned(),
        "agents.fn.kind=function".to_owned(),
        format!("agents.fn.url={}", function.url),
        // Any variable of the tests will do that holds such a secret.
        "agents.fn.secret_env=PEER_FUNCTION_SECRET".to_owned(),
        "agents.fn.allow_private=true".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Served::start(data, &[&settings, GENEROUS])
}

fn check(function: &Function) {
    let data = tempfile::tempdir().unwrap();
    let server = serve(data.path(), function);
    let output = support::python("relay_peer.py").arg(server.url()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<_> = said.lines().filter(|line| !line.starts_with("ok ")).collect();
    assert!(
        output.status.success() && said.lines().count() > 12,
        "{}\n{}",
        failed.join("\n"),
        String::from_utf8_lossy(&output.stderr)
    );
    let cancelled = function.was_cancelled();
    assert!(["by=abort", "by=interrupt", "by=poll"].iter().any(|by| cancelled.contains(by)), "{cancelled}");
}

#[test]
fn a_function_in_plain_python() {
    check(&Function::start("python3", "function-python/function.py"));
}

#[test]
fn a_function_in_node() {
    check(&Function::start("node", "function-node/function.mjs"));
}

const SECRET: &str = support::SECRETS[11].1;
