//! A voice that hears and says what a connection asks it to, sooner, later, or not as it was meant.

use std::collections::VecDeque;

use bytes::Bytes;
use switchboard_core::{Dumb, Heard, Pii, Unheard, VoiceEvent, VoiceOp};

/// What a voice has to say by and by.
#[derive(Debug, Default)]
pub(super) struct Voice {
    waiting: VecDeque<VoiceEvent>,
    turn: u64,
    response: u64,
    used: bool,
}

impl Voice {
    /// Whether anybody has ever asked something of it.
    pub(super) const fn speaks(&self) -> bool {
        self.used
    }

    /// Takes in what is asked of it.
    pub(super) fn ask(&mut self, op: VoiceOp) {
        self.used = true;
        match op {
            VoiceOp::Listen { turn, silence_ms, .. } => {
                self.turn = turn;
                self.say(VoiceEvent::Speech { turn: Some(turn), confidence: 0.9, level_db: -20.0 });
                self.say(VoiceEvent::Partial { turn, text: Pii("hel".into()), stable: 1 });
                if silence_ms.is_some() {
                    self.say(VoiceEvent::Silence { turn });
                }
            }
            VoiceOp::Conclude { turn } => {
                let text = Pii("hello".to_owned());
                let heard = Heard { text, confidence: Some(0.8), language: None };
                self.say(VoiceEvent::Heard { turn, heard, took_ms: 5 });
            }
            VoiceOp::Say { response, text, last } => {
                self.response = response;
                if !text.0.is_empty() {
                    self.say(VoiceEvent::Sentence { response, text, from_ms: 0, to_ms: 40, took_ms: 3 });
                    let packet = Bytes::from_static(&[0; 960]);
                    self.say(VoiceEvent::Packet { response, offset_ms: 0, packet });
                }
                if last {
                    self.say(VoiceEvent::Said { response, duration_ms: 40 });
                }
            }
            VoiceOp::Overhear(true) => {
                self.say(VoiceEvent::Speech { turn: None, confidence: 0.7, level_db: -30.0 });
            }
            VoiceOp::Settle(_)
            | VoiceOp::Expect(_)
            | VoiceOp::Packet(_)
            | VoiceOp::Overhear(false)
            | VoiceOp::Forget { .. }
            | VoiceOp::Hush { .. } => {}
        }
    }

    fn say(&mut self, event: VoiceEvent) {
        self.waiting.push_back(event);
        self.waiting.drain(..self.waiting.len().saturating_sub(WAITING));
    }

    /// What it says now: what waits, or something that could come at any time.
    pub(super) fn event(&mut self, choice: u8) -> VoiceEvent {
        let (turn, response) = (self.turn.wrapping_sub(u64::from(choice >> 7)), self.response);
        match choice % 8 {
            0 => VoiceEvent::Unheard { turn, why: Unheard::NoSpeech },
            1 => VoiceEvent::Unheard { turn, why: Unheard::Unavailable("no".into()) },
            2 => VoiceEvent::Mute { response, why: Dumb::Failed("no".into()) },
            3 => {
                let packet = Bytes::from_static(&[1; 33]);
                VoiceEvent::Packet { response, offset_ms: u64::from(choice) * 20, packet }
            }
            _ => self.waiting.pop_front().unwrap_or(VoiceEvent::Silence { turn }),
        }
    }
}

/// Events that wait at a time.
const WAITING: usize = 64;
