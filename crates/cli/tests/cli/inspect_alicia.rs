//! `inspect` on envelopes of Alicia: every vector, cut at every length, in every form of capture.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::{run, run_with, switchboard};

fn vectors() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/alicia/frames");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// The only packet of a vector.
fn hex(id: &str) -> String {
    let (_, vector) = vectors().into_iter().find(|(_, vector)| vector["id"] == id).unwrap();
    vector["hex"][0].as_str().unwrap().to_owned()
}

#[test]
fn every_vector_is_decoded_or_refused_as_it_says() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 46);
    for (path, vector) in &vectors {
        let name = path.display().to_string();
        let ran = run(&["inspect", "--json", &name]);
        let envelopes = ran.json();
        assert_eq!(envelopes.len(), 1, "{name}: {ran:?}");
        let seen = &envelopes[0];
        let error = &vector["error"];
        if error.is_null() {
            assert_eq!((ran.code, &seen["valid"]), (0, &json!(true)), "{name}: {ran:?}");
            assert_eq!(seen["profile"], vector["profile"], "{name}");
            assert_eq!(seen["type"], vector["envelope"]["type"], "{name}");
            assert_eq!(seen["canonical"], vector["canonical"], "{name}");
            let stanza = vector["envelope"].get("stanzaId").unwrap_or(&Value::Null);
            assert_eq!(seen.get("stanza").unwrap_or(&Value::Null), stanza, "{name}");
        } else {
            assert_eq!((ran.code, &seen["valid"]), (1, &json!(false)), "{name}: {ran:?}");
            let problem = &seen["problem"];
            assert_eq!(problem["code"], error["code"], "{name}");
            assert_eq!(problem["name"], error["name"], "{name}");
            assert_eq!(problem["close"], error["close"], "{name}");
        }
        let human = run(&["inspect", &name]);
        assert_eq!(human.code, ran.code, "{name}");
        assert!(human.code == 0 || human.out.contains("invalid: "), "{name}: {}", human.out);
    }
}

#[test]
fn every_vector_cut_at_every_length_is_malformed() {
    for (path, vector) in vectors() {
        let hex = vector["hex"][0].as_str().unwrap();
        let mut capture = String::new();
        let cuts = hex.len() / 2;
        for length in 0..cuts {
            capture += &format!("{}\n", json!({ "hex": &hex[..length * 2], "protocol": "alicia" }));
        }
        if cuts == 0 {
            continue;
        }
        let ran = run_with(switchboard(&["inspect", "--json"]), capture.as_bytes());
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{}", path.display());
        let reports = ran.json();
        assert_eq!(reports.len(), cuts, "{}", path.display());
        // TV-17 with a byte too many is whole without it.
        let wrong = reports.iter().filter(|report| report["valid"] == false).collect::<Vec<_>>();
        assert!(wrong.len() + 1 >= cuts, "{}", path.display());
        assert!(wrong.iter().all(|report| report["problem"]["code"] == 101), "{}", path.display());
    }
}

#[test]
fn types_stanzas_and_fields_are_named_in_the_order_of_the_wire() {
    let shown = run(&["inspect", &hex("TV-07")]).ok();
    assert!(shown.contains("server to client"), "{shown}");
    assert!(shown.contains("ToolUseRequest (6)  stanza -3  ac_0123456789abcdefghijk"), "{shown}");
    let keys =
        ["\"id\"", "\"messageId\"", "\"toolName\"", "\"parameters\"", "\"execution\"", "\"timeoutMs\""];
    let places: Vec<_> = keys.iter().map(|key| shown.find(key).unwrap()).collect();
    assert!(places.is_sorted(), "{shown}");
    let failed = run(&["inspect", &hex("TV-09")]).ok();
    assert!(failed.contains("ErrorMessage (1), conversation  stanza 0"), "{failed}");
    let traced = run(&["inspect", &hex("TV-03")]).ok();
    assert!(traced.contains("\"messaging.span_id\": \"b7ad6b7169203331\""), "{traced}");
    let audio = run(&["inspect", &hex("TV-16")]).ok();
    assert!(audio.contains("\"data\": <01 02 03>"), "{audio}");
    let unknown = run(&["inspect", &hex("TV-17")]).ok();
    assert!(unknown.contains("type 999, unknown: skipped"), "{unknown}");
    let browser = run(&["inspect", &hex("TV-19")]).ok();
    assert!(browser.contains("UserMessage (2)  stanza 2") && browser.contains("not canonical"), "{browser}");
    let timed = run(&["inspect", &hex("TV-21")]).ok();
    assert!(timed.contains("EliteSelect (30)  unusable stanza, read as 0"), "{timed}");
}

#[test]
fn the_first_envelope_decides_the_profile_unless_it_is_given() {
    let (full, lite) = (hex("TV-11"), hex("TV-20"));
    let subscribe = run(&["inspect", "--json", &lite]).json();
    assert_eq!((&subscribe[0]["profile"], &subscribe[0]["name"]), (&json!("lite"), &json!("Subscribe")));
    let capture = format!("C> {full}\nC> {lite}\n");
    let both = run_with(switchboard(&["inspect", "--json"]), capture.as_bytes()).json();
    assert_eq!((&both[0]["profile"], &both[1]["profile"]), (&json!("full"), &json!("full")));
    let given = run_with(switchboard(&["inspect", "--json", "--profile", "lite"]), capture.as_bytes()).json();
    assert_eq!((&given[0]["profile"], &given[1]["profile"]), (&json!("lite"), &json!("lite")));
}

#[test]
fn hex_base64_bytes_and_captures_are_all_read() {
    let digits = hex("TV-06");
    let bytes: Vec<u8> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let forms = [
        run(&["inspect", &digits]).ok(),
        run(&["inspect", "--base64", &base64]).ok(),
        run_with(switchboard(&["inspect"]), &bytes).ok(),
        run_with(switchboard(&["inspect"]), json!({ "base64": base64 }).to_string().as_bytes()).ok(),
        run_with(switchboard(&["inspect", "--base64"]), format!("S< {base64}").as_bytes()).ok(),
    ];
    for shown in &forms {
        assert!(shown.contains("AssistantSentence (16)  stanza -40"), "{shown}");
        assert!(shown.contains("\"text\": \"Olá!\""), "{shown}");
    }
    let dumped = run(&["inspect", "--bytes", &digits]).ok();
    assert!(dumped.contains("000000  84 a8 73 74"), "{dumped}");
}

#[test]
fn who_may_not_send_it_is_said() {
    let wrong = run(&["inspect", "--from", "client", &hex("TV-05")]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.out.contains("StartAnswer is not sent from this side"), "{}", wrong.out);
    assert!(wrong.out.contains("answered with 102 wrong_side (warning, recoverable)"), "{}", wrong.out);
    // One array, of which each envelope is judged by itself.
    let batch = format!("92{}{}", hex("TV-11"), hex("TV-05"));
    let batch = run(&["inspect", "--json", "--from", "client", &batch]).json();
    assert_eq!((&batch[0]["envelope"], &batch[0]["valid"]), (&json!(0), &json!(true)));
    assert_eq!((&batch[1]["envelope"], &batch[1]["valid"]), (&json!(1), &json!(false)));
}
