//! Recordings of real sessions, replayed against the real binary: every file in `tests/recordings`
//! is a test. And the commands that make and replay them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::{BASIC, SECRETS, Served};

/// Nobody needs a credential, and the conformance story speaks.
const STORY: &[&str] = &[
    "listen=127.0.0.1:0",
    "agent=story",
    "agents.story.kind=script",
    "agents.story.builtin=conformance",
    "aip.test_planner=true",
];

/// The binary, untouched by whatever the environment of the tests says.
fn switchboard(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchboard"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SWITCHBOARD_") {
            command.env_remove(name);
        }
    }
    command.args(args).envs(SECRETS.iter().copied()).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    let Output { status, stdout, stderr } = output;
    format!("{status}\n{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
}

/// Runs it, and insists on success.
fn done(args: &[&str]) -> String {
    let output = switchboard(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it, and insists on exit code 1.
fn refused(args: &[&str]) -> String {
    let output = switchboard(args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn recordings() -> Vec<PathBuf> {
    let folder = support::root().join("tests/recordings");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    files
}

fn recording(name: &str) -> String {
    std::fs::read_to_string(support::root().join("tests/recordings").join(name)).unwrap()
}

fn header(path: &Path) -> Value {
    serde_json::from_str(std::fs::read_to_string(path).unwrap().lines().next().unwrap()).unwrap()
}

#[test]
fn every_recording_is_answered_as_it_was_recorded() {
    let files = recordings();
    let mut seen = std::collections::BTreeSet::new();
    let mut wrong = Vec::new();
    for path in &files {
        let header = header(path);
        seen.insert(header["protocol"].as_str().unwrap().to_owned());
        let data = tempfile::tempdir().unwrap();
        let file = path.to_str().unwrap();
        let mut ways = Vec::new();
        if header["kind"] == "log" {
            ways.push(vec!["replay", file, "--check"]);
        }
        // Each has a server of its own: what the recorded client calls things must be new to it.
        let server = Served::start(data.path(), &[STORY]);
        let base = server.base();
        ways.push(vec!["replay", file, "--to", &base, "--fast", "--check"]);
        for way in ways {
            let output = switchboard(&way).output().unwrap();
            if !output.status.success() {
                wrong.push(format!("{}: {}", path.display(), text(&output)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for protocol in ["acolyte", "aip", "alicia", "asp", "vip"] {
        assert!(seen.contains(protocol), "there is no recording of {protocol}");
    }
}

/// A recording whose first line with `old` says `new` instead; what `--check` says of it.
fn altered(name: &str, old: &str, new: &str) -> String {
    let data = tempfile::tempdir().unwrap();
    let text = recording(name);
    assert!(text.contains(old), "{name} does not hold {old}");
    let file = data.path().join("altered.jsonl");
    std::fs::write(&file, text.replacen(old, new, 1)).unwrap();
    let server = Served::start(&data.path().join("server"), &[STORY]);
    refused(&[
        "replay",
        file.to_str().unwrap(),
        "--to",
        &server.base(),
        "--fast",
        "--check",
        "--patience",
        "5",
    ])
}

#[test]
fn another_answer_than_the_recorded_one_is_told_with_its_place() {
    let said = altered(
        "acolyte-ws.jsonl",
        r#"\"type\":\"text-delta\",\"text\":\"2 \""#,
        r#"\"type\":\"text-delta\",\"text\":\"two \""#,
    );
    assert!(said.contains("chat.event text-delta"), "{said}");
    assert!(said.contains("event.text\n    - \"two \"\n    + \"2 \"\n"), "{said}");
    assert_eq!(said.matches("differs").count(), 1, "{said}");
}

#[test]
fn a_member_that_is_gone_and_a_message_too_many_are_told() {
    let said = altered(
        "acolyte-sse.jsonl",
        r#"\"outputStreamed\":true"#,
        r#"\"outputStreamed\":true,\"mood\":\"good\""#,
    );
    assert!(said.contains("reply.mood\n    - \"good\"\n    + nothing\n"), "{said}");
    let text = recording("acolyte-ws.jsonl");
    let line = text.lines().find(|line| line.contains(r#"\"text\":\"3 \""#)).unwrap();
    let said = altered("acolyte-ws.jsonl", &format!("{line}\n"), "");
    assert!(said.contains("was not recorded\n  + ") && said.contains("\"3 \""), "{said}");
}

#[test]
fn an_id_has_to_stay_what_it_was() {
    // The server speaks of another session than the one that it has made.
    let text = recording("vip.jsonl");
    let line = text.lines().find(|line| line.contains("session.connected")).unwrap();
    let id = &line[line.find("vs_").unwrap()..][..29];
    let other = line.replace(id, "vs_0123456789ABCDEFGHJKMNPQRS");
    let said = altered("vip.jsonl", line, &other);
    assert!(said.contains("session.connected"), "{said}");
    assert!(said.contains("data.session_id\n    - \"vs_0123456789ABCDEFGHJKMNPQRS\"\n    + \"vs_"), "{said}");
}

#[test]
fn a_frame_inside_of_a_binary_message_is_compared() {
    let said = altered("asp.jsonl", r#""status":101"#, r#""status":200"#);
    assert!(said.contains("answer") && said.contains("status\n    - 200\n    + 101\n"), "{said}");
    // A text of three frames: the last one is another.
    let text = recording("asp.jsonl");
    let binary =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["binary"].as_str().map(str::to_owned);
    let (line, old) = text
        .lines()
        .filter_map(|line| Some((line, STANDARD.decode(binary(line)?).unwrap())))
        .find(|(line, bytes)| line.contains("\"server\"") && bytes.windows(2).any(|pair| pair == b"2 "))
        .unwrap();
    let place = old.windows(2).position(|pair| pair == b"2 ").unwrap();
    let mut new = old.clone();
    new[place] = b'9';
    let said = altered("asp.jsonl", line, &line.replace(&STANDARD.encode(&old), &STANDARD.encode(&new)));
    assert!(said.contains("STREAM") && said.contains("- \"9 \"\n    + \"2 \"\n"), "{said}");
}

/// A command that stays, and its address.
struct Standing {
    child: Child,
    url: String,
}

impl Standing {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        let url = line.split("listening on ").nth(1).unwrap_or_else(|| panic!("{line}"));
        let url = url.split([',', '\n']).next().unwrap().to_owned();
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { child, url }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_is_driven_by_the_recorded_server() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(data.path(), &[STORY]);
    let file = data.path().join("chat.jsonl");
    let file = file.to_str().unwrap();
    let chat = ["chat", "--new", "--once", "count 3"];
    let binary = env!("CARGO_BIN_EXE_switchboard");
    for protocol in ["asp", "acolyte", "acolyte-sse", "alicia", "vip"] {
        let mut record = vec!["record", "wire", "--to"];
        let base = server.base();
        record.extend([&*base, "--output", file, "--", binary]);
        record.extend(chat);
        record.extend(["--protocol", protocol]);
        let first = done(&record);
        let mut stage =
            Standing::start(switchboard(&["replay", file, "--serve", "127.0.0.1:0", "--check", "--fast"]));
        let mut again = chat.to_vec();
        again.extend(["--protocol", protocol, "--url", &stage.url]);
        assert_eq!(done(&again), first, "{protocol}");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut stage.child.stdout.take().unwrap(), &mut said).unwrap();
        assert!(stage.child.wait().unwrap().success(), "{protocol}: {said}");
        assert!(said.starts_with("as recorded"), "{protocol}: {said}");
    }
}

#[test]
fn no_credential_is_in_a_recording_and_replay_brings_another() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(&data.path().join("a"), &[BASIC]);
    let (variable, key) = SECRETS[0];
    let file = data.path().join("chat.jsonl");
    let path = file.to_str().unwrap();
    for protocol in ["asp", "acolyte"] {
        let mut record = switchboard(&["record", "wire", "--to", &server.base(), "--output", path, "--"]);
        record.arg(env!("CARGO_BIN_EXE_switchboard"));
        record.args(["chat", "--new", "--once", "echo hi", "--protocol", protocol, "--token-env", variable]);
        let output = record.output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let recorded = std::fs::read_to_string(&file).unwrap();
        assert!(!recorded.contains(key) && recorded.contains("${key}"), "{protocol}: {recorded}");
        let to = server.base();
        let replay = ["replay", path, "--to", &to, "--fast", "--check", "--patience", "5"];
        let without = switchboard(&replay).output().unwrap();
        assert_eq!(without.status.code(), Some(1), "{}", text(&without));
        let said = text(&without);
        assert!(said.contains("status\n    - 101\n    + 401\n"), "{protocol}: {said}");
        assert!(said.contains("taken out of the recording: 1, given: 0"), "{said}");
        // Somebody else asks: what they call things is theirs.
        let said = done(&[&replay[..], &["--key", "env:PEER_KEY_BOB"]].concat());
        assert!(said.starts_with("as recorded"), "{protocol}: {said}");
    }
}

#[test]
fn a_log_recording_leads_to_the_same_state_and_the_same_answers() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(&data.path().join("a"), &[STORY]);
    let url = format!("ws://{}", server.address);
    let mut chat = switchboard(&["chat", "--session", "tea", "--json", "--yes", "--url", &url]);
    chat.args(["--tool", "clock=echo 7"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    let mut input = chat.stdin.take().unwrap();
    input.write_all(b"echo hello\ncount 3\ncall clock\nfail execution after 2\n").unwrap();
    drop(input);
    chat.wait_with_output().unwrap();
    let (file, offline) = (data.path().join("tea.jsonl"), data.path().join("offline.jsonl"));
    let (file, offline) = (file.to_str().unwrap(), offline.to_str().unwrap());
    done(&["record", "log", "tea", "--url", &url, "--output", file]);
    let said = done(&["replay", file, "--check"]);
    assert!(said.starts_with("as recorded"), "{said}");
    let other = Served::start(&data.path().join("b"), &[STORY]);
    let to = format!("ws://{}", other.address);
    let said = done(&["replay", file, "--to", &to, "--fast", "--check"]);
    assert!(said.starts_with("as recorded: 4 turns"), "{said}");

    // Another word leads to another state, and is answered otherwise.
    let recorded = std::fs::read_to_string(file).unwrap();
    let changed = data.path().join("changed.jsonl");
    std::fs::write(&changed, recorded.replace("\"text\":\"hello\"", "\"text\":\"hallo\"")).unwrap();
    let changed = changed.to_str().unwrap();
    let said = refused(&["replay", changed, "--to", &to, "--fast", "--check"]);
    assert!(said.contains("turn 1: differs\n  text\n    - \"hallo\"\n    + \"hello\"\n"), "{said}");

    // From the files, with no server, it is the same.
    server.kill();
    let folder = data.path().join("a");
    done(&["record", "log", "tea", "--data", folder.to_str().unwrap(), "--output", offline]);
    let said = done(&["replay", offline, "--check"]);
    assert!(said.starts_with("as recorded"), "{said}");
    let hash = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str::<Value>(text.lines().last().unwrap()).unwrap()
    };
    let (then, now) = (hash(file), hash(offline));
    assert!(now["events"].as_u64() >= then["events"].as_u64(), "{then} {now}");
    let mut lines: Vec<String> =
        std::fs::read_to_string(offline).unwrap().lines().map(str::to_owned).collect();
    let mut last: Value = serde_json::from_str(&lines.pop().unwrap()).unwrap();
    last["sha256"] = json!("0000");
    last["state"]["turn_count"] = json!(99);
    lines.push(last.to_string());
    std::fs::write(offline, lines.join("\n")).unwrap();
    let said = refused(&["replay", offline, "--check"]);
    assert!(said.contains("turn_count\n    - 99\n    + 4\n"), "{said}");
}

#[test]
fn what_cannot_be_replayed_says_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("x.jsonl");
    std::fs::write(&file, "{\"a\":1}\n").unwrap();
    let output = switchboard(&["replay", file.to_str().unwrap(), "--check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("not the header of a recording"), "{}", text(&output));
    let wire = support::root().join("tests/recordings/asp.jsonl");
    let wire = wire.to_str().unwrap();
    let output = switchboard(&["replay", wire, "--check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("name a server with --to"), "{}", text(&output));
    let output = switchboard(&["replay", wire, "--to", "ws://127.0.0.1:9", "--fast"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}
