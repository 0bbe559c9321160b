//! `switchboard conform` and `switchboard doctor` against the real binary, against servers that are wrong
//! on purpose, and through proxies that do harm.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

#[path = "support/meddler.rs"]
mod meddler;
#[path = "support/wrong_asp.rs"]
mod wrong_asp;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::{ANN, BASIC, BOB, GENEROUS, SECRETS, Served};
use tokio_tungstenite::tungstenite::Message;

const PLANNED: &[&str] = &[
    "aip.test_planner=true",
    "vip.allow_development=true",
    "vip.issuers=[{issuer='https://app.test',algorithms=['HS256'],secret_env='PEER_JWT_SECRET'}]",
    "telemetry.metrics_public=true",
];
const ISSUER: &[&str] = &["--app-issuer", "https://app.test", "--app-secret-env", "PEER_JWT_SECRET"];

fn switchboard(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_switchboard"))
        .args(arguments)
        .envs(SECRETS.iter().copied())
        .env("SWITCHBOARD_TOKEN", ANN.unwrap_or_default())
        .env("SWITCHBOARD_OTHER_TOKEN", BOB.unwrap_or_default())
        .output()
        .expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Runs `conform` in a thread of its own: exit code and report.
async fn conform(protocol: &str, url: String, more: &[&str]) -> (i32, Value) {
    let mut arguments: Vec<String> =
        ["conform", protocol, &url, "--format", "json"].map(str::to_owned).into();
    arguments.extend(more.iter().map(ToString::to_string));
    let running = tokio::task::spawn_blocking(move || {
        switchboard(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    });
    let (code, output, errors) = running.await.unwrap();
    let report = serde_json::from_str(&output).unwrap_or_else(|_| panic!("{code}: {output}{errors}"));
    (code, report)
}

/// The ids with this result.
fn ids(report: &Value, result: &str) -> BTreeSet<String> {
    let rows = report["statements"].as_array().unwrap().iter();
    rows.filter(|row| row["result"] == result).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_server_conforms_to_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[BASIC, GENEROUS, PLANNED]);
    let arguments: Vec<&str> = ["--jobs", "8"].iter().chain(ISSUER).copied().collect();
    // Some statements are about time, so protocols do not hold each other up.
    for (protocol, total, passing) in
        [("asp", 96, 54), ("acolyte", 95, 78), ("aip", 100, 74), ("vip", 96, 47), ("alicia", 120, 87)]
    {
        let (code, report) = conform(protocol, server.base(), &arguments).await;
        assert_eq!((code, ids(&report, "fail")), (0, BTreeSet::new()), "{report:#}");
        let rows = report["statements"].as_array().unwrap();
        let distinct: BTreeSet<&str> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!((rows.len(), distinct.len()), (total, total), "each statement stands there once");
        let passed = ids(&report, "pass").len();
        assert!(passed >= passing, "{passed} of {passing}: {:?}", ids(&report, "needs"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_server_fails_with_the_right_ids() {
    let address = wrong_asp::serve().await;
    let only = "ASP-003,ASP-004,ASP-009,ASP-015,ASP-018,ASP-020,ASP-021,ASP-029";
    let (code, report) = conform("asp", format!("ws://{address}"), &["--only", only]).await;
    assert_eq!(code, 1);
    let wrong = ["ASP-003", "ASP-004", "ASP-009", "ASP-015", "ASP-021", "ASP-029"];
    assert_eq!(ids(&report, "fail"), wrong.map(str::to_owned).into(), "{report:#}");
    assert_eq!(ids(&report, "pass"), ["ASP-018", "ASP-020"].map(str::to_owned).into());
    let row = &report["statements"].as_array().unwrap()[0];
    let lines = row["transcript"].to_string();
    assert!(row["reason"].as_str().unwrap().contains("2001"), "{row}");
    assert!(lines.contains("> INVOKE version 0 #1") && lines.contains("< ERROR #0"), "{lines}");
}

/// What an agent does not know is no fault of its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_knows_some_words_is_checked_with_those() {
    let folder = tempfile::tempdir().unwrap();
    let story = folder.path().join("partial.toml");
    let rules = [
        ("^echo (?P<text>.*)$", "{ text = '{text}' }"),
        ("^words (?P<text>.*)$", "{ text = '{text}', chunk = 'words' }"),
        (
            "^count (?P<n>\\d+) every (?P<ms>\\d+)$",
            "{ text = '{index} ', repeat = '{n}', delay_ms = '{ms}' }",
        ),
    ];
    let rules = rules.map(|(says, step)| format!("[[rules]]\nmatch = '{says}'\nsteps = [{step}]\n"));
    let fallback = "[fallback]\nsteps = [{ text = 'You said: {input}' }]\n";
    std::fs::write(&story, format!("name = 'partial'\n{}{fallback}", rules.join(""))).unwrap();
    let kind = "agents.partial.kind=script";
    let path = format!("agents.partial.path={}", story.display());
    let partial = [kind, path.as_str(), "agent=partial"];
    let server = Served::start(&folder.path().join("data"), &[BASIC, GENEROUS, &partial]);
    for (protocol, word, statement) in
        [("asp", "call", "ASP-045"), ("acolyte", "checklist", "AC-029"), ("alicia", "fail", "AL-052")]
    {
        let (code, report) = conform(protocol, server.base(), &["--jobs", "8"]).await;
        assert_eq!((code, ids(&report, "fail")), (0, BTreeSet::new()), "{report:#}");
        let rows = report["statements"].as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == statement).unwrap();
        let reason = format!("an agent that knows the word `{word}` of the conformance story");
        assert_eq!((&row["result"], &row["reason"]), (&"needs".into(), &reason.into()), "{row}");
    }
    let (_, report) = conform("alicia", server.base(), &["--only", "AL-071,AL-035"]).await;
    assert_eq!(ids(&report, "pass").len(), 2, "the words that it knows are made use of: {report:#}");
}

/// Text of the server with something in it replaced.
fn replaced(message: Message, what: &str, with: &str) -> Vec<Message> {
    if !message.is_text() {
        return vec![message];
    }
    let text = message.into_text().unwrap();
    vec![Message::text(text.as_str().replace(what, with))]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_on_the_wire_are_found_in_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[BASIC, GENEROUS, PLANNED]);
    // Identifiers in upper case; everything said twice; a state that nobody knows; a refusal in place of
    // a confirmation.
    let acolyte = meddler::meddling(server.address, |message| {
        replaced(message, "\"taskId\":\"task_", "\"taskId\":\"TASK_")
    })
    .await;
    let aip = meddler::meddling(server.address, |message| vec![message.clone(), message]).await;
    let vip = meddler::meddling(server.address, |message| {
        replaced(message, "\"state\":\"user_speaking\"", "\"state\":\"listening\"")
    })
    .await;
    let alicia = meddler::meddling(server.address, |message| {
        // Type 43, UnsubscribeAck.
        let own =
            message.is_binary() && message.clone().into_data().windows(6).any(|part| part == b"\xa4type\x2b");
        let mut bytes = message.clone().into_data().to_vec();
        match bytes.windows(9).position(|part| part == b"\xa7success\xc3") {
            Some(at) if own => {
                bytes[at + 8] = 0xc2;
                vec![Message::binary(bytes)]
            }
            Some(_) | None => vec![message],
        }
    })
    .await;
    let url = |address| format!("http://{address}");
    let (acolyte, aip, vip, alicia) = tokio::join!(
        conform("acolyte", url(acolyte), &["--only", "AC-012,AC-017,AC-020,AC-065"]),
        conform("aip", url(aip), &["--only", "AIP-020,AIP-038,AIP-089"]),
        conform("vip", url(vip), &["--only", "VIP-019,VIP-021,VIP-022,VIP-065"]),
        conform("alicia", url(alicia), &["--only", "AL-022,AL-091,AL-093"]),
    );
    for ((code, report), wrong, right) in [
        (acolyte, &["AC-020"][..], &["AC-012", "AC-017", "AC-065"][..]),
        (aip, &["AIP-020", "AIP-038"], &["AIP-089"]),
        (vip, &["VIP-021", "VIP-022"], &["VIP-019", "VIP-065"]),
        (alicia, &["AL-093"], &["AL-022", "AL-091"]),
    ] {
        let set = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
        assert_eq!(
            (code, ids(&report, "fail"), ids(&report, "pass")),
            (1, set(wrong), set(right)),
            "{report:#}"
        );
    }
}

#[test]
fn what_cannot_be_tried_is_said() {
    let (code, _, errors) = switchboard(&["conform", "asp", "ws://127.0.0.1:9"]);
    assert_eq!(code, 2);
    assert!(errors.contains("there is no server at"), "{errors}");
    let (code, _, errors) = switchboard(&["conform", "asp", "ws://127.0.0.1:9", "--only", "ASP-999"]);
    assert_eq!(code, 2);
    assert!(errors.contains("no statement ASP-999"), "{errors}");
    let (code, list, _) = switchboard(&["conform", "aip", "--list"]);
    assert_eq!((code, list.lines().count()), (0, 100), "{list}");
}

#[test]
fn reports_are_written_to_files_for_continuous_integration() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[BASIC, GENEROUS]);
    let path = folder.path().join("report.xml");
    let file = path.to_str().unwrap();
    let arguments =
        ["conform", "asp", &server.url(), "--only", "4,17", "--format", "junit", "--output", file];
    let (code, output, errors) = switchboard(&arguments);
    assert_eq!((code, output.lines().count()), (0, 1), "{output}{errors}");
    assert!(output.contains("1 pass, 0 fail, 0 need something, 1 cannot be seen"), "{output}");
    let document = std::fs::read_to_string(path).unwrap();
    assert!(document.contains("tests=\"2\" failures=\"0\" skipped=\"1\""), "{document}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_finds_the_real_server_well_and_a_buffering_proxy_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[BASIC, GENEROUS, PLANNED]);
    let proxy = meddler::buffering(server.address, Duration::from_secs(2)).await;
    let doctor = |url: String, idle: &'static str| {
        let examine = move || switchboard(&["doctor", &url, "--idle", idle, "--say", "count 10 every 200"]);
        tokio::task::spawn_blocking(examine)
    };
    let closing = meddler::closing(server.address, Duration::from_secs(4)).await;
    let (well, ill, short) = tokio::join!(
        doctor(server.base(), "2"),
        doctor(format!("http://{proxy}"), "2"),
        doctor(format!("http://{closing}"), "7")
    );
    let ((code, output, errors), (ill_code, ill_output, _)) = (well.unwrap(), ill.unwrap());
    let (short_code, short_output, _) = short.unwrap();
    assert_eq!(code, 0, "{output}{errors}");
    let graded = |output: &str, grade: &str| -> Vec<String> {
        let lines = output.lines().filter_map(|line| line.strip_prefix(grade));
        lines.filter_map(|line| line.get(..15)).map(|subject| subject.trim().to_owned()).collect()
    };
    for subject in [
        "reach",
        "health",
        "ready",
        "clock",
        "protocols",
        "origin",
        "pages",
        "host",
        "stream pace",
        "socket pace",
        "silence",
        "files there",
    ] {
        assert!(graded(&output, "ok      ").iter().any(|known| known == subject), "{subject} in {output}");
    }
    assert!(graded(&output, "problem ").is_empty() && graded(&output, "warning ").is_empty(), "{output}");
    assert_eq!(
        (ill_code, graded(&ill_output, "problem ")),
        (1, vec!["stream pace".to_owned(), "socket pace".to_owned()]),
        "{ill_output}"
    );
    assert!(ill_output.contains("proxy_buffering off"), "{ill_output}");
    assert_eq!(
        (short_code, graded(&short_output, "problem ")),
        (1, vec!["silence".to_owned()]),
        "{short_output}"
    );
}

#[test]
fn doctor_says_what_to_change() {
    let (code, output, _) = switchboard(&["doctor", "http://127.0.0.1:9"]);
    assert_eq!(code, 2);
    assert!(output.starts_with("problem  reach") && output.contains("→ check the address"), "{output}");
}
