//! What a voice is asked, in order, and no more of it than can be done.

use std::collections::VecDeque;

use parking_lot::Mutex;
use switchboard_core::VoiceOp;
use tokio::sync::Notify;

/// What was asked and not done yet.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Default)]
struct Waiting {
    asked: VecDeque<Asked>,
    packets: usize,
    /// Whether packets are of any use, after everything that was asked so far.
    listening: bool,
    overhearing: bool,
}

pub(super) enum Asked {
    Op(VoiceOp),
    /// Packets were here that nobody had the time to hear.
    Lost,
}

impl Inbox {
    pub(super) fn put(&self, op: VoiceOp) {
        let waiting = &mut *self.waiting.lock();
        match &op {
            VoiceOp::Listen { .. } => waiting.listening = true,
            VoiceOp::Conclude { .. } | VoiceOp::Forget { .. } => waiting.listening = false,
            VoiceOp::Overhear(whether) => waiting.overhearing = *whether,
            VoiceOp::Packet(_) if !waiting.listening && !waiting.overhearing => return,
            VoiceOp::Packet(_) => waiting.packets += 1,
            VoiceOp::Say { response, text, last } => {
                if waiting.says_more(*response, &text.0, *last) {
                    return;
                }
            }
            VoiceOp::Settle(_) | VoiceOp::Expect(_) | VoiceOp::Hush { .. } => {}
        }
        waiting.asked.push_back(Asked::Op(op));
        if waiting.packets > MOST_PACKETS {
            waiting.lose_a_packet();
        }
        self.filled.notify_one();
    }

    /// Waits until something is asked.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    pub(super) fn take(&self) -> Option<Asked> {
        let waiting = &mut *self.waiting.lock();
        let asked = waiting.asked.pop_front()?;
        if matches!(asked, Asked::Op(VoiceOp::Packet(_))) {
            waiting.packets -= 1;
        }
        Some(asked)
    }
}

impl Waiting {
    /// Adds to words of the same response that wait at the end, if there are any. More than can ever be spoken
    /// is not kept.
    fn says_more(&mut self, number: u64, more: &str, ends: bool) -> bool {
        let Some(Asked::Op(VoiceOp::Say { response, text, last })) = self.asked.back_mut() else {
            return false;
        };
        if *response != number || *last {
            return false;
        }
        if text.0.len() <= LONGEST_RESPONSE {
            text.0.push_str(more);
        }
        *last = ends;
        true
    }

    /// Leaves out the oldest packet, and says so in its place.
    fn lose_a_packet(&mut self) {
        let oldest = self.asked.iter().position(|asked| matches!(asked, Asked::Op(VoiceOp::Packet(_))));
        let Some(oldest) = oldest else { return };
        self.packets -= 1;
        if oldest.checked_sub(1).is_some_and(|before| matches!(self.asked[before], Asked::Lost)) {
            self.asked.remove(oldest);
        } else {
            self.asked[oldest] = Asked::Lost;
        }
    }
}

/// Packets that may wait to be heard: five seconds of the usual ones.
const MOST_PACKETS: usize = 250;
/// Bytes of text of one response: hours of speech.
pub(super) const LONGEST_RESPONSE: usize = 1 << 18;
