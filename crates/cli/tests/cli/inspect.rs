//! `inspect`, on every vector of the reference and on what is left of it when it is cut.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{run, run_with, switchboard};

struct Vector {
    path: PathBuf,
    content: Value,
}

impl Vector {
    fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/asp/frames");
        let mut paths: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let vectors = paths.into_iter().map(|path| {
            let content = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            Self { path, content }
        });
        vectors.collect()
    }

    fn hex(&self) -> Vec<&str> {
        let list = self.content["hex"].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().map(|hex| hex.as_str().unwrap()).collect()
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

#[test]
fn every_vector_is_decoded_or_refused_as_it_says() {
    let vectors = Vector::all();
    assert_eq!(vectors.len(), 26);
    for vector in &vectors {
        let (name, content) = (vector.name(), &vector.content);
        let ran = run(&["inspect", "--json", &name]);
        let frames = ran.json();
        let error = &content["error"];
        if error.is_null() {
            assert_eq!(ran.code, 0, "{name}: {ran:?}");
            assert!(frames.iter().all(|frame| frame["valid"] == true), "{name}");
        } else {
            assert_eq!(ran.code, 1, "{name}: {ran:?}");
            let problem = &frames.last().unwrap()["problem"];
            assert_eq!(problem["code"], error["code"], "{name}");
            assert_eq!(problem["name"], error["name"], "{name}");
            assert_eq!(problem.get("close").unwrap_or(&Value::Null), &error["close"], "{name}");
        }
        if let Some(expected) = content["frames"].as_array() {
            assert_eq!(frames.len(), expected.len(), "{name}");
            for (frame, expected) in frames.iter().zip(expected) {
                for member in ["opcode", "id", "reserved"] {
                    assert_eq!(frame[member], expected[member], "{name}");
                }
                assert_eq!(
                    frame["length"].as_u64().unwrap() as usize * 2,
                    expected["payload_hex"].as_str().unwrap().len()
                );
            }
            let payloads: Vec<&Value> = frames.iter().filter_map(|frame| frame.get("payload")).collect();
            let messages = content["messages"].as_array().unwrap();
            let values: Vec<&Value> =
                messages.iter().filter_map(|message| message["payload"].get("value")).collect();
            assert_eq!(payloads, values, "{name}");
        }
        let human = run(&["inspect", &name]);
        assert_eq!(human.code, ran.code, "{name}");
        assert!(human.code == 0 || human.out.contains("invalid at step "), "{name}: {}", human.out);
    }
}

#[test]
fn every_vector_cut_at_every_length_is_explained() {
    for vector in Vector::all() {
        let mut capture = String::new();
        let mut cuts = 0;
        for hex in vector.hex() {
            for length in 0..hex.len() / 2 {
                let entry = json!({
                    "hex": &hex[..length * 2],
                    "direction": vector.content["direction"],
                    "features": vector.content["features"],
                });
                let mut entry = entry.as_object().unwrap().clone();
                entry.retain(|_, value| !value.is_null());
                capture += &format!("{}\n", Value::Object(entry));
                cuts += 1;
            }
        }
        if cuts == 0 {
            continue;
        }
        let ran = run_with(switchboard(&["inspect", "--json"]), capture.as_bytes());
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", vector.name());
        let reports = ran.json();
        for message in 0..cuts {
            let frames: Vec<&Value> = reports.iter().filter(|report| report["message"] == message).collect();
            let (last, before) = frames.split_last().unwrap();
            assert!(before.iter().all(|frame| frame["valid"] == true), "{}: {frames:?}", vector.name());
            if last["valid"] == false {
                let step = last["problem"]["step"].as_str().unwrap();
                let explained = match step {
                    "header" | "bytes" => last["problem"]["name"] == "FRAME_TRUNCATED",
                    other => ["version", "length", "type"].contains(&other),
                };
                assert!(explained, "{}: {last}", vector.name());
            }
        }
    }
}

#[test]
fn hex_bytes_and_captures_are_all_read() {
    let hello = run(&["inspect", "11 00 00 00 00 00 00 00"]).ok();
    assert!(hello.contains("HELLO  id 0  length 0"), "{hello}");
    let raw = run_with(switchboard(&["inspect", "-"]), &[0x13, 0, 0, 1, 0, 0, 0, 2, b'H', b'i']);
    assert!(raw.ok().contains("text \"Hi\""));
    let both =
        run_with(switchboard(&["inspect"]), b"C> 1200000100000002 4869 # hello\nS< 13 00 0001 00000000\n");
    let both = both.ok();
    assert!(both.contains("client to server") && both.contains("server to client"), "{both}");
    let wrong = run_with(switchboard(&["inspect"]), b"S< 1200000100000002 4869");
    assert_eq!(wrong.code, 1);
    assert!(wrong.out.contains("invalid at step direction, byte 0"), "{}", wrong.out);
    let odd = run_with(switchboard(&["inspect", "--hex"]), b"123");
    assert_eq!(odd.code, 1);
    assert!(odd.err.contains("odd"), "{}", odd.err);
    let missing = run(&["inspect", "/no/such/file"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("/no/such/file"), "{}", missing.err);
}

#[test]
fn what_was_agreed_in_the_capture_holds_for_the_rest() {
    // Accepted without features: a STREAM is text whatever it looks like.
    let accept = json!({"op": "accept", "ver": 1, "features": []}).to_string();
    let frame = |first: u8, id: u8, payload: &str| {
        let mut bytes = vec![first, 0, 0, id, 0, 0, 0, u8::try_from(payload.len()).unwrap()];
        bytes.extend_from_slice(payload.as_bytes());
        bytes
    };
    let record = frame(0x13, 1, "{\"t\":\"text\",\"d\":\"x\"}");
    let alone = run_with(switchboard(&["inspect", "--json", "--raw"]), &record).json();
    assert_eq!(alone[0]["payload"]["d"], "x");
    let after = [frame(0x11, 0, &accept), record].concat();
    let after = run_with(switchboard(&["inspect", "--json", "--raw"]), &after).json();
    assert_eq!(after[1]["text"], "{\"t\":\"text\",\"d\":\"x\"}");
}
