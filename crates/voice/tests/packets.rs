//! Packets of audio as strangers send them: what the fuzz target `audio_decode` does, on its corpus, on damaged copies
//! of it, and on noise. `SWITCHBOARD_ROUNDS=N` does more of it than usual.

#[path = "../../../fuzz/fuzz_targets/audio.rs"]
mod audio;

use std::path::Path;

#[test]
fn any_packet_is_decoded_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/audio_decode");
    let mut corpus: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    corpus.sort();
    let mut state = 0x5357_u64;
    let mut random = move |bound: usize| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        usize::try_from(state >> 33).unwrap() % bound.max(1)
    };
    let whole: usize = corpus.iter().map(|input| audio::decode(input)).sum();
    assert!(whole > 0, "some of it is audio");
    for round in 0..rounds() {
        let mut input = match round % 3 {
            0 => (0..random(600)).map(|_| u8::try_from(random(256)).unwrap()).collect(),
            _ => corpus[random(corpus.len())].clone(),
        };
        for _ in 0..=random(6) {
            let length = input.len();
            if length > 0 {
                input[random(length)] = u8::try_from(random(256)).unwrap();
            }
        }
        audio::decode(&input);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test is told by whoever runs it how long it may take")]
fn rounds() -> usize {
    std::env::var("SWITCHBOARD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(500)
}
