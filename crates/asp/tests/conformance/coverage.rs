//! Every statement that concerns a server in direct mode is named by a test or a scenario.

use std::collections::BTreeSet;
use std::path::Path;

use switchboard_asp::{Close, Code};
use switchboard_testkit::{Scenario, vectors};

/// Statements about relays, functions and workers.
const RELAY: &[u32] =
    &[22, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 75, 76, 77, 82, 83, 84];
/// Statements about clients, proved by the tests of the client half.
const CLIENT: &[u32] = &[17, 24, 32, 33, 41, 85];

#[test]
fn every_statement_of_direct_mode_is_proved_by_something() {
    let mut named: BTreeSet<u32> = BTreeSet::new();
    for scenario in Scenario::all("asp/scenarios") {
        named.extend(scenario.proves.iter().filter_map(|id| id.strip_prefix("ASP-")?.parse::<u32>().ok()));
    }
    for vector in vectors::load("asp") {
        named.extend(vector.conformance.iter().filter_map(|id| id.strip_prefix("ASP-")?.parse::<u32>().ok()));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for name in text.lines().filter_map(|line| line.strip_prefix("fn asp_")) {
            // asp_029_and_040_… names two.
            named.extend(
                name.split(['_', '('])
                    .filter(|word| word.len() == 3)
                    .filter_map(|word| word.parse::<u32>().ok()),
            );
        }
    }
    let needed = (1..=85).filter(|id| !RELAY.contains(id) && !CLIENT.contains(id));
    let missing: Vec<u32> = needed.filter(|id| !named.contains(id)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "not proved by anything");
}

/// Codes that a server in direct mode never sends.
const NOT_DIRECT: &[Code] = &[
    Code::AuthRequired,
    Code::QuotaExceeded,
    Code::FunctionBadResponse,
    Code::FunctionAborted,
    Code::FunctionTimeout,
];

#[test]
fn every_error_and_close_code_of_direct_mode_is_shown_by_a_scenario() {
    let folder = vectors::folder("asp/scenarios");
    let mut expected = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "txt") {
            let text = std::fs::read_to_string(path).unwrap();
            expected.extend(text.lines().filter(|line| line.contains("S<")).map(|line| format!("{line}\n")));
        }
    }
    let codes = Code::ALL.iter().filter(|code| !NOT_DIRECT.contains(code));
    let missing: Vec<&Code> =
        codes.filter(|code| !expected.contains(&format!("\"code\":{}", code.number()))).collect();
    assert_eq!(missing, Vec::<&Code>::new());
    // 1001 and 1006 are the client's, 1013 and 4403 have no cause in direct mode.
    let closes = Close::ALL.iter().filter(|close| {
        !matches!(close, Close::GoingAway | Close::Abnormal | Close::TryLater | Close::Forbidden)
    });
    let missing: Vec<&Close> =
        closes.filter(|close| !expected.contains(&format!("S< close {}\n", close.number()))).collect();
    assert_eq!(missing, Vec::<&Close>::new());
}
