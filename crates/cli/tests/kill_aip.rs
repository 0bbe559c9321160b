//! The binary is killed while devices work: they are known afterwards, may come back at once, and
//! every task has exactly one end. Asked to leave, the server tells whoever is waiting.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use support::aip::{FLEET, Link, PLANNED, admin, get, script};
use support::{ANN, GENEROUS, Served, now};

/// Devices at the same time, each with a constellation of its own.
const DEVICES: usize = 8;
/// Tasks of each: more than a device runs at once.
const TASKS: usize = 6;

/// A device with a constellation, and more tasks than it answers.
struct Site {
    device: Link,
    constellation: Link,
    name: String,
    sessions: Vec<String>,
}

impl Site {
    async fn busy(address: SocketAddr, number: usize) -> Self {
        let mut site = Self::open(address, number).await;
        for task in 0..TASKS {
            let session = format!("run@{number}-{task}");
            site.constellation.task(&session, &script(&["wait", "more"])).await;
            site.sessions.push(session);
        }
        // Some are in the middle, some wait for an answer, some for their turn.
        for answered in 0..4 {
            let command = site.device.wait(|message| message["type"] == "command").await;
            if answered == 0 {
                site.device.succeed(&command).await;
                site.device.kind("command", command["session_id"].as_str().unwrap()).await;
            }
        }
        site
    }

    async fn open(address: SocketAddr, number: usize) -> Self {
        let name = format!("device-{number}");
        let device = Link::device(address, ANN.unwrap(), &name).await;
        let constellation = Link::constellation(address, ANN.unwrap(), &format!("c-{number}"), &name).await;
        Self { device, constellation, name, sessions: Vec::new() }
    }
}

/// Every turn that the log knows of, by session: how it was accepted, and how often it ended.
async fn ends(address: SocketAddr) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    let listed = admin(address, ANN.unwrap(), "sessions?limit=1000").await;
    for row in listed["sessions"].as_array().unwrap() {
        let session = row["session"].as_str().unwrap();
        let page = admin(address, ANN.unwrap(), &format!("sessions/{session}/events?limit=1000")).await;
        assert_eq!(page["next"], Value::Null, "more than one page");
        let events = page["events"].as_array().unwrap();
        let count = |kind: &str| events.iter().filter(|event| event["event"].get(kind).is_some()).count();
        found.push((session.to_owned(), count("turn_accepted"), count("turn_ended")));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_end_once_and_devices_are_known_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[FLEET, PLANNED, GENEROUS];
    let server = Served::start(data.path(), settings);
    let mut sites = Vec::new();
    for number in 0..DEVICES {
        sites.push(Site::busy(server.address, number).await);
    }
    server.kill();

    let server = Served::start(data.path(), settings);
    let address = server.address;
    let known = all_offline(address).await;
    assert_eq!(known.len(), DEVICES, "{known:?}");
    for (number, device) in known.iter().enumerate() {
        assert_eq!(device["device"], format!("device-{number}"), "{device}");
        assert_eq!(
            (&device["platform"], &device["facts"]["cpu_count"]),
            (&json!("linux"), &json!(8)),
            "{device}"
        );
    }

    // They come back at once, and their sessions are free for the next task.
    for (number, old) in sites.into_iter().enumerate() {
        let mut site = Site::open(address, number).await;
        for session in &old.sessions {
            site.constellation.task(session, &script(&["again"])).await;
            let command = site.device.kind("command", session).await;
            assert_eq!(command["actions"][0]["tool_name"], "again", "{command}");
            site.device.succeed(&command).await;
            let ended = site.constellation.kind("task_end", session).await;
            assert_eq!((&ended["status"], &ended["error"]), (&json!("completed"), &Value::Null), "{ended}");
        }
        let device = admin(address, ANN.unwrap(), &format!("devices/{}", site.name)).await;
        assert_eq!(device["online"], true, "{device}");
        // Whatever was lost is not told to those who came later.
        assert_eq!(leftover(&mut site.constellation).await, Vec::<Value>::new());
    }
    let all = ends(address).await;
    let worked: Vec<_> = all.iter().filter(|(_, accepted, _)| *accepted > 0).collect();
    assert_eq!(worked.len(), DEVICES * TASKS, "one session per id: {all:?}");
    for (session, accepted, ended) in worked {
        assert_eq!((accepted, ended), (&2, &2), "{session}: the lost task and the next, once each");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aip_088_results_can_be_read_after_kill_9() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[FLEET, PLANNED, GENEROUS];
    let server = Served::start(data.path(), settings);
    let mut site = Site::open(server.address, 0).await;
    for session in ["over", "lost"] {
        site.constellation.task(session, &script(&["look"])).await;
    }
    let command = site.device.kind("command", "over").await;
    site.device.succeed(&command).await;
    let end = site.constellation.kind("task_end", "over").await;
    let result = |address, name: &str| {
        let path = format!("/api/task_result/{name}");
        async move { get(address, ANN.unwrap(), &path).await }
    };
    let told = result(server.address, "over").await;
    assert_eq!(told, json!({ "status": "done", "result": end["result"] }));
    assert_eq!(result(server.address, "lost").await["status"], "pending");
    server.kill();

    let server = Served::start(data.path(), settings);
    assert_eq!(result(server.address, "over").await, told);
    // Its owner is gone, and whoever asks is told so.
    let began = now();
    while result(server.address, "lost").await["status"] == "pending" {
        assert!(began.elapsed() < Duration::from_secs(30), "nobody is told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lost = result(server.address, "lost").await;
    assert!(lost["result"]["error"].is_string(), "{lost}");
}

/// The devices, as soon as none of them is taken for connected.
async fn all_offline(address: SocketAddr) -> Vec<Value> {
    let began = now();
    loop {
        let page = admin(address, ANN.unwrap(), "devices").await;
        let devices = page["devices"].as_array().unwrap();
        if devices.iter().all(|device| device["online"] == false) {
            return devices.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "nobody has come back, but: {page}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What has come besides the answer to a heartbeat.
async fn leftover(link: &mut Link) -> Vec<Value> {
    link.send("heartbeat", "ok", json!({})).await;
    let mut others = Vec::new();
    loop {
        let message = link.next().await.expect("an answer");
        if message["type"] == "heartbeat" {
            return others;
        }
        others.push(message);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_may_come_back_while_the_server_still_wakes() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[FLEET, PLANNED, GENEROUS];
    for _ in 0..3 {
        let server = Served::start(data.path(), settings);
        let mut site = Site::open(server.address, 1).await;
        site.constellation.task("run@again", &script(&["again"])).await;
        let command = site.device.kind("command", "run@again").await;
        site.device.succeed(&command).await;
        let ended = site.constellation.kind("task_end", "run@again").await;
        assert_eq!(ended["status"], "completed", "{ended}");
        let device = admin(server.address, ANN.unwrap(), "devices/device-1").await;
        assert_eq!(device["online"], true, "{device}");
        site.constellation.task("run@lost", &script(&["wait"])).await;
        site.device.kind("command", "run@lost").await;
        server.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_tasks_end_also_if_nobody_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let settings: &[&[&str]] = &[FLEET, PLANNED, GENEROUS];
    let server = Served::start(data.path(), settings);
    let _site = Site::busy(server.address, 1).await;
    server.kill();
    let server = Served::start(data.path(), settings);
    let began = now();
    loop {
        let all = ends(server.address).await;
        if all.iter().all(|(_, accepted, ended)| accepted == ended) {
            break assert_eq!(all.iter().map(|(_, accepted, _)| accepted).sum::<usize>(), TASKS);
        }
        assert!(began.elapsed() < Duration::from_secs(20), "turns without an end: {all:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn owners_are_told_before_the_server_leaves() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(data.path(), &[FLEET, PLANNED, GENEROUS, &["drain.timeout_ms=1000"]]);
    let mut peer = support::python("aip_peer.py")
        .args([&server.base(), "--drain"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(peer.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if line == "ready" {
            server.terminate();
        }
        said.push(line);
    }
    assert!(peer.wait().unwrap().success(), "{}", said.join("\n"));
    let (status, errors) = server.wait(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{errors}");
}
