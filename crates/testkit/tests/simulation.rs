//! Seeded simulations: 500 by default, `SWITCHBOARD_SEEDS=N` for another number, `SWITCHBOARD_SEED=N`
//! for a single one; and proof that whatever they watch for would be noticed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use switchboard_testkit::{Failure, Invariant, Mutation, Report, SimulationOptions, Tongue, simulate};

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is up to whoever runs the tests")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn options() -> SimulationOptions {
    SimulationOptions::default()
}

/// Runs the seeds on every processor; the failure with the lowest seed, if there is one.
fn run(seeds: u64) -> Option<Box<Failure>> {
    let (next, found) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let failures = thread::scope(|scope| {
        let work = || {
            let mut failure = None;
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds || seed > found.load(Ordering::Relaxed) {
                    return failure;
                }
                if let Err(found_here) = simulate(seed, &options()) {
                    found.fetch_min(seed, Ordering::Relaxed);
                    failure = Some(found_here);
                }
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    failures.into_iter().min_by_key(|failure| failure.seed)
}

#[test]
fn whatever_happens_every_invariant_holds() {
    if let Some(failure) = run(number("SWITCHBOARD_SEEDS").unwrap_or(500)) {
        panic!("\n{failure}");
    }
}

/// Replays `SWITCHBOARD_SEED`; with `--nocapture` it shows what the simulation did.
#[test]
fn one_seed() {
    match simulate(number("SWITCHBOARD_SEED").unwrap_or(0), &options()) {
        Ok(report) => {
            report.trace.iter().for_each(|line| println!("{line}"));
            println!("{:?}", Report { trace: Vec::new(), ..report });
        }
        Err(failure) => panic!("\n{failure}"),
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 0..4 {
        let report = simulate(seed, &options()).unwrap();
        assert_eq!(report, simulate(seed, &options()).unwrap());
        assert_ne!(report.digest, simulate(seed + 100, &options()).unwrap().digest);
    }
}

/// A simulation in which nothing happens proves nothing.
#[test]
fn a_simulation_does_a_lot() {
    let reports: Vec<_> = (0..20).map(|seed| simulate(seed, &options()).unwrap()).collect();
    let sum = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    assert!(sum(|report| report.events) > 20 * 300, "events");
    assert!(sum(|report| report.frames) > 20 * 200, "frames");
    assert!(sum(|report| report.cuts) > 20 * 2, "cuts");
    assert!(sum(|report| report.crashes) > 20, "crashes");
    assert!(sum(|report| report.resumed) > 20 * 2, "resumes");
    for tongue in ["asp", "acolyte", "aip", "alicia", "vip"] {
        let turns: u64 = reports.iter().filter_map(|report| report.spoken.get(tongue)).sum();
        assert!(turns > 20 * 2, "{turns} turns in {tongue}");
    }
}

/// All but ASP, which is spoken by more clients than any of them.
const OTHERS: [Tongue; 4] = [Tongue::Acolyte, Tongue::Aip, Tongue::Alicia, Tongue::Vip];

/// Breaks the environment: somebody has to notice, again and again, and mostly the right thing. What is
/// broken may show first as something else, and now and then it does not matter.
fn notices(mutation: Mutation, invariant: Invariant) {
    notices_in(None, mutation, invariant);
}

/// The same where only one protocol is spoken.
fn notices_in(tongue: impl Into<Option<Tongue>>, mutation: Mutation, invariant: Invariant) {
    let broken = SimulationOptions { mutation: Some(mutation), tongue: tongue.into(), ..options() };
    let (mut right, mut wrong) = (0, Vec::new());
    for seed in 0..MOST_TRIES {
        let Err(failure) = simulate(seed, &broken) else { continue };
        if failure.invariant == invariant {
            right += 1;
        } else {
            wrong.push((failure.seed, failure.detail));
        }
        if right >= 3 && right > wrong.len() {
            break;
        }
    }
    let noticed = right >= 3 && right > wrong.len();
    assert!(noticed, "{mutation:?} is noticed as {invariant:?} {right} times, as something else: {wrong:?}");
}

/// Seeds after which a mutation has to be noticed; most need a few.
const MOST_TRIES: u64 = 36;

#[test]
fn a_connection_that_misses_an_event_is_noticed() {
    notices(Mutation::SkipDelivery, Invariant::Positions);
    for tongue in OTHERS {
        notices_in(tongue, Mutation::SkipDelivery, Invariant::Positions);
    }
}

#[test]
fn a_connection_that_is_fed_an_event_twice_is_noticed() {
    notices(Mutation::RepeatDelivery, Invariant::Positions);
    for tongue in OTHERS {
        notices_in(tongue, Mutation::RepeatDelivery, Invariant::Positions);
    }
}

#[test]
fn a_log_that_misses_an_event_is_noticed() {
    notices(Mutation::LoseEvent, Invariant::Positions);
}

#[test]
fn a_second_end_of_a_turn_is_noticed() {
    notices(Mutation::EndTwice, Invariant::OneEnd);
}

#[test]
fn a_turn_without_an_end_is_noticed() {
    notices(Mutation::NeverEnd, Invariant::OneEnd);
}

#[test]
fn output_after_an_interrupt_is_noticed() {
    notices(Mutation::SpeakAfterInterrupt, Invariant::Silence);
}

#[test]
fn a_second_end_of_a_call_is_noticed() {
    notices(Mutation::EndCallTwice, Invariant::OneCallEnd);
}

#[test]
fn a_call_without_an_end_is_noticed() {
    notices(Mutation::LoseCallEnd, Invariant::OneCallEnd);
}

#[test]
fn a_frame_that_is_lost_is_noticed() {
    for tongue in [Tongue::Asp, Tongue::Acolyte, Tongue::Alicia, Tongue::Vip] {
        notices_in(tongue, Mutation::LoseFrame, Invariant::SameView);
    }
}

#[test]
fn a_frame_that_comes_twice_is_noticed() {
    for tongue in [Tongue::Asp, Tongue::Acolyte, Tongue::Alicia, Tongue::Vip] {
        notices_in(tongue, Mutation::RepeatFrame, Invariant::SameView);
    }
    // There the frame is a command, which is not to be run twice.
    notices_in(Tongue::Aip, Mutation::RepeatFrame, Invariant::OneExecution);
}

#[test]
fn a_second_terminal_frame_is_noticed() {
    for tongue in [Tongue::Asp, Tongue::Acolyte, Tongue::Aip] {
        notices_in(tongue, Mutation::RepeatTerminal, Invariant::OneTerminal);
    }
    // There every frame has a number, and that is noticed first.
    for tongue in [Tongue::Alicia, Tongue::Vip] {
        notices_in(tongue, Mutation::RepeatTerminal, Invariant::SameView);
    }
}

#[test]
fn a_request_that_is_never_answered_is_noticed() {
    for tongue in [Tongue::Asp, Tongue::Acolyte] {
        notices_in(tongue, Mutation::LoseTerminal, Invariant::OneTerminal);
    }
    for tongue in [Tongue::Alicia, Tongue::Vip] {
        notices_in(tongue, Mutation::LoseTerminal, Invariant::SameView);
    }
}

#[test]
fn an_event_that_is_not_applied_is_noticed() {
    notices(Mutation::SkipApply, Invariant::Replay);
}

#[test]
fn a_connection_that_never_forgets_is_noticed() {
    notices(Mutation::Hoard, Invariant::Bounds);
    for tongue in OTHERS {
        notices_in(tongue, Mutation::Hoard, Invariant::Bounds);
    }
}

#[test]
fn a_turn_that_leaves_the_log_is_noticed() {
    notices(Mutation::ForgetTurn, Invariant::Durable);
}

#[test]
fn a_request_that_is_executed_twice_is_noticed() {
    notices(Mutation::RunTwice, Invariant::OneExecution);
}

#[test]
fn a_frame_at_the_wrong_principal_is_noticed() {
    for tongue in [Tongue::Asp, Tongue::Acolyte, Tongue::Alicia, Tongue::Vip] {
        notices_in(tongue, Mutation::Leak, Invariant::Privacy);
    }
}

#[test]
fn a_panic_is_noticed() {
    notices(Mutation::Panic, Invariant::NoPanic);
}

#[test]
fn a_turn_that_is_named_after_what_was_said_is_noticed() {
    notices(Mutation::Gossip, Invariant::Quiet);
}
