//! Peers that nobody here wrote: aiortc, and a browser.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_rtc::{CloseReason, Endpoint, PeerEvent};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::client::{LABEL, PATIENCE, PROTOCOL, config, until};
use crate::sound::{pitch, tone};

/// A peer in a process of its own. It speaks in lines of JSON: its offer, then what it sees.
struct Foreign {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    _process: Child,
}

impl Foreign {
    fn start(command: &mut Command) -> Self {
        let mut process = command
            .args([LABEL, PROTOCOL])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            lines: BufReader::new(process.stdout.take().unwrap()).lines(),
            input: process.stdin.take().unwrap(),
            _process: process,
        }
    }

    /// The next line that has this member.
    async fn says(&mut self, member: &str) -> Value {
        let reading = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("the process goes on");
                let line: Value = serde_json::from_str(&line).unwrap();
                assert!(line.get("error").is_none(), "{line}");
                if let Some(value) = line.get(member) {
                    return value.clone();
                }
            }
        };
        tokio::time::timeout(PATIENCE * 2, reading).await.expect("it says so in time")
    }

    async fn tell(&mut self, line: Value) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

/// Everything that an endpoint does, with whoever it is.
async fn works_with(mut foreign: Foreign) {
    let endpoint = Endpoint::bind(config()).await.unwrap();
    let offer = foreign.says("offer").await;
    let (mut peer, answer) = endpoint.answer(offer.as_str().unwrap()).unwrap();
    foreign.tell(json!({"answer": answer})).await;
    // What it found after its offer; with names in place of addresses there may be nothing of use.
    if let Some(fragment) = foreign.says("candidates").await.as_str() {
        peer.add_candidates(fragment).unwrap();
    }

    until(&mut peer, |event| *event == PeerEvent::ChannelOpen).await;
    let text = until(&mut peer, |event| matches!(event, PeerEvent::Text(_))).await;
    assert_eq!(text, PeerEvent::Text("grüße".into()));
    for reply in ["grüße zurück".to_owned(), "x".repeat(65_536)] {
        peer.send_text(reply.clone()).unwrap();
        assert_eq!(foreign.says("text").await.as_str(), Some(reply.as_str()));
    }

    // It hums 440 Hz, after some silence.
    let mut heard = Vec::new();
    let mut last = 0.0;
    for _ in 0..10 {
        heard.clear();
        while heard.len() < 50 {
            if let PeerEvent::Audio(packet, _) = until(&mut peer, is_audio).await {
                heard.push(packet);
            }
        }
        last = pitch(&heard);
        if (last - 440.0).abs() < 40.0 {
            break;
        }
    }
    assert!((last - 440.0).abs() < 40.0, "440 Hz were heard as {last}");

    for packet in tone(880.0, 300) {
        peer.send_audio(packet, 20).unwrap();
    }
    let heard = foreign.says("pitch").await.as_f64().unwrap();
    assert!((heard - 880.0).abs() < 60.0, "880 Hz were heard as {heard}");

    foreign.tell(json!({"close": true})).await;
    let last = until(&mut peer, |event| matches!(event, PeerEvent::Closed(_))).await;
    assert_eq!(last, PeerEvent::Closed(CloseReason::PeerClosed));
}

fn is_audio(event: &PeerEvent) -> bool {
    matches!(event, PeerEvent::Audio(..))
}

#[tokio::test]
async fn aiortc_is_a_peer() {
    let own = root().join(".venv/bin/python");
    let python = if own.exists() { own } else { PathBuf::from("python3") };
    let works = std::process::Command::new(&python).args(["-c", "import aiortc"]).output();
    assert!(
        works.is_ok_and(|output| output.status.success()),
        "{} with the packages of tests/peers/python/requirements.txt is missing: run script/setup",
        python.display()
    );
    let mut command = Command::new(python);
    command.arg(root().join("tests/peers/python/rtc_peer.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    works_with(Foreign::start(&mut command)).await;
}

#[tokio::test]
async fn a_browser_is_a_peer() {
    let mut command = Command::new("node");
    command.arg(root().join("tests/peers/node/rtc_chromium.mjs"));
    works_with(Foreign::start(&mut command)).await;
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}
