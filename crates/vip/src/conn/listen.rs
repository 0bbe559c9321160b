//! The user's floor: taking it, being heard, giving it up (§5, §10.4, §11).

use std::time::Duration;

use bytes::Bytes;
use switchboard_core::{Pii, Timestamp, Unheard, VoiceEvent, VoiceOp};

use crate::audio::{AudioFrame, Direction, Format};
use crate::context::labels;
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    AnnounceReason, DetectionType, Head, InputBargeIn, InputCancel, InputCancelReason, InputComplete,
    InputDetected, InputEnd, InputEndReason, InputMode, InputStart, InputText, InputTimeout, Origin, Role,
    ServerEvent, TranscriptPartial,
};

use super::outgoing::About;
use super::{Kind, VipConnection};

/// A turn of the user.
#[derive(Debug)]
pub(super) struct Floor {
    pub(super) turn_id: String,
    /// What the voice calls it.
    number: u64,
    typed: bool,
    stream: Option<u16>,
    text: String,
    /// Whether anybody has spoken.
    speech: bool,
    began: Timestamp,
    /// When its audio began, for how far it may run ahead.
    audio_from: Option<Timestamp>,
    received_ms: u64,
    /// Nobody has spoken so far, and will be waited for until then.
    pub(super) listen_by: Option<Timestamp>,
    pub(super) longest_by: Timestamp,
}

impl VipConnection {
    pub(super) fn input_start(&mut self, head: &Head, start: InputStart) {
        let Some(turn_id) = head.turn_id.clone() else { return self.unnamed_turn(head) };
        match self.state() {
            State::Idle => self.take_floor(turn_id, start, Trigger::InputStart),
            State::UserSpeaking if self.has_floor(&turn_id) => {}
            State::AiSpeaking if self.has_crossed_announcement(head) && !self.is_interruptible() => {
                self.not_interruptible(head);
            }
            // The announcement and the user began at the same time: the user keeps the floor.
            State::AiSpeaking if self.has_crossed_announcement(head) => {
                let barge_in = InputBargeIn {
                    trigger: crate::message::BargeInTrigger::Manual,
                    origin: Origin::Client,
                    response_id: None,
                    played_ms: Some(0),
                    stream_id: start.stream_id,
                    preroll_ms: start.preroll_ms,
                    confidence: None,
                };
                self.take_over_floor(turn_id, &barge_in, start.mode == InputMode::Text);
            }
            State::UserSpeaking
            | State::AiThinking
            | State::AiSpeaking
            | State::InvokeAction
            | State::NotConnected
            | State::Connecting => self.invalid(&head.id, "input.start is for an idle session"),
        }
    }

    fn unnamed_turn(&mut self, head: &Head) {
        let fault = Fault::new(Code::ProtoMalformed).because("a new turn needs a turn_id");
        self.complain(&fault.about(head.id.clone()));
    }

    fn take_floor(&mut self, turn_id: String, start: InputStart, trigger: Trigger) {
        let typed = start.mode == InputMode::Text;
        let patience = Duration::from_millis(start.timeout_ms.into());
        self.open_floor(turn_id.clone(), typed, start.stream_id, patience);
        self.go(trigger, Some(turn_id), None);
        self.listen(false);
    }

    /// The user interrupts: whatever was said stops, and is put on record as far as it was heard.
    fn take_over_floor(&mut self, turn_id: String, barge_in: &InputBargeIn, typed: bool) {
        let patience = Duration::from_millis(self.settings.turn_detection.no_speech_ms.into());
        self.open_floor(turn_id.clone(), typed, barge_in.stream_id, patience);
        self.quiet();
        self.go(Trigger::InputBargeIn, Some(turn_id), None);
        self.interrupted(barge_in.played_ms);
        self.listen(false);
    }

    fn open_floor(&mut self, turn_id: String, typed: bool, stream: Option<u16>, patience: Duration) {
        self.counters.turn += 1;
        self.floor = Some(Floor {
            turn_id,
            number: self.counters.turn,
            typed,
            stream,
            text: String::new(),
            speech: false,
            began: self.now,
            audio_from: None,
            received_ms: 0,
            listen_by: Some(self.now.after(patience)),
            longest_by: self.now.after(Duration::from_millis(self.limits.turn_ms.into())),
        });
    }

    fn listen(&mut self, overheard: bool) {
        let Some(floor) = self.floor.as_ref().filter(|floor| !floor.typed) else { return };
        let detection = &self.settings.turn_detection;
        let silence_ms = (detection.kind == DetectionType::ServerVad).then_some(detection.silence_ms);
        let turn = floor.number;
        self.expect();
        self.voice(VoiceOp::Listen { turn, silence_ms, overheard });
    }

    /// Tells the voice what may well be said now: what can be done, or the answer to what was asked.
    fn expect(&mut self) {
        let labels = if self.confirms_by_voice() {
            ANSWERS.iter().map(|answer| (*answer).to_owned()).collect()
        } else {
            self.context.as_ref().map(labels).unwrap_or_default()
        };
        if labels != self.expected {
            self.expected.clone_from(&labels);
            self.voice(VoiceOp::Expect(Pii(labels)));
        }
    }

    fn has_floor(&self, turn_id: &str) -> bool {
        self.floor.as_ref().is_some_and(|floor| floor.turn_id == turn_id)
    }

    /// Whether an event is about the turn of the user; one that names none is.
    fn is_about_floor(&self, head: &Head) -> bool {
        head.turn_id.as_ref().is_none_or(|turn| self.has_floor(turn))
    }

    pub(super) fn input_text(&mut self, head: &Head, typed: InputText) {
        let is_theirs = self.state() == State::UserSpeaking && self.is_about_floor(head);
        if is_theirs {
            self.type_instead();
        }
        let Some(floor) = self.floor.as_mut().filter(|floor| is_theirs && floor.typed) else {
            return self.invalid(&head.id, "input.text belongs to a turn in text mode");
        };
        if floor.text.chars().count() + typed.text.chars().count() > LONGEST_TEXT {
            let fault = Fault::new(Code::ProtoMalformed).because("the turn is too long");
            return self.complain(&fault.about(head.id.clone()));
        }
        floor.text.push_str(&typed.text);
        floor.speech |= !typed.text.trim().is_empty();
        floor.listen_by = None;
    }

    /// A turn that was taken without announcing audio can still become one that is typed.
    fn type_instead(&mut self) {
        let silent = |floor: &&mut Floor| !floor.typed && !floor.speech && floor.stream.is_none();
        let Some(floor) = self.floor.as_mut().filter(silent) else { return };
        floor.typed = true;
        let turn = floor.number;
        self.voice(VoiceOp::Forget { turn });
    }

    pub(super) fn input_end(&mut self, head: &Head, end: InputEnd) {
        match self.state() {
            State::UserSpeaking if self.is_about_floor(head) => self.end_floor(end.reason, None),
            State::Idle | State::AiThinking | State::AiSpeaking | State::InvokeAction => {
                // It may have crossed our own end of the same turn.
                if !self.has_floor_ended(head) {
                    self.invalid(&head.id, "there is no turn to end");
                }
            }
            State::UserSpeaking | State::NotConnected | State::Connecting => {
                self.invalid(&head.id, "this is not the turn of the user");
            }
        }
    }

    /// Whether the turn that an event names was the last one of the user.
    fn has_floor_ended(&self, head: &Head) -> bool {
        head.turn_id
            .as_ref()
            .is_some_and(|turn| self.has_floor(turn) || self.counters.last_turn.as_ref() == Some(turn))
    }

    /// The turn of the user is over: it is understood, and answered.
    pub(super) fn end_floor(&mut self, reason: InputEndReason, said: Option<(ServerEvent, About)>) {
        self.settle_interruption(None);
        let Some(floor) = &self.floor else { return };
        let (turn_id, number, typed) = (floor.turn_id.clone(), floor.number, floor.typed);
        self.counters.last_turn = Some(turn_id.clone());
        self.counters.ended_floor_at = said.as_ref().map(|_| self.now);
        let reason = (reason == InputEndReason::Timeout).then_some("timeout");
        self.go_saying(Trigger::InputEnd, Some(turn_id), reason, |connection| {
            if let Some((event, about)) = said {
                connection.say(&event, about);
            }
        });
        self.begin_response();
        if typed {
            let text = self.floor.as_ref().map(|floor| floor.text.trim().to_owned()).unwrap_or_default();
            if text.is_empty() {
                return self.not_understood(&Fault::new(Code::RecNoSpeech));
            }
            self.understood(text, None, None, 0);
        } else {
            self.voice(VoiceOp::Conclude { turn: number });
        }
    }

    pub(super) fn input_cancel(&mut self, head: &Head, cancel: InputCancel) {
        match self.state() {
            State::UserSpeaking if self.is_about_floor(head) => self.forget_floor(cancel.reason.name(), None),
            State::Idle if self.has_floor_ended(head) => {}
            State::UserSpeaking
            | State::Idle
            | State::AiThinking
            | State::AiSpeaking
            | State::InvokeAction
            | State::NotConnected
            | State::Connecting => self.invalid(&head.id, "there is no turn to cancel"),
        }
    }

    fn forget_floor(&mut self, reason: &str, said: Option<(ServerEvent, About)>) {
        self.settle_interruption(None);
        let Some(floor) = self.floor.take() else { return };
        self.counters.ended_floor_at = said.as_ref().map(|_| self.now);
        self.counters.last_turn = Some(floor.turn_id.clone());
        if !floor.typed {
            self.voice(VoiceOp::Forget { turn: floor.number });
        }
        self.go_saying(Trigger::InputCancel, Some(floor.turn_id), Some(reason), |connection| {
            if let Some((event, about)) = said {
                connection.say(&event, about);
            }
        });
        self.announce_next();
    }

    pub(super) fn input_timeout(&mut self, head: &Head, timeout: InputTimeout) {
        if self.state() == State::UserSpeaking && self.is_about_floor(head) {
            let speech = timeout.speech_seen || self.floor.as_ref().is_some_and(|floor| floor.speech);
            self.listened_long_enough(speech, false);
        }
    }

    /// Nobody speaks, or somebody speaks too long (T1).
    fn listened_long_enough(&mut self, speech_seen: bool, ours: bool) {
        let said = ours.then(|| {
            let turn_id = self.floor.as_ref().map(|floor| floor.turn_id.clone());
            let event = ServerEvent::InputTimeout(InputTimeout { speech_seen });
            (event, About { turn_id, ..About::default() })
        });
        if speech_seen {
            return self.end_floor(InputEndReason::Timeout, said);
        }
        self.forget_floor(InputCancelReason::Timeout.name(), said);
        self.complain(&Fault::new(Code::RecNoSpeech));
    }

    pub(super) fn listen_timeout(&mut self) {
        if self.state() != State::UserSpeaking {
            return;
        }
        let Some(floor) = &self.floor else { return };
        let unheard = floor.listen_by.is_some_and(|at| at <= self.now);
        if unheard || floor.longest_by <= self.now {
            let speech = floor.speech;
            self.listened_long_enough(speech, true);
        }
    }

    pub(super) fn barge_in(&mut self, head: &Head, barge_in: &InputBargeIn) {
        let Some(turn_id) = head.turn_id.clone() else { return self.unnamed_turn(head) };
        match self.state() {
            // The client's copy of an interruption that was noticed here, and whose turn is over.
            State::Idle | State::AiThinking | State::AiSpeaking
                if self.counters.overheard.as_ref() == Some(&turn_id) => {}
            // Playback has just ended.
            State::Idle => {
                let start = InputStart {
                    mode: InputMode::Voice,
                    trigger: crate::message::InputStartTrigger::Vad,
                    stream_id: barge_in.stream_id,
                    timeout_ms: self.settings.turn_detection.no_speech_ms,
                    preroll_ms: barge_in.preroll_ms,
                };
                self.take_floor(turn_id, start, Trigger::InputStart);
            }
            State::AiSpeaking if !self.is_interruptible() => self.not_interruptible(head),
            State::AiSpeaking | State::AiThinking => self.take_over_floor(turn_id, barge_in, false),
            // The client's copy of an interruption that was noticed here.
            State::UserSpeaking if self.has_floor(&turn_id) => {
                if let Some(floor) = &mut self.floor {
                    floor.stream = barge_in.stream_id.or(floor.stream);
                }
                self.settle_interruption(barge_in.played_ms);
            }
            State::UserSpeaking | State::InvokeAction | State::NotConnected | State::Connecting => {
                self.invalid(&head.id, "nothing can be interrupted now");
            }
        }
    }

    fn not_interruptible(&mut self, head: &Head) {
        let fault = self.located(Fault::new(Code::ProtoNotInterruptible));
        self.complain(&fault.about(head.id.clone()));
    }

    /// An interruption that was noticed here waits for the client's word about it no longer.
    pub(super) fn settle_interruption(&mut self, played_ms: Option<u64>) {
        if self.deadlines.copy_by.take().is_some() {
            self.interrupted(played_ms);
        }
    }

    /// Somebody was overheard while the system had the floor.
    fn barge_in_overheard(&mut self, confidence: f32, level_db: f32) {
        let detection = &self.settings.turn_detection;
        let allowed = detection.kind == DetectionType::ServerVad && detection.interrupt_response;
        let speaking = self.state() == State::AiSpeaking && self.is_interruptible();
        if !allowed || !(speaking || self.state() == State::AiThinking) {
            return;
        }
        self.counters.derived += 1;
        let turn_id = format!("t-s{}.{}", self.transport, self.counters.derived);
        let patience = Duration::from_millis(detection.no_speech_ms.into());
        self.counters.overheard = Some(turn_id.clone());
        self.detected(confidence, level_db);
        let barge_in = InputBargeIn {
            trigger: crate::message::BargeInTrigger::Vad,
            origin: Origin::Server,
            response_id: self.spoken_response(),
            played_ms: None,
            stream_id: None,
            preroll_ms: 0,
            confidence: Some(confidence.into()),
        };
        let about = About { turn_id: Some(turn_id.clone()), ..About::default() };
        self.open_floor(turn_id.clone(), false, None, patience);
        if let Some(floor) = &mut self.floor {
            floor.speech = true;
            floor.listen_by = None;
        }
        self.quiet();
        self.go_saying(Trigger::InputBargeIn, Some(turn_id), None, |connection| {
            connection.say(&ServerEvent::InputBargeIn(barge_in), about);
        });
        self.listen(true);
        // The client knows best how much was heard.
        self.deadlines.copy_by = Some(self.now.after(COPY_WITHIN));
    }

    fn detected(&mut self, confidence: f32, level_db: f32) {
        let event = InputDetected {
            origin: Origin::Server,
            confidence: Some(f64::from(confidence).clamp(0.0, 1.0)),
            level_db: Some(level_db.into()),
        };
        self.tell(&ServerEvent::InputDetected(event));
    }

    /// One frame of what the user says.
    pub(super) fn hear(&mut self, frame: &AudioFrame) {
        if frame.direction != Direction::Input {
            return self.bad_audio("output does not come from clients".to_owned());
        }
        if !frame.fits(self.settings.input) {
            return self.bad_audio("the payload does not fit the format".to_owned());
        }
        if self.state() != State::UserSpeaking {
            return self.hear_outside(frame);
        }
        let Some(floor) = &mut self.floor else { return };
        if frame.monitor {
            // The last of what was overheard, before the client knew that it has the floor.
        } else if floor.stream.is_none() || floor.stream != Some(frame.stream) {
            return self.bad_audio("no such stream was announced".to_owned());
        }
        let from = *floor.audio_from.get_or_insert(self.now);
        // What is dropped was not received: the frames after it are measured without it.
        let received_ms = floor.received_ms + duration_ms(frame, self.settings.input);
        let elapsed = u64::try_from(self.now.since(from).as_millis()).unwrap_or(u64::MAX);
        let ahead = received_ms.saturating_sub(elapsed);
        if ahead > MOST_AHEAD_MS {
            return self.flooded_audio(Duration::from_millis(ahead - MOST_AHEAD_MS));
        }
        floor.received_ms = received_ms;
        if !frame.payload.is_empty() {
            self.voice(VoiceOp::Packet(frame.payload.clone()));
        }
    }

    /// Audio outside of a turn (R4, §5.4).
    fn hear_outside(&mut self, frame: &AudioFrame) {
        if frame.monitor && self.overhearing {
            return self.voice(VoiceOp::Packet(frame.payload.clone()));
        }
        // The client could not know yet that its turn was over.
        let just_ended = self.counters.ended_floor_at.is_some_and(|at| self.now.since(at) <= LATE_AUDIO);
        if just_ended || !self.complains_about_audio() {
            return;
        }
        let fault = self.located(Fault::new(Code::ProtoAudioForbiddenState));
        self.complain(&fault);
    }

    /// One packet of the track of a peer. It always sends; what is not asked for is nobody's business.
    pub(super) fn hear_track(&mut self, packet: Bytes) {
        let listening =
            self.state() == State::UserSpeaking && self.floor.as_ref().is_some_and(|floor| !floor.typed);
        if self.kind == Kind::Peer && (listening || self.overhearing) {
            self.voice(VoiceOp::Packet(packet));
        }
    }

    pub(super) fn bad_audio(&mut self, why: String) {
        if self.complains_about_audio() {
            self.complain(&Fault::new(Code::ProtoBadAudioFrame).because(why));
        }
    }

    /// Whether audio may be complained about once more: one mistake comes fifty times a second.
    fn complains_about_audio(&mut self) -> bool {
        self.incoming.complaints.take(1, self.now).is_ok()
    }

    /// Whether speech is listened for while the system has the floor.
    pub(super) fn overhear(&mut self, wanted: bool) {
        let detection = &self.settings.turn_detection;
        let allowed = detection.kind == DetectionType::ServerVad && detection.interrupt_response;
        let wanted = wanted && allowed && self.kind != Kind::Control;
        if wanted != self.overhearing {
            self.overhearing = wanted;
            self.voice(VoiceOp::Overhear(wanted));
        }
    }

    pub(super) fn voiced(&mut self, event: VoiceEvent) {
        let current = |turn: u64| self.floor.as_ref().is_some_and(|floor| floor.number == turn);
        match event {
            VoiceEvent::Speech { turn: None, confidence, level_db } => {
                self.barge_in_overheard(confidence, level_db)
            }
            VoiceEvent::Speech { turn: Some(turn), confidence, level_db } => {
                if current(turn) && self.state() == State::UserSpeaking {
                    if let Some(floor) = &mut self.floor {
                        floor.speech = true;
                        floor.listen_by = None;
                    }
                    if self.settings.turn_detection.kind == DetectionType::ServerVad {
                        self.detected(confidence, level_db);
                    }
                }
            }
            VoiceEvent::Silence { turn } => {
                if current(turn) && self.state() == State::UserSpeaking {
                    let reason = InputEndReason::Silence;
                    let began = self.floor.as_ref().map_or(self.now, |floor| floor.began);
                    let duration_ms = u64::try_from(self.now.since(began).as_millis()).ok();
                    let turn_id = self.floor.as_ref().map(|floor| floor.turn_id.clone());
                    let event = ServerEvent::InputEnd(InputEnd { reason, duration_ms });
                    self.end_floor(reason, Some((event, About { turn_id, ..About::default() })));
                }
            }
            VoiceEvent::Partial { turn, text, stable } => {
                if current(turn)
                    && let Some(turn_id) = self.floor.as_ref().map(|floor| floor.turn_id.clone())
                {
                    let about =
                        About { role: Role::User, turn_id: Some(turn_id.clone()), ..About::default() };
                    let partial = TranscriptPartial { turn_id, text: text.0, stable_chars: stable as u64 };
                    self.say(&ServerEvent::TranscriptPartial(partial), about);
                }
            }
            VoiceEvent::Heard { turn, heard, took_ms } => {
                if current(turn) && self.state() == State::AiThinking {
                    if heard.text.0.trim().is_empty() {
                        return self.not_understood(&Fault::new(Code::RecNoMatch));
                    }
                    self.understood(heard.text.0, heard.confidence, heard.language, took_ms);
                }
            }
            VoiceEvent::Unheard { turn, why } => {
                if current(turn) && self.state() == State::AiThinking {
                    self.not_understood(&fault_of(why));
                }
            }
            VoiceEvent::Sentence { .. }
            | VoiceEvent::Packet { .. }
            | VoiceEvent::Said { .. }
            | VoiceEvent::Mute { .. } => self.spoke(event),
        }
    }

    /// Nothing could be made of the turn: the session is idle again.
    fn not_understood(&mut self, fault: &Fault) {
        self.drop_response();
        let provider = fault.code.category() == "provider";
        let fault = if provider { self.count_provider_failure(fault.clone()) } else { fault.clone() };
        if fault.fatal {
            return self.fail(&fault);
        }
        self.go_saying(Trigger::ErrorRecoverable, None, Some(fault.code.name()), |connection| {
            connection.complain(&fault);
        });
        self.announce_next();
    }

    /// What the user said is known.
    fn understood(&mut self, text: String, confidence: Option<f64>, language: Option<String>, took_ms: u64) {
        let Some(floor) = &self.floor else { return };
        let turn_id = floor.turn_id.clone();
        let about = About { role: Role::User, turn_id: Some(turn_id.clone()), ..About::default() };
        let locale = language.or_else(|| Some(self.settings.locale.clone()));
        let complete = InputComplete { turn_id: turn_id.clone(), text: text.clone(), confidence, locale };
        self.say(&ServerEvent::InputComplete(complete), about);
        self.think(turn_id, text, took_ms);
    }

    /// Whether what is being said was not asked for, and its beginning not known when an event was sent.
    fn has_crossed_announcement(&self, head: &Head) -> bool {
        let announces =
            self.response.as_ref().is_some_and(|response| response.reason.is_some_and(is_any_reason));
        announces && self.machine.state_at(head.state_seq) == Some(State::Idle)
    }
}

const fn is_any_reason(reason: AnnounceReason) -> bool {
    match reason {
        AnnounceReason::Intro | AnnounceReason::Notification | AnnounceReason::FollowUp => true,
    }
}

fn duration_ms(frame: &AudioFrame, format: Format) -> u64 {
    // An Opus packet holds 20 ms here.
    let millis = frame.duration_ms(format).unwrap_or(if frame.payload.is_empty() { 0 } else { 20 });
    u64::try_from(millis).unwrap_or_default()
}

/// What the user is told. Reasons that name what a server lacks are for who runs it: they are in its log, and in
/// what can be discovered of it.
fn fault_of(why: Unheard) -> Fault {
    match why {
        Unheard::NoSpeech => Fault::new(Code::RecNoSpeech),
        Unheard::NoWords => Fault::new(Code::RecNoMatch),
        Unheard::Audio(reason) => Fault::new(Code::RecAudioQuality).because(reason),
        Unheard::Language => Fault::new(Code::RecLanguage),
        Unheard::Unavailable(_) => Fault::new(Code::ProvUnavailable).because(NOT_HEARD),
        Unheard::Exhausted(_) => Fault::new(Code::ProvQuota).because(NOT_HEARD),
        Unheard::Refused(_) => Fault::new(Code::ProvRejected).because(NOT_HEARD),
        Unheard::Late => Fault::new(Code::ProvTimeout),
    }
}

/// What a question for consent is answered with.
const ANSWERS: [&str; 6] = ["Yes", "No", "Yes, please", "No, thanks", "Confirm", "Cancel"];
const NOT_HEARD: &str = "Speech cannot be understood now. Typing still works.";
const LONGEST_TEXT: usize = 16_384;
const MOST_AHEAD_MS: u64 = 2_500;
const LATE_AUDIO: Duration = Duration::from_secs(2);
const COPY_WITHIN: Duration = Duration::from_millis(500);
