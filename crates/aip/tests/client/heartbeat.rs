//! Beats on schedule, and AIP-042 as far as the manager goes.

use std::time::Duration;

use switchboard_aip::client::{DEFAULT_INTERVAL, HeartbeatManager, Pulse};

use crate::support::START;

const EVERY: Duration = Duration::from_secs(30);

fn beat(client: &str) -> Option<Pulse> {
    Some(Pulse::Beat(client.to_owned()))
}

#[test]
fn aip_042_the_first_beat_comes_after_a_full_interval_and_then_one_each() {
    let mut beats = HeartbeatManager::default();
    assert_eq!(beats.next_wake(), None);
    beats.start("d", DEFAULT_INTERVAL, START);
    assert_eq!(beats.next_wake(), Some(START.after(EVERY)));
    assert_eq!(beats.poll(START), None);
    assert_eq!(beats.poll(START.after(EVERY - Duration::from_micros(1))), None);
    for n in 1..5 {
        let now = START.after(EVERY * n);
        assert_eq!(beats.poll(now), beat("d"));
        assert_eq!(beats.poll(now), None);
        beats.heard("d");
    }
}

#[test]
fn a_peer_that_says_nothing_between_two_beats_is_dead() {
    let mut beats = HeartbeatManager::default();
    beats.start("d", EVERY, START);
    assert_eq!(beats.poll(START.after(EVERY)), beat("d"));
    assert_eq!(beats.next_wake(), Some(START.after(EVERY * 2)));
    assert_eq!(beats.poll(START.after(EVERY * 2)), Some(Pulse::Dead("d".to_owned())));
    assert!(!beats.is_running("d"));
    assert_eq!(beats.poll(START.after(EVERY * 9)), None);
}

#[test]
fn a_late_beat_does_not_make_two() {
    let mut beats = HeartbeatManager::default();
    beats.start("d", EVERY, START);
    let late = START.after(EVERY * 10);
    assert_eq!(beats.poll(late), beat("d"));
    assert_eq!(beats.poll(late), None);
    assert_eq!(beats.next_wake(), Some(late.after(EVERY)));
}

#[test]
fn there_is_one_loop_for_each_client() {
    let mut beats = HeartbeatManager::default();
    beats.start("a", EVERY, START);
    beats.start("b", EVERY * 2, START);
    assert_eq!(
        (beats.interval("a"), beats.interval("b"), beats.interval("c")),
        (Some(EVERY), Some(EVERY * 2), None)
    );
    // Starting twice restarts.
    let later = START.after(Duration::from_secs(20));
    beats.start("a", EVERY, later);
    assert_eq!(beats.poll(START.after(EVERY)), None);
    assert_eq!(beats.poll(later.after(EVERY)), beat("a"));
    assert_eq!(beats.poll(later.after(EVERY)), None);
    // What one hears is nothing to the other.
    assert_eq!(beats.poll(START.after(EVERY * 2)), beat("b"));
    beats.heard("b");
    assert_eq!(beats.poll(later.after(EVERY * 2)), Some(Pulse::Dead("a".to_owned())));
    assert!(beats.is_running("b"));
    assert!(beats.stop("b") && !beats.stop("b"));
    beats.start("a", EVERY, START);
    beats.start("b", EVERY, START);
    beats.stop_all();
    assert_eq!((beats.is_running("a"), beats.is_running("b"), beats.next_wake()), (false, false, None));
}

#[test]
fn no_interval_is_none() {
    let mut beats = HeartbeatManager::default();
    beats.start("d", Duration::ZERO, START);
    assert_eq!(beats.poll(START), None);
}
