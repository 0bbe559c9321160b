//! Audio on its way out: in real time, on a timeline that goes on through silence.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::peer::AudioPacket;

/// Samples of Opus in a millisecond, at the clock of its RTP payload.
const SAMPLES_PER_MS: u64 = 48;

/// A packet that comes this late still continues what came before it; later, it begins anew.
const LATE: Duration = Duration::from_millis(100);

/// Packets that wait to be sent.
#[derive(Default)]
pub(crate) struct Speaker {
    waiting: VecDeque<AudioPacket>,
    /// When the next packet continues the last one.
    due: Option<Instant>,
    /// The RTP time of that moment.
    rtp_time: u64,
}

/// A packet that is to be sent now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spoken {
    pub(crate) packet: Bytes,
    pub(crate) rtp_time: u64,
    /// Whether there was silence before it.
    pub(crate) begins: bool,
}

impl Speaker {
    pub(crate) fn push(&mut self, packet: AudioPacket) {
        self.waiting.push_back(packet);
    }

    /// When the next packet is to be sent; `now` if nothing holds it back.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.waiting.front().map(|_| self.due.unwrap_or(now))
    }

    /// Drops what was cleared before `generation`; returns how much that was, in milliseconds.
    pub(crate) fn drop_cleared(&mut self, generation: u64) -> usize {
        let mut dropped = 0;
        while let Some(packet) = self.waiting.pop_front_if(|packet| packet.generation < generation) {
            dropped += packet.duration_ms as usize;
        }
        dropped
    }

    /// The next packet, if it is time for it, and how much it holds, in milliseconds.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Spoken, usize)> {
        if self.due.is_some_and(|due| due > now) {
            return None;
        }
        let AudioPacket { packet, duration_ms, .. } = self.waiting.pop_front()?;
        let late = self.due.map(|due| now.saturating_duration_since(due));
        let begins = late.is_none_or(|late| late > LATE);
        let start = match self.due {
            Some(due) if !begins => due,
            _ => {
                // Silence has a length as well: the other side's clock goes on.
                let silence = late.map_or(0, |late| u64::try_from(late.as_millis()).unwrap_or(u64::MAX));
                self.rtp_time = self.rtp_time.wrapping_add(silence.saturating_mul(SAMPLES_PER_MS));
                now
            }
        };
        let spoken = Spoken { packet, rtp_time: self.rtp_time, begins };
        self.rtp_time = self.rtp_time.wrapping_add(u64::from(duration_ms) * SAMPLES_PER_MS);
        self.due = Some(start + Duration::from_millis(u64::from(duration_ms)));
        Some((spoken, duration_ms as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn packet(generation: u64) -> AudioPacket {
        AudioPacket { packet: Bytes::from_static(b"opus"), duration_ms: 20, generation }
    }

    /// Any moment: only differences matter.
    fn start() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[test]
    fn packets_handed_over_at_once_are_sent_in_real_time() {
        let (mut speaker, start) = (Speaker::default(), start());
        (0..3).for_each(|_| speaker.push(packet(0)));
        let (first, _) = speaker.next(start).unwrap();
        assert!(first.begins);
        assert_eq!(speaker.next(start), None);
        assert_eq!(speaker.due(start), Some(start + ms(20)));
        // A little late: it continues, and the next is due as if nothing had happened.
        let (second, _) = speaker.next(start + ms(33)).unwrap();
        assert_eq!((second.rtp_time - first.rtp_time, second.begins), (960, false));
        assert_eq!(speaker.due(start), Some(start + ms(40)));
    }

    #[test]
    fn silence_moves_the_timeline_on() {
        let (mut speaker, start) = (Speaker::default(), start());
        speaker.push(packet(0));
        let (before, _) = speaker.next(start).unwrap();
        speaker.push(packet(0));
        let (after, _) = speaker.next(start + ms(1020)).unwrap();
        assert_eq!((after.rtp_time - before.rtp_time, after.begins), (1020 * SAMPLES_PER_MS, true));
    }

    #[test]
    fn cleared_packets_are_dropped_and_later_ones_are_not() {
        let (mut speaker, start) = (Speaker::default(), start());
        (0..5).for_each(|_| speaker.push(packet(0)));
        speaker.push(packet(1));
        assert_eq!(speaker.drop_cleared(1), 100);
        assert!(speaker.next(start).is_some());
        assert_eq!(speaker.due(start), None);
    }
}
