//! Stand-ins whose time and failures a test decides.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use switchboard_core::{Heard, Pii};
use switchboard_voice::audio::Sound;
use switchboard_voice::hear::{HearError, Recogniser, Speech};
use switchboard_voice::speak::{SpeakError, Synthesiser};
use tokio::time::sleep;

/// Hums for 200 ms a word, after a while.
#[derive(Debug, Default)]
pub(crate) struct Hum {
    pub(crate) takes: Duration,
    pub(crate) asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Synthesiser for Hum {
    async fn speak(&self, text: &str, _language: &str, _voice: Option<&str>) -> Result<Sound, SpeakError> {
        self.asked.lock().push(text.to_owned());
        sleep(self.takes).await;
        if text.contains("fail") {
            return Err(SpeakError::Failed("it failed".into()));
        }
        let words = text.split(' ').count();
        Ok(Sound { samples: vec![0.1; words * 3_200], rate: 16_000 })
    }

    fn knows(&self, language: &str) -> bool {
        language.starts_with("en")
    }
}

/// Understands how long somebody spoke, after a while.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    pub(crate) takes: Duration,
    pub(crate) result: Result<(), HearError>,
    pub(crate) interim: bool,
    pub(crate) lengths: Mutex<Vec<usize>>,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self { takes: Duration::from_millis(50), result: Ok(()), interim: true, lengths: Mutex::default() }
    }
}

#[async_trait]
impl Recogniser for Stopwatch {
    async fn hear(&self, speech: &Speech) -> Result<Heard, HearError> {
        let ms = speech.samples.len() / 16;
        self.lengths.lock().push(ms);
        sleep(self.takes).await;
        self.result.clone()?;
        Ok(Heard { text: Pii(format!("{ms} ms")), confidence: Some(0.5), language: Some("en".into()) })
    }

    fn interim(&self) -> bool {
        self.interim
    }
}
