//! The system's floor: what is played, how far that has come, and when it is over.

use bytes::Bytes;
use switchboard_core::Timestamp;

use super::event::{CommandError, Event, Sound};
use super::{About, Carrier, VipClient, millis};
use crate::audio::{AudioFrame, Direction, Format};
use crate::error::{Code, Fault};
use crate::matrix::{State, Trigger};
use crate::message::{
    AnnounceReason, AudioComplete, AudioEnd, AudioProgress, AudioStart, ClientEvent, InputMode,
    InputStartTrigger, PlaybackStatus, ResponseAudio, ResponseDone, ResponseTextDelta,
};

/// What is said now, or was said last.
#[derive(Debug)]
pub(super) struct Playback {
    response_id: String,
    stream: Option<u16>,
    format: Format,
    interruptible: bool,
    expects_reply: bool,
    /// When its audio began to come.
    began: Option<Timestamp>,
    /// How much of it has come.
    received_ms: u64,
    /// How long it is, once that is known.
    duration_ms: Option<u64>,
    /// How much was heard, and when that was reported.
    played: (u64, Timestamp),
    progress_at: Option<Timestamp>,
    status: Option<PlaybackStatus>,
    /// When it is over, where nobody reports that.
    pub(super) over_at: Option<Timestamp>,
    done: bool,
    silenced: bool,
    completed: bool,
    followed_up: bool,
}

impl Playback {
    pub(super) fn response_id(&self) -> &str {
        &self.response_id
    }

    /// How much was heard by now: what was reported, and what has probably been heard since.
    pub(super) fn played(&self, now: Timestamp) -> u64 {
        let (played, at) = self.played;
        let since = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        let estimate = if self.began.is_some() { played.saturating_add(since) } else { 0 };
        let most = self.duration_ms.unwrap_or(self.received_ms).max(played);
        estimate.min(most)
    }
}

/// How often progress is reported at most.
const PROGRESS_MS: u64 = 1_000;

impl VipClient {
    pub(super) fn response(&mut self, response: ResponseAudio, reason: Option<AnnounceReason>) {
        let format = self.agreed.map_or(Format::Pcm24k, |agreed| agreed.audio.output);
        self.playback = Some(Playback {
            response_id: response.response_id.clone(),
            stream: response.stream_id,
            format,
            interruptible: response.interruptible,
            expects_reply: response.expects_reply,
            began: None,
            received_ms: 0,
            duration_ms: None,
            played: (0, self.now),
            progress_at: None,
            status: None,
            over_at: None,
            done: false,
            silenced: false,
            completed: false,
            followed_up: false,
        });
        // Words that are known when it begins come with it, and no delta repeats them.
        let words = response
            .content
            .clone()
            .map(|text| Event::Words(ResponseTextDelta { response_id: response.response_id.clone(), text }));
        self.event(Event::Response(response, reason));
        if let Some(words) = words {
            self.event(words);
        }
    }

    pub(super) fn audio_started(&mut self, start: &AudioStart) {
        let now = self.now;
        let channel = self.config.carrier == Carrier::DataChannel;
        if let Some(playback) = self.playing(&start.response_id) {
            if channel {
                // What comes over a track is not seen here.
                playback.received_ms = u64::MAX;
            }
            playback.stream = Some(start.stream_id);
            playback.format = start.format;
            playback.began = Some(now);
            playback.played = (0, now);
        }
    }

    pub(super) fn audio_ended(&mut self, end: &AudioEnd) {
        let channel = self.config.carrier == Carrier::DataChannel;
        let Some(playback) = self.playing(&end.response_id) else { return };
        playback.duration_ms = Some(end.duration_ms);
        if channel {
            // Nobody but the clock knows how far a track is.
            playback.over_at = playback.began.map(|began| began.after(millis(end.duration_ms)));
        }
        if !playback.silenced {
            let (response_id, duration_ms) = (end.response_id.clone(), end.duration_ms);
            self.event(Event::LastPlayed { response_id, duration_ms });
        }
    }

    pub(super) fn response_done(&mut self, done: Box<ResponseDone>) {
        if let Some(playback) = self.playing(&done.response_id) {
            playback.done = true;
        }
        self.event(Event::Done(done));
    }

    fn playing(&mut self, response_id: &str) -> Option<&mut Playback> {
        self.playback.as_mut().filter(|playback| playback.response_id == response_id)
    }

    pub(super) fn receive_audio(&mut self, bytes: Bytes) {
        if !self.link.is_up() {
            return;
        }
        match AudioFrame::decode(bytes) {
            Ok(frame) if frame.direction == Direction::Output => self.play(frame),
            Ok(_) => {
                self.complain(&Fault::new(Code::ProtoBadAudioFrame).because("the frame is of the wrong kind"))
            }
            Err(why) => self.complain(&Fault::new(Code::ProtoBadAudioFrame).because(why.to_string())),
        }
    }

    /// Plays a frame, unless it belongs to something that was interrupted.
    pub(super) fn play(&mut self, frame: AudioFrame) {
        let speaking = self.state() == State::AiSpeaking;
        let Some(playback) = &mut self.playback else { return };
        let wanted = speaking && !playback.silenced && playback.stream == Some(frame.stream);
        if !wanted || frame.payload.is_empty() || !frame.fits(playback.format) {
            return;
        }
        let length = match frame.duration_ms(playback.format) {
            Some(length) => u64::try_from(length).unwrap_or_default(),
            None => self.agreed.map_or(20, |agreed| agreed.audio.frame_ms.into()),
        };
        playback.received_ms = playback.received_ms.max(u64::from(frame.offset_ms) + length);
        let sound = Sound {
            response_id: playback.response_id.clone(),
            format: playback.format,
            offset_ms: frame.offset_ms,
            audio: frame.payload,
        };
        self.event(Event::Play(sound));
    }

    /// How much of a response was heard so far; the more often this is told, the better is known where it was
    /// interrupted.
    pub fn played(&mut self, response_id: &str, played_ms: u64, now: Timestamp) {
        self.now = now;
        let speaking = self.state() == State::AiSpeaking;
        let Some(playback) = self.playing(response_id) else { return };
        playback.played = (played_ms, now);
        let last = playback.progress_at.get_or_insert(now);
        if !speaking || now.since(*last) < millis(PROGRESS_MS) || playback.silenced {
            return;
        }
        *last = now;
        if self.link.is_up() && !self.is_internal() {
            let progress = AudioProgress { response_id: response_id.to_owned(), played_ms };
            self.send(&ClientEvent::AudioProgress(progress), About::default());
        }
    }

    /// The last of a response was heard, or cannot be played.
    ///
    /// # Errors
    /// More of it is to come, or nothing of it is played.
    pub fn played_out(
        &mut self,
        response_id: &str,
        played_ms: u64,
        status: PlaybackStatus,
        now: Timestamp,
    ) -> Result<(), CommandError> {
        self.now = now;
        let state = self.state();
        let Some(playback) = self.playing(response_id) else { return Err(CommandError::State(state)) };
        if playback.duration_ms.is_none() && status == PlaybackStatus::Played {
            return Err(CommandError::State(state));
        }
        playback.played = (played_ms, now);
        playback.status = Some(status);
        self.settle();
        Ok(())
    }

    pub(super) fn playback_timeout(&mut self) {
        let now = self.now;
        if let Some(playback) = &mut self.playback
            && playback.over_at.is_some_and(|at| at <= now)
        {
            playback.over_at = None;
            playback.played = (playback.duration_ms.unwrap_or_default(), now);
            playback.status = Some(PlaybackStatus::Played);
        }
    }

    /// Whether the user may take the floor from the system.
    pub(super) fn is_interruptible(&self) -> bool {
        self.state() != State::AiSpeaking
            || self.playback.as_ref().is_none_or(|playback| playback.interruptible)
    }

    /// Stops playback, at once (VIP-031).
    pub(super) fn silence(&mut self) {
        let Some(playback) = &mut self.playback else { return };
        playback.over_at = None;
        if playback.silenced || playback.completed {
            return;
        }
        playback.silenced = true;
        let response_id = playback.response_id.clone();
        self.event(Event::Silence { response_id });
    }

    /// Says when everything was heard (VIP-071), and listens if that was a question.
    pub(super) fn settle_playback(&mut self) {
        if self.is_internal() || !self.link.is_up() {
            return;
        }
        let state = self.state();
        if state == State::UserSpeaking {
            // However that came about.
            self.silence();
        }
        let now = self.now;
        let Some(playback) = &mut self.playback else { return };
        // What was silenced while the system still has the floor was not to be interrupted, and is over anyway.
        let heard =
            playback.status.is_some() || playback.done && playback.began.is_none() || playback.silenced;
        if heard && state == State::AiSpeaking && !playback.completed {
            playback.completed = true;
            let complete = AudioComplete {
                response_id: playback.response_id.clone(),
                played_ms: if playback.began.is_some() { playback.played(now) } else { 0 },
                status: playback.status.unwrap_or(PlaybackStatus::Played),
            };
            self.send_trigger(
                &ClientEvent::AudioComplete(complete),
                About::default(),
                Trigger::AudioComplete,
            );
        }
        let follows_up = self.agreed.is_some_and(|agreed| agreed.turn_detection.follow_up_listen)
            && self.config.microphone
            && !self.muted;
        let Some(playback) = &mut self.playback else { return };
        // Only once the server agrees that it is over, so that this is no interruption.
        let over =
            playback.completed && self.follow.agreed() == State::Idle && self.follow.state() == State::Idle;
        if over && playback.expects_reply && follows_up && !std::mem::replace(&mut playback.followed_up, true)
        {
            self.start(InputMode::Voice, InputStartTrigger::FollowUp);
        }
    }

    /// Audio where there are no binary messages.
    pub(super) fn receive_chunk(&mut self, chunk: crate::message::AudioChunk) {
        match chunk.into_frame(Direction::Output) {
            Ok(frame) => self.play(frame),
            Err(why) => self.complain(&Fault::new(Code::ProtoBadAudioFrame).because(why.to_string())),
        }
    }
}
