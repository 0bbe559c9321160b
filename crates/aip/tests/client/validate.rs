//! AIP-082, and names that become paths.

use proptest::prelude::*;
use switchboard_aip::codec::{decode_client, decode_server};
use switchboard_aip::message::{Command, Outcome, ResultStatus, ToolType};
use switchboard_aip::validate::{self, Invalid, is_task_name, sanitise_task_name};

proptest! {
    #[test]
    fn a_sanitised_name_is_a_name_and_stays_one(name in ".{0,20}") {
        match sanitise_task_name(&name) {
            Some(clean) => {
                prop_assert!(is_task_name(&clean));
                prop_assert_eq!(sanitise_task_name(&clean), Some(clean.clone()));
                prop_assert_eq!(is_task_name(&name), name == clean);
            }
            None => prop_assert!(name.chars().all(|letter| letter == '.')),
        }
    }
}

#[test]
fn aip_082_validators_ask_for_what_each_message_needs() {
    let command = |tool_name: &str| Command {
        tool_name: tool_name.to_owned(),
        parameters: None,
        tool_type: ToolType::Action,
        call_id: None,
    };
    assert_eq!(validate::command(&command("click")), Ok(()));
    assert_eq!(validate::command(&command("")), Err(Invalid::Missing("tool_name")));
    assert_eq!(validate::commands(&[]), Ok(()));
    assert_eq!(validate::commands(&[command("a"), command("b")]), Ok(()));
    let item = validate::commands(&[command("a"), command("")]).unwrap_err();
    assert_eq!(item.to_string(), "actions[1]: tool_name is required");
    assert_eq!(validate::outcome(&Outcome::new(ResultStatus::None)), Ok(()));
    assert_eq!(validate::outcomes(&[]), Ok(()));
    assert_eq!(validate::outcomes(&[Outcome::new(ResultStatus::Failure)]), Ok(()));

    let client = |kind: &str, rest: &str| {
        decode_client(&format!(r#"{{"type":"{kind}","status":"ok"{rest}}}"#)).unwrap()
    };
    let why = |checked: Result<(), Invalid>| checked.err().map(|invalid| invalid.to_string());
    let required = |field: &str| Some(format!("{field} is required"));

    let registration = |kind: &str, rest: &str| why(validate::registration(&client(kind, rest)));
    assert_eq!(registration("register", r#","client_id":"d""#), None);
    assert_eq!(registration("register", r#","client_id":"c","client_type":"constellation""#), None);
    assert_eq!(registration("register", ""), required("client_id"));
    assert_eq!(registration("register", r#","client_id":"""#), required("client_id"));
    assert_eq!(registration("task", r#","client_id":"d""#), Some("type must be register".to_owned()));

    let task = |kind: &str, rest: &str| why(validate::task_request(&client(kind, rest)));
    assert_eq!(task("task", r#","client_id":"d","request":"r""#), None);
    assert_eq!(task("task", r#","client_id":"d","request":"""#), required("request"));
    assert_eq!(task("task", r#","client_id":"d""#), required("request"));
    assert_eq!(task("task", r#","request":"r""#), required("client_id"));
    assert_eq!(task("heartbeat", r#","client_id":"d","request":"r""#), Some("type must be task".to_owned()));

    let results = |kind: &str, rest: &str| why(validate::command_results(&client(kind, rest)));
    assert_eq!(results("command_results", r#","prev_response_id":"p","action_results":[]"#), None);
    assert_eq!(
        results("command_results", r#","prev_response_id":"","action_results":[]"#),
        required("prev_response_id")
    );
    assert_eq!(results("command_results", r#","prev_response_id":"p""#), required("action_results"));
    assert_eq!(
        results("task", r#","prev_response_id":"p","action_results":[]"#),
        Some("type must be command_results".to_owned())
    );

    let server = |kind: &str, rest: &str| {
        let text = format!(r#"{{"type":"{kind}","status":"continue"{rest}}}"#);
        why(validate::server_message(&decode_server(&text).unwrap()))
    };
    let actions = r#","actions":[{"tool_name":"t","tool_type":"action"}]"#;
    assert_eq!(server("task", ""), None);
    assert_eq!(server("command", &format!(r#"{actions},"response_id":"r""#)), None);
    assert_eq!(server("command", r#","response_id":"r""#), required("actions"));
    assert_eq!(server("command", r#","actions":[],"response_id":"r""#), required("actions"));
    assert_eq!(server("command", actions), required("response_id"));
    assert_eq!(server("command", &format!(r#"{actions},"response_id":"""#)), required("response_id"));
}

#[test]
fn task_names_become_fit_for_paths() {
    for (name, clean) in [
        ("galaxy/run42/t1", Some("galaxy_run42_t1")),
        ("...hidden.txt", Some("hidden.txt")),
        ("../../etc", Some("_.._etc")),
        ("é b", Some("__b")),
        ("A-z_0.9", Some("A-z_0.9")),
        ("a..", Some("a..")),
        ("...", None),
        ("", None),
    ] {
        assert_eq!(sanitise_task_name(name).as_deref(), clean, "{name}");
    }
    for (name, good) in
        [("a", true), ("a.b-c_1", true), (".a", false), ("", false), ("a b", false), ("é", false)]
    {
        assert_eq!(is_task_name(name), good, "{name}");
    }
}
