//! Who turns speech into words, if anybody does.

use std::sync::Arc;

use switchboard_agents::Secret;
use switchboard_agents::speech::{Recogniser, RecogniserConfig, RecogniserError};
use switchboard_core::{Reject, Reply, RequestId, Utterance};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::port::Port;

/// Turns speech into words, a few utterances at a time.
#[derive(Debug)]
pub(crate) struct Ears {
    recogniser: Option<Recogniser>,
    room: Semaphore,
}

impl Ears {
    pub(crate) fn new(config: &Config) -> Result<Self, String> {
        let recognition = &config.speech.recognition;
        let recogniser = match &recognition.model {
            None => None,
            Some(model) => {
                let key = recognition.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
                let recogniser = Recogniser::new(RecogniserConfig {
                    base_url: recognition.base_url.clone(),
                    model: model.clone(),
                    api_key: key.map(Secret::new),
                    language: recognition.language.clone(),
                    timeout_ms: recognition.timeout_ms,
                    ..RecogniserConfig::default()
                });
                Some(recogniser.map_err(|error| format!("speech.recognition: {error}"))?)
            }
        };
        Ok(Self { recogniser, room: Semaphore::new(AT_ONCE) })
    }

    /// Understands an utterance; the answer arrives at the port of whoever asked.
    pub(crate) fn hear(self: &Arc<Self>, utterance: Box<Utterance>, request: RequestId, port: Arc<Port>) {
        let ears = self.clone();
        tokio::spawn(async move {
            let answer = ears.understand(&utterance).await;
            port.answer(request, answer);
        });
    }

    async fn understand(&self, utterance: &Utterance) -> Result<Reply, Reject> {
        let Some(recogniser) = &self.recogniser else {
            return Err(Reject::Unserved { reason: "no speech recognition is configured".to_owned() });
        };
        // Never closed, so there is room in the end.
        let _place = self.room.acquire().await;
        match recogniser.hear(utterance).await {
            Ok(heard) => Ok(Reply::Heard(heard)),
            Err(error) => {
                tracing::warn!(%error, "speech could not be turned into words");
                let reason = match error {
                    RecogniserError::Format(what) => format!("the audio cannot be used: {what}"),
                    RecogniserError::Config(_)
                    | RecogniserError::Unavailable(_)
                    | RecogniserError::Refused(_)
                    | RecogniserError::BadResponse(_) => "speech recognition failed, try again".to_owned(),
                };
                Err(Reject::Unserved { reason })
            }
        }
    }
}

/// Utterances that are being understood at the same time.
const AT_ONCE: usize = 32;
