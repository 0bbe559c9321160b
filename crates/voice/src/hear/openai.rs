//! Recognition by an endpoint.

use async_trait::async_trait;
use bytes::Bytes;
use switchboard_agents::speech::{Recogniser as Endpoint, RecogniserConfig, RecogniserError};
use switchboard_core::{Heard, Pii, Utterance};

use super::{HearError, Recogniser, Speech};
use crate::audio::write_pcm16;

/// Asks an endpoint that is compatible with OpenAI's transcriptions.
#[derive(Debug)]
pub struct OpenAiRecogniser(Endpoint);

impl OpenAiRecogniser {
    /// Does not connect yet.
    ///
    /// # Errors
    /// The configuration makes no sense; says how.
    pub fn new(config: RecogniserConfig) -> Result<Self, String> {
        Endpoint::new(config).map(Self).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Recogniser for OpenAiRecogniser {
    async fn hear(&self, speech: &Speech) -> Result<Heard, HearError> {
        let mut audio = Vec::new();
        write_pcm16(&speech.samples, &mut audio);
        let utterance = Utterance {
            format: "pcm_s16le_16000".into(),
            audio: Pii(Bytes::from(audio)),
            language: (!speech.language.is_empty()).then(|| speech.language.clone()),
        };
        self.0.hear(&utterance).await.map_err(|error| match error {
            RecogniserError::Format(reason) => HearError::Audio(reason.to_owned()),
            RecogniserError::Config(reason) | RecogniserError::Unavailable(reason) => {
                HearError::Unavailable(reason)
            }
            RecogniserError::Exhausted(reason) => HearError::Exhausted(reason),
            RecogniserError::Refused(reason) => HearError::Refused(reason),
            RecogniserError::BadResponse(_) => HearError::Unavailable(error.to_string()),
        })
    }

    /// Each request costs money: only whole utterances are sent.
    fn interim(&self) -> bool {
        false
    }
}
