//! What the fuzz targets do, on their corpus and on random input, in an ordinary test. `SWITCHBOARD_ROUNDS=N` does
//! more of it than the usual 1000 rounds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use switchboard_testkit::fuzzing;

/// Runs a target on its corpus, on damaged copies of it, and on noise.
fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut corpus: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    corpus.sort();
    run_on(&corpus, target);
}

fn run_on(corpus: &[Vec<u8>], target: fn(&[u8])) {
    assert!(!corpus.is_empty());
    let mut state = 0x5357_u64;
    let mut random = move |bound: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(state >> 33).unwrap() % bound.max(1)
    };
    for input in corpus {
        target(input);
    }
    let rounds = rounds();
    for _ in 0..2 * rounds {
        let mut input = corpus[random(corpus.len())].clone();
        for _ in 0..=random(4) {
            match (random(4), input.len()) {
                (0, _) => input.extend((0..random(64)).map(|_| u8::try_from(random(256)).unwrap())),
                (1, length @ 1..) => input[random(length)] = u8::try_from(random(256)).unwrap(),
                (2, length @ 1..) => input.truncate(random(length)),
                _ => input.extend_from_slice(&corpus[random(corpus.len())].clone()),
            }
        }
        target(&input);
    }
    for _ in 0..rounds {
        let noise: Vec<u8> = (0..random(400)).map(|_| u8::try_from(random(256)).unwrap()).collect();
        target(&noise);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is told by whoever runs it how long it may take")]
fn rounds() -> usize {
    std::env::var("SWITCHBOARD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1000)
}

#[test]
fn decode() {
    run("asp_decode", fuzzing::decode);
}

#[test]
fn relay() {
    run("asp_relay", fuzzing::relay);
}

#[test]
fn connection() {
    run("asp_connection", fuzzing::connection);
}

#[test]
fn session() {
    run("session_ops", fuzzing::session);
}

/// A device joins, is asked for two things, answers both, is asked again, and is lost.
#[test]
fn session_with_devices() {
    let at_work = [
        [1, 0, 8, 3, 5, 0x41, 1, 1, 1, 200].as_slice(), // ann starts a turn for d0
        &[1, 3, 15, 0],                                 // a worker claims it
        &[1, 3, 22, 0, 1, 2, 0, 1, 1, 255, 1, 1, 255],  // and asks d0 for two things
    ]
    .concat();
    let parts = [
        [1, 7, 0].as_slice(),                    // ann opens the session
        &[1, 7, 23, 0, 1, 7, 24, 1],             // d0 joins and reports
        &at_work,                                //
        &[1, 9, 14, 0, 0, 0],                    // another device may not answer
        &[1, 7, 14, 0, 0, 0, 1, 7, 14, 0, 1, 1], // d0 does, twice
        &at_work,                                //
        &[1, 5, 25, 0, 1, 5, 20],                // d0 is lost; the server starts again
    ];
    run_on(&[parts.concat()], fuzzing::session);
}

#[test]
fn acolyte_decode() {
    run("acolyte_decode", fuzzing::acolyte_decode);
}

#[test]
fn acolyte_connection() {
    run("acolyte_connection", fuzzing::acolyte_connection);
}

#[test]
fn aip_decode() {
    run("aip_decode", fuzzing::aip_decode);
}

#[test]
fn aip_connection() {
    run("aip_connection", fuzzing::aip_connection);
}

#[test]
fn alicia_decode() {
    run("alicia_decode", fuzzing::alicia_decode);
}

#[test]
fn alicia_connection() {
    run("alicia_connection", fuzzing::alicia_connection);
}

#[test]
fn alicia_annals() {
    run("alicia_annals", fuzzing::alicia_annals);
}

#[test]
fn vip_decode() {
    run("vip_decode", fuzzing::vip_decode);
}

#[test]
fn vip_context() {
    run("vip_context", fuzzing::vip_context);
}

#[test]
fn vip_connection() {
    run("vip_connection", fuzzing::vip_connection);
}

#[test]
fn vip_client() {
    run("vip_client", fuzzing::vip_client);
}

#[test]
fn asp_client() {
    run("asp_client", fuzzing::asp_client);
}

#[test]
fn acolyte_client() {
    run("acolyte_client", fuzzing::acolyte_client);
}

#[test]
fn aip_client() {
    run("aip_client", fuzzing::aip_client);
}

#[test]
fn alicia_client() {
    run("alicia_client", fuzzing::alicia_client);
}
