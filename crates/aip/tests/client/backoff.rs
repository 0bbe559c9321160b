//! AIP-083.

use std::time::Duration;

use switchboard_aip::client::{Backoff, Policy, Strategy};
use switchboard_core::Seed;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn waits(strategy: &Strategy) -> Vec<Duration> {
    let mut backoff = Backoff::new(Strategy { jitter: 0.0, ..strategy.clone() }, &Seed::new([1; 32]));
    std::iter::from_fn(|| backoff.next_delay()).collect()
}

#[test]
fn aip_083_waits_follow_the_formulas_and_have_a_cap() {
    let strategy = Strategy { max_tries: 9, ..Strategy::default() };
    assert_eq!(waits(&strategy), [1, 2, 4, 8, 16, 32, 60, 60, 60].map(secs));
    let linear = Strategy { policy: Policy::Linear, initial: secs(20), max_tries: 5, ..Strategy::default() };
    assert_eq!(waits(&linear), [20, 40, 60, 60, 60].map(secs));
    let immediate = Strategy { policy: Policy::Immediate, max_tries: 3, ..Strategy::default() };
    assert_eq!(waits(&immediate), [0, 0, 0].map(secs));
    assert_eq!(waits(&Strategy { policy: Policy::None, ..Strategy::default() }), []);
    let thrice = Strategy { multiplier: 3.0, initial: Duration::from_millis(500), ..Strategy::default() };
    assert_eq!(waits(&thrice)[2], Duration::from_millis(4500));
}

#[test]
fn the_numbers_are_those_of_the_reference() {
    assert_eq!(waits(&Strategy::default()), [1, 2, 4, 8, 16].map(secs));
    assert_eq!(waits(&Strategy::device()), [2, 4, 8].map(secs));
    let names = [Policy::Exponential, Policy::Linear, Policy::Immediate, Policy::None].map(Policy::as_str);
    assert_eq!(names, ["exponential_backoff", "linear_backoff", "immediate", "none"]);
}

#[test]
fn aip_083_a_success_begins_anew() {
    let mut backoff = Backoff::new(Strategy { jitter: 0.0, ..Strategy::device() }, &Seed::new([1; 32]));
    assert_eq!([backoff.next_delay(), backoff.next_delay()], [Some(secs(2)), Some(secs(4))]);
    assert_eq!(backoff.tries(), 2);
    backoff.reset();
    assert_eq!(backoff.tries(), 0);
    assert_eq!(backoff.next_delay(), Some(secs(2)));
    backoff.next_delay();
    backoff.next_delay();
    assert_eq!(backoff.next_delay(), None);
}

#[test]
fn aip_083_chance_adds_or_takes_a_fifth() {
    let strategy =
        Strategy { max_tries: u32::MAX, multiplier: 1.0, initial: secs(10), ..Strategy::default() };
    let mut backoff = Backoff::new(strategy.clone(), &Seed::new([1; 32]));
    let waits: Vec<Duration> = (0..1000).map(|_| backoff.next_delay().unwrap()).collect();
    assert!(waits.iter().all(|wait| (secs(8)..=secs(12)).contains(wait)));
    assert!(waits.iter().any(|wait| *wait < Duration::from_millis(8100)));
    assert!(waits.iter().any(|wait| *wait > Duration::from_millis(11_900)));
    // Clients differ, and the longest wait is the longest.
    assert_ne!(Backoff::new(strategy.clone(), &Seed::new([2; 32])).next_delay(), Some(waits[0]));
    let mut capped = Backoff::new(Strategy { max: secs(10), ..strategy }, &Seed::new([1; 32]));
    assert!((0..1000).all(|_| capped.next_delay().unwrap() <= secs(10)));
}

#[test]
fn no_numbers_are_too_much() {
    let wild = Strategy { multiplier: f64::INFINITY, max_tries: u32::MAX, ..Strategy::default() };
    for strategy in [
        wild.clone(),
        Strategy { multiplier: f64::NAN, ..wild.clone() },
        Strategy { multiplier: -2.0, ..wild },
    ] {
        assert!([0, 1, 2, u32::MAX].into_iter().all(|n| strategy.delay(n) <= strategy.max));
    }
    assert_eq!(Strategy::default().delay(u32::MAX), secs(60));
}
