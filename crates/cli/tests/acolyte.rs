//! The binary against software that nobody here wrote: Acolyte on Python `websockets`, `httpx` and
//! `curl`, and on npm `ws`. They do the checking (see `tests/peers`); here the servers are started
//! for them, and each statement of the reference that they show has a test named after it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use support::found::Found;
use support::{BASIC, GENEROUS, Served};

/// The same story for everybody, with little patience.
const OPEN: &[&str] = &[
    "listen=127.0.0.1:0",
    "agent=conformance",
    "agents.conformance.kind=script",
    "agents.conformance.builtin=conformance",
    "acolyte.limits.heartbeat_s=1",
    "acolyte.limits.ping_s=2",
    "acolyte.limits.dead_s=8",
    "acolyte.limits.stall_s=5",
];

/// Runs a peer against a server with credentials, and one without.
fn found_by(mut peer: Command) -> Found {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("workspace");
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    let workspaces = format!("workspaces=['{}']", folder.display());
    let own = ["acolyte.limits.keepalive_s=1", &workspaces];
    let keyed = Served::start(&data.path().join("keyed"), &[BASIC, GENEROUS, &own]);
    let open = Served::start(&data.path().join("open"), &[OPEN, GENEROUS]);
    let output = peer.args([&keyed.base(), "--open", &open.base(), "--folder"]).arg(&folder).output();
    Found::read(&output.unwrap())
}

/// The checks in Python, which run once for all the tests below.
fn python() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| found_by(support::python("acolyte_peer.py")))
}

#[test]
fn everything_that_python_checks() {
    assert!(python().checks.len() > 70, "{:#?}\n{}", python().checks, python().said);
    python().holds("");
}

#[test]
fn everything_that_npm_ws_checks() {
    let found = found_by(support::node("acolyte_peer.mjs"));
    assert!(found.checks.len() >= 7, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}

#[test]
fn ac_078_an_authorised_shutdown_is_answered_and_ends_the_process() {
    let data = tempfile::tempdir().unwrap();
    let server = Served::start(data.path(), &[BASIC, GENEROUS]);
    let output = support::python("acolyte_peer.py").args([&server.base(), "--shutdown"]).output().unwrap();
    let found = Found::read(&output);
    found.holds("ac_078_");
    // The reference allows two seconds; a busy machine may take longer.
    let (status, said) = server.wait(Duration::from_secs(10));
    assert_eq!(status.code(), Some(0), "{said}");
}

#[test]
fn ac_001_health_needs_no_credentials() {
    python().holds("ac_001_");
}

#[test]
fn ac_002_status_has_every_field() {
    python().holds("ac_002_");
}

#[test]
fn ac_003_nothing_else_is_served_without_a_key() {
    python().holds("ac_003_");
}

#[test]
fn ac_004_wrong_keys_and_other_schemes_are_refused() {
    python().holds("ac_004_");
}

#[test]
fn ac_005_a_key_in_the_header_opens_the_door() {
    python().holds("ac_005_");
}

#[test]
fn ac_006_a_key_as_a_subprotocol_opens_the_door() {
    python().holds("ac_006_");
}

#[test]
fn ac_007_an_offered_subprotocol_is_selected() {
    python().holds("ac_007_");
}

#[test]
fn ac_008_a_key_in_the_query_is_refused() {
    python().holds("ac_008_");
}

#[test]
fn ac_009_what_is_no_upgrade_is_refused() {
    python().holds("ac_009_");
}

#[test]
fn ac_010_unknown_paths_and_methods_are_not_found() {
    python().holds("ac_010_");
}

#[test]
fn ac_011_everything_is_open_without_a_key() {
    python().holds("ac_011_");
}

#[test]
fn ac_012_status_comes_under_the_same_id() {
    python().holds("ac_012_");
}

#[test]
fn ac_013_version_and_capabilities_are_told() {
    python().holds("ac_013_");
}

#[test]
fn ac_014_status_holds_nothing_strange() {
    python().holds("ac_012_");
}

#[test]
fn ac_015_an_unknown_payload_is_ignored() {
    python().holds("ac_015_");
}

#[test]
fn ac_016_unary_messages_are_answered_while_a_chat_runs() {
    python().holds("ac_016_");
}

#[test]
fn ac_017_a_chat_is_accepted_first() {
    python().holds("ac_017_");
}

#[test]
fn ac_018_a_chat_starts_before_its_events() {
    python().holds("ac_017_");
}

#[test]
fn ac_019_a_chat_has_one_terminal() {
    python().holds("ac_017_");
}

#[test]
fn ac_020_ids_match_their_patterns() {
    python().holds("ac_030_");
}

#[test]
fn ac_021_order_is_kept() {
    python().holds("ac_021_");
}

#[test]
fn ac_022_output_that_was_not_streamed_is_marked() {
    python().holds("ac_022_");
}

#[test]
fn ac_023_replies_are_complete() {
    python().holds("ac_030_");
}

#[test]
fn ac_024_tools_are_announced_and_end() {
    python().holds("ac_024_");
}

#[test]
fn ac_025_every_call_ends_before_its_chat() {
    python().holds("ac_024_");
}

#[test]
fn ac_026_failed_tools_say_how() {
    python().holds("ac_026_");
}

#[test]
fn ac_027_a_turn_goes_on_after_a_failed_tool() {
    python().holds("ac_026_");
}

#[test]
fn ac_028_reasoning_is_no_output() {
    python().holds("ac_028_");
}

#[test]
fn ac_029_lists_are_snapshots() {
    python().holds("ac_029_");
}

#[test]
fn ac_030_usage_is_told() {
    python().holds("ac_030_");
}

#[test]
fn ac_031_an_absent_workspace_is_a_chat_error() {
    python().holds("ac_031_");
}

#[test]
fn ac_032_failures_can_be_read() {
    python().holds("ac_032_");
}

#[test]
fn ac_033_one_chat_runs_per_connection() {
    python().holds("ac_035_");
}

#[test]
fn ac_034_a_second_chat_waits_at_position_1() {
    python().holds("ac_035_");
}

#[test]
fn ac_035_waiting_chats_are_numbered_and_served_in_order() {
    python().holds("ac_035_");
}

#[test]
fn ac_036_places_move_before_the_next_start() {
    python().holds("ac_035_");
}

#[test]
fn ac_037_places_move_after_an_abort() {
    python().holds("ac_037_");
}

#[test]
fn ac_038_waiting_chats_start_in_order() {
    python().holds("ac_035_");
}

#[test]
fn ac_039_the_26th_is_refused() {
    python().holds("ac_039_");
}

#[test]
fn ac_040_connections_run_beside_each_other() {
    python().holds("ac_040_");
}

#[test]
fn ac_041_nothing_follows_an_abort() {
    python().holds("ac_041_");
}

#[test]
fn ac_042_an_aborted_task_is_cancelled() {
    python().holds("ac_037_");
}

#[test]
fn ac_043_a_chat_aborted_while_waiting_never_starts() {
    python().holds("ac_037_");
}

#[test]
fn ac_044_aborts_of_nothing_stop_nothing() {
    python().holds("ac_044_");
}

#[test]
fn ac_045_the_next_chat_runs_after_an_abort() {
    python().holds("ac_041_");
}

#[test]
fn ac_046_the_terminal_comes_before_the_result() {
    python().holds("ac_041_");
}

#[test]
fn ac_048_states_change_at_the_proper_moments() {
    python().holds("ac_048_");
}

#[test]
fn ac_049_unknown_tasks_are_null() {
    python().holds("ac_049_");
}

#[test]
fn ac_050_a_task_is_known_on_other_connections() {
    python().holds("ac_050_");
}

#[test]
fn ac_051_times_of_tasks_only_grow() {
    python().holds("ac_048_");
}

#[test]
fn ac_052_times_of_tasks_are_utc() {
    python().holds("ac_048_");
}

#[test]
fn ac_053_a_state_changes_before_it_is_announced() {
    python().holds("ac_048_");
}

#[test]
fn ac_055_a_closed_connection_cancels() {
    python().holds("ac_055_");
}

#[test]
fn ac_056_a_closed_connection_leaves_no_queue() {
    python().holds("ac_056_");
}

#[test]
fn ac_057_service_goes_on_after_clients_vanish() {
    python().holds("ac_057_");
}

#[test]
fn ac_059_lengths_are_utf_16_units() {
    python().holds("ac_059_");
}

#[test]
fn ac_060_limits_of_requests_are_kept() {
    python().holds("ac_060_");
}

#[test]
fn ac_061_large_replies_arrive_whole() {
    python().holds("ac_061_");
}

#[test]
fn ac_062_messages_above_16_mebibytes_close() {
    python().holds("ac_062_");
}

#[test]
fn ac_063_unknown_fields_are_ignored() {
    python().holds("ac_063_");
}

#[test]
fn ac_064_unknown_keys_of_a_request_are_refused() {
    python().holds("ac_064_");
}

#[test]
fn ac_065_garbage_is_answered() {
    python().holds("ac_065_");
}

#[test]
fn ac_066_unknown_methods_and_bad_payloads_are_answered() {
    python().holds("ac_066_");
}

#[test]
fn ac_067_binary_messages_are_json() {
    python().holds("ac_067_");
}

#[test]
fn ac_068_an_id_in_use_is_refused() {
    python().holds("ac_068_");
}

#[test]
fn ac_069_malformed_members_are_refused() {
    python().holds("ac_069_");
}

#[test]
fn ac_070_unusable_history_ends_a_chat() {
    python().holds("ac_070_");
}

#[test]
fn ac_071_streams_are_framed_exactly() {
    python().holds("ac_071_");
}

#[test]
fn ac_072_bad_requests_are_refused_before_a_stream() {
    python().holds("ac_072_");
}

#[test]
fn ac_073_failures_after_the_200_are_frames() {
    python().holds("ac_073_");
}

#[test]
fn ac_074_streams_tell_the_same_events() {
    python().holds("ac_074_");
}

#[test]
fn ac_075_silent_streams_are_kept_alive() {
    python().holds("ac_075_");
}

#[test]
fn ac_076_streams_do_not_wait_for_each_other() {
    python().holds("ac_076_");
}

#[test]
fn ac_077_whoever_leaves_cancels() {
    python().holds("ac_077_");
}

#[test]
fn ac_079_other_versions_are_refused() {
    python().holds("ac_079_");
}

#[test]
fn ac_080_slow_readers_lose_nothing() {
    python().holds("ac_080_");
}

#[test]
fn ac_082_silent_chats_give_signs_of_life() {
    python().holds("ac_082_");
}
