//! The real binary, started by the tests: on a port of its own choice, with a data folder of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub(crate) mod aip;
pub(crate) mod found;
#[path = "../../../server/tests/support/rpc.rs"]
pub(crate) mod rpc;
#[path = "../../../server/tests/support/wire.rs"]
pub(crate) mod wire;

/// Credentials of the tests: name of the variable, value.
pub(crate) const SECRETS: &[(&str, &str)] = &[
    ("PEER_KEY_ANN", "key-of-ann-0123456789abcdef"),
    ("PEER_KEY_BOB", "key-of-bob-0123456789abcdef"),
    ("PEER_KEY_NARROW", "key-of-narrow-0123456789abcdef"),
    ("PEER_KEY_ADMIN", "key-of-admin-0123456789abcdef"),
    ("PEER_KEY_LAB", "key-of-lab-0123456789abcdef"),
    ("PEER_KEY_BOSS", "key-of-boss-0123456789abcdef"),
    ("PEER_KEY_SCOUT", "key-of-scout-0123456789abcdef"),
    ("PEER_KEY_MUTE", "key-of-mute-0123456789abcdef"),
    ("PEER_JWT_SECRET", "a-secret-that-is-shared-and-long-enough"),
    ("PEER_JWT_ISSUER", "https://issuer.test"),
    ("PEER_JWT_AUDIENCE", "https://switchboard.test"),
    ("PEER_FUNCTION_SECRET", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
];

/// The API key of the principal `ann`.
pub(crate) const ANN: Option<&str> = Some(SECRETS[0].1);
/// The API key of the principal `bob`.
pub(crate) const BOB: Option<&str> = Some(SECRETS[1].1);

/// Two principals by API key, one that reaches the agent `echo` only, one that may stop the server,
/// and one issuer of tokens; the conformance story speaks by default.
pub(crate) const BASIC: &[&str] = &[
    "listen=127.0.0.1:0",
    "auth.api_keys=[\
        {id='ann',key_env='PEER_KEY_ANN',principal='ann'},\
        {id='bob',key_env='PEER_KEY_BOB',principal='bob'},\
        {id='narrow',key_env='PEER_KEY_NARROW',principal='narrow',scopes=['connect','invoke','agent:echo']},\
        {id='admin',key_env='PEER_KEY_ADMIN',principal='admin',scopes=['connect','invoke','admin']}]",
    "auth.jwt=[{issuer='https://issuer.test',audience='https://switchboard.test',algorithm='HS256',\
        secret_env='PEER_JWT_SECRET',leeway_s=0,\
            default_scopes=['connect','read','invoke','tools','approve','manage','dispatch']}]",
    "agent=conformance",
    "agents.conformance.kind=script",
    "agents.conformance.builtin=conformance",
    "agents.echo.delay_ms=0",
];

/// Limits so high that a test meets none of them by accident.
pub(crate) const GENEROUS: &[&str] = &[
    "limits.new_connections_per_address_per_s=100000",
    "asp.limits.connections_per_s=100000",
    "asp.limits.connections_burst=100000",
    "limits.new_connections_per_address_burst=100000",
    "limits.principal_frames_per_s=1000000",
    "limits.principal_frames_burst=1000000",
    "limits.principal_bytes_per_s=1000000000",
    "limits.principal_bytes_burst=1000000000",
    "limits.principal_turns_per_s=100000",
    "limits.principal_turns_burst=100000",
    "asp.limits.frames_per_s=100000",
    "asp.limits.frames_burst=100000",
    "asp.limits.bytes_per_s=1000000000",
    "asp.limits.bytes_burst=1000000000",
    "asp.limits.invokes_per_s=100000",
    "asp.limits.invokes_burst=100000",
    "asp.limits.errors_per_min=1000",
    "asp.limits.errors_burst=1000",
];

/// The command line that serves with these settings: the only place that knows what it looks like.
fn serve_command(settings: &[String]) -> Command {
    let binary = env!("CARGO_BIN_EXE_switchboard");
    let help = Command::new(binary).arg("--help").output().expect("the binary runs");
    let mut command = Command::new(binary);
    if String::from_utf8_lossy(&help.stdout).contains("serve") {
        command.arg("serve");
        for setting in settings {
            command.args(["--set", setting]);
        }
    } else {
        command.args(settings);
    }
    command
}

/// A running server. Dropping it kills it without a word.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: SocketAddr,
    stderr: Option<std::thread::JoinHandle<String>>,
}

impl Served {
    /// Starts the binary and waits until it listens.
    pub(crate) fn start(data: &Path, settings: &[&[&str]]) -> Self {
        Self::start_with(None, data, settings)
    }

    /// The same, with a configuration file.
    pub(crate) fn start_with(file: Option<&Path>, data: &Path, settings: &[&[&str]]) -> Self {
        let mut all = vec![format!("data_dir={}", data.display())];
        all.extend(settings.iter().copied().flatten().map(ToString::to_string));
        let mut command = serve_command(&all);
        if let Some(file) = file {
            command.arg("--config").arg(file);
        }
        // Settings of whoever runs the tests are none of the server's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SWITCHBOARD_") {
                command.env_remove(name);
            }
        }
        let mut child = command
            .envs(SECRETS.iter().copied())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut errors = child.stderr.take().expect("piped");
        let stderr = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let address = loop {
            match lines.recv_timeout(Duration::from_secs(20)) {
                Ok(line) => {
                    if let Some(address) = listening_on(&line) {
                        break address;
                    }
                }
                Err(_) => {
                    let _ = child.kill();
                    panic!("the server does not listen: {}", stderr.join().unwrap_or_default());
                }
            }
        };
        Self { child, address, stderr: Some(stderr) }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/v1/agent-socket", self.address)
    }

    /// Where everything that is spoken over HTTP begins.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Asks the server to leave.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Tells the server that files have changed.
    pub(crate) fn reload(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Waits until the server has left; its status, and what it said on its way.
    pub(crate) fn wait(mut self, patience: Duration) -> (ExitStatus, String) {
        let began = now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                let said = self.stderr.take().and_then(|thread| thread.join().ok());
                return (status, said.unwrap_or_default());
            }
            assert!(began.elapsed() < patience, "the server does not leave");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address of a line such as `listening on 127.0.0.1:4600`, whatever else it says.
fn listening_on(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    let word = rest.split_whitespace().next()?;
    let word = word.rsplit_once("://").map_or(word, |(_, word)| word).trim_end_matches(['/', ',', '.']);
    word.parse().ok()
}

/// A peer in Python; what is missing makes the test fail.
pub(crate) fn python(script: &str) -> Command {
    let own = root().join(".venv/bin/python");
    let python = if own.exists() { own } else { PathBuf::from("python3") };
    let works =
        Command::new(&python).args(["-c", "import websockets.asyncio.client, msgpack, httpx"]).output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "{} with the packages of tests/peers/python/requirements.txt is missing: run script/setup",
        python.display()
    );
    let mut command = Command::new(python);
    command.arg(root().join("tests/peers/python").join(script)).env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(SECRETS.iter().copied());
    command
}

/// A peer in JavaScript; what is missing makes the test fail.
pub(crate) fn node(script: &str) -> Command {
    let peers = root().join("tests/peers/node");
    let works = Command::new("node").arg("--version").output();
    let has = |package: &&str| peers.join("node_modules").join(package).join("package.json").exists();
    assert!(
        works.is_ok_and(|output| output.status.success()) && ["ws", "react", "msgpackr"].iter().all(has),
        "node or a package of tests/peers/node is missing: run script/setup"
    );
    let mut command = Command::new("node");
    command.arg(peers.join(script)).envs(SECRETS.iter().copied());
    command
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

#[expect(clippy::disallowed_methods, reason = "a test of a real process has to wait in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
