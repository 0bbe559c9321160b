//! What the fuzz targets do, on their corpus, on damaged copies of it, and on noise. `SWITCHBOARD_ROUNDS=N` does more of
//! it than usual.

use std::path::Path;

use switchboard_rtc::fuzzing;

/// Runs a target on everything that is interesting about it, and on what a simple generator makes of that.
fn run(name: &str, usual: usize, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut corpus: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    corpus.sort();
    assert!(!corpus.is_empty(), "{name}");
    let mut state = 0x5357_u64;
    let mut random = move |bound: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(state >> 33).unwrap() % bound.max(1)
    };
    corpus.iter().for_each(|input| target(input));
    for round in 0..rounds(usual) {
        let mut input = match round % 3 {
            0 => (0..random(300)).map(|_| u8::try_from(random(256)).unwrap()).collect(),
            _ => corpus[random(corpus.len())].clone(),
        };
        for _ in 0..=random(4) {
            match (random(3), input.len()) {
                (0, _) => input.extend((0..random(64)).map(|_| u8::try_from(random(256)).unwrap())),
                (1, length @ 1..) => input[random(length)] = u8::try_from(random(256)).unwrap(),
                (_, length) => input.truncate(length - random(length.min(40))),
            }
        }
        target(&input);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is told by whoever runs it how long it may take")]
fn rounds(usual: usize) -> usize {
    std::env::var("SWITCHBOARD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

#[test]
fn offers() {
    run("rtc_offer", 300, fuzzing::offer);
}

#[test]
fn fragments() {
    run("rtc_fragment", 1000, fuzzing::fragment);
}

#[test]
fn datagrams_of_strangers() {
    run("rtc_stun", 1000, fuzzing::stun);
}

#[test]
fn handshakes() {
    run("rtc_dtls", 100, fuzzing::dtls);
}

#[test]
fn peers_on_a_network_that_does_harm() {
    run("rtc_peer", 15, fuzzing::peer);
}
