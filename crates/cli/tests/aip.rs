//! The binary against software that nobody here wrote: AIP on Python `websockets` and `httpx`. They do
//! the checking (see `tests/peers/python/aip_*.py`); here the servers are started for them, and each
//! statement of the reference that they show has a test named after it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use support::aip::{FLEET, PLANNED, TIGHT};
use support::found::Found;
use support::{GENEROUS, SECRETS, Served};

/// What the peer found out, and what the servers left behind.
struct Suite {
    found: Found,
    logs: Vec<String>,
    /// Files in the data folders: name and content.
    files: Vec<(String, Vec<u8>)>,
}

impl Suite {
    /// Runs the peer against a server with much room and one with little.
    fn run() -> Self {
        let data = tempfile::tempdir().unwrap();
        let loud: &[&str] = &["telemetry.log_level=debug"];
        let roomy = Served::start(&data.path().join("roomy"), &[FLEET, PLANNED, GENEROUS, loud]);
        let tight = Served::start(&data.path().join("tight"), &[FLEET, PLANNED, GENEROUS, TIGHT, loud]);
        let mut peer = support::python("aip_peer.py");
        let output = peer.args([&roomy.base(), "--tight", &tight.base()]).output().unwrap();
        let logs = [roomy, tight].map(|server| {
            server.terminate();
            let (status, said) = server.wait(Duration::from_secs(60));
            assert_eq!(status.code(), Some(0), "{}", said.lines().last().unwrap_or_default());
            said
        });
        let mut files = Vec::new();
        read_all(data.path(), &mut files);
        Self { found: Found::read(&output), logs: logs.into(), files }
    }
}

fn read_all(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            read_all(&entry.path(), files);
        } else {
            files.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
        }
    }
}

/// The suite, which runs once for all the tests below.
fn suite() -> &'static Suite {
    static SUITE: OnceLock<Suite> = OnceLock::new();
    SUITE.get_or_init(Suite::run)
}

fn python() -> &'static Found {
    &suite().found
}

#[test]
fn everything_that_python_checks() {
    assert!(python().checks.len() > 100, "{:#?}\n{}", python().checks, python().said);
    python().holds("");
}

#[test]
fn aip_037_no_credential_is_logged_or_kept() {
    let Suite { logs, files, .. } = suite();
    for log in logs {
        assert!(log.contains("DEBUG") && log.contains("protocol=\"aip\""), "nothing is logged at all");
        let secrets = SECRETS.iter().map(|(_, secret)| *secret).filter(|secret| !secret.starts_with("http"));
        // Tokens of the issuer begin like this, and keys stand behind that.
        for secret in secrets.chain(["eyJhbGciOi", "token=", "key-of-"]) {
            let line = log.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} in a log");
        }
    }
    for (name, content) in files {
        for secret in ["key-of-ann-0123456789", "eyJhbGciOi"] {
            let found = content.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} in {name}");
        }
    }
}

#[test]
fn aip_045_names_of_tasks_never_become_paths() {
    python().holds("aip_045_");
    let strange: Vec<_> = suite().files.iter().filter(|(name, _)| name.contains("aip-escaped")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let outside = std::env::temp_dir().join("aip-escaped");
    assert!(!outside.exists() && !Path::new("/tmp/aip-escaped").exists(), "{}", outside.display());
}

#[test]
fn one_session_over_three_protocols() {
    python().holds("a_task_is_followed_through_both_other_protocols");
    python().holds("a_task_is_stopped_from_acolyte");
    python().holds("a_task_is_stopped_from_asp");
}

/// The peer is the model, too: it begins with its own address, and goes on once it is told the
/// server's.
#[test]
fn a_model_works_with_the_tools_of_a_device() {
    let data = tempfile::tempdir().unwrap();
    let mut peer = support::python("aip_model.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let base = format!("agents.model.base_url={}", lines.next().expect("the address of the model"));
    let own = ["agent=model", "agents.model.kind=openai", "agents.model.model=fake", &base];
    let server = Served::start(data.path(), &[FLEET, GENEROUS, &own]);
    writeln!(peer.stdin.take().unwrap(), "{}", server.base()).unwrap();
    let said: Vec<_> = lines.collect();
    assert!(peer.wait().unwrap().success() && said.len() > 5, "{}", said.join("\n"));
}

#[test]
fn aip_001_only_one_path_is_a_socket() {
    python().holds("aip_001_");
}

#[test]
fn aip_002_a_key_is_shown_in_three_ways() {
    python().holds("aip_002_");
}

#[test]
fn aip_003_wrong_keys_are_refused_before_the_upgrade() {
    python().holds("aip_003_");
}

#[test]
fn aip_004_compression_is_not_needed() {
    python().holds("aip_004_");
}

#[test]
fn aip_005_messages_are_text() {
    python().holds("aip_005_");
}

#[test]
fn aip_006_messages_may_be_fragmented() {
    python().holds("aip_005_and_006_");
}

#[test]
fn aip_007_pings_are_answered_and_silent_peers_pinged() {
    python().holds("aip_007_");
}

#[test]
fn aip_008_large_messages_arrive_and_too_large_ones_close() {
    python().holds("aip_008_");
}

#[test]
fn aip_009_whoever_does_not_register_is_closed() {
    python().holds("aip_009_");
}

#[test]
fn aip_010_messages_have_all_fields_in_order() {
    python().holds("aip_043_");
}

#[test]
fn aip_011_the_shortest_form_will_do() {
    python().holds("aip_011_");
}

#[test]
fn aip_012_unknown_fields_are_ignored() {
    python().holds("aip_012_");
}

#[test]
fn aip_013_wrong_types_are_refused() {
    python().holds("aip_013_");
}

#[test]
fn aip_014_a_missing_role_is_that_of_a_device() {
    python().holds("aip_011_and_014_");
}

#[test]
fn aip_015_any_timestamp_will_do() {
    python().holds("aip_015_");
}

#[test]
fn aip_016_unicode_and_big_integers_are_kept() {
    python().holds("aip_016_");
}

#[test]
fn aip_017_deep_nesting_is_an_error() {
    python().holds("aip_017_");
}

#[test]
fn aip_018_the_first_message_is_a_registration() {
    python().holds("aip_018_");
}

#[test]
fn aip_019_a_registration_needs_a_name() {
    python().holds("aip_019_");
}

#[test]
fn aip_020_a_registration_is_confirmed() {
    python().holds("aip_020_");
}

#[test]
fn aip_021_a_name_is_taken_once() {
    python().holds("aip_021_");
}

#[test]
fn aip_022_a_name_is_free_once_its_connection_is_gone() {
    python().holds("aip_022_");
}

#[test]
fn aip_023_a_constellation_needs_a_device_that_is_there() {
    python().holds("aip_023_");
}

#[test]
fn aip_024_a_constellation_needs_a_target() {
    python().holds("aip_024_");
}

#[test]
fn aip_025_a_refused_registration_closes_after_the_error() {
    python().holds("aip_018_");
}

#[test]
fn aip_026_a_second_registration_changes_nothing() {
    python().holds("aip_026_");
}

#[test]
fn aip_027_platform_and_system_info_are_kept() {
    python().holds("aip_027_");
}

#[test]
fn aip_028_a_dead_link_is_taken_over() {
    python().holds("aip_028_");
}

#[test]
fn aip_029_another_name_is_refused() {
    python().holds("aip_029_");
}

#[test]
fn aip_030_another_role_is_refused() {
    python().holds("aip_030_");
}

#[test]
fn aip_031_a_device_does_nothing_for_another() {
    python().holds("aip_031_");
}

#[test]
fn aip_032_names_and_targets_are_bound_to_credentials() {
    python().holds("aip_032_");
}

#[test]
fn aip_033_a_constellation_keeps_to_its_target() {
    python().holds("aip_033_");
}

#[test]
fn aip_034_only_the_executor_brings_results() {
    python().holds("aip_034_");
}

#[test]
fn aip_035_a_session_is_not_taken_by_others() {
    python().holds("aip_035_");
}

#[test]
fn aip_036_answers_come_to_whoever_asked() {
    python().holds("aip_036_");
}

#[test]
fn aip_038_each_heartbeat_is_answered_once() {
    python().holds("aip_038_");
}

#[test]
fn aip_039_heartbeats_are_answered_while_a_task_runs() {
    python().holds("aip_039_");
}

#[test]
fn aip_040_a_constellation_may_beat_as_a_device() {
    python().holds("aip_040_");
}

#[test]
fn aip_041_whoever_answers_pings_stays() {
    python().holds("aip_041_");
}

#[test]
fn aip_043_a_task_is_acknowledged_first() {
    python().holds("aip_043_");
}

#[test]
fn aip_044_a_session_without_a_name_gets_one() {
    python().holds("aip_044_");
}

#[test]
fn aip_046_a_task_needs_a_target_that_is_there() {
    python().holds("aip_046_");
}

#[test]
fn aip_047_a_refused_task_ends() {
    python().holds("aip_046_and_047_");
}

#[test]
fn aip_048_commands_go_to_the_executor_only() {
    python().holds("aip_048_");
}

#[test]
fn aip_049_one_command_is_outstanding() {
    python().holds("aip_049_");
}

#[test]
fn aip_050_parameters_and_order_are_kept() {
    python().holds("aip_050_");
}

#[test]
fn aip_051_results_that_do_not_match_are_dropped() {
    python().holds("aip_051_");
}

#[test]
fn aip_052_results_count_once() {
    python().holds("aip_051_and_052_");
}

#[test]
fn aip_053_both_sides_are_told_the_same_end_once() {
    python().holds("aip_043_");
}

#[test]
fn aip_054_a_device_hears_of_its_own_task_once() {
    python().holds("aip_054_");
}

#[test]
fn aip_055_a_task_ends_completed_or_failed() {
    python().holds("aip_055_");
}

#[test]
fn aip_056_a_plan_that_breaks_fails_with_its_text() {
    python().holds("aip_055_and_056_");
}

#[test]
fn aip_057_a_command_times_out() {
    python().holds("aip_057_");
}

#[test]
fn aip_058_plans_go_on_after_failures() {
    python().holds("aip_058_");
}

#[test]
fn aip_059_a_status_of_results_ends_the_task() {
    python().holds("aip_059_");
}

#[test]
fn aip_060_a_session_that_runs_is_not_begun_twice() {
    python().holds("aip_060_");
}

#[test]
fn aip_061_a_device_is_sent_no_task_unless_it_asked() {
    python().holds("aip_061_");
}

#[test]
fn aip_062_fifty_devices_work_without_cross_talk() {
    python().holds("aip_062_");
}

#[test]
fn aip_065_device_info_is_answered_under_its_id() {
    python().holds("aip_065_");
}

#[test]
fn aip_066_device_info_is_for_its_constellation() {
    python().holds("aip_066_");
}

#[test]
fn aip_067_a_failure_is_told_in_three_places() {
    python().holds("aip_067_");
}

#[test]
fn aip_068_fresh_info_is_pulled() {
    python().holds("aip_068_");
}

#[test]
fn aip_069_info_that_nobody_asked_for_is_taken_silently() {
    python().holds("aip_069_");
}

#[test]
fn aip_070_tasks_end_when_their_device_is_lost() {
    python().holds("aip_070_");
}

#[test]
fn aip_071_a_constellation_that_leaves_cancels() {
    python().holds("aip_071_");
}

#[test]
fn aip_072_late_results_are_dropped() {
    python().holds("aip_072_");
}

#[test]
fn aip_073_a_task_is_cancelled_by_either_side() {
    python().holds("aip_073_");
}

#[test]
fn aip_074_running_and_waiting_tasks_of_a_lost_device_end() {
    python().holds("aip_074_");
}

#[test]
fn aip_075_malformed_messages_are_answered() {
    python().holds("aip_075_");
}

#[test]
fn aip_076_binary_messages_are_refused() {
    python().holds("aip_076_");
}

#[test]
fn aip_077_others_are_served_while_one_does_not_read() {
    python().holds("aip_077_");
}

#[test]
fn aip_078_errors_are_short_and_give_nothing_away() {
    python().holds("aip_078_");
}

#[test]
fn aip_079_messages_are_applied_in_order() {
    python().holds("aip_079_");
}

#[test]
fn aip_085_every_endpoint_needs_a_key() {
    python().holds("aip_085_");
}

#[test]
fn aip_086_dispatch_is_checked_in_order() {
    python().holds("aip_086_");
}

#[test]
fn aip_087_a_dispatched_task_has_the_session_of_the_reply() {
    python().holds("aip_087_");
}

#[test]
fn aip_088_a_dispatched_task_is_reported_as_done() {
    python().holds("aip_087_and_088_");
    python().holds("aip_088_");
}

#[test]
fn aip_089_unknown_names_are_pending() {
    python().holds("aip_089_");
}

#[test]
fn aip_090_the_next_command_comes_at_once() {
    python().holds("aip_090_");
}
