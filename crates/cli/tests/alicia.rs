//! The binary against software that nobody here wrote: Alicia on Python `websockets`, `msgpack` and
//! `httpx`, and on npm `ws` and `@msgpack/msgpack`; and a web client on React and `msgpackr`. They do the checking (see
//! `tests/peers/*/alicia_*`); here the servers are started for them, and each statement of the
//! reference that they show has a test named after it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod support;

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

use support::found::Found;
use support::{BASIC, GENEROUS, Served};

/// What clients can be tuned to.
const ELITES: &str = "alicia.elites=[\
    {id='pa_swift',label='Swift',description='Short and quick',best_for='small talk',scores={success_rate=0.6,\
        quality=0.5,efficiency=0.95,robustness=0.6,generalization=0.5,diversity=0.2,innovation=0.1}},\
    {id='pa_sound',label='Sound',description='Slow and certain',best_for='facts',scores={success_rate=0.95,\
        quality=0.8,efficiency=0.2,robustness=0.9,generalization=0.6,diversity=0.1,innovation=0.2}},\
    {id='pa_bold',label='Bold',description='Surprising',best_for='ideas',scores={success_rate=0.4,\
        quality=0.7,efficiency=0.4,robustness=0.3,generalization=0.7,diversity=0.95,innovation=0.9}}]";

/// Little patience, and a short queue.
const HASTY: &[&str] = &[
    "alicia.limits.ping_s=1",
    "alicia.limits.idle_s=4",
    "alicia.limits.generation_s=3",
    "alicia.limits.work_queue=4",
    "alicia.limits.envelopes_burst=1000",
    "alicia.limits.envelopes_per_10_s=1000",
];

/// The agent of the checks.
fn story() -> [String; 3] {
    let path = support::root().join("tests/peers/alicia_story.toml");
    [
        "agent=alicia".into(),
        "agents.alicia.kind=script".into(),
        format!("agents.alicia.path={}", path.display()),
    ]
}

/// Runs a peer against servers of its own.
fn found_by(mut peer: Command) -> Found {
    let data = tempfile::tempdir().unwrap();
    let story = story();
    let story: Vec<&str> = story.iter().map(String::as_str).collect();
    let server = Served::start(&data.path().join("usual"), &[BASIC, GENEROUS, &story, &[ELITES]]);
    let hasty = Served::start(&data.path().join("hasty"), &[BASIC, GENEROUS, &story, HASTY]);
    peer.args([&server.base(), "--hasty", &hasty.base(), "--database"]);
    Found::read(&peer.arg(data.path().join("usual/switchboard.db")).output().unwrap())
}

/// The checks in Python, which run once for all the tests below.
fn python() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| found_by(support::python("alicia_peer.py")))
}

/// A peer that is also an endpoint which the server asks: it begins with its address, and is told
/// where the server is.
struct Endpoint {
    peer: Child,
    tell: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Endpoint {
    /// The peer, and the address of what it serves.
    fn start(script: &str) -> (Self, String) {
        let mut peer = support::python(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let tell = peer.stdin.take().unwrap();
        let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
        let address = lines.next().expect("the address of the endpoint").unwrap();
        (Self { peer, tell, lines }, address)
    }

    fn tell(&mut self, server: &Served) {
        writeln!(self.tell, "{}", server.base()).unwrap();
    }

    fn found(mut self) -> Found {
        let said: Vec<String> = self.lines.map_while(Result::ok).collect();
        let status = self.peer.wait().unwrap();
        Found::read(&Output { status, stdout: said.join("\n").into_bytes(), stderr: Vec::new() })
    }
}

/// What is left after `kill -9`. The peer is the model of some of the answers.
fn killed() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let data = tempfile::tempdir().unwrap();
        let (mut peer, address) = Endpoint::start("alicia_kill.py");
        let model = [
            "agents.model.kind=openai",
            "agents.model.model=fake",
            &format!("agents.model.base_url={address}"),
            "routes=[{principal='bob',agent='model'}]",
        ];
        let story = story();
        let story: Vec<&str> = story.iter().map(String::as_str).collect();
        let settings: &[&[&str]] = &[BASIC, GENEROUS, &story, &model];
        let server = Served::start(data.path(), settings);
        peer.tell(&server);
        let ready = peer.lines.next().and_then(Result::ok);
        assert_eq!(ready.as_deref(), Some("kill"), "the peer is ready");
        server.kill();
        let server = Served::start(data.path(), settings);
        peer.tell(&server);
        peer.found()
    })
}

/// What is said aloud. The peer understands it for the server.
fn heard() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let data = tempfile::tempdir().unwrap();
        let (mut peer, address) = Endpoint::start("alicia_voice.py");
        let speech = ["speech.recognition.model=fake", &format!("speech.recognition.base_url={address}")];
        let story = story();
        let story: Vec<&str> = story.iter().map(String::as_str).collect();
        let server = Served::start(data.path(), &[BASIC, GENEROUS, &story, &speech]);
        peer.tell(&server);
        peer.found()
    })
}

#[test]
fn everything_that_python_checks() {
    assert!(python().checks.len() > 140, "{:#?}\n{}", python().checks, python().said);
    python().holds("");
}

#[test]
fn everything_that_npm_ws_checks() {
    let found = found_by(support::node("alicia_peer.mjs"));
    assert!(found.checks.len() > 35, "{:#?}\n{}", found.checks, found.said);
    found.holds("");
}

/// A web client of the lite profile, with React and `msgpackr`, behind a proxy that adds the credential.
fn web() -> &'static Found {
    static FOUND: OnceLock<Found> = OnceLock::new();
    FOUND.get_or_init(|| {
        let data = tempfile::tempdir().unwrap();
        let story = story();
        let story: Vec<&str> = story.iter().map(String::as_str).collect();
        let server = Served::start(data.path(), &[BASIC, GENEROUS, &story]);
        Found::read(&support::node("alicia_web.mjs").arg(server.base()).output().unwrap())
    })
}

#[test]
fn everything_that_a_web_client_shows() {
    assert!(web().checks.len() >= 9, "{:#?}\n{}", web().checks, web().said);
    web().holds("");
}

#[test]
fn everything_that_survives_kill_9() {
    assert!(killed().checks.len() >= 5, "{:#?}\n{}", killed().checks, killed().said);
    killed().holds("");
}

#[test]
fn everything_that_is_said_aloud() {
    assert!(heard().checks.len() >= 4, "{:#?}\n{}", heard().checks, heard().said);
    heard().holds("");
}

#[test]
fn al_001_envelopes_are_canonical() {
    python().holds("al_001_");
}

#[test]
fn al_002_fixed_widths_are_read() {
    python().holds("al_002_");
}

#[test]
fn al_003_wide_map_headers_are_read() {
    python().holds("al_003_");
}

#[test]
fn al_004_integral_floats_are_integers() {
    python().holds("al_003_");
}

#[test]
fn al_005_nil_and_undefined_are_absent() {
    python().holds("al_003_");
}

#[test]
fn al_006_floats_of_both_widths_are_read() {
    python().holds("al_006_");
}

#[test]
fn al_007_unknown_keys_are_ignored() {
    python().holds("al_007_");
}

#[test]
fn al_008_what_is_no_envelope_is_malformed() {
    python().holds("al_008_");
}

#[test]
fn al_009_depth_and_lengths_are_bounded() {
    python().holds("al_009_");
}

#[test]
fn al_010_ten_malformed_envelopes_disconnect() {
    python().holds("al_010_");
}

#[test]
fn al_011_unknown_types_are_skipped() {
    python().holds("al_011_");
}

#[test]
fn al_012_forbidden_directions_are_refused() {
    python().holds("al_012_");
}

#[test]
fn al_013_a_mismatch_is_refused() {
    python().holds("al_013_");
}

#[test]
fn al_014_conv_ac_is_normalised() {
    python().holds("al_014_");
}

#[test]
fn al_015_ids_are_opaque() {
    python().holds("al_015_");
}

#[test]
fn al_016_stanzas_are_dense_from_minus_one() {
    python().holds("al_016_");
}

#[test]
fn al_017_stanzas_go_on_after_a_restart() {
    killed().holds("al_017_");
}

#[test]
fn al_018_what_is_unsequenced_takes_no_id() {
    python().holds("al_018_");
}

#[test]
fn al_019_a_repeated_stanza_is_dropped_or_acknowledged_again() {
    python().holds("al_019_");
}

#[test]
fn al_020_a_new_connection_may_begin_at_1() {
    python().holds("al_043_");
}

#[test]
fn al_021_a_stanza_beyond_i32_is_0() {
    python().holds("al_021_");
}

#[test]
fn al_022_a_configuration_is_answered_first() {
    python().holds("al_022_");
}

#[test]
fn al_023_then_the_resume_point_is_acknowledged() {
    python().holds("al_022_");
}

#[test]
fn al_024_exactly_the_rest_is_replayed() {
    python().holds("al_024_");
}

#[test]
fn al_025_nothing_overtakes_a_replay() {
    python().holds("al_025_");
}

#[test]
fn al_026_facts_follow_the_replay() {
    python().holds("al_022_");
}

#[test]
fn al_027_either_sign_gives_the_same_replay() {
    python().holds("al_024_");
}

#[test]
fn al_028_nothing_is_replayed_from_0() {
    python().holds("al_028_");
}

#[test]
fn al_029_a_gap_that_is_too_large_is_refused() {
    python().holds("al_029_");
}

#[test]
fn al_030_unknown_deleted_and_foreign_look_alike() {
    python().holds("al_030_");
}

#[test]
fn al_031_no_conversation_is_made_for_an_unknown_id() {
    python().holds("al_030_");
}

#[test]
fn al_034_entries_are_durable_before_they_are_sent() {
    killed().holds("al_034_");
}

#[test]
fn al_035_an_answer_goes_on_without_its_client() {
    python().holds("al_035_");
}

#[test]
fn al_036_an_interrupted_answer_ends_after_a_restart() {
    killed().holds("al_036_");
}

#[test]
fn al_041_a_message_is_stored_before_it_is_acknowledged() {
    python().holds("al_041_");
}

#[test]
fn al_042_the_id_of_a_message_is_kept() {
    python().holds("al_042_");
}

#[test]
fn al_043_a_repeated_message_starts_no_turn() {
    python().holds("al_043_");
}

#[test]
fn al_044_other_content_under_the_same_id_is_refused() {
    python().holds("al_044_");
}

#[test]
fn al_045_empty_content_and_unknown_parents_are_refused() {
    python().holds("al_045_");
}

#[test]
fn al_046_an_answer_has_one_final_sentence() {
    python().holds("al_046_");
}

#[test]
fn al_047_sentences_name_their_answer_and_count_from_1() {
    python().holds("al_041_");
}

#[test]
fn al_048_an_answer_is_sent_in_one_way() {
    python().holds("al_048_");
}

#[test]
fn al_049_without_streaming_an_answer_is_one_message() {
    python().holds("al_049_");
}

#[test]
fn al_050_joined_sentences_are_what_is_stored() {
    python().holds("al_050_");
}

#[test]
fn al_051_a_new_message_ends_the_old_answer_first() {
    python().holds("al_051_");
}

#[test]
fn al_052_a_failure_ends_its_answer() {
    python().holds("al_052_");
}

#[test]
fn al_053_a_memory_trace_names_the_question() {
    python().holds("al_053_");
}

#[test]
fn al_054_reasoning_names_the_answer_and_can_be_switched_off() {
    python().holds("al_054_");
}

#[test]
fn al_056_a_final_transcription_is_the_user_message() {
    heard().holds("al_056_");
}

#[test]
fn al_060_an_utterance_is_transcribed_once() {
    heard().holds("al_060_");
}

#[test]
fn al_065_a_time_out_is_told() {
    python().holds("al_065_");
}

#[test]
fn al_066_results_are_matched_by_id_alone_too() {
    python().holds("al_066_");
}

#[test]
fn al_067_the_first_result_wins() {
    python().holds("al_067_");
}

#[test]
fn al_069_a_failed_tool_is_no_error() {
    python().holds("al_069_");
}

#[test]
fn al_070_a_stop_cancels_a_tool() {
    python().holds("al_070_");
}

#[test]
fn al_071_a_stop_is_acknowledged() {
    python().holds("al_071_");
}

#[test]
fn al_072_no_sentence_follows_a_stop() {
    python().holds("al_072_");
}

#[test]
fn al_073_stop_types() {
    python().holds("al_073_");
}

#[test]
fn al_074_a_stop_of_nothing_has_no_success() {
    python().holds("al_074_");
}

#[test]
fn al_075_regenerate_keeps_the_old_answer() {
    python().holds("al_075_");
}

#[test]
fn al_076_an_edit_makes_a_sibling() {
    python().holds("al_076_");
}

#[test]
fn al_077_an_edit_waits_for_its_follow_up() {
    python().holds("al_077_");
}

#[test]
fn al_078_an_answer_is_edited_in_place() {
    python().holds("al_078_");
}

#[test]
fn al_079_continue_adds_a_child_and_retry_regenerates() {
    python().holds("al_079_");
}

#[test]
fn al_080_the_tip_follows() {
    python().holds("al_080_");
}

#[test]
fn al_081_each_request_has_one_confirmation() {
    python().holds("al_081_");
}

#[test]
fn al_082_a_second_vote_replaces_the_first() {
    python().holds("al_082_");
}

#[test]
fn al_083_critical_is_a_vote_of_its_own() {
    python().holds("al_082_");
}

#[test]
fn al_084_confirmations_name_their_requests() {
    python().holds("al_084_");
}

#[test]
fn al_085_flags_are_set() {
    python().holds("al_085_");
}

#[test]
fn al_086_weights_are_normalised() {
    python().holds("al_086_");
}

#[test]
fn al_087_tuning_is_acknowledged_and_answered() {
    python().holds("al_087_");
}

#[test]
fn al_088_durations_are_milliseconds() {
    python().holds("al_088_");
}

#[test]
fn al_089_strangers_stay_outside() {
    python().holds("al_089_");
}

#[test]
fn al_090_the_acknowledgement_of_a_subscription_is_first() {
    python().holds("al_090_");
}

#[test]
fn al_091_what_cannot_be_seen_is_not_found() {
    python().holds("al_091_");
}

#[test]
fn al_092_missed_messages_are_sent() {
    python().holds("al_092_");
}

#[test]
fn al_093_subscribing_twice_succeeds() {
    python().holds("al_093_");
}

#[test]
fn al_094_nothing_follows_an_unsubscribe() {
    python().holds("al_094_");
}

#[test]
fn al_095_nothing_is_done_without_a_subscription() {
    python().holds("al_095_");
}

#[test]
fn al_096_envelopes_of_clients_are_not_relayed() {
    python().holds("al_109_");
}

#[test]
fn al_097_bodies_are_supersets() {
    python().holds("al_097_");
}

#[test]
fn al_098_silent_clients_are_pinged() {
    python().holds("al_098_");
}

#[test]
fn al_099_each_message_of_a_batch_has_a_result() {
    python().holds("al_099_");
}

#[test]
fn al_100_syncing_again_changes_nothing() {
    python().holds("al_100_");
}

#[test]
fn al_101_sync_is_atomic_per_message_and_starts_no_answer() {
    python().holds("al_101_");
}

#[test]
fn al_106_a_full_queue_is_504() {
    python().holds("al_106_");
}

#[test]
fn al_107_every_meta_entry_is_a_row() {
    python().holds("al_107_");
}

#[test]
fn al_108_lite_clients_are_answered_in_kind() {
    python().holds("al_108_");
}

#[test]
fn al_109_other_devices_are_told() {
    python().holds("al_109_");
}

#[test]
fn al_110_the_sender_is_not() {
    python().holds("al_109_");
}
