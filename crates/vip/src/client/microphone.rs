//! The microphone: what it hears goes to the server while the user has the floor, and nowhere otherwise.

use bytes::Bytes;
use switchboard_core::Timestamp;

use super::event::CommandError;
use super::{About, Carrier, VipClient};
use crate::audio::{AudioFrame, Direction};
use crate::error::{Code, Fault};
use crate::matrix::State;
use crate::message::{ClientEvent, ControlMute, DetectionType, Framing, InputCancelReason, MuteTarget};

/// A stream of audio to the server.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u16,
    frames: u32,
    offset_ms: u32,
    monitor: bool,
}

impl Stream {
    pub(super) const fn new(id: u16, monitor: bool) -> Self {
        Self { id, frames: 0, offset_ms: 0, monitor }
    }
}

impl VipClient {
    /// A packet from the microphone. It goes nowhere unless the user has the floor (VIP-027), or the server
    /// listens for interruptions itself; whether it went anywhere is the answer.
    pub fn hear(&mut self, audio: &Bytes, now: Timestamp) -> bool {
        self.now = now;
        let Some(agreed) = self.agreed else { return false };
        if self.muted || audio.is_empty() || self.config.carrier == Carrier::DataChannel || self.is_internal()
        {
            return false;
        }
        let monitors = agreed.turn_detection.kind == DetectionType::ServerVad
            && agreed.turn_detection.interrupt_response
            && matches!(self.state(), State::AiThinking | State::AiSpeaking);
        let overhears = self.mic.as_ref().is_some_and(|stream| stream.monitor);
        let speaks = self.state() == State::UserSpeaking
            && self.turn.as_ref().is_some_and(|turn| turn.listening)
            && !overhears;
        if !monitors && !speaks {
            return false;
        }
        if monitors && !overhears {
            let id = self.next_stream();
            self.mic = Some(Stream::new(id, true));
        }
        self.send_audio(audio.clone(), false)
    }

    /// The microphone or the loudspeaker is switched on or off.
    ///
    /// # Errors
    /// There is no connection.
    pub fn mute(&mut self, target: MuteTarget, muted: bool, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        if target == MuteTarget::Input {
            if muted && self.state() == State::UserSpeaking {
                self.cancel(InputCancelReason::Muted, now)?;
            }
            self.muted = muted;
        }
        self.send(&ClientEvent::ControlMute(ControlMute { target, muted }), About::default());
        self.settle();
        Ok(())
    }

    /// There is no microphone after all: the user has to type (VIP-084).
    pub fn lose_microphone(&mut self, now: Timestamp) {
        self.now = now;
        self.config.microphone = false;
        if self.link.is_up() {
            self.complain(&Fault::new(Code::RecMicUnavailable));
            let _ = self.cancel(InputCancelReason::Error, now);
        }
        self.settle();
    }

    pub(super) fn next_stream(&mut self) -> u16 {
        self.stream = if self.stream >= *Direction::Input.streams().end() { 1 } else { self.stream + 1 };
        self.stream
    }

    fn send_audio(&mut self, payload: Bytes, end: bool) -> bool {
        let Some(agreed) = self.agreed else { return false };
        let Some(stream) = &mut self.mic else { return false };
        let frame = AudioFrame {
            direction: Direction::Input,
            end,
            monitor: stream.monitor,
            gap: false,
            stream: stream.id,
            seq: stream.frames,
            offset_ms: stream.offset_ms,
            payload,
        };
        if !frame.fits(agreed.audio.input) {
            return false;
        }
        let length = frame.duration_ms(agreed.audio.input).and_then(|length| u32::try_from(length).ok());
        stream.frames = stream.frames.wrapping_add(1);
        stream.offset_ms = stream.offset_ms.wrapping_add(length.unwrap_or(agreed.audio.frame_ms));
        match self.framing() {
            Framing::Binary => self.send_binary(frame.encode()),
            Framing::Base64 => {
                self.send(&ClientEvent::AudioChunk(frame.into()), About::default());
            }
        }
        true
    }

    /// Marks the end of the audio, if there was any.
    pub(super) fn end_stream(&mut self) {
        if self.mic.as_ref().is_some_and(|stream| !stream.monitor && stream.frames > 0) {
            self.send_audio(Bytes::new(), true);
        }
    }
}
