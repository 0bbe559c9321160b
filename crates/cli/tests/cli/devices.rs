//! `devices`: who is there, what they are like, and what a task looks like to programs.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::chat::{names, text};
use crate::device::Device;
use crate::support::{Server, ended, run};

#[test]
fn devices_are_listed_and_shown() {
    let (server, _folder) = Server::simple();
    let ran = server.run(&["devices", "list"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(ran.err.contains("no devices yet"), "{}", ran.err);
    let device = Device::connected(&server.url, &[]);
    let away = server.run(&["devices", "list", "--offline"]);
    assert!(away.err.contains("no device is away"), "{}", away.err);
    let listed = server.run(&["devices", "list"]).ok();
    let mut lines = listed.lines();
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["DEVICE", "PLATFORM", "STATE", "SINCE", "FEATURES", "TAGS"]);
    let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["lab-1", "linux", "online"]);
    assert!(row.contains(&"file_system"), "{row:?}");
    let shown = server.run(&["devices", "show", "lab-1"]).ok();
    for line in ["lab-1  online", "protocol", "hostname", "cpu_count", "kernel", "disk.free_gb"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let object = &server.run(&["devices", "show", "lab-1", "--json"]).json()[0];
    assert_eq!((&object["device"], &object["online"]), (&json!("lab-1"), &json!(true)));
    assert_eq!(object["facts"]["platform"], "linux");
    drop(device);
    server.until(|| server.run(&["devices", "list", "--online"]).out.is_empty());
    assert!(server.run(&["devices", "list", "--offline"]).ok().contains("lab-1   linux     offline"));
    let unknown = server.run(&["devices", "show", "nope"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.err.contains("switchboard devices list"), "{unknown:?}");
}

#[test]
fn aip_092_the_name_of_a_device_is_released_by_an_administrator() {
    let folder = TempDir::new().unwrap();
    let mut config = String::new();
    let mut tokens = Vec::new();
    for (name, scopes) in [("ann", ""), ("bob", ""), ("root", "connect,admin")] {
        let mut arguments = vec!["keys", "new", "--id", name, "--principal", name];
        if !scopes.is_empty() {
            arguments.extend(["--scopes", scopes]);
        }
        let made = run(&arguments);
        config += &made.out;
        let file = folder.path().join(name);
        std::fs::write(&file, made.err.trim().rsplit(' ').next().unwrap()).unwrap();
        tokens.push(file.display().to_string());
    }
    let path = folder.path().join("switchboard.toml");
    std::fs::write(&path, config).unwrap();
    let server = Server::start(folder.path(), &["--config", path.to_str().unwrap()]);
    let token = |who: usize| ["--token-file", tokens[who].as_str()];
    drop(Device::connected(&server.url, &token(0)));
    let listed = || server.run(&[&["devices", "list", "--online"][..], &token(0)].concat()).out;
    server.until(|| listed().is_empty());
    let mut stranger = Device::start(&server.url, &token(1));
    assert_eq!(ended(&mut stranger.child), 3, "it is ann's");
    let release = |who: usize| server.run(&[&["devices", "release", "lab-1"][..], &token(who)].concat());
    assert_eq!(release(1).code, 3, "not for whoever wants it");
    assert_eq!(release(2).ok(), "lab-1 is free; it was the name of a device of ann\n");
    assert_eq!(release(2).ok(), "lab-1 was free already\n");
    drop(Device::connected(&server.url, &token(1)));
    server.until(|| !server.run(&[&["devices", "list", "--offline"][..], &token(1)].concat()).out.is_empty());
    let mut former = Device::start(&server.url, &token(0));
    assert_eq!(ended(&mut former.child), 3, "it is bob's now");
}

#[test]
fn info_is_asked_of_the_device_itself() {
    let (server, _folder) = Server::simple();
    let _device = Device::connected(&server.url, &[]);
    let facts = &server.run(&["devices", "info", "lab-1", "--json"]).json()[0];
    let fields: Vec<&str> = facts.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields[..7],
        ["device_id", "platform", "os_version", "cpu_count", "memory_total_gb", "hostname", "ip_address"]
    );
    assert!(facts["cpu_count"].as_u64().unwrap() > 0);
    assert!(facts["memory_total_gb"].as_f64().unwrap() > 0.0);
    assert!(facts["custom_metadata"]["memory_free_gb"].as_f64().unwrap() > 0.0);
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(facts["hostname"], hostname.trim());
    let told = server.run(&["devices", "info", "lab-1"]).ok();
    assert!(told.contains("  device_id           lab-1\n"), "{told}");
    let gone = server.run(&["devices", "info", "nope"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("the device nope is not connected"), "{}", gone.err);
}

#[test]
fn a_task_for_programs() {
    let (server, _folder) = Server::simple();
    let _device = Device::connected(&server.url, &["--allow", "echo"]);
    let ran = server.run(&["devices", "run", "run: echo hello", "--device", "lab-1", "--json"]);
    let events = ran.json();
    assert_eq!(names(&events), ["accepted", "call", "result", "call", "result", "text", "end"], "{events:?}");
    assert_eq!(text(&events), "hello\n");
    let find = |name: &str| events.iter().rfind(|event| event["event"] == name).unwrap();
    assert_eq!(find("call")["args"], json!({"command": "echo hello"}));
    assert_eq!((&find("result")["status"], &find("result")["error"]), (&json!("done"), &Value::Null));
    let end = find("end");
    assert_eq!((&end["status"], &end["result"][0]["result"]), (&json!("completed"), &json!("hello\n")));
    // The task is a session like any other.
    let session = find("accepted")["session"].as_str().unwrap();
    let shown = server.run(&["sessions", "show", session]).ok();
    assert!(shown.contains("run: echo hello") && shown.contains("aip"), "{shown}");
    let ran = server.run(&["devices", "run", "run: id", "--device", "lab-1", "--json"]);
    let events = ran.json();
    let end = events.last().unwrap();
    assert_eq!((ran.code, &end["status"]), (1, &json!("failed")));
    assert!(end["error"].as_str().unwrap().contains("consent"), "{end}");
}

#[test]
fn several_commands_are_shown_one_by_one() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), &["--set", "aip.test_planner=true"]);
    let _device = Device::connected(&server.url, &["--allow", "echo"]);
    let command = |name: &str, parameters: Value| json!({"tool_name": name, "tool_type": "action", "parameters": parameters});
    let plan = json!({"turns": [
        [command("run_command", json!({"argv": ["echo", "a; b"]})), command("list_directory", json!({}))],
        [command("read_file", json!({"path": "none"})), command("device_info", json!({}))],
    ], "end": "completed", "result": "done"});
    let ran = server.run(&["devices", "run", &format!("aip-script:{plan}"), "--device", "lab-1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ticks: Vec<&str> = ran.err.lines().filter(|line| line.starts_with(['✓', '✗'])).collect();
    let starts = [
        "✓ run_command (",
        "✓ list_directory (",
        "✗ read_file: none: no such file",
        "✗ device_info: ",
        "✓ done",
    ];
    assert!(
        ticks.len() == 5 && ticks.iter().zip(starts).all(|(line, start)| line.starts_with(start)),
        "{ticks:?}"
    );
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["turns"][0][0]["result"]["stdout"], "a; b\n");
    let statuses = [&result["turns"][1][0]["status"], &result["turns"][1][1]["status"]];
    assert_eq!(statuses, [&json!("failure"), &json!("skipped")]);
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let nowhere = ["--url", "ws://127.0.0.1:9"];
    for command in [
        &["devices", "list"][..],
        &["devices", "show", "a"],
        &["devices", "info", "a"],
        &["devices", "release", "a"],
        &["devices", "run", "x", "--device", "a"],
    ] {
        let ran = run(&[command, &nowhere].concat());
        assert_eq!(ran.code, 3, "{command:?}: {ran:?}");
        assert!(ran.err.contains("there is no server at"), "{}", ran.err);
    }
    assert_eq!(run(&["devices", "run", " ", "--device", "a"]).code, 2);
}
