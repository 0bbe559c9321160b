//! Audio without a track: assembled until its end, understood once, and answered (§4.4, §5.3).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use switchboard_core::model::{Names, Parent};
use switchboard_core::{Heard, Op, Output, Pii, Reply, SessionId, Utterance};

use super::jobs::{Answer, Job, Task, message_of};
use super::say::{Asking, meta_of};
use super::{AliciaConnection, Pending};
use crate::deed::{CHRONICLE, Deed, Luggage, Spoken};
use crate::error::Code;
use crate::id::Prefix;
use crate::message::{AudioChunk, Body, Configuration};

/// Audio of one conversation that waits for its end.
#[derive(Debug, Default)]
pub(super) struct Ear {
    /// The language that the client has named.
    language: Option<String>,
    chunks: VecDeque<(u32, Pii<Bytes>)>,
    /// How long they are together, in milliseconds.
    duration_ms: u64,
    bytes: usize,
}

/// An utterance is being understood.
#[derive(Debug)]
pub(super) enum Hearing {
    /// It is with the recogniser.
    Listening {
        /// How long it is, in milliseconds.
        duration_ms: u64,
    },
    /// The turn that answers it is being started.
    Starting {
        /// What is to be noted about it then.
        heard: Box<Deed>,
    },
}

impl Ear {
    pub(super) fn prefer(&mut self, configuration: &Configuration) {
        if configuration.preferred_language.is_some() {
            self.language.clone_from(&configuration.preferred_language);
        }
    }

    /// Takes in a chunk; the oldest are dropped where there is too much.
    fn take(&mut self, duration_ms: u32, data: &Bytes, most_ms: u64) {
        self.duration_ms += u64::from(duration_ms);
        self.bytes += data.len();
        self.chunks.push_back((duration_ms, Pii(data.clone())));
        while self.chunks.len() > 1 && (self.duration_ms > most_ms || self.bytes > MAX_AUDIO) {
            let Some((duration_ms, data)) = self.chunks.pop_front() else { return };
            self.duration_ms -= u64::from(duration_ms);
            self.bytes -= data.0.len();
        }
    }

    /// All of it, as one piece.
    fn finish(&mut self, format: &str) -> Option<Utterance> {
        let mut audio = BytesMut::with_capacity(self.bytes);
        for (_, data) in std::mem::take(&mut self.chunks) {
            audio.extend_from_slice(&data.0);
        }
        (self.duration_ms, self.bytes) = (0, 0);
        let (format, language) = (format.to_owned(), self.language.clone());
        (!audio.is_empty()).then(|| Utterance { format, audio: Pii(audio.freeze()), language })
    }
}

impl AliciaConnection {
    /// Chunks that describe a track are for information only; those that carry audio ask to be understood.
    pub(super) fn hear(&mut self, job: Job) {
        let (Body::AudioChunk(chunk), Some(session)) = (&job.body, job.session()) else { return };
        let Some(known) = self.followed.get_mut(&session) else { return };
        let AudioChunk { format, duration_ms, data, is_last, .. } = chunk;
        if let Some(data) = data {
            known.ear.take(*duration_ms, data, u64::from(self.limits.audio_s) * 1000);
        }
        if !is_last {
            return;
        }
        let duration_ms = known.ear.duration_ms;
        let Some(utterance) = known.ear.finish(format) else { return };
        let request = self.pending.ask(Pending::Work);
        self.out.push_back(Output::Hear(request, Box::new(utterance)));
        self.wait(job, Task::Hearing(Hearing::Listening { duration_ms }));
    }

    pub(super) fn go_on_hearing(&mut self, job: Job, hearing: Hearing, answer: Answer) {
        let Some(session) = job.session() else { return };
        match (hearing, answer.reply()) {
            (Hearing::Listening { duration_ms }, Ok(Reply::Heard(heard))) => {
                self.heard(job, &session, heard, duration_ms);
            }
            (Hearing::Listening { .. }, Ok(_)) => {
                self.refuse(&job, Code::Provider, "the speech was not understood");
            }
            (Hearing::Starting { heard }, Ok(reply)) => {
                self.expect(&job, &reply);
                self.tell(&session, Op::Record { chronicle: CHRONICLE.into(), record: heard.to_record() });
            }
            (Hearing::Listening { .. } | Hearing::Starting { .. }, Err(reject)) => {
                self.refuse_rejected(&job, &reject);
            }
        }
    }

    /// What was said is a message like any other; everybody is told by a Transcription.
    fn heard(&mut self, job: Job, session: &SessionId, heard: Heard, duration_ms: u64) {
        let Heard { text: Pii(text), confidence, language } = heard;
        let Body::AudioChunk(AudioChunk { format, .. }) = &job.body else { return };
        if text.trim().is_empty() {
            return;
        }
        let (input, answer) = (self.fresh(Prefix::Message), self.fresh(Prefix::Message));
        let known =
            [("confidence", confidence.map(Value::from)), ("language", language.clone().map(Value::from))];
        let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let heard = Box::new(Deed::Heard {
            id: self.fresh(Prefix::Audio).to_string(),
            message: Some(input.to_string()),
            format: format.clone(),
            duration_ms,
            transcription: Some(text.clone()),
            meta: known.collect(),
        });
        let names =
            Names { input: Some(message_of(&input)), answer: Some(message_of(&answer)), again: false };
        let spoken = Some(Spoken { confidence, language });
        let luggage = Luggage { spoken, meta: meta_of(&job.meta), ..Luggage::default() };
        let asking = Asking { request: text, names, parent: Parent::Tip, luggage };
        self.start_turn(session, asking, &job.meta);
        self.wait(job, Task::Hearing(Hearing::Starting { heard }));
    }
}

/// Bytes of audio that may wait for their end: half a minute of uncompressed stereo.
const MAX_AUDIO: usize = 6 << 20;
