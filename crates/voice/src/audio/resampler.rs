//! From one rate to another, packet by packet.

use std::f32::consts::PI;

/// A polyphase low-pass filter that keeps its place between packets. Made for speech: what is above nine tenths
/// of the lower rate's band is lost.
#[derive(Clone, Debug)]
pub struct Resampler {
    up: usize,
    down: usize,
    taps: usize,
    /// The filter, one row of `taps` for each of the `up` phases, newest sample first.
    bank: Vec<f32>,
    /// What came last, for the beginning of what comes next.
    line: Vec<f32>,
    /// Where the next sample is made: the newest sample of `line` that it needs, and the phase.
    at: usize,
    phase: usize,
}

impl Resampler {
    /// From a rate to another; none if they have too little in common.
    #[must_use]
    pub fn new(from: u32, to: u32) -> Option<Self> {
        if !RATES.contains(&from) || !RATES.contains(&to) {
            return None;
        }
        let common = greatest_common_divisor(from, to);
        let (up, down) = ((to / common) as usize, (from / common) as usize);
        let taps = if up == down { 1 } else { TAPS * down.div_ceil(up) };
        if up * taps > MAX_BANK {
            return None;
        }
        let bank = if up == down { vec![1.0] } else { bank(up, down, taps) };
        Some(Self { up, down, taps, bank, line: vec![0.0; taps - 1], at: taps - 1, phase: 0 })
    }

    /// Appends what these samples become at the other rate.
    pub fn process(&mut self, samples: &[f32], into: &mut Vec<f32>) {
        if self.up == self.down {
            into.extend_from_slice(samples);
            return;
        }
        self.line.extend_from_slice(samples);
        into.reserve(samples.len() * self.up / self.down + 1);
        while self.at < self.line.len() {
            let row = &self.bank[self.phase * self.taps..][..self.taps];
            let newest_first = self.line[self.at + 1 - self.taps..=self.at].iter().rev();
            into.push(row.iter().zip(newest_first).map(|(factor, sample)| factor * sample).sum());
            self.phase += self.down;
            self.at += self.phase / self.up;
            self.phase %= self.up;
        }
        let done = (self.at + 1 - self.taps).min(self.line.len());
        self.line.drain(..done);
        self.at -= done;
    }
}

/// The rows of a windowed sinc, each of which lets a constant pass unchanged.
fn bank(up: usize, down: usize, taps: usize) -> Vec<f32> {
    let length = up * taps;
    let middle = (length - 1) as f32 / 2.0;
    let cutoff = PASS / up.max(down) as f32;
    let prototype = |index: usize| {
        let x = index as f32 - middle;
        let turn = 2.0 * PI * index as f32 / (length - 1) as f32;
        let window = 0.42 - 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos();
        let sinc = if x == 0.0 { cutoff } else { (PI * cutoff * x).sin() / (PI * x) };
        sinc * window
    };
    let mut bank = Vec::with_capacity(length);
    for phase in 0..up {
        let row: Vec<f32> = (0..taps).map(|tap| prototype(tap * up + phase)).collect();
        let sum: f32 = row.iter().sum();
        bank.extend(row.iter().map(|factor| factor / sum));
    }
    bank
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Rates that speech is recorded at.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;
/// Samples that each sample is made of, for every one of the higher rate to one of the lower.
const TAPS: usize = 32;
/// How much of the lower rate's band passes.
const PASS: f32 = 0.9;
/// The longest filter: more than any two usual rates need.
const MAX_BANK: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: [u32; 6] = [8_000, 16_000, 22_050, 24_000, 44_100, 48_000];

    fn tone(rate: u32, hertz: f32, count: usize) -> Vec<f32> {
        (0..count).map(|n| (2.0 * PI * hertz * n as f32 / rate as f32).sin() * 0.5).collect()
    }

    fn level(samples: &[f32]) -> f32 {
        (samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32).sqrt()
    }

    #[test]
    fn a_tone_keeps_its_pitch_level_and_length_between_all_usual_rates() {
        for from in USUAL {
            for to in USUAL {
                let mut out = Vec::new();
                Resampler::new(from, to).unwrap().process(&tone(from, 1_000.0, from as usize), &mut out);
                assert!(out.len().abs_diff(to as usize) <= 1, "{from} to {to}: {}", out.len());
                let steady = &out[to as usize / 10..];
                assert!((level(steady) - 0.3536).abs() < 0.005, "{from} to {to}: {}", level(steady));
                let crossings = steady.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
                assert!(crossings.abs_diff(900) <= 1, "{from} to {to}: {crossings} Hz");
            }
        }
    }

    #[test]
    fn what_the_lower_rate_cannot_hold_is_gone() {
        for (from, to, hertz) in
            [(48_000, 16_000, 10_000.0), (24_000, 16_000, 9_500.0), (48_000, 8_000, 6_000.0)]
        {
            let mut out = Vec::new();
            Resampler::new(from, to).unwrap().process(&tone(from, hertz, from as usize), &mut out);
            let level = level(&out[1_000..]);
            assert!(level < 0.002, "{hertz} Hz from {from} to {to} is heard at {level}");
        }
    }

    #[test]
    fn packets_of_any_size_become_the_same_as_one() {
        let whole = tone(22_050, 440.0, 22_050);
        let mut at_once = Vec::new();
        Resampler::new(22_050, 24_000).unwrap().process(&whole, &mut at_once);
        for size in [1, 7, 441, 5_000] {
            let mut resampler = Resampler::new(22_050, 24_000).unwrap();
            let mut pieces = Vec::new();
            for packet in whole.chunks(size) {
                resampler.process(packet, &mut pieces);
            }
            assert!(pieces == at_once, "in packets of {size}");
        }
    }

    #[test]
    fn rates_that_nobody_records_at_are_refused() {
        for (from, to) in [(0, 16_000), (16_000, 0), (7_999, 16_000), (16_000, 192_000), (47_999, 16_001)] {
            assert!(Resampler::new(from, to).is_none(), "{from} to {to}");
        }
    }
}
