//! Seeded simulations: 200 by default, `SWITCHBOARD_SEEDS=N` for another number, `SWITCHBOARD_SEED=N`
//! for a single one; and proof that whatever they watch for would be noticed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use switchboard_testkit::{Failure, Invariant, Mutation, SimulationOptions, simulate};

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
                let t0 = std::time::Instant::now();
                let r = simulate(seed, &options());
                eprintln!("T {seed} {:?} {:?}", t0.elapsed(), r.as_ref().map(|r| (r.events, r.millis)).ok());
                if let Err(found_here) = r {
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
    if let Some(failure) = run(number("SWITCHBOARD_SEEDS").unwrap_or(200)) {
        panic!("\n{failure}");
    }
}

/// Replays `SWITCHBOARD_SEED`; with `--nocapture` it shows what the simulation did.
#[test]
fn one_seed() {
    match simulate(number("SWITCHBOARD_SEED").unwrap_or(0), &options()) {
        Ok(report) => println!("{report:?}"),
        Err(failure) => panic!("\n{failure}"),
    }
}
