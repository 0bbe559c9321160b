//! `config` and `keys`.

use tempfile::TempDir;

use crate::support::{Server, run, run_with, switchboard};

#[test]
fn the_default_configuration_is_one() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("switchboard.toml");
    std::fs::write(&file, run(&["config", "default"]).ok()).unwrap();
    let checked = run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert!(checked.ok().starts_with("ok: "));
}

#[test]
fn every_key_is_explained() {
    let doc = run(&["config", "doc"]).ok();
    for key in ["`listen`", "`data_dir`", "`auth.api_keys`", "`SWITCHBOARD_LISTEN`"] {
        assert!(doc.contains(key), "{key}");
    }
}

#[test]
fn file_then_environment_then_flags() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("switchboard.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1111\"\n").unwrap();
    let check = |variable: Option<&str>, flags: &[&str]| {
        let mut command = switchboard(&["config", "check", "--config", file.to_str().unwrap()]);
        command.envs(variable.map(|value| ("SWITCHBOARD_LISTEN", value))).args(flags);
        run_with(command, b"").ok()
    };
    assert!(check(None, &[]).contains("127.0.0.1:1111"));
    assert!(check(Some("127.0.0.1:2222"), &[]).contains("127.0.0.1:2222"));
    assert!(check(Some("127.0.0.1:2222"), &["--set", "listen=127.0.0.1:3333"]).contains("127.0.0.1:3333"));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_key() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("switchboard.toml");
    for (text, expected) in [
        ("lisen = \"127.0.0.1:1\"\n", "lisen"),
        ("[limits]\nconnections = \"many\"\n", "limits.connections"),
        ("listen = \n", "line 1"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in [&["config", "check"], &["serve", "--set=data_dir=/nowhere"]] {
            let ran = run(&[command.as_slice(), &["--config", file.to_str().unwrap()]].concat());
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{text}: {}", ran.err);
            assert!(ran.err.contains(expected) && ran.err.contains("switchboard.toml"), "{}", ran.err);
            assert!(ran.err.contains("config doc"), "{}", ran.err);
        }
    }
    let ran = run(&["config", "check", "--config", "/no/such/file"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/no/such/file"), "{}", ran.err);
    let ran = run(&["config", "check", "--set", "listn=1"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("did you mean listen?"), "{}", ran.err);
}

#[test]
fn a_new_key_opens_the_door() {
    let made = run(&["keys", "new", "--id", "laptop", "--principal", "alice"]);
    let key = made.err.split_whitespace().last().unwrap().to_owned();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("switchboard.toml");
    assert!(!made.out.contains(&key));
    std::fs::write(&file, made.ok()).unwrap();
    let server = Server::start(folder.path(), &["--config", file.to_str().unwrap()]);

    let refused = server.run(&["chat", "--once", "hi there"]);
    assert_eq!((refused.code, refused.out.as_str()), (3, ""));
    assert!(refused.err.contains("SWITCHBOARD_TOKEN"), "{}", refused.err);
    let refused = server.run(&["sessions", "list"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("SWITCHBOARD_TOKEN"), "{}", refused.err);

    let token = folder.path().join("token");
    std::fs::write(&token, format!("{key}\n")).unwrap();
    let token = token.to_str().unwrap();
    assert_eq!(server.run(&["chat", "--once", "one", "--token-file", token]).ok(), "You said: one\n");
    let mut command = server.command(&["chat", "--once", "two", "--token-env", "MY_TOKEN"]);
    command.env("MY_TOKEN", &key);
    assert_eq!(run_with(command, b"").ok(), "You said: two\n");
    let mut command = server.command(&["sessions", "list"]);
    command.env("SWITCHBOARD_TOKEN", &key);
    assert!(run_with(command, b"").ok().contains("alice"));

    let ran = server.run(&["chat", "--once", "x", "--token-env", "NOT_SET"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("NOT_SET"), "{}", ran.err);
}

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let help = run(&["--help"]).ok();
    for word in ["serve", "chat", "sessions", "inspect", "config", "keys", "Exit codes", "130"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(run(&["--version"]).ok().starts_with("switchboard "));
    for command in ["serve", "chat", "inspect"] {
        assert!(run(&[command, "--help"]).ok().contains("Examples:"), "{command}");
    }
    assert_eq!(run(&["no-such-command"]).code, 2);
}
