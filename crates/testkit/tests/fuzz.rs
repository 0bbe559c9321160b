//! What the fuzz targets do, on their corpus and on random input, in an ordinary test.

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
    assert!(!corpus.is_empty());
    let mut state = 0x5357_u64;
    let mut random = move |bound: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(state >> 33).unwrap() % bound.max(1)
    };
    for input in &corpus {
        target(input);
    }
    for _ in 0..2000 {
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
    for _ in 0..1000 {
        let noise: Vec<u8> = (0..random(400)).map(|_| u8::try_from(random(256)).unwrap()).collect();
        target(&noise);
    }
}

#[test]
fn decode() {
    run("asp_decode", fuzzing::decode);
}

#[test]
fn connection() {
    run("asp_connection", fuzzing::connection);
}

#[test]
fn session() {
    run("session_ops", fuzzing::session);
}

#[test]
fn acolyte_decode() {
    run("acolyte_decode", fuzzing::acolyte_decode);
}

#[test]
fn acolyte_connection() {
    run("acolyte_connection", fuzzing::acolyte_connection);
}
