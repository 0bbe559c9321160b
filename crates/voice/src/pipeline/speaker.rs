//! One response, spoken.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use switchboard_core::{Dumb, Pii, VoiceEvent};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::mouth::Mouth;
use super::outlet::Outlet;
use super::sentences::Sentences;
use crate::audio::Sound;
use crate::house::Speaking;
use crate::speak::{Plain, SpeakError};

/// More of a response.
pub(crate) enum Words {
    Text(String),
    End,
}

/// Speaks one response, sentence by sentence: the next one is made while one is heard.
pub(crate) struct Speaker {
    pub(crate) response: u64,
    pub(crate) language: String,
    pub(crate) voice: Option<String>,
    pub(crate) speaking: Arc<Speaking>,
    pub(crate) outlet: Arc<Outlet>,
}

type Job = Pin<Box<dyn Future<Output = (Result<Arc<Sound>, SpeakError>, u64)> + Send>>;

/// A sentence, or why there is none.
struct Spoken {
    text: String,
    sound: Result<Arc<Sound>, SpeakError>,
    took_ms: u64,
}

#[derive(Default)]
struct Script {
    sentences: Sentences,
    plain: Plain,
    /// As written, and as spoken.
    waiting: VecDeque<(String, String)>,
    job: Option<(String, Job)>,
    ready: VecDeque<Spoken>,
    complete: bool,
}

impl Speaker {
    /// Speaks until there is nothing more to say, or until it is hushed. Says nothing while `held`.
    pub(crate) async fn run(
        self,
        mut mouth: Mouth,
        mut words: mpsc::UnboundedReceiver<Words>,
        mut held: watch::Receiver<bool>,
    ) {
        let mut script = Script::default();
        loop {
            self.prepare(&mut script);
            let silent = *held.borrow_and_update();
            let now = Instant::now();
            let due = if silent { None } else { mouth.due(now) };
            if due.is_none() && !silent {
                match script.ready.pop_front() {
                    Some(spoken) => {
                        if !self.begin(&mut mouth, spoken) {
                            return;
                        }
                        continue;
                    }
                    None if script.is_over() => {
                        let duration_ms = mouth.spoken_ms();
                        self.say(VoiceEvent::Said { response: self.response, duration_ms });
                        return;
                    }
                    None => {}
                }
            }
            let done = async {
                match script.job.as_mut() {
                    Some((_, job)) => job.await,
                    None => std::future::pending().await,
                }
            };
            let time = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = held.changed() => if changed.is_err() { return },
                more = words.recv(), if !script.complete => script.add(more),
                (sound, took_ms) = done => {
                    if let Some((text, _)) = script.job.take() {
                        script.ready.push_back(Spoken { text, sound, took_ms });
                    }
                }
                () = time => {
                    let now = Instant::now();
                    if let Some((offset_ms, packet)) = mouth.next(now)
                        && !self.say(VoiceEvent::Packet { response: self.response, offset_ms, packet })
                    {
                        return;
                    }
                }
            }
        }
    }

    /// Has the next sentence made, unless enough are ready.
    fn prepare(&self, script: &mut Script) {
        if script.job.is_some() || script.ready.len() >= AHEAD {
            return;
        }
        let Some((text, spoken)) = script.waiting.pop_front() else { return };
        let (speaking, language, voice) =
            (Arc::clone(&self.speaking), self.language.clone(), self.voice.clone());
        let job = async move {
            let began = Instant::now();
            let sound = speaking.speak(&spoken, &language, voice.as_deref()).await;
            (sound, u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
        };
        script.job = Some((text, Box::pin(job)));
    }

    /// Begins a sentence; false if the response ends with that.
    fn begin(&self, mouth: &mut Mouth, spoken: Spoken) -> bool {
        let response = self.response;
        let sound = match spoken.sound {
            Ok(sound) => sound,
            Err(error) => {
                self.say(VoiceEvent::Mute { response, why: error.into() });
                return false;
            }
        };
        let Some((from_ms, to_ms)) = mouth.begin(&sound) else {
            let why = Dumb::Failed("the speech has a rate that cannot be used".into());
            self.say(VoiceEvent::Mute { response, why });
            return false;
        };
        let (text, took_ms) = (Pii(spoken.text), spoken.took_ms);
        self.say(VoiceEvent::Sentence { response, text, from_ms, to_ms, took_ms })
    }

    fn say(&self, event: VoiceEvent) -> bool {
        self.outlet.say(self.response, event)
    }
}

impl Script {
    fn add(&mut self, more: Option<Words>) {
        let mut sentences = Vec::new();
        match more {
            Some(Words::Text(text)) => self.sentences.push(&text, &mut sentences),
            Some(Words::End) | None => {
                self.complete = true;
                self.sentences.finish(&mut sentences);
            }
        }
        for text in sentences {
            if let Some(spoken) = self.plain.speakable(&text) {
                self.waiting.push_back((text, spoken));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.complete && self.waiting.is_empty() && self.job.is_none() && self.ready.is_empty()
    }
}

/// How many sentences are made before they are needed.
const AHEAD: usize = 2;
