//! The system's floor: what it says, how far it was heard, what it says unasked (§5.3, §10.4, §11).

use std::time::Duration;

use serde_json::json;
use switchboard_core::model::{Op, Part};
use switchboard_core::{Frame, MessageId, Pii, Timestamp, TurnId, VoiceEvent, VoiceOp};

use crate::action;
use crate::audio::{AudioFrame, Direction, Format};
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    AnnounceReason, AudioChunk, AudioComplete, AudioEnd, AudioInterrupted, AudioProgress, AudioStart,
    LatencyMetrics, Modality, ResponseAudio, ResponseDone, ResponseStatus, ResponseTextDelta, ServerAnnounce,
    ServerEvent,
};
use crate::minutes::{LONGEST_ANSWER, Minute, Spoken};

use super::think::Usage;
use super::{Kind, Phase, VipConnection, of_response};

/// What the system says at one time.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) id: String,
    /// What the voice calls it.
    number: u64,
    /// The turn of the agent that it renders.
    pub(super) turn: Option<TurnId>,
    turn_id: Option<String>,
    pub(super) text: String,
    /// Why it is said, if nobody asked.
    pub(super) reason: Option<AnnounceReason>,
    pub(super) expects_reply: bool,
    interruptible: bool,
    /// Whether the client knows of it, so that it has to learn of its end.
    mentioned: bool,
    opened: bool,
    spoken: bool,
    /// Whether sound was announced: its end is told even if none came.
    audible: bool,
    /// Whether everything that will be said is known.
    pub(super) ended: bool,
    pub(super) failed: bool,
    done: bool,
    stream: u16,
    frames: u32,
    /// How much audio was sent, and since when.
    sent_ms: u64,
    audio_from: Option<Timestamp>,
    played_ms: u64,
    sentences: Vec<Sentence>,
    began: Timestamp,
    pub(super) latency: LatencyMetrics,
    pub(super) usage: Option<Usage>,
    /// What goes into the history once it is known how much of it was heard.
    spoke: Option<Box<Spoken>>,
    /// How much of what was heard is on record, in bytes.
    noted: usize,
}

/// Where a sentence stands in the audio of its response.
#[derive(Debug)]
struct Sentence {
    text: String,
    from_ms: u64,
    to_ms: u64,
}

/// Something to be said unasked.
#[derive(Debug)]
pub(super) struct Announcement {
    reason: AnnounceReason,
    text: String,
    pub(super) interruptible: bool,
}

impl Announcement {
    pub(super) const fn new(reason: AnnounceReason, text: String) -> Self {
        Self { reason, text, interruptible: true }
    }
}

impl Response {
    /// What was heard, if playback stopped there: whole words only.
    fn heard(&self, played_ms: u64) -> String {
        let mut heard = String::new();
        for sentence in &self.sentences {
            if !heard.is_empty() && !heard.ends_with(char::is_whitespace) {
                heard.push(' ');
            }
            if played_ms >= sentence.to_ms {
                heard.push_str(&sentence.text);
                continue;
            }
            let length = sentence.to_ms.saturating_sub(sentence.from_ms).max(1);
            let played = played_ms.saturating_sub(sentence.from_ms);
            let letters = sentence.text.chars().count() as u64 * played / length;
            let cut: String =
                sentence.text.chars().take(usize::try_from(letters).unwrap_or_default()).collect();
            let whole = cut.rfind(char::is_whitespace).map_or("", |end| cut.get(..end).unwrap_or_default());
            heard.push_str(whole);
            break;
        }
        heard.trim().to_owned()
    }
}

impl VipConnection {
    /// A response to what the user has said; the client learns of it once there is something to tell.
    pub(super) fn begin_response(&mut self) {
        let turn_id = self.floor.as_ref().map(|floor| floor.turn_id.clone());
        self.response = Some(self.new_response(turn_id));
    }

    pub(super) fn new_response(&mut self, turn_id: Option<String>) -> Response {
        let (number, stream) = self.next_stream();
        Response {
            id: format!("r-{}.{number}", self.transport),
            number,
            turn: None,
            turn_id,
            text: String::new(),
            reason: None,
            expects_reply: false,
            interruptible: true,
            mentioned: false,
            opened: false,
            spoken: false,
            audible: false,
            ended: false,
            failed: false,
            done: false,
            stream,
            frames: 0,
            sent_ms: 0,
            audio_from: None,
            played_ms: 0,
            sentences: Vec::new(),
            began: self.now,
            latency: LatencyMetrics::default(),
            usage: None,
            spoke: None,
            noted: 0,
        }
    }

    fn next_stream(&mut self) -> (u64, u16) {
        self.counters.response += 1;
        let number = self.counters.response;
        // Not those of the transport before, whose last frames may still be on their way.
        let place = (u64::from(self.transport) * STREAMS_APART + number) % u64::from(FIRST_STREAM);
        (number, FIRST_STREAM + u16::try_from(place).unwrap_or_default())
    }

    /// Goes on with a response that waited for a word of the user; to the voice it is a new one.
    pub(super) fn unpark(&mut self, parked: Option<Response>) {
        self.response = parked;
        let (number, stream) = self.next_stream();
        if let Some(response) = self.response.as_mut().filter(|response| !response.opened) {
            (response.number, response.stream) = (number, stream);
        }
    }

    /// The agent has said more.
    pub(super) fn add_words(&mut self, text: &str) {
        let now = self.now;
        let Some(response) = &mut self.response else { return };
        if response.text.is_empty() {
            let waited = u64::try_from(now.since(response.began).as_millis()).unwrap_or_default();
            response.latency.llm_ttft_ms =
                Some(waited.saturating_sub(response.latency.asr_ms.unwrap_or_default()));
        }
        if response.text.len() + text.len() > LONGEST_ANSWER {
            return;
        }
        response.text.push_str(text);
        if response.opened {
            return self.pronounce(text.to_owned(), false);
        }
        if self.state() != State::AiThinking {
            return;
        }
        if self.may_begin_to_speak() {
            self.open_response();
        } else {
            self.deadlines.prelude_by.get_or_insert_with(|| now.after(PRELUDE_TIME));
        }
    }

    /// Nothing is done first, as it seems.
    pub(super) fn speak_up(&mut self) {
        let words = self.response.as_ref().is_some_and(|response| !response.text.trim().is_empty());
        let acting = self.acts.parked_turn().is_some();
        if self.state() == State::AiThinking && words && !acting {
            self.open_response();
        }
    }

    /// Once the system speaks, nothing can be done in the app that is not meant to be done meanwhile. So while
    /// something can be done, the agent gets the time of a sentence to say so.
    fn may_begin_to_speak(&self) -> bool {
        let Some(response) = &self.response else { return false };
        let acts = self.settings.actions
            && self
                .context
                .as_ref()
                .is_some_and(|context| action::invocable(context).any(|(_, action)| !action.parallel));
        !acts || response.ended || sentences_in(&response.text) >= 2 || response.text.len() > PRELUDE
    }

    /// Begins to say what is there.
    pub(super) fn open_response(&mut self) {
        let speaks = self.service.speech.speaks && !self.muted && self.kind != Kind::Control;
        let Some(response) = &mut self.response else { return };
        if response.opened {
            return;
        }
        response.opened = true;
        response.mentioned = true;
        (response.spoken, response.audible) = (speaks, speaks);
        if response.ended {
            response.expects_reply |= response.text.trim_end().ends_with('?');
        }
        let (id, number, text, reason) =
            (response.id.clone(), response.number, response.text.clone(), response.reason);
        let mut audio = ResponseAudio::new(id.clone());
        audio.in_reply_to.clone_from(&response.turn_id);
        audio.content = response.ended.then(|| text.clone());
        audio.interruptible = response.interruptible;
        audio.expects_reply = response.expects_reply;
        audio.stream_id = speaks.then_some(response.stream);
        audio.modality = if speaks { Modality::Audio } else { Modality::Text };
        let turn_id = response.turn_id.clone();
        let mut about = of_response(&id);
        about.turn_id.clone_from(&turn_id);
        match reason {
            Some(reason) => {
                let event = ServerEvent::ServerAnnounce(ServerAnnounce { response: audio, reason });
                self.go_saying(Trigger::ServerAnnounce, None, None, |connection| {
                    connection.say(&event, about)
                });
            }
            None => {
                let event = ServerEvent::ResponseAudio(audio);
                let say = |connection: &mut Self| connection.say(&event, about);
                self.go_saying(Trigger::ResponseAudio, turn_id, None, say);
            }
        }
        if speaks {
            self.out_of_breath_by(Duration::from_millis(self.limits.thinking_ms.into()));
        }
        // What is known to be everything was shown in the beginning.
        let known = self.response.as_ref().is_some_and(|response| response.ended);
        if known && speaks {
            self.voice(VoiceOp::Say { response: number, text: Pii(text), last: false });
        } else if !known {
            self.pronounce(text, false);
        }
    }

    /// If the voice says nothing at all, the answer is over by then.
    fn out_of_breath_by(&mut self, patience: Duration) {
        self.deadlines.playback_by = Some(self.now.after(patience + AFTER_PLAYBACK));
    }

    /// Shows words, and has them spoken.
    fn pronounce(&mut self, text: String, last: bool) {
        let Some(response) = &self.response else { return };
        let (id, number, spoken) = (response.id.clone(), response.number, response.spoken);
        if !text.is_empty() {
            let delta = ResponseTextDelta { response_id: id.clone(), text: text.clone() };
            self.say(&ServerEvent::ResponseTextDelta(delta), of_response(&id));
        }
        if spoken && (last || !text.is_empty()) {
            self.voice(VoiceOp::Say { response: number, text: Pii(text), last });
        }
    }

    /// Nothing more will be said: the rest is played, and then it is over.
    pub(super) fn complete_speech(&mut self) {
        let Some(response) = &mut self.response else { return };
        response.ended = true;
        if response.spoken {
            return self.pronounce(String::new(), true);
        }
        let status = if response.failed { ResponseStatus::Failed } else { ResponseStatus::Complete };
        self.end_speech(status);
    }

    /// Everything was sent.
    pub(super) fn end_speech(&mut self, status: ResponseStatus) {
        let Some(response) = &self.response else { return };
        if response.done {
            return;
        }
        let id = response.id.clone();
        if response.audible {
            let (stream_id, duration_ms) = (response.stream, response.sent_ms);
            let end = AudioEnd { response_id: id.clone(), stream_id, duration_ms };
            self.say(&ServerEvent::AudioEnd(end), of_response(&id));
        }
        let remaining = self.remaining_ms();
        self.deadlines.playback_by = Some(self.now.after(Duration::from_millis(remaining) + AFTER_PLAYBACK));
        self.close_response(status);
    }

    /// How much of what was sent has not been played, as far as can be told from here.
    fn remaining_ms(&self) -> u64 {
        let Some(response) = &self.response else { return 0 };
        let played = response
            .audio_from
            .map_or(0, |from| u64::try_from(self.now.since(from).as_millis()).unwrap_or(u64::MAX));
        response.sent_ms.saturating_sub(played)
    }

    /// Says how a response ended, once, and puts on record what was said.
    pub(super) fn close_response(&mut self, status: ResponseStatus) {
        let Some(response) = &mut self.response else { return };
        if response.done || !response.mentioned {
            return;
        }
        response.done = true;
        let text = (!response.text.is_empty()).then(|| response.text.clone());
        let done = ResponseDone {
            response_id: response.id.clone(),
            status,
            text: text.clone().filter(|_| status != ResponseStatus::Incomplete),
            usage: response.usage.clone(),
            latency_metrics: Some(response.latency),
            model_id: Some(self.agent.to_string()),
        };
        let id = response.id.clone();
        let spoken = Spoken {
            turn: response.turn.as_ref().map(ToString::to_string),
            turn_id: response.turn_id.clone(),
            response: id.clone(),
            text: text.unwrap_or_default(),
            complete: status == ResponseStatus::Complete,
            metadata: json!({ "model_id": self.agent, "latency_metrics": response.latency }),
        };
        let said = response.opened && status != ResponseStatus::Incomplete;
        self.say(&ServerEvent::ResponseDone(Box::new(done)), of_response(&id));
        if said
            && !spoken.text.is_empty()
            && let Some(response) = &mut self.response
        {
            response.spoke = Some(Box::new(spoken));
        }
    }

    /// What was said is known to have been heard.
    pub(super) fn heard_out(&mut self) {
        if let Some(spoken) = self.response.as_mut().and_then(|response| response.spoke.take()) {
            self.outgoing.note(Minute::Spoken(spoken));
        }
    }

    /// A response of an earlier transport never came to its end, and never will.
    pub(super) fn close_abandoned(&mut self, response_id: String) {
        let spoken = Spoken {
            turn: None,
            turn_id: None,
            response: response_id.clone(),
            text: String::new(),
            complete: false,
            metadata: json!({}),
        };
        self.outgoing.note(Minute::Spoken(Box::new(spoken)));
        let about = of_response(&response_id);
        let done = ResponseDone {
            response_id,
            status: ResponseStatus::Incomplete,
            text: None,
            usage: None,
            latency_metrics: None,
            model_id: None,
        };
        self.say(&ServerEvent::ResponseDone(Box::new(done)), about);
    }

    /// The client is about to learn of the response.
    pub(super) fn mention_response(&mut self) -> String {
        match &mut self.response {
            Some(response) => {
                response.mentioned = true;
                response.id.clone()
            }
            None => String::new(),
        }
    }

    /// Forgets a response of which the client knows nothing.
    pub(super) fn drop_response(&mut self) {
        self.close_response(ResponseStatus::Failed);
        self.response = None;
    }

    /// What the voice has to say about what it says.
    pub(super) fn spoke(&mut self, event: VoiceEvent) {
        let current = |response: u64| {
            self.response.as_ref().is_some_and(|known| known.number == response && !known.done)
        };
        match event {
            VoiceEvent::Sentence { response, text, from_ms, to_ms, took_ms } => {
                if current(response)
                    && let Some(response) = &mut self.response
                {
                    response.latency.tts_ttfb_ms.get_or_insert(took_ms);
                    response.sentences.push(Sentence { text: text.0, from_ms, to_ms });
                }
            }
            VoiceEvent::Packet { response, offset_ms, packet } => {
                if current(response) && self.state() == State::AiSpeaking {
                    self.play(offset_ms, packet);
                }
            }
            VoiceEvent::Said { response, .. } => {
                if current(response) && self.state() == State::AiSpeaking {
                    let failed = self.response.as_ref().is_some_and(|response| response.failed);
                    self.end_speech(if failed { ResponseStatus::Failed } else { ResponseStatus::Complete });
                }
            }
            VoiceEvent::Mute { response, .. } => {
                if current(response) && self.state() == State::AiSpeaking {
                    self.lost_voice();
                }
            }
            VoiceEvent::Speech { .. }
            | VoiceEvent::Silence { .. }
            | VoiceEvent::Partial { .. }
            | VoiceEvent::Heard { .. }
            | VoiceEvent::Unheard { .. } => {}
        }
    }

    /// The rest can only be read. Why is for who runs the server: the voice has put it into the log.
    fn lost_voice(&mut self) {
        self.complain(&Fault::new(Code::ProvTtsFailed));
        let Some(response) = &mut self.response else { return };
        response.spoken = false;
        if response.ended {
            self.end_speech(ResponseStatus::Complete);
        }
    }

    /// How much was heard, as far as can be told from here.
    fn played_ms(&self, response: &Response) -> u64 {
        let elapsed = |from| u64::try_from(self.now.since(from).as_millis()).unwrap_or(u64::MAX);
        response.audio_from.map_or(0, elapsed).max(response.played_ms).min(response.sent_ms)
    }

    /// Puts on record what more was heard, so that it is known even if this server breaks in the middle.
    pub(super) fn note_heard(&mut self) {
        let Some(response) = self.response.as_ref().filter(|_| self.state() == State::AiSpeaking) else {
            return;
        };
        let played = self.played_ms(response);
        let text = response.heard(played);
        let more = text.get(response.noted..).unwrap_or_default().to_owned();
        let (turn_id, id) = (response.turn_id.clone(), response.id.clone());
        if !response.done || played < response.sent_ms {
            self.deadlines.heard_at = Some(self.now.after(BETWEEN_HEARD));
        }
        if let Some(response) = self.response.as_mut().filter(|_| !more.is_empty()) {
            response.noted = text.len();
            self.outgoing.note(Minute::Heard { response: id, turn_id, more });
        }
    }

    fn play(&mut self, offset_ms: u64, packet: bytes::Bytes) {
        let (now, format) = (self.now, self.settings.output);
        let Some(response) = &mut self.response else { return };
        let id = response.id.clone();
        if response.audio_from.is_none() {
            response.audio_from = Some(now);
            let waited = u64::try_from(now.since(response.began).as_millis()).unwrap_or_default();
            response.latency.e2e_ms = Some(waited);
            let format = if self.kind == Kind::Peer { Format::Opus } else { format };
            let start = AudioStart { response_id: id.clone(), stream_id: response.stream, format };
            self.say(&ServerEvent::AudioStart(start), of_response(&id));
        }
        let Some(response) = &mut self.response else { return };
        let seq = response.frames;
        response.frames += 1;
        response.sent_ms = response.sent_ms.max(offset_ms + u64::from(super::settle::PACKET_MS));
        let stream = response.stream;
        self.deadlines.heard_at.get_or_insert_with(|| now.after(BETWEEN_HEARD));
        let spare = Duration::from_millis(response.sent_ms) + AFTER_PLAYBACK;
        let from = response.audio_from.unwrap_or(now);
        // As long as audio comes, there is more to play.
        self.deadlines.playback_by = Some(from.after(spare + STALLED));
        let offset = u32::try_from(offset_ms).unwrap_or(u32::MAX);
        match (self.kind, self.settings.framing.as_str()) {
            (Kind::Peer, _) => self.outgoing.play(stream, Frame::Media(packet)),
            (_, "base64") => {
                let chunk = AudioChunk { stream_id: stream, seq, offset_ms: offset, flags: 0, audio: packet };
                self.say(&ServerEvent::AudioChunk(chunk), of_response(&id));
            }
            _ => {
                let frame = AudioFrame {
                    direction: Direction::Output,
                    end: false,
                    monitor: false,
                    gap: false,
                    stream,
                    seq,
                    offset_ms: offset,
                    payload: packet,
                };
                self.outgoing.play(stream, Frame::Binary(frame.encode()));
            }
        }
    }

    pub(super) fn progressed(&mut self, progress: &AudioProgress) {
        if let Some(response) = self.response.as_mut().filter(|known| known.id == progress.response_id) {
            response.played_ms = progress.played_ms;
        }
    }

    pub(super) fn audio_complete(&mut self, complete: &AudioComplete) {
        let known = self.response.as_ref().is_some_and(|known| known.id == complete.response_id);
        if self.state() == State::AiSpeaking && known {
            self.played();
        }
    }

    /// Playback is over.
    pub(super) fn played(&mut self) {
        if self.state() != State::AiSpeaking {
            return;
        }
        let unfinished = self.response.as_ref().is_some_and(|response| !response.done);
        if unfinished {
            self.quiet();
            self.stop_turn("playback has ended");
            self.end_speech(ResponseStatus::Incomplete);
        }
        self.heard_out();
        self.response = None;
        self.go(Trigger::AudioComplete, None, None);
        self.announce_next();
    }

    pub(super) fn is_interruptible(&self) -> bool {
        let Some(response) = &self.response else { return true };
        response.interruptible || response.sent_ms > self.limits.uninterruptible_ms.into()
    }

    pub(super) fn spoken_response(&self) -> Option<String> {
        self.response.as_ref().filter(|response| response.opened).map(|response| response.id.clone())
    }

    /// Not another sound.
    pub(super) fn quiet(&mut self) {
        let Some(response) = self.response.as_ref().filter(|response| response.opened) else { return };
        let (number, stream, spoken) = (response.number, response.stream, response.spoken);
        let unsent = self.outgoing.hush(stream);
        if let Some(response) = &mut self.response {
            let unsent_ms = u64::from(unsent) * u64::from(super::settle::PACKET_MS);
            response.sent_ms = response.sent_ms.saturating_sub(unsent_ms);
            response.frames = response.frames.saturating_sub(unsent);
        }
        if spoken {
            self.voice(VoiceOp::Hush { response: number });
        }
    }

    /// The user has interrupted: says how far the answer got, and puts on record what was heard of it.
    pub(super) fn interrupted(&mut self, played_ms: Option<u64>) {
        self.stop_turn("the user interrupts");
        self.drop_acts();
        let Some(response) = self.response.take() else { return };
        if response.opened && !response.done {
            let played = played_ms.unwrap_or_else(|| self.played_ms(&response)).min(response.sent_ms);
            self.tell_heard(&response, played);
        } else if response.opened {
            // Everything was sent, but not everything was heard.
            let remaining = played_ms.is_none_or(|played| played < response.sent_ms);
            let mut spoke = response.spoke.clone();
            if remaining && response.sent_ms > 0 {
                let played = played_ms.unwrap_or(response.played_ms).min(response.sent_ms);
                let text = self.tell_truncated(&response, played);
                if let Some(spoken) = &mut spoke {
                    (spoken.text, spoken.complete) = (text, false);
                }
            }
            spoke.into_iter().for_each(|spoken| self.outgoing.note(Minute::Spoken(spoken)));
        }
        let finished = response.done;
        self.response = Some(response);
        if !finished {
            self.close_response(ResponseStatus::Incomplete);
        }
        self.response = None;
    }

    fn tell_heard(&mut self, response: &Response, played_ms: u64) {
        let spoken = self.tell_truncated(response, played_ms);
        let spoken = Spoken {
            turn: response.turn.as_ref().map(ToString::to_string),
            turn_id: response.turn_id.clone(),
            response: response.id.clone(),
            text: spoken,
            complete: false,
            metadata: json!({ "model_id": self.agent, "played_ms": played_ms }),
        };
        self.outgoing.note(Minute::Spoken(Box::new(spoken)));
    }

    /// Says where playback stopped; the conversation goes on from what was heard.
    fn tell_truncated(&mut self, response: &Response, played_ms: u64) -> String {
        let spoken_text = if response.spoken || response.frames > 0 {
            response.heard(played_ms)
        } else {
            response.text.clone()
        };
        let event = AudioInterrupted {
            response_id: response.id.clone(),
            truncated_at_ms: played_ms,
            spoken_text: spoken_text.clone(),
        };
        self.say(&ServerEvent::AudioInterrupted(event), of_response(&response.id));
        if let Some(turn) = &response.turn {
            let message = MessageId::answer_of(turn);
            if response.ended {
                let parts = vec![Part::Text(spoken_text.clone())];
                self.ask(Op::Edit { message, parts });
            } else {
                self.corrections.insert(message, spoken_text.clone());
            }
        }
        spoken_text
    }

    /// Says something unasked, as soon as nobody speaks.
    pub(super) fn announce(&mut self, announcement: Announcement) {
        if self.announcements.len() >= MOST_ANNOUNCEMENTS {
            self.announcements.pop_front();
        }
        self.announcements.push_back(announcement);
        self.announce_next();
    }

    pub(super) fn announce_next(&mut self) {
        self.leave_if_draining();
        if self.state() != State::Idle || self.kind == Kind::Control || self.phase != Phase::Live {
            return;
        }
        let Some(Announcement { reason, text, interruptible }) = self.announcements.pop_front() else {
            return;
        };
        let mut response = self.new_response(None);
        response.reason = Some(reason);
        response.interruptible = interruptible;
        response.text = text;
        response.ended = true;
        self.response = Some(response);
        self.open_response();
        self.complete_speech();
    }

    /// What an earlier transport was not told is told in a while, unless the user goes on before.
    pub(super) fn miss(&mut self, text: String) {
        self.missed = Some(text);
        self.deadlines.missed_at = Some(self.now.after(BEFORE_MISSED));
    }

    pub(super) fn tell_missed(&mut self) {
        // Whoever is about to say something is not interrupted with something old.
        let idle = self.state() == State::Idle && self.phase == Phase::Live;
        self.deadlines.missed_at = (!idle).then(|| self.now.after(BEFORE_MISSED));
        if idle && let Some(text) = self.missed.take() {
            self.announce(Announcement::new(AnnounceReason::FollowUp, text));
        }
    }

    /// The answer has come when nobody waited for it any more.
    pub(super) fn follow_up(&mut self) {
        let Some(response) = self.response.take() else { return };
        if !response.text.trim().is_empty() {
            self.announce(Announcement::new(AnnounceReason::FollowUp, response.text));
        }
    }
}

/// How many whole sentences a text holds.
fn sentences_in(text: &str) -> usize {
    let ends = |letter: char| matches!(letter, '.' | '!' | '?' | '。' | '！' | '？');
    text.char_indices()
        .filter(|(place, letter)| {
            ends(*letter)
                && text
                    .get(place + letter.len_utf8()..)
                    .is_some_and(|rest| rest.starts_with(char::is_whitespace))
        })
        .count()
}

const FIRST_STREAM: u16 = 32_768;
const STREAMS_APART: u64 = 1_024;
const AFTER_PLAYBACK: Duration = Duration::from_secs(5);
/// How long the voice may take between two sentences.
const STALLED: Duration = Duration::from_secs(15);
/// Who comes back finds silence first, and may go on.
const BEFORE_MISSED: Duration = Duration::from_secs(3);
/// How often it is put on record how much was heard.
const BETWEEN_HEARD: Duration = Duration::from_secs(1);
const MOST_ANNOUNCEMENTS: usize = 8;
/// An agent that has said more than this before it acts has begun to answer.
const PRELUDE: usize = 160;
/// And so has one that has said something and then nothing for so long.
const PRELUDE_TIME: Duration = Duration::from_millis(800);
