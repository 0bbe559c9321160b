//! Sounds to test with.

use std::f32::consts::PI;
use std::process::Command;

use crate::audio::read_wav;

/// A sentence at 16 kHz, spoken by a program that has to be installed.
pub(crate) fn speech(text: &str) -> Vec<f32> {
    let flite = Command::new("flite").args(["-voice", "rms", "-t", text, "-o", "/dev/stdout"]).output();
    let sound = read_wav(&flite.expect("flite has to be installed").stdout).unwrap();
    assert_eq!(sound.rate, 16_000);
    sound.samples
}

pub(crate) fn silence(ms: usize) -> Vec<f32> {
    vec![0.0; ms * 16]
}

/// Numbers from -1 to 1 that are never the same, and always the same.
pub(crate) fn random() -> impl Iterator<Item = f32> {
    let mut state = 12_345_u32;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    })
}

pub(crate) fn noise(ms: usize, level: f32) -> Vec<f32> {
    random().take(ms * 16).map(|sample| sample * level).collect()
}

pub(crate) fn tone(ms: usize, hertz: f32) -> Vec<f32> {
    (0..ms * 16).map(|n| (2.0 * PI * hertz * n as f32 / 16_000.0).sin() * 0.3).collect()
}

/// Short and loud, three times a second.
pub(crate) fn clicks(ms: usize) -> Vec<f32> {
    let decay = |n: usize| (-((n % 5_333) as f32) / 15.0).exp();
    random().take(ms * 16).enumerate().map(|(n, sample)| sample * decay(n)).collect()
}
