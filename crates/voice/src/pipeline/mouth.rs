//! When which packet of a response is due: a pure machine from sounds to packets.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::audio::{Packer, Resampler, Sound};

/// Cuts sounds into packets, and knows when each may leave.
#[derive(Debug)]
pub(crate) struct Mouth {
    packer: Packer,
    lead: Duration,
    /// Samples at the rate of the packets, all of them of the sentence that is being spoken.
    samples: Vec<f32>,
    /// How many of them have left.
    gone: usize,
    /// Where the next packet begins in the response.
    offset_ms: u64,
    /// When the first packet was heard, as far as one can know.
    began: Option<Instant>,
}

impl Mouth {
    pub(crate) fn new(packer: Packer, lead: Duration) -> Self {
        Self { packer, lead, samples: Vec::new(), gone: 0, offset_ms: 0, began: None }
    }

    /// Begins a sentence, when the one before has left. Says where it begins and ends, in milliseconds; none
    /// if it cannot be spoken at this rate.
    pub(crate) fn begin(&mut self, sound: &Sound) -> Option<(u64, u64)> {
        let packet = self.packer.packet_samples();
        self.samples.clear();
        self.gone = 0;
        Resampler::new(sound.rate, self.packer.rate())?.process(&sound.samples, &mut self.samples);
        self.samples.resize(self.samples.len().div_ceil(packet) * packet, 0.0);
        let packets = (self.samples.len() / packet) as u64;
        Some((self.offset_ms, self.offset_ms + packets * u64::from(self.packer.packet_ms())))
    }

    /// When the next packet may leave; none if there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        if self.gone >= self.samples.len() {
            return None;
        }
        let began = self.began.unwrap_or(now);
        Some((began + Duration::from_millis(self.offset_ms)).checked_sub(self.lead).unwrap_or(now))
    }

    /// The next packet, and where it begins.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(u64, Bytes)> {
        let samples = self.samples.get(self.gone..self.gone + self.packer.packet_samples())?;
        self.gone += samples.len();
        let packet = self.packer.pack(samples).ok()?;
        let offset_ms = self.offset_ms;
        let heard = self.began.unwrap_or(now) + Duration::from_millis(offset_ms);
        // Whoever waited for this packet hears it now, and what follows accordingly later.
        let late = now > heard + SLACK;
        self.began = Some(if late {
            now.checked_sub(Duration::from_millis(offset_ms)).unwrap_or(now)
        } else {
            self.began.unwrap_or(now)
        });
        self.offset_ms += u64::from(self.packer.packet_ms());
        Some((offset_ms, packet))
    }

    /// How much has left so far, in milliseconds.
    pub(crate) fn spoken_ms(&self) -> u64 {
        self.offset_ms
    }
}

/// How late a packet may be without being missed.
const SLACK: Duration = Duration::from_millis(60);
