//! Who turns speech into words, if anybody does: an endpoint, or else whoever listens to voices here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use switchboard_agents::speech::{Recogniser, RecogniserError};
use switchboard_core::{
    AudioFormat, Heard, Pii, Reject, Reply, RequestId, Unheard, Utterance, VoiceEvent, VoiceOp, VoiceSettings,
};
use switchboard_voice::audio::{EAR_RATE, Resampler, Sound, read_pcm16, read_wav, write_pcm16};
use switchboard_voice::{Readiness, Voices};
use tokio::sync::{Semaphore, mpsc};

use crate::config::Config;
use switchboard_engine::Inbox;

/// Turns speech into words, a few utterances at a time.
#[derive(Debug)]
pub(crate) struct Ears {
    recogniser: Option<Recogniser>,
    voices: Arc<Voices>,
    room: Semaphore,
    /// How long an utterance may take that is understood here.
    patience: Duration,
}

impl Ears {
    pub(crate) fn new(config: &Config, voices: Arc<Voices>) -> Result<Self, String> {
        let recogniser = crate::voices::recognition(config).map(Recogniser::new).transpose();
        let recogniser = recogniser.map_err(|error| format!("speech.recognition: {error}"))?;
        let patience = Duration::from_millis(config.voice.hear_timeout_ms) + GRACE;
        Ok(Self { recogniser, voices, room: Semaphore::new(AT_ONCE), patience })
    }

    /// Whether anybody understands speech.
    pub(crate) fn hears(&self) -> bool {
        self.recogniser.is_some() || self.voices.hears() == Readiness::Ready
    }

    /// Understands an utterance; the answer arrives at the inbox of whoever asked.
    pub(crate) fn hear(self: &Arc<Self>, utterance: Box<Utterance>, request: RequestId, inbox: Arc<Inbox>) {
        let ears = self.clone();
        tokio::spawn(async move {
            let answer = ears.understand(&utterance).await;
            inbox.answer(request, answer);
        });
    }

    async fn understand(&self, utterance: &Utterance) -> Result<Reply, Reject> {
        // Never closed, so there is room in the end.
        let _place = self.room.acquire().await;
        let Some(recogniser) = &self.recogniser else { return self.listen(utterance).await };
        match recogniser.hear(utterance).await {
            Ok(heard) => Ok(Reply::Heard(heard)),
            Err(error) => {
                tracing::warn!(%error, "speech could not be turned into words");
                Err(unserved(match error {
                    RecogniserError::Format(what) => format!("the audio cannot be used: {what}"),
                    RecogniserError::Config(_)
                    | RecogniserError::Unavailable(_)
                    | RecogniserError::Exhausted(_)
                    | RecogniserError::Refused(_)
                    | RecogniserError::BadResponse(_) => FAILED.to_owned(),
                }))
            }
        }
    }

    /// Understands an utterance as the only turn of a voice of its own.
    async fn listen(&self, utterance: &Utterance) -> Result<Reply, Reject> {
        if let Readiness::Missing(_) = self.voices.hears() {
            return Err(unserved("no speech recognition is configured"));
        }
        let Some(samples) = samples(&utterance.format, &utterance.audio.0) else {
            return Err(unserved("the audio cannot be used: its format is not known"));
        };
        let (sender, mut events) = mpsc::unbounded_channel();
        let voice = self.voices.open(move |event| drop(sender.send(event)));
        let format = AudioFormat::Pcm16 { rate: EAR_RATE };
        voice.ask(VoiceOp::Settle(Box::new(VoiceSettings {
            input: format,
            output: format,
            packet_ms: PACKET_MS,
            lead_ms: 0,
            language: utterance.language.clone().unwrap_or_else(|| LANGUAGE.to_owned()),
            voice: None,
        })));
        voice.ask(VoiceOp::Listen { turn: TURN, silence_ms: None, overheard: false });
        for part in samples.chunks(EAR_RATE as usize) {
            let mut packet = Vec::with_capacity(part.len() * 2);
            write_pcm16(part, &mut packet);
            voice.ask(VoiceOp::Packet(Bytes::from(packet)));
        }
        voice.ask(VoiceOp::Conclude { turn: TURN });
        let heard = async {
            loop {
                match events.recv().await {
                    Some(VoiceEvent::Heard { heard, .. }) => return Ok(heard),
                    Some(VoiceEvent::Unheard { why, .. }) => return Err(why),
                    Some(_) => {}
                    None => return Err(Unheard::Late),
                }
            }
        };
        match tokio::time::timeout(self.patience, heard).await.unwrap_or(Err(Unheard::Late)) {
            Ok(heard) => Ok(Reply::Heard(heard)),
            Err(Unheard::NoSpeech | Unheard::NoWords) => {
                Ok(Reply::Heard(Heard { text: Pii(String::new()), confidence: None, language: None }))
            }
            Err(Unheard::Audio(what)) => Err(unserved(format!("the audio cannot be used: {what}"))),
            Err(Unheard::Language) => Err(unserved("the language is not understood")),
            Err(Unheard::Unavailable(_) | Unheard::Exhausted(_) | Unheard::Refused(_) | Unheard::Late) => {
                Err(unserved(FAILED))
            }
        }
    }
}

fn unserved(reason: impl Into<String>) -> Reject {
    Reject::Unserved { reason: reason.into() }
}

/// The samples of an utterance as they are listened to; none if its format is not known here.
fn samples(format: &str, audio: &[u8]) -> Option<Vec<f32>> {
    let format = format.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let sound = match format.strip_prefix("pcm_s16le_") {
        Some(rate) => {
            let mut samples = Vec::new();
            let rate = rate.strip_suffix("_1").unwrap_or(rate).parse().ok()?;
            read_pcm16(audio, &mut samples);
            Sound { samples, rate }
        }
        None if format == "audio/wav" => read_wav(audio).ok()?,
        None => return None,
    };
    let mut heard = Vec::new();
    Resampler::new(sound.rate, EAR_RATE)?.process(&sound.samples, &mut heard);
    Some(heard)
}

/// Utterances that are being understood at the same time.
const AT_ONCE: usize = 32;
/// What the way of an utterance through a voice may take besides.
const GRACE: Duration = Duration::from_secs(5);
const FAILED: &str = "speech recognition failed, try again";
const LANGUAGE: &str = "en";
const TURN: u64 = 1;
const PACKET_MS: u32 = 20;

#[cfg(test)]
mod tests {
    use switchboard_voice::audio::write_wav;

    use super::*;

    #[test]
    fn samples_are_read_from_what_clients_send() {
        let pcm: Vec<u8> = [0_i16, 16_384, -16_384].iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let read = samples("pcm_s16le_16000", &pcm).unwrap();
        assert_eq!(read.len(), 3);
        assert!((read[1] - 0.5).abs() < 0.01 && (read[2] + 0.5).abs() < 0.01, "{read:?}");
        assert_eq!(samples("PCM_S16LE_16000_1", &pcm).unwrap(), read);
        let wav = write_wav(&Sound { samples: vec![0.25; 4_800], rate: 48_000 });
        let read = samples("audio/wav; codecs=1", &wav).unwrap();
        assert!((1_500..=1_600).contains(&read.len()), "a tenth of a second: {}", read.len());
        for (format, audio) in [
            ("audio/webm", &pcm[..]),
            ("audio/wav", &pcm[..]),
            ("pcm_s16le_16000_2", &pcm[..]),
            ("pcm_s16le_", &pcm[..]),
            ("pcm_s16le_0", &pcm[..]),
            ("", &[]),
        ] {
            assert_eq!(samples(format, audio), None, "{format}");
        }
    }
}
