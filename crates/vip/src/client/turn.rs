//! The user's floor: taking it, and giving it back.

use switchboard_core::Timestamp;

use super::event::{CommandError, Event};
use super::microphone::Stream;
use super::{About, Carrier, VipClient, millis};
use crate::matrix::{State, Trigger};
use crate::message::{
    BargeInTrigger, ClientEvent, DetectionType, InputBargeIn, InputCancel, InputCancelReason, InputDetected,
    InputEnd, InputEndReason, InputMode, InputStart, InputStartTrigger, InputText, InputTimeout, Origin,
    Role,
};
use crate::size::is_within;

/// What the user says, or has said last.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: String,
    /// What the server understood.
    pub(super) text: Option<String>,
    /// Whether the microphone belongs to it.
    pub(super) listening: bool,
    /// Until when somebody has to speak.
    pub(super) listen_by: Option<Timestamp>,
    began: Timestamp,
}

/// How long somebody may be silent after taking the floor.
const NO_SPEECH_MS: u32 = 8_000;

impl VipClient {
    /// The user takes the floor: pressed a button, said the word, answers a question.
    ///
    /// # Errors
    /// Nobody listens now, or there is no microphone.
    pub fn listen(&mut self, trigger: InputStartTrigger, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.can_speak()?;
        if self.state() != State::Idle {
            return Err(CommandError::State(self.state()));
        }
        self.start(InputMode::Voice, trigger);
        self.settle();
        Ok(())
    }

    /// Somebody began to speak, says the voice detection of the app. That takes the floor, or takes it from the
    /// system; either way the server learns first that something was detected (VIP-026).
    ///
    /// # Errors
    /// Nobody listens now, or there is no microphone.
    pub fn speech(
        &mut self,
        confidence: f64,
        level_db: Option<f64>,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.now = now;
        self.can_speak()?;
        let state = self.state();
        if !matches!(state, State::Idle | State::UserSpeaking | State::AiThinking | State::AiSpeaking) {
            return Err(CommandError::State(state));
        }
        let confidence = Some(confidence.clamp(0.0, 1.0));
        let detected = InputDetected { origin: Origin::Client, confidence, level_db };
        self.send(&ClientEvent::InputDetected(detected), About { role: Role::User, ..About::default() });
        match state {
            State::Idle => self.start(InputMode::Voice, InputStartTrigger::Vad),
            State::AiThinking | State::AiSpeaking => {
                let interrupts = self.agreed.is_none_or(|agreed| agreed.turn_detection.interrupt_response);
                if !interrupts || !self.is_interruptible() {
                    return Err(CommandError::NotInterruptible);
                }
                self.barge_in(BargeInTrigger::Vad, None, confidence);
            }
            State::UserSpeaking | State::NotConnected | State::Connecting | State::InvokeAction => {}
        }
        if let Some(turn) = &mut self.turn {
            turn.listen_by = None;
        }
        self.settle();
        Ok(())
    }

    /// The user interrupts with a key or a touch. Playback stops before this returns.
    ///
    /// # Errors
    /// There is nothing to interrupt, or it cannot be interrupted.
    pub fn interrupt(&mut self, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        if !matches!(self.state(), State::AiThinking | State::AiSpeaking) {
            return Err(CommandError::State(self.state()));
        }
        if !self.is_interruptible() {
            return Err(CommandError::NotInterruptible);
        }
        self.barge_in(BargeInTrigger::Manual, None, None);
        self.settle();
        Ok(())
    }

    /// The user wants it to be quiet, and says nothing.
    ///
    /// # Errors
    /// There is nothing to interrupt, or it cannot be interrupted.
    pub fn quiet(&mut self, now: Timestamp) -> Result<(), CommandError> {
        self.interrupt(now)?;
        self.cancel(InputCancelReason::User, now)
    }

    /// The user has finished.
    ///
    /// # Errors
    /// The user does not have the floor.
    pub fn stop(&mut self, reason: InputEndReason, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.has_floor()?;
        let duration = self.turn.as_ref().map(|turn| now.since(turn.began));
        let duration_ms = duration.and_then(|duration| u64::try_from(duration.as_millis()).ok());
        self.end_stream();
        let about = self.about_turn();
        self.lead(&ClientEvent::InputEnd(InputEnd { reason, duration_ms }), about, Trigger::InputEnd);
        self.settle();
        Ok(())
    }

    /// The user has not said anything after all.
    ///
    /// # Errors
    /// The user does not have the floor.
    pub fn cancel(&mut self, reason: InputCancelReason, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        self.has_floor()?;
        let about = self.about_turn();
        self.lead(&ClientEvent::InputCancel(InputCancel { reason }), about, Trigger::InputCancel);
        self.settle();
        Ok(())
    }

    /// The user has typed something: a turn of its own, for which the system is interrupted if need be.
    ///
    /// # Errors
    /// Nobody reads now, or it is too long.
    pub fn say(&mut self, text: &str, now: Timestamp) -> Result<(), CommandError> {
        self.now = now;
        if !is_within(text, 4096) {
            return Err(CommandError::TooLong);
        }
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        match self.state() {
            State::Idle => {}
            State::UserSpeaking => self.cancel(InputCancelReason::User, now)?,
            State::AiThinking | State::AiSpeaking => self.quiet(now)?,
            state @ (State::NotConnected | State::Connecting | State::InvokeAction) => {
                return Err(CommandError::State(state));
            }
        }
        self.start(InputMode::Text, InputStartTrigger::Text);
        let text = InputText { text: text.to_owned(), is_final: true };
        let about = self.about_turn();
        self.send(&ClientEvent::InputText(text), about.clone());
        let end = InputEnd { reason: InputEndReason::Text, duration_ms: None };
        self.lead(&ClientEvent::InputEnd(end), about, Trigger::InputEnd);
        self.settle();
        Ok(())
    }

    /// Takes the floor. There is a tree by now, or the state would not be idle (VIP-020).
    pub(super) fn start(&mut self, mode: InputMode, trigger: InputStartTrigger) {
        let voice = mode == InputMode::Voice;
        let turn_id = self.mint("t");
        let stream_id = self.begin_turn(turn_id, voice);
        let limit = self.agreed.map_or(NO_SPEECH_MS, |agreed| agreed.turn_detection.no_speech_ms);
        let detects =
            self.agreed.is_some_and(|agreed| agreed.turn_detection.kind == DetectionType::ClientVad);
        if let Some(turn) = &mut self.turn
            && voice
            && detects
            && matches!(trigger, InputStartTrigger::WakeWord | InputStartTrigger::FollowUp)
        {
            turn.listen_by = Some(self.now.after(millis(limit.into())));
        }
        let start = InputStart { mode, trigger, stream_id, timeout_ms: limit, preroll_ms: 0 };
        let about = self.about_turn();
        self.lead(&ClientEvent::InputStart(start), about, Trigger::InputStart);
    }

    /// Takes the floor from the system; under the id of the server where that noticed first.
    pub(super) fn barge_in(
        &mut self,
        trigger: BargeInTrigger,
        turn_id: Option<String>,
        confidence: Option<f64>,
    ) {
        let speaking = self.state() == State::AiSpeaking;
        let response = self
            .playback
            .as_ref()
            .map(|playback| (playback.response_id().to_owned(), playback.played(self.now)));
        self.silence();
        let turn_id = turn_id.unwrap_or_else(|| self.mint("t"));
        let voice = self.config.microphone && !self.muted;
        let stream_id = self.begin_turn(turn_id, voice);
        let response = response.filter(|_| speaking);
        let barge_in = InputBargeIn {
            trigger,
            origin: Origin::Client,
            played_ms: response.as_ref().map(|(_, played)| *played),
            response_id: response.map(|(id, _)| id),
            stream_id,
            preroll_ms: 0,
            confidence,
        };
        let about = self.about_turn();
        self.lead(&ClientEvent::InputBargeIn(barge_in), about, Trigger::InputBargeIn);
    }

    /// Interrupts once more, after an action came in between (R3).
    pub(super) fn barge_in_again(&mut self) {
        let barge_in = InputBargeIn {
            trigger: BargeInTrigger::Manual,
            origin: Origin::Client,
            response_id: None,
            played_ms: None,
            stream_id: self.mic.as_ref().map(|stream| stream.id),
            preroll_ms: 0,
            confidence: None,
        };
        let about = self.about_turn();
        self.lead(&ClientEvent::InputBargeIn(barge_in), about, Trigger::InputBargeIn);
    }

    /// A new turn; answers the stream of its audio, where audio is carried at all.
    fn begin_turn(&mut self, id: String, voice: bool) -> Option<u16> {
        self.turn =
            Some(Turn { id: id.clone(), text: None, listening: voice, listen_by: None, began: self.now });
        self.mic = None;
        if !voice {
            return None;
        }
        self.event(Event::Listening { turn_id: id });
        if self.config.carrier == Carrier::DataChannel {
            return None;
        }
        let stream_id = self.next_stream();
        self.mic = Some(Stream::new(stream_id, false));
        Some(stream_id)
    }

    /// In internal mode the provider hears of it from its adapter, and the server only of the state.
    fn lead(&mut self, event: &ClientEvent, about: About, trigger: Trigger) {
        if self.is_internal() {
            self.report(trigger);
        } else {
            self.send_trigger(event, about, trigger);
        }
    }

    fn about_turn(&self) -> About {
        let turn_id = self.turn.as_ref().map(|turn| turn.id.clone());
        About { role: Role::User, turn_id, reply_to: None }
    }

    fn can_speak(&self) -> Result<(), CommandError> {
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        if !self.config.microphone || self.muted {
            return Err(CommandError::NoMicrophone);
        }
        if self.screen.context().is_none() {
            return Err(CommandError::NoContext);
        }
        Ok(())
    }

    fn has_floor(&self) -> Result<(), CommandError> {
        if !self.link.is_up() {
            return Err(CommandError::NotConnected);
        }
        let state = self.state();
        if state == State::UserSpeaking { Ok(()) } else { Err(CommandError::State(state)) }
    }

    /// Nobody has spoken in time.
    pub(super) fn turn_timeout(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.listen_by.is_none_or(|by| by > self.now) {
            return;
        }
        turn.listen_by = None;
        if self.state() == State::UserSpeaking {
            let about = self.about_turn();
            let timeout = InputTimeout { speech_seen: false };
            self.lead(&ClientEvent::InputTimeout(timeout), about, Trigger::InputCancel);
        }
    }

    /// The microphone goes with the floor.
    pub(super) fn settle_turn(&mut self) {
        let speaking = self.state() == State::UserSpeaking;
        if let Some(turn) = &mut self.turn
            && !speaking
        {
            turn.listen_by = None;
            if std::mem::take(&mut turn.listening) {
                self.event(Event::NotListening);
            }
        }
        if !self.link.is_open() {
            self.turn = None;
            self.mic = None;
        }
    }
}
