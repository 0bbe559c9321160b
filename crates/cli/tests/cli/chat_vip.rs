//! `chat --protocol vip`.

use tempfile::TempDir;

use crate::support::{Server, run, run_with};

const ECHO: &[&str] =
    &["--set", "agent=echo", "--set", "agents.echo.kind=echo", "--set", "agents.echo.delay_ms=0"];

#[test]
fn what_is_asked_once_is_answered() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), ECHO);
    let ran = server.run(&["chat", "--protocol", "vip", "--once", "the lamps go on"]);
    assert!(ran.out.contains("the lamps go on"), "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn lines_are_turns_of_one_session() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), ECHO);
    let ran = run_with(server.command(&["chat", "--protocol", "vip", "--json"]), b"first\nsecond\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    let said: String =
        ran.json().iter().filter_map(|line| line["text"].as_str().map(str::to_owned)).collect();
    assert!(said.contains("first") && said.contains("second"), "{ran:?}");
    assert_eq!(ran.json().iter().filter(|line| line["event"] == "end").count(), 2, "{ran:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_advice() {
    let (server, _folder) = Server::simple();
    for (args, advice) in
        [(["--agent", "echo"], "leave out --agent"), (["--tool", "a=date"], "--protocol asp")]
    {
        let ran = server.run(&[["chat", "--protocol", "vip", "--once", "x"].as_slice(), &args].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(advice), "{}", ran.err);
    }
    let nobody = run(&["chat", "--protocol", "vip", "--once", "x", "--url", "http://127.0.0.1:9"]);
    assert_eq!(nobody.code, 3, "{nobody:?}");
}
